// A recursive-descent reader, one function per level of precedence.
#include "graph/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"

namespace orrery::graph {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : whole_(text), rest_(text) {}

  double all() {
    double value = sum();
    skip();
    if (!rest_.empty()) fail();
    return value;
  }

 private:
  [[noreturn]] void fail() const { base::fail("cannot read '{}' in '{}'", rest_, whole_); }
  void skip() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  double sum() {
    double value = product();
    while (true) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }
  double product() {
    double value = power();
    while (true) {
      if (take('*'))
        value *= power();
      else if (take('/'))
        value /= power();
      else
        return value;
    }
  }
  double power() {
    double value = atom();
    return take('^') ? std::pow(value, power()) : value;
  }
  double atom() {
    if (++depth_ > 200) base::fail("'{}' is nested too deeply", whole_.substr(0, 60));
    double value = take('-') ? -atom() : take('(') ? inside() : std::isalpha(peek()) ? function() : number();
    --depth_;
    return value;
  }
  int peek() {
    skip();
    return rest_.empty() ? 0 : static_cast<unsigned char>(rest_[0]);
  }
  double inside() {
    double value = sum();
    if (!take(')')) fail();
    return value;
  }
  double function() {
    std::size_t n = 0;
    while (n < rest_.size() && std::isalnum(static_cast<unsigned char>(rest_[n]))) ++n;
    std::string name(rest_.substr(0, n));
    rest_.remove_prefix(n);
    if (!take('(')) fail();
    double a = sum();
    if (name == "min" || name == "max") {
      if (!take(',')) fail();
      double b = sum();
      a = name == "min" ? std::min(a, b) : std::max(a, b);
    } else if (name == "log2") {
      a = std::log2(a);
    } else if (name == "ceil") {
      a = std::ceil(a);
    } else {
      base::fail("unknown function '{}' in '{}'", name, whole_);
    }
    if (!take(')')) fail();
    return a;
  }
  double number() {
    skip();
    double value = 0;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (take('%')) value /= 100;
    return value;
  }

  std::string_view whole_, rest_;
  int depth_ = 0;
};

}  // namespace

double evaluate(std::string_view expression) { return Reader(expression).all(); }

}  // namespace orrery::graph
