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

/// Cycles of the SM that an asynchronous copy of a warp takes, of 4 bytes a lane whose lanes lie in rows of `lanes`, or past L1 of 16 beside four loads of words from
/// shared memory.
double copy_cycles(uint32_t lanes, bool past) {
  constexpr uint32_t kTurns = 500;
  TestMachine m;
  const uint64_t in = m.allocate(1 << 16);
  const std::string bytes = past ? "16" : "4", how = past ? "cg" : "ca";
  std::string copies, loads;
  for (int i = 0; i < 4; i++)
    copies += "cp.async." + how + ".shared.global [%r5+" + std::to_string(i * 256 * (past ? 16 : 4)) + "], [%d1+" + std::to_string(i * lanes * (past ? 16 : 4) % 512) + "], " + bytes + ";\n";
  for (int i = 0; past && i < 16; i++) loads += "ld.shared.f32 %f" + std::to_string(1 + i) + ", [%r6+" + std::to_string(i * 128) + "]; add.f32 %f0, %f0, %f" + std::to_string(1 + i) + ";\n";
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; mul.wide.u32 %d2, %r2, 2048; add.s64 %d1, %d1, %d2;
    div.u32 %r4, %r3, )" + std::to_string(lanes) + "; mul.wide.u32 %d3, %r4, 512; add.s64 %d1, %d1, %d3; rem.u32 %r4, %r3, " + std::to_string(lanes) + "; mul.wide.u32 %d4, %r4, " + bytes + R"(;
    add.s64 %d1, %d1, %d4; mov.u32 %r5, room; shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r5; mad.lo.u32 %r5, %r1, )" + bytes + R"(, %r5; mov.f32 %f0, 0f00000000; mov.u32 %r7, 0;
    A: .pragma "nounroll";
    )" + copies + "cp.async.commit_group; cp.async.wait_group 1;\n" + loads + R"( add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r9; @%p1 bra A;
    cp.async.wait_all; st.shared.f32 [%r6], %f0; ret;)",
                     {in, kTurns}, {528}, {256}, ".shared .align 16 .b8 room[20480];");
  const Prediction p = m.predicted(k);
  return p.method == "machine code" ? (p.cycles - 3000) / (kTurns * 4 * 32) : 0;
}

/// [async_rate_copy4/4, _rows2/4, _rows4/4 and past16_rows4_beside/4 of calib/raw/h200-2026-11-29-async-rates.jsonl: 410, 542, 784 and 969 us of 64,000 copies an SM].
TEST(TimingMixes, ACopyTakesThePipeForEachOfItsLines) {
  const double one = copy_cycles(32, false);
  if (one == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(one, 3.15, 0.3);
  EXPECT_NEAR(copy_cycles(16, false), 4.17, 0.4);
  EXPECT_NEAR(copy_cycles(8, false), 6.04, 0.6);
  EXPECT_NEAR(copy_cycles(8, true), 7.47, 1.2);
}

}  // namespace
}  // namespace orrery::timing
