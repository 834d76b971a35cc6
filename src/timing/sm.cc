// timing/sm.cc: see sm.h.
#include "timing/sm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace orrery::timing {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kQueue = 24;        // cycles of work that a memory queue of a sub-core holds before issue stops
constexpr double kTakenBranch = 6;   // beyond its stall count [short_loop/4: 29.5 cycles a turn]
constexpr double kCountLanes = 4.25;   // wavefronts of a shared atomic that adds the number of lanes [shared_add: any addresses]
constexpr double kOutstanding = 1200;  // cycles of traffic that may be queued towards L2

struct Mbarrier {
  int64_t pending = 0, expected = 0, bytes = 0;
  uint32_t phase = 0;
  double when = 0;                   // of the last completion
  std::vector<std::pair<double, int64_t>> arriving;  // transaction bytes on their way
};

struct NamedBarrier {
  uint32_t arrived = 0;
  double last = 0;
  std::vector<uint32_t> waiting;     // warps
};

struct WarpRun {
  const std::vector<Step>* steps = nullptr;
  const TracedWarp* trace = nullptr;
  uint32_t at = 0;
  uint32_t slot = 0;
  uint32_t sub = 0;
  double ready = 0;                  // stall counts
  double earliest = kNever;          // with dependences
  std::array<double, 6> barrier{};   // when each dependence barrier frees
  bool live = false, blocked = false;
  double copies_done = 0, group_done = 0;
  std::deque<double> copy_groups, bulk_groups, product_groups;
  double products_done = 0;
  uint32_t waits_object = UINT32_MAX, waits_phase = 0;
  uint64_t age = 0;
};

struct Slot {
  bool used = false;
  BlockWork work;
  uint32_t live_warps = 0, warps = 0, threads = 0;
  std::vector<uint32_t> members;
  std::array<NamedBarrier, 16> barriers;
  NamedBarrier cluster;
  std::unordered_map<uint32_t, Mbarrier> mbarriers;
};

/// The L1 of an SM: lines of four sectors, least recently used.
class L1 {
 public:
  explicit L1(uint64_t bytes) : sets_(std::max<uint64_t>(1, bytes / 128 / kWays)), ways_(sets_ * kWays) {}
  struct Way {
    uint64_t tag = ~uint64_t{0};
    uint64_t used = 0;
    uint8_t valid = 0;
    double arrives = 0;
  };
  Way& find(uint64_t line, bool& hit) {
    Way* set = &ways_[(line * 0x9E3779B97F4A7C15ull >> 40) % sets_ * kWays];
    Way* oldest = set;
    for (uint32_t i = 0; i < kWays; i++) {
      if (set[i].tag == line) return hit = true, set[i].used = ++clock_, set[i];
      if (set[i].used < oldest->used) oldest = &set[i];
    }
    hit = false;
    *oldest = Way{line, ++clock_, 0, 0};
    return *oldest;
  }
  Way* peek(uint64_t line) {
    Way* set = &ways_[(line * 0x9E3779B97F4A7C15ull >> 40) % sets_ * kWays];
    for (uint32_t i = 0; i < kWays; i++)
      if (set[i].tag == line) return &set[i];
    return nullptr;
  }

 private:
  static constexpr uint32_t kWays = 8;
  uint64_t sets_, clock_ = 0;
  std::vector<Way> ways_;
};

constexpr bool uses_memory_queue(Class c) {
  switch (c) {
    case Class::load: case Class::store: case Class::atomic: case Class::shared_load: case Class::shared_store: case Class::shared_atomic:
    case Class::local_load: case Class::local_store: case Class::copy_async: case Class::matrix_load: case Class::shuffle: case Class::texture:
    case Class::tensor_copy: case Class::bulk_copy: case Class::mbarrier:
      return true;
    default: return false;
  }
}

/// Does a warp wait for what comes back?
constexpr bool goes_out(What w) {
  switch (w) {
    case What::global_load: case What::global_atomic: case What::local_load: case What::copy_async: case What::bulk_load: case What::bulk_prefetch:
      return true;
    default: return false;
  }
}

}  // namespace

