// calib/steps/store_rows.cu: a row of each lane's own written by pieces, one store right behind the other, by a few warps that then rest or go on
// at once: which stores leave an SM as one, without what a busy SM does to them (fields.cu). And structures read whole and written, in place or
// elsewhere, alone or behind work that parts warps.
#include "steps.h"

namespace {
using namespace steps;

enum Order { kUp, kDown, kHalves, kBack };  // halves: every other piece first; back: the first, the last, the second, ...

template <int kPieces>
__device__ constexpr int piece(int i, Order order) {
  switch (order) {
    case kUp: return i;
    case kDown: return kPieces - 1 - i;
    case kHalves: return i < (kPieces + 1) / 2 ? 2 * i : 2 * (i - (kPieces + 1) / 2) + 1;
    default: return i % 2 ? kPieces - 1 - i / 2 : i / 2;
  }
}
template <class T>
__device__ void put(char* to, uint32_t v) {
  if constexpr (sizeof(T) == 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(to), "r"(v) : "memory");
  if constexpr (sizeof(T) == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "h"((unsigned short)v) : "memory");
  if constexpr (sizeof(T) == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
  if constexpr (sizeof(T) == 8) asm volatile("st.global.v2.u32 [%0], {%1,%1};" ::"l"(to), "r"(v) : "memory");
  if constexpr (sizeof(T) == 16) asm volatile("st.global.v4.u32 [%0], {%1,%1,%1,%1};" ::"l"(to), "r"(v) : "memory");
}

/// `rounds` rows a thread, `pause` cycles from one to the next.
template <class T, int kPieces, int kApart, Order order>
__global__ void __launch_bounds__(1024) store_rows(char* to, int rounds, int pause) {
  char* own = to + (size_t(blockIdx.x) * rounds * blockDim.x + threadIdx.x) * kApart * sizeof(T);
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; r++, own += size_t(blockDim.x) * kApart * sizeof(T)) {
#pragma unroll
    for (int k = 0; k < kPieces; k++) put<T>(own + piece<kPieces>(k, order) * int(sizeof(T)), uint32_t(r));
    while (pause && clock64() - begin < (long long)(r + 1) * pause) {}
  }
}
template <class T, int kPieces, int kApart, Order order>
truth::Launch rows(long warps, int pause) {
  const int rounds = int(std::max(2l, std::min(32l, 128 / warps)));
  auto to = zeros<T>(size_t(132) * size_t(rounds) * size_t(warps) * 32 * kApart);
  return [=] { store_rows<T, kPieces, kApart, order><<<132, unsigned(32 * warps)>>>(reinterpret_cast<char*>(to.p), rounds, pause); };
}
#define ROWS(name, type, pieces, apart, order)                                                                                                              \
  TRUTH("store_rows", "rest_" name, {1, 4, 8, 32}, [](long warps) { return rows<type, pieces, apart, order>(warps, 4000); });                                \
  TRUTH("store_rows", "go_" name, {1, 4, 8, 32}, [](long warps) { return rows<type, pieces, apart, order>(warps, 0); });
ROWS("1_8_8", uint8_t, 8, 8, kUp) ROWS("2_8_8", uint16_t, 8, 8, kUp)
ROWS("4_2_2", uint32_t, 2, 2, kUp) ROWS("4_3_3", uint32_t, 3, 3, kUp) ROWS("4_4_4", uint32_t, 4, 4, kUp) ROWS("4_5_5", uint32_t, 5, 5, kUp) ROWS("4_6_6", uint32_t, 6, 6, kUp)
ROWS("4_7_7", uint32_t, 7, 7, kUp) ROWS("4_4_7", uint32_t, 4, 7, kUp) ROWS("4_2_7", uint32_t, 2, 7, kUp) ROWS("4_8_8", uint32_t, 8, 8, kUp) ROWS("4_9_9", uint32_t, 9, 9, kUp)
ROWS("4_12_12", uint32_t, 12, 12, kUp) ROWS("4_16_16", uint32_t, 16, 16, kUp) ROWS("4_4_32", uint32_t, 4, 32, kUp)
ROWS("8_2_2", uint64_t, 2, 2, kUp) ROWS("8_3_3", uint64_t, 3, 3, kUp) ROWS("8_4_4", uint64_t, 4, 4, kUp) ROWS("8_8_8", uint64_t, 8, 8, kUp)
ROWS("16_2_2", uint4, 2, 2, kUp) ROWS("16_3_3", uint4, 3, 3, kUp) ROWS("16_4_4", uint4, 4, 4, kUp) ROWS("16_8_8", uint4, 8, 8, kUp) ROWS("16_2_4", uint4, 2, 4, kUp)
ROWS("4_7_7_down", uint32_t, 7, 7, kDown) ROWS("4_7_7_halves", uint32_t, 7, 7, kHalves) ROWS("16_4_4_down", uint4, 4, 4, kDown) ROWS("16_4_4_halves", uint4, 4, 4, kHalves)
ROWS("16_4_4_back", uint4, 4, 4, kBack) ROWS("4_4_4_halves", uint32_t, 4, 4, kHalves)

/// The same with `kSteps` dependent products between two stores, of which the later one stores the result (ptxas moves the earlier one down to it where
/// they are 12 or fewer with two stores, 6 with four, and all of 16 bytes a lane); `kOthers` stores of whole lines lie between them, too.
template <class T, int kPieces, int kApart, int kSteps, int kOthers>
__global__ void __launch_bounds__(1024) store_apart(char* to, char* other, int rounds, int pause) {
  char* own = to + (size_t(blockIdx.x) * rounds * blockDim.x + threadIdx.x) * kApart * sizeof(T);
  char* beside = other + (size_t(blockIdx.x) * rounds * blockDim.x * (kOthers + 1) + threadIdx.x) * 4;
  const long long begin = clock64();
  float v = float(rounds);
#pragma unroll 1
  for (int r = 0; r < rounds; r++, own += size_t(blockDim.x) * kApart * sizeof(T)) {
#pragma unroll
    for (int k = 0; k < kPieces; k++) {
      put<T>(own + k * int(sizeof(T)), __float_as_uint(v));
#pragma unroll
      for (int j = 0; j < kOthers && k + 1 < kPieces; j++) put<uint32_t>(beside + (size_t(r) * kOthers + j) * blockDim.x * 4, __float_as_uint(v));
#pragma unroll
      for (int j = 0; j < kSteps; j++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v)::"memory");
    }
    while (clock64() - begin < (long long)(r + 1) * pause) {}
  }
}
template <class T, int kPieces, int kApart, int kSteps, int kOthers>
truth::Launch apart(long warps) {
  auto to = zeros<T>(size_t(132) * 32 * size_t(warps) * 32 * kApart);
  auto other = zeros<uint32_t>(size_t(132) * 32 * size_t(warps) * 32 * (kOthers + 1));
  return [=] { store_apart<T, kPieces, kApart, kSteps, kOthers><<<132, unsigned(32 * warps)>>>(reinterpret_cast<char*>(to.p), reinterpret_cast<char*>(other.p), 32, 6000); };
}
#define APART1(name, type, pieces, words, steps, others) TRUTH("store_rows", "apart_" name "_" #steps "_" #others, {1, 4}, apart<type, pieces, words, steps, others>);
#define APART(name, type, pieces, words)                                                                                                                     \
  APART1(name, type, pieces, words, 0, 0) APART1(name, type, pieces, words, 2, 0) APART1(name, type, pieces, words, 4, 0) APART1(name, type, pieces, words, 6, 0) \
  APART1(name, type, pieces, words, 8, 0) APART1(name, type, pieces, words, 12, 0) APART1(name, type, pieces, words, 16, 0) APART1(name, type, pieces, words, 24, 0) \
  APART1(name, type, pieces, words, 32, 0) APART1(name, type, pieces, words, 64, 0) APART1(name, type, pieces, words, 128, 0) APART1(name, type, pieces, words, 256, 0)
