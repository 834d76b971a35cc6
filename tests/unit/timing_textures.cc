// What fetches of texels take, by what an H200 measured (calib/raw/h200-2026-11-28-textures.jsonl): cycles of the texture unit are its counter
// tex_data_wavefronts (or what it gives back) over tex_instructions, sectors those that L2 was asked for.
#include <bit>

#include "exec/texture.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr uint64_t kHandle = 7;
constexpr uint32_t kSide = 128;

/// A machine with a texture of kSide x kSide texels of `channels` floats.
struct TexturedMachine : TestMachine {
  exec::TextureObject object;
  explicit TexturedMachine(uint8_t channels, bool array = true, bool linear = false) {
    object.width = object.height = kSide;
    object.channels = channels, object.array = array, object.linear_filter = linear;
    object.pitch = kSide * channels * 4, object.slice = object.pitch * kSide;
    object.data = allocate(object.slice);
    machine.texture = [this](uint64_t handle) { return handle == kHandle ? &object : nullptr; };
  }
  /// Of a fetch by a warp whose lanes lie as `x` and `y` say, PTX that makes of %r1, the lane, texels in %r2 and %r3: cycles and sectors.
  std::pair<uint32_t, uint32_t> fetched(const std::string& x, const std::string& y, const char* off = "0f3F000000") {
    const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; " + x + y + "cvt.rn.f32.u32 %f1, %r2; add.f32 %f1, %f1, " + off +
                           "; cvt.rn.f32.u32 %f2, %r3; add.f32 %f2, %f2, " + off + "; tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d1, {%f1, %f2}]; ret;",
                       {kHandle});
    const std::vector<TracedBlock> blocks = trace(k);
    const std::vector<Event> events = events_of(blocks.at(0), What::global_load);
    if (events.size() != 1) return {};
    uint32_t sectors = 0;
    for (uint32_t i = 0; i < events[0].n_detail; i++) sectors += uint32_t(std::popcount(blocks[0].lines[events[0].detail + i] & 15));
    return {events[0].extra, sectors};
  }
};

const char* const kRow = "mov.u32 %r2, %r1; ";
const char* const kTop = "mov.u32 %r3, 4; ";
const char* const kMiddle = "0f3F400000";  // a quarter from the middle: filtered
using Fetch = std::pair<uint32_t, uint32_t>;

TEST(TimingTextures, ArraysAreTiles) {
  TexturedMachine m(1);
  EXPECT_EQ(m.fetched(kRow, kTop), Fetch(8, 8));                                                                    // texel_hits_2d_4
  EXPECT_EQ(m.fetched("and.b32 %r2, %r1, 7; ", "shr.u32 %r3, %r1, 3; "), Fetch(8, 4));                              // _8x4
  EXPECT_EQ(m.fetched("mov.u32 %r2, 4; ", "mov.u32 %r3, %r1; "), Fetch(8, 16));                                     // _1x32
  EXPECT_EQ(m.fetched("and.b32 %r2, %r1, 7; shl.b32 %r2, %r2, 3; ", "shr.u32 %r3, %r1, 3; "), Fetch(32, 16));       // _apart8: rows in pairs share sectors
  EXPECT_EQ(m.fetched("mov.u32 %r2, 8; ", "mov.u32 %r3, 8; "), Fetch(8, 1));                                        // _same
}

TEST(TimingTextures, RowsOfLinearMemoryAreNot) {
  TexturedMachine m(1, false);
  EXPECT_EQ(m.fetched(kRow, kTop), Fetch(8, 4));                                   // texel_hits_rows_4
  EXPECT_EQ(m.fetched("mov.u32 %r2, 4; ", "mov.u32 %r3, %r1; "), Fetch(8, 32));    // rows_4_1x32
}

TEST(TimingTextures, FilteredAndWideTexelsTakeLonger) {
  EXPECT_EQ(TexturedMachine(4).fetched(kRow, kTop).first, 16u);                            // texel_hits_2d_4x4
  EXPECT_EQ(TexturedMachine(1, true, true).fetched(kRow, kTop, kMiddle).first, 8u);        // linear_4
  EXPECT_EQ(TexturedMachine(2, true, true).fetched(kRow, kTop, kMiddle).first, 16u);       // linear_4x2: 15.5 with texels at the edge
  EXPECT_EQ(TexturedMachine(4, true, true).fetched(kRow, kTop, kMiddle).first, 32u);       // linear_4x4
  EXPECT_EQ(TexturedMachine(1, true, true).fetched(kRow, kTop).second, 8u);                // linear_4_8x4_middle: whose weight is zero is not read
}

/// texel_chase_2d/2048: 134.3 us warm, each fetch waits for the one before.
TEST(TimingTextures, FetchesWaitForEachOther) {
  TexturedMachine m(1);
  const uint64_t out = m.allocate(256);
  std::string turn;
  for (int i = 0; i < 8; i++) turn += "tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%d1, {%f1, %f2}]; add.f32 %f1, %f1, 0f40800000; add.f32 %f1, %f1, %f3;\n";
  const TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f00000000; mov.u32 %r1, 0;\nagain:\nadd.f32 %f1, %f3, 0f3F000000;\n" + turn +
                         "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 256; @%p1 bra again;\nst.global.f32 [%d2], %f3; ret;",
                     {kHandle, out});
  PredictOptions options;
  options.warm = true;
  const Prediction p = m.predicted(k, options);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.microseconds, 134.3, 0.08 * 134.3);
}

}  // namespace
}  // namespace orrery::timing
