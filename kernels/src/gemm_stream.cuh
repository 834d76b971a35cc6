// Streamed GEMM: a wide, constant matrix W (rows x k) times a few columns X (k x at most 128), by wgmma, at the speed of memory.
//
// A product of few columns is a read of W. What decides is that the read never stops: not while X is fetched, not while sums
// are added, and not between one launch and the next. So a CTA is small enough that two of different launches share an SM;
// where W is constant the second one fills its ring while the first still multiplies.
//
// wgmma wants 64 rows, and 64 rows a CTA are too few CTAs. So a CTA of 32 (16) rows puts 2 (4) parts of K under each other
// as the 64 rows of A, and beside each other as the columns of B:
//
//     | W part 0 |   | X part 0 , X part 1 |     | sums of part 0   (unused)       |
//     | W part 1 | * |                     |  =  | (unused)         sums of part 1 |
//
// What is not used costs nothing: the time of a narrow wgmma is that of reading A. One 4-d box of TMA brings all parts of a
// stage of W, another those of X. More columns want more rows, 64 or 128 (X is read once for each CTA), and K
// split over a cluster.
//
//   stage   kLines lines of W and kN lines of X of 128 bytes. Up to 64 rows, a group (warpgroup) takes every
//           kGroups-th stage, and always the same places of the ring, because only then does a parity tell its own
//           phase from the one before; with 128 rows each group takes its 64 of every stage
//   full    the producer's arrival and the stage's bytes;  empty   one arrival of each warp that read it
//   first   of the first round of the ring, X comes by ordinary copies of the groups: it is what everybody waits for when
//           the kernel ahead has ended, and TMA takes longer
//
// W is asked for at most kPace stages at a time before X is there: what queues before memory holds up X and the stores of the
// kernel ahead, which hit L2 but stand in the same queues.
//
// Sums of groups and parts meet in shared memory. With K split each CTA finishes its share of the rows: the others send it
// their sums of those by bulk copy, one each. They are added in an order that does not depend on time. Not here: tiles that have an SM
// alone (gemm_stream_wide.cuh, gemm_stream_halves.cuh), tiles all of whose W is there before X (gemm_stream_whole.cuh), instances and launch (gemm_stream.cu).
#pragma once
#include "gemm_epilogue.cuh"