struct Sm::State {
  State(const ChipFigures& f, const Kernel& k, Chip& c, uint32_t n, uint32_t slots)
      : f(f), kernel(k), code(k.join->instructions()), chip(c), number(n), slots(slots), l1(std::max<uint32_t>(8192, k.l1_bytes)) {
    random += uint64_t{n} * 0x9E3779B97F4A7C15ull;
  }
  const ChipFigures& f;
  const Kernel& kernel;
  const std::vector<MachineInstruction>& code;
  Chip& chip;
  const uint32_t number;
  std::vector<Slot> slots;
  std::vector<WarpRun> warps;
  std::array<std::vector<uint32_t>, 4> active;   // warps of each sub-core
  std::array<uint32_t, 4> last{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  std::vector<uint32_t> free_warps;
  std::vector<std::pair<uint64_t, double>> finished;
  L1 l1;
  SmCounts counts;
  uint64_t ages = 0;
  // Resources: the time at which each is free.
  struct SubCore {
    double bank[2] = {0, 0};                    // read ports of the register file
    uint64_t kept[3] = {~0ull, ~0ull, ~0ull};  // operand cache: warp << 8 | register, by slot
    double alu = 0, fma_heavy = 0, fma_lite = 0, half = 0, fp64 = 0, xu = 0, uniform = 0, queue = 0, tensor = 0, imad = 0;
  };
  std::array<SubCore, 4> sub;
  double translated = -1;   // when addresses are
  double pipe = 0;          // L1 and shared memory: one wavefront a cycle
  double request = 0, write_port = 0, tma = 0, barrier_unit = 0, dsmem = 0, match = 0;
  uint64_t random = 0x2545F4914F6CDD1Dull;

  double room(const SubCore& p, Class c) const;
  double pipe_room(const SubCore& p, Class c) const;
  void read_registers(SubCore& p, const MachineInstruction& m, uint32_t warp, double now);
  void refresh(WarpRun& w);
  void issue(uint32_t index, double now);
  void execute(WarpRun& w, const MachineInstruction& m, const Step& s, double now);
  void memory(WarpRun& w, const MachineInstruction& m, const Step& s, const Event* e, double start);
  double global_read(WarpRun& w, const Event& e, const MachineInstruction& m, double at);
  void global_write(WarpRun& w, const Event& e, double at);
  double run_copy(WarpRun& w, const Event& e, double at, bool store);
  template <class F>
  void copies_of_ghosts(const WarpRun& w, const Event& e, uint64_t line, F f);
  void synchronise(WarpRun& w, uint32_t index, const MachineInstruction& m, const Event* e, double start);
  void arrive(Slot& slot, uint32_t number, uint32_t expected, double when);
  void complete(Slot& slot, NamedBarrier& b, double when);
  void settle(Slot& slot, uint32_t object, double when);
  void wake_waiters(Slot& slot, uint32_t object, const Mbarrier& b, double when);
  void end_warp(uint32_t index, double now);
  void set_barriers(WarpRun& w, const MachineInstruction& m, double result, double operands);
  uint64_t moved(const BlockWork& b, uint32_t pc, uint64_t line, uint64_t mask, uint64_t& second) const;
  template <class F>
  void for_ghosts(const WarpRun& w, uint32_t pc, uint64_t packed, F f);
};

Sm::Sm(const ChipFigures& figures, const Kernel& kernel, Chip& chip, uint32_t number, uint32_t slots)
    : s_(std::make_unique<State>(figures, kernel, chip, number, slots)) {}
Sm::~Sm() = default;
const SmCounts& Sm::counts() const { return s_->counts; }

uint32_t Sm::free_slots() const {
  uint32_t n = 0;
  for (const Slot& s : s_->slots) n += !s.used;
  return n;
}

bool Sm::idle() const { return free_slots() == s_->slots.size(); }

std::vector<std::pair<uint64_t, double>> Sm::take_finished() { return std::exchange(s_->finished, {}); }

bool Sm::stuck() const {
  if (idle()) return false;
  for (const auto& list : s_->active)
    for (uint32_t w : list)
      if (s_->warps[w].live && !s_->warps[w].blocked) return false;
  return true;
}

void Sm::start(const BlockWork& work, double now) {
  State& s = *s_;
  uint32_t index = 0;
  while (s.slots[index].used) index++;
  Slot& slot = s.slots[index];
  slot = Slot{};
  slot.used = true;
  slot.work = work;
  slot.warps = slot.live_warps = uint32_t(work.code->warps.size());
  for (uint32_t i = 0; i < slot.warps; i++) {
    uint32_t w;
    if (s.free_warps.empty()) w = uint32_t(s.warps.size()), s.warps.emplace_back();
    else w = s.free_warps.back(), s.free_warps.pop_back();
    WarpRun& r = s.warps[w];
    r = WarpRun{};
    r.steps = &work.code->warps[i];
    r.trace = &work.code->trace->warps[i];
    r.slot = index;
    uint32_t fewest = i % 4;
    if (slot.warps < 4)
      for (uint32_t k = 0; k < 4; k++)
        if (s.active[k].size() < s.active[fewest].size()) fewest = k;
    r.sub = fewest;
    r.live = true;
    r.age = ++s.ages;
    r.ready = now + i;  // warps are set up one after the other
    s.active[r.sub].push_back(w);
    slot.members.push_back(w);
    if (r.steps->empty()) s.end_warp(w, now);
    else s.refresh(r);
  }
}

void Sm::State::refresh(WarpRun& w) {
  if (!w.live || w.blocked) {
    w.earliest = kNever;
    return;
  }
  const MachineInstruction& m = code[(*w.steps)[w.at].instruction];
  double t = w.ready;
  for (uint32_t b = 0; b < 6; b++)
    if (m.i.wait_mask >> b & 1) t = std::max(t, w.barrier[b]);
  if (m.kind == Class::depbar || m.kind == Class::warpgroup) {
    const auto wait_for = [&](const std::deque<double>& groups) {
      if (groups.size() > m.n) t = std::max(t, groups[groups.size() - 1 - m.n]);
    };
    if (m.op == isa::Op::cp_async_wait_group) wait_for(w.copy_groups);
    else if (m.op == isa::Op::cp_async_wait_all) t = std::max(t, w.copies_done);
    else if (m.op == isa::Op::cp_async_bulk_wait_group) wait_for(w.bulk_groups);
    else if (m.op == isa::Op::wgmma_wait_group) wait_for(w.product_groups);
  }
  w.earliest = t;
}

void Sm::State::read_registers(SubCore& p, const MachineInstruction& m, uint32_t warp, double now) {
  for (int slot = 0; slot < 3; slot++) {
    const uint8_t r = m.source[slot];
    if (r == 255 || (slot > 0 && r == m.source[slot - 1]) || (slot > 1 && r == m.source[0])) continue;  // read once
    const uint64_t key = uint64_t{warp} << 8 | r;
    const bool kept = p.kept[slot] == key;
    p.kept[slot] = m.reuse >> slot & 1 ? key : ~0ull;
    if (kept) continue;
    for (int bank = 0; bank < 2; bank++)
      if (m.wide || (r & 1) == bank) p.bank[bank] = std::max(p.bank[bank], now) + 1;
  }
}

double Sm::State::room(const SubCore& p, Class c) const {
  const double ports = std::max(p.bank[0], p.bank[1]) - 2;
  return std::max(ports, pipe_room(p, c));
}

double Sm::State::pipe_room(const SubCore& p, Class c) const {
  switch (c) {
    case Class::fma: return std::min(p.fma_heavy, p.fma_lite);
    case Class::imad: case Class::imad_wide: return p.fma_heavy;
    case Class::half: return p.half;
    case Class::fp64: return p.fp64;
    case Class::xu: return p.xu - 8;
    case Class::uniform: case Class::uniform_move: return p.uniform;
    case Class::hmma: case Class::imma: case Class::dmma: return p.tensor;
    case Class::wgmma: return p.tensor - 256;
    case Class::alu: case Class::vote: return p.alu;
    case Class::redux: return p.xu;
    case Class::match: return match;
    default: return uses_memory_queue(c) ? p.queue - kQueue : 0;
  }
}

double Sm::step(double now) {
  State& s = *s_;
  double next = kNever;
  for (uint32_t sc = 0; sc < 4; sc++) {
    uint32_t best = UINT32_MAX;
    double soonest = kNever;
    for (uint32_t w : s.active[sc]) {
      const WarpRun& r = s.warps[w];
      if (r.earliest > now) {
        soonest = std::min(soonest, std::ceil(r.earliest));
        continue;
      }
      // A pipe that frees within the cycle takes the instruction: intervals need not be whole cycles.
      const double free = std::floor(s.room(s.sub[sc], s.code[(*r.steps)[r.at].instruction].kind));
      if (free > now) {
        soonest = std::min(soonest, free);
        continue;
      }
      if (w == s.last[sc]) {
        best = w;
        break;
      }
      if (best == UINT32_MAX || r.age > s.warps[best].age) best = w;
    }
    if (best != UINT32_MAX) {
      s.last[sc] = best;
      s.issue(best, now);
      next = std::min(next, now + 1);
    } else {
      next = std::min(next, soonest);
    }
  }
  return next;
}

void Sm::State::issue(uint32_t index, double now) {
  WarpRun& w = warps[index];
  const Step s = (*w.steps)[w.at];
  const MachineInstruction& m = code[s.instruction];
  counts.issued++;
  counts.thread_instructions += s.lanes;
  counts.by_class[size_t(m.kind)]++;
  counts.lanes_by_class[size_t(m.kind)] += s.lanes;
  const double stall = std::max<uint32_t>(1, m.i.stall);
  if (m.source[0] != 255) read_registers(sub[w.sub], m, index, now);
  w.ready = now + stall;
  w.at++;
  const bool taken = m.i.opcode == 0x147 && w.at < w.steps->size() && (*w.steps)[w.at].instruction != s.instruction + 1;
  if (taken) w.ready += kTakenBranch;
  execute(w, m, s, now);
  if (m.kind == Class::exit && !m.i.guarded) w.at = uint32_t(w.steps->size());
  if (w.at >= w.steps->size()) {
    if (!w.blocked) end_warp(index, now);
    else w.at = uint32_t(w.steps->size()) - 1;  // cannot happen: a warp does not end in a wait
    return;
  }
  refresh(w);
}

void Sm::State::set_barriers(WarpRun& w, const MachineInstruction& m, double result, double operands) {
  if (m.i.write_barrier < 6) w.barrier[m.i.write_barrier] = std::max(w.barrier[m.i.write_barrier], result);
  if (m.i.read_barrier < 6) w.barrier[m.i.read_barrier] = std::max(w.barrier[m.i.read_barrier], operands);
}

void Sm::State::execute(WarpRun& w, const MachineInstruction& m, const Step& s, double now) {
  SubCore& p = sub[w.sub];
  const Event* e = s.event == UINT32_MAX ? nullptr : &w.trace->events[s.event];
  const auto hold = [&](double& unit, double cycles) {
    const double start = std::max(unit, now);
    unit = start + cycles;
    return start;
  };
  switch (m.kind) {
    case Class::alu: case Class::vote: hold(p.alu, 2); break;
    case Class::fma: hold(p.fma_lite <= p.fma_heavy ? p.fma_lite : p.fma_heavy, 2); break;
    case Class::imad: hold(p.fma_heavy, 2); break;
    case Class::imad_wide: hold(p.fma_heavy, 4); break;
    case Class::half: hold(p.half, 1); break;
    case Class::fp64: hold(p.fp64, 2); break;
    case Class::uniform: case Class::uniform_move: hold(p.uniform, 2); break;
    case Class::xu: {
      const double start = hold(p.xu, 8);
      set_barriers(w, m, start + 17, start + 8);
      break;
    }
    case Class::redux: {
      const double start = hold(p.xu, 8);
      set_barriers(w, m, start + 40, start + 8);
      break;
    }
    case Class::match: {
      const double start = hold(match, 64);
      set_barriers(w, m, start + 360, start + 64);
      break;
    }
    case Class::special_register: set_barriers(w, m, now + 20, now + 10); break;
    case Class::constant: set_barriers(w, m, now + f.constant_latency, now + 12); break;
    case Class::hmma: case Class::imma: case Class::dmma: {
      const double interval = m.kind == Class::dmma ? 16 : m.interval;
      const double start = hold(p.tensor, interval);
      counts.tensor_busy += interval;
      set_barriers(w, m, start + 34, start + 12);
      break;
    }
    case Class::wgmma: {
      const double interval = std::max<double>(m.n / 2.0, m.a_in_registers ? 13 : 16 + m.n / 4.0);
      const double start = hold(p.tensor, interval);
      counts.tensor_busy += interval;
      counts.tensor_columns += m.n;
      w.products_done = start + interval + 28;
      set_barriers(w, m, w.products_done, start + interval);
      break;
    }
    case Class::warpgroup:
      if (m.op == isa::Op::wgmma_fence) w.ready = std::max(w.ready, now + 4);
      break;
    case Class::fence:
      set_barriers(w, m, now + 30, now + 30);
      if (m.op == isa::Op::fence || m.op == isa::Op::membar) w.ready = std::max(w.ready, now + 20);
      break;
    case Class::async_group:
      if (m.op == isa::Op::cp_async_commit_group) w.copy_groups.push_back(w.copies_done);
      else w.bulk_groups.push_back(std::max(w.group_done, now));
      break;
    case Class::branch: case Class::control: case Class::exit: case Class::nop: case Class::depbar:
      set_barriers(w, m, now + 10, now + 10);
      break;
    default: {
      const double start = hold(p.queue, 4);
      if (s.off) {
        set_barriers(w, m, start + 8, start + 8);
        break;
      }
      memory(w, m, s, e, start);
    }
  }
  if (m.kind == Class::wgmma && m.closes_group) w.product_groups.push_back(w.products_done);
}

/// A line of the simulated block as another block of the grid sees it.
uint64_t Sm::State::moved(const BlockWork& b, uint32_t pc, uint64_t line, uint64_t mask, uint64_t& second) const {
  second = 0;
  const auto found = kernel.slopes.find(pc);
  if (found == kernel.slopes.end() || !found->second.regular) return line << 4 | mask;
  const Slope& k = found->second;
  const uint32_t* from = b.code->trace->ctaid;
  const int64_t delta = k.x * (b.at[0] - int64_t(from[0])) + k.y * (b.at[1] - int64_t(from[1])) + k.z * (b.at[2] - int64_t(from[2]));
  if (delta == 0) return line << 4 | mask;
  const int64_t sectors = delta >> 5;
  const uint64_t first = uint64_t(int64_t(line * 4) + sectors);
  const uint64_t wide = mask << (first & 3);
  second = wide >> 4 ? ((first >> 2) + 1) << 4 | (wide >> 4) : 0;
  return (first >> 2) << 4 | (wide & 15);
}

/// Calls f(line, sectors, SM) for the same access by every ghost.
template <class F>
void Sm::State::for_ghosts(const WarpRun& w, uint32_t pc, uint64_t packed, F f) {
  if (kernel.ghosts == 0) return;
  const BlockWork& own = slots[w.slot].work;
  const auto found = kernel.slopes.find(pc);
  const bool regular = found != kernel.slopes.end() && found->second.regular;
  const uint64_t count = kernel.grid.count();
  const LinePool* pool = nullptr;
  if (!regular)
    if (const auto p = kernel.pools.find(pc); p != kernel.pools.end() && !p->second.lines.empty()) pool = &p->second;
  BlockWork other = own;
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    other.index = own.index + uint64_t{g} * kernel.ghost_step;
    if (other.index >= count) break;
    if (pool) {
      random ^= random >> 12, random ^= random << 25, random ^= random >> 27;
      const uint64_t r = random * 2685821657736338717ull;
      const size_t pick = size_t((r >> 20) % pool->lines.size());
      const uint64_t line = pool->shared[pick] ? pool->lines[pick] >> 4 : pool->low + (r >> 11) % (pool->high - pool->low + 1);
      f(line, uint32_t(pool->lines[pick] & 15), number + g);
      continue;
    }
    if (own.index + kernel.ghosts < kernel.grid.x && kernel.grid.count() == kernel.grid.x) {
      other.at[0] = int64_t(other.index);
    } else {
      other.at[0] = int64_t(other.index % kernel.grid.x);
      other.at[1] = int64_t(other.index / kernel.grid.x % kernel.grid.y);
      other.at[2] = int64_t(other.index / (kernel.grid.x * kernel.grid.y));
    }
    uint64_t second = 0;
    const uint64_t m = moved(other, pc, packed >> 4, packed & 15, second);
    f(m >> 4, uint32_t(m & 15), number + g);
    if (second) f(second >> 4, uint32_t(second & 15), number + g);
  }
}

