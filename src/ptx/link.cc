// ptx/link.cc: several modules as one.
//
// Symbols that are not internal meet by name. Definitions rank: visible before weak before common before extern; two
// visible definitions are an error, as is an extern without a definition (functions of the system excepted).
// Internal names that two modules share get a suffix, because initial values refer to symbols by name.
//
// Source: PTX ISA manual, section 11.6 (linking directives).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ptx/module.h"

namespace orrery::ptx {
namespace {

int rank(Linkage l, bool defined) {
  if (!defined || l == Linkage::extern_) return 0;
  return l == Linkage::common ? 1 : l == Linkage::weak ? 2 : 3;
}
bool defined(const Var& v) { return v.linkage != Linkage::extern_; }
bool defined(const Function& f) { return f.has_body; }

class Linker {
 public:
  Linker(const std::vector<Module>& modules, std::vector<Diagnostic>& diagnostics) : diagnostics_(diagnostics) {
    for (const Module& m : modules) {
      for (const Var& v : m.vars)
        if (v.linkage != Linkage::internal) shared_names_.insert(v.name);
      for (const Function& f : m.functions)
        if (f.linkage != Linkage::internal) shared_names_.insert(f.name);
    }
  }

  void add(Module m) {
    ++serial_;
    rename_internals(m);
    take_header(m);
    std::vector<uint32_t> vars, functions;
    for (Var& v : m.vars) vars.push_back(place(out_.vars, var_by_name_, v, [&](Var& a, Var& b) { merge(a, b); }));
    for (Function& f : m.functions) shift(f, m);
    size_t first_new = out_.functions.size();
    std::vector<uint8_t> taken;
    for (Function& f : m.functions) {
      bool here = false;
      functions.push_back(place(out_.functions, function_by_name_, f, [&](Function& a, Function& b) { here = merge(a, b); }));
      taken.push_back(here || functions.back() >= first_new);
    }
    for (size_t i = 0; i < functions.size(); ++i)
      if (taken[i]) renumber(out_.functions[functions[i]], vars, functions);
    finish_module(m);
  }

  Module finish() {
    for (const Function& f : out_.functions)
      if (!f.has_body && !f.is_entry && !is_system_function(f.name) && used_function_[f.name])
        report(f.loc, fmt::format("function '{}' is declared and used but no module defines it", f.name));
    for (const Var& v : out_.vars)
      if (v.linkage == Linkage::extern_ && v.space != isa::Space::shared)
        report(v.loc, fmt::format("variable '{}' is extern and no module defines it", v.name));
    leave_out_lost();
    declare_as_defined();
    return std::move(out_);
  }

 private:
  using ByName = std::unordered_map<std::string, uint32_t>;

  void report(Loc loc, std::string text) { diagnostics_.push_back({loc, std::move(text)}); }

  void take_header(const Module& m) {
    if (std::pair(m.version_major, m.version_minor) > std::pair(out_.version_major, out_.version_minor)) {
      out_.version_major = m.version_major;
      out_.version_minor = m.version_minor;
    }
    if (out_.target.empty()) out_.target = m.target;
    out_.debug |= m.debug;
    if (serial_ > 1 && m.texmode_independent != out_.texmode_independent)
      report({}, "modules with unified and independent texture mode cannot be linked");
    out_.texmode_independent = m.texmode_independent;
  }

  /// Names only this module sees must differ from all names so far.
  void rename_internals(Module& m) {
    std::unordered_map<std::string, std::string> renamed;
    auto rename = [&](auto& symbol) {
      bool internal = symbol.linkage == Linkage::internal;
      if (internal && (var_by_name_.count(symbol.name) || function_by_name_.count(symbol.name) ||
                       shared_names_.count(symbol.name))) {
        std::string fresh = fmt::format("{}$m{}", symbol.name, serial_);
        renamed.emplace(symbol.name, fresh);
        symbol.name = fresh;
      }
    };
    for (Var& v : m.vars) rename(v);
    for (Function& f : m.functions)
      if (f.has_body && !f.is_entry) rename(f);
    auto fix = [&](Var& v) {
      for (Reloc& r : v.relocs)
        if (auto it = renamed.find(r.symbol); it != renamed.end()) r.symbol = it->second;
    };
    for (Var& v : m.vars) fix(v);
    for (Function& f : m.functions)
      for (Var& v : f.locals) fix(v);
  }

