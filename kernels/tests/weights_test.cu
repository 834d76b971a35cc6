// gemm_weight_only and gemm_grouped against float64: every configuration, odd sizes, empty groups, refusals.
//
// Bounds: products of f16 or bf16 values are exact and each tensor-core step truncates at 2^-24 of its largest term, so a
// sum is within (k / 8) 2^-23 of its terms' magnitudes; fp8 tensor-core sums keep 13 fraction bits. Then one rounding.
#include <algorithm>
#include <string>

#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  WeightFormat format;
  DType a, d;
  int64_t m, n, k, pad;
};

int64_t round_up(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }

/// The weights as numbers, from what quantize_int4 left (or e4m3).
struct Weights {
  std::vector<unsigned char> bytes, scales;
  int64_t k;
  DType scale_type;
  WeightFormat format;
  double at(int64_t n, int64_t i) const {
    if (format == WeightFormat::kE4M3) return check::to_double(bytes.data(), n * round_up(k, 16) + i, DType::kE4M3);
    uint32_t word;
    const int64_t block = i / 8 % 16;  // of the group; kept as word 4 * (block % 4) + block / 4
    std::memcpy(&word, &bytes[(n * k + i / 128 * 128) / 2 + (block % 4 * 4 + block / 4) * 4], 4);
    const int in_word = int(i % 8), nibble = in_word / 2 + in_word % 2 * 4;
    return (int(word >> 4 * nibble & 15) - 8) * check::to_double(scales.data(), (n * k + i) / 128, scale_type);
  }
};

Weights make_weights(check::Random& random, const Case& c) {
  Weights w{{}, {}, c.k, c.a == DType::kE4M3 ? DType::kF16 : c.a, c.format};
  if (c.format == WeightFormat::kE4M3) {
    w.bytes.assign(c.n * round_up(c.k, 16), 0xFF);
    for (int64_t i = 0; i < c.n; i++)
      for (int64_t j = 0; j < c.k; j++) check::from_double(w.bytes.data(), i * round_up(c.k, 16) + j, DType::kE4M3, random.spread(3));
    return w;
  }
  std::vector<unsigned char> full(c.n * c.k * 2);
  for (int64_t i = 0; i < c.n * c.k; i++) check::from_double(full.data(), i, w.scale_type, random.symmetric() * (1 + i / 128 % 5));
  const Buffer in(full);
  Buffer out(c.n * c.k / 2), scales(c.n * c.k / 64);
  STATUS_OK(quantize_int4(out.data(), scales.data(), in.data(), w.scale_type, c.n, c.k, nullptr));
  w.bytes = out.host<unsigned char>(), w.scales = scales.host<unsigned char>();
  out.check_guards("quantize_int4"), scales.check_guards("quantize_int4 scales");
  Buffer back(full.size());
  STATUS_OK(dequantize_int4(back.data(), out.data(), scales.data(), w.scale_type, c.n, c.k, nullptr));
  const auto again = back.host<unsigned char>();
  back.check_guards("dequantize_int4");
  for (int64_t i = 0; i < c.n * c.k; i++) {
    const double want = w.at(i / c.k, i % c.k);  // one rounding of a multiple of the scale
    check::expect_near(check::to_double(again.data(), i, w.scale_type), want, check::rounding(w.scale_type, want), "dequantize_int4", i / c.k, i % c.k);
  }
  for (int64_t i = 0; i < c.n * c.k; i++) {  // nearest multiple of the scale, which is amax / 7
    const double scale = check::to_double(w.scales.data(), i / 128, w.scale_type), x = check::to_double(full.data(), i, w.scale_type);
    check::expect_near(w.at(i / c.k, i % c.k), x, 0.502 * scale + 0.03 * std::fabs(x), "quantize_int4", i / c.k, i % c.k);
  }
  return w;
}

