// timing/walk.cc: how a traced warp goes through machine code, block by block: Join::walk.
//
// The trace is a list of entries into PTX blocks. A machine block has a home (the PTX block that most of it comes from)
// and stands for as many entries of it as it holds copies; blocks that hold other instructions of the same entry are
// further parts of it and use none. At a branch the warp goes where the trace goes next: to the
// side whose home has the earlier unused entry; sides that were left with unused entries (divergence) are visited when
// their turn comes. When both sides have the same home, one is an unrolled loop and the other its remainder: the larger
// one is taken as long as that many entries of the run are left.
// Of a block that a machine block holds several times only entries in a row are one visit, with nothing between them that lies elsewhere in the machine code.
// A loop of PTX of which no loop but a part of one block is left (arrays that are cleared) is gone through at once.
// Code that ptxas moved out of a loop has a home in the loop but lies in no loop of the machine code: it uses no entry.
// A jump by a table (a switch) leads to the side that the trace enters first.
// Where an exit under a predicate was a branch, what the trace enters behind it says whether the warp goes on.
// Lanes that leave a loop earlier than others do not take part in the last turns of what ptxas unrolled: they do those that are left one by one, behind it,
// although the trace has them in the entries of all. What they owe is kept by loop, and the remainder's blocks are issued for it.
// Of a warp that was not recorded to its end the walk ends with the record.
// A walk that does not reach the end, leaves many entries unused or puts a wait behind what is later is given up: Join::steps then goes by entries alone.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <optional>
#include <unordered_map>

#include "timing/join.h"
#include "timing/join_cursor.h"

namespace orrery::timing {

namespace {
constexpr size_t kNever = std::numeric_limits<size_t>::max();
constexpr int kLookAhead = 8;  // branches that use no entry between a branch and the block that decides
constexpr size_t kSlack = 16;  // entries that the machine code may be behind the trace
}  // namespace

/// One warp's way: where it stands in the trace and what is still to be visited.
struct Join::Walker {
  const Join& join;
  Cursor& cursor;
  // By number of PTX block:
  std::vector<std::vector<uint32_t>> entries;                   // positions in cursor.enters
  std::vector<size_t> used;
  std::vector<size_t> taken;                                    // entries that machine blocks stood for
  std::vector<std::vector<uint32_t>> runs;                      // entries of the run that are left
  std::vector<size_t> issued;                                   // by PTX instruction and opcode (Carried::tells): entries of its block used by then
  std::vector<uint32_t> owed;                                   // turns that lanes which left an unrolled loop early have still to do: a bit for each number
  std::vector<std::pair<int32_t, size_t>> aside;                // blocks, and the entries for which they were set aside
  std::vector<int32_t> returns;
  std::unordered_map<uint32_t, std::vector<const SlowCall*>> slow;  // by place of a quotient or root: when it calls
  std::unordered_map<uint32_t, std::pair<uint32_t, size_t>> divided;  // how often it was executed, and which calls are over
  size_t time = 0;
  uint64_t taken_entries = 0;
  bool for_others = false;  // the block that was used last does what lanes owe: its accesses are in what was issued before

