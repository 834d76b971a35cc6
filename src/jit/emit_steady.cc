// jit/emit_steady.cc: the row loop (rows.h) once more, for rounds in which nothing special happens. See emitter.h.
//
// A turn of emit_turns.cc carries what any turn may need: the lanes' masks, counts, whether the warp has been put aside,
// registers that are read after the loop only. While all warps of the block are in the loop with all their lanes a turn
// needs none of these: 25 instead of 62 host instructions for a sum.
//
//   a round is over, all warps put aside -> look: has each all its lanes in the loop?
//     yes -> rounds of turns 0, 1, ... n - 1 -> anything special (a lane leaves, a check fails): this warp's turn again
//     no  -> a round the general way
//
// Rounds that can be foreseen to be steady go faster yet (emit_foreseen.cc).
//
// A turn that turns out to be special is run again from its start, so only loops that change nothing but registers have
// this form. Counts, and registers to which every iteration adds the same, are made up for on the way back.
//
// Invariant: what is put aside when steady rounds end is what general turns would have.
#include <algorithm>

#include "exec/run_state.h"
#include "isa/row.h"
#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using exec::WarpContext;
using isa::Mod;
using isa::Op;
using isa::Space;
using llvm::Value;
using ptx::Instr;

namespace {

/// Executing it twice is executing it once, and no other warp can tell.
bool only_registers(const Instr& in) {
  if (in.form.op == Op::bra) return true;
  if (in.form.op != Op::ld) return (isa::row(in.form.row).effects & 0xffff) == 0;
  for (Mod m : {Mod::volatile_, Mod::relaxed, Mod::acquire, Mod::mmio})
    if (in.form.has(m)) return false;
  return in.form.n_spaces == 0 || in.form.space() != Space::local;
}

/// Its page may be missing: which instruction runs is written down before (MemoryAccess::note).
bool is_noted(const Instr& in) {
  return in.form.op == Op::ld && (in.form.n_spaces == 0 || (in.form.space() != Space::shared && in.form.space() != Space::param));
}

}  // namespace

/// The nodes of the row loop from its header to its latch, when each has one successor in the loop; else none.
std::vector<uint32_t> Emitter::steady_path() const {
  const auto& nodes = schedule_.nodes;
  const uint32_t header = nodes[row_latch_].block;
  const auto inside = [&](uint32_t n) { return n == row_latch_ || plan_.program.blocks[nodes[n].block].loop_header == header; };
  std::vector<uint32_t> path;
  for (uint32_t n = nodes[row_latch_].successors[0]; n != row_latch_;) {
    const lower::Node& node = nodes[n];
    if (node.latch || node.stops || node.exits || path.size() == nodes.size()) return {};
    for (uint32_t i = node.first; i < node.last; i++)
      if (plan_.observed[i] || plan_.service[i] || !only_registers(plan_.program.code[i])) return {};
    path.push_back(n);
    if (std::count_if(node.successors.begin(), node.successors.end(), inside) != 1) return {};
    n = *std::find_if(node.successors.begin(), node.successors.end(), inside);
  }
  return path;
}

/// The only load of an iteration that can raise a signal: what is written down of it when a warp enters the loop holds for
/// all steady rounds. lower::kNone: there are several, or none.
uint32_t Emitter::only_noted(const std::vector<uint32_t>& path) const {
  uint32_t found = lower::kNone;
  for (uint32_t node : path)
    for (uint32_t i = schedule_.nodes[node].first; i < schedule_.nodes[node].last; i++) {
      if (!is_noted(plan_.program.code[i])) continue;
      if (found != lower::kNone) return lower::kNone;
      found = i;
    }
  return found;
}

