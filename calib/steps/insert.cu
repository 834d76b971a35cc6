// calib/steps/insert.cu: compare and swap at random places: once, in a loop that puts a function of what is there back, until a free place of a table is found;
// beside plain additions to the same words. Additions of halves, in pairs and alone, to one word and to random ones.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "steps.h"

namespace {
using namespace steps;

enum class How { once, changed, looked, added, swapped };

/// A random word a thread of `mask` + 1. once: compared and swapped, whatever it was; changed: read, then compared and swapped until what was read is still there;
/// looked: the same, what is read first left out; added, swapped: an atomic addition or exchange instead, of which the answer is used.
template <class T, How kHow>
__global__ void __launch_bounds__(256) at_random(T* words, T* out, uint32_t mask) {
  const uint32_t t = blockIdx.x * 256 + threadIdx.x;
  T* const word = words + (mix(t) & mask);
  T found = 0;
  if constexpr (kHow == How::once) found = atomicCAS(word, T(0), T(t));
  if constexpr (kHow == How::added) found = atomicAdd(word, T(t));
  if constexpr (kHow == How::swapped) found = atomicExch(word, T(t));
  if constexpr (kHow == How::changed || kHow == How::looked) {
    T assumed;
    found = kHow == How::changed ? *(volatile T*)word : 0;
    do {
      assumed = found;
      found = atomicCAS(word, assumed, assumed * 3 + t);
    } while (found != assumed);
  }
  if (found == 12345) out[0] = found;
}
template <class T, How kHow>
Launch at_random_of(long kib) {
  auto words = zeros<T>((size_t(kib) << 10) / sizeof(T));
  auto out = zeros<T>(1);
  return [=] { at_random<T, kHow><<<4096, 256>>>(words, out, uint32_t((size_t(kib) << 10) / sizeof(T)) - 1); };
}
using Long = unsigned long long;
#define AT_RANDOM(name, how) \
  TRUTH("insert", name, {64, 4096, 65536}, [](long kib) { return at_random_of<uint32_t, how>(kib); }); \
  TRUTH("insert", name "_long", {64, 4096, 65536}, [](long kib) { return at_random_of<Long, how>(kib); });
AT_RANDOM("once", How::once) AT_RANDOM("changed", How::changed) AT_RANDOM("looked", How::looked) AT_RANDOM("added", How::added) AT_RANDOM("swapped", How::swapped)

/// Keys put into a table of 2^20 places, `tenths` of which they fill: the next place where one is taken.
template <bool kLooks>
__global__ void __launch_bounds__(256) fill(uint32_t* table, uint32_t keys) {
  const uint32_t t = blockIdx.x * 256 + threadIdx.x;
  if (t >= keys) return;
  uint32_t at = mix(t) & 0xFFFFF;
  while (true) {
    if (kLooks && table[at] != 0) {
      at = (at + 1) & 0xFFFFF;
      continue;
    }
    if (atomicCAS(table + at, 0u, t + 1) == 0) return;
    at = (at + 1) & 0xFFFFF;
  }
}
template <bool kLooks>
Launch fill_of(long tenths) {
  auto table = zeros<uint32_t>(1 << 20);
  const uint32_t keys = uint32_t((1 << 20) * tenths / 10);
  return [=] {
    cudaMemsetAsync(table.p, 0, 4 << 20);
    fill<kLooks><<<(keys + 255) / 256, 256>>>(table, keys);
  };
}
TRUTH("insert", "fill", {1, 5, 8}, [](long tenths) { return fill_of<false>(tenths); });
TRUTH("insert", "fill_looks", {1, 5, 8}, [](long tenths) { return fill_of<true>(tenths); });

/// Halves added: to one word by all, to a word of 1 MB drawn at random, to the thread's own.
enum class Where { one, random, own };
template <class T, Where kWhere>
__global__ void __launch_bounds__(256) add_halves(T* words) {
  const uint32_t t = blockIdx.x * 256 + threadIdx.x;
  T* const word = words + (kWhere == Where::one ? 0 : kWhere == Where::own ? t : mix(t) & ((1 << 20) / sizeof(T) - 1));
  if constexpr (sizeof(T) == 2) atomicAdd(word, T(1.f));
  else if constexpr (std::is_same_v<T, float>) atomicAdd(word, 1.f);
  else if constexpr (std::is_same_v<T, __half2>) atomicAdd(word, __floats2half2_rn(1, 1));
  else atomicAdd(word, __floats2bfloat162_rn(1, 1));
}
template <class T, Where kWhere>
Launch add_halves_of(long blocks) {
  auto words = zeros<uint32_t>(blocks * 256 + (1 << 18));
  return [=] { add_halves<T, kWhere><<<unsigned(blocks), 256>>>((T*)words.p); };
}
#define HALVES(name, type) \
  TRUTH("insert", name "_one", {264, 2112}, [](long blocks) { return add_halves_of<type, Where::one>(blocks); }); \
  TRUTH("insert", name "_random", {264, 4096}, [](long blocks) { return add_halves_of<type, Where::random>(blocks); }); \
  TRUTH("insert", name "_own", {4096}, [](long blocks) { return add_halves_of<type, Where::own>(blocks); });
HALVES("add_half2", __half2) HALVES("add_half", __half) HALVES("add_bfloat2", __nv_bfloat162) HALVES("add_float", float)

}  // namespace
