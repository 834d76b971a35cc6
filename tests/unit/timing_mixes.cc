// What a sub-core issues side by side, by what an H200 takes for it: calib/raw/h200-2026-11-27-instruction-mixes.jsonl (32 warps of an SM; the
// names of mixes are those of calib/mixes.py). With ptxas only: mixes are of machine instructions.
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// Cycles of a sub-core that a turn of one of 32 warps takes, of a loop around `body`; 0 without ptxas.
double cycles_of(const std::string& body) {
  TestMachine m;
  const uint64_t out = m.allocate(8192);
  const auto cycles = [&](uint64_t turns) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u32 %r7, [p1]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f20, %r7; cvt.rn.f32.u32 %f21, %r1;
      .reg .b64 %q<6>; .reg .b32 %u<6>, %v<6>, %w<6>, %s<6>, %lo, %hi; .reg .f32 %x<6>;
      mov.u32 %r8, 5; add.u32 %r8, %r8, %r7; mov.u32 %r9, 9; add.u32 %r9, %r9, %r1;
      )" + [] {
        std::string made;
        for (int i = 0; i < 6; i++) {
          const std::string n = std::to_string(i);
          made += "add.u32 %u" + n + ", %r1, " + n + "; mul.lo.u32 %v" + n + ", %u" + n + ", 3; mov.u32 %w" + n + ", %u" + n + "; mad.lo.u32 %s" + n + ", %r7, " + n +
                  ", 7; cvt.rn.f32.u32 %x" + n + ", %u" + n + "; mul.wide.u32 %q" + n + ", %u" + n + ", 591751049;\n";
        }
        return made;
      }() + R"(
      mov.u32 %r3, 0;
      A: .pragma "nounroll";
      )" + body + R"(
      add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r7; @%p1 bra A;
      mov.u32 %r20, 0;
      )" + [] {
        std::string used;
        for (int i = 0; i < 6; i++) {
          const std::string n = std::to_string(i);
          used += "xor.b32 %r20, %r20, %u" + n + "; xor.b32 %r20, %r20, %v" + n + "; xor.b32 %r20, %r20, %w" + n + "; xor.b32 %r20, %r20, %s" + n + "; mov.b32 %r21, %x" + n +
                  "; xor.b32 %r20, %r20, %r21; mov.b64 {%lo, %hi}, %q" + n + "; xor.b32 %r20, %r20, %lo; xor.b32 %r20, %r20, %hi;\n";
        }
        return used;
      }() + "mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; st.global.u32 [%d2], %r20; ret;",
                       {out, turns}, {1}, {1024});
    const Prediction p = m.predicted(k);
    return p.method == "machine code" ? p.cycles : 0;
  };
  const double few = cycles(10);
  return few == 0 ? 0 : (cycles(30) - few) / (20 * 8);
}

/// `count` operations in all, those of `makers` in turn; each gets the numbers of a register, of the next and of the one after, of six.
using Maker = std::string (*)(const std::string& r, const std::string& n, const std::string& o);
std::string mix(std::initializer_list<Maker> makers, int count) {
  std::string body;
  std::vector<int> used(makers.size());
  for (int made = 0; made < count;)
    for (size_t k = 0; k < makers.size(); k++, made++) {
      const int r = used[k]++ % 6;
      body += makers.begin()[k](std::to_string(r), std::to_string((r + 1) % 6), std::to_string((r + 2) % 6)) + "\n";
    }
  return body;
}
std::string wide(const std::string& r, const std::string& n, const std::string& o) {
  return "{ .reg .b32 a, b, c, d; mov.b64 {a, b}, %q" + n + "; mov.b64 {c, d}, %q" + o + "; mul.wide.u32 %q" + r + ", a, d; }";
}
std::string logic(const std::string& r, const std::string&, const std::string&) { return "lop3.b32 %u" + r + ", %u" + r + ", %r8, %r9, 0x96;"; }
std::string more_logic(const std::string& r, const std::string& n, const std::string& o) { return logic(n, o, r); }
std::string halves(const std::string& r, const std::string&, const std::string&) { return "fma.rn.f16x2 %w" + r + ", %w" + r + ", %r8, %r8;"; }
std::string indexed(const std::string& r, const std::string& n, const std::string&) {
  return "mad.wide.s32 %q" + r + ", %v" + n + ", 4, %q" + r + "; cvt.u32.u64 %v" + r + ", %q" + r + ";";
}

TEST(TimingMixes, WideProductsHoldLogicUp) {
  const double cycles = cycles_of(mix({wide, logic, more_logic}, 96));
  if (cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(cycles, 193.45, 12) << "YLL: 32 products and 64 pieces of logic, which alone take 128 cycles each";
}

TEST(TimingMixes, HalvesShareThePipesOfWideProducts) {
  const double cycles = cycles_of(mix({wide, halves}, 96));
  if (cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(cycles, 250, 17) << "YH: every other product of halves takes the pipe of products";
}

/// A product by four and a sum of 64 bits become two instructions of one name (LEA, LEA.HI.X): they are not two turns of the loop.
TEST(TimingMixes, HalvesOfASumAreNotTurnsOfALoop) {
  const double cycles = cycles_of(mix({indexed}, 24));
  if (cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(cycles, 99.3, 8) << "J: 48 instructions of half rate";
}

}  // namespace
}  // namespace orrery::timing
