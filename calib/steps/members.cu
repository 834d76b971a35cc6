// calib/steps/members.cu: exchanges within a warp whose lanes name different members, by how many lanes a group has, for one warp of an SM and for all;
// and launches that only wait, which tell what L2 is asked for while nobody asks it.
//
// Not here: match and reductions of a warp as such (diverge.cu, dissect), exchanges of parted lanes with constant masks.
#include "steps.h"

namespace members {
using namespace steps;

constexpr int kRounds = 64;
enum What { kShuffle, kBallot, kMeet, kReduce };

/// Rounds that depend on each other, by groups of `lanes`.
template <What what>
__global__ void exchange(float* out, int lanes) {
  const unsigned group = (lanes == 32 ? ~0u : (1u << lanes) - 1) << (threadIdx.x & 31 & ~(lanes - 1));
  unsigned v = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < kRounds; i++) {
    if (what == kShuffle) v += __shfl_xor_sync(group, v, 1);
    if (what == kBallot) v += __ballot_sync(group, v & 1);
    if (what == kReduce) v += __reduce_add_sync(group, v);
    if (what == kMeet) {
      v = v * 3 + 1;
      __syncwarp(group);
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = float(v);
}
/// Groups leave the loop one by one: some turns are only of some of them.
template <What what>
__global__ void parted(float* out, int lanes) {
  const unsigned group = (lanes == 32 ? ~0u : (1u << lanes) - 1) << (threadIdx.x & 31 & ~(lanes - 1));
  unsigned v = threadIdx.x;
  const int rounds = kRounds / 2 + int(threadIdx.x & 31) / lanes * 4;
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    if (what == kShuffle) v += __shfl_xor_sync(group, v, 1);
    if (what == kBallot) v += __ballot_sync(group, v & 1);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = float(v);
}
/// A short sum of each group, in many short blocks: loads, three exchanges, a store.
__global__ void sums(const float* x, float* out, int lanes) {
  const unsigned group = (lanes == 32 ? ~0u : (1u << lanes) - 1) << (threadIdx.x & 31 & ~(lanes - 1));
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int k = lanes / 2; k; k /= 2) v += __shfl_down_sync(group, v, k, lanes);
  if ((threadIdx.x & (lanes - 1)) == 0) out[i / lanes] = v;
}
/// What a compiler makes of a group's sum whose turns it knows: all of them without a loop, so that one test asks whether the whole warp is one group.
template <int kLanes>
__global__ void known_sums(const float* x, float* out, int rounds) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned group = (kLanes == 32 ? ~0u : (1u << kLanes % 32) - 1) << (threadIdx.x & 31 & ~(kLanes - 1));
  float v = x[i];
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = kLanes / 2; k; k /= 2) v += __shfl_down_sync(group, v, k, kLanes);
  }
  if ((threadIdx.x & (kLanes - 1)) == 0) out[i / kLanes] = v;
}
/// Votes of a group in a loop that it leaves when one of its lanes has found what it looks for, as in a table whose buckets a group looks through.
template <int kLanes>
__global__ void known_votes(const float* x, float* out, int rounds) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned group = (kLanes == 32 ? ~0u : (1u << kLanes % 32) - 1) << (threadIdx.x & 31 & ~(kLanes - 1));
  float v = x[i];
  for (int r = 0; r < 8; r++) {
    const unsigned found = __ballot_sync(group, r == rounds), empty = __ballot_sync(group, v > 1e30f);
    v = v * 1.01f + 1;
    if (found || empty) break;
  }
  out[i] = v;
}
/// One warp in four does it: all of them in one sub-core.
__global__ void meet_beside(float* out, int lanes) {
  const unsigned group = (lanes == 32 ? ~0u : (1u << lanes) - 1) << (threadIdx.x & 31 & ~(lanes - 1));
  unsigned v = threadIdx.x;
  if (threadIdx.x / 32 % 4 == 0)
#pragma unroll 1
    for (int i = 0; i < kRounds; i++) {
      v = v * 3 + 1;
      __syncwarp(group);
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = float(v);
}
__global__ void spin(float* out, long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
  if (cycles < 0) out[0] = 1;
}

template <What what>
truth::Launch exchanging(int blocks, int threads, long lanes) {
  auto o = zeros<float>(size_t(blocks) * size_t(threads));
  return [=] { exchange<what><<<unsigned(blocks), unsigned(threads)>>>(o.p, int(lanes)); };
}
template <What what>
truth::Launch parting(int blocks, int threads, long lanes) {
  auto o = zeros<float>(size_t(blocks) * size_t(threads));
  return [=] { parted<what><<<unsigned(blocks), unsigned(threads)>>>(o.p, int(lanes)); };
}

#define LANES (std::vector<long>{1, 2, 4, 8, 16, 32})
TRUTH("members", "shuffle_one", LANES, [](long n) { return exchanging<kShuffle>(132, 32, n); });
TRUTH("members", "shuffle_all", LANES, [](long n) { return exchanging<kShuffle>(264, 1024, n); });
TRUTH("members", "ballot_one", LANES, [](long n) { return exchanging<kBallot>(132, 32, n); });
TRUTH("members", "ballot_all", LANES, [](long n) { return exchanging<kBallot>(264, 1024, n); });
TRUTH("members", "meet_one", LANES, [](long n) { return exchanging<kMeet>(132, 32, n); });
TRUTH("members", "meet_all", LANES, [](long n) { return exchanging<kMeet>(264, 1024, n); });
TRUTH("members", "reduce_one", LANES, [](long n) { return exchanging<kReduce>(132, 32, n); });
TRUTH("members", "reduce_all", LANES, [](long n) { return exchanging<kReduce>(264, 1024, n); });
TRUTH("members", "parted_shuffle_one", LANES, [](long n) { return parting<kShuffle>(132, 32, n); });
TRUTH("members", "parted_shuffle_all", LANES, [](long n) { return parting<kShuffle>(264, 1024, n); });
TRUTH("members", "parted_ballot_one", LANES, [](long n) { return parting<kBallot>(132, 32, n); });
TRUTH("members", "parted_ballot_all", LANES, [](long n) { return parting<kBallot>(264, 1024, n); });
TRUTH("members", "short_sums", LANES, [](long n) {
  auto a = zeros<float>(8192 * 256), o = zeros<float>(8192 * 256);
  return truth::Launch([=] { sums<<<8192, 256>>>(a.p, o.p, int(n)); });
});
template <int kLanes>
truth::Launch known(bool votes, int blocks, int threads, int rounds) {
  auto a = zeros<float>(size_t(blocks) * size_t(threads)), o = zeros<float>(size_t(blocks) * size_t(threads));
  return [=] { (votes ? known_votes<kLanes> : known_sums<kLanes>)<<<unsigned(blocks), unsigned(threads)>>>(a.p, o.p, rounds); };
}
truth::Launch known(bool votes, long lanes, int blocks, int threads, int rounds) {
  if (lanes == 2) return known<2>(votes, blocks, threads, rounds);
  if (lanes == 4) return known<4>(votes, blocks, threads, rounds);
  if (lanes == 8) return known<8>(votes, blocks, threads, rounds);
  if (lanes == 16) return known<16>(votes, blocks, threads, rounds);
  return known<32>(votes, blocks, threads, rounds);
}
#define KNOWN (std::vector<long>{2, 4, 8, 16, 32})
TRUTH("members", "known_sums_one", KNOWN, [](long n) { return known(false, n, 132, 32, 32); });
TRUTH("members", "known_sums_all", KNOWN, [](long n) { return known(false, n, 264, 1024, 16); });
TRUTH("members", "known_sums_short", KNOWN, [](long n) { return known(false, n, 8192, 256, 1); });
TRUTH("members", "known_votes_one", KNOWN, [](long n) { return known(true, n, 132, 32, 7); });
TRUTH("members", "known_votes_all", KNOWN, [](long n) { return known(true, n, 2112, 1024, 7); });
TRUTH("members", "known_votes_once", KNOWN, [](long n) { return known(true, n, 8192, 256, 0); });
TRUTH("members", "meet_beside", LANES, [](long n) {
  auto o = zeros<float>(132 * 1024);
  return truth::Launch([=] { meet_beside<<<132, 1024>>>(o.p, int(n)); });
});
/// Cycles, in thousands.
#define CYCLES (std::vector<long>{1, 10, 40, 200, 1000, 4000})
TRUTH("members", "spin_one", CYCLES, [](long n) {
  auto o = zeros<float>(32);
  return truth::Launch([=] { spin<<<1, 32>>>(o.p, n * 1000); });
});
TRUTH("members", "spin_all", CYCLES, [](long n) {
  auto o = zeros<float>(32);
  return truth::Launch([=] { spin<<<132, 32>>>(o.p, n * 1000); });
});
TRUTH("members", "spin_many", CYCLES, [](long n) {
  auto o = zeros<float>(32);
  return truth::Launch([=] { spin<<<264, 1024>>>(o.p, n * 1000); });
});

}  // namespace members
