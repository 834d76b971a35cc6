// calib/truth/tensor.cu: tensor cores by wmma and mma.sync; wgmma and TMA through the kernel library (-DTRUTH_LIBRARY).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>

#include "truth.h"
#ifdef TRUTH_LIBRARY
#include "orrery/kernels.h"
#endif

namespace {
using namespace truth;

__global__ void wmma_gemm(const half* a, const half* b, float* c, int n) {  // 64 x 64 a block, from global memory
  using namespace nvcuda;
  const int warp = threadIdx.x / 32, row = blockIdx.y * 64 + warp / 2 * 32, col = blockIdx.x * 64 + warp % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (auto& line : acc)
    for (auto& f : line) wmma::fill_fragment(f, 0.f);
  for (int k = 0; k < n; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
    for (int i = 0; i < 2; i++) wmma::load_matrix_sync(fa[i], a + long(row + i * 16) * n + k, n), wmma::load_matrix_sync(fb[i], b + long(k) * n + col + i * 16, n);
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) wmma::store_matrix_sync(c + long(row + i * 16) * n + col + j * 16, acc[i][j], n, wmma::mem_row_major);
}

__device__ uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ void copy16(uint32_t to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)); }
__device__ void load4(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// C = A B' in blocks of 128 x 128, k in steps of 32, three stages of cp.async; rows of 64 bytes swizzled by 16-byte column.
constexpr int kStages = 3;
__global__ void __launch_bounds__(256) mma_gemm(const half* a, const half* b, float* c, int n) {
  __shared__ __align__(128) half as[kStages][128 * 32];
  __shared__ __align__(128) half bs[kStages][128 * 32];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 128, col = blockIdx.x * 128;
  const int wr = warp / 4 * 64, wc = warp % 4 * 32;
  const auto place = [](int r, int q) { return (r * 4 + (q ^ (r >> 1 & 3))) * 16; };
  const auto fetch = [&](int stage, int k) {
    for (int i = 0; i < 2; i++) {
      const int r = t / 4 + i * 64, q = t % 4;
      copy16(smem(as[stage]) + place(r, q), a + long(row + r) * n + k + q * 8);
      copy16(smem(bs[stage]) + place(r, q), b + long(col + r) * n + k + q * 8);
    }
  };
  float acc[4][4][4] = {};
  for (int s = 0; s < kStages - 1; s++) {
    fetch(s, s * 32);
    asm volatile("cp.async.commit_group;");
  }
  const int steps = n / 32;
  for (int s = 0; s < steps; s++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
    __syncthreads();
    if (s + kStages - 1 < steps) fetch((s + kStages - 1) % kStages, (s + kStages - 1) * 32);
    asm volatile("cp.async.commit_group;");
    const uint32_t sa = smem(as[s % kStages]), sb = smem(bs[s % kStages]);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      uint32_t fa[4][4], fb[2][4];
#pragma unroll
      for (int i = 0; i < 4; i++) load4(fa[i], sa + place(wr + i * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 2; j++) load4(fb[j], sb + place(wc + j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) multiply(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float* to = c + long(row + wr + i * 16 + lane / 4) * n + col + wc + j * 8 + lane % 4 * 2;
      *(float2*)to = make_float2(acc[i][j][0], acc[i][j][1]);
      *(float2*)(to + 8 * n) = make_float2(acc[i][j][2], acc[i][j][3]);
    }
}

Array<half> halves(size_t n) {
  Array<half> a(n);
  fill<half>(a, [](size_t, Random& r) { return __float2half(r.unit() - .5f); });
  return a;
}
TRUTH("tensor", "wmma_gemm", {512, 2048}, [](long n) {
  auto a = halves(n * n), b = halves(n * n);
  auto c = zeros<float>(n * n);
  return [=] { wmma_gemm<<<dim3(n / 64, n / 64), 128>>>(a, b, c, int(n)); };
});
TRUTH("tensor", "mma_gemm", {512, 1024, 2048, 4096, 8192}, [](long n) {
  auto a = halves(n * n), b = halves(n * n);
  auto c = zeros<float>(n * n);
  return [=] { mma_gemm<<<dim3(n / 128, n / 128), 256>>>(a, b, c, int(n)); };
});

#ifdef TRUTH_LIBRARY
namespace ok = orrery::kernels;

void check(const ok::Status& s) {
  if (!s.ok()) std::fprintf(stderr, "truth: %s: %s\n", s.argument ? s.argument : "", s.reason), std::exit(1);
}
Launch library_gemm(long m, long n, long k, ok::GemmConfig config) {
  auto a = halves(m * k), b = halves(n * k), d = halves(m * n);
  ok::GemmArgs g;
  g.m = m, g.n = n, g.k = k;
  g.a = {a.p, ok::DType::kF16, k, 1}, g.b = {b.p, ok::DType::kF16, 1, k}, g.d = {d.p, ok::DType::kF16, n, 1};
  g.config = config;
  return [=] {
    (void)a, (void)b, (void)d;
    check(ok::gemm(g, 0));
  };
}
Launch attention(long seq, long dim, bool causal) {
  const long heads = 16;
  auto q = halves(seq * heads * dim), k = halves(seq * heads * dim), v = halves(seq * heads * dim), o = halves(seq * heads * dim);
  ok::AttentionArgs g;
  g.q = q.p, g.k = k.p, g.v = v.p, g.out = o.p, g.dtype = ok::DType::kF16;
  g.batch = 1, g.heads = g.kv_heads = heads, g.seq_q = g.seq_k = seq, g.dim = dim, g.causal = causal;
  g.q_strides = g.k_strides = g.v_strides = g.out_strides = {seq * heads * dim, heads * dim, dim};
  return [=] {
    (void)q, (void)k, (void)v, (void)o;
    check(ok::attention_forward(g, 0));
  };
}
TRUTH("wgmma", "library_gemm", {512, 1024, 2048, 4096, 8192}, [](long n) { return library_gemm(n, n, n, {}); });
TRUTH("wgmma", "library_gemm_wide", {64, 256, 1024}, [](long m) { return library_gemm(m, 4096, 14336, {}); });
TRUTH("wgmma", "library_gemm_shallow", {128, 512}, [](long k) { return library_gemm(8192, 8192, k, {}); });
TRUTH("wgmma", "library_gemm_pingpong", {1024, 4096}, [](long n) {
  ok::GemmConfig c;
  c.schedule = ok::GemmConfig::Schedule::kPingPong, c.tile_m = 64, c.tile_n = 256;
  return library_gemm(n, n, n, c);
});
TRUTH("attention", "attention_full_128", {1024, 4096, 16384}, [](long s) { return attention(s, 128, false); });
TRUTH("attention", "attention_causal_64", {1024, 4096, 16384}, [](long s) { return attention(s, 64, true); });
TRUTH("library", "rmsnorm", {1024, 16384}, [](long rows) {
  auto x = halves(rows * 4096), g = halves(4096), o = halves(rows * 4096);
  return [=] { check(ok::rmsnorm(o.p, nullptr, x.p, nullptr, g.p, 1e-5f, ok::DType::kF16, rows, 4096, 4096, 0)); };
});
TRUTH("library", "softmax", {1024, 16384}, [](long rows) {
  auto x = halves(rows * 4096), o = halves(rows * 4096);
  return [=] { check(ok::softmax(o.p, x.p, ok::DType::kF16, rows, 4096, 4096, 0)); };
});
TRUTH("library", "transpose", {2048, 8192}, [](long n) {
  auto x = halves(n * n), o = halves(n * n);
  return [=] { check(ok::transpose(o.p, x.p, 2, n, n, n, n, 0)); };
});
TRUTH("library", "rotary", {1024, 16384}, [](long tokens) {
  auto x = halves(tokens * 32 * 128);
  auto c = uniform<float>(tokens * 64), s = uniform<float>(tokens * 64);
  return [=] { check(ok::rotary(x.p, c, s, ok::DType::kF16, tokens, 32, 128, 0)); };
});
#endif

}  // namespace
