// Grouped GEMM: ranges of rows of A, each times a matrix of its own, in one launch; the ranges are read on the device.
//
// The persistent kernel of gemm_persistent.cuh with another walk: CTAs take every gridDim-th tile of the list
//
//   for each group, for each 'tile_n' columns, for each 'tile_m' rows of the group
//
// so that a group's weights are read once from memory and then by neighbours in time. A tile that reaches past the end
// of its group multiplies rows of the next one too; they are not stored. Each role keeps a cursor of its own.
#include "gemm_persistent.cuh"

#include <algorithm>

#include "arguments.h"
#include "gemm.h"
#include "group_range.cuh"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

/// The list of tiles, walked forward.
template <class Tile>
struct GroupCursor {
  GroupRange rows;
  int first = 0, tiles_m;  // the number of the group's first tile
  __device__ __forceinline__ explicit GroupCursor(const GemmParams& p) : rows(p), tiles_m(rows.tiles(Tile::kTileM)) {}
  /// Moves to tile t, no earlier than the last; false: there is none.
  __device__ __forceinline__ bool seek(const GemmParams& p, int t) {
    while (t >= first + tiles_m * p.tiles_n) {
      first += tiles_m * p.tiles_n;
      rows.next(p);
      if (rows.group >= p.groups) return false;
      tiles_m = rows.tiles(Tile::kTileM);
    }
    return true;
  }
  /// Row and column (in tiles) of tile t within the group.
  __device__ __forceinline__ int2 at(int t) const { return make_int2((t - first) % tiles_m, (t - first) / tiles_m); }
};

template <class Tile, Part kPart>
__device__ __forceinline__ void produce_groups(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring, int loader) {
  const Loads<Tile> load(p, at, ptx::kEvictNormal, ptx::kEvictNormal);
  ptx::griddepcontrol_wait();
  Turns<Tile> turns(loader);
  GroupCursor<Tile> cursor(p);
  for (int t = blockIdx.x; cursor.seek(p, t); t += gridDim.x) {
    const int2 tile = cursor.at(t);
    const int row0 = cursor.rows.begin + tile.x * Tile::kTileM, row_b = cursor.rows.group * p.e.n + tile.y * Tile::kTileN;
    load_steps<Tile, kPart>(load, ring, turns, row0, row_b, 0, p.k_steps);
  }
}

