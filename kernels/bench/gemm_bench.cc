// gemm against cuBLASLt: its default (first heuristic) and the best of all the candidates it offers, each timed.
//
//   gemm_bench TABLE [SEARCH_CSV [STRIDE [FIRST [few,warm,swap,small,large,shapes=MxNxK+...,only=NAME]]]]   TABLE: skinny_e4m3, skinny_f16, skinny_bf16, skinny_w4a16 (ours int4, theirs f16), skinny_w8a16, wide_w8a16 (ours e4m3 weights, theirs bf16), skinny_w8f16, wide_w8f16 (f16),
//                                              square_bf16, square_f16, square_e4m3, square_int8, square_e4m3_promoted; held_bf16, held_e4m3: shapes that no
//                                              table of ours has, with all our configurations timed and the one that prediction alone takes
//
// One CSV row per shape, cache state and implementation on stdout. With SEARCH_CSV every configuration of ours is timed
// as well and logged there (few: of large products only stream-K and the odd tile widths); without it only the chosen one (and all of cuBLASLt's) is.
// small, large: only products of up to 2e10 operations, of more than 1e11. shapes: only these (a space ends them). only: only configurations whose description begins so (several: NAME+NAME); last. warm: the flushed runs of square tables are left out. swap: of products up to 6e10 operations only configurations that swap.
// Before a configuration of ours is raced its D is compared with cuBLASLt's (of narrow weights: with the product of the same weights
// widened); one that differs leaves a line "# WRONG", its shape is not timed, and the exit status is 1.
#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "data.h"
#include "gemm_tables.h"
#include "measure.h"
#include "orrery/kernels.h"

using namespace orrery::kernels;
using bench::describe;
using bench::Device;
using bench::Replay;
using bench::Shape;
using bench::Table;

