// sanitize/race_shadow.h: for every word of memory, who wrote it last and who has read it since.
//
//   Cell   of 4 bytes: the last write, and two reads (the first and the latest that are not ordered)
//
//   LineHead   of 128 bytes: the same for all 32 words at once, while full warps use the line as a row
//
// Two reads are enough to find that somebody who was not waited for reads what is now overwritten, unless that reader is
// neither the first nor the latest of several. Words whose bytes different threads use are split into four cells.
// A line whose words the lanes of one warp use in order needs no cells: thread i of the stamps belongs to word i (or to
// its 2 or 4 words). The first other use gives it cells.
// Global memory has pages of lines, made when touched; when there are too many, all are forgotten (races may then be
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
  uint16_t thread = 0;    // in the block; of a row: of its first word
  uint8_t bytes = 0;      // of the word, a bit each; of a row: 0xF and in the high bits log2 of the words per thread (5: one thread for all)
  uint8_t scope = 0;      // exec::Scope of a strong access; 0: weak
  bool same(const Stamp& o) const { return block == o.block && clock == o.clock && thread == o.thread && site == o.site && bytes == o.bytes; }
};

struct Cell {
  Stamp write, read[2];
  bool empty() const { return !write.site && !read[0].site; }
};

enum class LineState : uint8_t { empty, row, segments, cells };

/// Words [from, to) of a line that a warp used, one word to a lane.
struct Segment {
  Stamp stamp;                       // of word `from`
  uint8_t from = 0, to = 0;
  bool writes = false;
  bool same_threads(const Stamp& s, uint32_t first) const { return stamp.block == s.block && int(stamp.thread) - from == int(s.thread) - int(first); }
};

struct LineHead {
  Stamp write, read[2];              // of a row
  LineState state = LineState::empty;
  uint8_t n_segments = 0;
  uint32_t last = 0;                 // shared memory: Racecheck's epoch when the line was used last
  uint32_t quiet = 0;                // while this is Racecheck's epoch, threads of two warps have read all of it, none has written
};

/// Of shared memory: what a line without cells can hold beside a row, all of it of one epoch and not ordered among threads.
struct LineSegments {
  static constexpr size_t kMost = 4;
  Segment of[kMost];
};

constexpr uint64_t kLineBytes = 128, kLineWords = kLineBytes / 4;

/// Makes the line's cells what its row, or its segments, say.
void give_cells(LineHead& head, Cell* cells, const LineSegments* segments = nullptr);

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

/// Of one block's shared memory.
struct SharedShadow {
  uint32_t serial = 0;     // of the block that owns it now
  uint32_t now = 0;        // Racecheck's epoch
  std::vector<LineHead> heads;
  std::vector<LineSegments> segments;  // of lines in that state; others hold anything
  std::unique_ptr<Cell[]> cells;     // of lines that have them; others hold anything
  WordMap words;
  void start(uint32_t block, uint32_t bytes);
  Cell* line_cells(uint64_t line) { return &cells[line * kLineWords]; }
  Cell& cell(uint64_t word) {
    LineHead& head = heads[word / kLineWords];
    head.quiet = 0;
    head.last = now;
    if (head.state != LineState::cells) give_cells(head, line_cells(word / kLineWords), &segments[word / kLineWords]);
    return cells[word];
  }
};

class GlobalShadow {
 public:
  static constexpr uint64_t kPageBytes = 4096, kPageLines = kPageBytes / kLineBytes;
  static constexpr size_t kMostPages = 1000000;     // 1.7 GB of heads for 4 GB of memory
  static constexpr size_t kMostCellPages = 60000;   // 2.9 GB of cells for 245 MB of memory
  struct Page {
    std::array<LineHead, kPageLines> heads;
    Cell* cells;                                    // of all its words; null until some line needs them
  };
  Page& page(uint64_t address) {
    const uint64_t number = address / kPageBytes;
    Recent& r = recent_[number % recent_.size()];
    return r.number == number ? *r.page : find(number, r);
  }
  Cell* line_cells(Page& page, uint64_t line);
  Cell& cell(uint64_t word_address);
  void forget(uint64_t address, uint64_t bytes);
  WordMap words;

 private:
  struct Recent {
    uint64_t number = ~uint64_t{0};
    Page* page = nullptr;
  };
  Page& find(uint64_t number, Recent& recent);
  void clear();

  std::unordered_map<uint64_t, Page*> pages_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> chunks_;      // of pages, zeroed
  std::vector<std::unique_ptr<Cell[]>> cells_;
  size_t used_ = 0;                                 // pages of the last chunk
  std::array<Recent, 256> recent_;
};

}  // namespace orrery::sanitize
