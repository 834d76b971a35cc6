// calib/held-out/pipelines.cu: copies under way while others compute: cp.async, bulk copies, tensor copies; mma.sync and wgmma.
#include <cuda.h>
#include <cuda_fp16.h>

#include "../dissect/tensor_map.h"
#include "../truth/truth.h"
#include "products.h"

namespace {
using namespace truth;

__device__ uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ void copy16(uint32_t to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
__device__ void load4(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Many small products C = A B' of 64 x 64 x 64 halves, a block of four warps each, everything copied at once.
__global__ void __launch_bounds__(128) small_products(const half* a, const half* b, half* c) {
  __shared__ __align__(128) half as[64 * 72], bs[64 * 72];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const long at = blockIdx.x * 4096l;
  for (int i = t; i < 512; i += 128) copy16(smem(as + i / 8 * 72 + i % 8 * 8), a + at + i * 8), copy16(smem(bs + i / 8 * 72 + i % 8 * 8), b + at + i * 8);
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  float sum[8][4] = {};
  for (int k = 0; k < 64; k += 16) {
    uint32_t fa[4];
    load4(fa, smem(as + (warp * 16 + lane % 16) * 72 + k + lane / 16 * 8));
    for (int j = 0; j < 8; j += 2) {
      uint32_t fb[4];
      load4(fb, smem(bs + (j * 8 + lane % 8 + lane / 16 * 8) * 72 + k + lane / 8 % 2 * 8));
      multiply(sum[j], fa, fb[0], fb[1]), multiply(sum[j + 1], fa, fb[2], fb[3]);
    }
  }
  for (int j = 0; j < 8; j++)
    for (int h = 0; h < 2; h++)
      *(half2*)(c + at + (warp * 16 + lane / 4 + h * 8) * 64 + j * 8 + lane % 4 * 2) = __floats2half2_rn(sum[j][h * 2], sum[j][h * 2 + 1]);
}
TRUTH("pipelines", "small_products", {512, 32768}, [](long n) {
  Array<half> a(n * 4096), b(n * 4096), c(n * 4096);
  fill<half>(a, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  fill<half>(b, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  return [=] { small_products<<<int(n), 128>>>(a.p, b.p, c.p); };
});

/// Distances of many points to 64 centres: points come four stages ahead through cp.async, centres stay in shared memory.
__global__ void __launch_bounds__(256) nearest_centre(const float4* points, const float4* centres, int* nearest, int tiles) {
  __shared__ float4 stage[4][256];
  __shared__ float4 centre[64];
  if (threadIdx.x < 64) centre[threadIdx.x] = centres[threadIdx.x];
  const long step = gridDim.x * 256l;
  const auto fetch = [&](int i) {
    if (i < tiles) copy16(smem(&stage[i % 4][threadIdx.x]), points + i * step + blockIdx.x * 256 + threadIdx.x);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int i = 0; i < 3; i++) fetch(i);
  __syncthreads();
  for (int i = 0; i < tiles; i++) {
    fetch(i + 3);
    asm volatile("cp.async.wait_group 3;" ::: "memory");
    const float4 p = stage[i % 4][threadIdx.x];
    float best = 1e30f;
    int where = 0;
    for (int k = 0; k < 64; k++) {
      const float4 q = centre[k];
      const float d = (p.x - q.x) * (p.x - q.x) + (p.y - q.y) * (p.y - q.y) + (p.z - q.z) * (p.z - q.z) + (p.w - q.w) * (p.w - q.w);
      if (d < best) best = d, where = k;
    }
    nearest[i * step + blockIdx.x * 256 + threadIdx.x] = where;
  }
}
TRUTH("pipelines", "nearest_centre", {4, 32}, [](long tiles) {
  const long n = tiles * 132 * 4 * 256;
  auto p = uniform<float>(n * 4), c = uniform<float>(256);
  auto o = zeros<int>(n);
  return [=] { nearest_centre<<<132 * 4, 256>>>((const float4*)p.p, (const float4*)c.p, o, int(tiles)); };
});

/// y = a y + x by bulk copies of 8 KB: three stages in, two out.
__global__ void __launch_bounds__(256) bulk_axpy(const float* x, float* y, float a, long pieces) {
  extern __shared__ __align__(128) float room[];
  constexpr int kFloats = 2048, kBytes = kFloats * 4, kStages = 3;
  __shared__ uint64_t bar[kStages];
  float* out = room + kStages * 2 * kFloats;
  if (threadIdx.x == 0)
    for (auto& b : bar) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&b)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const auto fetch = [&](long piece, int n) {
    const int s = n % kStages;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&bar[s])), "r"(2 * kBytes) : "memory");
    for (int k = 0; k < 2; k++)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(room + (s * 2 + k) * kFloats)),
                   "l"((k ? y : (float*)x) + piece * kFloats), "r"(kBytes), "r"(smem(&bar[s])) : "memory");
  };
  if (threadIdx.x == 0)
    for (int n = 0; n < kStages - 1; n++)
      if (blockIdx.x + long(n) * gridDim.x < pieces) fetch(blockIdx.x + long(n) * gridDim.x, n);
  int n = 0;
  for (long piece = blockIdx.x; piece < pieces; piece += gridDim.x, n++) {
    const int s = n % kStages;
    if (threadIdx.x == 0) {
      if (piece + long(kStages - 1) * gridDim.x < pieces) fetch(piece + long(kStages - 1) * gridDim.x, n + kStages - 1);
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    }
    asm volatile("{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(&bar[s])), "r"(uint32_t(n / kStages & 1)) : "memory");
    __syncthreads();
    const float4 *p = (const float4*)(room + s * 2 * kFloats), *q = p + kFloats / 4;
    float4* to = (float4*)(out + n % 2 * kFloats);
    for (int i = threadIdx.x; i < kFloats / 4; i += 256) {
      const float4 u = p[i], v = q[i];
      to[i] = make_float4(a * v.x + u.x, a * v.y + u.y, a * v.z + u.z, a * v.w + u.w);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(y + piece * kFloats), "r"(smem(out + n % 2 * kFloats)), "r"(kBytes) : "memory");
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
TRUTH("pipelines", "bulk_axpy", {1 << 20, 1 << 26}, [](long n) {
  auto x = uniform<float>(n), y = uniform<float>(n);
  cudaFuncSetAttribute(bulk_axpy, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  return [=] { bulk_axpy<<<264, 256, 65536>>>(x, y, .5f, n / 2048); };
});

/// C = A B' of halves in blocks of 128 x 128: one warp copies boxes of 128 x 64 of both, two groups of four warps multiply 64 rows each.
constexpr int kDepth = 4, kTile = 128 * 64 * 2;
__device__ void wait_for(uint32_t bar, uint32_t parity) {
  asm volatile("{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(bar), "r"(parity) : "memory");
}
__global__ void __launch_bounds__(288) warp_roles(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, half* c, int n, int k) {
  extern __shared__ char raw[];
  __shared__ uint64_t full[kDepth], empty[kDepth];
  const uint32_t room = (smem(raw) + 1023) / 1024 * 1024;
  if (threadIdx.x == 0)
    for (int i = 0; i < kDepth; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&full[i])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(smem(&empty[i])));
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const int steps = k / 64, row = blockIdx.y * 128, col = blockIdx.x * 128;
  if (threadIdx.x >= 256) {
    if (threadIdx.x > 256) return;
    for (int i = 0; i < steps; i++) {
      const int s = i % kDepth;
      const uint32_t bar = smem(&full[s]), to = room + s * 2 * kTile;
      if (i >= kDepth) wait_for(smem(&empty[s]), (i / kDepth - 1) & 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2 * kTile) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&ma), "r"(i * 64), "r"(row), "r"(bar) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to + kTile), "l"(&mb), "r"(i * 64), "r"(col), "r"(bar) : "memory");
    }
    return;
  }
  const int group = threadIdx.x / 128;
  float d[64];
  for (float& v : d) v = 0;
  for (int i = 0; i < steps; i++) {
    const int s = i % kDepth;
    wait_for(smem(&full[s]), i / kDepth & 1);
    const uint32_t a = room + s * 2 * kTile + group * (kTile / 2), b = room + s * 2 * kTile + kTile;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int j = 0; j < 4; j++) product(d, descriptor(a + j * 32), descriptor(b + j * 32));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x % 128 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&empty[s])) : "memory");
  }
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  for (int j = 0; j < 16; j++)
    for (int h = 0; h < 2; h++)
      *(half2*)(c + long(row + group * 64 + warp * 16 + lane / 4 + h * 8) * n + col + j * 8 + lane % 4 * 2) = __floats2half2_rn(d[j * 4 + h * 2], d[j * 4 + h * 2 + 1]);
}
CUtensorMap map_of(void* data, long rows, long columns) {
  return matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, rows, columns, 128, 64, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}
struct Shape {
  long m, n, k;
};
TRUTH("pipelines", "warp_roles", {1024, 3072, 5120, 384}, [](long size) {
  const Shape s = size == 5120 ? Shape{512, 5120, 8192} : size == 384 ? Shape{8192, 384, 512} : Shape{size, size, size};
  Array<half> a(s.m * s.k), b(s.n * s.k), c(s.m * s.n);
  fill<half>(a, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  fill<half>(b, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  const CUtensorMap ma = map_of(a.p, s.m, s.k), mb = map_of(b.p, s.n, s.k);
  const int bytes = kDepth * 2 * kTile + 1024;
  cudaFuncSetAttribute(warp_roles, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] { (void)a, (void)b, warp_roles<<<dim3(s.n / 128, s.m / 128), 288, bytes>>>(ma, mb, c.p, int(s.n), int(s.k)); };
});

}  // namespace
