// exec/unit.cc: see unit.h.
#include "exec/unit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "exec/fault.h"
#include "exec/polling.h"
#include "exec/interpreter.h"
#include "exec/mbarrier.h"
#include "exec/observer.h"
#include "exec/wait_graph.h"

namespace orrery::exec {

namespace {
constexpr uint32_t kHangPolls = 1u << 17;  // looks at mbarriers, all of them in vain, before it is called a hang
uint64_t align_up(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }
}  // namespace

bool poll(RunState& run) {
  if (run.stop) return true;
  const auto give_up = [&](FaultKind kind, const char* text, const char* why) {
    Fault f;
    f.kind = kind;
    f.kernel = run.kernel.entry->program->name;
    f.message = fmt::format("{}: kernel {} was stopped{}", text, f.kernel, why);
    run.record(std::move(f));
    return true;
  };
  if (run.machine.interrupt && run.machine.interrupt->load(std::memory_order_relaxed))
    return give_up(FaultKind::interrupted, "interrupted", "; the program ended without waiting for it");
  if (run.deadline != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() > run.deadline)
    return give_up(FaultKind::timeout, "timeout", "");
  return false;
}

/// Multiple of the addresses of shared memory; windows lie at such addresses, too (memory.cc).
constexpr uint64_t kWindowAlign = uint64_t{1} << 18;

Unit::Unit(RunState& run, const LaunchContext& launch) : run_(run), launch_(launch) {
  const lower::Program& p = *run.kernel.entry->program;
  const uint64_t n = uint64_t{launch.cluster[0]} * launch.cluster[1] * launch.cluster[2];
  const uint64_t threads = run.launch.block.count(), warps = (threads + 31) / 32;
  shared_span_ = align_up(p.dynamic_shared_offset + run.launch.dynamic_shared, 4096) + 4096;
  // On the GPU the low bits of a generic address of shared memory are its offset there, and programs build matrix
  // descriptors of wgmma (18 bits of address) from them.
  local_span_ = align_up(shared_span_ + align_up(warps * 32 * run.thread_local_bytes, 4096), kWindowAlign) - shared_span_;
  frame_span_ = (align_up(p.frame_bytes, 64) + kKeptBytes) | 64;  // an odd number of lines: frames spread over the sets of a cache
  window_ = run.machine.memory->acquire_window((shared_span_ + local_span_) * n);
  if (!window_) base::fail("no memory for the {} resident blocks of kernel {}", n, p.name);
  frames_ = static_cast<std::byte*>(std::aligned_alloc(64, std::max<uint64_t>(64, frame_span_ * warps * n)));
  std::memset(frames_, 0, frame_span_ * warps * n);
  counts_phases_ = p.counts_phases;
  cluster_.n = uint32_t(n);
  cluster_.log = &log_;
  cluster_.mbarriers = &mbarriers_.emplace(reinterpret_cast<const std::byte*>(window_), shared_span_ + local_span_, uint32_t(n));
  cluster_.wgmma = &wgmma_;
  if (run.machine.observer) cluster_.later = &later_;
  for (uint32_t r = 0; r < n; r++) {
    blocks_.push_back(std::make_unique<Block>());
    place(*blocks_.back(), r);
    if (n <= 16) cluster_.ctas[r] = &blocks_.back()->cta;
  }
  // Warps run one after the other between barriers. The thread that a kernel singles out is nearly always thread 0, and
  // what it does last (reset a counter, overwrite an input) follows on hardware what the others did at the same point,
  // so the first warp runs last; but a kernel that prints does so in the order that people expect.
  for (auto& b : blocks_)
    for (WarpContext& w : b->warps) order_.push_back(&w);
  // (The others run in order: a kernel's accesses then ascend, which the host's caches expect.)
  if (!p.prints) std::rotate(order_.begin(), order_.begin() + 1, order_.end());
}

Unit::~Unit() {
  run_.instructions.fetch_add(instructions_, std::memory_order_relaxed);
  run_.machine.memory->release_window(window_);
  std::free(frames_);
}

std::vector<CtaContext*> Unit::blocks() {
  std::vector<CtaContext*> out;
  for (auto& b : blocks_) out.push_back(&b->cta);
  return out;
}

/// Fixed part of a block: addresses and thread indices, which are the same for every block that this unit runs.
void Unit::place(Block& block, uint32_t rank) {
  const lower::Program& p = *run_.kernel.entry->program;
  const Dim3 dim = run_.launch.block;
  CtaContext& c = block.cta;
  c.n_threads = uint32_t(dim.count());
  c.n_warps = (c.n_threads + 31) / 32;
  c.shared = reinterpret_cast<std::byte*>(window_) + rank * (shared_span_ + local_span_);
  c.shared_bytes = p.dynamic_shared_offset + run_.launch.dynamic_shared;
  c.params = run_.launch.params.data();
  c.launch = &launch_;
  c.cluster = &cluster_;
  c.cluster_rank = rank;
  block.warps.resize(c.n_warps);
  block.partial.assign(16 * c.n_warps, 0);
  c.warps = block.warps.data();
  c.partial = block.partial.data();
  for (uint32_t w = 0; w < c.n_warps; w++) {
    WarpContext& warp = block.warps[w];
    warp.frame = frames_ + (rank * c.n_warps + w) * frame_span_;
    warp.local = c.shared + shared_span_ + uint64_t{w} * 32 * run_.thread_local_bytes;
    warp.local_stride = run_.thread_local_bytes;
    warp.cta = &c;
    warp.warp_id = w;
    warp.lanes = c.n_threads - w * 32 >= 32 ? ~0u : (1u << (c.n_threads - w * 32)) - 1;
    for (uint32_t l = 0; l < 32; l++) {
      const uint32_t t = w * 32 + l;
      warp.tid_x[l] = t % dim.x;
      warp.tid_y[l] = t / dim.x % dim.y;
      warp.tid_z[l] = t / (dim.x * dim.y);
    }
  }
}

/// To the state at the first instruction. A warp that ran from start to end in compiled code has left its groups alone.
void Unit::reset(WarpContext& w) const {
  w.live = w.lanes;
  w.n_groups = 1;
  w.finished = false;
  w.budget = kSpinBudget;
  w.instructions = 0;
  if (counts_phases_) w.cluster_phase = w.cluster_arrived = w.wgmma_groups = 0;  // (a cache line of their own)
  if (w.fresh) return;
  w.fresh = true;
  w.groups[0] = Group{};
  w.groups[0].mask = w.lanes;
  w.stalled = false;
  w.intact_since = ~uint64_t{0} >> 2;
  w.poll_failed = false;
  w.at_address = 0;
}

/// Coordinates of the first block of cluster `index`. Blocks come in runs of numbers, and divisions would be a good part
/// of a small block's time.
void Unit::go_to(uint64_t index) {
  const uint32_t* k = launch_.cluster;
  const uint64_t nx = launch_.grid[0] / k[0], ny = launch_.grid[1] / k[1];
  if (index == at_ + 1) {
    if ((first_[0] += k[0]) >= nx * k[0]) {
      first_[0] = 0;
      if ((first_[1] += k[1]) >= ny * k[1]) first_[1] = 0, first_[2] += k[2];
    }
  } else {
    const uint64_t row = index / nx;
    first_[0] = uint32_t(index - row * nx) * k[0];
    first_[1] = uint32_t(row % ny) * k[1];
    first_[2] = uint32_t(row / ny) * k[2];
  }
  at_ = index;
}

/// The block's own coordinates in the grid.
void Unit::locate(CtaContext& c, uint32_t rank) {
  const uint32_t* k = launch_.cluster;
  uint32_t at[3] = {0, 0, 0};
  if (rank) at[0] = rank % k[0], at[1] = rank / k[0] % k[1], at[2] = rank / (k[0] * k[1]);
  for (int d = 0; d < 3; d++) c.ctaid[d] = first_[d] + at[d];
  const uint64_t last = c.cta_linear;
  c.cta_linear = c.ctaid[0] + uint64_t{launch_.grid[0]} * (c.ctaid[1] + uint64_t{launch_.grid[1]} * c.ctaid[2]);
  const uint32_t sms = run_.machine.gpu.sm_count;
  if (c.cta_linear == last + 1) c.smid = c.smid + 1 == sms ? 0 : c.smid + 1;
  else c.smid = uint32_t(c.cta_linear % sms);
}

void Unit::start(uint64_t index) {
  go_to(index);
  cluster_.arrived = cluster_.phase = 0;
  cluster_.live_threads = 0;
  log_.clear();
  mbarriers_->clear();
  later_.clear();
  wgmma_.clear();
  force_ = false;
  polls_ = 0;
  unfinished_ = uint32_t(order_.size());
  run_.look_for_code();
  const NativeCode* native = run_.native.load(std::memory_order_acquire);
  together_ = blocks_.size() == 1 && native && native->entry_of[0] == 0;
  for (uint32_t r = 0; r < blocks_.size(); r++) {
    Block& b = *blocks_[r];
    CtaContext& c = b.cta;
    locate(c, r);
    c.live_threads = c.n_threads;
    cluster_.live_threads += c.n_threads;
    if (c.used_barriers) {
      std::fill(std::begin(c.barriers), std::end(c.barriers), Barrier{});
      std::fill(b.partial.begin(), b.partial.end(), 0);
      c.used_barriers = 0;
    }
    c.clock = 0;
    c.native = native;
    for (WarpContext& w : b.warps) reset(w);
  }
  if (Observer* o = run_.machine.observer)
    for (auto& b : blocks_) o->block_begin(b->cta);
}

Stop take_back(WarpContext& w) {
  const Stop stop = Stop(w.stop & 255);
  if (stop == Stop::done) w.live = 0, w.n_groups = 0;
  if (stop != Stop::arrived) return stop;
  if (const int32_t next = w.cta->native->entry_of[(w.stop >> 8) + 1]; next >= 0) w.cta->native->entries[size_t(next)](&w, 0);
  const uint32_t pc = w.stop >> 8;
  w.stop = uint32_t(Stop::service);
  w.groups[0] = Group{};
  w.groups[0].pc = pc;
  w.groups[0].mask = w.live;
  w.n_groups = 1;
  return Stop::service;
}

namespace {

bool converged_entry(const WarpContext& w) {
  if (!w.cta->native || is_watched(*w.cta->launch->run) || w.n_groups != 1) return false;
  const Group& g = w.groups[0];
  return g.state == GroupState::ready && !g.frame && !g.reduction && !g.polled && g.mask == w.live && w.cta->native->entry_of[g.pc] >= 0;
}

/// Compiled code until it stops; then the counts that depend on lanes that exited.
Stop run_native(WarpContext& w) {
  const uint32_t before = w.live;
  const NativeCode& native = *w.cta->native;
  native.entries[size_t(native.entry_of[w.groups[0].pc])](&w, 1);
  const Stop stop = take_back(w);
  if (const uint32_t gone = before & ~w.live) {
    count_exits(w, gone);
    if (w.cta->used_barriers) check_barriers(*w.cta);
    if (w.cta->cluster) check_cluster_barrier(*w.cta->cluster);
  }
  if (stop == Stop::spin) w.stalled = true;
  return stop;
}

Stop run_warp(RunState& run, WarpContext& w) {
  constexpr uint32_t kPollPeriod = 4096;  // steps from entry to entry between looks at the stop flag
  for (uint32_t steps = 1;; steps++) {
    if (steps % kPollPeriod == 0 && poll(run)) return Stop::fault;
    if (converged_entry(w)) {
      const Stop stop = run_native(w);
      if (stop == Stop::entry) continue;
      if (stop != Stop::service && stop != Stop::diverged) return stop;
      if (stop == Stop::service && w.n_groups == 1 && arrive_together(w, run.kernel.entry->code[w.groups[0].pc])) {
        if (w.groups[0].state == GroupState::ready) continue;
        return Stop::blocked;
      }
    }
    const Stop stop = interpret(run, w);
    if (stop != Stop::service) return stop;
  }
}

/// Runs a warp that has not started in compiled code. True when it ran to its end; else it stands where it stopped.
bool start_native(RunState& run, WarpContext& w) {
  if (!w.cta->native || w.cta->native->entry_of[0] != 0) {
    w.fresh = false;
    return false;
  }
  const Stop stop = run_native(w);
  if (stop == Stop::done) return w.finished = true;
  w.fresh = false;
  if (stop == Stop::fault) w.finished = true;  // the launch ends
  if (stop == Stop::service && w.n_groups == 1) arrive_together(w, run.kernel.entry->code[w.groups[0].pc]);
  return false;
}

bool has_ready(const WarpContext& w) {
  for (uint32_t i = 0; i < w.n_groups; i++)
    if (w.groups[i].state == GroupState::ready) return true;
  return false;
}

/// Has the mbarrier that a group waits for entered another phase?
bool has_passed(const WarpContext& w, const Group& g) { return g.wait_word && mbarrier::phase(w.cta->cluster->mbarriers->peek(g.wait_word)) != g.wait_phase; }

/// Wakes groups whose mbarrier has entered another phase; with `force` also the others, which then tell the program
/// that their time is up. Groups that wait for their warpgroup are woken by it.
void wake(WarpContext& w, bool force) {
  for (uint32_t i = 0; i < w.n_groups; i++) {
    Group& g = w.groups[i];
    if (g.state != GroupState::waiting || !g.wait_word) continue;
    const bool passed = has_passed(w, g);
    if (!force && !passed) continue;
    g.state = GroupState::ready;
    g.polled = !passed;  // the interpreter looks again and answers the program; compiled code would only wait once more
  }
}

}  // namespace

/// Runs every warp that can run once, in a random schedule for a turn of some instructions. False after a fault.
bool Unit::pass(std::mt19937_64* random, bool& ran, bool& spinning) {
  constexpr uint32_t kLongestTurn = 64;
  if (random) std::shuffle(order_.begin(), order_.end(), *random);
  fault_trap().code = run_.kernel.entry.get();
  fault_trap().lane = -1;
  for (WarpContext* warp : order_) {
    WarpContext& w = *warp;
    if (w.finished) continue;
    current_ = &w;
    if (!random) w.budget = kSpinBudget;  // else it lasts over turns, which are too short to use it up
    if (w.fresh) {
      const bool native = w.cta->native != nullptr;
      if (start_native(run_, w)) {
        unfinished_--;
        instructions_ += w.instructions;
        ran = true;
        continue;
      }
      if (w.finished || run_.stop) return false;
      ran |= native;
    }
    wake(w, force_);
    if (!has_ready(w)) continue;
    w.stalled = w.poll_failed = false;
    const uint32_t turn = random ? 1 + uint32_t((*random)() % kLongestTurn) : 0;
    const int32_t budget = w.budget;
    w.turn = turn;
    const Stop stop = run_warp(run_, w);
    if (stop == Stop::fault || run_.stop || (stop == Stop::spin && poll(run_))) return false;
    if (stop == Stop::done) {
      w.finished = true;
      unfinished_--;
      instructions_ += w.instructions;
    }
    if (stop == Stop::spin || (stop == Stop::preempted && w.budget < 0)) spinning = true;
    else if (!w.poll_failed) ran = true;
    if (w.budget < 0 && (w.budget == budget && turn > kLongestTurn / 2 || w.budget < INT32_MIN / 2)) w.budget = kSpinBudget;  // it has left the loop, as far as that shows
  }
  return true;
}

/// A block that started without compiled code takes it up at its warps' next turn. (One whose warps are long in a loop:
/// RunState::take_up_code.)
void Unit::take_up_code() {
  if (const NativeCode* native = run_.native.load(std::memory_order_acquire))
    for (auto& b : blocks_)
      if (!b->cta.native) b->cta.native = native;
}

/// Every warp is done.
Unit::Progress Unit::end() {
  later_.finish(run_);
  if (run_.stop) return Progress::fault;
  if (Observer* o = run_.machine.observer)
    for (auto& b : blocks_) o->block_end(b->cta);
  return Progress::finished;
}

Unit::Progress Unit::advance(std::mt19937_64* random) {
  if (together_) {
    together_ = false;
    Progress progress;
    if (advance_together(progress)) return progress;
  }
  constexpr uint32_t kPollPeriod = 64;  // passes: warps that meet at barriers for ever never run for long
  for (uint32_t passes = 1;; passes++) {
    if (passes % kPollPeriod == 0) {
      if (poll(run_)) return Progress::fault;
      run_.look_for_code();  // nobody else does when all blocks have started
    }
    bool ran = false, spinning = false;
    take_up_code();
    if (!pass(random, ran, spinning)) return Progress::fault;
    if (unfinished_ == 0) return end();
    if (ran) {
      force_ = false;
      polls_ = 0;
      if (random) return Progress::preempted;
      continue;
    }
    if (!spinning && some_ready()) continue;  // a warp whose look at an mbarrier failed has let others go on all the same
    if (cluster_.later && later_.next(run_)) {  // nobody can go on without it
      if (run_.stop) return Progress::fault;
      continue;
    }
    if (spinning) {
      force_ = true;  // a test of an mbarrier may fail for good while another warp waits for global memory
      return Progress::stalled;
    }
    // Shared memory changes only by warps of this unit, so waits for an mbarrier that go unanswered are a hang.
    const uint32_t patience = run_.machine.observer ? kHangPolls >> 7 : kHangPolls;  // observed looks are slow
    if (waits_for_mbarrier() && polls_++ < patience) {
      force_ = true;
      if (poll(run_)) return Progress::fault;
      continue;
    }
    report_hang();
    return Progress::fault;
  }
}

bool Unit::some_ready() const {
  const auto will_wake = [](const WarpContext& w) {  // at its next turn
    return std::any_of(w.groups, w.groups + w.n_groups, [&](const Group& g) { return g.state == GroupState::waiting && has_passed(w, g); });
  };
  for (const auto& b : blocks_)
    for (const WarpContext& w : b->warps)
      if (!w.finished && (has_ready(w) || will_wake(w))) return true;
  return false;
}

bool Unit::waits_for_mbarrier() const {
  for (const auto& b : blocks_)
    for (const WarpContext& w : b->warps)
      for (uint32_t i = 0; i < w.n_groups; i++)
        if (w.groups[i].state == GroupState::waiting && w.groups[i].wait_word) return true;
  return false;
}

void Unit::add_blocks(std::vector<const CtaContext*>& blocks) const {
  for (const auto& b : blocks_) blocks.push_back(&b->cta);
}

void Unit::report_hang() {
  std::vector<const CtaContext*> blocks;
  add_blocks(blocks);
  run_.record(make_hang(run_, blocks));
}

}  // namespace orrery::exec
