// Texts that modules become when they are linked, with ptxas as the judge: it assembles them as one.
#include <algorithm>

#include "base/demangle.h"
#include "timing/assemble.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kCaller[] = R"(.version 8.3
.target sm_90a
.address_size 64
.weak .global .align 8 .u64 line_size = 128;
.weak .global .align 4 .b8 words[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.extern .global .align 4 .u32 there;
.weak .func (.param .b32 r) same(
  .param .b32 x
)
{
  .reg .b32 %r<2>; { ld.param.b32 %r1, [x]; }
  st.param.b32 [r], %r1; ret;
}
.weak .func most () { ret; }
.extern .func (.param .b32 r) twice (.param .b32 x);
.extern .func nothing ();
.visible .entry k(.param .u64 p)
{ .reg .b32 %r<3>; .reg .b64 %d<2>; ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1];
  { .param .b32 in; .param .b32 out; st.param.b32 [in], %r1; call (out), twice, (in); ld.param.b32 %r2, [out]; }
  call nothing; call most; ld.global.u32 %r1, [there]; add.u32 %r2, %r2, %r1; ld.global.u32 %r1, [words+4]; add.u32 %r2, %r2, %r1; ld.global.u32 %r1, [line_size];
  add.u32 %r2, %r2, %r1; { .param .b32 in; .param .b32 out; st.param.b32 [in], %r2; call (out), same, (in); ld.param.b32 %r2, [out]; } st.global.u32 [%d1], %r2; ret; }
)";
constexpr char kCalled[] = R"(.version 8.3
.target sm_90a
.address_size 64
.weak .global .align 8 .u64 line_size = 128;
.weak .global .align 4 .b8 words[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.visible .global .align 4 .u32 there = 7;
.weak .func (.param .b32 r) same(
  .param .b32 x
)
{
  .reg .b32 %r<2>; { ld.param.b32 %r1, [x]; }
  st.param.b32 [r], %r1; ret;
}
.visible .func most () { ret; }
.visible .func (.param .b32 r) twice (.param .b32 x)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.weak .func nothing () { ret; }
)";

TEST(Assemble, LinkedModulesAreOneText) {
  std::vector<ptx::Diagnostic> diagnostics;
  std::vector<ptx::Module> parts;
  for (const char* text : {kCaller, kCalled}) parts.push_back(ptx::parse(text, diagnostics));
  const ptx::Module whole = ptx::link(std::move(parts), diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << diagnostics[0].message;
  EXPECT_EQ(std::count(whole.text.begin(), whole.text.end(), '\n'), std::count(std::begin(kCaller), std::end(kCaller), '\n') + std::count(std::begin(kCalled), std::end(kCalled), '\n'));
  if (find_ptxas().empty()) GTEST_SKIP() << "no ptxas";
  std::string why;
  const auto code = assemble(Layout(whole.text), whole.target, "k", 90, true, why);
  ASSERT_TRUE(code) << why;
  EXPECT_GE(code->size(), 1u);
}

/// What is compiled to be linked keeps functions that others may call; a program of one file has none of them (nvcc -rdc=true and without).
TEST(Assemble, RelocatableCodeIsCompiledAsSuch) {
  if (find_ptxas().empty()) GTEST_SKIP() << "no ptxas";
  constexpr char kText[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.visible .entry k() { ret; }
)";
  const auto has_function = [&](bool relocatable) {
    std::string why;
    const auto code = assemble(Layout(kText), "sm_90", "k", 90, relocatable, why);
    EXPECT_TRUE(code) << why;
    return code && std::any_of(code->begin(), code->end(), [](const MachineCode& c) { return c.name == "twice"; });
  };
  EXPECT_TRUE(has_function(true));
  EXPECT_FALSE(has_function(false));
}

TEST(Assemble, NamesOfOneFileOfSeveralAreDemangled) {
  EXPECT_EQ(base::demangled("__nv_static_29__f8685950_8_force_cu_ce71ce99__Z9gpu_forceLPfS_"), base::demangled("_Z9gpu_forceLPfS_"));
  EXPECT_EQ(base::demangled("__nv_static_29__f8685950_8_force_cu_ce71ce99_19411__Z5scalefPf"), "scale(float, float*)");
}

}  // namespace
}  // namespace orrery::timing
