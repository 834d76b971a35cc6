// Widened GEMM of many columns: which tiles exist, and how they are launched; gemm_widen_tiles.cuh has the kernel.
#include <algorithm>

#include "arguments.h"
#include "gemm.h"
#include "gemm_widen_quarters.cuh"
#include "gemm_widen_tiles.cuh"
#include "launch.h"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

using Schedule = GemmConfig::Schedule;

template <class Tile>
GemmKernel tiles_kernel(DType t, Schedule schedule, void (*function)(GemmParams)) {
  GemmKernel kernel{t, DType::kE4M3, false, false, schedule, Tile::kTileM, Tile::kTileN, 1, false, kPersistentShared, kPersistentThreads<Tile>, reinterpret_cast<const void*>(function)};
  kernel.turned_box = kTurnedBox<Tile::kTileN>;
  return kernel;
}
template <class T, int kTileN, int kGroups>
GemmKernel whole_tiles(DType t) {
  using Tile = WidenTiles<T, kTileN, kGroups>;
  return tiles_kernel<Tile>(t, Schedule::kCooperative, &gemm_widen_tiles<Tile>);
}
template <class T, int kTileN>
GemmKernel dealt_tiles(DType t) {
  using Tile = WidenTiles<T, kTileN>;
  return tiles_kernel<Tile>(t, Schedule::kStreamK, &gemm_widen_stream_k<Tile>);
}

template <class T, int kTileN, int kGroups>
GemmKernel halved_tiles(DType t) {
  using Tile = WidenTiles<T, kTileN, kGroups>;
  GemmKernel kernel = tiles_kernel<Tile>(t, Schedule::kSplit, &gemm_widen_halves<Tile>);
  kernel.turned_box = kTurnedBox<kTileN / 2>;
  return kernel;
}

template <class T, int kTileN>
GemmKernel quartered_tiles(DType t) {
  using Tile = QuarterTiles<T, kTileN>;
  GemmKernel kernel = tiles_kernel<Tile>(t, Schedule::kSplit, &gemm_widen_quarters<Tile>);
  kernel.turned_box = kTurnedBox<Tile::kQuarter>;
  return kernel;
}

template <class T>
void add_tiles(std::vector<GemmKernel>& out, DType t) {
  out.push_back(whole_tiles<T, 128, 2>(t));
  out.push_back(whole_tiles<T, 160, 2>(t));
  out.push_back(whole_tiles<T, 192, 2>(t));
  out.push_back(whole_tiles<T, 256, 2>(t));
  out.push_back(whole_tiles<T, 128, 3>(t));
  out.push_back(whole_tiles<T, 160, 3>(t));
  out.push_back(halved_tiles<T, 128, 2>(t));
  out.push_back(halved_tiles<T, 256, 2>(t));
  out.push_back(halved_tiles<T, 128, 3>(t));
  out.push_back(halved_tiles<T, 160, 3>(t));
  out.push_back(quartered_tiles<T, 64>(t));
  out.push_back(quartered_tiles<T, 128>(t));
  out.push_back(dealt_tiles<T, 112>(t));  // of 128, 160 and 192 columns it is not worth what sums take (NOTES.md)
  out.push_back(dealt_tiles<T, 256>(t));
}

}  // namespace

void add_widen_tiles(std::vector<GemmKernel>& out) {
  add_tiles<__half>(out, DType::kF16);
  add_tiles<__nv_bfloat16>(out, DType::kBF16);
}

Status gemm_widen_tiles_launch(const WeightOnlyArgs& g, const Epilogue& epilogue, const GemmConfig& c, const GemmKernel& kernel,
                               cudaStream_t stream) {
  GemmParams p{};
  p.e = epilogue, p.k_steps = int((g.k + 63) / 64);
  if (!plan_tiles(p.e, c, kernel, &p)) return bad("m", "times n is too large");
  p.hint_a = p.hint_b = ptx::kEvictNormal, p.a_early = g.overlap;
  p.turned = p.e.activation == Activation::kNone && columns_suit_tma(p.e);
  const uint64_t sizes_w[2] = {uint64_t(g.k), uint64_t(g.n)}, pitch_w[1] = {uint64_t(g.weight_pitch)};
  const uint64_t sizes_x[2] = {uint64_t(g.k), uint64_t(g.m)}, pitch_x[1] = {uint64_t(g.a.row_stride * size_of(g.a.dtype))};
  constexpr CUtensorMapL2promotion kPromotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;  // a first stage is not to wait for what others have not come to (NOTES.md)
  const uint32_t box_w[2] = {64, uint32_t(kernel.tile_m)}, box_x[2] = {64, uint32_t(kernel.tile_n)};
  if (!encode_tensor_map(&p.a, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, g.weights, sizes_w, pitch_w, box_w, CU_TENSOR_MAP_SWIZZLE_64B, kPromotion) ||
      !encode_tensor_map(&p.b, tensor_map_type(g.a.dtype), 2, g.a.data, sizes_x, pitch_x, box_x, CU_TENSOR_MAP_SWIZZLE_128B, kPromotion) ||
      (p.turned && !encode_turned(&p.d, p.e, kernel.turned_box)))
    return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  const bool halves = c.schedule == Schedule::kSplit;
  const int cluster = halves ? 2 : 1, resident = max_clusters(kernel, cluster), tiles = p.tiles_m * p.tiles_n;
  if (resident == 0) return {"config", "the device cannot hold such a tile", cudaErrorInvalidConfiguration};
  const int clusters = c.schedule == Schedule::kStreamK ? plan_stream_k(c.split_k, resident, g.workspace, &p) : halves ? tiles : std::min(tiles, resident);
  return launched(launch_in_clusters(kernel.function, dim3(unsigned(clusters * cluster)), kernel.threads, kernel.shared_bytes, cluster, g.overlap, stream, &p));
}

}  // namespace orrery::kernels
