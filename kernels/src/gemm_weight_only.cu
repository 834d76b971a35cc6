// Products with narrow weights (int4 with group scales, fp8) and wider activations: for few rows of activations the direct kernel of
// gemm_direct.cuh with another way to widen W; with more of them the kernel of gemm_widen.cuh, of e4m3 weights also that of gemm_widen_tiles.cuh.
//
// The weights are the rows of the kernel's W, the activations its columns X, so D is stored transposed as for any
// swapped product. More rows of activations than a tile has columns are taken in turns, W then coming from L2.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "arguments.h"
#include "gemm.h"
#include "gemm_direct_gathered.cuh"
#include "gemm_direct_placed.cuh"
#include "launch.h"

namespace orrery::kernels {
namespace {

using Schedule = GemmConfig::Schedule;

struct WeightKernel {
  WeightFormat format;
  DType a;
  int tile_m, tile_n, per_sm, chunk_k, shared_bytes, threads;
  const void* function;
  bool kept;  // only for whole chunks of k; X is not staged
  const GemmKernel* widened = nullptr;  // one of widen_kernels(), whose name is `per_sm` too only if streamed; null: a direct one
  bool (*takes)(const WeightOnlyArgs&) = nullptr;  // of gemm_direct_placed.cuh or _gathered.cuh, for such products only, and K not split; null: another
  int cluster = 1;                                  // CTAs that share X; of those
};

template <class T, class W, class X, int kBlocks, int kColumns, int kWarpsM, int kWarpsK, int kDepth, int kPerSm, int kKept = 0>
WeightKernel weight_kernel(WeightFormat format, DType a) {
  using Tile = DirectTile<T, W, X, kBlocks, kColumns, kWarpsM, kWarpsK, kDepth, kPerSm, kKept>;
  return {format, a, Tile::kRows, Tile::kCols, kPerSm, Tile::kChunkK, Tile::kSumBytes + Tile::kKeptBytes, Tile::kThreads,
          reinterpret_cast<const void*>(&gemm_direct<Tile>), kKept > 0};
}

template <class Tile>
WeightKernel placed_kernel(WeightFormat format, DType a) {
  return {format, a, Tile::kRows, Tile::kCols, Tile::kPerSm, 128, Tile::kShared, Tile::kThreads, reinterpret_cast<const void*>(&gemm_direct_placed<Tile>), false, nullptr, &Tile::takes};
}

template <class Tile>
WeightKernel gathered_kernel(WeightFormat format, DType a) {
  return {format, a, Tile::kRows, Tile::kCols, Tile::kPerSm, 128, Tile::kShared, Tile::kThreads, reinterpret_cast<const void*>(&gemm_direct_gathered<Tile>), false, nullptr, &Tile::takes, Tile::kCluster};
}

template <class T, class W, class X>
void add(std::vector<WeightKernel>& out, WeightFormat format, DType a) {
  out.push_back(weight_kernel<T, W, X, 1, 1, 1, 8, 2, 2>(format, a));  // 16 x 8
  out.push_back(weight_kernel<T, W, X, 1, 1, 1, 8, 1, 4>(format, a));  // 16 x 8, lean
  out.push_back(weight_kernel<T, W, X, 1, 1, 2, 4, 2, 3>(format, a));  // 32 x 8
  out.push_back(weight_kernel<T, W, X, 1, 1, 4, 2, 2, 2>(format, a));  // 64 x 8
  if constexpr (std::is_same_v<W, Int4> && std::is_same_v<X, Plain16>) {
    out.push_back(weight_kernel<T, W, X, 2, 1, 1, 8, 1, 2, 2>(format, a));  // 32 x 8, kept
    out.push_back(placed_kernel<PlacedTile<T, 2>>(format, a));              // 32 x 16, before those that it is to be taken for
    out.push_back(placed_kernel<PlacedTile<T, 4>>(format, a));
    out.push_back(gathered_kernel<GatheredTile<T, 1, 2>>(format, a));  // 32 x 8 and 32 x 16, one CTA an SM
    out.push_back(gathered_kernel<GatheredTile<T, 1, 4>>(format, a));
    out.push_back(gathered_kernel<GatheredTile<T, 2, 2>>(format, a));
    out.push_back(gathered_kernel<GatheredTile<T, 2, 4>>(format, a));
  }
  out.push_back(weight_kernel<T, W, X, 1, 2, 1, 8, 2, 2>(format, a));  // 16 x 16
  out.push_back(weight_kernel<T, W, X, 1, 2, 2, 4, 2, 2>(format, a));  // 32 x 16
  out.push_back(weight_kernel<T, W, X, 1, 2, 4, 2, 2, 2>(format, a));  // 64 x 16
  out.push_back(weight_kernel<T, W, X, 1, 4, 4, 2, 2, 2>(format, a));  // 64 x 32
  out.push_back(weight_kernel<T, W, X, 1, 8, 4, 2, 2, 1>(format, a));  // 64 x 64
  if constexpr (!W::kScaled) out.push_back(weight_kernel<T, W, X, 2, 8, 4, 2, 1, 1>(format, a));  // 128 x 64
}

const std::vector<WeightKernel>& weight_kernels() {
  static const std::vector<WeightKernel> all = [] {
    std::vector<WeightKernel> out;
    add<__half, Int4, Plain16>(out, WeightFormat::kInt4, DType::kF16);
    add<__nv_bfloat16, Int4, Plain16>(out, WeightFormat::kInt4, DType::kBF16);
    add<__half, Int4, PlainE4M3>(out, WeightFormat::kInt4, DType::kE4M3);
    add<__half, PlainE4M3, Plain16>(out, WeightFormat::kE4M3, DType::kF16);
    add<__nv_bfloat16, PlainE4M3, Plain16>(out, WeightFormat::kE4M3, DType::kBF16);
    for (const GemmKernel& k : widen_kernels())
      out.push_back({k.b == DType::kE4M3 ? WeightFormat::kE4M3 : WeightFormat::kInt4, k.a, k.tile_m, k.tile_n, k.slabs, 128, k.shared_bytes, k.threads, k.function, false, &k});
    return out;
  }();
  return all;
}

const WeightKernel* find(const WeightOnlyArgs& g, const GemmConfig& c) {
  for (const WeightKernel& k : weight_kernels())
    if (k.widened) {
      if (gemm_widen_fits(g, c, *k.widened)) return &k;
    } else if (c.schedule == Schedule::kDirect && k.format == g.format && k.a == g.a.dtype && k.tile_m == c.tile_m && k.tile_n == c.tile_n && k.per_sm == c.per_sm) {
      if (k.kept && (g.k % k.chunk_k || !aligned(g.scales, 4))) continue;
      if (k.takes && (c.split_k != 1 || !k.takes(g))) continue;
      return c.split_k >= 1 && c.split_k <= 8 && std::has_single_bit(unsigned(c.split_k)) && (c.split_k == 1 || g.k / k.chunk_k >= c.split_k) ? &k : nullptr;
    }
  return nullptr;
}

Status check(const WeightOnlyArgs& g) {
  constexpr int64_t kMax = int64_t(1) << 31;
  const bool int4 = g.format == WeightFormat::kInt4;
  if (!int4 && g.format != WeightFormat::kE4M3) return bad("format", "is none of those there are");
  if (g.m < 0 || g.m >= kMax) return bad("m", "must be in [0, 2^31)");
  if (g.n < 0 || g.n >= kMax) return bad("n", "must be in [0, 2^31)");
  if (g.k < 1 || g.k >= kMax || (int4 && g.k % 128)) return bad("k", "must be in [1, 2^31), and a multiple of 128 for int4");
  if (g.m == 0 || g.n == 0) return {};
  if (g.a.dtype != DType::kF16 && g.a.dtype != DType::kBF16 && !(int4 && g.a.dtype == DType::kE4M3))
    return bad("a.dtype", "must be f16 or bf16 (int4 weights: or e4m3)");
  if (!g.a.data || !aligned(g.a.data, 16)) return bad("a.data", "is null or not 16-byte aligned");
  if (g.a.col_stride != 1 || g.a.row_stride < g.k || g.a.row_stride * size_of(g.a.dtype) % 16)
    return bad("a strides", "must be 1 along k, and along rows a multiple of 16 bytes and at least k");
  if (!g.weights || !aligned(g.weights, 16)) return bad("weights", "is null or not 16-byte aligned");
  if (g.weight_pitch < (int4 ? g.k / 2 : g.k) || g.weight_pitch % 16) return bad("weight_pitch", "must be a multiple of 16 and hold a row");
  if (int4 && (!g.scales || !aligned(g.scales, 2))) return bad("scales", "is null or misaligned");
  if (g.d.dtype != DType::kF16 && g.d.dtype != DType::kBF16 && g.d.dtype != DType::kF32) return bad("d.dtype", "must be f16, bf16 or f32");
  if (!g.d.data || !aligned(g.d.data, size_of(g.d.dtype))) return bad("d.data", "is null or misaligned");
  if (g.d.col_stride != 1 || (g.m > 1 && g.d.row_stride < g.n)) return bad("d strides", "must be 1 along n, and at least n along m");
  if (!known(g.activation)) return bad("activation", "is none of those there are");
  if (!aligned(g.workspace, 256)) return bad("workspace", "is not 256-byte aligned");
  if (!g.workspace && g.workspace_bytes) return bad("workspace", "is null while workspace_bytes is not 0");
  if (Status s = check_floats({{"scale_a", g.scale_a}, {"col_scale", g.col_scale}, {"col_bias", g.col_bias}}); !s.ok()) return s;
  const Extent a = matrix("a strides", g.a.data, g.m, g.k, g.a.row_stride, 1, size_of(g.a.dtype)), d = matrix("d.data", g.d.data, g.m, g.n, g.d.row_stride, 1, size_of(g.d.dtype));
  const Extent w = matrix("weight_pitch", g.weights, g.n, int4 ? g.k / 2 : g.k, g.weight_pitch, 1, 1);
  for (const Extent& e : {a, w})
    if (span(e) == kMostBytes) return bad(e.name, "is too large");
  if (span(d) == kMostBytes) return bad("d strides", "are too large");
  const Extent scales = dense("scales", int4 ? g.scales : nullptr, g.n * (g.k / 128) * 2), scale_a = dense("scale_a", g.scale_a, 4);
  const Extent col_scale = dense("col_scale", g.col_scale, g.n * 4), col_bias = dense("col_bias", g.col_bias, g.n * 4);
  if (Status s = apart(d, {a, w, scales, scale_a, col_scale, col_bias}); !s.ok()) return s;
  const int64_t used = std::min<int64_t>(int64_t(g.workspace_bytes), int64_t(gemm_workspace()));
  return apart(dense("workspace", g.workspace, used), {a, w, d, scales, scale_a, col_scale, col_bias});
}

template <class Visit>
void each(const WeightOnlyArgs& g, Visit visit) {
  for (const WeightKernel& k : weight_kernels()) {
    if ((g.m <= k.tile_n / 2 && k.tile_n > 8) || (g.m > 2 * k.tile_n && k.tile_n < 64)) continue;
    GemmConfig c;
    c.schedule = k.widened ? k.widened->schedule : Schedule::kDirect, c.tile_m = k.tile_m, c.tile_n = k.tile_n, c.swap = true;
    c.per_sm = c.schedule == Schedule::kDirect || c.schedule == Schedule::kStream ? k.per_sm : 0;
    for (c.split_k = 1; c.split_k <= 8; c.split_k *= 2)
      if (find(g, c) == &k) visit(c);
  }
}

/// Predicted seconds of a direct kernel on an H200, but for the launch; of int4 weights of any, as was fitted when there was no other.
double predict_direct(const WeightOnlyArgs& g, const GemmConfig& c) {
  const double sms = sm_count(), tiles_w = std::ceil(double(g.n) / c.tile_m), tiles_x = std::ceil(double(g.m) / c.tile_n);
  const double bytes = double(g.n) * g.k * (g.format == WeightFormat::kInt4 ? 0.5 : 1.0);
  const double ctas = tiles_w * tiles_x * c.split_k, waves = std::ceil(ctas / (sms * c.per_sm));
  const double x_bytes = double(g.m) * g.k * size_of(g.a.dtype) * tiles_w;
  const double products = 2.0 * g.m * g.n * g.k / (c.schedule == Schedule::kDirect ? 150e12 : 500e12);  // warp-wide ones, wgmma
  return std::max(products, bytes * tiles_x / (tiles_x > 1 ? 5.5e12 : 4.1e12) * (sms * c.per_sm * waves / ctas > 2 ? 2 : 1)) + x_bytes / 5.5e12 +
         (c.split_k > 1 ? 0.7e-6 : 0);
}

/// Cycles that 16 of k of a tile of 128 or 192 rows take (gemm_widen_tiles.cuh): what was measured. Up to 160 columns of 128 rows it is what shared memory has to
/// move and what warps issue, at 256 what power leaves of the clock.
double tile_cycles(int rows, int columns, bool f16) {
  if (rows == 192) return columns > 128 ? (f16 ? 259 : 250) : f16 ? 208 : 215;
  switch (columns) {
    case 112: case 128: return f16 ? 146 : 154;
    case 160: return f16 ? 174 : 166;
    case 192: return f16 ? 195 : 198;
    default: return f16 ? 292 : 274;
  }
}

/// Predicted seconds of a product with e4m3 weights on an H200. For 16 of k of 64 rows of streamed tiles the tensor cores take half a cycle a column, and a
/// warp's instructions come on top of that, whatever other warps do meanwhile (NOTES.md).
double predict(const WeightOnlyArgs& g, const GemmConfig& c) {
  if (g.format == WeightFormat::kInt4) return predict_direct(g, c);
  if (c.schedule == Schedule::kDirect) return predict_direct(g, c) + (g.overlap ? 1.9e-6 : 3.5e-6);
  const bool dealt = c.schedule == Schedule::kStreamK, halves = c.schedule == Schedule::kSplit, f16 = g.a.dtype == DType::kF16;
  const bool few = c.schedule == Schedule::kStream || (halves && c.tile_m == 64);  // groups take stages in turn
  const int per_sm = c.schedule == Schedule::kStream ? c.per_sm : 1;
  const double sms = sm_count(), tiles_x = std::ceil(double(g.m) / c.tile_n), ctas = std::ceil(double(g.n) / c.tile_m) * tiles_x * c.split_k;
  // K steps dealt evenly save what a last wave leaves idle, but where waves are many power limits all the same.
  const double exact = ctas / (sms * per_sm), waves = dealt && exact < 3.5 ? exact : std::ceil(exact);
  const double in_turn = waves == 1 ? std::ceil(ctas / sms) : waves * per_sm;  // CTAs (tiles) of an SM
  const double cycles = few ? c.tile_m / 64 * (std::max(c.tile_n / 2.0, 16.0) + (f16 ? 18 : 26)) : tile_cycles(c.tile_m, c.tile_n, f16);
  const double step = std::max(cycles, (c.tile_m * 16.0 + c.tile_n * 32.0) / 58);  // or what L2 gives
  double busy = in_turn * std::ceil(g.k / 16.0 / c.split_k) * step / 1.85e9;
  if (busy > 300e-6) busy = std::max(busy, 2.0 * g.n * g.k * tiles_x * c.tile_n / 650e12);  // long enough for power to be all that counts
  const double sums = (c.tile_n - 52) * 8e-8 * (waves > 1 ? 0.35 : 1);  // of cut tiles: left, waited for, added up; some of it while others are multiplied
  const double sent = c.tile_m * c.tile_n * 14e-11 - (c.tile_m == 192 ? 0.7e-6 : 1.9e-6);  // of a tile whose K two CTAs share
  const double ends = few ? 0.4e-6 + (waves - 1) * 2e-6 : std::ceil(waves) * (0.3e-6 + c.tile_m * c.tile_n * 3e-11 + (halves ? sent : 0)) + (dealt ? sums : 0);
  const double all = busy + ends + (c.split_k > 1 && !halves ? 1.9e-6 : 0) + 3.2e-6;
  // Weights that are read once come from memory, of which an SM gets so much at most; others from L2.
  const double memory = double(g.n) * g.k * tiles_x / (tiles_x > 1 ? 5e12 : std::min(3.6e12, 30e9 * std::min(ctas, sms))) + 3e-6;
  return std::max(all, memory) + 0.02 * all - (g.overlap ? 0.4e-6 : 0);  // of those that memory bounds, the least busy
}

GemmConfig choose(const WeightOnlyArgs& g) {
  if (g.config.schedule != Schedule::kAuto) return g.config;
  constexpr double kNear = 1.6;  // in the sum of |log2| ratios; of farther ones a prediction is better
  GemmConfig best;
  if (g.format == WeightFormat::kInt4) {
    const auto near = nearest_measured(kInt4Kind, true, double(g.m), double(g.n), double(g.k), g.overlap, [&](const GemmConfig& c) { return find(g, c) != nullptr; });
    if (!near.empty() && near[0].distance < kNear) return near[0].config;
  }
  double least = INFINITY;
  each(g, [&](const GemmConfig& c) {
    const double s = predict(g, c);
    if (s < least) least = s, best = c;
  });
  return best;
}

Epilogue epilogue(const WeightOnlyArgs& g) {
  Epilogue e{};
  e.d = g.d.data, e.d_row_stride = 1, e.d_col_stride = g.d.row_stride, e.dtype = g.d.dtype;
  e.alpha = g.alpha, e.scale_a = g.scale_a, e.row_scale = g.col_scale, e.row_bias = g.col_bias;
  e.m = int(g.n), e.n = int(g.m), e.activation = g.activation;
  e.linear = !g.col_scale && !g.col_bias && g.activation == Activation::kNone;
  return e;
}

Status launch(const WeightOnlyArgs& g, const GemmConfig& c, const WeightKernel& kernel, cudaStream_t stream) {
  if (kernel.widened) return gemm_widen_launch(g, epilogue(g), c, *kernel.widened, stream);
  DirectParams p{};
  p.w = static_cast<const uint8_t*>(g.weights), p.x = static_cast<const uint8_t*>(g.a.data);
  p.w_pitch = g.weight_pitch, p.x_pitch = g.a.row_stride * size_of(g.a.dtype);
  p.scales = static_cast<const uint16_t*>(g.scales);
  p.rows = int(g.n), p.cols = int(g.m), p.k = int(g.k);
  p.tiles_m = int((g.n + kernel.tile_m - 1) / kernel.tile_m), p.split_log = std::countr_zero(unsigned(c.split_k));
  p.early = g.overlap;
  p.e = epilogue(g);
  if (kernel.takes) {
    const int64_t across = (g.m + kernel.tile_n - 1) / kernel.tile_n;
    if (across > 65535) return launched(cudaErrorInvalidConfiguration);
    const int64_t whole = (p.tiles_m + kernel.cluster - 1) / kernel.cluster * kernel.cluster;
    const dim3 grid(unsigned(kernel.cluster == 1 && g.overlap && across == 1 ? with_spare_blocks(p.tiles_m, sm_count()) : whole), unsigned(across));
    return launched(launch_with_most_shared(kernel.function, grid, kernel.threads, kernel.shared_bytes, kernel.cluster, g.overlap, stream, &p));
  }
  GemmKernel k{};
  k.tile_n = kernel.tile_n, k.slabs = kernel.per_sm, k.shared_bytes = kernel.shared_bytes, k.threads = kernel.threads, k.function = kernel.function;
  const int x_chunk = kernel.kept ? 0 : kernel.chunk_k * size_of(g.a.dtype);
  return launched(launch_direct(p, k, x_chunk, int(g.k / kernel.chunk_k), g.overlap, stream));
}

}  // namespace

Status gemm_weight_only(const WeightOnlyArgs& g, cudaStream_t stream) {
  if (Status s = check(g); !s.ok()) return s;
  if (g.m == 0 || g.n == 0) return {};
  const GemmConfig c = choose(g);
  const WeightKernel* kernel = find(g, c);
  if (!kernel) return bad("config", "names no kernel for these operands");
  return launch(g, c, *kernel, stream);
}

int gemm_weight_only_candidates(const WeightOnlyArgs& g, GemmConfig* out, int capacity) {
  int count = 0;
  if (!check(g).ok()) return 0;
  each(g, [&](const GemmConfig& c) {
    if (count < capacity) out[count] = c;
    count++;
  });
  return count;
}

}  // namespace orrery::kernels
