// gemm against float64: every candidate configuration of every operand type and layout, odd sizes, epilogues,
// strides that TMA does not take, and the arguments that must be refused.
// Bounds are those of gemm_reference.h.
#include <algorithm>

#include "gemm_reference.h"

using namespace orrery::kernels;
using check::Random;

namespace {

bool g_small = false;
constexpr size_t kCounterBytes = 4096;  // at the start of the workspace

void compare(const Case& c, const Reference& r, const check::Buffer& d, int64_t pitch, const std::string& what) {
  const auto host = d.host<unsigned char>();
  check::Results::all().add(what, host);
  for (size_t s = 0; s < r.want.size(); s++)
    check::expect_near(check::to_double(host.data(), r.rows[s] * pitch + r.cols[s], c.out), r.want[s], r.bound[s],
                       what.c_str(), r.rows[s], r.cols[s]);
  const std::vector<unsigned char> poison(size_of(c.out), 0xFF);
  for (int64_t i = 0; i + 1 < c.m; i++)  // the gap between rows stays as it was
    for (int64_t j = c.n; j < pitch; j++)
      if (std::memcmp(&host[(i * pitch + j) * size_of(c.out)], poison.data(), poison.size()))
        check::fail("%s: wrote between rows, at [%lld, %lld]", what.c_str(), (long long)i, (long long)j);
  d.check_guards(what.c_str());
}

int run(const Case& c, int most_configs) {
  Random random(c.m * 31 + c.n * 17 + c.k + int(c.in_a));
  const Operand a = make_operand(random, c.in_a, c.m, c.k, c.a_trans, c.pad);
  const Operand b = make_operand(random, c.in_b, c.k, c.n, !c.b_trans ? false : true, c.pad);
  std::vector<float> bias(c.n), row_scale(c.m), scale_a{c.in_a == DType::kI8 ? 0.5f / 225 : 0.5f};
  for (auto& v : bias) v = float(random.symmetric());
  for (auto& v : row_scale) v = float(random.symmetric() + 2);
  const check::Buffer da(a.host), db(b.host), dbias(bias), drow(row_scale), dscale(scale_a);
  const int64_t pitch = round_up(c.n, 8) + c.pad;
  check::Buffer d(size_t(((c.m - 1) * pitch + c.n) * size_of(c.out)));
  GemmArgs g;
  g.m = c.m, g.n = c.n, g.k = c.k;
  g.a = {da.data(), c.in_a, a.row_stride, a.col_stride};
  g.b = {db.data(), c.in_b, b.row_stride, b.col_stride};
  g.d = {d.data(), c.out, pitch, 1};
  g.alpha = 1.5f, g.scale_a = dscale.as<float>();
  g.promote = c.promote;
  if (c.epilogue) {
    g.row_scale = drow.as<float>(), g.col_bias = dbias.as<float>(), g.activation = Activation::kRelu;
  }
  const int64_t blocks = (c.k + 127) / 128;
  std::vector<float> block_a(c.m * blocks), block_b((c.n + 127) / 128 * blocks);
  for (auto* v : {&block_a, &block_b})
    for (float& x : *v) x = float(1.25 + 0.75 * random.symmetric());
  const check::Buffer dblock_a(block_a), dblock_b(block_b);
  if (c.blocks) g.block_scale_a = dblock_a.as<float>(), g.block_scale_b = dblock_b.as<float>();
  void* workspace = nullptr;  // fresh, so that what a product left behind in its counters shows
  CUDA_OK(cudaMalloc(&workspace, gemm_workspace()));
  CUDA_OK(cudaMemset(workspace, 0, kCounterBytes));
  g.workspace = workspace, g.workspace_bytes = gemm_workspace();
  const Reference r = reference(c, a, b, bias, row_scale, 1.5 * scale_a[0], block_a, block_b);
  std::vector<GemmConfig> configs(4096);
  configs.resize(std::min(4096, gemm_candidates(g, configs.data(), 4096)));
  if (c.only != GemmConfig::Schedule::kAuto)
    configs.erase(std::remove_if(configs.begin(), configs.end(), [&](const GemmConfig& g) { return g.schedule != c.only; }), configs.end());
  if (c.rows) std::erase_if(configs, [&](const GemmConfig& g) { return g.tile_m != c.rows || g.per_sm != c.per_sm || (c.split && g.split_k != c.split); });
  const bool built = std::any_of(configs.begin(), configs.end(), [](const GemmConfig& g) { return g.schedule == GemmConfig::Schedule::kPingPong; });
  if (c.turned) std::erase_if(configs, [](const GemmConfig& g) { return !g.swap || g.split_k != 1 || g.schedule == GemmConfig::Schedule::kDirect || g.schedule == GemmConfig::Schedule::kStream; });
  if (configs.empty() && (c.only == GemmConfig::Schedule::kStream || c.only == GemmConfig::Schedule::kStreamK || c.only == GemmConfig::Schedule::kParts || (c.turned && built))) check::fail("%s: no configuration", describe(c, {}).c_str());
  GemmConfig simple;
  simple.schedule = GemmConfig::Schedule::kSimple;
  configs.insert(configs.begin(), {gemm_choose(g), simple});
  const int step = std::max(1, int(configs.size()) / most_configs);
  int done = 0;
  for (size_t i = 0; i < configs.size(); i += i < 2 ? 1 : step) {
    g.config = configs[i];
    g.overlap = i % 2, g.constant_b = i % 4 == 1;
    d.poison();
    const std::string what = describe(c, g.config);
    if (Status s = gemm(g, nullptr); !s.ok())
      check::fail("%s: %s %s", what.c_str(), s.argument ? s.argument : "", s.reason);
    if (cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess)
      check::fail("%s: %s", what.c_str(), cudaGetErrorString(e));
    compare(c, r, d, pitch, what);
    done++;
  }
  std::vector<unsigned char> counters(kCounterBytes);
  CUDA_OK(cudaMemcpy(counters.data(), workspace, kCounterBytes, cudaMemcpyDeviceToHost));
  if (std::any_of(counters.begin(), counters.end(), [](unsigned char x) { return x != 0; })) check::fail("%s: counters of the workspace are not zero", describe(c, {}).c_str());
  CUDA_OK(cudaFree(workspace));
  return done;
}

void refusals() {
  check::Buffer x(1 << 16), y(1 << 16), z(1 << 16);
  GemmArgs g;
  g.m = g.n = g.k = 64;
  g.a = {x.data(), DType::kBF16, 64, 1}, g.b = {y.data(), DType::kBF16, 64, 1}, g.d = {z.data(), DType::kBF16, 64, 1};
  STATUS_OK(gemm(g, nullptr));
  auto with = [&](auto change) { GemmArgs h = g; change(h); return gemm(h, nullptr); };
  NAMES(with([](GemmArgs& h) { h.m = -1; }), "m");
  NAMES(with([](GemmArgs& h) { h.n = int64_t(1) << 40; }), "n");
  NAMES(with([](GemmArgs& h) { h.a.data = nullptr; }), "a.data");
  NAMES(with([](GemmArgs& h) { h.b.data = nullptr; }), "b.data");
  NAMES(with([](GemmArgs& h) { h.d.data = nullptr; }), "d.data");
  NAMES(with([](GemmArgs& h) { h.beta = 1; }), "c.data");
  NAMES(with([](GemmArgs& h) { h.b.dtype = DType::kF16; }), "b.dtype");
  NAMES(with([](GemmArgs& h) { h.d.dtype = DType::kE4M3; }), "d.dtype");
  NAMES(with([](GemmArgs& h) { h.d.row_stride = 32; }), "d strides");
  NAMES(with([](GemmArgs& h) { h.a.row_stride = -64; }), "a strides");
  NAMES(with([](GemmArgs& h) { h.block_scale_a = static_cast<const float*>(h.a.data); }), "block_scale_b");
  NAMES(with([](GemmArgs& h) { h.block_scale_a = h.block_scale_b = static_cast<const float*>(h.a.data); }), "block_scale_a");
  NAMES(with([](GemmArgs& h) { h.workspace_bytes = 1; }), "workspace");
  NAMES(with([](GemmArgs& h) { h.workspace = static_cast<char*>(h.d.data) + 16; }), "workspace");
  NAMES(with([](GemmArgs& h) { h.d.data = const_cast<void*>(h.a.data); }), "d.data");
  NAMES(with([](GemmArgs& h) { h.a.data = static_cast<const char*>(h.a.data) + 1; }), "a.data");
  NAMES(with([](GemmArgs& h) { h.config.schedule = GemmConfig::Schedule::kSplit; h.config.tile_m = 3; }), "config");
  CUDA_OK(cudaDeviceSynchronize());
}

/// Streamed tiles of fewer than 64 rows put parts of K under each other, which must be equal and whole slabs of 128 bytes. For them K with
/// an odd number of slabs is refused; where a part has an odd number of them, or tiles are of 64 rows, it is not.
void odd_slabs() {
  check::Buffer x(1 << 20), d(1 << 16);
  GemmArgs g;
  g.m = 13, g.n = 200, g.k = 1344;
  g.a = {x.data(), DType::kF16, g.k, 1}, g.b = {x.data(), DType::kF16, 1, g.k}, g.d = {d.data(), DType::kF16, g.n, 1};
  g.config.schedule = GemmConfig::Schedule::kStream, g.config.tile_m = 32, g.config.tile_n = 16, g.config.per_sm = 1, g.config.swap = true;
  NAMES(gemm(g, nullptr), "config");
  g.k = 1408;
  g.a.row_stride = g.b.col_stride = g.k;
  STATUS_OK(gemm(g, nullptr));
  g.m = 50, g.k = 1344, g.config.tile_m = 64, g.config.tile_n = 64;
  g.a.row_stride = g.b.col_stride = g.k;
  STATUS_OK(gemm(g, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
}

/// Launched plainly or as a dependent, the same bits; offered only where it can make a difference. In builds without bf16 nothing is.
void alone() {
  constexpr int64_t kM = 64, kN = 128, kK = 2304;
  Random random(3);
  const Operand a = make_operand(random, DType::kBF16, kM, kK, false, 0), b = make_operand(random, DType::kBF16, kK, kN, true, 0);
  const check::Buffer da(a.host), db(b.host);
  check::Buffer d(kM * kN * 2);
  GemmArgs g;
  g.m = kM, g.n = kN, g.k = kK;
  g.a = {da.data(), DType::kBF16, a.row_stride, a.col_stride}, g.b = {db.data(), DType::kBF16, b.row_stride, b.col_stride}, g.d = {d.data(), DType::kBF16, kN, 1};
  const auto offered = [&] {
    std::vector<GemmConfig> configs(4096);
    configs.resize(std::min(4096, gemm_candidates(g, configs.data(), 4096)));
    std::erase_if(configs, [](const GemmConfig& c) { return !c.alone; });
    return configs;
  };
  const auto result = [&](const GemmConfig& c) {
    g.config = c;
    d.poison();
    STATUS_OK(gemm(g, nullptr));
    CUDA_OK(cudaDeviceSynchronize());
    return d.host<uint16_t>();
  };
  const auto configs = offered();
  g.overlap = false;
  if (!offered().empty()) check::fail("alone is offered where nothing overlaps");
  g.overlap = true, g.k = 256;
  if (!offered().empty()) check::fail("alone is offered where K is short");
  g.k = kK;
  if (configs.empty()) return;  // no kernel of bf16 is built
  g.constant_b = true;  // it could read B early, which a launch alone cannot
  if (gemm_choose(g).alone) check::fail("alone is chosen where B may be read early");
  g.constant_b = false;
  GemmConfig dependent = configs[0];
  dependent.alone = false;
  if (result(configs[0]) != result(dependent)) check::fail("alone: other bits");
}

/// Few tiles with deep K are spread over more CTAs than there are tiles also where parts of K do not exist (int8) or have no workspace.
void few_tiles() {
  check::Buffer x(4096);
  for (DType t : {DType::kI8, DType::kE4M3}) {
    GemmArgs g;
    g.m = g.n = 64, g.k = 16384;
    g.a = {x.data(), t, g.k, 1}, g.b = {x.data(), t, 1, g.k}, g.d = {x.data(), t == DType::kI8 ? DType::kF32 : DType::kBF16, 64, 1};
    const GemmConfig c = gemm_choose(g);
    if (c.schedule == GemmConfig::Schedule::kSimple) continue;  // left out of this build
    const int64_t tiles = (64 + c.tile_m - 1) / c.tile_m * ((64 + c.tile_n - 1) / c.tile_n);
    if (c.schedule == GemmConfig::Schedule::kParts || tiles * c.split_k < 8) check::fail("64 x 64 x 16384 without parts: %lld CTAs", (long long)(tiles * c.split_k));
  }
}

/// What is best where D comes out turned round is not taken where it cannot, as with a bias.
void turned_with_bias() {
  check::Buffer x(4096);
  GemmArgs g;
  g.m = g.n = g.k = 1536;
  char* const at = x.data();
  g.a = {at, DType::kBF16, g.k, 1}, g.b = {at, DType::kBF16, g.n, 1}, g.d = {at, DType::kBF16, g.n, 1};
  if (!gemm_choose(g).swap) return;  // left out of this build
  g.col_bias = x.as<float>();
  if (gemm_choose(g).swap) check::fail("1536 x 1536 x 1536 with a bias: is computed turned round");
}

void group(const char* name, std::vector<Case> cases, int most_configs) {
  int done = 0;
  for (const Case& c : cases) done += run(c, most_configs);
  std::printf("ok %s: %zu products, %d runs\n", name, cases.size(), done);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  g_small = check::small_mode(argc, argv);
  refusals();
  alone();
  odd_slabs();
  few_tiles();
  turned_with_bias();
  const auto B = DType::kBF16, H = DType::kF16, F = DType::kF32, E4 = DType::kE4M3, E5 = DType::kE5M2, I = DType::kI8;
  const auto direct = [&](int most) {
    std::vector<Case> cases;
    for (DType t : {B, H, E4})
      for (int64_t m : {1, 7, 13, 32, 50})
        for (int64_t k : {16, 264, 1100})
          cases.push_back({t, t, m == 7 ? F : t == E4 ? B : t, false, true, m, k == 264 ? 131 : 72, k, false, m == 13, 8, GemmConfig::Schedule::kDirect});
    group("direct", cases, most);
  };
  const auto stream = [&](std::vector<int64_t> ms, int most) {
    std::vector<Case> cases;
    for (DType t : {B, H, E4, I})
      for (int64_t m : ms)
        for (int64_t k : {512, 1280, 3072})
          cases.push_back({t, t, m == 7 ? F : t == E4 || t == I ? B : t, false, true, m, k == 1280 ? 131 : 200, k, false, m == 13, 16, GemmConfig::Schedule::kStream});
    // K ends inside a box of two slabs.
    for (int64_t m : ms) cases.push_back({H, H, H, false, true, m, 200, 1408, false, m == 13, 16, GemmConfig::Schedule::kStream});
    group("stream", cases, most);
  };
  // And so in tiles of 64 rows, which do not cut K in parts: an odd number of slabs.
  const auto half_a_box = [&](std::vector<int64_t> ms, int most) {
    std::vector<Case> cases;
    for (DType t : {B, H, E4, I})
      for (int64_t m : ms)
        cases.push_back({t, t, m == 50 ? F : t == E4 || t == I ? B : t, false, true, m, 200, size_of(t) == 1 ? 1408 : 1344, false, m == 100, 16,
                         GemmConfig::Schedule::kStream, false, 64, 1});
    group("stream, half a box", cases, most);
  };
  // K of 64 rows shared by two CTAs and two groups of each: a stage for each group and no more, K that ends inside a box, rings that go round.
  const auto halves = [&](std::vector<int64_t> ms, int most) {
    std::vector<Case> cases;
    for (DType t : {B, H, E4})
      for (int64_t m : ms)
        for (int64_t k : {512, 1344, 3072})
          if (size_of(t) == 2 || k != 512)
            cases.push_back({t, t, m == 50 ? F : t == E4 ? B : t, false, true, m, k == 1344 ? 131 : 200, size_of(t) == 1 && k == 1344 ? 1408 : k, false, m == 100, m == 24 ? 0 : 16,
                             GemmConfig::Schedule::kStream, false, 64, 1, 2});
    group("stream, K in halves", cases, most);
  };
  // Tiles that fill no wave, deep K with few tiles, ends of every dimension inside tiles, general epilogues.
  const auto stream_k = [&](int most) {
    std::vector<Case> cases;
    const auto only = GemmConfig::Schedule::kStreamK;
    for (DType t : {B, H, E4, I}) {
      if (g_small && t != B) continue;
      cases.push_back({t, t, t == E4 || t == I ? B : t, false, true, 100, 152, g_small ? 1400 : 8192, false, false, 0, only});
      cases.push_back({t, t, F, false, true, 300, 136, g_small ? 648 : 4104, false, true, 16, only});
      if (g_small) continue;
      cases.push_back({t, t, t == E4 || t == I ? B : t, false, true, 1900, 2600, 1040, false, false, 0, only});
      cases.push_back({t, t, t == E4 || t == I ? B : t, false, true, 2304, 2304, 592, false, true, 0, only});
      if (t == B || t == H) cases.push_back({t, t, t, false, false, 1000, 3000, 4096, false, false, 0, only});
    }
    group("stream-k", cases, most);
  };
  // Parts of K that a second launch adds up: ends of every dimension inside tiles, rows of D that no box of the copy engine stores,
  // general epilogues, promoted sums and block scales.
  const auto parts = [&](int most) {
    std::vector<Case> cases;
    const auto only = GemmConfig::Schedule::kParts;
    for (DType t : {B, H, E4}) {
      if (g_small && t == H) continue;
      cases.push_back({t, t, t == E4 ? B : t, false, true, 100, 152, g_small ? 1400 : 8192, false, false, 0, only});
      cases.push_back({t, t, F, false, true, 70, 131, g_small ? 648 : 4104, false, true, 16, only});
      if (t == E4) cases.push_back({t, t, B, false, true, 130, 200, g_small ? 1040 : 4104, true, true, 0, only});
      if (t == E4) cases.push_back({t, t, B, false, true, 130, 200, g_small ? 1040 : 4104, false, false, 0, only, true});
      if (g_small) continue;
      cases.push_back({t, t, t == E4 ? B : t, false, true, 64, 64, 16384, false, false, 0, only});
      if (t != E4) cases.push_back({t, t, t, false, false, 256, 1024, 4096, false, false, 0, only});
      if (t != E4) cases.push_back({t, t, t, false, false, 256, 512, 2048, false, true, 0, only});
    }
    group("parts", cases, most);
  };
  // Products of row-major matrices computed as D' = B' A': ends of both dimensions inside tiles and inside what is stored at a time.
  const auto turned = [&](int most) {
    std::vector<Case> cases;
    for (DType t : {B, H})
      for (bool whole : {false, true}) {
        Case c{t, t, t, false, false, whole ? 256 : 203, whole ? 384 : 328, 200, false, false, whole ? 0 : 8};
        c.turned = true;
        cases.push_back(c);
      }
    for (bool whole : {false, true}) {  // K-major operands, in the widest tiles only
      Case c{E4, E4, B, false, true, whole ? 256 : 203, whole ? 384 : 328, 208, false, false, whole ? 0 : 16};
      c.turned = true;
      cases.push_back(c);
    }
    group("turned round", cases, most);
  };
  if (argc > 1 && !std::strcmp(argv[argc - 1], "turned")) {
    turned(400);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "parts")) {
    parts(g_small ? 100 : 400);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "tiles")) {  // every configuration of the tiled schedules, on one shape a layout
    using S = GemmConfig::Schedule;
    for (S only : {S::kSplit, S::kPingPong, S::kCooperative, S::kStreamK})
      group("tiles", {{B, B, B, false, false, 200, 320, 136, false, false, 0, only}, {H, H, F, true, true, 72, 136, 520, false, true, 0, only},
                      {E4, E4, B, false, true, 200, 208, 528, false, false, 0, only}}, 4000);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "stream_k")) {
    stream_k(g_small ? 100 : 400);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "stream")) {
    stream({1, 7, 13, 32, 50, 100, 128}, g_small ? 6 : 400);
    half_a_box({33, 50, 64, 100, 128}, 400);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "half")) {
    half_a_box({50, 128}, g_small ? 2 : 400);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "halves")) {
    halves({24, 50, 100}, 400);
    return 0;
  }
  if (argc > 1 && !std::strcmp(argv[argc - 1], "direct")) {
    direct(g_small ? 6 : 400);
    return 0;
  }
  if (g_small) {  // every type and layout; those that the build left out take the simple path
    for (DType t : {B, H})
      for (bool ta : {false, true})
        for (bool tb : {false, true}) group(t == B ? "bf16" : "f16", {{t, t, t, ta, tb, 70, 72, 136}, {t, t, F, ta, tb, 13, 136, 264, false, true, 8}, {t, t, t, ta, tb, 128, 320, 136}}, 5);
    group("f32 by tf32", {{F, F, F, false, true, 70, 72, 68, false, true}}, 5);
    for (bool promote : {false, true}) group("e4m3", {{E4, E4, B, false, true, 66, 72, 272, promote}, {E4, E4, F, false, true, 13, 136, 528, promote, true}}, 5);
    group("fp8 mixed", {{E5, E4, H, false, true, 66, 72, 272}}, 4);
    group("block scales", {{E4, E4, B, false, true, 70, 200, 400, false, false, 0, GemmConfig::Schedule::kAuto, true},
                           {E4, E4, F, false, true, 13, 136, 528, false, true, 0, GemmConfig::Schedule::kAuto, true}}, 6);
    group("int8", {{I, I, B, false, true, 66, 72, 272}, {I, I, F, false, true, 13, 136, 528, false, true}}, 5);
    group("unaligned", {{B, B, B, false, false, 33, 35, 37, false, true, 1}, {F, F, F, false, false, 33, 35, 37, false, true, 1}}, 4);
    direct(2);
    stream({7, 50}, 2);
    half_a_box({50, 128}, 2);
    halves({24, 50, 100}, 4);
    stream_k(3);
    parts(3);
    turned(4);
    std::printf("PASS gemm\n");
    return 0;
  }
  for (DType t : {B, H}) {
    const char* name = t == B ? "bf16" : "f16";
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        group(name, {{t, t, t, ta, tb, 300, 520, 200},
                     {t, t, F, ta, tb, 129, 257, 65},
                     {t, t, t, ta, tb, 13, 328, 1032},
                     {t, t, t, ta, tb, 520, 776, 264, false, true, 8},
                     {t, t, t, ta, tb, 320, 704, 328}}, 400);  // whole slabs of MN-major operands
    group(name, {{t, t, t, false, true, 2048, 1536, 1024}, {t, t, t, false, false, 1000, 3000, 4096}}, 60);
  }
  group("f32 by tf32", {{F, F, F, false, true, 300, 520, 200}, {F, F, F, false, true, 13, 328, 1032}}, 200);
  group("f32, simple", {{F, F, F, false, false, 65, 77, 91, false, true, 1}}, 4);
  group("unaligned bf16", {{B, B, B, false, false, 65, 77, 91, false, true, 1}}, 4);
  group("block scales", {{E4, E4, B, false, true, 300, 520, 400, false, false, 0, GemmConfig::Schedule::kAuto, true},
                         {E4, E4, F, false, true, 13, 328, 2064, false, true, 0, GemmConfig::Schedule::kAuto, true},
                         {E4, E4, B, false, true, 1000, 1032, 4096, false, false, 0, GemmConfig::Schedule::kAuto, true}}, 400);
  for (bool promote : {false, true})
    group(promote ? "e4m3 promoted" : "e4m3", {{E4, E4, B, false, true, 300, 520, 400, promote},
                                               {E4, E4, H, false, true, 13, 328, 2064, promote},
                                               {E4, E4, F, false, true, 129, 257, 130, promote},
                                               {E4, E4, B, false, true, 1000, 1032, 4096, promote, true}}, 400);
  group("int8", {{I, I, B, false, true, 300, 520, 400}, {I, I, F, false, true, 129, 257, 130}, {I, I, H, false, true, 1000, 1032, 4096, false, true}}, 200);
  group("fp8 mixed", {{E4, E5, B, false, true, 130, 264, 272}, {E5, E4, B, false, true, 130, 264, 272},
                      {E5, E5, B, false, true, 130, 264, 272}}, 60);
  direct(400);
  stream({1, 7, 13, 32, 50, 100, 128}, 400);
  half_a_box({33, 50, 64, 100, 128}, 400);
  halves({17, 24, 50, 64, 100, 128}, 400);
  stream_k(400);
  parts(400);
  turned(400);
  std::printf("PASS gemm\n");
}
