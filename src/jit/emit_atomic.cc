// jit/emit_atomic.cc: atom and red. See emitter.h. Meanings: exec/ops_atomic.cc.
//
// Integer operations become host atomics: one for the whole warp when all lanes name one address and the result is
// not used, else one for each lane, lowest first. A block runs on one host thread, so shared memory of the block
// needs no host atomics. All else is left to exec/.
#include "isa/row.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;
using llvm::AtomicRMWInst;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

AtomicRMWInst::BinOp operation(const Form& f) {
  const bool sign = isa::is_signed(f.type());
  if (f.has(Mod::add)) return AtomicRMWInst::Add;
  if (f.has(Mod::and_)) return AtomicRMWInst::And;
  if (f.has(Mod::or_)) return AtomicRMWInst::Or;
  if (f.has(Mod::xor_)) return AtomicRMWInst::Xor;
  if (f.has(Mod::exch)) return AtomicRMWInst::Xchg;
  if (f.has(Mod::min)) return sign ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  if (f.has(Mod::max)) return sign ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  return AtomicRMWInst::BAD_BINOP;
}

bool is_integer(Type t) {
  const isa::TypeClass c = isa::class_of(t);
  return (c == isa::TypeClass::bits || c == isa::TypeClass::uint || c == isa::TypeClass::sint) && (isa::bits_of(t) == 32 || isa::bits_of(t) == 64);
}

}  // namespace

bool Emitter::emit_atomic(const Instr& in) {
  const Form& f = in.form;
  const bool has_result = f.op == Op::atom;
  const Operand& address = in.ops[has_result ? 1 : 0];
  const Space s = f.n_spaces ? f.space() : Space::none;
  if (!is_integer(f.type()) || f.vec > 1 || f.has(Mod::noftz) || address.kind != OperandKind::address || s == Space::shared_cluster) return false;
  if (has_result && in.ops[0].kind != OperandKind::reg && in.ops[0].kind != OperandKind::sink) return false;
  const bool cas = f.has(Mod::cas);
  if (!cas && operation(f) == AtomicRMWInst::BAD_BINOP) return false;
  for (size_t i = has_result ? 2 : 1; i < in.ops.size() && i < (has_result ? 2u : 1u) + (cas ? 2u : 1u); i++)
    if (in.ops[i].kind != OperandKind::reg && in.ops[i].kind != OperandKind::imm) return false;
  MemoryAccess(*this, in, address, isa::bytes_of(f.type()), 1).atomic();
  return true;
}

void MemoryAccess::atomic() {
  const bool has_result = in_.form.op == Op::atom && in_.ops[0].kind == OperandKind::reg && e_.plan_.uses[in_.ops[0].id], cas = in_.form.has(Mod::cas);
  const size_t first = in_.form.op == Op::atom ? 2 : 1;
  llvm::Type* t = memory_type();
  Value* m = e_.exec_mask();
  Value* v = e_.read_as(in_.ops[first], t, 32);
  Value* w = cas ? e_.read_as(in_.ops[first + 1], t, 32) : nullptr;
  if (!has_result && !cas && lanes_.uniform() && in_.form.has(Mod::add)) return reduce_then_add(v, m);
  Value *at = address(32), *bad = e_.any(b_.CreateAnd(outside(at, 0, size()), m));
  either(bad, [&]() -> std::vector<Value*> {
    note();
    Value *addresses = e_.scratch(256, 0), *values = e_.scratch(256, 1), *others = e_.scratch(256, 2), *results = e_.scratch(256, 3);
    b_.CreateAlignedStore(at, addresses, llvm::Align(64));
    const bool one_value = e_.operand_width(in_.ops[first]) == 1 && !e_.is_patterned(in_.ops[first]);
    Value* same = one_value ? e_.read_as(in_.ops[first], t, 1) : nullptr;
    if (!same) b_.CreateAlignedStore(v, values, llvm::Align(64));
    if (w) b_.CreateAlignedStore(w, others, llvm::Align(64));
    const auto of_lane = [&](Value* lane) {
      auto pick = [&](llvm::Type* type, Value* from) { return b_.CreateLoad(type, b_.CreateInBoundsGEP(type, from, lane)); };
      Value* p = pointer(pick(at->getType()->getScalarType(), addresses));
      Value* old = one_lane(p, same ? same : pick(t, values), w ? pick(t, others) : nullptr);
      if (has_result) b_.CreateStore(old, b_.CreateInBoundsGEP(t, results, lane));
    };
    // One lane after the other takes two or three cycles each when nothing has to be asked about it.
    if (!shared_) e_.for_each_lane(m, of_lane);
    else either_way(b_.CreateICmpEQ(e_.bits_of(m), b_.getInt32(~0u)), [&] {
      for (uint64_t lane = 0; lane < 32; lane++) of_lane(b_.getInt64(lane));
    }, [&] { e_.for_each_lane(m, of_lane); });
    if (!has_result) return {};
    return {b_.CreateAlignedLoad(e_.wide(t, 32), results, llvm::Align(64))};
  });
}

Value* MemoryAccess::one_lane(Value* p, Value* v, Value* w) {
  const llvm::Align align{uint64_t(bytes_)};
  const bool own = shared_ && in_.form.space() != Space::shared_cluster;
  if (w) {
    if (own) {
      Value* old = b_.CreateAlignedLoad(v->getType(), p, align);
      b_.CreateAlignedStore(b_.CreateSelect(b_.CreateICmpEQ(old, v), w, old), p, align);
      return old;
    }
    return b_.CreateExtractValue(b_.CreateAtomicCmpXchg(p, v, w, align, llvm::AtomicOrdering::SequentiallyConsistent,
                                                        llvm::AtomicOrdering::SequentiallyConsistent), 0);
  }
  const auto op = operation(in_.form);
  if (!own) return b_.CreateAtomicRMW(op, p, v, align, llvm::AtomicOrdering::SequentiallyConsistent);
  Value *old = b_.CreateAlignedLoad(v->getType(), p, align), *now = v;
  switch (op) {
    case AtomicRMWInst::Add: now = b_.CreateAdd(old, v); break;
    case AtomicRMWInst::And: now = b_.CreateAnd(old, v); break;
    case AtomicRMWInst::Or: now = b_.CreateOr(old, v); break;
    case AtomicRMWInst::Xor: now = b_.CreateXor(old, v); break;
    case AtomicRMWInst::Min: now = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, old, v); break;
    case AtomicRMWInst::Max: now = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, old, v); break;
    case AtomicRMWInst::UMin: now = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, old, v); break;
    case AtomicRMWInst::UMax: now = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, old, v); break;
    default: break;
  }
  b_.CreateAlignedStore(now, p, align);
  return old;
}

/// red.add of all lanes to one address: the lanes are summed first.
void MemoryAccess::reduce_then_add(Value* v, Value* m) {
  Value *base = address(1), *bad = outside(base, 0, size());
  llvm::BasicBlock *go = e_.block("reduce"), *skip = e_.block("reduced");
  b_.CreateCondBr(e_.any(m), go, skip);
  b_.SetInsertPoint(go);
  either(bad, [&]() -> std::vector<Value*> {
    note();
    Value* sum = b_.CreateAddReduce(b_.CreateSelect(m, v, llvm::Constant::getNullValue(v->getType())));
    one_lane(pointer(base), sum, nullptr);
    return {};
  });
  b_.CreateBr(skip);
  b_.SetInsertPoint(skip);
}

}  // namespace orrery::jit
