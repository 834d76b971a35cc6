// jit/emit_half.cc: f16 and bf16, plain and packed: arithmetic, comparisons, conversions from and to f32, fp8 pairs.
//
// Everything is computed in f32 and rounded once more. That is right because f32 has more than twice the bits (sums and
// products: Figueroa, "When is double rounding innocuous?"); fused multiply-adds are rounded to odd first. A pair is an
// operation on twice the lanes.
// Results equal sem/half.cc and sem/convert.cc bit for bit; every NaN that comes out is the GPU's.
// Not here: approximations (tables in sem/), directed rounding, .oob, .xorsign.abs.
#include "jit/emitter.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Type;
using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr uint64_t kNan = 0x7fff;
bool is_brain(Type t) { return t == Type::bf16 || t == Type::bf16x2; }
bool is_pair(Type t) { return t == Type::f16x2 || t == Type::bf16x2; }
uint64_t infinity(bool brain) { return brain ? 0x7f80 : 0x7c00; }
bool is_float_immediate(const Operand& o) { return o.kind == OperandKind::imm && o.is_float; }

}  // namespace

bool Emitter::is_half(Type t) { return t == Type::f16 || t == Type::bf16 || is_pair(t); }

/// The halves of an operand, 16 bits each; a pair's low one first.
llvm::Value* Emitter::halves(const Operand& o, Type t, int width) {
  Value* v = read_as(o, b_.getIntNTy(unsigned(isa::bits_of(t))), width);
  return is_pair(t) ? b_.CreateBitCast(v, wide(b_.getInt16Ty(), 2 * width)) : v;
}

/// The other way round, and how `define` wants them.
llvm::Value* Emitter::joined(Value* v, Type t) {
  return is_pair(t) ? b_.CreateBitCast(v, wide(b_.getInt32Ty(), width_of(v) / 2)) : v;
}

/// Subnormal numbers to zero (f16 only: bf16 has no .ftz).
llvm::Value* Emitter::flushed_half(Value* v) {
  Value* small = b_.CreateICmpEQ(b_.CreateAnd(v, ConstantInt::get(v->getType(), infinity(false))), ConstantInt::get(v->getType(), 0));
  return b_.CreateSelect(small, b_.CreateAnd(v, ConstantInt::get(v->getType(), 0x8000)), v);
}

llvm::Value* Emitter::lifted(Value* v, bool brain) {
  const int width = width_of(v);
  if (!brain) return b_.CreateFPExt(b_.CreateBitCast(v, wide(b_.getHalfTy(), width)), wide(b_.getFloatTy(), width));
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, wide(b_.getInt32Ty(), width)), 16), wide(b_.getFloatTy(), width));
}

/// f32 to the nearest half, ties to even.
llvm::Value* Emitter::narrowed(Value* v, bool brain) {
  const int width = width_of(v);
  llvm::Type *i16 = wide(b_.getInt16Ty(), width), *i32 = wide(b_.getInt32Ty(), width);
  Value* r;
  if (brain) {
    Value* bits = b_.CreateBitCast(v, i32);
    Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), ConstantInt::get(i32, 1));
    r = b_.CreateTrunc(b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(bits, ConstantInt::get(i32, 0x7fff)), odd), 16), i16);
  } else {
    r = b_.CreateBitCast(b_.CreateFPTrunc(v, wide(b_.getHalfTy(), width)), i16);
  }
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), ConstantInt::get(i16, kNan), r);
}

/// v, which is not exact by an amount of `error`'s sign, moved to the neighbour with an odd last bit where `where` says so
/// (null: where there is an error). What is rounded to fewer bits after that is rounded right.
llvm::Value* Emitter::rounded_to_odd(Value* v, Value* error, Value* where) {
  llvm::Type* i32 = wide(b_.getInt32Ty(), width_of(v));
  Value *zero = llvm::Constant::getNullValue(v->getType()), *bits = b_.CreateBitCast(v, i32);
  Value* inexact = b_.CreateFCmpONE(error, zero);
  if (where) inexact = b_.CreateAnd(inexact, where);
  Value* outwards = b_.CreateICmpSGE(b_.CreateXor(b_.CreateBitCast(error, i32), bits), ConstantInt::get(i32, 0));  // the same sign
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, ConstantInt::get(i32, 1)), ConstantInt::get(i32, 0));
  Value* step = b_.CreateSelect(outwards, ConstantInt::get(i32, 1), ConstantInt::get(i32, ~uint64_t{0}));
  return b_.CreateBitCast(b_.CreateAdd(bits, b_.CreateSelect(b_.CreateAnd(inexact, even), step, ConstantInt::get(i32, 0))), v->getType());
}

