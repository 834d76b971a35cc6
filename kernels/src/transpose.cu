// Transpose of a matrix of 1-, 2-, 4- or 8-byte elements.
//
// A block moves one tile of kTile x kTile elements through shared memory (2-byte elements: turn_pairs). It reads and writes whole 16-byte packs;
// the turn happens on the way out, where a thread picks the elements of its pack from one column of the tile. Rows
// of the tile are padded by one 4-byte word (one element where elements are larger), which makes both directions
// free of bank conflicts for 2- and 4-byte elements. Lanes are laid out 4 packs wide, so writes are 64 bytes long.
#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256;

template <class T, int kTile>
__global__ void __launch_bounds__(kThreads) turn(T* out, const T* in, int64_t rows, int64_t cols, int64_t in_pitch,
                                                 int64_t out_pitch, int64_t tiles_y, bool wide) {
  constexpr int kCount = Pack<T>::kCount, kPacks = kTile / kCount;
  constexpr int kPitch = kTile + (sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1);
  __shared__ T tile[kTile][kPitch];
  begin_overlapped();
  const int64_t row0 = blockIdx.x % tiles_y * kTile, col0 = blockIdx.x / tiles_y * kTile;  // blocks side by side write side by side
  Pack<T> v[kTile * kPacks / kThreads];
#pragma unroll
  for (int u = 0; u < kTile * kPacks / kThreads; u++) {
    const int i = u * kThreads + threadIdx.x, r = i / kPacks, c = i % kPacks * kCount;
    const T* from = in + (row0 + r) * in_pitch + col0 + c;
    v[u] = Pack<T>{};
    if (row0 + r >= rows || col0 + c >= cols) continue;
    if (wide && col0 + c + kCount <= cols) v[u] = load_hinted(from);
    else
      for (int k = 0; k < kCount; k++)
        if (col0 + c + k < cols) v[u].v[k] = from[k];
  }
#pragma unroll
  for (int u = 0; u < kTile * kPacks / kThreads; u++) {
    const int i = u * kThreads + threadIdx.x, r = i / kPacks, c = i % kPacks * kCount;
#pragma unroll
    for (int k = 0; k < kCount; k++) tile[r][c + k] = v[u].v[k];
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kTile * kPacks / kThreads; u++) {
    // 4 packs x 8 columns per warp, then the remaining packs, then the remaining columns.
    const int i = u * kThreads + threadIdx.x, lane = i % 32, group = i / 32;
    constexpr int kAcross = kPacks / 4 > 0 ? kPacks / 4 : 1;
    const int r = (lane % 4 + group % kAcross * 4) * kCount, c = lane / 4 + group / kAcross * 8;
    if (col0 + c >= cols || row0 + r >= rows) continue;
    T* to = out + (col0 + c) * out_pitch + row0 + r;
    Pack<T> w;
#pragma unroll
    for (int k = 0; k < kCount; k++) w.v[k] = tile[r + k][c];
    if (wide && row0 + r + kCount <= rows) store_hinted(to, w);
    else
      for (int k = 0; k < kCount; k++)
        if (row0 + r + k < rows) to[k] = w.v[k];
  }
}

constexpr int kPairs = 128;

/// 2-byte elements: a tile of 128 rows and columns, so that lines of 256 bytes are read and written. Two elements of a column become one word when they are read, so
/// that they lie side by side in shared memory: [column][row / 2], the word's place turned by the column so that neither
/// direction has bank conflicts.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) turn_pairs(uint16_t* out, const uint16_t* in, int64_t rows, int64_t cols, int64_t in_pitch,
                                                       int64_t out_pitch, int64_t tiles_y, bool wide) {
  constexpr int kRows = kPairs, kCols = kPairs;
  constexpr int kLoads = kCols / 8 * (kRows / 2) / kThreads, kStores = kCols * (kRows / 8) / kThreads;
  __shared__ uint4 tile[kCols * kRows / 8];
  uint32_t* const words = reinterpret_cast<uint32_t*>(tile);
  begin_overlapped();
  const int64_t row0 = blockIdx.x % tiles_y * kRows, col0 = blockIdx.x / tiles_y * kCols;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Pack<uint16_t> v[kLoads][2];
#pragma unroll
  for (int u = 0; u < kLoads; u++) {  // a warp: 8 packs of 4 pairs of rows
    const int unit = u * (kThreads / 32) + warp, c = (unit % (kCols / 64) * 8 + lane % 8) * 8, r = (unit / (kCols / 64) * 4 + lane / 8) * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      v[u][h] = Pack<uint16_t>{};
      if (row0 + r + h >= rows || col0 + c >= cols) continue;
      const uint16_t* from = in + (row0 + r + h) * in_pitch + col0 + c;
      if (wide && col0 + c + 8 <= cols) v[u][h] = load_hinted(from);
      else
        for (int k = 0; k < 8; k++)
          if (col0 + c + k < cols) v[u][h].v[k] = from[k];
    }
  }
