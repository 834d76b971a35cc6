// calib/steps/contended.cu: one word that many warps want at once: counters of which lanes have the same constant, compare and swap that fails,
// and loops that compare and swap until they succeed, as a program writes an addition or a maximum that the GPU does not have.
#include "steps.h"

namespace {
using namespace steps;

/// Every lane counts one, as many times as `per` says; kAnswered: what the word held is used.
template <bool kAnswered>
__global__ void __launch_bounds__(256) count_one(uint32_t* p, int per, uint32_t* out) {
  uint32_t sum = 0;
  for (int i = 0; i < per; i++) {
    if (kAnswered) sum += atomicAdd(p, 1);
    else atomicAdd(p, 1);
  }
  if (kAnswered && sum == 0xFFFFFFFF) out[threadIdx.x] = sum;
}
/// Compares with what the word never holds: every lane, or one of each warp.
template <int kLanes>
__global__ void __launch_bounds__(256) swap_in_vain(uint32_t* p, int per, uint32_t* out) {
  uint32_t sum = 0;
  for (int i = 0; i < per; i++)
    if (threadIdx.x % 32 < kLanes) sum += atomicCAS(p, 0x80000000u + sum, threadIdx.x);
  if (sum == 0x12345678) out[threadIdx.x] = sum;
}
/// Adds one by compare and swap: `kLanes` of each warp.
template <int kLanes>
__global__ void __launch_bounds__(512) swap_to_add(uint32_t* p, int per) {
  if (threadIdx.x % 32 >= kLanes) return;
  for (int i = 0; i < per; i++) {
    uint32_t old = *static_cast<volatile uint32_t*>(p), seen;
    while ((seen = atomicCAS(p, old, old + 1)) != old) old = seen;
  }
}
/// The largest of all by compare and swap: of values that rise with the thread, or are in no order.
template <bool kRising>
__global__ void __launch_bounds__(256) swap_to_most(uint32_t* p) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, own = kRising ? i + 1 : mix(i + 1);
  uint32_t old = *static_cast<volatile uint32_t*>(p);
  while (own > old) {
    const uint32_t seen = atomicCAS(p, old, own);
    if (seen == old) break;
    old = seen;
  }
}
__global__ void __launch_bounds__(256) add_float_lanes(float* p, int per) {
  for (int i = 0; i < per; i++) atomicAdd(p, float(threadIdx.x + i));
}

