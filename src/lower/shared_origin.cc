// lower/shared_origin.cc: see shared_origin.h.
#include "lower/shared_origin.h"

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
  explicit Origins(const Program& p) : p_(p), regs_(p.regs.size(), kNothing) {}

  std::vector<uint32_t> run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instr& in : p_.code) changed |= visit(in);
    }
    std::vector<uint32_t> out(p_.code.size(), 0);
    for (size_t i = 0; i < out.size(); i++) out[i] = origin_of(p_.code[i]);
    return out;
  }

 private:
  int32_t of(const Operand& o) const {
    switch (o.kind) {
      case OperandKind::reg: return regs_[o.id];
      case OperandKind::imm: return o.id ? int32_t(o.id - 1) : kNumber;
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
        const int32_t a = sum(of(o[1]), of(o[2]));
        return a == kNothing ? kNothing : a == kNumber ? sum(kNumber, of(o[3])) : kUnknown;
      }
      case Op::selp: return of(o[1]) == kNothing ? of(o[2]) : meet(of(o[1]), of(o[2]));
      case Op::call: case Op::atom: case Op::shfl: case Op::mapa: case Op::alloca: case Op::stacksave: return kUnknown;
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

  uint32_t origin_of(const Instr& in) const {
    const Space s = in.form.n_spaces ? in.form.space() : Space::none;
    if (s != Space::none && !is_shared(s)) return 0;
    for (const Operand& o : in.ops) {
      if (o.kind != OperandKind::address) continue;
      int32_t v = kUnknown;
      if (o.base == BaseKind::reg) v = regs_[o.id];
      else if (o.base == BaseKind::none && is_shared(s) && o.id) v = int32_t(o.id - 1);
      return v >= 0 && size_t(v) < p_.shared_vars.size() && p_.shared_vars[size_t(v)].bytes ? uint32_t(v) + 1 : 0;
    }
    return 0;
  }

  const Program& p_;
  std::vector<int32_t> regs_;
};

}  // namespace

std::vector<uint32_t> find_shared_origins(const Program& program) { return Origins(program).run(); }

}  // namespace orrery::lower
