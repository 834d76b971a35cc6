// timing/walk.cc: how a traced warp goes through machine code, block by block: Join::walk.
//
// The trace is a list of entries into PTX blocks. A machine block has a home (the PTX block that most of it comes from)
// and stands for as many entries of it as it holds copies; blocks that hold other instructions of the same entry are
// further parts of it and use none. At a branch the warp goes where the trace goes next: to the
// side whose home has the earlier unused entry; sides that were left with unused entries (divergence) are visited when
// their turn comes. When both sides have the same home, one is an unrolled loop and the other its remainder: the larger
// one is taken as long as that many entries of the run are left.
// Code that ptxas moved out of a loop has a home in the loop but lies in no loop of the machine code: it uses no entry.
// A walk that does not reach the end, or leaves many entries unused, is given up: Join::steps then goes by entries alone.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "timing/join.h"
#include "timing/join_cursor.h"

namespace orrery::timing {

namespace {
constexpr size_t kNever = std::numeric_limits<size_t>::max();
constexpr int kLookAhead = 8;  // machine blocks that use no entry between a branch and the block that decides
constexpr size_t kSlack = 16;  // entries that the machine code may be behind the trace
}  // namespace

/// Loops of the machine code: the blocks from which a branch to a block that dominates it is reached. Code that lies out of
/// line (waits for mbarriers, slow paths) makes no loop of what it jumps back over.
std::vector<std::vector<uint32_t>> Join::natural_loops() const {
  const uint32_t n = uint32_t(flow_.size());
  std::vector<std::vector<uint32_t>> from(n);
  const auto each = [&](uint32_t b, auto f) {
    for (int32_t to : {flow_[b].fall, flow_[b].taken})
      if (to >= 0) f(uint32_t(to));
  };
  for (uint32_t b = 0; b < n; b++) each(b, [&](uint32_t to) { from[to].push_back(b); });
  std::vector<uint32_t> order, number(n, UINT32_MAX), state(n, 0), stack;
  for (const auto& [at, kind] : roots_) {  // post-order of what is reached from the entry and the functions
    const uint32_t root = uint32_t(std::upper_bound(blocks_.begin(), blocks_.end(), std::pair{at, UINT32_MAX}) - blocks_.begin()) - 1;
    if (kind == 2 || at >= code_.size()) continue;
    stack = {root};
    while (!stack.empty()) {
      const uint32_t b = stack.back();
      if (state[b] == 0) {
        state[b] = 1;
        each(b, [&](uint32_t to) {
          if (state[to] == 0) stack.push_back(to);
        });
      } else {
        stack.pop_back();
        if (state[b] == 1) state[b] = 2, number[b] = uint32_t(order.size()), order.push_back(b);
      }
    }
  }
  std::vector<uint32_t> idom(n, UINT32_MAX);
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t k = order.size(); k-- > 0;) {
      const uint32_t b = order[k];
      uint32_t best = UINT32_MAX;
      for (uint32_t p : from[b]) {
        if (number[p] == UINT32_MAX || (idom[p] == UINT32_MAX && !from[p].empty() && p != b)) continue;
        if (best == UINT32_MAX) { best = p; continue; }
        uint32_t x = p, y = best;
        while (x != y && x != UINT32_MAX && y != UINT32_MAX) (number[x] < number[y] ? x : y) = idom[number[x] < number[y] ? x : y];
        best = x == y ? x : UINT32_MAX;
        if (best == UINT32_MAX) break;
      }
      if (best != idom[b] && best != b) idom[b] = best, changed = true;
    }
  }
  std::vector<std::vector<uint32_t>> loops;
  for (uint32_t b = 0; b < n; b++)
    each(b, [&](uint32_t head) {
      uint32_t up = b;
      for (uint32_t steps = 0; up != head && up != UINT32_MAX && steps < n; steps++) up = idom[up];
      if (up != head || number[b] == UINT32_MAX) return;
      std::vector<uint32_t> body = {head};
      std::vector<bool> seen(n, false);
      seen[head] = true;
      std::vector<uint32_t> work;
      if (!seen[b]) work.push_back(b), seen[b] = true;
      while (!work.empty()) {
        const uint32_t x = work.back();
        work.pop_back();
        body.push_back(x);
        for (uint32_t p : from[x])
          if (!seen[p]) seen[p] = true, work.push_back(p);
      }
      loops.push_back(std::move(body));
    });
  return loops;
}

