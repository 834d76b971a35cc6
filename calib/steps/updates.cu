// calib/steps/updates.cu: atomic operations by the width of their words: of warps on neighbouring words that all blocks share, at random places
// of tables of several sizes, and words that are read first and then compared and swapped, as programs make operations that the GPU does not have.
#include "steps.h"

namespace {
using namespace steps;

/// Every lane adds to the word of its number among `words`.
template <class T, bool kAnswered>
__global__ void __launch_bounds__(256) add_dense(T* p, int words, int per, T* out) {
  T sum = 0;
  for (int i = 0; i < per; i++) {
    if (kAnswered) sum += atomicAdd(p + threadIdx.x % words, T(1));
    else atomicAdd(p + threadIdx.x % words, T(1));
  }
  if (kAnswered && sum == T(0.5)) out[threadIdx.x] = sum;
}
template <class T, bool kAnswered>
truth::Launch dense(long words) {
  auto p = zeros<T>(4096);
  return [=] { add_dense<T, kAnswered><<<1056, 256>>>(p.p, int(words), 4, p.p + 2048); };
}
using wide = unsigned long long;
TRUTH("atomic", "dense_u32", {1, 4, 32, 256}, [](long n) { return dense<uint32_t, false>(n); });
TRUTH("atomic", "dense_u64", {1, 4, 32, 256}, [](long n) { return dense<wide, false>(n); });
TRUTH("atomic", "dense_f32", {1, 4, 32, 256}, [](long n) { return dense<float, false>(n); });
TRUTH("atomic", "dense_f64", {1, 4, 32, 256}, [](long n) { return dense<double, false>(n); });
TRUTH("atomic", "dense_u32_answered", {32, 256}, [](long n) { return dense<uint32_t, true>(n); });
TRUTH("atomic", "dense_u64_answered", {32, 256}, [](long n) { return dense<wide, true>(n); });
TRUTH("atomic", "dense_f64_answered", {32, 256}, [](long n) { return dense<double, true>(n); });

enum class Update { add, any, swap, read_swap, swap_loop, swap_store, read_store, exclusive_or, read, store, read_store_apart, read_add, read_add_apart, read_near_store };

/// Each thread works on `per` words at random places of a table of so many.
template <class T, Update kWhat>
__global__ void __launch_bounds__(256) update(T* table, uint64_t mask, int per, T* out) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  T sum = 0;
#pragma unroll 1
  for (int i = 0; i < per; i++) {
    T* const at = &table[(uint64_t(mix(t * 64 + i)) << 3 ^ mix(t + i * 77777)) & mask];
    if (kWhat == Update::add) atomicAdd(at, T(1));
    if (kWhat == Update::exclusive_or) atomicXor(at, T(t));
    if (kWhat == Update::any) sum += atomicAdd(at, T(1));
    if (kWhat == Update::swap) sum += atomicCAS(at, T(0), T(t | 1));
    if (kWhat == Update::read_swap) {
      const T old = *static_cast<volatile T*>(at);
      sum += atomicCAS(at, old, old + 1);
    }
    if (kWhat == Update::swap_loop) {
      T old = *at, seen;
      while ((seen = atomicCAS(at, old, old + 1)) != old) old = seen;
    }
    if (kWhat == Update::swap_store) {
      atomicCAS(at, T(0), T(t | 1));
      at[at == table + mask ? -1 : 1] = T(t);
    }
    T* const apart = &table[(uint64_t(mix(t * 64 + i + 0x12345)) << 3 ^ mix(t + i * 99991 + 7)) & mask];
    if (kWhat == Update::read) sum += __ldcg(at);
    if (kWhat == Update::store) __stcg(at, T(t));
    if (kWhat == Update::read_store_apart) __stcg(apart, __ldcg(at) ^ T(t));
    if (kWhat == Update::read_near_store) *at = __ldcg(at) ^ T(t);
    if (kWhat == Update::read_add) atomicAdd(at, __ldcg(at));
    if (kWhat == Update::read_add_apart) atomicAdd(apart, __ldcg(at));
    if (kWhat == Update::read_store) *at = *static_cast<volatile T*>(at) ^ T(t);
  }
  if (sum == T(0x12345678)) out[threadIdx.x] = sum;
}
template <class T, Update kWhat>
truth::Launch random(long mb, int blocks, int per) {
  auto p = zeros<T>((size_t(mb) << 20) / sizeof(T));
  auto o = zeros<T>(256);
  return [=] { update<T, kWhat><<<unsigned(blocks), 256>>>(p.p, (uint64_t(mb) << 20) / sizeof(T) - 1, per, o.p); };
}
#define UPDATES(name, type, what) \
  TRUTH("atomic", name, {4, 32, 512}, [](long mb) { return random<type, Update::what>(mb, 8192, 1); });
UPDATES("update_add", uint32_t, add)
UPDATES("update_add_wide", wide, add)
UPDATES("update_answered", uint32_t, any)
UPDATES("update_answered_wide", wide, any)
UPDATES("update_swap", uint32_t, swap)
UPDATES("update_swap_wide", wide, swap)
UPDATES("update_read_swap", uint32_t, read_swap)
UPDATES("update_swap_loop", uint32_t, swap_loop)
UPDATES("update_swap_store", uint32_t, swap_store)
UPDATES("update_read_store", uint32_t, read_store)
UPDATES("update_read", uint32_t, read)
UPDATES("update_store", uint32_t, store)
UPDATES("update_read_store_apart", uint32_t, read_store_apart)
UPDATES("update_read_near_store", uint32_t, read_near_store)
UPDATES("update_read_add", uint32_t, read_add)
UPDATES("update_read_add_apart", uint32_t, read_add_apart)
TRUTH("atomic", "update_alone", {4, 32, 512}, [](long mb) { return random<wide, Update::exclusive_or>(mb, 1, 256); });
TRUTH("atomic", "update_alone_few", {1, 8, 33}, [](long blocks) { return random<wide, Update::exclusive_or>(512, int(blocks), 128); });

/// Each thread's sum lies in memory and is stored in every turn of a loop: of nothing that is loaded, of one word for all, of a word of its own.
template <int kLoads>
__global__ void __launch_bounds__(256) sum_in_memory(float* sums, const float* one, const float* own, int turns, uint32_t mask) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < turns; k++) {
    float v = float(k);
    if (kLoads >= 1) v = __ldg(one + (blockIdx.x & 63) * 256 + (k & 255));
    if (kLoads >= 2) v *= __ldg(own + ((k * 512 + i) & mask));
    sum += v;
    asm volatile("st.global.f32 [%0], %1;" ::"l"(sums + i), "f"(sum) : "memory");
  }
}
template <int kLoads>
truth::Launch in_memory(long blocks) {
  auto sums = zeros<float>(size_t(blocks) * 256), one = zeros<float>(64 * 256), own = zeros<float>(1 << 18);
  return [=] { sum_in_memory<kLoads><<<unsigned(blocks), 256>>>(sums.p, one.p, own.p, 256, (1 << 18) - 1); };
}
TRUTH("atomic", "sum_in_memory0", {132, 1024, 4096}, [](long n) { return in_memory<0>(n); });
TRUTH("atomic", "sum_in_memory1", {132, 1024, 4096}, [](long n) { return in_memory<1>(n); });
TRUTH("atomic", "sum_in_memory2", {132, 1024, 4096}, [](long n) { return in_memory<2>(n); });
}  // namespace
