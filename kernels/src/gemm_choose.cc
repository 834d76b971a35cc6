// Which configuration for which product: the measured best of this shape where it was measured; else, of those of the shapes nearest
// to it, the one with the least predicted time; where none of them fits, the least predicted of all that do.
//
// Measured choices are gemm_table.inc, made by search on a GPU (bench/make_table); near is the sum of |log2| ratios of m, n and k.
// The prediction is a roofline of one wave with fixed costs:
// arithmetic (tensor-core cycles of a stage, or the shared-memory cycles that feed them), the L2 traffic of a stage after
// multicast, and the bytes that must come from memory. NOTES.md says how far both are from the measured best.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "arguments.h"
#include "gemm.h"

namespace orrery::kernels {
namespace {

using Schedule = GemmConfig::Schedule;

constexpr double kClock = 1.55e9;                   // under load at the power limit
constexpr double kMemory = 4.1e12;                  // bytes/s, measured copy rate
constexpr double kL2PerSm = 40;                     // bytes/cycle and SM when all pull
constexpr double kLaunch = 2.2e-6;                  // launch, first loads, drain
constexpr double kClusterBarrier = 0.7e-6;          // DSMEM sum
constexpr double kSecondLaunch = 1.6e-6;            // of kParts: a wait, a trip to L2 and a store
constexpr double kNotOverlapped = 1e-6;             // what a plain launch adds

/// Cycles of one stage (128 bytes of K) of a tile_m x tile_n tile: tensor core against shared memory.
double stage_cycles(int tile_m, int tile_n) {
  const double blocks = tile_m / 64.0;
  const double tensor = tile_n / 2.0, shared = (64 + tile_n) / 4.0;
  return 4 * blocks * std::max(tensor, shared);
}

template <class Visit>
void each_split(const GemmArgs& g, const GemmKernel& k, GemmConfig c, Visit& visit) {
  for (c.split_k = 1; c.split_k * c.cluster_m * c.cluster_n <= 8; c.split_k++)
    if (find_kernel(g, c) == &k) visit(c);
  const int64_t tiles = (g.m + k.tile_m - 1) / k.tile_m * ((g.n + k.tile_n - 1) / k.tile_n);
  // What many tiles read of each other depends on the order.
  c.split_k = 1;
  for (int raster : {4, 16})
    if (c.raster = raster; tiles > 4 * sm_count() && find_kernel(g, c) == &k) visit(c);
  c.raster = 8;
  // Clusters of 16 are few (seven fit): for very few tiles.
  c.split_k = 16;
  if (tiles <= 7 && c.cluster_m * c.cluster_n == 1 && find_kernel(g, c) == &k) visit(c);
}

/// All SMs, or whole parts of every tile.
template <class Visit>
void each_stream_k(const GemmArgs& g, const GemmKernel& k, GemmConfig c, Visit& visit) {
  if (find_kernel(g, c) != &k) return;
  const int64_t rows = k.tile_m * c.cluster_m, cols = k.tile_n * c.cluster_n, steps = stages_of_k(g, k);
  const int64_t tiles = (g.m + rows - 1) / rows * ((g.n + cols - 1) / cols) * c.cluster_m * c.cluster_n;
  const int sms = sm_count();
  if (tiles % sms == 0) return;
  for (c.raster = 4; c.raster <= 16; c.raster *= 2)
    if (c.raster == 8 || tiles > sms) visit(c);
  c.raster = 8;
  for (int parts : {2, 3, 4, 6, 8, 12, 16, 24, 32, 64})
    if (c.split_k = parts; tiles * parts <= sms && steps >= 2 * parts) visit(c);
}

/// Parts of K that a second launch adds up, as many as fill the SMs once at most.
template <class Visit>
void each_parts(const GemmArgs& g, const GemmKernel& k, GemmConfig c, Visit& visit) {
  const int64_t rows = k.tile_m * c.cluster_m, cols = k.tile_n * c.cluster_n;
  const int64_t ctas = (g.m + rows - 1) / rows * ((g.n + cols - 1) / cols) * c.cluster_m * c.cluster_n, steps = stages_of_k(g, k);
  c.schedule = Schedule::kParts;
  const int slots = sm_count() * (k.tile_m == 64 ? 2 : 1);
  for (int parts : {2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128}) {
    c.split_k = parts, c.alone = false;
    if (ctas * parts > slots || steps < 2 * parts || find_kernel(g, c) != &k) continue;
    visit(c);
    if (c.alone = g.overlap; c.alone) visit(c);
  }
}

int64_t tiles_of(const GemmConfig& c, double m, double n) {
  return int64_t(std::ceil(m / (c.tile_m * c.cluster_m))) * int64_t(std::ceil(n / (c.tile_n * c.cluster_n)));
}

/// A CTA that starts under the launch before takes whichever SM is free, and which tiles then lie side by side is chance. Where all tiles are
/// one wave and K is deep, and where a product takes so long that its start is little, the hardware's own order can be worth more than the start
/// that overlapping hides (NOTES.md).
bool alone_can_pay(const GemmConfig& c, double m, double n, double k) {
  return m * n * k >= 1e10 || tiles_of(c, m, n) * c.cluster_m * c.cluster_n <= sm_count();
}
bool may_gain_alone(const GemmArgs& g, const GemmConfig& c) {
  return g.overlap && k_steps(g) >= 16 && (k_steps(g) >= 32 || double(g.m) * g.n * g.k >= 1e10) && alone_can_pay(c, g.m, g.n, g.k);
}

template <class Visit>
void each_raster(const GemmArgs& g, const GemmKernel& k, GemmConfig c, Visit& visit) {
  if (find_kernel(g, c) != &k) return;
  const int64_t rows = (g.m + k.tile_m * c.cluster_m - 1) / (k.tile_m * c.cluster_m);
  const bool stagger = k.schedule == Schedule::kCooperative && k_steps(g) >= 16;
  for (c.raster = 4; c.raster <= 16; c.raster *= 2) {
    if (c.raster != 8 && rows <= c.raster / 2) continue;
    for (c.stagger = 0; c.stagger <= (stagger ? 2 : 0); c.stagger += 2) visit(c);
    c.stagger = 0;
    if (c.alone = may_gain_alone(g, c); c.alone) visit(c);
    c.alone = false;
  }
}

/// Direct kernels: the columns must fill more than half a tile, and clusters are for tiles of few CTAs.
template <class Visit>
void each_direct(const GemmArgs& g, const GemmKernel& k, GemmConfig c, Visit& visit) {
  if (g.n > 128 || g.n > 2 * k.tile_n || (g.n <= k.tile_n / 2 && k.tile_n > 8)) return;
  for (c.split_k = 1; c.split_k <= 8; c.split_k *= 2)
    if (find_kernel(g, c) == &k) visit(c);
}

/// Streamed kernels: likewise, and only with enough rows for every SM.
template <class Visit>
void each_stream(const GemmArgs& g, const GemmKernel& k, GemmConfig c, Visit& visit) {
  if (g.n > 128 || g.n > 2 * k.tile_n || (g.n <= k.tile_n / 2 && k.tile_n > 8)) return;
  for (c.split_k = 1; c.split_k <= 4; c.split_k *= 2)
    if (find_kernel(g, c) == &k) visit(c);
}

template <class Visit>
void each_config(const GemmArgs& args, Visit visit) {
  static constexpr int kClusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}};
  for (int swap = 0; swap < 2; swap++) {
    const GemmArgs g = swap ? swapped(args) : args;
    for (const GemmKernel& k : gemm_kernels()) {
      GemmConfig c;
      c.schedule = k.schedule, c.tile_m = k.tile_m, c.tile_n = k.tile_n, c.swap = swap;
      if (k.schedule == Schedule::kDirect || k.schedule == Schedule::kStream) c.per_sm = k.slabs;
      if (k.schedule != Schedule::kStream && find_kernel(g, c) != &k) continue;
      if (k.schedule == Schedule::kDirect) {
        each_direct(g, k, c, visit);
        continue;
      }
      if (k.schedule == Schedule::kStream) {
        each_stream(g, k, c, visit);
        continue;
      }
      if (k.schedule == Schedule::kStreamK) {
        if (swap != (args.d.col_stride != 1)) continue;
        for (const auto& shape : kClusters) {
          c.cluster_m = shape[0], c.cluster_n = shape[1];
          if (c.cluster_m * c.cluster_n > 2 || (g.m <= k.tile_m && c.cluster_m > 1) || (g.n <= k.tile_n && c.cluster_n > 1)) continue;
          each_stream_k(g, k, c, visit);
        }
        continue;
      }
      const bool split = k.schedule == Schedule::kSplit;
      // Persistent kernels are swapped only where D's columns are the contiguous ones, or come out turned round.
      if (!split && swap != (args.d.col_stride != 1) && !stores_turned(g, k)) continue;
      for (const auto& shape : kClusters) {
        c.cluster_m = shape[0], c.cluster_n = shape[1];
        if ((g.m <= k.tile_m && c.cluster_m > 1) || (g.n <= k.tile_n && c.cluster_n > 1)) continue;
        if (split && swap == (args.d.col_stride != 1) && c.cluster_m * c.cluster_n <= 2) each_parts(g, k, c, visit);
        if (split) each_split(g, k, c, visit);
        else each_raster(g, k, c, visit);
      }
    }
  }
}

