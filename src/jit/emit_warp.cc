// jit/emit_warp.cc: exchange between the lanes of a warp, fences, prefetches. See emitter.h.
//
// A .sync form needs all lanes that a lane names: when some of them wait elsewhere, the warp leaves compiled code and
// the interpreter brings them together. Meanings: exec/ops_warp.cc.
#include "exec/warp.h"
#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using llvm::ConstantInt;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

/// Leaves when lanes named in `members` (i32) wait at other nodes. Those that wait for nothing but their exit do that now:
/// half a warp may add up what the block has left, and name them, too (which `orrery check` reports).
void Emitter::require_members(Value* members) {
  const lower::NodeSet& waiting = schedule_.nodes[node_].waiting;
  if (waiting.empty()) return;
  Value *elsewhere = b_.getInt32(0), *done = b_.getInt32(0);
  std::vector<uint32_t> exits;
  waiting.each([&](uint32_t w) {
    const bool exit = !plan_.observe && only_exits(schedule_.nodes[w]);
    Value*& sum = exit ? done : elsewhere;
    sum = b_.CreateOr(sum, bits_of(load_mask(waiting_[w])));
    if (exit) exits.push_back(w);
  });
  leave_if(b_.CreateICmpNE(b_.CreateAnd(elsewhere, members), b_.getInt32(0)));
  if (exits.empty()) return;
  Block *retire = block("retire"), *go_on = block("members_here");
  b_.CreateCondBr(b_.CreateICmpNE(b_.CreateAnd(done, members), b_.getInt32(0)), retire, go_on);
  b_.SetInsertPoint(retire);
  Value* live_at = field(warp_, offsetof(exec::WarpContext, live));
  b_.CreateStore(b_.CreateAnd(b_.CreateLoad(b_.getInt32Ty(), live_at), b_.CreateNot(done)), live_at);
  for (uint32_t w : exits) b_.CreateStore(llvm::Constant::getNullValue(mask_slot_->getAllocatedType()), waiting_[w]);
  count_instructions(1);
  b_.CreateBr(go_on);
  b_.SetInsertPoint(go_on);
}

/// Lanes that wait there have nothing left to do.
bool Emitter::only_exits(const lower::Node& node) const {
  if (node.latch || node.stops || !node.exits || node.last != node.first + 1) return false;
  return plan_.program.code[node.first].guard.reg == ptx::kNoReg;
}

/// All lanes name the same members, whatever they are.
bool Emitter::same_members(const Operand& o) const {
  return o.kind == OperandKind::imm || (o.kind == OperandKind::reg && plan_.uniformity.regs[o.id].uniform());
}

/// The lanes that any active lane names (i32): tiles of a warp name different ones. Null for other operands.
llvm::Value* Emitter::member_mask(const Operand& o) {
  if (o.kind == OperandKind::imm) return b_.getInt32(uint32_t(o.value));
  if (o.kind != OperandKind::reg) return nullptr;
  if (same_members(o)) return fit(bits(o.id, 1), b_.getInt32Ty());
  Value* named = fit(bits(o.id, 32), b_.getInt32Ty());
  Value* nameless = b_.CreateICmpEQ(b_.CreateAnd(named, special(ptx::Sreg::lanemask_eq, 0, 32)), llvm::Constant::getNullValue(named->getType()));
  leave_if(b_.CreateOrReduce(b_.CreateAnd(nameless, exec_mask())));  // a fault: exec/ops_warp.cc
  return b_.CreateOrReduce(b_.CreateSelect(exec_mask(), named, llvm::Constant::getNullValue(named->getType())));
}

bool Emitter::emit_warp(const Instr& in) {
  const Form& f = in.form;
  switch (f.op) {
    case Op::membar: case Op::fence:
      if (f.n_spaces || f.has(Mod::proxy)) return false;
      b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
      return true;
    case Op::prefetch: case Op::prefetchu: return in.ops[0].base == ptx::BaseKind::reg;
    case Op::activemask:
      if (guard_ && width_of(guard_) > 1) return false;
      define(in.ops[0], bits_of(mask()));
      return true;
    case Op::bar_warp: {
      if (guard_) return false;
      Value* members = member_mask(in.ops[0]);
      if (!members) return false;
      require_members(members);
      return true;
    }
    case Op::vote: return emit_vote(in);
    case Op::shfl: return emit_shuffle(in);
    default: return gather_then_execute(in);
  }
}

/// match, redux, elect: executed by exec/ once the members are known to be here.
bool Emitter::gather_then_execute(const Instr& in) {
  if (Value* members = member_mask(in.ops.back())) {
    require_members(members);
    emit_execute(in);
    return true;
  }
  return false;
}

bool Emitter::emit_vote(const Instr& in) {
  const Form& f = in.form;
  if (in.ops[1].kind != OperandKind::reg && in.ops[1].kind != OperandKind::imm) return false;
  if (guard_ || in.ops[0].kind != OperandKind::reg || (f.has(Mod::sync) && !same_members(in.ops.back()))) return gather_then_execute(in);
  Value* here = bits_of(mask());
  if (f.has(Mod::sync)) {
    Value* members = member_mask(in.ops.back());
    if (!members) return false;
    require_members(members);
    here = b_.CreateAnd(here, members);
  }
  Value* yes = b_.CreateAnd(bits_of(read_predicate(in.ops[1], 32)), here);
  if (f.has(Mod::ballot)) define(in.ops[0], yes);
  else if (f.has(Mod::all)) define(in.ops[0], b_.CreateICmpEQ(yes, here));
  else if (f.has(Mod::any)) define(in.ops[0], b_.CreateICmpNE(yes, b_.getInt32(0)));
  else define(in.ops[0], b_.CreateOr(b_.CreateICmpEQ(yes, here), b_.CreateICmpEQ(yes, b_.getInt32(0))));
  return true;
}

