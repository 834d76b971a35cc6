// timing/l2_lines.h: which lines L2 holds and what is known of each: sets of sixteen ways, the least recently
// used one goes.
//
// Ghosts make most look-ups, and they find nothing in the host's caches: keys (16 bits of each line's hash),
// order of use and sectors of a set lie in one line of the host's cache, the rest behind it, so that a
// look-up touches one line or two. Whoever knows what will be looked up next fetches them ahead (fetch_head,
// fetch_way): into the host's second cache, which has more on the way at once than the first. Memory of zeros
// is an empty L2: what is never looked up costs nothing. Not here: what a look-up costs (chip.h).
#pragma once
#include <emmintrin.h>

#include <bit>
#include <cstdint>
#include <memory>

namespace orrery::timing {

/// How many of a line's four sectors a mask names.
constexpr uint32_t sectors_in(uint32_t mask) { return uint32_t(0x4332322132212110 >> (mask & 15) * 4 & 15); }

/// Takes the lowest or the highest sector off `mask` and returns it.
constexpr uint32_t take_end(uint32_t& mask, bool lowest) {
  const uint32_t end = mask == 0 ? 0 : lowest ? mask & (0 - mask) : std::bit_floor(mask);
  mask &= ~end;
  return end;
}

/// Fetches a line into the host's caches. It must not stand alone in a function that is called: the
/// compiler takes such a one to be without effect.
[[gnu::always_inline]] inline void fetch_ahead(const void* what) {
  _mm_prefetch(static_cast<const char*>(what), _MM_HINT_T0);
}

/// A number up to 32 for each of a line's sectors, a byte each.
class SectorBytes {
 public:
  static constexpr uint32_t kFull = 32;
  /// Adds `bytes` (up to 32) to the sectors of the mask; a sector that has more than all is full.
  void add(uint32_t mask, uint32_t bytes) {
    const uint32_t sum = all_ + (kOnes * bytes & lanes(mask)), full = (sum >> 5 | sum >> 6) & kOnes;
    all_ = (sum & ~(full * 255)) | full * kFull;
  }
  void clear(uint32_t mask) { all_ &= ~lanes(mask); }
  /// The sectors of the mask that are not full.
  uint32_t not_full(uint32_t mask) const { return ~(((all_ >> 5 & kOnes) * 0x10204080) >> 28) & mask; }

 private:
  static constexpr uint32_t kOnes = 0x01010101;
  /// 255 for each sector of a mask.
  static uint32_t lanes(uint32_t mask) { return (mask * 0x00204081 & kOnes) * 255; }
  uint32_t all_ = 0;
};

class L2Lines {
  struct Set;

 public:
  static constexpr uint32_t kWays = 16;
  /// Where a line belongs.
  class Place {
    friend L2Lines;
    Set* set = nullptr;
    uint16_t key = 0;
  };
  /// A line that is there, as long as it is; or none.
  class Line {
    friend L2Lines;
    Set* set_ = nullptr;
    uint32_t way_ = 0;
    Line(Set& set, uint32_t way) : set_(&set), way_(way) {}

