// Device memory: alignment, separation, reuse, look-up, and the device heap.
#include <gtest/gtest.h>

#include <cstring>

#include "exec/heap.h"
#include "exec/memory.h"

namespace orrery::exec {
namespace {

TEST(DeviceMemory, AllocationsAreAlignedZeroedAndApart) {
  DeviceMemory m(uint64_t{1} << 36);
  const uint64_t a = m.allocate(100, MemoryKind::managed, 0), b = m.allocate(5 << 20, MemoryKind::managed, 0);
  ASSERT_NE(a, 0u);
  ASSERT_NE(b, 0u);
  EXPECT_EQ(a % 512, 0u);
  EXPECT_EQ(b % (2 << 20), 0u);
  EXPECT_GE(b, a + 4096 + 4096);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(b + (5 << 20) - 4), 0u);
  EXPECT_TRUE(m.contains(a));
  EXPECT_FALSE(m.contains(0));
}

// The places that cudaMalloc gave on an H200 (driver 580.159.04), relative to the first.
TEST(DeviceMemory, DeviceMemoryLiesAsOnTheGpu) {
  DeviceMemory m(uint64_t{1} << 36);
  const uint64_t sizes[] = {4, 4, 512, 513, 1000, 4096, 100000, 262144, 524288, 524289, 1000000, 1048576, 4, 4};
  const uint64_t places[] = {0, 512, 1024, 1536, 2560, 3584, 7680, 108032, 370176, 894464, 77594624, 78595072, 79643648, 79644160};
  uint64_t first = 0;
  for (size_t i = 0; i < std::size(sizes); i++) {
    const uint64_t at = m.allocate(sizes[i], MemoryKind::device, 0);
    if (!i) first = at;
    EXPECT_EQ(at - first, places[i]) << i;
  }
  // What leaves an allocation by little is still there; a freed place is taken again, and clean.
  *reinterpret_cast<uint32_t*>(first + 4) = 7;
  EXPECT_TRUE(m.release(first + 512));
  *reinterpret_cast<uint32_t*>(first + 512) = 7;
  EXPECT_EQ(m.allocate(100, MemoryKind::device, 0), first + 512);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(first + 512), 0u);
  // Large ones are one slab further apart than there (exec/memory.cc says why), with memory between them.
  const uint64_t a = m.allocate(4000000, MemoryKind::device, 0), b = m.allocate(4000000, MemoryKind::device, 0);
  EXPECT_EQ(b - a, 4194304u + (2u << 20));
  *reinterpret_cast<uint32_t*>(b - 4) = 7;
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(a + 4194304), 0u);
  // An H200 reads these places before the first allocation of a process, of whatever size that is.
  for (const uint64_t before : {4u, 512u, 65536u, 1u << 20, 2u << 20, (4u << 20) + 4, (32u << 20) + 4})
    EXPECT_EQ(*reinterpret_cast<volatile uint32_t*>(first - before), 0u) << before;
}

TEST(DeviceMemory, NamesTheNearestAllocation) {
  DeviceMemory m(uint64_t{1} << 36);
  const uint64_t a = m.allocate(1 << 20, MemoryKind::managed, 0), b = m.allocate(1 << 20, MemoryKind::managed, 0);
  ASSERT_LT(a, b);
  EXPECT_EQ(m.nearest(b - 8, nullptr)->address, b);
  EXPECT_EQ(m.nearest(a + (1 << 20) + 8, nullptr)->address, a);
  EXPECT_EQ(m.nearest(a - 8, nullptr)->address, a);
  EXPECT_EQ(m.nearest(b + 100, nullptr)->address, b);
}

TEST(DeviceMemory, FindsTheAllocationOfAnInnerAddress) {
  DeviceMemory m(uint64_t{1} << 36);
  const uint64_t a = m.allocate(1000, MemoryKind::managed, 2);
  const auto found = m.find(a + 999);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->address, a);
  EXPECT_EQ(found->device, 2);
  EXPECT_FALSE(m.find(a + 1000));
  EXPECT_EQ(m.used(MemoryKind::managed, 2), 1000u);
}

TEST(DeviceMemory, ReleaseTakesOnlyStartsAndFreshMemoryIsZero) {
  DeviceMemory m(uint64_t{1} << 36);
  const uint64_t a = m.allocate(8192, MemoryKind::device, 0);
  std::memset(reinterpret_cast<void*>(a), 0xEE, 8192);
  EXPECT_FALSE(m.release(a + 512));
  EXPECT_TRUE(m.release(a));
  EXPECT_FALSE(m.release(a));
  bool freed = false;
  ASSERT_TRUE(m.nearest(a + 4, &freed));
  EXPECT_TRUE(freed);
  const uint64_t b = m.allocate(8192, MemoryKind::device, 0);
  EXPECT_EQ(b, a) << "the freed span is reused";
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(b), 0u);
}

TEST(DeviceMemory, RegisteredHostRangesDoNotOverlap) {
  DeviceMemory m(uint64_t{1} << 36);
  char host[4096];
  const uint64_t p = reinterpret_cast<uint64_t>(host);
  EXPECT_TRUE(m.register_host(p, 4096));
  EXPECT_FALSE(m.register_host(p + 100, 10));
  EXPECT_TRUE(m.find_registered(p + 4095));
  EXPECT_TRUE(m.unregister_host(p));
  EXPECT_FALSE(m.find_registered(p));
}

TEST(Heap, JoinsFreedBlocksAndRefusesStrangers) {
  DeviceMemory m(uint64_t{1} << 36);
  Heap heap(m, 1024);
  const uint64_t a = heap.allocate(500), b = heap.allocate(500);
  ASSERT_NE(a, 0u);
  ASSERT_NE(b, 0u);
  EXPECT_EQ(heap.allocate(100), 0u) << "full";
  EXPECT_FALSE(heap.release(a + 16));
  EXPECT_TRUE(heap.release(a));
  EXPECT_TRUE(heap.release(b));
  EXPECT_NE(heap.allocate(1000), 0u) << "the two freed blocks are one again";
}

}  // namespace
}  // namespace orrery::exec