  template <class T, class Merge>
  uint32_t place(std::vector<T>& all, ByName& by_name, T& symbol, Merge&& merge) {
    symbol.loc.line += lines_;
    auto [it, fresh] = by_name.emplace(symbol.name, uint32_t(all.size()));
    if (fresh) all.push_back(std::move(symbol));
    else merge(all[it->second], symbol);
    return it->second;
  }

  void merge(Var& a, Var& b) {
    int ra = rank(a.linkage, defined(a)), rb = rank(b.linkage, defined(b));
    if (a.space != b.space)
      report(b.loc, fmt::format("'{}' is a .{} variable here and a .{} variable in line {}", b.name, isa::name_of(b.space),
                                isa::name_of(a.space), a.loc.line));
    else if (ra == 3 && rb == 3)
      report(b.loc, fmt::format("'{}' is defined twice, the first time in line {}", b.name, a.loc.line));
    else if (ra && rb && a.size != b.size && !a.unsized && !b.unsized && ra == rb && ra != 1)
      report(b.loc, fmt::format("'{}' has {} bytes here and {} in line {}", b.name, b.size, a.size, a.loc.line));
    if (ra && rb) lost_[(rb > ra ? a : b).loc.line] = rb > ra;
    uint32_t align = std::max(a.align, b.align);
    uint64_t common = ra == 1 && rb == 1 ? std::max(a.size, b.size) : 0;
    if (rb > ra) a = std::move(b);
    a.align = align;
    a.size = std::max(a.size, common);
  }

  /// True when the definition of `b` replaced `a`.
  bool merge(Function& a, Function& b) {
    if (!same_signature(a, b))
      report(b.loc, fmt::format("'{}' has other parameters here than in line {}", b.name, a.loc.line));
    int ra = rank(a.linkage == Linkage::extern_ ? Linkage::visible : a.linkage, defined(a));
    int rb = rank(b.linkage == Linkage::extern_ ? Linkage::visible : b.linkage, defined(b));
    if (ra == 3 && rb == 3)
      report(b.loc, fmt::format("'{}' is defined twice, the first time in line {}", b.name, a.loc.line));
    if (ra && rb) lost_[(rb > ra ? a : b).loc.line] = rb > ra;
    if (rb <= ra) return false;
    a = std::move(b);
    return true;
  }

  static bool same_signature(const Function& a, const Function& b) {
    if (a.n_rets != b.n_rets || a.n_params != b.n_params || a.is_entry != b.is_entry) return false;
    for (uint32_t i = 0; i < a.n_rets + a.n_params; ++i)
      if (a.locals[i].size != b.locals[i].size && !a.locals[i].unsized && !b.locals[i].unsized) return false;
    return true;
  }

  /// A text has one header: that of a later module is made blank, so that its lines stay where they are.
  static std::string without_header(std::string text) {
    for (const std::string_view directive : {".version", ".target", ".address_size"})
      for (size_t at = text.find(directive); at != std::string::npos; at = text.find(directive, at + 1)) {
        const size_t line = text.rfind('\n', at) + 1, end = std::min(text.find('\n', at), text.size());
        if (text.find_first_not_of(" \t", line) != at) continue;
        std::fill(text.begin() + ptrdiff_t(at), text.begin() + ptrdiff_t(end), ' ');
        break;
      }
    return text;
  }
  /// One text has one definition of each name: of those that lost, one ahead of what took its place becomes a declaration of that, others are made blank,
  /// so that lines stay where they are.
  void leave_out_lost() {
    std::string& text = out_.text;
    std::vector<size_t> starts{0, 0};  // by line, from 1
    for (size_t i = 0; i < text.size(); i++)
      if (text[i] == '\n') starts.push_back(i + 1);
    for (auto lost = lost_.rbegin(); lost != lost_.rend(); ++lost) {  // from the end: where the lines before begin does not change
      const auto [line, declares] = *lost;
      if (line >= starts.size()) continue;
      const size_t end = std::min(text.find('\n', starts[line]), text.size());
      const std::string_view first(text.data() + starts[line], end - starts[line]);
      std::string_view linkage;
      size_t at = end;
      for (const std::string_view l : {".weak", ".common", ".visible"})
        if (const size_t found = first.find(l); found != first.npos && starts[line] + found < at) at = starts[line] + found, linkage = l;
      if (at == end) continue;
      const bool function = first.find(".func") != first.npos || first.find(".entry") != first.npos;
      bool blank = !declares;
      int open = 0;
      for (size_t i = at; i < text.size(); i++) {
        const char c = text[i];
        const bool value = open == 0 && !function && c == '=', ends = (c == '}' && --open == 0 && function) || (c == ';' && open == 0);
        blank |= value || c == '{';
        if (c == '{') open++;
        if (blank && c != '\n') text[i] = ' ';
        if (!ends) continue;
        if (declares) text[i] = ';';
        break;
      }
      if (declares) text.replace(at, linkage.size(), ".extern");
    }
  }
  /// What one module declares as extern and another defines has in one text the linkage of its definition.
  void declare_as_defined() {
    std::string& text = out_.text;
    constexpr std::string_view kExtern = ".extern", kSpace = " \t\n";
    for (size_t at = text.find(kExtern); at != std::string::npos; at = text.find(kExtern, at + 1)) {
      size_t next = text.find_first_not_of(kSpace, at + kExtern.size());
      if (next == std::string::npos || text.compare(next, 5, ".func") != 0) continue;
      next = text.find_first_not_of(kSpace, next + 5);
      if (next != std::string::npos && text[next] == '(') next = text.find_first_not_of(kSpace, text.find(')', next) + 1);  // what it returns
      if (next == std::string::npos) return;
      const std::string name = text.substr(next, text.find_first_of(" \t\n(;", next) - next);
      const auto found = function_by_name_.find(name);
      if (found == function_by_name_.end() || !out_.functions[found->second].has_body) continue;
      text.replace(at, kExtern.size(), out_.functions[found->second].linkage == Linkage::weak ? ".weak" : ".visible");
    }
  }

