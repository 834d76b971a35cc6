// Which requests of SMs become one, predicted: what a profiler counted on an H200 (calib/raw/h200-2026-11-29-locked.jsonl, sectors of L2 over
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
#define EXPECT_LEFT(measured, within, ...)              \
  do {                                                  \
    const double found = left(__VA_ARGS__);             \
    if (found == 0) GTEST_SKIP() << "no ptxas";         \
    EXPECT_NEAR(found, measured, within) << "the rest"; \
  } while (0)

TEST(TimingApart, WhoIsAnsweredTogetherStaysTogether) { EXPECT_LEFT(0.285, 0.06, 132, 1, 100, false); }        // locked_turns/1
TEST(TimingApart, WhoEndsTogetherBeginsTogether) { EXPECT_LEFT(0.276, 0.06, 264, 1, 100, false); }             // locked_held1/264
TEST(TimingApart, RowsOfBlocksAreReadTogether) { EXPECT_LEFT(0.656, 0.08, 256, 1, 64, true); }                 // locked_tiles1/64
TEST(TimingApart, BlocksThatShareAnSmTakeTurnsThatDiffer) { EXPECT_LEFT(0.806, 0.1, 256, 2, 64, true); }       // locked_tiles2/64

}  // namespace
}  // namespace orrery::timing