namespace orrery::kernels {

/// What the host tells the kernel. Rows are those of W, columns those of X.
struct StreamParams {
  CUtensorMap w, x;  // dims: 128 bytes of k, row (column), part, slab of the part
  Epilogue e;
  int stages;        // of K, of one part (gemm_stream_wide.cuh: of as many slabs as a box has)
  int split_log;     // log2 of the number of CTAs that share them
  bool early;        // W may be read before the kernels we depend on have ended
  const uint8_t* x_data;
  int64_t x_pitch;   // bytes from column to column
  const uint8_t* w_data;
  int64_t w_pitch, part_bytes;  // of W from row to row; of a part of a row
};

/// How W is to stay in L2: measured, not understood (NOTES.md).
template <class T>
constexpr uint64_t kHintW = sizeof(T) == 2 ? ptx::kEvictNormal : ptx::kEvictFirst;

template <class T_, int kRows_, int kCols_, int kStages_, int kGroups_, int kPerSm_>
struct StreamTile {
  using T = T_;
  using Acc = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;
  static constexpr int kRows = kRows_, kCols = kCols_, kStages = kStages_, kGroups = kGroups_, kPerSm = kPerSm_;
  static constexpr int kParts = kRows < 64 ? 64 / kRows : 1, kLines = kRows * kParts, kN = kParts * kCols;
  static constexpr int kRowsLog = kRows == 16 ? 4 : kRows == 32 ? 5 : kRows == 64 ? 6 : 7;
  static constexpr int kThreads = kGroups * 128 + 32, kWorkers = kGroups * 128;
  static constexpr int kRowGroups = kLines / 64, kKGroups = kGroups / kRowGroups;  // groups that share the lines; the stages
  static constexpr int kBytesW = kLines * 128, kBytesX = kN * 128, kStageBytes = kBytesW + kBytesX;
  static constexpr int kPace = (kPerSm == 2 ? 32 : 56) * 1024 / kBytesW, kSlabs = 1, kSlabW = kBytesW, kSlabX = kBytesX;
  static constexpr int kLeastStages = 0, kMostStages = 1 << 30, kRingBytes = kStages * kStageBytes;
  // Sums of ours, over the ring: [CTA that finishes them][plane][column][row, padded]; a plane is a group's part of K.
  static constexpr int kPlanes = kKGroups * kParts;
  static constexpr int kShared = 1024 + kRingBytes + 384;  // and the sums that peers send
  static_assert(kRows % 16 == 0 && kN <= 256 && kGroups % kRowGroups == 0 && kStages % kKGroups == 0 && kStages <= 20);
  static_assert(kPlanes * (kRows + 16) * kCols * 4 <= kRingBytes);
  // By the log of the split: a division at run time costs as much as a load from L2.
  static __host__ __device__ constexpr int pitch(int log) { return (kRows >> log) + 4; }
  static __host__ __device__ constexpr int block_bytes(int log) { return kPlanes * kCols * 4 * pitch(log); }
  static __host__ __device__ constexpr int shared_bytes(int log) { return kShared + ((1 << log) - 1) * block_bytes(log); }
};

template <class Tile>
struct StreamShared {
  uint32_t ring, full, empty, arrived, inbox;
  __device__ __forceinline__ explicit StreamShared(uint32_t raw)
      : ring((raw + 1023) / 1024 * 1024), full(ring + Tile::kRingBytes), empty(full + 8 * Tile::kStages),
        arrived(full + 376), inbox(full + 384) {}
  __device__ __forceinline__ uint32_t w(int s) const { return ring + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t x(int s) const { return w(s) + Tile::kBytesW; }
  __device__ __forceinline__ void wait_full(int s, int phase) const { ptx::mbarrier_wait(full + 8 * s, phase); }
};

/// Has memory bring the first 256 elements of K of each of this CTA's lines of W to L2: the copies that ask for them come half a microsecond later, with a
/// descriptor that has to be fetched and barriers that have to be made. By all, before anything else; stages of W are kSlabs lines of 128 bytes.
template <class Tile>
__device__ __forceinline__ void bring_first(const StreamParams& p, int row0, int begin) {
  constexpr int kAhead = 2 * int(sizeof(typename Tile::T));  // pieces of 128 bytes
  static_assert(Tile::kRows * Tile::kParts == 64 && Tile::kWorkers % 64 == 0);
  const int line = threadIdx.x % 64, row = row0 + line % Tile::kRows, offset = begin * Tile::kSlabs * 128;
  if (row >= p.e.m || threadIdx.x >= Tile::kWorkers) return;
  const uint8_t* const part = p.w_data + row * p.w_pitch + line / Tile::kRows * p.part_bytes;
#pragma unroll
  for (int first = 0; first < kAhead; first += Tile::kWorkers / 64) {
    const int piece = first + threadIdx.x / 64;
    if (piece < kAhead && offset + piece * 128 < p.part_bytes) asm volatile("prefetch.global.L2 [%0];" ::"l"(part + offset + piece * 128));
  }
}

/// Fills the ring with stages [begin, end) of K, but for X of the first round; by one thread.
template <class Tile>
__device__ __forceinline__ void produce_stream(const StreamParams& p, const StreamShared<Tile>& shared, int row0, int col0, int begin, int end) {
  const auto load_w = [&](int stage, int step, uint32_t bytes) {
    ptx::mbarrier_arrive_expect_tx(shared.full + 8 * stage, bytes);
    ptx::tma_load_4d(shared.w(stage), &p.w, shared.full + 8 * stage, 0, row0, 0, step, kHintW<typename Tile::T>);
  };
  const int steps = end - begin, ahead = min(steps, Tile::kStages);
  // X may not be written yet, but where it lies in L2 it is so also after it has been; else it would queue behind W.
  const int mine = begin + int(blockIdx.x >> p.split_log) % 32;
  if (p.early && mine < end) ptx::tma_prefetch_4d(&p.x, 0, col0, 0, mine);
  if (!p.early) ptx::griddepcontrol_wait();
  for (int i = 0; i < ahead; i++) {
    const int before = i - Tile::kPace;
    if (p.early && before >= 0) ptx::mbarrier_wait(shared.full + 8 * before, 0);
    load_w(i, begin + i, Tile::kBytesW);
  }
  if (p.early) ptx::griddepcontrol_wait();
  int stage = ahead % Tile::kStages, phase = ahead / Tile::kStages;
  for (int step = begin + ahead; step < end; step++) {
    ptx::mbarrier_wait(shared.empty + 8 * stage, phase ^ 1);
    load_w(stage, step, Tile::kStageBytes);
    ptx::tma_load_4d(shared.x(stage), &p.x, shared.full + 8 * stage, 0, col0, 0, step, ptx::kEvictNormal);
    if (++stage == Tile::kStages) stage = 0, phase ^= 1;
  }
}

/// Starts copies of X of this group's stages, of the first `last`, to their places, in the 128-byte swizzle. Of columns that do not exist
/// nothing is written: they give columns of D that nobody reads.
template <class Tile>
__device__ __forceinline__ void copy_x(const StreamParams& p, const StreamShared<Tile>& shared, int col0, int begin, int last) {
  constexpr int kTeam = 128 * Tile::kRowGroups, kEach = (Tile::kN * 8 + kTeam - 1) / kTeam, kLinesApart = kTeam / 8;
  const int line = threadIdx.x % kTeam / 8, piece = threadIdx.x % 8, stage = threadIdx.x / kTeam;
  if (line >= Tile::kN) return;
  const uint8_t* from[kEach];
#pragma unroll
  for (int r = 0; r < kEach; r++) {
    const int l = line + r * kLinesApart, col = col0 + l % Tile::kCols;
    from[r] = col < p.e.n ? p.x_data + col * p.x_pitch + (int64_t(l / Tile::kCols) * p.stages + begin + stage) * 128 + piece * 16 : nullptr;
  }
  uint32_t to = shared.x(stage) + line * 128 + ((piece ^ (line & 7)) << 4);
#pragma unroll 4
  for (int i = stage; i < last; i += Tile::kKGroups) {
#pragma unroll
    for (int r = 0; r < kEach; r++) {
      if (!from[r]) continue;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + r * kLinesApart * 128), "l"(from[r]) : "memory");
      from[r] += Tile::kKGroups * 128;
    }
    to += Tile::kKGroups * (shared.x(1) - shared.x(0));
  }
}
/// Until the copies of all threads that multiply the same stages are there for the tensor core.
template <class Tile>
__device__ __forceinline__ void wait_x() {
  constexpr int kTeam = 128 * Tile::kRowGroups;
  asm volatile("cp.async.wait_all;" ::: "memory");
  ptx::fence_proxy_async_shared();
  ptx::bar_sync(3 + threadIdx.x / kTeam, kTeam);
}

