// exec/ops_mbarrier.cc: the instructions on mbarrier objects.
//
// A test that fails puts its lanes to rest (GroupState::waiting) until the phase passes or nothing else in the block
// can run; only then does it tell the program "not yet". For try_wait that is its meaning, for test_wait it is a slow
// answer, and it lets a waiting loop cost one look instead of thousands.
// Source: PTX ISA manual, mbarrier.
#include "exec/async.h"
#include "exec/interpreter.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;
using mbarrier::Outcome;

bool in_cluster_shared(const Stepper& s, const std::byte* p) {
  for (uint32_t r = 0; r < s.cta.cluster->n; r++)
    if (uint64_t(p - s.cta.cluster->ctas[r]->shared) < s.cta.cluster->ctas[r]->shared_bytes) return true;
  return false;
}

uint64_t* mbarrier_at(Stepper& s, Space space, uint64_t address, int lane) {
  std::byte* p = translate(s, space, address, 8, 8, lane, true);
  if (p && space == Space::none && !in_cluster_shared(s, p)) {
    s.fault(FaultKind::illegal_instruction, lane, address, fmt::format("an mbarrier outside shared memory, at {:#x}", address));
    return nullptr;
  }
  return reinterpret_cast<uint64_t*>(p);
}

Next check(Stepper& s, Outcome outcome, uint64_t word, uint64_t operand, int lane, uint64_t address) {
  if (outcome == Outcome::ok) [[likely]] return Next::next;
  std::string what;
  switch (outcome) {
    case Outcome::not_live: what = "is not initialised (or was overwritten)"; break;
    case Outcome::bad_count: what = fmt::format("cannot take the count {}: it expects {} arrivals, and {} at most", operand, mbarrier::expected(word), mbarrier::kMaxCount); break;
    case Outcome::too_many: what = fmt::format("gets {} arrivals while only {} are pending", operand, mbarrier::pending(word)); break;
    default:
      what = fmt::format("has {} transaction bytes pending; {} more or less leave the range of {}", mbarrier::bytes(word), operand, mbarrier::kMaxBytes);
  }
  return s.fault(FaultKind::trap, lane, address, fmt::format("the mbarrier at {:#x} {}", address, what));
}

namespace {

/// Tells the observer of an operation that changed the word from `before`; then what `check` says.
Next finish(Stepper& s, MbarrierOp op, Outcome outcome, uint64_t before, uint64_t after, const uint64_t* at, uint64_t count, int lane, uint64_t address) {
  static constexpr MbarrierAct kActs[] = {MbarrierAct::init, MbarrierAct::inval, MbarrierAct::expect, MbarrierAct::bytes, MbarrierAct::arrive, MbarrierAct::arrive};
  note_mbarrier(s, kActs[int(op)], at, before, after, count, lane);
  if (Observer* o = s.observer()) {
    MbarrierEvent e{s.where(), lane, op, at, before, after, count};
    e.refused = outcome != Outcome::ok;
    o->mbarrier(e);
  }
  return check(s, outcome, before, count, lane, address);
}

Space space_of(const isa::Form& f) { return f.n_spaces ? f.space() : Space::none; }

/// Calls f(place, lane, address) for every active lane's mbarrier; translates a run of equal addresses once.
template <class F>
Next for_barriers(Stepper& s, const Decoded& d, F f) {
  const AddressRef& a = s.code->addresses[d.address];
  const Space space = space_of(d.instr->form);
  uint64_t last = 0;
  uint64_t* word = nullptr;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t address = s.address(a, lane);
    if (!word || address != last) word = mbarrier_at(s, space, address, lane), last = address;
    if (!word || f(word, lane, address) == Next::fault) return Next::fault;
  }
  return Next::next;
}

Next op_init(Stepper& s, const Decoded& d) {
  return for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t address) {
    const uint64_t count = scalar(s, s.ref(d, 0), lane);
    const uint64_t before = s.cta.cluster->mbarriers->peek(at);
    uint64_t& w = s.cta.cluster->mbarriers->open(at);
    mbarrier::init(w, uint32_t(count));
    return finish(s, MbarrierOp::init, Outcome::ok, before, w, at, count, lane, address);
  });
}

Next op_inval(Stepper& s, const Decoded& d) {
  return for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t address) {
    const uint64_t w = s.cta.cluster->mbarriers->peek(at);
    s.cta.cluster->mbarriers->give_up(at);
    return finish(s, MbarrierOp::inval, Outcome::ok, w, w, at, 0, lane, address);
  });
}

Next op_expect(Stepper& s, const Decoded& d) {
  return for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t address) {
    const uint32_t n = uint32_t(scalar(s, s.ref(d, 0), lane));
    uint64_t& w = mbarrier_word(s, at);
    const uint64_t before = w;
    const Outcome o = mbarrier::expect_bytes(w, n);
    return finish(s, MbarrierOp::expect_tx, o, before, w, at, n, lane, address);
  });
}

