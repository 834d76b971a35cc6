// calib/held-out/textbook.cu: kernels as a first or second course on CUDA writes them, with what comes with the toolkit (cooperative
// groups, CUB's block functions, cuRAND's device functions): row operations, products of floats, convolution, transforms, sorting.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <curand_kernel.h>

#include <algorithm>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

#include "../truth/truth.h"

namespace {
using namespace truth;
namespace cg = cooperative_groups;

/// Softmax of rows of 4096 floats: a block a row, three passes, CUB's reduction.
__global__ void softmax_block(const float* in, float* out, int columns) {
  using Reduce = cub::BlockReduce<float, 256>;
  __shared__ typename Reduce::TempStorage room;
  __shared__ float shared;
  const float* row = in + long(blockIdx.x) * columns;
  float most = -1e30f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
  most = Reduce(room).Reduce(most, [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x == 0) shared = most;
  __syncthreads();
  most = shared;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
  __syncthreads();
  sum = Reduce(room).Sum(sum);
  if (threadIdx.x == 0) shared = sum;
  __syncthreads();
  const float scale = 1.f / shared;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[long(blockIdx.x) * columns + i] = expf(row[i] - most) * scale;
}
TRUTH("textbook", "softmax_block", {1024, 16384}, [](long rows) {
  auto in = uniform<float>(rows * 4096), out = zeros<float>(rows * 4096);
  return [=] { softmax_block<<<int(rows), 256>>>(in, out, 4096); };
});

/// Layer norm of rows of 1024 halves, a warp a row, by cooperative groups.
__global__ void layer_norm_groups(const half2* in, const float* gain, const float* bias, half2* out, int rows) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int row = blockIdx.x * (blockDim.x / 32) + warp.meta_group_rank();
  if (row >= rows) return;
  const half2* from = in + row * 512l;
  float sum = 0, squares = 0;
  for (int i = warp.thread_rank(); i < 512; i += 32) {
    const float2 v = __half22float2(from[i]);
    sum += v.x + v.y, squares += v.x * v.x + v.y * v.y;
  }
  const float mean = cg::reduce(warp, sum, cg::plus<float>()) / 1024, square = cg::reduce(warp, squares, cg::plus<float>()) / 1024;
  const float scale = rsqrtf(square - mean * mean + 1e-5f);
  for (int i = warp.thread_rank(); i < 512; i += 32) {
    const float2 v = __half22float2(from[i]);
    out[row * 512l + i] = __floats2half2_rn((v.x - mean) * scale * gain[i * 2] + bias[i * 2], (v.y - mean) * scale * gain[i * 2 + 1] + bias[i * 2 + 1]);
  }
}
TRUTH("textbook", "layer_norm_groups", {4096, 65536}, [](long rows) {
  Array<half2> in(rows * 512), out(rows * 512);
  fill<half2>(in, [](size_t, Random& r) { return __floats2half2_rn(r.unit(), r.unit()); });
  auto gain = uniform<float>(1024), bias = uniform<float>(1024);
  return [=] { layer_norm_groups<<<int(rows / 8), 256>>>(in, gain, bias, out, int(rows)); };
});

/// C = A B of floats: tiles of 128 x 128, 8 deep, the next tile in registers while this one is multiplied; 8 x 8 a thread.
__global__ void __launch_bounds__(256) sgemm_double(const float* a, const float* b, float* c, int n) {
  __shared__ float as[2][8][128], bs[2][8][128];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const float* pa = a + (blockIdx.y * 128l + t / 2) * n + t % 2 * 4;
  const float* pb = b + long(t / 32) * n + blockIdx.x * 128 + t % 32 * 4;
  float sum[8][8] = {};
  float4 na = *(const float4*)pa, nb = *(const float4*)pb;
  int at = 0;
  const auto keep = [&] {
    const int r = t / 2, k = t % 2 * 4;
    as[at][k][r] = na.x, as[at][k + 1][r] = na.y, as[at][k + 2][r] = na.z, as[at][k + 3][r] = na.w;
    *(float4*)&bs[at][t / 32][t % 32 * 4] = nb;
  };
  keep();
  __syncthreads();
  for (int k0 = 8;; k0 += 8) {
    if (k0 < n) na = *(const float4*)(pa + k0), nb = *(const float4*)(pb + long(k0) * n);
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float ra[8], rb[8];
      *(float4*)ra = *(float4*)&as[at][k][ty * 8], *(float4*)(ra + 4) = *(float4*)&as[at][k][ty * 8 + 4];
      *(float4*)rb = *(float4*)&bs[at][k][tx * 4], *(float4*)(rb + 4) = *(float4*)&bs[at][k][tx * 4 + 64];
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] += ra[i] * rb[j];
    }
    if (k0 >= n) break;
    at ^= 1;
    keep();
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      *(float4*)(c + (blockIdx.y * 128l + ty * 8 + i) * n + blockIdx.x * 128 + tx * 4 + h * 64) =
          make_float4(sum[i][h * 4], sum[i][h * 4 + 1], sum[i][h * 4 + 2], sum[i][h * 4 + 3]);
}
TRUTH("textbook", "sgemm_double", {768, 2048}, [](long n) {
  auto a = uniform<float>(n * n), b = uniform<float>(n * n), c = zeros<float>(n * n);
  return [=] { sgemm_double<<<dim3(n / 128, n / 128), 256>>>(a, b, c, int(n)); };
});

