// timing/join.cc: see join.h.
#include "timing/join.h"

#include "timing/join_cursor.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace orrery::timing {

Class class_of(uint16_t opcode);

namespace {

constexpr uint16_t kFloatExtreme = 0x009, kWholeExtreme = 0x048;  // FMNMX, VIMNMX

/// The SASS width field of memory instructions: bits 73-75.
uint16_t access_width(uint64_t hi) {
  static constexpr uint16_t kBytes[8] = {1, 1, 2, 2, 4, 8, 16, 16};
  return kBytes[hi >> 9 & 7];
}

/// The scope of a MEMBAR: bits 76-77 (block, -, GPU, system).
FenceScope fence_scope(uint64_t hi) {
  static constexpr FenceScope kScopes[4] = {kBlockFence, kGpuFence, kGpuFence, kSystemFence};
  return kScopes[hi >> 12 & 3];
}

/// Register operands of arithmetic instructions: A in bits 24-31, B in 32-39 and C in 64-71 (form 1); where B is an immediate, a constant or a uniform
/// register (forms 4 to 6) these bits hold it, where C is (2, 3, 7) they hold C and B lies in C's. Sums of floats read B as C.
void read_sources(MachineInstruction& m) {
  int n = 0;
  switch (m.i.opcode) {
    case 0x023: case 0x024: case 0x025: case 0x026: case 0x027: case 0x010: case 0x012: case 0x019: case 0x016: case 0x031: case 0x035: case 0x02b: case 0x00f: case 0x046:
      n = 3;
      break;
    case 0x020: case 0x021: case 0x00b: case 0x00c: case 0x009: case 0x007: case 0x008: case 0x011: case 0x030: case 0x032: case 0x036: case 0x028: case 0x029:
    case 0x02a: case 0x048:
      n = 2;
      break;
    default: return;
  }
  const uint8_t a = uint8_t(m.i.lo >> 24), b = uint8_t(m.i.lo >> 32), c = uint8_t(m.i.hi);
  const bool sums = m.i.opcode == 0x021 || m.i.opcode == 0x029 || m.i.opcode == 0x030;
  m.source[0] = a;
  if (m.i.form == 1) m.source[sums ? 2 : 1] = b;
  if (n == 3) m.source[m.i.form == 2 || m.i.form == 3 || m.i.form == 7 ? 1 : 2] = c;  // of two sources the second is B, a constant or a uniform register [compare]
  m.reads_uniform = m.i.form == 6 || m.i.form == 7;
  m.reuse = uint8_t(m.i.hi >> 58 & 7);
  m.wide = m.kind == Class::fp64;
}

}  // namespace

namespace {
constexpr bool loads(Class c) { return c == Class::load || c == Class::shared_load || c == Class::local_load; }
}  // namespace

bool eventful(Class c) {
  switch (c) {
    case Class::load: case Class::store: case Class::atomic: case Class::shared_load: case Class::shared_store: case Class::shared_atomic:
    case Class::copy_async: case Class::matrix_load: case Class::tensor_copy: case Class::bulk_copy: case Class::mbarrier: case Class::barrier:
    case Class::cluster_barrier: case Class::match: case Class::texture: case Class::sleep:
      return true;
    default: return false;
  }
}

bool may_have_event(Class c) { return c == Class::constant || c == Class::local_load || c == Class::local_store; }

bool is_of(Class c, What what) {
  return what == (c == Class::constant ? What::constant_load : c == Class::local_load ? What::local_load : What::local_store);
}