/// i1: every warp has been put aside with all its lanes in the loop.
Value* Emitter::all_in_step() {
  const auto of_lanes = [](const Parked& p) { return p.what == Parked::mask || p.what == Parked::waiting; };
  if (std::none_of(turns_.parts.begin(), turns_.parts.end(), of_lanes)) return b_.getTrue();
  auto* i32 = b_.getInt32Ty();
  Block *from = b_.GetInsertBlock(), *look = block("look"), *looked = block("looked");
  b_.CreateBr(look);
  b_.SetInsertPoint(look);
  auto *turn = b_.CreatePHI(i32, 2), *before = b_.CreatePHI(i32, 2);
  turn->addIncoming(b_.getInt32(0), from), before->addIncoming(b_.getInt32(0), from);
  Value *state = state_of(turn), *elsewhere = before;
  for (const Parked& p : turns_.parts) {
    if (!of_lanes(p)) continue;
    Value* lanes = bits_of(load_mask(field(state, p.at), p.slot->getAllocatedType()));
    elsewhere = b_.CreateOr(elsewhere, p.what == Parked::mask ? b_.CreateNot(lanes) : lanes);
  }
  Value* next = b_.CreateAdd(turn, b_.getInt32(1));
  turn->addIncoming(next, look), before->addIncoming(elsewhere, look);
  b_.CreateCondBr(b_.CreateICmpEQ(next, function_->getArg(1)), looked, look);
  b_.SetInsertPoint(looked);
  return b_.CreateICmpEQ(elsewhere, b_.getInt32(0));
}

/// From here, where a round is over and `parked` warps go on in the next: steady rounds, or `otherwise`. `rounds`: until
/// the next look at the stop flag. `result`: the stop of the warps that are done with.
void Emitter::emit_steady(const std::vector<uint32_t>& path, Value* parked, Value* rounds, Value* result, Block* otherwise) {
  auto* i32 = b_.getInt32Ty();
  Block *ask = block("ask"), *refuse = block("refuse"), *agreed = block("in_step");
  Block *round = block("steady_round"), *over = block("steady_over"), *leave = block("leave_steady");
  b_.CreateCondBr(b_.CreateAnd(b_.CreateICmpEQ(parked, turns_.all), b_.CreateLoad(b_.getInt1Ty(), turns_.may_be_steady)), ask, otherwise);
  b_.SetInsertPoint(ask);
  b_.CreateCondBr(all_in_step(), agreed, refuse);
  b_.SetInsertPoint(refuse);
  b_.CreateStore(b_.getFalse(), turns_.may_be_steady);
  b_.CreateBr(otherwise);

  b_.SetInsertPoint(round);
  auto *due = b_.CreatePHI(i32, 2, "due"), *done = b_.CreatePHI(i32, 2, "done");
  b_.SetInsertPoint(agreed);
  if (const uint32_t warps = warps_to_foresee(path)) {
    emit_foreseen(path, warps, rounds, round, due, done);
  } else {
    due->addIncoming(rounds, agreed), done->addIncoming(b_.getInt32(0), agreed);
    b_.CreateBr(round);
  }
  b_.SetInsertPoint(round);
  const SteadyTurns turns = emit_steady_turns(path, done, over);
  b_.SetInsertPoint(over);
  Value *more = b_.CreateAdd(done, b_.getInt32(1)), *fewer = b_.CreateSub(due, b_.getInt32(1));
  due->addIncoming(fewer, over), done->addIncoming(more, over);
  b_.CreateCondBr(b_.CreateICmpEQ(fewer, b_.getInt32(1)), leave, round);
  b_.SetInsertPoint(turns.special);
  b_.CreateBr(leave);

  // `from` is next, the general way; the warps before it have run an iteration more than the others.
  b_.SetInsertPoint(leave);
  auto *from = b_.CreatePHI(b_.getPtrTy(), 2), *all_ran = b_.CreatePHI(i32, 2), *until = b_.CreatePHI(i32, 2);
  from->addIncoming(function_->getArg(0), over), all_ran->addIncoming(more, over), until->addIncoming(fewer, over);
  from->addIncoming(turns.warp, turns.special), all_ran->addIncoming(done, turns.special), until->addIncoming(due, turns.special);
  b_.CreateStore(b_.getFalse(), turns_.may_be_steady);
  Value* distance = b_.CreateSub(b_.CreatePtrToInt(from, b_.getInt64Ty()), b_.CreatePtrToInt(function_->getArg(0), b_.getInt64Ty()));
  Value* turn = b_.CreateTrunc(b_.CreateUDiv(distance, b_.getInt64(sizeof(WarpContext))), i32);
  make_up(turn, all_ran, turns.linear);
  Block* back = b_.GetInsertBlock();
  turns_.turn->addIncoming(turn, back);
  turns_.left->addIncoming(b_.CreateAnd(turns_.all, b_.CreateShl(b_.getInt32(~0u), turn)), back);
  turns_.parked->addIncoming(parked, back);
  turns_.agreed->addIncoming(result, back);
  turns_.rounds->addIncoming(until, back);
  b_.CreateBr(warp_block_);
}