/// a * b + c of f16. The product is exact; the sum and its error (two-sum) are rounded to odd.
llvm::Value* Emitter::fused_f16(Value* a, Value* b, Value* c) {
  Value *p = b_.CreateFMul(a, b), *s = b_.CreateFAdd(p, c), *v = b_.CreateFSub(s, p);
  Value* error = b_.CreateFAdd(b_.CreateFSub(p, b_.CreateFSub(s, v)), b_.CreateFSub(c, v));
  return rounded_to_odd(s, error, nullptr);
}

/// a * b + c of bf16. The host's fused result r is right but where it lies in the middle between two bf16 without being
/// exact. A product has 16 bits, so that is so only when a * b is that middle and c too small to be seen in r; the sign of
/// what was lost is that of (a * b - r) + c, and rounded once is what moves by it. Numbers below the normal ones are exact
/// or nowhere near a middle: a product of two 8-bit significands is never as close to a power of two as that takes.
llvm::Value* Emitter::fused_bf16(Value* a, Value* b, Value* c) {
  llvm::Type *f32 = a->getType(), *i32 = wide(b_.getInt32Ty(), width_of(a));
  auto fma = [&](Value* x, Value* y, Value* z) { return b_.CreateIntrinsic(f32, llvm::Intrinsic::fma, {x, y, z}); };
  Value* r = fma(a, b, c);
  Value* tail = b_.CreateAnd(b_.CreateBitCast(r, i32), ConstantInt::get(i32, 0xffff));
  Value* middle = b_.CreateICmpEQ(tail, ConstantInt::get(i32, 0x8000));
  return rounded_to_odd(r, b_.CreateFAdd(fma(a, b, b_.CreateFNeg(r)), c), middle);
}

/// Null: a form that sem/ computes.
llvm::Value* Emitter::half_op(const Instr& in, int width) {
  const Form& f = in.form;
  const Type t = f.type();
  const bool brain = is_brain(t), ftz = f.has(Mod::ftz);
  if (f.n_types != 1 || f.has(Mod::oob) || f.has(Mod::approx) || (ftz && brain)) return nullptr;
  for (const Operand& o : in.ops)
    if (is_float_immediate(o) || o.negated) return nullptr;
  auto source = [&](size_t i) {
    Value* v = halves(in.ops[i], t, width);
    return ftz ? flushed_half(v) : v;
  };
  auto constant = [](Value* like, uint64_t v) { return ConstantInt::get(like->getType(), v); };
  if (f.op == Op::neg || f.op == Op::abs) {
    Value* v = source(1);
    Value* magnitude = b_.CreateAnd(v, constant(v, 0x7fff));
    Value* r = f.op == Op::neg ? b_.CreateXor(v, constant(v, 0x8000)) : magnitude;
    return joined(b_.CreateSelect(b_.CreateICmpUGT(magnitude, constant(v, infinity(brain))), constant(v, kNan), r), t);
  }
  auto real = [&](size_t i) { return lifted(source(i), brain); };
  Value* v = nullptr;
  switch (f.op) {
    case Op::add: v = b_.CreateFAdd(real(1), real(2)); break;
    case Op::sub: v = b_.CreateFSub(real(1), real(2)); break;
    case Op::mul: v = b_.CreateFMul(real(1), real(2)); break;
    case Op::fma: {
      Value *a = real(1), *b = real(2), *c = real(3);
      v = brain ? fused_bf16(a, b, c) : fused_f16(a, b, c);
      break;
    }
    case Op::min: case Op::max:
      if (in.ops.size() != 3 || f.has(Mod::xorsign) || f.has(Mod::abs)) return nullptr;
      return joined(narrowed(minmax(real(1), real(2), f.op == Op::max, f.has(Mod::NaN)), brain), t);
    default: return nullptr;
  }
  Value* r = narrowed(v, brain);
  if (ftz) {  // flushed is what is below the smallest normal number when rounded with an unbounded exponent
    Value* edge = ConstantFP::get(v->getType(), 0x1p-14 - 0x1p-26);
    r = b_.CreateSelect(b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v), edge), b_.CreateAnd(r, constant(r, 0x8000)), r);
  }
  // As integers, positive numbers are in order, with the NaN above all and the negative ones below.
  if (f.has(Mod::sat) || f.has(Mod::relu)) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r, constant(r, 0));
  if (f.has(Mod::sat)) {
    Value* one = constant(r, brain ? 0x3f80 : 0x3c00);
    r = b_.CreateSelect(b_.CreateICmpEQ(r, constant(r, kNan)), constant(r, 0), b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, r, one));
  }
  return joined(r, t);
}

