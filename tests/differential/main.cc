// differential: random kernels on the interpreter and on compiled code, compared bit for bit.
//
//   differential [--first SEED] [--count N] [--seconds S] [--print] [--keep] [--verbose] [--walks]
//
// Seeds SEED, SEED+1, ... ; with --seconds until the time is over. A seed that differs is made smaller statement by
// statement (unless --keep) and printed as PTX with the first differences. --print shows the program of the first seed, --verbose
// names each seed before it runs (for one that crashes). --walks: programs that walk through memory (generate_walks).
// Exit status 1 when any seed differs. The interpreter is judged by recorded hardware elsewhere; here only agreement counts.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

#include "forms.h"
#include "generate.h"
#include "run.h"

using namespace differential;

namespace {

int fail(Program p, const std::string& text, bool keep) {
  const uint64_t seed = p.seed;
  if (!keep)
    p = shrink(std::move(p), [&](const Program& q) {
      const std::string d = difference(q);
      return !d.empty() && (d.starts_with("not valid") == text.starts_with("not valid"));
    });
  fmt::print("seed {}: block {} x {} x {}, grid {}\n{}\n{}\n", seed, p.block[0], p.block[1], p.block[2], p.grid, difference(p), p.text());
  std::fflush(stdout);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t first = 1, count = 60;
  double seconds = 0;
  bool print = false, keep = false, print_seeds = false;
  Program (*make)(uint64_t) = generate;
  for (int i = 1; i < argc; i++) {
    const std::string_view a = argv[i];
    auto value = [&] { return i + 1 < argc ? argv[++i] : "0"; };
    if (a == "--first") first = std::strtoull(value(), nullptr, 0);
    else if (a == "--count") count = std::strtoull(value(), nullptr, 0);
    else if (a == "--seconds") seconds = std::atof(value());
    else if (a == "--print") print = true;
    else if (a == "--verbose") print_seeds = true;
    else if (a == "--keep") keep = true;
    else if (a == "--walks") make = generate_walks;
    else return fmt::print(stderr, "usage: differential [--first SEED] [--count N] [--seconds S] [--print] [--keep] [--verbose] [--walks]\n"), 2;
  }
  setenv("ORRERY_CACHE", "off", 0);
  if (print) return fmt::print("{}", make(first).text()), 0;
  const auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int failures = 0, compiled = 0;
  uint64_t seed = first;
  for (; seconds > 0 ? elapsed() < seconds : seed < first + count; seed++) {
    if (print_seeds) fmt::print(stderr, "{}\n", seed);
    const std::string text = difference(make(seed), &compiled);
    if (!text.empty()) failures += fail(make(seed), text, keep);
    if (failures >= 5) break;
  }
  fmt::print("{} of {} programs differ; {} ran compiled; {} forms that only compute; {:.1f} s\n", failures, seed - first, compiled, pure_forms().size(), elapsed());
  return failures != 0;
}