double Sm::State::global_read(WarpRun& w, const Event& e, const MachineInstruction& m, double at) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double done = at;
  const bool bypass = m.bypasses_l1;
  for (uint32_t i = 0; i < e.n_detail; i++) {
    uint64_t second = 0;
    const uint64_t packed = block.lines[e.detail + i];
    const uint64_t own = moved(slots[w.slot].work, e.pc, packed >> 4, packed & 15, second);
    bool shared_out = false;  // the ghosts have done theirs
    for (const uint64_t part : {own, second}) {
      if (!part) continue;
      const uint64_t line = part >> 4;
      uint32_t mask = uint32_t(part & 15);
      counts.l1_sectors += std::popcount(mask);
      L1::Way* way = nullptr;
      if (!bypass) {
        bool hit = false;
        way = &l1.find(line, hit);
        const uint32_t missing = mask & ~way->valid;
        counts.l1_hits += std::popcount(mask) - std::popcount(missing);
        if (!missing) {
          done = std::max({done, at + f.l1_latency, way->arrives});
          continue;
        }
        mask = missing;
      }
      request = std::max(request, at) + std::max(f.sm_request, std::popcount(mask) * 32.0 / f.sm_bandwidth);
      const double back = chip.read(line, mask, number, request);
      if (!shared_out) for_ghosts(w, e.pc, packed, [&](uint64_t l, uint32_t k, uint32_t sm) { chip.read(l, k, sm, request); });
      shared_out = true;
      if (way) way->valid |= uint8_t(mask), way->arrives = std::max(way->arrives, back);
      done = std::max(done, back);
    }
  }
  return done;
}

