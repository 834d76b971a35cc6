// calib/dissect/tensor_cores.cu: mma.sync and wgmma: latency of one instruction and rate of a full SM.
//
// wgmma reads A and B from shared memory that holds zeros or random numbers, without swizzle; results are not used.
#include "measure.h"

namespace dissect {
namespace {

constexpr int kRounds = 256;

__global__ void mma_latency(long long* cycles, float* sink) {
  float c[4] = {};
  const uint32_t a = threadIdx.x, b = threadIdx.x;
  const long long start = clock_now();
#pragma unroll 16
  for (int i = 0; i < kRounds; i++)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a), "r"(b));
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  sink[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

__global__ void mma_rate(long long* cycles, float* sink) {
  float c[4][4] = {};
  const uint32_t a = threadIdx.x, b = threadIdx.x;
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 4
  for (int i = 0; i < kRounds; i++)
#pragma unroll
    for (int k = 0; k < 4; k++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};" : "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3]) : "r"(a), "r"(b));
  __syncthreads();
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  for (int k = 0; k < 4; k++) sink[threadIdx.x] += c[k][0] + c[k][1] + c[k][2] + c[k][3];
}

template <int N>
struct Wgmma;  // accumulator registers and the instruction text for each N

#define WGMMA(N, REGS, LIST)                                                                                               \
  template <>                                                                                                              \
  struct Wgmma<N> {                                                                                                        \
    static constexpr int kRegs = REGS;                                                                                     \
    __device__ static void issue(float (&c)[REGS], uint64_t a, uint64_t b) {                                               \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" LIST : FOR##REGS : "l"(a), "l"(b));          \
    }                                                                                                                      \
  };
#define R4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define FOR4 R4(0)
#define FOR16 R16(0)
#define FOR32 R16(0), R16(16)
#define FOR64 R16(0), R16(16), R16(32), R16(48)
#define FOR128 R16(0), R16(16), R16(32), R16(48), R16(64), R16(80), R16(96), R16(112)
#define L16(p) "%" p "0,%" p "1,%" p "2,%" p "3,%" p "4,%" p "5,%" p "6,%" p "7,%" p "8,%" p "9"
#define T10(p) L16(p)
#define LIST4 "%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
#define LIST16 T10("") ",%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
#define LIST32 T10("") "," T10("1") "," T10("2") ",%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
#define LIST64 T10("") "," T10("1") "," T10("2") "," T10("3") "," T10("4") "," T10("5") ",%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
#define LIST128                                                                                                            \
  T10("") "," T10("1") "," T10("2") "," T10("3") "," T10("4") "," T10("5") "," T10("6") "," T10("7") "," T10("8") "," T10("9") "," \
  T10("10") "," T10("11") ",%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;"
WGMMA(8, 4, LIST4)
WGMMA(32, 16, LIST16)
WGMMA(64, 32, LIST32)
WGMMA(128, 64, LIST64)
WGMMA(256, 128, LIST128)

template <int N, int kDepth>
__global__ void __launch_bounds__(128) wgmma_run(long long* cycles, float* sink, const uint32_t* data, int rounds) {
  extern __shared__ __align__(1024) uint32_t tile[];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = data[i];
  __syncthreads();
  asm volatile("fence.proxy.async;" ::: "memory");
  const uint64_t address = (shared_address(tile) & 0x3FFFF) >> 4;
  const uint64_t a = address | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32, b = (address + (2048 >> 4)) | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
  float c[Wgmma<N>::kRegs] = {};
  const long long start = clock_now();
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kDepth; k++) Wgmma<N>::issue(c, a, b);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  const long long end = clock_now();
  if (threadIdx.x == 0 && blockIdx.x == 0) *cycles = end - start;
  for (int k = 0; k < Wgmma<N>::kRegs; k++) sink[threadIdx.x] += c[k];
}

template <int N>
void measure_wgmma(const uint32_t* zeros, const uint32_t* random, float* sink) {
  using Kernel = void (*)(long long*, float*, const uint32_t*, int);
  const Kernel first = wgmma_run<N, 1>, many = wgmma_run<N, 32>;
  for (const Kernel kernel : {first, many}) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  const std::string name = "wgmma.m64n" + std::to_string(N) + "k16.f32.f16";
  const auto one = [&](Kernel kernel, int depth) { return cycles_of(5, 64.0 * depth, [&](long long* c) { kernel<<<1, 128, 65536>>>(c, sink, zeros, 64); }); };
  report(name + ".latency", one(first, 1), "cycles", "fence, one wgmma, commit, wait");
  report(name + ".interval", one(many, 32), "cycles", "32 wgmmas of one warpgroup in flight");
  for (auto [data, tail] : {std::pair{zeros, "zeros"}, std::pair{random, "random"}}) {
    const double flops = 2.0 * 64 * N * 16 * 64 * 32 * 2 * sm_count();
    report(name + ".rate." + tail, scaled(seconds_of(5, 20, [&, data = data] { many<<<2 * sm_count(), 128, 65536>>>(reinterpret_cast<long long*>(sink) + 4096, sink, data, 64); }), [&](double s) { return flops / s * 1e-12; }), "TFLOP/s", "two warpgroups on every SM, launch included");
  }
}

}  // namespace

void measure_tensor_cores() {
  Buffer<float> sink(65536);
  report("mma.m16n8k16.f32.f16.latency", cycles_of(5, kRounds, [&](long long* c) { mma_latency<<<1, 32>>>(c, sink); }), "cycles", "dependent accumulators");
  for (int warps : {4, 8, 16})
    report("mma.m16n8k16.f32.f16.rate." + std::to_string(warps) + "warps", scaled(cycles_of(5, 1, [&](long long* c) { mma_rate<<<1, warps * 32>>>(c, sink); }), [&](double c) { return warps * 4.0 * kRounds * 16 * 8 * 16 / c; }), "FMA/cycle/SM", "four accumulators a warp");
  Buffer<uint32_t> zeros(8192), random(8192);
  fill_with_halves(random);
  measure_wgmma<8>(zeros, random, sink);
  measure_wgmma<32>(zeros, random, sink);
  measure_wgmma<64>(zeros, random, sink);
  measure_wgmma<128>(zeros, random, sink);
  measure_wgmma<256>(zeros, random, sink);
}

}  // namespace dissect