/// Convolution of 3 x 3 over 32 channels in, 32 out (NCHW): a block has 16 x 16 pixels, its tile with a border in shared memory.
__global__ void conv_nchw(const float* in, const float* weights, float* out, int size) {
  __shared__ float tile[18][18], w[32 * 9];
  const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, t = threadIdx.y * 16 + threadIdx.x;
  const long plane = long(size) * size;
  float sum[8] = {};
  for (int c = 0; c < 32; c++) {
    for (int i = t; i < 18 * 18; i += 256) {
      const int px = int(blockIdx.x) * 16 + i % 18 - 1, py = int(blockIdx.y) * 16 + i / 18 - 1;
      tile[i / 18][i % 18] = px >= 0 && px < size && py >= 0 && py < size ? in[c * plane + long(py) * size + px] : 0;
    }
    if (t < 72) w[t] = weights[((blockIdx.z * 8 + t / 9) * 32 + c) * 9 + t % 9];
    __syncthreads();
#pragma unroll
    for (int ky = 0; ky < 3; ky++)
#pragma unroll
      for (int kx = 0; kx < 3; kx++) {
        const float v = tile[threadIdx.y + ky][threadIdx.x + kx];
#pragma unroll
        for (int o = 0; o < 8; o++) sum[o] += v * w[o * 9 + ky * 3 + kx];
      }
    __syncthreads();
  }
  for (int o = 0; o < 8; o++) out[(blockIdx.z * 8 + o) * plane + long(y) * size + x] = sum[o];
}
TRUTH("textbook", "conv_nchw", {128, 512}, [](long n) {
  auto in = uniform<float>(32 * n * n), w = uniform<float>(32 * 32 * 9), out = zeros<float>(32 * n * n);
  return [=] { conv_nchw<<<dim3(n / 16, n / 16, 4), dim3(16, 16)>>>(in, w, out, int(n)); };
});

