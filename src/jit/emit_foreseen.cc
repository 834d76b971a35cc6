// jit/emit_foreseen.cc: steady rounds (emit_steady.cc) of which is known beforehand how they go. See emitter.h.
//
// Where the way through a loop depends on nothing but registers that every iteration moves by the same amount, a look at
// the round k from now tells how all rounds until then go. These need no checks, and what the warps compute stays in host
// registers from round to round: a sum of rows becomes what a compiler makes of it in C++, and the host reads far ahead.
//
//   would round done + k - 1 be steady?   yes -> k rounds, each a turn of all warps without a check; the next k
//                                         no  -> half of k; none left: steady rounds, which look at everything
//
// The first k is 1; what a comparison with the loop's bound leaves of the last warp's way is a good guess for the next.
//
// Two steady rounds vouch for those between them: an address that is inside memory, and a comparison with what does not
// change (less, greater; not equal) that comes out one way, hold on an interval, and what moves evenly stays inside it, as
// long as it does not wrap. What is compared or widened is looked at, too: for each lane it must not be negative as a signed
// number, and until the next look at the stop flag it does not go far (kMostStep). Alignment holds as the step is a multiple of it.
//
// Invariant: no instruction of such a turn can leave it (a form that can is found out while it is emitted, and not used).
#include <llvm/IR/CFG.h>

#include <algorithm>
#include <map>
#include <set>

#include "exec/run_state.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using exec::WarpContext;
using isa::Mod;
using isa::Op;
using isa::Type;
using llvm::ConstantInt;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr int64_t kMostStep = 1 << 16;      // of a 32-bit register in an iteration
constexpr int64_t kMostLongStep = 1 << 24;  // ... 64-bit
static_assert(kMostStep * kRoundsToPoll < INT32_MAX);
constexpr uint32_t kMostWarps = 16;
constexpr size_t kMostInstructions = 24;    // of an iteration: the code holds it twice for each warp
constexpr size_t kMostBytes = 8192;         // that the warps compute: beyond the host's registers (512 to 2048 bytes) it is in memory

int64_t most_step(bool is_long) { return is_long ? kMostLongStep : kMostStep; }

bool is_order(const isa::Form& f) {
  for (Mod m : {Mod::lt, Mod::le, Mod::gt, Mod::ge, Mod::lo, Mod::ls, Mod::hi, Mod::hs})
    if (f.has(m)) return true;
  return false;
}

}  // namespace

/// Registers that move evenly along a path, by how much, and predicates that compare them with what does not move.
class Emitter::Foresight {
 public:
  Foresight(Emitter& e, const std::vector<uint32_t>& path) : e_(e) {
    for (uint32_t node : path)
      for (uint32_t i = e.schedule_.nodes[node].first; i < e.schedule_.nodes[node].last; i++) {
        code_.push_back(i);
        lower::for_registers(e.plan_.program.code[i], [&](uint32_t r) { written_.insert(r); }, [](uint32_t) {});
      }
    for (const Parked& p : e.turns_.parts)
      if (const auto step = e.step_of(p, path); step && std::abs(step->factor) <= most_step(e.slot_type(p.reg)->isIntegerTy(64))) even_[p.reg] = *step;
  }

  /// The instructions on which addresses and branches depend, when they depend on nothing else; else none. With each, the
  /// registers that must not have wrapped there.
  Slice slice() {
    Slice out;
    if (code_.size() > kMostInstructions) return {};
    if (std::any_of(written_.begin(), written_.end(), [&](uint32_t r) { return e_.plan_.at_home[r]; })) return {};
    for (uint32_t i : code_) {
      const Instr& in = e_.plan_.program.code[i];
      if (!is_plain(in)) return {};
      std::vector<uint32_t> looked_at;
      for (const Operand& o : in.ops)
        if ((in.form.op == Op::setp || in.form.op == Op::mul) && moves(o)) looked_at.push_back(o.id);
      if (follow(in)) out[i] = looked_at;
      if (!looked_at.empty() && in.form.op == Op::setp) note_bound(in);
    }
    return out;
  }