Join::Join(const exec::Kernel& kernel, const Layout& layout, std::vector<MachineCode> code) {
  // The kernel's own section first: its name is the entry's.
  const std::string& entry = kernel.entry->program->name;
  std::stable_sort(code.begin(), code.end(), [&](const MachineCode& a, const MachineCode& b) { return (a.name == entry) > (b.name == entry); });
  for (const MachineCode& section : code) {
    const uint32_t start = uint32_t(code_.size());
    section_start_.push_back(start);
    if (section.name == entry) registers_ = section.registers;
    roots_.push_back({start, start == 0 ? 0 : 1});
    for (uint32_t f : section.inner_functions) roots_.push_back({start + f, 2});
    for (const Instruction& i : section.code) {
      MachineInstruction m;
      m.i = i;
      if (i.target >= 0) m.i.target += int32_t(start);
      m.kind = class_of(i.opcode);
      m.width = m.kind == Class::matrix_load ? uint16_t(4 << (i.hi >> 8 & 3)) : access_width(i.hi);  // LDSM: a register for each of one, two or four pieces of 8 x 8
      m.counts_lanes = i.opcode == 0x18c && (i.hi >> 23 & 15) == 11;
      m.reads_clock = i.opcode == 0x005 && (i.hi >> 8 & 255) == 0x50;
      if (i.opcode == 0x192) m.n = fence_scope(i.hi);
      read_sources(m);
      code_.push_back(m);
    }
  }
  map_lines(kernel, layout);
  find_texels(kernel);
  find_collectives();
  find_first_tries();
  number_blocks();
  find_blocks();
  find_parts();
  find_swaps();
  find_spills();
  find_wide_local();
  find_homes();
  find_flow();
  find_looks();
}

/// A load of which the program uses some words only becomes several narrower ones; copies of an unrolled loop's load lie further apart, or
/// go by another register.
void Join::find_parts() {
  const auto offset = [](const MachineInstruction& m) { return int32_t(m.i.lo >> 32) >> 8; };  // bits 40-63
  const auto base = [](const MachineInstruction& m) { return uint8_t(m.i.lo >> 24); };
  const auto result = [](const MachineInstruction& m) { return uint8_t(m.i.lo >> 16); };
  for (const auto& [begin, end] : blocks_)
    for (uint32_t i = begin; i < end; i++) {
      const MachineInstruction& first = code_[i];
      if (!loads(first.kind) || first.part || first.pc == UINT32_MAX || first.width >= first.asked) continue;
      for (uint32_t k = i + 1; k < end && (result(code_[k - 1]) | 1) != (base(first) | 1); k++) {  // until what it goes by is another
        MachineInstruction& m = code_[k];
        if (m.pc != first.pc || m.i.opcode != first.i.opcode || base(m) != base(first)) continue;
        m.part = std::abs(offset(m) - offset(first)) < first.asked;
      }
    }
}

/// Where jumps by tables lead, which are not read: blocks behind one that goes on elsewhere and to which no branch leads, and, between these, others
/// behind such a one.
std::vector<uint32_t> Join::find_jumped_to() const {
  std::vector<uint32_t> found, others;
  if (std::none_of(code_.begin(), code_.end(), [](const MachineInstruction& m) { return m.i.jumps_by_table(); })) return found;
  std::set<uint32_t> targets;
  for (const MachineInstruction& m : code_)
    if (m.i.target >= 0) targets.insert(uint32_t(m.i.target));
  for (const auto& [at, kind] : roots_) targets.insert(at);
  for (uint32_t b = 1; b < blocks_.size(); b++) {
    const MachineInstruction& before = code_[blocks_[b].first - 1];
    const bool leaves = before.i.opcode == kBranch || before.i.jumps_by_table() || before.kind == Class::exit || before.i.opcode == 0x150;
    const bool plain = !before.i.guarded && (before.i.hi >> 23 & 7) == 7 && (before.i.lo >> 32 & 3) == 0;
    if (!leaves || !plain || code_[blocks_[b].first].pc == UINT32_MAX) continue;
    (targets.count(blocks_[b].first) ? others : found).push_back(b);
  }
  const std::vector<uint32_t> alone = found;
  for (const uint32_t b : others)
    if (!alone.empty() && b > alone.front() && b < alone.back()) found.push_back(b);
  return found;
}

