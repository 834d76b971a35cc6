// Widened GEMM: int4 weights W (rows x k) times columns X (k x any number) of 16 bits, by wgmma with the
// weights in registers.
//
// From some 16 columns on the warp-wide products of gemm_direct.cuh are what a product takes, and each CTA's
// own read of X. Here a CTA has 64 or 128 rows and up to 64 columns; a group (warpgroup) widens its 64 rows to
// A fragments, X is B in shared memory.
//
//   stage   128 of k, which is one group of scales: 64 bytes of every row, two slabs of 64 of k of every column
//   turned  a lane's piece of W (gemm_storage.cuh) holds 8 elements in a row of every 32, where wgmma wants of
//           each lane of a quad a pair from each 8. So X is put into that order instead: of 32 of k, pair p of
//           piece t becomes pair t of piece p. That is what stmatrix does with what a lane read as one piece.
//           Warps of their own do it, in place
//   sums    a stage's products begin at zero and are scaled in f32, so that widened weights are exact
//
// A stage is widened and multiplied in halves: one half's fragments are made while the tensor core reads the
// other's. With K split over a cluster sums meet as in gemm_stream.cuh. Not here: instances and launch
// (gemm_widen.cu).
#pragma once
#include "gemm_mainloop.cuh"
#include "gemm_storage.cuh"
#include "gemm_stream.cuh"

namespace orrery::kernels {

/// What the host tells the kernel. Rows are those of W, columns those of X.
struct WidenParams {
  CUtensorMap w, x;  // boxes: 64 bytes of a group of scales, the tile's rows; 64 of k, the tile's columns
  const uint16_t* scales;  // [rows][k / 128], of the type of X
  Epilogue e;
  int stages;     // of K
  int split_log;  // log2 of the number of CTAs that share them
  bool early;     // W may be read before the kernels we depend on have ended
};

template <class T_, int kGroups_, int kCols_, int kPerSm_>
struct WidenTile {
  using T = T_;
  using Acc = float;
  static constexpr int kGroups = kGroups_, kRows = 64 * kGroups, kCols = kCols_, kPerSm = kPerSm_;
  static constexpr int kWorkers = kGroups * 128, kTurners = 3, kThreads = kWorkers + kTurners * 32 + 32;
  static constexpr int kBytesW = kRows * 64, kBytesSlab = kCols * 128, kStageBytes = kBytesW + 2 * kBytesSlab;
  // Sums as those of gemm_stream.cuh: one plane of K, rows owned by the CTAs of a cluster.
  static constexpr int kN = kCols, kParts = 1, kRowGroups = kGroups, kPlanes = 1,
                       kRowsLog = kGroups == 1 ? 6 : 7;
  static __host__ __device__ constexpr int pitch(int log) { return (kRows >> log) + 4; }
  static __host__ __device__ constexpr int block_bytes(int log) { return kCols * 4 * pitch(log); }
  static constexpr int kRoom = (kPerSm == 2 ? 113 : 227) * 1024 - 1024 - 512;
  static constexpr int kInbox = block_bytes(1) > 3 * block_bytes(2)
                                    ? block_bytes(1)
                                    : 3 * block_bytes(2);  // of a split by 2 or 4
  static constexpr int kStages = (kRoom - kInbox) / kStageBytes < 12 ? (kRoom - kInbox) / kStageBytes : 12;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kShared = 1024 + kRingBytes + 512;  // and the sums that peers send
  static __host__ __device__ constexpr int shared_bytes(int log) {
    return kShared + ((1 << log) - 1) * block_bytes(log);
  }
  static_assert(kStages >= 3 && kRingBytes >= block_bytes(0) && kRingBytes >= 4 * block_bytes(2));
};

template <class Tile>
struct WidenShared {
  uint32_t ring, full_w, full_x, turned, empty, arrived, inbox;
  __device__ __forceinline__ explicit WidenShared(uint32_t raw)
      : ring((raw + 1023) / 1024 * 1024),
        full_w(ring + Tile::kRingBytes),
        full_x(full_w + 8 * Tile::kStages),
        turned(full_x + 8 * Tile::kStages),
        empty(turned + 8 * Tile::kStages),
        arrived(full_w + 504),
        inbox(full_w + 512) {}
  __device__ __forceinline__ uint32_t w(int s) const { return ring + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t slab(int s, int i) const {
    return w(s) + Tile::kBytesW + i * Tile::kBytesSlab;
  }
};

/// Fills the ring with stages [begin, end) of K; by one thread.
template <class Tile>
__device__ __forceinline__ void produce_widen(const WidenParams& p, const WidenShared<Tile>& shared, int row0,
                                              int col0, int begin, int end) {
  const auto load_w = [&](int s, int step) {
    ptx::mbarrier_arrive_expect_tx(shared.full_w + 8 * s, Tile::kBytesW);
    ptx::tma_load_2d(shared.w(s), &p.w, shared.full_w + 8 * s, step * 64, row0, ptx::kEvictNormal);
  };
  const auto load_x = [&](int s, int step) {
    ptx::mbarrier_arrive_expect_tx(shared.full_x + 8 * s, 2 * Tile::kBytesSlab);
    ptx::tma_load_3d(shared.slab(s, 0), &p.x, shared.full_x + 8 * s, 0, col0, 2 * step, ptx::kEvictNormal);
  };
  const int ahead = min(end - begin, Tile::kStages);
  // X may not be written yet, but where it lies in L2 it is so also after it has been.
  const int mine = begin + int(blockIdx.x >> p.split_log) % 32;
  if (p.early && mine < end) ptx::tma_prefetch_3d(&p.x, 0, col0, 2 * mine);
  if (!p.early) ptx::griddepcontrol_wait();
  for (int i = 0; i < ahead; i++) load_w(i, begin + i);
  if (p.early) ptx::griddepcontrol_wait();
  for (int i = 0; i < ahead; i++) load_x(i, begin + i);
  Position<Tile::kStages> at(0);
  for (int step = begin + Tile::kStages; step < end; step++, at.next()) {
    ptx::mbarrier_wait(shared.empty + 8 * at.stage, at.phase);
    load_w(at.stage, step);
    load_x(at.stage, step);
  }
}

/// Turns X of each stage round, in place, eight columns of 32 of k at a time; each warp has places of the ring
/// of its own, so that the fence of one does not hold up the next. (Not every kTurners-th stage: a warp that comes
/// to a place where another still waits for the round before would take that round's parity for its own.) Lanes
/// read and write in an order of columns that meets no bank twice.
template <class Tile>
__device__ __forceinline__ void turn_columns(const WidenShared<Tile>& shared, int steps) {
  constexpr int kBatch = 8, kBatches = Tile::kCols / 2 /
                                       kBatch;  // blocks of a stage: slab, eight columns, half of a slab
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  const auto column = [](int i) { return i / 2 + i % 2 * 4; };
  const int from = column(lane / 4), to = column(lane % 8);
  const uint32_t read = from * 128 + ((lane % 4 ^ from) << 4), write = to * 128 + ((lane / 8 ^ to) << 4);
  Position<Tile::kStages> at(0);
  for (int step = 0; step < steps; step++, at.next()) {
    if (at.stage % Tile::kTurners != warp) continue;
    const uint32_t slabs = shared.slab(at.stage, 0);
    ptx::mbarrier_wait(shared.full_x + 8 * at.stage, at.phase);
#pragma unroll
    for (int b = 0; b < kBatches; b++) {
      uint4 piece[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; i++)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(piece[i].x), "=r"(piece[i].y), "=r"(piece[i].z), "=r"(piece[i].w)
                     : "r"(slabs + (b * kBatch + i) / 2 * 1024 + (read ^ (i % 2 * 64)))
                     : "memory");
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kBatch; i++)
        ptx::stmatrix_x4<false>(slabs + (b * kBatch + i) / 2 * 1024 + (write ^ (i % 2 * 64)), piece[i].x,
                                piece[i].y, piece[i].z, piece[i].w);
    }
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(shared.turned + 8 * at.stage);
  }
}

