// Widened GEMM: which tiles exist, and how they are launched; gemm_widen.cuh has the kernel.
#include <bit>

#include "arguments.h"
#include "gemm_widen.cuh"
#include "launch.h"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

template <class Tile>
GemmKernel widen_kernel(DType t) {
  return {t, t, false, false, GemmConfig::Schedule::kStream, Tile::kRows, Tile::kCols, Tile::kPerSm, false, Tile::kShared, Tile::kThreads,
          reinterpret_cast<const void*>(&gemm_widen<Tile>), Tile::kPlanes};
}

template <class T>
void add_tiles(std::vector<GemmKernel>& out, DType t) {
  //                                       groups, columns, CTAs an SM, stages at most
  out.push_back(widen_kernel<WidenTile<T, 2, 16, 2, 12>>(t));
  out.push_back(widen_kernel<WidenTile<T, 2, 32, 2, 6>>(t));
  out.push_back(widen_kernel<WidenTile<T, 3, 64, 1, 6>>(t));
}

/// Bytes of the sums that the other CTAs of a cluster send.
int64_t inbox_bytes(const GemmKernel& kernel, int split) {
  return int64_t(split - 1) * kernel.planes * kernel.tile_n * 4 * (kernel.tile_m / split + 4);
}

}  // namespace

const std::vector<GemmKernel>& widen_kernels() {
  static const std::vector<GemmKernel> all = [] {
    std::vector<GemmKernel> out;
    add_tiles<__half>(out, DType::kF16);
    add_tiles<__nv_bfloat16>(out, DType::kBF16);
    return out;
  }();
  return all;
}

bool gemm_widen_fits(const WeightOnlyArgs& g, const GemmConfig& c, const GemmKernel& kernel) {
  return g.format == WeightFormat::kInt4 && g.a.dtype == kernel.a && c.schedule == kernel.schedule &&
         c.tile_m == kernel.tile_m && c.tile_n == kernel.tile_n && c.per_sm == kernel.slabs &&
         (c.split_k == 1 || c.split_k == 2) && g.k / 128 >= c.split_k &&
         (g.m + kernel.tile_n - 1) / kernel.tile_n <= 65535 &&
         (g.n + kernel.tile_m - 1) / kernel.tile_m * c.split_k <= 0x7fffffff;
}

Status gemm_widen_launch(const WeightOnlyArgs& g, const Epilogue& epilogue, const GemmConfig& c,
                         const GemmKernel& kernel, cudaStream_t stream) {
  WidenParams p{};
  const uint64_t sizes_w[2] = {uint64_t(g.k / 2), uint64_t(g.n)}, sizes_x[3] = {64, uint64_t(g.m), uint64_t(g.k / 64)};
  const uint64_t pitch_w[1] = {uint64_t(g.weight_pitch)}, pitch_x[2] = {uint64_t(g.a.row_stride * size_of(g.a.dtype)), 128};
  const uint32_t box_w[2] = {64, uint32_t(kernel.tile_m)}, box_x[3] = {64, uint32_t(kernel.tile_n), 2};  // both slabs of a stage
  if (!encode_tensor_map(&p.w, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, g.weights, sizes_w, pitch_w, box_w,
                         CU_TENSOR_MAP_SWIZZLE_64B) ||
      !encode_tensor_map(&p.x, tensor_map_type(g.a.dtype), 3, g.a.data, sizes_x, pitch_x, box_x))
    return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.scales = static_cast<const uint16_t*>(g.scales), p.e = epilogue;
  p.stages = int(g.k / 128), p.split_log = std::countr_zero(unsigned(c.split_k)), p.early = g.overlap;
  const dim3 grid(unsigned((g.n + kernel.tile_m - 1) / kernel.tile_m * c.split_k), unsigned((g.m + kernel.tile_n - 1) / kernel.tile_n));
  return launched(launch_with_most_shared(kernel.function, grid, kernel.threads, kernel.shared_bytes + inbox_bytes(kernel, c.split_k), c.split_k,
                                          g.overlap, stream, &p));
}

}  // namespace orrery::kernels