Next op_complete(Stepper& s, const Decoded& d) {
  return for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t address) {
    const uint32_t n = uint32_t(scalar(s, s.ref(d, 0), lane));
    uint64_t& w = mbarrier_word(s, at);
    const uint64_t before = w;
    const Outcome o = mbarrier::complete_bytes(w, n);
    return finish(s, MbarrierOp::complete_tx, o, before, w, at, n, lane, address);
  });
}

/// arrive and arrive_drop, with .expect_tx.
Next op_arrive(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool drop = f.op == Op::mbarrier_arrive_drop, expects = f.has(Mod::expect_tx);
  return for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t address) {
    const uint32_t operand = d.n_src ? uint32_t(scalar(s, s.ref(d, d.n_dst), lane)) : 1;
    uint64_t& w = mbarrier_word(s, at);
    const uint64_t before = w;
    if (expects) {
      const Outcome o = mbarrier::expect_bytes(w, operand);
      const Next next = finish(s, MbarrierOp::expect_tx, o, before, w, at, operand, lane, address);
      if (next == Next::fault) return next;
    }
    const uint32_t count = expects ? 1 : operand;
    const Outcome o = drop ? mbarrier::arrive_drop(w, count) : mbarrier::arrive(w, count);
    if (d.n_dst) set_lane(s, s.ref(d, 0), lane, mbarrier::state(before));
    return finish(s, drop ? MbarrierOp::arrive_drop : MbarrierOp::arrive, o, before, w, at, count, lane, address);
  });
}

/// Puts the active lanes to rest until `word` enters another phase.
Next rest(Stepper& s, const uint64_t* word) {
  leave_rest_behind(s);
  Group& g = *s.group;
  g.state = GroupState::waiting;
  g.pc = s.pc;
  g.wait_word = word;
  g.wait_phase = uint8_t(mbarrier::phase(s.cta.cluster->mbarriers->peek(word)));
  if (s.mask == s.w.live) s.w.instructions--;  // not executed yet: for compiled code the registers are as it left them
  return Next::regroup;
}

/// The answers that the lanes get, to the observer.
void report_tests(Stepper& s, const Decoded& d, bool parity, uint32_t passed) {
  for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t) {
    const uint64_t operand = scalar(s, s.ref(d, d.n_dst), lane), w = s.cta.cluster->mbarriers->peek(at);
    MbarrierEvent e{s.where(), lane, MbarrierOp::test, at, w, w};
    e.phase = parity ? uint32_t(operand & 1) : mbarrier::phase(operand);
    e.passed = passed >> lane & 1;
    s.observer()->mbarrier(e);
    return Next::next;
  });
}

Next op_wait(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool parity = f.has(Mod::parity);
  const Ref& which = s.ref(d, d.n_dst);
  uint32_t passed = 0;
  const uint64_t* failed = nullptr;
  const Next next = for_barriers(s, d, [&](uint64_t* at, int lane, uint64_t address) {
    const uint64_t operand = scalar(s, which, lane), w = s.cta.cluster->mbarriers->look(at);
    if (mbarrier::broken(w)) return check(s, Outcome::not_live, w, 0, lane, address);
    const uint32_t phase = parity ? uint32_t(operand & 1) : mbarrier::phase(operand);
    if (mbarrier::phase(w) != phase) passed |= uint32_t{1} << lane;
    else failed = at;
    return Next::next;
  });
  if (next == Next::fault) return next;
  if (!s.group && failed) return Next::block;  // compiled code
  if (s.group) {
    if (failed && !s.group->polled) return rest(s, failed);
    if (s.observer()) report_tests(s, d, parity, passed);
    s.group->polled = false;
    s.w.poll_failed = failed != nullptr;
  }
  const Ref& r = s.ref(d, 0);
  if (r.kind != RefKind::sink) {
    uint32_t& m = *reinterpret_cast<uint32_t*>(s.frame + r.offset);
    m = (m & ~s.mask) | passed;
  }
  return Next::next;
}

Next op_pending_count(Stepper& s, const Decoded& d) {
  for_lanes(s.mask, [&](int l) { set_lane(s, s.ref(d, 0), l, mbarrier::pending_count(scalar(s, s.ref(d, 1), l))); });
  return Next::next;
}

}  // namespace

Handler find_mbarrier_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::mbarrier_init: return op_init;
    case Op::mbarrier_inval: return op_inval;
    case Op::mbarrier_expect_tx: return op_expect;
    case Op::mbarrier_complete_tx: return op_complete;
    case Op::mbarrier_arrive: case Op::mbarrier_arrive_drop: return op_arrive;
    case Op::mbarrier_test_wait: case Op::mbarrier_try_wait: return op_wait;
    case Op::mbarrier_pending_count: return op_pending_count;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
