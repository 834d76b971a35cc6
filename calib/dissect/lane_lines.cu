// calib/dissect/lane_lines.cu: loads whose lanes lie in several lines: how long a warp waits for them and how many an SM takes, by lines of an
// access, bytes a lane, whether the lanes' words are in one bank, how many loads go out together and where the lines are.
//
// hit: L1 holds them; sector: each turn asks for the next sector of every line (L2 holds them, L1 has the line); word: the same, and the loads that
// go out with the first ask for the words behind it, which are on their way; line: each turn asks for lines that L1 does not hold.
#include "measure.h"

namespace dissect {
namespace {

constexpr int kTurns = 32;

__device__ inline unsigned load(const char* p, unsigned) {
  unsigned v;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ inline unsigned load(const char* p, uint2) {
  uint2 v;
  asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v.x | v.y;
}
__device__ inline unsigned load(const char* p, uint4) {
  uint4 v;
  asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v.x | v.y | v.z | v.w;
}

/// Lane i reads at lane_at[i]; kBatch loads `step` bytes apart go out before the first is waited for. All data are zero.
template <class T, int kBatch>
__global__ void loads(long long* cycles, unsigned* sink, const char* from, const int* lane_at, long warp_bytes, int step, int turn, int warm) {
  __shared__ long long first, last;
  if (threadIdx.x == 0) first = 0x7fffffffffffffffll, last = 0;
  const char* p = from + threadIdx.x / 32 * warp_bytes + lane_at[threadIdx.x % 32];
  unsigned sum = 0;
  for (int i = 0; i < warm; i++) sum += load(p + i * 128, T{});
  if (sum) *cycles = 0;  // they have come before the clock is read
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int t = 0; t < kTurns / kBatch; t++) {
    unsigned v[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; k++) v[k] = load(p + k * step, T{});
#pragma unroll
    for (int k = 0; k < kBatch; k++) p += v[k];
    p += turn;
  }
  const long long end = clock_now();
  atomicMin(&first, start);
  atomicMax(&last, end);
  __syncthreads();
  if (threadIdx.x == 0) *cycles = last - first;
  sink[threadIdx.x] = unsigned(size_t(p)) + sum;
}

struct Form {
  int lines;
  bool apart;  // are the lanes' words in banks of their own?
};

template <class T, int kBatch>
void measure(const char* from, unsigned* sink, int* lane_at, const Form& form) {
  constexpr int kRow = 4096;  // bytes between the lines of two lanes
  std::vector<int> at(32);
  const int together = 32 / form.lines;
  for (int i = 0; i < 32; i++) {
    const int line = i / together, shift = form.apart ? line * int(sizeof(T)) * together % 128 : 0;
    at[size_t(i)] = line * kRow + shift + i % together * int(sizeof(T));
  }
  cudaMemcpy(lane_at, at.data(), 128, cudaMemcpyHostToDevice);
  const struct { const char* name; int step, turn, warm; } kinds[] = {{"hit", 0, 0, 1}, {"sector", 32, 32 * kBatch, 0}, {"word", 4, 32, 0}, {"line", 128, 128 * kBatch, 0}};
  for (const auto& kind : kinds) {
    if (kind.step == 4 && (kBatch == 1 || sizeof(T) > 4)) continue;
    for (int warps : {1, 4, 16}) {
      const auto samples = cycles_of(5, kTurns, [&](long long* c) {
        loads<T, kBatch><<<1, warps * 32>>>(c, sink, from, lane_at, 32 * kRow, kind.step, kind.turn, kind.warm);
      }, Clock::span);
      report("lane_lines." + std::string(kind.name) + "." + std::to_string(sizeof(T)) + "bytes." + std::to_string(form.lines) + "lines." + (form.apart ? "apart." : "one_bank.") +
                 std::to_string(kBatch) + "together." + std::to_string(warps) + "warps",
             samples, "cycles", "from a load of each warp to the next, one SM");
    }
  }
}

}  // namespace

void measure_lane_lines() {
  Buffer<char> from(size_t(16) * 32 * 4096 + 65536);
  Buffer<unsigned> sink(1024);
  Buffer<int> lane_at(32);
  for (int lines : {1, 4, 8, 16, 32}) measure<unsigned, 1>(from, sink, lane_at, {lines, true}), measure<unsigned, 4>(from, sink, lane_at, {lines, true});
  for (int lines : {8, 32}) measure<unsigned, 1>(from, sink, lane_at, {lines, false}), measure<unsigned, 4>(from, sink, lane_at, {lines, false});
  for (int lines : {8, 32}) measure<uint2, 4>(from, sink, lane_at, {lines, true}), measure<uint4, 1>(from, sink, lane_at, {lines, true}), measure<uint4, 4>(from, sink, lane_at, {lines, true});
  for (int lines : {8, 32}) measure<uint2, 4>(from, sink, lane_at, {lines, false}), measure<uint4, 1>(from, sink, lane_at, {lines, false}), measure<uint4, 4>(from, sink, lane_at, {lines, false});
}

}  // namespace dissect
