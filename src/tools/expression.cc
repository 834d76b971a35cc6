// tools/expression.cc: see expression.h. A sum of products of atoms, by recursive descent.
#include "tools/expression.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace orrery::tools {
namespace {

using Value = std::optional<double>;

struct Parser {
  std::string text;
  const LookUp& look_up;
  size_t at = 0;
  int depth = 0;

  [[noreturn]] void refuse(const std::string& why) const { throw std::runtime_error("'" + text + "': " + why + " at character " + std::to_string(at + 1)); }
  char peek() {
    while (at < text.size() && text[at] == ' ') at++;
    return at < text.size() ? text[at] : 0;
  }
  Value atom() {
    const char c = peek();
    if (c == '(' || c == '-') {
      if (++depth > 64) refuse("too deep");
      at++;
      const Value v = c == '(' ? sum() : atom();
      if (c == '(' && peek() != ')') refuse("')' is missing");
      at += c == '(', depth--;
      return c == '(' || !v ? v : Value(-*v);
    }
    if (std::isdigit(static_cast<unsigned char>(c))) {
      const char* from = text.c_str() + at;
      char* end = nullptr;
      const double v = std::strtod(from, &end);
      at += size_t(end - from);
      return v;
    }
    const size_t open = text.find('[', at), close = text.find(']', at);
    if (open == std::string::npos || close == std::string::npos || close < open) refuse("a number, a name[measurement] or '(' is expected");
    const std::string table = text.substr(at, open - at), name = text.substr(open + 1, close - open - 1);
    at = close + 1;
    return look_up(table, name);
  }
  Value product() {
    Value v = atom();
    for (char c; (c = peek()) == '*' || c == '/';) {
      at++;
      const Value w = atom();
      if (!v || !w || (c == '/' && *w == 0)) v.reset();
      else v = c == '*' ? *v * *w : *v / *w;
    }
    return v;
  }
  Value sum() {
    Value v = product();
    for (char c; (c = peek()) == '+' || c == '-';) {
      at++;
      const Value w = product();
      if (!v || !w) v.reset();
      else v = c == '+' ? *v + *w : *v - *w;
    }
    return v;
  }
};

}  // namespace

std::optional<double> evaluate(std::string_view text, const LookUp& look_up) {
  Parser p{std::string(text), look_up};
  const Value v = p.sum();
  if (p.peek()) p.refuse("nothing more is expected");
  return v;
}

}  // namespace orrery::tools
