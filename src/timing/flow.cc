// timing/flow.cc: the control flow of machine code, as walk.cc needs it: successors, loops, and which PTX blocks each machine
// block carries. Not here: how a warp goes through it.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "timing/join.h"

namespace orrery::timing {

namespace {
/// What a PTX instruction became: it, and the machine instruction's opcode.
uint64_t form_of(const MachineInstruction& m) { return uint64_t{m.pc} << 16 | m.i.opcode; }
}  // namespace

/// Loops of the machine code: the blocks from which a branch to a block that dominates it is reached. Code that lies out of
/// line (waits for mbarriers, slow paths) makes no loop of what it jumps back over.
std::vector<std::vector<uint32_t>> Join::natural_loops() const {
  const uint32_t n = uint32_t(flow_.size());
  std::vector<std::vector<uint32_t>> from(n);
  const auto each = [&](uint32_t b, auto f) {
    for (int32_t to : {flow_[b].fall, flow_[b].taken})
      if (to >= 0) f(uint32_t(to));
    for (int32_t to : flow_[b].table) f(uint32_t(to));
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

/// The ways through a function of a quotient or root, from where it begins to where it returns; no instruction comes twice.
void Join::find_ways(uint32_t begin) {
  constexpr size_t kMost = 512;
  size_t patience = 1 << 20;  // instructions looked at
  if (ways_.count(begin) || begin >= code_.size()) return;
  std::vector<Way>& ways = ways_[begin];
  std::vector<bool> on_way(code_.size());
  Way way;
  const std::function<void(uint32_t)> follow = [&](uint32_t i) {
    const size_t length = way.size();
    const auto leave = [&] {
      for (; way.size() > length; way.pop_back()) on_way[way.back()] = false;
    };
    while (i < code_.size() && !on_way[i] && ways.size() < kMost && patience-- > 1) {
      const MachineInstruction& m = code_[i];
      const bool plain = !m.i.guarded && (m.i.hi >> 23 & 7) == 7 && (m.i.lo >> 32 & 3) == 0;
      way.push_back(i), on_way[i] = true;
      if (m.i.opcode == 0x150) {
        ways.push_back(way);
        if (plain) break;
      } else if (m.i.opcode == kBranch && m.i.target >= 0) {
        follow(uint32_t(m.i.target));
        if (plain) break;
      }
      i++;
    }
    leave();
  };
  follow(begin);
}

/// What sets of lanes do out of line, one by one, where block `b` ends with a jump for lanes that have parted (BRA.DIV): straight code that leads back to
/// where those go on that are together.
void Join::find_parted(uint32_t b, Flow& f) const {
  const auto goes_to = [&](const MachineInstruction& m) { return m.i.target >= 0 && uint32_t(m.i.target) < code_.size(); };
  const MachineInstruction& branch = code_[blocks_[b].second - 1];
  if (branch.i.opcode != kBranch || (branch.i.lo >> 32 & 3) != 2 || !goes_to(branch)) return;
  uint32_t exchange = kNowhere;
  for (uint32_t k = uint32_t(block_at(uint32_t(branch.i.target))), first = k; k < blocks_.size(); k++) {
    for (uint32_t i = blocks_[k].first; i < blocks_[k].second && exchange == kNowhere; i++)
      if (code_[i].members == Members::collective && code_[i].op != isa::Op::shfl) exchange = place_[i];
    const MachineInstruction& last = code_[blocks_[k].second - 1];
    if (last.i.opcode == kBranch && !last.i.guarded && goes_to(last) && block_at(uint32_t(last.i.target)) > int32_t(b)) {
      f.parted = first, f.parted_end = k + 1, f.exchange = exchange;
      return;
    }
    if (last.kind == Class::branch || last.kind == Class::exit) return;
  }
}

/// Successors, loops and what is hoisted: the control flow of the machine code.
void Join::find_flow() {
  flow_.assign(blocks_.size(), {});
  const std::vector<uint32_t> jumped_to = find_jumped_to();
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    find_parted(b, f);
    const MachineInstruction& m = code_[blocks_[b].second - 1];
    const bool plain = !m.i.guarded && (m.i.hi >> 23 & 7) == 7 && (m.i.lo >> 32 & 3) == 0;
    f.fall = b + 1 < blocks_.size() ? int32_t(b + 1) : -1;
    const bool target_ok = m.i.target >= 0 && uint32_t(m.i.target) < code_.size();
    const auto beside = [&](int32_t other) {  // a block that is left out as it ends with the call of a quotient or root
      if (other < 0 || reached_[size_t(other)] || f.slow >= 0) return;
      const uint32_t last = blocks_[size_t(other)].second - 1;
      const isa::Op op = code_[last].op;
      if (code_[last].i.opcode != 0x144 || code_[last].i.target < 0 || (op != isa::Op::div && op != isa::Op::rcp && op != isa::Op::sqrt)) return;
      f.slow = other, f.slow_place = place_[last];
      find_ways(uint32_t(code_[last].i.target));
    };
    if (m.i.opcode == kBranch) beside(f.fall);
    if (m.i.opcode == kBranch && target_ok) beside(block_at(uint32_t(m.i.target)));
    if (m.always_calls && target_ok) f.always = uint32_t(m.i.target), find_ways(f.always);
    const bool if_together = m.i.opcode == kBranch && (m.i.lo >> 32 & 3) == 3;  // BRA.CONV: past what lanes that are apart do
    if (m.i.opcode == kBranch && target_ok && !m.i.never && ((m.i.lo >> 32 & 3) == 0 || if_together)) {
      f.taken = block_at(uint32_t(m.i.target));
      if (plain || (if_together && !m.i.guarded)) f.fall = -1;
      if (!reached_[size_t(f.taken)]) f.taken = -1;
    }
    f.calls_any = m.i.calls_register() && m.op == isa::Op::call;
    if (m.i.opcode == 0x144 && target_ok) {
      const int32_t to = block_at(uint32_t(m.i.target));
      if (reached_[size_t(to)]) f.calls = to;
    }
    if (m.i.jumps_by_table()) {
      for (const uint32_t to : table_of(b, jumped_to))
        if (reached_[to]) f.table.push_back(int32_t(to));
      f.fall = m.i.guarded ? f.fall : -1;
    }
    if (m.kind == Class::exit) f.exits = true, f.fall = m.i.guarded ? f.fall : -1;
    if (m.i.opcode == 0x150) f.returns = true, f.fall = m.i.guarded ? f.fall : -1;
    if (f.fall >= 0 && !reached_[size_t(f.fall)]) f.fall = -1;
    const bool again = m.i.opcode == kBranch && m.i.target == int32_t(blocks_[b].first) && (m.i.lo >> 32 & 3) != 0;  // while any lane is left
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) {
      if (code_[i].kind == Class::cluster_barrier) f.cluster_barriers.push_back(i);
      f.by_lanes |= again && (code_[i].kind == Class::bulk_copy || code_[i].op == isa::Op::mbarrier_init);
    }
  }
  for (const auto& [at, kind] : roots_)
    if (at > 0 && at < code_.size() && reached_[size_t(block_at(at))]) functions_.push_back(block_at(at));
  const std::vector<std::vector<uint32_t>> loops = natural_loops();
  for (uint32_t l = 0; l < loops.size(); l++)
    for (uint32_t b : loops[l])
      if (flow_[b].loop < 0 || loops[l].size() < loops[size_t(flow_[b].loop)].size()) flow_[b].loop = int32_t(l);
  find_hoisted(loops);
  bool changed = true;  // blocks between each block and the end
  while (changed) {
    changed = false;
    for (Flow& f : flow_) {
      uint32_t best = f.exits || f.returns ? 0 : UINT32_MAX;
      for (int32_t to : {f.fall, f.taken})
        if (to >= 0 && flow_[size_t(to)].to_exit != UINT32_MAX) best = std::min(best, flow_[size_t(to)].to_exit + 1);
      for (int32_t to : f.table)
        if (flow_[size_t(to)].to_exit != UINT32_MAX) best = std::min(best, flow_[size_t(to)].to_exit + 1);
      if (best < f.to_exit) f.to_exit = best, changed = true;
    }
  }
  for (const Flow& f : flow_)
    for (const Carried& c : f.carried) {
      used_homes_.push_back(c.block);
      if (const auto [low, high] = loop_of(c.block); f.loop >= 0 || low >= high) turning_.insert(c.block);
    }
  std::sort(used_homes_.begin(), used_homes_.end());
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    if (flow_[b].home == UINT32_MAX || flow_[b].copies < 2) continue;
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++)
      if (code_[i].pc != UINT32_MAX) beside_[flow_[b].home].insert(first_of(code_[i].pc));
  }
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    f.loop_copies = f.copies;
    if (f.loop < 0) continue;
    f.loop_copies = 0;
    bool is_rest = false;  // of a loop inside: beside it in the loop around both
    for (uint32_t k : loops[size_t(f.loop)])
      if (flow_[k].home == f.home && reached_[k]) f.loop_copies += flow_[k].copies, is_rest |= f.home != UINT32_MAX && flow_[k].loop != f.loop;
    if (is_rest) f.loop_copies = f.copies;
  }
  std::unordered_map<uint32_t, uint32_t> carriers;  // of a PTX block: how many machine blocks hold parts of it
  for (const Flow& f : flow_)
    for (const Carried& c : f.carried) carriers[c.block]++;
  const auto comes_again = [&](uint32_t b) {
    std::vector<bool> seen(flow_.size(), false);
    std::vector<int32_t> work = flow_[b].table;
    work.push_back(flow_[b].fall), work.push_back(flow_[b].taken);
    while (!work.empty()) {
      const int32_t at = work.back();
      work.pop_back();
      if (at == int32_t(b)) return true;
      if (at < 0 || seen[size_t(at)]) continue;
      seen[size_t(at)] = true;
      work.push_back(flow_[size_t(at)].fall), work.push_back(flow_[size_t(at)].taken);
      work.insert(work.end(), flow_[size_t(at)].table.begin(), flow_[size_t(at)].table.end());
    }
    return false;
  };
  for (uint32_t b = 0; b < flow_.size(); b++)
    for (Carried& c : flow_[b].carried) {
      const auto [low, high] = loop_of(c.block);
      const bool of_one_block = low < high && low == c.block && first_of(high - 1) == c.block;
      c.whole_run = of_one_block && carriers[c.block] == 1 && !comes_again(b);
    }
}

