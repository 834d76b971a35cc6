// Stores of bytes and halves to arrays of a thread in local memory: which leave an SM as one. Expected: sectors of L2 for each sector stored of an H200,
// calib/raw/h200-2026-11-29-local-bytes.jsonl, of 8 warps a sub-core.
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// Each thread stores `bytes` at a time to 256 bytes, one place after the other, twice; loads another place after each store where `between`.
double sectors_of_stores(int bytes, bool between) {
  TestMachine m;
  constexpr uint64_t kBlocks = 528;
  const uint64_t out = m.allocate(kBlocks * 1024);
  const std::string type = bytes == 1 ? "u8" : bytes == 2 ? "u16" : "u32", step = std::to_string(bytes);
  std::string four;
  for (int k = 0; k < 4; k++) {
    four += "mad.lo.u32 %r8, %r4, %r9, " + std::to_string(k * bytes) + "; and.b32 %r8, %r8, 255; add.u32 %r6, %r5, %r8; st.local." + type + " [%r6], %r7;\n";
    if (between) four += "xor.b32 %r8, %r8, 128; add.u32 %r6, %r5, %r8; ld.local." + type + " %r10, [%r6]; add.u32 %r7, %r7, %r10;\n";
  }
  const TestKernel k(R"(
    .local .align 4 .b8 room[256];
    ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r5, room; mov.u32 %r7, %r1; mov.u32 %r3, 0;
  A: mov.u32 %r4, 0;
  B: .pragma "nounroll";
)" + four + "add.u32 %r4, %r4, 4; add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r4, " + std::to_string(256 / bytes) + R"(; @%p1 bra B;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 2; @%p2 bra A;
    and.b32 %r8, %r7, 252; add.u32 %r6, %r5, %r8; ld.local.u32 %r10, [%r6]; mad.lo.u32 %r1, %r2, 256, %r1; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r10; ret;)",
                     {out, uint64_t(bytes)}, {kBlocks}, {256});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") return 0;
  const double stored = kBlocks * 8 * 2.0 * (256.0 / bytes) * 4;
  return p.l2_tex_sectors / stored;
}

TEST(TimingLocal, PartsOfWordsJoinInPart) {
  const double byte = sectors_of_stores(1, false);
  if (byte == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(byte, 0.45, 0.1) << "local_bytes_256/4; all that could join: 0.25";
  EXPECT_NEAR(sectors_of_stores(2, false), 0.78, 0.12) << "local_halves_256/4; all that could: 0.5";
  EXPECT_NEAR(sectors_of_stores(4, false), 1.0, 0.05) << "local_words_256/4";
  EXPECT_GT(sectors_of_stores(1, true), 0.9) << "local_bytes_between_256/1: 1.03";
}

}  // namespace
}  // namespace orrery::timing