namespace {

// Of a search, that are timed in turns: more where power limits, as what was timed early ran at higher clocks.
constexpr size_t kFinalists = 6, kHotFinalists = 24;
constexpr double kHotFlop = 2e10;
constexpr int kHeatUs = 60000;  // of a large product's first candidate ahead of all
constexpr size_t kArena = size_t(3) << 30, kWorkspace = size_t(64) << 20;  // the library's; of ours, as much as it asks for

/// How ours is launched: on its own; as a dependent of the launch before it, which is the default of `gemm`; or so, with b constant.
enum class Mode { kPlain, kDefault, kConstant };

/// Operand sets in one arena; set i is used by launch i when flushed, set 0 when warm.
struct Arena {
  char* base;
  Arena() { BENCH_OK(cudaMalloc(&base, kArena)); }
};

struct Problem {
  const Table& table;
  Shape s;
  char* base;
  size_t a_bytes, b_bytes, d_bytes, set_bytes;
  Problem(const Table& t, Shape shape, char* arena) : table(t), s(shape), base(arena) {
    const auto up = [](size_t v) { return (v + 511) / 512 * 512; };
    a_bytes = up(s.m * s.k * size_of(t.in)), b_bytes = up(s.n * s.k * size_of(t.in)), d_bytes = up(s.m * s.n * size_of(t.out));
    set_bytes = a_bytes + b_bytes + d_bytes;
  }
  char* a(int i) const { return base + i * set_bytes; }
  char* b(int i) const { return a(i) + a_bytes; }
  char* d(int i) const { return b(i) + b_bytes; }
  /// At the arena's end: the library's D, and int4 weights widened.
  size_t kept_bytes() const { return s.m * s.n * 4 + (table.weight_bits ? s.n * s.k * 2 : 0); }
  char* kept() const { return base + kArena - kept_bytes() / 512 * 512 - 512; }
  char* widened() const { return kept() + s.m * s.n * 4; }
  int sets(int wanted) const { return std::max(1, std::min<int>(wanted, int((kArena - kept_bytes() - 1024) / set_bytes))); }
  GemmArgs args(int i) const {
    GemmArgs g;
    g.m = s.m, g.n = s.n, g.k = s.k;
    g.a = {a(i), table.in, s.k, 1};
    g.b = table.b_k_major ? ConstMatrix{b(i), table.in, 1, s.k} : ConstMatrix{b(i), table.in, s.n, 1};
    g.d = {d(i), table.out, s.n, 1};
    g.promote = !table.fast_accumulate;
    return g;
  }
  WeightOnlyArgs weight_args(int i) const {
    WeightOnlyArgs g;
    g.m = s.m, g.n = s.n, g.k = s.k, g.a = {a(i), table.in, s.k, 1}, g.weights = b(i), g.weight_pitch = s.k * table.weight_bits / 8;
    g.format = table.weight_bits == 4 ? WeightFormat::kInt4 : WeightFormat::kE4M3;
    g.scales = table.weight_bits == 4 ? b(i) + s.n * s.k / 2 : nullptr, g.d = {d(i), table.out, s.n, 1};
    return g;
  }
  double flop() const { return 2.0 * s.m * s.n * s.k; }
};

/// cuBLASLt sees the transposed, column-major problem D' = op(B)' A'.
class Vendor {
 public:
  explicit Vendor(cublasLtHandle_t handle, const Problem& p, void* workspace) : handle_(handle), workspace_(workspace) {
    const auto type = [](DType t) {
      return t == DType::kBF16 ? CUDA_R_16BF : t == DType::kF16 ? CUDA_R_16F : t == DType::kE4M3 ? CUDA_R_8F_E4M3 : t == DType::kI8 ? CUDA_R_8I : CUDA_R_32F;
    };
    const bool fp8 = p.table.in == DType::kE4M3;
    // fp8 needs m (here a column count) in multiples of 16: the rows beyond are computed and not used, as
    // callers of the library do.
    const int64_t m = fp8 ? (p.s.m + 15) / 16 * 16 : p.s.m;
    int8_ = p.table.in == DType::kI8;  // whose sums the library leaves as int32
    BENCH_OK(cublasLtMatmulDescCreate(&desc_, int8_ ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F, int8_ ? CUDA_R_32I : CUDA_R_32F));
    const cublasOperation_t ta = p.table.b_k_major ? CUBLAS_OP_T : CUBLAS_OP_N, tb = CUBLAS_OP_N;
    BENCH_OK(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
    BENCH_OK(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
    const int8_t fast = p.table.fast_accumulate;
    if (fp8) BENCH_OK(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
    const bool bk = p.table.b_k_major;
    BENCH_OK(cublasLtMatrixLayoutCreate(&a_, type(p.table.in), bk ? p.s.k : p.s.n, bk ? p.s.n : p.s.k, bk ? p.s.k : p.s.n));
    BENCH_OK(cublasLtMatrixLayoutCreate(&b_, type(p.table.in), p.s.k, m, p.s.k));
    BENCH_OK(cublasLtMatrixLayoutCreate(&d_, int8_ ? CUDA_R_32I : type(p.table.out), p.s.n, m, p.s.n));
    cublasLtMatmulPreference_t preference;
    BENCH_OK(cublasLtMatmulPreferenceCreate(&preference));
    BENCH_OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof kWorkspace));
    found_.resize(200);
    int count = 0;
    const cublasStatus_t ok = cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_, b_, d_, d_, preference, int(found_.size()), found_.data(), &count);
    found_.resize(ok == CUBLAS_STATUS_SUCCESS ? count : 0);
    cublasLtMatmulPreferenceDestroy(preference);
  }
  ~Vendor() {
    cublasLtMatrixLayoutDestroy(a_), cublasLtMatrixLayoutDestroy(b_), cublasLtMatrixLayoutDestroy(d_);
    cublasLtMatmulDescDestroy(desc_);
  }
  int count() const { return int(found_.size()); }
  bool run(const Problem& p, int candidate, int set, cudaStream_t stream) const { return run(p, candidate, p.b(set), set, stream); }
  bool run(const Problem& p, int candidate, const char* b, int set, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    const int32_t int_one = 1;  // zero is the same in both
    return cublasLtMatmul(handle_, desc_, int8_ ? static_cast<const void*>(&int_one) : &one, b, a_, p.a(set), b_, &zero, p.d(set), d_, p.d(set), d_,
                          &found_[candidate].algo, workspace_, kWorkspace, stream) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  cublasLtHandle_t handle_;
  void* workspace_;
  bool int8_;
  cublasLtMatmulDesc_t desc_;
  cublasLtMatrixLayout_t a_, b_, d_;
  std::vector<cublasLtMatmulHeuristicResult_t> found_;
};

struct Bench {
  Device device;
  Arena arena;
  void *workspace, *mine;
  float* worst;
  cublasLtHandle_t handle;
  FILE* search;
  bool few = false, warm_only = false, swaps = false, small = false, large = false, wrong = false;
  std::string only, shapes;
  Bench(FILE* f) : search(f) {
    BENCH_OK(cudaMalloc(&workspace, kWorkspace));
    BENCH_OK(cudaMalloc(&mine, gemm_workspace()));
    BENCH_OK(cudaMemset(mine, 0, gemm_workspace()));
    BENCH_OK(cudaMalloc(&worst, 8));
    BENCH_OK(cublasLtCreate(&handle));
  }

