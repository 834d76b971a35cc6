// planted_ring.h: what the programs with a ring of stages share: one thread fills stages of 128 ints by bulk copies, groups of
// 128 threads sum them in turn, and two mbarriers a stage say when it is full and when it is empty.
#pragma once
#include "planted_support.h"

// The ring, with a stage full after one arrival and its bytes, empty after 128 arrivals.
#define RING(stages)                                       \
  __shared__ alignas(128) int tile[stages][128];           \
  __shared__ uint64_t full[stages], empty[stages];         \
  if (threadIdx.x == 0) {                                  \
    for (int s = 0; s < stages; s++) {                     \
      MBAR_INIT(&full[s], 1);                              \
      MBAR_INIT(&empty[s], 128);                           \
    }                                                      \
    FENCE_PROXY_ASYNC();                                   \
  }                                                        \
  __syncthreads()

// What the producing thread does: fills stage after stage with `tiles` tiles of `in`, each once it is empty.
#define RING_FILL(in, tiles, stages)                                        \
  for (int i = 0; i < tiles; i++) {                                         \
    const int s = i % stages;                                               \
    if (i >= stages) MBAR_WAIT(&empty[s], (i / stages - 1) % 2);            \
    MBAR_EXPECT(&full[s], 512);                                             \
    BULK_LOAD(tile[s], in + 128 * i, 512, &full[s]);                        \
  }

/// Runs a kernel (in, out) whose `groups` groups of consumers take every `groups`-th of `tiles` tiles, and compares the sums.
template <class Kernel>
bool run_ring(Kernel kernel, int tiles, int groups) {
  Buffer<int> in(counting(tiles * 128)), out(groups * 128);
  kernel<<<1, groups * 128 + 32>>>(in, out);
  std::vector<int> want(groups * 128);
  for (int t = 0; t < groups * 128; t++)
    for (int i = t / 128; i < tiles; i += groups) want[t] += 128 * i + t % 128;
  return finished() && same(out.host(), want);
}
