// jit/refusal.cc: see refusal.h.
#include "jit/refusal.h"

#include <vector>

#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr uint32_t kAll = 0xFFFFFFFF;

/// Registers whose only definition is the constant "all lanes".
std::vector<uint8_t> full_masks(const lower::Program& p) {
  std::vector<uint8_t> definitions(p.regs.size(), 0), full(p.regs.size(), 0);
  for (const Instr& i : p.code)
    lower::for_registers(i, [&](uint32_t r) { if (definitions[r] < 2) definitions[r]++; }, [](uint32_t) {});
  for (const Instr& i : p.code)
    if (i.form.op == Op::mov && i.guard.reg == ptx::kNoReg && i.ops.size() == 2 && i.ops[0].kind == OperandKind::reg &&
        i.ops[1].kind == OperandKind::imm && uint32_t(i.ops[1].value) == kAll && definitions[i.ops[0].id] == 1)
      full[i.ops[0].id] = 1;
  return full;
}

bool names_members(const Instr& i) {
  switch (i.form.op) {
    case Op::shfl: case Op::vote: return i.form.has(Mod::sync);
    case Op::match: case Op::redux: case Op::elect: case Op::bar_warp: return true;
    default: return false;
  }
}

bool narrow_float(const Instr& i) {
  for (int t = 0; t < i.form.n_types; t++)
    switch (i.form.type(t)) {
      case isa::Type::e4m3x2: case isa::Type::e5m2x2: return true;
      default: break;
    }
  return false;
}

/// A loop that looks at memory which another thread, perhaps of the same warp, has to change first.
bool waits_for_memory(const lower::Program& p, uint32_t pc) {
  const isa::Form& f = p.code[pc].form;
  const bool looks = f.op == Op::atom || f.op == Op::mbarrier_try_wait || f.op == Op::mbarrier_test_wait ||
                      (f.op == Op::ld && (f.has(Mod::volatile_) || f.has(Mod::acquire) || f.has(Mod::relaxed) || f.has(Mod::mmio)));
  const uint32_t header = p.blocks[p.block_of[pc]].loop_header;
  return looks && header != lower::kNone && p.blocks[header].may_spin;
}

}  // namespace

const char* reason_to_interpret(const lower::Program& p) {
  const std::vector<uint8_t> full = full_masks(p);
  for (uint32_t pc = 0; pc < p.code.size(); pc++) {
    const Instr& i = p.code[pc];
    if (names_members(i)) {
      const Operand& members = i.ops.back();
      const bool all = (members.kind == OperandKind::imm && uint32_t(members.value) == kAll) ||
                       (members.kind == OperandKind::reg && full[members.id]);
      if (!all) return "a warp-wide instruction names some of the lanes: lanes may name different sets";
    }
    if (i.form.op == Op::cvt && narrow_float(i)) return "conversion to or from an 8-bit float";
    if (waits_for_memory(p, pc)) return "a loop may wait for what other threads write";
  }
  return "";
}

}  // namespace orrery::jit
