// lower/shared_origin.cc: see shared_origin.h.
#include "lower/shared_origin.h"

#include "isa/row.h"
#include "lower/flow.h"

namespace orrery::lower {

using isa::Mod;
using isa::Op;
using isa::Space;
using ptx::BaseKind;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

/// What a register may hold: one of these, or a variable's number in Program::shared_vars.
constexpr int32_t kNothing = -3, kNumber = -2, kUnknown = -1;

int32_t meet(int32_t a, int32_t b) {
  if (a == kNothing || a == b) return b;
  return b == kNothing ? a : kUnknown;
}

int32_t sum(int32_t a, int32_t b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kNumber) return b;
  return b == kNumber ? a : kUnknown;
}

bool is_shared(Space s) { return s == Space::shared || s == Space::shared_cta; }

class Origins {
 public:
  Origins(const Program& p, bool params) : p_(p), params_(params), regs_(p.regs.size(), kNothing) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instr& in : p_.code) changed |= visit(in);
    }
  }

  /// The variable or parameter that the address operand belongs to, or kUnknown.
  int32_t of_address(const Instr& in) const {
    for (const Operand& o : in.ops)
      if (o.kind == OperandKind::address) return o.base == BaseKind::reg ? regs_[o.id] : o.base == BaseKind::none && o.id ? int32_t(o.id - 1) : kUnknown;
    return kUnknown;
  }

  uint32_t origin_of(const Instr& in) const {
    const Space s = in.form.n_spaces ? in.form.space() : Space::none;
    if (s != Space::none && !is_shared(s)) return 0;
    const int32_t v = of_address(in);
    return v >= 0 && size_t(v) < p_.shared_vars.size() && p_.shared_vars[size_t(v)].bytes ? uint32_t(v) + 1 : 0;
  }

 private:
  int32_t of(const Operand& o) const {
    switch (o.kind) {
      case OperandKind::reg: return regs_[o.id];
      case OperandKind::imm: return !o.id ? kNumber : params_ ? kUnknown : int32_t(o.id - 1);
      case OperandKind::sreg: return kNumber;
      default: return kUnknown;
    }
  }

  bool put(const Operand& o, int32_t v) {
    if (o.kind == OperandKind::reg) {
      const int32_t old = regs_[o.id];
      regs_[o.id] = meet(old, v);
      return regs_[o.id] != old;
    }
    bool changed = false;
    for (const Operand& part : o.parts) changed |= put(part, v);
    return changed;
  }

  /// Arithmetic that keeps no address: a number of numbers, unknown when an address goes in.
  int32_t mixed(const Instr& in, size_t first) const {
    int32_t v = kNumber;
    for (size_t i = first; i < in.ops.size(); i++) {
      const int32_t a = of(in.ops[i]);
      if (a == kNothing) return kNothing;
      if (a != kNumber) v = kUnknown;
    }
    return v;
  }

  int32_t loaded(const Instr& in) const {
    const Space s = in.form.n_spaces ? in.form.space() : Space::none;
    const bool parameter = (s == Space::param || s == Space::param_entry) && p_.is_entry;
    if (params_ && parameter && in.ops[1].base == BaseKind::none && isa::bits_of(in.form.type()) == 64 && in.form.vec <= 1) return int32_t(in.ops[1].value);
    if (params_ && (s == Space::global || s == Space::const_) && isa::bits_of(in.form.type()) == 64) return kUnknown;  // a pointer, perhaps
    return s == Space::global || s == Space::const_ || (parameter && in.ops[1].base == BaseKind::none) ? kNumber : kUnknown;
  }

  int32_t result(const Instr& in) const {
    const auto& o = in.ops;
    switch (in.form.op) {
      case Op::ld: case Op::ldu: return loaded(in);
      case Op::mov: case Op::cvt:
        return o.size() == 2 ? of(o[1]) : kUnknown;
      case Op::cvta: {
        // A number that becomes an address in shared memory came from somewhere else.
        const int32_t v = of(o[1]);
        return v == kNumber && in.form.has(Mod::to) && is_shared(in.form.space()) ? kUnknown : v;
      }
      case Op::add: return o.size() == 3 ? sum(of(o[1]), of(o[2])) : kUnknown;
      case Op::sub: {
        const int32_t a = of(o[1]), b = of(o[2]);
        if (a == kNothing || b == kNothing) return kNothing;
        return b == kNumber ? a : a == b && a >= 0 ? kNumber : kUnknown;
      }
      case Op::mad: {
        if (params_) return of(o[3]);
        const int32_t a = sum(of(o[1]), of(o[2]));
        return a == kNothing ? kNothing : a == kNumber ? sum(kNumber, of(o[3])) : kUnknown;
      }
      case Op::selp: return of(o[1]) == kNothing ? of(o[2]) : meet(of(o[1]), of(o[2]));
      case Op::call: case Op::atom: case Op::shfl: case Op::mapa: case Op::alloca: case Op::stacksave: return kUnknown;
      case Op::mul: case Op::mul24: case Op::shl: case Op::div: case Op::rem:
        if (params_) return kNumber;
        [[fallthrough]];
      default: return mixed(in, size_t(destinations(in)));
    }
  }

  bool visit(const Instr& in) {
    const int n = destinations(in);
    if (!n) return false;
    const int32_t v = result(in);
    if (v == kNothing) return false;
    bool changed = false;
    for (int i = 0; i < n && i < int(in.ops.size()); i++) changed |= put(in.ops[size_t(i)], v);
    return changed;
  }

  const Program& p_;
  const bool params_;          // parameters are looked for, not variables
  std::vector<int32_t> regs_;
};

}  // namespace

std::vector<uint32_t> find_shared_origins(const Program& program) {
  const Origins origins(program, false);
  std::vector<uint32_t> out;
  for (const Instr& in : program.code) out.push_back(origins.origin_of(in));
  return out;
}

std::optional<std::vector<uint32_t>> find_written_params(const Program& program) {
  if (program.has_calls || !program.is_entry) return std::nullopt;
  const Origins params(program, true), variables(program, false);
  std::vector<uint32_t> out;
  for (const Instr& in : program.code) {
    const uint32_t effects = isa::row(in.form.row).effects;
    const Space s = in.form.n_spaces ? in.form.space() : Space::none;
    if (in.form.op == Op::call) {
      const bool named = in.ops.size() > 1 && in.ops[1].kind == OperandKind::func;
      const std::string name = named ? program.module->functions[in.ops[1].id].name : "";
      if (name != "vprintf" && name != "__assertfail") return std::nullopt;
      continue;
    }
    if (!(effects & (isa::effect::writes | isa::effect::atomic)) || is_shared(s) || s == Space::shared_cluster || s == Space::local) continue;
    if (s == Space::param || s == Space::param_entry || s == Space::param_func) continue;
    if (effects & isa::effect::async) return std::nullopt;
    if (variables.origin_of(in)) continue;
    const int32_t param = params.of_address(in);
    if (param < 0 || (in.form.op != Op::st && in.form.op != Op::atom && in.form.op != Op::red)) return std::nullopt;
    out.push_back(uint32_t(param));
  }
  return out;
}

}  // namespace orrery::lower