/// i1 per half (a pair's low one first), null for what sem/ compares.
llvm::Value* Emitter::compare_halves(const Form& f, Type t, llvm::CmpInst::Predicate p, const Operand& x, const Operand& y, int width) {
  if (is_float_immediate(x) || is_float_immediate(y) || x.negated || y.negated) return nullptr;
  auto value = [&](const Operand& o) {
    Value* v = halves(o, t, width);
    return lifted(f.has(Mod::ftz) ? flushed_half(v) : v, is_brain(t));
  };
  Value* a = value(x);
  return b_.CreateFCmp(p, a, value(y));
}

/// Every second element, from `first` on.
llvm::Value* Emitter::alternate(Value* v, int first) {
  const int width = width_of(v) / 2;
  if (width == 1) return b_.CreateExtractElement(v, uint64_t(first));
  llvm::SmallVector<int, 32> index;
  for (int i = 0; i < width; i++) index.push_back(2 * i + first);
  return b_.CreateShuffleVector(v, index);
}

/// Two values of 16 bits or less as one word: `low` below.
llvm::Value* Emitter::two_in_a_word(Value* low, Value* high) {
  const unsigned bits = low->getType()->getScalarSizeInBits();
  llvm::Type* both = wide(b_.getIntNTy(2 * bits), width_of(low));
  return b_.CreateOr(b_.CreateZExt(low, both), b_.CreateShl(b_.CreateZExt(high, both), bits));
}

/// f32 to e4m3 or e5m2, to nearest, the largest number instead of infinity.
llvm::Value* Emitter::to_fp8(Value* v, bool e4, bool relu) {
  const int width = width_of(v);
  llvm::Type* i32 = wide(b_.getInt32Ty(), width);
  auto constant = [&](uint64_t c) { return ConstantInt::get(i32, c); };
  const unsigned drop = e4 ? 20 : 21, bias = e4 ? 7 : 15;
  const double least = e4 ? 0x1p-6 : 0x1p-14, large = e4 ? 0x1.8p14 : 0x1.8p7;  // smallest normal; has the format's last bit (2^-9, 2^-16) as its own
  Value *bits = b_.CreateBitCast(v, i32), *magnitude = b_.CreateAnd(bits, constant(0x7fffffff)), *size = b_.CreateBitCast(magnitude, v->getType());
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, drop), constant(1));
  Value* normal = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(magnitude, constant((1u << (drop - 1)) - 1)), odd), drop);
  normal = b_.CreateSub(normal, constant((127 - bias) << (23 - drop)));
  Value* small = b_.CreateBitCast(b_.CreateFAdd(size, ConstantFP::get(v->getType(), large)), i32);
  small = b_.CreateAnd(small, constant(0x7fffff >> 1));
  Value* r = b_.CreateSelect(b_.CreateFCmpOLT(size, ConstantFP::get(v->getType(), least)), small, normal);
  r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, r, constant(e4 ? 0x7e : 0x7b));
  r = b_.CreateOr(r, b_.CreateAnd(b_.CreateLShr(bits, 24), constant(0x80)));
  if (relu) r = b_.CreateSelect(b_.CreateFCmpOLE(v, llvm::Constant::getNullValue(v->getType())), constant(0), r);
  r = b_.CreateSelect(b_.CreateFCmpUNO(v, v), constant(0x7f), r);
  return b_.CreateTrunc(r, wide(b_.getInt8Ty(), width));
}