/// This group's share of `steps` stages. acc is zero where the group has none.
template <class Tile, class Shared>
__device__ __forceinline__ void multiply_stream(const Shared& shared, int group, int steps, typename Tile::Acc (&acc)[Tile::kN / 2]) {
  using T = typename Tile::T;
  const uint32_t lines = group % Tile::kRowGroups * 64 * 128;
  int before = -1;
  for (int i = group / Tile::kRowGroups; i < steps; i += Tile::kKGroups) {
    const int stage = i % Tile::kStages;
    shared.wait_full(stage, i / Tile::kStages & 1);
    const ptx::Descriptor w = ptx::descriptor_k_major(shared.w(stage) + lines), x = ptx::descriptor_k_major(shared.x(stage));
    ptx::wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4 * Tile::kSlabs; j++)
      wgmma_ss<T, T, Tile::kN, 0, 0>(acc, w.at(j / 4 * Tile::kSlabW + j % 4 * ptx::kStepKMajor), x.at(j / 4 * Tile::kSlabX + j % 4 * ptx::kStepKMajor),
                                     j > 0 || before >= 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (before >= 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(shared.empty + 8 * before);
    before = stage;
  }
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_pin(acc);
  if (before >= 0) return;  // nobody waits for the last stage
#pragma unroll
  for (auto& v : acc) v = 0;
}

/// Leaves this group's accumulators over the ring.
template <class Tile>
__device__ __forceinline__ void leave_stream_sums(uint32_t sums, int split_log, int group, const typename Tile::Acc* acc) {
  const int lane = threadIdx.x % 32, line = threadIdx.x % 128 / 32 * 16, part = Tile::kParts == 1 ? 0 : line / Tile::kRows;
  const int plane = group / Tile::kRowGroups * Tile::kParts + part, owned_log = Tile::kRowsLog - split_log, pitch = Tile::pitch(split_log);
  uint32_t to[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int row = line % Tile::kRows + group % Tile::kRowGroups * 64 + lane / 4 + 8 * h, owner = row >> owned_log;
    to[h] = sums + owner * Tile::block_bytes(split_log) + ((plane * Tile::kCols + lane % 4 * 2) * pitch + row - (owner << owned_log)) * 4;
  }
#pragma unroll
  for (int i = 0; i < Tile::kCols / 2; i++) {
    float v = float(acc[i]);
#pragma unroll
    for (int q = 1; q < Tile::kParts; q++) v = part == q ? float(acc[q * (Tile::kCols / 2) + i]) : v;
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to[i / 2 % 2] + (i / 4 * 8 + i % 2) * pitch * 4), "f"(v) : "memory");
  }
}

