// ptx/parse_vars.cc: declarations of variables and registers, and their initial values.
// Source: PTX ISA manual, sections 5.1 to 5.4.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ptx/parser.h"

namespace orrery::ptx {
namespace {
constexpr uint64_t kMaxVariable = uint64_t(1) << 40;      // bytes; larger ones are a mistake in the text
constexpr uint64_t kMaxInitialized = uint64_t(1) << 31;   // bytes of initial values
constexpr uint64_t kMaxRegisters = 4'000'000;

isa::Space declared_space(std::string_view word) {
  using isa::Space;
  if (word == "global") return Space::global;
  if (word == "const") return Space::const_;
  if (word == "shared" || word == "shared::cta") return Space::shared;
  if (word == "local") return Space::local;
  if (word == "param") return Space::param;
  if (word == "reg") return Space::reg;
  if (word == "tex") return Space::tex;
  return Space::none;
}
}  // namespace

uint32_t Parser::symbol_of(std::string_view name) { return names_.intern(name); }

void Parser::bind(uint32_t symbol, Binding b) {
  if (symbol >= bindings_.size()) {
    bindings_.resize(std::max<size_t>(symbol + 1, bindings_.size() * 2));
    declared_in_.resize(bindings_.size());
  }
  undo_.push_back({symbol, bindings_[symbol]});
  bindings_[symbol] = b;
}

/// A name for a symbol that this function may already have used in another scope.
std::string Parser::unique_name(uint32_t symbol) {
  if (symbol >= declared_in_.size()) {
    bindings_.resize(symbol + 1);
    declared_in_.resize(symbol + 1);
  }
  std::string name(names_.text(symbol));
  if (declared_in_[symbol] == function_serial_) name += fmt::format("$s{}", ++renames_);
  declared_in_[symbol] = function_serial_;
  return name;
}

/// `.global .align 8 .attribute(.managed) .v2 .f32`: everything of a declaration before the name.
Parser::Declaration Parser::declaration_words() {
  Declaration d;
  for (; tok_.kind == Token::dotted; advance()) {
    std::string_view word = tok_.text;
    if (isa::Space s = declared_space(word); s != isa::Space::none && d.space == isa::Space::none) {
      d.space = s;
    } else if (word == "align") {
      advance();
      Loc loc = here();
      if (tok_.kind != Token::integer) unexpected("an alignment");
      Constant c = number();
      if (c.value <= 0 || c.value > (1 << 20) || !std::has_single_bit(uint64_t(c.value)))
        fail(loc, "an alignment must be a power of two");
      d.align = uint32_t(c.value);
      if (tok_.kind != Token::dotted) break;
      // the loop's advance() must not eat the word that number() has already reached
      for (;;) {
        Declaration rest = declaration_words();
        if (rest.space != isa::Space::none) d.space = rest.space;
        if (rest.type != isa::Type::none) d.type = rest.type;
        if (rest.vec != 1) d.vec = rest.vec;
        if (rest.align) d.align = rest.align;
        d.managed |= rest.managed;
        return d;
      }
    } else if (word == "attribute") {
      attribute(d);
      Declaration rest = declaration_words();
      rest.managed = d.managed;
      if (rest.space == isa::Space::none) rest.space = d.space;
      if (rest.align == 0) rest.align = d.align;
      return rest;
    } else if (word == "v2" || word == "v4" || word == "v8") {
      d.vec = uint32_t(word[1] - '0');
    } else if (word == "ptr") {  // .ptr .global .align 16: what a pointer parameter points to; has no effect
      advance();
      if (tok_.kind == Token::dotted && declared_space(tok_.text) != isa::Space::none) advance();
      if (take_dotted("align")) expect_number("an alignment");
      Declaration rest = declaration_words();
      if (rest.type == isa::Type::none) rest.type = d.type;
      rest.space = d.space;
      rest.align = d.align;
      return rest;
    } else if (isa::Type t = isa::type_named(word); t != isa::Type::none && d.type == isa::Type::none) {
      d.type = t;
    } else {
      fail(fmt::format("'.{}' does not belong in a declaration", word));
    }
  }
  return d;
}

void Parser::attribute(Declaration& d) {
  advance();
  expect('(', "after .attribute");
  do {
    if (take_dotted("managed")) {
      d.managed = true;
    } else if (take_dotted("unified")) {
      expect('(', "after .unified");
      expect_number("a number");
      expect(',', "in .unified");
      expect_number("a number");
      expect(')', "after .unified");
    } else {
      unexpected(".managed or .unified");
    }
  } while (take(','));
  expect(')', "after .attribute");
}

/// A name and its dimensions; sizes and alignment follow from the declaration.
Var Parser::declarator(const Declaration& d, bool name_optional) {
  Var v;
  v.loc = here();
  if (d.type == isa::Type::none) unexpected("a type");
  if (tok_.kind == Token::ident) {
    v.name = std::string(tok_.text);
    advance();
  } else if (!name_optional) {
    unexpected("a name");
  }
  v.space = d.space;
  v.type = d.type;
  v.managed = d.managed;
  uint32_t element = uint32_t(isa::bytes_of(d.type)) * d.vec;
  v.align = d.align ? d.align : std::max(element, 1u);
  v.size = element;
  dimensions(v);
  return v;
}

void Parser::dimensions(Var& v) {
  extents_.assign(1, v.size);
  while (take('[')) {
    if (tok_.is(']')) {
      if (extents_.size() > 1) fail("only the first dimension may be empty");
      advance();
      v.unsized = true;
      extents_.push_back(1);
      continue;
    }
    Loc loc = here();
    int64_t n = integer_expression();
    if (n < 0 || (v.size != 0 && uint64_t(n) > kMaxVariable / v.size)) fail(loc, "array too large");
    if (extents_.size() > 16) fail(loc, "more than 16 dimensions");
    v.size *= uint64_t(n);
    extents_.push_back(uint64_t(n));
    expect(']', "after an array dimension");
  }
  // from counts to bytes: extents_[k] is the size of one item of a list at brace level k
  uint64_t bytes = extents_[0];
  std::vector<uint64_t> counts(extents_.begin() + 1, extents_.end());
  extents_.assign(counts.size(), 0);
  for (size_t k = counts.size(); k-- > 0;) {
    extents_[k] = bytes;
    bytes *= counts[k];
  }
}

void Parser::variable_statement(Linkage linkage) {
  Declaration d = declaration_words();
  if (d.space == isa::Space::reg && fn_ == nullptr) fail("registers are declared inside a function");
  if (d.space == isa::Space::none) unexpected("a state space");
  if (d.space == isa::Space::tex) {
    d.space = isa::Space::global;
    d.type = isa::Type::texref;
  }
  do {
    Var v = declarator(d, false);
    uint64_t element = v.unsized ? v.size : 0;
    if (v.unsized) v.size = 0;
    if (take('=')) {
      if (element) v.size = element;  // the element size until the initial value gives the count
      initializer(d, v);
    }
    bool local = fn_ && (d.space == isa::Space::local || d.space == isa::Space::shared || d.space == isa::Space::param);
    if (local) add_local(std::move(v));
    else add_module_var(std::move(v), linkage);
  } while (take(','));
  expect(';', "after a declaration");
}

void Parser::add_local(Var v) {
  uint32_t symbol = names_.intern_copy(v.name);
  v.name = unique_name(symbol);
  bind(symbol, {Binding::local_var, 0, uint32_t(fn_->locals.size())});
  fn_->locals.push_back(std::move(v));
}

void Parser::add_module_var(Var v, Linkage linkage) {
  v.linkage = linkage;
  uint32_t symbol = names_.intern_copy(v.name);
  Binding old = lookup(symbol);
  if (fn_) {  // a .global or .const inside a function: a module variable that only this scope sees
    if (old.kind != Binding::none) v.name += fmt::format("$s{}", ++renames_);
    bind(symbol, {Binding::var, 0, uint32_t(module_.vars.size())});
    module_.vars.push_back(std::move(v));
    return;
  }
  if (old.kind == Binding::var) {  // a declaration and its definition, or the declaration twice
    Var& first = module_.vars[old.id];
    if (first.linkage != Linkage::extern_ && linkage != Linkage::extern_ && linkage != Linkage::weak &&
        linkage != Linkage::common)
      report(v.loc, fmt::format("'{}' is already defined in line {}", v.name, first.loc.line));
    else if (linkage != Linkage::extern_) first = std::move(v);
    return;
  }
  if (old.kind != Binding::none) report(v.loc, fmt::format("'{}' is already something else", v.name));
  bind(symbol, {Binding::var, 0, uint32_t(module_.vars.size())});
  module_.vars.push_back(std::move(v));
}

uint32_t Parser::add_register(std::string_view name, isa::Type type) {
  if (++declared_registers_ > kMaxRegisters) fail("more than 4000000 registers");
  uint32_t symbol = names_.intern_copy(name);
  uint32_t id = uint32_t(fn_->regs.size());
  fn_->regs.push_back({unique_name(symbol), type});
  bind(symbol, {Binding::reg, 0, id});
  return id;
}

/// `.reg .b32 %r<100>, a, b;` and vector registers, which become one register for each component.
void Parser::register_statement() {
  Declaration d = declaration_words();
  if (d.type == isa::Type::none) unexpected("a type");
  do {
    std::string_view name = expect_ident("a register name");
    if (take('<')) {
      Loc loc = here();
      uint64_t n = expect_number("the number of registers");
      if (n > kMaxRegisters) fail(loc, "more than 4000000 registers");
      std::string text(name);
      for (uint64_t i = 0; i < n; ++i) {
        text.resize(name.size());
        fmt::format_to(std::back_inserter(text), "{}", i);
        add_register(text, d.type);
      }
      expect('>', "after the number of registers");
    } else if (d.vec == 1) {
      add_register(name, d.type);
    } else {
      uint32_t first = uint32_t(fn_->regs.size());
      for (uint32_t i = 0; i < d.vec; ++i) add_register(fmt::format("{}${}", name, "xyzwabcd"[i]), d.type);
      bind(symbol_of(name), {Binding::vec_reg, uint8_t(d.vec), first});
    }
  } while (take(','));
  expect(';', "after a declaration");
}

// -- initial values

void Parser::initializer(const Declaration& d, Var& v) {
  uint64_t element = uint64_t(isa::bytes_of(d.type)) * d.vec;
  if (element == 0) fail("this type takes no initial value");
  if (!v.unsized && v.size > kMaxInitialized) fail("initial value too large");
  if (tok_.kind == Token::string) {
    if (isa::bytes_of(d.type) != 1) fail("a string initialises an array of bytes");
    v.init.assign(tok_.text.begin(), tok_.text.end());
    v.init.push_back(0);
    advance();
    if (v.unsized) v.size = v.init.size();
    if (v.init.size() > v.size) fail("the string is longer than the array");
  } else if (tok_.is('{')) {
    initializer_list(d, v, 0, 0, 0);
    if (v.unsized) v.size = (v.init.size() + element - 1) / element * element;
  } else {
    initializer_value(d, v, 0);
  }
  if (v.unsized) v.unsized = false;
  for (const Reloc& r : v.relocs)
    if (r.offset + r.size > v.init.size()) v.init.resize(r.offset + r.size);
}

/// One brace level: items of extents_[level] bytes; a list of a vector's components stands one level deeper.
void Parser::initializer_list(const Declaration& d, Var& v, size_t level, uint64_t at, int depth) {
  if (depth > 16) fail("initial value nested too deeply");
  expect('{', "");
  uint64_t element = uint64_t(isa::bytes_of(d.type));
  uint64_t item = level < extents_.size() ? extents_[level] : element;
  while (!tok_.is('}')) {
    if (tok_.is('{')) {
      initializer_list(d, v, level + 1, at, depth + 1);
      at += item;
    } else {
      if (!v.unsized && at + element > v.size) fail("more initial values than the variable holds");
      initializer_value(d, v, at);
      at += element;
    }
    if (at > kMaxInitialized) fail("initial value too large");
    if (!take(',')) break;
  }
  expect('}', "after an initial value");
}

void Parser::initializer_value(const Declaration& d, Var& v, uint64_t at) {
  uint32_t bytes = uint32_t(isa::bytes_of(d.type));
  bool is_address = tok_.kind == Token::ident && tok_.text != "WARP_SZ";
  if (is_address) return initializer_address(v, at, bytes);
  Loc loc = here();
  Constant c = expression(0);
  if (tok_.is('(') && !c.is_float) {  // mask(address): which byte of it
    advance();
    initializer_address(v, at, bytes);
    v.relocs.back().mask = uint64_t(c.value);
    expect(')', "after an address");
    return;
  }
  if (v.init.size() < at + bytes) v.init.resize(at + bytes);
  uint64_t bits = uint64_t(c.value);
  if (isa::is_float(d.type) && !c.is_float) {
    double x = c.is_unsigned ? double(uint64_t(c.value)) : double(c.value);
    c = {true, false, 64, std::bit_cast<int64_t>(x)};
    bits = uint64_t(c.value);
  }
  if (c.is_float && bytes == 4 && c.float_bits == 64) bits = std::bit_cast<uint32_t>(float(std::bit_cast<double>(c.value)));
  if (c.is_float && bytes == 8 && c.float_bits == 32)
    bits = std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(c.value))));
  if (c.is_float && bytes < 4) fail(loc, "write the bits of this type as an integer");
  std::memcpy(v.init.data() + at, &bits, std::min(bytes, 8u));
}

/// `symbol`, `symbol+8`, `generic(symbol)+8`, `symbol[3]` is not PTX.
void Parser::initializer_address(Var& v, uint64_t at, uint32_t bytes) {
  Reloc r;
  r.offset = at;
  r.size = uint8_t(bytes);
  std::string_view name = expect_ident("a variable or function");
  if (name == "generic" && take('(')) {
    r.generic = true;
    r.symbol = std::string(expect_ident("a variable"));
    if (tok_.is('+') || tok_.is('-')) r.addend = integer_expression();
    expect(')', "after generic(");
  } else {
    r.symbol = std::string(name);
  }
  if (tok_.is('+') || tok_.is('-')) r.addend += integer_expression();
  v.relocs.push_back(std::move(r));
}

}  // namespace orrery::ptx
