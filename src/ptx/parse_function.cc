// ptx/parse_function.cc: functions, scopes, labels, and the statements of a body.
// Source: PTX ISA manual, sections 4.3, 7 and 11.
#include <algorithm>

#include "ptx/parser.h"

namespace orrery::ptx {
namespace {
constexpr int kMaxScopes = 200;
}

void Parser::function(Linkage linkage, bool entry) {
  Function f;
  f.is_entry = entry;
  f.linkage = linkage;
  f.loc = here();
  ++function_serial_;
  size_t mark = undo_.size();
  if (!entry && take('(')) {
    parameter_list(f.locals, true);
    f.n_rets = uint32_t(f.locals.size());
  }
  f.loc = here();
  uint32_t symbol = symbol_of(expect_ident("a function name"));
  f.name = std::string(names_.text(symbol));
  if (take('(')) parameter_list(f.locals, true);
  f.n_params = uint32_t(f.locals.size()) - f.n_rets;
  Binding old = lookup(symbol);
  if (old.kind != Binding::none && old.kind != Binding::func)
    report(f.loc, fmt::format("'{}' is already something else", f.name));
  function_directives(f.directives);
  uint32_t id;
  if (old.kind == Binding::func) {
    id = old.id;
    Function& first = module_.functions[id];
    bool has_body = tok_.is('{');
    if (has_body && first.has_body) report(f.loc, fmt::format("'{}' is already defined in line {}", f.name, first.loc.line));
    if (!has_body && first.has_body) return expect(';', "after a declaration");
    if (linkage == Linkage::internal || linkage == Linkage::extern_)
      if (first.linkage != Linkage::extern_ || !has_body) f.linkage = first.linkage;
    if (f.linkage == Linkage::extern_ && has_body) f.linkage = linkage == Linkage::extern_ ? Linkage::visible : linkage;
    f.directives.noreturn |= first.directives.noreturn;
    first = std::move(f);
  } else {
    id = uint32_t(module_.functions.size());
    module_.functions.push_back(std::move(f));
    bind(symbol, {Binding::func, 0, id});
    mark = undo_.size();
  }
  if (take(';')) return;
  if (!tok_.is('{')) unexpected("';' or a body");
  Function work = std::move(module_.functions[id]);  // addresses in module_.functions move when functions are added
  fn_ = &work;
  work.has_body = true;
  mark = undo_.size();
  file_ = source_line_ = inlined_ = 0;
  inlined_at_.clear();
  bind_parameters();
  bool ok = true;
  try {
    body();
  } catch (Stop) {
    ok = false;
  }
  fn_ = nullptr;
  pending_.clear();
  while (undo_.size() > mark) {
    bindings_[undo_.back().symbol] = undo_.back().old;
    undo_.pop_back();
  }
  module_.functions[id] = std::move(work);
  if (!ok) throw Stop{};
}

/// After '(' to ')': parameters or return values.
void Parser::parameter_list(std::vector<Var>& out, bool name_optional) {
  if (take(')')) return;
  do {
    if (out.size() > 100'000) fail("more than 100000 parameters");
    Declaration d = declaration_words();
    if (d.space != isa::Space::param && d.space != isa::Space::reg) unexpected(".param or .reg");
    bool reg = d.space == isa::Space::reg;
    out.push_back(declarator(d, name_optional));
    out.back().is_reg = reg;
  } while (take(','));
  expect(')', "after the parameters");
}

void Parser::function_directives(Directives& d) {
  while (tok_.kind == Token::dotted) {
    if (tok_.is_dotted("pragma")) pragma_directive();
    else if (!function_directive(d)) fail(fmt::format("'.{}' is not a directive of a function", tok_.text));
  }
}

bool Parser::function_directive(Directives& d) {
  auto three = [&](uint32_t* out) {
    advance();
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; ++i) {
      out[i] = uint32_t(expect_number("a size"));
      if (!take(',')) return;
    }
  };
  auto one = [&](uint32_t& out) {
    advance();
    out = uint32_t(expect_number("a number"));
  };
  std::string_view w = tok_.text;
  uint32_t ignored = 0;
  if (w == "maxntid") three(d.maxntid);
  else if (w == "reqntid") three(d.reqntid);
  else if (w == "reqnctapercluster") three(d.reqnctapercluster);
  else if (w == "minnctapersm") one(d.minnctapersm);
  else if (w == "maxnctapersm" || w == "abi_preserve" || w == "abi_preserve_control") one(ignored);
  else if (w == "maxnreg") one(d.maxnreg);
  else if (w == "maxclusterrank") one(d.maxclusterrank);
  else if (w == "explicitcluster") d.explicit_cluster = true, advance();
  else if (w == "noreturn") d.noreturn = true, advance();
  else if (w == "unique" || w == "blocksareclusters" || w == "local_maxnreg") advance();
  else return false;
  return true;
}

void Parser::bind_parameters() {
  for (uint32_t i = 0; i < fn_->locals.size(); ++i) {
    Var& v = fn_->locals[i];
    if (v.name.empty() || v.name == "_") continue;
    uint32_t symbol = names_.intern_copy(v.name);
    Binding old = lookup(symbol);
    if (declared_in_.size() > symbol && declared_in_[symbol] == function_serial_ && old.kind == Binding::local_var)
      report(v.loc, fmt::format("two parameters are named '{}'", v.name));
    if (v.is_reg) {
      v.reg = add_register(names_.text(symbol), v.type);
    } else {
      unique_name(symbol);
      bind(symbol, {Binding::local_var, 0, i});
    }
  }
}

void Parser::body() {
  scope_first_label_ = 0;
  scope(0);
  for (const Pending& p : pending_)
    report(p.loc, fmt::format("label '{}' is not defined in this function", names_.text(p.symbol)));
}

void Parser::scope(int depth) {
  if (depth > kMaxScopes) fail("blocks nested too deeply");
  expect('{', "at the start of a body");
  size_t mark = undo_.size(), first_pending = pending_.size();
  uint32_t outer_first_label = scope_first_label_;
  scope_first_label_ = uint32_t(fn_->labels.size());
  scope_statements(depth);
  scope_first_label_ = outer_first_label;
  resolve_pending(first_pending);
  if (depth > 0) {
    while (undo_.size() > mark) {
      bindings_[undo_.back().symbol] = undo_.back().old;
      undo_.pop_back();
    }
  }
  if (tok_.kind == Token::end) unexpected("'}'");
  expect('}', "at the end of a body");
}

void Parser::scope_statements(int depth) {
  while (!tok_.is('}') && tok_.kind != Token::end) {
    size_t had = fn_->body.size(), had_pending = pending_.size();
    try {
      statement(depth);
    } catch (Stop) {
      if (depth > kMaxScopes / 2 && tok_.kind == Token::end) throw;
      fn_->body.resize(had);
      auto dropped = [&](const Pending& p) { return p.prototype == UINT32_MAX && p.instr >= had; };
      pending_.erase(std::remove_if(pending_.begin() + ptrdiff_t(std::min(had_pending, pending_.size())), pending_.end(), dropped),
                     pending_.end());
      skip_statement();
    }
  }
}

void Parser::statement(int depth) {
  if (tok_.kind == Token::ident) {
    Token name = tok_;
    lex_.extend_name(name);
    tok_ = name;
    if (lex_.peek_char() == ':') {
      advance();
      advance();
      return labelled(name);
    }
    return instruction(false, {}, here());
  }
  if (tok_.is('@')) {
    Loc loc = here();
    Guard g = guard();
    if (tok_.kind != Token::ident) unexpected("an instruction");
    lex_.extend_name(tok_);
    return instruction(true, g, loc);
  }
  if (tok_.is('{')) return scope(depth + 1);
  if (take(';')) return;
  if (tok_.kind == Token::dotted) return directive_in_body();
  unexpected("an instruction");
}

void Parser::labelled(Token name) {
  uint32_t symbol = symbol_of(name.text);
  if (tok_.is_dotted("callprototype")) return prototype_directive(symbol);
  if (tok_.is_dotted("calltargets") || tok_.is_dotted("branchtargets"))
    return targets_directive(symbol, tok_.text == "branchtargets");
  uint32_t id = uint32_t(fn_->labels.size());
  std::string text = unique_name(symbol);
  fn_->labels.push_back({std::move(text), uint32_t(fn_->body.size())});
  Binding old = lookup(symbol);
  if (old.kind == Binding::label && old.id >= scope_first_label_)
    report({name.line, name.column, 0, 0}, fmt::format("label '{}' is defined twice", name.text));
  bind(symbol, {Binding::label, 0, id});
}

void Parser::directive_in_body() {
  std::string_view w = tok_.text;
  if (w == "loc") return loc_directive();
  if (w == "reg") return register_statement();
  if (w == "pragma") return pragma_directive();
  if (w == "file") return file_directive();
  if (w == "section") return section_directive();
  if (w == "branchtargets" || w == "calltargets" || w == "callprototype") fail(fmt::format("'.{}' needs a label", w));
  if (function_directive(fn_->directives)) return void(take(';'));
  variable_statement(linkage_words());
}

/// `.loc 1 20 5` and `.loc 1 20 5, function_name NAME [+ n], inlined_at 1 30 3`. The place after inlined_at is a call;
/// when that call stands in an inlined function itself, an earlier .loc at the same place says where.
void Parser::loc_directive() {
  advance();
  std::array<uint32_t, 3> at;
  for (uint32_t& n : at) n = uint32_t(expect_number("a number"));
  file_ = at[0];
  source_line_ = at[1];
  inlined_ = 0;
  if (take(',')) {
    if (expect_ident("function_name") != "function_name") fail("expected function_name");
    expect_ident("a label");
    if (take('+')) expect_number("an offset");
    expect(',', "before inlined_at");
    if (expect_ident("inlined_at") != "inlined_at") fail("expected inlined_at");
    inlined_ = call_site();
  }
  inlined_at_[at] = inlined_;
}

/// Reads the place of a call that was inlined; its number in Module::call_sites.
uint32_t Parser::call_site() {
  std::array<uint32_t, 3> at;
  for (uint32_t& n : at) n = uint32_t(expect_number("a number"));
  Loc call;
  call.file = at[0];
  call.source_line = at[1];
  call.column = at[2];
  if (auto outer = inlined_at_.find(at); outer != inlined_at_.end()) call.inlined = outer->second;
  std::vector<Loc>& sites = module_.call_sites;
  if (sites.empty()) sites.emplace_back();
  const Loc& last = sites.back();
  if (last.file != call.file || last.source_line != call.source_line || last.column != call.column || last.inlined != call.inlined)
    sites.push_back(call);
  return uint32_t(sites.size() - 1);
}

void Parser::prototype_directive(uint32_t symbol) {
  advance();
  Prototype p;
  p.name = unique_name(symbol);
  if (take('(')) parameter_list(p.rets, true);
  expect_ident("_");
  if (take('(')) parameter_list(p.params, true);
  Directives d;
  function_directives(d);
  p.noreturn = d.noreturn;
  expect(';', "after .callprototype");
  bind(symbol, {Binding::proto, 0, uint32_t(fn_->prototypes.size())});
  fn_->prototypes.push_back(std::move(p));
}

void Parser::targets_directive(uint32_t symbol, bool branch) {
  uint32_t id = uint32_t(fn_->prototypes.size());
  fn_->prototypes.push_back({unique_name(symbol), {}, {}, {}, false, branch ? Prototype::branch_targets : Prototype::call_targets});
  bind(symbol, {Binding::proto, 0, id});
  do {
    advance();
    Loc loc = here();
    uint32_t target = symbol_of(expect_ident(branch ? "a label" : "a function"));
    Binding b = lookup(target);
    std::vector<uint32_t>& targets = fn_->prototypes[id].targets;
    if (branch) {
      pending_.push_back({target, uint32_t(fn_->body.size()), uint32_t(targets.size()), id, loc});
      targets.push_back(0);
    } else if (b.kind == Binding::func) {
      targets.push_back(b.id);
    } else {
      fail(loc, fmt::format("'{}' is not a function", names_.text(target)));
    }
  } while (tok_.is(','));
  expect(';', "after the targets");
}

/// Connects the uses of labels since `first` with those that this scope or an outer one has defined.
void Parser::resolve_pending(size_t first) {
  size_t kept = first;
  for (size_t i = first; i < pending_.size(); ++i) {
    Pending& p = pending_[i];
    Binding b = lookup(p.symbol);
    if (b.kind == Binding::label && p.prototype != UINT32_MAX) {
      fn_->prototypes[p.prototype].targets[p.op] = b.id;
    } else if (b.kind == Binding::label || b.kind == Binding::proto) {
      Operand& o = fn_->body[p.instr].ops[p.op];
      o.kind = b.kind == Binding::label ? OperandKind::label : OperandKind::prototype;
      o.id = b.id;
    } else {
      pending_[kept++] = p;
    }
  }
  pending_.resize(kept);
}

}  // namespace orrery::ptx
