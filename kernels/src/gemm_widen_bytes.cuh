// e4m3 weights in shared memory as the first operand of wgmma, in registers; for gemm_widen.cuh (few columns) and gemm_widen_tiles.cuh (many).
//
// wgmma wants of lane t of a quad elements 2t and 2t + 1 of each octet of k, of rows r and r + 8. So a lane loads two bytes at a time, as they
// are what one conversion takes: a warp reads an octet of eight rows, 64 bytes on banks of their own, and nothing is exchanged or selected. Wider loads
// would move no more in a turn of shared memory, since a quad's lanes would read the same words.
//
// Weights are widened exactly, so that products go on from stage to stage with one set of sums. A warp is held at a product until few are before it, so what
// it issues between products comes on top of them where it is much at a time (NOTES.md).
//   multiply_in_turn  few columns: a stage's bytes are loaded when it is there, products begun some at a time
//   multiply_ahead    many columns: bytes are loaded a stage ahead, and between two products one fragment is widened
//   multiply_at_once  very many: of two groups one multiplies while the other one widens
#pragma once
#include "gemm_storage.cuh"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {

/// Where this lane's bytes of the first 16 of k of 64 rows are, from the first row's line on: lines of kLine bytes of k, in the swizzle of as many.
template <int kLine>
__device__ __forceinline__ uint32_t byte_pairs() {
  static_assert(kLine == 64 || kLine == 128);
  const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
  return row * kLine + (kLine == 128 ? row % 8 : row / 2 % 4) * 16 + lane % 4 * 2;
}

/// The same of each 16 of k of a stage, from where the stage begins: `lines` on are those of the first of the 64 rows.
template <int kLine>
struct StagePairs {
  uint32_t at[kLine / 16];
  __device__ __forceinline__ explicit StagePairs(uint32_t lines) {
    const uint32_t pairs = byte_pairs<kLine>();
#pragma unroll
    for (int j = 0; j < kLine / 16; j++) {
      at[j] = lines + (pairs ^ j * 16);
      asm volatile("" : "+r"(at[j]));  // else they are made anew at each stage
    }
  }
};

/// A lane's bytes of kSteps times 16 of k of 64 rows, as they were loaded.
template <int kSteps>
struct BytePairs {
  uint16_t pair[kSteps][4];
  /// The i-th of them, from where the first of its pairs is.
  template <int kLine>
  __device__ __forceinline__ void load(int i, uint32_t first) {
#pragma unroll
    for (int q = 0; q < 4; q++) asm volatile("ld.shared.u16 %0, [%1];" : "=h"(pair[i][q]) : "r"(first + q % 2 * 8 * kLine + q / 2 * 8) : "memory");
  }
  /// All of them, from step `first` on, of the lines at `lines`; this lane's bytes are `pairs` on. (So added up, one is the same in all of a warp and the
  /// other in all stages, which costs no instructions.)
  template <int kLine>
  __device__ __forceinline__ void load_all(uint32_t lines, uint32_t pairs, int first) {
#pragma unroll
    for (int i = 0; i < kSteps; i++) load<kLine>(i, (pairs ^ (first + i) * 16) + lines);
  }
  /// All of them, of a stage and of where its pairs are.
  template <int kLine, class Pairs>
  __device__ __forceinline__ void load_all(uint32_t stage, const Pairs& pairs) {
#pragma unroll
    for (int i = 0; i < kSteps; i++) load<kLine>(i, stage + pairs.at[i]);
  }
  template <class T>
  __device__ __forceinline__ void widen(uint32_t (&a)[4], int i) const {
#pragma unroll
    for (int q = 0; q < 4; q++) a[q] = PlainE4M3::pair<T>(pair[i][q]);
  }
};

/// Two warpgroups that begin products in turn, so that they do not widen both at the same time. Each passes the turn on as often as it takes it, group 0
/// first; `end`, by both: `mine` for the one that a last turn was passed to.
struct TakeTurns {
  static constexpr int kFirstBarrier = 4, kThreads = 256;
  int group;
  __device__ __forceinline__ explicit TakeTurns(int g) : group(g) {
    if (group == 1) pass();
  }
  __device__ __forceinline__ void take() const { ptx::bar_sync(kFirstBarrier + group, kThreads); }
  __device__ __forceinline__ void pass() const { ptx::bar_arrive(kFirstBarrier + (group ^ 1), kThreads); }
  __device__ __forceinline__ void end(bool mine) const {
    if (mine) take();
  }
};
/// One that has nobody to take turns with.
struct NoTurns {
  __device__ __forceinline__ explicit NoTurns(int) {}
  __device__ __forceinline__ void take() const {}
  __device__ __forceinline__ void pass() const {}
  __device__ __forceinline__ void end(bool) const {}
};

template <int kBatch>
using ByteFragments = uint32_t[kBatch][4];

