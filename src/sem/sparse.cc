// sem/sparse.cc: products with a sparse A: of every four columns two are stored (of two one for tf32, of eight four in
// pairs for 4-bit types), and metadata says which.
//
// A row's metadata is 4 bits per group of columns. Where they lie in a quad of lanes (q = row % 8), for 16, 32 or 64
// bits per row:
//
//   16 bits  lane 4 q + selector, bits 16 (row / 8) on
//   32 bits  16-bit and tf32 factors: lane 4 q + 2 selector + (half of the row), bits 16 (row / 8) on
//            8- and 4-bit factors: lane 4 q + 2 selector + row / 8
//   64 bits  lane 4 q + row / 8 + 2 (half of the row)
//
// Only stored columns are multiplied: what B holds at the others, NaN or infinity, does not matter.
// Source: PTX ISA manual, "Matrix Fragments for sparse mma"; compared with recorded H200 results.
#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/numerics.h"

namespace orrery::sem {
namespace {

constexpr int kMaxColumns = 256;

// The 4 bits of group g of a row.
uint32_t code_of(int bits, int groups, const void* metadata, int selector, int row, int g) {
  int lane = 4 * (row % 8), shift = 4 * g;
  if (groups == 4) {
    lane += selector;
    shift = 16 * (row / 8) + 4 * g;
  } else if (groups == 8 && bits >= 16) {
    lane += 2 * selector + g / 4;
    shift = 16 * (row / 8) + 4 * (g % 4);
  } else if (groups == 8) {
    lane += 2 * selector + row / 8;
  } else {
    lane += row / 8 + 2 * (g / 8);
    shift = 4 * (g % 8);
  }
  return get<uint32_t>(metadata, lane) >> shift & 15;
}

// The column of every stored element of a row.
void columns_of(int bits, int k, const void* metadata, int selector, int row, uint16_t* column) {
  const int width = bits == 32 ? 2 : bits == 4 ? 8 : 4, kept = width / 2;
  for (int g = 0; g < k / width; g++) {
    const uint32_t code = code_of(bits, k / width, metadata, selector, row, g);
    const int first = int(code & 3), second = int(code >> 2);
    for (int e = 0; e < kept; e++) {
      int at = e == 0 ? first : second;
      if (bits == 32) at = first / 2;
      if (bits == 4) at = 2 * (e < 2 ? first : second) + e % 2;
      column[g * kept + e] = uint16_t(g * width + at);
    }
  }
}

}  // namespace

void multiply_sparse(const isa::Form& f, Element a, Element b_type, bool half, int n, int k, const uint32_t* stored, const void* metadata, int selector,
                     const uint32_t* b, uint32_t* cd, const Numerics& x, bool native_fp8) {
  uint16_t column[16 * kMaxColumns / 2];
  for (int row = 0; row < 16; row++) columns_of(element_bits(a), k, metadata, selector, row, column + row * k / 2);
  const ChosenRows chosen{column, k};
  if (a == Element::s8 || a == Element::u8 || a == Element::s4 || a == Element::u4) multiply_integer(a, b_type, f.has(Mod::satfinite), stored, b, cd, 16, n, k / 2, chosen);
  else if (x.fast) multiply_fast(a, b_type, half, stored, b, cd, 16, n, k / 2, chosen);
  else multiply(sum_rule(x.core, a, b_type, half, native_fp8), a, b_type, stored, b, cd, 16, n, k / 2, chosen);
}

}  // namespace orrery::sem
