// sanitize/race_shadow.h: for every word of memory, who wrote it last and who has read it since.
//
//   Cell   of 4 bytes: the last write, and two reads (the first and the latest that are not ordered)
//
// Two reads are enough to find that somebody who was not waited for reads what is now overwritten, unless that reader is
// neither the first nor the latest of several. Words whose bytes different threads use are split into four cells.
// Global memory has pages of cells, made when touched; when there are too many, all are forgotten (races may then be
// missed, never invented). A block's shared memory has one array, forgotten when the next block starts there.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace orrery::sanitize {

/// One access. Site 0: none.
struct Stamp {
  uint32_t block = 0;     // serial number
  uint32_t clock = 0;     // of the thread's warp
  uint32_t site = 0;      // instruction
  uint16_t thread = 0;    // in the block
  uint8_t bytes = 0;      // of the word, a bit each
  uint8_t scope = 0;      // exec::Scope of a strong access; 0: weak
  bool same(const Stamp& o) const { return block == o.block && clock == o.clock && thread == o.thread && site == o.site && bytes == o.bytes; }
};

struct Cell {
  Stamp write, read[2];
  bool empty() const { return !write.site && !read[0].site; }
};

class WordMap {
 public:
  /// Calls f(cell, byte mask) for the cell or the four cells of the word that starts at `address`.
  template <class F>
  void with(Cell& cell, uint64_t address, uint8_t mask, F f) {
    if (mask == 0xF && !(has_split_ && cell.write.bytes == kSplit)) return f(cell, mask);
    if (cell.write.bytes != kSplit) split(cell, address);
    auto& parts = split_[address];
    for (int i = 0; i < 4; i++)
      if (mask >> i & 1) f(parts[size_t(i)], uint8_t(1u << i));
  }
  void forget(uint64_t address) {
    if (has_split_) split_.erase(address);
  }
  void clear() { split_.clear(), has_split_ = false; }

 private:
  static constexpr uint8_t kSplit = 0xFF;
  void split(Cell& cell, uint64_t address);
  std::unordered_map<uint64_t, std::array<Cell, 4>> split_;
  bool has_split_ = false;
};

/// Cells of one block's shared memory.
struct SharedShadow {
  uint32_t serial = 0;     // of the block that owns it now
  std::vector<Cell> cells;
  WordMap words;
  void start(uint32_t block, uint32_t bytes);
};

class GlobalShadow {
 public:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr size_t kMostPages = 60000;  // 2.9 GB of cells for 245 MB of memory
  Cell& cell(uint64_t word_address);
  void forget(uint64_t address, uint64_t bytes);
  WordMap words;

 private:
  using Page = std::array<Cell, kPageBytes / 4>;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
};

}  // namespace orrery::sanitize
