// ptx/check_operands.cc: an instruction's operands against the pictures of the rows that its name matched.
#include "ptx/parser.h"

namespace orrery::ptx {
namespace {

using isa::OperandSlot;

bool is_value(OperandKind k) { return k == OperandKind::reg || k == OperandKind::imm; }

bool fits_any(const Operand& o) {
  return is_value(o.kind) || o.kind == OperandKind::sreg || o.kind == OperandKind::var ||
         o.kind == OperandKind::local_var || o.kind == OperandKind::func || o.kind == OperandKind::vec;
}

bool fits_vec(const Operand& o) { return o.kind == OperandKind::vec && !o.parts.empty(); }

/// Whether `o` is of the kind that the slot wants; `vec` is the form's vector width.
bool fits(const OperandSlot& slot, const Operand& o, unsigned vec, bool packs) {
  if (o.negated && !slot.may_negate && o.kind != OperandKind::imm) return false;
  switch (slot.kind) {
    case OperandSlot::dst:
      if (o.kind == OperandKind::sink) return slot.may_sink;
      if (o.kind == OperandKind::vec) return vec == o.parts.size() || (vec == 1 && packs);
      return o.kind == OperandKind::reg && vec == 1;
    case OperandSlot::src:
      if (o.kind == OperandKind::vec) return vec == o.parts.size() || slot.type_from == OperandSlot::unchecked;
      if (o.kind == OperandKind::sreg) return false;
      return is_value(o.kind);
    case OperandSlot::imm: return o.kind == OperandKind::imm;
    case OperandSlot::address: return o.kind == OperandKind::address && o.parts.empty();
    case OperandSlot::address_parts: return o.kind == OperandKind::address && !o.parts.empty();
    case OperandSlot::vec: return fits_vec(o);
    case OperandSlot::vec_or_src: return fits_vec(o) || is_value(o.kind);
    case OperandSlot::any: return fits_any(o);
    case OperandSlot::pair:
      if (o.kind == OperandKind::pair) return true;
      return slot.may_single && (o.kind == OperandKind::reg || o.kind == OperandKind::vec);
    case OperandSlot::label:
    case OperandSlot::targets: return o.kind == OperandKind::label;
  }
  return false;
}

std::string_view what(const Operand& o) {
  switch (o.kind) {
    case OperandKind::reg: return o.negated ? "a negated register" : "a register";
    case OperandKind::imm: return "a constant";
    case OperandKind::sreg: return "a special register";
    case OperandKind::address: return o.parts.empty() ? "an address" : "an address with coordinates";
    case OperandKind::label: return "a label";
    case OperandKind::var:
    case OperandKind::local_var: return "the name of a variable";
    case OperandKind::func: return "the name of a function";
    case OperandKind::vec: return "a vector";
    case OperandKind::pair: return "a pair";
    case OperandKind::sink: return "the sink _";
    default: return "nothing";
  }
}

}  // namespace

void Parser::check(Instr& instr, const std::vector<uint16_t>& candidates) {
  size_t best = 0;  // operands that fitted in the nearest picture
  bool counted = false;
  const isa::Row* nearest = nullptr;
  for (uint16_t r : candidates) {
    const isa::Row& row = isa::row(r);
    bool packs = row.op == isa::Op::mov || row.op == isa::Op::tex || row.op == isa::Op::tld4;
    if (row.any_operands || row.is_call) {
      instr.form.row = r;
      return;
    }
    for (const auto& picture : row.pictures) {
      size_t n = 0;
      while (n < picture.size() && n < instr.ops.size() && fits(picture[n], instr.ops[n], instr.form.vec, packs)) ++n;
      if (n == picture.size() && n == instr.ops.size()) {
        instr.form.row = r;
        return;
      }
      bool same_count = picture.size() == instr.ops.size();
      if (!nearest || (same_count && !counted) || (same_count == counted && n > best)) {
        nearest = &row;
        best = n;
        counted = same_count;
      }
    }
  }
  std::string name = isa::to_string(instr.form);
  if (!counted) fail(instr.loc, fmt::format("{} has {} operands; it takes \"{}\"", name, instr.ops.size(), nearest->operands));
  fail(instr.loc, fmt::format("operand {} of {} is {}; it takes \"{}\"", best + 1, name, what(instr.ops[best]), nearest->operands));
}

}  // namespace orrery::ptx
