// isa/form.cc: names and sizes of types, operations, spaces and modifier words, made from the tables.
#include "isa/form.h"

#include <string>
#include <unordered_map>

namespace orrery::isa {
namespace {

struct TypeInfo {
  std::string_view name;
  int bits;
  TypeClass cls;
};
constexpr TypeInfo kTypes[] = {
    {"", 0, TypeClass::none},
#define PTX_TYPE(name, spelling, bits, cls) {spelling, bits, TypeClass::cls},
#include "isa/types.def"
#undef PTX_TYPE
};
constexpr std::string_view kOps[] = {
    "",
#define PTX_OP(name, spelling) spelling,
#define PTX_ROW(...)
#include "isa/ptx.def"
#undef PTX_OP
#undef PTX_ROW
};
constexpr std::string_view kMods[] = {
#define PTX_MOD(name, spelling) spelling,
#include "isa/mods.def"
#undef PTX_MOD
};
constexpr std::string_view kSpaces[] = {"",      "reg",          "sreg",        "const",  "global",      "local",          "param",
                                        "param::entry", "param::func", "shared", "shared::cta", "shared::cluster", "tex"};

template <class E, size_t N>
std::unordered_map<std::string_view, E> index_of(const std::string_view (&names)[N]) {
  std::unordered_map<std::string_view, E> map;
  for (size_t i = 0; i < N; ++i)
    if (!names[i].empty()) map.emplace(names[i], E(i));
  return map;
}

}  // namespace

int bits_of(Type t) { return kTypes[size_t(t)].bits; }
int bytes_of(Type t) {
  int bits = bits_of(t);
  return t == Type::none || t == Type::pred ? 0 : bits < 8 ? 1 : bits / 8;
}
TypeClass class_of(Type t) { return kTypes[size_t(t)].cls; }
std::string_view name_of(Type t) { return t < Type::count ? kTypes[size_t(t)].name : ""; }
std::string_view name_of(Op op) { return op < Op::count ? kOps[size_t(op)] : ""; }
std::string_view name_of(Mod m) { return m < Mod::count ? kMods[size_t(m)] : ""; }
std::string_view name_of(Space s) { return kSpaces[size_t(s)]; }

Type type_named(std::string_view text) {
  static const auto map = [] {
    std::unordered_map<std::string_view, Type> m;
    for (size_t i = 1; i < size_t(Type::count); ++i) m.emplace(kTypes[i].name, Type(i));
    return m;
  }();
  auto it = map.find(text);
  return it == map.end() ? Type::none : it->second;
}
Mod mod_named(std::string_view text) {
  static const auto map = index_of<Mod>(kMods);
  auto it = map.find(text);
  return it == map.end() ? Mod::count : it->second;
}
Op op_named(std::string_view text) {
  static const auto map = index_of<Op>(kOps);
  auto it = map.find(text);
  return it == map.end() ? Op::none : it->second;
}
Space space_named(std::string_view text) {
  static const auto map = index_of<Space>(kSpaces);
  auto it = map.find(text);
  return it == map.end() ? Space::none : it->second;
}

}  // namespace orrery::isa