/// One turn of each warp, then `over`. `done`: rounds before this one.
Emitter::SteadyTurns Emitter::emit_steady_turns(const std::vector<uint32_t>& path, Value* done, Block* over) {
  std::vector<Linear> linear;
  for (const Parked& p : turns_.parts)
    if (const auto step = step_of(p, path)) linear.push_back({&p, *step});
  auto* context = llvm::ArrayType::get(b_.getInt8Ty(), sizeof(WarpContext));
  Block *from = b_.GetInsertBlock(), *start = block("steady_turn"), *special = block("special");
  b_.CreateBr(start);
  b_.SetInsertPoint(start);
  auto *at = b_.CreatePHI(b_.getPtrTy(), 2, "warp"), *state = b_.CreatePHI(b_.getPtrTy(), 2, "state");
  at->addIncoming(function_->getArg(0), from), state->addIncoming(turns_.states, from);
  Value *const warp = warp_, *const frame = frame_;
  warp_ = at;
  b_.CreateStore(warp_, field(cta_, offsetof(exec::CtaContext, running)));
  frame_ = load_field(warp_, offsetof(WarpContext, frame), b_.getPtrTy(), "frame");
  for (const Parked& p : turns_.parts)
    if (p.what == Parked::value) put_back(p, state);
  for (const Linear& l : linear) add_to(*l.part, way(l.step, done, l.part->slot->getAllocatedType()));

  const uint32_t instructions = emit_path(path, Steady::checked, special);
  for (const Parked& p : turns_.parts)
    if (p.what == Parked::value && !p.fixed && !step_of(p, path)) put_aside(p, state);
  Value* next = field(at, sizeof(WarpContext));
  at->addIncoming(next, b_.GetInsertBlock());
  state->addIncoming(field(state, turns_.state->getArrayNumElements()), b_.GetInsertBlock());
  Value* end = b_.CreateGEP(context, function_->getArg(0), {b_.CreateZExt(function_->getArg(1), b_.getInt64Ty())});
  b_.CreateCondBr(b_.CreateICmpEQ(next, end), over, start);
  for (const Parked& p : turns_.parts)
    if (p.what == Parked::count) linear.push_back({&p, {instructions}});
  warp_ = warp, frame_ = frame;
  return {special, at, linear};
}

/// An iteration from here to the latch, where code goes on; warp instructions in it.
uint32_t Emitter::emit_path(const std::vector<uint32_t>& path, Steady::Stage stage, Block* leave) {
  Block* latch = block("steady_latch");
  steady_ = {leave, std::vector<Block*>(schedule_.nodes.size()), stage, only_noted(path) != lower::kNone};
  for (uint32_t node : path) steady_.node_block[node] = block("steady");
  steady_.node_block[row_latch_] = latch;
  checked_ = stage == Steady::foreseen;
  b_.CreateBr(steady_.node_block[path.front()]);
  for (uint32_t node : path) emit_node(node);
  b_.SetInsertPoint(latch);
  checked_ = false;
  return std::exchange(steady_, {}).instructions;
}

