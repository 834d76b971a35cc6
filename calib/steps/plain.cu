// calib/steps/plain.cu: loops as one writes them first: products of matrices in which each thread adds up one sum from global memory (as they are, and
// with loads that L1 holds), rows that a lane goes through alone, once or again, with what it stores apart, columns that a block adds up,
// and atomic operations of every kind on one word.
#include "../truth/truth.h"

namespace {
using namespace truth;

/// c[row][column] += a[row][k] * b[k][column], a warp's lanes side by side in a row of `kWide` columns; `kept`: columns of a and rows of b that are
/// read over and over, 0: each once.
template <int kWide, int kKeptA, int kKeptB>
__global__ void product(float* c, const float* a, const float* b, int n, int pitch) {
  const int column = blockIdx.x * kWide + threadIdx.x % kWide, row = blockIdx.y * (blockDim.x / kWide) + threadIdx.x / kWide;
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < n; k++) {
    const int ka = kKeptA ? k % kKeptA : k, kb = kKeptB ? k % kKeptB : k;
    sum += a[long(row) * pitch + ka] * b[long(kb) * pitch + column];
  }
  c[long(row) * pitch + column] = sum;
}
template <int kWide, int kThreads, int kKeptA = 0, int kKeptB = 0>
Launch products(long n) {
  auto a = zeros<float>(n * n), b = zeros<float>(n * n), c = zeros<float>(n * n);
  const dim3 grid(unsigned(n / kWide), unsigned(n / (kThreads / kWide)));
  return [=] { product<kWide, kKeptA, kKeptB><<<grid, kThreads>>>(c, a, b, int(n), int(n)); };
}
TRUTH("plain", "product_32x32", {256, 512, 1024, 2048}, [](long n) { return products<32, 1024>(n); });
TRUTH("plain", "product_32x8", {512, 1024, 2048}, [](long n) { return products<32, 256>(n); });
TRUTH("plain", "product_16x16", {512, 1024, 2048}, [](long n) { return products<16, 256>(n); });
TRUTH("plain", "product_8x8", {512, 1024}, [](long n) { return products<8, 64>(n); });
TRUTH("plain", "product_held", {256, 512, 1024, 2048}, [](long n) { return products<32, 1024, 8, 4>(n); });
TRUTH("plain", "product_held_a", {512, 1024, 2048}, [](long n) { return products<32, 1024, 8, 0>(n); });
TRUTH("plain", "product_held_b", {512, 1024, 2048}, [](long n) { return products<32, 1024, 0, 4>(n); });

/// A lane's row of `n` words: added up `kPasses` times over; `kStores`: each word written to a row of its own, too.
template <int kPasses, bool kStores>
__global__ void rows(float* out, const float* in, int n, float zero) {
  const long row = blockIdx.x * long(blockDim.x) + threadIdx.x;
  const float* x = in + row * n;
  float sum = 0;
  for (int pass = 0; pass < kPasses; pass++) {
    const float less = sum * zero;
    sum = 0;
#pragma unroll 4
    for (int i = 0; i < n; i++) {
      const float d = x[i] - less;
      sum += d * d;
    }
  }
  if constexpr (kStores) {
#pragma unroll 4
    for (int i = 0; i < n; i++) out[row * n + i] = (kPasses ? x[i] : float(i)) * sum;
  } else {
    out[row] = sum;
  }
}
template <int kPasses, bool kStores>
Launch row_kernel(long threads) {
  constexpr long kRows = 8192, kWords = 768;
  auto in = zeros<float>(kRows * kWords), out = zeros<float>(kRows * kWords);
  return [=] { rows<kPasses, kStores><<<unsigned(kRows / threads), unsigned(threads)>>>(out, in, kWords, 0.5f); };
}
TRUTH("plain", "row_once", {32, 64, 128, 256, 512}, [](long n) { return row_kernel<1, false>(n); });
TRUTH("plain", "row_twice", {32, 64, 128, 256, 512}, [](long n) { return row_kernel<2, false>(n); });
TRUTH("plain", "row_written", {32, 64, 128, 256, 512}, [](long n) { return row_kernel<0, true>(n); });
TRUTH("plain", "row_once_written", {32, 64, 128, 256, 512}, [](long n) { return row_kernel<1, true>(n); });
TRUTH("plain", "row_twice_written", {32, 64, 128, 256, 512}, [](long n) { return row_kernel<2, true>(n); });

/// A block adds up a column.
__global__ void columns(float* out, const float* in, int rows, int pitch) {
  float sum = 0;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += in[long(i) * pitch + blockIdx.x];
  if (sum != 0) out[blockIdx.x] = sum;
}
Launch column_kernel(long threads, int rows, int pitch) {
  auto in = zeros<float>(long(rows) * pitch), out = zeros<float>(pitch);
  return [=] { columns<<<unsigned(pitch), unsigned(threads)>>>(out, in, rows, pitch); };
}
TRUTH("plain", "columns_8192x3072", {32, 128, 512, 1024}, [](long n) { return column_kernel(n, 8192, 3072); });
TRUTH("plain", "columns_1024x3072", {32, 128, 512}, [](long n) { return column_kernel(n, 1024, 3072); });
TRUTH("plain", "columns_32768x768", {128, 1024}, [](long n) { return column_kernel(n, 32768, 768); });

