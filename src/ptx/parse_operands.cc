// ptx/parse_operands.cc: instructions and their operands. Constant expressions are in parse_expressions.cc.
// Source: PTX ISA manual, sections 6 and 10.
#include <charconv>

#include "ptx/parser.h"

namespace orrery::ptx {
namespace {
constexpr size_t kMaxParts = 4096;  // of one vector or argument list

bool is_label_op(isa::Op op) { return op == isa::Op::bra || op == isa::Op::brx; }
}  // namespace

Guard Parser::guard() {
  Guard g;
  expect('@', "");
  g.negated = take('!');
  Loc loc = here();
  std::string_view name = expect_ident("a predicate register");
  Binding b = lookup(symbol_of(name));
  if (b.kind != Binding::reg || fn_->regs[b.id].type != isa::Type::pred)
    fail(loc, fmt::format("'{}' is not a predicate register", name));
  g.reg = b.id;
  return g;
}

Parser::NameEntry& Parser::name_entry(std::string_view dotted) {
  uint32_t symbol = symbol_of(dotted);
  if (symbol >= entry_index_.size()) entry_index_.resize(symbol * 2 + 64);
  if (entry_index_[symbol] == 0) {
    entries_.push_back({true, isa::match_name(dotted)});
    entry_index_[symbol] = uint32_t(entries_.size());
  }
  return entries_[entry_index_[symbol] - 1];
}

void Parser::instruction(bool guarded, Guard guard, Loc loc) {
  NameEntry& entry = name_entry(tok_.text);
  loc = here();
  loc.file = file_;
  loc.source_line = source_line_;
  loc.inlined = inlined_;
  if (entry.match.rows.empty()) {
    loc.column += entry.match.error_offset;
    fail(loc, entry.match.error);
  }
  advance();
  fn_->body.emplace_back();
  Instr& instr = fn_->body.back();
  instr.form = entry.match.form;
  instr.loc = loc;
  instr.guard = guard;
  if (instr.form.op == isa::Op::call) call_operands(instr);
  else if (!tok_.is(';')) plain_operands(instr);
  if (!tok_.is(';')) unexpected("',' or ';'");
  check(instr, entry.match.rows);
  advance();
}

void Parser::plain_operands(Instr& instr) {
  scratch_.clear();
  bool labels = is_label_op(instr.form.op);
  do {
    if (scratch_.size() > 64) fail("too many operands");
    bool label_here = labels && (instr.form.op == isa::Op::bra || scratch_.size() == 1);
    scratch_.push_back(label_here ? label_operand(uint32_t(scratch_.size())) : operand(0));
    if (tok_.is('|')) {
      advance();
      Operand pair;
      pair.kind = OperandKind::pair;
      pair.parts.push_back(std::move(scratch_.back()));
      pair.parts.push_back(operand(0));
      scratch_.back() = std::move(pair);
    }
  } while (take(','));
  instr.ops.assign(std::make_move_iterator(scratch_.begin()), std::make_move_iterator(scratch_.end()));
}

Operand Parser::label_operand(uint32_t op_index) {
  Loc loc = here();
  uint32_t symbol = symbol_of(expect_ident("a label"));
  pending_.push_back({symbol, uint32_t(fn_->body.size() - 1), op_index, UINT32_MAX, loc});
  Operand o;
  o.kind = OperandKind::label;
  return o;
}

// -- calls: call (rets), f, (args), prototype;

void Parser::call_operands(Instr& instr) {
  instr.ops.resize(4);
  instr.ops[0].kind = instr.ops[2].kind = OperandKind::vec;
  if (tok_.is('(')) {
    instr.ops[0] = call_list();
    expect(',', "after the return values");
  }
  Loc loc = here();
  instr.ops[1] = operand(0);
  OperandKind k = instr.ops[1].kind;
  if (k != OperandKind::func && k != OperandKind::reg) fail(loc, "a call needs a function or a register with its address");
  if (!take(',')) return;
  if (tok_.is('(')) {
    instr.ops[2] = call_list();
    if (!take(',')) return;
  }
  loc = here();
  uint32_t symbol = symbol_of(expect_ident("a prototype"));
  instr.ops[3].kind = OperandKind::prototype;
  if (Binding b = lookup(symbol); b.kind == Binding::proto) instr.ops[3].id = b.id;
  else pending_.push_back({symbol, uint32_t(fn_->body.size() - 1), 3, UINT32_MAX, loc});
}

Operand Parser::call_list() {
  Operand list;
  list.kind = OperandKind::vec;
  expect('(', "");
  if (take(')')) return list;
  do {
    if (list.parts.size() > kMaxParts) fail("too many arguments");
    list.parts.push_back(operand(1));
  } while (take(','));
  expect(')', "after the arguments");
  return list;
}

// -- operands

Operand Parser::operand(int depth) {
  if (depth > kMaxDepth) fail("operand nested too deeply");
  switch (tok_.kind) {
    case Token::ident:
      if (tok_.text == "WARP_SZ") break;
      return name_operand(depth);
    case Token::integer:
    case Token::floating: break;
    case Token::punct:
      if (tok_.is('[')) return address_operand(depth);
      if (tok_.is('{')) return vector_operand(depth);
      if (tok_.is('!') || tok_.is('-')) {
        bool minus = tok_.is('-');
        char next = lex_.peek_char();
        if (next == '%' || next == '_' || next == '$' || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z')) {
          if (!minus || !lex_.starts_with("WARP_SZ")) {
            advance();
            Operand o = operand(depth + 1);
            o.negated = !o.negated;
            return o;
          }
        }
        break;
      }
      if (tok_.is('(') || tok_.is('~') || tok_.is('+')) break;
      [[fallthrough]];
    default: unexpected("an operand");
  }
  return immediate(expression(depth));
}

Operand Parser::immediate(const Constant& c) {
  Operand o;
  o.kind = OperandKind::imm;
  o.value = c.value;
  o.is_float = c.is_float;
  o.float_bits = c.is_float ? c.float_bits : 0;
  return o;
}

Operand Parser::name_operand(int depth) {
  Token name = tok_;
  advance();
  if (name.text == "_") {
    Operand o;
    o.kind = OperandKind::sink;
    return o;
  }
  uint32_t symbol = symbol_of(name.text);
  Operand o = resolved(symbol, name);
  if (tok_.kind == Token::dotted && !tok_.spaced) {
    Binding b = lookup(symbol);
    if (b.kind == Binding::vec_reg || b.kind == Binding::sreg3) {
      size_t i = tok_.text.size() == 1 ? std::string_view("xyzwrgba").find(tok_.text[0]) : std::string_view::npos;
      if (i < 8) i %= 4;
      if (i >= o.parts.size()) fail(fmt::format("'{}' has no component '.{}'", name.text, tok_.text));
      Operand part = std::move(o.parts[i]);
      o = std::move(part);
    } else {
      isa::Mod m = isa::mod_named(tok_.text);
      bool selector = m >= isa::Mod::b0 && m <= isa::Mod::b7654 && m != isa::Mod::count;
      if (!selector) fail(fmt::format("'{}' has no component '.{}'", name.text, tok_.text));
      o.selector = m;
    }
    advance();
  }
  if ((o.kind == OperandKind::var || o.kind == OperandKind::local_var) && tok_.is('+')) address_offset(o);
  return o;
}

Operand Parser::resolved(uint32_t symbol, const Token& name) {
  Binding b = lookup(symbol);
  Operand o;
  o.id = b.id;
  switch (b.kind) {
    case Binding::reg: o.kind = OperandKind::reg; return o;
    case Binding::local_var:
      if (fn_->locals[b.id].is_reg) {
        o.kind = OperandKind::reg;
        o.id = fn_->locals[b.id].reg;
      } else {
        o.kind = OperandKind::local_var;
      }
      return o;
    case Binding::var: o.kind = OperandKind::var; return o;
    case Binding::func: o.kind = OperandKind::func; return o;
    case Binding::sreg: o.kind = OperandKind::sreg; return o;
    case Binding::vec_reg:
    case Binding::sreg3: {
      o.kind = OperandKind::vec;
      bool special = b.kind == Binding::sreg3;
      o.parts.resize(special ? 4 : b.width);
      for (uint32_t i = 0; i < o.parts.size(); ++i) {
        o.parts[i].kind = special ? OperandKind::sreg : OperandKind::reg;
        o.parts[i].id = special && i == 3 ? uint32_t(Sreg::zero) : b.id + i;
      }
      return o;
    }
    default: break;
  }
  if (numbered_sreg(name.text, o)) return o;
  Loc loc{name.line, name.column, 0, 0};
  if (b.kind == Binding::none) fail(loc, fmt::format("'{}' is not declared", name.text));
  fail(loc, fmt::format("'{}' cannot be an operand here", name.text));
}

/// %envreg0 .. %envreg31, %pm0 .. %pm7 and %pm0_64 .. %pm7_64.
bool Parser::numbered_sreg(std::string_view name, Operand& o) {
  bool env = name.starts_with("%envreg");
  if (!env && !name.starts_with("%pm")) return false;
  std::string_view rest = name.substr(env ? 7 : 3);
  int n = -1;
  auto r = std::from_chars(rest.data(), rest.data() + rest.size(), n);
  std::string_view tail(r.ptr, size_t(rest.data() + rest.size() - r.ptr));
  bool wide = !env && tail == "_64";
  if (n < 0 || n > (env ? 31 : 7) || !(tail.empty() || wide)) return false;
  o.kind = OperandKind::sreg;
  o.id = uint32_t(env ? Sreg::envreg : Sreg::pm);
  o.value = n + (wide ? 64 : 0);
  return true;
}

Operand Parser::vector_operand(int depth) {
  Operand o;
  o.kind = OperandKind::vec;
  expect('{', "");
  if (take('}')) return o;
  do {
    if (o.parts.size() > kMaxParts) fail("too many components");
    Operand part = operand(depth + 1);
    if (part.kind == OperandKind::vec)
      for (Operand& p : part.parts) o.parts.push_back(std::move(p));
    else
      o.parts.push_back(std::move(part));
  } while (take(','));
  expect('}', "after the components");
  return o;
}

Operand Parser::address_operand(int depth) {
  Operand o;
  expect('[', "");
  Loc loc = here();
  if (tok_.kind == Token::ident && tok_.text != "WARP_SZ") {
    Operand base = name_operand(depth + 1);
    o.id = base.id;
    o.value = base.value;
    switch (base.kind) {
      case OperandKind::reg: o.base = BaseKind::reg; break;
      case OperandKind::var: o.base = BaseKind::var; break;
      case OperandKind::local_var: o.base = BaseKind::local_var; break;
      default: fail(loc, "an address starts with a register, a variable or a number");
    }
    if (o.base == BaseKind::reg && tok_.is('+')) address_offset(o);
  } else {
    o.value = integer_expression();
  }
  o.kind = OperandKind::address;
  if (take(',')) address_parts(o, depth);
  expect(']', "after an address");
  if (tok_.is_dotted("unified")) advance();
  return o;
}

void Parser::address_offset(Operand& o) {
  advance();
  o.value = integer_expression();
}

/// `{c0, c1}`, a single coordinate, or a sampler and one of these.
void Parser::address_parts(Operand& o, int depth) {
  Operand first = operand(depth + 1);
  if (take(',')) {
    o.has_sampler = true;
    o.parts.push_back(std::move(first));
    first = operand(depth + 1);
  }
  if (first.kind != OperandKind::vec) return o.parts.push_back(std::move(first));
  for (Operand& p : first.parts) o.parts.push_back(std::move(p));
}

// -- constants

}  // namespace orrery::ptx