void Sm::State::global_write(WarpRun& w, const Event& e, double at) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double sectors = 0;
  for (uint32_t i = 0; i < e.n_detail; i++) sectors += std::popcount(uint32_t(block.lines[e.detail + i] & 15));
  const uint32_t per_sector = uint32_t(std::min(32.0, double(e.lanes_bytes) * std::popcount(e.mask) / std::max(1.0, sectors)));
  for (uint32_t i = 0; i < e.n_detail; i++) {
    uint64_t second = 0;
    const uint64_t packed = block.lines[e.detail + i];
    const uint64_t own = moved(slots[w.slot].work, e.pc, packed >> 4, packed & 15, second);
    for (const uint64_t part : {own, second}) {
      if (!part) continue;
      const uint32_t mask = uint32_t(part & 15);
      write_port = std::max(write_port, at) + std::max(1.0, std::popcount(mask) * 32.0 / f.sm_write_bandwidth);
      chip.write(part >> 4, mask, number, write_port, per_sector);
      if (part == own) for_ghosts(w, e.pc, packed, [&](uint64_t l, uint32_t k, uint32_t sm) { chip.write(l, k, sm, write_port, per_sector); });
    }
  }
}

/// Calls f(line, SM) for what every ghost copies when the detailed block copies `line`: the same place in the copy of another
/// block. Blocks that were not traced copy what no one else does.
template <class F>
void Sm::State::copies_of_ghosts(const WarpRun& w, const Event& e, uint64_t line, F f) {
  const CopyPool& pool = kernel.copies.at(e.pc);
  const BlockWork& own = slots[w.slot].work;
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = own.index + uint64_t{g} * kernel.ghost_step;
    if (index >= kernel.grid.count()) break;
    const uint64_t pick = (index * 0x9E3779B97F4A7C15ull >> 33) % pool.population;
    const std::vector<uint64_t>& starts = pool.starts[size_t(pick % pool.starts.size())];
    const int64_t delta = int64_t(starts[std::min<size_t>(e.ordinal, starts.size() - 1)]) - int64_t(e.address);
    f(uint64_t(int64_t(line) + (delta >> 7)) + (pick / pool.starts.size() << 40), number + g);
  }
}

