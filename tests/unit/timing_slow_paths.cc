// Quotients and roots whose operands are not ordinary, against what an H200 executed: calib/raw/h200-2026-11-27-quotients.jsonl.
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/demangle.h"
#include "timing/launch_choice.h"
#include "timing/slow_paths.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

const std::map<std::string, SlowPath> kPaths = {{"div_f32", SlowPath::div_f32}, {"rcp_f32", SlowPath::rcp_f32}, {"sqrt_f32", SlowPath::sqrt_f32},
                                                {"div_f64", SlowPath::div_f64}, {"rcp_f64", SlowPath::rcp_f64}, {"sqrt_f64", SlowPath::sqrt_f64}};

std::vector<nlohmann::json> measured() {
  std::vector<nlohmann::json> rows;
  std::ifstream in(ORRERY_SOURCE_DIR "/calib/raw/h200-2026-11-27-quotients.jsonl");
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

uint64_t bits(const nlohmann::json& j) { return std::stoull(j.get<std::string>(), nullptr, 16); }

/// A kernel of the same operation executes as many machine instructions more than for 1.5 (over 1.5) as the GPU did; which of two ways through the function's
/// scaling an operand takes is not always told apart (10 instructions).
TEST(SlowPaths, CallsAreThoseOfTheGpu) {
  std::map<std::string, int> ordinary;
  const std::vector<nlohmann::json> rows = measured();
  for (const auto& row : rows)
    if (row.value("a", "") == "40490fdb" || row.value("a", "") == "400921fb54442d18") {
      int& least = ordinary.try_emplace(row.at("operation"), INT32_MAX).first->second;
      least = std::min(least, row.at("instructions").get<int>());
    }
  int compared = 0, off = 0;
  for (const auto& row : rows) {
    const auto path = row.contains("operation") ? kPaths.find(row.at("operation")) : kPaths.end();
    if (path == kPaths.end()) continue;
    const int more = row.at("instructions").get<int>() - ordinary.at(path->first);
    const int told = int(slow_instructions(path->second, bits(row.at("a")), bits(row.at("b"))));
    compared++;
    off += told != more;
    // One quotient of a denormal is ordinary by the quotient that the test sees, which is not quite the exact one.
    if (row.at("operation") == "div_f64" && row.at("a") == "1000000000000000") continue;
    EXPECT_EQ(told > 0, more > 0) << row.dump();
    EXPECT_NEAR(told, more, 27) << row.dump();
  }
  EXPECT_GT(compared, 500);
  EXPECT_LT(off, compared / 2);
}

/// FCHK, by all pairs of exponents.
TEST(SlowPaths, TestOfExponents) {
  int compared = 0;
  for (const auto& row : measured()) {
    if (!row.contains("map")) continue;
    std::array<bool, 256> calls = {};
    for (const auto& range : row.at("calls"))
      for (int e = range[0]; e <= range[1]; e++) calls[size_t(e)] = true;
    const uint64_t numerator = row.at("numerator");
    for (uint64_t e = 0; e < 256; e++) EXPECT_EQ(slow_instructions(SlowPath::div_f32, numerator << 23, e << 23) > 0, calls[e]) << numerator << " over " << e;
    compared++;
  }
  EXPECT_EQ(compared, 256);
}

constexpr char kMachineCode[] = "machine code";

/// Machine instructions of a warp that makes `operation` of two words of memory.
double instructions(const std::string& operation, const std::string& type, uint64_t a, uint64_t b, uint32_t lanes = 32) {
  TestMachine m;
  const uint64_t from = m.allocate(1024), to = m.allocate(256);
  for (uint32_t lane = 0; lane < 32; lane++) {
    const uint64_t x = lane < lanes ? a : type == "f64" ? 0x3ff8000000000000 : 0x3fc00000, y = lane < lanes ? b : x;
    std::memcpy(reinterpret_cast<void*>(from + lane * 8), &x, 8), std::memcpy(reinterpret_cast<void*>(from + 256 + lane * 8), &y, 8);
  }
  const std::string reg = type == "f32" ? "%f" : type == "f64" ? "%g" : "%d", memory = type == "f32" || type == "f64" ? type : "u64";
  const bool two = operation.starts_with("div") || operation.starts_with("rem");
  const TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 8; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\nld.global." + memory + " " + reg +
                         "10, [%d4]; ld.global." + memory + " " + reg + "11, [%d4+256];\n" + operation + "." + type + " " + reg + "12, " + reg + "10" + (two ? ", " + reg + "11" : "") +
                         ";\nst.global." + memory + " [%d5], " + reg + "12; ret;",
                     {from, to});
  const Prediction p = m.predicted(k);
  return p.method == kMachineCode ? p.instructions : 0;
}

