// calib/held-out/layers.cu: layers of networks as their training and serving programs hold them: products with cp.async and ldmatrix, by
// wgmma in one group of warps, split in depth; attention with mma.sync and out of pages; losses, optimisers, conversions, routing.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "../dissect/tensor_map.h"
#include "../truth/truth.h"
#include "products.h"

namespace {
using namespace truth;

__device__ uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ void copy16(uint32_t to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory"); }
__device__ void load4(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ void load4_turned(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ uint32_t pack(float x, float y) {
  const half2 h = __floats2half2_rn(x, y);
  return *(const uint32_t*)&h;
}
template <class T, class F>
__device__ T across_warp(T v, F f) {
  for (int d = 16; d > 0; d /= 2) v = f(v, __shfl_xor_sync(~0u, v, d));
  return v;
}
Array<half> halves(long n) {
  Array<half> a(n);
  fill<half>(a, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  return a;
}

/// y = W x for many matrices of 128 x 128 floats stored by columns: a block each, a thread a row.
__global__ void batched_gemv(const float* w, const float* x, float* y) {
  __shared__ float xs[128];
  xs[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  const float* m = w + blockIdx.x * 16384l;
  float sum = 0;
#pragma unroll 8
  for (int j = 0; j < 128; j++) sum += m[j * 128 + threadIdx.x] * xs[j];
  y[blockIdx.x * 128 + threadIdx.x] = sum;
}
TRUTH("layers", "batched_gemv", {512, 16384}, [](long n) {
  auto w = uniform<float>(n * 16384), x = uniform<float>(n * 128), y = zeros<float>(n * 128);
  return [=] { batched_gemv<<<int(n), 128>>>(w, x, y); };
});

/// C = A B' of halves: 128 x 128 x 32, four stages by cp.async, swizzled, ldmatrix, eight warps of 64 x 32.
__global__ void __launch_bounds__(256) gemm_ldmatrix(const half* a, const half* b, half* c, int n) {
  extern __shared__ __align__(128) char raw[];
  constexpr int kStages = 4, kBytes = 128 * 64;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, wm = warp / 4 * 64, wn = warp % 4 * 32;
  const uint32_t room = smem(raw);
  const auto place = [](int row, int chunk) { return uint32_t(row * 64 + ((chunk ^ (row >> 1)) & 3) * 16); };
  const auto fetch = [&](int step) {
    if (step * 32 < n)
      for (int i = t; i < 512; i += 256) {
        const uint32_t to = room + step % kStages * 2 * kBytes + place(i / 4, i % 4);
        copy16(to, a + (blockIdx.y * 128l + i / 4) * n + step * 32 + i % 4 * 8);
        copy16(to + kBytes, b + (blockIdx.x * 128l + i / 4) * n + step * 32 + i % 4 * 8);
      }
    commit();
  };
  float sum[4][4][4] = {};
  for (int s = 0; s < kStages - 1; s++) fetch(s);
  for (int step = 0; step < n / 32; step++) {
    wait_copies<kStages - 2>();
    __syncthreads();
    fetch(step + kStages - 1);
    const uint32_t as = room + step % kStages * 2 * kBytes, bs = as + kBytes;
#pragma unroll
    for (int k = 0; k < 2; k++) {
      uint32_t fa[4][4], fb[2][4];
#pragma unroll
      for (int i = 0; i < 4; i++) load4(fa[i], as + place(wm + i * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 2; j++) load4(fb[j], bs + place(wn + j * 16 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) multiply(sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (int h = 0; h < 2; h++)
        *(half2*)(c + (blockIdx.y * 128l + wm + i * 16 + lane / 4 + h * 8) * n + blockIdx.x * 128 + wn + j * 8 + lane % 4 * 2) =
            __floats2half2_rn(sum[i][j][h * 2], sum[i][j][h * 2 + 1]);
}
TRUTH("layers", "gemm_ldmatrix", {1024, 4096}, [](long n) {
  auto a = halves(n * n), b = halves(n * n), c = halves(n * n);
  cudaFuncSetAttribute(gemm_ldmatrix, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  return [=] { gemm_ldmatrix<<<dim3(n / 128, n / 128), 256, 65536>>>(a, b, c, int(n)); };
});

/// C += A B of floats with 64 rows of A: blocks of 64 x 64, each 512 deep, added up by atomics.
__global__ void __launch_bounds__(256) split_depth(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float as[16][65], bs[16][64];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  float sum[4][4] = {};
  for (int k0 = blockIdx.y * 512; k0 < int(blockIdx.y) * 512 + 512; k0 += 16) {
    for (int i = t; i < 1024; i += 256) {
      as[i % 16][i / 16] = a[long(i / 16) * k + k0 + i % 16];
      bs[i / 64][i % 64] = b[(k0 + i / 64) * long(n) + blockIdx.x * 64 + i % 64];
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; kk++) {
      float ra[4], rb[4];
      for (int i = 0; i < 4; i++) ra[i] = as[kk][ty * 4 + i], rb[i] = bs[kk][tx * 4 + i];
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] += ra[i] * rb[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) atomicAdd(&c[long(ty * 4 + i) * n + blockIdx.x * 64 + tx * 4 + j], sum[i][j]);
}
TRUTH("layers", "split_depth", {1024, 4096}, [](long n) {
  auto a = uniform<float>(64 * n), b = uniform<float>(n * n), c = zeros<float>(64 * n);
  return [=] { split_depth<<<dim3(n / 64, n / 512), 256>>>(a, b, c, int(n), int(n)); };
});

/// C = A B' of halves by wgmma: 128 x 128 x 64, three stages by tensor copies, two groups of warps that also issue them.
constexpr int kDepth = 3, kTile = 128 * 64 * 2;
__global__ void __launch_bounds__(256) wgmma_tiles(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, half* c, int n) {
  extern __shared__ char raw[];
  __shared__ uint64_t full[kDepth];
  const uint32_t room = (smem(raw) + 1023) / 1024 * 1024;
  if (threadIdx.x == 0)
    for (auto& f : full) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&f)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const int steps = n / 64, row = blockIdx.y * 128, column = blockIdx.x * 128, group = threadIdx.x / 128;
  const auto fetch = [&](int i) {
    const uint32_t bar = smem(&full[i % kDepth]), to = room + i % kDepth * 2 * kTile;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2 * kTile) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&ma), "r"(i * 64), "r"(row), "r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to + kTile), "l"(&mb), "r"(i * 64), "r"(column), "r"(bar) : "memory");
  };
  if (threadIdx.x == 0)
    for (int i = 0; i < kDepth - 1; i++) fetch(i);
  float d[64];
  for (float& v : d) v = 0;
  for (int i = 0; i < steps; i++) {
    const uint32_t a = room + i % kDepth * 2 * kTile + group * (kTile / 2), b = room + i % kDepth * 2 * kTile + kTile;
    if (threadIdx.x == 0 && i + kDepth - 1 < steps) fetch(i + kDepth - 1);
    asm volatile("{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(&full[i % kDepth])), "r"(uint32_t(i / kDepth & 1)) : "memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int j = 0; j < 4; j++) product(d, descriptor(a + j * 32), descriptor(b + j * 32));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  for (int j = 0; j < 16; j++)
    for (int h = 0; h < 2; h++)
      *(half2*)(c + long(row + group * 64 + warp * 16 + lane / 4 + h * 8) * n + column + j * 8 + lane % 4 * 2) = __floats2half2_rn(d[j * 4 + h * 2], d[j * 4 + h * 2 + 1]);
}
TRUTH("layers", "wgmma_tiles", {1024, 4096}, [](long n) {
  auto a = halves(n * n), b = halves(n * n), c = halves(n * n);
  const auto map = [&](half* p) { return matrix_map(p, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, n, n, 128, 64, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B); };
  const CUtensorMap ma = map(a.p), mb = map(b.p);
  const int bytes = kDepth * 2 * kTile + 1024;
  cudaFuncSetAttribute(wgmma_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] { (void)a, (void)b, wgmma_tiles<<<dim3(n / 128, n / 128), 256, bytes>>>(ma, mb, c.p, int(n)); };
});

/// Attention forward, 16 heads of 64: blocks of 64 queries, four warps, keys and values 64 at a time by cp.async, mma.sync.
__global__ void __launch_bounds__(128) flash_mma(const half* q, const half* k, const half* v, half* out, int tokens) {
  __shared__ __align__(128) half qs[64 * 72], ks[2][64 * 72], vs[64 * 72];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const long head = blockIdx.y * long(tokens) * 64;
  const auto fetch = [&](half* to, const half* from) {
    for (int i = t; i < 512; i += 128) copy16(smem(to + i / 8 * 72 + i % 8 * 8), from + i * 8);
    commit();
  };
  fetch(qs, q + head + blockIdx.x * 4096l);
  fetch(ks[0], k + head);
  wait_copies<1>();
  __syncthreads();
  uint32_t fq[4][4];
#pragma unroll
  for (int i = 0; i < 4; i++) load4(fq[i], smem(qs + (warp * 16 + lane % 16) * 72 + i * 16 + lane / 16 * 8));
  float sum[8][4] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {};
  for (int at = 0, which = 0; at < tokens; at += 64, which ^= 1) {
    __syncthreads();
    fetch(vs, v + head + at * 64l);
    wait_copies<1>();
    __syncthreads();
    float s[8][4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        uint32_t fk[4];
        load4(fk, smem(ks[which] + (j * 16 + lane / 16 * 8 + lane % 8) * 72 + i * 16 + lane / 8 % 2 * 8));
        multiply(s[j * 2], fq[i], fk[0], fk[1]), multiply(s[j * 2 + 1], fq[i], fk[2], fk[3]);
      }
    if (at + 64 < tokens) fetch(ks[which ^ 1], k + head + (at + 64) * 64l);
    else commit();
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float best = most[h];
#pragma unroll
      for (int j = 0; j < 8; j++) best = fmaxf(best, fmaxf(s[j][h * 2], s[j][h * 2 + 1]) * .18033688f);
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 1)), best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
      const float scale = exp2f(most[h] - best);
      most[h] = best, total[h] *= scale;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        sum[j][h * 2] *= scale, sum[j][h * 2 + 1] *= scale;
        s[j][h * 2] = exp2f(s[j][h * 2] * .18033688f - best), s[j][h * 2 + 1] = exp2f(s[j][h * 2 + 1] * .18033688f - best);
        total[h] += s[j][h * 2] + s[j][h * 2 + 1];
      }
    }
    wait_copies<1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t fp[4] = {pack(s[i * 2][0], s[i * 2][1]), pack(s[i * 2][2], s[i * 2][3]), pack(s[i * 2 + 1][0], s[i * 2 + 1][1]), pack(s[i * 2 + 1][2], s[i * 2 + 1][3])};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        uint32_t fv[4];
        load4_turned(fv, smem(vs + (i * 16 + lane % 16) * 72 + j * 16 + lane / 16 * 8));
        multiply(sum[j * 2], fp, fv[0], fv[1]), multiply(sum[j * 2 + 1], fp, fv[2], fv[3]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    total[h] += __shfl_xor_sync(~0u, total[h], 1), total[h] += __shfl_xor_sync(~0u, total[h], 2);
    for (int j = 0; j < 8; j++)
      *(half2*)(out + head + (blockIdx.x * 64l + warp * 16 + lane / 4 + h * 8) * 64 + j * 8 + lane % 4 * 2) =
          __floats2half2_rn(sum[j][h * 2] / total[h], sum[j][h * 2 + 1] / total[h]);
  }
}
TRUTH("layers", "flash_mma", {1024, 4096}, [](long tokens) {
  auto q = halves(tokens * 1024), k = halves(tokens * 1024), v = halves(tokens * 1024), o = halves(tokens * 1024);
  return [=] { flash_mma<<<dim3(tokens / 64, 16), 128>>>(q, k, v, o, int(tokens)); };
});

/// Attention of one new token of 32 sequences, 8 heads of 128, keys and values in pages of 16 tokens.
__global__ void __launch_bounds__(128) paged_decode(const half* q, const half* keys, const half* values, const int* table, half* out, int tokens) {
  extern __shared__ float score[];
  __shared__ float room[4];
  const int sequence = blockIdx.x, head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, pages = tokens / 16;
  const half2* mine = (const half2*)(q + (sequence * 8l + head) * 128 + lane * 4);
  const float2 q0 = __half22float2(mine[0]), q1 = __half22float2(mine[1]);
  float most = -1e30f;
  for (int i = warp; i < tokens; i += 4) {
    const long page = table[sequence * pages + i / 16];
    const uint2 raw = *(const uint2*)(keys + ((page * 8 + head) * 16 + i % 16) * 128 + lane * 4);
    const float2 k0 = __half22float2(*(const half2*)&raw.x), k1 = __half22float2(*(const half2*)&raw.y);
    const float s = across_warp(q0.x * k0.x + q0.y * k0.y + q1.x * k1.x + q1.y * k1.y, [](float x, float y) { return x + y; }) * .0883883f;
    if (lane == 0) score[i] = s;
    most = fmaxf(most, s);
  }
  if (lane == 0) room[warp] = most;
  __syncthreads();
  most = fmaxf(fmaxf(room[0], room[1]), fmaxf(room[2], room[3]));
  __syncthreads();
  float total = 0;
  for (int i = threadIdx.x; i < tokens; i += 128) total += score[i] = __expf(score[i] - most);
  total = across_warp(total, [](float x, float y) { return x + y; });
  if (lane == 0) room[warp] = total;
  __syncthreads();
  total = room[0] + room[1] + room[2] + room[3];
  float sum = 0;
  for (int page = 0; page < pages; page++) {
    const half* from = values + (long(table[sequence * pages + page]) * 8 + head) * 2048 + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 16; i++) sum += score[page * 16 + i] * __half2float(from[i * 128]);
  }
  out[(sequence * 8l + head) * 128 + threadIdx.x] = __float2half(sum / total);
}
TRUTH("layers", "paged_decode", {512, 4096}, [](long tokens) {
  const long pages = 32 * tokens / 16;
  auto q = halves(32 * 1024), k = halves(pages * 16384), v = halves(pages * 16384), o = halves(32 * 1024);
  Random r;
  std::vector<int> host(pages);
  for (long i = 0; i < pages; i++) host[i] = int(i);
  for (long i = pages - 1; i > 0; i--) std::swap(host[i], host[r.next() % (i + 1)]);
  auto table = upload(host);
  return [=] { paged_decode<<<dim3(32, 8), 128, tokens * 4>>>(q, k, v, table, o, int(tokens)); };
});

/// Cross entropy of rows of 32,000 bf16 and its gradient in place of them: a block of 512 a row, eight at a time.
__global__ void __launch_bounds__(512) cross_entropy(__nv_bfloat16* logits, const int* labels, float* loss, int words, float scale) {
  __shared__ float2 room[16];
  uint4* row = (uint4*)(logits + long(blockIdx.x) * words);
  float most = -1e30f, total = 0;
  for (int i = threadIdx.x; i < words / 8; i += 512) {
    const uint4 raw = row[i];
    const __nv_bfloat162* p = (const __nv_bfloat162*)&raw;
    float2 v[4];
    float best = most;
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = __bfloat1622float2(p[k]), best = fmaxf(best, fmaxf(v[k].x, v[k].y));
    total *= __expf(most - best);
#pragma unroll
    for (int k = 0; k < 4; k++) total += __expf(v[k].x - best) + __expf(v[k].y - best);
    most = best;
  }
  const auto join = [](float2 a, float2 b) {
    const float m = fmaxf(a.x, b.x);
    return make_float2(m, a.y * __expf(a.x - m) + b.y * __expf(b.x - m));
  };
  float2 mine = make_float2(most, total);
  for (int d = 16; d > 0; d /= 2) mine = join(mine, make_float2(__shfl_xor_sync(~0u, mine.x, d), __shfl_xor_sync(~0u, mine.y, d)));
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = room[0];
  for (int i = 1; i < 16; i++) mine = join(mine, room[i]);
  const int label = labels[blockIdx.x];
  if (threadIdx.x == 0) loss[blockIdx.x] = mine.x + __logf(mine.y) - __bfloat162float(logits[long(blockIdx.x) * words + label]);
  __syncthreads();
  const float inverse = scale / mine.y;
  for (int i = threadIdx.x; i < words / 8; i += 512) {
    uint4 raw = row[i];
    __nv_bfloat162* p = (__nv_bfloat162*)&raw;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float2 v = __bfloat1622float2(p[k]);
      v.x = __expf(v.x - mine.x) * inverse - (i * 8 + k * 2 == label ? scale : 0);
      v.y = __expf(v.y - mine.x) * inverse - (i * 8 + k * 2 + 1 == label ? scale : 0);
      p[k] = __float22bfloat162_rn(v);
    }
    row[i] = raw;
  }
}
TRUTH("layers", "cross_entropy", {256, 4096}, [](long rows) {
  Array<__nv_bfloat16> logits(rows * 32000);
  fill<__nv_bfloat16>(logits, [](size_t, Random& r) { return __float2bfloat16(r.unit() * 8); });
  auto labels = indices(rows, 32000);
  auto loss = zeros<float>(rows);
  return [=] { cross_entropy<<<int(rows), 512>>>(logits, (const int*)labels.p, loss, 32000, 1.f / rows); };
});

/// A step of Adam: parameters, gradients and both moments as floats, an element a thread.
__global__ void adam_step(float* p, const float* g, float* m, float* v, float rate, float b1, float b2, float c1, float c2, float decay, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float grad = g[i], first = b1 * m[i] + (1 - b1) * grad, second = b2 * v[i] + (1 - b2) * grad * grad;
  m[i] = first, v[i] = second;
  p[i] -= rate * (first / c1 / (sqrtf(second / c2) + 1e-8f) + decay * p[i]);
}
TRUTH("layers", "adam_step", {1 << 19, 1 << 24}, [](long n) {
  auto p = uniform<float>(n), g = uniform<float>(n), m = uniform<float>(n), v = uniform<float>(n);
  return [=] { adam_step<<<blocks_for(n, 256), 256>>>(p, g, m, v, 1e-3f, .9f, .999f, .1f, .001f, .01f, n); };
});

/// Bias, GELU (by erf) and dropout of rows of 4096 halves, two at a time; the mask is kept as bytes.
__device__ uint32_t mixed(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}
__global__ void bias_gelu_dropout(const half2* in, const half2* bias, half2* out, uchar2* mask, uint32_t seed, uint32_t keep, float scale, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
    float2 v = __half22float2(__hadd2(in[i], bias[i % 2048]));
    v.x = .5f * v.x * (1 + erff(v.x * .70710678f)), v.y = .5f * v.y * (1 + erff(v.y * .70710678f));
    const bool kx = mixed(uint32_t(i) * 2 + seed) < keep, ky = mixed(uint32_t(i) * 2 + 1 + seed) < keep;
    out[i] = __floats2half2_rn(kx ? v.x * scale : 0, ky ? v.y * scale : 0);
    mask[i] = make_uchar2(kx, ky);
  }
}
TRUTH("layers", "bias_gelu_dropout", {256, 8192}, [](long rows) {
  const long n = rows * 2048;
  auto in = halves(n * 2), bias = halves(4096), out = halves(n * 2);
  auto mask = zeros<uint8_t>(n * 2);
  return [=] { bias_gelu_dropout<<<int(std::min(blocks_for(n, 256), 132 * 16)), 256>>>((const half2*)in.p, (const half2*)bias.p, (half2*)out.p, (uchar2*)mask.p, 77, 3865470566u, 1.f / .9f, n); };
});

/// y = W x with weights of four bits, a scale of half precision to 128 of them; a warp a row of 4096, x in shared memory.
__global__ void __launch_bounds__(256) gemv_int4(const uint4* w, const half* scales, const half* x, half* y) {
  __shared__ __align__(16) half xs[4096];
  for (int i = threadIdx.x; i < 512; i += 256) ((uint4*)xs)[i] = ((const uint4*)x)[i];
  __syncthreads();
  const long row = blockIdx.x * 8l + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  float sum = 0;
#pragma unroll
  for (int step = 0; step < 4; step++) {
    const uint4 raw = w[row * 128 + step * 32 + lane];
    const uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
    const half* from = xs + (step * 32 + lane) * 32;
    float part = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const float2 v = __half22float2(*(const half2*)(from + k * 8 + i));
        part += v.x * float(int(word[k] >> (i * 4) & 15) - 8) + v.y * float(int(word[k] >> (i * 4 + 4) & 15) - 8);
      }
    sum += part * __half2float(scales[row * 32 + step * 8 + lane / 4]);
  }
  sum = across_warp(sum, [](float a, float b) { return a + b; });
  if (lane == 0) y[row] = __float2half(sum);
}
TRUTH("layers", "gemv_int4", {4096, 65536}, [](long rows) {
  Array<uint32_t> w(rows * 512);
  fill<uint32_t>(w, [](size_t, Random& r) { return r.next(); });
  auto s = halves(rows * 32), x = halves(4096), y = halves(rows);
  return [=] { gemv_int4<<<int(rows / 8), 256>>>((const uint4*)w.p, s, x, y); };
});

/// Rows of 4096 bf16 to FP8 with a scale each: a block of 256 a row, 16 values a thread kept in registers.
__global__ void __launch_bounds__(256) to_fp8(const uint4* in, uint2* out, float* scales) {
  __shared__ float room[8];
  uint4 raw[2];
  float most = 0;
#pragma unroll
  for (int k = 0; k < 2; k++) {
    raw[k] = in[blockIdx.x * 512l + k * 256 + threadIdx.x];
    const __nv_bfloat162* p = (const __nv_bfloat162*)&raw[k];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 v = __bfloat1622float2(p[i]);
      most = fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y)));
    }
  }
  most = across_warp(most, [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = most;
  __syncthreads();
  for (float v : room) most = fmaxf(most, v);
  const float scale = 448.f / fmaxf(most, 1e-12f);
  if (threadIdx.x == 0) scales[blockIdx.x] = 1 / scale;
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const __nv_bfloat162* p = (const __nv_bfloat162*)&raw[k];
    __nv_fp8x2_storage_t done[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 v = __bfloat1622float2(p[i]);
      done[i] = __nv_cvt_float2_to_fp8x2(make_float2(v.x * scale, v.y * scale), __NV_SATFINITE, __NV_E4M3);
    }
    out[blockIdx.x * 512l + k * 256 + threadIdx.x] = make_uint2(done[0] | uint32_t(done[1]) << 16, done[2] | uint32_t(done[3]) << 16);
  }
}
TRUTH("layers", "to_fp8", {512, 16384}, [](long rows) {
  Array<__nv_bfloat16> in(rows * 4096);
  fill<__nv_bfloat16>(in, [](size_t, Random& r) { return __float2bfloat16(r.unit() - .5f); });
  auto out = zeros<uint8_t>(rows * 4096);
  auto scales = zeros<float>(rows);
  return [=] { to_fp8<<<int(rows), 256>>>((const uint4*)in.p, (uint2*)out.p, scales); };
});

/// Columns of 3 x 3 patches (im2col) of 32 channels: an element a thread.
__global__ void im2col(const float* in, float* out, int channels, int size) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x, plane = long(size) * size;
  if (i >= channels * 9 * plane) return;
  const int x = int(i % size), y = int(i / size % size), k = int(i / plane), c = k / 9, px = x + k % 3 - 1, py = y + k / 3 % 3 - 1;
  out[i] = px >= 0 && px < size && py >= 0 && py < size ? in[c * plane + long(py) * size + px] : 0;
}
TRUTH("layers", "im2col", {112, 448}, [](long n) {
  auto in = uniform<float>(32 * n * n), out = zeros<float>(288 * n * n);
  return [=] { im2col<<<blocks_for(288 * n * n, 256), 256>>>(in, out, 32, int(n)); };
});