  /// A register that is compared with what does not move, where it is on which lanes go on.
  const std::optional<Bound>& bound() const { return bound_; }

 private:
  /// What a register moves by in an iteration, where the path stands.
  std::optional<Step> step(const Operand& o) const {
    if (o.kind == OperandKind::imm) return Step{};
    if (o.kind != OperandKind::reg || o.negated) return {};
    if (!written_.count(o.id)) return Step{};
    const auto at = even_.find(o.id);
    return at == even_.end() ? std::nullopt : std::optional(at->second);
  }

  bool moves(const Operand& o) const { return step(o).value_or(Step{}).factor != 0; }

  /// Nothing against foreseeing rounds with this instruction.
  bool is_plain(const Instr& in) const {
    const bool guarded = in.guard.reg != ptx::kNoReg;
    switch (in.form.op) {
      case Op::bra: return !guarded || !written_.count(in.guard.reg) || decided_.count(in.guard.reg);
      case Op::ld: return !guarded && has_even_address(in);
      case Op::brx: case Op::ldu: return false;
      default: return true;
    }
  }

  /// True when the instruction belongs to the slice.
  bool follow(const Instr& in) {
    const bool guarded = in.guard.reg != ptx::kNoReg;
    if (in.form.op == Op::bra) return true;
    const auto moves = guarded ? std::nullopt : result(in);
    const bool decides = !guarded && in.form.op == Op::setp && compares_evenly(in);
    lower::for_registers(in, [&](uint32_t r) {
      decided_.erase(r), even_.erase(r);
      if (decides) decided_.insert(r);
      if (moves) even_[r] = *moves;
    }, [](uint32_t) {});
    return decides || moves || in.form.op == Op::ld;
  }

  bool has_even_address(const Instr& in) const {
    const Operand& o = in.ops[1];
    if (o.kind != OperandKind::address || o.base == ptx::BaseKind::local_var) return false;
    if (o.base != ptx::BaseKind::reg) return true;
    Operand base;
    base.kind = OperandKind::reg, base.id = o.id;
    const auto moves = step(base);
    return moves && MemoryAccess::can_look(e_, in, moves->factor);
  }

  bool compares_evenly(const Instr& in) const {
    const isa::Form& f = in.form;
    if (in.ops.size() != 3 || in.ops[0].kind != OperandKind::reg || !is_whole(f.type()) || !is_order(f)) return false;
    const auto a = step(in.ops[1]), b = step(in.ops[2]);
    return a && b && (a->factor == 0 || b->factor == 0);
  }

  void note_bound(const Instr& in) {
    const Operand &x = in.ops[1], &bound = in.ops[2];
    const auto goes_by_it = [&](uint32_t i) { return e_.plan_.program.code[i].form.op == Op::bra && e_.plan_.program.code[i].guard.reg == in.ops[0].id; };
    if (!moves(x) || !e_.part_of(x.id) || std::none_of(code_.begin(), code_.end(), goes_by_it)) return;
    if (e_.width_of_reg(x.id) == 1 && e_.operand_width(bound) == 1 && !e_.is_patterned(bound)) bound_ = {x.id, *step(x), &bound};
  }

  /// The step of what an instruction writes, where even operands make an even result.
  std::optional<Step> result(const Instr& in) const {
    const Type t = in.form.type();
    if (in.ops.size() < 2 || in.ops[0].kind != OperandKind::reg || in.form.has(Mod::sat) || in.form.has(Mod::cc)) return {};
    const auto bounded = [](Step s, int64_t most) { return std::abs(s.factor) <= most ? std::optional(s) : std::nullopt; };
    const auto a = step(in.ops[1]);
    if (!a) return {};
    switch (in.form.op) {
      case Op::mov: case Op::cvta: return isa::bits_of(t) >= 32 && !isa::is_float(t) ? a : std::nullopt;
      case Op::add: {
        const auto b = step(in.ops[2]);
        if (!is_whole(t) || !b || (a->factor && b->factor && !(a->constant() && b->constant()))) return {};
        return bounded(a->factor ? Step{a->factor + b->factor, a->by} : *b, most_step(isa::bits_of(t) == 64));
      }
      case Op::mul: {
        const Operand& by = in.ops[2];
        if (!in.form.has(Mod::wide) || isa::bits_of(t) != 32 || by.kind != OperandKind::imm || std::abs(by.value) > 4096) return {};
        return bounded({a->factor * by.value, a->by}, kMostLongStep);
      }
      default: return {};
    }
  }