TEST(SlowPaths, AreGoneThroughInMachineCode) {
  const double ordinary = instructions("div.rn", "f32", 0x40490fdb, 0x3fc00000);
  if (ordinary == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_EQ(instructions("div.rn", "f32", 0, 0x3fc00000) - ordinary, 34) << "66 for 32 on an H200";
  EXPECT_EQ(instructions("div.rn", "f32", 0, 0x3fc00000, 1) - ordinary, 34) << "one lane is enough";
  const double wide = instructions("div.rn", "f64", 0x400921fb54442d18, 0x3ff8000000000000);
  EXPECT_NEAR(instructions("div.rn", "f64", 0, 0x3ff8000000000000) - wide, 63, 2) << "101 for 38";
  const double root = instructions("sqrt.rn", "f64", 0x400921fb54442d18, 0);
  EXPECT_NEAR(instructions("sqrt.rn", "f64", 0, 0) - root, 14, 2) << "51 for 37";
  EXPECT_GT(instructions("div", "u64", 7, 3), 67 + 8) << "a quotient of 64-bit integers alone is 67 (91 less the 24 around it): its function is called always";
}

TEST(LaunchChoice, NamesAreTheFunctionsAlone) {
  const auto chosen = [](const std::string& kernel, const std::string& mangled) { return LaunchChoice({.kernel = kernel}).next(mangled).choice == Choice::time; };
  EXPECT_TRUE(chosen("scale", "_ZN2ns5scaleIfLi4EEEvPT_i")) << "void ns::scale<float, 4>(float*, int)";
  EXPECT_FALSE(chosen("cale", "_ZN2ns5scaleIfLi4EEEvPT_i"));
  EXPECT_FALSE(chosen("ns", "_ZN2ns5scaleIfLi4EEEvPT_i"));
  EXPECT_TRUE(chosen("regex:^sc.l", "_ZN2ns5scaleIfLi4EEEvPT_i"));
  EXPECT_TRUE(chosen("hidden", "_ZN12_GLOBAL__N_16hiddenEPf")) << "(anonymous namespace)::hidden(float*)";
  EXPECT_TRUE(chosen("plain", "plain")) << "extern C";
  EXPECT_THROW(LaunchChoice({.kernel = "regex:("}), std::runtime_error);
}

TEST(Names, LongOnesAreBrief) {
  EXPECT_EQ(base::brief("void ns::scale<float, 4>(float*, int)"), "void ns::scale<float, 4>(float*, int)");
  EXPECT_EQ(base::brief("void ns::scale<float, 4>(float*, int)", 20), "scale<...>(...)");
  EXPECT_EQ(base::brief("ns::scale(float*, int)", 10), "scale(...)");
  EXPECT_EQ(base::brief("a_long_name_of_c", 10), "a_long_name_of_c");
}

TEST(LaunchChoice, CountsWhatMatches) {
  LaunchChoice choice({.kernel = "a", .skip = 1, .count = 2, .kill = true});
  const auto next = [&](const char* name) { return choice.next(name).choice; };
  EXPECT_EQ(next("a"), Choice::pass);
  EXPECT_EQ(next("b"), Choice::pass);
  EXPECT_EQ(next("a"), Choice::time);
  EXPECT_EQ(next("a"), Choice::time);
  EXPECT_FALSE(choice.over(1));
  EXPECT_TRUE(choice.over(2)) << "the program ends with the last that is timed";
  EXPECT_EQ(next("a"), Choice::end);
}

}  // namespace
}  // namespace orrery::timing
