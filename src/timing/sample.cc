// timing/sample.cc: which blocks are traced, and how the addresses of the others follow from theirs. Few that do far more: rare_blocks.cc.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "timing/predictor.h"

namespace orrery::timing {

namespace {
/// Does the block lie inside the grid in every direction in which there is room for that?
bool is_inner(const TracedBlock& b, const GridShape& grid) {
  const uint64_t most[3] = {grid.x, grid.y, grid.z};
  for (int i = 0; i < 3; i++)
    if (most[i] > 8 && (b.ctaid[i] == 0 || b.ctaid[i] + 1 == most[i])) return false;
  return true;
}

/// Would leaving out the blocks whose control flow is not that of most change the kernel's time? One that works far longer does (the first
/// block adds up alone what all have found), and so do some whose work is another (those that find no tile left, or one tile more).
bool odd_ones_matter(const std::vector<const TracedBlock*>& traced, const TracedBlock& usual) {
  constexpr double kLonger = 1.5, kShare = 0.05;
  const auto most = double(usual.work());
  double apart = 0;
  for (const TracedBlock* b : traced) {
    if (b->shape == usual.shape) continue;
    if (double(b->work()) > kLonger * most) return true;
    apart += std::abs(double(b->work()) - most);
  }
  return apart > kShare * most * double(traced.size());
}

/// Do some blocks touch lines where the usual one touches none or few: those at the grid's edges alone store? What they execute may be the same.
bool odd_ones_touch_more(const std::vector<const TracedBlock*>& traced, const TracedBlock& usual) {
  constexpr double kShare = 0.25;
  double more = 0;
  for (const TracedBlock* b : traced) more += std::max(0.0, double(b->lines.size()) - double(usual.lines.size()));
  return more > kShare * double(usual.lines.size()) * double(traced.size());
}

/// By instruction, the addresses of a warp in order; beyond the last warp, those from which peers copy into the block.
std::map<uint32_t, std::vector<uint64_t>> addresses_of(const TracedBlock& b, size_t warp) {
  std::map<uint32_t, std::vector<uint64_t>> found;
  if (warp < b.warps.size()) {
    for (const Event& e : b.warps[warp].events)
      if (e.address) found[e.pc].push_back(e.address);
    return found;
  }
  for (const std::vector<PeerCopy>& copies : b.from_peers)
    for (const PeerCopy& c : copies)
      if (c.copy.address) found[c.copy.pc].push_back(c.copy.address);
  return found;
}

/// Of blocks that do alike the one whose rows begin as those of most do, between lines and sectors or at their edges.
const TracedBlock* usual_of(const std::vector<const TracedBlock*>& same) {
  const auto lines_and_parts = [](const TracedBlock* b) {
    uint64_t n = 0;
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events)
        if (e.address) n += 2 * e.n_detail + (e.address % 32 != 0);
    return n;
  };
  std::vector<std::pair<uint64_t, const TracedBlock*>> ordered;
  for (const TracedBlock* b : same) ordered.emplace_back(lines_and_parts(b), b);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return ordered[ordered.size() / 2].second;
}

/// The i-th of units all over the grid, always the same: of large grids. In small ones it goes from place to place in steps of nearly their size, and so keeps to
/// the ends for long: place_in() spreads over those.
uint64_t spread_unit(uint64_t i, uint64_t units) { return (i * 0x9E3779B97F4A7C15ull >> 11) % units; }

constexpr size_t kAlike = 6;                          // blocks of one shape that tell enough
}  // namespace

void Predictor::trace(uint64_t unit) {
  if (traced_.count(first_block(unit))) return;
  const Stopwatch watch(running_, host_.trace);
  keep(tracer_->trace(unit));
}

/// Traces the units that are not yet, in order, as long as `wants(1)`; `wants(n)`: are so many more wanted?
void Predictor::trace_while(const std::vector<uint64_t>& units, const std::function<bool(size_t)>& wants) {
  std::vector<uint64_t> fresh;
  std::unordered_set<uint64_t> listed;
  for (const uint64_t unit : units)
    if (!traced_.count(first_block(unit)) && listed.insert(unit).second) fresh.push_back(unit);
  const Stopwatch watch(running_, host_.trace);
  tracer_->trace_each(fresh, wants, [&](std::vector<TracedBlock> blocks) { keep(std::move(blocks)); });
}