APART("4_2_2", uint32_t, 2, 2) APART("16_2_2", uint4, 2, 2) APART("4_4_4", uint32_t, 4, 4)
APART1("4_2_2", uint32_t, 2, 2, 0, 4) APART1("4_2_2", uint32_t, 2, 2, 0, 8) APART1("4_2_2", uint32_t, 2, 2, 0, 16) APART1("4_2_2", uint32_t, 2, 2, 0, 24) APART1("4_2_2", uint32_t, 2, 2, 0, 32)
APART1("4_2_2", uint32_t, 2, 2, 0, 48) APART1("2_2_2", uint16_t, 2, 2, 0, 0) APART1("2_8_8", uint16_t, 8, 8, 0, 0) APART1("2_8_8", uint16_t, 8, 8, 8, 0)
APART1("4_4_1", uint32_t, 4, 1, 0, 0)  // lanes' words overlap: all but the last are written by two lanes and more

/// Four warps that each store one word of every lane's four, all at once, and one warp that stores the same words again and again.
__global__ void store_others(char* to, int rounds, int pause) {
  const long long begin = clock64();
  char* own = to + (size_t(blockIdx.x) * rounds * 32 + threadIdx.x % 32) * 16 + threadIdx.x / 32 * 4;
  for (int r = 0; r < rounds; r++, own += 512) {
    __syncthreads();
    put<uint32_t>(own, uint32_t(r));
    while (clock64() - begin < (long long)(r + 1) * pause) {}
  }
}
TRUTH("store_rows", "others_4_4", {2, 4, 8}, [](long warps) {
  auto to = zeros<char>(size_t(132) * 32 * 512 + 512);
  return [=] { store_others<<<132, unsigned(32 * warps)>>>(to.p, 32, 6000); };
});
template <int kTimes>
__global__ void store_same(char* to, int rounds, int pause) {
  const long long begin = clock64();
  char* own = to + (size_t(blockIdx.x) * rounds * blockDim.x + threadIdx.x) * 4;
  for (int r = 0; r < rounds; r++, own += blockDim.x * 4) {
#pragma unroll
    for (int k = 0; k < kTimes; k++) put<uint32_t>(own, uint32_t(r + k));
    while (clock64() - begin < (long long)(r + 1) * pause) {}
  }
}
TRUTH("store_rows", "same_4", {1, 4}, [](long warps) {
  auto to = zeros<char>(size_t(132) * 32 * size_t(warps) * 128);
  return [=] { store_same<4><<<132, unsigned(32 * warps)>>>(to.p, 32, 6000); };
});