/// Those that the jump at the end of block `b` may lead to: as far as the next such jump, behind which are the cases of that one, or of another copy of the
/// switch; where there is none, any of its function or kernel.
std::vector<uint32_t> Join::table_of(size_t b, const std::vector<uint32_t>& jumped_to) const {
  std::vector<uint32_t> own, near;
  const uint32_t pc = code_[blocks_[b].second - 1].pc;
  size_t next = b + 1;
  while (next < blocks_.size() && !code_[blocks_[next].second - 1].i.jumps_by_table()) next++;
  for (const uint32_t to : jumped_to) {
    if (pc != UINT32_MAX && code_[blocks_[to].first].pc >> 24 != pc >> 24) continue;
    own.push_back(to);
    if (to > b && to <= next) near.push_back(to);
  }
  return near.empty() ? own : near;
}

void Join::find_blocks() {
  std::set<uint32_t> starts(section_start_.begin(), section_start_.end());
  for (const auto& [at, kind] : roots_) starts.insert(at);
  for (uint32_t i = 0; i < code_.size(); i++) {
    const MachineInstruction& m = code_[i];
    const bool ends = m.kind == Class::exit || m.i.opcode == kBranch || m.i.opcode == 0x144 || m.i.opcode == 0x150 || m.i.opcode == 0x141 || m.i.jumps_by_table();
    if (ends) starts.insert(i + 1);
    if (m.i.target >= 0 && uint32_t(m.i.target) < code_.size()) starts.insert(uint32_t(m.i.target));
  }
  for (auto at = starts.begin(); at != starts.end(); ++at) {
    const auto next = std::next(at);
    const uint32_t end = next == starts.end() ? uint32_t(code_.size()) : *next;
    if (*at < end) blocks_.push_back({*at, end});
  }
  // What a converged warp reaches: not the collective fall-backs, nor the slow paths of division and roots.
  reached_.assign(blocks_.size(), false);
  std::vector<size_t> work;
  calls_any_ = std::any_of(code_.begin(), code_.end(), [](const MachineInstruction& m) { return m.i.calls_register(); });
  const auto is_function = [&](uint32_t at) {  // of the program's own: slow paths bear no line of a function
    for (uint32_t i = at; i < code_.size() && code_[i].i.opcode != 0x150; i++)
      if (code_[i].pc != UINT32_MAX) return code_[i].pc >> 24 != 0;
    return false;
  };
  for (const auto& [at, kind] : roots_)
    if (at < code_.size() && (kind < 2 || (calls_any_ && is_function(at)))) work.push_back(size_t(block_at(at)));
  const std::vector<uint32_t> jumped_to = find_jumped_to();
  while (!work.empty()) {
    const size_t b = work.back();
    work.pop_back();
    if (reached_[b]) continue;
    reached_[b] = true;
    bool falls = true;
    if (const MachineInstruction& last = code_[blocks_[b].second - 1]; last.i.jumps_by_table()) {
      falls = last.i.guarded;
      for (const uint32_t to : table_of(b, jumped_to)) work.push_back(to);
    }
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) {
      const MachineInstruction& m = code_[i];
      if (m.i.opcode == kBranch && m.i.target >= 0 && uint32_t(m.i.target) < code_.size()) {
        const bool divergent_only = (m.i.lo >> 32 & 3) == 2;
        if (!divergent_only && !m.i.never) work.push_back(size_t(block_at(uint32_t(m.i.target))));
        const bool plain = !m.i.guarded && (m.i.hi >> 23 & 7) == 7 && (m.i.lo >> 32 & 3) == 0;
        if (plain) falls = false;
      }
      if (m.i.opcode == 0x144 && m.op == isa::Op::call && m.i.target >= 0 && uint32_t(m.i.target) < code_.size()) work.push_back(size_t(block_at(uint32_t(m.i.target))));
      if ((m.kind == Class::exit || m.i.opcode == 0x150) && !m.i.guarded) falls = false;
    }
    if (falls && b + 1 < blocks_.size()) work.push_back(b + 1);
  }
  // What a launch without clusters does instead of a barrier of the cluster.
  const auto is_instead = [&](const MachineInstruction& m) { return m.op == isa::Op::barrier_cluster && m.kind == Class::barrier; };
  const auto is_beside = [&](const MachineInstruction& m) { return m.op == isa::Op::barrier_cluster || m.kind == Class::nop || m.kind == Class::branch; };
  for (size_t b = 0; b < blocks_.size(); b++) {
    const auto first = code_.begin() + blocks_[b].first, last = code_.begin() + blocks_[b].second;
    if (std::any_of(first, last, is_instead) && std::all_of(first, last, is_beside)) reached_[b] = false;
  }
  for (size_t b = 0; b < blocks_.size(); b++)
    for (uint32_t i = blocks_[b].first; i < blocks_[b].second; i++) {
      const bool slow_path = code_[i].i.opcode == 0x144 && code_[i].op != isa::Op::call && !code_[i].always_calls;
      const bool trap = code_[i].i.opcode == 0x15c || code_[i].i.opcode == 0x11b;
      if (slow_path || trap || retries_.count(i)) reached_[b] = false;
    }
}

