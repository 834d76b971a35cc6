// jit/emit_branches.cc: how lanes leave a node: branches, tables, exits, and which node is next. See emitter.h. Not here: regions and
// the nodes themselves (emit_control.cc), how a warp leaves (emit_stops.cc).
#include <algorithm>

#include "exec/run_state.h"
#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using exec::Stop;
using exec::WarpContext;
using isa::Op;
using ptx::Instr;

uint32_t Emitter::successor(uint32_t target) const {
  const lower::Node& node = schedule_.nodes[node_];
  const auto& blocks = plan_.program.blocks[node.block].successors;
  const auto at = std::find(blocks.begin(), blocks.end(), target);
  return node.successors.at(size_t(at - blocks.begin()));
}

void Emitter::emit_terminator(const Instr& in) {
  if (steady_.stage == Steady::foreseen) {
    const auto& next = schedule_.nodes[node_].successors;
    b_.CreateBr(steady_.node_block[*std::find_if(next.begin(), next.end(), [&](uint32_t n) { return steady_.node_block[n]; })]);
    return;
  }
  if (in.guard.reg != ptx::kNoReg) guard_ = predicate(in.guard.reg, in.guard.negated, width_of_reg(in.guard.reg));
  switch (in.form.op) {
    case Op::bra: return emit_branch(in);
    case Op::brx: return emit_branch_table(in);
    default: return emit_exit(in);
  }
}

void Emitter::emit_branch(const Instr& in) {
  const uint32_t target = successor(in.ops[0].id);
  if (!guard_) return jump(target, mask());
  const uint32_t next = schedule_.nodes[node_].successors[0];
  if (target == next) return jump(next, mask());
  if (width_of(guard_) == 1) {
    Block *yes = block("taken"), *no = block("next");
    b_.CreateCondBr(guard_, yes, no);
    b_.SetInsertPoint(yes);
    jump(target, mask());
    b_.SetInsertPoint(no);
    jump(next, mask());
    return;
  }
  // Lanes often agree although the analysis cannot know: then the mask stays as it is.
  const bool loops_back = schedule_.nodes[target].latch;
  if (Value* same = agree(in.guard.reg, loops_back != in.guard.negated, inst_, 0)) {
    Block *together = block("together"), *apart = block("apart");
    b_.CreateCondBr(same, together, apart);
    b_.SetInsertPoint(together);
    jump(loops_back ? target : next, mask());
    b_.SetInsertPoint(apart);
  }
  Value* m = mask();
  part({{target, b_.CreateAnd(m, guard_)}, {next, b_.CreateAnd(m, b_.CreateNot(guard_))}}, false);
}

void Emitter::emit_branch_table(const Instr& in) {
  const auto& table = plan_.program.branch_tables.at(in.ops.back().id);
  std::map<uint32_t, std::vector<uint32_t>> cases;  // node -> indices
  for (uint32_t i = 0; i < table.size(); i++) cases[successor(table[i])].push_back(i);
  if (operand_width(in.ops[0]) == 1 && !is_patterned(in.ops[0]) && (!guard_ || width_of(guard_) == 1)) {
    if (guard_) {
      Block *yes = block("taken"), *no = block("next");
      b_.CreateCondBr(guard_, yes, no);
      b_.SetInsertPoint(no);
      jump(schedule_.nodes[node_].successors[0], mask());
      b_.SetInsertPoint(yes);
    }
    Block* bad = block("bad_index");
    auto* sw = b_.CreateSwitch(read_as(in.ops[0], b_.getInt32Ty(), 1), bad, unsigned(table.size()));
    b_.SetInsertPoint(bad);
    b_.CreateUnreachable();
    for (const auto& [node, indices] : cases) {
      Block* to = block("case");
      for (uint32_t i : indices) sw->addCase(b_.getInt32(i), to);
      b_.SetInsertPoint(to);
      jump(node, mask());
    }
    return;
  }
  Value *m = exec_mask(), *index = read_as(in.ops[0], b_.getInt32Ty(), 32);
  std::vector<Target> targets;
  for (const auto& [node, indices] : cases) {
    Value* here = llvm::Constant::getNullValue(m->getType());
    for (uint32_t i : indices) here = b_.CreateOr(here, b_.CreateICmpEQ(index, llvm::ConstantInt::get(index->getType(), i)));
    targets.push_back({node, b_.CreateAnd(here, m)});
  }
  if (guard_) {
    const uint32_t next = schedule_.nodes[node_].successors[0];
    Value* rest = b_.CreateAnd(mask(), b_.CreateNot(widen(guard_, 32)));
    auto same = std::find_if(targets.begin(), targets.end(), [&](const Target& t) { return t.node == next; });
    if (same != targets.end()) same->mask = b_.CreateOr(same->mask, rest);
    else targets.push_back({next, rest});
  }
  part(targets, false);
}