/// A bulk or tensor copy: the lines of its runs at the engine's pace. Returns when the last byte is there.
double Sm::State::run_copy(WarpRun& w, const Event& e, double at, bool store) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double done = at;
  const bool drawn = kernel.copies.count(e.pc) != 0;
  tma = std::max(tma, at + f.tma_latency);
  for (uint32_t i = 0; i < e.n_detail; i++) {
    const Run& run = block.runs[e.detail + i];
    for (uint32_t row = 0; row < run.rows; row++) {
      const uint64_t a = run.address + row * run.stride;
      for (uint64_t line = a >> 7; line <= (a + run.bytes - 1) >> 7; line++) {
        const uint64_t low = std::max(a, line << 7), high = std::min(a + run.bytes, (line + 1) << 7);
        uint32_t mask = 0;
        for (uint64_t s = low >> 5; s <= (high - 1) >> 5; s++) mask |= 1u << (s & 3);
        uint64_t second = 0;
        const uint64_t own = moved(slots[w.slot].work, e.pc, line, mask, second);
        tma += std::max(std::popcount(mask) * 32.0 / f.tma_bandwidth, 1.0);
        counts.tma_bytes += std::popcount(mask) * 32.0;
        for (const uint64_t part : {own, second}) {
          if (!part) continue;
          if (store) {
            chip.write(part >> 4, uint32_t(part & 15), number, tma, 32);
            if (part == own && drawn) copies_of_ghosts(w, e, line, [&](uint64_t l, uint32_t sm) { chip.write(l, mask, sm, tma, 32); });
            else if (part == own) for_ghosts(w, e.pc, line << 4 | mask, [&](uint64_t l, uint32_t k, uint32_t sm) { chip.write(l, k, sm, tma, 32); });
            done = std::max(done, tma + 300);
          } else {
            done = std::max(done, chip.read(part >> 4, uint32_t(part & 15), number, tma));
            if (part == own && drawn) copies_of_ghosts(w, e, line, [&](uint64_t l, uint32_t sm) { chip.read(l, mask, sm, tma); });
            else if (part == own) for_ghosts(w, e.pc, line << 4 | mask, [&](uint64_t l, uint32_t k, uint32_t sm) { chip.read(l, k, sm, tma); });
          }
        }
      }
    }
  }
  return done;
}

