// timing/ghost_traces.h: what the blocks of ghosts do where blocks differ: each does what its own trace says, or, when it was not
// traced, what that of another block says.
//
// An access of the detailed block stands for the accesses of the ghosts' blocks by the same warp, PTX instruction and turn; one that
// a ghost's block does not make is not made, and what only the ghost's block makes is made when the detailed block ends.
// Accesses of all blocks are looked for, most of them once: where each stands is noted as soon as its block was traced, since later the
// trace lies in no cache of the host. A warp's accesses by one instruction have the ordinals from 0 on, so that a look-up is two steps.
// Not here: kernels whose blocks all do alike (their addresses move by slopes, sm_ghosts.cc); bulk copies (sm_copies.cc).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timing/grid_shape.h"
#include "timing/trace.h"

namespace orrery::timing {

using TracedBlocks = std::map<uint64_t, std::unique_ptr<TracedBlock>>;  // by number in the grid

class GhostTraces {
 public:
  static constexpr uint32_t kNoColumn = UINT32_MAX;
  struct Access {                  // to lines of memory
    uint32_t event = 0;            // of its warp: which
    uint32_t detail = 0;           // of that event
    uint16_t n_detail = 0;         // the same: a warp touches 64 lines at most
    What what = What::other;       // the same
    Filled filled = Filled::none;  // of stores
  };
  /// The accesses of a block's warps, those by each PTX instruction (a column) one after the other.
  struct Block {
    const TracedBlock* trace = nullptr;
    std::vector<uint32_t> begins;  // of each warp and column; at the end one more
    std::vector<Access> accesses;
    uint32_t columns = 0;
  };
  /// The same, and what of the trace is asked for most, in one piece.
  struct View {
    const uint32_t* begins = nullptr;
    const Access* accesses = nullptr;
    const uint64_t* lines = nullptr;  // of the trace
    uint32_t columns = 0, warps = 0;
    const TracedBlock* trace = nullptr;
    View() = default;
    explicit View(const Block& b)
        : begins(b.begins.data()), accesses(b.accesses.data()), lines(b.trace->lines.data()), columns(b.columns), warps(uint32_t(b.trace->warps.size())), trace(b.trace) {}
    const uint32_t* begin_of(size_t warp, uint32_t column) const { return begins + warp * columns + column; }
    /// Those of a warp by an instruction.
    std::span<const Access> of(size_t warp, uint32_t column) const {
      if (column >= columns || warp >= warps) return {};
      const uint32_t* const at = begin_of(warp, column);
      return {accesses + at[0], at[1] - at[0]};
    }
  };
  explicit GhostTraces(const GridShape& grid) : grid_(grid) {}
  /// Notes a block that was traced; it must outlive this.
  void add(uint64_t index, const TracedBlock& block);
  /// Those that were added so far stand for blocks that are not traced: where ranges of the grid do different work (`ranges`: the first block
  /// of each, in order), for those of their range. `kinds`: where blocks do much or little, those of a kind for each other; must outlive this.
  void end_stand_ins(const std::vector<uint64_t>& ranges, const Kinds& kinds);
  /// The block `index`, else one of those that were traced first, at the same edges of the grid where there is such a one.
  View of(uint64_t index) const;
  /// Of a PTX instruction; kNoColumn: it never accesses memory.
  uint32_t column_of(uint32_t pc) const {
    const auto found = columns_.find(pc);
    return found != columns_.end() ? found->second : kNoColumn;
  }

 private:
  static constexpr uint64_t kDense = uint64_t{1} << 20;  // blocks up to this number are found by it
  uint32_t column_for(uint32_t pc);
  GridShape grid_;
  const Kinds* kinds_ = nullptr;
  std::map<uint64_t, Block> blocks_;
  std::vector<const Block*> dense_, first_;
  std::vector<std::pair<uint64_t, size_t>> ranges_;       // the first block of each, and the first of first_ that lies in it
  std::unordered_map<uint32_t, uint32_t> columns_;
  std::array<std::pair<uint32_t, uint32_t>, 64> latest_;  // instructions and their columns
  std::vector<uint32_t> column_of_event_;                 // of the warps of the block that is added
};

}  // namespace orrery::timing
