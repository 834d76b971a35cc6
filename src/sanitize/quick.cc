// sanitize/quick.cc: see quick.h.
#include "sanitize/quick.h"

#include <immintrin.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/decode.h"
#include "exec/run_state.h"
#include "lower/flow.h"
#include "lower/shared_origin.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Space;

namespace {

Quick* active = nullptr;        // the process has one checker at a time
thread_local char thread_mark;  // its address is a thread's mark

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

Quick::Quick(const Options& options, Memcheck* memcheck, Initcheck* initcheck, Racecheck* racecheck)
    : options_(options), memcheck_(memcheck), initcheck_(initcheck), racecheck_(racecheck) {
  // Without memcheck nobody looks where an access goes; without racecheck there is little to be quick about.
  possible_ = memcheck && racecheck && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  if (!possible_) return;
  active = this;
  quick_access() = {run, same, block, barrier, any, atomic};
}

Quick::~Quick() {
  if (active == this) active = nullptr;
}

// ---- which launch ----

void Quick::launch_begin(const RunState& run, bool suits) {
  if (!possible_) return;
  leave_script();
  script_ready_ = script_failed_ = false;
  script_doubts_ = 0;
  run_ = ++launches_ == 1 && suits && run.launch.cluster.count() == 1 ? &run : nullptr;
  sites_.clear();
  if (run_) sites_.resize(run.kernel.entry->code.size());
  if (run_) find_written(run);
  forget_site_ranges(*run.kernel.entry->program);
  cta_ = nullptr;
}

void Quick::find_written(const RunState& run) {
  written_.clear();
  const lower::Program& p = *run.kernel.entry->program;
  auto [known, fresh] = written_params_.try_emplace(p.hash);
  if (fresh) known->second = lower::find_written_params(p);
  writes_known_ = known->second.has_value();
  if (!writes_known_) return;
  for (const uint32_t offset : *known->second) {
    uint64_t pointer = 0;
    if (offset + 8 <= run.launch.params.size()) std::memcpy(&pointer, run.launch.params.data() + offset, 8);
    const Block* b = memcheck_->allocations().holder(pointer, 1);
    if (!b) return void(writes_known_ = false);  // a pointer past an end, perhaps
    written_.push_back(b->begin);
  }
}

bool Quick::only_read(const Block& b) const {
  return writes_known_ && b.kind != MemoryKind::heap && std::find(written_.begin(), written_.end(), b.begin) == written_.end();
}

void Quick::launch_end(const RunState&) {
  if (!possible_) return;
  script_cta_ = nullptr;
  launches_--;
  run_ = nullptr;
  cta_ = nullptr;
}

void Quick::block_begin(const CtaContext& cta) {
  if (cta.launch->run != run_) return;
  worker_ = &thread_mark;
  cta_ = nullptr;
  leave_script();
  if (script_doubts_ > kMostDoubts) return;
  script_cta_ = &cta;
  script_use_ = script_ready_ ? ScriptUse::follow : ScriptUse::record;
  script_at_ = script_epoch_ = 0;
  if (!script_ready_) script_.clear();
}

void Quick::block_end(const CtaContext& cta) {
  if (script_cta_ != &cta) return;
  if (script_use_ == ScriptUse::follow) {
    script_doubts_ = std::max(0, script_doubts_ - 1);
    script_failed_ = false;
  } else {
    script_ready_ = script_.size() && script_.is_right(cta.shared_bytes);
    script_equal_.assign(script_.size(), 0);
    if (!script_ready_) script_doubts_++;
  }
  script_cta_ = nullptr;
}

void Quick::forget() {
  for (Site& s : sites_)
    if (!s.shared) s = {};
}

namespace {

/// Whether some instruction reads the result of the atomic.
bool is_looked_at(const Where& where) {
  const ptx::Instr& in = where.code->code[where.pc].instr[0];
  if (in.ops[0].kind != ptx::OperandKind::reg) return in.ops[0].kind != ptx::OperandKind::sink;
  const uint32_t result = in.ops[0].id;
  bool read = false;
  for (const ptx::Instr& other : where.code->program->code)
    lower::for_registers(other, [](uint32_t) {}, [&](uint32_t r) { read |= r == result; });
  return read;
}

}  // namespace

void Quick::learn(const Access& a) {
  if (a.where.run != run_ || a.where.call || a.where.pc >= sites_.size()) return;
  const bool atomic = a.kind == AccessKind::atomic || a.kind == AccessKind::reduction;
  if (a.volatile_ || a.order != (atomic ? Order::relaxed : Order::weak)) return;
  // What waiting threads look at must be known when they hang (exec/polling.h); nobody waits by what has no result.
  if (a.kind == AccessKind::atomic && is_looked_at(a.where)) return;
  Site& s = sites_[a.where.pc];
  const isa::Form& form = a.where.code->code[a.where.pc].instr->form;
  const uint64_t address = a.address[std::countr_zero(a.where.mask)];
  s.usable = false;
  s.writes = a.kind != AccessKind::load;
  s.atomic = atomic;
  s.scope = a.scope;
  s.shared = a.space == Space::shared || a.space == Space::shared_cta;
  s.constant = a.space == Space::const_;
  s.bytes = a.bytes, s.align = a.align;
  s.compares = s.writes && !options_.strict && a.bytes <= 8 && a.bytes == uint32_t(isa::bytes_of(form.type()));
  if (s.shared) {
    const lower::SharedVar* v = memcheck_->variable_of(a.where);
    s.begin = v ? v->offset : lower::kSharedStart;
    s.end = v ? v->offset + v->bytes : a.where.warp->cta->shared_bytes;
  } else {
    const Block* b = memcheck_->allocations().holder(address, a.bytes);
    if (!b || b->kind == MemoryKind::heap || (s.writes && b->constant)) return;
    s.begin = b->begin, s.end = b->end;
    s.tracked = initcheck_ && !s.constant ? initcheck_->find(address) : nullptr;
    if (s.tracked && s.tracked->opaque) s.tracked = nullptr;
    if (s.writes && writes_known_ && only_read(*b)) return;  // not where its pointer leads
    if (!s.writes && only_read(*b) && (!s.tracked || s.tracked->is_complete())) set_site_range(*a.where.code->program, a.where.pc, s.begin, s.end);
  }
  s.number = racecheck_->site_of(a);
  s.usable = a.bytes == 4 || a.bytes == 8 || a.bytes == 16;
}

// ---- one access ----

bool Quick::barrier(const CtaContext& cta, uint32_t number) {
  if (!active) return false;
  Quick& q = *active;
  q.busy_.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  bool done = q.stops_.load(std::memory_order_relaxed) == 0 && cta.launch->run == q.run_;
  if (done && q.script_cta_ == &cta) {
    Step step;
    step.pc = number, step.kind = StepKind::barrier;
    const bool all = std::all_of(cta.warps, cta.warps + cta.n_warps, [](const WarpContext& w) { return w.live == w.lanes; });
    if (!all || (q.script_use_ == ScriptUse::follow && !q.script_.is_next(q.script_at_, step))) q.leave_script();
    else if (q.script_use_ == ScriptUse::record) q.record(step, nullptr);
    else q.script_epoch_ = ++q.script_at_;
  }
  done = done && q.racecheck_->quick_barrier(cta, number);
  q.leave();
  return done;
}

void Quick::look_at(const CtaContext& cta) {
  cta_ = &cta;
  shared_ = cta.shared;
  shared_bits_ = initcheck_ ? initcheck_->shared_of(cta) : nullptr;
  shared_shadow_ = &racecheck_->shared_of(cta);
}

bool Quick::enter(const WarpContext& w, uint32_t pc, Site*& site) {
  busy_.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the other side's membarrier makes it a real one
  if (stops_.load(std::memory_order_relaxed) == 0 && w.cta->launch->run == run_ && sites_[pc].usable) {
    site = &sites_[pc];
    if (site->shared && w.cta != cta_) look_at(*w.cta);
    return true;
  }
  leave();
  return false;
}

/// Loads: all bytes have been written. Stores: they are now.
bool Quick::initialised(const Site& s, uint64_t address, uint64_t bytes) {
  WrittenBits* bits = s.shared ? shared_bits_ : s.tracked ? &s.tracked->bits : nullptr;
  if (!bits) return true;
  const uint64_t at = s.shared ? address : address - s.tracked->begin;
  if (s.writes) return bits->write(at, bytes), true;
  return bits->first_unwritten(at, bytes) == at + bytes;
}

/// Of lanes at consecutive places, those that store what is there.
uint32_t Quick::unchanged(const Site& s, uint64_t address, const void* values, uint32_t lanes) const {
  if (!s.compares || !values) return 0;
  const std::byte* memory = s.shared ? shared_ + address : reinterpret_cast<const std::byte*>(address);
  uint32_t equal = 0;
  if (s.bytes == 4) {
    for (uint32_t i = 0; i < 32; i += 4) {
      if (!(lanes >> i & 15)) continue;
      if ((lanes >> i & 15) != 15) {
        for (uint32_t k = i; k < i + 4; k++)
          if (lanes >> k & 1) equal |= uint32_t(std::memcmp(memory + 4 * k, static_cast<const std::byte*>(values) + 4 * k, 4) == 0) << k;
        continue;
      }
      const __m128i there = _mm_loadu_si128(reinterpret_cast<const __m128i*>(memory + 4 * i));
      const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const std::byte*>(values) + 4 * i));
      equal |= uint32_t(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(there, here)))) << i;
    }
    return equal & lanes;
  }
  for (uint32_t m = lanes; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    equal |= uint32_t(std::memcmp(memory + lane * s.bytes, static_cast<const std::byte*>(values) + lane * s.bytes, s.bytes) == 0) << lane;
  }
  return equal;
}

