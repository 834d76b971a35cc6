// isa/fragment.cc: see fragment.h.
#include "isa/fragment.h"

#include <algorithm>

namespace orrery::isa {
namespace {

struct Parts {
  Type d, a, b, c;
};

Parts types_of(const Form& f) {
  const auto& t = f.types;
  if (f.op == Op::wmma_load || f.op == Op::wmma_store) return {t[0], t[0], t[0], t[0]};
  if (f.op == Op::wmma_mma && f.n_types == 2) return {t[0], Type::f16, Type::f16, t[1]};
  if (f.op == Op::wgmma_mma_async || f.op == Op::wgmma_mma_async_sp) return {t[0], t[1], t[2], t[0]};
  return {t[0], t[1], t[2], t[3]};
}

/// Bits that one element takes in a register of the fragment.
int stored_bits(const Form& f, Type t) {
  if (f.has(Mod::kind_mxf4) || f.has(Mod::kind_mxf4nvf4)) return 4;
  if (t == Type::b1) return 1;
  return std::max(bits_of(t) == 4 && class_of(t) != TypeClass::flt ? 4 : 8, bits_of(t));
}

}  // namespace

std::optional<Fragment> fragment(const Form& f, char part) {
  bool wmma = f.op == Op::wmma_load || f.op == Op::wmma_store || f.op == Op::wmma_mma;
  bool wgmma = f.op == Op::wgmma_mma_async || f.op == Op::wgmma_mma_async_sp;
  bool sparse = f.op == Op::mma_sp || f.op == Op::wgmma_mma_async_sp;
  if ((!wmma && !wgmma && f.op != Op::mma && f.op != Op::mma_sp) || f.shape.k == 0) return {};
  if (f.op == Op::wmma_load) part = f.has(Mod::a) ? 'a' : f.has(Mod::b) ? 'b' : 'c';
  if (f.op == Op::wmma_store) part = 'd';
  Parts types = types_of(f);
  int m = f.shape.m, n = f.shape.n, k = f.shape.k, threads = wgmma ? 128 : 32;
  bool quads = m == 8 && n == 8 && k == 4 && f.op == Op::mma && types.a == Type::f16;  // Volta: four 8x8x4 at once
  if (part == 'c' || part == 'd') {
    Type t = part == 'd' ? types.d : types.c;
    int elements = quads ? 8 : m * n / threads;
    if (bits_of(t) == 16) return Fragment{uint16_t(elements / 2), Type::b32};
    return Fragment{uint16_t(elements), t == Type::s32 ? Type::b32 : t};
  }
  Type t = part == 'a' ? types.a : types.b;
  int elements = (part == 'a' ? m : n) * k / threads;
  if (sparse && part == 'a') elements /= 2;
  if (wmma && t == Type::f16) elements = 16;  // every element is held twice
  if (quads) elements = 4;
  if (t == Type::f64) return Fragment{uint16_t(elements), t};
  return Fragment{uint16_t(std::max(1, elements * stored_bits(f, t) / 32)), Type::b32};
}

}  // namespace orrery::isa