struct Measured {
  int kind;
  bool overlap, b_k_major;
  double m, n, k;
  GemmConfig config;
};
constexpr Measured kMeasured[] = {
    {-1, false, false, 1, 1, 1, {}},  // so that an empty table compiles
#include "gemm_table.inc"
};
/// How many measured shapes are looked at, and how near one must be to be taken for the same. Each shape of the squares' tables chosen
/// for without its own entry: 1.20 (bf16) and 1.17 (e4m3) of the best time by the nearest alone, 1.12 and 1.14 by five, 1.22 and 1.27 by
/// prediction alone.
constexpr size_t kNearest = 5;
constexpr double kSame = 0.2;

/// What was measured for one shape, for another: parts of K as many as keep the number of CTAs, and alone only where that can pay.
GemmConfig carried_over(const Measured& entry, double m, double n, double k) {
  GemmConfig c = entry.config;
  if (c.schedule == Schedule::kParts) c.split_k = int(std::max<int64_t>(2, c.split_k * tiles_of(c, entry.m, entry.n) / tiles_of(c, m, n)));
  c.alone = c.alone && alone_can_pay(c, c.swap ? n : m, c.swap ? m : n, k);
  return c;
}

/// Reads of A from memory, of B from L2 by every CTA, and the launch; a CTA's worth of latency where few are in flight.
double predict_direct(const GemmArgs& g, const GemmConfig& c) {
  const double sms = sm_count();
  const double size = size_of(g.a.dtype), tiles_m = std::ceil(double(g.m) / c.tile_m), tiles_n = std::ceil(double(g.n) / c.tile_n);
  const double ctas = tiles_m * tiles_n * c.split_k, waves = std::ceil(ctas / (sms * c.per_sm));
  const double fill = std::min(1.0, ctas / (sms * waves));
  const double memory = double(g.m) * g.k * size / (kMemory * fill), l2 = tiles_m * g.n * g.k * size / (sms * kL2PerSm * kClock);
  return kLaunch + memory + l2 + (c.split_k > 1 ? kClusterBarrier : 0);
}

