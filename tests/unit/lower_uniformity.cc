// What is known of a warp's thread numbers without running anything.
#include <gtest/gtest.h>

#include "lower/uniformity.h"
#include "ptx/module.h"

namespace orrery::lower {
namespace {

/// The lanes of %tid.x in a block of that size.
Lanes tid_x(BlockSize block) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b32 %t; mov.u32 %t, %tid.x; ret; }\n", diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  Addresses addresses;
  addresses.function.assign(1, 0);
  const auto program = lower_kernel(module, 0, addresses).entry;
  return find_uniformity(*program, block).regs[program->code[0].ops[0].id];
}

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

}  // namespace
}  // namespace orrery::lower
