// sem/dense_tile.h: a warp's dense product of 16 rows by n columns on the registers of its accumulators, for wgmma and
// the m16n8 forms of mma.
//
// The four warps of a warpgroup multiply by the same B, and go through k in a chain of instructions on the same D: both
// are done together. Warpgroups side by side, and mma, multiply by the same B one after the other: its arrangement is kept
// per thread and used again when the bytes are the same.
#pragma once
#include <cstdint>
#include <span>

#include "sem/numerics.h"

namespace orrery::sem {

/// Where B's rows lie, for each step of a chain.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// From here on those of step `i` are meant.
  virtual void go_to(int i) {}
  /// Copies them in the order of DenseTile::b_by_k: n rows at 32 bytes, or k rows of n 16-bit elements.
  virtual void copy(uint8_t* to) = 0;
  /// Whether they are what copy() put at `copied` before.
  virtual bool same(const uint8_t* copied) = 0;
};

struct DenseTile {
  Element a = Element::f16, b = Element::f16;
  SumRule rule;                // for floating factors; its half_result says that accumulators are pairs of f16
  bool fast = false, satfinite = false;
  int n = 8, k = 16;           // k at most 32
  bool b_by_k = false;         // B lies as k rows of n 16-bit elements, else as n rows
  bool negate = false, keep = true;
  const uint8_t* raw_a = nullptr;  // 16 rows at 32 bytes
  RowSource* b_rows = nullptr;
  uint64_t key = 0;            // a guess at which B this is: the matrix descriptor
};

/// One instruction of a chain.
struct TileStep {
  uint64_t key = 0;  // as DenseTile has it
  bool keep = true;
};
constexpr int kMaxChain = 16;

/// Whether the factors' types are ones that tiles multiply: floating types of at most 32 bits, s8, u8.
bool can_tile(Element a, Element b);
/// d = c + a b; d holds C before.
void multiply_tile(const DenseTile& tile, void* const* d);
/// The same for `warps` warps and instructions one after the other: raw_a[step * warps + warp], d[warp].
void multiply_chain(const DenseTile& tile, std::span<const TileStep> steps, int warps, const uint8_t* const* raw_a, void* const* const* d);

}  // namespace orrery::sem