/// Slopes from traced blocks: all addresses of an instruction must move by the same bytes from block to block.
void Predictor::fit_slopes(const std::vector<const TracedBlock*>& same) {
  model_ = usual_of(same);
  struct Difference {
    int64_t d[3];
    int64_t bytes;
  };
  std::map<uint32_t, std::vector<Difference>> seen;
  std::set<uint32_t> uneven;
  for (const TracedBlock* b : same) {
    if (b == model_) continue;
    Difference d{};
    for (int i = 0; i < 3; i++) d.d[i] = int64_t(b->ctaid[i]) - int64_t(model_->ctaid[i]);
    std::map<uint32_t, int64_t> first;
    for (size_t w = 0; w <= b->warps.size(); w++) {
      const std::map<uint32_t, std::vector<uint64_t>> own = addresses_of(*b, w), models = addresses_of(*model_, w);
      for (const auto& [pc, list] : own) {
        const auto other = models.find(pc);
        if (other == models.end() || other->second.size() != list.size()) {
          uneven.insert(pc), first.try_emplace(pc, 0);
          continue;
        }
        for (size_t i = 0; i < list.size(); i++) {
          const int64_t bytes = int64_t(list[i] - other->second[i]);
          const auto [at, fresh] = first.try_emplace(pc, bytes);
          if (!fresh && at->second != bytes) uneven.insert(pc);
        }
      }
    }
    for (const auto& [pc, bytes] : first) d.bytes = bytes, seen[pc].push_back(d);
  }
  for (const auto& [pc, list] : seen) {
    Slope s;
    s.regular = !uneven.count(pc);
    int64_t* slope[3] = {&s.x, &s.y, &s.z};
    bool known[3] = {};
    for (int round = 0; round < 3 && s.regular; round++)
      for (const Difference& d : list) {
        int64_t rest = d.bytes;
        int unknown = -1, n = 0;
        for (int i = 0; i < 3; i++) {
          if (d.d[i] == 0) continue;
          if (known[i]) rest -= *slope[i] * d.d[i];
          else unknown = i, n++;
        }
        if (n == 1 && rest % d.d[unknown] == 0) *slope[unknown] = rest / d.d[unknown], known[unknown] = true;
        else if (n == 1) s.regular = false;
      }
    for (const Difference& d : list) {
      int64_t sum = 0;
      for (int i = 0; i < 3; i++) sum += *slope[i] * d.d[i];
      if (sum != d.bytes) s.regular = false;
    }
    kernel_.slopes[pc] = s;
  }
  for (int i = 0; i < 3; i++)
    if (std::all_of(same.begin(), same.end(), [&](const TracedBlock* b) { return b->ctaid[i] == model_->ctaid[i]; })) fit_slope_across(i);
}

/// The slopes in a direction in which no two blocks of the shape lie (two blocks to a row, of which the second does less): by what warps of
/// blocks of other shapes do alike.
void Predictor::fit_slope_across(int direction) {
  struct Candidate {
    int64_t bytes = 0;
    bool agreed = true;
  };
  std::map<uint32_t, Candidate> found;
  for (const auto& [at, b] : traced_) {
    if (b->rank != 0 || b->ctaid[direction] == model_->ctaid[direction]) continue;
    int64_t d[3];
    for (int i = 0; i < 3; i++) d[i] = int64_t(b->ctaid[i]) - int64_t(model_->ctaid[i]);
    for (size_t w = 0; w < b->warps.size(); w++) {
      const std::map<uint32_t, std::vector<uint64_t>> own = addresses_of(*b, w), models = addresses_of(*model_, w);
      for (const auto& [pc, list] : own) {
        const auto other = models.find(pc);
        const auto slope = kernel_.slopes.find(pc);
        if (other == models.end() || other->second.size() != list.size() || slope == kernel_.slopes.end() || !slope->second.regular) continue;
        const int64_t known[3] = {slope->second.x, slope->second.y, slope->second.z};
        for (size_t n = 0; n < list.size(); n++) {
          int64_t rest = int64_t(list[n] - other->second[n]);
          for (int i = 0; i < 3; i++)
            if (i != direction) rest -= known[i] * d[i];
          const auto [candidate, fresh] = found.try_emplace(pc, Candidate{rest / d[direction], true});
          if (rest % d[direction] || candidate->second.bytes != rest / d[direction]) candidate->second.agreed = false;
        }
      }
    }
  }
  for (const auto& [pc, candidate] : found) {
    Slope& s = kernel_.slopes[pc];
    int64_t* const slope[3] = {&s.x, &s.y, &s.z};
    if (candidate.agreed) *slope[direction] = candidate.bytes;
  }
}

