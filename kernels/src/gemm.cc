// gemm: check the arguments, choose a configuration, encode the tensor maps, launch.
//
// Operands are seen by the kernels as A: m x k and B': n x k, each either K-major (unit stride along k) or
// MN-major. Where neither suits TMA, the simple kernel computes the product instead.
#include "gemm.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "arguments.h"
#include "gemm_units.h"  // made by the build: ORK_UNITS(X) is X(unit) for each unit of gemm_units/ in this build
#include "l2_hints.h"
#include "launch.h"
#include "tensor_map.h"

namespace orrery::kernels {

#define ORK_DECLARE(unit) void add_kernels_##unit(std::vector<GemmKernel>&);
ORK_UNITS(ORK_DECLARE)
#undef ORK_DECLARE

void add_kernels_direct(std::vector<GemmKernel>&);
void add_kernels_stream(std::vector<GemmKernel>&);

const std::vector<GemmKernel>& gemm_kernels() {
  static const std::vector<GemmKernel> all = [] {
    std::vector<GemmKernel> out;
#define ORK_ADD(unit) add_kernels_##unit(out);
    ORK_UNITS(ORK_ADD)
#undef ORK_ADD
    add_kernels_direct(out);
    add_kernels_stream(out);
    return out;
  }();
  return all;
}

int max_clusters(const GemmKernel& kernel, int cluster) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::pair<const void*, int>>, int> known;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  std::lock_guard lock(mutex);
  const auto key = std::make_pair(device, std::make_pair(kernel.function, cluster));
  if (auto it = known.find(key); it != known.end()) return it->second;
  if (cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes) !=
      cudaSuccess)
    return 0;
  if (cluster > 8) cudaFuncSetAttribute(kernel.function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  int count = 0;
  if (cluster == 1) {
    int per_sm = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel.function, kernel.threads,
                                                      kernel.shared_bytes) != cudaSuccess)
      return 0;
    count = sm_count() * per_sm;
  } else {
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim = {unsigned(cluster), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(cluster), config.blockDim = dim3(kernel.threads);
    config.dynamicSmemBytes = kernel.shared_bytes;
    config.attrs = attribute, config.numAttrs = 1;
    if (cudaOccupancyMaxActiveClusters(&count, kernel.function, &config) != cudaSuccess) return 0;
  }
  return known[key] = count;
}

bool columns_suit_tma(const Epilogue& e) {
  constexpr int64_t kMost = (int64_t(1) << 40) / 2;  // of what a tensor map takes from column to column, in bytes
  return size_of(e.dtype) == 2 && e.d_row_stride == 1 && e.d_col_stride % 8 == 0 && e.d_col_stride > 0 && e.d_col_stride < kMost && aligned(e.d, 16);
}

bool encode_turned(CUtensorMap* map, const Epilogue& e, int columns) {
  const uint64_t sizes[2] = {uint64_t(e.m), uint64_t(e.n)}, pitches[1] = {uint64_t(e.d_col_stride * 2)};
  const uint32_t box[2] = {64, uint32_t(columns)};
  return encode_tensor_map(map, tensor_map_type(e.dtype), 2, e.d, sizes, pitches, box);
}

bool plan_tiles(const Epilogue& e, const GemmConfig& c, const GemmKernel& kernel, GemmParams* p) {
  p->cluster_m = c.cluster_m, p->cluster_n = c.cluster_n;
  p->cluster_m_log = std::countr_zero(unsigned(c.cluster_m)), p->cluster_n_log = std::countr_zero(unsigned(c.cluster_n));
  const int64_t rows = int64_t(kernel.tile_m) * c.cluster_m, cols = int64_t(kernel.tile_n) * c.cluster_n;
  p->tiles_m = int((e.m + rows - 1) / rows), p->tiles_n = int((e.n + cols - 1) / cols);
  p->raster = std::min(c.raster > 0 ? c.raster : 8, p->tiles_m);
  if (int64_t(p->tiles_m) * p->tiles_n > 0x7fffffff) return false;
  p->by_band = FastDivide(uint32_t(p->raster * p->tiles_n)), p->by_raster = FastDivide(uint32_t(p->raster));
  p->by_rest = FastDivide(uint32_t(p->tiles_m % p->raster ? p->tiles_m % p->raster : p->raster));
  return true;
}

