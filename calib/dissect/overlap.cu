// calib/dissect/overlap.cu: what two warpgroups of an SM do to each other: how the tensor cores are shared between them, and what
// products cost beside arithmetic, special functions, shuffles and shared memory.
//
// Each measurement has two warpgroups that start together after a barrier; the cycles of either are reported.
#include "measure.h"

namespace dissect {
namespace {

#define R4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)

/// A product of 64 x 128 x 16; the first operand from shared memory or from registers.
template <bool kRegisters>
__device__ void product(float (&c)[64], uint64_t a, uint64_t b, uint32_t r) {
#define SUMS                                                                                                                    \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"      \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
  if constexpr (kRegisters)
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " SUMS ", {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                 : R16(0), R16(16), R16(32), R16(48) : "r"(r), "r"(r), "r"(r), "r"(r), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " SUMS ", %64, %65, 1, 1, 1, 0, 0;" : R16(0), R16(16), R16(32), R16(48) : "l"(a), "l"(b));
}

template <bool kRegisters, int kDepth>
__device__ float products(uint32_t tile, int rounds) {
  const uint64_t address = (tile & 0x3FFFF) >> 4, a = address | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32, b = a + (2048 >> 4);
  float c[64] = {};
  const uint32_t r = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kDepth; k++) product<kRegisters>(c, a, b, r);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float s = 0;
  for (int k = 0; k < 64; k++) s += c[k];
  return s;
}

enum Work { kNothing, kFma, kLogic, kSpecial, kShuffle, kImad, kPack, kMax, kSharedStore, kHalf, kWide };

/// 64 instructions a round of one kind, eight chains.
template <int kWork>
__device__ float other_work(uint32_t tile, int rounds) {
  float x[8];
  uint32_t u[8];
  for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k, u[k] = threadIdx.x * 77 + k;
  const float y = .999f + rounds * 1e-9f;
  const uint32_t v = rounds | 5, at = tile + threadIdx.x % 128 * 16;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int k = 0; k < 8; k++) {
        if (kWork == kFma) x[k] = x[k] * y + y;
        if (kWork == kLogic) u[k] = (u[k] ^ v) & (u[k] >> 1);
        if (kWork == kSpecial) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]));
        if (kWork == kShuffle) u[k] = __shfl_xor_sync(~0u, u[k], 1 + i);
        if (kWork == kImad) u[k] = u[k] * v + v;
        if (kWork == kMax) x[k] = fmaxf(x[k], x[(k + 1) % 8] );
        if (kWork == kHalf) asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(u[k]) : "r"(v));
        if (kWork == kWide) asm volatile("{ .reg .b64 w;\nmul.wide.u32 w, %0, %1;\nmov.b64 {_, %0}, w; }" : "+r"(u[k]) : "r"(v));
        if (kWork == kPack) asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u[k]) : "f"(x[k]), "f"(__uint_as_float(u[k])));
        if (kWork == kSharedStore) asm volatile("st.shared.f32 [%0], %1;" ::"r"(at + 32768 + k * 2048 % 16384), "f"(x[k]));
      }
  float s = 0;
  for (int k = 0; k < 8; k++) s += x[k] + u[k];
  return s;
}

/// Parts of what attention does with scores: maxima of a thread's two rows (of which ptxas leaves a chain of 16 each in the loop), exponentials, these
/// and their sums; all, with weights as halves and outputs rescaled. Alone the last two would be the same in every round, and be moved out of the loop.
enum Part { kMaxima = 1, kExponentials = 2, kSums = 4, kHalves = 8, kRescale = 16, kSoftmax = 31 };

/// These parts of 64 scores a thread, `rounds` times.
template <int kParts>
__device__ float softmax_work(int rounds) {
  float s[64], o[64], most[2] = {-1e30f, -1e30f}, sum[2] = {}, shift[2], rescale[2] = {1.f, 1.f};
  uint32_t p[32] = {};
  for (int k = 0; k < 64; k++) s[k] = threadIdx.x * .01f + k, o[k] = k;
  const float scale = .1f + rounds * 1e-9f;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = 0; k < 64; k++) asm volatile("" : "+f"(s[k]));
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float top = most[h];
      if (kParts & kMaxima) {
#pragma unroll
        for (int k = 0; k < 64; k += 4) top = fmaxf(top, fmaxf(s[k + 2 * h], s[k + 2 * h + 1]));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(rescale[h]) : "f"(most[h] * scale - top * scale));
        sum[h] *= rescale[h];
      }
      shift[h] = top * scale, most[h] = top;
    }
#pragma unroll
    for (int k = 0; k < 64; k++) {
      if (kParts & (kExponentials | kSums)) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s[k]) : "f"(fmaf(s[k], scale, -shift[k / 2 % 2])));
      if (kParts & kSums) sum[k / 2 % 2] += s[k];
    }
#pragma unroll
    for (int k = 0; k < 32; k++)
      if (kParts & kHalves) asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p[k]) : "f"(s[2 * k + 1]), "f"(s[2 * k]));
