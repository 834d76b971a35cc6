// calib/steps/waits.cu: blocks that wait for what other blocks write: a word handed from block to block (with and without a number taken
// in turn, with work beside it), states that are looked back at, a barrier of the whole grid.
#include <cooperative_groups.h>

#include "../truth/truth.h"

namespace {
using namespace truth;

/// Each block waits for the word of the one ahead, then writes its own. `work` turns of arithmetic before it waits. The word told is
/// the launch's number, so that what an earlier launch wrote is waited past.
template <bool kTicket>
__global__ void relay(volatile uint32_t* words, uint32_t* ticket, uint32_t* epoch, float* out, int work) {
  __shared__ uint32_t number, now;
  if (threadIdx.x == 0) {
    number = kTicket ? atomicAdd(ticket, 1) % gridDim.x : blockIdx.x;
    now = *(volatile uint32_t*)epoch + 1;
  }
  __syncthreads();
  const uint32_t block = number;
  float x = float(threadIdx.x);
  for (int i = 0; i < work; i++) x = x * .99f + 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    if (block)
      while (words[block - 1] != now) {}
    __threadfence();
    words[block] = now;
    if (block + 1 == gridDim.x) *epoch = now;
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <bool kTicket>
Launch relay_of(long blocks, int threads, int work) {
  auto w = zeros<uint32_t>(blocks), t = zeros<uint32_t>(1), e = zeros<uint32_t>(1);
  auto o = zeros<float>(blocks * threads);
  return [=] { relay<kTicket><<<int(blocks), threads>>>(w, t, e, o, work); };
}
TRUTH("waits", "relay", {132, 1056}, [](long n) { return relay_of<false>(n, 32, 0); });
TRUTH("waits", "relay_ticket", {132, 1056}, [](long n) { return relay_of<true>(n, 32, 0); });
TRUTH("waits", "relay_wide", {1056}, [](long n) { return relay_of<true>(n, 256, 0); });
TRUTH("waits", "relay_work", {132, 1056}, [](long n) { return relay_of<true>(n, 256, 4000); });

/// Sums that are looked back at, as scans in one pass do: a block says its own sum at once, then adds up those ahead of it, 32 at a
/// time, until one tells the sum from the beginning. States: sum << 2 | kind, of a launch of their own (0: nothing yet).
__global__ void __launch_bounds__(256) look_back(const uint4* in, uint4* out, volatile unsigned long long* state, unsigned long long* clear) {
  __shared__ uint32_t part[8], before;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, block = blockIdx.x;
  const long at = block * 256l + threadIdx.x;
  uint4 v = in[at];
  v.y += v.x, v.z += v.y, v.w += v.z;
  uint32_t sum = v.w;
  for (int d = 1; d < 32; d *= 2) {
    const uint32_t up = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += up;
  }
  if (lane == 31) part[warp] = sum;
  __syncthreads();
  uint32_t ahead = 0, total = 0;
  for (int i = 0; i < 8; i++) ahead += i < warp ? part[i] : 0, total += part[i];
  if (warp == 0) {
    if (lane == 0) state[block] = (unsigned long long)total << 2 | (block ? 1 : 2);
    uint32_t base = 0;
    for (int last = block - 1; last >= 0; last -= 32) {
      unsigned long long s = 0;
      if (last - lane >= 0)
        while ((s = state[last - lane]) == 0) {}
      const uint32_t whole = __ballot_sync(~0u, (s & 3) == 2);
      const int from = whole ? __ffs(whole) - 1 : 31;
      base += __reduce_add_sync(~0u, lane <= from ? uint32_t(s >> 2) : 0);
      if (whole) break;
    }
    if (lane == 0) state[block] = (unsigned long long)(base + total) << 2 | 2, clear[block] = 0, before = base;
  }
  __syncthreads();
  const uint32_t base = before + ahead + sum - v.w;
  out[at] = make_uint4(v.x + base, v.y + base, v.z + base, v.w + base);
}
TRUTH("waits", "look_back", {132, 1024, 16384}, [](long blocks) {
  auto in = zeros<uint32_t>(blocks * 1024), out = zeros<uint32_t>(blocks * 1024);
  auto a = zeros<unsigned long long>(blocks), b = zeros<unsigned long long>(blocks);
  auto turn = std::make_shared<bool>(false);
  return [=] {  // what a launch looks at the one before it has cleared
    *turn = !*turn;
    look_back<<<int(blocks), 256>>>((const uint4*)in.p, (uint4*)out.p, *turn ? a : b, *turn ? b : a);
  };
});

/// Barriers of the whole grid.
__global__ void meet_grid(float* out, int rounds) {
  const auto grid = cooperative_groups::this_grid();
  float x = float(threadIdx.x);
  for (int r = 0; r < rounds; r++) {
    x = x * .99f + 1;
    grid.sync();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <int kThreads, int kPerSm>
Launch meeting(long rounds) {
  auto o = zeros<float>(132 * kPerSm * kThreads);
  return [=] {
    float* out = o;
    int r = int(rounds);
    void* arguments[] = {&out, &r};
    cudaLaunchCooperativeKernel((const void*)meet_grid, dim3(132 * kPerSm), dim3(kThreads), arguments, 0, nullptr);
  };
}
TRUTH("waits", "meet_grid", {1, 4, 32}, [](long n) { return meeting<32, 1>(n); });
TRUTH("waits", "meet_grid_wide", {1, 32}, [](long n) { return meeting<256, 4>(n); });

}  // namespace