  void ours(const Problem& p, const GemmConfig& c, int set, Mode mode) {
    if (p.table.weight_bits) {
      WeightOnlyArgs w = with_workspace(p.weight_args(set));
      w.config = c, w.overlap = mode == Mode::kConstant;
      if (Status s = gemm_weight_only(w, device.stream); !s.ok()) std::exit((std::fprintf(stderr, "%s %s\n", s.argument ? s.argument : "", s.reason), 1));
      return;
    }
    GemmArgs g = p.args(set);
    g.config = c, g.overlap = mode != Mode::kPlain, g.constant_b = mode == Mode::kConstant;
    g.workspace = mine, g.workspace_bytes = gemm_workspace();
    if (Status s = gemm(g, device.stream); !s.ok()) {
      std::fprintf(stderr, "gemm %s: %s %s\n", describe(c).c_str(), s.argument ? s.argument : "", s.reason);
      std::exit(1);
    }
  }

  /// Leaves the library's D of set 0 where it is kept, as our type.
  bool keep_reference(const Problem& p, const Vendor& vendor) {
    const char* b = p.b(0);
    if (p.table.weight_bits) {
      const WeightOnlyArgs w = p.weight_args(0);
      if (p.table.weight_bits == 4) bench::widen_int4(p.widened(), w.weights, w.scales, p.s.n, p.s.k, p.table.in, device.stream);
      else bench::widen_e4m3(p.widened(), w.weights, p.s.n * p.s.k, p.table.in, device.stream);
      b = p.widened();
    }
    BENCH_OK(cudaMemsetAsync(p.d(0), 0xFF, p.d_bytes, device.stream));
    if (!vendor.run(p, 0, b, 0, device.stream)) return false;
    if (p.table.in == DType::kI8) bench::floats_of_int32(p.kept(), p.d(0), p.s.m * p.s.n, device.stream);
    else BENCH_OK(cudaMemcpyAsync(p.kept(), p.d(0), p.s.m * p.s.n * size_of(p.table.out), cudaMemcpyDeviceToDevice, device.stream));
    return true;
  }