/// A lane's weights of a stage, and their scales: rows g and g + 8 of its warp's.
struct WidenPieces {
  uint32_t word[2][4];
  float scale[2];
};

template <class T>
__device__ __forceinline__ float widen_scale(const uint16_t* at) {
  const uint16_t bits = __ldg(at);
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(__ushort_as_half(bits));
  else
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

/// The fragments of four products: words 2 * half and 2 * half + 1 of both rows.
template <class T>
__device__ __forceinline__ void widen_half(uint32_t (&a)[4][4], const WidenPieces& w, int half) {
#pragma unroll
  for (int q = 0; q < 2; q++) {
    uint32_t pairs[2][4];
#pragma unroll
    for (int row = 0; row < 2; row++) Int4::widen_word<T>(pairs[row], w.word[row][2 * half + q]);
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int i = 0; i < 4; i++) a[2 * q + h][i] = pairs[i % 2][2 * h + i / 2];
  }
}

/// Starts the products of half a stage.
template <class Tile>
__device__ __forceinline__ void multiply_half(float (&sum)[Tile::kCols / 2], const uint32_t (&a)[4][4],
                                              uint32_t slab, bool keep) {
  const ptx::Descriptor x = ptx::descriptor_k_major(slab);
  ptx::wgmma_fence();
#pragma unroll
  for (int j = 0; j < 4; j++)
    wgmma_rs<typename Tile::T, Tile::kCols, 0>(sum, a[j], x.at(j * ptx::kStepKMajor), keep || j > 0);
  ptx::wgmma_commit_group();
}

