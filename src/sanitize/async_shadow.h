// sanitize/async_shadow.h: who touched which bytes of a block's shared memory last: ordinary stores and loads of threads,
// asynchronous operations.
//
//   per word of 4 bytes    last ordinary store (site, clock of its warp), last asynchronous write (operation)
//   per unit of 16 bytes   per warp of the block, the clock of its last ordinary load; the last asynchronous readers
//
// Copies touch whole rows, so a span of kSpan bytes keeps one record for all its words while one operation wrote them and no
// thread has stored since, and one for all its units while operations read all of it. Else the span's words (its units) are
// mixed: only then have they records of their own. Clocks of loads are kept while the span is loaded from.
// A site is an instruction of a warp; operations are numbers of the caller. Not here: what is wrong (asynccheck.cc).
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "sanitize/async_order.h"

namespace orrery::sanitize {

class AsyncShadow {
 public:
  static constexpr uint32_t kReaders = 4;  // asynchronous readers kept per unit: one per warpgroup
  static constexpr uint64_t kSpan = 256, kWord = 4, kUnit = 16;
  struct Store {
    uint32_t site = 0, clock = 0;          // site 0: none
    bool operator==(const Store&) const = default;
  };
  using Readers = std::array<uint32_t, kReaders>;
  struct Span {
    uint32_t writer = 0;                   // of all words
    Readers readers{};                     // of all units
    bool words_mixed = false, units_mixed = false, loaded = false;
  };

  AsyncShadow(uint32_t bytes, uint32_t warps)
      : bytes_(bytes), warps_(warps), spans_((bytes + kSpan - 1) / kSpan), stores(spans_.size() * (kSpan / kWord)), writer(stores.size()),
        readers(spans_.size() * (kSpan / kUnit)), loads(readers.size() * warps), load_site(readers.size()) {}

  bool fits(uint32_t bytes, uint32_t warps) const { return warps == warps_ && bytes == bytes_; }
  /// As new.
  void clear() {
    sites_.resize(1);
    numbers_.clear();
    spans_.assign(spans_.size(), {});
    barriers_from = ~uint64_t{0}, barriers_to = 0;
  }

  uint32_t load_clock(uint64_t unit, uint32_t warp) const { return loads[unit * warps_ + warp]; }

  /// Calls f(span, first, last, whole) for the items (kWord or kUnit bytes) of each span that [offset, offset + bytes) touches;
  /// whole: these are all of the span's.
  template <uint64_t kItem, class F>
  void for_spans(uint64_t offset, uint64_t bytes, F f) {
    constexpr uint64_t kEach = kSpan / kItem;
    const uint64_t all = (bytes_ + kItem - 1) / kItem, end = std::min((offset + bytes + kItem - 1) / kItem, all);
    for (uint64_t i = offset / kItem; i < end;) {
      const uint64_t begin = i / kEach * kEach, stop = std::min(end, begin + kEach);
      f(spans_[i / kEach], i, stop, i == begin && stop == std::min(begin + kEach, all));
      i = stop;
    }
  }
  Span& span_of_word(uint64_t word) { return spans_[word * kWord / kSpan]; }
  Span& span_of_unit(uint64_t unit) { return spans_[unit * kUnit / kSpan]; }
  /// Gives the words (units) of a span records of their own.
  void mix_words(Span& s) {
    if (s.words_mixed) return;
    const size_t n = kSpan / kWord, first = size_t(&s - spans_.data()) * n;
    std::fill_n(writer.begin() + ptrdiff_t(first), n, s.writer);
    std::fill_n(stores.begin() + ptrdiff_t(first), n, Store{});
    s.words_mixed = true;
  }
  void mix_units(Span& s) {
    if (s.units_mixed) return;
    const size_t n = kSpan / kUnit, first = size_t(&s - spans_.data()) * n;
    std::fill_n(readers.begin() + ptrdiff_t(first), n, s.readers);
    s.units_mixed = true;
  }
  /// Notes an ordinary load of a unit.
  void load(Span& s, uint64_t unit, uint32_t warp, uint32_t clock, uint32_t site) {
    if (!s.loaded) {
      const size_t n = kSpan / kUnit * warps_;
      std::fill_n(loads.begin() + (&s - spans_.data()) * ptrdiff_t(n), n, 0u);
      s.loaded = true;
    }
    loads[unit * warps_ + warp] = clock;
    load_site[unit] = site;
  }

  /// The number of a moment's instruction.
  uint32_t site(const Moment& m) {
    const auto [it, fresh] = numbers_.try_emplace({m.where.code, m.where.warp, m.where.pc}, uint32_t(sites_.size()));
    if (fresh) sites_.push_back(m);
    return it->second;
  }
  Moment moment(const Store& s) const {
    Moment m = sites_[s.site];
    m.clock = s.clock;
    return m;
  }

 private:
  const uint32_t bytes_, warps_;
  std::vector<Span> spans_;
  std::vector<Moment> sites_{1};
  std::map<std::tuple<const void*, const void*, uint32_t>, uint32_t> numbers_;

 public:  // of mixed spans
  std::vector<Store> stores;
  std::vector<uint32_t> writer;
  std::vector<Readers> readers;
  std::vector<uint32_t> loads;
  std::vector<uint32_t> load_site;
  uint64_t barriers_from = ~uint64_t{0}, barriers_to = 0;  // where mbarriers have been initialised
};

}  // namespace orrery::sanitize