/// The first instruction of the PTX block that holds `pc`.
uint32_t Join::first_of(uint32_t pc) const {
  const uint32_t place = place_of(pc);
  return place == kNowhere ? UINT32_MAX : block_first_[place].second;
}

uint32_t Join::place_of(uint32_t pc) const {
  const auto found = std::lower_bound(block_first_.begin(), block_first_.end(), std::pair{pc, 0u});
  return found != block_first_.end() && found->first == pc ? uint32_t(found - block_first_.begin()) : kNowhere;
}

/// The number of a PTX block; of one that is not known, a number that no block has.
uint32_t Join::number_of(uint32_t first_pc) const {
  const uint32_t place = place_of(first_pc);
  return place == kNowhere ? ptx_blocks_ : block_number_[place];
}

/// Gives PTX blocks and instructions numbers, so that what is known of them while a warp is led need not be searched for.
void Join::number_blocks() {
  for (size_t i = 0; i < block_first_.size(); i++) {
    if (i > 0 && block_first_[i].second != block_first_[i - 1].second) ptx_blocks_++;
    block_number_.push_back(ptx_blocks_);
  }
  ptx_blocks_++;
  for (const MachineInstruction& m : code_) place_.push_back(place_of(m.pc));
}

/// Copies repeat most of their instructions; a long instruction's parts repeat only some of theirs.
uint32_t Join::copies_of(std::vector<uint32_t> counts) {
  std::sort(counts.begin(), counts.end());
  return counts[counts.size() * 2 / 5];
}

/// Is it all that ptxas made of a PTX instruction, once in each copy of its block? Plain loads and stores, atomics of global memory, products and sums of floats, the
/// larger or smaller of two.
static bool is_one_for_one(const MachineInstruction& m) {
  using isa::Op;
  switch (m.op) {
    case Op::atom: case Op::red: return m.kind == Class::atomic;
    case Op::min: case Op::max: return m.i.opcode == kFloatExtreme || m.i.opcode == kWholeExtreme;
    case Op::ld: case Op::st: return eventful(m.kind) && m.width == m.asked;
    case Op::fma: return m.kind == Class::fma || m.kind == Class::fp64;
    case Op::add: case Op::mul: return m.floating && (m.kind == Class::fma || m.kind == Class::fp64);
    default: return false;
  }
}

