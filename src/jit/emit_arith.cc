// jit/emit_arith.cc: integer arithmetic, logic, shifts, bit fields, mov. See emitter.h.
//
// Results equal sem/ bit for bit. Lanes that are not on their way compute on garbage: nothing here may trap or branch on
// values.
// Source of the meanings: sem/integer.cc, sem/bits.cc. Not here: floating point (emit_float.cc).
#include "exec/run_state.h"
#include "isa/row.h"
#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;
using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Intrinsic::ID;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

bool is_integer(Type t) {
  const isa::TypeClass c = isa::class_of(t);
  return c == isa::TypeClass::bits || c == isa::TypeClass::uint || c == isa::TypeClass::sint;
}

}  // namespace

bool Emitter::emit_arith(const Instr& in) {
  const Form& f = in.form;
  if (f.has(Mod::cc) || f.op == Op::addc || f.op == Op::subc || f.op == Op::madc) return false;
  if (lower::destinations(in) != 1 || in.ops[0].kind != OperandKind::reg) return false;
  for (const Operand& o : in.ops)
    if (o.selector != Mod::count || o.kind == OperandKind::vec || o.kind == OperandKind::pair || o.kind == OperandKind::sreg) return false;
  if (is_pred(in.ops[0].id)) return false;
  widen_bases(in);
  const int width = natural_width(in, 1);
  Value* v = nullptr;
  if (is_integer(f.type())) {
    v = integer_op(in, width);
    if (!v) v = bitfield_op(in, width);
  } else if (f.type() == Type::f32 || f.type() == Type::f64) {
    v = float_op(in, width);
  } else if (is_half(f.type())) {
    v = half_op(in, width);
  }
  if (!v) return false;
  define(in.ops[0], v);
  return true;
}

/// A 32-bit base + pattern that is widened to 64 bits: finds the 64-bit base of every operand with a pattern. Where no
/// lane wraps that is the widened base; where some do (lane 0 of `tid - 1`), lanes that are not on their way do not
/// count; where lanes on their way disagree, the interpreter takes over.
void Emitter::widen_bases(const Instr& in) {
  widened_.clear();
  if (!lower::widens(in.form) || in.ops[0].kind != OperandKind::reg || !plan_.uniformity.regs[in.ops[0].id].pattern) return;
  const Type from = in.form.op == Op::cvt ? in.form.type(1) : in.form.type(0);
  const size_t n_sources = in.form.op == Op::cvt ? 1 : 2;
  for (size_t i = 1; i <= n_sources; i++) {
    const Operand& o = in.ops[i];
    if (o.kind == OperandKind::reg && plan_.uniformity.regs[o.id].pattern) widened_[i] = widen_base(o, isa::is_signed(from), width_of_reg(in.ops[0].id));
  }
}

llvm::Value* Emitter::widen_base(const Operand& o, bool sign, int width) {
  const lower::Pattern& p = plan_.uniformity.pattern_of(plan_.uniformity.regs[o.id]);
  const int64_t low = std::min<int64_t>(0, *std::min_element(p.begin(), p.end()));
  const int64_t high = std::max<int64_t>(0, *std::max_element(p.begin(), p.end()));
  llvm::Type* i64 = wide(b_.getInt64Ty(), width);
  auto extend = [&](Value* v, llvm::Type* t) { return sign ? b_.CreateSExt(v, t) : b_.CreateZExt(v, t); };
  Value* base = fit(bits(o.id, width), b_.getInt32Ty());
  Value* plain = extend(base, i64);
  if (is_foreseen(o.id)) return plain;
  // base + low and base + high stay in range when base, moved so that the range starts at 0, is small enough.
  const int64_t least = sign ? INT32_MIN : 0;
  Value* moved = b_.CreateSub(base, ConstantInt::get(base->getType(), uint64_t(least - low), true));
  Value* bad = b_.CreateICmpUGT(moved, ConstantInt::get(base->getType(), uint64_t(0xffffffff - (high - low))));
  if (width > 1) {
    leave_if(b_.CreateOrReduce(bad));
    return plain;
  }
  Block *look = block("wraps"), *done = block("widened"), *from = b_.GetInsertBlock();
  auto* branch = b_.CreateCondBr(bad, look, done);
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(look);
  llvm::SmallVector<uint64_t, 32> offsets;
  for (int64_t v : p) offsets.push_back(uint64_t(v));
  llvm::Constant* pattern = llvm::ConstantDataVector::get(context_, offsets);
  Value* m = exec_mask();
  Value* all = extend(fit(bits(o.id, 32), b_.getInt32Ty()), pattern->getType());
  Value* first = b_.CreateAnd(b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits_of(m), b_.getFalse()), b_.getInt32(31));
  Value* other = b_.CreateSub(b_.CreateExtractElement(all, first), b_.CreateExtractElement(pattern, first));
  leave_if(any(b_.CreateAnd(m, b_.CreateICmpNE(all, b_.CreateAdd(widen(other, 32), pattern)))));
  Block* looked = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  auto* phi = b_.CreatePHI(i64, 2);
  phi->addIncoming(plain, from);
  phi->addIncoming(other, looked);
  return phi;
}

