// sanitize/race_shadow.cc: see race_shadow.h.
#include "sanitize/race_shadow.h"

#include <algorithm>
#include <cstdlib>
#include <new>

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

namespace {

/// Threads of one epoch: none of them is ordered after another.
void apply(const Segment& segment, Cell* cells) {
  Stamp now = segment.stamp;
  for (uint32_t w = segment.from; w < segment.to; w++, now.thread++) {
    Cell& c = cells[w];
    if (segment.writes) c = {now, {}};
    else if (!c.read[0].site || (c.read[0].block == now.block && c.read[0].thread == now.thread)) c.read[0] = now;
    else c.read[1] = now;
  }
}

}  // namespace

void give_cells(LineHead& head, Cell* cells, const LineSegments* segments) {
  const auto at = [](Stamp s, uint32_t word) {
    if (!s.site) return Stamp{};
    s.thread = uint16_t(s.thread + (word >> (s.bytes >> 4)));
    s.bytes = 0xF;
    return s;
  };
  if (head.state == LineState::empty || head.state == LineState::segments) {
    std::fill_n(cells, kLineWords, Cell{});
    for (int i = 0; head.state == LineState::segments && i < head.n_segments; i++) apply(segments->of[i], cells);
  }
  else for (uint32_t i = 0; i < kLineWords; i++) cells[i] = {at(head.write, i), {at(head.read[0], i), at(head.read[1], i)}};
  head.state = LineState::cells;
}

void SharedShadow::start(uint32_t block, uint32_t bytes) {
  serial = block;
  const size_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  if (lines != heads.size()) cells = std::make_unique_for_overwrite<Cell[]>(lines * kLineWords);
  heads.assign(lines, LineHead{});
  segments.resize(lines);
  words.clear();
}

void GlobalShadow::clear() {
  pages_.clear();
  chunks_.clear();
  cells_.clear();
  words.clear();
  recent_ = {};
}

/// Heads come in chunks of zeroed memory, of which the system gives what is touched.
GlobalShadow::Page& GlobalShadow::find(uint64_t number, Recent& recent) {
  constexpr size_t kChunk = 1024;
  if (pages_.size() >= kMostPages || cells_.size() >= kMostCellPages) clear();
  Page*& page = pages_[number];
  if (!page) {
    if (chunks_.empty() || used_ == kChunk) chunks_.emplace_back(std::calloc(kChunk, sizeof(Page)), std::free), used_ = 0;
    if (!chunks_.back()) throw std::bad_alloc();
    page = static_cast<Page*>(chunks_.back().get()) + used_++;
  }
  recent = {number, page};
  return *page;
}

Cell* GlobalShadow::line_cells(Page& page, uint64_t line) {
  if (!page.cells) {
    cells_.push_back(std::make_unique_for_overwrite<Cell[]>(kPageBytes / 4));
    page.cells = cells_.back().get();
  }
  return page.cells + line * kLineWords;
}

void GlobalShadow::forget(uint64_t address, uint64_t bytes) {
  for (uint64_t at = address & ~uint64_t{3}; at < address + bytes; at += 4)
    if (pages_.contains(at / kPageBytes)) {
      cell(at) = {};
      words.forget(at);
    }
}

Cell& GlobalShadow::cell(uint64_t word_address) {
  Page& p = page(word_address);
  const uint64_t line = word_address % kPageBytes / kLineBytes;
  Cell* cells = line_cells(p, line);
  if (p.heads[line].state != LineState::cells) give_cells(p.heads[line], cells);
  return cells[word_address % kLineBytes / 4];
}

}  // namespace orrery::sanitize
