// exec/ops_control.cc: branches, calls, return, exit, trap, and the functions that the system provides to device code.
//
// A function of the module gets a call frame for the lanes that call it; lanes of one call that part inside share the
// frame, since each lane owns its column of registers. Source: PTX ISA manual, control flow; CUDA programming guide
// for vprintf, malloc, free and __assertfail.
#include <sys/mman.h>

#include <map>

#include "exec/builtins.h"
#include "exec/interpreter.h"
#include "exec/stepper.h"

namespace orrery::exec {

using isa::Op;
using ptx::BaseKind;
using ptx::Operand;
using ptx::OperandKind;

void leave_rest_behind(Stepper& s) {
  const uint32_t rest = s.group->mask & ~s.mask;
  if (!rest) return;
  Group other = *s.group;
  other.mask = rest;
  other.pc = s.pc + 1;
  s.group->mask = s.mask;
  add_group(s.w) = other;
}

namespace {

Next op_bra(Stepper& s, const Decoded& d) {
  if (s.mask == s.group->mask) return Next::jump;
  leave_rest_behind(s);
  s.group->pc = d.target;
  return Next::regroup;
}

Next op_brx(Stepper& s, const Decoded& d) {
  const std::vector<uint32_t>& table = s.code->tables[d.instr->ops.back().id];
  leave_rest_behind(s);
  std::map<uint32_t, uint32_t> by_target;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t index = s.value(s.ref(d, 0), 0, lane);
    if (index >= table.size())
      return s.fault(FaultKind::invalid_pc, lane, index, fmt::format("brx.idx index {} is outside its {} targets", index, table.size()));
    by_target[table[index]] |= uint32_t{1} << lane;
  }
  const Group base = *s.group;
  bool first = true;
  for (auto [target, mask] : by_target) {
    Group& g = first ? *s.group : add_group(s.w);
    if (!first) g = base;
    g.pc = target;
    g.mask = mask;
    first = false;
  }
  return Next::regroup;
}

Next op_exit(Stepper& s, const Decoded&) {
  Group& g = *s.group;
  const uint32_t mask = s.mask;
  g.pc = s.pc + 1;
  if (Observer* o = s.observer()) o->exit(s.where());
  exit_lanes(s.run, s.w, g, mask);
  check_warp_sync(s.w);
  check_barriers(s.cta);
  if (s.cta.cluster) check_cluster_barrier(*s.cta.cluster);
  return Next::regroup;
}

// ---- calls ----

std::byte* local_of(Stepper& s, uint32_t base, int lane, int64_t offset) {
  return s.w.local + uint64_t(lane) * s.w.local_stride + base + uint64_t(offset);
}

/// Copies one argument or result between a caller's operand and a callee's formal (a register or local memory).
struct Formal {
  uint32_t reg = lower::kNone;  // register, or
  uint32_t offset = 0, size = 0;  // place in the callee's local frame
};

Formal formal(const DecodedProgram& callee, uint32_t index) {
  const ptx::Var& v = callee.program->source->locals[index];
  const lower::Param& p = callee.program->params[index];
  if (v.is_reg) return {v.reg, 0, 0};
  return {lower::kNone, p.offset, p.size};
}

void read_register(const std::byte* frame, const lower::Register& r, int lane, uint64_t out[2]) {
  const std::byte* p = frame + r.offset;
  out[1] = 0;
  if (r.kind == lower::RegKind::pred) out[0] = *reinterpret_cast<const uint32_t*>(p) >> lane & 1;
  else if (r.kind == lower::RegKind::word) out[0] = reinterpret_cast<const uint32_t*>(p)[lane];
  else out[0] = reinterpret_cast<const uint64_t*>(p)[lane];
  if (r.kind == lower::RegKind::qword) out[1] = reinterpret_cast<const uint64_t*>(p)[32 + lane];
}

void write_register(std::byte* frame, const lower::Register& r, int lane, const uint64_t in[2]) {
  std::byte* p = frame + r.offset;
  if (r.kind == lower::RegKind::pred) {
    uint32_t& m = *reinterpret_cast<uint32_t*>(p);
    m = (m & ~(uint32_t{1} << lane)) | uint32_t(in[0] & 1) << lane;
  } else if (r.kind == lower::RegKind::word) {
    reinterpret_cast<uint32_t*>(p)[lane] = uint32_t(in[0]);
  } else {
    reinterpret_cast<uint64_t*>(p)[lane] = in[0];
    if (r.kind == lower::RegKind::qword) reinterpret_cast<uint64_t*>(p)[32 + lane] = in[1];
  }
}

void pass_argument(Stepper& s, const Operand& o, const Formal& f, const DecodedProgram& callee, std::byte* frame,
                   uint32_t callee_local) {
  const lower::Program& caller = *s.code->program;
  for_lanes(s.mask, [&](int lane) {
    uint64_t v[2] = {uint64_t(o.value), 0};
    if (o.kind == OperandKind::local_var) {
      const std::byte* from = local_of(s, s.local_base(), lane, o.value);
      if (f.reg == lower::kNone) {
        std::memcpy(local_of(s, callee_local, lane, f.offset), from, f.size);
        return;
      }
      std::memcpy(v, from, 8);
    } else if (o.kind == OperandKind::reg) {
      read_register(s.frame, caller.regs[o.id], lane, v);
    }
    if (f.reg != lower::kNone) write_register(frame, callee.program->regs[f.reg], lane, v);
    else std::memcpy(local_of(s, callee_local, lane, f.offset), v, std::min<uint32_t>(f.size, 16));
  });
}

Next call_function(Stepper& s, const Decoded& d, uint32_t function, uint32_t mask) {
  const DecodedProgram* callee = function < s.run.kernel.functions.size() ? s.run.kernel.functions[function].get() : nullptr;
  const int lane = std::countr_zero(mask);
  if (!callee) return s.fault(FaultKind::invalid_pc, lane, 0, "call of a function that has no code");
  const uint32_t base = s.local_base() + s.code->program->local_bytes;
  if (base + callee->program->local_bytes > s.w.local_stride || (s.call && s.call->depth >= 20000))
    return s.fault(FaultKind::stack_overflow, lane, 0,
                   fmt::format("calls nest deeper than the thread's {} bytes of stack; raise cudaLimitStackSize", s.w.local_stride));
  CallFrame* f = new CallFrame;
  f->code = callee;
  f->registers = static_cast<std::byte*>(std::aligned_alloc(64, std::max(64u, callee->program->frame_bytes)));
  f->local_base = base;
  f->return_pc = s.pc + 1;
  f->call = &d;
  f->caller = s.call;
  f->lanes = mask;
  f->depth = s.call ? s.call->depth + 1 : 1;
  s.mask = mask;
  const ptx::Function& source = *callee->program->source;
  const auto& args = d.instr->ops.size() > 2 ? d.instr->ops[2].parts : std::vector<Operand>{};
  for (uint32_t i = 0; i < args.size() && i < source.n_params; i++)
    pass_argument(s, args[i], formal(*callee, source.n_rets + i), *callee, f->registers, base);
  s.group->frame = f;
  s.group->pc = 0;
  return Next::regroup;
}

Next op_call(Stepper& s, const Decoded& d) {
  const Operand& target = d.instr->ops[1];
  if (target.kind == OperandKind::func) {
    const ptx::Function& f = s.code->program->module->functions[target.id];
    if (!f.has_body) return call_system_function(s, d, f);
    leave_rest_behind(s);
    return call_function(s, d, target.id, s.mask);
  }
  // Indirect: lanes with one target call together, one group per target.
  leave_rest_behind(s);
  std::map<uint64_t, uint32_t> by_target;
  const lower::Register& r = s.code->program->regs[target.id];
  for_lanes(s.mask, [&](int lane) {
    uint64_t v[2];
    read_register(s.frame, r, lane, v);
    by_target[v[0]] |= uint32_t{1} << lane;
  });
  const Group base = *s.group;
  bool first = true;
  for (auto [pointer, mask] : by_target) {
    const auto it = s.run.kernel.function_at.find(pointer);
    if (it == s.run.kernel.function_at.end())
      return s.fault(FaultKind::invalid_pc, std::countr_zero(mask), pointer, fmt::format("call through {:#x}, which is no function", pointer));
    if (!first) s.group = &(add_group(s.w) = base);
    s.group->mask = mask;
    if (call_function(s, d, it->second, mask) == Next::fault) return Next::fault;
    first = false;
  }
  return Next::regroup;
}

void pass_results(Stepper& s, const CallFrame& f, uint32_t mask) {
  const auto& results = f.call->instr->ops[0].parts;
  std::byte* to_frame = f.caller ? f.caller->registers : s.w.frame;
  const uint32_t caller_local = f.caller ? f.caller->local_base : 0;
  const DecodedProgram& caller = f.caller ? *f.caller->code : *s.run.kernel.entry;
  for (uint32_t i = 0; i < results.size() && i < f.code->program->source->n_rets; i++) {
    const Formal from = formal(*f.code, i);
    for_lanes(mask, [&](int lane) {
      uint64_t v[2] = {0, 0};
      if (from.reg != lower::kNone) read_register(f.registers, f.code->program->regs[from.reg], lane, v);
      const Operand& o = results[i];
      if (o.kind == OperandKind::local_var) {
        std::byte* to = local_of(s, caller_local, lane, o.value);
        if (from.reg == lower::kNone) std::memcpy(to, local_of(s, f.local_base, lane, from.offset), from.size);
        else std::memcpy(to, v, 8);
      } else if (o.kind == OperandKind::reg) {
        if (from.reg == lower::kNone) std::memcpy(v, local_of(s, f.local_base, lane, from.offset), std::min<uint32_t>(from.size, 16));
        write_register(to_frame, caller.program->regs[o.id], lane, v);
      }
    });
  }
}

Next op_ret(Stepper& s, const Decoded& d) {
  CallFrame* f = s.group->frame;
  if (!f) return op_exit(s, d);
  leave_rest_behind(s);
  pass_results(s, *f, s.mask);
  f->lanes &= ~s.mask;
  s.group->frame = f->caller;
  s.group->pc = f->return_pc;
  if (!f->lanes) {
    std::free(f->registers);
    delete f;
  }
  return Next::regroup;
}

Next op_trap(Stepper& s, const Decoded&) {
  return s.fault(FaultKind::trap, std::countr_zero(s.mask), 0, "the kernel executed trap");
}

Next op_nanosleep(Stepper& s, const Decoded&) {
  s.cta.clock += 64;
  return Next::next;
}

Next op_nothing(Stepper&, const Decoded&) { return Next::next; }

}  // namespace

Handler find_control_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::bra: return op_bra;
    case Op::brx: return op_brx;
    case Op::exit: return op_exit;
    case Op::ret: return op_ret;
    case Op::call: return op_call;
    case Op::trap: return op_trap;
    case Op::brkpt: case Op::setmaxnreg: return op_nothing;
    case Op::nanosleep: return op_nanosleep;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