/// Structures of `kWords` pieces read whole, changed and the first `kStored` pieces written, behind `work` products; in turn: each piece is
/// written before the next is read.
template <class T, int kWords, int kStored, bool kInTurn>
__global__ void __launch_bounds__(256) update_struct(T* out, const T* in, long n, int work) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  constexpr int kParts = sizeof(T) / 4;
  float w = float(i);
#pragma unroll 4
  for (int k = 0; k < work; k++) w = w * .999f + 1;
  uint32_t v[kWords][kParts], sum = w == 1e30f;
  const auto load = [&](int k) {
    const T* at = in + i * kWords + k;
    if constexpr (kParts == 1) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[k][0]) : "l"(at));
    if constexpr (kParts == 2) asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v[k][0]), "=r"(v[k][1]) : "l"(at));
    if constexpr (kParts == 4) asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[k][0]), "=r"(v[k][1]), "=r"(v[k][2]), "=r"(v[k][3]) : "l"(at));
  };
  const auto store = [&](int k) {
    T* at = out + i * kWords + k;
    if constexpr (kParts == 1) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(v[k][0] + sum) : "memory");
    if constexpr (kParts == 2) asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(at), "r"(v[k][0] + sum), "r"(v[k][1]) : "memory");
    if constexpr (kParts == 4) asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v[k][0] + sum), "r"(v[k][1]), "r"(v[k][2]), "r"(v[k][3]) : "memory");
  };
  if constexpr (kInTurn) {
#pragma unroll
    for (int k = 0; k < kWords; k++) load(k), store(k);
  } else {
#pragma unroll
    for (int k = 0; k < kWords; k++) load(k);
#pragma unroll
    for (int k = 0; k < kWords; k++) sum += v[k][0];
#pragma unroll
    for (int k = 0; k < kStored; k++) store(k);
  }
}
template <class T, int kWords, int kStored, bool kInPlace, bool kInTurn>
truth::Launch updates(long n, int work) {
  auto in = zeros<T>(size_t(n) * kWords), out = zeros<T>(kInPlace ? 1 : size_t(n) * kWords);
  return [=] { update_struct<T, kWords, kStored, kInTurn><<<blocks_for(n, 256), 256>>>(kInPlace ? in.p : out.p, in.p, n, work); };
}
#define UPDATES(name, type, words, stored)                                                                                                      \
  TRUTH("store_rows", "move_" name, {1 << 18, 1 << 20}, [](long n) { return updates<type, words, stored, false, false>(n, 0); });                \
  TRUTH("store_rows", "move_" name "_work", {1 << 18}, [](long n) { return updates<type, words, stored, false, false>(n, 200); });                \
  TRUTH("store_rows", "change_" name, {1 << 18, 1 << 20}, [](long n) { return updates<type, words, stored, true, false>(n, 0); });               \
  TRUTH("store_rows", "turns_" name, {1 << 18}, [](long n) { return updates<type, words, stored, false, true>(n, 0); });
UPDATES("4_3_3", uint32_t, 3, 3) UPDATES("4_5_5", uint32_t, 5, 5) UPDATES("4_7_7", uint32_t, 7, 7) UPDATES("4_4_7", uint32_t, 7, 4) UPDATES("4_9_9", uint32_t, 9, 9) UPDATES("4_12_12", uint32_t, 12, 12)
UPDATES("8_2_2", uint2, 2, 2) UPDATES("8_3_3", uint2, 3, 3) UPDATES("8_4_4", uint2, 4, 4)
UPDATES("16_2_2", uint4, 2, 2) UPDATES("16_3_3", uint4, 3, 3) UPDATES("16_4_4", uint4, 4, 4) UPDATES("16_8_8", uint4, 8, 8) UPDATES("16_1_2", uint4, 2, 1)
}  // namespace
