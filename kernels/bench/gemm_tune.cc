// Launches configurations of products once each, for `orrery time` to say what they would take: a search on a machine without a GPU.
//
//   gemm_tune TABLE MOST [MxNxK+... [CONFIGURATION]]
//
// TABLE: one of gemm_tables.h, or TABLE's types with these shapes instead of its own. Of each shape the MOST configurations that the roofline
// of gemm_choose puts first are launched (0: none, all are listed), one of each tile, cluster and split: in what order tiles are walked, whether one warpgroup starts
// late, and whether a launch overlaps the one before is not told apart. One CSV row each on stdout, in the order of launches: table, m, n, k, kernels
// launched (0: listed only), the roofline's microseconds, the configuration (CONFIGURATION: only those whose description begins so). A configuration launches one or two kernels (parts of K).
// bench/predict joins the rows with the times. Operands are copied from the host, random: where power limits, the clock depends on them.
// Not here: results, which nobody looks at.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "gemm.h"
#include "gemm_tables.h"

using namespace orrery::kernels;
using bench::Shape;
using bench::Table;

namespace {

[[noreturn]] void fail(const char* what, const char* why) { std::exit((std::fprintf(stderr, "gemm_tune: %s: %s\n", what, why), 1)); }

void* allocate(size_t bytes) {
  void* p = nullptr;
  if (const cudaError_t error = cudaMalloc(&p, bytes)) fail("cudaMalloc", cudaGetErrorString(error));
  return p;
}

/// Random numbers of both signs, from 1/2 on and below 2 (int8: any), as far as `bytes` go.
void fill(void* to, size_t bytes, DType t) {
  static const std::vector<uint32_t> random = [] {
    std::vector<uint32_t> words(1 << 20);
    std::mt19937 next(1);
    for (uint32_t& w : words) w = next();
    return words;
  }();
  // Bits that are random, and those that are set.
  const auto [free, set] = t == DType::kI8    ? std::pair{~0u, 0u}
                           : t == DType::kF32 ? std::pair{0x80ffffffu, 0x3f000000u}
                           : t == DType::kBF16 ? std::pair{0x80ff80ffu, 0x3f003f00u}
                           : t == DType::kF16  ? std::pair{0x87ff87ffu, 0x38003800u}
                           : t == DType::kE4M3 ? std::pair{0x8f8f8f8fu, 0x30303030u}
                                               : std::pair{0x87878787u, 0x38383838u};
  std::vector<uint32_t> words(random.size());
  for (size_t i = 0; i < words.size(); i++) words[i] = (random[i] & free) | set;
  for (size_t at = 0; at < bytes; at += words.size() * 4)
    if (const cudaError_t error = cudaMemcpy(static_cast<char*>(to) + at, words.data(), std::min(bytes - at, words.size() * 4), cudaMemcpyHostToDevice)) fail("cudaMemcpy", cudaGetErrorString(error));
}

/// "MxNxK+MxNxK"; nothing else.
std::vector<Shape> parse(const char* text) {
  std::vector<Shape> shapes;
  for (int used = 0; *text; text += used + (text[used] == '+')) {
    long long m, n, k;
    if (std::sscanf(text, "%lldx%lldx%lld%n", &m, &n, &k, &used) != 3 || (text[used] && text[used] != '+') || m <= 0 || n <= 0 || k <= 0) fail(text, "not MxNxK+...");
    shapes.push_back({m, n, k});
  }
  return shapes;
}

struct Candidate {
  GemmConfig config;
  double us;
};

/// All configurations that the roofline tells apart, the least of its times first; but every other one of those without clusters, whose cost the
/// roofline does not know (of 24 so dealt the best is 6% behind the best of all in the mean of 86 shapes that an H200 has timed, of its first 24 8%).
std::vector<Candidate> candidates(const GemmArgs& args) {
  std::vector<GemmConfig> all(size_t(gemm_candidates(args, nullptr, 0)));
  gemm_candidates(args, all.data(), int(all.size()));
  std::vector<Candidate> out;
  std::set<std::string> seen;
  for (GemmConfig& c : all) {
    c.raster = GemmConfig().raster, c.stagger = 0, c.alone = false;
    if (seen.insert(bench::describe(c)).second) out.push_back({c, predict_seconds(args, c) * 1e6});
  }
  std::stable_sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  const auto alone = [](const Candidate& c) { return c.config.cluster_m * c.config.cluster_n == 1; };
  for (size_t i = 1; i < out.size(); i += 2)
    if (const auto next = std::find_if(out.begin() + i, out.end(), alone); next != out.end()) std::rotate(out.begin() + i, next, next + 1);
  return out;
}

void tune(const Table& table, const Shape& s, size_t most, const std::string& only) {
  GemmArgs args;
  args.m = s.m, args.n = s.n, args.k = s.k;
  void *const a = allocate(s.m * s.k * size_of(table.in)), *const b = allocate(s.n * s.k * size_of(table.in)), *const d = allocate(s.m * s.n * size_of(table.out));
  fill(a, s.m * s.k * size_of(table.in), table.in), fill(b, s.n * s.k * size_of(table.in), table.in);
  args.a = {a, table.in, s.k, 1}, args.b = table.b_k_major ? ConstMatrix{b, table.in, 1, s.k} : ConstMatrix{b, table.in, s.n, 1};
  args.d = {d, table.out, s.n, 1}, args.promote = !table.fast_accumulate;
  args.workspace_bytes = gemm_workspace(), args.workspace = allocate(args.workspace_bytes);
  if (const cudaError_t error = cudaMemset(args.workspace, 0, args.workspace_bytes)) fail("cudaMemset", cudaGetErrorString(error));
  std::vector<Candidate> found = candidates(args);
  std::erase_if(found, [&](const Candidate& c) { return !bench::describe(c.config).starts_with(only); });
  if (found.empty()) fail(table.name, "this build has no such kernel for its types");
  for (size_t i = 0; i < found.size() && (!most || i < most); i++) {
    args.config = found[i].config;
    if (const Status status = most ? gemm(args, nullptr) : Status{}; !status.ok()) fail(bench::describe(args.config).c_str(), status.reason);
    const int launched = !most ? 0 : args.config.schedule == GemmConfig::Schedule::kParts ? 2 : 1;
    std::printf("%s,%lld,%lld,%lld,%d,%.3f,%s\n", table.name, (long long)s.m, (long long)s.n, (long long)s.k, launched, found[i].us, bench::describe(args.config).c_str());
    std::fflush(stdout);
  }
  for (void* p : {a, b, d, args.workspace}) cudaFree(p);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) fail("usage", "gemm_tune TABLE MOST [MxNxK+... [CONFIGURATION]]");
  for (const Table& table : bench::tables())
    if (!std::strcmp(argv[1], table.name)) {
      if (table.weight_bits) fail(table.name, "narrow weights are not searched here");
      for (const Shape& shape : argc > 3 ? parse(argv[3]) : table.shapes) tune(table, shape, size_t(std::max(0, std::atoi(argv[2]))), argc > 4 ? argv[4] : "");
      return 0;
    }
  fail(argv[1], "no such table");
}
