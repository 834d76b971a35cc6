// lower/lower.cc: resolves the symbols of a kernel and of the functions it calls (see program.h for what results).
//
// Three steps: find what is reachable, lay out its shared memory once, then resolve each function on its own.
// Not here: the control-flow graph (flow.cc), analyses for speed (uniformity, inlining).
#include <algorithm>
#include <set>

#include "base/error.h"
#include "lower/flow.h"
#include "lower/program.h"

namespace orrery::lower {

using isa::Mod;
using isa::Op;
using isa::Space;
using ptx::BaseKind;
using ptx::Function;
using ptx::Instr;
using ptx::Module;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Var;

namespace {

bool is_shared(Space s) { return s == Space::shared || s == Space::shared_cta || s == Space::shared_cluster; }
bool is_param(Space s) { return s == Space::param || s == Space::param_entry || s == Space::param_func; }
uint64_t align_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

template <class F>
void for_operands(const Instr& instr, F f) {
  auto walk = [&](auto& self, const Operand& o) -> void {
    f(o);
    for (const Operand& p : o.parts) self(self, p);
  };
  for (const Operand& o : instr.ops) walk(walk, o);
}

/// Functions and shared variables that a kernel can touch, and where the latter lie.
struct Reach {
  std::vector<uint8_t> functions;
  std::vector<uint8_t> module_vars;
  std::vector<uint64_t> var_offset;                 // shared module variables
  std::vector<std::vector<uint64_t>> local_offset;  // shared variables inside functions: [function][local]
  std::vector<SharedVar> shared_vars;               // all of them
  uint32_t static_bytes = 0, dynamic_offset = 0;
  bool dynamic = false;
};

void visit(const Module& m, uint32_t start, Reach& reach) {
  std::vector<uint32_t> work{start};
  reach.functions[start] = 1;
  bool indirect = false;
  auto add = [&](uint32_t f) {
    if (m.functions[f].has_body && !m.functions[f].is_entry && !reach.functions[f]) reach.functions[f] = 1, work.push_back(f);
  };
  while (!work.empty()) {
    const Function& f = m.functions[work.back()];
    work.pop_back();
    for (const Instr& i : f.body) {
      for_operands(i, [&](const Operand& o) {
        if (o.kind == OperandKind::func) add(o.id);
        if (o.kind == OperandKind::var || (o.kind == OperandKind::address && o.base == BaseKind::var))
          reach.module_vars[o.id] = 1;
      });
      if (i.form.op == Op::call && i.ops.size() > 1 && i.ops[1].kind != OperandKind::func && !indirect) {
        indirect = true;
        for (uint32_t k = 0; k < m.functions.size(); k++) add(k);
      }
    }
  }
}

void lay_out_shared(const Module& m, Reach& reach) {
  uint64_t at = kSharedStart, dynamic_align = 16;
  std::vector<uint64_t*> dynamic;
  auto place = [&](const Var& v, uint64_t& offset) {
    if (v.unsized || v.linkage == ptx::Linkage::extern_) {  // also with a size: extern __shared__ T s;
      dynamic_align = std::max<uint64_t>(dynamic_align, v.align);
      dynamic.push_back(&offset);
      return;
    }
    at = align_up(at, std::max(1u, v.align));
    offset = at;
    at += v.size;
    reach.shared_vars.push_back({v.name, uint32_t(offset), uint32_t(v.size)});
  };
  for (uint32_t v = 0; v < m.vars.size(); v++)
    if (reach.module_vars[v] && is_shared(m.vars[v].space)) place(m.vars[v], reach.var_offset[v]);
  for (uint32_t f = 0; f < m.functions.size(); f++) {
    reach.local_offset[f].assign(m.functions[f].locals.size(), 0);
    if (!reach.functions[f]) continue;
    for (uint32_t v = 0; v < m.functions[f].locals.size(); v++)
      if (is_shared(m.functions[f].locals[v].space)) place(m.functions[f].locals[v], reach.local_offset[f][v]);
  }
  reach.static_bytes = uint32_t(at - kSharedStart);
  reach.dynamic = !dynamic.empty();
  reach.dynamic_offset = uint32_t(align_up(at, dynamic_align));
  for (uint64_t* offset : dynamic) *offset = reach.dynamic_offset;
  if (reach.dynamic) reach.shared_vars.push_back({"dynamic shared memory", reach.dynamic_offset, 0});
}

/// Resolves one function.
class Resolver {
 public:
  Resolver(const Module& module, uint32_t function, const Addresses& addresses, const Reach& reach)
      : m_(module), f_(module.functions[function]), function_(function), addresses_(addresses), reach_(reach) {}