/// What every iteration adds to a register that nothing else changes: such a register need not be put aside.
std::optional<Step> Emitter::step_of(const Parked& part, const std::vector<uint32_t>& path) const {
  if (part.what != Parked::value || part.fixed || !part.slot->getAllocatedType()->isIntegerTy()) return {};
  std::optional<Step> step;
  bool steps = true;  // so far: what it adds is not changed, either
  for (uint32_t node : path)
    for (uint32_t i = schedule_.nodes[node].first; i < schedule_.nodes[node].last; i++) {
      const Instr& in = plan_.program.code[i];
      const auto is_reg = [&](const ptx::Operand& o, uint32_t reg) { return o.kind == ptx::OperandKind::reg && o.id == reg && !o.negated; };
      lower::for_registers(in, [&](uint32_t r) {
        if (r != part.reg) return;
        const bool adds = in.form.op == Op::add && is_whole(in.form.type()) && in.guard.reg == ptx::kNoReg && !in.form.has(Mod::sat) && !in.form.has(Mod::cc) &&
                          in.ops.size() == 3 && is_reg(in.ops[0], r) && is_reg(in.ops[1], r);
        steps &= adds && !step;
        if (!steps) return;
        const ptx::Operand& by = in.ops[2];
        const Parked* part_by = by.kind == ptx::OperandKind::reg && !by.negated ? part_of(by.id) : nullptr;
        if (by.kind == ptx::OperandKind::imm) step = Step{by.value};
        else if (part_by && part_by->slot->getAllocatedType() == part.slot->getAllocatedType()) step = Step{1, by.id};
        else steps = false;
      }, [](uint32_t) {});
    }
  return steps && (!step || step->constant() || is_unchanged(step->by, path)) ? step : std::nullopt;
}

/// No instruction of an iteration writes the register.
bool Emitter::is_unchanged(uint32_t reg, const std::vector<uint32_t>& path) const {
  bool writes = false;
  for (uint32_t node : path)
    for (uint32_t i = schedule_.nodes[node].first; i < schedule_.nodes[node].last; i++)
      lower::for_registers(plan_.program.code[i], [&](uint32_t r) { writes |= r == reg; }, [](uint32_t) {});
  return !writes;
}

/// A register's part of what is put aside; null: it has none.
const Emitter::Parked* Emitter::part_of(uint32_t reg) const {
  const auto at = std::find_if(turns_.parts.begin(), turns_.parts.end(), [&](const Parked& p) { return p.what == Parked::value && p.reg == reg; });
  return at == turns_.parts.end() ? nullptr : &*at;
}

/// What `rounds` iterations add, with the registers as they are.
Value* Emitter::way(const Step& step, Value* rounds, llvm::Type* t) {
  Value* v = b_.CreateMul(b_.CreateZExtOrTrunc(rounds, t), llvm::ConstantInt::get(t, uint64_t(step.factor), true));
  return step.constant() ? v : b_.CreateMul(v, b_.CreateLoad(t, slots_[step.by]));
}

void Emitter::add_to(const Parked& part, Value* amount) {
  b_.CreateStore(b_.CreateAdd(b_.CreateLoad(part.slot->getAllocatedType(), part.slot), amount), part.slot);
}

/// Brings up to date what is put aside: `rounds` iterations for each warp, one more for those before `turn`.
void Emitter::make_up(Value* turn, Value* rounds, const std::vector<Linear>& linear) {
  auto* i32 = b_.getInt32Ty();
  Block *from = b_.GetInsertBlock(), *add = block("make_up"), *added = block("made_up");
  b_.CreateBr(add);
  b_.SetInsertPoint(add);
  auto* w = b_.CreatePHI(i32, 2);
  w->addIncoming(b_.getInt32(0), from);
  Value *iterations = b_.CreateAdd(rounds, b_.CreateZExt(b_.CreateICmpULT(w, turn), i32)), *state = state_of(w);
  for (const auto& [part, step] : linear) {
    put_back(*part, state);
    if (!step.constant()) put_back(*part_of(step.by), state);
    add_to(*part, way(step, iterations, part->slot->getAllocatedType()));
    put_aside(*part, state);
  }
  Value* next = b_.CreateAdd(w, b_.getInt32(1));
  w->addIncoming(next, add);
  b_.CreateCondBr(b_.CreateICmpEQ(next, function_->getArg(1)), added, add);
  b_.SetInsertPoint(added);
}

}  // namespace orrery::jit