llvm::Value* Emitter::shift(unsigned op, Value* a, Value* by) {
  // Counts of the width or more give 0, or the sign for an arithmetic shift.
  const unsigned bits = a->getType()->getScalarSizeInBits();
  Value* top = ConstantInt::get(by->getType(), bits - 1);
  auto opcode = llvm::Instruction::BinaryOps(op);
  Value* inside = b_.CreateICmpULE(by, top);
  Value* count = b_.CreateSelect(inside, by, op == llvm::Instruction::AShr ? top : ConstantInt::get(by->getType(), 0));
  const int width = width_of(a);
  count = b_.CreateZExtOrTrunc(count, wide(b_.getIntNTy(bits), width));
  Value* r = b_.CreateBinOp(opcode, a, count);
  return op == llvm::Instruction::AShr ? r : b_.CreateSelect(inside, r, ConstantInt::get(a->getType(), 0));
}

llvm::Value* Emitter::integer_op(const Instr& in, int width) {
  const Form& f = in.form;
  const Type t = f.type();
  const unsigned bits = unsigned(isa::bits_of(t));
  const bool sign = isa::is_signed(t);
  if (bits < 16 || bits > 64) return nullptr;
  auto src = [&](size_t i) { return read(in.ops[i], t, width); };
  auto intrinsic = [&](ID id, Value* a, Value* b) { return b_.CreateBinaryIntrinsic(id, a, b); };
  switch (f.op) {
    case Op::add: return f.has(Mod::sat) ? intrinsic(llvm::Intrinsic::sadd_sat, src(1), src(2)) : b_.CreateAdd(src(1), src(2));
    case Op::sub: return f.has(Mod::sat) ? intrinsic(llvm::Intrinsic::ssub_sat, src(1), src(2)) : b_.CreateSub(src(1), src(2));
    case Op::mul: case Op::mad: {
      if (f.has(Mod::sat)) return nullptr;
      Value *a = src(1), *b = src(2), *r;
      llvm::Type* twice = wide(b_.getIntNTy(2 * bits), width);
      auto extend = [&](Value* v) { return sign ? b_.CreateSExt(v, twice) : b_.CreateZExt(v, twice); };
      if (f.has(Mod::wide)) {
        r = b_.CreateMul(widened_.count(1) ? widened_[1] : extend(a), widened_.count(2) ? widened_[2] : extend(b));
        return f.op == Op::mad ? b_.CreateAdd(r, read_as(in.ops[3], b_.getIntNTy(2 * bits), width)) : r;
      }
      if (f.has(Mod::hi)) {
        if (bits == 64 && width > 4) return nullptr;
        r = b_.CreateTrunc(b_.CreateLShr(b_.CreateMul(extend(a), extend(b)), bits), a->getType());
      } else {
        r = b_.CreateMul(a, b);
      }
      return f.op == Op::mad ? b_.CreateAdd(r, src(3)) : r;
    }
    case Op::div: case Op::rem: return divide(src(1), src(2), sign, f.op == Op::rem);
    case Op::abs: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, src(1), b_.getFalse());
    case Op::neg: return b_.CreateNeg(src(1));
    case Op::min: case Op::max: {
      const bool max = f.op == Op::max;
      if (f.has(Mod::relu) || in.ops.size() > 4) return nullptr;
      const ID id = sign ? (max ? llvm::Intrinsic::smax : llvm::Intrinsic::smin) : (max ? llvm::Intrinsic::umax : llvm::Intrinsic::umin);
      Value* r = intrinsic(id, src(1), src(2));
      return in.ops.size() == 4 ? intrinsic(id, r, src(3)) : r;
    }
    case Op::sad: {
      Value *a = src(1), *b = src(2);
      const ID max = sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, min = sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin;
      return b_.CreateAdd(src(3), b_.CreateSub(intrinsic(max, a, b), intrinsic(min, a, b)));
    }
    case Op::and_: return b_.CreateAnd(src(1), src(2));
    case Op::or_: case Op::xor_: {
      Value *a = src(1), *b = src(2);
      return f.op == Op::or_ ? b_.CreateOr(a, b) : b_.CreateXor(a, b);
    }
    case Op::not_: return b_.CreateNot(src(1));
    case Op::cnot: return b_.CreateZExt(b_.CreateICmpEQ(src(1), ConstantInt::get(wide(b_.getIntNTy(bits), width), 0)), wide(b_.getIntNTy(bits), width));
    case Op::shl: return shift(llvm::Instruction::Shl, src(1), read_as(in.ops[2], b_.getInt32Ty(), width));
    case Op::shr: return shift(sign ? llvm::Instruction::AShr : llvm::Instruction::LShr, src(1), read_as(in.ops[2], b_.getInt32Ty(), width));
    default: return nullptr;
  }
}

