// calib/dissect/products.cu: mma.sync and wgmma by shape and type, dense and sparse, zero and random operands.
//
// mma.sync of eight-bit floating point is no instruction of Hopper: ptxas converts and multiplies halves.
// mma: latency of a chain through the accumulators, and rate of 16 warps of one SM. wgmma: cycles of one instruction of one
// warpgroup among 32, first operand from shared memory or registers, and TFLOP/s of two warpgroups on every SM.
#include "measure.h"

namespace dissect {
namespace {

constexpr int kRounds = 256;

/// TEXT names accumulators %0 to %3 and the words of a (%4 to %7), b (%8 to %11) and metadata (%12).
#define MMA(NAME, MACS, TYPE, CONSTRAINT, TEXT)                                                                        \
  struct NAME {                                                                                                        \
    using T = TYPE;                                                                                                    \
    static constexpr double kMacs = MACS;                                                                              \
    static const char* name() { return #NAME; }                                                                        \
    __device__ static void step(T (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[4]) {                           \
      asm volatile(TEXT : "+" CONSTRAINT(c[0]), "+" CONSTRAINT(c[1]), "+" CONSTRAINT(c[2]), "+" CONSTRAINT(c[3])      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(0x44444444)); \
    }                                                                                                                  \
  };
#define SUMS "{%0,%1,%2,%3}"
#define A2 ", {%4,%5}"
#define A4 ", {%4,%5,%6,%7}"
#define B1 ", {%8}, "
#define B2 ", {%8,%9}, "
#define B4 ", {%8,%9,%10,%11}, "
MMA(m16n8k8_f32_f16, 16 * 8 * 8, float, "f", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 " SUMS A2 B1 SUMS ";")
MMA(m16n8k16_f32_f16, 16 * 8 * 16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " SUMS A4 B2 SUMS ";")
MMA(m16n8k16_f16_f16, 16 * 8 * 16, uint32_t, "r", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}" A4 B2 "{%0,%1};")
MMA(m16n8k16_f32_bf16, 16 * 8 * 16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " SUMS A4 B2 SUMS ";")
MMA(m16n8k4_f32_tf32, 16 * 8 * 4, float, "f", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 " SUMS A2 B1 SUMS ";")
MMA(m16n8k8_f32_tf32, 16 * 8 * 8, float, "f", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " SUMS A4 B2 SUMS ";")
MMA(m16n8k16_s32_s8, 16 * 8 * 16, uint32_t, "r", "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 " SUMS A2 B1 SUMS ";")
MMA(m16n8k32_s32_s8, 16 * 8 * 32, uint32_t, "r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " SUMS A4 B2 SUMS ";")
MMA(m16n8k32_f32_f16_sparse, 16 * 8 * 32, float, "f", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 " SUMS A4 B4 SUMS ", %12, 0;")
MMA(m16n8k64_s32_s8_sparse, 16 * 8 * 64, uint32_t, "r", "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 " SUMS A4 B4 SUMS ", %12, 0;")

/// Products of doubles, whose operands are registers of 64 bits.
#define DMMA(NAME, MACS, SUMS, TEXT, ...)                                                                                 \
  struct NAME {                                                                                                        \
    static constexpr double kMacs = MACS;                                                                              \
    static const char* name() { return #NAME; }                                                                        \
    __device__ static void step(double (&c)[4], const double (&a)[8], const double (&b)[4]) { asm volatile(TEXT : SUMS : __VA_ARGS__); } \
  };
#define FOUR_SUMS "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
#define TWO_SUMS "+d"(c[0]), "+d"(c[1])
DMMA(m8n8k4_f64, 8 * 8 * 4, TWO_SUMS, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};", "d"(a[0]), "d"(b[0]))
#undef TWO_SUMS
DMMA(m16n8k4_f64, 16 * 8 * 4, FOUR_SUMS, "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};", "d"(a[0]), "d"(a[1]), "d"(b[0]))
DMMA(m16n8k8_f64, 16 * 8 * 8, FOUR_SUMS, "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};",
     "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]))
DMMA(m16n8k16_f64, 16 * 8 * 16, FOUR_SUMS,
     "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};",
     "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]))

/// Cycles of kRounds steps of each of kChains chains, and the sums so that none can go.
template <class Op, int kChains, class T, class A, class B>
__device__ void run_chains(long long* cycles, float* sink, T (&c)[kChains][4], const A& a, const B& b) {
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 4
  for (int i = 0; i < kRounds; i++)
#pragma unroll
    for (int k = 0; k < kChains; k++) Op::step(c[k], a, b);
  __syncthreads();
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  T s = 0;
  for (int k = 0; k < kChains; k++) s += c[k][0] + c[k][1] + c[k][2] + c[k][3];
  sink[threadIdx.x] = float(s);
}

template <class Op, int kChains>
__global__ void multiply_doubles(long long* cycles, float* sink, double seed) {
  double c[kChains][4] = {}, a[8], b[4];
  for (int i = 0; i < 8; i++) a[i] = seed * (threadIdx.x + i), b[i / 2] = seed * (threadIdx.x + 5 + i);
  run_chains<Op>(cycles, sink, c, a, b);
}

template <class Op>
void measure_dmma(float* sink) {
  const std::string name = std::string("mma.") + Op::name();
  report(name + ".latency", cycles_of(5, kRounds, [&](long long* c) { multiply_doubles<Op, 1><<<1, 32>>>(c, sink, 0); }), "cycles", "dependent accumulators");
  report(name + ".rate.zeros", scaled(cycles_of(5, 1, [&](long long* c) { multiply_doubles<Op, 4><<<1, 512>>>(c, sink, 0); }), [](double c) { return 16 * 4.0 * kRounds * Op::kMacs / c; }),
         "MAC/cycle/SM", "16 warps, four accumulators each");
}

template <class Op, int kChains>
__global__ void multiply(long long* cycles, float* sink, uint32_t seed) {
  typename Op::T c[kChains][4] = {};
  uint32_t a[4], b[4];
  for (int i = 0; i < 4; i++) a[i] = seed * (threadIdx.x + i) & 0x3bff3bff, b[i] = seed * (threadIdx.x + 5 + i) & 0x3bff3bff;
  run_chains<Op>(cycles, sink, c, a, b);
}

template <class Op>
void measure_mma(float* sink) {
  const std::string name = std::string("mma.") + Op::name();
  report(name + ".latency", cycles_of(5, kRounds, [&](long long* c) { multiply<Op, 1><<<1, 32>>>(c, sink, 0); }), "cycles", "dependent accumulators");
  for (const auto& [seed, tail] : {std::pair{0u, "zeros"}, std::pair{2654435761u, "random"}})
    report(name + ".rate." + tail, scaled(cycles_of(5, 1, [&](long long* c) { multiply<Op, 4><<<1, 512>>>(c, sink, seed); }), [](double c) { return 16 * 4.0 * kRounds * Op::kMacs / c; }),
           "MAC/cycle/SM", "16 warps, four accumulators each");
}

#define W4(i) "+" KIND(c[i]), "+" KIND(c[i + 1]), "+" KIND(c[i + 2]), "+" KIND(c[i + 3])
#define W16(i) W4(i), W4(i + 4), W4(i + 8), W4(i + 12)
#define L16(p) "%" p "0,%" p "1,%" p "2,%" p "3,%" p "4,%" p "5,%" p "6,%" p "7,%" p "8,%" p "9"
#define LIST8 "{%0,%1,%2,%3,%4,%5,%6,%7}, "
#define LIST32 "{" L16("") "," L16("1") "," L16("2") ",%30,%31}, "
#define LIST64 "{" L16("") "," L16("1") "," L16("2") "," L16("3") "," L16("4") "," L16("5") ",%60,%61,%62,%63}, "
#define LIST128 "{" L16("") "," L16("1") "," L16("2") "," L16("3") "," L16("4") "," L16("5") "," L16("6") "," L16("7") "," L16("8") "," L16("9") "," \
  L16("10") "," L16("11") ",%120,%121,%122,%123,%124,%125,%126,%127}, "
#define FOR8 W4(0), W4(4)
#define FOR32 W16(0), W16(16)
#define FOR64 W16(0), W16(16), W16(32), W16(48)
#define FOR128 W16(0), W16(16), W16(32), W16(48), W16(64), W16(80), W16(96), W16(112)

/// MACS of one instruction; REGS accumulators; TEXT after their list.
#define WGMMA(NAME, MACS, TYPE, REGS, INSTRUCTION, TEXT)                                                              \
  struct NAME {                                                                                                       \
    using T = TYPE;                                                                                                   \
    static constexpr int kRegs = REGS;                                                                                \
    static constexpr double kMacs = MACS;                                                                             \
    static const char* name() { return #NAME; }                                                                       \
    __device__ static void issue(T (&c)[REGS], uint64_t a, uint64_t b, uint32_t r) {                                  \
      asm volatile("wgmma.mma_async" INSTRUCTION " " LIST##REGS TEXT : FOR##REGS : "l"(a), "l"(b), "r"(r), "r"(0x44444444)); \
    }                                                                                                                 \
  };
#define IN_SHARED(a, b, c, d, tail) "%" #a ", %" #b ", 1" tail ";"
#define IN_REGISTERS(a, b, c, d, tail) "{%" #c ",%" #c ",%" #c ",%" #c "}, %" #b ", 1" tail ";"
#define SPARSE(a, b, c, d, tail) "%" #a ", %" #b ", %" #d ", 0, 1" tail ";"
#define SPARSE_REGISTERS(a, b, c, d, tail) "{%" #c ",%" #c ",%" #c ",%" #c "}, %" #b ", %" #d ", 0, 1" tail ";"
#define KIND "f"
WGMMA(m64n16k16_f32_f16, 64 * 16 * 16, float, 8, ".sync.aligned.m64n16k16.f32.f16.f16", IN_SHARED(8, 9, 10, 11, ", 1, 1, 0, 0"))
WGMMA(m64n64k16_f32_f16_registers, 64 * 64 * 16, float, 32, ".sync.aligned.m64n64k16.f32.f16.f16", IN_REGISTERS(32, 33, 34, 35, ", 1, 1, 0"))
WGMMA(m64n128k16_f32_f16_registers, 64 * 128 * 16, float, 64, ".sync.aligned.m64n128k16.f32.f16.f16", IN_REGISTERS(64, 65, 66, 67, ", 1, 1, 0"))
WGMMA(m64n256k16_f32_bf16, 64 * 256 * 16, float, 128, ".sync.aligned.m64n256k16.f32.bf16.bf16", IN_SHARED(128, 129, 130, 131, ", 1, 1, 0, 0"))
WGMMA(m64n256k8_f32_tf32, 64 * 256 * 8, float, 128, ".sync.aligned.m64n256k8.f32.tf32.tf32", IN_SHARED(128, 129, 130, 131, ", 1, 1"))
WGMMA(m64n256k32_f32_e4m3, 64 * 256 * 32, float, 128, ".sync.aligned.m64n256k32.f32.e4m3.e4m3", IN_SHARED(128, 129, 130, 131, ", 1, 1"))
WGMMA(m64n128k32_f32_f16_sparse, 64 * 128 * 32, float, 64, ".sp.sync.aligned.m64n128k32.f32.f16.f16", SPARSE(64, 65, 66, 67, ", 1, 1, 0, 0"))
WGMMA(m64n256k32_f32_f16_sparse, 64 * 256 * 32, float, 128, ".sp.sync.aligned.m64n256k32.f32.f16.f16", SPARSE(128, 129, 130, 131, ", 1, 1, 0, 0"))
WGMMA(m64n128k32_f32_f16_sparse_registers, 64 * 128 * 32, float, 64, ".sp.sync.aligned.m64n128k32.f32.f16.f16", SPARSE_REGISTERS(64, 65, 66, 67, ", 1, 1, 0"))
#undef KIND
#define KIND "r"
WGMMA(m64n256k16_f16_f16, 64 * 256 * 16, uint32_t, 64, ".sync.aligned.m64n256k16.f16.f16.f16", IN_SHARED(64, 65, 66, 67, ", 1, 1, 0, 0"))
WGMMA(m64n256k32_f16_e4m3, 64 * 256 * 32, uint32_t, 64, ".sync.aligned.m64n256k32.f16.e4m3.e4m3", IN_SHARED(64, 65, 66, 67, ", 1, 1"))
WGMMA(m64n256k32_s32_s8, 64 * 256 * 32, uint32_t, 128, ".sync.aligned.m64n256k32.s32.s8.s8", IN_SHARED(128, 129, 130, 131, ""))

template <class Op, int kDepth>
__global__ void __launch_bounds__(128) warpgroup(long long* cycles, float* sink, const uint32_t* data, int rounds) {
  extern __shared__ __align__(1024) uint32_t tile[];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = data[i];
  const uint32_t r = data[threadIdx.x];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const uint64_t address = (shared_address(tile) & 0x3FFFF) >> 4;
  const uint64_t a = address | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32, b = a + (2048 >> 4);
  typename Op::T c[Op::kRegs] = {};
  const long long start = clock_now();
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kDepth; k++) Op::issue(c, a, b, r);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  const long long end = clock_now();
  if (threadIdx.x == 0 && blockIdx.x == 0) *cycles = end - start;
  typename Op::T s = 0;
  for (int k = 0; k < Op::kRegs; k++) s += c[k];
  sink[threadIdx.x] = float(s);
}

template <class Op>
void measure_wgmma(const uint32_t* zeros, const uint32_t* random, float* sink) {
  constexpr size_t kShared = 65536;
  using Kernel = void (*)(long long*, float*, const uint32_t*, int);
  const Kernel first = warpgroup<Op, 1>, many = warpgroup<Op, 32>;
  for (const Kernel kernel : {first, many}) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  const std::string name = std::string("wgmma.") + Op::name();
  const auto one = [&](Kernel kernel, int depth) { return cycles_of(5, 64.0 * depth, [&](long long* c) { kernel<<<1, 128, kShared>>>(c, sink, zeros, 64); }); };
  report(name + ".latency", one(first, 1), "cycles", "fence, one wgmma, commit, wait");
  report(name + ".interval", one(many, 32), "cycles", "32 wgmmas of one warpgroup in flight");
  for (auto [data, tail] : {std::pair{zeros, "zeros"}, std::pair{random, "random"}})
    report(name + ".rate." + tail, scaled(seconds_of(5, 10, [&, data = data] { many<<<2 * sm_count(), 128, kShared>>>(reinterpret_cast<long long*>(sink) + 4096, sink, data, 64); }),
                                          [&](double s) { return 2 * Op::kMacs * 64 * 32 * 2 * sm_count() / s * 1e-12; }),
           "TFLOP/s", "two warpgroups on every SM, launch included");
}

template <class... Ops>
void measure_each_mma(float* sink) {
  (measure_mma<Ops>(sink), ...);
}
template <class... Ops>
void measure_each_wgmma(const uint32_t* zeros, const uint32_t* random, float* sink) {
  (measure_wgmma<Ops>(zeros, random, sink), ...);
}

}  // namespace

void measure_products() {
  Buffer<float> sink(65536);
  measure_each_mma<m16n8k8_f32_f16, m16n8k16_f32_f16, m16n8k16_f16_f16, m16n8k16_f32_bf16, m16n8k4_f32_tf32, m16n8k8_f32_tf32, m16n8k16_s32_s8, m16n8k32_s32_s8,
                   m16n8k32_f32_f16_sparse, m16n8k64_s32_s8_sparse>(sink);
  measure_dmma<m8n8k4_f64>(sink), measure_dmma<m16n8k4_f64>(sink), measure_dmma<m16n8k8_f64>(sink), measure_dmma<m16n8k16_f64>(sink);
  Buffer<uint32_t> zeros(8192), random(8192);
  fill_with_halves(random);
  measure_each_wgmma<m64n16k16_f32_f16, m64n64k16_f32_f16_registers, m64n128k16_f32_f16_registers, m64n256k16_f32_bf16, m64n256k8_f32_tf32, m64n256k32_f32_e4m3,
                     m64n128k32_f32_f16_sparse, m64n256k32_f32_f16_sparse, m64n128k32_f32_f16_sparse_registers, m64n256k16_f16_f16, m64n256k32_f16_e4m3, m64n256k32_s32_s8>(zeros, random, sink);
}

}  // namespace dissect