  Emitter& e_;
  std::vector<uint32_t> code_;
  std::set<uint32_t> written_, decided_;
  std::map<uint32_t, Step> even_;
  std::optional<Bound> bound_;
};

/// The warps of a block whose steady rounds can be foreseen; 0 where they cannot.
uint32_t Emitter::warps_to_foresee(const std::vector<uint32_t>& path) {
  const uint32_t warps = uint32_t(plan_.uniformity.block.threads() / 32);
  if (warps > kMostWarps) return 0;
  Foresight foresight(*this, path);
  slice_ = foresight.slice(), bound_ = foresight.bound();
  if (slice_.empty()) return 0;
  uint64_t bytes = 0;
  for (const Parked& p : turns_.parts)
    if (p.what == Parked::value && !p.fixed && !step_of(p, path)) bytes += module_.getDataLayout().getTypeAllocSize(p.slot->getAllocatedType());
  return warps * bytes <= kMostBytes ? warps : 0;
}

/// The registers of one warp at the start of round `round`: what moves evenly, from where it was in round 0. What the loop
/// computes is in the warp's own slots; for a look, nobody reads it.
void Emitter::stand_in_round(const OwnSlots& own, Value* round, bool look) {
  for (size_t k = 0; k < turns_.parts.size(); k++) {
    const Parked& p = turns_.parts[k];
    if (p.what == Parked::value) slots_[p.reg] = own[k].step || (look && !own[k].unchanged) ? p.slot : own[k].slot;
  }
  for (size_t k = 0; k < turns_.parts.size(); k++) {
    if (!own[k].step) continue;
    const Parked& p = turns_.parts[k];
    llvm::Type* t = p.slot->getAllocatedType();
    b_.CreateStore(b_.CreateAdd(b_.CreateLoad(t, own[k].slot), way(*own[k].step, round, t)), p.slot);
  }
}

/// i1: a step that is known only now is so long that numbers might wrap on their way up to this round.
Value* Emitter::is_long_way(const Step& step, Value* round, llvm::Type* t) {
  constexpr uint64_t kLongest = uint64_t{1} << 30;  // of a step, and of a 32-bit number's way; a 64-bit one may go 2^46
  auto* i64 = b_.getInt64Ty();
  Value *by = b_.CreateZExt(b_.CreateLoad(t, slots_[step.by]), i64), *far = b_.CreateICmpUGT(by, b_.getInt64(kLongest));
  if (!t->isIntegerTy(32)) return far;
  Value* rounds = b_.CreateMul(b_.CreateZExt(b_.CreateAdd(round, b_.getInt32(1)), i64), b_.getInt64(uint64_t(std::abs(step.factor))));
  return b_.CreateOr(far, b_.CreateICmpUGT(b_.CreateMul(by, rounds), b_.getInt64(kLongest)));
}

/// Leaves when a register that moves evenly, and is compared or widened here, may wrap on its way: when it is not, for each
/// lane, from 0 to the greatest signed number.
void Emitter::look_for_wrap(uint32_t reg) {
  Value* v = raw(reg, width_of_reg(reg));
  llvm::Type* t = v->getType();
  int64_t low = 0, high = 0;
  if (width_of_reg(reg) < 32) {
    const lower::Pattern& pattern = plan_.uniformity.pattern_of(plan_.uniformity.regs[reg]);
    low = std::min<int64_t>(0, *std::min_element(pattern.begin(), pattern.end()));
    high = std::max<int64_t>(0, *std::max_element(pattern.begin(), pattern.end()));
  }
  const uint64_t most = (uint64_t{1} << (t->getScalarSizeInBits() - 1)) - 1, spread = uint64_t(high - low);
  Value* lowest = b_.CreateAdd(v, ConstantInt::get(t, uint64_t(low), true));
  Value* bad = spread < most ? b_.CreateICmpUGT(lowest, ConstantInt::get(t, most - spread)) : llvm::Constant::getAllOnesValue(wide(b_.getInt1Ty(), width_of(v)));
  leave_if(width_of(bad) == 1 ? bad : b_.CreateOrReduce(bad));
}

