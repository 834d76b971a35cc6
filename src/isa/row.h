// isa/row.h: the rows of ptx.def, compiled once, and the matching of a dotted name against them.
//
// One row is one form of the PTX manual:
//
//   pattern   "ld{.weak}{.ldspace}.memtype": words. `.name` is a word or a class of words (classes.def), `.(a|b)` a
//             choice, `{...}` optional. Modifier words are a set: PTX assemblers take them in any order. Types and
//             state spaces are positional.
//   operands  "d, [a]{, policy}": see OperandSlot.
//   effects   what the form does besides computing its result (Effect bits and the first machine that has it)
//   timing    the class of hardware unit that it keeps busy
//
// Not here: operands themselves (ptx/), meaning (sem/, exec/). Source: PTX ISA manual, chapter 9.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/form.h"

namespace orrery::isa {

/// Effect bits of a row; 0 is a pure computation.
namespace effect {
constexpr uint32_t pure = 0;
constexpr uint32_t reads = 1;        // reads memory
constexpr uint32_t writes = 2;       // writes memory
constexpr uint32_t atomic = 4;       // the read and the write are one step
constexpr uint32_t async = 8;        // completes after the instruction
constexpr uint32_t barrier = 16;     // waits for other threads, or orders memory
constexpr uint32_t control = 32;     // may change the next instruction
constexpr uint32_t convergent = 64;  // other lanes see it or are seen: never moved under another condition
constexpr uint32_t machine = 128;    // reads or changes machine state (clock, registers available, launch control)
/// The first machine that has the form: sm(90). `only` adds "that family only" (an `a` or `f` target).
constexpr uint32_t sm(uint32_t number) { return number << 16; }
constexpr uint32_t only = 1u << 31;
}  // namespace effect

enum class Timing : uint8_t {
  alu, fma, imul, half, fp64, sfu, conv, move, ls, atom, tex, tensor, tma, warp, bar, ctrl, misc, count
};
std::string_view name_of(Timing t);

/// What one operand of a row may be. Pictures are written like the manual's operand lists:
///   d        destination register (or vector when the form has .v2/.v4/.v8, or the sink _ where the row says `d_`)
///   a        source: register or immediate;   #a  immediate only;   !a  predicate, may be negated
///   [a]      address;   [a*]  address with parts, such as a tensor map or texture and its coordinates
///   {a}      vector;   {a}?  vector or scalar;   a|b  pair;   a{|b}  pair or single
///   &a       a value or the address of a variable or function, also special registers and vectors (mov, cvta)
///   _        the sink only;   @label   label;   @targets  branch targets;   `call` alone: the operands of a call;   `*` alone: not checked
///   name:u32 its type when it is not the first type of the form; name:1 the second type; name:w twice the width;
///            name:any no check
/// `{, x}` makes the rest between the braces optional. Four names stand exactly when a word asks for them: policy
/// (.L2::cache_hint), cta_mask (.multicast::cluster), byte_mask (.cp_mask), offsets (.im2col and its relatives).
struct OperandSlot {
  enum Kind : uint8_t { dst, src, imm, address, address_parts, vec, pair, any, label, targets, vec_or_src, sink } kind = src;
  bool may_negate = false, may_sink = false, may_single = false;
  enum TypeFrom : uint8_t { unchecked, fixed, from_form, twice } type_from = from_form;
  Type type = Type::none;  // fixed
  uint8_t type_index = 0;  // from_form, twice
  std::string_view name;
};

struct Row {
  Op op;
  std::string_view pattern, operands;
  uint32_t effects;
  Timing timing;
  bool has(uint32_t effect_bits) const { return (effects & effect_bits) == effect_bits; }
  uint32_t min_sm() const { return effects >> 16 & 0x7fff; }
  /// The accepted operand lists, shortest first; one for every choice of optional parts.
  std::vector<std::vector<OperandSlot>> pictures;
  bool any_operands = false, is_call = false;
};

/// Whether the picture has exactly those of policy, cta_mask, byte_mask and offsets that the form's words ask for.
bool picture_applies(std::span<const OperandSlot> picture, const Form& form);

const std::vector<Row>& rows();
const Row& row(uint16_t index);
std::span<const Row> rows_of(Op op);

/// A word of a dotted name.
struct Word {
  enum Kind : uint8_t { mod, type, space, vec, shape } kind = mod;
  uint32_t value = 0;  // Mod, Type, Space, width, or m << 20 | n << 10 | k
  bool operator==(const Word&) const = default;
};
std::optional<Word> word_named(std::string_view text);

/// The outcome of reading a dotted name.
struct NameMatch {
  Form form;                     // row is candidates[0]
  std::vector<uint16_t> rows;    // all rows that accept the words, in table order; empty: see error
  std::string error;             // one sentence
  uint32_t error_offset = 0;     // byte offset in the name of the word that the error is about
};
/// Reads `ld.global.nc.v4.f32`: the operation with the longest spelling that fits, then its words.
NameMatch match_name(std::string_view dotted);

/// Dotted names of the row that together use every word of every element at least once, with and without each
/// optional word; the first one has only the required words.
std::vector<std::string> spellings(const Row& row);

}  // namespace orrery::isa