template <class Tile, bool kPingPong>
__device__ __forceinline__ void consume_groups(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared) {
  const int group = threadIdx.x / 128 - 1;
  const uint32_t staging = shared.staging + (threadIdx.x / 32 - 4) * kStagingPerWarp;
  const int group_row = kPingPong ? 0 : group * Tile::kGroupRows;
  const Release release(p, at, shared.ring.empty);
  typename Tile::Acc acc[Tile::kBlocks][Tile::kTileN / 2];
  uint32_t count = kPingPong ? group * p.k_steps : 0, use = 0;
  ptx::griddepcontrol_wait();
  GroupCursor<Tile> cursor(p);
  for (int t = blockIdx.x + (kPingPong ? group * gridDim.x : 0); cursor.seek(p, t); t += (kPingPong ? 2 : 1) * gridDim.x) {
    const int2 tile = cursor.at(t);
    if constexpr (kPingPong) ptx::mbarrier_wait(shared.turn + group * 8, (use & 1) ^ (group == 0));
    multiply_any(release, shared.ring, count, p.k_steps, group_row, acc, BlockScales<Tile>(), [&] {
      if (kPingPong && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(shared.turn + (group ^ 1) * 8);
    });
    store_tile<Tile::kBlocks, Tile::kTileN, false, true>(p, acc, staging, cursor.rows.begin + tile.x * Tile::kTileM + group_row,
                                                  tile.y * Tile::kTileN, cursor.rows.end);
    count += kPingPong ? 2 * p.k_steps : p.k_steps;
    use++;
  }
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

template <class Tile, bool kPingPong>
__global__ void __launch_bounds__(384, 1) gemm_groups(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  run_roles<Tile>(p, at, shared, [] {}, [&](auto part) { produce_groups<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader); }, [&] { consume_groups<Tile, kPingPong>(p, at, shared); });
}

template <class T, int kBlocks, int kTileN, bool kPingPong>
GemmKernel grouped_kernel(DType t) {
  using Tile = GemmTile<T, T, false, false, 2, kBlocks, kTileN, 1, !kPingPong, false, persistent_ring(2)>;
  return {t, t, false, false, kPingPong ? GemmConfig::Schedule::kPingPong : GemmConfig::Schedule::kCooperative, Tile::kTileM,
          kTileN, 1, false, kPersistentShared, 384, reinterpret_cast<const void*>(&gemm_groups<Tile, kPingPong>)};
}

const GemmKernel* find(DType t, GemmConfig c, const GroupedGemmArgs& g) {
  static const GemmKernel all[] = {
      grouped_kernel<__nv_bfloat16, 2, 128, true>(DType::kBF16), grouped_kernel<__nv_bfloat16, 1, 256, false>(DType::kBF16),
      grouped_kernel<__half, 2, 128, true>(DType::kF16),         grouped_kernel<__half, 1, 256, false>(DType::kF16),
      grouped_kernel<__nv_fp8_e4m3, 2, 128, true>(DType::kE4M3), grouped_kernel<__nv_fp8_e4m3, 1, 256, false>(DType::kE4M3)};
  if (c.schedule == GemmConfig::Schedule::kAuto)
    c.schedule = g.rows / std::max(1, g.groups) >= 512 ? GemmConfig::Schedule::kCooperative : GemmConfig::Schedule::kPingPong;
  for (const GemmKernel& k : all)
    if (k.a == t && k.schedule == c.schedule && (c.tile_m == 0 || (c.tile_m == k.tile_m && c.tile_n == k.tile_n))) return &k;
  return nullptr;
}

Status check(const GroupedGemmArgs& g) {
  constexpr int64_t kMax = int64_t(1) << 31;
  if (g.rows < 0 || g.rows >= kMax) return bad("rows", "must be in [0, 2^31)");
  if (g.n < 0 || g.n >= kMax) return bad("n", "must be in [0, 2^31)");
  if (g.k < 1 || g.k >= kMax) return bad("k", "must be in [1, 2^31)");
  if (g.groups < 0 || g.groups * g.n >= kMax) return bad("groups", "must not be negative, and groups * n less than 2^31");
  if (g.rows == 0 || g.n == 0 || g.groups == 0) return {};
  if (!g.group_ends || !aligned(g.group_ends, 4)) return bad("group_ends", "is null or misaligned");
  if (g.a.dtype != DType::kF16 && g.a.dtype != DType::kBF16 && g.a.dtype != DType::kE4M3)
    return bad("a.dtype", "must be f16, bf16 or e4m3");
  const int64_t unit = 16 / size_of(g.a.dtype);
  if (!g.a.data || !aligned(g.a.data, 16)) return bad("a.data", "is null or not 16-byte aligned");
  if (g.a.col_stride != 1 || g.a.row_stride < g.k || g.a.row_stride % unit)
    return bad("a strides", "must be 1 along k, and along rows a multiple of 16 bytes and at least k");
  if (!g.b || !aligned(g.b, 16)) return bad("b", "is null or not 16-byte aligned");
  if (g.b_stride < g.k || g.b_stride % unit) return bad("b_stride", "must be a multiple of 16 bytes and at least k");
  if (g.d.dtype != DType::kF16 && g.d.dtype != DType::kBF16 && g.d.dtype != DType::kF32) return bad("d.dtype", "must be f16, bf16 or f32");
  if (!g.d.data || !aligned(g.d.data, size_of(g.d.dtype))) return bad("d.data", "is null or misaligned");
  if (g.d.col_stride != 1 || g.d.row_stride < g.n) return bad("d strides", "must be 1 along n, and at least n along rows");
  if (!known(g.activation)) return bad("activation", "is none of those there are");
  if (Status s = check_floats({{"scale_a", g.scale_a}, {"scale_b", g.scale_b}, {"row_scale", g.row_scale}}); !s.ok()) return s;
  const int size = size_of(g.a.dtype);
  const Extent a = matrix("a strides", g.a.data, g.rows, g.k, g.a.row_stride, 1, size), b = matrix("b_stride", g.b, g.groups * g.n, g.k, g.b_stride, 1, size);
  const Extent d = matrix("d.data", g.d.data, g.rows, g.n, g.d.row_stride, 1, size_of(g.d.dtype));
  for (const Extent& e : {a, b})
    if (span(e) == kMostBytes) return bad(e.name, "is too large");
  if (span(d) == kMostBytes) return bad("d strides", "are too large");
  return apart(d, {a, b, dense("group_ends", g.group_ends, int64_t(g.groups) * 4), dense("scale_a", g.scale_a, 4), dense("scale_b", g.scale_b, 4), dense("row_scale", g.row_scale, g.rows * 4)});
}

bool encode(const GroupedGemmArgs& g, const GemmKernel& kernel, GemmParams* p) {
  const int size = size_of(g.a.dtype);
  const uint32_t box_a[2] = {uint32_t(128 / size), uint32_t(kernel.tile_m)}, box_b[2] = {uint32_t(128 / size), uint32_t(kernel.tile_n)};
  const uint64_t sizes_a[2] = {uint64_t(g.k), uint64_t(g.rows)}, sizes_b[2] = {uint64_t(g.k), uint64_t(g.groups * g.n)};
  const uint64_t pitch_a[1] = {uint64_t(g.a.row_stride * size)}, pitch_b[1] = {uint64_t(g.b_stride * size)};
  const auto type = tensor_map_type(g.a.dtype);
  if (!encode_tensor_map(&p->a, type, 2, g.a.data, sizes_a, pitch_a, box_a)) return false;
  if (!encode_tensor_map(&p->b, type, 2, g.b, sizes_b, pitch_b, box_b)) return false;
  p->tma_store = p->e.linear && g.d.row_stride * size_of(g.d.dtype) % 16 == 0 && g.n * size_of(g.d.dtype) % 16 == 0 && aligned(g.d.data, 16);
  if (!p->tma_store) return true;
  const uint64_t sizes[2] = {uint64_t(g.n), uint64_t(g.rows)}, pitches[1] = {uint64_t(g.d.row_stride * size_of(g.d.dtype))};
  const uint32_t box[2] = {128u / size_of(g.d.dtype), 16};
  return encode_tensor_map(&p->d, tensor_map_type(g.d.dtype), 2, g.d.data, sizes, pitches, box);
}

}  // namespace

