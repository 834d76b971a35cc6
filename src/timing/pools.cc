// timing/pools.cc: what ghosts draw of where addresses do not move evenly: lines of the traced blocks, and the places of their bulk copies.
//
// Lines that several blocks touched are shared by all; a block's own stand for those of blocks that were not traced, elsewhere in the
// range that was seen. Bulk copies are drawn whole, and of as many blocks as the budget allows they are followed.
// Not here: which blocks are traced (sample.cc), how ghosts draw (sm_ghosts.cc).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "timing/predictor.h"

namespace orrery::timing {

namespace {

constexpr double kFollowed = 8;  // instructions of blocks that are followed for their copies alone, in trace budgets: most are left out

bool is_copy(const Event& e) { return e.what == What::bulk_load || e.what == What::bulk_store; }

/// Which block touches each of some lines.
class LineOwners {
 public:
  static constexpr uint64_t kSeveral = ~uint64_t{0}, kNone = kSeveral - 1;  // blocks
  size_t size() const { return used_; }
  void touch(uint64_t line, uint64_t block) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& s = slots_[place_of(line)];
    if (s.block == kNone) s = {line, block}, used_++;
    else if (s.block != block) s.block = kSeveral;
  }
  uint64_t of(uint64_t line) const { return slots_.empty() ? kNone : slots_[place_of(line)].block; }

 private:
  struct Slot {
    uint64_t line = 0, block = kNone;
  };
  size_t place_of(uint64_t line) const {
    size_t at = mix(line) >> 20 & (slots_.size() - 1);
    while (slots_[at].block != kNone && slots_[at].line != line) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, 2 * slots_.size())));
    for (const Slot& s : old)
      if (s.block != kNone) slots_[place_of(s.line)] = s;
  }
  std::vector<Slot> slots_;  // as many as a power of two, half of them empty
  size_t used_ = 0;
};

}  // namespace

void Predictor::make_pools() {
  if (regular_ || all_traced_) return;  // every block does as one, or as its own trace says
  constexpr size_t kMostLines = 200'000;
  std::map<uint32_t, LineOwners> owner;
  const auto for_uneven = [&](const TracedBlock& b, auto f) {
    for (const TracedWarp& w : b.warps)
      for (const Event& e : w.events) {
        if (e.n_detail == 0 || is_copy(e) || is_local(e.what) || e.what == What::bulk_prefetch) continue;
        const auto slope = kernel_.slopes.find(e.pc);
        if (slope == kernel_.slopes.end() || !slope->second.regular) f(e);
      }
  };
  for (const auto& [at, b] : traced_)
    for_uneven(*b, [&](const Event& e) {
      LineOwners& owners = owner[e.pc];
      LinePool& pool = kernel_.pools[e.pc];
      for (uint32_t i = 0; i < e.n_detail; i++) {
        const uint64_t line = b->lines[e.detail + i] >> 4;
        pool.low = std::min(pool.low, line), pool.high = std::max(pool.high, line);
        if (owners.size() < kMostLines) owners.touch(line, at);
      }
    });
  for (const auto& [at, b] : traced_) {
    b->own.assign(b->lines.size(), 0);
    for_uneven(*b, [&](const Event& e) {
      const LineOwners& owners = owner[e.pc];
      for (uint32_t i = 0; i < e.n_detail; i++) b->own[e.detail + i] = owners.of(b->lines[e.detail + i] >> 4) != LineOwners::kSeveral;
    });
  }
}

/// Slopes are those of clusters' first blocks: copies that the other blocks make elsewhere than these tell (what their first one copies, too) do not move evenly.
void Predictor::compare_ranks() {
  for (const auto& [at, b] : traced_) {
    if (b->rank == 0) continue;
    int64_t away[3];
    for (int i = 0; i < 3; i++) away[i] = int64_t(b->ctaid[i]) - int64_t(model_->ctaid[i]);
    for (size_t w = 0; w < std::min(b->warps.size(), model_->warps.size()); w++) {
      std::map<uint32_t, std::vector<uint64_t>> models;
      std::map<uint32_t, size_t> next;
      for (const Event& e : model_->warps[w].events)
        if (is_copy(e) && e.n_detail) models[e.pc].push_back(e.address);
      for (const Event& e : b->warps[w].events) {
        const auto slope = is_copy(e) && e.n_detail ? kernel_.slopes.find(e.pc) : kernel_.slopes.end();
        if (slope == kernel_.slopes.end() || !slope->second.regular) continue;
        const std::vector<uint64_t>& list = models[e.pc];
        const size_t n = next[e.pc]++;
        Slope& s = slope->second;
        if (n < list.size()) s.regular = int64_t(e.address - list[n]) == s.x * away[0] + s.y * away[1] + s.z * away[2];
      }
    }
  }
}

/// Of a cluster one block is simulated: the first, or one that works longer for certain, as those do that take more words of the others [before, turn of
/// calib/steps/peer_words.cu]. Not where blocks copy in bulk, since one may do that for all.
void Predictor::find_lead() {
  constexpr double kLonger = 1.05;
  const uint64_t n = launch_.cluster.count();
  if (n == 1) return;
  std::vector<double> cost(n, 0), work(n, 0);
  bool copies = false;
  for (const auto& [at, b] : traced_) {
    work[b->rank] += double(b->work()), cost[b->rank] += double(b->work());
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events) {
        copies |= is_copy(e);
        if (e.what == What::remote_load) cost[b->rank] += double(e.count + e.extra);
      }
  }
  const auto longest = uint32_t(std::max_element(cost.begin(), cost.end()) - cost.begin());
  const uint32_t lead = !copies && cost[longest] > kLonger * cost[0] ? longest : 0;
  const exec::Dim3 c = launch_.cluster;
  lead_ = lead % c.x + kernel_.grid.x * (lead / c.x % c.y + kernel_.grid.y * uint64_t{lead / (c.x * c.y)});
  if (work[lead] > 0) lead_share_ = std::accumulate(work.begin(), work.end(), 0.0) / double(n) / work[lead];
}

