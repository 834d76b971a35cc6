// sem/pure.cc: from a form to the family that knows its meaning.
#include "sem/pure.h"

#include "sem/families.h"

namespace orrery::sem {
namespace {

bool approximate(const Form& f) {
  if (f.has(Mod::approx) || f.has(Mod::full)) return true;
  return f.op == Op::ex2 || f.op == Op::tanh || f.op == Op::rsqrt || f.op == Op::sin || f.op == Op::cos || f.op == Op::lg2;
}

PureFn find_arithmetic(const Form& f, Arity n) {
  const isa::TypeClass c = isa::class_of(f.type());
  const bool halves = f.type() == Type::f16 || f.type() == Type::bf16 || f.type() == Type::f16x2 || f.type() == Type::bf16x2;
  if (halves) return find_half(f, n);
  if (c == isa::TypeClass::flt) return find_float(f, n);
  if (PureFn fn = find_carry(f)) return fn;
  return find_integer(f, n);
}

PureFn find_exact(const Form& f, Arity n) {
  switch (f.op) {
    case Op::add: case Op::sub: case Op::mul: case Op::mad: case Op::mul24: case Op::mad24: case Op::sad: case Op::div:
    case Op::rem: case Op::abs: case Op::neg: case Op::min: case Op::max: case Op::dp4a: case Op::dp2a: case Op::addc:
    case Op::subc: case Op::madc: case Op::fma: case Op::rcp: case Op::sqrt:
      return find_arithmetic(f, n);
    case Op::and_: case Op::or_: case Op::xor_: case Op::not_: case Op::cnot: case Op::lop3: case Op::shl: case Op::shr:
    case Op::shf: case Op::popc: case Op::clz: case Op::brev: case Op::bfind: case Op::fns: case Op::bfe: case Op::bfi:
    case Op::szext: case Op::bmsk: case Op::prmt:
      return find_bits(f, n);
    case Op::set: case Op::setp: case Op::selp: case Op::slct: case Op::testp: case Op::copysign: return find_compare(f, n);
    case Op::cvt: return find_convert(f);
    case Op::cvt_pack: return find_convert_pack(f);
    case Op::mov: return find_move(f, n);
    default: return find_video(f);
  }
}

}  // namespace

PureFn find_pure(const isa::Form& f, int dests, int sources) {
  return approximate(f) ? find_approximate(f) : find_exact(f, {dests, sources});
}

}  // namespace orrery::sem
