// ptx/parse_operands.cc: instructions, operands and constant expressions.
// Source: PTX ISA manual, sections 4.5, 6 and 10.
#include <bit>
#include <charconv>
#include <cmath>
#include <string>

#include "ptx/parser.h"

namespace orrery::ptx {
namespace {
constexpr int kMaxDepth = 64;       // of expressions and nested operands
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

int64_t Parser::integer_expression() {
  Loc loc = here();
  Constant c = expression(0);
  if (c.is_float) fail(loc, "expected an integer");
  return c.value;
}

namespace {

struct BinaryOp {
  char c1, c2;  // c2 0: one character
  int level;
};
// C's precedence, loosest first.
constexpr BinaryOp kBinary[] = {{'|', '|', 1}, {'&', '&', 2}, {'=', '=', 6}, {'!', '=', 6}, {'<', '=', 7}, {'>', '=', 7},
                                {'<', '<', 8}, {'>', '>', 8}, {'|', 0, 3},   {'^', 0, 4},   {'&', 0, 5},   {'<', 0, 7},
                                {'>', 0, 7},   {'+', 0, 9},   {'-', 0, 9},   {'*', 0, 10},  {'/', 0, 10},  {'%', 0, 10}};

int64_t apply_integer(const BinaryOp& op, int64_t a, int64_t b, bool is_unsigned) {
  uint64_t x = uint64_t(a), y = uint64_t(b);
  bool div_overflow = b == -1 && !is_unsigned;
  switch (op.c1) {
    case '+': return int64_t(x + y);
    case '-': return int64_t(x - y);
    case '*': return int64_t(x * y);
    case '/': return b == 0 ? 0 : div_overflow ? int64_t(0 - x) : is_unsigned ? int64_t(x / y) : a / b;
    case '%': return b == 0 || div_overflow ? 0 : is_unsigned ? int64_t(x % y) : a % b;
    case '^': return a ^ b;
    case '|': return op.c2 ? (a || b) : (a | b);
    case '&': return op.c2 ? (a && b) : (a & b);
    case '=': return a == b;
    case '!': return a != b;
    case '<':
      if (op.c2 == '<') return y > 63 ? 0 : int64_t(x << y);
      if (op.c2 == '=') return is_unsigned ? x <= y : a <= b;
      return is_unsigned ? x < y : a < b;
    default:
      if (op.c2 == '>') return y > 63 ? (is_unsigned || a >= 0 ? 0 : -1) : is_unsigned ? int64_t(x >> y) : a >> y;
      if (op.c2 == '=') return is_unsigned ? x >= y : a >= b;
      return is_unsigned ? x > y : a > b;
  }
}

Constant apply_float(const BinaryOp& op, double a, double b) {
  Constant r;
  double v = 0;
  switch (op.c1) {
    case '+': v = a + b; break;
    case '-': v = a - b; break;
    case '*': v = a * b; break;
    case '/': v = a / b; break;
    case '<': r.value = op.c2 ? a <= b : a < b; return r;
    case '>': r.value = op.c2 ? a >= b : a > b; return r;
    case '=': r.value = a == b; return r;
    case '!': r.value = a != b; return r;
    default: return r;
  }
  r.is_float = true;
  r.value = std::bit_cast<int64_t>(v);
  return r;
}

double as_double(const Constant& c) {
  if (!c.is_float) return c.is_unsigned ? double(uint64_t(c.value)) : double(c.value);
  return c.float_bits == 32 ? double(std::bit_cast<float>(uint32_t(c.value))) : std::bit_cast<double>(c.value);
}

}  // namespace

Constant Parser::expression(int depth, int level) {
  if (depth > kMaxDepth) fail("expression nested too deeply");
  Constant left = unary(depth + 1);
  while (tok_.kind == Token::punct) {
    const BinaryOp* op = nullptr;
    for (const BinaryOp& o : kBinary)
      if (tok_.c == o.c1 && (o.c2 == 0 || lex_.starts_with({&o.c2, 1}))) {
        op = &o;
        break;
      }
    if (!op || op->level <= level) break;
    advance();
    if (op->c2) advance();
    Constant right = expression(depth + 1, op->level);
    if (left.is_float || right.is_float) {
      left = apply_float(*op, as_double(left), as_double(right));
    } else {
      bool u = left.is_unsigned || (right.is_unsigned && op->level != 8);
      left.value = apply_integer(*op, left.value, right.value, u);
      left.is_unsigned = u && !(op->level == 6 || op->level == 7 || op->level <= 2);
    }
  }
  if (level == 0 && tok_.is('?')) {
    advance();
    Constant a = expression(depth + 1, 0);
    expect(':', "in a conditional expression");
    Constant b = expression(depth + 1, 0);
    return (left.is_float ? as_double(left) != 0 : left.value != 0) ? a : b;
  }
  return left;
}

Constant Parser::unary(int depth) {
  if (depth > kMaxDepth) fail("expression nested too deeply");
  char c = tok_.kind == Token::punct ? tok_.c : 0;
  if (c != '-' && c != '+' && c != '!' && c != '~') return primary(depth);
  advance();
  Constant v = unary(depth + 1);
  if (c == '-' && v.is_float) v.value ^= v.float_bits == 32 ? int64_t(0x80000000) : INT64_MIN;
  else if (v.is_float && c != '+') fail("this operator takes an integer");
  else if (c == '-') v.value = int64_t(0 - uint64_t(v.value));
  else if (c == '!') v.value = !v.value;
  else if (c == '~') v.value = ~v.value;
  return v;
}

Constant Parser::primary(int depth) {
  if (tok_.kind == Token::integer || tok_.kind == Token::floating) return number();
  if (tok_.kind == Token::ident && tok_.text == "WARP_SZ") {
    advance();
    return {false, false, 64, 32};
  }
  if (!tok_.is('(')) unexpected("a constant");
  advance();
  if (tok_.is_dotted("s64") || tok_.is_dotted("u64")) {
    bool u = tok_.text == "u64";
    advance();
    expect(')', "after a cast");
    Constant c = unary(depth + 1);
    if (c.is_float) c = {false, u, 64, int64_t(as_double(c))};
    c.is_unsigned = u;
    return c;
  }
  Constant c = expression(depth + 1);
  expect(')', "after an expression");
  return c;
}

Constant Parser::number() {
  Loc loc = here();
  std::string_view t = tok_.text;
  Constant c;
  auto bad = [&] { fail(loc, fmt::format("'{}' is not a number", tok_.text.substr(0, 60))); };
  if (tok_.kind == Token::floating) {
    c.is_float = true;
    uint64_t bits = 0;
    bool hex = t.size() > 1 && t[0] == '0' && (t[1] | 32) != 'e' && t[1] >= 'A';
    if (hex) {
      bool single = (t[1] | 32) == 'f';
      auto r = std::from_chars(t.data() + 2, t.data() + t.size(), bits, 16);
      if (r.ptr != t.data() + t.size() || t.size() != (single ? 10u : 18u)) bad();
      c.float_bits = single ? 32 : 64;
      c.value = int64_t(bits);
    } else {
      double v = 0;
      auto r = std::from_chars(t.data(), t.data() + t.size(), v);
      if (r.ec == std::errc::invalid_argument || r.ptr != t.data() + t.size()) bad();
      if (r.ec == std::errc::result_out_of_range) v = std::strtod(std::string(t).c_str(), nullptr);
      c.value = std::bit_cast<int64_t>(v);
    }
    advance();
    return c;
  }
  if (t.ends_with('U') || t.ends_with('u')) {
    c.is_unsigned = true;
    t.remove_suffix(1);
  }
  int base = 10;
  if (t.size() > 1 && t[0] == '0') {
    char k = char(t[1] | 32);
    base = k == 'x' ? 16 : k == 'b' ? 2 : 8;
    t.remove_prefix(base == 8 ? 1 : 2);
  }
  uint64_t v = 0;
  auto r = std::from_chars(t.data(), t.data() + t.size(), v, base);
  if (r.ec == std::errc::result_out_of_range) fail(loc, "integer does not fit 64 bits");
  if (r.ec != std::errc() || r.ptr != t.data() + t.size()) bad();
  c.value = int64_t(v);
  if (v > uint64_t(INT64_MAX)) c.is_unsigned = true;
  advance();
  return c;
}

}  // namespace orrery::ptx
