// timing/sm.cc: see sm.h; when which warp issues what.
#include "timing/sm_state.h"

namespace orrery::timing {

namespace {

constexpr bool uses_memory_queue(Class c) {
  switch (c) {
    case Class::load: case Class::store: case Class::atomic: case Class::shared_load: case Class::shared_store: case Class::shared_atomic:
    case Class::local_load: case Class::local_store: case Class::copy_async: case Class::matrix_load: case Class::shuffle: case Class::texture:
    case Class::tensor_copy: case Class::bulk_copy: case Class::mbarrier:
      return true;
    default: return false;
  }
}

}  // namespace

Sm::Sm(const ChipFigures& figures, const Kernel& kernel, Chip& chip, uint32_t number, uint32_t slots)
    : s_(std::make_unique<State>(figures, kernel, chip, number, slots)) {}
Sm::~Sm() = default;
const SmCounts& Sm::counts() const { return s_->counts; }

void Sm::note_in(Record* record) {
  s_->record = record;
  record->waits.assign(s_->code.size(), {});
  record->issues.assign(s_->code.size(), 0);
}

uint32_t Sm::free_slots() const {
  uint32_t n = 0;
  for (const Slot& s : s_->slots) n += !s.used;
  return n;
}

bool Sm::idle() const { return free_slots() == s_->slots.size(); }

std::vector<std::pair<uint64_t, double>> Sm::take_finished() { return std::exchange(s_->finished, {}); }

void Sm::start(const BlockWork& work, double now) {
  State& s = *s_;
  uint32_t index = 0;
  while (s.slots[index].used) index++;
  Slot& slot = s.slots[index];
  Slot fresh;  // with the memory of the block before
  fresh.moves = std::move(slot.moves), fresh.places = std::move(slot.places);
  s.fresh_warps = uint32_t(work.code->warps.size());
  s.begin_apart(fresh, slot, now);
  for (Slot::Moves& m : fresh.moves) m.known = false;
  fresh.places.clear();
  slot = std::move(fresh);
  s.ghost_event = nullptr;
  slot.used = true;
  slot.work = work;
  if (s.first_block == ~uint64_t{0}) s.first_block = work.index;
  if (s.kernel.relay) s.kernel.relay->begin(work.index);
  slot.warps = slot.live_warps = uint32_t(work.code->warps.size());
  for (uint32_t i = 0; i < slot.warps; i++) {
    uint32_t w;
    if (s.free_warps.empty()) w = uint32_t(s.warps.size()), s.warps.emplace_back(), s.fronts.emplace_back();
    else w = s.free_warps.back(), s.free_warps.pop_back();
    WarpRun& r = s.warps[w];
    r = WarpRun{};
    r.steps = work.code->warps[i].get();
    r.trace = &work.code->trace->warps[i];
    r.slot = index;
    r.place = i;
    uint32_t fewest = i % 4;
    if (slot.warps < 4)
      for (uint32_t k = 0; k < 4; k++)
        if (s.active[k].size() < s.active[fewest].size()) fewest = k;
    r.sub = fewest;
    r.live = true;
    r.age = ++s.ages;
    r.turn = (s.ages - i) << kOwnTurn | (kFirstTurns - 1 - i);
    s.fronts[w] = Front{.turn = r.turn, .sub = uint8_t(r.sub)};
    r.ready = now + i;  // warps are set up one after the other
    s.active[r.sub].push_back(w);
    slot.members.push_back(w);
    if (r.steps->empty()) s.end_warp(w, now);
    else s.refresh(r);
  }
}

void Sm::State::refresh(WarpRun& w) {
  sub[w.sub].wakes = 0;
  Front& front = fronts[number_of(w)];
  if (!w.live || w.blocked) {
    front.earliest = kNever;
    return;
  }
  const uint32_t next = (*w.steps)[w.at].instruction;
  const MachineInstruction& m = code[next];
  double t = std::max(w.ready, fetched.arrives(next, w.ready));
  if (w.why != Wait::barrier && w.why != Wait::mbarrier) w.why = Wait::fixed;
  bool for_result = false;
  const auto wait_until = [&](double when, Wait why, bool result = true) {
    for_result |= result && when > w.ready;
    if (when > t) t = when, w.why = why;
  };
  for (uint32_t b = 0; b < 6; b++)
    if (m.i.wait_mask >> b & 1) wait_until(w.barrier[b], w.set_by[b], w.results >> b & 1);
  if (m.kind == Class::depbar || m.kind == Class::warpgroup) {
    const auto wait_for = [&](const std::vector<double>& groups, Wait why) {
      if (groups.size() > m.n) wait_until(groups[groups.size() - 1 - m.n], why);
    };
    if (m.op == isa::Op::cp_async_wait_group) wait_for(w.copy_groups, Wait::copies);
    else if (m.op == isa::Op::cp_async_wait_all) wait_until(w.copies_done, Wait::copies);
    else if (m.op == isa::Op::cp_async_bulk_wait_group) wait_for(w.bulk_groups, Wait::copies);
    else if (m.op == isa::Op::wgmma_wait_group) wait_for(w.product_groups, Wait::tensor);
  }
  if (for_result) {
    constexpr uint64_t kOwn = (uint64_t{1} << kOwnTurn) - 1;
    w.turn = (w.turn & ~kOwn) | (kFirstTurns + ++sub[w.sub].waited);  // behind all of its block
    if (!w.put_off) front.turn = w.turn;
  }
  front.earliest = t, front.kind = m.kind, front.reads_uniform = m.reads_uniform;
}

uint32_t Sm::State::read_registers(SubCore& p, const MachineInstruction& m, uint32_t warp, double now) {
  const bool beside = p.products > now && (m.kind == Class::fma || m.kind == Class::half || m.kind == Class::half_mma);
  const double takes = !beside ? 1 : p.takes_registers ? kReadBesideRegisters : kReadBeside;
  uint32_t words = 0;
  for (int slot = 0; slot < 3; slot++) {
    const uint8_t r = m.source[slot];
    if (r == 255 || (slot > 0 && r == m.source[slot - 1]) || (slot > 1 && r == m.source[0])) continue;  // read once
    const uint64_t key = uint64_t{warp} << 8 | r;
    uint64_t& held = p.kept[slot][r & 1];
    const bool kept = held == key;
    held = m.reuse >> slot & 1 ? key : ~0ull;
    if (kept) continue;
    words += m.wide ? 2 : 1;
    for (int bank = 0; bank < 2; bank++)
      if (m.wide || (r & 1) == bank) p.bank[bank] = std::max(p.bank[bank], now) + takes;
  }
  return words;
}

double Sm::State::room(const SubCore& p, Class c) const {
  const double ports = std::max(p.bank[0], p.bank[1]) - 2;
  return std::max(ports, pipe_room(p, c));
}

double Sm::State::pipe_room(const SubCore& p, Class c) const {
  switch (c) {
    case Class::fma: return std::max(p.write - kWriteQueue, std::min(p.fma_heavy, p.fma_lite));
    case Class::imad: case Class::imad_wide: return std::max(p.write - kWriteQueue, p.fma_heavy);
    case Class::half: return std::max(p.fma_heavy, p.fma_lite);
    case Class::half_mma: return p.half;
    case Class::fp64: return p.fp64;
    case Class::xu: return p.xu - 8;
    case Class::uniform: case Class::uniform_move: return p.uniform;
    case Class::hmma: case Class::imma: case Class::dmma: return p.tensor;
    case Class::wgmma: return p.products_waiting.size() + p.product_ends.size() < kProductQueue ? 0 : p.product_ends.empty() ? p.tensor : p.product_ends.front();
    case Class::alu: case Class::vote: return p.alu;
    case Class::matrix_move: return p.mover;
    case Class::match: return match;
    default: return uses_memory_queue(c) ? p.queue - kQueue : 0;
  }
}

/// Does `a` go before `b`? Of two that multiply the one with fewer products in the queue, else the one whose block began first, of one block
/// the one that last had to wait for a result before the other did [order.cu: 16 blocks end one after the other; divided_copy0 to 8: -7 to 0%, with the
/// youngest first -5 to +16%; pace.cu: warps of a block end within 5% of each other where they load, by turns; product_held_a/2048: what they share comes
/// from L2 once, three times where the last of a block always goes first].
inline bool Sm::State::before(const Front& a, const Front& b) {
  const bool products = a.kind == Class::wgmma && b.kind == Class::wgmma;
  return products && a.products_waiting != b.products_waiting ? a.products_waiting < b.products_waiting : a.turn < b.turn;
}

/// The largest whole number up to `x`, which is finite: without a call, which the compiler makes of std::floor.
inline double whole_of(double x) {
  const double near = double(int64_t(x));
  return near > x ? near - 1 : near;
}

/// The warp of a sub-core that issues at `now`, or none: then `wakes` becomes when one may.
[[gnu::always_inline]] inline uint32_t Sm::State::choose(uint32_t sc, double now) {
  SubCore& p = sub[sc];
  const Front* const all = fronts.data();
  // A pipe that frees within the cycle takes the instruction: intervals need not be whole cycles.
  Class asked = Class::count;
  double free = 0;  // when the pipe is that was asked for last
  const auto frees = [&](const Front& r) {
    if (r.kind != asked) asked = r.kind, free = whole_of(room(p, r.kind));
    return r.reads_uniform ? std::max(free, whole_of(p.uniform)) : free;
  };
  if (const uint32_t w = last[sc]; w != UINT32_MAX) {
    const Front& r = all[w];
    if (r.earliest <= now && r.sub == sc && r.kind != Class::wgmma && frees(r) <= now) return w;
  }
  uint32_t best = UINT32_MAX;
  double ready = kNever, soonest = kNever;
  bool nearly = false;  // does one that is not put off wait for its pipe alone, and shortly?
  for (uint32_t w : active[sc]) {
    const Front& r = all[w];
    if (r.earliest > now) {
      ready = std::min(ready, r.earliest);
      continue;
    }
    if (const double when = frees(r); when > now) {
      soonest = std::min(soonest, when), nearly |= r.turn < kPutOff && when <= now + 2;
      continue;
    }
    if (best == UINT32_MAX || before(r, all[best])) best = w;
  }
  if (nearly && best != UINT32_MAX && all[best].turn >= kPutOff) best = UINT32_MAX;
  p.wakes = best == UINT32_MAX ? std::min(soonest, std::ceil(ready)) : 0;
  return best;
}

double Sm::step(double now) {
  State& s = *s_;
  double next = kNever;
  for (uint32_t sc = 0; sc < 4; sc++) {
    State::SubCore& p = s.sub[sc];
    next = std::min(next, s.begin_products(p, now));
    if (p.issue > now) {
      if (!s.active[sc].empty()) next = std::min(next, p.issue);
      continue;
    }
    const uint32_t best = p.wakes > now ? UINT32_MAX : s.choose(sc, now);
    if (best != UINT32_MAX) {
      s.issue(best, now);
      s.last[sc] = best;
      next = std::min(next, now + 1);
    } else {
      next = std::min(next, p.wakes);
    }
  }
  return next;
}

/// Counts instructions in units for which warps queue.
[[gnu::always_inline]] inline void note_unit(Slot& slot, Class kind) {
  constexpr uint64_t kShared = uint64_t{1} << int(Class::shared_load) | uint64_t{1} << int(Class::matrix_load) | uint64_t{1} << int(Class::hmma) | uint64_t{1} << int(Class::imma);
  constexpr uint64_t kUnits = kShared | uint64_t{1} << int(Class::xu) | uint64_t{1} << int(Class::fp64) | uint64_t{1} << int(Class::dmma);
  slot.units += uint32_t(kUnits >> int(kind) & 1), slot.shared_units += uint32_t(kShared >> int(kind) & 1);
}

/// Does the warp take a branch among the next instructions, which are there? Who lets others go first so shortly before, and has gone on alone since the last
/// one, goes on when all of these have done the same, so that all go round in turn [yields.cu: b1 to b4 of loop32, 141 to 146 cycles a turn of each of
/// four warps; where it lets them go earlier, twice, or not at all, the first two take 71 and the others wait].
bool Sm::State::branches_soon(const WarpRun& w) const {
  const std::vector<Step>& steps = *w.steps;
  for (size_t at = w.at; at + 1 < steps.size() && at < w.at + kFetchedAhead; at++)
    if (code[steps[at].instruction].i.opcode == kBranch && steps[at + 1].instruction != steps[at].instruction + 1) return true;
  return false;
}

void Sm::State::issue(uint32_t index, double now) {
  WarpRun& w = warps[index];
  sub[w.sub].wakes = 0;
  const Step s = (*w.steps)[w.at];
  const MachineInstruction& m = code[s.instruction];
  counts.issued++;
  if (std::exchange(w.put_off, false)) fronts[index].turn = w.turn;
  counts.thread_instructions += s.lanes;
  counts.by_class[size_t(m.kind)]++;
  note_unit(slots[w.slot], m.kind);
  counts.lanes_by_class[size_t(m.kind)] += s.lanes;
  if (record) note(w, index, s.instruction, now);
  if (m.reads_clock && slots[w.slot].work.index == first_block && counts.clock_reads.size() < kClockReads) counts.clock_reads.push_back({w.place, now});
  if (w.why == Wait::copies) note_stall(slots[w.slot], fronts[index].earliest - w.issued);
  w.queued += std::max(0.0, now - std::max(fronts[index].earliest, w.issued + 1));
  const bool pauses = fronts[index].earliest > w.issued + 1;
  w.issued = now;
  w.why = Wait::fixed;
  const double stall = std::max<uint32_t>(1, m.i.stall);
  const double changed = double(m.change) * s.lanes;
  counts.changed_lanes[size_t(m.kind)] += changed;
  if (m.source[0] != 255) counts.changed_reads[size_t(m.kind)] += changed * read_registers(sub[w.sub], m, index, now);
  w.ready = now + stall;
  w.at++;
  if (m.kind == Class::imad_wide) w.ready += kWideProduct;
  const bool taken = m.i.opcode == kBranch && w.at < w.steps->size() && (*w.steps)[w.at].instruction != s.instruction + 1;
  if (last[w.sub] != index && pauses) w.parted = w.since_branch > 0;
  w.since_branch++;
  if (m.i.yields) {
    w.ready = std::max(w.ready, now + 2);
    if (!w.parted && branches_soon(w)) w.put_off = true, fronts[index].turn = kPutOff + ++puts_off;
  }
  if (taken) w.ready = std::max(w.ready, now + kTakenBranch), w.since_branch = 0, w.parted = false;
  if (m.swaps && m.i.opcode == kBranch && !taken && !w.swaps_left.empty()) {  // another turn, which the trace does not tell of
    w.at -= s.instruction + 1 - uint32_t(m.i.target), w.ready = std::max(w.ready, now + kTakenBranch);
  }
  if ((m.op == isa::Op::call && (m.i.opcode == 0x144 || m.i.calls_register())) || (m.op == isa::Op::ret && m.i.opcode == 0x150)) {
    const bool any = m.op == isa::Op::call && m.i.calls_register();
    w.ready = std::max(w.ready, now + (any ? kCallAny : kCall)), sub[w.sub].issue = now + (any ? kCallAnyIssue : kCallIssue);
  }
  if (m.i.opcode == 0x145) w.parted_from = uint8_t(s.lanes);  // BSSY
  if (m.i.opcode == 0x141 && s.lanes < w.parted_from) {       // BSYNC, which each part of the lanes executes
    w.ready += kMeet, sub[w.sub].issue = now + 2;
    counts.issued++;
  }
  execute(w, m, s, now);
  if (m.kind == Class::exit && !m.i.guarded && !s.off) w.at = uint32_t(w.steps->size());
  if (w.at >= w.steps->size()) {
    if (!w.blocked) end_warp(index, now);
    else w.at = uint32_t(w.steps->size()) - 1;  // cannot happen: a warp does not end in a wait
    return;
  }
  refresh(w);
}

/// Notes how long the warp that issues now has waited since it last issued, and for what.
void Sm::State::note(const WarpRun& w, uint32_t index, uint32_t instruction, double now) {
  record->issues[instruction]++;
  if (w.issued < 0) return;
  auto& waits = record->waits[instruction];
  const double free = std::clamp(fronts[index].earliest, w.issued + 1, now);
  waits[size_t(w.why)] += free - w.issued - 1;
  waits[size_t(Wait::busy)] += now - free;
  if (now - w.issued > 4 && record->warps.size() < Record::kSpans) record->warps.push_back({w.issued + 1, now, index, free - w.issued >= now - free ? w.why : Wait::busy});
}

void Sm::State::end_warp(uint32_t index, double now) {
  WarpRun& w = warps[index];
  w.live = false;
  fronts[index].earliest = kNever;
  auto& list = active[w.sub];
  list.erase(std::find(list.begin(), list.end(), index));
  Slot& slot = slots[w.slot];
  slot.live_warps--;
  free_warps.push_back(index);
  slot.members.erase(std::find(slot.members.begin(), slot.members.end(), index));
  if (slot.live_warps == 0) {
    meet(slot, w);
    if (kernel.traces) finish_ghosts(slot, now);
    slot.used = false;
    counts.slices = slices.touched();
    if (kernel.relay) kernel.relay->end(slot.work.index, now);
    finished.push_back({slot.work.index, now});
    return;
  }
  for (NamedBarrier& b : slot.barriers)
    if (!b.waiting.empty() && b.arrived >= slot.live_warps) complete(b, now + 8);
  if (!slot.cluster.waiting.empty() && slot.cluster.waiting.size() >= slot.live_warps) complete(slot.cluster, now + kClusterBarrier + wait_for_last(slot));
}

}  // namespace orrery::timing
