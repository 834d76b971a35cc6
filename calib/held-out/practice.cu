// calib/held-out/practice.cu: kernels as working programs hold them: tensor cores by wmma, copies by the pipeline and barrier of libcu++,
// tensor copies, thread block clusters, a solver that meets in the grid, a lattice fluid, particles in cells, attention without tensor cores.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include <algorithm>
#include <cuda/barrier>

#include "../dissect/tensor_map.h"
#include "../truth/truth.h"

namespace {
using namespace truth;
using namespace nvcuda;
namespace cg = cooperative_groups;

/// C = A B, halves in, floats out: wmma, tiles of 128 x 128 x 32 in shared memory, eight warps of 64 x 32.
__global__ void __launch_bounds__(256) wmma_tiles(const half* a, const half* b, float* c, int n) {
  __shared__ half as[128][40], bs[32][136];
  const int t = threadIdx.x, warp = t / 32, wy = warp / 4, wx = warp % 4;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][2];
  for (auto& row : sum)
    for (auto& f : row) wmma::fill_fragment(f, 0.f);
  for (int k0 = 0; k0 < n; k0 += 32) {
    for (int i = t; i < 512; i += 256) {
      *(uint4*)&as[i / 4][i % 4 * 8] = *(const uint4*)(a + (blockIdx.y * 128l + i / 4) * n + k0 + i % 4 * 8);
      *(uint4*)&bs[i / 16][i % 16 * 8] = *(const uint4*)(b + (k0 + i / 16) * long(n) + blockIdx.x * 128 + i % 16 * 8);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[4];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
#pragma unroll
      for (int i = 0; i < 4; i++) wmma::load_matrix_sync(fa[i], &as[wy * 64 + i * 16][k], 40);
#pragma unroll
      for (int j = 0; j < 2; j++) wmma::load_matrix_sync(fb[j], &bs[k][wx * 32 + j * 16], 136);
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 2; j++)
      wmma::store_matrix_sync(c + (blockIdx.y * 128l + wy * 64 + i * 16) * n + blockIdx.x * 128 + wx * 32 + j * 16, sum[i][j], n, wmma::mem_row_major);
}
TRUTH("practice", "wmma_tiles", {1024, 4096}, [](long n) {
  Array<half> a(n * n), b(n * n);
  for (auto* m : {&a, &b}) fill<half>(*m, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  auto c = zeros<float>(n * n);
  return [=] { wmma_tiles<<<dim3(n / 128, n / 128), 256>>>(a, b, c, int(n)); };
});

/// The same of bf16 with three stages by __pipeline_memcpy_async, tiles of 128 x 64 x 32, four warps.
__global__ void __launch_bounds__(128) pipeline_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n) {
  extern __shared__ __align__(128) unsigned char room[];
  auto as = reinterpret_cast<__nv_bfloat16(*)[128][40]>(room);
  auto bs = reinterpret_cast<__nv_bfloat16(*)[32][72]>(room + 3 * 128 * 40 * 2);
  const int t = threadIdx.x, warp = t / 32;
  const auto fetch = [&](int step) {
    if (step * 32 < n) {
      for (int i = t; i < 512; i += 128) __pipeline_memcpy_async(&as[step % 3][i / 4][i % 4 * 8], a + (blockIdx.y * 128l + i / 4) * n + step * 32 + i % 4 * 8, 16);
      for (int i = t; i < 256; i += 128) __pipeline_memcpy_async(&bs[step % 3][i / 8][i % 8 * 8], b + (step * 32l + i / 8) * n + blockIdx.x * 64 + i % 8 * 8, 16);
    }
    __pipeline_commit();
  };
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][4];
  for (auto& row : sum)
    for (auto& f : row) wmma::fill_fragment(f, 0.f);
  fetch(0), fetch(1);
  for (int step = 0; step * 32 < n; step++) {
    __pipeline_wait_prior(1);
    __syncthreads();
    fetch(step + 2);
    const int s = step % 3;
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb[4];
#pragma unroll
      for (int i = 0; i < 2; i++) wmma::load_matrix_sync(fa[i], &as[s][warp * 32 + i * 16][k], 40);
#pragma unroll
      for (int j = 0; j < 4; j++) wmma::load_matrix_sync(fb[j], &bs[s][k][j * 16], 72);
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      wmma::store_matrix_sync(c + (blockIdx.y * 128l + warp * 32 + i * 16) * n + blockIdx.x * 64 + j * 16, sum[i][j], n, wmma::mem_row_major);
}
TRUTH("practice", "pipeline_gemm", {1024, 4096}, [](long n) {
  Array<__nv_bfloat16> a(n * n), b(n * n);
  for (auto* m : {&a, &b}) fill<__nv_bfloat16>(*m, [](size_t, Random& r) { return __float2bfloat16(r.unit() - .5f); });
  auto c = zeros<float>(n * n);
  cudaFuncSetAttribute(pipeline_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, 48 * 1024);
  return [=] { pipeline_gemm<<<dim3(n / 64, n / 128), 128, 3 * (128 * 40 + 32 * 72) * 2>>>(a, b, c, int(n)); };
});

/// A step of a diffusion on a grid, tiles of 64 x 32 with their border by tensor copies, two tiles ahead; blocks that stay.
__global__ void __launch_bounds__(256) tensor_diffusion(const __grid_constant__ CUtensorMap map, float* out, int width, int tiles_x, int tiles) {
  __shared__ alignas(128) float tile[2][36][72];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
  if (threadIdx.x == 0) {
    init(&bar[0], 256), init(&bar[1], 256);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const auto fetch = [&](int n, int which) {
    if (threadIdx.x == 0 && n < tiles) {
      const auto to = uint32_t(__cvta_generic_to_shared(&tile[which][0][0])), b = uint32_t(__cvta_generic_to_shared(cuda::device::barrier_native_handle(bar[which])));
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map),
                   "r"(n % tiles_x * 64 - 4), "r"(n / tiles_x * 32 - 1), "r"(b) : "memory");
      return cuda::device::barrier_arrive_tx(bar[which], 1, 34 * 72 * 4);
    }
    return bar[which].arrive();
  };
  auto token = fetch(blockIdx.x, 0);
  for (int n = blockIdx.x, which = 0; n < tiles; n += gridDim.x, which ^= 1) {
    auto next = fetch(n + gridDim.x, which ^ 1);
    bar[which].wait(std::move(token));
    for (int i = threadIdx.x; i < 64 * 32; i += 256) {
      const int x = i % 64, y = i / 64;
      const float here = tile[which][y + 1][x + 4];
      out[(n / tiles_x * 32l + y) * width + n % tiles_x * 64 + x] =
          here + .1f * (tile[which][y][x + 4] + tile[which][y + 2][x + 4] + tile[which][y + 1][x + 3] + tile[which][y + 1][x + 5] - 4 * here);
    }
    token = std::move(next);
    __syncthreads();
  }
}
TRUTH("practice", "tensor_diffusion", {1024, 8192}, [](long n) {
  auto in = uniform<float>(n * n), out = zeros<float>(n * n);
  const CUtensorMap map = matrix_map(in.p, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, n, n, 34, 72, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
  const int tiles = int(n / 64 * (n / 32));
  return [=, keep = in] { tensor_diffusion<<<std::min(tiles, 396), 256>>>(map, out, int(n), int(n / 64), tiles); };
});

/// A histogram of 16,384 bins spread over the shared memory of four blocks of a cluster, as the programming guide has it.
__global__ void __cluster_dims__(4) __launch_bounds__(512) cluster_histogram(const int* in, int* bins, long n) {
  extern __shared__ int own[];
  const auto cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) own[i] = 0;
  cluster.sync();
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
    const int bin = in[i];
    atomicAdd(cluster.map_shared_rank(own, bin / 4096) + bin % 4096, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * 4096 + i], own[i]);
}
TRUTH("practice", "cluster_histogram", {1 << 20, 1 << 24}, [](long n) {
  Array<int> in(n);
  fill<int>(in, [](size_t, Random& r) { return int(r.next() & 16383); });
  auto bins = zeros<int>(16384);
  return [=] { cluster_histogram<<<256, 512, 16384>>>(in, bins, n); };
});

