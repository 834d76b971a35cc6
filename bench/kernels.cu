// bench/kernels.cu: the kernels of the speed table, CUDA C++. plain.cc and kernels.cl hold the same computations.
#define GLOBAL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device)) inline
struct Tid {
  __declspec(property(get = gx)) unsigned x;
  __declspec(property(get = gy)) unsigned y;
  __attribute__((device)) unsigned gx() const { return __nvvm_read_ptx_sreg_tid_x(); }
  __attribute__((device)) unsigned gy() const { return __nvvm_read_ptx_sreg_tid_y(); }
};
struct Ctaid {
  __declspec(property(get = gx)) unsigned x;
  __declspec(property(get = gy)) unsigned y;
  __attribute__((device)) unsigned gx() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
  __attribute__((device)) unsigned gy() const { return __nvvm_read_ptx_sreg_ctaid_y(); }
};
struct Ntid {
  __declspec(property(get = gx)) unsigned x;
  __declspec(property(get = gy)) unsigned y;
  __attribute__((device)) unsigned gx() const { return __nvvm_read_ptx_sreg_ntid_x(); }
  __attribute__((device)) unsigned gy() const { return __nvvm_read_ptx_sreg_ntid_y(); }
};
struct Nctaid {
  __declspec(property(get = gx)) unsigned x;
  __attribute__((device)) unsigned gx() const { return __nvvm_read_ptx_sreg_nctaid_x(); }
};
#define threadIdx (Tid())
#define blockIdx (Ctaid())
#define blockDim (Ntid())
#define gridDim (Nctaid())
DEVICE int min(int a, int b) { return a < b ? a : b; }
DEVICE float shuffle_xor(float v, int lane) { return __nvvm_shfl_sync_bfly_f32(~0u, v, lane, 31); }

GLOBAL void vadd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

GLOBAL void sgemm_naive(const float* a, const float* b, float* c, int n) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n || col >= n) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum = __builtin_fmaf(a[row * n + k], b[k * n + col], sum);
  c[row * n + col] = sum;
}

GLOBAL void sgemm_tiled(const float* a, const float* b, float* c, int n) {
  SHARED static float as[32][32], bs[32][32];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
  float sum = 0;
  for (int t = 0; t < n; t += 32) {
    as[ty][tx] = a[row * n + t + tx];
    bs[ty][tx] = b[(t + ty) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k++) sum = __builtin_fmaf(as[ty][k], bs[k][tx], sum);
    __syncthreads();
  }
  c[row * n + col] = sum;
}

GLOBAL void reduce(const float* in, float* out, int n) {
  SHARED static float part[32];
  float sum = 0;
  for (int i = blockIdx.x * 4096 + threadIdx.x, last = min(n, (int)(blockIdx.x + 1) * 4096); i < last; i += 256) sum += in[i];
  for (int o = 16; o; o >>= 1) sum += shuffle_xor(sum, o);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? part[lane] : 0;
    for (int o = 16; o; o >>= 1) sum += shuffle_xor(sum, o);
    if (lane == 0) out[blockIdx.x] = sum;
  }
}

GLOBAL void mandelbrot(int* out, int size, int limit) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= size || y >= size) return;
  float cx = -2.0f + 3.0f / size * x, cy = -1.5f + 3.0f / size * y, zx = 0, zy = 0;
  int n = 0;
  while (n < limit && zx * zx + zy * zy < 4.0f) {
    float t = zx * zx - zy * zy + cx;
    zy = 2 * zx * zy + cy;
    zx = t;
    n++;
  }
  out[y * size + x] = n;
}

GLOBAL void transpose(const float* in, float* out, int n) {
  SHARED static float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

GLOBAL void stencil(const float* in, float* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  out[y * n + x] = 0.2f * (in[y * n + x] + in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}

GLOBAL void nbody(const float* pos, float* acc, int n) {
  SHARED static float tile[256 * 4];
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  float px = pos[4 * i], py = pos[4 * i + 1], pz = pos[4 * i + 2], ax = 0, ay = 0, az = 0;
  for (int base = 0; base < n; base += 256) {
    for (int k = 0; k < 4; k++) tile[4 * t + k] = pos[4 * (base + t) + k];
    __syncthreads();
    for (int j = 0; j < 256; j++) {
      float dx = tile[4 * j] - px, dy = tile[4 * j + 1] - py, dz = tile[4 * j + 2] - pz;
      float d = dx * dx + dy * dy + dz * dz + 0.01f;
      float inverse = 1.0f / __builtin_sqrtf(d), s = tile[4 * j + 3] * inverse * inverse * inverse;
      ax += dx * s, ay += dy * s, az += dz * s;
    }
    __syncthreads();
  }
  acc[4 * i] = ax, acc[4 * i + 1] = ay, acc[4 * i + 2] = az;
}

GLOBAL void histogram(const unsigned char* in, unsigned* out, int n) {
  SHARED static unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) __nvvm_atom_add_gen_i((int*)&bins[in[i]], 1);
  __syncthreads();
  __nvvm_atom_add_gen_i((int*)&out[threadIdx.x], (int)bins[threadIdx.x]);
}

GLOBAL void spmv(const int* row, const int* col, const float* val, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = row[i]; k < row[i + 1]; k++) sum = __builtin_fmaf(val[k], x[col[k]], sum);
  y[i] = sum;
}

GLOBAL void convolve(const float* in, const float* w, float* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || y < 2 || x >= n - 2 || y >= n - 2) return;
  float sum = 0;
#pragma unroll
  for (int j = -2; j <= 2; j++)
#pragma unroll
    for (int i = -2; i <= 2; i++) sum = __builtin_fmaf(in[(y + j) * n + x + i], w[(j + 2) * 5 + i + 2], sum);
  out[y * n + x] = sum;
}

GLOBAL void scan(const int* in, int* out, int n) {
  SHARED static int buf[2][256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t, cur = 0;
  buf[0][t] = in[i];
  __syncthreads();
  for (int o = 1; o < 256; o <<= 1) {
    buf[1 - cur][t] = t >= o ? buf[cur][t] + buf[cur][t - o] : buf[cur][t];
    cur = 1 - cur;
    __syncthreads();
  }
  out[i] = buf[cur][t];
}

GLOBAL void integers(const unsigned* in, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = in[i];
  for (int k = 0; k < 64; k++) {
    v ^= v << 13;
    v ^= v >> 17;
    v ^= v << 5;
    v = v * 1664525u + 1013904223u;
  }
  out[i] = v;
}