namespace {
/// Source lane and predicate of each lane of a shfl with constant operands.
struct Exchange {
  llvm::SmallVector<int, 32> from;
  llvm::SmallVector<bool, 32> valid;
};
Exchange exchange(const Form& f, uint32_t b, uint32_t c) {
  Exchange x;
  for (int lane = 0; lane < 32; lane++) {
    const int bval = int(b & 31), cval = int(c & 31), segmask = int(c >> 8 & 31);
    const int max_lane = (lane & segmask) | (cval & ~segmask), min_lane = lane & segmask;
    int j;
    bool p;
    if (f.has(Mod::up)) j = lane - bval, p = j >= max_lane;
    else if (f.has(Mod::down)) j = lane + bval, p = j <= max_lane;
    else if (f.has(Mod::bfly)) j = lane ^ bval, p = j <= max_lane;
    else j = min_lane | (bval & ~segmask), p = j <= max_lane;
    x.from.push_back(p ? j : lane);
    x.valid.push_back(p);
  }
  return x;
}
}  // namespace

bool Emitter::constant_word(const Operand& o, uint32_t& v) const {
  if (o.kind == OperandKind::imm) return v = uint32_t(o.value), true;
  if (o.kind != OperandKind::reg) return false;
  const lower::Lanes& l = plan_.uniformity.regs[o.id];
  return l.constant && l.flat() ? (v = uint32_t(l.value), true) : false;
}

bool Emitter::emit_shuffle(const Instr& in) {
  const Form& f = in.form;
  if (!f.has(Mod::sync) || in.ops.size() < 5 || guard_) return false;
  const Operand &d = in.ops[0].kind == OperandKind::pair ? in.ops[0].parts[0] : in.ops[0];
  const Operand* p = in.ops[0].kind == OperandKind::pair ? &in.ops[0].parts[1] : nullptr;
  uint32_t c;
  Value* members = member_mask(in.ops[4]);
  if (!members || !constant_word(in.ops[3], c) || (d.kind != OperandKind::reg && d.kind != OperandKind::sink)) return false;
  require_members(members);
  const bool lazy = d.kind == OperandKind::reg && plan_.lazy_nan[d.id];
  Value* v = read_as(in.ops[1], b_.getInt32Ty(), 32, lazy ? Use::arithmetic : Use::bits);
  uint32_t by;
  if (constant_word(in.ops[2], by)) {
    const Exchange x = exchange(f, by, c);
    define(d, b_.CreateShuffleVector(v, x.from));
    if (p) {
      llvm::SmallVector<llvm::Constant*, 32> valid;
      for (bool ok : x.valid) valid.push_back(b_.getInt1(ok));
      define(*p, llvm::ConstantVector::get(valid));
    }
    return true;
  }
  return shuffle_by_register(in, d, p, v, c);
}

/// The lane to read from is computed; the values go through memory.
bool Emitter::shuffle_by_register(const Instr& in, const Operand& d, const Operand* p, Value* v, uint32_t c) {
  const Form& f = in.form;
  llvm::SmallVector<uint32_t, 32> ids, low, high;
  const uint32_t segmask = c >> 8 & 31, cval = c & 31;
  for (uint32_t lane = 0; lane < 32; lane++) {
    ids.push_back(lane);
    low.push_back(lane & segmask);
    high.push_back((lane & segmask) | (cval & ~segmask & 31));
  }
  auto vector = [&](llvm::ArrayRef<uint32_t> values) { return llvm::ConstantDataVector::get(context_, values); };
  Value *lane = vector(ids), *max_lane = vector(high);
  Value* b = b_.CreateAnd(read_as(in.ops[2], b_.getInt32Ty(), 32), ConstantInt::get(v->getType(), 31));
  Value *j, *ok;
  if (f.has(Mod::up)) j = b_.CreateSub(lane, b), ok = b_.CreateICmpSGE(j, max_lane);
  else if (f.has(Mod::down)) j = b_.CreateAdd(lane, b), ok = b_.CreateICmpSLE(j, max_lane);
  else if (f.has(Mod::bfly)) j = b_.CreateXor(lane, b), ok = b_.CreateICmpSLE(j, max_lane);
  else j = b_.CreateOr(vector(low), b_.CreateAnd(b, ConstantInt::get(v->getType(), ~segmask & 31))), ok = b_.CreateICmpSLE(j, max_lane);
  j = b_.CreateSelect(ok, j, lane);
  Value* place = scratch(256, 0);
  b_.CreateAlignedStore(v, place, llvm::Align(64));
  Value* from = b_.CreateGEP(b_.getInt32Ty(), place, j);
  auto* all = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), 32));
  define(d, b_.CreateMaskedGather(v->getType(), from, llvm::Align(4), all, llvm::PoisonValue::get(v->getType())));
  if (p) define(*p, ok);
  return true;
}

}  // namespace orrery::jit
