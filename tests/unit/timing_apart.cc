// Which requests of SMs become one, predicted: what a profiler counted on an H200 (calib/raw/h200-2026-11-29-locked.jsonl and -free.jsonl, sectors of L2 over
// sectors that arrive at SMs). Expected values are measurements, never the model's. Without ptxas there is no machine code to time: skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr uint32_t kSteps = 64;

/// Blocks of 256 threads that read 4 KB a step, the same 64 KB again and again, and do `rounds` of eight products on it between two barriers: the share of
/// what SMs ask for that comes to L2. `square`: 16 x 16 blocks that read 4 KB more by their column, each row and column its own and all of it new.
double left(uint32_t blocks, uint32_t held, uint32_t rounds, bool square) {
  TestMachine m;
  const uint64_t row = square ? uint64_t{kSteps} * 4096 : 16 * 4096;
  const uint64_t a = m.allocate(16 * row), b = m.allocate(16 * row), out = m.allocate(uint64_t{blocks} * 1024);
  std::string products;
  for (int i = 0; i < 8; i++) products += fmt::format("fma.rn.f32 %f{0}, %f{0}, %f10, %f11;\n", 20 + i);
  const std::string other = square ? "ld.global.v4.f32 {%f14, %f15, %f16, %f17}, [%d7]; st.shared.v4.f32 [%r4+4096], {%f14, %f15, %f16, %f17};\n" : "";
  const std::string body = fmt::format(R"(
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; ld.param.u32 %r9, [p3];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, tile;
shl.b32 %r5, %r1, 4; add.u32 %r4, %r4, %r5; cvt.u64.u32 %d4, %r5;
mul.wide.u32 %d5, %r3, {0}; add.u64 %d1, %d1, %d5; mul.wide.u32 %d5, %r2, {0}; add.u64 %d2, %d2, %d5;
mov.u32 %r6, 0;
STEP: and.b32 %r7, %r6, {1}; shl.b32 %r7, %r7, 12; cvt.u64.u32 %d5, %r7; add.u64 %d5, %d5, %d4; add.u64 %d6, %d1, %d5; add.u64 %d7, %d2, %d5;
ld.global.v4.f32 {{%f10, %f11, %f12, %f13}}, [%d6]; st.shared.v4.f32 [%r4], {{%f10, %f11, %f12, %f13}};
{2}bar.sync 0; ld.shared.f32 %f10, [%r4]; ld.shared.f32 %f11, [%r4+4];
mov.u32 %r8, 0;
.pragma "nounroll";
WORK: {3}add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, %r9; @%p1 bra WORK;
bar.sync 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, {4}; @%p1 bra STEP;
add.f32 %f20, %f20, %f21; add.f32 %f22, %f22, %f23; add.f32 %f24, %f24, %f25; add.f32 %f26, %f26, %f27; add.f32 %f20, %f20, %f22; add.f32 %f24, %f24, %f26; add.f32 %f20, %f20, %f24;
mul.wide.u32 %d5, %r2, 1024; add.u64 %d3, %d3, %d5; add.u64 %d3, %d3, %d4; st.global.f32 [%d3], %f20; ret;)",
                                       square ? row : 0, square ? kSteps - 1 : 15, other, products, kSteps);
  TestKernel k(body, {a, b, out, rounds}, square ? exec::Dim3{16, 16} : exec::Dim3{blocks}, {256}, ".shared .align 16 .b8 tile[8192];");
  k.launch.dynamic_shared = ((227 << 10) / held) - (12 << 10);
  const Prediction p = m.predicted(k);
  return p.method == "machine code" ? (p.l2_tex_sectors - double(blocks) * 32) / (double(blocks) * kSteps * (square ? 256 : 128)) : 0;
}
/// Blocks of so many warps, one an SM, that meet at no barrier: each warp reads a line of its own a step (`alike`: all the same), four at a time, and does `rounds` of
/// eight products on it; all blocks read the same `again` steps again and again: the share of what SMs ask for that comes to L2.
double left_roaming(uint32_t warps, uint32_t steps, uint32_t again, uint32_t rounds, bool alike) {
  TestMachine m;
  const uint64_t step = alike ? 128 : uint64_t{warps} * 128;
  const uint64_t a = m.allocate(again * step), out = m.allocate(uint64_t{132} * warps * 128);
  std::string loads, work, products;
  for (int i = 0; i < 8; i++) products += fmt::format("fma.rn.f32 %f{0}, %f{0}, %f10, 0f3F800000;\n", 20 + i);
  for (int k = 0; k < 4; k++) {
    loads += fmt::format("ld.global.f32 %f{}, [%d5+{}];\n", 11 + k, k * step);
    work += fmt::format("mov.f32 %f10, %f{0}; mov.u32 %r8, 0;\n.pragma \"nounroll\";\nWORK{1}: {2}add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, %r9; @%p1 bra WORK{1};\n", 11 + k, k, products);
  }
  const std::string body = fmt::format(R"(
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u32 %r9, [p2];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r1, 2; and.b32 %r4, %r3, {0}; cvt.u64.u32 %d3, %r4; add.u64 %d1, %d1, %d3;
mov.u32 %r6, 0;
STEP: and.b32 %r7, %r6, {1}; mul.wide.u32 %d4, %r7, {2}; add.u64 %d5, %d1, %d4;
{3}{4}add.u32 %r6, %r6, 4; setp.lt.u32 %p1, %r6, {5}; @%p1 bra STEP;
add.f32 %f20, %f20, %f21; add.f32 %f22, %f22, %f23; add.f32 %f24, %f24, %f25; add.f32 %f26, %f26, %f27; add.f32 %f20, %f20, %f22; add.f32 %f24, %f24, %f26; add.f32 %f20, %f20, %f24;
mul.wide.u32 %d5, %r2, {6}; add.u64 %d2, %d2, %d5; cvt.u64.u32 %d3, %r3; add.u64 %d2, %d2, %d3; st.global.f32 [%d2], %f20; ret;)",
                                       alike ? 127 : warps * 128 - 1, again - 1, step, loads, work, steps, warps * 128);
  TestKernel k(body, {a, out, rounds}, exec::Dim3{132}, {warps * 32});
  k.launch.dynamic_shared = 200 << 10;
  const Prediction p = m.predicted(k);
  return p.method == "machine code" ? (p.l2_tex_sectors - 132.0 * warps * 4) / (132.0 * double(steps) * double(step) / 32) : 0;
}
#define EXPECT_LEFT(measured, within, ...) EXPECT_FOUND(left, measured, within, __VA_ARGS__)
#define EXPECT_FOUND(function, measured, within, ...)   \
  do {                                                  \
    const double found = function(__VA_ARGS__);             \
    if (found == 0) GTEST_SKIP() << "no ptxas";         \
    EXPECT_NEAR(found, measured, within) << "the rest"; \
  } while (0)