/// A block's pieces of work come from a counter until there are no more: 512 of them, each a chain of products and 4 KB read and written.
__global__ void __launch_bounds__(128) take_work(uint32_t* counter, float4* data) {
  __shared__ uint32_t next;
  for (;;) {
    if (threadIdx.x == 0) next = atomicAdd(counter, 1);
    __syncthreads();
    const uint32_t own = next;
    __syncthreads();
    if (own >= 512) return;
    float4 v = data[own * 256 + threadIdx.x], w = data[own * 256 + 128 + threadIdx.x];
    for (int i = 0; i < 500; i++) v.x = v.x * w.x + w.y, v.y = v.y * w.y + v.x;
    data[own * 256 + threadIdx.x] = v;
  }
}
/// One of all blocks walks a list.
__global__ void walk_list(const uint32_t* list, uint32_t block, int steps, uint32_t* out) {
  if (blockIdx.x != block) return;
  uint32_t at = threadIdx.x;
  for (int i = 0; i < steps; i++) at = list[at];
  out[threadIdx.x] = at;
}
/// Each block leaves a sum, the last one that comes adds them up.
template <bool kAtomic>
__global__ void __launch_bounds__(256) last_adds_up(const float* in, float* sums, uint32_t* counter, float* out) {
  __shared__ float total;
  __shared__ bool last;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  if (kAtomic) {
    atomicAdd(&total, in[blockIdx.x * 256 + threadIdx.x]);
  } else {
    float v = in[blockIdx.x * 256 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, v);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    *static_cast<volatile float*>(sums + blockIdx.x) = total;
    __threadfence();
    last = atomicAdd(counter, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  float v = 0;
  for (uint32_t i = threadIdx.x; i < gridDim.x; i += 256) v += *static_cast<volatile float*>(sums + i);
  atomicAdd(&total, v);
  __syncthreads();
  if (threadIdx.x == 0) *out = total, *counter = 0;
}

template <class K>
truth::Launch on_a_word(K kernel) {
  auto p = zeros<uint32_t>(1024);
  return [=] {
    cudaMemsetAsync(p.p, 0, 4096);
    kernel(p.p);
  };
}
TRUTH("contended", "count_one_silent", {1, 132, 1056}, [](long n) { return on_a_word([=](uint32_t* p) { count_one<false><<<unsigned(n), 256>>>(p, 8, p + 64); }); });
TRUTH("contended", "count_one_answered", {1, 132, 1056}, [](long n) { return on_a_word([=](uint32_t* p) { count_one<true><<<unsigned(n), 256>>>(p, 8, p + 64); }); });
TRUTH("contended", "swap_in_vain_lanes", {1, 132, 1056}, [](long n) { return on_a_word([=](uint32_t* p) { swap_in_vain<32><<<unsigned(n), 256>>>(p, 2, p + 64); }); });
TRUTH("contended", "swap_in_vain_one", {1, 132, 1056}, [](long n) { return on_a_word([=](uint32_t* p) { swap_in_vain<1><<<unsigned(n), 256>>>(p, 8, p + 64); }); });
TRUTH("contended", "swap_to_add_one", {1, 2, 8, 32, 132, 528}, [](long n) { return on_a_word([=](uint32_t* p) { swap_to_add<1><<<unsigned(n), 32>>>(p, 8); }); });
TRUTH("contended", "swap_to_add_lanes", {1, 4, 16}, [](long n) { return on_a_word([=](uint32_t* p) { swap_to_add<32><<<1, unsigned(n) * 32>>>(p, 1); }); });
TRUTH("contended", "swap_to_add_apart", {4, 32, 132}, [](long n) { return on_a_word([=](uint32_t* p) { swap_to_add<32><<<unsigned(n), 32>>>(p, 1); }); });
TRUTH("contended", "swap_to_most_rising", {1, 8, 132, 1056}, [](long n) { return on_a_word([=](uint32_t* p) { swap_to_most<true><<<unsigned(n), 256>>>(p); }); });
TRUTH("contended", "swap_to_most_any", {1, 8, 132, 1056}, [](long n) { return on_a_word([=](uint32_t* p) { swap_to_most<false><<<unsigned(n), 256>>>(p); }); });
TRUTH("contended", "take_work", {4, 16, 132, 1056}, [](long n) {
  auto d = uniform<float>(512 * 1024);
  return on_a_word([=](uint32_t* p) { take_work<<<unsigned(n), 128>>>(p, reinterpret_cast<float4*>(d.p)); });
});
TRUTH("contended", "walk_list", {132, 4096}, [](long n) {
  std::vector<uint32_t> next(1 << 18);
  for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t((i + 4099) % next.size());
  auto l = upload(next);
  return on_a_word([=](uint32_t* p) { walk_list<<<unsigned(n), 32>>>(l, unsigned(n) * 2 / 3 + 1, 20000, p + 64); });
});
template <bool kAtomic>
truth::Launch last(long n) {
  auto in = uniform<float>(size_t(n) * 256), sums = zeros<float>(size_t(n));
  return on_a_word([=](uint32_t* p) { last_adds_up<kAtomic><<<unsigned(n), 256>>>(in, sums, p, reinterpret_cast<float*>(p + 64)); });
}
TRUTH("contended", "last_adds_up", {64, 1056, 16384}, [](long n) { return last<false>(n); });
TRUTH("contended", "last_adds_up_lanes", {64, 1056, 16384}, [](long n) { return last<true>(n); });
TRUTH("contended", "add_float_lanes", {1, 132}, [](long n) { return on_a_word([=](uint32_t* p) { add_float_lanes<<<unsigned(n), 256>>>(reinterpret_cast<float*>(p), 4); }); });
}  // namespace