/// Batches of products of 16 x 16 doubles, a block of 256 threads each, as libraries of finite elements have.
__global__ void batched_double16(const double* a, const double* b, double* c) {
  __shared__ double as[16][17], bs[16][17];
  const long at = blockIdx.x * 256l + threadIdx.y * 16 + threadIdx.x;
  as[threadIdx.y][threadIdx.x] = a[at], bs[threadIdx.y][threadIdx.x] = b[at];
  __syncthreads();
  double sum = 0;
#pragma unroll
  for (int k = 0; k < 16; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
  c[at] = sum;
}
TRUTH("textbook", "batched_double16", {4096, 65536}, [](long n) {
  auto a = uniform<double>(n * 256), b = uniform<double>(n * 256), c = zeros<double>(n * 256);
  return [=] { batched_double16<<<int(n), dim3(16, 16)>>>(a, b, c); };
});

/// Sums up to each element within tiles of 4096 integers: CUB's load, scan and store.
__global__ void __launch_bounds__(256) scan_tiles(const int* in, int* out) {
  using Load = cub::BlockLoad<int, 256, 16, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Store = cub::BlockStore<int, 256, 16, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  using Scan = cub::BlockScan<int, 256>;
  __shared__ union { typename Load::TempStorage load; typename Store::TempStorage store; typename Scan::TempStorage scan; } room;
  int v[16];
  Load(room.load).Load(in + blockIdx.x * 4096l, v);
  __syncthreads();
  Scan(room.scan).InclusiveSum(v, v);
  __syncthreads();
  Store(room.store).Store(out + blockIdx.x * 4096l, v);
}
TRUTH("textbook", "scan_tiles", {1 << 20, 1 << 25}, [](long n) {
  Array<int> in(n), out(n);
  fill<int>(in, [](size_t, Random& r) { return int(r.next() & 7); });
  return [=] { scan_tiles<<<int(n / 4096), 256>>>(in, out); };
});

/// Tiles of 2048 keys sorted by CUB's radix sort of a block.
__global__ void __launch_bounds__(256) sort_tiles(const unsigned* in, unsigned* out) {
  using Sort = cub::BlockRadixSort<unsigned, 256, 8>;
  __shared__ typename Sort::TempStorage room;
  unsigned v[8];
  cub::LoadDirectBlocked(threadIdx.x, in + blockIdx.x * 2048l, v);
  Sort(room).Sort(v);
  cub::StoreDirectBlocked(threadIdx.x, out + blockIdx.x * 2048l, v);
}
TRUTH("textbook", "sort_tiles", {1 << 17, 1 << 22}, [](long n) {
  Array<unsigned> in(n), out(n);
  fill<unsigned>(in, [](size_t, Random& r) { return r.next(); });
  return [=] { sort_tiles<<<int(n / 2048), 256>>>(in, out); };
});

/// A sparse matrix (CSR, 8 to 56 entries a row) times a dense one of 64 columns: a warp a row, two columns a lane.
__global__ void spmm_rows(const int* start, const int* column, const float* value, const float2* dense, float2* out, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float2 sum = make_float2(0, 0);
  for (int i = start[row]; i < start[row + 1]; i++) {
    const float v = value[i];
    const float2 d = dense[column[i] * 32l + lane];
    sum.x += v * d.x, sum.y += v * d.y;
  }
  out[row * 32l + lane] = sum;
}
TRUTH("textbook", "spmm_rows", {8192, 131072}, [](long rows) {
  Random r;
  std::vector<int> start(rows + 1), column;
  for (long i = 0; i < rows; i++) {
    start[i] = int(column.size());
    for (int k = 8 + int(r.next() % 49); k > 0; k--) column.push_back(int(r.next() % rows));
  }
  start[rows] = int(column.size());
  auto s = upload(start), c = upload(column);
  auto v = uniform<float>(column.size()), d = uniform<float>(rows * 64), o = zeros<float>(rows * 64);
  return [=] { spmm_rows<<<int(rows / 8), 256>>>(s, c, v, (const float2*)d.p, (float2*)o.p, int(rows)); };
});

/// Transforms of 1024 complex numbers, radix 4, a block of 256 threads each, angles from the special-function unit.
__global__ void __launch_bounds__(256) fft1024(const float2* in, float2* out) {
  __shared__ float2 buffer[1024];
  const int t = threadIdx.x;
  float2 v[4];
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = in[blockIdx.x * 1024l + t + i * 256];
#pragma unroll
  for (int span = 1; span < 1024; span *= 4) {
    const int k = t & (span - 1);
    const float angle = -6.2831853f * k / (span * 4);
#pragma unroll
    for (int i = 1; i < 4; i++) {
      float s, c;
      __sincosf(angle * i, &s, &c);
      v[i] = make_float2(v[i].x * c - v[i].y * s, v[i].x * s + v[i].y * c);
    }
    const float2 a = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), b = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
    const float2 c = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), d = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
    const int to = (t - k) * 4 + k;
    __syncthreads();
    buffer[to] = make_float2(a.x + c.x, a.y + c.y), buffer[to + span] = make_float2(b.x + d.x, b.y + d.y);
    buffer[to + 2 * span] = make_float2(a.x - c.x, a.y - c.y), buffer[to + 3 * span] = make_float2(b.x - d.x, b.y - d.y);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = buffer[t + i * 256];
  }
