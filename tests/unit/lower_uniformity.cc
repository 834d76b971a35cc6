// What is known of a warp's thread numbers without running anything.
#include <gtest/gtest.h>

#include "lower/uniformity.h"
#include "ptx/module.h"

namespace orrery::lower {
namespace {

/// The lanes of what the last instruction before ret writes; %t is %tid.x.
Lanes last(const std::string& code, BlockSize block, Pattern* pattern = nullptr) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n) {\n"
                                        ".reg .b32 %t, %n, %r<8>; mov.u32 %t, %tid.x;\n" + code + "ret; }\n", diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  Addresses addresses;
  addresses.function.assign(1, 0);
  const auto program = lower_kernel(module, 0, addresses).entry;
  const Uniformity u = find_uniformity(*program, block);
  const Lanes l = u.regs[program->code[program->code.size() - 2].ops[0].id];
  if (pattern) *pattern = u.pattern_of(l);
  return l;
}

Lanes tid_x(BlockSize block) { return last("", block); }

TEST(Uniformity, RowsThatBeginWithAWarp) {
  for (const BlockSize block : {BlockSize{32, 8}, {16, 16}, {8, 4, 3}, {32, 1, 4}, {24, 1}, {1, 64}}) {
    const Lanes l = tid_x(block);
    EXPECT_EQ(l.chunks, 1) << block.x << " x " << block.y << " x " << block.z;
    EXPECT_TRUE(l.constant && l.value == 0) << block.x << " x " << block.y << " x " << block.z;
  }
}

TEST(Uniformity, RowsThatDoNot) {
  for (const BlockSize block : {BlockSize{64, 2}, {256}, {24, 4}, {48, 2}}) EXPECT_FALSE(tid_x(block).constant) << block.x << " x " << block.y;
}

TEST(Uniformity, BitsThatDoNotMeetAreASum) {
  // (threadIdx.x + 512 & ~7) | (threadIdx.x & 7), as compilers write a tile's place.
  Pattern p;
  const Lanes l = last("add.u32 %r0, %t, 512; and.b32 %r1, %r0, 1073741816; and.b32 %r2, %t, 7; or.b32 %r3, %r1, %r2;\n", {256}, &p);
  ASSERT_EQ(l.chunks, 1);
  for (int i = 0; i < 32; i++) EXPECT_EQ(p[size_t(i)], i);
}

TEST(Uniformity, BitsBelowAMultiple) {
  // n * 128 | (threadIdx.x * 8 & 120): what is and-ed with a number is no greater.
  Pattern p;
  const Lanes l = last("ld.param.u32 %n, [n]; shl.b32 %r0, %n, 7; shl.b32 %r1, %t, 3; and.b32 %r2, %r1, 120; or.b32 %r3, %r0, %r2;\n", {256}, &p);
  ASSERT_EQ(l.chunks, 1);
  for (int i = 0; i < 32; i++) EXPECT_EQ(p[size_t(i)], i % 16 * 8);
}

TEST(Uniformity, BitsThatMeet) {
  EXPECT_TRUE(last("and.b32 %r1, %t, 12; and.b32 %r2, %t, 7; or.b32 %r3, %r1, %r2;\n", {256}).varies()) << "both may have bit 2";
  EXPECT_TRUE(last("ld.param.u32 %n, [n]; shl.b32 %r0, %n, 3; shl.b32 %r1, %t, 3; and.b32 %r2, %r1, 120; or.b32 %r3, %r0, %r2;\n", {256}).varies())
      << "the multiple of 8 may have the bits, too";
}

}  // namespace
}  // namespace orrery::lower