/// Successors, loops and what is hoisted: the control flow of the machine code.
void Join::find_flow() {
  flow_.assign(blocks_.size(), {});
  const auto block_at = [&](uint32_t i) {
    return int32_t(std::upper_bound(blocks_.begin(), blocks_.end(), std::pair{i, UINT32_MAX}) - blocks_.begin()) - 1;
  };
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    const MachineInstruction& m = code_[blocks_[b].second - 1];
    const bool plain = !m.i.guarded && (m.i.hi >> 23 & 7) == 7 && (m.i.lo >> 32 & 3) == 0;
    f.fall = b + 1 < blocks_.size() ? int32_t(b + 1) : -1;
    const bool target_ok = m.i.target >= 0 && uint32_t(m.i.target) < code_.size();
    if (m.i.opcode == 0x147 && target_ok && !m.i.never && (m.i.lo >> 32 & 3) == 0) {
      f.taken = block_at(uint32_t(m.i.target));
      if (plain) f.fall = -1;
      if (!reached_[size_t(f.taken)]) f.taken = -1;
    }
    if (m.i.opcode == 0x144 && target_ok) {
      const int32_t to = block_at(uint32_t(m.i.target));
      if (reached_[size_t(to)]) f.calls = to;
    }
    if (m.kind == Class::exit) f.exits = true, f.fall = m.i.guarded ? f.fall : -1;
    if (m.i.opcode == 0x150) f.returns = true, f.fall = m.i.guarded ? f.fall : -1;
    if (f.fall >= 0 && !reached_[size_t(f.fall)]) f.fall = -1;
  }
  const std::vector<std::vector<uint32_t>> loops = natural_loops();
  for (uint32_t l = 0; l < loops.size(); l++)
    for (uint32_t b : loops[l])
      if (flow_[b].loop < 0 || loops[l].size() < loops[size_t(flow_[b].loop)].size()) flow_[b].loop = int32_t(l);
  find_hoisted();
  bool changed = true;  // blocks between each block and the end
  while (changed) {
    changed = false;
    for (Flow& f : flow_) {
      uint32_t best = f.exits || f.returns ? 0 : UINT32_MAX;
      for (int32_t to : {f.fall, f.taken})
        if (to >= 0 && flow_[size_t(to)].to_exit != UINT32_MAX) best = std::min(best, flow_[size_t(to)].to_exit + 1);
      if (best < f.to_exit) f.to_exit = best, changed = true;
    }
  }
  for (const Flow& f : flow_)
    for (const Carried& c : f.carried) used_homes_.push_back(c.block);
  std::sort(used_homes_.begin(), used_homes_.end());
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    f.loop_copies = f.copies;
    if (f.loop < 0) continue;
    f.loop_copies = 0;
    for (uint32_t k : loops[size_t(f.loop)])
      if (flow_[k].home == f.home && reached_[k]) f.loop_copies += flow_[k].copies;
  }
}

