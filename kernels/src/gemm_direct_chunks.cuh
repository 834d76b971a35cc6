// Direct GEMM (gemm_direct.cuh), its chunks: what a tile is, which pieces of W and X a lane reads, and the products of a chunk.
//
// The k that a piece holds are not those the mma layout names; but X is read by the same rule, and a sum does not
// care in which order its terms come. So W needs no shared memory and no shuffles.
// fp8 is widened to f16 (exactly) and multiplied as f16: on Hopper the warp-wide fp8 product is that anyway.
// int4 has a scale for every row and 128 of k: exactly one 64-byte run, whose sum is scaled in f32. Its words are stored
// in such an order that the quad's pieces of X are neighbours too.
//
// Not here: how W and X are stored (gemm_storage.cuh), in which order chunks are taken (gemm_direct.cuh, gemm_direct_kept.cuh).
#pragma once
#include "gemm_epilogue.cuh"
#include "gemm_storage.cuh"

namespace orrery::kernels {

/// What the host tells the kernel. Rows are those of W, columns those of X.
struct DirectParams {
  const uint8_t *w, *x;
  int64_t w_pitch, x_pitch;    // bytes
  const uint16_t* scales;      // int4: [rows][k / 128], of the type of X
  int rows, cols, k;           // k in elements
  int tiles_m, split_log;      // CTAs along rows, times 2^split_log that share a tile's K: a division would cost as much as a read of L2
  bool early;                  // W may be read before the kernels we depend on have ended
  int staged_pitch;            // bytes from column to column of X in shared memory; 0: X stays where it is
  Epilogue e;
  uint32_t nothing;            // zero, which the compiler does not know
};

/// Launches an instance of gemm_direct; of `kernel` tile_n, threads, slabs (CTAs an SM), shared_bytes (of the sums and
/// what is kept) and function are read. x_chunk: bytes of X for one chunk of W, 0 if X is not to be staged; chunks: whole
/// ones in k. Fills p.staged_pitch.
cudaError_t launch_direct(DirectParams p, const GemmKernel& kernel, int x_chunk, int chunks, bool overlap, cudaStream_t stream);

/// kKept: chunks that a warp keeps in shared memory; W then has whole chunks only, and its scales are 4-byte aligned.
template <class T_, class W_, class X_, int kBlocks_, int kColumns_, int kWarpsM_, int kWarpsK_, int kDepth_, int kPerSm_, int kKept_ = 0>
struct DirectTile {
  using T = T_;  // of the products: __half or __nv_bfloat16
  using W = W_;
  using X = X_;  // storage of X: Plain16 or PlainE4M3
  static constexpr int kBlocks = kBlocks_, kColumns = kColumns_;  // of 16 rows, of 8 columns; per warp
  static constexpr int kWarpsM = kWarpsM_, kWarpsK = kWarpsK_, kDepth = kDepth_, kPerSm = kPerSm_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsK;
  static constexpr int kRows = 16 * kBlocks * kWarpsM, kCols = 8 * kColumns;
  static constexpr int kChunkK = 2 * 4 * W::kElements;      // elements of k in a chunk
  static constexpr int kPairs = W::kElements / 2;           // operand registers of a piece
  static constexpr int kPiecesX = W::kElements / X::kElements;  // of X for one of W
  // int4 times fp8: a word of W goes with 8 bytes of X, so that a lane's pieces of X come in halves, 32 bytes apart.
  static constexpr bool kHalves = W::kElements == 32 && X::kElements == 16;
  static constexpr bool kWide = W::kElements == 16 && X::kElements == 8;  // fp8 in its natural order times f16
  static constexpr int kLaneX = kHalves ? 8 : kWide ? 32 : 16;  // bytes from a lane's X to the next lane's
  static constexpr int kNextX = kWide ? 16 : 64;                // and from piece to piece
  static constexpr int kPitch = kRows + 4;                  // floats from column to column of the sums
  static constexpr int kSumBytes = kWarpsK * kCols * kPitch * 4;  // a multiple of 16
  static constexpr int kKept = kKept_, kSlotBytes = kBlocks * (4 * 512 + (W::kScaled ? 2 * 128 : 0));  // pieces of a chunk and its scales
  static constexpr int kKeptBytes = kWarpsM * kWarpsK * kKept * kSlotBytes;
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

/// The piece at p of which `bytes` (any number) are inside the matrix; zeros beyond.
static __device__ __noinline__ uint4 partial_piece(const uint8_t* p, int64_t bytes, int element) {
  union {
    uint16_t half[8];
    uint4 all;
  } r;
  r.all = make_uint4(0, 0, 0, 0);
  for (int i = 0; i < 16 && i < bytes; i += element) {
    if (element == 2) r.half[i / 2] = *reinterpret_cast<const uint16_t*>(p + i);
    else r.half[i / 2] |= uint16_t(p[i]) << (i % 2 * 8);
  }
  return r.all;
}

__device__ __forceinline__ uint4 load_once(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
/// This lane's pieces of a chunk of W: [block][row g or g + 8][first or second 64 bytes].
template <class Tile>
struct ChunkW {
  uint4 piece[Tile::kBlocks][2][2];
  uint32_t scales[Tile::W::kScaled ? Tile::kBlocks : 1][2];  // a pair each: one for each 64 bytes
};
/// And of X, for the first or second 64 bytes of W.
template <class Tile>
struct RunX {
  uint4 piece[Tile::kColumns][Tile::kPiecesX];
};

/// Where this lane reads.
template <class Tile>
struct DirectLane {
  const uint8_t *w, *x;
  int64_t w_pitch, x_pitch, w_bytes, x_bytes;  // bytes: of a row's k, less what lies before this lane's pieces
  int rows_left, cols_left;                    // from this lane's first row and column on
  const uint16_t* scales;
  int groups;
  const uint8_t* near_x;  // X from the CTA's first chunk on: in shared memory, or in place
  int64_t near_pitch;

  __device__ __forceinline__ DirectLane(const DirectParams& p, int row0, int col0, const uint8_t* staged, int begin) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    w_pitch = p.w_pitch, x_pitch = p.x_pitch;
    w = p.w + (row0 + g) * w_pitch + t * 16;
    x = p.x + (col0 + g) * x_pitch + t * Tile::kLaneX;
    w_bytes = int64_t(p.k) * 16 / Tile::W::kElements - t * 16;
    x_bytes = int64_t(p.k) * 16 / Tile::X::kElements - t * Tile::kLaneX;
    rows_left = p.rows - row0 - g, cols_left = p.cols - col0 - g;
    groups = p.k / 128;
    near_x = p.staged_pitch ? staged + g * p.staged_pitch + t * Tile::kLaneX : x + int64_t(begin) * 128 * Tile::kPiecesX;
    near_pitch = p.staged_pitch ? p.staged_pitch : x_pitch;
    scales = p.scales + int64_t(row0 + g) * groups;
  }

  /// kWhole: the chunk does not reach over the end of the rows.
  template <bool kWhole>
  __device__ __forceinline__ void load(ChunkW<Tile>& c, int chunk) const {
    constexpr int kElementBytes = Tile::W::kElements > 16 ? 1 : 16 / Tile::W::kElements;
    const int64_t at = int64_t(chunk) * 128;
#pragma unroll
    for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const bool inside = b * 16 + h * 8 < rows_left;
        const uint8_t* row = w + (b * 16 + h * 8) * w_pitch + at;
#pragma unroll
        for (int j = 0; j < 2; j++) {
          c.piece[b][h][j] = make_uint4(0, 0, 0, 0);
          if (!inside) continue;
          if constexpr (kWhole) c.piece[b][h][j] = load_once(row + j * 64);
          else c.piece[b][h][j] = partial_piece(row + j * 64, w_bytes - at - j * 64, kElementBytes);
        }
        if constexpr (Tile::W::kScaled) {  // k is a multiple of 128: the last chunk may have one group only
          const uint16_t* s = scales + int64_t(b * 16 + h * 8) * groups + 2 * chunk;
          c.scales[b][h] = 0;
          if (inside) c.scales[b][h] = __ldg(s) | (kWhole ? uint32_t(__ldg(s + 1)) << 16 : 0);
        }
      }
  }