TEST(TimingApart, WhoIsAnsweredTogetherStaysTogether) { EXPECT_LEFT(0.285, 0.06, 132, 1, 100, false); }        // locked_turns/1
TEST(TimingApart, WhoEndsTogetherBeginsTogether) { EXPECT_LEFT(0.276, 0.06, 264, 1, 100, false); }             // locked_held1/264
TEST(TimingApart, RowsOfBlocksAreReadTogether) { EXPECT_LEFT(0.656, 0.08, 256, 1, 64, true); }                 // locked_tiles1/64
TEST(TimingApart, BlocksThatShareAnSmTakeTurnsThatDiffer) { EXPECT_LEFT(0.806, 0.1, 256, 2, 64, true); }       // locked_tiles2/64

TEST(TimingApart, FewWarpsThatMeetAtNoBarrierStayTogether) { EXPECT_FOUND(left_roaming, 0.265, 0.06, 4, 1024, 1024, 16, false); }  // free_own_warps_16/4
TEST(TimingApart, ManyWarpsThatMeetAtNoBarrierDrift) { EXPECT_FOUND(left_roaming, 0.810, 0.08, 32, 1024, 128, 16, false); }         // free_own32/16
TEST(TimingApart, MemoryBringsWarpsTogether) { EXPECT_FOUND(left_roaming, 0.267, 0.06, 32, 1024, 1024, 16, true); }                 // free_all32/16

}  // namespace
}  // namespace orrery::timing