/// Homes of machine blocks, and what each holds of the PTX blocks that it carries: its home, and others that ptxas merged
/// into it under predicates. A block that holds little of a PTX block does not carry it: it joins paths, tests for a loop
/// that ptxas unrolled, or has instructions that were moved.
void Join::find_own() {
  std::unordered_map<uint32_t, size_t> most;
  // A block with a memory or synchronising instruction that the machine code holds n times has at most n copies.
  std::unordered_map<uint64_t, uint32_t> times;
  std::unordered_map<uint32_t, uint32_t> limit;
  for (const MachineInstruction& m : code_)
    if (eventful(m.kind) && !m.i.never && m.pc != UINT32_MAX) times[uint64_t{m.pc} << 16 | m.i.opcode]++;
  for (const auto& [key, n] : times) {
    const auto [at, fresh] = limit.try_emplace(first_of(uint32_t(key >> 16)), n);
    if (!fresh) at->second = std::min(at->second, n);
  }
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    bool works = false;  // a block that only joins paths belongs to no one
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) works |= code_[i].kind != Class::control && code_[i].kind != Class::nop && code_[i].kind != Class::branch;
    if (!reached_[b] || !works) continue;
    f.home = home_of(homes_of_blocks_[b].first) ? homes_of_blocks_[b].first : UINT32_MAX;
    f.copies = homes_of_blocks_[b].second;
    if (const auto most_copies = limit.find(f.home); most_copies != limit.end()) f.copies = std::min(f.copies, most_copies->second);
    std::map<uint32_t, std::set<uint32_t>> own;
    std::map<uint32_t, std::set<uint64_t>> telling, events;
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++)
      if (code_[i].pc != UINT32_MAX && code_[i].kind != Class::nop && code_[i].kind != Class::control && code_[i].kind != Class::exit) {
        const uint32_t block = first_of(code_[i].pc);
        own[block].insert(code_[i].pc);
        telling[block].insert(uint64_t{code_[i].pc} << 16 | code_[i].i.opcode);
        if (eventful(code_[i].kind)) events[block].insert(uint64_t{code_[i].pc} << 16 | code_[i].i.opcode);
      }
    for (const auto& [block, pcs] : own) {
      const std::set<uint64_t>& tells = events.count(block) ? events[block] : telling[block];
      f.carried.push_back({block, {pcs.begin(), pcs.end()}, {tells.begin(), tells.end()}});
      most[block] = std::max(most[block], pcs.size());
    }
  }
  for (Flow& f : flow_) {
    std::erase_if(f.carried, [&](const Carried& c) { return c.block == f.home ? c.own.size() * 4 < most[c.block] : c.own.size() * 2 <= most[c.block]; });
    const bool kept = std::any_of(f.carried.begin(), f.carried.end(), [&](const Carried& c) { return c.block == f.home; });
    if (!kept) f.home = f.carried.empty() ? UINT32_MAX : f.carried.front().block, f.copies = 1;
  }
}

void Join::find_hoisted() {
  find_own();
  std::unordered_map<uint32_t, std::vector<uint32_t>> looping;  // by home: instructions of PTX that machine loops hold
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    if (flow_[b].home == UINT32_MAX || flow_[b].loop < 0) continue;
    auto& list = looping[flow_[b].home];
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) list.push_back(code_[i].pc);
  }
  for (auto& [home, list] : looping) std::sort(list.begin(), list.end());
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    if (f.home == UINT32_MAX || f.loop >= 0) continue;
    std::erase_if(f.carried, [&](const Carried& c) {
      const auto found = looping.find(c.block);
      if (found == looping.end()) return false;
      size_t same = 0;  // a peeled iteration repeats what the loop holds, hoisted code does not
      for (uint32_t pc : c.own) same += std::binary_search(found->second.begin(), found->second.end(), pc);
      return same * 2 < c.own.size();
    });
    if (std::none_of(f.carried.begin(), f.carried.end(), [&](const Carried& c) { return c.block == f.home; }))
      f.home = f.carried.empty() ? UINT32_MAX : f.carried.front().block, f.copies = 1;
  }
}

/// One warp's way: where it stands in the trace and what is still to be visited.
struct Join::Walker {
  const Join& join;
  Cursor& cursor;
  std::unordered_map<uint32_t, std::vector<uint32_t>> entries;  // by PTX block: positions in cursor.enters
  std::unordered_map<uint32_t, size_t> used;
  std::unordered_map<uint32_t, std::vector<uint32_t>> runs;     // by PTX block: entries of the run that are left
  std::unordered_map<uint64_t, size_t> issued;                  // by PTX instruction and opcode: entries of its block used by then
  std::vector<std::pair<int32_t, size_t>> aside;                // blocks, and the entries for which they were set aside
  std::vector<int32_t> returns;
  size_t time = 0;
  uint64_t taken_entries = 0;

