// jit/emit_compare.cc: setp, set, selp, slct, logic on predicates. See emitter.h. Meanings: sem/compare.cc.
#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Type;
using llvm::CmpInst;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

CmpInst::Predicate integer_predicate(const Form& f, bool sign) {
  if (f.has(Mod::eq)) return CmpInst::ICMP_EQ;
  if (f.has(Mod::ne)) return CmpInst::ICMP_NE;
  if (f.has(Mod::lt)) return sign ? CmpInst::ICMP_SLT : CmpInst::ICMP_ULT;
  if (f.has(Mod::le)) return sign ? CmpInst::ICMP_SLE : CmpInst::ICMP_ULE;
  if (f.has(Mod::gt)) return sign ? CmpInst::ICMP_SGT : CmpInst::ICMP_UGT;
  if (f.has(Mod::ge)) return sign ? CmpInst::ICMP_SGE : CmpInst::ICMP_UGE;
  if (f.has(Mod::lo)) return CmpInst::ICMP_ULT;
  if (f.has(Mod::ls)) return CmpInst::ICMP_ULE;
  if (f.has(Mod::hi)) return CmpInst::ICMP_UGT;
  if (f.has(Mod::hs)) return CmpInst::ICMP_UGE;
  return CmpInst::BAD_ICMP_PREDICATE;
}

CmpInst::Predicate float_predicate(const Form& f) {
  static constexpr std::pair<Mod, CmpInst::Predicate> kNames[] = {
      {Mod::eq, CmpInst::FCMP_OEQ},  {Mod::ne, CmpInst::FCMP_ONE},  {Mod::lt, CmpInst::FCMP_OLT},
      {Mod::le, CmpInst::FCMP_OLE},  {Mod::gt, CmpInst::FCMP_OGT},  {Mod::ge, CmpInst::FCMP_OGE},
      {Mod::equ, CmpInst::FCMP_UEQ}, {Mod::neu, CmpInst::FCMP_UNE}, {Mod::ltu, CmpInst::FCMP_ULT},
      {Mod::leu, CmpInst::FCMP_ULE}, {Mod::gtu, CmpInst::FCMP_UGT}, {Mod::geu, CmpInst::FCMP_UGE},
      {Mod::num, CmpInst::FCMP_ORD}, {Mod::nan, CmpInst::FCMP_UNO}};
  for (auto [mod, p] : kNames)
    if (f.has(mod)) return p;
  return CmpInst::BAD_FCMP_PREDICATE;
}

bool is_integer(Type t) {
  const isa::TypeClass c = isa::class_of(t);
  return (c == isa::TypeClass::bits || c == isa::TypeClass::uint || c == isa::TypeClass::sint) && isa::bits_of(t) >= 16 && isa::bits_of(t) <= 64;
}

bool plain(const Operand& o) { return o.kind == OperandKind::reg || o.kind == OperandKind::imm; }

}  // namespace

/// i1 per element, null for types that are not compared here (f16 and packed).
llvm::Value* Emitter::compare(const Instr& in, Type t, int a, int b, int width) {
  const Form& f = in.form;
  const Operand &x = in.ops[size_t(a)], &y = in.ops[size_t(b)];
  if (!plain(x) || !plain(y)) return nullptr;
  if (is_integer(t)) {
    const auto p = integer_predicate(f, isa::is_signed(t));
    return p == CmpInst::BAD_ICMP_PREDICATE ? nullptr : b_.CreateICmp(p, read(x, t, width), read(y, t, width));
  }
  if (t != Type::f32 && t != Type::f64) return nullptr;
  const auto p = float_predicate(f);
  if (p == CmpInst::BAD_FCMP_PREDICATE) return nullptr;
  Value *u = read(x, t, width, Use::arithmetic), *v = read(y, t, width, Use::arithmetic);
  if (f.has(Mod::ftz)) u = flush(u), v = flush(v);
  return b_.CreateFCmp(p, u, v);
}

bool Emitter::emit_setp(const Instr& in) {
  const Form& f = in.form;
  const bool pair = in.ops[0].kind == OperandKind::pair;
  if (!pair && in.ops[0].kind != OperandKind::reg) return false;
  int width = std::max(operand_width(in.ops[1]), operand_width(in.ops[2]));
  if (is_patterned(in.ops[1]) || is_patterned(in.ops[2])) width = 32;
  const bool combined = f.has(Mod::and_) || f.has(Mod::or_) || f.has(Mod::xor_);
  if (combined && in.ops.size() < 4) return false;
  if (combined) width = std::max(width, operand_width(in.ops[3]));
  Value* r = compare(in, f.type(), 1, 2, width);
  if (!r) return false;
  auto combine = [&](Value* v) {
    if (!combined) return v;
    Value* c = read_predicate(in.ops[3], width);
    return f.has(Mod::and_) ? b_.CreateAnd(v, c) : f.has(Mod::or_) ? b_.CreateOr(v, c) : b_.CreateXor(v, c);
  };
  if (!pair) {
    define(in.ops[0], combine(r));
    return true;
  }
  Value *p = combine(r), *q = combine(b_.CreateNot(r));
  define(in.ops[0].parts[0], p);
  define(in.ops[0].parts[1], q);
  return true;
}

bool Emitter::emit_select(const Instr& in) {
  const Form& f = in.form;
  if (f.op != Op::selp || in.ops[0].kind != OperandKind::reg || isa::bits_of(f.type()) > 64) return false;
  if (!plain(in.ops[1]) || !plain(in.ops[2]) || !plain(in.ops[3])) return false;
  const int width = natural_width(in, 1);
  const bool lazy = plan_.lazy_nan[in.ops[0].id] != 0;
  const Use use = lazy ? Use::arithmetic : Use::bits;
  Value *a = read(in.ops[1], f.type(), width, use), *b = read(in.ops[2], f.type(), width, use);
  define(in.ops[0], b_.CreateSelect(read_predicate(in.ops[3], width), a, b));
  return true;
}

bool Emitter::emit_predicate_logic(const Instr& in) {
  if (in.ops[0].kind != OperandKind::reg || !is_pred(in.ops[0].id)) return false;
  for (size_t i = 1; i < in.ops.size(); i++)
    if (!plain(in.ops[i])) return false;
  const int width = natural_width(in, 1);
  auto src = [&](size_t i) { return read_predicate(in.ops[i], width); };
  Value* r;
  switch (in.form.op) {
    case Op::and_: r = b_.CreateAnd(src(1), src(2)); break;
    case Op::or_: r = b_.CreateOr(src(1), src(2)); break;
    case Op::xor_: r = b_.CreateXor(src(1), src(2)); break;
    case Op::not_: r = b_.CreateNot(src(1)); break;
    default: return false;
  }
  define(in.ops[0], r);
  return true;
}

}  // namespace orrery::jit
