// ptx/parse_module.cc: tokens, errors, and the directives of a module.
#include <algorithm>
#include <charconv>

#include "ptx/parser.h"

namespace orrery::ptx {
namespace {
constexpr size_t kMaxDiagnostics = 10000;

std::string show(const Token& t) {
  switch (t.kind) {
    case Token::end: return "the end of the text";
    case Token::dotted: return fmt::format("'.{}'", t.text.substr(0, 60));
    case Token::string: return "a string";
    case Token::bad: return "a character that PTX does not use";
    default: return fmt::format("'{}'", t.text.substr(0, 60));
  }
}
}  // namespace

Parser::Parser(std::string_view text, std::vector<Diagnostic>& diagnostics)
    : text_(text), diagnostics_(diagnostics), lex_(text) {
#define PTX_SREG(name, spelling) bind(symbol_of(spelling), {Binding::sreg, 0, uint32_t(Sreg::name)});
#define PTX_SREG3(name, spelling) bind(symbol_of(spelling), {Binding::sreg3, 0, uint32_t(Sreg::name##_x)});
#include "ptx/sreg.def"
#undef PTX_SREG
#undef PTX_SREG3
  undo_.clear();
}

void Parser::report(Loc loc, std::string message) {
  if (diagnostics_.size() < kMaxDiagnostics) diagnostics_.push_back({loc, std::move(message)});
}
void Parser::unexpected(std::string_view wanted) { fail(fmt::format("expected {}, found {}", wanted, show(tok_))); }
bool Parser::take(char c) {
  if (!tok_.is(c)) return false;
  advance();
  return true;
}
void Parser::expect(char c, std::string_view where) {
  if (!take(c)) unexpected(fmt::format("'{}' {}", c, where));
}
bool Parser::take_dotted(std::string_view word) {
  if (!tok_.is_dotted(word)) return false;
  advance();
  return true;
}
std::string_view Parser::expect_ident(std::string_view what) {
  if (tok_.kind != Token::ident) unexpected(what);
  std::string_view t = tok_.text;
  advance();
  return t;
}
uint64_t Parser::expect_number(std::string_view what) {
  if (tok_.kind != Token::integer) unexpected(what);
  return uint64_t(number().value);
}

/// After an error: on to the end of the statement, its ';' consumed; stops before a brace or the end.
void Parser::skip_statement() {
  int depth = 0;  // braces of operands are part of the statement
  while (tok_.kind != Token::end) {
    if (tok_.is(';') && depth == 0) return advance();
    if (tok_.is('{')) {
      if (depth == 0 && fn_ == nullptr) return void(skip_to_closing_brace());
      ++depth;
    }
    if (tok_.is('}') && depth-- == 0) return;
    if (tok_.is(';')) return advance();
    advance();
  }
}
/// From a '{' past its '}'; false when the text ends before it. Reports nothing, because recovery calls it.
bool Parser::skip_to_closing_brace() {
  int depth = 0;
  do {
    if (tok_.kind == Token::end) return false;
    depth += tok_.is('{') - tok_.is('}');
    advance();
  } while (depth > 0);
  return true;
}
void Parser::skip_braces() {
  if (!tok_.is('{')) unexpected("'{'");
  Loc loc = here();
  if (!skip_to_closing_brace()) fail(loc, "this brace is not closed");
}

Module Parser::parse() {
  advance();
  while (tok_.kind != Token::end) {
    try {
      module_statement();
    } catch (Stop) {
      fn_ = nullptr;
      skip_statement();
      if (tok_.is('}')) advance();
    }
  }
  if (module_.version_major == 0 && diagnostics_.empty()) report({1, 1, 0, 0}, "the text has no .version directive");
  apply_aliases();
  if (diagnostics_.empty()) module_.text = std::string(text_);
  std::stable_sort(diagnostics_.begin(), diagnostics_.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.loc.line, a.loc.column) < std::pair(b.loc.line, b.loc.column);
  });
  return std::move(module_);
}