  /// Lines count in the joined text, files in the joined table.
  void shift(Function& f, const Module& m) {
    for (Instr& i : f.body) {
      i.loc.line += lines_;
      shift_place(i.loc, m);
    }
    for (Var& v : f.locals) v.loc.line += lines_;
  }

  void shift_place(Loc& loc, const Module& m) {
    const uint32_t files = uint32_t(out_.files.size()), sites = uint32_t(out_.call_sites.size());
    if (loc.file && !m.files.empty()) loc.file += files ? files - 1 : 0;
    if (loc.inlined) loc.inlined += sites ? sites - 1 : 0;
  }

  void renumber(Function& f, const std::vector<uint32_t>& vars, const std::vector<uint32_t>& functions) {
    for (Instr& i : f.body)
      for (Operand& o : i.ops) renumber(o, vars, functions);
    for (Prototype& p : f.prototypes)
      if (p.kind == Prototype::call_targets)
        for (uint32_t& t : p.targets) t = functions[t];
  }
  void renumber(Operand& o, const std::vector<uint32_t>& vars, const std::vector<uint32_t>& functions) {
    if (o.kind == OperandKind::var || (o.kind == OperandKind::address && o.base == BaseKind::var)) o.id = vars[o.id];
    if (o.kind == OperandKind::func) {
      o.id = functions[o.id];
      used_function_[out_.functions[o.id].name] = true;
    }
    for (Operand& p : o.parts) renumber(p, vars, functions);
  }

  void finish_module(const Module& m) {
    lines_ += uint32_t(std::count(m.text.begin(), m.text.end(), '\n'));
    out_.text += out_.text.empty() ? m.text : without_header(m.text);
    if (!m.text.empty() && m.text.back() != '\n') {
      out_.text += '\n';
      ++lines_;
    }
    std::vector<Loc> sites = m.call_sites;
    for (Loc& site : sites) shift_place(site, m);
    if (!sites.empty()) out_.call_sites.insert(out_.call_sites.end(), sites.begin() + !out_.call_sites.empty(), sites.end());
    if (out_.files.empty()) out_.files = m.files;
    else if (m.files.size() > 1) out_.files.insert(out_.files.end(), m.files.begin() + 1, m.files.end());
  }

  std::vector<Diagnostic>& diagnostics_;
  Module out_;
  ByName var_by_name_, function_by_name_;
  std::unordered_set<std::string> shared_names_;  // that are not internal in some module
  std::unordered_map<std::string, bool> used_function_;
  std::map<uint32_t, bool> lost_;  // lines of the joined text where what is not taken is defined; is what is taken behind it?
  uint32_t serial_ = 0, lines_ = 0;
};

}  // namespace

bool is_system_function(std::string_view name) {
  static constexpr std::string_view names[] = {"vprintf", "malloc", "free", "__assertfail", "__assert_fail"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names) || name.starts_with("cuda") ||
         name.starts_with("__cuda");
}

Module link(std::vector<Module> modules, std::vector<Diagnostic>& diagnostics) {
  Linker linker(modules, diagnostics);
  for (Module& m : modules) linker.add(std::move(m));
  return linker.finish();
}

}  // namespace orrery::ptx