llvm::Value* Emitter::divide(Value* a, Value* b, bool sign, bool remainder) {
  const unsigned bits = a->getType()->getScalarSizeInBits();
  const int width = width_of(a);
  llvm::Type* t = a->getType();
  auto constant = [&](int64_t v) { return ConstantInt::get(t, uint64_t(v), true); };
  Value* zero = b_.CreateICmpEQ(b, constant(0));
  if (bits == 64 && width > 4) return nullptr;
  if (width <= 4) {
    Value* safe = b_.CreateSelect(zero, constant(1), b);
    if (sign) {
      Value* minus = b_.CreateICmpEQ(b, constant(-1));
      safe = b_.CreateSelect(minus, constant(1), safe);
      if (remainder) {
        Value* r = b_.CreateSelect(minus, constant(0), b_.CreateSRem(a, safe));
        return b_.CreateSelect(zero, constant(-1), r);
      }
      Value* q = b_.CreateSelect(minus, b_.CreateNeg(a), b_.CreateSDiv(a, safe));
      return b_.CreateSelect(zero, constant(-1), q);
    }
    Value* q = remainder ? b_.CreateURem(a, safe) : b_.CreateUDiv(a, safe);
    return b_.CreateSelect(zero, constant(-1), q);
  }
  // No vector division of integers: quotients of 32-bit integers are exact in f64 after truncation.
  llvm::Type *i32 = wide(b_.getInt32Ty(), width), *f64 = wide(b_.getDoubleTy(), width);
  Value* x = sign ? b_.CreateSExt(a, i32) : b_.CreateZExt(a, i32);
  Value* y = sign ? b_.CreateSExt(b, i32) : b_.CreateZExt(b, i32);
  Value* safe = b_.CreateSelect(zero, ConstantInt::get(i32, 1), y);
  Value* real = b_.CreateFDiv(sign ? b_.CreateSIToFP(x, f64) : b_.CreateUIToFP(x, f64), sign ? b_.CreateSIToFP(safe, f64) : b_.CreateUIToFP(safe, f64));
  Value* q;
  if (sign) {
    // -2^31 / -1 = 2^31 wraps.
    llvm::Type* i64 = wide(b_.getInt64Ty(), width);
    q = b_.CreateTrunc(b_.CreateFPToSI(real, i64), i32);
  } else {
    q = b_.CreateFPToUI(real, i32);
  }
  q = b_.CreateTrunc(q, t);
  if (remainder) q = b_.CreateSub(a, b_.CreateMul(q, b));
  return b_.CreateSelect(zero, constant(-1), q);
}