void Sm::State::memory(WarpRun& w, const MachineInstruction& m, const Step& s, const Event* e, double start) {
  SubCore& p = sub[w.sub];
  if (e && goes_out(e->what)) {
    if (translated < 0) translated = start + kernel.first_access;
    start = std::max(start, translated);
  }
  const auto use_pipe = [&](double cycles) {
    const double at = std::max(pipe, start + 2);
    pipe = at + cycles;
    if (pipe - start > 64) p.queue = std::max(p.queue, pipe - 40);
    return at;
  };
  // A generic or merged access goes by what it turned out to touch.
  const What what = e ? e->what : What::other;
  switch (m.kind) {
    case Class::shuffle: {
      const double at = use_pipe(1);
      return set_barriers(w, m, at + 22, at + 4);
    }
    case Class::local_load: case Class::local_store: {
      const double at = use_pipe(std::max(1, m.width / 4));
      return set_barriers(w, m, at + f.l1_latency, at + 8);
    }
    case Class::texture: {
      const double at = use_pipe(2);
      return set_barriers(w, m, at + 200, at + 12);
    }
    default: break;
  }
  if (what == What::shared_load || what == What::shared_store || what == What::shared_atomic) {
    double waves = e->extra;
    if (e->lanes_bytes && m.width > e->lanes_bytes && m.kind != Class::matrix_load) {
      const uint32_t merged = m.width == 8 ? e->count & 0xFFFF : m.width == 16 ? e->count >> 16 : 0;
      waves = merged ? merged : waves * m.width / e->lanes_bytes;
    }
    if (what == What::shared_atomic) waves = m.counts_lanes ? kCountLanes : waves * 2;
    const double at = use_pipe(waves);
    counts.shared_wavefronts += waves;
    const double latency = what == What::shared_atomic ? 26 : f.shared_latency + (m.kind == Class::matrix_load ? 6 : 0);
    return set_barriers(w, m, at + waves - 1 + latency - 2, at + waves + 8);
  }
  if (what == What::remote_load || what == What::remote_store) {
    const double at = use_pipe(e->extra);
    dsmem = std::max(dsmem, at) + 32.0 * e->lanes_bytes / f.dsmem_bandwidth;
    return set_barriers(w, m, dsmem + f.dsmem_latency, at + 12);
  }
  if (what == What::global_load || what == What::local_load) {
    const double bytes = double(e->lanes_bytes) * std::popcount(e->mask);
    // L1 looks up 3.5 lines and gives a word of each bank in a cycle; one warp's lines come one after the other.
    const double words = std::max<double>(1, e->extra), lines = e->n_detail;
    const double at = use_pipe(std::max({1.0, bytes / 128, words, lines / 3.5}));
    const double done = global_read(w, *e, m, at) + (m.bypasses_l1 ? 0 : 2 * std::max(0.0, std::max(words, lines / 3.5) - std::max(4.0, bytes / 128)));
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
    return set_barriers(w, m, done + (m.width >= 16 ? 6 : m.width == 8 ? 2 : 0), at + 10);
  }
  if (what == What::global_store || what == What::local_store) {
    const double bytes = double(e->lanes_bytes) * std::popcount(e->mask);
    const double at = use_pipe(std::max<double>(e->n_detail, bytes / 128));
    global_write(w, *e, at);
    const double backlog = std::max({write_port, chip.dram_free() - 2 * kOutstanding, chip.write_free()});
    if (backlog - at > kOutstanding) p.queue = std::max(p.queue, backlog - kOutstanding);
    return set_barriers(w, m, at + 20, at + 12);
  }
  if (what == What::global_atomic || what == What::global_reduction) {
    const double at = use_pipe(e->n_detail);
    // A warp may add up its lanes before it goes out.
    const uint32_t same = m.aggregated ? 1 : std::max<uint32_t>(1, e->extra);  // lanes on one word go one after the other
    const TracedBlock& block = *slots[w.slot].work.code->trace;
    double done = at;
    for (uint32_t i = 0; i < e->n_detail; i++) {
      uint64_t second = 0;
      const uint64_t packed = block.lines[e->detail + i];
      const uint64_t own = moved(slots[w.slot].work, e->pc, packed >> 4, packed & 15, second);
      request = std::max(request, at) + std::popcount(uint32_t(own & 15)) * 32.0 / f.sm_bandwidth;
      done = std::max(done, chip.atomic(own >> 4, uint32_t(own & 15), same * uint32_t(std::popcount(uint32_t(own & 15))), m.floating, number, request));
            for_ghosts(w, e->pc, packed, [&](uint64_t l, uint32_t k, uint32_t sm) { chip.atomic(l, k, same * uint32_t(std::popcount(k)), m.floating, sm, request); });
    }
    const double backlog = std::max(request, chip.atomics_free());
    if (backlog - at > kOutstanding) p.queue = std::max(p.queue, backlog - kOutstanding);
    return set_barriers(w, m, done, at + 12);
  }
  if (what == What::copy_async) {
    const double at = use_pipe(std::max<double>(e->n_detail, e->extra));
    const double done = global_read(w, *e, m, at) + 10;
    w.copies_done = std::max(w.copies_done, done);
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
    return set_barriers(w, m, done, at + 12);
  }
  if (what == What::other) {  // nothing is known of it: an access that hits
    const double at = use_pipe(1);
    return set_barriers(w, m, at + f.shared_latency, at + 8);
  }
  synchronise(w, uint32_t(&w - warps.data()), m, e, start);
  (void)s;
}