  size_t next_entry(uint32_t home) {
    const auto found = entries.find(home);
    if (found == entries.end()) return kNever;
    size_t& at = used[home];
    while (at < found->second.size() && found->second[at] + kSlack < time) at++;
    return at < found->second.size() ? found->second[at] : kNever;
  }
  /// Does the machine block hold what the last entry of the PTX block has not issued yet?
  bool is_part(const Carried& c) {
    const size_t n = used[c.block];
    if (n == 0 || n > entries[c.block].size() || entries[c.block][n - 1] + kSlack < time) return false;
    size_t fresh = 0;
    for (uint64_t i : c.tells) fresh += issued[i] != n;
    return fresh * 2 > c.tells.size();
  }
  /// The next entry that machine block `b` would use, and of which PTX block.
  size_t next_of(const Flow& f, const Carried** which = nullptr) {
    size_t best = kNever;
    for (const Carried& c : f.carried) {
      const size_t at = is_part(c) ? entries[c.block][used[c.block] - 1] : next_entry(c.block);
      if (at >= best) continue;
      best = at;
      if (which) *which = &c;
    }
    return best;
  }
  /// What comes after block `b` has been entered: the machine block that uses an entry first, which entry, and how many
  /// blocks lie before it that the trace does not enter any more.
  struct Ahead {
    int32_t block = -1;
    size_t when = kNever;
    uint32_t skipped = 0;
    bool before(const Ahead& o) const { return when != o.when ? when < o.when : skipped < o.skipped; }
  };
  Ahead ahead(int32_t b, int depth = 0) {
    if (b < 0 || depth > kLookAhead) return {};
    const Flow& f = join.flow_[size_t(b)];
    if (const size_t when = next_of(f); when != kNever) return {b, when, 0};
    Ahead best;
    if (f.calls >= 0) {
      best = ahead(f.calls, depth + 1);
    } else if (f.returns && !returns.empty()) {
      best = ahead(returns.back(), depth + 1);
    } else {
      best = ahead(f.fall, depth + 1);
      if (const Ahead other = ahead(f.taken, depth + 1); other.before(best)) best = other;
    }
    best.skipped += !f.carried.empty();
    return best;
  }
  uint32_t run_left(uint32_t home) {
    std::vector<uint32_t>& left = runs[home];
    const std::vector<uint32_t>& own = entries[home];
    if (left.empty() && !own.empty()) {
      left.assign(own.size(), 1);
      const auto [low, high] = join.loop_of(home);
      for (size_t k = own.size() - 1; k-- > 0;) {
        bool inside = true;
        for (uint32_t i = own[k] + 1; i < own[k + 1] && inside; i++) {
          const uint32_t pc = cursor.events[cursor.enters[i]].pc;
          inside = (pc >= low && pc < high) || pc >> 24 != home >> 24;
        }
        if (inside && low < high) left[k] = left[k + 1] + 1;
      }
    }
    const size_t at = used[home];
    return at < left.size() ? left[at] : 0;
  }
  /// Does the block hold a barrier that the trace comes to next? ptxas tests how large the cluster is and has code for both.
  bool has_barrier(int32_t b) {
    if (b < 0) return false;
    for (uint32_t i = join.blocks_[size_t(b)].first; i < join.blocks_[size_t(b)].second; i++) {
      const MachineInstruction& m = join.code_[i];
      if (m.kind != Class::cluster_barrier) continue;
      const auto list = cursor.of_pc.find(m.pc);
      if (list == cursor.of_pc.end() || cursor.next[m.pc] >= list->second.size()) continue;
      const What what = cursor.events[list->second[cursor.next[m.pc]]].what;
      if (what == What::cluster_arrive || what == What::cluster_wait) return true;
    }
    return false;
  }
  uint32_t copies(const Ahead& a) const { return a.block < 0 ? 0 : join.flow_[size_t(a.block)].loop_copies; }
  int32_t choose(const Flow& f) {
    if (has_barrier(f.fall)) return f.fall;
    const Ahead fall = ahead(f.fall), taken = ahead(f.taken);
    if (fall.when == kNever && taken.when == kNever) {  // nothing is left to do: out by the shorter way
      const auto far = [&](int32_t b) { return b < 0 ? UINT32_MAX : join.flow_[size_t(b)].to_exit; };
      return far(f.fall) <= far(f.taken) ? f.fall : f.taken;
    }
    const uint32_t fall_copies = copies(fall), taken_copies = copies(taken);
    if (fall.when == taken.when && fall_copies != taken_copies) {
      const Flow &a = join.flow_[size_t(fall.block)], &b = join.flow_[size_t(taken.block)];
      const bool larger_is_fall = a.loop_copies > b.loop_copies;
      const bool fits = std::max(a.loop_copies, b.loop_copies) <= run_left(a.home);
      return larger_is_fall == fits ? f.fall : f.taken;
    }
    const bool fall_first = !taken.before(fall);
    const Ahead& later = fall_first ? taken : fall;
    if (later.when != kNever && later.when != (fall_first ? fall : taken).when) set_aside(fall_first ? f.taken : f.fall, later.when);
    return fall_first ? f.fall : f.taken;
  }
  void set_aside(int32_t b, size_t when) {
    if (b < 0) return;
    std::erase_if(aside, [&](const auto& a) { return a.first == b; });
    aside.push_back({b, when});
    if (aside.size() > 64) aside.erase(aside.begin());
  }
  /// Where a warp that would go to `b` goes: to a side set aside when the trace is there first. A side counts as long as the
  /// entry for which it was set aside is unused.
  int32_t turn(int32_t b) {
    std::erase_if(aside, [&](const auto& a) { return ahead(a.first).when != a.second; });
    const size_t own = ahead(b).when;
    size_t when = own;
    int32_t best = -1;
    for (const auto& [other, first] : aside)
      if (first < when) when = first, best = other;
    if (best < 0) return b;
    std::erase_if(aside, [&](const auto& a) { return a.first == best; });
    if (own != kNever) set_aside(b, own);
    return best;
  }
  /// Uses the entries that block `b` stands for; returns where the next entry of its home lies among the events.
  size_t use(int32_t b, uint32_t& lanes) {
    const Flow& f = join.flow_[size_t(b)];
    const Carried* first = nullptr;
    if (next_of(f, &first) == kNever) return kNever;
    const bool part = is_part(*first);
    for (uint32_t k = 0; k < (first->block == f.home ? f.copies : 1) && !part; k++) {
      const size_t at = next_entry(first->block);
      if (at == kNever) break;
      if (k == 0) lanes = cursor.events[cursor.enters[at]].extra;
      time = std::max(time, at);
      used[first->block]++, taken_entries++;
    }
    const size_t next = next_entry(first->block);
    for (const Carried& c : f.carried) {  // what lies between is what ptxas merged
      if (&c != first && !is_part(c) && next_entry(c.block) < next) time = std::max(time, next_entry(c.block)), used[c.block]++, taken_entries++;
      for (uint64_t i : c.tells) issued[i] = used[c.block];
    }
    return next == kNever ? cursor.events.size() : cursor.enters[next];
  }
};