/// e4m3 or e5m2 to f16. The bits of e4m3, moved, are those of the number by 2^8 too small, exact as f16 or subnormal.
llvm::Value* Emitter::from_fp8(Value* v, bool e4) {
  const int width = width_of(v);
  llvm::Type* i16 = wide(b_.getInt16Ty(), width);
  auto constant = [&](uint64_t c) { return ConstantInt::get(i16, c); };
  Value *bits = b_.CreateZExt(v, i16), *magnitude = b_.CreateAnd(bits, constant(0x7f)), *up = b_.CreateShl(bits, 8);
  if (!e4) return b_.CreateSelect(b_.CreateICmpUGT(magnitude, constant(0x7c)), constant(kNan), up);
  Value* scaled = b_.CreateFMul(lifted(b_.CreateShl(magnitude, 7), false), ConstantFP::get(wide(b_.getFloatTy(), width), 256));
  Value* r = b_.CreateOr(narrowed(scaled, false), b_.CreateAnd(up, constant(0x8000)));
  return b_.CreateSelect(b_.CreateICmpEQ(magnitude, constant(0x7f)), constant(kNan), r);
}

/// cvt with a half or a pair of fp8 on either side; null: a form that sem/ converts.
llvm::Value* Emitter::convert_half(const Instr& in, int width) {
  const Form& f = in.form;
  const Type to = f.type(0), from = f.type(1);
  const bool relu = f.has(Mod::relu);
  if (f.has(Mod::rz) || f.has(Mod::rm) || f.has(Mod::rp) || f.has(Mod::rni) || f.has(Mod::rzi) || f.has(Mod::rmi) || f.has(Mod::rpi) ||
      f.has(Mod::sat) || f.has(Mod::ftz) || f.has(Mod::rs))
    return nullptr;
  for (size_t i = 1; i < in.ops.size(); i++)
    if (is_float_immediate(in.ops[i]) && in.ops[i].float_bits != 32) return nullptr;
  auto f32 = [&](size_t i) { return read(in.ops[i], Type::f32, width, Use::arithmetic); };
  const bool to_e4 = to == Type::e4m3x2, from_e4 = from == Type::e4m3x2;
  if ((to_e4 || to == Type::e5m2x2) && from == Type::f32 && in.ops.size() == 3) {
    Value* low = to_fp8(f32(2), to_e4, relu);
    return two_in_a_word(low, to_fp8(f32(1), to_e4, relu));
  }
  if ((to_e4 || to == Type::e5m2x2) && from == Type::f16x2) {
    Value* v = to_fp8(lifted(halves(in.ops[1], from, width), false), to_e4, relu);
    return b_.CreateBitCast(v, wide(b_.getInt16Ty(), width));
  }
  if (to == Type::f16x2 && (from_e4 || from == Type::e5m2x2)) {
    Value* v = read_as(in.ops[1], b_.getInt16Ty(), width);
    v = from_fp8(b_.CreateBitCast(v, wide(b_.getInt8Ty(), 2 * width)), from_e4);
    return joined(relu ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, ConstantInt::get(v->getType(), 0)) : v, to);
  }
  if (relu || f.has(Mod::satfinite)) return nullptr;
  if ((to == Type::f16x2 || to == Type::bf16x2) && from == Type::f32 && in.ops.size() == 3) {
    Value* low = narrowed(f32(2), is_brain(to));
    return two_in_a_word(low, narrowed(f32(1), is_brain(to)));
  }
  if (in.ops.size() != 2 || is_pair(to) || is_pair(from)) return nullptr;
  if (is_half(to) && from == Type::f32) return narrowed(f32(1), is_brain(to));
  if (to == Type::f32 && is_half(from)) {
    Value* v = lifted(halves(in.ops[1], from, width), is_brain(from));
    return is_brain(from) ? v : canonical_nan(v);  // (a bf16 keeps its NaN)
  }
  return nullptr;
}

}  // namespace orrery::jit
