// sem/matrix_move.cc: ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements between rows and fragments.
//
// Matrix i of an .x4 form has its rows named by lanes 8 i .. 8 i + 7. Without .trans lane l holds elements 2 (l % 4)
// and the next of row l / 4; with .trans rows and columns change places.
// Source: PTX ISA manual, ldmatrix, stmatrix, movmatrix.
#include <cstring>

#include "sem/lanes.h"
#include "sem/tensor.h"

namespace orrery::sem {
namespace {

int matrices(const Form& f) { return f.has(Mod::x4) ? 4 : f.has(Mod::x2) ? 2 : 1; }

// Row and column of half h of lane l.
void place(bool trans, int lane, int h, int& row, int& col) {
  row = lane / 4, col = lane % 4 * 2 + h;
  if (trans) std::swap(row, col);
}

}  // namespace

int matrix_rows(const Form& f) { return 8 * matrices(f); }

void run_ldmatrix(const Form& f, void* const* d, const uint8_t* const* rows) {
  const bool trans = f.has(Mod::trans);
  uint32_t out[4][32];
  for (int i = 0; i < matrices(f); i++)
    for (int lane = 0; lane < 32; lane++) {
      uint16_t half[2];
      for (int h = 0; h < 2; h++) {
        int row, col;
        place(trans, lane, h, row, col);
        std::memcpy(&half[h], rows[8 * i + row] + 2 * col, 2);
      }
      out[i][lane] = half[0] | uint32_t(half[1]) << 16;
    }
  for (int i = 0; i < matrices(f); i++)
    if (d[i]) std::memcpy(d[i], out[i], sizeof out[i]);
}

void run_stmatrix(const Form& f, const void* const* s, uint8_t* const* rows) {
  const bool trans = f.has(Mod::trans);
  for (int i = 0; i < matrices(f); i++)
    for (int lane = 0; lane < 32; lane++)
      for (int h = 0; h < 2; h++) {
        int row, col;
        place(trans, lane, h, row, col);
        const uint16_t v = uint16_t(get<uint32_t>(s[i], lane) >> (16 * h));
        std::memcpy(rows[8 * i + row] + 2 * col, &v, 2);
      }
}

void run_movmatrix(void* d, const void* s) {
  uint16_t m[8][8];
  for (int lane = 0; lane < 32; lane++)
    for (int h = 0; h < 2; h++) m[lane / 4][lane % 4 * 2 + h] = uint16_t(get<uint32_t>(s, lane) >> (16 * h));
  for (int lane = 0; lane < 32; lane++) put(d, lane, m[lane % 4 * 2][lane / 4] | uint32_t(m[lane % 4 * 2 + 1][lane / 4]) << 16);
}

}  // namespace orrery::sem