void Sm::State::complete(Slot& slot, NamedBarrier& b, double when) {
  for (uint32_t i : b.waiting) {
    WarpRun& w = warps[i];
    w.blocked = false;
    w.ready = std::max(w.ready, when);
    refresh(w);
  }
  b = NamedBarrier{};
  (void)slot;
}

void Sm::State::arrive(Slot& slot, uint32_t number, uint32_t expected, double when) {
  NamedBarrier& b = slot.barriers[number & 15];
  barrier_unit = std::max(barrier_unit, when) + 2;
  b.arrived++;
  b.last = std::max(b.last, barrier_unit);
  const uint32_t wanted = expected ? expected / 32 : slot.live_warps;
  if (b.arrived >= wanted) complete(slot, b, b.last + 8);
}

/// Ends the phase of an mbarrier when nothing is missing, as of `when`.
void Sm::State::settle(Slot& slot, uint32_t object, double when) {
  Mbarrier& b = slot.mbarriers[object];
  while (b.expected > 0 && b.pending <= 0 && b.bytes <= 0) {
    b.phase ^= 1;
    b.pending += b.expected;
    b.when = std::max(b.when, when);
    wake_waiters(slot, object, b, b.when);
    if (b.pending > 0) break;
  }
}

void Sm::State::wake_waiters(Slot& slot, uint32_t object, const Mbarrier& b, double when) {
  for (uint32_t i : slot.members) {
    WarpRun& w = warps[i];
    if (!w.live || !w.blocked || w.waits_object != object || w.waits_phase == b.phase) continue;
    w.blocked = false;
    w.waits_object = UINT32_MAX;
    w.ready = std::max(w.ready, when + 12);
    refresh(w);
  }
}

