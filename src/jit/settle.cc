// jit/settle.cc: see settle.h.
#include "jit/settle.h"

#include <bit>

namespace orrery::jit {

namespace {

/// All lanes of each chunk equal base + pattern, the base taken from its first live lane.
template <class T>
bool settle_lanes(T* lanes, uint32_t live, int chunks, const int64_t* pattern) {
  const int span = 32 / chunks;
  T last = 0;
  bool have_last = false;
  for (int c = 0; c < chunks; c++) {
    const uint32_t in_chunk = live & (span == 32 ? ~0u : ((1u << span) - 1) << (c * span));
    T base = last;
    if (in_chunk) {
      const int first = std::countr_zero(in_chunk);
      base = T(lanes[first] - T(pattern[first]));
      for (uint32_t m = in_chunk; m; m &= m - 1) {
        const int lane = std::countr_zero(m);
        if (lanes[lane] != T(base + T(pattern[lane]))) return false;
      }
      last = base, have_last = true;
    }
    for (int lane = c * span; lane < (c + 1) * span; lane++) lanes[lane] = T(base + T(pattern[lane]));
  }
  return have_last;
}

}  // namespace

uint32_t settle_registers(const exec::WarpContext& w, const SettleEntry* rows, const int64_t* patterns, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    std::byte* at = w.frame + rows[i].offset;
    if (rows[i].bytes == 0) {
      uint32_t& bits = *reinterpret_cast<uint32_t*>(at);
      if ((bits & w.live) != 0 && (bits & w.live) != w.live) return 1;
      bits = bits & w.live ? ~0u : 0;
    } else if (rows[i].bytes == 4) {
      if (!settle_lanes(reinterpret_cast<uint32_t*>(at), w.live, int(rows[i].chunks), patterns + rows[i].pattern)) return 1;
    } else {
      if (!settle_lanes(reinterpret_cast<uint64_t*>(at), w.live, int(rows[i].chunks), patterns + rows[i].pattern)) return 1;
    }
  }
  return 0;
}

}  // namespace orrery::jit