/// Stores four rows of a column of D, from `row` on.
__device__ __forceinline__ void store_four(const Epilogue& e, float scale, const float4& v, int row, int col) {
  uint16_t* const to = static_cast<uint16_t*>(e.d) + (row + int64_t(col) * e.d_col_stride);
  if (e.linear && e.dtype != DType::kF32 && e.d_row_stride == 1 && row + 3 < e.m && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
    const bool bf16 = e.dtype == DType::kBF16;
    *reinterpret_cast<uint2*>(to) = make_uint2(pack_pair(v.x * scale, v.y * scale, bf16), pack_pair(v.z * scale, v.w * scale, bf16));
    return;
  }
#pragma unroll 1
  for (int j = 0; j < 4 && row + j < e.m; j++) {
    const float x = j == 0 ? v.x : j == 1 ? v.y : j == 2 ? v.z : v.w;
    store_element(e.d, (row + j) * e.d_row_stride + col * e.d_col_stride, e.dtype, finish(e, scale, x, row + j, col));
  }
}

/// Adds up the planes of the rows that are ours and stores them. sums: this CTA's own block; inbox: the other CTAs'.
template <class Tile>
__device__ __forceinline__ void finish_stream(const Epilogue& e, int split_log, uint32_t sums, uint32_t inbox, int rank, int row0, int col0) {
  const float scale = tensor_scale(e);
  const int shift = Tile::kRowsLog - 2 - split_log, pitch = Tile::pitch(split_log), block = Tile::block_bytes(split_log);
  const int items = min(Tile::kCols, e.n - col0) << shift;
  for (int i = threadIdx.x; i < items; i += Tile::kWorkers) {
    const int q = i & ((1 << shift) - 1), c = i >> shift;
    const uint32_t at = (c * pitch + 4 * q) * 4;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int r = 0; r < 1 << split_log; r++) {
      const uint32_t from = (r == rank ? sums : inbox + (r < rank ? r : r - 1) * block) + at;
#pragma unroll
      for (int plane = 0; plane < Tile::kPlanes; plane++) {
        float4 w;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(w.x), "=f"(w.y), "=f"(w.z), "=f"(w.w) : "r"(from + plane * Tile::kCols * pitch * 4));
        v.x += w.x, v.y += w.y, v.z += w.z, v.w += w.w;
      }
    }
    store_four(e, scale, v, row0 + 4 * q, col0 + c);
  }
}

/// Sends every other CTA of the cluster its block of our sums; by one thread.
template <class Tile, class Shared>
__device__ __forceinline__ void send_sums(const Shared& shared, int split_log, int rank) {
  const uint32_t block = Tile::block_bytes(split_log);
  for (int i = 1; i < 1 << split_log; i++) {
    const int to = rank ^ i, slot = rank < to ? rank : rank - 1;
    ptx::bulk_send(ptx::mapa(shared.inbox + slot * block, to), shared.ring + to * block, block, ptx::mapa(shared.arrived, to));
  }
}