void Join::find_homes() {
  homes_of_blocks_.assign(blocks_.size(), {UINT32_MAX, 1});
  using Pair = std::pair<uint32_t, uint16_t>;  // PTX instruction and what it became
  const auto form_of = [](const MachineInstruction& m) {  // opcode; of sums of 64 bits the upper half is another (.X, LEA.HI)
    if (eventful(m.kind)) return m.i.opcode;  // whose width lies there
    return uint16_t(m.i.opcode | (m.i.hi >> 10 & 1) << 12 | (m.i.opcode == 0x011 ? m.i.hi >> 16 & 1 : 0) << 13);
  };
  struct Member {
    std::set<Pair> pairs;
    uint32_t unroll = 1;
    std::pair<uint32_t, uint32_t> range;
    bool loops = false;
  };
  std::map<uint32_t, std::vector<Member>> members;
  for (size_t b = 0; b < blocks_.size(); b++) {
    if (!reached_[b]) continue;
    const auto [first, last] = blocks_[b];
    std::map<uint32_t, int> weight;
    for (uint32_t i = first; i < last; i++) {
      if (code_[i].pc == UINT32_MAX || code_[i].kind == Class::nop) continue;
      weight[first_of(code_[i].pc)] += eventful(code_[i].kind) || code_[i].kind == Class::branch ? 3 : 1;
    }
    if (weight.empty()) continue;
    const uint32_t home = std::max_element(weight.begin(), weight.end(), [](auto& a, auto& c) { return a.second < c.second; })->first;
    Member m;
    m.range = blocks_[b];
    std::map<Pair, uint32_t> count;
    std::set<Pair> joined;  // wider loads, each of words of one turn or of several: there are at least as many copies
    std::set<Pair> simple, writes;  // one machine instruction for one of PTX; those of them that write memory
    std::set<Pair> halves;  // two
    for (uint32_t i = first; i < last; i++) {
      const bool plain = is_one_for_one(code_[i]);
      if (plain && first_of(code_[i].pc) == home) simple.insert({code_[i].pc, form_of(code_[i])});
      const isa::Op op = code_[i].op;
      if (plain && (op == isa::Op::st || op == isa::Op::atom || op == isa::Op::red)) writes.insert({code_[i].pc, form_of(code_[i])});
      if (code_[i].in_halves && first_of(code_[i].pc) == home) halves.insert({code_[i].pc, form_of(code_[i])});
      if (code_[i].joined() && !code_[i].part && first_of(code_[i].pc) == home) joined.insert({code_[i].pc, form_of(code_[i])});
      if (first_of(code_[i].pc) == home && code_[i].kind != Class::nop) count[{code_[i].pc, form_of(code_[i])}]++;
      if (code_[i].i.target >= int32_t(first) && code_[i].i.target <= int32_t(i)) m.loops = code_[i].i.target <= int32_t(first) + 0;
    }
    std::vector<uint32_t> counts, anchors, stored;  // stored: of what is written, which no turn does for another
    uint32_t least = 1;
    for (auto& [pair, n] : count) {
      m.pairs.insert(pair), counts.push_back(halves.count(pair) ? (n + 1) / 2 : n);
      if (simple.count(pair) && !joined.count(pair)) (writes.count(pair) ? stored : anchors).push_back(n);
      if (joined.count(pair)) least = std::max(least, n);
    }
    if (!stored.empty()) anchors = stored;
    if (!anchors.empty()) {  // some may be fewer: what two turns load is loaded once, and one of several kinds may be another instruction
      std::nth_element(anchors.begin(), anchors.begin() + ptrdiff_t(anchors.size() / 2), anchors.end());
      counts = {anchors[anchors.size() / 2]};
    }
    std::set<uint32_t> distinct;
    for (const Pair& p : m.pairs) distinct.insert(p.first);
    constexpr uint32_t kMostParts = 32;  // machine instructions of one kind that one of PTX becomes: more are copies
    if (!counts.empty() && (distinct.size() >= 2 || !anchors.empty())) m.unroll = std::max(copies_of(counts), anchors.empty() ? least : 1);
    if (!counts.empty())
      if (const uint32_t most = *std::max_element(counts.begin(), counts.end()); most > kMostParts * m.unroll) m.unroll = most;
    const int32_t back = code_[last - 1].i.target;
    m.loops = back >= 0 && back <= int32_t(first);
    homes_of_blocks_[b] = {home, m.unroll};
    members[home].push_back(std::move(m));
  }
  for (auto& [first_pc, list] : members) {
    Home home;
    home.first_pc = first_pc;
    std::set<Pair> seen;
    for (Member& m : list) {
      size_t shared = 0;
      std::set<uint32_t> lines;
      for (const Pair& p : m.pairs) shared += seen.count(p), lines.insert(p.first);
      const bool copy = lines.size() >= 2 && shared * 10 > m.pairs.size() * 6;  // not the parts of one long instruction
      if (home.versions.empty() || copy) home.versions.emplace_back(), seen.clear();
      Version& v = home.versions.back();
      v.ranges.push_back(m.range);
      v.unroll = std::max(v.unroll, m.unroll);
      v.loops |= m.loops;
      seen.insert(m.pairs.begin(), m.pairs.end());
    }
    homes_.push_back({first_pc, std::move(home)});
  }
}