/// Whether a look has found, for this turn, that the register of this instruction does not wrap.
bool Emitter::is_foreseen(uint32_t reg) const {
  if (steady_.stage != Steady::foreseen) return false;
  const auto at = slice_.find(inst_);
  return at != slice_.end() && std::count(at->second.begin(), at->second.end(), reg);
}

/// Each warp's registers from where they were put aside, in slots of its own.
std::vector<Emitter::OwnSlots> Emitter::take_own_slots(const std::vector<uint32_t>& path, uint32_t warps) {
  std::vector<OwnSlots> own(warps);
  for (uint32_t w = 0; w < warps; w++)
    for (Parked p : turns_.parts) {
      own[w].push_back({p.what == Parked::value ? new_alloca(p.slot->getAllocatedType(), "own") : nullptr, step_of(p, path), p.what == Parked::value && is_unchanged(p.reg, path)});
      p.slot = own[w].back().slot;
      if (p.slot) put_back(p, state_of(b_.getInt32(w)));
    }
  return own;
}

/// What the loop has computed goes back there; what moves evenly is made up for later (make_up).
void Emitter::put_own_aside(const std::vector<OwnSlots>& own) {
  for (uint32_t w = 0; w < own.size(); w++)
    for (size_t k = 0; k < own[w].size(); k++) {
      Parked p = turns_.parts[k];
      p.slot = own[w][k].slot;
      if (p.slot && !own[w][k].unchanged && !own[w][k].step) put_aside(p, state_of(b_.getInt32(w)));
    }
}

/// How many iterations the bound leaves the warp whose registers these are: a guess.
Value* Emitter::guess_rounds() {
  auto* i32 = b_.getInt32Ty();
  Value* x = raw(bound_->reg, 1);
  llvm::Type* t = x->getType();
  const auto number = [&](int64_t v) { return ConstantInt::get(t, uint64_t(v), true); };
  const lower::Pattern& pattern = plan_.uniformity.pattern_of(plan_.uniformity.regs[bound_->reg]);
  const auto [low, high] = std::minmax_element(pattern.begin(), pattern.end());
  Value* bound = bound_->against->kind == OperandKind::imm ? number(bound_->against->value) : fit(raw(bound_->against->id, 1), t);
  Value *up = b_.CreateSub(b_.CreateSub(bound, x), number(*high + 1)), *down = b_.CreateSub(b_.CreateSub(x, bound), number(1 - *low));
  Value* step = number(std::abs(bound_->step.factor));
  if (!bound_->step.constant()) step = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b_.CreateMul(step, fit(raw(bound_->step.by, 1), t)), number(1));
  Value* rounds = b_.CreateUDiv(bound_->step.factor > 0 ? up : down, step);
  return b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rounds, number(kRoundsToPoll)), i32);
}

/// i1: the loop whose header this is will go on for so long that rounds should be foreseen from the first iteration on.
Value* Emitter::is_long_walk() {
  constexpr uint32_t kLong = 4;
  if (!warps_to_foresee(steady_path()) || !bound_) return b_.getFalse();
  return b_.CreateICmpUGE(guess_rounds(), b_.getInt32(kLong));
}

