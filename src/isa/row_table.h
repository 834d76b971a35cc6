// isa/row_table.h: the rows of ptx.def with their patterns compiled: what row.cc matches names against.
//
// A pattern becomes one or more variants (an optional group of several words doubles them), each a list of elements
// in the order of the text.
#pragma once
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "isa/row.h"

namespace orrery::isa {

struct Element {
  bool optional = false;
  Word::Kind kind = Word::mod;
  std::vector<Word> words;
  bool names(const Word& w) const { return std::find(words.begin(), words.end(), w) != words.end(); }
};
using Variant = std::vector<Element>;

struct Table {
  std::vector<Row> rows;
  std::vector<std::vector<Variant>> variants;              // by row
  std::array<std::pair<uint32_t, uint32_t>, size_t(Op::count)> range{};  // by op: rows [first, second)
  std::array<uint32_t, size_t(Op::count)> parts{};         // by op: words of its spelling
};
const Table& table();

}  // namespace orrery::isa