/// scaled: also scales; fused: and an activation, whose function is not modelled to the bit.
int weight_only(const Case& c, int most, bool scaled = false, Activation fused = Activation::kNone) {
  check::Random random(c.m * 3 + c.n + c.k);
  const Weights w = make_weights(random, c);
  const int size = size_of(c.a);
  const int64_t pitch = round_up(c.k, 16 / size) + c.pad;
  std::vector<unsigned char> a(((c.m - 1) * pitch + c.k) * size, 0xFF);
  for (int64_t i = 0; i < c.m; i++)
    for (int64_t j = 0; j < c.k; j++) check::from_double(a.data(), i * pitch + j, c.a, random.spread(3));
  std::vector<float> bias(c.n), col_scale(c.n, 1.f);
  for (auto& v : bias) v = float(random.symmetric());
  if (scaled)
    for (auto& v : col_scale) v = float(1.5 + random.symmetric());
  const Buffer da(a), dw(w.bytes), ds(w.scales), dbias(bias), dscale(col_scale), one_scale(std::vector<float>{0.75f});
  Buffer d(c.m * c.n * size_of(c.d));
  std::vector<double> want(c.m * c.n), bound(c.m * c.n);
  check::parallel(c.n, [&](int64_t n) {
    for (int64_t m = 0; m < c.m; m++) {
      double sum = 0, mass = 0;
      for (int64_t k = 0; k < c.k; k++) {
        const double t = w.at(n, k) * check::to_double(a.data(), m * pitch + k, c.a);
        sum += t, mass += std::fabs(t);
      }
      const double scale = 0.5 * col_scale[n] * (scaled ? 0.75 : 1), v = scale * sum + bias[n];
      want[m * c.n + n] = check::activated(v, fused);
      const double error = check::activation_error(v, scale * (c.k / 8 + 8) * 0x1p-23 * mass + 0x1p-22, fused);
      bound[m * c.n + n] = error + check::rounding(c.d, std::fabs(want[m * c.n + n]) + error);
    }
  });
  WeightOnlyArgs g;
  g.m = c.m, g.n = c.n, g.k = c.k, g.a = {da.data(), c.a, pitch, 1}, g.format = c.format;
  g.weights = dw.data(), g.weight_pitch = c.format == WeightFormat::kInt4 ? c.k / 2 : round_up(c.k, 16);
  g.scales = ds.data(), g.d = {d.data(), c.d, c.n, 1}, g.alpha = 0.5f, g.col_bias = dbias.as<float>();
  if (scaled) g.scale_a = one_scale.as<float>(), g.col_scale = dscale.as<float>(), g.activation = fused;
  static const Buffer workspace(std::vector<unsigned char>(gemm_workspace(), 0));  // zeroed once
  g.workspace = workspace.data(), g.workspace_bytes = gemm_workspace();
  std::vector<GemmConfig> configs(256);
  configs.resize(gemm_weight_only_candidates(g, configs.data(), 256));
  configs.push_back({});
  const int step = std::max(1, int(configs.size()) / most);
  int done = 0;
  for (size_t i = 0; i < configs.size(); i += step, done++) {
    g.config = configs[i];
    const bool alone = g.config.per_sm == 1 && g.config.tile_n <= 16;  // made to overlap nothing: both ways
    for (bool overlap : {false, true}) {
      if (!alone && overlap != (i % 2)) continue;
      g.overlap = overlap;
      char what[180];
      std::snprintf(what, sizeof what, "weights %d by %d, %lldx%lldx%lld%s: tile %dx%d split %d%s%s", int(c.format), int(c.a), (long long)c.m, (long long)c.n, (long long)c.k,
                    scaled ? " scaled" : "", g.config.tile_m, g.config.tile_n, g.config.split_k, g.config.schedule == GemmConfig::Schedule::kStreamK ? ", K dealt" : "", alone ? overlap ? " alone, overlapped" : " alone" : "");
      d.poison();
      STATUS_OK(gemm_weight_only(g, nullptr));
      const auto got = d.host<unsigned char>();
      if (fused != Activation::kNone) std::snprintf(what + std::strlen(what), sizeof what - std::strlen(what), " activation %d", int(fused));
      check::Results::all().add(what, got);
      for (int64_t e = 0; e < c.m * c.n; e++)
        check::expect_near(check::to_double(got.data(), e, c.d), want[e], bound[e], what, e / c.n, e % c.n);
      d.check_guards(what);
    }
  }
  return done;
}

