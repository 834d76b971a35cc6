// jit/emit_float.cc: f32 and f64 arithmetic: rounding, flushing, saturation, NaN. See emitter.h.
//
// Results equal sem/float.cc bit for bit. NaN of f32: the host gives any payload, the GPU 7fffffff; define_reg makes it
// canonical unless only arithmetic can see it (Plan::lazy_nan). Lanes that are not on their way compute on garbage:
// nothing here may trap or branch on values.
// Not here: conversions (emit_convert.cc), approximations (calls of sem/).
#include <llvm/IR/IntrinsicsX86.h>

#include "jit/emitter.h"
#include "jit/target.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Type;
using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Value;
using ptx::Instr;

namespace {
bool nearest(const Form& f) { return !f.has(Mod::rz) && !f.has(Mod::rm) && !f.has(Mod::rp); }
}  // namespace

llvm::Value* Emitter::flush(Value* v) {
  llvm::Type* i32 = wide(b_.getInt32Ty(), width_of(v));
  Value* bits = b_.CreateBitCast(v, i32);
  Value* small = b_.CreateICmpEQ(b_.CreateAnd(bits, ConstantInt::get(i32, 0x7f800000)), ConstantInt::get(i32, 0));
  return b_.CreateBitCast(b_.CreateSelect(small, b_.CreateAnd(bits, ConstantInt::get(i32, 0x80000000u)), bits), v->getType());
}

/// Clamped to [0, 1]; NaN and -0 give +0.
llvm::Value* Emitter::saturated(Value* v) {
  Value *zero = ConstantFP::get(v->getType(), 0.0), *one = ConstantFP::get(v->getType(), 1.0);
  Value* low = b_.CreateSelect(b_.CreateFCmpOGT(v, zero), v, zero);
  return b_.CreateSelect(b_.CreateFCmpOLT(low, one), low, one);
}

/// -0 < +0; one NaN gives the other operand; two NaNs (or any, with `nan`) the canonical one.
llvm::Value* Emitter::minmax(Value* a, Value* b, bool max, bool nan) {
  const bool f64 = a->getType()->getScalarType()->isDoubleTy();
  Value* r = b_.CreateBinaryIntrinsic(max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  Value* quiet = f64 ? ConstantFP::get(a->getType(), llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, 0x7fffffffffffffffull)))
                     : ConstantFP::get(a->getType(), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, 0x7fffffff)));
  Value *bad_a = b_.CreateFCmpUNO(a, a), *bad_b = b_.CreateFCmpUNO(b, b);
  if (nan) return b_.CreateSelect(b_.CreateOr(bad_a, bad_b), quiet, r);
  r = b_.CreateSelect(bad_a, b_.CreateSelect(bad_b, quiet, b), b_.CreateSelect(bad_b, a, r));
  return r;
}

/// The NaN with its quiet bit set (f64).
llvm::Value* Emitter::quieted(Value* v) {
  llvm::Type* i64 = wide(b_.getInt64Ty(), width_of(v));
  return b_.CreateBitCast(b_.CreateOr(b_.CreateBitCast(v, i64), ConstantInt::get(i64, uint64_t{1} << 51)), v->getType());
}

/// Of several f64 NaN operands the hardware keeps the first of `by_rank`; a host instruction's choice depends on the
/// order of its operands, which is the compiler's.
llvm::Value* Emitter::pick_nan(Value* r, std::initializer_list<Value*> by_rank) {
  for (auto v = std::rbegin(by_rank); v != std::rend(by_rank); ++v)
    if (!llvm::isa<llvm::Constant>(*v)) r = b_.CreateSelect(b_.CreateFCmpUNO(*v, *v), quieted(*v), r);
  return r;
}