  /// Whether our D in set 0 is the one that is kept, up to 2% of the largest value; says so if not.
  bool right(const Problem& p, const GemmConfig& c, Mode mode) {
    BENCH_OK(cudaMemsetAsync(p.d(0), 0xFF, p.d_bytes, device.stream));
    ours(p, c, 0, mode);
    BENCH_OK(cudaMemsetAsync(worst, 0, 8, device.stream));
    bench::largest_difference(p.d(0), p.kept(), p.s.m * p.s.n, p.table.out, worst, device.stream);
    float host[2];
    BENCH_OK(cudaMemcpyAsync(host, worst, 8, cudaMemcpyDeviceToHost, device.stream));
    BENCH_OK(cudaStreamSynchronize(device.stream));
    if (host[1] > 0 && host[0] < 0.02f * host[1]) return true;
    std::printf("# WRONG %s %s %lldx%lldx%lld: difference %g, largest value %g\n", p.table.name, describe(c).c_str(), (long long)p.s.m, (long long)p.s.n,
                (long long)p.s.k, host[0], host[1]);
    std::fflush(stdout);
    wrong = true;
    return false;
  }

  int launches(float us) const { return std::max(1, std::min(20, int(400 / us))); }

  /// Fastest of `count` candidates by a short measurement each, the first of them and those within a few per cent of it once more in turns; logs them all.
  template <class Run, class Name>
  std::pair<int, float> fastest(const Problem& p, const char* who, int count, bool flushed, Run run, Name name) {
    std::vector<std::pair<float, int>> found;
    float best_us = 1e30f, floor_us = float(p.flop() / 1.2e15 * 1e6);
    const auto log = [&](float us, int c) {
      if (search)
        std::fprintf(search, "%s,%lld,%lld,%lld,%s,%s,%.3f,%s\n", p.table.name, (long long)p.s.m, (long long)p.s.n, (long long)p.s.k, flushed ? "flushed" : "warm",
                     who, us, name(c).c_str());
    };
    const int n = p.sets(launches(std::max(5.f, floor_us)));
    const bool hot = p.flop() > kHotFlop;
    std::unique_ptr<Replay> heat;
    if (hot && count > 1) {
      heat = std::make_unique<Replay>(device, n, [&](int i) { run(0, flushed ? i : 0); });
      for (float us = 0; us < kHeatUs;) us += n * heat->once(flushed);
    }
    for (int c = 0; c < count; c++) {
      Replay replay(device, n, [&](int i) { run(c, flushed ? i : 0); });
      if (heat) heat->once(flushed);  // the chip has cooled while a graph was made
      replay.once(flushed);
      float us = replay.once(flushed);
      if (us < 1.3f * best_us) us = bench::median({us, replay.once(flushed), replay.once(flushed)});
      log(us, c);
      found.emplace_back(us, c), best_us = std::min(best_us, us);
    }
    // The first of them, which is what the table has, races in any case: apart it ran at other clocks than the last.
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return std::pair(a.second != 0, a) < std::pair(b.second != 0, b); });
    if (const size_t most = hot ? kHotFinalists : kFinalists; found.size() > most) found.resize(most);
    std::erase_if(found, [&](const auto& f) { return f.second != 0 && f.first > (hot ? 1.1f : 1.05f) * best_us; });
    if (found.size() == 1) return {found[0].second, best_us};
    // Apart they run at different clocks: how hot a kernel makes the chip shows in turns only.
    std::vector<std::unique_ptr<Replay>> replays;
    std::vector<Replay*> rivals;
    for (const auto& f : found) {
      replays.push_back(std::make_unique<Replay>(device, n, [&](int i) { run(f.second, flushed ? i : 0); }));
      rivals.push_back(replays.back().get());
    }
    const auto us = bench::race(rivals, 9, flushed);
    const size_t least = std::min_element(us.begin(), us.end()) - us.begin();
    for (size_t i = 0; i < found.size(); i++) log(us[i] / us[least] * best_us, found[i].second);  // comparable to what was timed apart
    return {found[least].second, us[least]};
  }

  /// Whether a description begins as one of those that are asked for, which stand between plus signs.
  bool named(const std::string& description) const {
    for (size_t at = 0; at < only.size();) {
      const size_t end = std::min(only.find('+', at), only.size());
      if (end > at && description.compare(0, end - at, only, at, end - at) == 0) return true;
      at = end + 1;
    }
    return false;
  }

