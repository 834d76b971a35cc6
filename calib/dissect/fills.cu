// calib/dissect/fills.cu: what data on their way into L1 and shared memory cost those who read there meanwhile: loads that hit beside
// loads that miss, asynchronous copies and bulk copies, on one SM whose L2 traffic is far from its limit.
#include "measure.h"
#include "tensor_map.h"

namespace dissect {
namespace {

enum Hit { kGlobalHit, kSharedHit };
enum Miss { kNothing, kLoad4, kLoad16, kLoadPastL1, kCopy16, kStore4 };

/// Rounds of kHits loads that hit, of 128 bytes a warp, and one access of other data from L2.
template <int kHit, int kMiss, int kHits>
__global__ void __launch_bounds__(1024) fills(long long* cycles, float* sink, const float* hot, float* cold, int rounds) {
  __shared__ __align__(16) float tile[8192];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = hot[i % 256];
  float s = 0, t = 0;
  for (int i = lane; i < 4096; i += 32) s += hot[i];
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {  // other lines each round, or the assembler would load once
    const uint32_t at = shared_address(tile) + lane * 4 + r % 4 * 4096;
    const float* const near = hot + lane + r % 4 * 1024;
    const long where = (long(r) * warps + warp) * 32;
    float a = 0, b = 0, c = 0, d = 0;
    if (kMiss == kLoad4) asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(a) : "l"(cold + where + lane));
    if (kMiss == kLoadPastL1) asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(a) : "l"(cold + where + lane));
    if (kMiss == kLoad16) asm volatile("ld.global.ca.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(cold + where * 4 + lane * 4));
    if (kMiss == kCopy16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;\ncp.async.wait_group 3;" ::"r"(shared_address(tile) + 4096 + warp % 8 * 512 + lane * 16), "l"(cold + where * 4 + lane * 4)
                   : "memory");
    if (kMiss == kStore4) asm volatile("st.global.f32 [%0], %1;" ::"l"(cold + where + lane), "f"(s) : "memory");
    float x[8];
#pragma unroll
    for (int h = 0; h < kHits; h++) {
      if (kHit == kGlobalHit) asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(x[h % 8]) : "l"(near + h * 32));
      else asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x[h % 8]) : "r"(at + h * 128));
      if (h % 8 == 7) s += x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
    }
    t += a + b + c + d;
  }
  __syncthreads();
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  sink[threadIdx.x] = s + t;
}

template <int kHit, int kMiss, int kHits>
void measure_fill(const char* name, const float* hot, float* cold, float* sink) {
  const int rounds = 64;
  report(std::string("fills.") + (kHit == kGlobalHit ? "global." : "shared.") + name + ".hits" + std::to_string(kHits),
         cycles_of(5, rounds * 32, [&](long long* c) { fills<kHit, kMiss, kHits><<<1, 1024>>>(c, sink, hot, cold, rounds); }), "cycles",
         "a round of a warp, 32 warps: so many loads of 128 bytes that hit, one access to other data in L2");
}
template <int kHit, int kMiss>
void measure_kind(const char* name, const float* hot, float* cold, float* sink) {
  measure_fill<kHit, kMiss, 8>(name, hot, cold, sink), measure_fill<kHit, kMiss, 16>(name, hot, cold, sink), measure_fill<kHit, kMiss, 32>(name, hot, cold, sink);
}

/// 31 warps read shared memory while one thread copies pieces of 4 KB into it, four under way, until they have ended.
__global__ void __launch_bounds__(1024) beside_bulk(long long* cycles, float* sink, const std::byte* cold, int rounds, int pieces) {
  __shared__ __align__(128) float tile[8192];
  __shared__ alignas(8) uint64_t barriers[4];
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = 0;
  if (threadIdx.x == 0)
    for (auto& b : barriers) init(shared_address(&b), 1);
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  __syncthreads();
  float s = 0;
  const long long start = clock_now();
  if (threadIdx.x < 32) {
    if (lane == 0)
      for (int i = 0; i < pieces + 4; i++) {
        const uint32_t bar = shared_address(&barriers[i % 4]);
        if (i >= 4) wait(bar, (i / 4 - 1) & 1);
        if (i >= pieces) continue;
        expect(bar, 4096);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(shared_address(tile) + 16384 + i % 4 * 4096), "l"(cold + long(i % 1024) * 4096), "r"(bar)
                     : "memory");
      }
  } else {
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
      const uint32_t at = shared_address(tile) + lane * 4 + r % 4 * 4096;
      float x[8];
#pragma unroll
      for (int h = 0; h < 32; h++) {
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x[h % 8]) : "r"(at + h * 128));
        if (h % 8 == 7) s += x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
      }
    }
    asm volatile("bar.sync 1, 992;" ::: "memory");
  }
  const long long end = clock_now();
  if (threadIdx.x == 32) cycles[0] = end - start;
  if (threadIdx.x == 0) cycles[1] = end - start;
  sink[threadIdx.x] = s;
}

void measure_bulk(const std::byte* cold, float* sink) {
  if (predicted()) return;
  for (int pieces : {0, 512}) {
    Buffer<long long> cycles(2);
    std::vector<double> readers, copies;
    for (int r = 0; r < 6; r++) {
      long long c[2] = {};
      beside_bulk<<<1, 1024>>>(cycles, sink, cold, 32, pieces);
      cudaMemcpy(c, cycles, sizeof c, cudaMemcpyDeviceToHost);
      if (r) readers.push_back(double(c[0]) / (32 * 32 * 31)), copies.push_back(double(c[1]) / std::max(1, pieces));
    }
    report("fills.bulk.pieces" + std::to_string(pieces) + ".reader", readers, "cycles", "a load of 128 bytes from shared memory by one of 31 warps while 2 MB are copied beside it");
    report("fills.bulk.pieces" + std::to_string(pieces) + ".piece", copies, "cycles", "a piece of 4 KB of that");
  }
}

}  // namespace

void measure_fills() {
  Buffer<float> hot(8192), sink(1024), cold(1 << 22);
  measure_kind<kGlobalHit, kNothing>("alone", hot, cold, sink), measure_kind<kGlobalHit, kLoad4>("load4", hot, cold, sink);
  measure_kind<kGlobalHit, kLoad16>("load16", hot, cold, sink), measure_kind<kGlobalHit, kLoadPastL1>("past_l1", hot, cold, sink);
  measure_kind<kGlobalHit, kStore4>("store4", hot, cold, sink);
  measure_kind<kSharedHit, kNothing>("alone", hot, cold, sink), measure_kind<kSharedHit, kLoad4>("load4", hot, cold, sink);
  measure_kind<kSharedHit, kLoad16>("load16", hot, cold, sink), measure_kind<kSharedHit, kCopy16>("copy16", hot, cold, sink);
  measure_kind<kSharedHit, kStore4>("store4", hot, cold, sink);
  measure_bulk(reinterpret_cast<const std::byte*>(cold.p), sink);
}

}  // namespace dissect
