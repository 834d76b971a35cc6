// jit/emit_compare.cc: setp, set, selp, slct, logic on predicates. See emitter.h. Meanings: sem/compare.cc.
#include <algorithm>

#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Type;
using llvm::CmpInst;
using llvm::ConstantInt;
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

/// i1 per element (of a packed type: per half), null for what is not compared here.
llvm::Value* Emitter::compare(const Instr& in, Type t, int a, int b, int width) {
  const Form& f = in.form;
  const Operand &x = in.ops[size_t(a)], &y = in.ops[size_t(b)];
  if (!plain(x) || !plain(y)) return nullptr;
  if (is_integer(t)) {
    const auto p = integer_predicate(f, isa::is_signed(t));
    return p == CmpInst::BAD_ICMP_PREDICATE ? nullptr : b_.CreateICmp(p, read(x, t, width), read(y, t, width));
  }
  if (t != Type::f32 && t != Type::f64 && !is_half(t)) return nullptr;
  const auto p = float_predicate(f);
  if (p == CmpInst::BAD_FCMP_PREDICATE) return nullptr;
  if (is_half(t)) return compare_halves(f, t, p, x, y, width);
  Value *u = read(x, t, width, Use::arithmetic), *v = read(y, t, width, Use::arithmetic);
  if (f.has(Mod::ftz)) u = flush(u), v = flush(v);
  return b_.CreateFCmp(p, u, v);
}

bool Emitter::emit_setp(const Instr& in) {
  const Form& f = in.form;
  const bool pair = in.ops[0].kind == OperandKind::pair;
  if (!pair && in.ops[0].kind != OperandKind::reg) return false;
  int width = std::max(operand_width(in.ops[1]), operand_width(in.ops[2]));
  // A comparison that all lanes decide alike is made on the base.
  const bool uniform = !pair && width_of_reg(in.ops[0].id) == 1;
  if (is_patterned(in.ops[1]) || is_patterned(in.ops[2])) width = uniform ? 1 : 32;
  const bool combined = f.has(Mod::and_) || f.has(Mod::or_) || f.has(Mod::xor_);
  if (combined && in.ops.size() < 4) return false;
  if (combined) width = std::max(width, operand_width(in.ops[3]));
  Value* r = compare(in, f.type(), 1, 2, width);
  if (!r || (!pair && width_of(r) > width)) return false;
  auto combine = [&](Value* v) {
    if (!combined) return v;
    Value* c = read_predicate(in.ops[3], width);
    return f.has(Mod::and_) ? b_.CreateAnd(v, c) : f.has(Mod::or_) ? b_.CreateOr(v, c) : b_.CreateXor(v, c);
  };
  if (!pair) {
    define(in.ops[0], combine(r));
    return true;
  }
  const bool packed = width_of(r) > width;
  Value *p = combine(packed ? alternate(r, 0) : r), *q = combine(packed ? alternate(r, 1) : b_.CreateNot(r));
  define(in.ops[0].parts[0], p);
  define(in.ops[0].parts[1], q);
  return true;
}

/// i1, sufficient for predicate `reg` to equal `want` in every lane, made of scalars only; null when there is none.
/// Looks at the definition that reaches instruction `at` within the node.
llvm::Value* Emitter::agree(uint32_t reg, bool want, uint32_t at, int depth) {
  if (depth > 3) return nullptr;
  if (width_of_reg(reg) == 1) return want ? raw(reg, 1) : b_.CreateNot(raw(reg, 1));
  const lower::Node& node = schedule_.nodes[node_];
  std::vector<uint8_t> rewritten(plan_.program.regs.size(), 0);
  for (uint32_t i = at; i-- > node.first;) {
    const Instr& in = plan_.program.code[i];
    bool defines = false;
    lower::for_registers(in, [&](uint32_t r) { defines |= r == reg; }, [](uint32_t) {});
    if (!defines) {
      lower::for_registers(in, [&](uint32_t r) { rewritten[r] = 1; }, [](uint32_t) {});
      continue;
    }
    if (in.guard.reg != ptx::kNoReg || in.ops[0].kind != OperandKind::reg) return nullptr;
    for (const Operand& o : in.ops)
      if (o.kind == OperandKind::reg && o.id != reg && rewritten[o.id]) return nullptr;
    return agree_on(in, want, i, depth);
  }
  return nullptr;
}

