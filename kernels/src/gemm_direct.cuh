// Direct GEMM: a wide, constant matrix W (rows x k) times a few columns X (k x at most 64), at the speed of memory.
//
// Where m is small a product is a read of W, and what a tile kernel spends before its first byte arrives (tensor maps,
// cluster start) and after its last one costs as much as the read. So one warp asks for rows of W and columns of X by plain
// bulk copies, which need no tensor map, as soon as it runs; the products are warp-wide mma instructions straight
// from shared memory; and the loop is rolled, because a launch this short runs its code from a cold instruction cache
// (a version that kept W in registers, unrolled, spent 3.5 us in code of 30 KB: NOTES.md).
//
//   piece   16 bytes of a row: 8, 16 or 32 elements. Lane t of a quad takes piece t of 64 bytes, rows g and g + 8.
//   chunk   128 bytes of a row of W and the X that goes with them: two pieces a lane.
//   stage   kWidth bytes of each of the CTA's rows of W, and the same k of X; its chunks are dealt to the warps along k.
//           Rows lie 64 bytes more than a multiple of 128 apart, so that loads of a quad's pieces do not collide.
//
// The k that a piece holds are not those the mma layout names; but X is read by the same rule, and a sum does not
// care in which order its terms come. fp8 is widened to f16 (exactly) and multiplied as f16: on Hopper the warp-wide fp8
// product is that anyway. int4 has a scale for every row and 128 of k: exactly one 64-byte run, whose sum is scaled in
// f32. Its words are stored in such an order that the quad's pieces of X are neighbours too.
//
// k is a whole number of chunks. Partial sums of the warps meet in shared memory, those of a cluster's CTAs (split)
// through distributed shared memory, always in the same order. Not here: instances and launch (gemm_direct.cu).
#pragma once
#include "gemm_epilogue.cuh"

