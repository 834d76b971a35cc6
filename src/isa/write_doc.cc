// isa/write_doc.cc: prints docs/isa.md from the instruction table. Usage: write_isa_doc > docs/isa.md
#include <fmt/format.h>

#include "isa/row.h"

using namespace orrery::isa;

static std::string effects_of(const Row& row) {
  static constexpr std::pair<uint32_t, std::string_view> names[] = {
      {effect::reads, "reads"},     {effect::writes, "writes"},   {effect::atomic, "atomic"},         {effect::async, "async"},
      {effect::barrier, "barrier"}, {effect::control, "control"}, {effect::convergent, "convergent"}, {effect::machine, "machine"}};
  std::string s;
  for (auto [bit, name] : names)
    if (row.effects & bit) s += (s.empty() ? "" : ", ") + std::string(name);
  return s.empty() ? "pure" : s;
}

static std::string escaped(std::string_view text) {
  std::string s;
  for (char c : text) s += c == '|' ? "\\|" : std::string(1, c);
  return s;
}

int main() {
  fmt::print("# The instruction table\n\nMade by `write_isa_doc` from src/isa/ptx.def; do not edit. {} forms. src/isa/row.h explains "
             "patterns and operand pictures; the sets of words that patterns name are at the end. `sm` is the first machine that "
             "has the form; `a`: that family only.\n",
             rows().size());
  Op op = Op::none;
  for (const Row& row : rows()) {
    if (row.op != op) fmt::print("\n## {}\n\n| form | operands | effects | timing | sm |\n| --- | --- | --- | --- | --- |\n", name_of(row.op));
    op = row.op;
    std::string sm = row.min_sm() ? fmt::format("{}{}", row.min_sm(), row.has(effect::only) ? "a" : "") : "";
    fmt::print("| `{}` | `{}` | {} | {} | {} |\n", escaped(row.pattern), escaped(row.operands), effects_of(row), name_of(row.timing), sm);
  }
  fmt::print("\n## Sets of words\n\n| name | words |\n| --- | --- |\n");
#define PTX_CLASS(name, words) fmt::print("| `{}` | {} |\n", #name, words);
#include "isa/classes.def"
#undef PTX_CLASS
}
