// calib/dissect/queues.cu: whose turn it is among several warps of a sub-core that want one pipe: when each ends that has the same to do,
// and how long one waits that asks now and then beside others that always do, the first or the last of them.
//
// Ends are counted from a barrier before the work. turns.cu has the same for two warps.
#include "measure.h"

namespace dissect {
namespace {

enum Work { kMax, kFma, kImad, kSpecial, kHalf, kLoad4 };

template <int kWork>
__device__ void one(float& x, float other, float y) {
  uint32_t u = __float_as_uint(x);
  if constexpr (kWork == kMax) asm volatile("max.f32 %0, %0, %1;" : "+f"(x) : "f"(other));
  if constexpr (kWork == kFma) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
  if constexpr (kWork == kSpecial) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  if constexpr (kWork == kImad) asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(u) : "r"(__float_as_uint(y)));
  if constexpr (kWork == kHalf) asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(u) : "r"(__float_as_uint(y)));
  if constexpr (kWork == kLoad4) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(u));
  if constexpr (kWork == kImad || kWork == kHalf || kWork == kLoad4) x = __uint_as_float(u);
}

/// cycles[k]: of the k-th warp of the first sub-core. Warp group `light` (or none, -1) has one chain of 64, all others `rounds` of 64 in eight chains.
template <int kWork>
__global__ void __launch_bounds__(512) queue(long long* cycles, float* sink, int rounds, int light) {
  __shared__ uint32_t tile[1024];
  __shared__ long long ends[4];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = shared_address(tile) + threadIdx.x % 32 * 4;
  float x[8];
  const uint32_t at = shared_address(tile) + threadIdx.x % 32 * 4;
  for (int k = 0; k < 8; k++) x[k] = kWork == kLoad4 ? __uint_as_float(at) : float(threadIdx.x + k);
  const float y = .999f + rounds * 1e-9f;
  __syncthreads();
  const long long start = clock_now();
  if (int(threadIdx.x / 128) == light) {
#pragma unroll
    for (int i = 0; i < 64; i++) one<kWork>(x[0], y, y);
  } else {
#pragma unroll 1
    for (int r = 0; r < rounds; r++)
#pragma unroll
      for (int i = 0; i < 64; i++) one<kWork>(x[i % 8], x[(i + 1) % 8], y);
  }
  const long long end = clock_now();
  if (threadIdx.x % 128 == 0) ends[threadIdx.x / 128] = end - start;
  __syncthreads();
  if (threadIdx.x < 4) cycles[threadIdx.x] = ends[threadIdx.x];
  float s = 0;
  for (int k = 0; k < 8; k++) s += x[k];
  sink[threadIdx.x] = s;
}

/// What each of `warps` measured, medians of five launches, `per` instructions.
void report_each(const std::string& name, int warps, const char* how, const std::function<void(long long*)>& launch) {
  Buffer<long long> cycles(4);
  std::vector<double> each[4];
  if (predicted()) {
    launch(cycles);
    const std::vector<double> v = of_last_record("clocks");
    for (size_t k = 0; k < size_t(warps) && 4 * k < v.size(); k++) each[k] = {v[4 * k]};
  }
  for (int r = -1; r < (predicted() ? -1 : 5); r++) {
    long long c[4] = {};
    launch(cycles);
    if (cudaMemcpy(c, cycles, sizeof c, cudaMemcpyDeviceToHost) != cudaSuccess) break;
    for (int k = 0; r >= 0 && k < warps; k++) each[k].push_back(double(c[k]));
  }
  for (int k = 0; k < warps; k++) report(name + "." + std::to_string(k), each[k], "cycles", how);
}

template <int kWork>
void measure_queue(const char* what, float* sink) {
  for (int warps : {2, 3, 4})
    for (int light : {-1, 0, warps - 1})
      report_each(std::string("queues.") + what + ".warps" + std::to_string(warps) + (light < 0 ? ".alike" : light ? ".last_asks_seldom" : ".first_asks_seldom"), warps,
                  "1024 instructions in eight chains by so many warps of each sub-core, or one of them 64 in a chain: ends from the barrier on",
                  [&](long long* c) { queue<kWork><<<1, 128 * warps>>>(c, sink, 16, light); });
}

}  // namespace

void measure_queues() {
  Buffer<float> sink(1024);
  measure_queue<kMax>("max", sink), measure_queue<kFma>("fma", sink), measure_queue<kImad>("imad", sink);
  measure_queue<kSpecial>("special", sink), measure_queue<kHalf>("half", sink), measure_queue<kLoad4>("load4", sink);
}

}  // namespace dissect
