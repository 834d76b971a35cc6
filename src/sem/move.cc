// sem/move.cc: mov: plain copies, and the forms that pack registers into a wider one or take it apart.
//
// A packing move has several sources and one destination, an unpacking one the reverse; the elements share the
// width of the type evenly, first element in the low bits.
// Source: PTX ISA manual, mov.
#include "sem/families.h"

namespace orrery::sem {
namespace {

template <class T> T copy(T v) { return v; }

template <class W, class E> W join(const E* parts, int n) {
  if constexpr (std::is_same_v<W, U128>) {
    uint64_t half[2] = {0, 0};
    const int per = n / 2;
    for (int k = 0; k < n; k++) half[k / per] |= uint64_t(parts[k]) << (8 * sizeof(E) * (k % per) & 63);
    return {half[0], half[1]};
  } else {
    uint64_t v = 0;
    for (int k = 0; k < n; k++) v |= uint64_t(parts[k]) << (8 * sizeof(E) * k);
    return W(v);
  }
}
template <class E, class W> E part(W v, int k) {
  if constexpr (std::is_same_v<W, U128>) {
    const int per = 8 / sizeof(E);
    return E((k / per ? v.hi : v.lo) >> (8 * sizeof(E) * (k % per) & 63));
  } else {
    return E(uint64_t(v) >> (8 * sizeof(E) * k));
  }
}

template <class W, class E, int N>
void pack(const Form&, void* const* d, const void* const* s, uint32_t mask) {
  void* const to = d[0];
  if (!to) return;
  const void* from[N];
  for (int k = 0; k < N; k++) from[k] = s[k];
  for_lanes(mask, [&](int i) {
    E parts[N];
    for (int k = 0; k < N; k++) parts[k] = get<E>(from[k], i);
    put(to, i, join<W>(parts, N));
  });
}
// The source is read before any destination is written: one of them may be the same register.
template <class W, class E, int N>
void unpack(const Form&, void* const* d, const void* const* s, uint32_t mask) {
  W from[32];
  for_lanes(mask, [&](int i) { from[i] = get<W>(s[0], i); });
  for (int k = 0; k < N; k++)
    if (void* const to = d[k]) for_lanes(mask, [&](int i) { put(to, i, part<E>(from[i], k)); });
}

template <class W, class E, int N>
PureFn either(bool packing) { return packing ? &pack<W, E, N> : &unpack<W, E, N>; }

}  // namespace

PureFn find_move(const Form& f, Arity n) {
  const int bits = isa::bits_of(f.type());
  const bool packing = n.sources > 1;
  const int parts = packing ? n.sources : n.dests;
  if (f.type() == Type::pred) return warp<&copy<bool>>;
  if (parts <= 1) {
    switch (bits) {
      case 8: return warp<&copy<uint8_t>>;
      case 16: return warp<&copy<uint16_t>>;
      case 32: return warp<&copy<uint32_t>>;
      case 64: return warp<&copy<uint64_t>>;
      case 128: return warp<&copy<U128>>;
      default: return nullptr;
    }
  }
  switch (bits * 16 + parts) {
    case 16 * 16 + 2: return either<uint16_t, uint8_t, 2>(packing);
    case 32 * 16 + 2: return either<uint32_t, uint16_t, 2>(packing);
    case 32 * 16 + 4: return either<uint32_t, uint8_t, 4>(packing);
    case 64 * 16 + 2: return either<uint64_t, uint32_t, 2>(packing);
    case 64 * 16 + 4: return either<uint64_t, uint16_t, 4>(packing);
    case 128 * 16 + 2: return either<U128, uint64_t, 2>(packing);
    case 128 * 16 + 4: return either<U128, uint32_t, 4>(packing);
    default: return nullptr;
  }
}

}  // namespace orrery::sem
