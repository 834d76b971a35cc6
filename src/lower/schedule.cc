// lower/schedule.cc: see schedule.h.
#include "lower/schedule.h"

#include <algorithm>
#include <map>

namespace orrery::lower {

bool NodeSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t w) { return w == 0; });
}

bool NodeSet::add_above(const NodeSet& other, uint32_t above) {
  bool grew = false;
  for (size_t w = (above + 1) / 64; w < words_.size(); w++) {
    uint64_t bits = other.words_[w];
    if (w == (above + 1) / 64) bits &= ~uint64_t{0} << ((above + 1) % 64);
    if (bits & ~words_[w]) words_[w] |= bits, grew = true;
  }
  return grew;
}

namespace {

/// Reachable blocks with their instruction ranges; the tail of the start block is kept apart from the whole block.
struct Reachable {
  struct Range { uint32_t block, first, last; bool stops, tail; };
  std::vector<Range> ranges;  // the tail first, then whole blocks in order
};

Reachable find_reachable(const Program& p, uint32_t start, const std::function<bool(uint32_t)>& stops) {
  Reachable out;
  auto range = [&](uint32_t block, uint32_t first, bool tail) {
    Reachable::Range r{block, first, p.blocks[block].last, false, tail};
    for (uint32_t i = first; i < r.last; i++)
      if (stops(i)) { r.last = i + 1, r.stops = true; break; }
    return r;
  };
  std::vector<uint8_t> seen(p.blocks.size(), 0);
  std::vector<uint32_t> work;
  auto follow = [&](const Reachable::Range& r) {
    if (r.stops) return;
    for (uint32_t s : p.blocks[r.block].successors)
      if (!seen[s]) seen[s] = 1, work.push_back(s);
  };
  const uint32_t start_block = p.block_of[start];
  out.ranges.push_back(range(start_block, start, true));
  follow(out.ranges[0]);
  while (!work.empty()) {
    const uint32_t b = work.back();
    work.pop_back();
    out.ranges.push_back(range(b, p.blocks[b].first, false));
    follow(out.ranges.back());
  }
  std::sort(out.ranges.begin() + 1, out.ranges.end(), [](auto& a, auto& b) { return a.block < b.block; });
  return out;
}

/// Position key: blocks by number; a latch stands after the last block that jumps back, inner loops first.
struct Place {
  uint32_t after_block;
  uint32_t rank;  // 0: the block itself; else latches, inner (larger header) first
  bool operator<(const Place& o) const {
    return after_block != o.after_block ? after_block < o.after_block : rank < o.rank;
  }
};

void find_waiting(Schedule& s) {
  const uint32_t n = uint32_t(s.nodes.size());
  for (Node& node : s.nodes) node.waiting = NodeSet(n);
  std::vector<uint8_t> queued(n, 0);
  std::vector<uint32_t> work{s.start};
  queued[s.start] = 1;
  std::vector<uint8_t> visited(n, 0);
  visited[s.start] = 1;
  auto enter = [&](uint32_t to, const NodeSet& candidates) {
    const bool grew = s.nodes[to].waiting.add_above(candidates, to);
    if ((grew || !visited[to]) && !queued[to]) queued[to] = 1, work.push_back(to);
    visited[to] = 1;
  };
  while (!work.empty()) {
    const uint32_t at = work.back();
    work.pop_back();
    queued[at] = 0;
    const Node& node = s.nodes[at];
    auto leave = [&](const std::vector<uint32_t>& targets, bool may_all_exit) {
      NodeSet candidates = node.waiting;
      uint32_t last = may_all_exit ? UINT32_MAX : 0;
      for (uint32_t t : targets) candidates.add(t), last = std::max(last, t);
      candidates.each([&](uint32_t c) { if (c <= last) enter(c, candidates); });
    };
    if (node.stops) continue;
    if (node.divergent) {
      leave(node.successors, node.exits);
    } else {
      if (node.exits) leave({}, true);
      for (uint32_t t : node.successors) leave({t}, false);
    }
  }
}

}  // namespace

Schedule make_schedule(const Program& p, uint32_t start, const std::function<bool(uint32_t)>& stops,
                       const std::vector<uint8_t>& divergent) {
  const Reachable reach = find_reachable(p, start, stops);
  const uint32_t start_block = reach.ranges[0].block;
  std::map<uint32_t, uint32_t> loop_end;  // header -> last block that jumps back to it
  for (const auto& r : reach.ranges) {
    if (r.stops) continue;
    for (uint32_t t : p.blocks[r.block].successors)
      if (t <= r.block) loop_end[t] = std::max(loop_end[t], r.block);
  }
  struct Item { Place place; uint32_t range; bool latch; uint32_t block; };
  std::vector<Item> items;
  for (uint32_t i = 1; i < reach.ranges.size(); i++) items.push_back({{reach.ranges[i].block, 0}, i, false, reach.ranges[i].block});
  for (auto [header, end] : loop_end) items.push_back({{end, UINT32_MAX - header}, 0, true, header});
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.place < b.place; });
  items.insert(items.begin(), Item{{0, 0}, 0, false, start_block});

  Schedule s;
  std::map<uint32_t, uint32_t> node_of, latch_of;
  for (uint32_t i = 0; i < items.size(); i++) {
    if (items[i].latch) latch_of[items[i].block] = i;
    else if (i > 0) node_of[items[i].block] = i;
  }
  for (const Item& item : items) {
    Node node;
    node.block = item.block;
    node.latch = item.latch;
    if (item.latch) {
      node.successors = {node_of.at(item.block)};
    } else {
      const auto& r = reach.ranges[item.range];
      node.first = r.first, node.last = r.last, node.stops = r.stops;
      node.divergent = !r.stops && divergent[r.block];
      const isa::Op end = p.code[r.last - 1].form.op;
      node.exits = !r.stops && (end == isa::Op::ret || end == isa::Op::exit);
      if (!r.stops)
        for (uint32_t t : p.blocks[r.block].successors)
          node.successors.push_back(t <= r.block ? latch_of.at(t) : node_of.at(t));
    }
    s.nodes.push_back(std::move(node));
  }
  find_waiting(s);
  return s;
}

}  // namespace orrery::lower