/// A machine block no longer carries the PTX blocks for which `which` holds; its home may be another then.
template <class F>
void Join::erase_carried(Flow& f, F which) {
  std::erase_if(f.carried, which);
  const bool kept = std::any_of(f.carried.begin(), f.carried.end(), [&](const Carried& c) { return c.block == f.home; });
  if (!kept) f.home = f.carried.empty() ? UINT32_MAX : f.carried.front().block, f.copies = 1;
}

/// Homes of machine blocks, and what each holds of the PTX blocks that it carries: its home, and others that ptxas merged
/// into it under predicates. A block that holds little of a PTX block does not carry it: it joins paths, tests for a loop
/// that ptxas unrolled, or has instructions that were moved.
void Join::find_own() {
  std::unordered_map<uint32_t, size_t> most;
  std::unordered_map<uint64_t, uint32_t> tell_numbers;
  // A block with a memory or synchronising instruction that the machine code holds n times has at most n copies, but for a wider access
  // that ptxas made of several. What several turns load may be loaded once for them: of loads the one that it holds most often counts, where there is nothing else.
  std::unordered_map<uint64_t, uint32_t> times;
  std::unordered_map<uint32_t, uint32_t> limit, loaded;
  std::set<uint64_t> load_forms;
  for (const MachineInstruction& m : code_)
    if (eventful(m.kind) && !m.i.never && m.pc != UINT32_MAX) {
      times[form_of(m)]++;
      if (m.kind == Class::load || m.kind == Class::shared_load) load_forms.insert(form_of(m));
    }
  for (const MachineInstruction& m : code_)
    if (m.joined()) times.erase(form_of(m));
  for (const auto& [key, n] : times) {
    const uint32_t block = first_of(uint32_t(key >> 16));
    if (load_forms.count(key)) {
      loaded[block] = std::max(loaded[block], n);
    } else if (const auto [at, fresh] = limit.try_emplace(block, n); !fresh) {
      at->second = std::min(at->second, n);
    }
  }
  for (const auto& [block, n] : loaded) limit.try_emplace(block, n);
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    bool works = false;  // a block that only joins paths belongs to no one
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) works |= code_[i].kind != Class::control && code_[i].kind != Class::nop && code_[i].kind != Class::branch;
    if (!reached_[b] || !works) continue;
    f.home = home_of(homes_of_blocks_[b].first) ? homes_of_blocks_[b].first : UINT32_MAX;
    f.copies = homes_of_blocks_[b].second;
    if (const auto most_copies = limit.find(f.home); most_copies != limit.end()) f.copies = std::min(f.copies, most_copies->second);
    if (const auto products = products_of_.find(f.home); products != products_of_.end()) {  // each wgmma is one machine instruction
      const auto issued = std::count_if(code_.begin() + blocks_[b].first, code_.begin() + blocks_[b].second, [](const MachineInstruction& m) { return m.kind == Class::wgmma && m.n > 0; });
      std::set<uint32_t> held;  // PTX blocks of which it has anything: lines of products are often a neighbour's
      for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++)
        if (code_[i].pc != UINT32_MAX) held.insert(first_of(code_[i].pc));
      uint32_t all = 0;
      for (const uint32_t block : held)
        if (const auto own = products_of_.find(block); own != products_of_.end()) all += own->second;
      if (issued > 0) f.copies = std::max(1u, uint32_t(issued) / std::max(all, products->second));
    }
    std::map<uint32_t, std::set<uint32_t>> own;
    std::map<uint32_t, std::set<uint64_t>> telling, events;
    std::map<uint32_t, std::map<uint64_t, uint32_t>> repeats;
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++)
      if (code_[i].pc != UINT32_MAX && code_[i].kind != Class::nop && code_[i].kind != Class::control && code_[i].kind != Class::exit) {
        const uint32_t block = first_of(code_[i].pc);
        own[block].insert(code_[i].pc);
        telling[block].insert(form_of(code_[i]));
        repeats[block][form_of(code_[i])]++;
        if (eventful(code_[i].kind)) events[block].insert(form_of(code_[i]));
      }
    for (const auto& [block, pcs] : own) {
      const std::set<uint64_t>& tells = events.count(block) ? events[block] : telling[block];
      std::vector<uint32_t> counts;
      for (const auto& [what, n] : repeats[block]) counts.push_back(n);
      // What counts turns stands once for all of an unrolled loop's, but is of each.
      const bool of_turns = block == f.home || (loop_of(block) == loop_of(f.home) && loop_of(block).first < loop_of(block).second);
      const uint32_t copies = of_turns ? f.copies : pcs.size() < 2 ? 1 : std::min(f.copies, copies_of(std::move(counts)));
      f.carried.push_back({block, number_of(block), {pcs.begin(), pcs.end()}, {telling[block].begin(), telling[block].end()}, false, copies, {}});
      for (const uint64_t t : tells) f.carried.back().tells.push_back(tell_numbers.try_emplace(t, uint32_t(tell_numbers.size())).first->second);
      most[block] = std::max(most[block], pcs.size());
    }
  }
  tells_ = uint32_t(tell_numbers.size());
  for (Flow& f : flow_) erase_carried(f, [&](const Carried& c) { return c.block == f.home ? c.own.size() * 4 < most[c.block] : c.own.size() * 2 <= most[c.block]; });
}

