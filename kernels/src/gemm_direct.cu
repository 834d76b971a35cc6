// Direct GEMM: which tiles exist, and how they are launched; gemm_direct.cuh has the kernel.
#include "gemm_direct.cuh"

#include "gemm.h"

namespace orrery::kernels {
namespace {

template <class Tile>
GemmKernel direct_kernel(DType t) {
  return {t, t, false, false, GemmConfig::Schedule::kDirect, Tile::kRows, Tile::kCols, Tile::kPerSm, false, Tile::kSharedBytes,
          Tile::kThreads, reinterpret_cast<const void*>(&gemm_direct<Tile>)};
}

/// Blocks of 16 rows and of 8 columns of a warp; warps along rows and along k; bytes of a stage's rows, stages, CTAs an SM.
template <class T, class S>
void add_tiles(std::vector<GemmKernel>& out, DType t) {
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 1, 1, 8, 1024, 4, 2>>(t));   //  16 x 8
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 1, 1, 4, 1024, 4, 2>>(t));   //  16 x 8, four warps
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 1, 2, 4, 1024, 5, 1>>(t));   //  32 x 8
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 2, 1, 8, 1024, 3, 2>>(t));   //  16 x 16
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 2, 2, 4, 512, 4, 2>>(t));    //  32 x 16
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 4, 2, 4, 512, 3, 2>>(t));    //  32 x 32
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 4, 4, 2, 512, 2, 2>>(t));    //  64 x 32
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 4, 4, 4, 512, 4, 1>>(t));    //  64 x 32, 16 warps
  out.push_back(direct_kernel<DirectTile<T, S, S, 1, 8, 4, 2, 512, 3, 1>>(t));    //  64 x 64
  out.push_back(direct_kernel<DirectTile<T, S, S, 2, 8, 4, 2, 512, 2, 1>>(t));    // 128 x 64
}

}  // namespace

void add_kernels_direct(std::vector<GemmKernel>& out) {
  add_tiles<__half, Plain16>(out, DType::kF16);
  add_tiles<__nv_bfloat16, Plain16>(out, DType::kBF16);
  add_tiles<__half, PlainE4M3>(out, DType::kE4M3);
}

cudaError_t launch_direct(const DirectParams& p, const GemmKernel& kernel, bool overlap, cudaStream_t stream) {
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  const int64_t blocks = int64_t(p.tiles_m) * ((p.cols + kernel.tile_n - 1) / kernel.tile_n) * p.split;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(kernel.threads);
  config.dynamicSmemBytes = kernel.shared_bytes, config.stream = stream, config.attrs = attributes;
  if (p.split > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {unsigned(p.split), 1, 1};
  }
  if (overlap) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cudaError_t e = cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes)) return e;
  void* arguments[1] = {const_cast<DirectParams*>(&p)};
  return cudaLaunchKernelExC(&config, kernel.function, arguments);
}

cudaError_t gemm_direct_launch(const GemmArgs& g, const Epilogue& e, const GemmConfig& c, const GemmKernel& kernel,
                               cudaStream_t stream) {
  const int size = size_of(g.a.dtype);
  DirectParams p{};
  p.w = static_cast<const uint8_t*>(g.a.data), p.x = static_cast<const uint8_t*>(g.b.data);
  p.w_pitch = g.a.row_stride * size, p.x_pitch = g.b.col_stride * size;
  p.rows = int(g.m), p.cols = int(g.n), p.k = int(g.k);
  p.tiles_m = int((g.m + kernel.tile_m - 1) / kernel.tile_m), p.split = c.split_k;
  p.early = g.overlap && g.constant_b && c.swap;
  p.e = e;
  return launch_direct(p, kernel, g.overlap, stream);
}

}  // namespace orrery::kernels
