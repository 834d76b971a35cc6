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
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "timing/join.h"
#include "timing/join_cursor.h"

namespace orrery::timing {

namespace {
constexpr size_t kNever = std::numeric_limits<size_t>::max();
constexpr int kLookAhead = 8;  // machine blocks without a home between a branch and the block that decides
constexpr size_t kSlack = 4;   // entries that the machine code may be behind the trace
}  // namespace

/// Successors, loops and what is hoisted: the control flow of the machine code.
void Join::find_flow() {
  flow_.assign(blocks_.size(), {});
  const auto block_at = [&](uint32_t i) {
    return int32_t(std::upper_bound(blocks_.begin(), blocks_.end(), std::pair{i, UINT32_MAX}) - blocks_.begin()) - 1;
  };
  std::vector<std::pair<uint32_t, uint32_t>> loops;
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
      else if (uint32_t(f.taken) <= b) loops.push_back({uint32_t(f.taken), b});
    }
    if (m.i.opcode == 0x144 && target_ok) {
      const int32_t to = block_at(uint32_t(m.i.target));
      if (reached_[size_t(to)]) f.calls = to;
    }
    if (m.kind == Class::exit) f.exits = true, f.fall = m.i.guarded ? f.fall : -1;
    if (m.i.opcode == 0x150) f.returns = true, f.fall = m.i.guarded ? f.fall : -1;
    if (f.fall >= 0 && !reached_[size_t(f.fall)]) f.fall = -1;
  }
  for (const auto& [first, last] : loops)
    for (uint32_t b = first; b <= last; b++)
      if (flow_[b].loop_last < flow_[b].loop_first || last - first < flow_[b].loop_last - flow_[b].loop_first) flow_[b].loop_first = first, flow_[b].loop_last = last;
  find_hoisted();
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    f.loop_copies = f.copies;
    if (f.loop_last < f.loop_first) continue;
    f.loop_copies = 0;
    for (uint32_t k = f.loop_first; k <= f.loop_last; k++)
      if (flow_[k].home == f.home && !flow_[k].hoisted && reached_[k]) f.loop_copies += flow_[k].copies;
  }
}

/// Homes of machine blocks, and what each holds of its home. A block that holds little of it belongs to no one: it joins
/// paths, or tests for a loop that ptxas unrolled.
void Join::find_own() {
  std::unordered_map<uint32_t, size_t> most;
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    const Home* home = home_of(homes_of_blocks_[b].first);
    bool works = false;  // a block that only joins paths belongs to no one
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) works |= code_[i].kind != Class::control && code_[i].kind != Class::nop && code_[i].kind != Class::branch;
    flow_[b].home = reached_[b] && home && works ? homes_of_blocks_[b].first : UINT32_MAX;
    flow_[b].copies = homes_of_blocks_[b].second;
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++)
      if (code_[i].pc != UINT32_MAX && code_[i].kind != Class::nop && first_of(code_[i].pc) == flow_[b].home) flow_[b].own.push_back(code_[i].pc);
    std::sort(flow_[b].own.begin(), flow_[b].own.end());
    flow_[b].own.erase(std::unique(flow_[b].own.begin(), flow_[b].own.end()), flow_[b].own.end());
    most[flow_[b].home] = std::max(most[flow_[b].home], flow_[b].own.size());
  }
  for (Flow& f : flow_)
    if (f.home != UINT32_MAX && f.own.size() * 4 < most[f.home]) f.home = UINT32_MAX;
}

void Join::find_hoisted() {
  find_own();
  std::unordered_map<uint32_t, std::vector<uint32_t>> looping;  // by home: instructions of PTX that machine loops hold
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    if (flow_[b].home == UINT32_MAX || flow_[b].loop_last < flow_[b].loop_first) continue;
    auto& list = looping[flow_[b].home];
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) list.push_back(code_[i].pc);
  }
  for (auto& [home, list] : looping) std::sort(list.begin(), list.end());
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    if (f.home == UINT32_MAX || f.loop_last >= f.loop_first) continue;
    const auto found = looping.find(f.home);
    if (found == looping.end()) continue;
    uint32_t same = 0, all = 0;  // a peeled iteration repeats what the loop holds, hoisted code does not
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) {
      if (code_[i].pc == UINT32_MAX || first_of(code_[i].pc) != f.home) continue;
      all++, same += std::binary_search(found->second.begin(), found->second.end(), code_[i].pc);
    }
    f.hoisted = same * 2 < all;
  }
}

/// One warp's way: where it stands in the trace and what is still to be visited.
struct Join::Walker {
  const Join& join;
  Cursor& cursor;
  std::unordered_map<uint32_t, std::vector<uint32_t>> entries;  // by PTX block: positions in cursor.enters
  std::unordered_map<uint32_t, size_t> used;
  std::unordered_map<uint32_t, std::vector<uint32_t>> runs;     // by PTX block: entries of the run that are left
  std::unordered_map<uint32_t, size_t> issued;                  // by PTX instruction: entries of its block used by then
  std::vector<int32_t> aside, returns;
  size_t time = 0;
  uint64_t forced = 0;
  bool past_unused = false;   // look past blocks that the trace does not enter any more