int grouped(DType t, DType out, const std::vector<int32_t>& ends, int64_t rows, int64_t n, int64_t k, Activation fused = Activation::kNone) {
  check::Random random(n + k);
  const int size = size_of(t), groups = int(ends.size());
  const int64_t pitch = round_up(k, 16 / size);
  std::vector<unsigned char> a(rows * pitch * size, 0xFF), b(groups * n * pitch * size, 0xFF);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < k; j++) check::from_double(a.data(), i * pitch + j, t, random.spread(2));
  for (int64_t i = 0; i < groups * n; i++)
    for (int64_t j = 0; j < k; j++) check::from_double(b.data(), i * pitch + j, t, random.spread(2));
  const Buffer da(a), db(b), dends(ends);
  Buffer d(rows * n * size_of(out));
  GroupedGemmArgs g;
  g.rows = rows, g.n = n, g.k = k, g.groups = groups, g.group_ends = dends.as<int32_t>();
  g.a = {da.data(), t, pitch, 1}, g.b = db.data(), g.b_stride = pitch, g.d = {d.data(), out, n, 1}, g.alpha = 0.25f;
  std::vector<float> row_scale(rows, 1.f);
  if (fused != Activation::kNone)
    for (auto& v : row_scale) v = float(1.5 + random.symmetric());
  const Buffer dscale(row_scale), two_scales(std::vector<float>{0.75f, 1.25f});
  const double all_scales = fused != Activation::kNone ? 0.75 * 1.25 : 1;
  if (fused != Activation::kNone) g.scale_a = two_scales.as<float>(), g.scale_b = g.scale_a + 1, g.row_scale = dscale.as<float>(), g.activation = fused;
  int done = 0;
  for (auto schedule : {GemmConfig::Schedule::kAuto, GemmConfig::Schedule::kPingPong, GemmConfig::Schedule::kCooperative}) {
    g.config.schedule = schedule;
    d.poison();
    STATUS_OK(gemm_grouped(g, nullptr));
    const auto got = d.host<unsigned char>();
    char what[120];
    std::snprintf(what, sizeof what, "grouped %d %d, %lldx%lldx%lld schedule %d", int(t), int(out), (long long)rows, (long long)n, (long long)k, int(schedule));
    if (fused != Activation::kNone) std::snprintf(what + std::strlen(what), sizeof what - std::strlen(what), " activation %d", int(fused));
    check::Results::all().add(what, got);
    check::parallel(rows, [&](int64_t i) {
      int group = 0;
      while (group < groups && i >= ends[group]) group++;
      for (int64_t j = 0; j < n; j++) {
        if (group == groups) {  // left alone: still poison
          if (got[(i * n + j) * size_of(out)] != 0xFF) check::fail("grouped: wrote row %lld, which is in no group", (long long)i);
          continue;
        }
        double sum = 0, mass = 0;
        for (int64_t x = 0; x < k; x++) {
          const double v = check::to_double(a.data(), i * pitch + x, t) * check::to_double(b.data(), (group * n + j) * pitch + x, t);
          sum += v, mass += std::fabs(v);
        }
        const double scale = 0.25 * all_scales * row_scale[i], v = scale * sum, want = check::activated(v, fused);
        const double error = check::activation_error(v, scale * mass * (size == 1 ? (k / 32 + 4) * 0x1p-12 : (k / 8 + 6) * 0x1p-23), fused);
        check::expect_near(check::to_double(got.data(), i * n + j, out), want, error + check::rounding(out, std::fabs(want) + error),
                           "grouped", i, j);
      }
    });
    d.check_guards("grouped");
    done++;
  }
  return done;
}

