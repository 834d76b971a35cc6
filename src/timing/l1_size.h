// timing/l1_size.h: what a launch takes of an SM's memory for shared memory, whether its grid fills the SMs or not; the rest is L1's.
//
// Not here: what L1 keeps (l1.h), how many blocks fit (profile/occupancy.h).
#pragma once
#include <algorithm>
#include <cstdint>

namespace orrery::timing {

/// Bytes that neither shared memory nor L1 keeps anything in [calib/steps/carved.cu and strides.cu, beside_shared: lines of a table that are found again].
inline constexpr uint32_t kNobodys = 2 << 10;

/// Blocks of an SM: held at once, as many as threads and registers allow, as many as threads allow; threads of each; and the most an SM holds of any.
struct BlocksForL1 {
  uint64_t held = 1, fit = 1, full = 1;
  uint32_t threads = 32;
  uint64_t most = 32;
};

/// Bytes, by steps, of blocks that want `shared` each and take `reserved` besides. There is room for twice as many blocks as fit, up to 132 KB, but not where one
/// fits or blocks have nearly all threads; blocks without shared memory are given 8 to 32 KB [calib/raw/h200-2026-11-29-carves.jsonl, 520 launches].
inline uint32_t carved_for(const BlocksForL1& b, uint64_t shared, uint64_t reserved, uint32_t most) {
  constexpr uint64_t kRoomFor = 132 << 10, kWithout = 32 << 10;
  constexpr uint32_t kNearlyAll = 768;  // threads; blocks of as many are given twice the room, those of 1,024 not
  const uint64_t each = shared + reserved;
  uint64_t wanted = b.held * each;
  if (b.fit > 1 && shared == 0) wanted = std::min(kWithout, 4 * b.full * each);
  else if (b.fit > 1 && b.threads <= kNearlyAll) wanted = std::max(wanted, std::min(kRoomFor, std::min(2 * b.fit, b.most) * each));
  for (uint32_t kib : {8u, 16u, 32u, 64u, 100u, 132u, 164u, 196u, 228u})
    if (wanted <= uint64_t{kib} << 10) return std::min(most, kib << 10);
  return most;
}

}  // namespace orrery::timing