uint32_t Quick::unchanged(const Site& s, const uint64_t* addresses, const void* values, uint32_t lanes) const {
  if (!s.compares || !values) return 0;
  uint32_t equal = 0;
  for (uint32_t m = lanes; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::byte* memory = s.shared ? shared_ + addresses[lane] : reinterpret_cast<const std::byte*>(addresses[lane]);
    equal |= uint32_t(std::memcmp(memory, static_cast<const std::byte*>(values) + lane * s.bytes, s.bytes) == 0) << lane;
  }
  return equal;
}

bool Quick::unchanged_same(const Site& s, uint64_t address, const void* values, uint32_t lanes) const {
  if (!s.compares || !values || !std::has_single_bit(lanes)) return false;
  const std::byte* memory = s.shared ? shared_ + address : reinterpret_cast<const std::byte*>(address);
  return std::memcmp(memory, static_cast<const std::byte*>(values) + std::countr_zero(lanes) * s.bytes, s.bytes) == 0;
}

bool Quick::initialised_run(const Site& s, uint64_t address, uint32_t lanes) {
  const uint32_t first = uint32_t(std::countr_zero(lanes)), last = 31 - uint32_t(std::countl_zero(lanes));
  if (last - first + 1 == uint32_t(std::popcount(lanes))) return initialised(s, address + uint64_t{first} * s.bytes, uint64_t{last - first + 1} * s.bytes);
  for (uint32_t m = lanes; m; m &= m - 1)
    if (!initialised(s, address + uint64_t(std::countr_zero(m)) * s.bytes, s.bytes)) return false;
  return true;
}