  Program run() {
    p_.name = f_.name;
    p_.is_entry = f_.is_entry;
    p_.module = &m_;
    p_.source = &f_;
    p_.shared_bytes = reach_.static_bytes;
    p_.dynamic_shared_offset = reach_.dynamic_offset;
    p_.has_dynamic_shared = reach_.dynamic;
    p_.shared_vars = reach_.shared_vars;
    for (const ptx::Register& r : f_.regs) p_.regs.push_back({kind_of(r.type), r.type, 0});
    lay_out_locals();
    p_.code = f_.body;
    add_carry();
    for (Instr& i : p_.code) resolve(i);
    if (p_.code.empty()) {
      Instr ret;
      ret.form.op = Op::ret;
      p_.code.push_back(ret);
    }
    find_order_sensitivity();
    std::vector<uint32_t> targets;
    for (const ptx::Label& l : f_.labels) targets.push_back(end_label(l.target));
    for (const ptx::Prototype& p : f_.prototypes)
      p_.branch_tables.push_back(p.kind == ptx::Prototype::branch_targets ? p.targets : std::vector<uint32_t>());
    finish_program(p_, targets);
    return std::move(p_);
  }

 private:
  static RegKind kind_of(isa::Type t) {
    const int bits = isa::bits_of(t);
    if (t == isa::Type::pred) return RegKind::pred;
    return bits <= 32 ? RegKind::word : bits <= 64 ? RegKind::dword : RegKind::qword;
  }

  /// A label at the very end of the body needs an instruction to stand before.
  uint32_t end_label(uint32_t target) {
    if (target < p_.code.size()) return target;
    Instr ret;
    ret.form.op = Op::ret;
    if (p_.code.size() == f_.body.size() || p_.code.empty()) p_.code.push_back(ret);
    return uint32_t(p_.code.size()) - 1;
  }

  void lay_out_locals() {
    p_.local_at.assign(f_.locals.size(), 0);
    uint64_t params = 0, local = 0;
    for (uint32_t v = 0; v < f_.locals.size(); v++) {
      const Var& var = f_.locals[v];
      const bool formal = v < f_.n_rets + f_.n_params;
      if (is_shared(var.space) || var.is_reg) {
        if (formal) p_.params.push_back({kNone, 0, 1});
        continue;
      }
      if (var.space == Space::global || var.space == Space::const_)
        base::fail("{}: variable {} in a function has no address; declare it at module scope", f_.name, var.name);
      uint64_t& at = formal && f_.is_entry ? params : local;
      at = align_up(at, std::max(1u, var.align));
      p_.local_at[v] = at;
      if (formal) p_.params.push_back({uint32_t(at), uint32_t(var.size), var.align});
      at += var.size;
    }
    p_.param_bytes = uint32_t(params);
    if (local >= UINT32_MAX - 16) base::fail("{}: its local variables take {} bytes, more than any GPU has for a thread", f_.name, local);
    p_.local_bytes = uint32_t(align_up(local, 16));
  }

  void add_carry() {
    uint32_t carry = kNone;
    for (Instr& i : p_.code) {
      const Op op = i.form.op;
      const bool reads = op == Op::addc || op == Op::subc || op == Op::madc, writes = i.form.has(Mod::cc);
      if (!reads && !writes) continue;
      if (carry == kNone) carry = uint32_t(p_.regs.size()), p_.regs.push_back({RegKind::pred, isa::Type::pred, 0});
      Operand o;
      o.kind = OperandKind::reg;
      o.id = carry;
      if (reads) i.ops.push_back(o);
      if (writes) i.ops.insert(i.ops.begin() + 1, o);
    }
  }

  void resolve(Instr& i) {
    if (i.form.op == Op::call && !(i.ops.size() > 1 && i.ops[1].kind == OperandKind::func && !m_.functions[i.ops[1].id].has_body))
      p_.has_calls = true;
    if (i.form.op == Op::call && i.ops.size() > 1 && i.ops[1].kind == OperandKind::func) {
      const std::string& name = m_.functions[i.ops[1].id].name;
      p_.prints |= name == "vprintf";
      p_.order_sensitive |= name.starts_with("cuda") || name.starts_with("__cuda");  // launches, streams: see exec/device_services.h
    }
    for (size_t k = 0; k < i.ops.size(); k++) {
      if (i.form.op == Op::call && k == 1 && i.ops[k].kind == OperandKind::func) continue;
      resolve(i.ops[k]);
    }
  }

  /// `id` of an immediate, or of an address without base: 1 + the number in Program::shared_vars of the variable whose
  /// address it is, 0 for every other; what is out of a variable's bounds can be told by it.
  static void immediate(Operand& o, uint64_t value, uint32_t id = 0) {
    o.kind = OperandKind::imm;
    o.value = int64_t(value);
    o.base = BaseKind::none;
    o.id = id;
  }

