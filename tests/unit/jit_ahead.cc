// Which loads compiled code asks for some iterations early, and how far their addresses move.
#include <gtest/gtest.h>

#include "jit/plan.h"
#include "ptx/module.h"

namespace orrery::jit {
namespace {

const std::string kLoad = "ld.global.f32 %f0, [%a];\n", kBarrier = "bar.sync 0;\n";

/// What is asked for early of each load from and store to global memory but the last store.
std::vector<Ahead> accesses(const std::string& code) {
  std::vector<ptx::Diagnostic> diagnostics;
  static std::vector<std::unique_ptr<ptx::Module>> modules;
  modules.push_back(std::make_unique<ptx::Module>(ptx::parse(
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u32 n, .param .u64 w) {\n"
      ".reg .f32 %f<4>; .reg .b64 %a, %b, %c, %in, %w; .reg .b32 %n, %i, %j, %t, %x, %y, %b0; .reg .pred %q;\n"
      "ld.param.u64 %in, [in]; ld.param.u32 %n, [n]; ld.param.u64 %w, [w]; mov.u32 %t, %tid.x; mov.u32 %i, 0; mov.f32 %f1, 0f00000000;\n" +
      code + "st.global.f32 [%in], %f1; ret; }\n", diagnostics)));
  EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
  lower::Addresses addresses;
  addresses.function.assign(1, 0);
  const auto program = lower::lower_kernel(*modules.back(), 0, addresses).entry;
  const Plan plan(*program, {128, 1, 1});
  std::vector<Ahead> out;
  for (uint32_t i = 0; i < program->code.size(); i++)
    if (const auto& form = program->code[i].form; (form.op == isa::Op::ld || form.op == isa::Op::st) && form.n_spaces && form.space() == isa::Space::global)
      out.push_back(plan.ahead[i]);
  out.pop_back();
  return out;
}

/// `body` is a loop: it ends with %n counted down and a jump to AGAIN. %in: a pointer; %w: a number given at run time.
std::vector<Ahead> loads(const std::string& body) {
  return accesses("mul.wide.u32 %a, %t, 4; add.s64 %a, %in, %a;\nAGAIN:\n" + body +
                  "add.f32 %f1, %f1, %f0; sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra AGAIN;\n");
}

/// A load and a store of the block's element, at `index` (%x: the block's number).
std::vector<Ahead> of_block(const std::string& index) {
  return accesses("mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x;\n" + index + "mul.wide.u32 %c, %j, 4; add.s64 %a, %in, %c;\n" + kLoad + "st.global.f32 [%a], %f0;\n");
}

TEST(Ahead, TilesOfLoopsWithBarriers) {
  const auto found = loads(kLoad + kBarrier + "add.s64 %a, %a, 128;\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].iterations, 1);
  EXPECT_TRUE(found[0].near);
  EXPECT_TRUE(found[0].step.constant());
  EXPECT_EQ(found[0].step.factor, 128);
}

TEST(Ahead, StepsGivenByARegister) {
  const auto found = loads(kLoad + kBarrier + "add.s64 %a, %a, %w;\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].step.constant());
  EXPECT_EQ(found[0].step.factor, 1);
}

TEST(Ahead, StepsOfAnIndex) {
  const auto found = loads("mul.wide.u32 %c, %i, 4; add.s64 %b, %a, %c;\nld.global.f32 %f0, [%b];\nadd.u32 %i, %i, 1024;\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0].iterations, 1);
  EXPECT_FALSE(found[0].near);
  EXPECT_EQ(found[0].step.factor, 4096);
}

TEST(Ahead, LeavesTheRestToTheHost) {
  EXPECT_TRUE(loads(kLoad + "add.s64 %a, %a, 512;\n")[0].row) << "short steps without a barrier";
  EXPECT_EQ(loads(kLoad + "add.s64 %a, %a, 64;\n")[0].iterations, 0) << "shorter ones";
  EXPECT_EQ(loads(kLoad + kBarrier)[0].iterations, 0) << "the same address again";
  EXPECT_EQ(loads(kLoad + kBarrier + "add.s64 %a, %a, 4;\n")[0].iterations, 0) << "mostly the same line";
  EXPECT_EQ(loads(kLoad + kBarrier + "xor.b64 %a, %a, 4096;\n")[0].iterations, 0) << "moves otherwise";
  EXPECT_EQ(loads(kLoad + kBarrier + "add.s64 %a, %a, 128; @%q add.s64 %a, %a, 128;\n")[0].iterations, 0) << "two definitions";
}

TEST(Ahead, RowsThatBlocksReadAndWriteInOrder) {
  for (const char* index : {"mad.lo.u32 %j, %x, %y, %t;\n", "mad.lo.u32 %j, %y, %x, %t;\n", "shl.b32 %b0, %x, 7; add.u32 %j, %b0, %t;\n"}) {
    const auto found = of_block(index);
    ASSERT_EQ(found.size(), 2u);
    for (const Ahead& a : found) {
      EXPECT_TRUE(a.row) << index;
      EXPECT_EQ(a.step.factor, 512) << "bytes of a block";
      EXPECT_EQ(a.iterations * a.step.factor, 2048) << "half a page";
    }
  }
}

TEST(Ahead, BlocksThatDoNotMoveOn) {
  EXPECT_EQ(of_block("mov.u32 %j, %t;\n")[0].iterations, 0) << "all blocks read the same";
  EXPECT_EQ(of_block("mov.u32 %b0, %ctaid.y; mad.lo.u32 %j, %b0, 128, %t;\n")[0].iterations, 0) << "the next block along x reads the same";
  EXPECT_EQ(of_block("and.b32 %b0, %x, 1; mad.lo.u32 %j, %b0, 128, %t;\n")[0].iterations, 0) << "nobody knows";
}

}  // namespace
}  // namespace orrery::jit