uint32_t Quick::run(const WarpContext* w, uint32_t pc, uint64_t address, uint32_t lanes, const void* values) {
  if (!lanes) return 0;
  if (!active) return 1;
  Quick& q = *active;
  Site* s;
  if (!q.enter(*w, pc, s)) return 1;
  if (s->shared) return q.shared_access(*w, *s, {pc, uint32_t(address), lanes, uint16_t(w->warp_id), StepKind::run, uint8_t(s->bytes / 4), 0, s->writes}, nullptr, values);
  const uint32_t first = uint32_t(std::countr_zero(lanes)), last = 31 - uint32_t(std::countl_zero(lanes));
  bool clear = q.inside(*s, address + uint64_t{first} * s->bytes, address + (uint64_t{last} + 1) * s->bytes, address);
  if (clear && !s->constant) {
    const uint32_t equal = s->writes ? q.unchanged(*s, address, values, lanes) : 0;
    clear = q.initialised_run(*s, address, lanes) && q.racecheck_->quick_run(*w, {}, s->number, address, lanes, s->bytes, s->writes, equal);
  }
  q.leave();
  return !clear;
}

uint32_t Quick::same(const WarpContext* w, uint32_t pc, uint64_t address, uint32_t lanes, const void* values) {
  if (!lanes) return 0;
  if (!active) return 1;
  Quick& q = *active;
  Site* s;
  if (!q.enter(*w, pc, s)) return 1;
  if (s->shared) return q.shared_access(*w, *s, {pc, uint32_t(address), lanes, uint16_t(w->warp_id), StepKind::same, uint8_t(s->bytes / 4), 0, s->writes}, nullptr, values);
  bool clear = q.inside(*s, address, address + s->bytes, address);
  if (clear && !s->constant) {
    const bool equal = s->writes && q.unchanged_same(*s, address, values, lanes);
    clear = q.initialised(*s, address, s->bytes) && q.racecheck_->quick_same(*w, {}, s->number, address, lanes, s->bytes, s->writes, equal);
  }
  q.leave();
  return !clear;
}