  uint32_t shared_var_at(uint64_t offset) const {
    for (uint32_t i = 0; i < reach_.shared_vars.size(); i++)
      if (reach_.shared_vars[i].offset == offset) return i + 1;
    return 0;
  }

  void resolve(Operand& o) {
    for (Operand& part : o.parts) resolve(part);
    if (o.kind == OperandKind::var) immediate(o, var_address(o.id) + uint64_t(o.value), shared_var(o.id));
    else if (o.kind == OperandKind::func) immediate(o, addresses_.function.at(o.id));
    else if (o.kind == OperandKind::local_var) resolve_local_value(o);
    else if (o.kind == OperandKind::address && o.base == BaseKind::var) {
      o.value += int64_t(var_address(o.id));
      o.base = BaseKind::none;
      o.id = shared_var(o.id);
    } else if (o.kind == OperandKind::address && o.base == BaseKind::local_var) resolve_local_address(o);
  }

  uint32_t shared_var(uint32_t v) const { return is_shared(m_.vars[v].space) ? shared_var_at(reach_.var_offset[v]) : 0; }

  uint64_t var_address(uint32_t v) const {
    return is_shared(m_.vars[v].space) ? reach_.var_offset[v] : addresses_.var.at(v);
  }

  void resolve_local_value(Operand& o) {
    const Var& var = f_.locals[o.id];
    if (is_shared(var.space)) {
      const uint64_t offset = reach_.local_offset[function_][o.id];
      return immediate(o, offset + uint64_t(o.value), shared_var_at(offset));
    }
    const bool kernel_param = f_.is_entry && is_param(var.space) && o.id < f_.n_params;
    if (kernel_param) return immediate(o, p_.local_at[o.id] + uint64_t(o.value));
    o.value += int64_t(p_.local_at[o.id]);
  }

  void resolve_local_address(Operand& o) {
    const Var& var = f_.locals[o.id];
    if (var.is_reg) base::fail("{}: {} is a register, not memory", f_.name, var.name);
    const bool kernel_param = f_.is_entry && is_param(var.space) && o.id < f_.n_params;
    if (is_shared(var.space)) {
      const uint64_t offset = reach_.local_offset[function_][o.id];
      o.value += int64_t(offset);
      o.id = shared_var_at(offset);
    } else {
      o.value += int64_t(p_.local_at[o.id]);
      if (kernel_param) o.id = 0;
    }
    if (is_shared(var.space) || kernel_param) o.base = BaseKind::none;
  }

  void find_order_sensitivity() {
    for (const Instr& i : p_.code) {
      const isa::Form& f = i.form;
      const bool shared = f.n_spaces > 0 && is_shared(f.space());
      p_.counts_phases |= f.op == Op::barrier_cluster || f.op == Op::wgmma_commit_group;
      if (shared) continue;
      if (f.op == Op::atom) p_.order_sensitive = true;
      if (f.op == Op::red && f.has(Mod::add) && (isa::is_float(f.type()) || isa::class_of(f.type()) == isa::TypeClass::packed))
        p_.order_sensitive = true;
      if (f.op == Op::red && (f.has(Mod::inc) || f.has(Mod::dec) || f.has(Mod::exch))) p_.order_sensitive = true;
      if (f.op == Op::ld && (f.has(Mod::volatile_) || f.has(Mod::acquire) || f.has(Mod::relaxed))) p_.order_sensitive = true;
      if (f.op == Op::cp_reduce_async_bulk || f.op == Op::cp_reduce_async_bulk_tensor) p_.order_sensitive = true;
    }
  }

  const Module& m_;
  const Function& f_;
  const uint32_t function_;
  const Addresses& addresses_;
  const Reach& reach_;
  Program p_;
};

}  // namespace

KernelPrograms lower_kernel(const Module& module, uint32_t function, const Addresses& addresses) {
  if (!module.functions.at(function).has_body)
    base::fail("{} is declared but has no body in this module", module.functions[function].name);
  Reach reach;
  reach.functions.assign(module.functions.size(), 0);
  reach.module_vars.assign(module.vars.size(), 0);
  reach.var_offset.assign(module.vars.size(), 0);
  reach.local_offset.resize(module.functions.size());
  visit(module, function, reach);
  lay_out_shared(module, reach);
  KernelPrograms out;
  out.functions.resize(module.functions.size());
  for (uint32_t f = 0; f < module.functions.size(); f++)
    if (reach.functions[f]) out.functions[f] = std::make_shared<const Program>(Resolver(module, f, addresses, reach).run());
  Program entry = *out.functions[function];
  for (const auto& f : out.functions)
    if (f) entry.order_sensitive |= f->order_sensitive, entry.prints |= f->prints, entry.counts_phases |= f->counts_phases;
  out.entry = std::make_shared<const Program>(std::move(entry));
  return out;
}

}  // namespace orrery::lower