Status gemm_grouped(const GroupedGemmArgs& g, cudaStream_t stream) {
  if (Status s = check(g); !s.ok()) return s;
  if (g.rows == 0 || g.n == 0 || g.groups == 0) return {};
  const GemmKernel* kernel = find(g.a.dtype, g.config, g);
  if (!kernel) return bad("config", "names no kernel for these operands");
  GemmParams p{};
  p.e.d = g.d.data, p.e.d_row_stride = g.d.row_stride, p.e.d_col_stride = 1, p.e.dtype = g.d.dtype;
  p.e.scale_a = g.scale_a, p.e.scale_b = g.scale_b, p.e.row_scale = g.row_scale, p.e.alpha = g.alpha;
  p.e.m = int(g.rows), p.e.n = int(g.n), p.e.activation = g.activation;
  p.e.linear = !g.row_scale && g.activation == Activation::kNone;
  if (!encode(g, *kernel, &p)) return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.k_steps = int((g.k * size_of(g.a.dtype) + 127) / 128);
  p.tiles_n = int((g.n + kernel->tile_n - 1) / kernel->tile_n);
  p.cluster_m = p.cluster_n = p.split = 1;
  p.group_ends = g.group_ends, p.groups = g.groups;
  if (cudaError_t e = cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel->shared_bytes))
    return launched(e);
  const int64_t most = (g.rows / kernel->tile_m + g.groups) * p.tiles_n;  // tiles there can be
  void* arguments[1] = {&p};
  return launched(cudaLaunchKernel(kernel->function, dim3(unsigned(std::min<int64_t>(sm_count(), most))), dim3(384), arguments,
                                   kernel->shared_bytes, stream));
}

}  // namespace orrery::kernels
