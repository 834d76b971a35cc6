// calib/steps/random_adds.cu: additions to words drawn at random, by type and by how large the table is, one and two tables at a time, and words in memory
// that each turn of a loop loads, changes and stores.
//
// Not here: additions to lines in order (updates.cu), to few words (memory.cu).
#include "steps.h"

namespace random_adds {
using namespace steps;

__device__ __forceinline__ uint32_t drawn(uint32_t x) {
  x *= 2654435761u, x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
  return x;
}
/// Each thread adds `kAdds` times, `words` (a power of two) to choose from.
template <class T, class U>
__global__ void __launch_bounds__(256) add(T* table, U* other, uint32_t words, int adds) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < adds; k++) {
    const uint32_t at = drawn(i + uint32_t(k) * 0x10000000u) & (words - 1);
    atomicAdd(table + at, T(1));
    if (other) atomicAdd(other + at, U(1));
  }
}
template <class T, class U = T>
truth::Launch adding(int blocks, int adds, long kib, bool two = false) {
  const auto words = uint32_t(size_t(kib) * 1024 / sizeof(T));
  auto a = zeros<T>(words);
  auto b = zeros<U>(words);
  return [=] { add<T, U><<<unsigned(blocks), 256>>>(a.p, two ? b.p : nullptr, words, adds); };
}
enum Turn { kSame, kNext, kBeside };
/// A word of the thread's own in each turn: loaded, changed and stored; the next turn's is the same, the one of the next row, or the same with a word of
/// which all of a warp load one beside it.
template <Turn kTurn>
__global__ void __launch_bounds__(256) change(float* words, const float* shared, int turns, uint32_t row) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < turns; k++) {
    float v = 1.5f;
    if (kTurn == kBeside) v = __ldg(shared + (k & 255)) * __ldg(shared + ((k + blockIdx.x) & 255));
    float* const at = words + i + (kTurn == kNext ? uint32_t(k & 7) * row : 0);
    float x;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(at) : "memory");
    asm volatile("st.global.f32 [%0], %1;" ::"l"(at), "f"(x + v) : "memory");
  }
}
template <Turn kTurn>
truth::Launch changing(long blocks) {
  auto a = zeros<float>(size_t(blocks) * 256 * (kTurn == kNext ? 8 : 1)), s = zeros<float>(256);
  return [=] { change<kTurn><<<unsigned(blocks), 256>>>(a.p, s.p, 128, uint32_t(blocks) * 256); };
}

using u64 = unsigned long long;
#define KIB (std::vector<long>{16, 256, 1024, 16384})
TRUTH("random_adds", "random_add_u32", KIB, [](long n) { return adding<uint32_t>(4096, 1, n); });
TRUTH("random_adds", "random_add_u64", KIB, [](long n) { return adding<u64>(4096, 1, n); });
TRUTH("random_adds", "random_add_f32", KIB, [](long n) { return adding<float>(4096, 1, n); });
TRUTH("random_adds", "random_add_f64", KIB, [](long n) { return adding<double>(4096, 1, n); });
TRUTH("random_adds", "random_add_two", KIB, [](long n) { return adding<double, u64>(4096, 1, n, true); });
TRUTH("random_adds", "random_adds_u64", KIB, [](long n) { return adding<u64>(1056, 16, n); });
TRUTH("random_adds", "random_adds_f64", KIB, [](long n) { return adding<double>(1056, 16, n); });
#define BLOCKS (std::vector<long>{132, 528, 1024, 4096})
TRUTH("random_adds", "change_same", BLOCKS, [](long n) { return changing<kSame>(n); });
TRUTH("random_adds", "change_next", BLOCKS, [](long n) { return changing<kNext>(n); });
TRUTH("random_adds", "change_beside", BLOCKS, [](long n) { return changing<kBeside>(n); });

}  // namespace random_adds