void Sm::State::synchronise(WarpRun& w, uint32_t index, const MachineInstruction& m, const Event* e, double start) {
  Slot& slot = slots[w.slot];
  const uint32_t object = e->object & 0xFFFFFF;  // every block of a cluster does alike: arrivals of peers count as own
  switch (e->what) {
    case What::barrier: case What::barrier_red: {
      w.blocked = true;
      slot.barriers[e->extra & 15].waiting.push_back(index);
      arrive(slot, e->extra, e->count, start);
      return;
    }
    case What::barrier_arrive: arrive(slot, e->extra, e->count, start); return;
    case What::cluster_arrive: {
      NamedBarrier& b = slot.cluster;
      b.arrived++, b.last = std::max(b.last, start);
      return;
    }
    case What::cluster_wait: {
      NamedBarrier& b = slot.cluster;
      b.waiting.push_back(index);
      w.blocked = true;
      if (b.arrived >= slot.live_warps && b.waiting.size() >= slot.live_warps) complete(slot, b, b.last + 180);
      return;
    }
    case What::mbarrier_init: {
      Mbarrier& b = slot.mbarriers[object];
      b = Mbarrier{};
      b.pending = b.expected = e->count;
      return set_barriers(w, m, start + 10, start + 6);
    }
    case What::mbarrier_expect: slot.mbarriers[object].bytes += e->count; return set_barriers(w, m, start + 10, start + 6);
    case What::mbarrier_arrive: {
      Mbarrier& b = slot.mbarriers[object];
      b.bytes += e->count;
      b.pending -= e->extra;
      settle(slot, object, start + 9);
      return set_barriers(w, m, start + 10, start + 6);
    }
    case What::mbarrier_wait: {
      Mbarrier& b = slot.mbarriers[object];
      if (b.phase != e->extra) {
        w.ready = std::max({w.ready, b.when + 12, start + 9});
        return set_barriers(w, m, std::max(b.when + 12, start + 13), start + 8);
      }
      w.blocked = true;
      w.waits_object = object, w.waits_phase = e->extra;
      return set_barriers(w, m, start + 13, start + 8);
    }
    case What::bulk_load: {
      const double done = run_copy(w, *e, start, false);
      Mbarrier& b = slot.mbarriers[object];
      int64_t bytes = e->count;
      if (e->lanes_bytes == 1) bytes *= std::max(1, std::popcount(uint32_t(e->extra)));  // peers multicast to us as we do to them
      b.bytes -= bytes;
      b.when = std::max(b.when, done);
      settle(slot, object, done);
      return set_barriers(w, m, start + 20, start + 20);
    }
    case What::bulk_store: {
      w.group_done = std::max(w.group_done, run_copy(w, *e, start, true));
      return set_barriers(w, m, start + 20, start + 20);
    }
    case What::bulk_prefetch: run_copy(w, *e, start, false); return;
    default: return;
  }
}

void Sm::State::end_warp(uint32_t index, double now) {
  WarpRun& w = warps[index];
  w.live = false;
  w.earliest = kNever;
  auto& list = active[w.sub];
  list.erase(std::find(list.begin(), list.end(), index));
  Slot& slot = slots[w.slot];
  slot.live_warps--;
  free_warps.push_back(index);
  slot.members.erase(std::find(slot.members.begin(), slot.members.end(), index));
  if (slot.live_warps == 0) {
    slot.used = false;
    finished.push_back({slot.work.index, now});
    return;
  }
  for (NamedBarrier& b : slot.barriers)
    if (!b.waiting.empty() && b.arrived >= slot.live_warps) complete(slot, b, now + 8);
  if (!slot.cluster.waiting.empty() && slot.cluster.waiting.size() >= slot.live_warps) complete(slot, slot.cluster, now + 180);
}

}  // namespace orrery::timing
