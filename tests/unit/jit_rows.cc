// Which loop of a region warps take turns in.
#include <gtest/gtest.h>

#include "jit/rows.h"
#include "ptx/module.h"

namespace orrery::jit {
namespace {

/// The first instruction of the row loop of a kernel, as it is written; empty: there is none. %in: a pointer; %t: %tid.x;
/// %n: a number given at run time.
std::string row_loop(const std::string& body, uint32_t threads = 256) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u32 n) {\n"
      ".reg .f32 %f<8>; .reg .b64 %a, %b, %in; .reg .b32 %n, %i, %t, %c; .reg .pred %p, %q;\n"
      "ld.param.u64 %in, [in]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %i, %t; mov.f32 %f0, 0f00000000;\n"
      "mul.wide.u32 %b, %t, 4; add.s64 %a, %in, %b;\n" + body + "st.global.f32 [%in], %f0; ret; }\n", diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
  lower::Addresses addresses;
  addresses.function.assign(1, 0);
  const auto program = lower::lower_kernel(module, 0, addresses).entry;
  const Plan plan(*program, {threads, 1, 1});
  const auto schedule = lower::make_schedule(*program, 0, [&](uint32_t i) { return plan.ends_before(0, i); }, plan.uniformity.divergent);
  const uint32_t latch = find_row_loop(plan, schedule);
  if (latch == lower::kNone) return "";
  const auto& first = program->code[program->blocks[schedule.nodes[latch].block].first];
  return std::to_string(first.loc.line);
}

// Line 8 of the module is the first of the body.
const std::string kRows = "R: ld.global.f32 %f1, [%a]; add.f32 %f0, %f0, %f1; add.s64 %a, %a, 1024;\n"
                          "add.u32 %i, %i, 256; setp.lt.u32 %p, %i, %n; @%p bra R;\n";

TEST(RowLoop, ThatOfABlockWalkingThroughMemory) {
  EXPECT_EQ(row_loop(kRows), "8");
  EXPECT_EQ(row_loop(kRows, 64), "") << "two warps have nothing to take turns for";
  EXPECT_EQ(row_loop(kRows, 128), "8") << "two rows an iteration";
  EXPECT_EQ(row_loop(kRows, 192), "") << "the warps' pieces do not make rows";
}

TEST(RowLoop, TheUnrolledOneAfterAShortOne) {
  const std::string rest = "and.b32 %c, %t, 3;\nS: ld.global.f32 %f1, [%a]; add.f32 %f0, %f0, %f1; add.s64 %a, %a, 1024;\n"
                           "add.u32 %i, %i, 256; sub.u32 %c, %c, 1; setp.ne.u32 %q, %c, 0; @%q bra S;\n"
                           "mul.wide.u32 %b, %i, 4; add.s64 %a, %in, %b;\n";
  const std::string unrolled = "M: ld.global.f32 %f1, [%a]; ld.global.f32 %f2, [%a+1024]; add.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2;\n"
                               "add.s64 %a, %a, 2048; add.u32 %i, %i, 512; setp.lt.u32 %p, %i, %n; @%p bra M;\n";
  EXPECT_EQ(row_loop(rest + unrolled), "12") << "nothing is known of its addresses but that thread numbers make them";
}

TEST(RowLoop, ThatOfAGridWalkingThroughMemory) {
  const std::string loop = "G: mul.wide.u32 %b, %i, 4; add.s64 %a, %in, %b; ld.global.f32 %f1, [%a]; add.f32 %f0, %f0, %f1;\n"
                           "add.u32 %i, %i, %c; setp.lt.u32 %p, %i, %n; @%p bra G;\n";
  const std::string of_grid = "{ .reg .b32 %g, %w; mov.u32 %g, %nctaid.x; mov.u32 %w, %ntid.x; mul.lo.u32 %c, %w, %g; }\n";
  EXPECT_EQ(row_loop(of_grid + loop), "9");
  EXPECT_EQ(row_loop("mov.u32 %c, %n;\n" + loop), "") << "any number may be less than a row";
  EXPECT_EQ(row_loop("{ .reg .b32 %g; mov.u32 %g, %nctaid.y; mul.lo.u32 %c, %g, 256; }\n" + loop), "");
}

TEST(RowLoop, ThatOfAColumnWhichAllWarpsRead) {
  const auto loop = [](const std::string& index) {
    return "{ .reg .b32 %l; .reg .b64 %d, %e; " + index + " mul.wide.u32 %d, %l, 4; add.s64 %e, %in, %d;\n"
           "C: ld.global.f32 %f1, [%e]; add.f32 %f0, %f0, %f1; add.s64 %e, %e, 4224;\n"
           "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra C; }\n";
  };
  EXPECT_EQ(row_loop(loop("mov.u32 %l, %laneid;")), "9") << "another page every iteration";
  EXPECT_EQ(row_loop(loop("mov.u32 %l, %tid.x;")), "") << "each warp has columns of its own";
}

TEST(RowLoop, NotWhereAddressesComeFromMemory) {
  EXPECT_EQ(row_loop("ld.global.u32 %i, [%a]; mul.wide.u32 %b, %i, 4; add.s64 %a, %in, %b;\n" + kRows), "");
}

}  // namespace
}  // namespace orrery::jit
