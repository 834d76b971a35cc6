// sem/warp_tile.h: a warp's product of 16 rows by n columns in the shapes that vectors want. Compiled for three
// processor levels (warp_tile.inc, exact_tile.inc), chosen once.
//
// Rows are what registers or a matrix descriptor hold, copied as they lie: for each m or n the bytes of k. A fragment
// of D or C (f32, s32) is uint32_t[32] per register: lane l of register r is row l / 4 + 8 ((r / 2) % 2), column
// 8 (r / 4) + 2 (l % 4) + r % 2. wgmma and the m16n8 forms of mma share this layout.
#pragma once
#include <cstdint>

#include "sem/numerics.h"

namespace orrery::sem {

constexpr int kTileRowBytes = 32;  // pitch of rows of k
constexpr int kTileSteps = 32;     // most k of one tile
constexpr int kTileColumns = 256;

/// How the factors of a side are read. smallest: the exponent of its subnormals.
struct FactorFormat {
  Element type = Element::f16;
  int bytes = 2, smallest = -14;
};

/// B arranged for sums: for each group of 8 columns and step of k the even columns, then the odd ones. A step is one k,
/// or with TileWork::pairs two as bf16.
struct Panel {
  alignas(64) float value[kTileColumns * kTileSteps];
  alignas(64) int16_t exponent[kTileColumns * kTileSteps];
  alignas(64) int32_t awkward[kTileColumns];  // all ones where a column holds what exact tiles leave out
};

/// What a tile does to its accumulators.
enum class TileSum : uint8_t { exact, fast, wrap, saturate };  // the last two: integers

struct TileWork {
  TileSum sum = TileSum::exact;
  SumRule rule;
  FactorFormat a, b;
  int n = 8, k = 16;
  bool b_by_k = false;                // B is k rows of n 16-bit elements
  bool negate = false, keep = true;   // of the products; without keep C is zero
  bool pairs = false;                 // fast sums of bf16 and fp8: the processor's dot products of bf16 pairs
  const uint8_t* order = nullptr;     // position of each k in the sums; null: as they are
};

struct TilePlace {
  uint16_t row, column;
};

/// Functions of one processor level.
struct WarpTileCode {
  bool pairs;  // whether it can do them
  /// out[i][x] = element x of row i, zero-extended; `rows` rows of `bytes` bytes, elements of `size` bytes.
  void (*widen)(const uint8_t* raw, int rows, int bytes, int size, uint32_t* out);
  /// out[x][i] = element x of row i: the same, transposed. `rows` is a multiple of 8.
  void (*widen_transposed)(const uint8_t* raw, int rows, int bytes, int size, uint32_t* out);
  /// c[row][column] of a 16 x n tile from 32-bit fragments, and back.
  void (*load_fragments)(const void* const* d, int n, uint32_t* c);
  void (*store_fragments)(void* const* d, int n, const uint32_t* c);
  /// f16 accumulators in pairs to f32 fragments, and back (nearest even).
  void (*load_halves)(const void* const* d, int n, void* const* fragments);
  void (*store_halves)(void* const* d, int n, const void* const* fragments);
  void (*arrange)(const TileWork& work, const uint8_t* b, Panel& panel);
  /// d += a b on f32 or s32 fragments; a: 16 rows. Exact sums leave outputs alone that they cannot do (NaN, infinity,
  /// exponents near the ends of f32), list them and return their number; the others return 0.
  int (*add)(const TileWork& work, const uint8_t* a, const Panel& b, void* const* d, TilePlace* left);
  /// Plain sums (TileSum::fast) of n products, one after the other, at most 16.
  void (*add_chain)(const TileWork& work, int n, const uint8_t* const* a, const Panel* const* b, void* const* d);
};
const WarpTileCode& warp_tile_v3();
const WarpTileCode& warp_tile_v4();
const WarpTileCode& warp_tile_bf16();  // v4 and AVX-512 BF16
/// The one for this processor.
const WarpTileCode& warp_tile();

}  // namespace orrery::sem
