// calib/dissect/instructions.cu: latency and issue interval of instruction classes.
//
// Latency: one warp, a chain of dependent instructions, unrolled 64 times, timed by the SM's clock. Throughput: 4, 16
// and 32 warps on one SM, each with 8 independent chains; reported as instructions a cycle and SM (warp instructions).
// The PTX instruction is what is named; ptxas may lower it to several machine instructions (the disassembly decides).
#include "measure.h"

namespace dissect {
namespace {

constexpr int kUnroll = 64, kLoops = 32;

#define CHAIN(NAME, TYPE, CONSTRAINT, TEXT)                                                      \
  struct NAME {                                                                                  \
    using T = TYPE;                                                                              \
    static const char* name() { return #NAME; }                                                  \
    __device__ static void step(T& x, T y) { asm volatile(TEXT : "+" CONSTRAINT(x) : CONSTRAINT(y)); } \
  };

CHAIN(add_sub_s32, int, "r", "{ .reg .s32 t; add.s32 t, %0, %1; xor.b32 %0, t, %0; }")  // two instructions: sums alone merge
CHAIN(mul_lo_s32, int, "r", "mul.lo.s32 %0, %0, %1;")
CHAIN(mad_lo_s32, int, "r", "mad.lo.s32 %0, %0, %1, %1;")
CHAIN(mul_hi_u32, unsigned, "r", "mul.hi.u32 %0, %0, %1;")
CHAIN(lop3_b32, unsigned, "r", "lop3.b32 %0, %0, %1, %1, 0x96;")
CHAIN(shl_b32, unsigned, "r", "shl.b32 %0, %0, %1;")
CHAIN(shf_l_b32, unsigned, "r", "shf.l.wrap.b32 %0, %0, %1, %1;")
CHAIN(prmt_b32, unsigned, "r", "prmt.b32 %0, %0, %1, 0x2103;")
CHAIN(popc_b32, unsigned, "r", "popc.b32 %0, %0;")
CHAIN(brev_b32, unsigned, "r", "brev.b32 %0, %0;")
CHAIN(bfind_u32, unsigned, "r", "bfind.u32 %0, %0;")
CHAIN(dp4a_s32, int, "r", "dp4a.s32.s32 %0, %0, %1, %0;")
CHAIN(add_s64, long long, "l", "add.s64 %0, %0, %1;")
CHAIN(mul_lo_s64, long long, "l", "mul.lo.s64 %0, %0, %1;")
CHAIN(add_f32, float, "f", "add.f32 %0, %0, %1;")
CHAIN(mul_f32, float, "f", "mul.f32 %0, %0, %1;")
CHAIN(fma_f32, float, "f", "fma.rn.f32 %0, %0, %1, %1;")
CHAIN(min_f32, float, "f", "min.f32 %0, %0, %1;")
CHAIN(add_f64, double, "d", "add.f64 %0, %0, %1;")
CHAIN(mul_f64, double, "d", "mul.f64 %0, %0, %1;")
CHAIN(fma_f64, double, "d", "fma.rn.f64 %0, %0, %1, %1;")
CHAIN(add_f16x2, unsigned, "r", "add.f16x2 %0, %0, %1;")
CHAIN(fma_f16x2, unsigned, "r", "fma.rn.f16x2 %0, %0, %1, %1;")
CHAIN(fma_bf16x2, unsigned, "r", "fma.rn.bf16x2 %0, %0, %1, %1;")
CHAIN(ex2_approx_f32, float, "f", "ex2.approx.ftz.f32 %0, %0;")
CHAIN(lg2_approx_f32, float, "f", "lg2.approx.ftz.f32 %0, %0;")
CHAIN(rcp_approx_add_f32, float, "f", "{ .reg .f32 t; rcp.approx.ftz.f32 t, %0; add.ftz.f32 %0, t, %1; }")  // rcp of rcp folds
CHAIN(rsqrt_approx_f32, float, "f", "rsqrt.approx.ftz.f32 %0, %0;")
CHAIN(sin_approx_f32, float, "f", "sin.approx.ftz.f32 %0, %0;")
CHAIN(tanh_approx_f32, float, "f", "tanh.approx.f32 %0, %0;")
CHAIN(div_rn_f32, float, "f", "div.rn.f32 %0, %0, %1;")
CHAIN(sqrt_rn_f32, float, "f", "sqrt.rn.f32 %0, %0;")
CHAIN(div_rn_f64, double, "d", "div.rn.f64 %0, %0, %1;")
CHAIN(div_s32, int, "r", "div.s32 %0, %0, %1;")
CHAIN(shfl_bfly, unsigned, "r", "shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;")
CHAIN(add_shfl_idx, unsigned, "r", "{ .reg .b32 t; add.u32 t, %0, %1; shfl.sync.idx.b32 %0, t, %0, 31, 0xffffffff; }")
CHAIN(redux_add, unsigned, "r", "redux.sync.add.s32 %0, %0, 0xffffffff;")
CHAIN(vote_ballot, unsigned, "r", "{ .reg .pred p; setp.ne.u32 p, %0, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }")
CHAIN(match_any, unsigned, "r", "match.any.sync.b32 %0, %0, 0xffffffff;")
CHAIN(cvt_f32_s32, float, "f", "{ .reg .s32 t; cvt.rzi.s32.f32 t, %0; cvt.rn.f32.s32 %0, t; }")
CHAIN(cvt_f16_f32, float, "f", "{ .reg .b16 t; cvt.rn.f16.f32 t, %0; cvt.f32.f16 %0, t; }")
CHAIN(cvt_f64_f32, float, "f", "{ .reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t; }")
CHAIN(setp_selp, int, "r", "{ .reg .pred p; setp.lt.s32 p, %0, %1; selp.s32 %0, %1, %0, p; }")
CHAIN(viaddmax_s32, int, "r", "{ .reg .s32 t; add.s32 t, %0, %1; max.s32 %0, t, %1; }")
CHAIN(vimax3_s16x2, unsigned, "r", "{ .reg .b32 t; max.s16x2 t, %0, %1; max.s16x2 %0, t, %1; }")

template <class Op>
__global__ void latency(long long* cycles, typename Op::T* sink, typename Op::T y) {
  typename Op::T x = y + typename Op::T(threadIdx.x);  // not uniform: the uniform datapath is another machine
#pragma unroll
  for (int i = 0; i < kUnroll; i++) Op::step(x, y);
  const long long start = clock_now();
#pragma unroll 1
  for (int l = 0; l < kLoops; l++) {
#pragma unroll
    for (int i = 0; i < kUnroll; i++) Op::step(x, y);
  }
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  sink[threadIdx.x] = x;
}

template <class Op>
__global__ void throughput(long long* cycles, typename Op::T* sink, typename Op::T y) {
  typename Op::T x[8];
  for (int k = 0; k < 8; k++) x[k] = y + typename Op::T(threadIdx.x + k);
  __shared__ long long first, last;
  if (threadIdx.x == 0) first = 0x7fffffffffffffffll, last = 0;
  __syncthreads();
  const long long start = clock_now();
  for (int l = 0; l < kLoops; l++) {
#pragma unroll
    for (int i = 0; i < kUnroll / 8; i++)
#pragma unroll
      for (int k = 0; k < 8; k++) Op::step(x[k], y);
  }
  const long long end = clock_now();
  atomicMin(&first, start);
  atomicMax(&last, end);
  __syncthreads();
  if (threadIdx.x == 0) *cycles = last - first;
  typename Op::T sum = x[0];
  for (int k = 1; k < 8; k++) sum += x[k];  // every chain must be used, or the assembler drops it
  sink[threadIdx.x] = sum;
}

template <class Op>
void measure() {
  Buffer<typename Op::T> sink(1024);
  const std::string name = std::string("instruction.") + Op::name();
  report(name + ".latency", cycles_of(7, kLoops * kUnroll, [&](long long* c) { latency<Op><<<1, 32>>>(c, sink, typename Op::T(3)); }), "cycles",
         "dependent chain, one warp");
  for (int warps : {4, 16, 32}) {
    auto samples = cycles_of(7, 1, [&](long long* c) { throughput<Op><<<1, warps * 32>>>(c, sink, typename Op::T(3)); }, Clock::span);
    samples = scaled(samples, [&](double c) { return double(warps) * kLoops * kUnroll / c; });
    report(name + ".throughput." + std::to_string(warps) + "warps", samples, "warp instructions/cycle/SM", "8 independent chains a warp, one SM");
  }
}

template <class... Ops>
void measure_all() {
  (measure<Ops>(), ...);
}

}  // namespace

void measure_instructions() {
  measure_all<add_sub_s32, mul_lo_s32, mad_lo_s32, mul_hi_u32, lop3_b32, shl_b32, shf_l_b32, prmt_b32, popc_b32, brev_b32,
              bfind_u32, dp4a_s32, add_s64, mul_lo_s64, add_f32, mul_f32, fma_f32, min_f32, add_f64, mul_f64, fma_f64, add_f16x2, fma_f16x2,
              fma_bf16x2, ex2_approx_f32, lg2_approx_f32, rcp_approx_add_f32, rsqrt_approx_f32, sin_approx_f32, tanh_approx_f32, div_rn_f32,
              sqrt_rn_f32, div_rn_f64, div_s32, shfl_bfly, add_shfl_idx, redux_add, vote_ballot, match_any, cvt_f32_s32, cvt_f16_f32, cvt_f64_f32,
              setp_selp, viaddmax_s32, vimax3_s16x2>();
}

}  // namespace dissect
