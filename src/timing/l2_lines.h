// timing/l2_lines.h: which lines L2 holds and what is known of each: sets of sixteen ways, the least recently used one goes.
//
// Ghosts make most look-ups, and they find nothing in the host's caches: a set's tags (16 bits of each) and order of use lie in
// one line of the host's cache, the ways behind it, so that a look-up touches two lines. Whoever knows what will be looked up
// next fetches them ahead (fetch_head, fetch_way).
// Not here: what a look-up costs (chip.h).
#pragma once
#include <emmintrin.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

namespace orrery::timing {

/// How many of a line's four sectors a mask names.
constexpr uint32_t sectors_in(uint32_t mask) { return uint32_t(0x4332322132212110 >> (mask & 15) * 4 & 15); }

/// A line of L2 and its sectors.
struct L2Line {
  uint64_t tag = ~uint64_t{0};
  uint8_t valid = 0, dirty = 0;      // sectors
  std::array<uint8_t, 4> written{};  // bytes of a dirty sector that never came from memory
  double arrives = 0;                // when the last sectors asked for are there
};

class L2Lines {
  struct Set;

 public:
  static constexpr uint32_t kWays = 16;
  /// Where a line belongs.
  class Place {
    friend L2Lines;
    Set* set;
    uint16_t key;
  };
  /// Two partitions of `sets` sets each, at least 2 (fewer are 2) and fewer than 2^24.
  explicit L2Lines(uint32_t sets);
  /// Where a line belongs in partition `side` (0 or 1); `hash` spreads lines over sets.
  Place place_of(uint64_t hash, uint32_t side) const {
    const uint64_t wide = hash >> 24;
    const uint64_t set = wide - uint64_t(__uint128_t{wide} * reciprocal_ >> 64) * n_;  // wide % n_, exactly: wide has 40 bits
    Place p;
    p.set = &sets_[side * n_ + set], p.key = uint16_t(hash >> 8);
    return p;
  }
  /// The line, null when it is not there.
  L2Line* peek(uint64_t line, Place at) const {
    for (uint32_t found = matches(*at.set, at.key); found; found &= found - 1)
      if (L2Line& way = at.set->ways[std::countr_zero(found)]; way.tag == line) return &way;
    return nullptr;
  }
  /// The line, now the latest used; when it was not there, `give_up(old)` is called for the line that it replaces.
  template <class F>
  L2Line& find(uint64_t line, Place at, F give_up) {
    Set& set = *at.set;
    for (uint32_t found = matches(set, at.key); found; found &= found - 1) {
      const uint32_t i = uint32_t(std::countr_zero(found));
      if (set.ways[i].tag == line) return use(set, i), set.ways[i];
    }
    const uint32_t oldest = uint32_t(set.order >> 60);
    L2Line& way = set.ways[oldest];
    give_up(way);
    way = L2Line{line, 0, 0, {}, 0};
    set.keys[oldest] = at.key;
    set.order = set.order << 4 | oldest;
    return way;
  }
  /// Fetches what a look-up begins with.
  static void fetch_head(Place at) { _mm_prefetch(reinterpret_cast<const char*>(at.set), _MM_HINT_T0); }
  /// Fetches the way that a look-up will find or replace, as it seems now; false: it will replace it.
  static bool fetch_way(Place at) {
    const uint32_t found = matches(*at.set, at.key), i = found ? uint32_t(std::countr_zero(found)) : uint32_t(at.set->order >> 60);
    const char* way = reinterpret_cast<const char*>(&at.set->ways[i]);
    _mm_prefetch(way, _MM_HINT_T0), _mm_prefetch(way + sizeof(L2Line) - 1, _MM_HINT_T0);
    return found != 0;
  }

 private:
  struct alignas(64) Set {
    uint16_t keys[kWays] = {};
    uint64_t order = 0x0123456789ABCDEF;  // ways, four bits each: the latest used in the lowest
    alignas(64) L2Line ways[kWays];
  };
  /// Ways whose key is this one, a bit each.
  static uint32_t matches(const Set& set, uint16_t key) {
    const __m128i wanted = _mm_set1_epi16(short(key));
    const __m128i low = _mm_cmpeq_epi16(wanted, _mm_load_si128(reinterpret_cast<const __m128i*>(set.keys)));
    const __m128i high = _mm_cmpeq_epi16(wanted, _mm_load_si128(reinterpret_cast<const __m128i*>(set.keys + 8)));
    return uint32_t(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  }
  /// Moves way `i` to the front of the order.
  static void use(Set& set, uint32_t i) {
    constexpr uint64_t kOnes = 0x1111111111111111, kTops = 0x8888888888888888;
    const uint64_t differs = set.order ^ i * kOnes;  // zero where the way stands; the lowest such place is told exactly
    const int at = std::countr_zero((differs - kOnes) & ~differs & kTops) - 3;
    const uint64_t newer = (uint64_t{1} << at) - 1;
    set.order = (set.order & ~(newer << 4 | 15)) | (set.order & newer) << 4 | i;
  }
  struct Free {
    void operator()(Set* sets) const;
  };
  uint64_t n_, reciprocal_;   // sets of a partition; 2^64 over that, rounded up
  std::unique_ptr<Set[], Free> sets_;
};

}  // namespace orrery::timing