/// From a group's accumulators to D: sums over the ring, once nobody reads that any more, those of other CTAs by way of their inboxes, and
/// our share of the rows. Launches ahead may have read D until here. By all groups.
template <class Tile, class Shared>
__device__ __forceinline__ void end_stream(const Epilogue& e, const Shared& shared, int split_log, int rank, int group, const typename Tile::Acc* acc, int row0, int col0) {
  const bool split = split_log > 0;
  if (split) ptx::cluster_wait();    // the peers' barriers and inboxes exist
  ptx::bar_sync(1, Tile::kWorkers);  // the ring is idle
  leave_stream_sums<Tile>(shared.ring, split_log, group, acc);
  if (split) ptx::fence_proxy_async_shared();
  ptx::bar_sync(1, Tile::kWorkers);
  if (split) {
    if (threadIdx.x == 0) send_sums<Tile>(shared, split_log, rank);
    ptx::mbarrier_wait(shared.arrived, 0);
    ptx::cluster_arrive_relaxed();  // whoever sent to us may end
  }
  ptx::griddepcontrol_wait();
  finish_stream<Tile>(e, split_log, shared.ring + rank * Tile::block_bytes(split_log), shared.inbox, rank, row0 + rank * (Tile::kRows >> split_log), col0);
  if (split) ptx::cluster_wait();
}

/// Where a CTA's tile is, and which stages of K are its own.
struct StreamPlace {
  bool split;
  int rank, row0, col0, begin, end;
  template <class Tile, class Params>
  __device__ __forceinline__ StreamPlace(const Params& p, Tile)
      : split(p.split_log > 0), rank(split ? int(ptx::cluster_ctarank()) : 0), row0((blockIdx.x >> p.split_log) * Tile::kRows),
        col0(blockIdx.y * Tile::kCols), begin(p.stages * rank >> p.split_log), end(p.stages * (rank + 1) >> p.split_log) {}
};

/// A producer's warp has no more to do; nobody of a cluster leaves before the others have what it sent.
__device__ __forceinline__ void leave_producer(bool split) {
  __syncwarp();
  if (!split) return;
  ptx::cluster_wait();
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) gemm_stream(const __grid_constant__ StreamParams p) {
  extern __shared__ uint8_t raw[];
  const StreamShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  if constexpr (Tile::kLines == 64) bring_first<Tile>(p, row0, begin);
  ptx::griddepcontrol_launch_dependents();
  const int group = threadIdx.x / 128;
  if (group == Tile::kGroups) {
    if (ptx::elect_one()) {
      ptx::prefetch_tensormap(&p.w);
      ptx::prefetch_tensormap(&p.x);
#pragma unroll
      for (int s = 0; s < Tile::kStages; s++)
        ptx::mbarrier_init(shared.full + 8 * s, 1), ptx::mbarrier_init(shared.empty + 8 * s, 4 * Tile::kRowGroups);
      ptx::mbarrier_init(shared.arrived, 1);
      ptx::fence_mbarrier_init();
      if (split) ptx::mbarrier_arrive_expect_tx(shared.arrived, ((1 << p.split_log) - 1) * Tile::block_bytes(p.split_log));
    }
    __syncwarp();
    ptx::bar_arrive(2, Tile::kThreads);  // the producer waits for nobody
    if (split) ptx::cluster_arrive_relaxed();
    if (ptx::elect_one()) produce_stream<Tile>(p, shared, row0, col0, begin, end);
    leave_producer(split);
    return;
  }
  touch(p.e);
  if (split) ptx::cluster_arrive_relaxed();
  ptx::bar_sync(2, Tile::kThreads);
  typename Tile::Acc acc[Tile::kN / 2];
  const int steps = end - begin;
  ptx::griddepcontrol_wait();
  copy_x<Tile>(p, shared, col0, begin, min(steps, Tile::kStages));
  wait_x<Tile>();
  multiply_stream<Tile>(shared, group, steps, acc);
  end_stream<Tile>(p.e, shared, p.split_log, rank, group, acc, row0, col0);
}

}  // namespace orrery::kernels