#pragma unroll
  for (int u = 0; u < kLoads; u++) {
    const int unit = u * (kThreads / 32) + warp, c = (unit % (kCols / 64) * 8 + lane % 8) * 8, pair = unit / (kCols / 64) * 4 + lane / 8;
    uint32_t lo[4], hi[4];
    memcpy(lo, &v[u][0], 16), memcpy(hi, &v[u][1], 16);
#pragma unroll
    for (int k = 0; k < 8; k++)
      words[(c + k) * (kRows / 2) + (pair ^ c / 8 % 8 * 4)] = __byte_perm(lo[k / 2], hi[k / 2], k % 2 ? 0x7632 : 0x5410);
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kStores; u++) {
    const int i = u * kThreads + threadIdx.x, c = i / (kRows / 8), part = i % (kRows / 8), r = part * 8;
    if (col0 + c >= cols || row0 + r >= rows) continue;
    const uint4 w = tile[c * (kRows / 8) + (part ^ c / 8 % 8)];
    uint16_t* to = out + (col0 + c) * out_pitch + row0 + r;
    Pack<uint16_t> e;
    memcpy(&e, &w, 16);
    if (wide && row0 + r + 8 <= rows) store_hinted(to, e);
    else
      for (int k = 0; k < 8; k++)
        if (row0 + r + k < rows) to[k] = e.v[k];
  }
}

template <class T, int kTile>
cudaError_t launch(void* out, const void* in, int64_t rows, int64_t cols, int64_t in_pitch, int64_t out_pitch,
                   cudaStream_t stream) {
  const int64_t x = (cols + kTile - 1) / kTile, y = (rows + kTile - 1) / kTile;
  const bool wide = aligned(out, 16) && aligned(in, 16) && in_pitch % Pack<T>::kCount == 0 &&
                    out_pitch % Pack<T>::kCount == 0;
  return launch_overlapped(turn<T, kTile>, x * y, kThreads, 0, stream, static_cast<T*>(out), static_cast<const T*>(in), rows, cols,
                           in_pitch, out_pitch, y, wide);
}

cudaError_t launch_pairs(void* out, const void* in, int64_t rows, int64_t cols, int64_t in_pitch, int64_t out_pitch, cudaStream_t stream) {
  const int64_t x = (cols + kPairs - 1) / kPairs, y = (rows + kPairs - 1) / kPairs;
  const bool wide = aligned(out, 16) && aligned(in, 16) && in_pitch % 8 == 0 && out_pitch % 8 == 0, many = x * y >= 4096;
  return launch_overlapped(many ? turn_pairs<1024> : turn_pairs<512>, x * y, many ? 1024 : 512, 0, stream, static_cast<uint16_t*>(out),
                           static_cast<const uint16_t*>(in), rows, cols, in_pitch, out_pitch, y, wide);
}

}  // namespace

Status transpose(void* out, const void* in, int element_bytes, int64_t rows, int64_t cols, int64_t in_pitch,
                 int64_t out_pitch, cudaStream_t stream) {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8)
    return bad("element_bytes", "must be 1, 2, 4 or 8");
  if (rows < 0) return bad("rows", "must not be negative");
  if (cols < 0) return bad("cols", "must not be negative");
  if (rows == 0 || cols == 0) return {};
  if (rows > int64_t(1) << 40 || cols > int64_t(1) << 40 || (rows / 32 + 1) * (cols / 32 + 1) > 0x7fffffff)
    return bad("rows", "times cols is too large");
  if (in_pitch < cols) return bad("in_pitch", "is smaller than cols");
  if (out_pitch < rows) return bad("out_pitch", "is smaller than rows");
  if (!out || !aligned(out, element_bytes)) return bad("out", "is null or misaligned");
  if (!in || !aligned(in, element_bytes)) return bad("in", "is null or misaligned");
  const Extent to = matrix("out", out, cols, rows, out_pitch, 1, element_bytes), from = matrix("in", in, rows, cols, in_pitch, 1, element_bytes);
  if (span(from) == kMostBytes) return bad("in_pitch", "is too large");
  if (span(to) == kMostBytes) return bad("out_pitch", "is too large");
  if (Status s = apart(to, {from}); !s.ok()) return s;
  const auto go = [&](auto kernel) { return launched(kernel(out, in, rows, cols, in_pitch, out_pitch, stream)); };
  switch (element_bytes) {
    case 1: return go(launch<uint8_t, 128>);
    case 2: return go(launch_pairs);
    case 4: return go(launch<uint32_t, 64>);
    default: return go(launch<uint64_t, 32>);
  }
}

}  // namespace orrery::kernels