namespace {

constexpr int kStreamKCounters = 1024;  // cut tiles are fewer than two for each SM
constexpr size_t kPartsBegin = kStreamKCounters * 4;  // in the workspace

bool is_fp8(DType t) { return t == DType::kE4M3 || t == DType::kE5M2; }

/// Where kParts leaves a part of K: rows and floats from row to row, as boxes of 16 rows are stored. Zero: D is too large.
struct Plane {
  int rows = 0, pitch = 0;
};
Plane plane_of(const GemmArgs& g, int parts) {
  const int64_t rows = (g.m + 15) / 16 * 16, pitch = (g.n + 3) / 4 * 4;
  const bool fits = rows * pitch < (int64_t(1) << 31) / 4 && kPartsBegin + size_t(parts) * rows * pitch * 4 <= g.workspace_bytes;
  return fits ? Plane{int(rows), int(pitch)} : Plane{};
}

enum class Major { kK, kMN, kNeither };

/// How a rows x k operand lies for TMA.
Major major_of(const void* data, DType t, int64_t rows, int64_t k, int64_t row_stride, int64_t k_stride) {
  const int64_t unit = 16 / size_of(t);
  if (!aligned(data, 16)) return Major::kNeither;
  if (k_stride == 1 && row_stride % unit == 0 && row_stride >= k) return Major::kK;
  if (row_stride == 1 && k_stride % unit == 0 && k_stride >= rows && size_of(t) == 2) return Major::kMN;
  return Major::kNeither;
}
Major major_a(const GemmArgs& g) {
  return major_of(g.a.data, g.a.dtype, g.m, g.k, g.a.row_stride, g.a.col_stride);
}
Major major_b(const GemmArgs& g) {
  return major_of(g.b.data, g.b.dtype, g.n, g.k, g.b.col_stride, g.b.row_stride);
}

bool is_linear(const GemmArgs& g) {
  return g.beta == 0.f && !g.row_scale && !g.col_scale && !g.row_bias && !g.col_bias &&
         g.activation == Activation::kNone;
}

bool can_store_fast(const Epilogue& e, int tile_n) {
  const int unit = 16 / size_of(e.dtype);
  return e.linear && e.d_col_stride == 1 && e.d_row_stride % unit == 0 && e.n % unit == 0 && tile_n >= 32 && aligned(e.d, 16);
}

bool can_store_turned(const Epilogue& e, const GemmKernel& k) { return k.turned_box && e.linear && columns_suit_tma(e); }

Epilogue make_epilogue(const GemmArgs& g) {
  Epilogue e{};
  e.d = g.d.data, e.c = g.c.data;
  e.d_row_stride = g.d.row_stride, e.d_col_stride = g.d.col_stride;
  e.c_row_stride = g.c.row_stride, e.c_col_stride = g.c.col_stride;
  e.scale_a = g.scale_a, e.scale_b = g.scale_b;
  e.row_scale = g.row_scale, e.col_scale = g.col_scale;
  e.row_bias = g.row_bias, e.col_bias = g.col_bias;
  e.alpha = g.alpha, e.beta = g.beta;
  e.m = int(g.m), e.n = int(g.n);
  e.dtype = g.d.dtype, e.activation = g.activation, e.linear = is_linear(g);
  return e;
}

/// What a part of K is stored with: sums as they are.
Epilogue part_epilogue(const GemmArgs& g, const Plane& plane) {
  Epilogue e{};
  e.d = static_cast<char*>(g.workspace) + kPartsBegin, e.d_row_stride = plane.pitch, e.d_col_stride = 1;
  e.alpha = 1.f, e.m = int(g.m), e.n = plane.pitch, e.dtype = DType::kF32, e.linear = true;  // columns beyond n: zeros, that are read
  return e;
}

/// Map of a rows x k operand whose box is one of `shares` of a tile's rows by 128 bytes of k. Of an MN-major one it is as many slabs of 64
/// rows where rows and tiles are whole slabs (*at_once), else a single slab.
bool encode_operand(CUtensorMap* map, const void* data, DType t, Major major, int64_t rows, int64_t k, int64_t pitch,
                    int tile_rows, int shares, bool* at_once) {
  const int size = size_of(t);
  const uint64_t pitches[1] = {uint64_t(pitch * size)};
  if (major == Major::kK) {
    const uint64_t sizes[2] = {uint64_t(k), uint64_t(rows)};
    const uint32_t box[2] = {uint32_t(128 / size), uint32_t(tile_rows / shares)};
    return encode_tensor_map(map, tensor_map_type(t), 2, data, sizes, pitches, box);
  }
  *at_once = rows % 64 == 0 && tile_rows % 64 == 0;  // a tile begins where a slab does
  if (*at_once) {
    const uint64_t sizes[3] = {64, uint64_t(k), uint64_t(rows / 64)}, slabs[2] = {uint64_t(pitch * size), uint64_t(64 * size)};
    const uint32_t box[3] = {64, uint32_t(128 / size), uint32_t(tile_rows / 64 / shares)};
    return encode_tensor_map(map, tensor_map_type(t), 3, data, sizes, slabs, box);
  }
  const uint64_t sizes[2] = {uint64_t(rows), uint64_t(k)};
  const uint32_t box[2] = {64, uint32_t(128 / size)};
  return encode_tensor_map(map, tensor_map_type(t), 2, data, sizes, pitches, box);
}

/// Map of what is stored: boxes of 16 rows by 128 bytes.
bool encode_stored(CUtensorMap* map, const Epilogue& e, int64_t rows) {
  const int size = size_of(e.dtype);
  const uint64_t sizes[2] = {uint64_t(e.n), uint64_t(rows)}, pitches[1] = {uint64_t(e.d_row_stride * size)};
  const uint32_t box[2] = {128u / size, 16};
  return encode_tensor_map(map, tensor_map_type(e.dtype), 2, e.d, sizes, pitches, box);
}

bool encode_maps(const GemmArgs& g, const GemmKernel& kernel, const GemmConfig& c, GemmParams* p) {
  const Major ma = major_a(g), mb = major_b(g);
  bool ok = encode_operand(&p->a, g.a.data, g.a.dtype, ma, g.m, g.k,
                           ma == Major::kK ? g.a.row_stride : g.a.col_stride, kernel.tile_m, c.cluster_n, &p->a_at_once);
  ok = ok && encode_operand(&p->b, g.b.data, g.b.dtype, mb, g.n, g.k,
                            mb == Major::kK ? g.b.col_stride : g.b.row_stride, kernel.tile_n, c.cluster_m, &p->b_at_once);
  if (p->turned) return ok && encode_turned(&p->d, p->e, kernel.turned_box);
  return ok && (!p->tma_store || encode_stored(&p->d, p->e, p->plane_rows ? p->plane_rows * c.split_k : g.m));
}

cudaError_t launch(const GemmKernel& kernel, GemmParams& params, int clusters, int cluster, bool overlap,
                   cudaStream_t stream, bool most_shared = false) {
  return launch_in_clusters(kernel.function, dim3(unsigned(clusters * cluster)), kernel.threads, kernel.shared_bytes, cluster, overlap, stream, &params, most_shared);
}

/// For an operand of so many bytes that a product reads once. If it were larger than what L2 keeps, it would push all of itself out before the
/// next product reads it again; so a part of it is let go first, and the rest, five twelfths of L2, stays (NOTES.md).
uint64_t hint_once(int64_t bytes) {
  if (bytes <= int64_t(l2_bytes()) * 3 / 5) return ptx::kEvictNormal;
  return ptx::evict_first_of(16 - int(int64_t(l2_bytes()) * 5 / 12 * 16 / bytes));
}

/// The larger operand is read once where all tiles are at work at the same time, or where there is but one row or column of them.
void plan_hints(const GemmArgs& g, const GemmConfig& c, bool one_wave, GemmParams* p) {
  const int64_t a = g.m * g.k * size_of(g.a.dtype), b = g.n * g.k * size_of(g.b.dtype);
  p->hint_a = a >= b && (one_wave || p->tiles_n * c.cluster_n == 1) ? hint_once(a) : ptx::kEvictNormal;
  p->hint_b = b > a && (one_wave || p->tiles_m * c.cluster_m == 1) ? hint_once(b) : ptx::kEvictNormal;
}

/// How D (of kParts: the sums of a part) is stored. From registers, which at the end of a launch is sooner than through TMA, where no CTA has
/// another tile; but not where D comes out turned round, nor f32 of more than 64 columns, whose stores are many.
void plan_store(const GemmConfig& c, const GemmKernel& kernel, bool one_wave, GemmParams* p) {
  const bool parts = c.schedule == GemmConfig::Schedule::kParts;
  p->turned = !parts && c.split_k == 1 && can_store_turned(p->e, kernel);
  const bool fast = p->turned || ((parts || c.split_k == 1) && can_store_fast(p->e, kernel.tile_n));
  p->straight = fast && one_wave && !p->turned && (size_of(p->e.dtype) == 2 || kernel.tile_n <= 64);
  p->tma_store = fast && !p->straight && (p->turned || kernel.tile_n >= 64);
}

Status run_planned(const GemmArgs& g, const GemmConfig& c, const GemmKernel& kernel, cudaStream_t stream) {
  GemmParams p{};
  p.e = make_epilogue(g);
  const bool parts = c.schedule == GemmConfig::Schedule::kParts;
  const Plane plane = parts ? plane_of(g, c.split_k) : Plane{};
  if (parts) p.e = part_epilogue(g, plane), p.plane_rows = plane.rows;
  p.by_split = FastDivide(uint32_t(c.split_k));
  p.k_steps = int(stages_of_k(g, kernel));
  p.block_a = g.block_scale_a, p.block_b = g.block_scale_b;
  p.split = parts ? 1 : c.split_k;
  p.stagger = std::clamp(c.stagger, 0, std::min(3, p.k_steps - 1));  // every ring has four stages or more
  // Planned for the product itself, also where an epilogue of its parts stands in for its own.
  if (!plan_tiles(make_epilogue(g), c, kernel, &p)) return bad("m", "times n is too large");
  // After a swap the constant operand is A.
  p.a_early = g.overlap && g.constant_b && c.swap, p.b_early = g.overlap && g.constant_b && !c.swap;
  const bool stream_k = kernel.schedule == GemmConfig::Schedule::kStreamK;
  const int cluster = c.cluster_m * c.cluster_n * (stream_k || parts ? 1 : c.split_k);  // else parts of K are in other clusters
  const int resident = max_clusters(kernel, cluster);
  if (resident == 0) return {"config", "the device cannot hold such a cluster", cudaErrorInvalidConfiguration};
  const int64_t tiles = int64_t(p.tiles_m) * p.tiles_n;
  const bool one_wave = !stream_k && tiles * (parts ? c.split_k : 1) <= resident;
  plan_hints(g, c, one_wave, &p);
  plan_store(c, kernel, one_wave, &p);
  if (!encode_maps(g, kernel, c, &p)) return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  if (stream_k) {
    const int shares = plan_stream_k(c.split_k, resident, g.workspace, &p);
    return launched(launch(kernel, p, shares, cluster, g.overlap, stream));
  }
  p.by_tiles = FastDivide(uint32_t(tiles));
  if (parts) {
    if (cudaError_t e = launch(kernel, p, int(tiles * c.split_k), cluster, g.overlap && !c.alone, stream, c.alone); e != cudaSuccess) return launched(e);
    return launched(gemm_sum_parts(make_epilogue(g), static_cast<const float*>(p.e.d), c.split_k, plane.rows, plane.pitch, sm_count(), c.alone, stream));
  }
  const int64_t clusters = kernel.schedule == GemmConfig::Schedule::kSplit || tiles < resident ? tiles : resident;
  return launched(launch(kernel, p, int(clusters), cluster, g.overlap && !c.alone, stream));
}

}  // namespace

