// jit/emit_convert.cc: cvt between integers, f32 and f64. See emitter.h. Meanings: sem/convert.cc. Not here: f16, bf16
// and fp8 (emit_half.cc).
#include "jit/emitter.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Type;
using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {
bool is_integer(Type t) {
  const isa::TypeClass c = isa::class_of(t);
  return (c == isa::TypeClass::bits || c == isa::TypeClass::uint || c == isa::TypeClass::sint) && isa::bits_of(t) >= 8 && isa::bits_of(t) <= 64;
}
bool is_real(Type t) { return t == Type::f32 || t == Type::f64; }
llvm::Intrinsic::ID rounding_of(const Form& f) {
  if (f.has(Mod::rni)) return llvm::Intrinsic::roundeven;
  if (f.has(Mod::rzi)) return llvm::Intrinsic::trunc;
  if (f.has(Mod::rmi)) return llvm::Intrinsic::floor;
  if (f.has(Mod::rpi)) return llvm::Intrinsic::ceil;
  return llvm::Intrinsic::not_intrinsic;
}
}  // namespace

bool Emitter::emit_convert(const Instr& in) {
  const Form& f = in.form;
  if (in.ops[0].kind != OperandKind::reg || f.n_types != 2) return false;
  bool plain = true;
  for (size_t i = 1; i < in.ops.size(); i++)
    plain &= (in.ops[i].kind == OperandKind::reg || in.ops[i].kind == OperandKind::imm) && !in.ops[i].negated && in.ops[i].selector == Mod::count;
  if (plain)
    if (Value* v = convert_half(in, natural_width(in, 1))) return define(in.ops[0], v), true;
  if (in.ops.size() != 2) return false;
  if (in.ops[1].kind != OperandKind::reg || in.ops[1].negated || f.has(Mod::satfinite) || f.has(Mod::relu)) return false;
  const Type to = f.type(0), from = f.type(1);
  widen_bases(in);
  const int width = natural_width(in, 1);
  Value* v = nullptr;
  if (is_integer(to) && is_integer(from)) v = int_to_int(in, width);
  else if (is_real(to) && is_integer(from)) v = int_to_real(in, width);
  else if (is_integer(to) && is_real(from)) v = real_to_int(in, width);
  else if (is_real(to) && is_real(from)) v = real_to_real(in, width);
  if (!v) return false;
  define(in.ops[0], v);
  return true;
}

llvm::Value* Emitter::int_to_int(const Instr& in, int width) {
  const Form& f = in.form;
  if (f.has(Mod::sat)) return nullptr;
  llvm::Type* reg = element_of_reg(in.ops[0].id);
  if (!reg->isIntegerTy()) return nullptr;
  if (widened_.count(1)) return widened_[1];
  Value* v = read(in.ops[1], f.type(1), width);
  llvm::Type* to = wide(element(f.type(0)), width);
  v = b_.CreateIntCast(v, to, isa::is_signed(f.type(1)));
  // A narrow signed result in a wider register is sign-extended.
  return b_.CreateIntCast(v, wide(reg, width), isa::is_signed(f.type(0)));
}

llvm::Value* Emitter::int_to_real(const Instr& in, int width) {
  const Form& f = in.form;
  const int bits = isa::bits_of(f.type(1));
  const bool exact = bits < 32 || (f.type(0) == Type::f64 && bits <= 32);
  if (f.has(Mod::sat) || (!f.has(Mod::rn) && !exact)) return nullptr;
  Value* v = read(in.ops[1], f.type(1), width);
  llvm::Type* to = wide(element(f.type(0)), width);
  return isa::is_signed(f.type(1)) ? b_.CreateSIToFP(v, to) : b_.CreateUIToFP(v, to);
}

/// Rounds to an integral value, then clamps; NaN gives 0 (32 bits and less from f32), 2^63 or 2^31.
llvm::Value* Emitter::real_to_int(const Instr& in, int width) {
  const Form& f = in.form;
  const Type to = f.type(0);
  const unsigned bits = unsigned(isa::bits_of(to));
  const llvm::Intrinsic::ID round = rounding_of(f);
  if (round == llvm::Intrinsic::not_intrinsic || bits < 32) return nullptr;
  Value* v = read(in.ops[1], f.type(1), width, Use::arithmetic);
  if (f.has(Mod::ftz)) v = flush(v);
  if (f.type(1) == Type::f32) v = b_.CreateFPExt(v, wide(b_.getDoubleTy(), width));
  const uint64_t nan = bits == 64 ? uint64_t{1} << 63 : f.type(1) == Type::f64 ? uint64_t{1} << 31 : 0;
  llvm::Type* t = wide(b_.getIntNTy(bits), width);
  Value* whole = b_.CreateUnaryIntrinsic(round, v);
  Value* r = b_.CreateIntrinsic(isa::is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat, {t, whole->getType()}, {whole});
  return nan ? b_.CreateSelect(b_.CreateFCmpUNO(v, v), ConstantInt::get(t, nan), r) : r;
}

llvm::Value* Emitter::real_to_real(const Instr& in, int width) {
  const Form& f = in.form;
  const Type to = f.type(0), from = f.type(1);
  if (f.has(Mod::rz) || f.has(Mod::rm) || f.has(Mod::rp)) return nullptr;
  const llvm::Intrinsic::ID round = rounding_of(f);
  if (to == from) {
    if (to != Type::f32) return nullptr;
    Value* v = read(in.ops[1], from, width, Use::arithmetic);
    if (f.has(Mod::ftz)) v = flush(v);
    if (round != llvm::Intrinsic::not_intrinsic) v = b_.CreateUnaryIntrinsic(round, v);
    return f.has(Mod::sat) ? saturated(v) : canonical_nan(v);
  }
  if (f.has(Mod::sat) || f.has(Mod::ftz)) return nullptr;
  if (round != llvm::Intrinsic::not_intrinsic) return nullptr;
  if (to == Type::f32)
    return canonical_nan(b_.CreateFPTrunc(read(in.ops[1], from, width), wide(b_.getFloatTy(), width)));
  Value* wide_value = b_.CreateFPExt(read(in.ops[1], from, width), wide(b_.getDoubleTy(), width));
  return wide_value;
}

}  // namespace orrery::jit