/// The block that is simulated of the cluster whose first one is `b`.
const TracedBlock& Predictor::lead_of(const TracedBlock& b) const {
  const auto found = lead_ && b.rank == 0 ? traced_.find(ordinal(b) + lead_) : traced_.end();
  return found == traced_.end() ? b : *found->second;
}

/// Irregular bulk copies: the blocks that copy from places of their own, and how many there may be. Of T blocks that draw from
/// N places, N (1 - (1 - 1/N)^T) differ; a tensor has room for no more than its size tells.
void Predictor::make_copy_pools() {
  std::map<uint64_t, std::map<std::vector<uint64_t>, uint32_t>> found;  // by copy_key: where blocks copy from, and how many do so
  std::map<uint32_t, double> room;  // by instruction: how many blocks' copies the tensor holds side by side
  for (const auto& [at, b] : traced_) {
    std::map<uint32_t, std::set<uint64_t>> places;
    std::map<uint64_t, std::vector<uint64_t>> starts;
    for (uint32_t w = 0; w < b->warps.size(); w++)
      for (const Event& e : b->warps[w].events)
        if (is_copy(e)) {
          starts[copy_key(e.pc, w)].push_back(e.n_detail ? e.address : 0);
          if (e.n_detail) places[e.pc].insert(e.address);
        }
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events)
        if (e.what == What::bulk_load && e.n_detail && b->runs[e.detail].space && !room.count(e.pc))
          room[e.pc] = double(b->runs[e.detail].space) / (double(e.count) * double(places[e.pc].size()));
    for (auto& [key, list] : starts) {
      const auto slope = kernel_.slopes.find(uint32_t(key));
      if ((slope != kernel_.slopes.end() && slope->second.regular) || places[uint32_t(key)].empty()) continue;
      found[key][std::move(list)]++;
    }
  }
  for (auto& [key, lists] : found) {
    CopyPool& pool = kernel_.copies[key];
    double drawn = 0;
    for (auto& [list, blocks] : lists) pool.starts.push_back(list), drawn += blocks;
    const double distinct = double(pool.starts.size());
    pool.share = drawn / double(traced_.size());
    const auto differ = [&](uint64_t n) { return double(n) * (1 - std::pow(1 - 1 / double(n), drawn)); };
    uint64_t least = pool.starts.size(), most = std::max<uint64_t>(least, launch_.grid.count());  // the smallest N, between these
    while (least < most) {
      const uint64_t middle = least + (most - least) / 2;
      if (differ(middle) < distinct - 0.01) least = middle + 1;
      else most = middle;
    }
    double n = double(least);
    if (const double places = room[uint32_t(key)]; places > 0) n = std::clamp(places, distinct, std::max(distinct, n));
    pool.population = uint32_t(std::min(n, 4e9));
  }
}

/// Where the irregular bulk copies of the blocks lie that are simulated or ghosts, as many as the budget allows, in the order in which blocks
/// begin: they are run with nothing but what control and addresses depend on. Only a refinement: a block that cannot be run so ends it.
void Predictor::follow_copies() {
  constexpr uint64_t kMostBlocks = 1 << 22;  // numbers of blocks whose copies are kept
  if (kernel_.copies.empty() || both_ways_) return;  // (none could be run alone)
  const Stopwatch watch(running_, host_.trace);
  const uint64_t n = launch_.cluster.count(), units = launch_.grid.count() / n;
  const uint64_t affordable = uint64_t(double(options_.trace_budget) * kFollowed / std::max(1.0, double(model_->instructions * n)));
  const uint64_t followed = std::min({units, affordable, extent_.rows_run * extent_.stride});
  if (followed * 2 < std::min<uint64_t>(units, figures_.sms / n)) return;  // too few to be worth it
  TraceOptions t;
  t.copies_only = true;
  try {
    PairedTracer tracer(machine_, launch_, t);
    std::vector<uint64_t> units_followed(followed);
    std::iota(units_followed.begin(), units_followed.end(), uint64_t{0});
    tracer.trace_each(units_followed, [](size_t) { return true; }, [&](const std::vector<TracedBlock>& blocks) {
      for (const TracedBlock& b : blocks) {
        const uint64_t at = ordinal(b);
        if (at >= kMostBlocks) continue;
        if (at >= kernel_.copies_followed.size()) kernel_.copies_followed.resize(at + 1);
        kernel_.copies_followed[at] = true;
        for (uint32_t w = 0; w < b.warps.size(); w++)
          for (const Event& e : b.warps[w].events) {
            if (!is_copy(e) || !kernel_.copies.count(copy_key(e.pc, w))) continue;
            AllCopies& all = kernel_.all_copies[copy_key(e.pc, w)];
            if (at >= all.starts.size()) all.starts.resize(at + 1);
            all.starts[at].push_back(e.n_detail ? e.address : 0);
          }
      }
    });
    host_.trace_aside += tracer.aside_seconds();
  } catch (const base::Error& e) {
    p_.notes.push_back(fmt::format("copies of blocks that were not traced are drawn from those of traced ones: {}", e.what()));
  }
}

}  // namespace orrery::timing
