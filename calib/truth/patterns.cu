// calib/truth/patterns.cu: reductions, scans, row operations, stencils, convolutions, tails, small and asynchronous kernels.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

#include <algorithm>

#include "truth.h"

namespace {
using namespace truth;
namespace cg = cooperative_groups;

__global__ void reduce_shared(const float* in, float* out, long n) {
  __shared__ float s[256];
  const long i = blockIdx.x * 512l + threadIdx.x;
  s[threadIdx.x] = (i < n ? in[i] : 0) + (i + 256 < n ? in[i + 256] : 0);
  for (int o = 128; o; o /= 2) {
    __syncthreads();
    if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
__device__ float warp_sum(float v) {
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__global__ void reduce_shuffle(const float* in, float* out, long n) {
  __shared__ float s[8];
  float v = 0;
  for (long i = blockIdx.x * 256l + threadIdx.x; i < n; i += gridDim.x * 256l) v += in[i];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = warp_sum(threadIdx.x < 8 ? s[threadIdx.x] : 0);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}
__global__ void dot_f4(const float4* a, const float4* b, float* out, long n) {
  float v = 0;
  for (long i = blockIdx.x * 512l + threadIdx.x; i < n; i += gridDim.x * 512l) {
    const float4 x = a[i], y = b[i];
    v += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) atomicAdd(out, v);
}
__global__ void block_scan(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t s[2][1024];
  const int t = threadIdx.x;
  int p = 0;
  s[0][t] = in[blockIdx.x * 1024l + t];
  for (int o = 1; o < 1024; o *= 2) {
    __syncthreads();
    s[1 - p][t] = s[p][t] + (t >= o ? s[p][t - o] : 0);
    p = 1 - p;
  }
  __syncthreads();
  out[blockIdx.x * 1024l + t] = s[p][t];
}
__global__ void softmax_rows(const float* in, float* out, int cols) {
  __shared__ float s[8];
  const float* row = in + long(blockIdx.x) * cols;
  float m = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < cols; i += 256) m = fmaxf(m, row[i]);
  for (int o = 16; o; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = m;
  __syncthreads();
  m = s[0];
  for (int w = 1; w < 8; w++) m = fmaxf(m, s[w]);
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += 256) sum += __expf(row[i] - m);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < 8; w++) sum += s[w];
  const float scale = 1.f / sum;
  for (int i = threadIdx.x; i < cols; i += 256) out[long(blockIdx.x) * cols + i] = __expf(row[i] - m) * scale;
}
__global__ void layernorm_warp(const float4* in, float4* out, int quads, int rows) {  // a warp a row of up to 1024
  const int r = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  float4 v[8];
  float sum = 0, sq = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    v[i] = in[long(r) * quads + i * 32 + lane];
    sum += v[i].x + v[i].y + v[i].z + v[i].w;
    sq += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
  }
  const float mean = warp_sum(sum) / (quads * 4), inv = rsqrtf(warp_sum(sq) / (quads * 4) - mean * mean + 1e-5f);
#pragma unroll
  for (int i = 0; i < 8; i++) out[long(r) * quads + i * 32 + lane] = make_float4((v[i].x - mean) * inv, (v[i].y - mean) * inv, (v[i].z - mean) * inv, (v[i].w - mean) * inv);
}
__global__ void column_sum(const float* in, float* out, int n) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
  for (int r = blockIdx.y * 64; r < blockIdx.y * 64 + 64; r++) s += in[long(r) * n + c];
  atomicAdd(&out[c], s);
}
__global__ void gemv(const float4* a, const float4* x, float* y, int quads) {
  float s = 0;
  for (int i = threadIdx.x; i < quads; i += 128) {
    const float4 p = a[long(blockIdx.x) * quads + i], q = x[i];
    s += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  __shared__ float part[4];
  s = warp_sum(s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
__global__ void jacobi2d(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
  const long i = long(y) * n + x;
  out[i] = .25f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n]);
}
__global__ void stencil3d(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
  const long plane = long(n) * n;
  long i = long(y) * n + x + plane;
  float below = in[i - plane], here = in[i];
  for (int z = 1; z < n - 1; z++, i += plane) {
    const float above = in[i + plane];
    out[i] = .4f * here + .1f * (below + above + in[i - 1] + in[i + 1] + in[i - n] + in[i + n]);
    below = here, here = above;
  }
}
__global__ void stencil_tiled(const float* in, float* out, int n) {  // 9 x 9 box through shared memory
  __shared__ float s[24][40];
  const int x0 = blockIdx.x * 32 - 4, y0 = blockIdx.y * 16 - 4;
  for (int i = threadIdx.y * 32 + threadIdx.x; i < 24 * 40; i += 512) {
    const int x = min(max(x0 + i % 40, 0), n - 1), y = min(max(y0 + i / 40, 0), n - 1);
    s[i / 40][i % 40] = in[long(y) * n + x];
  }
  __syncthreads();
  float v = 0;
#pragma unroll
  for (int j = 0; j < 9; j++)
#pragma unroll
    for (int i = 0; i < 9; i++) v += s[threadIdx.y + j][threadIdx.x + i];
  out[long(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x] = v * (1 / 81.f);
}
__constant__ float filter[25] = {1, 2, 3, 2, 1, 2, 4, 6, 4, 2, 3, 6, 9, 6, 3, 2, 4, 6, 4, 2, 1, 2, 3, 2, 1};
__global__ void convolve5(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x < 2 || y < 2 || x >= n - 2 || y >= n - 2) return;
  float v = 0;
#pragma unroll
  for (int j = 0; j < 5; j++)
#pragma unroll
    for (int i = 0; i < 5; i++) v += filter[j * 5 + i] * in[long(y + j - 2) * n + x + i - 2];
  out[long(y) * n + x] = v;
}
__global__ void wave1d(const float* in, float* out, int steps) {  // many barriers
  __shared__ float s[2][514];
  const int t = threadIdx.x + 1;
  s[0][t] = in[blockIdx.x * 512 + threadIdx.x];
  if (t == 1) s[0][0] = s[1][0] = s[0][513] = s[1][513] = 0;
  __syncthreads();
  for (int k = 0; k < steps; k++) {
    s[(k + 1) & 1][t] = .5f * s[k & 1][t] + .25f * (s[k & 1][t - 1] + s[k & 1][t + 1]);
    __syncthreads();
  }
  out[blockIdx.x * 512 + threadIdx.x] = s[steps & 1][t];
}
__global__ void copy_async(const float4* in, float4* out, int rounds) {  // cp.async, two stages
  __shared__ float4 s[2][256];
  const int t = threadIdx.x;
  const float4* from = in + long(blockIdx.x) * rounds * 256;
  float4* to = out + long(blockIdx.x) * rounds * 256;
  __pipeline_memcpy_async(&s[0][t], &from[t], 16);
  __pipeline_commit();
  for (int r = 0; r < rounds; r++) {
    if (r + 1 < rounds) __pipeline_memcpy_async(&s[(r + 1) & 1][t], &from[(r + 1) * 256 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = s[r & 1][255 - t];
    v.x += 1;
    to[r * 256 + t] = v;
    __syncthreads();
  }
}
__global__ void __cluster_dims__(4) cluster_sum(const float* in, float* out, int per) {
  __shared__ float s[256];
  cg::cluster_group cluster = cg::this_cluster();
  float v = 0;
  for (int i = threadIdx.x; i < per; i += 256) v += in[long(blockIdx.x) * per + i];
  s[threadIdx.x] = v;
  cluster.sync();
  if (cluster.block_rank() == 0) {
    for (int r = 1; r < 4; r++) v += cluster.map_shared_rank(s, r)[threadIdx.x];
    out[blockIdx.x / 4 * 256 + threadIdx.x] = v;
  }
  cluster.sync();
}
__global__ void nothing(int* p) {
  if (p && threadIdx.x == 9999) *p = 1;
}
__global__ void busy_blocks(float* out, int rounds) {  // equal work a block: waves and tails
  __shared__ float room[12 * 1024 - 64];  // four blocks an SM at most
  float x = threadIdx.x, y = 1.f, z = 2.f, w = 3.f;
  for (int r = 0; r < rounds; r++) x = x * .99f + 1, y = y * .99f + 2, z = z * .99f + 3, w = w * .99f + 4;
  room[threadIdx.x] = x + y + z + w;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = room[threadIdx.x ^ 1];
}
__global__ void uneven_blocks(float* out) {  // work grows with the block number
  float x = threadIdx.x;
  for (int r = 0; r < int(blockIdx.x % 64) * 16; r++) x = x * .99f + 1;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void early_exit(const int* flags, int* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n || flags[blockIdx.x] == 0) return;
  out[i] = 1;
}

TRUTH("reduction", "reduce_shared", {1 << 20, 1 << 24, 1 << 26}, [](long n) {
  auto a = uniform<float>(n), o = zeros<float>(n / 512);
  return [=] { reduce_shared<<<int(n / 512), 256>>>(a, o, n); };
});
TRUTH("reduction", "reduce_shuffle", {1 << 20, 1 << 24, 1 << 27}, [](long n) {
  auto a = uniform<float>(n), o = zeros<float>(1);
  return [=] { reduce_shuffle<<<132 * 8, 256>>>(a, o, n); };
});
TRUTH("reduction", "dot_f4", {1 << 18, 1 << 24}, [](long n) {
  auto a = uniform<float>(n * 4), b = uniform<float>(n * 4), o = zeros<float>(1);
  return [=] { dot_f4<<<132 * 4, 512>>>((const float4*)a.p, (const float4*)b.p, o, n); };
});
TRUTH("reduction", "block_scan", {1 << 20, 1 << 24}, [](long n) {
  auto a = zeros<uint32_t>(n), b = zeros<uint32_t>(n);
  return [=] { block_scan<<<int(n / 1024), 1024>>>(a, b); };
});
TRUTH("reduction", "softmax_rows", {1024, 4096, 32768}, [](long cols) {
  auto a = uniform<float>(4096 * cols), b = zeros<float>(4096 * cols);
  return [=] { softmax_rows<<<4096, 256>>>(a, b, int(cols)); };
});
TRUTH("reduction", "layernorm_warp", {2048, 65536}, [](long rows) {
  auto a = uniform<float>(rows * 1024), b = zeros<float>(rows * 1024);
  return [=] { layernorm_warp<<<int(rows / 8), 256>>>((const float4*)a.p, (float4*)b.p, 256, int(rows)); };
});
TRUTH("reduction", "column_sum", {1024, 8192}, [](long n) {
  auto a = uniform<float>(n * n), o = zeros<float>(n);
  return [=] { column_sum<<<dim3(n / 128, n / 64), 128>>>(a, o, int(n)); };
});
TRUTH("reduction", "gemv", {1024, 8192}, [](long n) {
  auto a = uniform<float>(n * n), x = uniform<float>(n), y = zeros<float>(n);
  return [=] { gemv<<<int(n), 128>>>((const float4*)a.p, (const float4*)x.p, y, int(n / 4)); };
});
TRUTH("stencil", "jacobi2d", {512, 2048, 8192}, [](long n) {
  auto a = uniform<float>(n * n), b = zeros<float>(n * n);
  return [=] { jacobi2d<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, b, int(n)); };
});
TRUTH("stencil", "stencil3d", {128, 256, 512}, [](long n) {
  auto a = uniform<float>(n * n * n), b = zeros<float>(n * n * n);
  return [=] { stencil3d<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, b, int(n)); };
});
TRUTH("stencil", "stencil_tiled", {1024, 4096}, [](long n) {
  auto a = uniform<float>(n * n), b = zeros<float>(n * n);
  return [=] { stencil_tiled<<<dim3(n / 32, n / 16), dim3(32, 16)>>>(a, b, int(n)); };
});
TRUTH("stencil", "convolve5", {1024, 4096}, [](long n) {
  auto a = uniform<float>(n * n), b = zeros<float>(n * n);
  return [=] { convolve5<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, b, int(n)); };
});
TRUTH("barrier", "wave1d", {64, 1024}, [](long steps) {
  auto a = uniform<float>(512 * 264), b = zeros<float>(512 * 264);
  return [=] { wave1d<<<264, 512>>>(a, b, int(steps)); };
});
TRUTH("memory", "copy_async", {4, 64}, [](long rounds) {
  auto a = uniform<float>(132 * 4 * 1024 * rounds), b = zeros<float>(132 * 4 * 1024 * rounds);
  return [=] { copy_async<<<132 * 4, 256>>>((const float4*)a.p, (float4*)b.p, int(rounds)); };
});
TRUTH("cluster", "cluster_sum", {4096, 65536}, [](long per) {
  auto a = uniform<float>(512 * per), o = zeros<float>(128 * 256);
  return [=] { cluster_sum<<<512, 256>>>(a, o, int(per)); };
});
TRUTH("small", "nothing", {1, 132, 4096}, [](long blocks) {
  return [=] { nothing<<<int(blocks), 128>>>(nullptr); };
});
TRUTH("tail", "busy_blocks", {132, 133, 528, 529, 800, 2112}, [](long blocks) {
  auto o = zeros<float>(blocks * 256);
  return [=] { busy_blocks<<<int(blocks), 256>>>(o, 2000); };
});
TRUTH("tail", "uneven_blocks", {640, 8192}, [](long blocks) {
  auto o = zeros<float>(blocks * 256);
  return [=] { uneven_blocks<<<int(blocks), 256>>>(o); };
});
TRUTH("small", "early_exit", {1 << 18, 1 << 24}, [](long n) {
  auto f = zeros<int>(n / 128), o = zeros<int>(n);
  return [=] { early_exit<<<int(n / 128), 128>>>(f, o, n); };
});

}  // namespace