  WeightOnlyArgs with_workspace(WeightOnlyArgs w) const {
    w.workspace = mine, w.workspace_bytes = gemm_workspace();
    return w;
  }

  /// What of ours is timed one by one to find the best.
  std::vector<GemmConfig> candidates(const Problem& p, const GemmArgs& args, const GemmConfig& chosen) const {
    if (!search && !p.table.held) {
      GemmArgs constant = args;
      constant.constant_b = true;
      return p.table.weight_bits ? std::vector<GemmConfig>{chosen} : std::vector<GemmConfig>{chosen, gemm_choose(constant)};
    }
    std::vector<GemmConfig> configs(4096);
    configs.resize(std::min(4096, p.table.weight_bits ? gemm_weight_only_candidates(with_workspace(p.weight_args(0)), configs.data(), 4096) : gemm_candidates(args, configs.data(), 4096)));
    // Of a large product only those that search has not seen yet, when asked: each takes milliseconds.
    if (swaps) std::erase_if(configs, [](const GemmConfig& c) { return !c.swap; });
    if (few && p.flop() > 2e10)
      std::erase_if(configs, [](const GemmConfig& c) {
        return c.schedule != GemmConfig::Schedule::kStreamK && (c.schedule != GemmConfig::Schedule::kCooperative || c.tile_n % 64 == 0 || c.stagger);
      });
    if (!only.empty()) std::erase_if(configs, [&](const GemmConfig& c) { return !named(describe(c)); });
    if (!p.table.weight_bits) configs.insert(configs.begin(), chosen);
    return configs;
  }

  void measure(const Problem& p) {
    const std::string shape = '+' + std::to_string(p.s.m) + 'x' + std::to_string(p.s.n) + 'x' + std::to_string(p.s.k) + '+';
    if (!shapes.empty() && shapes.find(shape) == std::string::npos) return;
    if ((swaps && p.flop() > 6e10) || (small && p.flop() > 2e10) || (large && p.flop() < 1e11)) return;
    Vendor vendor(handle, p, workspace);
    if (!vendor.count()) std::exit((std::fprintf(stderr, "cuBLASLt offers nothing for %lldx%lldx%lld\n", (long long)p.s.m, (long long)p.s.n, (long long)p.s.k), 1));
    for (int i = 0; i < p.sets(20); i++) {
      bench::fill_normal(p.a(i), p.a_bytes / size_of(p.table.in), p.table.in, 1 + i, device.stream);
      const DType b = p.table.weight_bits == 8 ? DType::kE4M3 : p.table.in;
      bench::fill_normal(p.b(i), p.b_bytes / size_of(b), b, 77 + i, device.stream);
    }
    BENCH_OK(cudaStreamSynchronize(device.stream));
    GemmArgs args = p.args(0);
    args.workspace = mine, args.workspace_bytes = gemm_workspace();
    const GemmConfig chosen = p.table.weight_bits ? GemmConfig{} : gemm_choose(args);
    const std::vector<GemmConfig> configs = candidates(p, args, chosen);
    const bool skinny = p.s.m <= 128 && p.s.n == 4096 && p.s.k == 4096;
    if (!keep_reference(p, vendor)) std::exit((std::fprintf(stderr, "cuBLASLt failed\n"), 1));
    if (!right(p, chosen, skinny ? Mode::kPlain : Mode::kDefault)) return;
    for (bool flushed : {false, true}) {
      if (flushed && !skinny && (warm_only || p.table.held || p.set_bytes > (size_t(96) << 20))) continue;  // large ones are the same either way
      measure(p, vendor, args, chosen, configs, skinny, flushed);
    }
  }