#pragma unroll
  for (int i = 0; i < 4; i++) out[blockIdx.x * 1024l + t + i * 256] = v[i];
}
TRUTH("textbook", "fft1024", {512, 16384}, [](long n) {
  auto in = uniform<float>(n * 2048), out = zeros<float>(n * 2048);
  return [=] { fft1024<<<int(n), 256>>>((const float2*)in.p, (float2*)out.p); };
});

/// The eight greatest of each row of 8192 floats: a block of 128, each thread keeps eight in registers, then a tree in shared memory.
__device__ void put(float (&best)[8], float v) {
  if (v <= best[7]) return;
  best[7] = v;
#pragma unroll
  for (int i = 7; i > 0; i--)
    if (best[i] > best[i - 1]) {
      const float other = best[i];
      best[i] = best[i - 1], best[i - 1] = other;
    }
}
__global__ void __launch_bounds__(128) top8(const float* in, float* out, int columns) {
  __shared__ float room[128][9];
  float best[8];
  for (float& b : best) b = -1e30f;
  for (int i = threadIdx.x; i < columns; i += 128) put(best, in[long(blockIdx.x) * columns + i]);
  for (int half = 64; half > 0; half /= 2) {
    for (int i = 0; i < 8; i++) room[threadIdx.x][i] = best[i];
    __syncthreads();
    if (threadIdx.x < half)
      for (int i = 0; i < 8; i++) put(best, room[threadIdx.x + half][i]);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    for (int i = 0; i < 8; i++) out[blockIdx.x * 8 + i] = best[i];
}
TRUTH("textbook", "top8", {264, 4096}, [](long rows) {
  auto in = uniform<float>(rows * 8192), out = zeros<float>(rows * 8);
  return [=] { top8<<<int(rows), 128>>>(in, out, 8192); };
});

/// Prices of Asian options by Monte Carlo: cuRAND's Philox, 64 steps a path.
__global__ void asian_options(float* out, int paths) {
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(1234, id, 0, &state);
  float payoff = 0;
  for (int p = 0; p < paths; p++) {
    float price = 100, mean = 0;
    for (int s = 0; s < 64; s += 4) {
      const float4 z = curand_normal4(&state);
      price *= expf(0.0002f + 0.02f * z.x), mean += price;
      price *= expf(0.0002f + 0.02f * z.y), mean += price;
      price *= expf(0.0002f + 0.02f * z.z), mean += price;
      price *= expf(0.0002f + 0.02f * z.w), mean += price;
    }
    payoff += fmaxf(mean / 64 - 100, 0.f);
  }
  out[id] = payoff / paths;
}
TRUTH("textbook", "asian_options", {1, 8}, [](long paths) {
  auto out = zeros<float>(132 * 8 * 256);
  return [=] { asian_options<<<132 * 8, 256>>>(out, int(paths)); };
});
}  // namespace
