// ptx/parse_expressions.cc: constants and constant expressions, which are 64 bits wide: integers with C's rules, or f64.
// Source: PTX ISA manual, section 4.5.
#include <bit>
#include <charconv>
#include <cmath>
#include <string>

#include "ptx/parser.h"

namespace orrery::ptx {

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