/// Adds to acc the products of a stage: kLine of k of 64 rows, whose lines are at `lines` and of which the lane's own bytes are `pairs` on, and as many of
/// the columns at `x`, slabs of 64 of k that are kSlabBytes apart. They are begun in one turn, kBatch times 16 of k at a time. `before_done` is called
/// once the products of the stage before have been read; a branch in it, or a loop that waits between products, would have ptxas put these in sequence.
template <class T, int kLine, int kBatch, int kSlabBytes, int kN, class Turns, class Done>
__device__ __forceinline__ void multiply_in_turn(float (&acc)[kN / 2], ByteFragments<kBatch> (&sets)[2], uint32_t lines, uint32_t pairs, const ptx::Descriptor& x,
                                                 const Turns& turns, Done before_done) {
  constexpr int kBatches = kLine / 16 / kBatch;
  static_assert(kBatches == 2);
  BytePairs<kBatch> bytes;
  bytes.template load_all<kLine>(lines, pairs, 0);
#pragma unroll
  for (int q = 0; q < kBatches; q++) {
    ptx::wgmma_wait_group<1>();  // the products before last have read their fragments
    if (q == 1) before_done();
#pragma unroll
    for (int j = 0; j < kBatch; j++) bytes.template widen<T>(sets[q][j], j);
    if (q + 1 < kBatches) bytes.template load_all<kLine>(lines, pairs, (q + 1) * kBatch);  // what products would have to wait for is asked for ahead of them
    if (q == 0) turns.take();
    ptx::wgmma_fence();
#pragma unroll
    for (int j = 0; j < kBatch; j++) {
      const int step = q * kBatch + j;
      wgmma_rs<T, kN, 0>(acc, sets[q][j], x.at(step / 4 * kSlabBytes + step % 4 * ptx::kStepKMajor), 1);
    }
    ptx::wgmma_commit_group();
  }
  turns.pass();
}

/// Products of 16 of k that may be under way: the operands of the next are made where those of the one so many before it were.
constexpr int kUnderWay = 4;

/// The same of a stage whose bytes are in `bytes` already. Each 16 of k are widened while the products before them run, and their bytes
/// give way to those of the stage at `next`. keep = 0: acc begins at zero. At the end the products of the stage before have been read.
template <class T, int kLine, int kN>
__device__ __forceinline__ void multiply_ahead(float (&acc)[kN / 2], ByteFragments<kUnderWay>& fragments, BytePairs<kLine / 16>& bytes, uint32_t next,
                                               const StagePairs<kLine>& pairs, const ptx::Descriptor& x, int keep) {
  static_assert(kLine == 64);
#pragma unroll
  for (int j = 0; j < kLine / 16; j++) {
    bytes.template widen<T>(fragments[j], j);
    bytes.template load<kLine>(j, next + pairs.at[j]);
    ptx::wgmma_fence();
    wgmma_rs<T, kN, 0>(acc, fragments[j], x.at(j * ptx::kStepKMajor), j > 0 ? 1 : keep);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<kUnderWay - 1>();
  }
}

/// The same of a stage that has been widened already, by groups in turn. A group's products are begun together and the turn is passed on when the
/// first of them is done, so that the other group's follow the last one; meanwhile it loads the bytes of the stage at `next`, once `there` has been
/// waited for, and widens them where products have been read. At the end all have.
template <class T, int kLine, int kN, class There>
__device__ __forceinline__ void multiply_at_once(float (&acc)[kN / 2], ByteFragments<kUnderWay>& fragments, BytePairs<kLine / 16>& bytes, uint32_t next,
                                                 const StagePairs<kLine>& pairs, const ptx::Descriptor& x, int keep, const TakeTurns& turns, There there) {
  static_assert(kLine == 64);
  turns.take();
  ptx::wgmma_fence();
#pragma unroll
  for (int j = 0; j < kUnderWay; j++) {
    wgmma_rs<T, kN, 0>(acc, fragments[j], x.at(j * ptx::kStepKMajor), j > 0 ? 1 : keep);
    ptx::wgmma_commit_group();
  }
  ptx::wgmma_wait_group<3>();
  turns.pass();
  there();
  bytes.template load_all<kLine>(next, pairs);
  bytes.template widen<T>(fragments[0], 0);
  ptx::wgmma_wait_group<2>();
  bytes.template widen<T>(fragments[1], 1);
  ptx::wgmma_wait_group<1>();
  bytes.template widen<T>(fragments[2], 2);
  ptx::wgmma_wait_group<0>();
  bytes.template widen<T>(fragments[3], 3);
}

/// Waits for all products, after which acc may be used.
template <int kCount>
__device__ __forceinline__ void end_products(float (&acc)[kCount]) {
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_pin(acc);
}

}  // namespace orrery::kernels
