// exec/ops_copy.cc: copies that a thread starts for itself: cp.async with groups and mbarrier arrival, st.async and
// red.async.
//
// The copy is done at issue, so commit_group and wait_group have nothing left to do, and an mbarrier arrival that
// stands for earlier copies happens at once; a checked run puts all of them off (later.h). Source: PTX ISA manual, cp.async, st.async, red.async.
#include "exec/async.h"
#include "exec/later.h"
#include "exec/reduce.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;
using mbarrier::Outcome;

namespace {

/// Bytes to read of a cp.async: all, the source-size operand, or none when the ignore-source predicate is set.
uint32_t source_bytes(Stepper& s, const Decoded& d, int lane, uint32_t size) {
  if (d.n_src < 2 || (d.n_src == 2 && d.instr->form.has(Mod::L2_cache_hint))) return size;
  const Ref& r = s.ref(d, 1);
  const uint64_t v = scalar(s, r, lane);
  if (r.bits == 1) return v ? 0 : size;
  return uint32_t(v);
}

Next op_cp_async(Stepper& s, const Decoded& d) {
  const AddressRef &to = s.code->addresses[d.address], &from = s.code->addresses[d.address + 1];
  const uint32_t size = uint32_t(s.ref(d, 0).value);
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint32_t n = source_bytes(s, d, lane, size);
    if (n > size) return s.fault(FaultKind::illegal_instruction, lane, n, fmt::format("cp.async of {} bytes has a source size of {}", size, n));
    std::byte* p = translate(s, Space::shared, s.address(to, lane), size, size, lane, true);
    if (!p) return Next::fault;
    const std::byte* q = nullptr;
    if (n && !(q = translate(s, Space::global, s.address(from, lane), n, n == size ? size : 1, lane, false))) return Next::fault;
    const ByteRange in{q, n, false}, out{p, size, true};
    report_async(s, AsyncKind::cp_async, lane, {&in, n ? 1u : 0u}, {&out, 1}, nullptr, 0);
    in_time(s, Later::Kind::cp_async, lane, [=](Stepper&) {
      std::byte piece[16] = {};
      if (n) std::memcpy(piece, q, n);
      std::memcpy(p, piece, size);
      return Next::next;
    });
  }
  return Next::next;
}

Next op_commit(Stepper& s, const Decoded&) { return commit_group(s, Later::Kind::cp_async); }
Next op_wait(Stepper& s, const Decoded& d) { return wait_group(s, Later::Kind::cp_async, uint32_t(s.ref(d, 0).value), false); }
Next op_wait_all(Stepper& s, const Decoded&) { return wait_group(s, Later::Kind::cp_async, 0, true); }

/// All earlier copies are done. Without .noinc the arrival was not counted in the barrier's expectation: it is added
/// and taken back, which must not leave the phase as it was when nothing else is pending.
Next op_arrive(Stepper& s, const Decoded& d) {
  const AddressRef& a = s.code->addresses[d.address];
  const isa::Form& f = d.instr->form;
  const bool counted = f.has(Mod::noinc);
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t address = s.address(a, lane);
    uint64_t* w = mbarrier_at(s, f.n_spaces ? f.space() : Space::none, address, lane);
    if (!w) return Next::fault;
    uint64_t& word = mbarrier_word(s, w);
    const uint64_t at_issue = word;
    const Outcome added = counted ? Outcome::ok : mbarrier::add_pending(word);
    if (check(s, added, at_issue, 1, lane, address) == Next::fault) return Next::fault;
    const Next next = in_time(s, Later::Kind::mbarrier, lane, [=](Stepper& t) {
      uint64_t& now = mbarrier_word(t, w);
      const uint64_t before = now;
      const Outcome o = mbarrier::arrive(now, 1);
      note_mbarrier(t, MbarrierAct::arrive, w, before, now, 1, lane);
      if (Observer* observer = t.observer()) {
        MbarrierEvent e{t.where(), lane, MbarrierOp::arrive, w, before, now, 1};
        e.refused = o != Outcome::ok;
        e.by_copy = true;
        observer->mbarrier(e);
      }
      return check(t, o, before, 1, lane, address);
    });
    if (next == Next::fault) return next;
  }
  return Next::next;
}

bool of_sm_100(const isa::Form& f) { return !f.has(Mod::mbarrier_complete_tx_bytes); }

Next op_st_async(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  if (of_sm_100(f)) return refuse(s, d);
  const AddressRef &to = s.code->addresses[d.address], &bar = s.code->addresses[d.address + 1];
  const Space space = f.n_spaces ? f.space() : Space::none;
  const uint32_t bytes = uint32_t(isa::bytes_of(f.type())), total = bytes * d.n_src;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    std::byte* p = translate(s, space, s.address(to, lane), total, total, lane, true);
    if (!p) return Next::fault;
    uint64_t* w = mbarrier_at(s, space, s.address(bar, lane), lane);
    if (!w) return Next::fault;
    const ByteRange out{p, total, true};
    report_async(s, AsyncKind::st_async, lane, {}, {&out, 1}, w, total);
    std::array<std::byte, 32> value = {};
    for (int i = 0; i < d.n_src; i++) {
      const uint64_t v = s.value(s.ref(d, i), i, lane);
      std::memcpy(value.data() + uint32_t(i) * bytes, &v, bytes);
    }
    const Next next = in_time(s, Later::Kind::mbarrier, lane, [=](Stepper& t) {
      std::memcpy(p, value.data(), total);
      return complete_bytes(t, w, total, lane) ? Next::next : Next::fault;
    });
    if (next == Next::fault) return next;
  }
  return Next::next;
}

Next op_red_async(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  if (of_sm_100(f)) return refuse(s, d);
  const AddressRef &to = s.code->addresses[d.address], &bar = s.code->addresses[d.address + 1];
  const Space space = f.n_spaces ? f.space() : Space::none;
  const uint32_t bytes = uint32_t(isa::bytes_of(f.type()));
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    std::byte* p = translate(s, space, s.address(to, lane), bytes, bytes, lane, true);
    if (!p) return Next::fault;
    uint64_t* w = mbarrier_at(s, space, s.address(bar, lane), lane);
    if (!w) return Next::fault;
    const ByteRange out{p, bytes, true};
    report_async(s, AsyncKind::red_async, lane, {}, {&out, 1}, w, bytes, true);
    const uint64_t v = s.value(s.ref(d, 0), 0, lane);
    const Next next = in_time(s, Later::Kind::mbarrier, lane, [=, &f](Stepper& t) {
      reduce(p, reinterpret_cast<const std::byte*>(&v), bytes, f.type(), reduce_kind(f), false);
      return complete_bytes(t, w, bytes, lane) ? Next::next : Next::fault;
    });
    if (next == Next::fault) return next;
  }
  return Next::next;
}

}  // namespace

Handler find_copy_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::cp_async: return op_cp_async;
    case Op::cp_async_commit_group: return op_commit;
    case Op::cp_async_wait_group: return op_wait;
    case Op::cp_async_wait_all: return op_wait_all;
    case Op::cp_async_mbarrier_arrive: return op_arrive;
    case Op::st_async: return op_st_async;
    case Op::red_async: return op_red_async;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