/// [token][head][64] to [head][token][64] of halves, 16 bytes a thread.
__global__ void permute_heads(const uint4* in, uint4* out, int tokens, int heads) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  const int piece = int(i % 8), head = int(i / 8 % heads), token = int(i / 8 / heads);
  if (token < tokens) out[(long(head) * tokens + token) * 8 + piece] = in[i];
}
TRUTH("layers", "permute_heads", {1024, 32768}, [](long tokens) {
  auto in = halves(tokens * 2048), out = halves(tokens * 2048);
  return [=] { permute_heads<<<blocks_for(tokens * 256, 256), 256>>>((const uint4*)in.p, (uint4*)out.p, int(tokens), 32); };
});

/// The two best of 64 experts for each token with their weights, and how many tokens each gets: a warp a token.
__global__ void route_tokens(const float* scores, int* chosen, float* weight, int* count, int tokens) {
  const int token = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (token >= tokens) return;
  float a = scores[token * 64l + lane], b = scores[token * 64l + lane + 32];
  const float most = across_warp(fmaxf(a, b), [](float x, float y) { return fmaxf(x, y); });
  a = __expf(a - most), b = __expf(b - most);
  const float total = across_warp(a + b, [](float x, float y) { return x + y; });
  for (int k = 0; k < 2; k++) {
    float best = fmaxf(a, b);
    int where = a >= b ? lane : lane + 32;
    for (int d = 16; d > 0; d /= 2) {
      const float other = __shfl_xor_sync(~0u, best, d);
      const int there = __shfl_xor_sync(~0u, where, d);
      if (other > best || (other == best && there < where)) best = other, where = there;
    }
    if (lane == 0) chosen[token * 2 + k] = where, weight[token * 2 + k] = best / total, atomicAdd(&count[where], 1);
    if (where == lane) a = 0;
    if (where == lane + 32) b = 0;
  }
}
TRUTH("layers", "route_tokens", {4096, 262144}, [](long tokens) {
  auto s = uniform<float>(tokens * 64), w = zeros<float>(tokens * 2);
  auto c = zeros<int>(tokens * 2), count = zeros<int>(64);
  return [=] { route_tokens<<<int(tokens / 8), 256>>>(s, c, w, count, int(tokens)); };
});
}  // namespace