void Parser::module_statement() {
  if (take(';')) return;
  if (tok_.kind != Token::dotted) unexpected("a directive");
  std::string_view word = tok_.text;
  if (word == "version") return version_directive();
  if (word == "target") return target_directive();
  if (word == "address_size") {
    advance();
    Loc loc = here();
    uint64_t bits = expect_number("32 or 64");
    if (bits != 64) report(loc, "only 64-bit addresses are supported: compile for .address_size 64");
    return;
  }
  if (word == "file") return file_directive();
  if (word == "section") return section_directive();
  if (word == "pragma") return pragma_directive();
  if (word == "alias") return alias_directive();
  Linkage linkage = linkage_words();
  if (tok_.is_dotted("entry") || tok_.is_dotted("func")) {
    bool entry = tok_.text == "entry";
    advance();
    return function(linkage, entry);
  }
  variable_statement(linkage);
}

void Parser::version_directive() {
  advance();
  Loc loc = here();
  if (tok_.kind != Token::floating) unexpected("a version such as 9.0");
  uint32_t major = 0, minor = 0;
  const char *p = tok_.text.data(), *end = p + tok_.text.size();
  auto r = std::from_chars(p, end, major);
  if (r.ptr < end && *r.ptr == '.') r = std::from_chars(r.ptr + 1, end, minor);
  advance();
  module_.version_major = std::max(major, 1u);
  module_.version_minor = minor;
  if (r.ptr != end || major < 6 || major > 9) report(loc, "unsupported .version: 6.0 to 9.x are accepted");
}

void Parser::target_directive() {
  do {
    advance();
    Loc loc = here();
    std::string_view word = expect_ident("a target such as sm_90a");
    if (word == "debug") module_.debug = true;
    else if (word == "texmode_independent") module_.texmode_independent = true;
    else if (word == "texmode_unified" || word == "map_f64_to_f32") continue;
    else if (word.starts_with("sm_")) module_.target = std::string(word);
    else report(loc, fmt::format("unknown target '{}'", word));
    if (!word.starts_with("sm_")) continue;
    uint32_t sm = 0;
    auto r = std::from_chars(word.data() + 3, word.data() + word.size(), sm);
    std::string_view suffix(r.ptr, size_t(word.data() + word.size() - r.ptr));
    if (sm < 50 || sm > 129 || !(suffix.empty() || suffix == "a" || suffix == "f"))
      report(loc, fmt::format("unsupported target '{}': sm_50 to sm_121 are accepted", word));
  } while (tok_.is(','));
}

void Parser::file_directive() {
  advance();
  Loc loc = here();
  uint64_t index = expect_number("a file number");
  if (tok_.kind != Token::string) unexpected("a file name");
  if (index > 1'000'000) fail(loc, "file number above 1000000");
  if (module_.files.size() <= index) module_.files.resize(index + 1);
  module_.files[index] = std::string(tok_.text);
  advance();
  while (take(',')) expect_number("a time stamp or size");
}

void Parser::section_directive() {
  advance();
  if (tok_.kind != Token::dotted && tok_.kind != Token::ident) unexpected("a section name");
  advance();
  skip_braces();
}

void Parser::pragma_directive() {
  do {
    advance();
    if (tok_.kind != Token::string) unexpected("a string");
    advance();
  } while (tok_.is(','));
  expect(';', "after .pragma");
}

void Parser::alias_directive() {
  advance();
  std::string_view name = expect_ident("a function name");
  expect(',', "between the names of .alias");
  std::string_view target = expect_ident("a function name");
  aliases_.emplace_back(name, target);
  expect(';', "after .alias");
}

Linkage Parser::linkage_words() {
  Linkage linkage = Linkage::internal;
  for (;; advance()) {
    if (tok_.is_dotted("visible")) linkage = Linkage::visible;
    else if (tok_.is_dotted("extern")) linkage = Linkage::extern_;
    else if (tok_.is_dotted("weak")) linkage = Linkage::weak;
    else if (tok_.is_dotted("common")) linkage = Linkage::common;
    else return linkage;
  }
}

void Parser::apply_aliases() {
  for (auto& [name, target] : aliases_) {
    auto find = [&](const std::string& n) {
      return std::find_if(module_.functions.begin(), module_.functions.end(), [&](auto& f) { return f.name == n; });
    };
    auto to = find(target), from = find(name);
    if (to == module_.functions.end() || from == module_.functions.end() || !to->has_body) {
      report({}, fmt::format(".alias {}, {}: both must be functions and the second one must be defined", name, target));
      continue;
    }
    Linkage linkage = from->linkage;
    *from = *to;
    from->name = name;
    from->linkage = linkage;
  }
}

Module parse(std::string_view text, std::vector<Diagnostic>& diagnostics) {
  return Parser(text, diagnostics).parse();
}

}  // namespace orrery::ptx