/// Sweeps of Jacobi's method with a meeting of the grid after each: launched once, cooperatively.
__global__ void __launch_bounds__(256) jacobi_sweeps(float* a, float* b, int n, int sweeps) {
  const auto grid = cg::this_grid();
  for (int s = 0; s < sweeps; s++) {
    for (long i = grid.thread_rank(); i < long(n) * n; i += grid.size()) {
      const int x = int(i % n), y = int(i / n);
      if (x > 0 && x < n - 1 && y > 0 && y < n - 1) b[i] = .25f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n]);
    }
    grid.sync();
    float* other = a;
    a = b, b = other;
  }
}
TRUTH("practice", "jacobi_sweeps", {512, 2048}, [](long n) {
  auto a = uniform<float>(n * n), b = uniform<float>(n * n);
  return [=] {
    float *pa = a, *pb = b;
    int size = int(n), sweeps = 8;
    void* arguments[] = {&pa, &pb, &size, &sweeps};
    cudaLaunchCooperativeKernel((void*)jacobi_sweeps, 132 * 4, 256, arguments, 0, nullptr);
  };
});

/// A step of a lattice Boltzmann fluid of nine directions: pulled from the neighbours, relaxed, written.
__global__ void lattice9(const float* in, float* out, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  const float w[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
  const long plane = long(n) * n;
  float f[9], density = 0, ux = 0, uy = 0;
#pragma unroll
  for (int i = 0; i < 9; i++) {
    f[i] = in[i * plane + long((y - cy[i] + n) % n) * n + (x - cx[i] + n) % n];
    density += f[i], ux += cx[i] * f[i], uy += cy[i] * f[i];
  }
  ux /= density, uy /= density;
  const float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
  for (int i = 0; i < 9; i++) {
    const float along = 3 * (cx[i] * ux + cy[i] * uy);
    out[i * plane + long(y) * n + x] = f[i] + .6f * (w[i] * density * (1 + along + .5f * along * along - square) - f[i]);
  }
}
TRUTH("practice", "lattice9", {512, 2048}, [](long n) {
  auto in = uniform<float>(9 * n * n), out = zeros<float>(9 * n * n);
  return [=] { lattice9<<<dim3(n / 128, n), 128>>>(in, out, int(n)); };
});

/// Forces between particles in cells of a grid (27 neighbours, four particles each on average), a thread a particle.
__global__ void cell_forces(const float4* place, const int* start, float4* force, int cells, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 p = place[i];
  const int cx = min(int(p.x * cells), cells - 1), cy = min(int(p.y * cells), cells - 1), cz = min(int(p.z * cells), cells - 1);
  const float reach = 1.f / (float(cells) * cells);
  float4 sum = make_float4(0, 0, 0, 0);
  for (int z = max(cz - 1, 0); z <= min(cz + 1, cells - 1); z++)
    for (int y = max(cy - 1, 0); y <= min(cy + 1, cells - 1); y++)
      for (int x = max(cx - 1, 0); x <= min(cx + 1, cells - 1); x++) {
        const int cell = (z * cells + y) * cells + x;
        for (int j = start[cell]; j < start[cell + 1]; j++) {
          const float4 q = place[j];
          const float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, square = dx * dx + dy * dy + dz * dz;
          if (j == i || square > reach) continue;
          const float inverse = reach / square, third = inverse * inverse * inverse, f = (2 * third - 1) * third * inverse;
          sum.x += f * dx, sum.y += f * dy, sum.z += f * dz;
        }
      }
  force[i] = sum;
}
TRUTH("practice", "cell_forces", {16, 40}, [](long cells) {
  const long n = cells * cells * cells * 4;
  Random r;
  std::vector<std::vector<float4>> boxes(cells * cells * cells);
  for (long i = 0; i < n; i++) {
    const float4 p = make_float4(r.unit(), r.unit(), r.unit(), 1);
    boxes[(long(p.z * cells) * cells + long(p.y * cells)) * cells + long(p.x * cells)].push_back(p);
  }
  std::vector<float4> place;
  std::vector<int> start;
  for (const auto& box : boxes) start.push_back(int(place.size())), place.insert(place.end(), box.begin(), box.end());
  start.push_back(int(place.size()));
  auto p = upload(place);
  auto s = upload(start);
  auto f = zeros<float4>(n);
  return [=] { cell_forces<<<blocks_for(n, 128), 128>>>(p, s, f, int(cells), int(n)); };
});

/// Attention of heads of 64 without tensor cores: a block of 64 threads has 64 queries, keys and values come through shared memory.
__global__ void __launch_bounds__(64) attention_plain(const float* q, const float* k, const float* v, float* out, int tokens) {
  __shared__ float ks[32][64], vs[32][64];
  const long head = blockIdx.y * long(tokens) * 64, row = head + (blockIdx.x * 64 + threadIdx.x) * 64l;
  float mine[64], sum[64] = {}, most = -1e30f, total = 0;
#pragma unroll
  for (int i = 0; i < 64; i++) mine[i] = q[row + i] * .125f;
  for (int at = 0; at < tokens; at += 32) {
    for (int i = threadIdx.x; i < 512; i += 64) {
      ((float4*)ks)[i] = ((const float4*)(k + head + at * 64l))[i];
      ((float4*)vs)[i] = ((const float4*)(v + head + at * 64l))[i];
    }
    __syncthreads();
    for (int j = 0; j < 32; j++) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < 64; i++) score += mine[i] * ks[j][i];
      if (score > most) {
        const float scale = __expf(most - score);
        total *= scale, most = score;
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] *= scale;
      }
      const float p = __expf(score - most);
      total += p;
#pragma unroll
      for (int i = 0; i < 64; i++) sum[i] += p * vs[j][i];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 64; i++) out[row + i] = sum[i] / total;
}
TRUTH("practice", "attention_plain", {256, 1024}, [](long tokens) {
  auto q = uniform<float>(tokens * 64 * 32), k = uniform<float>(tokens * 64 * 32), v = uniform<float>(tokens * 64 * 32), o = zeros<float>(tokens * 64 * 32);
  return [=] { attention_plain<<<dim3(tokens / 64, 32), 64>>>(q, k, v, o, int(tokens)); };
});

