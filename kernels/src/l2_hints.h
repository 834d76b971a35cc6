// What L2 should do with the lines that a copy brings, encoded as createpolicy would (constants and fields that the vendor's headers publish
// by name).
#pragma once
#include <cstdint>

namespace orrery::kernels::ptx {

constexpr uint64_t kEvictFirst = 0x12F0000000000000ull;
constexpr uint64_t kEvictLast = 0x14F0000000000000ull;
constexpr uint64_t kEvictNormal = 0x1000000000000000ull;

/// So many sixteenths (1 to 16) of the lines, chosen by their addresses and so the same ones every time, first; the others as usual.
constexpr uint64_t evict_first_of(int sixteenths) { return 0x1200000000000000ull | uint64_t(sixteenths - 1) << 52; }

}  // namespace orrery::kernels::ptx
