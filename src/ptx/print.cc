// ptx/print.cc: instructions and modules as PTX text. Source: PTX ISA manual, chapters 4, 5 and 11.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "isa/row.h"
#include "ptx/module.h"

namespace orrery::ptx {
namespace {

class Printer {
 public:
  Printer(const Module& m, const Function* f) : m_(m), f_(f) {}

  /// Lowering adds registers that the text does not declare.
  std::string register_name(uint32_t id) const { return f_ && id < f_->regs.size() ? f_->regs[id].name : "%" + std::to_string(id); }

  void operand(const Operand& o) {
    if (o.negated) out_ += f_ && o.kind == OperandKind::reg && o.id < f_->regs.size() && f_->regs[o.id].type == isa::Type::pred ? '!' : '-';
    switch (o.kind) {
      case OperandKind::none: break;
      case OperandKind::reg: out_ += register_name(o.id); break;
      case OperandKind::imm: immediate(o); break;
      case OperandKind::sreg: special(o); break;
      case OperandKind::address: address(o); break;
      case OperandKind::label: out_ += f_->labels[o.id].name; break;
      case OperandKind::var: out_ += m_.vars[o.id].name; addend(o.value); break;
      case OperandKind::local_var: out_ += f_->locals[o.id].name; addend(o.value); break;
      case OperandKind::func: out_ += m_.functions[o.id].name; break;
      case OperandKind::vec: list(o.parts, 0, '{', '}'); break;
      case OperandKind::pair: operand(o.parts[0]); out_ += '|'; operand(o.parts[1]); break;
      case OperandKind::sink: out_ += '_'; break;
      case OperandKind::prototype: out_ += f_->prototypes[o.id].name; break;
    }
    if (o.selector != isa::Mod::count) put(".{}", isa::name_of(o.selector));
  }

  void instruction(const Instr& i) {
    if (i.guard.reg != kNoReg) put("@{}{} ", i.guard.negated ? "!" : "", register_name(i.guard.reg));
    out_ += isa::to_string(i.form);
    if (i.form.op == isa::Op::call) {
      call(i);
    } else {
      for (size_t k = 0; k < i.ops.size(); ++k) {
        out_ += k ? ", " : " ";
        operand(i.ops[k]);
      }
    }
    out_ += ';';
  }

  void variable(const Var& v, bool with_linkage) {
    if (with_linkage) linkage(v.linkage);
    bool half = isa::is_float(v.type) && isa::bytes_of(v.type) < 4;  // their initial values are written as bits
    isa::Type type = half ? (isa::bytes_of(v.type) == 2 ? isa::Type::b16 : isa::Type::b8) : v.type;
    put(".{} .align {} ", v.is_reg ? "reg" : isa::name_of(v.space), v.align);
    if (v.is_reg) out_.resize(out_.size() - fmt::formatted_size(".align {} ", v.align));
    if (v.managed) out_ += ".attribute(.managed) ";
    put(".{} {}", isa::name_of(v.init.empty() ? v.type : type), v.name.empty() ? "_" : v.name);
    uint64_t element = std::max(1, isa::bytes_of(v.type));
    if (v.unsized) out_ += "[]";
    else if (v.size != element) put("[{}]", v.size / element);
    if (!v.init.empty()) initial_value(v, type, element);
  }

  void function(const Function& f, bool with_body) {
    linkage(f.linkage);
    out_ += f.is_entry ? ".entry " : ".func ";
    auto first = f.locals.begin();
    if (f.n_rets) {
      variables(first, first + f.n_rets);
      out_ += ' ';
    }
    out_ += f.name;
    variables(first + f.n_rets, first + f.n_rets + f.n_params);
    directives(f.directives);
    if (!with_body) {
      out_ += ";\n";
      return;
    }
    f_ = &f;
    body(f);
    f_ = nullptr;
  }