  Walker(const Join& j, Cursor& c, const TracedWarp& warp) : join(j), cursor(c), entries(j.ptx_blocks_ + 1), used(entries.size()), taken(entries.size()), runs(entries.size()), issued(j.tells_), owed(entries.size()) {
    for (uint32_t k = 0; k < c.enters.size(); k++)
      if (const uint32_t block = j.number_of(c.events[c.enters[k]].pc); block < j.ptx_blocks_) entries[block].push_back(k);
    for (const SlowCall& s : warp.slow) slow[j.place_of(s.pc)].push_back(&s);
  }
  /// A quotient or root is executed: the function that it calls this time, or null.
  const SlowCall* slow_call(uint32_t place) {
    const auto found = slow.find(place);
    if (found == slow.end()) return nullptr;
    auto& [times, over] = divided[place];
    const uint32_t now = times++;
    while (over < found->second.size() && found->second[over]->ordinal < now) over++;
    return over < found->second.size() && found->second[over]->ordinal == now ? found->second[over] : nullptr;
  }
  size_t next_entry(uint32_t block) {
    const std::vector<uint32_t>& own = entries[block];
    size_t& at = used[block];
    while (at < own.size() && own[at] + kSlack < time) at++;
    return at < own.size() ? own[at] : kNever;
  }
  /// Does the machine block hold what the last entry of the PTX block has not issued yet?
  bool is_part(const Carried& c) {
    const size_t n = used[c.number];
    if (n == 0 || n > entries[c.number].size() || entries[c.number][n - 1] + kSlack < time) return false;
    size_t fresh = 0;
    for (uint32_t i : c.tells) fresh += issued[i] != n;
    return fresh * 2 > c.tells.size();
  }
  /// Are there lanes that have still to do as many turns as the block holds, of those that a larger one did for others?
  bool is_owed(const Flow& f) const { return f.home != UINT32_MAX && f.copies < 32 && owed[join.number_of(f.home)] >> f.copies != 0; }
  /// Lanes that have so many turns still to do take part in them.
  void take_part(uint32_t number, uint32_t turns) {
    if (turns >= 32) return;
    const uint32_t fewer = owed[number] & ((1u << turns) - 1);
    owed[number] = fewer | ((owed[number] >> turns) & ~1u);
  }
  /// Turns from the `k`th entry of a PTX block on, which a machine block does at once, are not done by lanes that are not there to the last of them.
  void note_owed(uint32_t number, size_t k, uint32_t copies) {
    const auto lanes_of = [&](size_t i) { return cursor.events[cursor.enters[entries[number][i]]].mask; };
    if (k > 0 && runs[number][k - 1] <= 1) owed[number] = 0;  // another time that the loop is come to
    take_part(number, copies);
    if (copies < 2 || copies > 31 || run_at(number, k) < copies) return;
    uint32_t left = 0;
    for (uint32_t turn = 1; turn < copies; turn++) {
      const uint32_t before = lanes_of(k + turn - 1), now = lanes_of(k + turn);
      if (now & ~before) return;  // not the same lanes: a loop that some come to later
      if (before != now) left |= 1u << turn;
    }
    owed[number] |= left;
    const uint32_t here = lanes_of(k + copies - 1);
    for (uint32_t turn = 0; turn + 1 < copies; turn++)
      if (std::popcount(lanes_of(k + turn) & ~here) > std::popcount(here)) cursor.put_off.push_back({cursor.enters[entries[number][k + turn]], cursor.enters[entries[number][k + turn + 1]]});
  }
  /// The next entry that machine block `b` would use, and of which PTX block.
  size_t next_of(const Flow& f, const Carried** which = nullptr) {
    if (!which && is_owed(f)) return time;
    size_t best = kNever;
    const bool home_ahead = f.home != UINT32_MAX && next_entry(join.number_of(f.home)) != kNever;
    for (const Carried& c : f.carried) {
      // What ptxas moved here of a block that the warp has left says nothing of when this one is entered, as long as its home does.
      const bool part = is_part(c);
      if (part && home_ahead && c.block != f.home) continue;
      const size_t at = part ? entries[c.number][used[c.number] - 1] : next_entry(c.number);
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
      const bool straight = f.taken < 0 || f.taken == b;  // nothing to decide, or a loop of its own: an atomic's
      best = ahead(f.fall, straight ? depth : depth + 1);
      if (const Ahead other = straight ? Ahead{} : ahead(f.taken, depth + 1); !leads(best, other)) best = other;
      for (const int32_t to : f.table)
        if (const Ahead other = ahead(to, depth + kLookAhead); other.before(best)) best = other;  // no further than they: each may lead to the next jump
    }
    best.skipped += !f.carried.empty();
    return best;
  }
  /// Is it `a` rather than `b` that the warp comes to next? Of an unrolled loop and its remainder, the larger one as long as so many turns are left.
  bool leads(const Ahead& a, const Ahead& b) {
    if (a.when != b.when || a.when == kNever || copies(a) == copies(b)) return !b.before(a);
    const uint32_t home = join.flow_[size_t(a.block)].home, most = std::max(copies(a), copies(b));
    const bool fits = most <= run_left(home) || (most < 32 && home != UINT32_MAX && owed[join.number_of(home)] >> most != 0);
    return (copies(a) > copies(b)) == fits;
  }
  uint32_t run_left(uint32_t home) {
    const uint32_t block = join.number_of(home);
    std::vector<uint32_t>& left = runs[block];
    const std::vector<uint32_t>& own = entries[block];
    if (left.empty() && !own.empty()) {
      left.assign(own.size(), 1);
      const auto [low, high] = join.loop_of(home);
      const auto beside = join.beside_.find(home);
      for (size_t k = own.size() - 1; k-- > 0;) {
        bool inside = true;
        for (uint32_t i = own[k] + 1; i < own[k + 1] && inside; i++) {
          const uint32_t pc = cursor.events[cursor.enters[i]].pc;
          inside = pc >> 24 != home >> 24 || (pc >= low && pc < high && (beside == join.beside_.end() || !join.lies_elsewhere(join.first_of(pc), beside->second)));
        }
        if (inside && low < high) left[k] = left[k + 1] + 1;
      }
    }
    return run_at(block, used[block]);
  }
  /// Turns that a machine block with so many copies of a PTX block stands for.
  uint32_t turns_of(uint32_t block, uint32_t copies) {
    const auto [low, high] = join.loop_of(block);
    return copies > 1 && low < high ? std::clamp(run_left(block), 1u, copies) : copies;
  }
  uint32_t run_at(uint32_t block, size_t k) const { return k < runs[block].size() ? runs[block][k] : 0; }
  /// Do so many more turns of its loop follow the last one?
  bool turns_follow(uint32_t home, uint32_t turns) {
    const uint32_t block = join.number_of(home);
    run_left(home);
    const size_t at = used[block];
    return at > 0 && at <= runs[block].size() && runs[block][at - 1] > turns;
  }
  /// Does the block hold a barrier that the trace comes to next? ptxas tests how large the cluster is and has code for both.
  bool has_barrier(int32_t b) {
    if (b < 0) return false;
    for (const uint32_t i : join.flow_[size_t(b)].cluster_barriers) {
      const uint32_t place = join.place_[i];
      if (place == kNowhere || cursor.next[place] >= cursor.of(place).size()) continue;
      const What what = cursor.events[cursor.of(place)[cursor.next[place]]].what;
      if (what == What::cluster_arrive || what == What::cluster_wait) return true;
    }
    return false;
  }
  /// A branch of PTX that leads out may have become an exit under its predicate: does any lane go on, by what the trace enters behind it? Nothing where
  /// that cannot be told.
  std::optional<bool> goes_on(const MachineInstruction& exit) const {
    // Behind an atomic operation on an address of any space comes what does it in shared memory.
    if ((exit.op == isa::Op::atom || exit.op == isa::Op::red) && join.place_of(exit.pc) != kNowhere) {
      const auto own = cursor.of(join.place_of(exit.pc));
      if (!own.empty()) return cursor.events[own.front()].what != What::global_atomic && cursor.events[own.front()].what != What::global_reduction;
    }
    if (exit.op != isa::Op::bra || exit.pc == UINT32_MAX) return {};
    const uint32_t block = join.number_of(join.first_of(exit.pc)), next = exit.pc + 1;
    if (block >= entries.size() || join.first_of(next) != next) return {};
    const std::vector<uint32_t>& own = entries[block];
    const size_t n = used[block];
    size_t at = kNever;
    if (n > 0 && n <= own.size() && own[n - 1] + 1 >= time) at = own[n - 1];
    else if (n < own.size() && own[n] <= time + 2) at = own[n];
    if (at == kNever) return {};
    // A block that is nothing but a branch which no lane takes has no entry: then what is behind it.
    for (size_t k = at + 1; k < std::min(at + 3, cursor.enters.size()); k++)  // of lanes that part some leave first
      for (uint32_t pc = next; join.first_of(pc) == pc; pc++)
        if (cursor.events[cursor.enters[k]].pc == pc && (pc == next || std::binary_search(join.used_homes_.begin(), join.used_homes_.end(), pc))) return true;
    return false;
  }
  uint32_t copies(const Ahead& a) const { return a.block < 0 ? 0 : join.flow_[size_t(a.block)].loop_copies; }
  int32_t choose(const Flow& f) {
    if (has_barrier(f.fall)) return f.fall;
    if (f.taken >= 0 && &join.flow_[size_t(f.taken)] == &f && f.copies > 1 && turns_follow(f.home, f.copies)) return f.taken;  // an unrolled loop goes on
    const Ahead fall = ahead(f.fall), taken = ahead(f.taken);
    if (fall.when == kNever && taken.when == kNever) {  // nothing is left to do: out by the shorter way
      const auto far = [&](int32_t b) { return b < 0 ? UINT32_MAX : join.flow_[size_t(b)].to_exit; };
      return far(f.fall) <= far(f.taken) ? f.fall : f.taken;
    }
    const bool fall_first = leads(fall, taken);
    const Ahead& later = fall_first ? taken : fall;
    if (later.when != kNever && later.when != (fall_first ? fall : taken).when) set_aside(fall_first ? f.taken : f.fall, later.when);
    return fall_first ? f.fall : f.taken;
  }
  /// Where a jump by a table leads: to what the trace enters first. Where lanes part, the sides that it enters before the first one comes again are set aside.
  int32_t by_table(const Flow& f) {
    std::vector<std::pair<size_t, int32_t>> sides;  // when each is entered
    for (const int32_t to : f.table)
      if (const size_t when = ahead(to).when; when != kNever) sides.push_back({when, to});
    if (f.fall >= 0)
      if (const size_t when = ahead(f.fall).when; when != kNever) sides.push_back({when, f.fall});
    if (sides.empty()) return f.fall >= 0 ? f.fall : f.table.front();
    std::sort(sides.begin(), sides.end());
    for (size_t k = 1; k < sides.size() && sides[k].first <= sides[0].first + 2 * sides.size(); k++) set_aside(sides[k].second, sides[k].first);
    return sides[0].second;
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
    const Ahead own = ahead(b);
    Ahead first = own;
    int32_t best = -1;
    for (const auto& a : aside)
      if (const Ahead other = ahead(a.first); other.before(first)) first = other, best = a.first;
    if (best < 0) return b;
    std::erase_if(aside, [&](const auto& a) { return a.first == best; });
    if (own.when != kNever) set_aside(b, own.when);
    return best;
  }
  /// Uses the entries that block `b` stands for; returns where the next entry of its home lies among the events.
  size_t use(int32_t b, uint32_t& lanes) {
    const Flow& f = join.flow_[size_t(b)];
    const Carried* first = nullptr;
    for_others = false;
    cursor.put_off.clear();
    const size_t own = next_of(f, &first);
    if (is_owed(f) && (own == kNever || first->block != f.home || f.copies > run_left(f.home))) {
      take_part(join.number_of(f.home), f.copies);
      for_others = true;
      return kNever;
    }
    if (own == kNever) return kNever;
    const bool part = is_part(*first);
    const auto entries_of = [&](const Carried& c) { return std::max(std::min(c.copies, f.copies), c.whole_run ? run_left(c.block) : 1); };
    const uint32_t copies = turns_of(first->block, entries_of(*first));
    if (first->block == f.home && !part && !first->whole_run) run_left(f.home), note_owed(first->number, used[first->number], copies);
    size_t now = time;  // until all that the block holds of these turns is used, however many entries they have, none of it is behind
    for (uint32_t k = 0; k < copies && !part; k++) {
      const size_t at = next_entry(first->number);
      if (at == kNever) break;
      if (k == 0) lanes = cursor.events[cursor.enters[at]].extra, cursor.entered = first->block, cursor.entered_at = cursor.enters[at];
      now = std::max(now, at);
      used[first->number]++, taken[first->number]++, taken_entries++;
    }
    const size_t next = next_entry(first->number);
    for (const Carried& c : f.carried) {  // what lies between is what ptxas merged, or moved here from behind a loop: no time passes
      if (&c != first && !is_part(c) && next_entry(c.number) < next) {
        uint32_t n = c.whole_run ? run_left(c.block) : 1;
        used[c.number] += n, taken[c.number] += n, taken_entries += n;
        for (; n < std::min(c.copies, f.copies) && next_entry(c.number) < next; n++) used[c.number]++, taken[c.number]++, taken_entries++;
      }
      for (uint32_t i : c.tells) issued[i] = used[c.number];
    }
    time = now;
    return next == kNever ? cursor.events.size() : cursor.enters[next];
  }
};

/// Have the events of a PTX block found their machine instructions? True when it has none.
bool Join::all_events_used(uint32_t home, const Cursor& c) const {
  for (uint32_t place = place_of(home); place < block_first_.size() && block_first_[place].second == home; place++)
    if (c.next[place] < c.of(place).size()) return false;
  return true;
}

/// What lies beside the branch that `f` ends with: the call, the function, and what puts its result where it belongs.
void Join::call_slowly(const Flow& f, const SlowCall& slow, Cursor& c, std::vector<Step>& out, JoinStatistics& statistics) const {
  const auto [first, last] = blocks_[size_t(f.slow)];
  const size_t behind = size_t(f.slow) + 1;
  const bool has_rest = behind < blocks_.size() && int32_t(behind) != f.fall && int32_t(behind) != f.taken;
  const uint32_t around = last - first + (has_rest ? blocks_[behind].second - blocks_[behind].first : 0);
  emit_range({first, last}, c, 0, slow.lanes, out, statistics);
  call(uint32_t(code_[last - 1].i.target), std::max(1u, slow.instructions - std::min(slow.instructions, around)), slow.lanes, out);
  if (has_rest) emit_range(blocks_[behind], c, 0, slow.lanes, out, statistics);
}

bool Join::walk(const TracedWarp& warp, Cursor& c, std::vector<Step>& out, JoinStatistics& statistics) const {
  Walker w(*this, c, warp);
  const size_t limit = 4096 + warp.events.size() * 256;  // an atomic may be a loop of 32 turns
  uint32_t lanes = c.enters.empty() ? 32 : warp.events[c.enters[0]].extra;
  size_t window = c.events.size();
  uint64_t passes = 0;
  bool called = false;  // a function
  for (int32_t b = blocks_.empty() ? -1 : 0; b >= 0;) {
    const Flow& f = flow_[size_t(b)];
    if (out.size() > limit || ++passes > limit) return false;
    const size_t next = w.use(b, lanes);
    if (next != kNever) window = next;
    const size_t begin = out.size();
    if (w.for_others) issue_owed(blocks_[size_t(b)], c, lanes, out);
    else emit_range(blocks_[size_t(b)], c, window, lanes, out, statistics);
    if (f.by_lanes) repeat_for_lanes(begin, warp.events, out);
    if (are_parted(f, c)) {
      for (uint32_t k = f.parted; k < f.parted_end; k++) emit_range(blocks_[k], c, window, lanes, out, statistics);
      const uint32_t back = uint32_t(block_at(uint32_t(code_[blocks_[f.parted_end - 1].second - 1].i.target)));
      for (uint32_t k = uint32_t(b) + 1; k < back; k++) w.use(int32_t(k), lanes);  // which they do instead
      b = int32_t(back);
      continue;
    }
    if (f.always != UINT32_MAX) call(f.always, 0, lanes, out);
    if (f.slow >= 0)
      if (const SlowCall* slow = w.slow_call(f.slow_place)) call_slowly(f, *slow, c, out, statistics);
    if (f.calls >= 0 && w.returns.size() < 64) {
      called = true;
      w.returns.push_back(f.fall);
      b = f.calls;
      continue;
    }
    if (f.calls_any && w.returns.size() < 64) {  // the function that the trace is in next; what falls may be the rest of the block that calls
      const size_t rest = w.ahead(f.fall).when;
      size_t when = rest > w.time ? rest : kNever;
      int32_t callee = -1;
      for (int32_t begins : functions_)
        if (const size_t then = w.ahead(begins).when; then < when) when = then, callee = begins;
      if (callee >= 0) {
        w.returns.push_back(f.fall);
        b = callee;
        continue;
      }
      statistics.calls_lost++;
    }
    if (f.returns && !w.returns.empty()) {
      b = w.returns.back();
      w.returns.pop_back();
      continue;
    }
    int32_t to = f.fall;
    if (f.taken >= 0) to = f.fall >= 0 ? w.choose(f) : f.taken;
    if (!f.table.empty()) to = w.by_table(f);
    if (f.exits && f.fall >= 0) {  // some lanes leave
      if (!w.goes_on(code_[blocks_[size_t(b)].second - 1]).value_or(w.ahead(f.fall).when != kNever)) to = -1;
    }
    b = w.turn(to);
    if (warp.cut && w.ahead(b).when == kNever) {  // where it would go is not known: it ends, rather than waits for others on the way out
      const auto exit = std::find_if(code_.begin(), code_.end(), [](const MachineInstruction& m) { return m.kind == Class::exit && !m.i.guarded; });
      if (exit != code_.end()) emit_range({uint32_t(exit - code_.begin()), uint32_t(exit - code_.begin()) + 1}, c, window, lanes, out, statistics);
      break;
    }
  }
  issue_waiting(c, out);
  uint64_t homed = 0;
  for (uint32_t place = 0; place < block_first_.size(); place++) {
    const auto [pc, home] = block_first_[place];
    const uint32_t block = block_number_[place];
    if (pc != home || w.entries[block].empty() || !std::binary_search(used_homes_.begin(), used_homes_.end(), home)) continue;
    const bool merged = w.taken[block] == 0 || !turning_.count(home);  // into blocks on the way, or moved ahead of its loop
    if (!merged || !all_events_used(home, c)) homed += w.entries[block].size();
  }
  // By entries alone, blocks that call would be parted from what follows in them: a way that misses a turn or two is nearer.
  return called ? w.taken_entries * 4 + 4 >= homed * 3 : w.taken_entries * 20 + 20 >= homed * 19;
}

}  // namespace orrery::timing
