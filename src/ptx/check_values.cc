// ptx/check_values.cc: limits that the kinds and types of operands do not express: sizes of matrix fragments, ranges
// of constants, selectors of video operands. Source: PTX ISA manual, chapter 9, and ptxas 13.0.
#include <optional>

#include "isa/fragment.h"
#include "ptx/parser.h"

namespace orrery::ptx {
namespace {

using isa::Mod;
using isa::Op;

/// A limit that constants of one operand must keep.
struct Limit {
  int64_t low, high, multiple;
};

std::optional<Limit> limit_of_wgmma(const isa::Form& f, std::string_view name) {
  bool narrow = isa::bits_of(f.types[1]) <= 8;
  if (name == "imm_a" || name == "imm_b") return Limit{-1, 1, 2};  // 2: odd numbers only, see in_limit
  if (name == "trans_a" || name == "trans_b") return Limit{0, 1, 1};
  if (name == "sp_sel") return Limit{0, narrow ? 0 : 1, 1};
  return {};
}

std::optional<Limit> limit_of_tensormap(const isa::Form& f, std::string_view name) {
  if (name == "ord") return Limit{0, 4, 1};
  if (name != "value") return {};
  if (f.has(Mod::elemtype)) return Limit{0, 15, 1};
  if (f.has(Mod::interleave_layout)) return Limit{0, 2, 1};
  if (f.has(Mod::swizzle_mode) || f.has(Mod::swizzle_atomicity)) return Limit{0, 4, 1};
  if (f.has(Mod::fill_mode)) return Limit{0, 1, 1};
  return {};
}

std::optional<Limit> limit_of(const isa::Row& row, const isa::Form& f, std::string_view name) {
  switch (row.op) {
    case Op::bar:
    case Op::barrier: return name == "a" ? Limit{0, 15, 1} : name == "b" ? Limit{0, 1024, 32} : std::optional<Limit>{};
    case Op::setmaxnreg: return Limit{24, 256, 8};
    case Op::pmevent: return Limit{0, f.has(Mod::mask) ? 65535 : 15, 1};
    case Op::bfe:
    case Op::bfi: return name == "b" || name == "c" || name == "e" ? Limit{INT32_MIN, UINT32_MAX, 1} : std::optional<Limit>{};
    case Op::applypriority:
    case Op::discard:
    case Op::tensormap_cp_fenceproxy:
    case Op::fence: return name == "size" ? Limit{128, 128, 1} : std::optional<Limit>{};
    case Op::cp_async: return name == "size" ? Limit{f.has(Mod::cg) ? 16 : 4, 16, 4} : std::optional<Limit>{};
    case Op::cp_async_bulk:
    case Op::cp_async_bulk_prefetch:
    case Op::cp_reduce_async_bulk: return name == "size" ? Limit{0, UINT32_MAX, 16} : std::optional<Limit>{};
    case Op::wgmma_mma_async:
    case Op::wgmma_mma_async_sp: return limit_of_wgmma(f, name);
    case Op::tensormap_replace: return limit_of_tensormap(f, name);
    case Op::cp_async_wait_group:
    case Op::cp_async_bulk_wait_group:
    case Op::wgmma_wait_group: return Limit{0, INT32_MAX, 1};
    default: return {};
  }
}

bool in_limit(const Limit& l, int64_t v) {
  if (v < l.low || v > l.high) return false;
  return l.low < 0 && l.multiple == 2 ? v % 2 != 0 : v % l.multiple == 0;
}

bool is_video(Op op) { return op >= Op::vadd && op <= Op::vset4; }

bool holds(isa::Type want, isa::Type have) {
  if (isa::bits_of(want) != isa::bits_of(have)) return false;
  return isa::class_of(want) == isa::TypeClass::bits || want == have || isa::class_of(have) == isa::TypeClass::bits;
}

}  // namespace

void Parser::check_fragment(const Instr& instr, const isa::OperandSlot& slot, const Operand& o) {
  if (o.kind != OperandKind::vec || slot.name.size() != 1) return;
  auto want = isa::fragment(instr.form, slot.name[0]);
  if (!want) return;
  if (o.parts.size() != want->registers)
    fail(instr.loc, fmt::format("fragment {} of {} has {} registers, not {}", slot.name, isa::to_string(instr.form),
                                want->registers, o.parts.size()));
  for (const Operand& p : o.parts)
    if (p.kind == OperandKind::reg && !holds(want->type, fn_->regs[p.id].type))
      fail(instr.loc, fmt::format("fragment {} of {} is made of .{} registers; '{}' is .{}", slot.name,
                                  isa::to_string(instr.form), isa::name_of(want->type), fn_->regs[p.id].name,
                                  isa::name_of(fn_->regs[p.id].type)));
}

void Parser::check_values(const Instr& instr, const isa::Row& row, const std::vector<isa::OperandSlot>& picture) {
  for (size_t i = 0; i < picture.size(); ++i) {
    const Operand& o = instr.ops[i];
    if (o.selector != Mod::count && !is_video(row.op))
      fail(instr.loc, fmt::format("{} takes no selector such as .{}", isa::name_of(row.op), isa::name_of(o.selector)));
    check_fragment(instr, picture[i], o);
    if (o.kind != OperandKind::imm) continue;
    auto limit = limit_of(row, instr.form, picture[i].name);
    if (limit && !in_limit(*limit, o.value))
      fail(instr.loc, fmt::format("operand {} of {} is {}; it must be {} to {}{}", i + 1, isa::to_string(instr.form), o.value,
                                  limit->low, limit->high,
                                  limit->multiple > 2 ? fmt::format(", a multiple of {}", limit->multiple) : ""));
  }
}

}  // namespace orrery::ptx