/// y = W x of 8-bit integers with four products at a time, a warp a row of 4096.
__global__ void bytes_gemv(const int4* w, const int4* x, int* y, int rows) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  int sum = 0;
  for (int i = lane; i < 256; i += 32) {
    const int4 a = w[row * 256l + i], b = x[i];
    sum = __dp4a(a.x, b.x, sum), sum = __dp4a(a.y, b.y, sum), sum = __dp4a(a.z, b.z, sum), sum = __dp4a(a.w, b.w, sum);
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (lane == 0) y[row] = sum;
}
TRUTH("practice", "bytes_gemv", {4096, 65536}, [](long rows) {
  Array<int> w(rows * 1024), x(1024);
  fill<int>(w, [](size_t, Random& r) { return int(r.next()); });
  fill<int>(x, [](size_t, Random& r) { return int(r.next()); });
  auto y = zeros<int>(rows);
  return [=] { bytes_gemv<<<int(rows / 8), 256>>>((const int4*)w.p, (const int4*)x.p, y, int(rows)); };
});

/// The game of life on bytes, four cells a thread, no shared memory.
__global__ void life(const uint8_t* in, uint8_t* out, int width, int height) {
  const int x0 = (blockIdx.x * blockDim.x + threadIdx.x) * 4, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x0 >= width || y >= height) return;
  uint8_t next[4];
  for (int k = 0; k < 4; k++) {
    int alive = 0;
    for (int dy = -1; dy <= 1; dy++)
      for (int dx = -1; dx <= 1; dx++)
        if (dx || dy) alive += in[long((y + dy + height) % height) * width + (x0 + k + dx + width) % width];
    next[k] = alive == 3 || (alive == 2 && in[long(y) * width + x0 + k]);
  }
  *(uchar4*)(out + long(y) * width + x0) = make_uchar4(next[0], next[1], next[2], next[3]);
}
TRUTH("practice", "life", {1024, 8192}, [](long n) {
  Array<uint8_t> in(n * n), out(n * n);
  fill<uint8_t>(in, [](size_t, Random& r) { return uint8_t(r.next() & 1); });
  return [=] { life<<<dim3(n / 128, n / 8), dim3(32, 8)>>>(in, out, int(n), int(n)); };
});
}  // namespace