llvm::Value* Emitter::agree_on(const Instr& in, bool want, uint32_t at, int depth) {
  const Form& f = in.form;
  auto side = [&](size_t i, bool value) {
    const Operand& o = in.ops[i];
    return o.kind == OperandKind::reg ? agree(o.id, value != o.negated, at, depth + 1) : nullptr;
  };
  auto both = [&](Value* a, Value* b) { return a && b ? b_.CreateAnd(a, b) : nullptr; };
  switch (f.op) {
    case Op::not_: return side(1, !want);
    case Op::or_: return want ? nullptr : both(side(1, false), side(2, false));
    case Op::and_: return want ? both(side(1, true), side(2, true)) : nullptr;
    case Op::setp: break;
    default: return nullptr;
  }
  Value* own = f.has(Mod::xor_) ? nullptr : agree_on_comparison(in, want);
  if (!own) return nullptr;
  if (f.has(Mod::and_)) return want ? both(own, side(3, true)) : nullptr;
  if (f.has(Mod::or_)) return want ? nullptr : both(own, side(3, false));
  return own;
}

/// base + pattern against a flat value: true for all lanes when it is for the extremes and nothing wraps.
llvm::Value* Emitter::agree_on_comparison(const Instr& in, bool want) {
  const Form& f = in.form;
  const Operand &x = in.ops[1], &y = in.ops[2];
  if (!is_integer(f.type()) || x.kind != OperandKind::reg || !plain(y) || x.negated || y.negated) return nullptr;
  const lower::Lanes& l = plan_.uniformity.regs[x.id];
  const unsigned bits = unsigned(isa::bits_of(f.type()));
  if (l.varies() || l.chunks == 0 || bits < 32 || is_patterned(y) || operand_width(y) == 32) return nullptr;
  if (element_of_reg(x.id)->getScalarSizeInBits() != bits) return nullptr;
  const bool sign = isa::is_signed(f.type());
  auto p = integer_predicate(f, sign);
  if (p == CmpInst::BAD_ICMP_PREDICATE) return nullptr;
  if (!want) p = CmpInst::getInversePredicate(p);
  if (CmpInst::isEquality(p) && l.pattern) return nullptr;
  const int width = std::max<int>(l.chunks, operand_width(y));
  Value *a = read(x, f.type(), width), *b = read(y, f.type(), width);
  const lower::Pattern& pattern = plan_.uniformity.pattern_of(l);
  const int64_t low = *std::min_element(pattern.begin(), pattern.end()), high = *std::max_element(pattern.begin(), pattern.end());
  if (l.pattern && width != l.chunks) return nullptr;
  auto constant = [&](int64_t v) { return ConstantInt::get(a->getType(), uint64_t(v), true); };
  Value* ok = nullptr;
  if (l.pattern) {
    const int64_t least = sign ? (bits == 32 ? INT32_MIN : INT64_MIN) : 0;
    Value* moved = b_.CreateSub(a, constant(int64_t(uint64_t(least) - uint64_t(low))));
    ok = b_.CreateICmpULE(moved, constant(int64_t(~uint64_t(high - low))));
  }
  const bool less = p == CmpInst::ICMP_SLT || p == CmpInst::ICMP_SLE || p == CmpInst::ICMP_ULT || p == CmpInst::ICMP_ULE;
  Value* r = b_.CreateICmp(p, b_.CreateAdd(a, constant(less ? high : low)), b);
  if (ok) r = b_.CreateAnd(ok, r);
  return width > 1 ? b_.CreateAndReduce(r) : r;
}

/// The value that stands for true, or 0.
bool Emitter::emit_set(const Instr& in) {
  const Form& f = in.form;
  if (in.ops[0].kind != OperandKind::reg || in.ops.size() != 3 || f.n_types != 2) return false;
  const int width = natural_width(in, 1);
  Value* r = compare(in, f.type(1), 1, 2, width);
  if (!r) return false;
  uint64_t yes = ~uint64_t{0};
  switch (f.type(0)) {
    case Type::f32: yes = 0x3f800000; break;
    case Type::f16: case Type::f16x2: yes = 0x3c00; break;
    case Type::bf16: case Type::bf16x2: yes = 0x3f80; break;
    default: break;
  }
  const bool packed = width_of(r) > width;
  const unsigned bits = unsigned(isa::bits_of(f.type(0))) / (packed ? 2 : 1);
  auto* t = wide(b_.getIntNTy(bits), width_of(r));
  Value* v = b_.CreateSelect(r, ConstantInt::get(t, bits < 64 ? yes & ((uint64_t{1} << bits) - 1) : yes), ConstantInt::get(t, 0));
  define(in.ops[0], packed ? joined(v, f.type(1)) : v);
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