  /// kWhole: from where X was staged, `chunk` counted from the CTA's first; else from memory.
  template <bool kWhole>
  __device__ __forceinline__ void load(RunX<Tile> (&run)[2], int chunk) const {
    constexpr int kRun = 64 * Tile::kPiecesX;  // bytes of X for 64 of W
    const int64_t at = int64_t(chunk) * 2 * kRun;
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int q = 0; q < Tile::kPiecesX; q++) {
          const int64_t offset = at + j * kRun + q * Tile::kNextX;
          run[j].piece[n][q] = make_uint4(0, 0, 0, 0);
          if (n * 8 >= cols_left) continue;
          if constexpr (Tile::kHalves) {  // k is a multiple of 128: there are no parts of halves
            const uint8_t* from = kWhole ? near_x + n * 8 * near_pitch + offset : x + n * 8 * x_pitch + offset;
            if (!kWhole && offset >= x_bytes) continue;
            const uint2 a = *reinterpret_cast<const uint2*>(from), b = *reinterpret_cast<const uint2*>(from + 32);
            run[j].piece[n][q] = make_uint4(a.x, a.y, b.x, b.y);
            continue;
          }
          if constexpr (kWhole) run[j].piece[n][q] = *reinterpret_cast<const uint4*>(near_x + n * 8 * near_pitch + offset);
          else run[j].piece[n][q] = partial_piece(x + n * 8 * x_pitch + offset, x_bytes - offset, 16 / Tile::X::kElements);
        }
  }
};

