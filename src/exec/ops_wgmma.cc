// exec/ops_wgmma.cc: wgmma, the matrix instructions of a warpgroup (four warps, ranks 4i to 4i + 3).
//
// Each warp has its own 16 of the 64 rows. An instruction is carried out when its group is waited for, for all four warps at
// once (wgmma_queue.h), or at its issue in kernels that touch accumulators in flight: ptxas makes those wait at once, too. A
// program may take the end of wait_group in one warp as the end of all four warps' reads of shared memory (it then lets
// the next tile come in), so wait_group holds a warp until the others have issued the same groups.
//
// Invariant: WarpContext::wgmma_groups counts the groups a warp has committed.
// Not here: sums, descriptors and fragments (sem/tensor.h). Source: PTX ISA manual, wgmma.
#include <algorithm>

#include "exec/async.h"
#include "exec/interpreter.h"
#include "exec/tensor_operands.h"
#include "exec/wgmma_queue.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Type;

namespace {

constexpr int kMaxAccumulators = 128;
constexpr uint32_t kWarps = 4;

/// Reads operands in the order A, B, metadata, selector, scale-d, scale-a, scale-b, transposes.
sem::WgmmaOperands read_operands(Stepper& s, const Decoded& d, const void** a_registers) {
  const isa::Form& f = d.instr->form;
  const ptx::Operand& a = d.instr->ops[1];
  const int lane = std::countr_zero(s.mask);
  int ref = d.n_dst;
  auto next = [&] { return scalar(s, s.ref(d, ref++), lane); };
  sem::WgmmaOperands o;
  o.warp = int(s.w.warp_id % kWarps);
  if (a.kind == ptx::OperandKind::vec) {
    for (size_t i = 0; i < a.parts.size(); i++, ref++) a_registers[i] = s.source(s.ref(d, ref), int(i));
    o.a = a_registers;
  } else {
    o.a_desc = next();
  }
  o.b_desc = next();
  if (f.op == Op::wgmma_mma_async_sp) {
    o.metadata = s.source(s.ref(d, ref++), 4);
    o.selector = int(next());
  }
  const int end = d.n_dst + d.n_src;
  if (ref < end) o.keep = next() != 0;
  if (ref < end) o.scale_a = int32_t(next());
  if (ref < end) o.scale_b = int32_t(next());
  if (!o.a && ref + 1 < end) o.trans_a = next() != 0;
  if (ref < end) o.trans_b = next() != 0;
  o.shared = reinterpret_cast<const uint8_t*>(s.cta.shared);
  o.shared_bytes = s.cta.shared_bytes;
  return o;
}

/// Tells the observer of the shared memory that a wgmma reads: `units` are addresses of 16 bytes each.
void report_wgmma(Stepper& s, std::vector<uint32_t>& units) {
  std::sort(units.begin(), units.end());
  std::vector<ByteRange> reads;
  for (const uint32_t at : units) {
    const std::byte* p = s.cta.shared + at;
    if (!reads.empty() && p < reads.back().begin + reads.back().bytes) continue;
    if (!reads.empty() && p == reads.back().begin + reads.back().bytes) reads.back().bytes += 16;
    else reads.push_back({p, 16, true});
  }
  report_async(s, AsyncKind::wgmma, std::countr_zero(s.mask), reads, {}, nullptr, 0);
}

/// Reports what the instruction reads, which nobody has asked it for yet.
void visit(Stepper& s, const Decoded& d, sem::WgmmaOperands o) {
  std::vector<uint32_t> units;
  o.visited = &units;
  sem::visit_wgmma(d.instr->form, o);
  report_wgmma(s, units);
}

Next op_wgmma(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  const void* a[8];
  const sem::WgmmaOperands o = read_operands(s, d, a);
  if (s.observer()) visit(s, d, o);
  if (d.extra) {
    s.cta.cluster->wgmma->add(s, d, o);
    return Next::next;
  }
  void* to[kMaxAccumulators];
  const Ref* const refs = &s.ref(d, 0);
  std::byte* const frame = s.frame;
  for (int i = 0, n = d.n_dst; i < n; i++) to[i] = frame + refs[i].offset;
  return sem::run_wgmma(d.instr->form, to, o, numerics_of(s)) ? Next::next : wgmma_outside(s, o);
}

Next op_nothing(Stepper&, const Decoded&) { return Next::next; }

uint32_t first_warp(const Stepper& s) { return s.w.warp_id / kWarps * kWarps; }
uint32_t end_warp(const Stepper& s) { return std::min(first_warp(s) + kWarps, s.cta.n_warps); }

Next op_commit(Stepper& s, const Decoded&) {
  s.w.wgmma_groups++;
  for (uint32_t w = first_warp(s); w < end_warp(s); w++) {
    WarpContext& other = s.cta.warps[w];
    for (uint32_t i = 0; i < other.n_groups; i++) {
      Group& g = other.groups[i];
      if (g.state == GroupState::waiting && !g.wait_word) g.state = GroupState::ready;
    }
  }
  return Next::next;
}

Next op_wait(Stepper& s, const Decoded& d) {
  const uint32_t pending = uint32_t(s.ref(d, 0).value);
  if (s.w.wgmma_groups <= pending) return Next::next;
  const uint32_t needed = s.w.wgmma_groups - pending;
  for (uint32_t w = first_warp(s); w < end_warp(s); w++) {
    const WarpContext& other = s.cta.warps[w];
    if (!other.live || other.wgmma_groups >= needed) continue;
    if (!s.group) return Next::block;  // compiled code
    leave_rest_behind(s);
    s.group->state = GroupState::waiting;
    s.group->wait_word = nullptr;
    s.group->pc = s.pc;
    if (s.mask == s.w.live) s.w.instructions--;  // not executed yet: for compiled code the registers are as it left them
    return Next::regroup;
  }
  return s.cta.cluster->wgmma->empty() ? Next::next : s.cta.cluster->wgmma->carry_out(s, needed);
}

}  // namespace

Next wgmma_outside(Stepper& s, const sem::WgmmaOperands& o) {
  return s.fault(FaultKind::illegal_address, std::countr_zero(s.mask), o.a ? o.b_desc : o.a_desc,
                 fmt::format("a wgmma matrix descriptor points beyond the block's {} bytes of shared memory (descriptor of A {:#x}, of B {:#x})",
                             s.cta.shared_bytes - lower::kSharedStart, o.a_desc, o.b_desc));
}

Handler find_wgmma_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::wgmma_mma_async: case Op::wgmma_mma_async_sp: return sem::can_wgmma(form) ? op_wgmma : nullptr;
    case Op::wgmma_fence: return op_nothing;
    case Op::wgmma_commit_group: return op_commit;
    case Op::wgmma_wait_group: return op_wait;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