/// Foreseen rounds from here on, then `round`, where `due` and `done` go on. `rounds`: until the next look at the stop flag.
void Emitter::emit_foreseen(const std::vector<uint32_t>& path, uint32_t warps, Value* rounds, Block* round, llvm::PHINode* due, llvm::PHINode* done) {
  auto* i32 = b_.getInt32Ty();
  Block *asked = b_.GetInsertBlock(), *enter = block("foresee"), *next = block("look_ahead"), *look = block("look");
  Block *run = block("foreseen"), *ran = block("ran"), *fewer = block("fewer"), *leave = block("leave_foreseen"), *never = block("never");
  due->addIncoming(rounds, asked), done->addIncoming(b_.getInt32(0), asked);
  b_.SetInsertPoint(enter);
  const std::vector<OwnSlots> own = take_own_slots(path, warps);
  if (bound_) stand_in_round(own.back(), b_.getInt32(0), true);
  Value* all = bound_ ? guess_rounds() : b_.getInt32(kRoundsToPoll);
  b_.CreateBr(next);

  b_.SetInsertPoint(next);
  auto *from = b_.CreatePHI(i32, 3, "from"), *left = b_.CreatePHI(i32, 3, "left"), *most = b_.CreatePHI(i32, 3, "most");
  const auto go = [&](Block* block, Value* f, Value* l, Value* m) { from->addIncoming(f, block), left->addIncoming(l, block), most->addIncoming(m, block); };
  go(enter, b_.getInt32(0), rounds, b_.getInt32(1));
  const auto least = [&](Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b); };
  Value* guess = b_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, all, from);
  Value *ahead = least(least(guess, most), b_.CreateSub(left, b_.getInt32(1))), *end = b_.CreateAdd(from, ahead);
  b_.CreateCondBr(b_.CreateICmpEQ(ahead, b_.getInt32(0)), leave, look);
  b_.SetInsertPoint(look);
  emit_turns_of_all(path, own, b_.CreateSub(end, b_.getInt32(1)), Steady::look, fewer);
  Block* looked = b_.GetInsertBlock();
  b_.CreateBr(run);
  b_.SetInsertPoint(fewer);
  go(fewer, from, left, b_.CreateLShr(ahead, b_.getInt32(1)));
  b_.CreateBr(next);

  b_.SetInsertPoint(run);
  auto* now = b_.CreatePHI(i32, 2, "now");
  now->addIncoming(from, looked);
  emit_turns_of_all(path, own, now, Steady::foreseen, never);
  Value* after = b_.CreateAdd(now, b_.getInt32(1));
  now->addIncoming(after, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpEQ(after, end), ran, run);
  b_.SetInsertPoint(ran);
  go(ran, end, b_.CreateSub(left, ahead), b_.getInt32(kRoundsToPoll));
  b_.CreateBr(next);

  b_.SetInsertPoint(leave);
  put_own_aside(own);
  due->addIncoming(left, leave), done->addIncoming(from, leave);
  b_.CreateBr(round);

  b_.SetInsertPoint(never);
  const bool safe = llvm::pred_empty(never);
  b_.CreateUnreachable();
  b_.SetInsertPoint(asked);
  b_.CreateCondBr(safe ? b_.CreateICmpEQ(function_->getArg(1), b_.getInt32(warps)) : b_.getFalse(), enter, round);
  for (const Parked& p : turns_.parts)
    if (p.what == Parked::value) slots_[p.reg] = p.slot;
}

/// A turn of each warp in round `round`: without checks, or (a look) nothing but checks.
void Emitter::emit_turns_of_all(const std::vector<uint32_t>& path, const std::vector<OwnSlots>& own, Value* round, Steady::Stage stage, Block* leave) {
  Value *const warp = warp_, *const frame = frame_;
  const bool look = stage == Steady::look;
  for (size_t w = 0; w < own.size(); w++) {
    warp_ = field(function_->getArg(0), w * sizeof(WarpContext));
    frame_ = load_field(warp_, offsetof(WarpContext, frame), b_.getPtrTy(), "frame");
    if (!look) b_.CreateStore(warp_, field(cta_, offsetof(exec::CtaContext, running)));
    stand_in_round(own[w], round, look);
    for (size_t k = 0; look && k < own[w].size(); k++) {
      if (!own[w][k].step || own[w][k].step->constant()) continue;
      Block* near = block("near");
      b_.CreateCondBr(is_long_way(*own[w][k].step, round, own[w][k].slot->getAllocatedType()), leave, near);
      b_.SetInsertPoint(near);
    }
    emit_path(path, stage, leave);
  }
  warp_ = warp, frame_ = frame;
}

}  // namespace orrery::jit
