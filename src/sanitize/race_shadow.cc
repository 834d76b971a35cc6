// sanitize/race_shadow.cc: see race_shadow.h.
#include "sanitize/race_shadow.h"

#include <algorithm>

namespace orrery::sanitize {

void WordMap::split(Cell& cell, uint64_t address) {
  has_split_ = true;
  auto& parts = split_[address];
  for (int i = 0; i < 4; i++) {
    Cell& part = parts[size_t(i)];
    part = {};
    const uint8_t bit = uint8_t(1u << i);
    if (cell.write.bytes & bit) part.write = cell.write, part.write.bytes = bit;
    for (int r = 0; r < 2; r++)
      if (cell.read[r].bytes & bit) part.read[r] = cell.read[r], part.read[r].bytes = bit;
  }
  cell = {};
  cell.write.bytes = kSplit;
}

void SharedShadow::start(uint32_t block, uint32_t bytes) {
  serial = block;
  cells.assign((bytes + 3) / 4, Cell{});
  words.clear();
}

void GlobalShadow::forget(uint64_t address, uint64_t bytes) {
  for (uint64_t at = address & ~uint64_t{3}; at < address + bytes; at += 4)
    if (pages_.contains(at / kPageBytes)) {
      cell(at) = {};
      words.forget(at);
    }
}

Cell& GlobalShadow::cell(uint64_t word_address) {
  const uint64_t number = word_address / kPageBytes;
  if (number != last_number_) {
    if (pages_.size() >= kMostPages) pages_.clear(), words.clear();
    auto& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    last_number_ = number;
    last_ = page.get();
  }
  return (*last_)[word_address % kPageBytes / 4];
}

}  // namespace orrery::sanitize
