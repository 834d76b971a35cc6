// lower/flow.h: the control-flow graph of a program: block order, loops, post-dominators, liveness.
//
// Works on programs whose code is resolved but still in the order of the text. Not here: anything about lanes.
#pragma once
#include <vector>

#include "lower/program.h"

namespace orrery::lower {

/// Cuts `code` into blocks, orders them (reverse post-order, loops contiguous, unreachable blocks dropped), rewrites
/// label operands of `code` and the branch tables to block numbers and inserts the branches that reordering needs.
/// `label_targets[i]` is the instruction that label i stands before.
void build_blocks(Program& program, const std::vector<uint32_t>& label_targets);

/// Fills ipdom of every block.
void find_post_dominators(Program& program);

/// Fills live_in of every block.
void find_live_registers(Program& program);

/// Gives every register a place in the frame; registers that are never live together share it.
void place_registers(Program& program);

/// All of the above in order, and the hash: what is left to do when code, registers and branch tables (of labels) are there.
void finish_program(Program& program, const std::vector<uint32_t>& label_targets);

/// Calls `def(reg)` for registers written and `use(reg)` for registers read by `instr` (guard included).
template <class Def, class Use>
void for_registers(const ptx::Instr& instr, Def def, Use use);

/// How many leading operands of `instr` are destinations.
int destinations(const ptx::Instr& instr);

/// True when the first operand is read as well as written (the accumulators of wgmma).
bool updates_destination(const ptx::Instr& instr);

/// True when control never goes on to the next instruction (an unguarded bra, ret, exit, trap, brx).
bool ends_block(const ptx::Instr& instr);

template <class F>
void for_operand_registers(const ptx::Operand& o, F f) {
  if (o.kind == ptx::OperandKind::reg || (o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg)) f(o.id);
  for (const ptx::Operand& part : o.parts) for_operand_registers(part, f);
}

template <class Def, class Use>
void for_registers(const ptx::Instr& instr, Def def, Use use) {
  if (instr.guard.reg != ptx::kNoReg) use(instr.guard.reg);
  const int n_dst = destinations(instr);
  for (int i = 0; i < int(instr.ops.size()); i++) {
    const ptx::Operand& o = instr.ops[i];
    const bool value = o.kind == ptx::OperandKind::reg || o.kind == ptx::OperandKind::vec || o.kind == ptx::OperandKind::pair;
    if (i < n_dst && value) for_operand_registers(o, def);
    if (i >= n_dst || !value || (i == 0 && updates_destination(instr))) for_operand_registers(o, use);
  }
}

}  // namespace orrery::lower
