// Managed memory that is not on the GPU yet: what a kernel waits for it. Times are an H200's (calib/raw/h200-2026-11-29-moved.jsonl).
#include <cstring>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// 2^22 threads each read (or write) a word of 16 MB, which the host has written or nobody has touched.
struct Case {
  static constexpr uint64_t kBytes = 16 << 20;
  TestMachine m;
  uint64_t data = m.memory.allocate(kBytes, exec::MemoryKind::managed, 0), out = m.memory.allocate(512, exec::MemoryKind::device, 0);
  Prediction predicted(PredictOptions options = {}) {
    return with_moves(m.predicted(TestKernel(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1;
      mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; ld.global.u32 %r3, [%d1]; setp.eq.u32 %p1, %r3, 12345; @%p1 st.global.u32 [%d2], %r3; ret;)",
                                             {data, out}, {kBytes / 1024}, {256}), options), load_profile("h200"));
  }
};

TEST(MovedPages, WhatTheHostTouchedComesOverTheLink) {
  Case c;
  std::memset(reinterpret_cast<void*>(c.data), 1, Case::kBytes);
  const Prediction p = c.predicted();
  EXPECT_GT(p.microseconds, 1600);
  EXPECT_LT(p.microseconds, 3000) << "moved_read/16384: 1,870 to 2,784 us";
  EXPECT_EQ(p.moved.held, double(Case::kBytes));
  EXPECT_EQ(p.bound, "managed memory");
  EXPECT_LT(p.low, 1870);
  EXPECT_GT(p.high, 2784);
}

TEST(MovedPages, WhatNobodyTouchedIsMadeOnTheGpu) {
  Case c;
  const Prediction p = c.predicted();
  EXPECT_GT(p.microseconds, 1000);
  EXPECT_LT(p.microseconds, 1700) << "new_write/16384: 1,139 to 1,679 us";
  EXPECT_EQ(p.moved.fresh, double(Case::kBytes));
}

TEST(MovedPages, HalfOfItTouched) {
  Case c;
  std::memset(reinterpret_cast<void*>(c.data), 1, Case::kBytes / 2);
  const Prediction p = c.predicted();
  EXPECT_EQ(p.moved.held, double(Case::kBytes / 2));
  EXPECT_EQ(p.moved.fresh, double(Case::kBytes / 2));
}

TEST(MovedPages, WhatIsOnTheGpuStays) {
  Case c;
  std::memset(reinterpret_cast<void*>(c.data), 1, Case::kBytes);
  c.m.memory.settle(c.data + 4096, true);
  EXPECT_LT(c.predicted().microseconds, 20);
  EXPECT_EQ(c.predicted().moved.from, std::vector{c.data});
  c.m.memory.settle(c.data, false);
  EXPECT_GT(c.predicted().microseconds, 1600);
  PredictOptions warm;
  warm.warm = true;
  EXPECT_LT(c.predicted(warm).microseconds, 20) << "as the same launch left it";
}

TEST(MovedPages, AWordOfALargeArrayBringsAPiece) {
  Case c;
  std::memset(reinterpret_cast<void*>(c.data), 1, Case::kBytes);
  const Prediction p = with_moves(c.m.predicted(TestKernel("ld.param.u64 %d1, [p0]; ld.global.u32 %r3, [%d1]; st.global.u32 [%d1], %r3; ret;", {c.data})), load_profile("h200"));
  EXPECT_EQ(p.moved.bytes(), 65536);
  EXPECT_GT(p.microseconds, 80);
  EXPECT_LT(p.microseconds, 180) << "moved_read/64: 90 to 123 us";
}

}  // namespace
}  // namespace orrery::timing