uint32_t Quick::block(const WarpContext* w, uint32_t pc, uint64_t address, uint32_t lanes, uint32_t n, uint32_t rows) {
  if (!lanes) return 0;
  if (!active) return 1;
  Quick& q = *active;
  Site* s;
  if (!q.enter(*w, pc, s)) return 1;
  if (s->shared) return q.shared_access(*w, *s, {pc, uint32_t(address), lanes, uint16_t(w->warp_id), rows ? StepKind::rows : StepKind::block, uint8_t(s->bytes / 4), n, 0}, nullptr, nullptr);
  q.leave();
  return 1;
}

uint32_t Quick::any(const WarpContext* w, uint32_t pc, const uint64_t* addresses, uint32_t lanes, const void* values) {
  if (!lanes) return 0;
  if (!active) return 1;
  Quick& q = *active;
  Site* s;
  if (!q.enter(*w, pc, s)) return 1;
  // Rows are often not known to be such when code is made.
  const int first = std::countr_zero(lanes);
  const uint64_t bytes = s->bytes, start = addresses[first] - uint64_t(first) * bytes;
  bool row = true;
  for (uint32_t m = lanes & (lanes - 1); m && row; m &= m - 1) row = addresses[std::countr_zero(m)] == start + uint64_t(std::countr_zero(m)) * bytes;
  if (row) {
    q.leave();
    return run(w, pc, start, lanes, values);
  }
  if (s->shared) return q.shared_access(*w, *s, {pc, 0, lanes, uint16_t(w->warp_id), StepKind::any, uint8_t(s->bytes / 4), 0, s->writes}, addresses, values);
  bool clear = true;
  for (uint32_t m = lanes; m && clear; m &= m - 1) {
    const uint64_t at = addresses[std::countr_zero(m)];
    clear = q.inside(*s, at, at + s->bytes, at) && (s->constant || q.initialised(*s, at, s->bytes));
  }
  if (clear && !s->constant)
    clear = q.racecheck_->quick_any(*w, {}, s->number, addresses, lanes, s->bytes, s->writes, q.unchanged(*s, addresses, values, lanes));
  q.leave();
  return !clear;
}

uint32_t Quick::atomic(const WarpContext* w, uint32_t pc, const uint64_t* addresses, uint32_t lanes) {
  if (!lanes) return 0;
  if (!active) return 1;
  Quick& q = *active;
  Site* s;
  if (!q.enter(*w, pc, s)) return 1;
  if (s->shared) q.interrupt(w->cta);
  bool clear = s->atomic;
  for (uint32_t m = lanes; m && clear; m &= m - 1) {
    const uint64_t at = addresses[std::countr_zero(m)];
    clear = q.inside(*s, at, at + s->bytes, at);
  }
  uint32_t fresh = 0;
  clear = clear && q.racecheck_->quick_atomic(*w, {s->shared ? q.shared_shadow_ : nullptr}, s->number, s->scope, addresses, lanes, s->bytes, fresh);
  if (const WrittenBits* bits = s->shared ? q.shared_bits_ : s->tracked ? &s->tracked->bits : nullptr)
    for (uint32_t m = fresh; m && clear; m &= m - 1) {
      const uint64_t at = addresses[std::countr_zero(m)], place = s->shared ? at : at - s->tracked->begin;
      clear = bits->first_unwritten(place, s->bytes) == place + s->bytes;
    }
  q.leave();
  return !clear;
}

// ---- other threads ----

QuickPause::QuickPause(Quick* quick) : quick_(quick && quick->possible_ && quick->worker_ != &thread_mark ? quick : nullptr) {
  if (!quick_) return;
  quick_->stops_++;
  if (!quick_->worker_) return;
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  while (quick_->busy_.load(std::memory_order_acquire)) _mm_pause();
}

QuickPause::~QuickPause() {
  if (quick_) quick_->stops_--;
}

}  // namespace orrery::sanitize
