// timing/places.cc: see places.h.
#include "timing/places.h"

#include <algorithm>

namespace orrery::timing {

namespace {

struct Group {
  uint32_t sms = 0, gpc = 0;
  uint32_t first_tpc = 0;
  uint32_t blocks = 0;
  SmPlace place(uint32_t tpc, bool second) const { return {uint16_t(gpc), uint16_t(first_tpc + tpc), second}; }
};

/// Groups in the order in which they take blocks: single TPCs first. What the card sets apart of a GPC is still in it.
std::vector<Group> groups_of(const ChipFigures& f) {
  std::vector<Group> groups;
  for (size_t i = 0; i < f.groups.size(); i++) groups.push_back({f.groups[i], uint32_t(std::min<size_t>(i, f.gpcs - 1)), 0, 0});
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return (a.sms <= 2) > (b.sms <= 2); });
  uint32_t tpcs = 0;
  for (Group& g : groups) g.first_tpc = tpcs, tpcs += (g.sms + 1) / 2;
  return groups;
}

}  // namespace

std::vector<SmPlace> places_of(const ChipFigures& f, uint64_t blocks, uint64_t cluster, bool in_turn) {
  std::vector<Group> groups = groups_of(f);
  const bool turns = in_turn || cluster > 1;
  const uint64_t together = turns ? cluster : 1;
  std::vector<SmPlace> places;
  for (const bool second : {false, true}) {  // without clusters each TPC has one block before any has two, but for those that stand alone
    for (bool any = true; any && places.size() < blocks;) {
      any = false;
      for (Group& g : groups) {
        const uint32_t room = turns || second || g.sms <= 2 ? g.sms : (g.sms + 1) / 2;
        if (g.blocks + together > room || places.size() >= blocks) continue;
        for (uint64_t i = 0; i < together; i++, g.blocks++) places.push_back(g.place(g.blocks / 2, g.blocks & 1));
        any = true;
      }
    }
  }
  if (places.empty()) {  // a cluster that no group holds: a what-if, or a profile without groups
    for (uint64_t i = 0; i < together; i++) places.push_back({0, uint16_t(i / 2), (i & 1) != 0});
    return places;
  }
  if (turns) return places;
  places.clear();
  for (const Group& g : groups) {
    const uint32_t tpcs = (g.sms + 1) / 2, pairs = g.blocks > tpcs ? g.blocks - tpcs : 0;
    for (uint32_t t = 0; t < std::min(g.blocks, tpcs); t++) {
      places.push_back(g.place(t, false));
      if (t < pairs) places.push_back(g.place(t, true));
    }
  }
  return places;
}

std::vector<uint64_t> blocks_of_lone(const ChipFigures& f, uint64_t blocks, uint64_t most) {
  constexpr double kLoneTurn = 0.757, kFirst = 0.12;  // of as many blocks as there are SMs [placement: blocks 0, 84, 184, 284, 388, 488 of 1,056 to 10,391]
  const bool alone = std::any_of(f.groups.begin(), f.groups.end(), [](uint32_t sms) { return sms <= 2; });
  const uint64_t at_once = std::min(most, blocks / f.sms);  // of more than these none takes one before all have them
  if (!alone || at_once < 2) return {};
  std::vector<uint64_t> numbers = {0};
  for (uint64_t k = 1; k < at_once; k++) numbers.push_back(uint64_t((double(k) * kLoneTurn - kFirst) * double(f.sms)));
  return numbers;
}

}  // namespace orrery::timing
