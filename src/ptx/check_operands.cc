// ptx/check_operands.cc: an instruction's operands against the pictures of the rows that its name matched.
//
// Kinds first (register, constant, address, vector ...), then types. The type rules are those that ptxas enforces:
// a register fits when its size is that of the instruction's type and it is untyped, or both are integers, or both
// are the same float; ld, st and cvt also take wider registers. A float constant does not stand for an integer or
// the reverse; packed types take no constants.
//
// Source: PTX ISA manual, sections 6.2 and 9.4 (operand type and size rules); ptxas 13.0 where it is stricter.
#include "ptx/parser.h"

namespace orrery::ptx {
namespace {

using isa::OperandSlot;
using isa::Type;
using isa::TypeClass;

bool is_value(OperandKind k) { return k == OperandKind::reg || k == OperandKind::imm; }

/// A vector whose parts are registers, or constants (sources), or sinks (destinations).
bool is_vector(const Operand& o, bool destination, bool special = false) {
  if (o.kind != OperandKind::vec || o.parts.empty()) return false;
  for (const Operand& p : o.parts) {
    bool ok = p.kind == OperandKind::reg || p.kind == (destination ? OperandKind::sink : OperandKind::imm) ||
              (special && p.kind == OperandKind::sreg);
    if (!ok || (p.negated && p.kind != OperandKind::imm)) return false;
  }
  return true;
}

bool fits_destination(const Operand& o, unsigned vec, bool packs, bool may_sink) {
  if (o.kind == OperandKind::sink) return may_sink;
  if (o.kind == OperandKind::vec) return is_vector(o, true) && (vec == o.parts.size() || packs);
  return o.kind == OperandKind::reg && vec == 1;
}

bool fits_pair(const OperandSlot& slot, const Operand& o, unsigned vec) {
  bool predicates = slot.type == Type::pred;  // setp
  if (o.kind != OperandKind::pair) return slot.may_single && fits_destination(o, vec, false, predicates);
  const Operand& second = o.parts[1];
  return fits_destination(o.parts[0], vec, false, slot.may_sink || predicates) && !o.parts[0].negated &&
         (second.kind == OperandKind::reg || second.kind == OperandKind::sink) && !second.negated;
}

/// Whether `o` is of the kind that the slot wants; `vec` is the form's vector width.
bool fits(const OperandSlot& slot, const Operand& o, unsigned vec, const isa::Row& row) {
  if (o.negated && !slot.may_negate && o.kind != OperandKind::imm) return false;
  switch (slot.kind) {
    case OperandSlot::dst: return fits_destination(o, vec, row.op == isa::Op::mov, slot.may_sink);
    case OperandSlot::src:
      if (o.kind == OperandKind::vec)
        return is_vector(o, false) && (vec == o.parts.size() || slot.type_from == OperandSlot::unchecked);
      if (o.kind == OperandKind::sreg) return row.op == isa::Op::cvt;
      return is_value(o.kind) && (vec == 1 || slot.type_from != OperandSlot::from_form || slot.type_index != 0);
    case OperandSlot::imm: return o.kind == OperandKind::imm && !o.is_float;
    case OperandSlot::address: return o.kind == OperandKind::address && o.parts.empty();
    case OperandSlot::address_parts: return o.kind == OperandKind::address && !o.parts.empty();
    case OperandSlot::vec: return is_vector(o, slot.name == "d");
    case OperandSlot::vec_or_src: return is_vector(o, slot.name == "d") || o.kind == OperandKind::reg;
    case OperandSlot::any:
      return is_value(o.kind) || o.kind == OperandKind::sreg || o.kind == OperandKind::var ||
             o.kind == OperandKind::local_var || o.kind == OperandKind::func || is_vector(o, false, true);
    case OperandSlot::pair: return fits_pair(slot, o, vec);
    case OperandSlot::sink: return o.kind == OperandKind::sink;
    case OperandSlot::label:
    case OperandSlot::targets: return o.kind == OperandKind::label;
  }
  return false;
}

// -- types

Type widened(Type t) {
  switch (t) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    default: return Type::s64;
  }
}

Type wanted(const OperandSlot& slot, const isa::Form& form) {
  switch (slot.type_from) {
    case OperandSlot::fixed: return slot.type;
    case OperandSlot::from_form: return slot.type_index < form.n_types ? form.types[slot.type_index] : Type::none;
    case OperandSlot::twice: return widened(form.types[slot.type_index]);
    case OperandSlot::unchecked: break;
  }
  return Type::none;
}

bool is_integer(Type t) { return isa::class_of(t) == TypeClass::uint || isa::class_of(t) == TypeClass::sint; }

bool register_fits(Type want, Type have, bool relaxed) {
  if (want == Type::pred || have == Type::pred) return want == have;
  int w = isa::bits_of(want), h = isa::bits_of(have);
  TypeClass have_class = isa::class_of(have);
  if (w != h && !(relaxed && h > w)) return false;
  if (have_class == TypeClass::bits) return true;
  switch (isa::class_of(want)) {
    case TypeClass::bits: return true;
    case TypeClass::uint:
    case TypeClass::sint: return is_integer(have) || have_class == TypeClass::packed;
    case TypeClass::flt: return want == have;
    case TypeClass::packed: return want == have;
    default: return false;
  }
}

bool constant_fits(Type want, const Operand& o) {
  TypeClass c = isa::class_of(want);
  if (c == TypeClass::packed) return false;
  if (!o.is_float) return c != TypeClass::flt;
  if (c == TypeClass::flt) return want == Type::f32 || want == Type::f64;
  return c == TypeClass::bits && isa::bits_of(want) == o.float_bits;
}

class TypeCheck {
 public:
  TypeCheck(const Function& f, const Instr& i, const isa::Row& row) : f_(f), i_(i) {
    using isa::Op;
    relaxed_ = row.op == Op::ld || row.op == Op::ldu || row.op == Op::st || row.op == Op::cvt || row.op == Op::suld ||
               row.op == Op::sust;
    packs_ = row.op == Op::mov && i.form.vec == 1;
  }
  bool operand(const OperandSlot& slot, const Operand& o) const {
    if (slot.type_from == OperandSlot::unchecked) return true;
    Type want = wanted(slot, i_.form);
    if (o.kind == OperandKind::pair) return value(want, o.parts[0]) && value(Type::pred, o.parts[1]);
    if (slot.kind == OperandSlot::imm) return true;
    return value(want, o);
  }