void refusals() {
  Buffer x(1 << 16), y(1 << 16), z(1 << 16), s(1 << 16);
  WeightOnlyArgs g;
  g.m = 4, g.n = 64, g.k = 128, g.a = {x.data(), DType::kF16, 128, 1}, g.weights = y.data(), g.weight_pitch = 64, g.scales = s.data();
  g.d = {z.data(), DType::kF16, 64, 1};
  auto with = [&](auto change) { WeightOnlyArgs h = g; change(h); return gemm_weight_only(h, nullptr); };
  NAMES(with([](WeightOnlyArgs& h) { h.m = -1; }), "m");
  NAMES(with([](WeightOnlyArgs& h) { h.k = 120; }), "k");
  NAMES(with([](WeightOnlyArgs& h) { h.a.dtype = DType::kF32; }), "a.dtype");
  NAMES(with([](WeightOnlyArgs& h) { h.weights = nullptr; }), "weights");
  NAMES(with([](WeightOnlyArgs& h) { h.weight_pitch = 32; }), "weight_pitch");
  NAMES(with([](WeightOnlyArgs& h) { h.scales = nullptr; }), "scales");
  NAMES(with([](WeightOnlyArgs& h) { h.d.row_stride = 8; }), "d strides");
  Buffer room(std::vector<unsigned char>(gemm_workspace(), 0));
  using Schedule = GemmConfig::Schedule;
  const auto tiles = [&](WeightFormat format, int columns, int cluster_m, int cluster_n, int split, Schedule schedule = Schedule::kCooperative, size_t bytes = 0) {  // of many columns
    return with([=, &room](WeightOnlyArgs& h) {
      h.format = format, h.weight_pitch = 128, h.config.schedule = schedule, h.config.tile_m = 128, h.config.tile_n = columns;
      h.config.cluster_m = cluster_m, h.config.cluster_n = cluster_n, h.config.split_k = split;
      if (bytes) h.workspace = room.data(), h.workspace_bytes = bytes;
    });
  };
  STATUS_OK(tiles(WeightFormat::kE4M3, 256, 1, 1, 1, Schedule::kStreamK, gemm_workspace()));
  NAMES(tiles(WeightFormat::kE4M3, 256, 1, 1, 1, Schedule::kStreamK, gemm_workspace() - 1), "config");
  NAMES(tiles(WeightFormat::kE4M3, 256, 1, 1, 1, Schedule::kStreamK), "config");
  NAMES(tiles(WeightFormat::kE4M3, 256, 1, 1, 2, Schedule::kStreamK, gemm_workspace()), "config");
  STATUS_OK(tiles(WeightFormat::kE4M3, 128, 1, 1, 2, Schedule::kSplit));
  NAMES(tiles(WeightFormat::kE4M3, 128, 1, 1, 1, Schedule::kSplit), "config");
  NAMES(tiles(WeightFormat::kE4M3, 128, 1, 1, 4, Schedule::kSplit), "config");
  NAMES(tiles(WeightFormat::kE4M3, 128, 2, 1, 2, Schedule::kSplit), "config");
  NAMES(tiles(WeightFormat::kInt4, 128, 1, 1, 2, Schedule::kSplit), "config");
  STATUS_OK(tiles(WeightFormat::kE4M3, 128, 1, 1, 1));
  NAMES(tiles(WeightFormat::kE4M3, 128, 2, 1, 1), "config");
  NAMES(tiles(WeightFormat::kE4M3, 128, 1, 2, 1), "config");
  NAMES(tiles(WeightFormat::kE4M3, 128, 1, 1, 2), "config");
  NAMES(tiles(WeightFormat::kE4M3, 120, 1, 1, 1), "config");
  NAMES(tiles(WeightFormat::kInt4, 128, 1, 1, 1), "config");
  NAMES(with([](WeightOnlyArgs& h) { h.format = WeightFormat::kE4M3, h.weight_pitch = 112; }), "weight_pitch");
  NAMES(with([](WeightOnlyArgs& h) { h.format = WeightFormat::kE4M3, h.weight_pitch = 128, h.a.dtype = DType::kE4M3; }), "a.dtype");
  GroupedGemmArgs r;
  r.rows = 8, r.n = 64, r.k = 64, r.groups = 2, r.group_ends = s.as<int32_t>(), r.a = {x.data(), DType::kBF16, 64, 1};
  r.b = y.data(), r.b_stride = 64, r.d = {z.data(), DType::kBF16, 64, 1};
  auto group = [&](auto change) { GroupedGemmArgs h = r; change(h); return gemm_grouped(h, nullptr); };
  NAMES(group([](GroupedGemmArgs& h) { h.groups = -1; }), "groups");
  NAMES(group([](GroupedGemmArgs& h) { h.group_ends = nullptr; }), "group_ends");
  NAMES(group([](GroupedGemmArgs& h) { h.b_stride = 60; }), "b_stride");
  NAMES(group([](GroupedGemmArgs& h) { h.a.col_stride = 2; }), "a strides");
  NAMES(quantize_int4(z.data(), s.data(), x.data(), DType::kF16, 2, 100, nullptr), "cols");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  const auto B = DType::kBF16, H = DType::kF16, F = DType::kF32, E = DType::kE4M3;
  const auto I4 = WeightFormat::kInt4, E8 = WeightFormat::kE4M3;
  int runs = 0;
  if (argc > 1 && std::string(argv[argc - 1]) == "few") {  // for tools that take a hundred times as long
    for (const Case& c : {Case{I4, H, H, 33, 72, 256, 0}, Case{I4, B, B, 5, 72, 256, 0}, Case{E8, B, B, 20, 72, 200, 0}, Case{E8, H, H, 70, 136, 200, 0}, Case{E8, B, B, 140, 136, 200, 0}, Case{I4, H, H, 33, 40, 1024, 0}, Case{I4, H, H, 33, 40, 5120, 0}, Case{I4, B, B, 20, 72, 4224, 0}}) runs += weight_only(c, 100);
    return std::printf("PASS weights, few: %d runs\n", runs), 0;
  }
  refusals();
  for (const Case& c : {Case{I4, H, H, 1, 48, 256, 0}, Case{I4, H, F, 11, 35, 1152, 8}, Case{I4, B, B, 5, 64, 1280, 0}, Case{I4, B, B, 70, 40, 384, 0},
                        Case{I4, E, B, 3, 33, 640, 16}, Case{I4, E, H, 20, 64, 512, 0}, Case{E8, H, H, 2, 50, 1000, 0}, Case{E8, H, H, 33, 20, 531, 8}, Case{I4, H, H, 33, 200, 1280, 0}, Case{I4, B, B, 130, 136, 1152, 8}, Case{I4, H, H, 16, 72, 2048, 0}, Case{I4, B, B, 3, 40, 4096, 8}, Case{I4, H, F, 20, 33, 2048, 0}, Case{E8, B, B, 2, 50, 1000, 0}, Case{E8, B, F, 33, 20, 531, 8}, Case{E8, B, B, 70, 72, 640, 0}, Case{E8, H, H, 70, 72, 72, 0}})
    runs += weight_only(c, 100);
  if (!small)
    for (int64_t m : {1, 8, 16, 30, 128}) runs += weight_only({I4, H, H, m, 1024, 4096, 0}, 100) + weight_only({I4, B, B, m, 500, 2048, 0}, 100) + weight_only({E8, H, H, m, 300, 1100, 0}, 100) + weight_only({E8, B, B, m, 500, 2048, 0}, 100);
  for (const auto& [c, fused] : {std::pair{Case{I4, H, H, 5, 48, 384, 0}, Activation::kSilu}, {Case{I4, B, B, 40, 72, 384, 0}, Activation::kGelu}, {Case{I4, H, B, 7, 50, 2048, 0}, Activation::kSilu}, {Case{I4, E, B, 3, 40, 256, 0}, Activation::kRelu}, {Case{E8, H, F, 9, 50, 300, 0}, Activation::kSilu}})
    runs += weight_only(c, 20, true, fused);
  // e4m3 in tiles of many columns, of whose D the columns suit the copy engine or do not; the last with more tiles than a GPU has SMs.
  for (const Case& c : {Case{E8, H, H, 150, 200, 320, 8}, Case{E8, B, F, 270, 130, 200, 0}, Case{E8, H, B, 140, 136, 531, 8}}) runs += weight_only(c, 20, c.d != F);
  if (!small)  // more scales of a row than shared memory keeps
    for (const Case& c : {Case{I4, H, H, 70, 136, 5120, 0}, Case{I4, B, B, 20, 72, 8320, 8}, Case{I4, H, F, 128, 200, 14336, 0}}) runs += weight_only(c, 100);
  if (!small) runs += weight_only({E8, B, B, 2100, 1544, 304, 0}, 20, true) + weight_only({E8, H, H, 1000, 2064, 320, 0}, 20) + weight_only({E8, H, F, 260, 300, 200, 0}, 20, true, Activation::kGelu) + weight_only({E8, B, H, 3000, 2064, 200, 0}, 20);
  std::printf("ok weight-only: %d runs\n", runs);
  runs = 0;
  for (DType t : {B, H, E}) {
    runs += grouped(t, t == E ? B : t, {0, 40, 40, 173, 200}, 210, 136, 200);
    runs += grouped(t, F, {7, 9}, 9, 20, 72);
    runs += grouped(t, t == E ? B : t, {30, 30, 71}, 80, 40, 136, t == H ? Activation::kGelu : t == B ? Activation::kSilu : Activation::kRelu);
    if (!small) runs += grouped(t, t == E ? H : t, {100, 1000, 1001, 1001, 1500, 2048}, 2048, 512, 512);
  }
  std::printf("ok grouped: %d runs\nPASS weights\n", runs);
}
