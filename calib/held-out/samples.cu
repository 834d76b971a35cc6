// calib/held-out/samples.cu: kernels as collections of samples and small libraries hold them: histograms, separable convolution, small
// matrices by the thousand, transforms in shared memory, grids swept plane by plane, cells of a recurrent network, sorting in a warp.
#include <cuda_fp16.h>

#include <algorithm>

#include "../truth/truth.h"

namespace {
using namespace truth;

/// 256 bins of bytes, two copies a block.
__global__ void __launch_bounds__(256) histogram256(const uint4* in, uint32_t* bins, long pieces) {
  __shared__ uint32_t own[2][256];
  own[0][threadIdx.x] = own[1][threadIdx.x] = 0;
  __syncthreads();
  uint32_t* mine = own[threadIdx.x / 32 % 2];
  for (long i = blockIdx.x * 256l + threadIdx.x; i < pieces; i += gridDim.x * 256l) {
    const uint4 v = in[i];
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; w++)
#pragma unroll
      for (int k = 0; k < 32; k += 8) atomicAdd(&mine[words[w] >> k & 255], 1);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[0][threadIdx.x] + own[1][threadIdx.x]);
}
TRUTH("samples", "histogram256", {1 << 22, 1 << 27}, [](long bytes) {
  Array<uint32_t> in(bytes / 4);
  fill<uint32_t>(in, [](size_t, Random& r) { return r.next(); });
  auto bins = zeros<uint32_t>(256);
  return [=] { histogram256<<<int(std::min(bytes / 4096, 528l)), 256>>>((const uint4*)in.p, bins, bytes / 16); };
});

/// Columns of a separable convolution of 17 taps: a block has 16 columns and 64 rows, with eight above and below.
__constant__ float taps[17] = {.01f, .02f, .03f, .05f, .06f, .07f, .08f, .09f, .18f, .09f, .08f, .07f, .06f, .05f, .03f, .02f, .01f};
__global__ void __launch_bounds__(128) convolve_columns(const float* in, float* out, int width, int height) {
  __shared__ float tile[16][81];
  const int x = blockIdx.x * 16 + threadIdx.x, y0 = blockIdx.y * 64;
  for (int y = threadIdx.y; y < 80; y += 8) {
    const int from = y0 + y - 8;
    tile[threadIdx.x][y] = from >= 0 && from < height ? in[long(from) * width + x] : 0;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int y = threadIdx.y + i * 8;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 17; k++) sum += taps[k] * tile[threadIdx.x][y + k];
    out[long(y0 + y) * width + x] = sum;
  }
}
TRUTH("samples", "convolve_columns", {1024, 8192}, [](long n) {
  auto in = uniform<float>(n * n), out = zeros<float>(n * n);
  return [=] { convolve_columns<<<dim3(n / 16, n / 64), dim3(16, 8)>>>(in, out, int(n), int(n)); };
});

/// A product of two 4 x 4 matrices by each thread, as they lie.
__global__ void matrices4(const float* a, const float* b, float* c, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float x[16], y[16];
#pragma unroll
  for (int k = 0; k < 16; k += 4) *(float4*)&x[k] = *(const float4*)&a[i * 16 + k], *(float4*)&y[k] = *(const float4*)&b[i * 16 + k];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    float4 row = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < 4; k++) row.x += x[r * 4 + k] * y[k * 4], row.y += x[r * 4 + k] * y[k * 4 + 1], row.z += x[r * 4 + k] * y[k * 4 + 2], row.w += x[r * 4 + k] * y[k * 4 + 3];
    *(float4*)&c[i * 16 + r * 4] = row;
  }
}
TRUTH("samples", "matrices4", {1 << 16, 1 << 21}, [](long n) {
  auto a = uniform<float>(n * 16), b = uniform<float>(n * 16), c = zeros<float>(n * 16);
  return [=] { matrices4<<<blocks_for(n, 128), 128>>>(a, b, c, n); };
});