namespace orrery::kernels {

/// What the host tells the kernel. Rows are those of W, columns those of X.
struct DirectParams {
  const uint8_t *w, *x;
  int64_t w_pitch, x_pitch;    // bytes
  const uint16_t* scales;      // int4: [rows][k / 128], of the type of X
  int rows, cols, k;           // k in elements
  int tiles_m, split;
  bool early;                  // W may be read before the kernels we depend on have ended
  Epilogue e;
};

/// Launches an instance of gemm_direct; of `kernel` tile_n, threads, shared_bytes and function are read.
cudaError_t launch_direct(const DirectParams& p, const GemmKernel& kernel, bool overlap, cudaStream_t stream);

/// How W is stored, and how a piece of it becomes pairs of 16-bit operands.
struct Plain16 {
  static constexpr int kElements = 8;
  static constexpr bool kScaled = false;
  template <class T>
  __device__ static __forceinline__ void widen(uint32_t (&out)[4], const uint4& p) {
    out[0] = p.x, out[1] = p.y, out[2] = p.z, out[3] = p.w;
  }
};

struct PlainE4M3 {
  static constexpr int kElements = 16;
  static constexpr bool kScaled = false;
  template <class T>
  __device__ static __forceinline__ void widen(uint32_t (&out)[8], const uint4& p) {
    const uint32_t w[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
      asm("{ .reg .b16 lo, hi;\n\tmov.b32 {lo, hi}, %2;\n\tcvt.rn.f16x2.e4m3x2 %0, lo;\n\tcvt.rn.f16x2.e4m3x2 %1, hi; }"
          : "=r"(out[2 * i]), "=r"(out[2 * i + 1])
          : "r"(w[i]));
  }
};

/// Two's complement plus 8. Of the eight values of a word, nibble p holds element 2p and nibble p + 4 element 2p + 1, so
/// that a shift and a mask give a pair in its two halves. Of the sixteen words of a group of 128, word 4 t + q holds
/// elements 32 q + 8 t onwards: piece t of the group and piece q of X meet in one lane.
struct Int4 {
  static constexpr int kElements = 32;
  static constexpr bool kScaled = true;
  template <class T>
  __device__ static __forceinline__ void widen(uint32_t (&out)[16], const uint4& p) {
    const uint32_t w[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int q = 0; q < 4; q++) out[4 * i + q] = pair<T>(w[i] >> (4 * q));
  }
  template <class T>
  __device__ static __forceinline__ uint32_t pair(uint32_t shifted) {
    uint32_t r;
    if constexpr (std::is_same_v<T, __half>) {  // 0x6400 is 1024: the low bits count ones
      asm("lop3.b32 %0, %1, 0x000F000F, 0x64006400, 0xEA;" : "=r"(r) : "r"(shifted));
      asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(r) : "r"(0x64086408u));
    } else {  // 0x4300 is 128
      asm("lop3.b32 %0, %1, 0x000F000F, 0x43004300, 0xEA;" : "=r"(r) : "r"(shifted));
      asm("sub.rn.bf16x2 %0, %0, %1;" : "+r"(r) : "r"(0x43084308u));
    }
    return r;
  }
};

template <class T_, class W_, class X_, int kBlocks_, int kColumns_, int kWarpsM_, int kWarpsK_, int kWidth_, int kStages_, int kPerSm_>
struct DirectTile {
  using T = T_;  // of the products: __half or __nv_bfloat16
  using W = W_;
  using X = X_;  // storage of X: Plain16 or PlainE4M3
  static constexpr int kBlocks = kBlocks_, kColumns = kColumns_;  // of 16 rows, of 8 columns; per warp
  static constexpr int kWarpsM = kWarpsM_, kWarpsK = kWarpsK_, kWidth = kWidth_, kStages = kStages_, kPerSm = kPerSm_;
  static constexpr int kConsumers = 32 * kWarpsM * kWarpsK, kThreads = kConsumers + 32;
  static constexpr int kRows = 16 * kBlocks * kWarpsM, kCols = 8 * kColumns;
  static constexpr int kChunkK = 2 * 4 * W::kElements;          // elements of k in a chunk
  static constexpr int kPairs = W::kElements / 2;               // operand registers of a piece
  static constexpr int kPiecesX = W::kElements / X::kElements;  // of X for one of W
  // int4 times fp8: a word of W goes with 8 bytes of X, so that a lane's pieces of X come in halves, 32 bytes apart.
  static constexpr bool kHalves = W::kElements == 32 && X::kElements == 16;
  static constexpr bool kWide = W::kElements == 16 && X::kElements == 8;  // fp8 in its natural order times f16
  static constexpr int kLaneX = kHalves ? 8 : kWide ? 32 : 16;  // bytes from a lane's X to the next lane's
  static constexpr int kNextX = kWide ? 16 : 64;                // and from piece to piece
  static constexpr int kPitchW = kWidth + 64, kPitchX = kWidth * kPiecesX + 64;
  static constexpr int kStageBytes = kRows * kPitchW + kCols * kPitchX, kBarrierBytes = 128;
  static constexpr int kPitch = kRows + 4;                      // floats from column to column of the sums
  static constexpr int kSharedBytes = kBarrierBytes + kStages * kStageBytes;
  static_assert(kWarpsK * kCols * kPitch * 4 <= kStages * kStageBytes, "the sums lie over the ring");
  static_assert(kStages <= 8 && kWidth % 128 == 0);
};

template <class T>
__device__ __forceinline__ void mma_16816(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                          uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// Shared-window addresses of a CTA's ring.
template <class Tile>
struct DirectRing {
  uint32_t base;
  __device__ __forceinline__ uint32_t full(int s) const { return base + 8 * s; }
  __device__ __forceinline__ uint32_t empty(int s) const { return base + 64 + 8 * s; }
  __device__ __forceinline__ uint32_t w(int s) const { return base + Tile::kBarrierBytes + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t x(int s) const { return w(s) + Tile::kRows * Tile::kPitchW; }
};

/// The copies of one CTA: chunks [begin, end) of its rows and columns. Called by a whole warp.
template <class Tile>
struct DirectLoads {
  const uint8_t *w, *x;
  int64_t w_pitch, x_pitch;
  int rows, columns, chunks;
  __device__ __forceinline__ DirectLoads(const DirectParams& p, int row0, int col0, int begin, int end)
      : w(p.w + row0 * p.w_pitch + int64_t(begin) * 128), x(p.x + col0 * p.x_pitch + int64_t(begin) * (128 * Tile::kPiecesX)),
        w_pitch(p.w_pitch), x_pitch(p.x_pitch), rows(p.rows - row0), columns(min(Tile::kCols, p.cols - col0)), chunks(end - begin) {}
  /// Bytes of a row in stage `s` of this part of k.
  __device__ __forceinline__ int width(int s) const { return min(Tile::kWidth, chunks * 128 - s * Tile::kWidth); }
  __device__ __forceinline__ void expect(uint32_t bar, int s) const {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive_expect_tx(bar, width(s) * (Tile::kRows + columns * Tile::kPiecesX));
    __syncwarp();
  }
  __device__ __forceinline__ void load_w(uint32_t to, uint32_t bar, int s) const {
    for (int r = threadIdx.x % 32; r < Tile::kRows; r += 32)  // rows that do not exist are the last one again
      ptx::bulk_load(to + r * Tile::kPitchW, w + min(r, rows - 1) * w_pitch + s * Tile::kWidth, width(s), bar);
  }
  __device__ __forceinline__ void load_x(uint32_t to, uint32_t bar, int s) const {
    for (int c = threadIdx.x % 32; c < columns; c += 32)
      ptx::bulk_load(to + c * Tile::kPitchX, x + c * x_pitch + s * (Tile::kWidth * Tile::kPiecesX), width(s) * Tile::kPiecesX, bar);
  }
};

template <class Tile>
__device__ __forceinline__ void produce_direct(const DirectParams& p, const DirectRing<Tile>& ring, const DirectLoads<Tile>& loads, int stages) {
  const int ahead = p.early ? min(stages, Tile::kStages) : 0;
  for (int s = 0; s < ahead; s++) {
    loads.expect(ring.full(s), s);
    loads.load_w(ring.w(s), ring.full(s), s);
  }
  ptx::griddepcontrol_wait();
  for (int s = 0; s < ahead; s++) loads.load_x(ring.x(s), ring.full(s), s);
  for (int s = ahead; s < stages; s++) {
    const int slot = s % Tile::kStages;
    if (s >= Tile::kStages) ptx::mbarrier_wait(ring.empty(slot), s / Tile::kStages - 1 & 1);
    loads.expect(ring.full(slot), s);
    loads.load_x(ring.x(slot), ring.full(slot), s);
    loads.load_w(ring.w(slot), ring.full(slot), s);
  }
}

__device__ __forceinline__ uint4 ld_shared_16(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ uint2 ld_shared_8(uint32_t at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
  return v;
}

template <class T>
__device__ __forceinline__ float scale_at(uint32_t pair, int j) {
  const uint16_t bits = uint16_t(pair >> (16 * j));
  if constexpr (std::is_same_v<T, __half>) return __half2float(__ushort_as_half(bits));
  else return __bfloat162float(__ushort_as_bfloat16(bits));
}

/// This lane's operand pairs of one piece of X at `from` (of the lane's column).
template <class Tile>
__device__ __forceinline__ void load_columns(uint32_t (&b)[Tile::kPairs], uint32_t from) {
  constexpr int kPairsX = Tile::X::kElements / 2;
#pragma unroll
  for (int q = 0; q < Tile::kPiecesX; q++) {
    uint4 piece;
    if constexpr (Tile::kHalves) {
      const uint2 low = ld_shared_8(from + q * 64), high = ld_shared_8(from + q * 64 + 32);
      piece = make_uint4(low.x, low.y, high.x, high.y);
    } else {
      piece = ld_shared_16(from + q * Tile::kNextX);
    }
    uint32_t part[kPairsX];
    Tile::X::template widen<typename Tile::T>(part, piece);
#pragma unroll
    for (int i = 0; i < kPairsX; i++) b[q * kPairsX + i] = part[i];
  }
}

/// Adds 64 bytes of W times their X. w, x: this lane's first piece in shared memory. scales: one for each row, widened.
template <class Tile>
__device__ __forceinline__ void multiply_half(float (&acc)[Tile::kBlocks][Tile::kColumns][4], uint32_t w, uint32_t x, int columns,
                                              const float (&scales)[Tile::kBlocks][2]) {
  uint32_t low[Tile::kBlocks][Tile::kPairs], high[Tile::kBlocks][Tile::kPairs];
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++) {
    Tile::W::template widen<typename Tile::T>(low[block], ld_shared_16(w + block * 16 * Tile::kPitchW));
    Tile::W::template widen<typename Tile::T>(high[block], ld_shared_16(w + (block * 16 + 8) * Tile::kPitchW));
  }
#pragma unroll
  for (int n = 0; n < Tile::kColumns; n++) {
    uint32_t b[Tile::kPairs] = {};
    if (n * 8 < columns) load_columns<Tile>(b, x + n * 8 * Tile::kPitchX);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) {
      float sum[4] = {0.f, 0.f, 0.f, 0.f};
      auto& to = Tile::W::kScaled ? sum : acc[block][n];
#pragma unroll
      for (int i = 0; i < Tile::kPairs; i += 2)
        mma_16816<typename Tile::T>(to, low[block][i], high[block][i], low[block][i + 1], high[block][i + 1], b[i], b[i + 1]);
      if constexpr (Tile::W::kScaled) {
#pragma unroll
        for (int i = 0; i < 4; i++) acc[block][n][i] = fmaf(scales[block][i / 2], sum[i], acc[block][n][i]);
      }
    }
  }
}

/// The scales of a warp's chunks in one stage (a pair, for the two halves of a chunk), asked for a stage ahead.
template <class Tile>
struct StageScales {
  static constexpr int kChunks = Tile::kWidth / 128 / Tile::kWarpsK;  // of one warp in a stage
  static_assert(Tile::kWidth / 128 % Tile::kWarpsK == 0);
  uint32_t pair[kChunks][Tile::kBlocks][2];
  /// row0: this lane's first row; chunk: the warp's first.
  __device__ __forceinline__ void load(const DirectParams& p, int row0, int chunk, int end) {
    if constexpr (!Tile::W::kScaled) return;
#pragma unroll
    for (int c = 0; c < kChunks; c++)
#pragma unroll
      for (int i = 0; i < 2 * Tile::kBlocks; i++) {
        const int at = chunk + c * Tile::kWarpsK, row = min(row0 + i * 8, p.rows - 1);
        if (at < end) pair[c][i / 2][i % 2] = __ldg(reinterpret_cast<const uint32_t*>(p.scales + int64_t(row) * (p.k / 128)) + at);
      }
  }
  __device__ __forceinline__ void widen(float (&scales)[Tile::kBlocks][2], int c, int half) const {
#pragma unroll
    for (int i = 0; i < 2 * Tile::kBlocks; i++) scales[i / 2][i % 2] = scale_at<typename Tile::T>(pair[c][i / 2][i % 2], half);
  }
};

/// A consumer warp's sums over chunks [begin, end), stage by stage.
template <class Tile>
__device__ __forceinline__ void consume_direct(const DirectParams& p, const DirectRing<Tile>& ring, int row0, int col0, int begin, int end,
                                               float (&acc)[Tile::kBlocks][Tile::kColumns][4]) {
  using Scales = StageScales<Tile>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  const int wm = warp % Tile::kWarpsM, wk = warp / Tile::kWarpsM, first_row = wm * 16 * Tile::kBlocks + g;
  const uint32_t w0 = first_row * Tile::kPitchW + t * 16, x0 = g * Tile::kPitchX + t * Tile::kLaneX;
  const int columns = p.cols - col0 - g;
  Scales scales, next;
  scales.load(p, row0 + first_row, begin + wk, end);
  uint32_t slot = 0, phase = 0;
  for (int first = begin; first < end; first += Tile::kWidth / 128) {
    next.load(p, row0 + first_row, first + Tile::kWidth / 128 + wk, end);
    ptx::mbarrier_wait(ring.full(slot), phase);
    constexpr int kUnroll = Tile::W::kScaled ? Scales::kChunks : 1;
#pragma unroll kUnroll
    for (int c = 0; c < Scales::kChunks; c++) {
      const int chunk = wk + c * Tile::kWarpsK;
      if (first + chunk >= end) break;
      const uint32_t w = ring.w(slot) + w0 + chunk * 128, x = ring.x(slot) + x0 + chunk * (128 * Tile::kPiecesX);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float s[Tile::kBlocks][2] = {};
        if constexpr (Tile::W::kScaled) scales.widen(s, c, half);
        multiply_half<Tile>(acc, w + half * 64, x + half * (64 * Tile::kPiecesX), columns, s);
      }
    }
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(ring.empty(slot));
    if (++slot == Tile::kStages) slot = 0, phase ^= 1;
    scales = next;
  }
}

/// Leaves a consumer warp's sums in its plane of `sums`: [warp along k][column][row].
template <class Tile>
__device__ __forceinline__ void leave_direct(float* sums, const float (&acc)[Tile::kBlocks][Tile::kColumns][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % Tile::kWarpsM, wk = warp / Tile::kWarpsM;
  float* to = sums + (wk * Tile::kCols + lane % 4 * 2) * Tile::kPitch + wm * Tile::kBlocks * 16 + lane / 4;
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) to[(n * 8 + i % 2) * Tile::kPitch + block * 16 + i / 2 * 8] = acc[block][n][i];
}

/// Adds up over the warps of this CTA and the CTAs of the cluster, and stores this CTA's share of D.
template <class Tile>
__device__ __forceinline__ void finish_direct(const DirectParams& p, float* sums, int row0, int col0, int part) {
  constexpr int kPlane = Tile::kCols * Tile::kPitch, kElements = Tile::kRows * Tile::kCols;
  const bool consumer = threadIdx.x < Tile::kConsumers;
  const auto place = [](int e) { return e / Tile::kRows * Tile::kPitch + e % Tile::kRows; };
  const auto total = [&](int at) {
    float v = sums[at];
#pragma unroll
    for (int k = 1; k < Tile::kWarpsK; k++) v += sums[k * kPlane + at];
    return v;
  };
  if (p.split > 1) {
    if (consumer && Tile::kWarpsK > 1)
      for (int e = threadIdx.x; e < kElements; e += Tile::kConsumers) sums[place(e)] = total(place(e));
    ptx::cluster_sync();
  }
  if (consumer) {
    const float scale = tensor_scale(p.e);
    const uint32_t here = ptx::smem_address(sums);
    const int first = kElements * part / p.split, last = kElements * (part + 1) / p.split;
#pragma unroll 1
    for (int e = first + threadIdx.x; e < last; e += Tile::kConsumers) {
      const int row = row0 + e % Tile::kRows, col = col0 + e / Tile::kRows;
      if (row >= p.rows || col >= p.cols) continue;
      float v = 0.f;
      if (p.split == 1) v = total(place(e));
      else
        for (int r = 0; r < p.split; r++) v += ptx::ld_shared_cluster_f1(ptx::mapa(here, r) + place(e) * 4);
      store_element(p.e.d, row * p.e.d_row_stride + col * p.e.d_col_stride, p.e.dtype, finish(p.e, scale, v, row, col));
    }
  }
  if (p.split > 1) ptx::cluster_sync();  // peers may still be reading our sums
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) gemm_direct(const __grid_constant__ DirectParams p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const DirectRing<Tile> ring{ptx::smem_address(shared)};
  const int tile = blockIdx.x / p.split, part = blockIdx.x - tile * p.split;
  const int row0 = tile % p.tiles_m * Tile::kRows, col0 = tile / p.tiles_m * Tile::kCols;
  const int chunks = p.k / Tile::kChunkK, begin = chunks * part / p.split, end = chunks * (part + 1) / p.split;
  if (threadIdx.x >= Tile::kConsumers) {
    const int lane = threadIdx.x % 32;
    if (lane < Tile::kStages) {
      ptx::mbarrier_init(ring.full(lane), 1);
      ptx::mbarrier_init(ring.empty(lane), Tile::kWarpsM * Tile::kWarpsK);
    }
    ptx::fence_mbarrier_init();
    __syncwarp();
    ptx::bar_arrive(2, Tile::kThreads);  // the copies need this warp's view of the barriers only
    ptx::griddepcontrol_launch_dependents();
    produce_direct<Tile>(p, ring, DirectLoads<Tile>(p, row0, col0, begin, end), ((end - begin) * 128 + Tile::kWidth - 1) / Tile::kWidth);
    __syncwarp();
  } else {
    touch(p.e);
    float acc[Tile::kBlocks][Tile::kColumns][4] = {};
    ptx::bar_sync(2, Tile::kThreads);
    consume_direct<Tile>(p, ring, row0, col0, begin, end, acc);
    ptx::griddepcontrol_wait();
    ptx::bar_sync(1, Tile::kConsumers);  // the ring is free: every stage has been read
    leave_direct<Tile>(reinterpret_cast<float*>(shared + Tile::kBarrierBytes), acc);
    ptx::bar_sync(1, Tile::kConsumers);
  }
  finish_direct<Tile>(p, reinterpret_cast<float*>(shared + Tile::kBarrierBytes), row0, col0, part);
}

}  // namespace orrery::kernels