/// A read of A from memory and of B by every CTA from L2, which a launch, the first bytes and the sums stand around.
double predict_stream(const GemmArgs& g, const GemmConfig& c) {
  const double sms = sm_count();
  const double size = size_of(g.a.dtype), tiles_m = std::ceil(double(g.m) / c.tile_m), tiles_n = std::ceil(double(g.n) / c.tile_n);
  const double ctas = tiles_m * tiles_n * c.split_k, slots = sms * c.per_sm, waves = std::ceil(ctas / slots);
  const double fill = std::min(1.0, ctas / (waves * slots) * (c.per_sm == 2 ? 1.7 : 1.0));
  const double w = double(g.m) * g.k * size, x = tiles_m * tiles_n * c.tile_n * g.k * size;
  return kLaunch + std::max(w / (kMemory * fill), (w * tiles_n + x) / (sms * kL2PerSm * kClock)) + (c.split_k > 1 ? kClusterBarrier : 0);
}

/// K steps over all SMs (or the parts asked for), and parts written and read again by all of them.
double predict_stream_k(const GemmArgs& g, const GemmConfig& c) {
  const double sms = sm_count();
  const double size = size_of(g.a.dtype), tiles = std::ceil(double(g.m) / c.tile_m) * std::ceil(double(g.n) / c.tile_n), steps = double(k_steps(g));
  const double shares = std::min(sms, tiles * (c.split_k > 1 ? c.split_k : steps));
  const double stage = std::max(stage_cycles(c.tile_m, c.tile_n), (c.tile_m + c.tile_n) * 128 / kL2PerSm);
  const double busy = tiles * steps / shares * stage + 2 * 8.0 * c.tile_m * c.tile_n / kL2PerSm + 3000;
  const double touched = (double(g.m) * g.k + double(g.n) * g.k) * size + double(g.m) * g.n * size_of(g.d.dtype);
  return kLaunch + std::max(busy / kClock, touched / (kMemory * shares / sms));
}

}  // namespace

