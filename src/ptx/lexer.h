// ptx/lexer.h: PTX text as tokens, one at a time, without copies.
//
// Dots are tokens of their own word (`.global`): a directive or the suffix of the identifier before it. The dotted
// name of an instruction is one token, which only statement_word() makes.
#pragma once
#include <cstdint>
#include <string_view>

namespace orrery::ptx {

struct Token {
  enum Kind : uint8_t { end, ident, dotted, integer, floating, string, punct, bad } kind = end;
  char c = 0;              // punct: the character ('<' and '>' twice for << and >>: see `twice`)
  bool spaced = true;      // white space before it
  uint32_t line = 1, column = 1;
  std::string_view text;   // ident: with its % or $; dotted: without the dot; string: without the quotes
  bool is(char p) const { return kind == punct && c == p; }
  bool is_dotted(std::string_view word) const { return kind == dotted && text == word; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()), line_start_(begin_) {}

  Token next();
  /// Continues an identifier that next() has just returned over `.word` and `::` parts: `ld.global.L2::128B.u32`.
  void extend_name(Token& ident);
  /// The next character that is not white space, without consuming it; 0 at the end.
  char peek_char();
  bool starts_with(std::string_view s) const { return std::string_view(p_, size_t(end_ - p_)).starts_with(s); }

 private:
  void skip_blank();
  void lex_number(Token& t);
  const char *begin_, *p_, *end_, *line_start_;
  uint32_t line_ = 1;
};

}  // namespace orrery::ptx
