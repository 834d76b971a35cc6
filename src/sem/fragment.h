// sem/fragment.h: where the elements of a matrix lie in the registers of a warp.
//
// mma fragments (PTX manual), with g = lane / 4, t = lane % 4, and `per` elements of w bits in a register:
//
//   A  row g + 8 (r % halves), column t per + e + 4 per (r / halves)      halves = M / 8, r = register, e = element
//   B  row t per + e + 4 per r, column g
//   C  row g + 8 (r / 2), column 2 t + r % 2 (32 and 64 bits); row g + 8 r, column 2 t + e (f16)
//
// The m8n8k4 f16 form of Volta has four 8x8x4 products side by side, one per quad pair.
#pragma once
#include <cstdint>

#include "isa/form.h"
#include "sem/numerics.h"

namespace orrery::sem {

struct Place {
  int row, col;
};
inline Place place_a(int m, int per, int lane, int r, int e) {
  const int halves = m / 8;
  return {lane / 4 + 8 * (r % halves), lane % 4 * per + e + 4 * per * (r / halves)};
}
inline Place place_b(int per, int lane, int r, int e) { return {lane % 4 * per + e + 4 * per * r, lane / 4}; }
inline Place place_c(int lane, int r) { return {lane / 4 + 8 * (r / 2), lane % 4 * 2 + r % 2}; }
inline Place place_c16(int lane, int r, int e) { return {lane / 4 + 8 * r, lane % 4 * 2 + e}; }

int element_bits(Element e);
/// The factor type's element; false for types that no tensor core here multiplies.
bool element_of(isa::Type t, Element& e);

/// Integer and single-bit products: d = c + a b, all as in numerics.h's multiply().
void multiply_integer(Element a_type, Element b_type, bool satfinite, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k, ChosenRows chosen = {});
void multiply_bits(bool exclusive, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int words);

void multiply_f64(const isa::Form& f, const double* a, const double* b, double* c, int m, int n, int k);

/// A 16-row product whose A stores half of its k columns; `metadata` is the register that says which (sparse.cc).
/// stored: 16 x k / 2; b: k x n; cd: 16 x n.
void multiply_sparse(const isa::Form& f, Element a, Element b_type, bool half, int n, int k, const uint32_t* stored, const void* metadata, int selector,
                     const uint32_t* b, uint32_t* cd, const Numerics& numerics, bool native_fp8);

/// An accumulator of one width as C of the other.
uint32_t convert_c(bool from_half, bool to_half, uint32_t v);
void run_wmma_mma(const isa::Form& f, void* const* d, const void* const* s, const Numerics& numerics);

}  // namespace orrery::sem