/// Does block `b` hold of a PTX block nothing but how often its loop goes round?
bool Join::only_counts(uint32_t b, uint32_t block) const {
  for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) {
    const isa::Op op = code_[i].op;
    if (code_[i].pc == UINT32_MAX || first_of(code_[i].pc) != block) continue;
    if (eventful(code_[i].kind) || (op != isa::Op::bra && op != isa::Op::setp && op != isa::Op::add && op != isa::Op::sub)) return false;
  }
  return true;
}

/// Machine blocks that stand for no turns of a loop of PTX carry it no more: tests of how many are left, and what ptxas moved ahead of it.
void Join::find_hoisted(const std::vector<std::vector<uint32_t>>& loops) {
  find_own();
  // Tests of how many turns are left, between a loop that ptxas unrolled and its remainder: the turns are in the blocks around them.
  // What only counts of a loop of several PTX blocks tells turns where others of the loop are beside it.
  std::vector<std::vector<uint32_t>> held(blocks_.size());
  for (uint32_t b = 0; b < blocks_.size(); b++)
    for (const Carried& c : flow_[b].carried) held[b].push_back(c.block);
  const auto only_tests = [&](uint32_t b, const Carried& c) {
    const auto of_its_loop = [&](uint32_t other) { return other != c.block && loop_of(other) == loop_of(c.block) && loop_of(c.block).second > 0; };
    return only_counts(b, c.block) && std::none_of(held[b].begin(), held[b].end(), of_its_loop);
  };
  std::unordered_map<uint32_t, std::vector<uint32_t>> workers;  // by PTX block: machine blocks with more of it
  for (uint32_t b = 0; b < blocks_.size(); b++)
    for (const Carried& c : flow_[b].carried)
      if (!only_tests(b, c)) workers[c.block].push_back(b);
  for (uint32_t b = 0; b < blocks_.size(); b++)
    erase_carried(flow_[b], [&](const Carried& c) {
      if (!only_tests(b, c)) return false;
      const std::vector<uint32_t>& others = workers[c.block];
      if (flow_[b].loop < 0) return !others.empty();
      const std::vector<uint32_t>& around = loops[size_t(flow_[b].loop)];
      return std::any_of(others.begin(), others.end(), [&](uint32_t k) { return std::find(around.begin(), around.end(), k) != around.end(); });
    });
  std::unordered_map<uint32_t, std::vector<uint64_t>> looping;  // by home: what machine loops hold
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    if (flow_[b].home == UINT32_MAX || flow_[b].loop < 0) continue;
    auto& list = looping[flow_[b].home];
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) list.push_back(form_of(code_[i]));
  }
  for (auto& [home, list] : looping) std::sort(list.begin(), list.end());
  for (uint32_t b = 0; b < blocks_.size(); b++) {
    Flow& f = flow_[b];
    if (f.home == UINT32_MAX || f.loop >= 0) continue;
    erase_carried(f, [&](const Carried& c) {
      const auto found = looping.find(c.block);
      if (found == looping.end()) return false;
      size_t same = 0;  // a peeled iteration repeats what the loop holds, hoisted code does not
      for (uint64_t form : c.forms) same += std::binary_search(found->second.begin(), found->second.end(), form);
      return same * 2 < c.forms.size();
    });
  }
}

std::pair<uint32_t, uint32_t> Join::loop_of(uint32_t first_pc) const {
  const auto found = loops_.find(first_pc);
  return found == loops_.end() ? std::pair{0u, 0u} : found->second;
}

}  // namespace orrery::timing