size_t stream_k_bytes(int tile_m, int tile_n) { return kPartsBegin + size_t(sm_count()) * 2 * tile_m * tile_n * 4; }

int plan_stream_k(int split_k, int resident, void* workspace, GemmParams* p) {
  const int64_t tiles = int64_t(p->tiles_m) * p->tiles_n;
  const int parts = std::min(split_k, p->k_steps);
  const int shares = int(std::min<int64_t>(resident, tiles * (split_k > 1 ? parts : p->k_steps)));
  p->split = split_k > 1 && shares == tiles * parts ? parts : 1;  // equal parts of every tile
  p->by_split = FastDivide(uint32_t(tiles));
  const int64_t whole = tiles < shares ? 0 : tiles % shares ? (tiles / shares - 1) * shares : tiles, cut = (tiles - whole) * p->k_steps;
  p->whole_tiles = int(whole), p->share_steps = int(cut / shares), p->share_rest = int(cut % shares);
  p->by_steps = FastDivide(uint32_t(p->k_steps)), p->by_share = FastDivide(uint32_t(std::max(1, p->share_steps)));
  p->by_longer_share = FastDivide(uint32_t(p->share_steps + 1));
  p->arrived = static_cast<unsigned*>(workspace), p->parts = static_cast<char*>(workspace) + kPartsBegin;
  return shares;
}

