// Widened GEMM: which tiles exist, and how they are launched; gemm_widen.cuh has the kernel.
#include <bit>

#include "arguments.h"
#include "gemm.h"
#include "gemm_widen.cuh"
#include "launch.h"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

template <class Tile>
GemmKernel widen_kernel(DType t) {
  GemmKernel kernel{t, Tile::W::kScaled ? t : DType::kE4M3, false, false, GemmConfig::Schedule::kStream, Tile::kRows, Tile::kCols, Tile::kPerSm, false, Tile::kShared,
                    Tile::kThreads, reinterpret_cast<const void*>(&gemm_widen<Tile>), Tile::kPlanes};
  kernel.box_slabs = Tile::kSlabs, kernel.only_split = Tile::kSplits ? 0 : 1;
  return kernel;
}

template <class T>
void add_tiles(std::vector<GemmKernel>& out, DType t) {
  //                                             groups, columns, CTAs an SM, stages at most; bytes of a row in a stage, stages of W ahead of X
  out.push_back(widen_kernel<WidenTile<T, Int4, 2, 16, 2, 12, 64, 4>>(t));
  out.push_back(widen_kernel<WidenTile<T, Int4, 2, 32, 2, 6, 64, 2>>(t));
  out.push_back(widen_kernel<WidenTile<T, Int4, 3, 64, 1, 9, 64, 3>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 8, 2, 12>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 16, 2, 12>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 32, 2, 6>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 64, 1, 8>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 1, 64, 2, 4>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 96, 1, 10, 64>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 128, 1, 8, 64>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 160, 1, 8, 64>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 192, 1, 8, 64>>(t));
  out.push_back(widen_kernel<WidenTile<T, PlainE4M3, 2, 256, 1, 6, 64>>(t));
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
    add_widen_tiles(out);
    return out;
  }();
  return all;
}

bool gemm_widen_fits(const WeightOnlyArgs& g, const GemmConfig& c, const GemmKernel& kernel) {
  const bool e4m3 = kernel.b == DType::kE4M3;
  if ((g.format == WeightFormat::kE4M3) != e4m3 || g.a.dtype != kernel.a || c.schedule != kernel.schedule || c.tile_m != kernel.tile_m || c.tile_n != kernel.tile_n)
    return false;
  constexpr int64_t kMostPitch = int64_t(1) << 40;  // of a tensor map, in bytes
  if (g.weight_pitch >= kMostPitch || g.a.row_stride * size_of(g.a.dtype) >= kMostPitch) return false;
  if (kernel.schedule != GemmConfig::Schedule::kStream) {
    const bool room = kernel.schedule != GemmConfig::Schedule::kStreamK || g.workspace_bytes >= stream_k_bytes(kernel.tile_m, kernel.tile_n);
    const bool halves = kernel.schedule == GemmConfig::Schedule::kSplit;
    const bool tiles = !halves || ((g.k + 63) / 64 >= 2 && (g.n + kernel.tile_m - 1) / kernel.tile_m * ((g.m + kernel.tile_n - 1) / kernel.tile_n) <= 0x3fffffff);
    return c.cluster_m == 1 && c.cluster_n == 1 && c.split_k == (halves ? 2 : 1) && room && tiles;
  }
  return c.per_sm == kernel.slabs && (c.split_k == 1 || (c.split_k == 2 && !kernel.only_split)) &&
         (g.k + 64 * kernel.box_slabs - 1) / (64 * kernel.box_slabs) >= c.split_k &&
         (g.m + kernel.tile_n - 1) / kernel.tile_n <= 65535 && (g.n + kernel.tile_m - 1) / kernel.tile_m * c.split_k <= 0x7fffffff;
}

Status gemm_widen_launch(const WeightOnlyArgs& g, const Epilogue& epilogue, const GemmConfig& c,
                         const GemmKernel& kernel, cudaStream_t stream) {
  if (kernel.schedule != GemmConfig::Schedule::kStream) return gemm_widen_tiles_launch(g, epilogue, c, kernel, stream);
  WidenParams p{};
  const bool int4 = g.format == WeightFormat::kInt4;
  const int slabs = kernel.box_slabs, line = int4 ? 64 : slabs * 64;
  p.slabs = g.k % 64 == 0;
  const uint64_t sizes_w[2] = {uint64_t(int4 ? g.k / 2 : g.k), uint64_t(g.n)}, pitch_w[1] = {uint64_t(g.weight_pitch)};
  const uint32_t box_w[2] = {uint32_t(line), uint32_t(kernel.tile_m)}, box_x[3] = {64, uint32_t(kernel.tile_n), uint32_t(slabs)};
  const uint64_t row = uint64_t(g.a.row_stride * size_of(g.a.dtype));
  const uint64_t sizes_slabs[3] = {64, uint64_t(g.m), uint64_t(g.k / 64)}, pitch_slabs[2] = {row, 128}, sizes_x[2] = {uint64_t(g.k), uint64_t(g.m)}, pitch_x[1] = {row};
  const CUtensorMapL2promotion promotion = int4 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;  // as of tiles (NOTES.md)
  if (!encode_tensor_map(&p.w, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, g.weights, sizes_w, pitch_w, box_w,
                         line == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B, promotion) ||
      !encode_tensor_map(&p.x, tensor_map_type(g.a.dtype), p.slabs ? 3 : 2, g.a.data, p.slabs ? sizes_slabs : sizes_x, p.slabs ? pitch_slabs : pitch_x, box_x,
                         CU_TENSOR_MAP_SWIZZLE_128B, promotion))
    return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.scales = static_cast<const uint16_t*>(g.scales), p.e = epilogue;
  p.stages = int((g.k + 64 * slabs - 1) / (64 * slabs)), p.split_log = std::countr_zero(unsigned(c.split_k)), p.early = g.overlap;
  p.kept = p.stages % (8 * c.split_k) == 0 && p.stages / c.split_k <= ScaleLines<1>::kMostStages && aligned(g.scales, 16);
  const dim3 grid(unsigned((g.n + kernel.tile_m - 1) / kernel.tile_m * c.split_k), unsigned((g.m + kernel.tile_n - 1) / kernel.tile_n));
  return launched(launch_with_most_shared(kernel.function, grid, kernel.threads, kernel.shared_bytes + inbox_bytes(kernel, c.split_k), c.split_k,
                                          g.overlap, stream, &p));
}

}  // namespace orrery::kernels
