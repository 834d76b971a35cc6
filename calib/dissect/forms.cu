// calib/dissect/forms.cu: instructions whose operands all differ from lane to lane, and loads of parts of words from L1 and shared memory.
//
// instructions.cu takes its second operand from the kernel's parameters, which ptxas keeps in uniform registers: what such an operand
// costs by itself is told by the difference. Latency: one warp, a dependent chain; throughput: one SM, eight chains a warp.
#include "measure.h"

namespace dissect {
namespace {

constexpr int kUnroll = 64, kLoops = 32;

#define FORM(NAME, TYPE, CONSTRAINT, TEXT)                                                            \
  struct NAME {                                                                                       \
    using T = TYPE;                                                                                   \
    static const char* name() { return #NAME; }                                                       \
    __device__ static void step(T& x, T y) { asm volatile(TEXT : "+" CONSTRAINT(x) : CONSTRAINT(y)); } \
  };
FORM(mul_hi_u32, unsigned, "r", "mul.hi.u32 %0, %0, %1;")
FORM(mad_hi_u32, unsigned, "r", "mad.hi.u32 %0, %0, %1, %1;")
FORM(mul_wide_u32, unsigned, "r", "{ .reg .u64 t; .reg .u32 a, b; mul.wide.u32 t, %0, %1; mov.b64 {a, b}, t; xor.b32 %0, a, b; }")
FORM(mad_wide_u32, unsigned long long, "l", "{ .reg .u32 a, b; cvt.u32.u64 a, %0; cvt.u32.u64 b, %1; mad.wide.u32 %0, a, b, %0; }")
FORM(mul_lo_u32, unsigned, "r", "mul.lo.u32 %0, %0, %1;")
FORM(mul_lo_s64, long long, "l", "mul.lo.s64 %0, %0, %1;")
FORM(lop3_b32, unsigned, "r", "lop3.b32 %0, %0, %1, %1, 0x96;")
FORM(prmt_b32, unsigned, "r", "prmt.b32 %0, %0, %1, 0x2103;")
FORM(shf_l_b32, unsigned, "r", "shf.l.wrap.b32 %0, %0, %1, 7;")
FORM(min_s32, int, "r", "{ .reg .s32 t; min.s32 t, %0, %1; xor.b32 %0, t, %0; }")
FORM(add_f16x2, unsigned, "r", "add.f16x2 %0, %0, %1;")
FORM(mul_f16x2, unsigned, "r", "mul.f16x2 %0, %0, %1;")
FORM(fma_f16x2, unsigned, "r", "fma.rn.f16x2 %0, %0, %1, %1;")
FORM(fma_bf16x2, unsigned, "r", "fma.rn.bf16x2 %0, %0, %1, %1;")
FORM(max_f16x2, unsigned, "r", "{ .reg .b32 t; max.f16x2 t, %0, %1; xor.b32 %0, t, %0; }")
FORM(pack_f16x2, float, "f", "{ .reg .b32 t; cvt.rn.f16x2.f32 t, %0, %1; mov.b32 %0, t; }")
FORM(pack_bf16x2, float, "f", "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, %0, %1; mov.b32 %0, t; }")
FORM(half_to_float, float, "f", "{ .reg .b16 a, b; mov.b32 {a, b}, %0; cvt.f32.f16 %0, a; }")
FORM(float_of_byte, float, "f", "{ .reg .b32 t, u; mov.b32 t, %0; and.b32 u, t, 255; cvt.rn.f32.u32 %0, u; }")
FORM(float_of_int, float, "f", "{ .reg .b32 t; mov.b32 t, %0; cvt.rn.f32.s32 %0, t; }")
FORM(int_of_float, float, "f", "{ .reg .b32 t; cvt.rzi.s32.f32 t, %0; mov.b32 %0, t; }")
FORM(fma_f32, float, "f", "fma.rn.f32 %0, %0, %1, %1;")
FORM(add_f32, float, "f", "add.f32 %0, %0, %1;")
FORM(min_f32, float, "f", "min.f32 %0, %0, %1;")
FORM(set_select, float, "f", "{ .reg .pred p; setp.lt.f32 p, %0, %1; selp.f32 %0, %1, %0, p; }")

template <class T>
__device__ T of_bits(unsigned b) {
  T t{};
  memcpy(&t, &b, sizeof b);
  return t;
}
template <class Op>
__global__ void latency(long long* cycles, typename Op::T* sink, const unsigned* bits) {
  using T = typename Op::T;
  T x = of_bits<T>(bits[threadIdx.x]);
  const T y = of_bits<T>(bits[threadIdx.x + 32]);
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
__global__ void throughput(long long* cycles, typename Op::T* sink, const unsigned* bits) {
  using T = typename Op::T;
  T x[8];
  for (int k = 0; k < 8; k++) x[k] = of_bits<T>(bits[threadIdx.x + 32 * k]);
  const T y = of_bits<T>(bits[threadIdx.x + 256]);
  __shared__ long long first, last;
  if (threadIdx.x == 0) first = 0x7fffffffffffffffll, last = 0;
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
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
  T sum = x[0];
  for (int k = 1; k < 8; k++) sum += x[k];
  sink[threadIdx.x] = sum;
}
template <class Op>
void measure(const unsigned* bits) {
  Buffer<typename Op::T> sink(1024);
  const std::string name = std::string("form.") + Op::name();
  report(name + ".latency", cycles_of(5, kLoops * kUnroll, [&](long long* c) { latency<Op><<<1, 32>>>(c, sink, bits); }), "cycles", "dependent chain, one warp, operands that differ");
  for (int warps : {4, 16, 32}) {
    const auto samples = cycles_of(5, 1, [&](long long* c) { throughput<Op><<<1, warps * 32>>>(c, sink, bits); }, Clock::span);
    report(name + ".throughput." + std::to_string(warps) + "warps", scaled(samples, [&](double c) { return double(warps) * kLoops * kUnroll / c; }), "warp instructions/cycle/SM",
           "8 independent chains a warp, one SM, operands that differ");
  }
}
template <class... Ops>
void measure_all(const unsigned* bits) {
  (measure<Ops>(bits), ...);
}

/// Loads of `T` by neighbouring lanes, 16 a turn, of 4 KB that L1 (or shared memory) holds.
template <class T, bool kShared>
__global__ void parts(long long* cycles, unsigned* sink, const T* from, int rounds) {
  __shared__ T room[4096 / sizeof(T)];
  if (kShared)
    for (int i = threadIdx.x; i < int(4096 / sizeof(T)); i += blockDim.x) room[i] = from[i];
  __shared__ long long first, last;
  if (threadIdx.x == 0) first = 0x7fffffffffffffffll, last = 0;
  unsigned sum = 0;
  const int at = threadIdx.x % 32;
  for (int i = 0; i < 16; i++) sum += unsigned(from[at + i * 32 % int(4096 / sizeof(T))]);
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const volatile T* p = kShared ? &room[(at + i * 32) % int(4096 / sizeof(T))] : nullptr;
      if (kShared) sum ^= unsigned(*p) + r;
      else sum ^= unsigned(__ldca(from + (at + i * 32 + r % 2) % int(4096 / sizeof(T) - 1))) + r;
    }
  }
  const long long end = clock_now();
  atomicMin(&first, start);
  atomicMax(&last, end);
  __syncthreads();
  if (threadIdx.x == 0) *cycles = last - first;
  sink[threadIdx.x] = sum;
}
template <class T, bool kShared>
void measure_parts(const char* what, unsigned* sink, const void* data) {
  for (int warps : {4, 32}) {
    const auto samples = cycles_of(5, 1, [&](long long* c) { parts<T, kShared><<<1, warps * 32>>>(c, sink, static_cast<const T*>(data), 64); }, Clock::span);
    report(std::string("form.") + (kShared ? "shared." : "l1.") + what + "." + std::to_string(warps) + "warps", scaled(samples, [&](double c) { return double(warps) * 64 * 16 / c; }), "warp instructions/cycle/SM",
           "loads of neighbouring lanes that hit");
  }
}
}  // namespace

void measure_forms() {
  Buffer<unsigned> bits(2048), sink(1024);
  std::vector<unsigned> host(bits.n);
  for (size_t i = 0; i < host.size(); i++) host[i] = 0x3f800000u | unsigned(i * 2654435761u >> 10);  // floats from 1 to 2, odd bits below
  cudaMemcpy(bits, host.data(), host.size() * 4, cudaMemcpyHostToDevice);
  measure_all<mul_hi_u32, mad_hi_u32, mul_wide_u32, mad_wide_u32, mul_lo_u32, mul_lo_s64, lop3_b32, prmt_b32, shf_l_b32, min_s32, add_f16x2, mul_f16x2, fma_f16x2, fma_bf16x2, max_f16x2,
              pack_f16x2, pack_bf16x2, half_to_float, float_of_byte, float_of_int, int_of_float, fma_f32, add_f32, min_f32, set_select>(bits);
  measure_parts<unsigned char, false>("u8", sink, bits), measure_parts<unsigned short, false>("u16", sink, bits), measure_parts<unsigned, false>("u32", sink, bits);
  measure_parts<unsigned char, true>("u8", sink, bits), measure_parts<unsigned short, true>("u16", sink, bits), measure_parts<unsigned, true>("u32", sink, bits);
}

}  // namespace dissect