llvm::Value* Emitter::bitfield_op(const Instr& in, int width) {
  const Form& f = in.form;
  const Type t = f.type();
  const unsigned bits = unsigned(isa::bits_of(t));
  llvm::Type *type = wide(b_.getIntNTy(bits), width), *i32 = wide(b_.getInt32Ty(), width);
  auto src = [&](size_t i) { return read(in.ops[i], t, width); };
  auto word = [&](size_t i) { return read_as(in.ops[i], b_.getInt32Ty(), width); };
  auto immediate_at = [&](size_t i) { return in.ops.size() > i && in.ops[i].kind == OperandKind::imm; };
  switch (f.op) {
    case Op::popc: return b_.CreateZExtOrTrunc(b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, src(1)), i32);
    case Op::clz: return b_.CreateZExtOrTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, src(1), b_.getFalse()), i32);
    case Op::brev: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, src(1));
    case Op::bfind: {
      Value* a = src(1);
      if (isa::is_signed(t)) a = b_.CreateXor(a, b_.CreateAShr(a, ConstantInt::get(type, bits - 1)));
      Value* zeros = b_.CreateZExtOrTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, a, b_.getFalse()), i32);
      Value* r = f.has(Mod::shiftamt) ? zeros : b_.CreateSub(ConstantInt::get(i32, bits - 1), zeros);
      return b_.CreateSelect(b_.CreateICmpEQ(a, ConstantInt::get(type, 0)), ConstantInt::get(i32, ~0u), r);
    }
    case Op::shf: {
      Value *a = src(1), *b = src(2), *n = word(3);
      if (!f.has(Mod::wrap)) n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, n, ConstantInt::get(i32, 32));
      Value* r = b_.CreateIntrinsic(i32, f.has(Mod::l) ? llvm::Intrinsic::fshl : llvm::Intrinsic::fshr, {b, a, n});
      if (!f.has(Mod::wrap)) r = b_.CreateSelect(b_.CreateICmpEQ(n, ConstantInt::get(i32, 32)), f.has(Mod::l) ? a : b, r);
      return r;
    }
    case Op::lop3: {
      if (!immediate_at(4) || in.ops.size() != 5) return nullptr;
      return lop3(src(1), src(2), src(3), unsigned(in.ops[4].value) & 255);
    }
    case Op::bfe: {
      if (!immediate_at(2) || !immediate_at(3)) return nullptr;
      const uint64_t pos = uint64_t(in.ops[2].value), len = uint64_t(in.ops[3].value);
      if (pos > 255 || len > 255) return nullptr;  // which bits of these count depends on the type
      if (len == 0 || pos >= bits || pos + len > bits) return nullptr;
      Value* up = b_.CreateShl(src(1), ConstantInt::get(type, bits - pos - len));
      Value* by = ConstantInt::get(type, bits - len);
      return isa::is_signed(t) ? b_.CreateAShr(up, by) : b_.CreateLShr(up, by);
    }
    case Op::bfi: {
      if (!immediate_at(3) || !immediate_at(4)) return nullptr;
      const uint64_t pos = uint64_t(in.ops[3].value), len = uint64_t(in.ops[4].value);
      if (pos > 255 || len > 255) return nullptr;
      if (len == 0 || pos >= bits) return src(2);
      const uint64_t ones = len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1;
      Value* keep = ConstantInt::get(context_, llvm::APInt(bits, ones << pos));
      keep = widen(keep, width);
      return b_.CreateOr(b_.CreateAnd(src(2), b_.CreateNot(keep)), b_.CreateAnd(b_.CreateShl(src(1), ConstantInt::get(type, pos)), keep));
    }
    case Op::prmt: {
      if (!immediate_at(3) || f.mods.any() || width == 1) return nullptr;
      return permute_bytes(src(1), src(2), unsigned(in.ops[3].value));
    }
    default: return nullptr;
  }
}

/// The bytes that a constant selector picks from a (0..3) and b (4..7).
llvm::Value* Emitter::permute_bytes(Value* a, Value* b, unsigned selector) {
  Value* r = ConstantInt::get(a->getType(), 0);
  auto constant = [&](uint64_t v) { return ConstantInt::get(a->getType(), v); };
  for (unsigned i = 0; i < 4; i++) {
    const unsigned s = selector >> (4 * i) & 15, from = s & 3;
    Value* v = b_.CreateLShr((s & 4) ? b : a, constant(8 * from));
    if (s & 8) v = b_.CreateAShr(b_.CreateShl(v, constant(24)), constant(31));
    r = b_.CreateOr(r, b_.CreateShl(b_.CreateAnd(v, constant(255)), constant(8 * i)));
  }
  return r;
}