/// Cholesky factors of 32 x 32 matrices: a warp has one, a row a lane, columns by shuffle.
__global__ void __launch_bounds__(128) cholesky32(const float* in, float* out, int n) {
  const int m = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (m >= n) return;
  float row[32];
#pragma unroll
  for (int k = 0; k < 32; k++) row[k] = in[long(m) * 1024 + k * 32 + lane];
#pragma unroll
  for (int k = 0; k < 32; k++) {
    const float pivot = rsqrtf(fabsf(__shfl_sync(~0u, row[k], k)) + 1);
    row[k] *= pivot;
#pragma unroll
    for (int j = k + 1; j < 32; j++) row[j] -= row[k] * __shfl_sync(~0u, row[k], j);
  }
#pragma unroll
  for (int k = 0; k < 32; k++) out[long(m) * 1024 + k * 32 + lane] = k <= lane ? row[k] : 0;
}
TRUTH("samples", "cholesky32", {1024, 1 << 16}, [](long n) {
  auto in = uniform<float>(n * 1024), out = zeros<float>(n * 1024);
  return [=] { cholesky32<<<blocks_for(n * 32, 128), 128>>>(in, out, int(n)); };
});

/// Softmax of a row of halves a block, kept in registers.
__global__ void __launch_bounds__(256) softmax_halves(const half2* in, half2* out, int pairs) {
  __shared__ float part[8];
  const half2* row = in + long(blockIdx.x) * pairs;
  float2 v[8];
  float most = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int at = threadIdx.x + i * 256;
    v[i] = at < pairs ? __half22float2(row[at]) : make_float2(-INFINITY, -INFINITY);
    most = fmaxf(most, fmaxf(v[i].x, v[i].y));
  }
  for (int o = 16; o; o /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < 8; i++) most = fmaxf(most, part[i]);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; i++) v[i].x = __expf(v[i].x - most), v[i].y = __expf(v[i].y - most), sum += v[i].x + v[i].y;
  for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; i++) sum += part[i];
  const float scale = 1 / sum;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int at = threadIdx.x + i * 256;
    if (at < pairs) out[long(blockIdx.x) * pairs + at] = __float22half2_rn(make_float2(v[i].x * scale, v[i].y * scale));
  }
}
TRUTH("samples", "softmax_halves", {512, 16384}, [](long rows) {
  Array<half> in(rows * 4096), out(rows * 4096);
  fill<half>(in, [](size_t, Random& r) { return __float2half(r.unit()); });
  return [=] { softmax_halves<<<int(rows), 256>>>((const half2*)in.p, (half2*)out.p, 2048); };
});

struct alignas(32) Body {
  double x, y, z, w;
};
/// Forces in double precision, tiles of 128 bodies.
__global__ void __launch_bounds__(128) nbody_double(const Body* body, Body* force, int n) {
  __shared__ Body tile[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  const Body own = body[i];
  double fx = 0, fy = 0, fz = 0;
  for (int t = 0; t < n; t += 128) {
    tile[threadIdx.x] = body[t + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < 128; k++) {
      const Body o = tile[k];
      const double dx = o.x - own.x, dy = o.y - own.y, dz = o.z - own.z, r = rsqrt(dx * dx + dy * dy + dz * dz + 1e-9), s = o.w * r * r * r;
      fx += dx * s, fy += dy * s, fz += dz * s;
    }
    __syncthreads();
  }
  force[i] = {fx, fy, fz, 0};
}
TRUTH("samples", "nbody_double", {2048, 16384}, [](long n) {
  auto b = uniform<double>(n * 4), f = zeros<double>(n * 4);
  return [=] { nbody_double<<<int(n / 128), 128>>>((const Body*)b.p, (Body*)f.p, int(n)); };
});

/// Each warp sorts 32 keys with their values by exchanges between lanes, eight times over.
__global__ void sort_warps(uint32_t* keys, uint32_t* values, long n) {
  const uint32_t lane = threadIdx.x % 32;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
    uint32_t k = keys[i], v = values[i];
#pragma unroll
    for (uint32_t size = 2; size <= 32; size *= 2)
#pragma unroll
      for (uint32_t apart = size / 2; apart; apart /= 2) {
        const uint32_t ok = __shfl_xor_sync(~0u, k, apart), ov = __shfl_xor_sync(~0u, v, apart);
        const bool up = (lane & size) == 0, low = (lane & apart) == 0;
        if ((low == up) ? ok < k : ok > k) k = ok, v = ov;
      }
    keys[i] = k, values[i] = v;
  }
}
TRUTH("samples", "sort_warps", {1 << 18, 1 << 24}, [](long n) {
  auto k = indices(n > (1 << 20) ? 1 << 20 : n, ~0u);
  Array<uint32_t> keys(n), values(n);
  fill<uint32_t>(keys, [](size_t, Random& r) { return r.next(); });
  fill<uint32_t>(values, [](size_t i, Random&) { return uint32_t(i); });
  return [=] { (void)k, sort_warps<<<int(std::min(n / 256, 1056l)), 256>>>(keys, values, n); };
});