/// Rounds of `kLoads` loads whose sum is wanted before the next: of words of the warp's row, a sector for each round (kRow); of rows of 128 bytes, each
/// the warp's own (kOwn) or the same for all warps of the block (kSame); of the warp's row and of what is the same for all (kBoth).
enum Held { kRow, kOwn, kSame, kBoth };
template <Held kHeld, int kLoads>
__global__ void rounds_of(float* out, const float* row, const float* lines, int rounds) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const float* own = row + (long(blockIdx.x) * warps + warp) * rounds * 8;
  const float* line = lines + (kHeld == kOwn ? long(blockIdx.x) * warps + warp : long(blockIdx.x)) * rounds * kLoads * 32 + lane;
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    float x[kLoads], y[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; i++) {
      if (kHeld != kRow) asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(y[i]) : "l"(line + (r * kLoads + i) * 32));
      if (kHeld == kRow || kHeld == kBoth) asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(x[i]) : "l"(own + r * 8 + i));
    }
#pragma unroll
    for (int i = 0; i < kLoads; i++) sum += (kHeld == kRow ? x[i] : y[i]) * (kHeld == kBoth ? x[i] : 1);
  }
  out[long(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}
template <Held kHeld, int kLoads>
Launch round_kernel(long warps) {
  constexpr long kRounds = 256;
  auto row = zeros<float>(132 * warps * kRounds * 8), lines = zeros<float>(132 * (kHeld == kOwn ? warps : 1) * kRounds * kLoads * 32), out = zeros<float>(132 * warps * 32);
  return [=] { rounds_of<kHeld, kLoads><<<132, unsigned(warps * 32)>>>(out, row, lines, kRounds); };
}
#define ROUNDS_OF(name, held, loads) TRUTH("plain", "rounds_" name "_" #loads, {1, 4, 16, 32}, [](long n) { return round_kernel<held, loads>(n); });
ROUNDS_OF("row", kRow, 1) ROUNDS_OF("row", kRow, 2) ROUNDS_OF("row", kRow, 4) ROUNDS_OF("row", kRow, 8)
ROUNDS_OF("own", kOwn, 1) ROUNDS_OF("own", kOwn, 2) ROUNDS_OF("own", kOwn, 4) ROUNDS_OF("own", kOwn, 8)
ROUNDS_OF("same", kSame, 1) ROUNDS_OF("same", kSame, 2) ROUNDS_OF("same", kSame, 4) ROUNDS_OF("same", kSame, 8)
ROUNDS_OF("both", kBoth, 1) ROUNDS_OF("both", kBoth, 2) ROUNDS_OF("both", kBoth, 4) ROUNDS_OF("both", kBoth, 8)

enum class On { add, exchange, most, least, count, uncount, swap, conjunction, disjunction, exclusive, add64, most64, add_float };
/// All lanes of all blocks do the same to one word, `rounds` times.
template <On kOn>
__global__ void on_one_word(unsigned* p, int rounds) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; r++) {
    if (kOn == On::add) atomicAdd(p, 10u);
    if (kOn == On::exchange) atomicExch(p, i);
    if (kOn == On::most) atomicMax(p, i);
    if (kOn == On::least) atomicMin(p, i);
    if (kOn == On::count) atomicInc(p, 17u);
    if (kOn == On::uncount) atomicDec(p, 137u);
    if (kOn == On::swap) atomicCAS(p, i - 1, i);
    if (kOn == On::conjunction) atomicAnd(p, 2 * i + 7);
    if (kOn == On::disjunction) atomicOr(p, 1u << (i & 31));
    if (kOn == On::exclusive) atomicXor(p, i);
    if (kOn == On::add64) atomicAdd(reinterpret_cast<unsigned long long*>(p), 10ull);
    if (kOn == On::most64) atomicMax(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(i));
    if (kOn == On::add_float) atomicAdd(reinterpret_cast<float*>(p), float(i));
  }
}
template <On kOn>
Launch one_word(long blocks) {
  auto p = zeros<unsigned>(64);
  return [=] { on_one_word<kOn><<<unsigned(blocks), 256>>>(p, 4); };
}
#define ONE_WORD(what) TRUTH("plain", "one_word_" #what, {1, 64, 264}, [](long n) { return one_word<On::what>(n); });
ONE_WORD(add) ONE_WORD(exchange) ONE_WORD(most) ONE_WORD(least) ONE_WORD(count) ONE_WORD(uncount) ONE_WORD(swap) ONE_WORD(conjunction) ONE_WORD(disjunction)
ONE_WORD(exclusive) ONE_WORD(add64) ONE_WORD(most64) ONE_WORD(add_float)

/// Each block does all of them once, on words side by side.
__global__ void all_on_words(unsigned* p) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&p[0], 10u), atomicSub(&p[1], 10u), atomicExch(&p[2], i), atomicMax(&p[3], i), atomicMin(&p[4], i), atomicInc(&p[5], 17u), atomicDec(&p[6], 137u);
  atomicCAS(&p[7], i - 1, i), atomicAnd(&p[8], 2 * i + 7), atomicOr(&p[9], 1u << (i & 31)), atomicXor(&p[10], i);
}
TRUTH("plain", "one_word_each", {1, 64, 264}, [](long n) {
  auto p = zeros<unsigned>(64);
  return [=] { all_on_words<<<unsigned(n), 256>>>(p); };
});
}  // namespace