/// Brings this CTA's columns of those chunks of X to L2, shared out over the CTAs of a column of tiles; by one warp.
template <class Tile>
__device__ __forceinline__ void prefetch_columns(const DirectParams& p, int col0, int begin, int end) {
  const int columns = min(Tile::kCols, p.cols - col0), chunk = begin + int(blockIdx.x >> p.split_log) % 64;
  if (chunk >= end) return;
  const uint8_t* const from = p.x + col0 * p.x_pitch + int64_t(chunk) * 128 * Tile::kPiecesX;
  for (int i = threadIdx.x % 32; i < columns * Tile::kPiecesX; i += 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i / Tile::kPiecesX * p.x_pitch + i % Tile::kPiecesX * 128));
}
template <class T>
__device__ __forceinline__ float scale_at(uint32_t pair, int j) {
  const uint16_t bits = uint16_t(pair >> (16 * j));
  if constexpr (std::is_same_v<T, __half>) return __half2float(__ushort_as_half(bits));
  else return __bfloat162float(__ushort_as_bfloat16(bits));
}

/// Adds the products of 64 bytes of W, the first (j = 0) or second of the chunk. Sums of all blocks and columns go on side by side: a
/// product that waits for the one before it waits for 33 cycles.
template <class Tile>
__device__ __forceinline__ void multiply_octets(float (&to)[Tile::kBlocks][Tile::kColumns][4], const ChunkW<Tile>& w, const RunX<Tile>& x, int j) {
  using T = typename Tile::T;
  constexpr int kOctetsX = Tile::X::kElements / 8;
#pragma unroll
  for (int octet = 0; octet < Tile::W::kElements / 8; octet++) {
    uint32_t a[Tile::kBlocks][2][4], b[Tile::kColumns][4];
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++) Tile::X::template widen<T>(b[n], x.piece[n][octet / kOctetsX], octet % kOctetsX);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int h = 0; h < 2; h++) Tile::W::template widen<T>(a[block][h], w.piece[block][h][j], octet);
#pragma unroll
    for (int i = 0; i < 4; i += 2)
#pragma unroll
      for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
        for (int n = 0; n < Tile::kColumns; n++)
          mma_16816<T>(to[block][n], a[block][0][i], a[block][1][i], a[block][0][i + 1], a[block][1][i + 1], b[n][i], b[n][i + 1]);
  }
}

/// The same times the scales of W, where it has any.
template <class Tile>
__device__ __forceinline__ void multiply_run(float (&acc)[Tile::kBlocks][Tile::kColumns][4], const ChunkW<Tile>& w, const RunX<Tile>& x, int j) {
  if constexpr (!Tile::W::kScaled) {
    multiply_octets<Tile>(acc, w, x, j);
  } else {
    float sum[Tile::kBlocks][Tile::kColumns][4] = {};
    multiply_octets<Tile>(sum, w, x, j);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          acc[block][n][i] = fmaf(scale_at<typename Tile::T>(w.scales[block][i / 2], j), sum[block][n][i], acc[block][n][i]);
  }
}

template <class Tile>
__device__ __forceinline__ void multiply_chunk(float (&acc)[Tile::kBlocks][Tile::kColumns][4], const ChunkW<Tile>& w, const RunX<Tile> (&x)[2]) {
#pragma unroll
  for (int j = 0; j < 2; j++) multiply_run<Tile>(acc, w, x[j], j);
}

}  // namespace orrery::kernels