void Emitter::emit_exit(const Instr&) {
  const auto& successors = schedule_.nodes[node_].successors;
  Value* live_at = field(warp_, offsetof(WarpContext, live));
  auto exit_lanes = [&](Value* m) {
    b_.CreateStore(b_.CreateAnd(b_.CreateLoad(b_.getInt32Ty(), live_at), b_.CreateNot(bits_of(m))), live_at);
  };
  const bool alone = schedule_.nodes[node_].waiting.empty();  // then the warp is done: exec/ knows what that means
  if (!guard_) {
    if (!alone) exit_lanes(mask());
    return part({}, true);
  }
  if (width_of(guard_) == 1) {
    Block *yes = block("exit"), *no = block("stay");
    b_.CreateCondBr(guard_, yes, no);
    b_.SetInsertPoint(yes);
    if (!alone) exit_lanes(mask());
    part({}, true);
    b_.SetInsertPoint(no);
    return jump(successors.at(0), mask());
  }
  Value* m = mask();
  exit_lanes(b_.CreateAnd(m, guard_));
  part({{successors.at(0), b_.CreateAnd(m, b_.CreateNot(guard_))}}, true);
}

/// All lanes of `m` (at least one) go on at `node`, after the nodes before it where others wait.
void Emitter::jump(uint32_t node, Value* m) {
  if (steady_.leave) {
    Block* to = steady_.node_block[node];
    b_.CreateBr(to ? to : steady_.leave);
    return;
  }
  std::vector<uint32_t> before;
  const lower::NodeSet& waiting = schedule_.nodes[node_].waiting;
  waiting.each([&](uint32_t w) { if (w < node) before.push_back(w); });
  if (waiting_[node] && waiting.has(node)) m = b_.CreateOr(m, load_mask(waiting_[node]));
  if (before.empty()) {
    if (waiting_[node] && waiting.has(node)) b_.CreateStore(llvm::Constant::getNullValue(mask_slot_->getAllocatedType()), waiting_[node]);
    store_mask(mask_slot_, m);
    b_.CreateBr(node_block_[node]);
    return;
  }
  store_mask(waiting_[node], m);
  before.push_back(node);
  dispatch(before, true);
}

/// Lanes go different ways; each set may be empty.
void Emitter::part(const std::vector<Target>& targets, bool may_all_exit) {
  if (steady_.leave) {
    b_.CreateBr(steady_.leave);
    return;
  }
  lower::NodeSet candidates = schedule_.nodes[node_].waiting;
  uint32_t last = may_all_exit ? UINT32_MAX : 0;
  for (const Target& t : targets) {
    Value* m = t.mask;
    if (!waiting_[t.node]) {
      // Never waited for: the only place to go. The mask may be empty only when all may exit.
      waiting_[t.node] = new_alloca(mask_slot_->getAllocatedType(), "waiting");
    }
    if (candidates.has(t.node)) m = b_.CreateOr(m, load_mask(waiting_[t.node]));
    store_mask(waiting_[t.node], m);
    candidates.add(t.node);
    last = std::max(last, t.node);
  }
  std::vector<uint32_t> order;
  candidates.each([&](uint32_t c) { if (c <= last) order.push_back(c); });
  dispatch(order, !may_all_exit);
}

void Emitter::take(uint32_t node) {
  store_mask(mask_slot_, load_mask(waiting_[node]));
  b_.CreateStore(llvm::Constant::getNullValue(mask_slot_->getAllocatedType()), waiting_[node]);
  b_.CreateBr(node_block_[node]);
}

void Emitter::dispatch(const std::vector<uint32_t>& candidates, bool last_is_certain) {
  for (size_t i = 0; i < candidates.size(); i++) {
    if (last_is_certain && i + 1 == candidates.size()) return take(candidates[i]);
    Block *here = block("take"), *next = block("skip");
    b_.CreateCondBr(any(load_mask(waiting_[candidates[i]])), here, next);
    b_.SetInsertPoint(here);
    take(candidates[i]);
    b_.SetInsertPoint(next);
  }
  return_done();
}

void Emitter::return_done() {
  publish_count();
  give_back(b_.getInt32(uint32_t(Stop::done)));
}

}  // namespace orrery::jit