  void measure(const Problem& p, const Vendor& vendor, const GemmArgs& args, const GemmConfig& chosen, const std::vector<GemmConfig>& configs, bool skinny, bool flushed) {
    const Mode usual = skinny ? Mode::kPlain : Mode::kDefault, other = skinny ? Mode::kConstant : Mode::kPlain;
    const auto theirs = fastest(p, "cublaslt", vendor.count(), flushed, [&](int c, int set) { vendor.run(p, c, set, device.stream); },
                                [](int c) { return "candidate " + std::to_string(c); });
    const auto find = [&](const char* who, Mode mode) {
      return fastest(p, who, int(configs.size()), flushed, [&](int c, int set) { ours(p, configs[c], set, mode); }, [&](int c) { return describe(configs[c]); });
    };
    const auto mine = find("orrery", usual), soon = skinny ? find("orrery_overlap", Mode::kConstant) : mine;
    const GemmConfig best = configs[mine.first], last = p.table.held ? gemm_predict(args) : configs[soon.first];
    const Mode last_mode = p.table.held ? usual : other;
    if (!right(p, best, usual) || !right(p, last, last_mode)) return;
    const int n = p.sets(launches(mine.second));
    const auto at = [&](int i) { return flushed ? i : 0; };
    Replay a(device, n, [&](int i) { vendor.run(p, 0, at(i), device.stream); });
    Replay b(device, n, [&](int i) { vendor.run(p, theirs.first, at(i), device.stream); });
    Replay c(device, n, [&](int i) { ours(p, chosen, at(i), usual); });
    Replay d(device, n, [&](int i) { ours(p, best, at(i), usual); });
    Replay e(device, n, [&](int i) { ours(p, last, at(i), last_mode); });
    const auto us = bench::race({&a, &b, &c, &d, &e}, mine.second > 300 ? 11 : 21, flushed);
    const char* const who[] = {"cublaslt_default", "cublaslt_best", "orrery_chosen", "orrery_best", p.table.held ? "orrery_predicted" : skinny ? "orrery_overlap" : "orrery_plain"};
    const std::string detail[] = {"", "candidate " + std::to_string(theirs.first) + " of " + std::to_string(vendor.count()), describe(chosen), describe(best), describe(last)};
    for (int i = 0; i < 5; i++)
      std::printf("%s,%lld,%lld,%lld,%s,%s,%.3f,%.1f,%s\n", p.table.name, (long long)p.s.m, (long long)p.s.n, (long long)p.s.k,
                  flushed ? "flushed" : "warm", who[i], us[i], p.flop() / us[i] * 1e-6, detail[i].c_str());
    std::fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  FILE* search = argc > 2 && *argv[2] ? std::fopen(argv[2], "w") : nullptr;
  const int stride = argc > 3 ? std::atoi(argv[3]) : 1;  // every stride-th shape, from FIRST on: a quick look
  const int first = argc > 4 ? std::atoi(argv[4]) : 0;
  const std::string options = argc > 5 ? argv[5] : "";
  cudaDeviceProp prop;
  BENCH_OK(cudaGetDeviceProperties(&prop, 0));
  int driver = 0;
  BENCH_OK(cudaDriverGetVersion(&driver));
  std::printf("# %s, driver API %d, cuBLASLt %zu; us: median; columns: table,m,n,k,cache,who,us,tflops,detail\n", prop.name, driver, cublasLtGetVersion());
  auto run = std::make_unique<Bench>(search);
  run->few = options.find("few") != std::string::npos, run->warm_only = options.find("warm") != std::string::npos, run->swaps = options.find("swap") != std::string::npos;
  run->small = options.find("small") != std::string::npos, run->large = options.find("large") != std::string::npos;
  if (const size_t at = options.find("only="); at != std::string::npos) run->only = options.substr(at + 5);
  if (const size_t at = options.find("shapes="); at != std::string::npos)  // shapes=1024x1024x1024+64x64x64
    run->shapes = '+' + options.substr(at + 7, options.find_first_of(", ", at) - at - 7) + '+';
  for (const Table& t : bench::tables()) {
    if (argc < 2 || std::strcmp(argv[1], t.name)) continue;
    for (size_t i = first; i < t.shapes.size(); i += stride) run->measure(Problem(t, t.shapes[i], run->arena.base));
  }
  if (search) std::fclose(search);
  return run->wrong;
}
