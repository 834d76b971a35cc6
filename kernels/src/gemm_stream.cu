// Streamed GEMM: which tiles exist, and how they are launched; gemm_stream.cuh, gemm_stream_wide.cuh, gemm_stream_halves.cuh and
// gemm_stream_whole.cuh have the kernels.
#include "gemm_stream_halves.cuh"
#include "gemm_stream_whole.cuh"

#include <bit>

#include "arguments.h"
#include "gemm.h"
#include "launch.h"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

template <class Tile>
GemmKernel kernel_of(DType t, const void* function) {
  GemmKernel k{t, t, false, false, GemmConfig::Schedule::kStream, Tile::kRows, Tile::kCols, Tile::kPerSm, false, Tile::kShared, Tile::kThreads, function, Tile::kPlanes};
  k.least_stages = Tile::kLeastStages, k.most_stages = Tile::kMostStages, k.box_slabs = Tile::kSlabs;
  return k;
}
template <class Tile>
GemmKernel stream_kernel(DType t) { return kernel_of<Tile>(t, reinterpret_cast<const void*>(&gemm_stream<Tile>)); }
template <class Tile>
GemmKernel wide_kernel(DType t) { return kernel_of<Tile>(t, reinterpret_cast<const void*>(&gemm_stream_wide<Tile>)); }

template <class Tile>
GemmKernel halves_kernel(DType t) {
  GemmKernel k = kernel_of<Tile>(t, reinterpret_cast<const void*>(&gemm_stream_halves<Tile>));
  k.only_split = 2;
  return k;
}

template <class Tile>
GemmKernel whole_kernel(DType t) {
  GemmKernel k = kernel_of<Tile>(t, reinterpret_cast<const void*>(&gemm_stream_whole<Tile>));
  k.only_split = Tile::kSplit, k.spare_blocks = true;
  return k;
}

/// Those with two CTAs an SM overlap launches best where X is small; those with one have the deeper ring.
template <class T>
void add_tiles(std::vector<GemmKernel>& out, DType t) {
  if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) {
    //                                        columns, CTAs that share K
    out.push_back(whole_kernel<WholeTile<T, 8, 1>>(t));
    out.push_back(whole_kernel<WholeTile<T, 16, 1>>(t));
    out.push_back(whole_kernel<WholeTile<T, 32, 2>>(t));
  }
  //                                        rows, columns, stages, groups, CTAs an SM
  if constexpr (!std::is_same_v<T, __nv_fp8_e4m3>) out.push_back(stream_kernel<StreamTile<T, 32, 8, 10, 2, 2>>(t));
  out.push_back(stream_kernel<StreamTile<T, 16, 8, 8, 1, 2>>(t));
  if constexpr (sizeof(T) == 2) out.push_back(stream_kernel<StreamTile<T, 32, 16, 8, 1, 2>>(t));
  out.push_back(stream_kernel<StreamTile<T, 32, 32, 6, 1, 2>>(t));
  if constexpr (sizeof(T) == 2) out.push_back(stream_kernel<StreamTile<T, 64, 32, 8, 1, 2>>(t));
  out.push_back(stream_kernel<StreamTile<T, 64, 64, 6, 1, 2>>(t));
  out.push_back(stream_kernel<StreamTile<T, 128, 64, 8, 2, 1>>(t));
  if constexpr (sizeof(T) == 1)  // TMA takes longer over columns that do not exist: a microsecond where there is one of eight
    out.push_back(stream_kernel<StreamTile<T, 32, 8, 20, 2, 1>>(t));
  else
    out.push_back(wide_kernel<WideTile<T, 32, 8, 10, 2, 2>>(t));
  //                                  columns, slabs a stage; 64 rows, two CTAs that share K: ahead of others of these tiles
  out.push_back(halves_kernel<HalvesTile<T, 32, 2>>(t));
  out.push_back(halves_kernel<HalvesTile<T, 64, 2>>(t));
  out.push_back(halves_kernel<HalvesTile<T, 128, 1>>(t));
  //                                  rows, columns, stages, groups, slabs a stage; one CTA an SM
  out.push_back(wide_kernel<WideTile<T, 32, 16, 8, 2, 2>>(t));
  out.push_back(wide_kernel<WideTile<T, 32, 32, 6, 2, 2>>(t));
  out.push_back(wide_kernel<WideTile<T, 32, 64, 8, 2, 1>>(t));
  out.push_back(wide_kernel<WideTile<T, 64, 64, 6, 2, 2>>(t));
  out.push_back(wide_kernel<WideTile<T, 64, 128, 4, 1, 2>>(t));
}

