// timing/grid_shape.h: the grid as blocks lie in it, and which of the blocks that were traced stands for one that was not.
//
// Blocks at the grid's edges often do less, or have their addresses clamped: one stands for others at the same edges first. Not here: whole parts of
// the grid that do alike (Predictor::find_ranges).
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::timing {

struct GridShape {
  uint64_t x = 1, y = 1, z = 1;
  uint64_t count() const { return x * y * z; }
  /// At which edges the block lies: two bits a direction, its first place and its last.
  uint32_t edges_of(uint64_t block) const {
    const uint64_t at[3] = {block % x, block / x % y, block / (x * y)}, most[3] = {x, y, z};
    uint32_t edges = 0;
    for (int i = 0; i < 3; i++) edges |= uint32_t(at[i] == 0) << 2 * i | uint32_t(at[i] + 1 == most[i]) << (2 * i + 1);
    return edges;
  }
};

/// Of `n` candidates one for block `index`, always the same: of a few that are drawn the first that fits best; `fit`: 0 to `best`.
template <class At, class Fit>
auto stand_in(uint64_t index, uint64_t n, const At& at, int best, const Fit& fit) {
  constexpr int kDraws = 8;
  uint64_t drawn = index * 0x9E3779B97F4A7C15ull;
  auto chosen = at((drawn >> 33) % n);
  int fits = fit(chosen);
  for (int draw = 1; fits < best && draw < kDraws; draw++) {
    drawn = (drawn ^ drawn >> 29) * 0xBF58476D1CE4E5B9ull;
    const auto other = at((drawn >> 33) % n);
    if (const int better = fit(other); better > fits) chosen = other, fits = better;
  }
  return chosen;
}

/// Blocks that do little (they leave at once, in the half of a square that is not wanted) beside such that do much, in a grid that is too large to
/// trace all: which are which, as far as was looked at.
struct Kinds {
  std::vector<std::pair<uint64_t, bool>> seen;  // blocks all over the grid; does it do much?
  uint64_t much = 0;                            // PTX warp instructions from which on a block does
  /// Is that so of a block? As of one that was looked at, at the same edges of the grid where there is such a one.
  bool does_much(uint64_t block, const GridShape& grid) const {
    const uint32_t edges = grid.edges_of(block);
    return stand_in(~block, seen.size(), [&](uint64_t n) { return &seen[n]; }, 1, [&](const auto* other) { return int(grid.edges_of(other->first) == edges); })->second;
  }
  double share() const {
    size_t n = 0;
    for (const auto& [block, does] : seen) n += does;
    return double(n) / double(seen.size());
  }
};

/// How well another block stands for this one: by what it does first, then by where it lies.
class StandInFit {
 public:
  StandInFit(const GridShape& grid, const Kinds& kinds, uint64_t block)
      : grid_(grid), edges_(grid.edges_of(block)), much_(kinds.much), by_kind_(!kinds.seen.empty()), does_much_(by_kind_ && kinds.does_much(block, grid)) {}
  int best() const { return by_kind_ ? 3 : 1; }
  int of(uint64_t other, uint64_t work) const { return (by_kind_ && (work > much_) == does_much_ ? 2 : 0) + (grid_.edges_of(other) == edges_); }

 private:
  const GridShape& grid_;
  const uint32_t edges_;
  const uint64_t much_;
  const bool by_kind_, does_much_;
};

}  // namespace orrery::timing
