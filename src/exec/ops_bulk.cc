// exec/ops_bulk.cc: bulk copies and reductions of contiguous bytes (cp.async.bulk, cp.reduce.async.bulk), their groups.
//
// Addresses are multiples of 16 bytes, else the GPU's fault is raised; sizes are cut to such a multiple. A multicast copy
// writes the same offset of every named block and tells the mbarrier at the same offset there.
// Source: PTX ISA manual, cp.async.bulk.
#include "exec/async.h"
#include "exec/later.h"
#include "exec/reduce.h"
#include "exec/tma.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;

namespace {

constexpr uint32_t kUnit = 16;

struct Ends {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0, asked = 0;  // whole units; what the instruction says
};

/// Both ends of a bulk copy; `to` is null after a fault was recorded.
Ends find_ends(Stepper& s, const Decoded& d, int lane) {
  const isa::Form& f = d.instr->form;
  Ends e;
  e.asked = uint32_t(scalar(s, s.ref(d, 0), lane));
  e.bytes = e.asked / kUnit * kUnit;
  const uint64_t to = s.address(s.code->addresses[d.address], lane), from = s.address(s.code->addresses[d.address + 1], lane);
  e.from = translate(s, f.space(1), from, uint32_t(e.bytes), kUnit, lane, false);
  if (e.from) e.to = translate(s, f.space(0), to, uint32_t(e.bytes), kUnit, lane, true);
  return e;
}

/// The value of the multicast mask: the operand after the size.
uint32_t multicast_mask(Stepper& s, const Decoded& d, int lane) { return uint32_t(scalar(s, s.ref(d, 1), lane)) & 0xFFFF; }

/// Copies to shared memory and tells the mbarrier there, now or later.
Next deliver(Stepper& s, uint64_t* bar, const Ends& e, std::byte* to, int lane) {
  return in_time(s, Later::Kind::mbarrier, lane, [=](Stepper& t) {
    std::memmove(to, e.from, e.bytes);
    return complete_bytes(t, bar, e.bytes, lane) ? Next::next : Next::fault;
  });
}

Next copy_to_blocks(Stepper& s, const Decoded& d, const Ends& e, int lane) {
  const uint64_t bar_address = s.address(s.code->addresses[d.address + 2], lane);
  uint64_t* bar = mbarrier_at(s, d.instr->form.space(0), bar_address, lane);
  if (!bar) return Next::fault;
  const ByteRange in{e.from, e.bytes, isa::Space::global != d.instr->form.space(1)}, out{e.to, e.bytes, true};
  if (!d.instr->form.has(Mod::multicast_cluster)) {
    report_async(s, AsyncKind::bulk, lane, {&in, 1}, {&out, 1}, bar, e.asked);
    return deliver(s, bar, e, e.to, lane);
  }
  const uint64_t to = shared_offset(s, e.to), at = shared_offset(s, bar);
  for (uint32_t m = multicast_mask(s, d, lane); m; m &= m - 1) {
    const uint32_t rank = uint32_t(std::countr_zero(m));
    if (rank >= s.cta.cluster->n)
      return s.fault(FaultKind::trap, lane, m, fmt::format("multicast to block {} of a cluster of {}", rank, s.cta.cluster->n));
    const ByteRange there{in_block(s, rank, to), e.bytes, true};
    report_async(s, AsyncKind::bulk, lane, {&in, 1}, {&there, 1}, reinterpret_cast<uint64_t*>(in_block(s, rank, at)), e.asked);
    if (deliver(s, reinterpret_cast<uint64_t*>(in_block(s, rank, at)), e, in_block(s, rank, to), lane) == Next::fault) return Next::fault;
  }
  return Next::next;
}

/// Shared to global; with .cp_mask only the bytes of each 16 whose bit is set.
void copy_to_global(Stepper& s, const Decoded& d, const Ends& e, int lane) {
  const ByteRange in{e.from, e.bytes, true}, out{e.to, e.bytes, false};
  report_async(s, AsyncKind::bulk, lane, {&in, 1}, {&out, 1}, nullptr, e.asked);
  const uint32_t mask = d.instr->form.has(Mod::cp_mask) ? uint32_t(scalar(s, s.ref(d, d.n_src - 1), lane)) : 0xFFFF;
  in_time(s, Later::Kind::group, lane, [=](Stepper&) {
    if (mask == 0xFFFF) std::memcpy(e.to, e.from, e.bytes);
    else
      for (uint64_t i = 0; i < e.bytes; i++)
        if (mask >> (i % 16) & 1) e.to[i] = e.from[i];
    return Next::next;
  });
}

Next op_bulk_copy(Stepper& s, const Decoded& d) {
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Ends e = find_ends(s, d, lane);
    if (!e.to) return Next::fault;
    if (d.instr->form.has(Mod::bulk_group)) copy_to_global(s, d, e, lane);
    else if (copy_to_blocks(s, d, e, lane) == Next::fault) return Next::fault;
  }
  return Next::next;
}

Next op_bulk_reduce(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const Type type = f.types[f.n_types - 1];
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Ends e = find_ends(s, d, lane);
    if (!e.to) return Next::fault;
    const bool grouped = f.has(Mod::bulk_group);
    uint64_t* bar = grouped ? nullptr : mbarrier_at(s, f.space(0), s.address(s.code->addresses[d.address + 2], lane), lane);
    if (!grouped && !bar) return Next::fault;
    const ByteRange in{e.from, e.bytes, true}, out{e.to, e.bytes, !grouped};
    report_async(s, AsyncKind::bulk, lane, {&in, 1}, {&out, 1}, bar, e.asked, true);
    const Next next = in_time(s, grouped ? Later::Kind::group : Later::Kind::mbarrier, lane, [=, &d](Stepper& t) {
      if (!reduce(e.to, e.from, e.bytes, type, reduce_kind(d.instr->form), false)) return refuse(t, d);
      return grouped || complete_bytes(t, bar, e.bytes, lane) ? Next::next : Next::fault;
    });
    if (next == Next::fault) return next;
  }
  return Next::next;
}

/// A prefetch changes nothing; it may name any memory, in line.
Next op_prefetch(Stepper& s, const Decoded& d) {
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t address = s.address(s.code->addresses[d.address], lane);
    if (address % kUnit) return s.fault(FaultKind::misaligned_address, lane, address, fmt::format("address {:#x} is not a multiple of {}", address, kUnit));
  }
  return Next::next;
}
Next op_commit(Stepper& s, const Decoded&) { return commit_group(s, Later::Kind::group); }
Next op_wait(Stepper& s, const Decoded& d) {
  const Next next = wait_group(s, Later::Kind::group, uint32_t(s.ref(d, 0).value), false);
  if (!d.instr->form.has(Mod::read)) settle_stores();
  return next;
}

}  // namespace

Handler find_bulk_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::cp_async_bulk: return op_bulk_copy;
    case Op::cp_reduce_async_bulk: return op_bulk_reduce;
    case Op::cp_async_bulk_prefetch: return op_prefetch;
    case Op::cp_async_bulk_commit_group: return op_commit;
    case Op::cp_async_bulk_wait_group: return op_wait;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