  size_t next_entry(uint32_t home) {
    const auto found = entries.find(home);
    if (found == entries.end()) return kNever;
    size_t& at = used[home];
    while (at < found->second.size() && found->second[at] + kSlack < time) at++;
    return at < found->second.size() ? found->second[at] : kNever;
  }
  /// Does block `b` hold what the last entry of its home has not issued yet?
  bool is_part(int32_t b) {
    const Flow& f = join.flow_[size_t(b)];
    const size_t n = used[f.home];
    if (n == 0 || f.own.empty() || n > entries[f.home].size()) return false;
    size_t fresh = 0;
    for (uint32_t pc : f.own) fresh += issued[pc] != n;
    return fresh * 2 > f.own.size();
  }
  /// The block with a home that comes first after `b` has been entered; `when`: its next entry.
  int32_t decides(int32_t b, size_t& when, int depth = 0) {
    when = kNever;
    if (b < 0 || depth > kLookAhead) return -1;
    const Flow& f = join.flow_[size_t(b)];
    const bool decisive = f.home != UINT32_MAX && !f.hoisted && (!past_unused || is_part(b) || next_entry(f.home) != kNever);
    if (decisive) return when = is_part(b) ? entries[f.home][used[f.home] - 1] : next_entry(f.home), b;
    if (f.calls >= 0) return decides(f.calls, when, depth + 1);
    if (f.returns && !returns.empty()) return decides(returns.back(), when, depth + 1);
    size_t other = kNever;
    const int32_t fall = decides(f.fall, when, depth + 1), taken = decides(f.taken, other, depth + 1);
    if (other < when) return when = other, taken;
    return fall >= 0 ? fall : taken;
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
  int32_t choose(const Flow& f) {
    size_t when_fall, when_taken;
    const int32_t fall = decides(f.fall, when_fall), taken = decides(f.taken, when_taken);
    if (when_fall == kNever && when_taken == kNever) {  // blocks that the trace does not enter again hide what comes after them
      past_unused = true;
      decides(f.fall, when_fall), decides(f.taken, when_taken);
      past_unused = false;
      // The further side is the one that skips the nearer.
      if (when_fall == when_taken) return forced++, f.fall >= 0 && f.fall > f.taken ? f.fall : f.taken;
      return when_fall < when_taken ? f.fall : f.taken;
    }
    if (when_fall == when_taken && fall != taken && fall >= 0 && taken >= 0) {
      const Flow &a = join.flow_[size_t(fall)], &b = join.flow_[size_t(taken)];
      const uint32_t left = run_left(a.home);
      if (a.loop_copies == b.loop_copies) return f.fall;
      const bool larger_is_fall = a.loop_copies > b.loop_copies;
      const bool fits = std::max(a.loop_copies, b.loop_copies) <= left;
      return larger_is_fall == fits ? f.fall : f.taken;
    }
    const bool fall_first = when_fall <= when_taken;
    if ((fall_first ? when_taken : when_fall) != kNever) set_aside(fall_first ? f.taken : f.fall);
    return fall_first ? f.fall : f.taken;
  }
  void set_aside(int32_t b) {
    if (std::find(aside.begin(), aside.end(), b) == aside.end()) aside.push_back(b);
    if (aside.size() > 64) aside.erase(aside.begin());
  }
  /// Where a warp that would go to `b` goes: to a side set aside when the trace is there first.
  int32_t turn(int32_t b) {
    size_t when, first;
    decides(b, when);
    int32_t best = -1;
    for (int32_t other : aside) {
      decides(other, first);
      if (first < when && first != kNever) when = first, best = other;
    }
    if (best < 0) return b;
    std::erase(aside, best);
    if (b >= 0) set_aside(b);
    return best;
  }
  /// Uses the entries that block `b` stands for; returns where the next entry of its home lies among the events.
  size_t use(int32_t b, uint32_t& lanes) {
    const Flow& f = join.flow_[size_t(b)];
    if (f.home == UINT32_MAX || f.hoisted) return kNever;
    const bool part = is_part(b);
    for (uint32_t k = 0; k < f.copies && !part; k++) {
      const size_t at = next_entry(f.home);
      if (at == kNever) break;
      if (k == 0) lanes = cursor.events[cursor.enters[at]].extra;
      time = std::max(time, at);
      used[f.home]++;
    }
    for (uint32_t pc : f.own) issued[pc] = used[f.home];
    const size_t next = next_entry(f.home);
    return next == kNever ? cursor.events.size() : cursor.enters[next];
  }
};

std::pair<uint32_t, uint32_t> Join::loop_of(uint32_t first_pc) const {
  const auto found = loops_.find(first_pc);
  return found == loops_.end() ? std::pair{0u, 0u} : found->second;
}

bool Join::walk(const TracedWarp& warp, Cursor& c, std::vector<Step>& out, JoinStatistics& statistics) const {
  Walker w{*this, c, {}, {}, {}, {}, {}, {}, 0, 0, false};
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
      size_t when;
      w.decides(f.fall, when);
      if (when == kNever) to = -1;
    }
    if (std::getenv("WALKDBG")) std::fprintf(stderr, "block %d [%u,%u) home %x copies %u loop %u..%u(%u) hoisted %d taken %d fall %d exits %d -> to %d time %zu\n", b, blocks_[size_t(b)].first, blocks_[size_t(b)].second, f.home, f.copies, f.loop_first, f.loop_last, f.loop_copies, f.hoisted, f.taken, f.fall, f.exits, to, w.time);
    b = w.turn(to);
  }
  uint64_t homed = 0, left = 0;
  for (const auto& [home, list] : w.entries) {
    if (!home_of(home)) continue;
    homed += list.size(), left += list.size() - std::min(list.size(), w.used[home]);
  }
  return left * 20 <= homed + 20;
}

}  // namespace orrery::timing