/// Map of a rows x k operand cut in `parts` of K: a box is box_slabs times 128 bytes of k, box_rows rows, all parts.
bool encode_parts(CUtensorMap* map, const ConstMatrix& a, int64_t rows, int64_t row_stride, int64_t k, int parts, int box_rows, int box_slabs) {
  const int size = size_of(a.dtype);
  const uint64_t slabs = uint64_t(k * size / 128 / parts);
  const uint64_t sizes[4] = {uint64_t(128 / size), uint64_t(rows), uint64_t(parts), slabs};
  const uint64_t pitches[3] = {uint64_t(row_stride * size), slabs * 128, 128};
  const uint32_t box[4] = {uint32_t(128 / size), uint32_t(box_rows), uint32_t(parts), uint32_t(box_slabs)};
  // A first stage is not to wait for what nobody has come to yet (NOTES.md).
  return encode_tensor_map(map, tensor_map_type(a.dtype), 4, a.data, sizes, pitches, box, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

int parts_of(int rows) { return rows < 64 ? 64 / rows : 1; }

/// Stages of a part of K, the last one in part beyond its end.
int64_t stages_of(const GemmArgs& g, const GemmKernel& kernel) {
  const int slabs = int(g.k * size_of(g.a.dtype) / 128 / parts_of(kernel.tile_m));
  return (slabs + kernel.box_slabs - 1) / kernel.box_slabs;
}

/// Shared memory for the sums that the other CTAs of a split send, where they do not lie over the ring.
int inbox_bytes(const GemmKernel& kernel, int split) { return kernel.only_split ? 0 : (split - 1) * kernel.planes * kernel.tile_n * 4 * (kernel.tile_m / split + 4); }

}  // namespace

void add_kernels_stream(std::vector<GemmKernel>& out) {
  add_tiles<__half>(out, DType::kF16);
  add_tiles<__nv_bfloat16>(out, DType::kBF16);
  add_tiles<__nv_fp8_e4m3>(out, DType::kE4M3);
  add_tiles<int8_t>(out, DType::kI8);
}

bool gemm_stream_fits(const GemmArgs& g, const GemmConfig& c, const GemmKernel& kernel) {
  const int64_t bytes = g.k * size_of(g.a.dtype), parts = parts_of(kernel.tile_m), stages = stages_of(g, kernel);
  return bytes % (128 * parts) == 0 && (c.split_k == 1 || c.split_k == 2 || c.split_k == 4) && stages >= c.split_k && (kernel.only_split == 0 || kernel.only_split == c.split_k) &&
         stages / c.split_k >= kernel.least_stages && (stages + c.split_k - 1) / c.split_k <= kernel.most_stages &&
         (g.n + kernel.tile_n - 1) / kernel.tile_n <= 65535 && (g.m + kernel.tile_m - 1) / kernel.tile_m * c.split_k <= 0x7fffffff &&
         kernel.shared_bytes + inbox_bytes(kernel, c.split_k) <= 227 * 1024 && c.cluster_m == 1 && c.cluster_n == 1;
}

Status gemm_stream_launch(const GemmArgs& g, const Epilogue& epilogue, const GemmConfig& c, const GemmKernel& kernel, cudaStream_t stream) {
  const int parts = parts_of(kernel.tile_m);
  StreamParams p{};
  if (!encode_parts(&p.w, g.a, g.m, g.a.row_stride, g.k, parts, kernel.tile_m, kernel.box_slabs) ||
      !encode_parts(&p.x, g.b, g.n, g.b.col_stride, g.k, parts, kernel.tile_n, kernel.box_slabs))
    return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.e = epilogue;
  p.stages = int(stages_of(g, kernel));
  p.split_log = std::countr_zero(unsigned(c.split_k));
  p.w_data = static_cast<const uint8_t*>(g.a.data), p.w_pitch = g.a.row_stride * size_of(g.a.dtype), p.part_bytes = g.k * size_of(g.a.dtype) / parts;
  p.x_data = static_cast<const uint8_t*>(g.b.data), p.x_pitch = g.b.col_stride * size_of(g.b.dtype);
  p.early = g.overlap && g.constant_b && c.swap;
  const int64_t blocks = (g.m + kernel.tile_m - 1) / kernel.tile_m * c.split_k, across = (g.n + kernel.tile_n - 1) / kernel.tile_n;
  const bool spare = kernel.spare_blocks && p.early && across == 1;
  const dim3 grid(unsigned(spare ? with_spare_blocks(blocks, sm_count() / c.split_k * c.split_k) : blocks), unsigned(across));
  return launched(launch_with_most_shared(kernel.function, grid, kernel.threads, kernel.shared_bytes + inbox_bytes(kernel, c.split_k), c.split_k, g.overlap, stream, &p));
}

}  // namespace orrery::kernels
