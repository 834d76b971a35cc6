// timing/sample.cc: which blocks are traced, and how the addresses of the others follow from theirs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  const auto most = double(usual.instructions);
  double apart = 0;
  for (const TracedBlock* b : traced) {
    if (b->shape == usual.shape) continue;
    if (double(b->instructions) > kLonger * most) return true;
    apart += std::abs(double(b->instructions) - most);
  }
  return apart > kShare * most * double(traced.size());
}

constexpr uint64_t kMostTraced = uint64_t{1} << 30;  // bytes of traces after which no more blocks are traced than must be
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
  model_ = same[same.size() / 2];
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
    for (size_t w = 0; w < b->warps.size(); w++) {
      std::map<uint32_t, std::vector<uint64_t>> own, models;  // by instruction: addresses in order
      for (const Event& e : b->warps[w].events)
        if (e.address) own[e.pc].push_back(e.address);
      for (const Event& e : model_->warps[w].events)
        if (e.address) models[e.pc].push_back(e.address);
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
}

void Predictor::sample() {
  TraceOptions t;
  t.max_instructions = options_.recorded_most;
  tracer_ = std::make_unique<PairedTracer>(machine_, launch_, t);
  const uint64_t units = launch_.grid.count() / launch_.cluster.count(), nx = launch_.grid.x / launch_.cluster.x;
  const uint64_t ny = launch_.grid.y / launch_.cluster.y, nz = launch_.grid.z / launch_.cluster.z;
  const uint64_t mx = nx / 2, my = ny / 2, mz = nz / 2;
  const auto unit = [&](uint64_t x, uint64_t y, uint64_t z) { return std::min(x, nx - 1) + nx * (std::min(y, ny - 1) + ny * std::min(z, nz - 1)); };
  in_order_ = waits_for_blocks();
  if (in_order_) trace_in_order();
  else trace(unit(mx, my, mz));
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
  if (!in_order_)
    trace_while(wanted, [&](size_t n) {  // of long blocks no two at a time when one would do
      const uint64_t others = trace_instructions_ * launch_.cluster.count() / traced_.size() * (n - 1);
      return !all_alike() && ((trace_instructions_ + others < options_.slope_budget && trace_bytes_ < kMostTraced) || traced_.size() + n <= 3);
    });
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
  fit_slopes(inner.size() >= 5 ? inner : same);
  size_t even = 0;
  for (const auto& [pc, s] : kernel_.slopes) even += s.regular;
  regular_ = most->second.size() * 10 >= rank0 * 7 && even == kernel_.slopes.size() && most->second.size() > 1 && !options_.exact;
  if (odd_ones_matter(all, *most->second.front())) {
    // Where not all can be traced, the odd ones looked at would stand for too many.
    if (double(trace_instructions_) / double(traced_.size()) * double(launch_.grid.count()) <= double(options_.trace_budget)) regular_ = false;
    else if (regular_) p_.notes.push_back("some blocks do other work than most, which is left out: there are too many to trace them all");
  }
  if (units == 1) regular_ = false;
  if (in_order_ && !launch_.cooperative) regular_ = false;
  if (!regular_) trace_all(first * double(launch_.grid.count()));
  find_relay();
}

/// Blocks all over the grid, which stand for those that are not traced: of a few, too many may do the same.
void Predictor::trace_spread(double each, uint64_t units) {
  constexpr double kMost = 256, kShare = 0.25;  // blocks, of the budget
  const auto n = uint64_t(std::min(kMost, kShare * options_.trace_budget / std::max(1.0, each)));
  std::vector<uint64_t> spread;
  for (uint64_t i = 0; i < n; i++) spread.push_back((i * 0x9E3779B97F4A7C15ull >> 11) % units);
  try {
    trace_while(spread, [&](size_t) { return trace_bytes_ < kMostTraced; });
  } catch (const base::Error&) {  // those that there are stand for it
  }
}

/// Blocks that differ are traced one after the other as they begin, all of them where the budget allows: later ones find what earlier
/// ones left.
void Predictor::trace_all(double expected) {
  ghost_traces_ = std::make_unique<GhostTraces>();
  for (const auto& [at, block] : traced_) ghost_traces_->add(at, *block);
  const uint64_t units = launch_.grid.count() / launch_.cluster.count();
  if (units > 1 && (in_order_ || expected <= double(options_.trace_budget))) {
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
  if (!all_traced_ && !in_order_) trace_spread(expected / double(launch_.grid.count()), units);
  ghost_traces_->end_stand_ins();
  kernel_.traces = ghost_traces_.get();
}

const BlockCode& Predictor::code_for(uint64_t block) {
  const TracedBlock* b = model_;
  if (!regular_) {
    auto found = traced_.find(block);
    if (found == traced_.end() && !in_order_ && trace_instructions_ < options_.trace_budget && trace_bytes_ < kMostTraced) {
      const exec::Dim3 c = launch_.cluster;
      const uint64_t x = block % kernel_.grid.x / c.x, y = block / kernel_.grid.x % kernel_.grid.y / c.y, z = block / (kernel_.grid.x * kernel_.grid.y) / c.z;
      trace(x + launch_.grid.x / c.x * (y + launch_.grid.y / c.y * z));
      found = traced_.find(block);
    }
    if (found == traced_.end()) {  // the budget is spent: another block stands for it
      auto other = traced_.begin();
      std::advance(other, long(block * 2654435761u % traced_.size()));
      found = other;
    }
    b = found->second.get();
  }
  std::unique_ptr<BlockCode>& code = code_[ordinal(*b)];
  if (!code) {
    const Stopwatch watch(running_, host_.lead);
    code = std::make_unique<BlockCode>();
    code->trace = b;
    for (const TracedWarp& w : b->warps) {
      code->warps.push_back(steps_.of(*join_, w, statistics_));
      code->steps += code->warps.back()->size();
    }
  }
  return *code;
}

}  // namespace orrery::timing
