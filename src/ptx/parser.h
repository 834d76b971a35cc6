// ptx/parser.h: the state of one parse; private to this layer.
//
// Recursive descent with one token of look-ahead. An error throws Stop, which only the statement and directive loops
// catch: they skip to the end of the statement and go on, so that every error of a text is reported.
//
//   parse_module.cc     directives of a module          parse_function.cc   headers, scopes, labels, statements
//   parse_vars.cc       declarations, initial values    parse_operands.cc   operands, constant expressions
//   check_operands.cc   operands against the row's picture: kinds and types      check_values.cc   and ranges
#pragma once
#include <fmt/format.h>

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "isa/row.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "ptx/names.h"

namespace orrery::ptx {

/// What an identifier means in the scope at hand.
struct Binding {
  enum Kind : uint8_t { none, reg, vec_reg, local_var, var, func, label, proto, sreg, sreg3 } kind = none;
  uint8_t width = 0;  // vec_reg: its registers
  uint32_t id = 0;
};

/// A constant while an expression is evaluated.
struct Constant {
  bool is_float = false, is_unsigned = false;
  uint8_t float_bits = 64;
  int64_t value = 0;  // integers, or the bits of the float
};

class Parser {
 public:
  Parser(std::string_view text, std::vector<Diagnostic>& diagnostics);
  Module parse();

 private:
  static constexpr int kMaxDepth = 64;  // of expressions and nested operands
  struct Stop {};
  struct NameEntry {
    bool known = false;
    isa::NameMatch match;
  };
  /// A use of a label or prototype before the end of its scope.
  struct Pending {
    uint32_t symbol = 0, instr = 0, op = 0;
    uint32_t prototype = UINT32_MAX;  // not UINT32_MAX: target `op` of that .branchtargets list
    Loc loc;
  };
  struct Undo {
    uint32_t symbol;
    Binding old;
  };

  // tokens and errors
  void advance() { tok_ = lex_.next(); }
  Loc here() const { return {tok_.line, tok_.column, 0, 0}; }
  void report(Loc loc, std::string message);
  [[noreturn]] void fail(Loc loc, std::string message) {
    report(loc, std::move(message));
    throw Stop{};
  }
  [[noreturn]] void fail(std::string message) { fail(here(), std::move(message)); }
  [[noreturn]] void unexpected(std::string_view wanted);
  bool take(char c);
  void expect(char c, std::string_view where);
  bool take_dotted(std::string_view word);
  std::string_view expect_ident(std::string_view what);
  uint64_t expect_number(std::string_view what);
  void skip_statement();
  void skip_braces();
  bool skip_to_closing_brace();

  // module directives
  void module_statement();
  void version_directive();
  void target_directive();
  void file_directive();
  void section_directive();
  void alias_directive();
  void pragma_directive();
  Linkage linkage_words();
  void apply_aliases();

  // declarations
  struct Declaration {
    isa::Space space = isa::Space::none;
    isa::Type type = isa::Type::none;
    uint32_t align = 0, vec = 1;
    bool managed = false;
  };
  Declaration declaration_words();
  void attribute(Declaration& d);
  Var declarator(const Declaration& d, bool name_optional);
  void dimensions(Var& v);
  void variable_statement(Linkage linkage);
  void register_statement();
  void initializer(const Declaration& d, Var& v);
  void initializer_list(const Declaration& d, Var& v, size_t level, uint64_t at, int depth);
  void initializer_value(const Declaration& d, Var& v, uint64_t at);
  void initializer_address(Var& v, uint64_t at, uint32_t bytes);
  void add_module_var(Var v, Linkage linkage);
  void add_local(Var v);
  uint32_t add_register(std::string_view name, isa::Type type);
  std::string unique_name(uint32_t symbol);

  // functions
  void function(Linkage linkage, bool entry);
  void parameter_list(std::vector<Var>& out, bool name_optional);
  void function_directives(Directives& d);
  bool function_directive(Directives& d);
  void bind_parameters();
  void body();
  void scope(int depth);
  void scope_statements(int depth);
  void statement(int depth);
  void directive_in_body();
  void labelled(Token name);
  void loc_directive();
  uint32_t call_site();
  void prototype_directive(uint32_t symbol);
  void targets_directive(uint32_t symbol, bool branch);
  void resolve_pending(size_t first);
  void bind(uint32_t symbol, Binding b);
  Binding lookup(uint32_t symbol) const { return symbol < bindings_.size() ? bindings_[symbol] : Binding{}; }
  uint32_t symbol_of(std::string_view name);

  // instructions
  void instruction(bool guarded, Guard guard, Loc loc);
  NameEntry& name_entry(std::string_view dotted);
  void call_operands(Instr& instr);
  Operand call_list();
  void plain_operands(Instr& instr);
  Operand operand(int depth);
  Operand name_operand(int depth);
  Operand resolved(uint32_t symbol, const Token& name);
  Operand sreg_operand(const Token& name);
  bool numbered_sreg(std::string_view name, Operand& o);
  Operand vector_operand(int depth);
  Operand address_operand(int depth);
  void address_offset(Operand& o);
  void address_parts(Operand& o, int depth);
  Operand label_operand(uint32_t op_index);
  Operand immediate(const Constant& c);
  Guard guard();

  // constants
  Constant expression(int depth, int level = 0);
  Constant unary(int depth);
  Constant primary(int depth);
  Constant number();
  int64_t integer_expression();

  // check_operands.cc
  void check(Instr& instr, const std::vector<uint16_t>& candidates);
  // check_values.cc
  void check_values(const Instr& instr, const isa::Row& row, const std::vector<isa::OperandSlot>& picture);
  void check_fragment(const Instr& instr, const isa::OperandSlot& slot, const Operand& o);

  std::string_view text_;
  std::vector<Diagnostic>& diagnostics_;
  Lexer lex_;
  Token tok_;
  Module module_;
  Names names_;
  std::vector<Binding> bindings_;      // by symbol
  std::vector<uint32_t> declared_in_;  // by symbol: serial of the last function that declared it
  std::vector<uint32_t> entry_index_;  // by symbol of a dotted name: 1 + index into entries_
  std::deque<NameEntry> entries_;
  std::vector<Undo> undo_;
  std::vector<Pending> pending_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  std::vector<uint64_t> extents_;      // of the variable being declared: bytes of one item, by brace level
  std::vector<Operand> scratch_;
  Function* fn_ = nullptr;
  uint32_t function_serial_ = 0, renames_ = 0, scope_first_label_ = 0;
  uint64_t declared_registers_ = 0;
  uint32_t file_ = 0, source_line_ = 0, inlined_ = 0;  // of the last .loc
  std::map<std::array<uint32_t, 3>, uint32_t> inlined_at_;  // file, line, column of this function's .locs: their call site
};

}  // namespace orrery::ptx
