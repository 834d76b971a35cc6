// sanitize/async_shadow.h: who touched which bytes of a block's shared memory last: ordinary stores and loads of threads,
// asynchronous operations.
//
//   per word of 4 bytes    last ordinary store (site, clock of its warp), last asynchronous write (operation)
//   per unit of 16 bytes   per warp of the block, the clock of its last ordinary load; the last asynchronous readers
// A site is an instruction of a warp; operations are numbers of the caller. Not here: what is wrong (asynccheck.cc).
#pragma once
#include <array>
#include <map>
#include <vector>

#include "sanitize/async_order.h"

namespace orrery::sanitize {

class AsyncShadow {
 public:
  static constexpr uint32_t kReaders = 4;  // asynchronous readers kept per unit: one per warpgroup
  struct Store {
    uint32_t site = 0, clock = 0;          // site 0: none
    bool operator==(const Store&) const = default;
  };

  AsyncShadow(uint32_t bytes, uint32_t warps)
      : warps_(warps), stores((bytes + 3) / 4), writer((bytes + 3) / 4), readers((bytes + 15) / 16), loads(size_t((bytes + 15) / 16) * warps),
        load_site((bytes + 15) / 16) {}

  bool fits(uint32_t bytes, uint32_t warps) const { return warps == warps_ && (bytes + 3) / 4 == stores.size(); }
  /// As new.
  void clear() {
    sites_.resize(1);
    numbers_.clear();
    stores.assign(stores.size(), {});
    writer.assign(writer.size(), 0);
    readers.assign(readers.size(), {});
    loads.assign(loads.size(), 0);
    load_site.assign(load_site.size(), 0);
    barriers_from = ~uint64_t{0}, barriers_to = 0;
  }

  uint32_t& load_clock(uint64_t unit, uint32_t warp) { return loads[unit * warps_ + warp]; }

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
  const uint32_t warps_;
  std::vector<Moment> sites_{1};
  std::map<std::tuple<const void*, const void*, uint32_t>, uint32_t> numbers_;

 public:
  std::vector<Store> stores;
  std::vector<uint32_t> writer;
  std::vector<std::array<uint32_t, kReaders>> readers;
  std::vector<uint32_t> loads;
  std::vector<uint32_t> load_site;
  uint64_t barriers_from = ~uint64_t{0}, barriers_to = 0;  // where mbarriers have been initialised
};

}  // namespace orrery::sanitize
