// timing/sm_apart.cc: how far the same blocks of other SMs are behind the detailed one: what decides which of their requests come while another
// waits for the same data, and so become one with it (chip.h).
//
// One number for each ghost's block, in cycles: `late`. The second SM of a TPC begins later than the first. From then on each trip to L2 takes every
// SM as long as it is far from it, a few cycles more or less than others; those whose requests became one are answered at once and stay together.
// Whoever loads from memory what others load, too, is answered when the first one's request is; whoever loads what is its own, when memory pleases.
// Arithmetic of a few instructions takes the same time on all SMs, but who uses units for which warps queue drifts, much more so where warps do
// not meet at barriers. Loads that are under way together make one trip (Trip): their block goes on when the last has come. What is fetched ahead
// (cp.async, the copy engine) nobody waits for as a rule. A warp that loads again and again and meets no others has numbers of its own (WarpRun::roams):
// the same warps of all SMs stay together while others part from them, unless they wait for each other to issue [free.cu, free_clocks.cu].
// Not here: times, which go by the detailed block (sm_memory.cc): no SM waits for what this file works out, but for the last block of its cluster; where SMs are (places.h).
#include <algorithm>
#include <bit>
#include <cmath>

#include "timing/sm_state.h"

namespace orrery::timing {

namespace {

// Cycles. [calib/steps/drift.cu: clocks that blocks read each step, and which requests are left]
constexpr double kSecondBegins = 15, kSecondWide = 75;   // the second SM of a TPC begins later by: blocks of one warp, more for eight
constexpr double kSecondInTurn = 29;                     // the same of clusters
constexpr double kBeginSpread = 8;
constexpr double kDistanceOfTpc = 6.8, kDistanceOfSm = 2.4;  // of a trip to L2: TPCs differ by, SMs of one [drift_fma_load: 7.3 and 3.4 a step]
constexpr double kTripNoise = 1;                         // of each trip of who is alone
constexpr double kOwnSpread = 60;                        // of when memory answers what nobody else asked for
constexpr double kLater = 0.15, kCopyLater = 0.04;       // of the time that a block took, for the one after it, where blocks share an SM [steps_many/4224; tile_blocks/4 to 16]
constexpr double kNextBegins = 30;                       // spread of the one after it where a block has its SM alone: who ended together begins together [locked_held1/264 to 1056]
constexpr double kTpcTogether = 0.35;                    // of TPCs whose SMs take up new blocks together [tiles64/256, steps_work_long/256]
constexpr double kUnitNoise = 38;                        // variance for each instruction of a warp in such units, where warps run free [drift_root_bulk, mma, exp, double]
constexpr double kMeetNoise = 27, kMeetUnits = 256;      // where they meet at barriers: shared memory and tensor cores, of so many instructions or more [drift_root_load, shared_load, mma_load: 0.26 to 0.70 of the requests are left]
constexpr double kBlocksDiffer = 0.13;                   // of the time that a block works beside others of its SM, whose turns then differ, where all cycles issue [locked_tiles2, tiles64/64 and tiles128/256 of together.cu: 0.81, 0.89 and 0.85 are left]
constexpr double kBlocksNoise = 0.05;                    // variance for each cycle where all wait for the same data, which brings them together [locked_held2/264, locked_held4/528, steps_work_more]
constexpr double kCopyNoise = 2;                       // of a copy [tile_no_ends/16]
constexpr double kSpreadCounts = 1.0 / 3;                // of the spread of SMs, by which requests keep each other waiting for less long
constexpr double kBeyondHit = 60;
constexpr double kQueued = 0.2;                          // of the cycles for which a warp that roams waits for others to issue or to leave L1, spread [free_own8, 32, free_own_warps]
constexpr double kComesWith = 64;                        // of when what was asked for last comes: who waits for that line, too
constexpr uint32_t kRoams = 6;                           // loads one after the other without a barrier
constexpr uint32_t kSubCores = 4;                         // of an SM: so many warps do not queue for each other

/// What 256 equal parts of a normal distribution lie at.
struct Normal {
  float at[256];
  Normal() {
    for (int i = 0; i < 256; i++) {
      double low = -5, high = 5;
      for (int k = 0; k < 40; k++) {
        const double middle = (low + high) / 2;
        (0.5 * std::erfc(-middle / std::sqrt(2.0)) < (i + 0.5) / 256 ? low : high) = middle;
      }
      at[i] = float(low);
    }
  }
};
const Normal normal;

float draw(uint64_t key) { return normal.at[mix(mix(key)) >> 30 & 255]; }

}  // namespace

/// Where a block stands that begins at `now` in the place of `before`, if that was used.
void Sm::State::begin_apart(Slot& fresh, const Slot& before, double now) {
  Apart& apart = fresh.apart;
  const std::vector<float>& ended = before.apart.late;
  fresh.began = apart.seen = std::max(1.0, now);
  if (kernel.ghosts == 0) return;
  if (distances.empty()) find_distances();
  const uint64_t key = ended.empty() ? ++draws << 12 : uint64_t{1} << 60;  // who ended late ends late again
  if (ended.empty()) {
    const double wide = kernel.cluster_launch ? kSecondInTurn : kSecondBegins + kSecondWide * std::min(1.0, (fresh_warps - 1) / 7.0);
    for (uint32_t i = 0; i <= kernel.ghosts; i++)
      apart.late.push_back(float(kBeginSpread * draw(key + i) + (chip.place(first_sm + i).second ? wide : 0)));
  } else {
    apart.late = ended;
    const double spread = slots.size() == 1 ? kNextBegins : (tma > 0 ? kCopyLater : kLater) * (now - before.began);
    for (uint32_t i = 0; i <= kernel.ghosts; i++) {
      const uint32_t tpc = chip.place(first_sm + i).tpc;
      const bool together = double(mix(mix(tpc + 31337u)) >> 30 & 255) < kTpcTogether * 256;
      apart.late[i] += float(spread) * draw(key + (together ? 4096 + tpc : i));
    }
  }
  settle_late(apart);
}

/// Counts from the detailed block, and sorts SMs: who asks first is answered first.
void Sm::State::settle_late(Apart& apart) {
  std::vector<float>& late = apart.late;
  std::vector<uint16_t>& order = apart.order;
  const float own = late[number - first_sm];
  for (float& l : late) l -= own;
  bool changed = order.size() != late.size();
  if (changed) {
    order.resize(late.size());
    for (uint32_t i = 0; i < order.size(); i++) order[i] = uint16_t(i);
  }
  for (size_t i = 1; i < order.size(); i++) {  // nearly sorted
    const uint16_t at = order[i];
    size_t k = i;
    for (; k > 0 && late[order[k - 1]] > late[at]; k--) order[k] = order[k - 1];
    order[k] = at, changed |= k < i;
  }
  if (changed) apart.turn = ++orders;
}

/// What a block fetches from `at` on, or waits for, is there at `done`. What it asks for before the first has come is one with that.
void Sm::State::note_fetch(Slot& slot, double at, double done) {
  if (kernel.cluster < 2) return;
  Fetching& x = slot.fetching;
  if (at > x.first) {
    x.variance += (x.ends - x.began) * (x.ends - x.began);
    x.began = at, x.first = x.ends = done;
  }
  x.first = std::min(x.first, done), x.ends = std::max(x.ends, done);
}

/// What a block that meets its cluster waits for the last of it, on average: blocks do alike, but what they fetch takes some longer than others.
double Sm::State::wait_for_last(Slot& slot) const {
  const Fetching x = std::exchange(slot.fetching, {});
  const double apart = kFetchSpread * std::sqrt(x.variance + (x.ends - x.began) * (x.ends - x.began));
  return apart * (0.16 + 0.41 * std::log2(double(kernel.cluster)));  // the mean of the largest of so many: 0.56, 1.03 and 1.42 of 2, 4 and 8
}

/// Blocks of a cluster that meets go on together: when the last has come.
void Sm::State::settle_clusters(Slot& slot) {
  std::vector<float>& late = slot.apart.late;
  if (late.empty() || kernel.cluster < 2) return;
  for (size_t i = 0; i < late.size(); i += kernel.cluster) {
    const auto first = late.begin() + ptrdiff_t(i), end = late.begin() + ptrdiff_t(std::min(late.size(), i + kernel.cluster));
    std::fill(first, end, *std::max_element(first, end));
  }
  settle_late(slot.apart);
}

/// Does any instruction load what other blocks load, too?
bool Sm::State::shares() const {
  if (kernel.ghosts == 0) return false;
  if (kernel.traces) return true;
  if (!kernel.copies.empty()) return true;
  for (const auto& [pc, s] : kernel.slopes)
    if (s.regular && ((s.x == 0 && kernel.grid.x > 1) || (s.y == 0 && kernel.grid.y > 1) || (s.z == 0 && kernel.grid.z > 1))) return true;
  return false;
}

/// How much longer trips to L2 take each SM.
void Sm::State::find_distances() {
  for (uint32_t i = 0; i <= kernel.ghosts; i++)
    distances.push_back(float(kDistanceOfTpc) * draw(chip.place(first_sm + i).tpc + 77u) + float(kDistanceOfSm) * draw(first_sm + i + 7777u));
}

/// Arithmetic since the last trip leaves SMs where they were, or not.
void Sm::State::drift(Slot& slot, double at) {
  Apart& apart = slot.apart;
  const bool queue = slot.warps > kSubCores;
  double variance = !queue ? 0 : slot.met ? kMeetNoise * kMeetNoise * std::min(1.0, double(slot.shared_units) / slot.warps / kMeetUnits) : kUnitNoise * double(slot.units) / slot.warps;
  uint32_t used = 0;
  for (const Slot& other : slots) used += other.used;
  const double worked = std::max(0.0, at - apart.seen), busy = std::min(1.0, double(counts.issued - apart.issued) / (kSubCores * std::max(1.0, at - apart.asked)));
  const double differs = kBlocksDiffer * busy * worked;
  apart.asked = at, apart.issued = counts.issued;
  if (used > 1) variance += slot.in_phase ? kBlocksNoise * worked : differs * differs;
  apart.seen = std::max(apart.seen, at), slot.met = slot.in_phase = false, slot.units = slot.shared_units = 0;
  apart.variance += variance;
  spread(apart);
}

/// The same of a warp that roams: it has waited for others, which on another SM came by as much sooner or later as they are apart there.
void Sm::State::drift(WarpRun& w) {
  const float queued = float(std::exchange(w.queued, 0));
  const uint32_t other = std::exchange(roamed_last, number_of(w));
  if (other == UINT32_MAX || &warps[other] == &w || !warps[other].live) return;
  const std::vector<float>& others = apart_of(warps[other]).late;
  std::vector<float>& late = w.apart.late;
  const uint64_t key = ++draws << 12;
  for (uint32_t i = 0; i < late.size(); i++) late[i] += float(kQueued) * std::min(queued, std::fabs(late[i] - others[i])) * draw(key + i);
  settle_late(w.apart);
}

void Sm::State::spread(Apart& apart) {
  if (apart.variance < 16) return;
  const float spread = float(std::sqrt(std::exchange(apart.variance, 0)));
  const uint64_t key = ++draws << 12;
  for (uint32_t i = 0; i < apart.late.size(); i++) apart.late[i] += spread * draw(key + i);
  settle_late(apart);
}

/// A warp that loads again and again and meets no others goes its own way on each SM.
void Sm::State::roam(WarpRun& w, double at, double done) {
  w.trips += at >= w.came;
  w.came = std::max(w.came, done);
  if (w.roams || w.trips < kRoams) return;
  w.roams = true, w.apart.late = slots[w.slot].apart.late, w.apart.order.clear(), w.apart.trip.open = false;
  w.queued = 0;
  settle_late(w.apart);
}

/// A warp that roams waits until `done` for a line that another has asked for: they go on together.
void Sm::State::wait_with(WarpRun& w, double done) {
  if (!w.roams || coming.empty() || std::fabs(done - comes) > kComesWith) return;
  if (w.apart.trip.open) close_trip(w.apart, 1);
  w.apart.late = coming, w.queued = 0;
  settle_late(w.apart);
}

/// A warp meets others of its block: they go on when the last of them has come.
void Sm::State::meet(Slot& slot, WarpRun& w) {
  w.trips = 0;
  if (!std::exchange(w.roams, false)) return;
  slot.apart.late = w.apart.late;
  settle_late(slot.apart);
}

/// Who is answered together with whom, when all of `mates` that are alike load the same: when each goes on, from when the detailed block asked.
void Sm::State::answer(const Apart& apart, const std::vector<uint32_t>& mates, double waited, bool memory) {
  using Group = AnsweredTogether;
  // An SM has up to three groups: the table is never full.
  std::vector<Group>& groups = answered;
  if (groups.size() < 4 * apart.late.size()) groups.assign(std::bit_ceil(4 * apart.late.size()), {});
  const size_t last = groups.size() - 1;
  const uint64_t turn = ++draws;
  const auto group_of = [&](uint64_t key) -> Group& {
    size_t at = mix(key) >> 40 & last;
    while (groups[at].turn == turn && groups[at].key != key) at = (at + 1) & last;
    if (groups[at].turn != turn) groups[at] = {key, turn, 0, 0, 0};
    return groups[at];
  };
  wakes.assign(apart.late.size(), 0);
  for (const uint16_t i : apart.order) {
    const float late = apart.late[i];
    const uint32_t mate = mates[i];
    float wake = late + float(waited) + distances[i] + float(kTripNoise) * draw((turn << 12) + i);
    if (mate) {
      const SmPlace& place = chip.place(first_sm + i);
      bool waits = false;
      if (memory) {
        Group& all = group_of(uint64_t{mate} << 20 | 0xFFFFF);
        if (all.asked++ == 0) all.late = late, all.wake = late + float(waited) + (mate == mates[number - first_sm] ? 0 : float(kOwnSpread) * draw((turn << 12) + mate));
        waits = late + float(f.l2_latency) < all.wake;
        wake = waits ? all.wake + distances[i] : late + float(f.l2_latency) + distances[i];
      }
      // Those of a GPC that come in time are answered with the first.
      Group& gpc = group_of(uint64_t{mate} << 20 | 0x80000 | place.gpc);
      if (gpc.asked && gpc.asked < kMergeMost && late - gpc.late < (waits ? waited : (copies || past_l1 ? kCopyWindow : kLoadWindow) + kept_waiting)) wake = gpc.wake, gpc.asked++;
      else gpc = {gpc.key, turn, late, wake, 1};
    } else if (memory) {
      wake += float(kOwnSpread) * draw((turn << 12) + i + 200);
    }
    wakes[i] = wake;
  }
}

/// Ends the loads that were under way together: those of so many warps that waited for them go on.
void Sm::State::close_trip(Apart& apart, uint32_t warps) {
  Trip& t = apart.trip;
  std::vector<float>& late = apart.late;
  t.open = false;
  apart.seen = std::max(apart.seen, t.last_done);
  if (!t.shared && t.own_done == 0) return;
  const uint32_t own = number - first_sm;
  const uint64_t key = ++draws << 12;
  const float share = std::min(1.0f, float(std::popcount(t.warps)) / float(std::min(64u, warps)));
  if (!t.shared) {
    for (uint32_t i = 0; i < late.size(); i++) late[i] += share * float(kOwnSpread) * draw(key + i);
    return settle_late(apart);
  }
  if (t.own_done > 0)
    for (uint32_t i = 0; i < late.size(); i++) t.wakes[i] = std::max(t.wakes[i], float(t.own_done) + late[i] + float(kOwnSpread) * draw(key + i));
  const float from = t.wakes[own];
  for (uint32_t i = 0; i < late.size(); i++) late[i] += share * (t.wakes[i] - from - late[i]);
  settle_late(apart);
}

/// What is asked for from here on is for those who are so far apart: the block in `slot`, or a warp of it.
void Sm::State::asks(Apart& apart, const Slot& slot, double at, bool by_copies) {
  if (apart.trip.open && at >= apart.trip.first_done) close_trip(apart, &apart == &slot.apart ? slot.warps : 1);
  const std::vector<float>& late = apart.late;
  const std::vector<uint16_t>& order = apart.order;
  const size_t sixth = order.size() / 6;
  asking_apart = order.empty() ? 0 : float(kSpreadCounts) * (late[order[order.size() - 1 - sixth]] - late[order[sixth]]);
  asking_late = late.empty() ? nullptr : late.data(), copies = by_copies, longest = kept_waiting = 0;
}

/// A warp loads at `at`, until `done`; what is alike in `mates` (by SM; 0: nothing) is the same data. Empty: nobody loads what another does.
void Sm::State::note_trip(WarpRun& w, double at, double done, const std::vector<uint32_t>& mates, bool ahead) {
  Slot& slot = slots[w.slot];
  if (!ahead && !slot.apart.late.empty() && shared_data) roam(w, at, done);
  Apart& apart = ahead ? slot.apart : apart_of(w);
  std::vector<float>& late = apart.late;
  if (late.empty() || !shared_data) return;
  const double waited = done - at;
  const bool memory = waited > f.l2_far_latency + kBeyondHit;
  if (ahead) {
    drift(slot, at);
    apart.variance += kCopyNoise * kCopyNoise / (copies ? 1 : slot.warps);
    const float stall = float(std::exchange(slot.stalled, 0) / std::max(1u, std::exchange(slot.stalls, 0)));
    if (!memory || mates.empty() || stall < 1) return;
    answer(apart, mates, waited, memory);
    const float own = wakes[number - first_sm];
    for (uint32_t i = 0; i < late.size(); i++) late[i] += std::clamp(wakes[i] - own - late[i], -stall, stall);
    return settle_late(apart);
  }
  Trip& t = apart.trip;
  if (!t.open) {
    if (w.roams) drift(w);
    else drift(slot, at);
    t.open = true, t.shared = false, t.began = at, t.first_done = t.last_done = done, t.own_done = 0, t.warps = 0;
  }
  t.last_done = std::max(t.last_done, done);
  t.warps |= uint64_t{1} << (w.place & 63);
  if (mates.empty()) {
    if (memory) t.own_done = std::max(t.own_done, done - t.began);
    return;
  }
  slot.in_phase |= std::all_of(mates.begin(), mates.end(), [&](uint32_t mate) { return mate == 0 || mate == mates[number - first_sm]; });
  if (!std::exchange(t.shared, true)) t.wakes.assign(late.size(), -1e30f);
  answer(apart, mates, waited, memory);
  coming = wakes, comes = done;
  for (uint32_t i = 0; i < late.size(); i++) t.wakes[i] = std::max(t.wakes[i], float(at - t.began) + wakes[i]);
}

}  // namespace orrery::timing