 private:
  bool value(Type want, const Operand& o) const {
    switch (o.kind) {
      case OperandKind::reg: return register_fits(want, f_.regs[o.id].type, relaxed_);
      case OperandKind::imm: return constant_fits(want, o);
      case OperandKind::vec: return packs_ ? packed(want, o) : all(want, o);
      default: return true;
    }
  }
  bool all(Type want, const Operand& o) const {
    for (const Operand& p : o.parts)
      if (!value(want, p)) return false;
    return true;
  }
  /// mov.b64 {a, b}: equal parts that together have the size of the type.
  bool packed(Type want, const Operand& o) const {
    int bits = isa::bits_of(want);
    if (isa::class_of(want) != TypeClass::bits || o.parts.size() < 2 || bits % int(o.parts.size()) != 0) return false;
    for (const Operand& p : o.parts) {
      if (p.kind == OperandKind::reg && isa::bits_of(f_.regs[p.id].type) * int(o.parts.size()) != bits) return false;
      if (p.kind == OperandKind::reg && f_.regs[p.id].type == Type::pred) return false;
    }
    return true;
  }
  const Function& f_;
  const Instr& i_;
  bool relaxed_ = false, packs_ = false;
};

std::string what(const Function& f, const Operand& o) {
  switch (o.kind) {
    case OperandKind::reg:
      return fmt::format("a {}.{} register", o.negated ? "negated " : "", isa::name_of(f.regs[o.id].type));
    case OperandKind::imm: return o.is_float ? "a floating-point constant" : "an integer constant";
    case OperandKind::sreg: return "a special register";
    case OperandKind::address: return o.parts.empty() ? "an address" : "an address with coordinates";
    case OperandKind::label: return "a label";
    case OperandKind::var:
    case OperandKind::local_var: return "the name of a variable";
    case OperandKind::func: return "the name of a function";
    case OperandKind::vec: return fmt::format("a vector of {}", o.parts.size());
    case OperandKind::pair: return "a pair";
    case OperandKind::sink: return "the sink _";
    default: return "nothing";
  }
}

}  // namespace

void Parser::check(Instr& instr, const std::vector<uint16_t>& candidates) {
  size_t best = 0;  // operands that fitted in the nearest picture
  int nearness = -1;
  const isa::Row* nearest = nullptr;
  Type mismatch = Type::none;
  for (uint16_t r : candidates) {
    const isa::Row& row = isa::row(r);
    instr.form.row = r;
    if (row.any_operands || row.is_call) return;
    TypeCheck types(*fn_, instr, row);
    for (const auto& picture : row.pictures) {
      if (!isa::picture_applies(picture, instr.form)) continue;
      size_t n = 0, total = instr.ops.size();
      bool same_count = picture.size() == total;
      while (n < picture.size() && n < total && fits(picture[n], instr.ops[n], instr.form.vec, row)) ++n;
      bool kinds = same_count && n == total;
      if (kinds)
        for (n = 0; n < total && types.operand(picture[n], instr.ops[n]);) ++n;
      if (kinds && n == total) return check_values(instr, row, picture);
      int score = int(same_count) * 1000 + int(kinds) * 100 + int(n);
      if (score <= nearness) continue;
      nearness = score;
      nearest = &row;
      best = n;
      mismatch = kinds ? wanted(picture[n], instr.form) : Type::none;
    }
  }
  std::string name = isa::to_string(instr.form);
  if (!nearest) fail(instr.loc, fmt::format("{} has words whose operands it does not take", name));
  if (nearness < 1000)
    fail(instr.loc, fmt::format("{} has {} operands; it takes \"{}\"", name, instr.ops.size(), nearest->operands));
  if (mismatch != Type::none)
    fail(instr.loc, fmt::format("operand {} of {} is {}; its type must be that of .{}", best + 1, name,
                                what(*fn_, instr.ops[best]), isa::name_of(mismatch)));
  fail(instr.loc, fmt::format("operand {} of {} is {}; it takes \"{}\"", best + 1, name, what(*fn_, instr.ops[best]),
                              nearest->operands));
}

}  // namespace orrery::ptx