/// Walsh transform of 2048 values a block, four a thread and step in shared memory.
__global__ void __launch_bounds__(512) walsh(float* data) {
  __shared__ float s[2048];
  float* from = data + long(blockIdx.x) * 2048;
  for (int i = threadIdx.x; i < 2048; i += 512) s[i] = from[i];
  for (int apart = 512; apart > 0; apart >>= 2) {
    __syncthreads();
    const int low = threadIdx.x & (apart - 1), i0 = ((threadIdx.x - low) << 2) + low, i1 = i0 + apart, i2 = i1 + apart, i3 = i2 + apart;
    const float a = s[i0] + s[i2], b = s[i1] + s[i3], c = s[i0] - s[i2], d = s[i1] - s[i3];
    s[i0] = a + b, s[i1] = a - b, s[i2] = c + d, s[i3] = c - d;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += 512) {
    const float a = s[i * 2], b = s[i * 2 + 1];
    from[i * 2] = a + b, from[i * 2 + 1] = a - b;
  }
}
TRUTH("samples", "walsh", {512, 16384}, [](long blocks) {
  auto d = uniform<float>(blocks * 2048);
  return [=] { walsh<<<int(blocks), 512>>>(d); };
});

/// A wave's step in three dimensions, eight neighbours along each axis: planes one after the other, those ahead and behind in registers.
__global__ void __launch_bounds__(256) wave3d(const float* in, const float* speed, float* out, int n) {
  __shared__ float tile[16][48];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const long plane = long(n) * n, at = long(y + 4) * n + x + 4;
  float z[9];
#pragma unroll
  for (int k = 0; k < 8; k++) z[k + 1] = in[at + k * plane];
  for (int k = 4; k < n - 4; k++) {
#pragma unroll
    for (int i = 0; i < 8; i++) z[i] = z[i + 1];
    z[8] = in[at + (k + 4) * plane];
    __syncthreads();
    tile[threadIdx.y + 4][threadIdx.x + 4] = z[4];
    if (threadIdx.y < 4) {
      tile[threadIdx.y][threadIdx.x + 4] = in[at + k * plane - 4 * n];
      tile[threadIdx.y + 12][threadIdx.x + 4] = in[at + k * plane + 8 * n];
    }
    if (threadIdx.x < 4) {
      tile[threadIdx.y + 4][threadIdx.x] = in[at + k * plane - 4];
      tile[threadIdx.y + 4][threadIdx.x + 36] = in[at + k * plane + 32];
    }
    __syncthreads();
    float sum = z[4] * -3.f;
#pragma unroll
    for (int i = 1; i <= 4; i++)
      sum += (.5f / i) * (z[4 - i] + z[4 + i] + tile[threadIdx.y + 4 - i][threadIdx.x + 4] + tile[threadIdx.y + 4 + i][threadIdx.x + 4] + tile[threadIdx.y + 4][threadIdx.x + 4 - i] +
                          tile[threadIdx.y + 4][threadIdx.x + 4 + i]);
    out[at + k * plane] = 2 * z[4] - out[at + k * plane] + speed[at + k * plane] * sum;
  }
}
TRUTH("samples", "wave3d", {136, 264}, [](long n) {
  auto in = uniform<float>(n * n * (n + 8)), v = uniform<float>(n * n * (n + 8)), out = zeros<float>(n * n * (n + 8));
  return [=] { wave3d<<<dim3((n - 8) / 32, (n - 8) / 8), dim3(32, 8)>>>(in, v, out, int(n)); };
});

