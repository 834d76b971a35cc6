// isa/form.h: the form of one PTX instruction: what its dotted name says, without operands.
//
// A PTX mnemonic such as `ld.global.nc.L1::no_allocate.v4.f32` is an operation (ld), state spaces (global), types
// (f32), a vector width (v4), a shape (wgmma's m64n8k16) and a set of modifier words (nc, L1::no_allocate). Words
// are kept as a set because PTX gives them meaning by name; only types and spaces are positional, so these keep
// their order. The meaning of a form is in sem/ (values) and exec/ (memory, control); which forms exist is in ptx.def.
//
// Not here: operands (ptx/module.h), parsing (ptx/), values (sem/).
// Source: PTX ISA manual, chapters 4, 5 and 9.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::isa {

enum class Type : uint8_t {
  none,
#define PTX_TYPE(name, spelling, bits, cls) name,
#include "isa/types.def"
#undef PTX_TYPE
  count
};
enum class TypeClass : uint8_t { none, pred, bits, uint, sint, flt, packed, opaque };

enum class Op : uint16_t {
  none,
#define PTX_OP(name, spelling) name,
#define PTX_ROW(...)
#include "isa/ptx.def"
#undef PTX_OP
#undef PTX_ROW
  count
};

enum class Mod : uint16_t {
#define PTX_MOD(name, spelling) name,
#include "isa/mods.def"
#undef PTX_MOD
  count
};

enum class Space : uint8_t {
  none,  // generic addressing
  reg, sreg, const_, global, local, param, param_entry, param_func, shared, shared_cta, shared_cluster, tex
};

/// Bits of one register operand of type `t` (pred: 1); 0 for none.
int bits_of(Type t);
/// Bytes that one element of type `t` takes in memory (at least 1); 0 for none and pred.
int bytes_of(Type t);
TypeClass class_of(Type t);
inline bool is_signed(Type t) { return class_of(t) == TypeClass::sint; }
inline bool is_float(Type t) { return class_of(t) == TypeClass::flt; }
std::string_view name_of(Type t);
std::string_view name_of(Op op);
std::string_view name_of(Mod m);
std::string_view name_of(Space s);
/// The enumerator spelled `text` (without the dot); none / count when there is none.
Type type_named(std::string_view text);
Mod mod_named(std::string_view text);
Op op_named(std::string_view text);
Space space_named(std::string_view text);

struct Shape {
  uint16_t m = 0, n = 0, k = 0;
  bool operator==(const Shape&) const = default;
};

/// What the dotted name of one instruction says.
struct Form {
  Op op = Op::none;
  uint16_t row = 0;                       // index into rows(); the exact pattern that matched
  uint8_t n_types = 0, n_spaces = 0, vec = 1;
  std::array<Type, 6> types{};            // in order of appearance
  std::array<Space, 3> spaces{};          // in order of appearance
  Shape shape;
  std::bitset<size_t(Mod::count)> mods;

  bool has(Mod m) const { return mods[size_t(m)]; }
  Type type(int i = 0) const { return types[i]; }
  Space space(int i = 0) const { return spaces[i]; }
  bool operator==(const Form&) const = default;
};

/// The dotted name again, with words in the canonical order of the row's pattern where known.
std::string to_string(const Form& form);

}  // namespace orrery::isa