std::pair<uint32_t, uint32_t> Join::loop_of(uint32_t first_pc) const {
  const auto found = loops_.find(first_pc);
  return found == loops_.end() ? std::pair{0u, 0u} : found->second;
}

bool Join::walk(const TracedWarp& warp, Cursor& c, std::vector<Step>& out, JoinStatistics& statistics) const {
  Walker w{*this, c, {}, {}, {}, {}, {}, {}, 0, 0};
  for (uint32_t k = 0; k < c.enters.size(); k++) w.entries[warp.events[c.enters[k]].pc].push_back(k);
  const size_t limit = 4096 + warp.events.size() * 64;
  uint32_t lanes = c.enters.empty() ? 32 : warp.events[c.enters[0]].extra;
  size_t window = c.events.size();
  uint64_t passes = 0;
  for (int32_t b = blocks_.empty() ? -1 : 0; b >= 0;) {
    const Flow& f = flow_[size_t(b)];
    if (out.size() > limit || ++passes > limit) return false;
    const size_t next = w.use(b, lanes);
    if (next != kNever) window = next;
    emit_range(blocks_[size_t(b)], c, window, lanes, out, statistics);
    if (f.calls >= 0 && w.returns.size() < 64) {
      w.returns.push_back(f.fall);
      b = f.calls;
      continue;
    }
    if (f.returns && !w.returns.empty()) {
      b = w.returns.back();
      w.returns.pop_back();
      continue;
    }
    int32_t to = f.fall;
    if (f.taken >= 0) to = f.fall >= 0 ? w.choose(f) : f.taken;
    if (f.exits && f.fall >= 0) {  // some lanes leave
      if (w.ahead(f.fall).when == kNever) to = -1;
    }
    b = w.turn(to);
  }
  uint64_t homed = 0;
  for (const auto& [home, list] : w.entries) {
    if (!std::binary_search(used_homes_.begin(), used_homes_.end(), home)) continue;
    homed += list.size();
  }
  return w.taken_entries * 20 + 20 >= homed * 19;
}

}  // namespace orrery::timing