/// The pointwise part of a recurrent cell: four gates in, state and output out.
__device__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }
__global__ void recurrent_cell(const half* gates, const float* state, float* next, half* out, int hidden, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
    const half* g = gates + i / hidden * hidden * 4 + i % hidden;
    const float c = sigmoid(__half2float(g[hidden])) * state[i] + sigmoid(__half2float(g[0])) * tanhf(__half2float(g[2 * hidden]));
    next[i] = c, out[i] = __float2half(sigmoid(__half2float(g[3 * hidden])) * tanhf(c));
  }
}
TRUTH("samples", "recurrent_cell", {1 << 17, 1 << 22}, [](long n) {
  Array<half> gates(n * 4), out(n);
  fill<half>(gates, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  auto state = uniform<float>(n), next = zeros<float>(n);
  return [=] { recurrent_cell<<<int(std::min(n / 256, 1056l)), 256>>>(gates, state, next, out, 1024, n); };
});

/// Depthwise 3 x 3 convolution, channels last, two channels a thread.
__global__ void depthwise(const half2* in, const half2* weights, half2* out, int size, int channels) {
  const int c = threadIdx.x % channels, x = blockIdx.x * (blockDim.x / channels) + threadIdx.x / channels, y = blockIdx.y;
  float2 sum = {0, 0};
#pragma unroll
  for (int dy = -1; dy <= 1; dy++)
#pragma unroll
    for (int dx = -1; dx <= 1; dx++) {
      const int px = x + dx, py = y + dy;
      if (px < 0 || py < 0 || px >= size || py >= size) continue;
      const float2 v = __half22float2(in[(long(py) * size + px) * channels + c]), w = __half22float2(weights[((dy + 1) * 3 + dx + 1) * channels + c]);
      sum.x += v.x * w.x, sum.y += v.y * w.y;
    }
  out[(long(y) * size + x) * channels + c] = __float22half2_rn(sum);
}
TRUTH("samples", "depthwise", {64, 512}, [](long n) {
  Array<half> in(n * n * 128), w(9 * 128), out(n * n * 128);
  fill<half>(in, [](size_t, Random& r) { return __float2half(r.unit()); });
  fill<half>(w, [](size_t, Random& r) { return __float2half(r.unit()); });
  return [=] { depthwise<<<dim3(n / 4, n), 256>>>((const half2*)in.p, (const half2*)w.p, (half2*)out.p, int(n), 64); };
});

/// Rays against spheres in shared memory: a ray a thread, which stops at what it hits.
__global__ void __launch_bounds__(128) rays(const float4* spheres, int n, float* depth, int size) {
  __shared__ float4 s[256];
  for (int i = threadIdx.x; i < n; i += 128) s[i] = spheres[i];
  __syncthreads();
  const int x = blockIdx.x * 16 + threadIdx.x % 16, y = blockIdx.y * 8 + threadIdx.x / 16;
  float dx = x * 2.f / size - 1, dy = y * 2.f / size - 1, scale = rsqrtf(dx * dx + dy * dy + 1), at = 0;
  dx *= scale, dy *= scale;
  for (int step = 0; step < 32; step++) {
    float near = 1e9f;
    for (int i = 0; i < n; i++) {
      const float ex = s[i].x - dx * at, ey = s[i].y - dy * at, ez = s[i].z - scale * at;
      near = fminf(near, sqrtf(ex * ex + ey * ey + ez * ez) - s[i].w);
    }
    if (near < 1e-3f || at > 8) break;
    at += near;
  }
  depth[long(y) * size + x] = at;
}
TRUTH("samples", "rays", {256, 1024}, [](long size) {
  std::vector<float> host(64 * 4);
  Random r;
  for (int i = 0; i < 64; i++) host[i * 4] = r.unit() * 2 - 1, host[i * 4 + 1] = r.unit() * 2 - 1, host[i * 4 + 2] = r.unit() * 3 + 1, host[i * 4 + 3] = .05f + r.unit() * .15f;
  auto s = upload(host);
  auto d = zeros<float>(size * size);
  return [=] { rays<<<dim3(size / 16, size / 8), 128>>>((const float4*)s.p, 64, d, int(size)); };
});

/// Sums of clusters of points: floats added in shared memory, then to the totals.
__global__ void __launch_bounds__(256) cluster_means(const float2* points, const uint8_t* label, float* sums, long n) {
  __shared__ float own[3][64];
  if (threadIdx.x < 64) own[0][threadIdx.x] = own[1][threadIdx.x] = own[2][threadIdx.x] = 0;
  __syncthreads();
  for (long i = blockIdx.x * 256l + threadIdx.x; i < n; i += gridDim.x * 256l) {
    const float2 p = points[i];
    const int k = label[i];
    atomicAdd(&own[0][k], p.x), atomicAdd(&own[1][k], p.y), atomicAdd(&own[2][k], 1);
  }
  __syncthreads();
  if (threadIdx.x < 192) atomicAdd(&sums[threadIdx.x], own[threadIdx.x / 64][threadIdx.x % 64]);
}
TRUTH("samples", "cluster_means", {1 << 18, 1 << 22}, [](long n) {
  auto p = uniform<float>(n * 2);
  Array<uint8_t> label(n);
  fill<uint8_t>(label, [](size_t, Random& r) { return uint8_t(r.next() % 64); });
  auto s = zeros<float>(192);
  return [=] { cluster_means<<<264, 256>>>((const float2*)p.p, label, s, n); };
});

/// Structures of three coordinates and a mass taken apart, and put together again.
__global__ void take_apart(const float* xyzm, float* x, float* y, float* z, float* m, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) x[i] = xyzm[i * 4], y[i] = xyzm[i * 4 + 1], z[i] = xyzm[i * 4 + 2], m[i] = xyzm[i * 4 + 3];
}
__global__ void put_together(const float* x, const float* y, const float* z, float* xyz, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) xyz[i * 3] = x[i], xyz[i * 3 + 1] = y[i], xyz[i * 3 + 2] = z[i];
}
TRUTH("samples", "take_apart", {1 << 18, 1 << 24}, [](long n) {
  auto a = uniform<float>(n * 4), x = zeros<float>(n * 4);
  return [=] { take_apart<<<blocks_for(n, 256), 256>>>(a, x, x + n, x + 2 * n, x + 3 * n, n); };
});
TRUTH("samples", "put_together", {1 << 18, 1 << 24}, [](long n) {
  auto a = uniform<float>(n * 3), x = zeros<float>(n * 3);
  return [=] { put_together<<<blocks_for(n, 256), 256>>>(a, a + n, a + 2 * n, x, n); };
});

