// lower/local_pointers.cc: see local_pointers.h. Two sets of registers, both found by taking away: those that hold addresses of
// local memory whatever defines them, and of these the ones that may hold offsets.
#include "lower/local_pointers.h"

#include <algorithm>

#include "isa/row.h"
#include "lower/flow.h"

namespace orrery::lower {

using isa::Op;
using isa::Space;
using ptx::BaseKind;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

class Pointers {
 public:
  explicit Pointers(Program& p) : p_(p), local_(p.regs.size(), 0), offset_(p.regs.size(), 0) {}

  void run() {
    find_local();
    if (std::none_of(local_.begin(), local_.end(), [](uint8_t l) { return l; })) return;
    find_offsets();
    for (Instr& in : p_.code) rewrite(in);
  }

 private:
  bool is_local(const Operand& o) const { return o.kind == OperandKind::reg && !o.negated && local_[o.id]; }
  bool is_offset(const Operand& o) const { return is_local(o) && offset_[o.id]; }
  static bool is_move(const Instr& in) { return in.form.op == Op::mov && in.ops.size() == 2 && in.ops[0].kind == OperandKind::reg && in.ops[1].kind == OperandKind::reg; }
  static bool from_local(const Instr& in) { return in.form.op == Op::cvta && !in.form.has(isa::Mod::to) && in.form.n_spaces && in.form.space() == Space::local; }
  static bool to_local(const Instr& in) { return in.form.op == Op::cvta && in.form.has(isa::Mod::to) && in.form.n_spaces && in.form.space() == Space::local; }
  /// d = a + b, a - b: the pointers among the operands, and d.
  static bool is_sum(const Instr& in) { return (in.form.op == Op::add || in.form.op == Op::sub) && in.ops.size() == 3 && isa::bits_of(in.form.type()) == 64 && !isa::is_float(in.form.type()); }
  static bool is_generic_access(const Instr& in) {
    if ((in.form.op != Op::ld && in.form.op != Op::st) || in.form.n_spaces) return false;
    for (const isa::Mod m : {isa::Mod::volatile_, isa::Mod::relaxed, isa::Mod::acquire, isa::Mod::release, isa::Mod::mmio, isa::Mod::nc})
      if (in.form.has(m)) return false;
    return true;
  }
  static const Operand* address_of(const Instr& in) {
    const Operand& a = in.ops[in.form.op == Op::ld ? 1 : 0];
    return a.kind == OperandKind::address && a.base == BaseKind::reg ? &a : nullptr;
  }

  /// The definition gives an address of local memory.
  bool gives_local(const Instr& in) const {
    if (from_local(in)) return true;
    if (is_move(in)) return is_local(in.ops[1]);
    if (in.form.op == Op::selp) return is_local(in.ops[1]) && is_local(in.ops[2]);
    if (!is_sum(in)) return false;
    return in.form.op == Op::sub ? is_local(in.ops[1]) && !is_local(in.ops[2]) : is_local(in.ops[1]) != is_local(in.ops[2]);
  }

  void find_local() {
    std::vector<uint8_t> rooted(p_.regs.size(), 0);
    for (const Instr& in : p_.code)
      if (from_local(in)) for_registers(in, [&](uint32_t r) { rooted[r] = 1; }, [](uint32_t) {});
    for (bool changed = true; changed;) {  // what addresses of local memory may come to
      changed = false;
      for (const Instr& in : p_.code) {
        if (!is_move(in) && !is_sum(in) && in.form.op != Op::selp) continue;
        bool any = false;
        for_registers(in, [](uint32_t) {}, [&](uint32_t r) { any |= rooted[r] != 0; });
        if (any) for_registers(in, [&](uint32_t r) { if (!rooted[r]) rooted[r] = 1, changed = true; }, [](uint32_t) {});
      }
    }
    for (size_t r = 0; r < local_.size(); r++) local_[r] = rooted[r] && p_.regs[r].kind == RegKind::dword;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instr& in : p_.code)
        if (!gives_local(in)) for_registers(in, [&](uint32_t r) { if (local_[r]) local_[r] = 0, changed = true; }, [](uint32_t) {});
    }
  }

  /// Uses other than those that can do with an offset: the register keeps the address, and so do those that it is computed with.
  void find_offsets() {
    offset_ = local_;
    auto drop = [&](uint32_t r) { return offset_[r] ? (offset_[r] = 0, true) : false; };
    for (const Instr& in : p_.code) {
      const bool fine = is_move(in) || is_sum(in) || in.form.op == Op::selp || to_local(in);
      if (fine) continue;
      const Operand* address = is_generic_access(in) ? address_of(in) : nullptr;
      for (const Operand& o : in.ops)
        if (&o != address && !(from_local(in) && &o == &in.ops[0])) for_operand_registers(o, drop);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instr& in : p_.code) {
        if (!is_sum(in) && in.form.op != Op::selp) continue;
        bool all = true, some = false;
        for (const Operand& o : in.ops)
          if (is_local(o)) all &= offset_[o.id] != 0, some |= offset_[o.id] != 0;
        if (some && (!all || !is_local(in.ops[0])))
          for (const Operand& o : in.ops)
            if (is_local(o)) changed |= drop(o.id);
      }
    }
  }

  void rewrite(Instr& in) {
    static const isa::Form move = isa::match_name("mov.b64").form, generic = isa::match_name("cvta.local.u64").form,
                           local = isa::match_name("cvta.to.local.u64").form;
    if (from_local(in) || to_local(in)) {
      if (is_offset(in.ops[from_local(in) ? 0 : 1])) in.form = move;
    } else if (is_move(in)) {
      const bool to = is_offset(in.ops[0]), from = is_offset(in.ops[1]);
      if (to != from) in.form = to ? local : generic;
    } else if (is_generic_access(in)) {
      const Operand* address = address_of(in);
      if (!address || !local_[address->id] || !offset_[address->id]) return;
      in.form.n_spaces = 1;
      in.form.spaces[0] = Space::local;
    }
  }

  Program& p_;
  std::vector<uint8_t> local_, offset_;  // by register
};

}  // namespace

void use_local_accesses(Program& program) { Pointers(program).run(); }

}  // namespace orrery::lower