  void module() {
    put(".version {}.{}\n.target {}{}{}\n.address_size {}\n", m_.version_major, m_.version_minor, m_.target,
        m_.texmode_independent ? ", texmode_independent" : "", m_.debug ? ", debug" : "", m_.address_size);
    for (size_t i = 0; i < m_.files.size(); ++i)
      if (!m_.files[i].empty()) put(".file {} \"{}\"\n", i, m_.files[i]);
    for (const Function& f : m_.functions)
      if (!f.is_entry) function(f, false);
    for (const Var& v : m_.vars) {
      variable(v, true);
      out_ += ";\n";
    }
    for (const Function& f : m_.functions)
      if (f.has_body) function(f, true);
  }

  std::string take() { return std::move(out_); }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }
  void addend(int64_t value) {
    if (value) put("+{}", value);
  }
  void immediate(const Operand& o) {
    if (!o.is_float) put("{}", o.value);
    else if (o.float_bits == 32) put("0f{:08X}", uint32_t(o.value));
    else put("0d{:016X}", uint64_t(o.value));
  }
  void special(const Operand& o) {
    out_ += name_of(Sreg(o.id));
    if (Sreg(o.id) == Sreg::envreg) put("{}", o.value);
    if (Sreg(o.id) == Sreg::pm) put("{}{}", o.value & 63, o.value >= 64 ? "_64" : "");
  }
  void list(const std::vector<Operand>& parts, size_t first, char open, char close) {
    out_ += open;
    for (size_t i = first; i < parts.size(); ++i) {
      if (i > first) out_ += ", ";
      operand(parts[i]);
    }
    out_ += close;
  }
  void address(const Operand& o) {
    out_ += '[';
    switch (o.base) {
      case BaseKind::none: put("{}", o.value); break;
      case BaseKind::reg: out_ += register_name(o.id); addend(o.value); break;
      case BaseKind::var: out_ += m_.vars[o.id].name; addend(o.value); break;
      case BaseKind::local_var: out_ += f_->locals[o.id].name; addend(o.value); break;
    }
    if (o.has_sampler) {
      out_ += ", ";
      operand(o.parts[0]);
    }
    if (!o.parts.empty()) {
      out_ += ", ";
      list(o.parts, o.has_sampler, '{', '}');
    }
    out_ += ']';
  }
  void call(const Instr& i) {
    out_ += ' ';
    if (!i.ops[0].parts.empty()) {
      list(i.ops[0].parts, 0, '(', ')');
      out_ += ", ";
    }
    operand(i.ops[1]);
    if (!i.ops[2].parts.empty() || i.ops[3].kind == OperandKind::prototype) {
      out_ += ", ";
      list(i.ops[2].parts, 0, '(', ')');
    }
    if (i.ops[3].kind == OperandKind::prototype) {
      out_ += ", ";
      operand(i.ops[3]);
    }
  }
  void linkage(Linkage l) {
    static constexpr std::string_view words[] = {"", ".visible ", ".extern ", ".weak ", ".common "};
    out_ += words[size_t(l)];
  }
  template <class It>
  void variables(It first, It last) {
    out_ += '(';
    for (It v = first; v != last; ++v) {
      if (v != first) out_ += ", ";
      variable(*v, false);
    }
    out_ += ')';
  }
  void initial_value(const Var& v, isa::Type type, uint64_t element) {
    out_ += v.size == element ? " = " : " = {";
    uint64_t end = (v.init.size() + element - 1) / element;
    auto reloc = v.relocs.begin();
    for (uint64_t i = 0; i < end; ++i) {
      if (i) out_ += ", ";
      while (reloc != v.relocs.end() && reloc->offset < i * element) ++reloc;
      if (reloc != v.relocs.end() && reloc->offset == i * element) {
        if (reloc->mask) put("0x{:X}(", reloc->mask);
        put("{}{}{}", reloc->generic ? "generic(" : "", reloc->symbol, reloc->generic ? ")" : "");
        addend(reloc->addend);
        if (reloc->mask) out_ += ')';
        continue;
      }
      uint64_t bits = 0;
      std::memcpy(&bits, v.init.data() + i * element, std::min(element, std::min<uint64_t>(8, v.init.size() - i * element)));
      if (type == isa::Type::f32) put("0f{:08X}", bits);
      else if (type == isa::Type::f64) put("0d{:016X}", bits);
      else put("{}", bits);
    }
    if (v.size != element) out_ += '}';
  }
  void directives(const Directives& d) {
    auto three = [&](const char* name, const uint32_t* v) {
      if (v[0]) put("\n.{} {}, {}, {}", name, v[0], v[1], v[2]);
    };
    three("maxntid", d.maxntid);
    three("reqntid", d.reqntid);
    three("reqnctapercluster", d.reqnctapercluster);
    if (d.minnctapersm) put("\n.minnctapersm {}", d.minnctapersm);
    if (d.maxnreg) put("\n.maxnreg {}", d.maxnreg);
    if (d.maxclusterrank) put("\n.maxclusterrank {}", d.maxclusterrank);
    if (d.explicit_cluster) out_ += "\n.explicitcluster";
    if (d.noreturn) out_ += "\n.noreturn";
  }
  void registers(const Function& f) {
    std::vector<bool> parameter(f.regs.size());
    for (uint32_t i = 0; i < f.n_rets + f.n_params; ++i)
      if (f.locals[i].is_reg) parameter[f.locals[i].reg] = true;
    for (size_t i = 0; i < f.regs.size();) {
      isa::Type type = f.regs[i].type;
      size_t start = i, n = 0;
      for (; i < f.regs.size() && f.regs[i].type == type && n < 16; ++i) {
        if (parameter[i]) continue;
        if (n++) out_ += ", ";
        else put("  .reg .{} ", isa::name_of(type));
        out_ += f.regs[i].name;
      }
      if (n) out_ += ";\n";
      if (i == start) break;
    }
  }
  void prototype(const Prototype& p) {
    put("  {}: ", p.name);
    if (p.kind == Prototype::signature) {
      out_ += ".callprototype ";
      variables(p.rets.begin(), p.rets.end());
      out_ += " _ ";
      variables(p.params.begin(), p.params.end());
      if (p.noreturn) out_ += " .noreturn";
    } else {
      bool branch = p.kind == Prototype::branch_targets;
      out_ += branch ? ".branchtargets" : ".calltargets";
      for (size_t i = 0; i < p.targets.size(); ++i)
        put("{}{}", i ? ", " : " ", branch ? f_->labels[p.targets[i]].name : m_.functions[p.targets[i]].name);
    }
    out_ += ";\n";
  }
  void body(const Function& f) {
    out_ += "\n{\n";
    registers(f);
    for (size_t i = f.n_rets + f.n_params; i < f.locals.size(); ++i) {
      out_ += "  ";
      variable(f.locals[i], false);
      out_ += ";\n";
    }
    for (const Prototype& p : f.prototypes) prototype(p);
    std::vector<const Label*> labels;
    for (const Label& l : f.labels) labels.push_back(&l);
    std::stable_sort(labels.begin(), labels.end(), [](auto* a, auto* b) { return a->target < b->target; });
    size_t next = 0;
    Loc at;
    for (uint32_t i = 0; i <= f.body.size(); ++i) {
      for (; next < labels.size() && labels[next]->target == i; ++next) put("{}:\n", labels[next]->name);
      if (i == f.body.size()) break;
      const Loc& loc = f.body[i].loc;
      if (loc.file != at.file || loc.source_line != at.source_line) put("  .loc {} {} 0\n", loc.file, loc.source_line);
      at = loc;
      out_ += "  ";
      instruction(f.body[i]);
      out_ += '\n';
    }
    out_ += "}\n";
  }

  const Module& m_;
  const Function* f_;
  std::string out_;
};

}  // namespace

std::string to_string(const Module& module, const Function& function, const Instr& instr) {
  Printer p(module, &function);
  p.instruction(instr);
  return p.take();
}

std::string to_string(const Module& module) {
  Printer p(module, nullptr);
  p.module();
  return p.take();
}

}  // namespace orrery::ptx
