// Direct GEMM: which tiles exist, and how they are launched; gemm_direct.cuh has the kernel.
#include "gemm_direct.cuh"

#include <bit>

#include "gemm.h"
#include "launch.h"

namespace orrery::kernels {
namespace {

template <class Tile>
GemmKernel direct_kernel(DType t) {
  return {t, t, false, false, GemmConfig::Schedule::kDirect, Tile::kRows, Tile::kCols, Tile::kPerSm, false, Tile::kSumBytes,
          Tile::kThreads, reinterpret_cast<const void*>(&gemm_direct<Tile>)};
}

/// Rows of W a CTA takes, columns, and how the eight warps share the work; one with few registers, so that two
/// launches fit on an SM, and one with many loads in flight.
template <class T, class Storage>
void add_tiles(std::vector<GemmKernel>& out, DType t) {
  using S = Storage;
  //                                                 blocks, columns, warps along rows and k, depth, CTAs an SM
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 1, 1, 8, 4, 2>>(t));   //  16 x 8
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 1, 1, 8, 2, 4>>(t));   //  16 x 8, lean
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 1, 2, 4, 2, 4>>(t));   //  32 x 8, lean
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 2, 1, 8, 4, 2>>(t));   //  16 x 16
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 2, 2, 4, 2, 3>>(t));   //  32 x 16, lean
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 2, 2, 8, 4, 1>>(t));   //  32 x 16, 16 warps
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 2, 4, 2, 4, 2>>(t));   //  64 x 16
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 4, 2, 8, 3, 1>>(t));   //  32 x 32, 16 warps
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 4, 4, 2, 4, 2>>(t));   //  64 x 32
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 8, 4, 2, 2, 2>>(t));   //  64 x 64
  out.push_back(direct_kernel<DirectTile<T, S, S, 2, 8, 4, 2, 1, 1>>(t));   // 128 x 64
}

}  // namespace

void add_kernels_direct(std::vector<GemmKernel>& out) {
  add_tiles<__half, Plain16>(out, DType::kF16);
  add_tiles<__nv_bfloat16, Plain16>(out, DType::kBF16);
  add_tiles<__half, PlainE4M3>(out, DType::kE4M3);
}

cudaError_t launch_direct(DirectParams p, const GemmKernel& kernel, int x_chunk, int chunks, bool overlap, cudaStream_t stream) {
  // 64 bytes more than a multiple of 128: the two columns that one phase of a load reads then fall on different banks.
  const int split = 1 << p.split_log, most = (chunks + split - 1) / split, columns = p.cols < kernel.tile_n ? p.cols : kernel.tile_n;
  const int64_t staged = columns * (int64_t(most) * x_chunk + 64), room = (227 * 1024) / kernel.slabs - 1024 - kernel.shared_bytes;
  p.staged_pitch = x_chunk && staged <= room ? most * x_chunk + 64 : 0;
  const int shared_bytes = kernel.shared_bytes + (p.staged_pitch ? int(staged) : 0);
  const int64_t blocks = int64_t(p.tiles_m) * split, across = (p.cols + int64_t(kernel.tile_n) - 1) / kernel.tile_n;
  if (blocks > 0x7fffffff || across > 65535) return cudaErrorInvalidConfiguration;
  return launch_with_most_shared(kernel.function, dim3(unsigned(blocks), unsigned(across)), kernel.threads, shared_bytes, split, overlap, stream, &p);
}

cudaError_t gemm_direct_launch(const GemmArgs& g, const Epilogue& e, const GemmConfig& c, const GemmKernel& kernel,
                               cudaStream_t stream) {
  const int size = size_of(g.a.dtype);
  DirectParams p{};
  p.w = static_cast<const uint8_t*>(g.a.data), p.x = static_cast<const uint8_t*>(g.b.data);
  p.w_pitch = g.a.row_stride * size, p.x_pitch = g.b.col_stride * size;
  p.rows = int(g.m), p.cols = int(g.n), p.k = int(g.k);
  p.tiles_m = int((g.m + kernel.tile_m - 1) / kernel.tile_m), p.split_log = std::countr_zero(unsigned(c.split_k));
  p.early = g.overlap && g.constant_b && c.swap;
  p.e = e;
  return launch_direct(p, kernel, 128, int(g.k * size / 128), g.overlap, stream);
}

}  // namespace orrery::kernels