/// Alignment of many pairs of short strings: each thread goes through a table row by row, its row in registers.
__global__ void __launch_bounds__(128) align_pairs(const uint8_t* a, const uint8_t* b, int* score, long n) {
  const long i = blockIdx.x * 128l + threadIdx.x;
  int row[16], best = 0;
#pragma unroll
  for (int k = 0; k < 16; k++) row[k] = 0;
  uint32_t own[4];
#pragma unroll
  for (int k = 0; k < 4; k++) own[k] = ((const uint32_t*)b)[i * 4 + k];
  for (int r = 0; r < 64; r++) {
    const uint32_t c = a[r * n + i];
    int diagonal = 0, left = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) {
      const int up = row[k], match = (own[k / 4] >> (k % 4 * 8) & 255) == c ? 3 : -2;
      left = max(max(diagonal + match, max(up, left) - 1), 0);
      diagonal = up, row[k] = left, best = max(best, left);
    }
  }
  score[i] = best;
}
TRUTH("samples", "align_pairs", {1 << 15, 1 << 19}, [](long n) {
  Array<uint8_t> a(n * 64), b(n * 16);
  fill<uint8_t>(a, [](size_t, Random& r) { return uint8_t(r.next() % 4); });
  fill<uint8_t>(b, [](size_t, Random& r) { return uint8_t(r.next() % 4); });
  auto s = zeros<int>(n);
  return [=] { align_pairs<<<int(n / 128), 128>>>(a, b, s, n); };
});

}  // namespace