llvm::Value* Emitter::float_op(const Instr& in, int width) {
  const Form& f = in.form;
  const bool ftz = f.has(Mod::ftz), f32 = f.type() == Type::f32;
  auto src = [&](size_t i) {
    Value* v = read(in.ops[i], f.type(), width, Use::arithmetic);
    return ftz ? flush(v) : v;
  };
  auto constant = [&](double v) { return ConstantFP::get(wide(element(f.type()), width), v); };
  auto finish = [&](Value* v) {
    if (ftz) {
      // Whether a result is flushed is decided after rounding with an unbounded exponent: one that has become the
      // smallest normal number may have been below it. Rare: the interpreter decides.
      llvm::Type* i32 = wide(b_.getInt32Ty(), width);
      Value* size = b_.CreateAnd(b_.CreateBitCast(v, i32), ConstantInt::get(i32, 0x7fffffff));
      const bool exact = f.op == Op::add || f.op == Op::sub || f.op == Op::sqrt;
      if (!exact) {
        Value* edge = b_.CreateICmpEQ(size, ConstantInt::get(i32, 0x00800000));
        leave_if(width == 1 ? edge : b_.CreateOrReduce(edge));
      }
      v = flush(v);
    }
    return f.has(Mod::sat) ? saturated(v) : v;
  };
  switch (f.op) {
    case Op::neg: case Op::abs: {
      Value* a = src(1);
      Value* r = f.op == Op::neg ? b_.CreateFNeg(a) : b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
      return f32 ? r : b_.CreateSelect(b_.CreateFCmpUNO(a, a), quieted(a), r);  // an f64 NaN keeps its sign
    }
    case Op::copysign: return f.n_types == 1 && !ftz ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, read(in.ops[2], f.type(), width), read(in.ops[1], f.type(), width)) : nullptr;
    case Op::min: case Op::max:
      if (f.has(Mod::xorsign) || f.has(Mod::abs) || in.ops.size() != 3 || !f32) return nullptr;
      return minmax(src(1), src(2), f.op == Op::max, f.has(Mod::NaN));
    default: break;
  }
  if (f32 && width == 32 && f.n_types == 1 && !nearest(f) && HostTraits::get().avx512) {
    llvm::SmallVector<Value*, 3> sources;
    for (size_t i = 1; i < in.ops.size(); i++) sources.push_back(src(i));
    if (f.op == Op::rcp) sources.insert(sources.begin(), constant(1));
    Value* v = directed(f, sources);
    return v ? finish(v) : nullptr;
  }
  // The approximations of the hardware are tables, which sem/ has.
  if (!nearest(f) || f.n_types != 1 || f.has(Mod::approx) || f.has(Mod::full)) return nullptr;
  if (!f32 && in.ops.size() >= 3) {
    Value *a = src(1), *b = src(2);
    switch (f.op) {
      case Op::add: return pick_nan(b_.CreateFAdd(a, b), {b});  // a's NaN is all that can be left
      case Op::sub: return pick_nan(b_.CreateFSub(a, b), {b});
      case Op::mul: return pick_nan(b_.CreateFMul(a, b), {b});
      case Op::div: return pick_nan(b_.CreateFDiv(a, b), {a});
      case Op::fma: case Op::mad: {
        Value* c = src(3);
        return pick_nan(b_.CreateIntrinsic(a->getType(), llvm::Intrinsic::fma, {a, b, c}), {b, c});
      }
      default: break;
    }
  }
  switch (f.op) {
    case Op::add: return finish(b_.CreateFAdd(src(1), src(2)));
    case Op::sub: return finish(b_.CreateFSub(src(1), src(2)));
    case Op::mul: return finish(b_.CreateFMul(src(1), src(2)));
    case Op::fma: case Op::mad: return finish(b_.CreateIntrinsic(wide(element(f.type()), width), llvm::Intrinsic::fma, {src(1), src(2), src(3)}));
    case Op::div: return finish(b_.CreateFDiv(src(1), src(2)));
    case Op::rcp: return finish(b_.CreateFDiv(constant(1), src(1)));
    case Op::sqrt: return finish(b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, src(1)));
    default: return nullptr;
  }
}

/// An f32 operation of 32 lanes that rounds up, down or toward zero: two instructions that carry the mode with them.
llvm::Value* Emitter::directed(const Form& f, llvm::ArrayRef<Value*> sources) {
  llvm::Intrinsic::ID id;
  switch (f.op) {
    case Op::add: id = llvm::Intrinsic::x86_avx512_add_ps_512; break;
    case Op::sub: id = llvm::Intrinsic::x86_avx512_sub_ps_512; break;
    case Op::mul: id = llvm::Intrinsic::x86_avx512_mul_ps_512; break;
    case Op::div: case Op::rcp: id = llvm::Intrinsic::x86_avx512_div_ps_512; break;
    case Op::sqrt: id = llvm::Intrinsic::x86_avx512_sqrt_ps_512; break;
    case Op::fma: case Op::mad: id = llvm::Intrinsic::x86_avx512_vfmadd_ps_512; break;
    default: return nullptr;
  }
  constexpr int kQuiet = 8;  // no exceptions
  const int mode = kQuiet | (f.has(Mod::rm) ? 1 : f.has(Mod::rp) ? 2 : 3);
  Value* half[2];
  for (int h = 0; h < 2; h++) {
    llvm::SmallVector<int, 16> lanes;
    for (int i = 0; i < 16; i++) lanes.push_back(16 * h + i);
    llvm::SmallVector<Value*, 4> arguments;
    for (Value* v : sources) arguments.push_back(b_.CreateShuffleVector(v, lanes));
    arguments.push_back(b_.getInt32(uint32_t(mode)));
    half[h] = b_.CreateIntrinsic(id, {}, arguments);
  }
  llvm::SmallVector<int, 32> all;
  for (int i = 0; i < 32; i++) all.push_back(i);
  return b_.CreateShuffleVector(half[0], half[1], all);
}

}  // namespace orrery::jit