bool stores_turned(const GemmArgs& g, const GemmKernel& k) { return can_store_turned(make_epilogue(g), k); }

GemmArgs swapped(const GemmArgs& g) {
  GemmArgs s = g;
  const auto flip = [](auto m) {
    std::swap(m.row_stride, m.col_stride);
    return m;
  };
  std::swap(s.m, s.n);
  s.a = flip(g.b), s.b = flip(g.a), s.c = flip(g.c), s.d = flip(g.d);
  std::swap(s.scale_a, s.scale_b);
  std::swap(s.row_scale, s.col_scale);
  std::swap(s.row_bias, s.col_bias);
  return s;
}

const GemmKernel* find_kernel(const GemmArgs& g, const GemmConfig& c) {
  const Major ma = major_a(g), mb = major_b(g);
  if (ma == Major::kNeither || mb == Major::kNeither || g.k == 0) return nullptr;
  // Block scales are added up a stage at a time, by kernels whose tiles are no wider than a block, in the order that they were given.
  const bool scaled = g.block_scale_a, promote = (g.promote || scaled) && is_fp8(g.a.dtype);
  if (scaled && c.swap) return nullptr;
  for (int x : {c.cluster_m, c.cluster_n})
    if (x < 1 || x > 16 || !std::has_single_bit(unsigned(x))) return nullptr;
  const bool stream_k = c.schedule == GemmConfig::Schedule::kStreamK, parts = c.schedule == GemmConfig::Schedule::kParts;
  const auto schedule = parts ? GemmConfig::Schedule::kSplit : c.schedule;  // of the kernel
  if (c.split_k < 1 || c.split_k > (stream_k || parts ? 128 : 16)) return nullptr;
  if (parts && (c.split_k == 1 || g.a.dtype == DType::kI8 || !plane_of(g, c.split_k).rows)) return nullptr;  // whole sums of int8 are not floats
  if (parts && int64_t{g.k} * size_of(g.a.dtype) / 128 >= (int64_t{1} << 31) / 128) return nullptr;           // steps times parts are counted in 32 bits
  for (const GemmKernel& k : gemm_kernels()) {
    if (k.a != g.a.dtype || k.b != g.b.dtype || k.a_mn_major != (ma == Major::kMN) ||
        k.b_mn_major != (mb == Major::kMN) || k.schedule != schedule || k.tile_m != c.tile_m ||
        k.tile_n != c.tile_n)
      continue;
    if (scaled && k.schedule == GemmConfig::Schedule::kDirect) return nullptr;
    if (k.schedule == GemmConfig::Schedule::kDirect) {  // sums are f32 anyway: it serves promoted products too
      if (k.slabs != c.per_sm) continue;
      return c.split_k <= 8 && std::has_single_bit(unsigned(c.split_k)) && (c.split_k == 1 || g.k * size_of(k.a) / 128 >= c.split_k) ? &k : nullptr;
    }
    if (k.promote != promote) continue;
    if (k.schedule == GemmConfig::Schedule::kStream) {
      if (k.slabs != c.per_sm || (k.only_split && k.only_split != c.split_k)) continue;
      return gemm_stream_fits(g, c, k) ? &k : nullptr;
    }
    // A share of a multicast tile is whole slabs (MN-major) or whole 8-row atoms (K-major).
    const int load_n = k.b_mn_major ? (k.tile_n + 63) / 64 * 64 : k.tile_n;
    if (k.tile_m % (c.cluster_n * (k.a_mn_major ? 64 : 8)) || load_n % (c.cluster_m * (k.b_mn_major ? 64 : 8)))
      return nullptr;
    if (stream_k) return c.cluster_m * c.cluster_n <= 4 && g.workspace_bytes >= stream_k_bytes(k.tile_m, k.tile_n) ? &k : nullptr;
    const bool split = k.schedule == GemmConfig::Schedule::kSplit;
    if (split ? c.split_k > stages_of_k(g, k) : c.split_k != 1) return nullptr;
    if (c.cluster_m * c.cluster_n * (parts ? 1 : c.split_k) > 16) return nullptr;
    return &k;
  }
  return nullptr;
}