const Join::Home* Join::home_of(uint32_t first_pc) const {
  const auto found = std::lower_bound(homes_.begin(), homes_.end(), first_pc, [](const auto& a, uint32_t pc) { return a.first < pc; });
  return found != homes_.end() && found->first == first_pc ? &found->second : nullptr;
}

/// Loops of one block that ptxas makes of atomics that shared memory does not have, additions of floats. A warp's steps hold one turn; how
/// many there are depends on what other warps do meanwhile (Sm::State::swap).
void Join::find_swaps() {
  for (const auto& [first, last] : blocks_) {
    if (code_[last - 1].i.opcode != kBranch || code_[last - 1].i.target != int32_t(first)) continue;
    const auto of_atomic = [&](Class c) {
      return std::any_of(code_.begin() + first, code_.begin() + last, [&](const MachineInstruction& m) { return m.kind == c && (m.op == isa::Op::atom || m.op == isa::Op::red); });
    };
    if (!of_atomic(Class::shared_load) || !of_atomic(Class::shared_atomic)) continue;
    for (uint32_t i = first; i < last; i++) code_[i].swaps = code_[i].kind == Class::shared_load || code_[i].kind == Class::shared_atomic || i + 1 == last;
  }
}

Join::Cursor::Cursor(const Join& join, const std::vector<Event>& warp) : events(warp), first(join.block_first_.size() + 1, 0), next(join.block_first_.size(), 0), latest(next.size(), UINT32_MAX) {
  std::vector<uint32_t> places;
  places.reserve(events.size());
  uint32_t pc = kNowhere, place = kNowhere;
  for (size_t i = 0; i < events.size(); i++) {
    const Event& e = events[i];
    if (e.what == What::enter) {
      // Back from a function in the middle of a block, which goes on: not entered again.
      const bool back = !enters.empty() && events[enters.back()].pc >> 24 != e.pc >> 24 && e.count != (e.pc & 0xFFFFFF);
      if (!back) enters.push_back(i);
    }
    if (e.what != What::enter && e.pc != pc) pc = e.pc, place = join.place_of(pc);
    places.push_back(e.what == What::enter ? kNowhere : place);
    if (places.back() != kNowhere) first[places.back() + 1]++;
  }
  for (size_t i = 1; i < first.size(); i++) first[i] += first[i - 1];
  positions.resize(first.back());
  std::vector<uint32_t> at(first.begin(), first.end() - 1);
  for (size_t i = 0; i < events.size(); i++)
    if (places[i] != kNowhere) positions[at[places[i]]++] = uint32_t(i);
}

/// Does no wait for an mbarrier lie behind what the warp did at one later? A way through the machine code of which that is so took a turn of a loop before its time,
/// and other warps would wait for it for ever.
static bool waits_in_order(const std::vector<Step>& steps, const std::vector<Event>& events) {
  uint32_t latest = 0;
  for (const Step& s : steps) {
    if (s.event >= events.size()) continue;
    const What what = events[s.event].what;
    if (what != What::mbarrier_wait && what != What::mbarrier_arrive) continue;
    if (what == What::mbarrier_wait && s.event < latest) return false;
    latest = std::max(latest, s.event);
  }
  return true;
}

std::vector<Step> Join::steps(const TracedWarp& warp, JoinStatistics& statistics) const {
  if (!stand_in_.empty()) return replay(warp, statistics);
  Cursor c(*this, warp.events);
  const JoinStatistics before = statistics;
  std::vector<Step> out;
  out.reserve(warp.events.size() * 4);
  if (walk(warp, c, out, statistics) && waits_in_order(out, warp.events)) {
    statistics.walked++;
  } else {
    statistics = before;
    statistics.by_entries++;
    out.clear();
    std::fill(c.next.begin(), c.next.end(), 0), c.put_off.clear(), c.waiting.clear();
    out = by_entries(warp, c, statistics);
  }
  some_leave(out);
  statistics.steps = out.size();
  return out;
}

}  // namespace orrery::timing