#pragma unroll
    for (int k = 0; k < 64; k++)
      if (kParts & kRescale) o[k] *= rescale[k / 2 % 2];
  }
  float all = sum[0] + sum[1] + most[0] + most[1];
  for (int k = 0; k < 64; k++) all += s[k] + (kParts & kRescale ? o[k] : 0.f) + (kParts & kHalves ? p[k / 2] : 0u);
  return all;
}

/// `rounds` of 16 products of 16 x 8 x 16 by one warp's mma.sync, in eight chains of four sums a lane.
__device__ float small_products(int rounds) {
  float c[8][4] = {};
  const uint32_t a = threadIdx.x & 1;
#pragma unroll 1
  for (int i = 0; i < rounds; i++)
#pragma unroll
    for (int k = 0; k < 16; k++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
                   : "+f"(c[k % 8][0]), "+f"(c[k % 8][1]), "+f"(c[k % 8][2]), "+f"(c[k % 8][3]) : "r"(a));
  float s = 0;
  for (int k = 0; k < 8; k++) s += c[k][0] + c[k][1] + c[k][2] + c[k][3];
  return s;
}

/// cycles[0], cycles[1]: of the first and the second warpgroup. The first multiplies; the second multiplies, too, or works, and so do those behind it.
template <int kWork, bool kRegisters, bool kBoth, int kDepth, int kParts = 0, bool kSmall = false>
__global__ void __launch_bounds__(kParts ? 256 : 384) together(long long* cycles, float* sink, int rounds, int other_rounds) {
  extern __shared__ __align__(1024) uint32_t tile[];
  __shared__ long long ends[3];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) tile[i] = 0;
  const uint32_t at = shared_address(tile);
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const long long start = clock_now();
  float s = 0;
  if (threadIdx.x < 128) {
    if (rounds > 0) s = kSmall ? small_products(rounds) : products<kRegisters, kDepth>(at, rounds);
  } else if (kBoth) {
    s = products<kRegisters, kDepth>(at, rounds);
  } else if (kParts) {
    s = softmax_work<kParts>(other_rounds);
  } else {
    s = other_work<kWork>(at, other_rounds);
  }
  const long long end = clock_now();
  if (threadIdx.x % 128 == 0) ends[threadIdx.x / 128] = end - start;
  __syncthreads();
  if (threadIdx.x < 2) cycles[threadIdx.x] = ends[threadIdx.x];
  sink[threadIdx.x] = s;
}

/// Both figures of five launches: names end in .first and .second.
void report_both(const std::string& name, double first_per, double second_per, const char* how, const std::function<void(long long*)>& launch) {
  Buffer<long long> cycles(2);
  std::vector<double> both[2];
  if (predicted()) launch(cycles), both[0] = predicted_cycles(Clock::first_warp, first_per), both[1] = predicted_cycles(Clock::fifth_warp, second_per);
  for (int r = -1; r < (predicted() ? -1 : 5); r++) {
    long long c[2] = {};
    launch(cycles);
    if (cudaMemcpy(c, cycles, sizeof c, cudaMemcpyDeviceToHost) != cudaSuccess) break;
    if (r >= 0) both[0].push_back(double(c[0]) / first_per), both[1].push_back(double(c[1]) / second_per);
  }
  report(name + ".first", both[0], "cycles", how);
  report(name + ".second", both[1], "cycles", how);
}

constexpr size_t kShared = 65536;

template <bool kRegisters, int kDepth>
void measure_shares(float* sink) {
  auto* kernel = together<kNothing, kRegisters, true, kDepth>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  const std::string kind = kRegisters ? "registers" : "shared";
  for (int rounds : {1, 16})
    report_both("overlap.two_groups." + kind + ".depth" + std::to_string(kDepth) + ".rounds" + std::to_string(rounds), rounds, rounds,
                "m64n128k16 by both warpgroups: cycles a round of fence, products, commit, wait", [&](long long* c) { kernel<<<1, 256, kShared>>>(c, sink, rounds, 0); });
}

template <int kWork>
void measure_beside(const char* what, int other_rounds, float* sink) {
  const std::string name = std::string("overlap.") + what;
  const auto each = [&](auto* kernel, const std::string& tail, int rounds) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    report_both(name + tail, std::max(1, rounds) * 16.0, other_rounds * 64.0, "16 products of m64n128k16 a round beside 64 instructions a round: cycles of each",
                [&](long long* c) { kernel<<<1, 256, kShared>>>(c, sink, rounds, other_rounds); });
  };
  each(together<kWork, false, false, 16>, ".alone", 0);
  each(together<kWork, false, false, 16>, ".shared", 32);
  each(together<kWork, true, false, 16>, ".registers", 32);
}