   public:
    Line() = default;
    explicit operator bool() const { return set_ != nullptr; }
    uint64_t tag() const { return ~set_->ways[way_].other_tag; }
    /// Sectors that came from memory or from the other partition; that were written; either.
    uint32_t valid() const { return set_->sectors[way_] & 15; }
    uint32_t dirty() const { return set_->sectors[way_] >> 4; }
    uint32_t held() const { return valid() | dirty(); }
    void set_sectors(uint32_t valid, uint32_t dirty) const {
      set_->sectors[way_] = uint8_t(valid | dirty << 4);
    }
    /// When the last sectors asked for are there.
    double& arrives() const { return set_->ways[way_].arrives; }
    /// Bytes of a dirty sector that never came from memory.
    const SectorBytes& written() const { return set_->written[way_]; }
    void add_written(uint32_t mask, uint32_t bytes) const {
      set_->written[way_].add(mask, bytes), set_->any_written |= uint16_t(1 << way_);
    }
    /// Has it been read from the partition that it does not belong to?
    bool crossed() const { return set_->crossed >> way_ & 1; }
    void set_crossed() const { set_->crossed |= uint16_t(1 << way_); }
    void clear_crossed() const { set_->crossed &= uint16_t(~(1 << way_)); }
    void clear_written(uint32_t mask) const { set_->written[way_].clear(mask); }
  };
  /// Two partitions of `sets` / 2^`shared_bits` sets each, at least 2 (fewer are 2) and fewer than 2^24.
  explicit L2Lines(uint32_t sets, uint32_t shared_bits = 0);
  /// Where a line belongs in partition `side` (0 or 1); `hash` tells lines of a set apart.
  Place place_of(uint64_t line, uint64_t hash, uint32_t side) const {
    Place p;
    p.set = &sets_[side * own_ + set_of(line)], p.key = uint16_t(hash >> 8);
    return p;
  }
  /// Both: in partition `side`, and in the other one.
  [[gnu::always_inline]] void find_places(uint64_t line, uint64_t hash, uint32_t side, Place& own, Place& other) const {
    const uint64_t set = set_of(line);
    own.set = &sets_[side * own_ + set], other.set = &sets_[(side ^ 1) * own_ + set];
    own.key = other.key = uint16_t(hash >> 8);
  }
  /// The same in the other partition than `side`, where `at` is.
  Place across(Place at, uint32_t side) const {
    at.set = side ? at.set - own_ : at.set + own_;
    return at;
  }
  /// The line, or none.
  static Line peek(uint64_t line, Place at) {
    Set& set = *at.set;
    for (uint32_t found = matches(set, at.key); found; found &= found - 1)
      if (const uint32_t i = uint32_t(std::countr_zero(found)); set.ways[i].other_tag == ~line)
        return {set, i};
    return {};
  }
  /// The line, now the latest used; when it was not there, `give_up(old)` is called for the line that it
  /// replaces.
  template <class F>
  static Line find(uint64_t line, Place at, F give_up) {
    Set& set = *at.set;
    for (uint32_t found = matches(set, at.key); found; found &= found - 1) {
      const uint32_t i = uint32_t(std::countr_zero(found));
      if (set.ways[i].other_tag == ~line) return use(set, i), Line(set, i);
    }
    const uint32_t oldest = oldest_of(set);
    give_up(Line(set, oldest));
    set.keys[oldest] = at.key, set.sectors[oldest] = 0;
    set.ways[oldest] = {~line, 0};
    set.crossed &= uint16_t(~(1 << oldest));
    if (set.any_written >> oldest & 1)
      set.written[oldest] = SectorBytes{}, set.any_written ^= uint16_t(1 << oldest);
    set.order = (set.order ^ kFirstOrder) << 4 | oldest;
    set.order ^= kFirstOrder;
    return {set, oldest};
  }
  /// Fetches what a look-up begins with.
  [[gnu::always_inline]] static void fetch_head(Place at) { fetch_ahead(at.set); }
  /// Fetches the way that a look-up will find or replace, as it seems now; false: it will replace it.
  [[gnu::always_inline]] static bool fetch_way(Place at) {
    const Set& set = *at.set;
    const uint32_t found = matches(set, at.key), way = found ? uint32_t(std::countr_zero(found)) : oldest_of(set);
    fetch_ahead(&set.ways[way]);
    if (!found && set.sectors[way] >> 4) fetch_ahead(set.written);  // it will be written back
    return found != 0;
  }
  /// Fetches the way of a line that is there, as it seems now.
  [[gnu::always_inline]] static void fetch_found(Place at) {
    const Set& set = *at.set;
    if (const uint32_t found = matches(set, at.key)) fetch_ahead(&set.ways[std::countr_zero(found)]);
  }
  /// Fetches what was written of the lines of a set.
  [[gnu::always_inline]] static void fetch_written(Place at) { fetch_ahead(at.set->written); }

 private:
  /// As many lines next to each other as there are sets have one each: arrays fill L2 evenly. Which begins, is drawn.
  [[gnu::always_inline]] uint64_t set_of(uint64_t line) const {
    const uint64_t near = line & ((uint64_t{1} << 40) - 1), row = uint64_t(__uint128_t{near} * reciprocal_ >> 64);  // near / own_, exactly: near has 40 bits
    const uint64_t begins = ((row * 0x9E3779B97F4A7C15ull ^ row * 0x9E3779B97F4A7C15ull >> 29) >> 32) * own_ >> 32, set = near - row * own_ + begins;
    return set < own_ ? set : set - own_;
  }
  struct Way {
    uint64_t other_tag = 0;  // all bits of the tag turned: zero is no line
    double arrives = 0;
  };
  struct alignas(64) Set {
    uint16_t keys[kWays];
    uint64_t order;          // ways, four bits each, the latest used in the lowest; zero is kFirstOrder
    uint8_t sectors[kWays];  // valid, and dirty in the upper half
    uint16_t any_written;    // ways that were written since they came, a bit each
    uint16_t crossed;        // ways that have been read across
    alignas(64) Way ways[kWays];
    SectorBytes written[kWays];
  };
  static constexpr uint64_t kFirstOrder = 0x0123456789ABCDEF;
  static uint32_t oldest_of(const Set& set) { return uint32_t((set.order ^ kFirstOrder) >> 60); }
  /// Ways whose key is this one, a bit each.
  static uint32_t matches(const Set& set, uint16_t key) {
    const __m128i wanted = _mm_set1_epi16(short(key));
    const __m128i low = _mm_cmpeq_epi16(wanted, _mm_load_si128(reinterpret_cast<const __m128i*>(set.keys)));
    const __m128i high =
        _mm_cmpeq_epi16(wanted, _mm_load_si128(reinterpret_cast<const __m128i*>(set.keys + 8)));
    return uint32_t(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  }
  /// Moves way `i` to the front of the order.
  static void use(Set& set, uint32_t i) {
    constexpr uint64_t kOnes = 0x1111111111111111, kTops = 0x8888888888888888;
    const uint64_t order = set.order ^ kFirstOrder;
    const uint64_t differs =
        order ^ i * kOnes;  // zero where the way stands; the lowest such place is told exactly
    const int at = std::countr_zero((differs - kOnes) & ~differs & kTops) - 3;
    const uint64_t newer = (uint64_t{1} << at) - 1;
    set.order = ((order & ~(newer << 4 | 15)) | (order & newer) << 4 | i) ^ kFirstOrder;
  }
  struct Free {
    void* memory;
    size_t bytes;
    void operator()(Set*) const;
  };
  uint64_t own_, reciprocal_;  // sets of a partition that there are; 2^64 over that, rounded up
  std::unique_ptr<Set[], Free> sets_;
};

}  // namespace orrery::timing
