// Kernels that work on memory of the host: what goes over the link takes the time of the link.
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// Each of 2^20 threads reads a word and writes one.
Prediction copied(exec::MemoryKind from, exec::MemoryKind to) {
  constexpr uint64_t kThreads = 1 << 20;
  TestMachine m;
  const uint64_t in = m.memory.allocate(4 * kThreads, from, 0), out = m.memory.allocate(4 * kThreads, to, 0);
  return m.predicted(TestKernel(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1;
    mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3; ld.global.u32 %r3, [%d1]; st.global.u32 [%d2], %r3; ret;)",
                                {in, out}, {kThreads / 256}, {256}));
}

TEST(HostMemory, GoesOverTheLink) {
  using exec::MemoryKind;
  const double least = 4.0 * (1 << 20) / 63e9 * 1e6;  // PCIe 5.0 x16, one direction
  const Prediction device = copied(MemoryKind::device, MemoryKind::device), read = copied(MemoryKind::pinned, MemoryKind::device);
  EXPECT_LT(device.microseconds, least / 4);
  EXPECT_NE(device.bound, "host link");
  EXPECT_GT(read.microseconds, least);
  EXPECT_LT(read.microseconds, 1.5 * least) << "calls of a public program: 45 to 49 of 63 GB/s";
  EXPECT_EQ(read.bound, "host link");
  EXPECT_LT(read.dram_read, 0.05 * device.dram_read);
  EXPECT_GT(copied(MemoryKind::device, MemoryKind::pinned).microseconds, least);
  EXPECT_NEAR(copied(MemoryKind::pinned, MemoryKind::pinned).microseconds, read.microseconds, 0.1 * read.microseconds) << "both ways at once";
}

}  // namespace
}  // namespace orrery::timing