/// Two warps of each sub-core at work beside products, and one or two beside those of mma.sync.
template <int kWork>
void measure_more(const char* what, int other_rounds, float* sink) {
  const auto each = [&](auto* kernel, const std::string& name, int rounds, int threads) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    report_both("overlap." + name + "." + what, std::max(1, rounds) * 16.0, other_rounds * 64.0, "16 products of m64n128k16 (mma: m16n8k16) a round beside 64 instructions a round and warp: cycles of each",
                [&](long long* c) { kernel<<<1, threads, kShared>>>(c, sink, rounds, other_rounds); });
  };
  each(together<kWork, false, false, 16>, "two.alone", 0, 384);
  each(together<kWork, false, false, 16>, "two.shared", 64, 384);
  each(together<kWork, true, false, 16>, "two.registers", 64, 384);
  each(together<kWork, false, false, 16, 0, true>, "mma", 32 * 8, 256);
  each(together<kWork, false, false, 16, 0, true>, "mma_two", 32 * 8, 384);
}

template <int kParts>
void measure_softmax(const char* what, float* sink) {
  const auto each = [&](auto* kernel, const std::string& tail, int rounds) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    report_both(std::string("overlap.softmax.") + what + tail, std::max(1, rounds) * 16.0, 16, "16 products of m64n128k16 a round beside parts of a softmax of 64 values a thread: cycles of a product, of a round of the other",
                [&](long long* c) { kernel<<<1, 256, kShared>>>(c, sink, rounds, 16); });
  };
  each(together<kNothing, false, false, 16, kParts>, ".alone", 0);
  each(together<kNothing, false, false, 16, kParts>, ".shared", 32);
  each(together<kNothing, true, false, 16, kParts>, ".registers", 32);
}

/// What a consumer of attention does between two groups of products: `work` rounds of one kind, by both warpgroups.
template <int kWork>
__global__ void __launch_bounds__(256) alternate(long long* cycles, float* sink, int rounds, int depth, int work) {
  extern __shared__ __align__(1024) uint32_t tile[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) tile[i] = 0;
  const uint32_t at = shared_address(tile);
  const uint64_t address = (at & 0x3FFFF) >> 4, a = address | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32, b = a + (2048 >> 4);
  asm volatile("fence.proxy.async;" ::: "memory");
  float c[64] = {}, x[8];
  for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 8; k++)
      if (k < depth) product<false>(c, a, b, 0);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll 1
    for (int w = 0; w < work; w++)
#pragma unroll
      for (int k = 0; k < 64; k++) {
        if (kWork == kFma) x[k % 8] = x[k % 8] * 1.5f + c[k];
        if (kWork == kSpecial) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k % 8]));
      }
  }
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  float s = 0;
  for (int k = 0; k < 64; k++) s += c[k];
  for (int k = 0; k < 8; k++) s += x[k];
  sink[threadIdx.x] = s;
}

template <int kWork>
void measure_alternate(const char* what, float* sink) {
  auto* kernel = alternate<kWork>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  for (int groups : {1, 2})
    for (int depth : {4, 8})
      for (int work : {1, 2, 4, 8})
        report("overlap.alternate." + std::string(what) + ".groups" + std::to_string(groups) + ".depth" + std::to_string(depth) + ".work" + std::to_string(work),
               cycles_of(5, 64, [&](long long* c) { kernel<<<1, 128 * groups, kShared>>>(c, sink, 64, depth, work); }), "cycles",
               "a round of products of m64n128k16, wait, and work of 64 instructions each, by one or two warpgroups");
}

}  // namespace

void measure_overlap() {
  Buffer<float> sink(1024);
  measure_shares<false, 1>(sink), measure_shares<false, 4>(sink), measure_shares<false, 8>(sink), measure_shares<false, 16>(sink);
  measure_shares<true, 4>(sink), measure_shares<true, 16>(sink);
  measure_beside<kNothing>("nothing", 64, sink);
  measure_beside<kFma>("fma", 256, sink);
  measure_beside<kLogic>("logic", 128, sink);
  measure_beside<kImad>("imad", 128, sink);
  measure_beside<kSpecial>("special", 64, sink);
  measure_beside<kMax>("max", 128, sink);
  measure_beside<kPack>("pack", 128, sink);
  measure_beside<kShuffle>("shuffle", 128, sink);
  measure_beside<kSharedStore>("store4", 128, sink);
  measure_beside<kHalf>("half", 128, sink);
  measure_beside<kWide>("wide", 64, sink);
  measure_more<kNothing>("nothing", 64, sink);
  measure_more<kFma>("fma", 128, sink);
  measure_more<kLogic>("logic", 128, sink);
  measure_more<kImad>("imad", 128, sink);
  measure_more<kSpecial>("special", 64, sink);
  measure_more<kMax>("max", 128, sink);
  measure_more<kHalf>("half", 128, sink);
  measure_softmax<kMaxima>("maxima", sink);
  measure_softmax<kExponentials>("exponentials", sink);
  measure_softmax<kSums>("sums", sink);
  measure_softmax<kSoftmax>("all", sink);
  measure_alternate<kFma>("fma", sink);
  measure_alternate<kSpecial>("special", sink);
}

}  // namespace dissect