static bool same(const GemmConfig& a, const GemmConfig& b) {
  const auto fields = [](const GemmConfig& c) { return std::make_tuple(c.schedule, c.tile_m, c.tile_n, c.cluster_m, c.cluster_n, c.split_k, c.raster, c.stagger, c.swap, c.per_sm, c.alone); };
  return fields(a) == fields(b);
}

std::vector<NearMeasured> nearest_measured(int kind, bool b_k_major, double m, double n, double k, bool overlap,
                                           const std::function<bool(const GemmConfig&)>& fits) {
  static const auto logs = [] {
    std::vector<std::array<double, 3>> out;
    for (const Measured& e : kMeasured) out.push_back({std::log2(e.m), std::log2(e.n), std::log2(e.k)});
    return out;
  }();
  const double at[3] = {std::log2(m), std::log2(n), std::log2(k)};
  std::array<double, std::size(kMeasured)> distances;
  for (size_t i = 0; i < std::size(kMeasured); i++) {
    const Measured& entry = kMeasured[i];
    // An entry of the other way to launch, or of the other layout of B, counts as a little farther away than the same shape's own.
    distances[i] = (entry.overlap == overlap ? 0 : 0.1) + (entry.b_k_major == b_k_major ? 0 : 0.15);
    for (int d = 0; d < 3; d++) distances[i] += std::fabs(at[d] - logs[i][d]);
    const auto key = [](const Measured& e) { return std::make_tuple(e.kind, e.overlap, e.b_k_major, e.m, e.n, e.k); };
    // A shape's second entry is for this very shape, where the first does not fit.
    const bool second = i > 0 && key(kMeasured[i - 1]) == key(entry);
    if (entry.kind != kind || (second && distances[i] >= kSame)) distances[i] = INFINITY;
  }
  // A few of many, at every call of gemm(): looking for the least again and again is cheaper than sorting.
  std::vector<NearMeasured> out;
  while (out.size() < kNearest) {
    const auto least = std::min_element(distances.begin(), distances.end());
    if (*least == INFINITY) break;
    const Measured& entry = kMeasured[least - distances.begin()];
    NearMeasured x{*least, carried_over(entry, m, n, k)};
    if (!fits(x.config)) x.config = entry.config;  // K has not that many stages, or the workspace no room
    if (overlap) x.config.alone = false;           // never measured against a launch that may begin before the one ahead ends
    *least = INFINITY;
    if (std::none_of(out.begin(), out.end(), [&](const NearMeasured& y) { return same(y.config, x.config); }) && fits(x.config)) out.push_back(x);
  }
  return out;
}

