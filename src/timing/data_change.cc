// timing/data_change.cc: see data_change.h.
#include "timing/data_change.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace orrery::timing {

namespace {
constexpr double kRandomBits = 12;  // of a random float, or pair of halves, that differ from another; of a random integer 16
}

double DataChange::share(const Seen& b) {
  if (b.times + b.lanes <= 0) return -1;
  const auto per_word = [](double bits, double words) { return words > 0 ? bits / words : 0; };
  return std::min(1.0, std::max(per_word(b.in_time, b.times), per_word(b.by_lane, b.lanes)) / kRandomBits);
}

template <class Which>
double DataChange::mean(Which which) const {
  double sum = 0, weight = 0;
  for (const auto& [pc, s] : seen_)
    if (const double words = s.times + s.lanes; words > 0 && which(s)) sum += words * share(s), weight += words;
  return weight > 0 ? sum / weight : -1;
}

double DataChange::of_all() const { return mean([](const Seen&) { return true; }); }

double DataChange::of_moved() const {
  const double loaded = mean([](const Seen& s) { return s.moved == Moved::loaded; });
  return loaded < 0 ? mean([](const Seen& s) { return s.moved == Moved::stored; }) : loaded;
}

void DataChange::add(uint32_t pc, const Seen& more) {
  Seen& s = seen_[pc];
  s.in_time += more.in_time, s.times += more.times, s.by_lane += more.by_lane, s.lanes += more.lanes, s.moved = more.moved;
}

void DataChange::note(uint32_t pc, uint32_t operand, const void* lanes, uint32_t bits, uint32_t used, uint32_t lane_mask, bool moved, bool stored) {
  if (bits != 32 && bits != 64) return;
  Last& last = last_[uint64_t{operand} << 32 | pc];
  const uint64_t kept = used >= 64 ? ~uint64_t{0} : (uint64_t{1} << used) - 1;
  const double words = std::min(used, bits) / 32.0;
  Seen more;
  uint64_t before = 0;
  bool follows = false;
  for (uint32_t lane = 0; lane < 32; lane++) {
    if (!(lane_mask >> lane & 1)) continue;
    const uint64_t now = (bits == 32 ? static_cast<const uint32_t*>(lanes)[lane] : static_cast<const uint64_t*>(lanes)[lane]) & kept;
    if (last.seen >> lane & 1) more.in_time += std::popcount(now ^ last.value[lane]), more.times += words;
    if (follows) more.by_lane += std::popcount(now ^ before), more.lanes += words;
    last.value[lane] = before = now, follows = true;
  }
  last.seen |= lane_mask;
  more.moved = !moved ? Moved::no : stored ? Moved::stored : Moved::loaded;
  add(pc, more);
}

void DataChange::note_copied(uint32_t pc, const void* bytes, uint32_t n) {
  constexpr uint32_t kSector = 8;  // words
  const uint32_t words = n / 4;
  Seen more;
  for (uint32_t i = 0; i + kSector < words; i++) {
    uint32_t a = 0, b = 0;
    std::memcpy(&a, static_cast<const char*>(bytes) + 4 * i, 4), std::memcpy(&b, static_cast<const char*>(bytes) + 4 * (i + kSector), 4);
    more.by_lane += std::popcount(a ^ b), more.lanes++;
  }
  more.moved = Moved::loaded;
  add(pc, more);
}

double DataChange::of(uint32_t pc) const {
  const auto found = seen_.find(pc);
  return found == seen_.end() ? -1 : share(found->second);
}

}  // namespace orrery::timing
