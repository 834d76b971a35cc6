// sem/wgmma_tile.h: a warp's wgmma tile in the shapes that vectors want. Compiled for two processor levels
// (wgmma_tile.inc), chosen once.
//
// Rows are what a matrix descriptor leads to, copied as they lie: `bytes` bytes of k for each m or n. A fragment of D
// or C (f32, s32) in registers is uint32_t[32] per register: lane l of register r is row l / 4 + 8 ((r / 2) % 2),
// column 8 (r / 4) + 2 (l % 4) + r % 2.
#pragma once
#include <cstdint>

#include "sem/numerics.h"

namespace orrery::sem {

/// Functions of one processor level.
struct WgmmaTileCode {
  /// out[i][x] = element x of row i, zero-extended; `rows` rows of `bytes` bytes, elements of `size` bytes.
  void (*widen)(const uint8_t* raw, int rows, int bytes, int size, uint32_t* out);
  /// out[x][i] = element x of row i: the same, transposed. `rows` is a multiple of 8.
  void (*widen_transposed)(const uint8_t* raw, int rows, int bytes, int size, uint32_t* out);
  /// c[row][column] of a 16 x n tile from 32-bit fragments, and back.
  void (*load_fragments)(const void* const* d, int n, uint32_t* c);
  void (*store_fragments)(void* const* d, int n, const uint32_t* c);
  /// d += a b with f32 multiply-adds in order of k, on fragments. a: 16 rows and b: n rows of 32 bytes; with `b_by_k`
  /// b is 16 rows (k) of n 16-bit elements. `negate` flips the products; without `keep` C is zero.
  void (*fast)(Element type_a, Element type_b, const uint8_t* a, const uint8_t* b, bool b_by_k, int n, bool negate, bool keep, void* const* d);
};
const WgmmaTileCode& wgmma_tile_v3();
const WgmmaTileCode& wgmma_tile_v4();
/// The one for this processor.
const WgmmaTileCode& wgmma_tile();

}  // namespace orrery::sem