double predict_seconds(const GemmArgs& args, const GemmConfig& c) {
  const GemmArgs g = c.swap ? swapped(args) : args;
  if (c.schedule == Schedule::kStreamK) return predict_stream_k(g, c);
  if (c.schedule == Schedule::kDirect) return predict_direct(g, c);
  if (c.schedule == Schedule::kStream) return predict_stream(g, c);
  const double size = size_of(g.a.dtype), steps = double(k_steps(g));
  const bool parts = c.schedule == Schedule::kParts, split = parts || c.schedule == Schedule::kSplit;
  const int cluster = c.cluster_m * c.cluster_n * (parts ? 1 : c.split_k);
  const double tiles_m = std::ceil(double(g.m) / (c.tile_m * c.cluster_m)) * c.cluster_m;
  const double tiles_n = std::ceil(double(g.n) / (c.tile_n * c.cluster_n)) * c.cluster_n;
  const double ctas = tiles_m * tiles_n * c.split_k;
  const double per_sm = split && c.tile_m == 64 ? 2 : 1;
  // The share of an H200's SMs that clusters of this size can fill (NOTES.md), of those there are.
  static constexpr int kUsable[] = {0, 132, 132, 117, 120, 110, 102, 105, 120};
  const double usable = kUsable[cluster <= 8 ? cluster : 8] * (sm_count() / 132.0);
  const double waves = std::ceil(ctas / usable), slots = waves * usable;
  const double cta_steps = std::ceil(steps / c.split_k);
  const double l2 = (double(c.tile_m) / c.cluster_n + double(c.tile_n) / c.cluster_m) * 128 / kL2PerSm;
  const double stage = std::max(stage_cycles(c.tile_m, c.tile_n), l2);
  const double epilogue = c.tile_m * c.tile_n / 64.0 * (c.schedule == Schedule::kCooperative ? 1 : 0.3);
  const double busy = waves * (cta_steps * stage + (split ? 0 : epilogue)) / kClock;
  const double touched = (double(g.m) * g.k + double(g.n) * g.k) * size + double(g.m) * g.n * size_of(g.d.dtype);
  const double in_flight = std::min(1.0, ctas / slots * (per_sm == 2 ? 1.0 : 0.97));
  const double memory = touched / (kMemory * std::max(0.05, std::min(1.0, in_flight)));
  const double sums = parts ? kSecondLaunch + 8.0 * c.split_k * g.m * g.n / (sm_count() * kL2PerSm * kClock) : c.split_k > 1 ? kClusterBarrier : 0;
  return std::max(busy, memory) + kLaunch + sums + (g.overlap && c.alone ? kNotOverlapped : 0);
}

int gemm_candidates(const GemmArgs& args, GemmConfig* out, int capacity) {
  int count = 0;
  if (!check_gemm(args).ok()) return 0;
  each_config(args, [&](const GemmConfig& c) {
    if (count < capacity) out[count] = c;
    count++;
  });
  return count;
}

GemmConfig gemm_choose(const GemmArgs& args) {
  if (args.config.schedule != Schedule::kAuto) return args.config;
  const auto fits = [&](const GemmConfig& c) {
    const GemmArgs g = c.swap ? swapped(args) : args;
    const GemmKernel* k = find_kernel(g, c);
    // What was measured where D comes out turned round is nothing where it does not, as with a bias or another layout.
    const bool tiled = c.schedule == Schedule::kCooperative || c.schedule == Schedule::kPingPong || c.schedule == Schedule::kSplit;
    return k && (!c.swap || !tiled || c.split_k != 1 || stores_turned(g, *k));
  };
  // Sums taken out of the tensor core every 128 of k leave other tiles to choose from.
  const bool promoted = size_of(args.a.dtype) == 1 && args.a.dtype != DType::kI8 && (args.promote || args.block_scale_a);
  if (args.d.col_stride == 1) {
    const auto near = nearest_measured(promoted ? kPromotedKind : size_of(args.a.dtype), args.b.row_stride == 1, double(args.m), double(args.n),
                                       double(args.k), args.overlap && args.constant_b, fits);
    if (!near.empty() && near[0].distance < kSame) return near[0].config;
    const auto sooner = [&](const NearMeasured& a, const NearMeasured& b) { return predict_seconds(args, a.config) < predict_seconds(args, b.config); };
    if (!near.empty()) return std::min_element(near.begin(), near.end(), sooner)->config;
  }
  return gemm_predict(args);
}

GemmConfig gemm_predict(const GemmArgs& args) {
  GemmConfig best;
  best.schedule = Schedule::kSimple;
  double best_seconds = INFINITY;
  each_config(args, [&](const GemmConfig& c) {
    const double s = predict_seconds(args, c);
    if (s < best_seconds) best_seconds = s, best = c;
  });
  return best;
}

}  // namespace orrery::kernels
