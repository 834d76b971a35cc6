// bench/kernels.cl: the kernels of kernels.cu in OpenCL C, for PoCL.
__kernel void vadd(__global const float* a, __global const float* b, __global float* c, int n) {
  int i = get_global_id(0);
  if (i < n) c[i] = a[i] + b[i];
}
__kernel void sgemm_naive(__global const float* a, __global const float* b, __global float* c, int n) {
  int row = get_global_id(1), col = get_global_id(0);
  if (row >= n || col >= n) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum = fma(a[row * n + k], b[k * n + col], sum);
  c[row * n + col] = sum;
}
__kernel void sgemm_tiled(__global const float* a, __global const float* b, __global float* c, int n) {
  __local float as[32][32], bs[32][32];
  int tx = get_local_id(0), ty = get_local_id(1), row = get_group_id(1) * 32 + ty, col = get_group_id(0) * 32 + tx;
  float sum = 0;
  for (int t = 0; t < n; t += 32) {
    as[ty][tx] = a[row * n + t + tx];
    bs[ty][tx] = b[(t + ty) * n + col];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int k = 0; k < 32; k++) sum = fma(as[ty][k], bs[k][tx], sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + col] = sum;
}
// OpenCL 1.2 has no shuffles: the same tree through local memory.
__kernel void reduce(__global const float* in, __global float* out, int n) {
  __local float part[256];
  float sum = 0;
  for (int i = get_group_id(0) * 4096 + get_local_id(0), last = min(n, (int)(get_group_id(0) + 1) * 4096); i < last; i += 256) sum += in[i];
  int t = get_local_id(0);
  part[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int o = 128; o; o >>= 1) {
    if (t < o) part[t] += part[t + o];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) out[get_group_id(0)] = part[0];
}
__kernel void mandelbrot(__global int* out, int size, int limit) {
  int x = get_global_id(0), y = get_global_id(1);
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
__kernel void transpose(__global const float* in, __global float* out, int n) {
  __local float tile[32][33];
  int x = get_group_id(0) * 32 + get_local_id(0), y = get_group_id(1) * 32 + get_local_id(1);
  for (int j = 0; j < 32; j += 8) tile[get_local_id(1) + j][get_local_id(0)] = in[(y + j) * n + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  x = get_group_id(1) * 32 + get_local_id(0), y = get_group_id(0) * 32 + get_local_id(1);
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[get_local_id(0)][get_local_id(1) + j];
}
__kernel void stencil(__global const float* in, __global float* out, int n) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  out[y * n + x] = 0.2f * (in[y * n + x] + in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}
__kernel void nbody(__global const float* pos, __global float* acc, int n) {
  __local float tile[256 * 4];
  int i = get_global_id(0), t = get_local_id(0);
  float px = pos[4 * i], py = pos[4 * i + 1], pz = pos[4 * i + 2], ax = 0, ay = 0, az = 0;
  for (int base = 0; base < n; base += 256) {
    for (int k = 0; k < 4; k++) tile[4 * t + k] = pos[4 * (base + t) + k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < 256; j++) {
      float dx = tile[4 * j] - px, dy = tile[4 * j + 1] - py, dz = tile[4 * j + 2] - pz;
      float d = dx * dx + dy * dy + dz * dz + 0.01f;
      float inverse = 1.0f / sqrt(d), s = tile[4 * j + 3] * inverse * inverse * inverse;
      ax += dx * s, ay += dy * s, az += dz * s;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  acc[4 * i] = ax, acc[4 * i + 1] = ay, acc[4 * i + 2] = az;
}
__kernel void histogram(__global const uchar* in, __global uint* out, int n) {
  __local uint bins[256];
  bins[get_local_id(0)] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&bins[in[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&out[get_local_id(0)], bins[get_local_id(0)]);
}
__kernel void spmv(__global const int* row, __global const int* col, __global const float* val, __global const float* x, __global float* y, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  float sum = 0;
  for (int k = row[i]; k < row[i + 1]; k++) sum = fma(val[k], x[col[k]], sum);
  y[i] = sum;
}
__kernel void convolve(__global const float* in, __global const float* w, __global float* out, int n) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < 2 || y < 2 || x >= n - 2 || y >= n - 2) return;
  float sum = 0;
#pragma unroll
  for (int j = -2; j <= 2; j++)
#pragma unroll
    for (int i = -2; i <= 2; i++) sum = fma(in[(y + j) * n + x + i], w[(j + 2) * 5 + i + 2], sum);
  out[y * n + x] = sum;
}
__kernel void scan(__global const int* in, __global int* out, int n) {
  __local int buf[2][256];
  int t = get_local_id(0), i = get_group_id(0) * 256 + t, cur = 0;
  buf[0][t] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int o = 1; o < 256; o <<= 1) {
    buf[1 - cur][t] = t >= o ? buf[cur][t] + buf[cur][t - o] : buf[cur][t];
    cur = 1 - cur;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[i] = buf[cur][t];
}
__kernel void integers(__global const uint* in, __global uint* out, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  uint v = in[i];
  for (int k = 0; k < 64; k++) {
    v ^= v << 13;
    v ^= v >> 17;
    v ^= v << 5;
    v = v * 1664525u + 1013904223u;
  }
  out[i] = v;
}