/// The products of this group's 64 rows. Stages go in pairs, with sums of their own: those of the first are
/// added up while the tensor core is at the second. (Nothing may be under way from one turn of the loop to the
/// next, or ptxas makes every product wait, C7514.)
template <class Tile>
__device__ __forceinline__ void multiply_widened(const WidenParams& p, const WidenShared<Tile>& shared,
                                                 int group, int row0, int begin, int end,
                                                 float (&acc)[Tile::kCols / 2]) {
  using T = typename Tile::T;
  const int lane = threadIdx.x % 32, row = group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  const uint16_t* scales[2];
#pragma unroll
  for (int i = 0; i < 2; i++) scales[i] = p.scales + int64_t(min(row0 + row + 8 * i, p.e.m - 1)) * p.stages;
  WidenPieces w;
  Position<Tile::kStages> at(0);
  uint32_t a[2][4][4];
  const auto take = [&](int step) {
    if (step >= end) return;
    ptx::mbarrier_wait(shared.full_w + 8 * at.stage, at.phase);
#pragma unroll
    for (int i = 0; i < 2; i++)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w.word[i][0]), "=r"(w.word[i][1]), "=r"(w.word[i][2]), "=r"(w.word[i][3])
                   : "r"(shared.w(at.stage) + (row + 8 * i) * 64 + lane % 4 * 16)
                   : "memory");
#pragma unroll
    for (int i = 0; i < 2; i++) w.scale[i] = widen_scale<T>(scales[i] + step);
  };
  const auto add = [&](float(&sum)[Tile::kCols / 2], const float(&scale)[2], int stage) {
    ptx::wgmma_pin(sum);
    if (lane == 0) ptx::mbarrier_arrive(shared.empty + 8 * stage);
#pragma unroll
    for (int i = 0; i < Tile::kCols / 2; i++) acc[i] = fmaf(scale[i / 2 % 2], sum[i], acc[i]);
  };
  const auto first_half = [&](float(&sum)[Tile::kCols / 2]) {  // of the stage whose weights are in w
    ptx::mbarrier_wait(shared.turned + 8 * at.stage, at.phase);
    multiply_half<Tile>(sum, a[0], shared.slab(at.stage, 0), false);
  };
  const auto second_half = [&](float(&sum)[Tile::kCols / 2], float(&scale)[2],
                               int step) {  // and the next stage's weights
    scale[0] = w.scale[0], scale[1] = w.scale[1];
    widen_half<T>(a[1], w, 1);
    multiply_half<Tile>(sum, a[1], shared.slab(at.stage, 1), true);
    at.next();
    take(step + 1);
    ptx::wgmma_wait_group<1>();
    widen_half<T>(a[0], w, 0);
  };
#pragma unroll
  for (auto& v : acc) v = 0.f;
  if (!p.early) ptx::griddepcontrol_wait();
  take(begin);
  widen_half<T>(a[0], w, 0);
#pragma unroll 1
  for (int step = begin; step < end; step += 2) {
    float even[Tile::kCols / 2], odd[Tile::kCols / 2], scale[2][2];
    const int stage = at.stage;
    first_half(even);
    second_half(even, scale[0], step);
    if (step + 1 == end) {
      ptx::wgmma_wait_group<0>();
      add(even, scale[0], stage);
      break;
    }
    const int next = at.stage;
    first_half(odd);
    ptx::wgmma_wait_group<1>();
    add(even, scale[0], stage);
    second_half(odd, scale[1], step + 1);
    ptx::wgmma_wait_group<0>();
    add(odd, scale[1], next);
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm)
    gemm_widen(const __grid_constant__ WidenParams p) {
  extern __shared__ uint8_t raw[];
  const WidenShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  ptx::griddepcontrol_launch_dependents();
  const int group = threadIdx.x / 128;
  if (threadIdx.x == Tile::kThreads - 32) {
    ptx::prefetch_tensormap(&p.w);
    ptx::prefetch_tensormap(&p.x);
#pragma unroll
    for (int s = 0; s < Tile::kStages; s++) {
      ptx::mbarrier_init(shared.full_w + 8 * s, 1), ptx::mbarrier_init(shared.full_x + 8 * s, 1);
      ptx::mbarrier_init(shared.turned + 8 * s, 1),
          ptx::mbarrier_init(shared.empty + 8 * s, Tile::kWorkers / 32);
    }
    ptx::mbarrier_init(shared.arrived, 1);
    ptx::fence_mbarrier_init();
    if (split)
      ptx::mbarrier_arrive_expect_tx(shared.arrived,
                                     ((1 << p.split_log) - 1) * Tile::block_bytes(p.split_log));
  }
  if (group == Tile::kGroups) {
    __syncwarp();
    if (split) ptx::cluster_arrive();
    if (threadIdx.x >= Tile::kThreads - 32) {
      ptx::bar_arrive(2, Tile::kThreads);  // the producer waits for nobody
      if (threadIdx.x % 32 == 0) produce_widen<Tile>(p, shared, row0, col0, begin, end);
    } else {
      ptx::bar_sync(2, Tile::kThreads);
      turn_columns<Tile>(shared, end - begin);
    }
    leave_producer(split);
    return;
  }
  if (split) ptx::cluster_arrive();
  ptx::bar_sync(2, Tile::kThreads);
  touch(p.e);
  float acc[Tile::kCols / 2];
  multiply_widened<Tile>(p, shared, group, row0, begin, end, acc);
  end_stream<Tile>(p.e, shared, p.split_log, rank, group, acc, row0, col0);
}

}  // namespace orrery::kernels