llvm::Value* Emitter::lop3(Value* a, Value* b, Value* c, unsigned table) {
  // Known tables by name, the rest as the sum of minterms; LLVM folds both into ternary logic where the host has it.
  Value* r = ConstantInt::get(a->getType(), 0);
  for (unsigned i = 0; i < 8; i++) {
    if (!(table >> i & 1)) continue;
    Value* term = b_.CreateAnd(b_.CreateAnd(i & 4 ? a : b_.CreateNot(a), i & 2 ? b : b_.CreateNot(b)), i & 1 ? c : b_.CreateNot(c));
    r = b_.CreateOr(r, term);
  }
  return r;
}

bool Emitter::emit_mov(const Instr& in) {
  const Form& f = in.form;
  if (f.op == Op::cvta) {
    const bool identity = f.n_spaces && (f.space() == Space::global || f.space() == Space::const_);
    if (!identity || in.ops[1].kind == OperandKind::local_var) return false;
  }
  if (in.ops.size() != 2) return false;
  if (in.ops[0].kind == OperandKind::vec) return unpack(in);
  if (in.ops[1].kind == OperandKind::vec) return pack(in);
  if (in.ops[0].kind != OperandKind::reg) return false;
  const Operand& from = in.ops[1];
  if (is_pred(in.ops[0].id)) {
    if (from.kind != OperandKind::reg && from.kind != OperandKind::imm) return false;
    define(in.ops[0], read_predicate(from, width_of_reg(in.ops[0].id)));
    return true;
  }
  if (from.kind == OperandKind::sreg) {
    switch (ptx::Sreg(from.id)) {
      case ptx::Sreg::clock: case ptx::Sreg::clock64: case ptx::Sreg::clock_hi: return false;
      default: break;
    }
  } else if (from.kind != OperandKind::reg && from.kind != OperandKind::imm) {
    return false;
  }
  const int width = natural_width(in, 1);
  const bool lazy = from.kind == OperandKind::reg && plan_.lazy_nan[from.id] && plan_.lazy_nan[in.ops[0].id];
  Value* v = read_as(from, element_of_reg(in.ops[0].id), width, lazy ? Use::arithmetic : Use::bits);
  if (!v) return false;
  define(in.ops[0], v);
  return true;
}

bool Emitter::pack(const Instr& in) {
  const auto& parts = in.ops[1].parts;
  const unsigned bits = unsigned(isa::bits_of(in.form.type())), each = bits / unsigned(parts.size());
  if (bits > 64) return false;
  for (const Operand& p : parts)
    if (p.kind != OperandKind::reg && p.kind != OperandKind::imm) return false;
  const int width = natural_width(in, 1);
  llvm::Type* t = wide(b_.getIntNTy(bits), width);
  Value* r = ConstantInt::get(t, 0);
  for (size_t i = 0; i < parts.size(); i++) {
    Value* v = b_.CreateZExt(read_as(parts[i], b_.getIntNTy(each), width), t);
    r = b_.CreateOr(r, b_.CreateShl(v, ConstantInt::get(t, each * i)));
  }
  define(in.ops[0], r);
  return true;
}

bool Emitter::unpack(const Instr& in) {
  const auto& parts = in.ops[0].parts;
  const unsigned bits = unsigned(isa::bits_of(in.form.type())), each = bits / unsigned(parts.size());
  if (bits > 64 || in.ops[1].kind != OperandKind::reg) return false;
  const int width = natural_width(in, 1);
  Value* v = read_as(in.ops[1], b_.getIntNTy(bits), width);
  llvm::Type* t = wide(b_.getIntNTy(each), width);
  for (size_t i = 0; i < parts.size(); i++)
    define(parts[i], b_.CreateTrunc(b_.CreateLShr(v, ConstantInt::get(v->getType(), each * i)), t));
  return true;
}

}  // namespace orrery::jit
