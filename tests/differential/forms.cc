// tests/differential/forms.cc: see forms.h. Each exclusion has its reason.
#include "forms.h"

#include "sem/pure.h"

namespace differential {

using namespace orrery;
using isa::OperandSlot;
using isa::Op;

namespace {

const char* reason_to_leave_out(const isa::Row& row) {
  if (row.effects & 0xffff) return "does more than compute";
  if (row.min_sm() > 90 || (row.min_sm() != 90 && row.has(isa::effect::only))) return "not on sm_90a";
  if (row.any_operands || row.is_call) return "operands are not described";
  switch (row.op) {
    case Op::mov: return "has statements of its own";
    case Op::cvta: case Op::isspacep: case Op::istypep: case Op::mapa: return "operates on addresses";
    case Op::addc: case Op::subc: case Op::madc: return "needs a carry: has statements of its own";
    default: return nullptr;
  }
}

bool can_make(const OperandSlot& s, const isa::Form& f) {
  switch (s.kind) {
    case OperandSlot::dst: case OperandSlot::src: case OperandSlot::imm: case OperandSlot::pair: break;
    default: return false;
  }
  if (s.type_from == OperandSlot::unchecked) return false;
  const isa::Type t = s.type_from == OperandSlot::fixed ? s.type : f.type(s.type_index);
  const int bits = isa::bits_of(t);
  return t == isa::Type::pred || (bits >= 8 && bits <= 64);
}

std::vector<PureForm> find_forms() {
  std::vector<PureForm> out;
  for (const isa::Row& row : isa::rows()) {
    if (reason_to_leave_out(row)) continue;
    for (const std::string& name : isa::spellings(row)) {
      const isa::NameMatch match = isa::match_name(name);
      if (!match.error.empty() || match.form.has(isa::Mod::cc)) continue;
      for (const auto& picture : row.pictures) {
        if (!isa::picture_applies(picture, match.form)) continue;
        bool all = true;
        int dst = 0, src = 0;
        for (const OperandSlot& s : picture) {
          all &= can_make(s, match.form);
          (s.kind == OperandSlot::dst ? dst : s.kind == OperandSlot::pair ? dst : src) += s.kind == OperandSlot::pair ? 2 : 1;
        }
        if (all && sem::find_pure(match.form, dst, src)) out.push_back({name, match.form, &picture});
      }
    }
  }
  return out;
}

}  // namespace

const std::vector<PureForm>& pure_forms() {
  static const std::vector<PureForm> all = find_forms();
  return all;
}

}  // namespace differential