Status check_gemm(const GemmArgs& g) {
  constexpr int64_t kMax = int64_t(1) << 31;
  if (g.m < 0 || g.m >= kMax) return bad("m", "must be in [0, 2^31)");
  if (g.n < 0 || g.n >= kMax) return bad("n", "must be in [0, 2^31)");
  if (g.k < 0 || g.k >= kMax) return bad("k", "must be in [0, 2^31)");
  if (g.m == 0 || g.n == 0) return {};
  if (!g.d.data) return bad("d.data", "is null");
  if (g.k > 0 && !g.a.data) return bad("a.data", "is null");
  if (g.k > 0 && !g.b.data) return bad("b.data", "is null");
  if (g.beta != 0.f && !g.c.data) return bad("c.data", "is null while beta is not zero");
  if (!known(g.a.dtype)) return bad("a.dtype", "is none of those there are");
  if (is_fp8(g.a.dtype) != is_fp8(g.b.dtype) || (!is_fp8(g.a.dtype) && g.a.dtype != g.b.dtype))
    return bad("b.dtype", "must equal a.dtype (or both be fp8)");
  if (is_fp8(g.d.dtype) || g.d.dtype == DType::kI8 || !known(g.d.dtype)) return bad("d.dtype", "must be f16, bf16 or f32");
  if (g.beta != 0.f && g.c.dtype != g.d.dtype) return bad("c.dtype", "must equal d.dtype");
  if (g.a.row_stride < 0 || g.a.col_stride < 0) return bad("a strides", "must not be negative");
  if (g.b.row_stride < 0 || g.b.col_stride < 0) return bad("b strides", "must not be negative");
  if (!g.block_scale_a != !g.block_scale_b) return bad(g.block_scale_a ? "block_scale_b" : "block_scale_a", "is null while the other is not");
  if (g.block_scale_a && !is_fp8(g.a.dtype)) return bad("block_scale_a", "needs fp8 operands");
  if (!aligned(g.workspace, 256)) return bad("workspace", "is not 256-byte aligned");
  if (!g.workspace && g.workspace_bytes) return bad("workspace", "is null while workspace_bytes is not 0");
  if (!aligned(g.block_scale_a, 4)) return bad("block_scale_a", "is misaligned");
  if (!aligned(g.block_scale_b, 4)) return bad("block_scale_b", "is misaligned");
  const bool rows_outer = g.d.row_stride >= g.d.col_stride;
  const int64_t inner = rows_outer ? g.d.col_stride : g.d.row_stride, outer = rows_outer ? g.d.row_stride : g.d.col_stride;
  if (inner < 1 || ((rows_outer ? g.m : g.n) > 1 && outer < ((rows_outer ? g.n : g.m) - 1) * inner + 1))
    return bad("d strides", "make elements of d overlap");
  if (!aligned(g.a.data, size_of(g.a.dtype))) return bad("a.data", "is misaligned for its type");
  if (!aligned(g.b.data, size_of(g.b.dtype))) return bad("b.data", "is misaligned for its type");
  if (!aligned(g.d.data, size_of(g.d.dtype))) return bad("d.data", "is misaligned for its type");
  const bool reads_c = g.beta != 0.f;
  if (reads_c && (g.c.row_stride < 0 || g.c.col_stride < 0)) return bad("c strides", "must not be negative");
  if (reads_c && !aligned(g.c.data, size_of(g.c.dtype))) return bad("c.data", "is misaligned for its type");
  if (!known(g.activation)) return bad("activation", "is none of those there are");
  if (Status s = check_floats({{"scale_a", g.scale_a}, {"scale_b", g.scale_b}, {"row_scale", g.row_scale}, {"col_scale", g.col_scale}, {"row_bias", g.row_bias}, {"col_bias", g.col_bias}}); !s.ok()) return s;
  const Extent d = matrix("d.data", g.d.data, g.m, g.n, g.d.row_stride, g.d.col_stride, size_of(g.d.dtype));
  const Extent a = matrix("a strides", g.a.data, g.m, g.k, g.a.row_stride, g.a.col_stride, size_of(g.a.dtype));
  const Extent b = matrix("b strides", g.b.data, g.k, g.n, g.b.row_stride, g.b.col_stride, size_of(g.b.dtype));
  const Extent c = matrix("c strides", reads_c ? g.c.data : nullptr, g.m, g.n, g.c.row_stride, g.c.col_stride, size_of(g.d.dtype));
  for (const Extent& e : {a, b})
    if (span(e) == kMostBytes) return bad(e.name, "are too large");
  if (span(d) == kMostBytes) return bad("d strides", "are too large");
  if (reads_c && span(c) == kMostBytes) return bad("c strides", "are too large");
  const int64_t blocks_k = (g.k + 127) / 128;
  const Extent scale_a = dense("scale_a", g.scale_a, 4), scale_b = dense("scale_b", g.scale_b, 4);
  const Extent row_scale = dense("row_scale", g.row_scale, g.m * 4), col_scale = dense("col_scale", g.col_scale, g.n * 4), row_bias = dense("row_bias", g.row_bias, g.m * 4), col_bias = dense("col_bias", g.col_bias, g.n * 4);
  const Extent block_a = dense("block_scale_a", g.block_scale_a, g.m * blocks_k * 4), block_b = dense("block_scale_b", g.block_scale_b, (g.n + 127) / 128 * blocks_k * 4);
  if (Status s = apart(d, {a, b, scale_a, scale_b, row_scale, col_scale, row_bias, col_bias, block_a, block_b}, {c}); !s.ok()) return s;
  const int64_t used = std::min<int64_t>(int64_t(g.workspace_bytes), int64_t(gemm_workspace()));
  return apart(dense("workspace", g.workspace, used), {a, b, c, d, scale_a, scale_b, row_scale, col_scale, row_bias, col_bias, block_a, block_b});
}

size_t gemm_workspace() { return stream_k_bytes(128, 256); }

Status gemm(const GemmArgs& args, cudaStream_t stream) {
  if (Status s = check_gemm(args); !s.ok()) return s;
  if (args.m == 0 || args.n == 0) return {};
  const GemmConfig c = gemm_choose(args);
  if (c.schedule == GemmConfig::Schedule::kSimple) return launched(gemm_simple(args, make_epilogue(args), stream));
  const GemmArgs g = c.swap ? swapped(args) : args;
  const GemmKernel* kernel = find_kernel(g, c);
  if (!kernel) return bad("config", "names no kernel for these operands");
  if (c.schedule == GemmConfig::Schedule::kDirect)
    return launched(gemm_direct_launch(g, make_epilogue(g), c, *kernel, stream));
  if (c.schedule == GemmConfig::Schedule::kStream) return gemm_stream_launch(g, make_epilogue(g), c, *kernel, stream);
  return run_planned(g, c, *kernel, stream);
}

}  // namespace orrery::kernels