void Predictor::start_tracer(uint64_t most) {
  TraceOptions t;
  t.most_instructions = most;
  t.max_instructions = options_.recorded_most, t.warps = p_.occupancy * figures_.warps;
  tracer_ = std::make_unique<PairedTracer>(machine_, launch_, t);
}

void Predictor::sample() {
  start_tracer();
  const uint64_t units = launch_.grid.count() / launch_.cluster.count(), nx = launch_.grid.x / launch_.cluster.x;
  const uint64_t ny = launch_.grid.y / launch_.cluster.y, nz = launch_.grid.z / launch_.cluster.z;
  const uint64_t mx = nx / 2, my = ny / 2, mz = nz / 2;
  const auto unit = [&](uint64_t x, uint64_t y, uint64_t z) { return std::min(x, nx - 1) + nx * (std::min(y, ny - 1) + ny * std::min(z, nz - 1)); };
  contended_ = trace_contended();
  in_order_ = !contended_ && waits_for_blocks();
  if (in_order_) trace_in_order();
  else if (!contended_) trace_first(unit(mx, my, mz));
  const double first = double(trace_instructions_) / double(traced_.size());
  estimate_(first * double(launch_.grid.count()));
  // Neighbours first: where the budget ends before all are traced, they say how addresses move.
  const std::vector<uint64_t> wanted = {unit(mx + 1, my, mz), unit(mx, my + 1, mz), unit(mx, my, mz + 1), unit(mx + 3, my + 2, mz), unit(nx / 3, ny / 3, nz / 3),
                                     unit(nx / 5, ny * 2 / 3, mz), unit(1, 1, 0), 0, unit(nx * 3 / 4, ny / 4, mz)};
  const auto all_alike = [&] {  // long blocks of one shape, some of them far apart: more would say nothing new
    size_t alike = 0, all = 0;
    for (const auto& [at, b] : traced_)
      if (b->rank == 0) all++, alike += b->shape == traced_.begin()->second->shape;
    return all >= kAlike && alike == all && trace_instructions_ > options_.slope_budget / 8;
  };
  if (!in_order_ && !contended_)
    trace_while(wanted, [&](size_t n) {  // of long blocks no two at a time when one would do
      const uint64_t others = trace_instructions_ * launch_.cluster.count() / traced_.size() * (n - 1);
      return !all_alike() && ((trace_instructions_ + others < options_.slope_budget && trace_bytes_ < kMostTraced) || traced_.size() + n <= 3);
    });
  if (!in_order_ && !contended_) trace_long_ones(units), trace_last(units);
  std::map<uint64_t, std::vector<const TracedBlock*>> shapes;
  for (const auto& [at, b] : traced_)
    if (b->rank == 0) shapes[b->shape].push_back(b.get());
  const auto most = std::max_element(shapes.begin(), shapes.end(), [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
  size_t rank0 = 0;
  for (const auto& [shape, list] : shapes) rank0 += list.size();
  std::vector<const TracedBlock*> all;
  for (const auto& [at, b] : traced_)
    if (b->rank == 0) all.push_back(b.get());
  // Blocks of one shape, where there are enough, first without those at the grid's edges, whose addresses are often clamped; else what
  // data decide differs, and addresses may yet move evenly.
  const std::vector<const TracedBlock*>& same = most->second.size() >= 3 ? most->second : all;
  std::vector<const TracedBlock*> inner;
  for (const TracedBlock* b : same)
    if (is_inner(*b, kernel_.grid)) inner.push_back(b);
  fit_slopes(inner.size() >= 5 ? inner : same), compare_ranks(), find_lead();
  size_t even = 0;
  for (const auto& [pc, s] : kernel_.slopes) even += s.regular;
  const auto affordable = [&](double each) { return each * double(launch_.grid.count()) <= double(options_.trace_budget); };
  const bool all_affordable = affordable(double(trace_instructions_) / double(traced_.size()));
  regular_ = most->second.size() * 10 >= rank0 * 7 && even == kernel_.slopes.size() && most->second.size() > 1 && !options_.exact;
  if (!contended_ && odd_ones_matter(all, *most->second.front())) {
    // Where not all can be traced, the odd ones looked at would stand for too many.
    if (all_affordable) regular_ = false;
    else if (!in_order_ && !options_.exact && find_ranges()) regular_ = regular_ranges();
    else if (regular_) usual_share_ = share_of_usual();
  } else if (all_affordable && odd_ones_touch_more(all, *model_)) {
    regular_ = false;
  } else if (regular_ && !in_order_) {
    regular_ = drawn_alike(most->first) || (!(all_affordable && affordable(first)) && find_ranges() && regular_ranges());
  }
  if (units == 1) regular_ = false;
  if (contended_ || (in_order_ && !launch_.cooperative)) regular_ = false;
  if (!regular_) trace_all(first * double(launch_.grid.count()));
  find_relay();
}

/// Do most blocks inside the grid do as the usual one, whose shape is known? Those looked at first lie at halves, thirds and quarters of the grid, and so alike
/// in what repeats every so many blocks (rows of a matrix of which one side of the diagonal is wanted): some are drawn.
bool Predictor::drawn_alike(uint64_t shape) {
  constexpr uint64_t kDrawn = 8;
  const uint64_t units = launch_.grid.count() / launch_.cluster.count();
  if (units < 4 * kDrawn || trace_instructions_ > options_.slope_budget / 8) return true;
  std::vector<uint64_t> drawn;
  for (uint64_t i = 1; i <= kDrawn; i++) drawn.push_back(spread_unit(i, units));
  try {
    trace_while(drawn, [&](size_t) { return trace_bytes_ < kMostTraced; });
  } catch (const base::Error&) {  // those that there are tell
  }
  size_t inner = 0, alike = 0;
  for (const uint64_t at : drawn) {
    const auto found = traced_.find(first_block(at));
    if (found == traced_.end() || !is_inner(*found->second, kernel_.grid)) continue;
    inner++, alike += found->second->shape == shape;
  }
  return alike * 10 >= inner * 7;
}

/// Grids that are larger than their work: where blocks that do about as much as each other end and others begin, found by halves, since those
/// between two that are alike mostly are, too. False when there are no such ranges, or other blocks looked at then are not like their range.
bool Predictor::find_ranges() {
  constexpr size_t kMostRanges = 8;
  constexpr double kAlikeWork = 1.5, kSameWork = 1.01;
  constexpr size_t kOfAWork = 4;  // blocks of each work that were looked at, at least
  const uint64_t units = launch_.grid.count();
  if (launch_.cluster.count() > 1 || units < 64) return false;
  // Where blocks do one of two works or three, as those do that make a turn more than others, each is a kind; less than a hundredth of it makes none.
  std::vector<uint64_t> works;
  for (const auto& [at, b] : traced_) works.push_back(b->work());
  std::sort(works.begin(), works.end());
  size_t kinds = 0;
  for (size_t i = 0; i < works.size(); i++) kinds += i == 0 || double(works[i]) > kSameWork * double(works[i - 1]);
  const double most_apart = kinds * kOfAWork <= works.size() ? kSameWork : kAlikeWork;
  const auto alike = [&](const TracedBlock& a, const TracedBlock& b) {
    return double(std::max(a.work(), b.work())) <= most_apart * double(std::min(a.work(), b.work()));
  };
  const auto may = [&] { return trace_instructions_ < 2 * options_.trace_budget && trace_bytes_ < kMostTraced; };
  size_t left = kMostRanges * size_t(std::bit_width(units));
  const std::function<void(uint64_t, uint64_t)> narrow = [&](uint64_t low, uint64_t high) {
    if (high - low < 2 || left == 0 || !may() || alike(*traced_.at(low), *traced_.at(high))) return;
    const uint64_t middle = low + (high - low) / 2;
    left--;
    trace(middle);
    narrow(low, middle), narrow(middle, high);
  };
  try {
    trace(0), trace(units - 1);
    std::vector<uint64_t> known;
    for (const auto& [at, b] : traced_) known.push_back(at);
    for (size_t i = 1; i < known.size(); i++) narrow(known[i - 1], known[i]);
    if (left == 0 || !may()) return false;
    const TracedBlock* before = nullptr;
    for (const auto& [at, b] : traced_) {
      if (!before || !alike(*b, *before)) ranges_[at] = b.get();
      before = b.get();
    }
    const auto look = [&](uint64_t at) {
      if (traced_.count(at)) return true;
      const TracedBlock& expected = *std::prev(ranges_.upper_bound(at))->second;
      trace(at);
      return alike(expected, *traced_.at(at));
    };
    bool as_expected = ranges_.size() > 1;
    for (size_t i = 0; i < kOfAll && as_expected; i++) as_expected = look(place_in(0, units, i));
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
      const uint64_t end = std::next(range) != ranges_.end() ? std::next(range)->first : units;
      for (size_t i = 0; i < kOfEach && as_expected && may(); i++) as_expected = look(place_in(range->first, end, i));
    }
    if (as_expected) {
      p_.notes.push_back(fmt::format("blocks do {} kinds of work, each in a part of the grid of its own: a few of each stand for all of it", ranges_.size()));
      return true;
    }
  } catch (const base::Error&) {  // a block that cannot be traced: what there is has to do
  }
  ranges_.clear();
  return false;
}

/// Of ranges that do different work: does each do alike, and are addresses of the one that works longest known for all its blocks?
bool Predictor::regular_ranges() {
  std::map<uint64_t, std::vector<const TracedBlock*>> of;
  for (const auto& [at, b] : traced_) of[std::prev(ranges_.upper_bound(at))->first].push_back(b.get());
  const std::vector<const TracedBlock*>* longest = nullptr;
  for (const auto& [first, blocks] : of) {
    for (const TracedBlock* b : blocks)
      if (b->shape != blocks.front()->shape) return false;
    if (!longest || blocks.front()->work() > longest->front()->work()) longest = &blocks;
  }
  if (longest->size() < 3) return false;
  fit_slopes(*longest);
  return std::all_of(kernel_.slopes.begin(), kernel_.slopes.end(), [](const auto& s) { return s.second.regular; });
}

/// Blocks all over the grid, which stand for those that are not traced: of a few, too many may do the same.
void Predictor::trace_spread(double each, uint64_t units) {
  constexpr double kMost = 256;                          // blocks
  const double share = stands_for_many(units) ? 0.5 : 0.25;  // of the budget; the rest is for those that are simulated themselves
  const auto n = uint64_t(std::min(kMost, share * options_.trace_budget / std::max(1.0, each)));
  std::vector<uint64_t> spread;
  for (uint64_t i = 0; i < n; i++) spread.push_back(units <= figures_.sms ? place_in(0, units, i) : spread_unit(i, units));  // of one wave evenly: they say what all do on average
  try {
    trace_while(spread, [&](size_t) { return trace_bytes_ < kMostTraced; });
  } catch (const base::Error&) {  // those that there are stand for it
  }
  for (const uint64_t unit : spread)
    if (traced_.count(first_block(unit))) spread_.push_back(unit);
}

/// Where few of long blocks can be traced and some others leave at once: how many do, by many blocks of the grid that are followed for a short while.
void Predictor::find_kinds(uint64_t units) {
  constexpr size_t kEnough = 64, kLooked = 256, kFewer = 16;
  constexpr uint64_t kLeast = 64;  // warp instructions of a block that leaves
  if (spread_.size() >= kEnough || launch_.cluster.count() > 1 || tracer_->reads_memory()) return;
  uint64_t most = 0;
  for (const auto& [at, b] : traced_) most = std::max(most, b->work());
  kinds_.much = std::max(kLeast, most / kFewer);
  const Stopwatch watch(running_, host_.trace);
  for (uint64_t i = 0; i < std::min<uint64_t>(kLooked, units); i++) {
    const uint64_t unit = spread_unit(i, units);
    const std::optional<bool> ends = tracer_->ends_within(unit, kinds_.much);
    if (!ends) break;
    kinds_.seen.emplace_back(unit, !*ends);
  }
  const auto looked = size_t(std::min<uint64_t>(kLooked, units));
  const bool both = !kinds_.seen.empty() && kinds_.share() > 0 && kinds_.share() < 1;
  if (kinds_.seen.size() < looked || !both) return kinds_.seen.clear();
  p_.notes.push_back(fmt::format("{:.0f}% of the blocks do little or nothing, by {} of them", 100 * (1 - kinds_.share()), looked));
}

/// Some blocks do other work than most (halos that leave at once), and there are too many to trace them all: what a block of the grid does on
/// average, of what the usual one does, by some all over the grid.
double Predictor::share_of_usual() {
  const double usual = double(model_->work());
  trace_spread(usual, launch_.grid.count() / launch_.cluster.count());
  find_kinds(launch_.grid.count() / launch_.cluster.count());
  double sum = 0, share = 1;
  for (const uint64_t unit : spread_) sum += double(traced_.at(first_block(unit))->work());
  if (usual == 0) return 1;
  if (kinds_.seen.empty()) {
    if (spread_.size() >= kEnoughSpread) share = sum / double(spread_.size()) / usual;
    p_.notes.push_back(fmt::format("some blocks do other work than most: by {} of them a block does {:.0f}% of the usual one's", spread_.size(), 100 * share));
  } else {
    share = mean_work() / usual;
    kinds_.seen.clear();  // the usual one stands for all
  }
  return share;
}

/// Blocks that differ are traced one after the other as they begin, all of them where the budget allows: later ones find what earlier
/// ones left.
void Predictor::trace_all(double expected) {
  ghost_traces_ = std::make_unique<GhostTraces>(kernel_.grid);
  for (const auto& [at, block] : traced_) ghost_traces_->add(at, *block);
  const uint64_t units = launch_.grid.count() / launch_.cluster.count();
  if (units > 1 && !held_up_ && (in_order_ || expected <= double(options_.trace_budget))) {
    try {
      std::vector<uint64_t> all(units);
      std::iota(all.begin(), all.end(), uint64_t{0});
      trace_while(all, [&](size_t) { return trace_instructions_ < 2 * options_.trace_budget && trace_bytes_ < kMostTraced; });
      all_traced_ = traced_.size() == launch_.grid.count();
    } catch (const base::Error& e) {  // code_for makes do with those that there are
      trace_instructions_ = std::max(trace_instructions_, options_.trace_budget);
      p_.notes.push_back(fmt::format("blocks that could not be traced are taken to do as others: {}", e.what()));
    }
  }
  if (!all_traced_ && !in_order_ && !held_up_ && ranges_.empty()) {
    trace_spread(expected / double(launch_.grid.count()), units);
    find_kinds(units);
  }
  std::vector<uint64_t> ranges;
  for (const auto& [first, block] : ranges_) ranges.push_back(first);
  ghost_traces_->end_stand_ins(ranges, kinds_);
  kernel_.traces = ghost_traces_.get();
}

std::unique_ptr<BlockCode> Predictor::code_of(const TracedBlock& b) {
  const Stopwatch watch(running_, host_.lead);
  auto code = std::make_unique<BlockCode>();
  code->trace = &b;
  for (const TracedWarp& w : b.warps) {
    code->warps.push_back(steps_.of(*join_, w, statistics_));
    code->steps += code->warps.back()->size();
  }
  return code;
}

const BlockCode& Predictor::code_for(uint64_t block) {
  const TracedBlock* b = !regular_ || ranges_.empty() ? model_ : std::prev(ranges_.upper_bound(block))->second;
  if (!regular_) {
    auto found = traced_.find(block);
    if (found == traced_.end() && !in_order_ && !held_up_ && trace_instructions_ < options_.trace_budget && trace_bytes_ < kMostTraced) {
      const exec::Dim3 c = launch_.cluster;
      const uint64_t x = block % kernel_.grid.x / c.x, y = block / kernel_.grid.x % kernel_.grid.y / c.y, z = block / (kernel_.grid.x * kernel_.grid.y) / c.z;
      trace(x + launch_.grid.x / c.x * (y + launch_.grid.y / c.y * z));
      found = traced_.find(block);
    }
    if (found == traced_.end()) {  // the budget is spent: another block stands for it
      const StandInFit fit(kernel_.grid, kinds_, block);
      const auto fits = [&](TracedBlocks::iterator other) { return fit.of(other->first, other->second->work()); };
      if (ranges_.empty() && spread_.size() >= kEnoughSpread && stands_for_many(launch_.grid.count() / launch_.cluster.count())) {  // those looked at first lie side by side: they would count too often
        found = stand_in(block, spread_.size(), [&](uint64_t n) { return traced_.find(first_block(spread_[n])); }, fit.best(), fits);
      } else {
        const auto range = ranges_.upper_bound(block);
        const auto end = ranges_.empty() || range == ranges_.end() ? traced_.end() : traced_.find(range->first);
        const auto begin = ranges_.empty() ? traced_.begin() : traced_.find(std::prev(range)->first);
        found = stand_in(block, uint64_t(std::distance(begin, end)), [&](uint64_t n) { return std::next(begin, long(n)); }, fit.best(), fits);
      }
    }
    b = found->second.get();
  }
  b = &lead_of(*b);
  std::unique_ptr<BlockCode>& code = code_[ordinal(*b)];
  if (!code) code = code_of(*b);
  return *code;
}

}  // namespace orrery::timing
