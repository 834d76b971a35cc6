// ptx/lexer.cc: see lexer.h. Source: PTX ISA manual, chapter 4 (source format, identifiers, constants).
#include "ptx/lexer.h"

#include <array>
#include <cstring>

namespace orrery::ptx {
namespace {

enum : uint8_t { kBlank = 1, kIdentStart = 2, kIdent = 4, kDigit = 8 };
constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> t{};
  for (int c = 'a'; c <= 'z'; ++c) t[size_t(c)] = t[size_t(c - 'a' + 'A')] = kIdentStart | kIdent;
  for (int c = '0'; c <= '9'; ++c) t[size_t(c)] = kIdent | kDigit;
  t['_'] = t['$'] = kIdentStart | kIdent;
  t['%'] = kIdentStart;
  t[' '] = t['\t'] = t['\r'] = t['\f'] = t['\v'] = kBlank;
  return t;
}
constexpr auto kClass = make_classes();
inline uint8_t class_of(char c) { return kClass[uint8_t(c)]; }

}  // namespace

void Lexer::skip_blank() {
  while (p_ < end_) {
    char c = *p_;
    if (class_of(c) & kBlank) {
      ++p_;
    } else if (c == '\n') {
      ++line_;
      line_start_ = ++p_;
    } else if (c == '/' && p_ + 1 < end_ && p_[1] == '/') {
      const void* nl = std::memchr(p_, '\n', size_t(end_ - p_));
      p_ = nl ? static_cast<const char*>(nl) : end_;
    } else if (c == '/' && p_ + 1 < end_ && p_[1] == '*') {
      p_ += 2;
      while (p_ < end_ && !(*p_ == '*' && p_ + 1 < end_ && p_[1] == '/')) {
        if (*p_ == '\n') {
          ++line_;
          line_start_ = p_ + 1;
        }
        ++p_;
      }
      p_ = p_ < end_ ? p_ + 2 : end_;
    } else if (c == '#' && p_ == line_start_) {  // a line of the C preprocessor
      const void* nl = std::memchr(p_, '\n', size_t(end_ - p_));
      p_ = nl ? static_cast<const char*>(nl) : end_;
    } else if (c == '\0' && p_ + 1 == end_) {  // text handed over as a C string
      ++p_;
    } else {
      return;
    }
  }
}

void Lexer::lex_number(Token& t) {
  const char* start = p_;
  auto ident_run = [&] {
    while (p_ < end_ && (class_of(*p_) & kIdent)) ++p_;
  };
  bool prefixed = *p_ == '0' && p_ + 1 < end_ && std::strchr("xXbBfFdD", p_[1]) && p_[1];
  t.kind = Token::integer;
  if (prefixed) {
    if (std::strchr("fFdD", p_[1])) t.kind = Token::floating;
    ident_run();
  } else {
    while (p_ < end_ && (class_of(*p_) & kDigit)) ++p_;
    if (p_ < end_ && *p_ == '.' && !(p_ + 1 < end_ && (class_of(p_[1]) & kIdentStart) && p_[1] != 'e' && p_[1] != 'E')) {
      t.kind = Token::floating;
      ++p_;
      while (p_ < end_ && (class_of(*p_) & kDigit)) ++p_;
    }
    if (p_ < end_ && (*p_ == 'e' || *p_ == 'E')) {
      t.kind = Token::floating;
      ++p_;
      if (p_ < end_ && (*p_ == '+' || *p_ == '-')) ++p_;
    }
    ident_run();  // the suffix U, or letters that make the number wrong
  }
  t.text = {start, size_t(p_ - start)};
}

Token Lexer::next() {
  const char* before = p_;
  skip_blank();
  Token t;
  t.spaced = p_ != before;
  t.line = line_;
  t.column = uint32_t(p_ - line_start_) + 1;
  if (p_ >= end_) return t;
  char c = *p_;
  const char* start = p_;
  uint8_t cls = class_of(c);
  if ((cls & kIdentStart) && (c != '%' || (p_ + 1 < end_ && (class_of(p_[1]) & kIdent)))) {
    do ++p_;
    while (p_ < end_ && (class_of(*p_) & kIdent));
    t.kind = Token::ident;
    t.text = {start, size_t(p_ - start)};
  } else if (cls & kDigit) {
    lex_number(t);
  } else if (c == '.' && p_ + 1 < end_ && (class_of(p_[1]) & kIdent)) {
    do ++p_;
    while (p_ < end_ && ((class_of(*p_) & kIdent) || (*p_ == ':' && p_ + 1 < end_ && p_[1] == ':' && ++p_)));
    t.kind = Token::dotted;
    t.text = {start + 1, size_t(p_ - start - 1)};
  } else if (c == '"') {
    ++p_;
    while (p_ < end_ && *p_ != '"' && *p_ != '\n') p_ += *p_ == '\\' && p_ + 1 < end_ && p_[1] != '\n' ? 2 : 1;
    if (p_ > end_) p_ = end_;
    t.kind = p_ < end_ && *p_ == '"' ? Token::string : Token::bad;
    t.text = {start + 1, size_t(p_ - start - 1)};
    if (t.kind == Token::string) ++p_;
  } else {
    ++p_;
    t.kind = uint8_t(c) > 32 && uint8_t(c) < 127 ? Token::punct : Token::bad;
    t.c = c;
    t.text = {start, 1};
  }
  return t;
}

void Lexer::extend_name(Token& ident) {
  const char* start = ident.text.data();
  while (p_ < end_) {
    if (*p_ == '.' && p_ + 1 < end_ && (class_of(p_[1]) & kIdent)) {
      ++p_;
    } else if (*p_ == ':' && p_ + 2 < end_ && p_[1] == ':' && (class_of(p_[2]) & kIdent)) {
      p_ += 2;
    } else {
      break;
    }
    while (p_ < end_ && (class_of(*p_) & kIdent)) ++p_;
  }
  ident.text = {start, size_t(p_ - start)};
}

char Lexer::peek_char() {
  skip_blank();
  return p_ < end_ ? *p_ : 0;
}

}  // namespace orrery::ptx
