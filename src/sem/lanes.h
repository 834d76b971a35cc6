// sem/lanes.h: from the meaning of one lane to a loop over the lanes of a warp.
//
// A meaning is a plain inline function on C++ scalars, such as `uint32_t add(uint32_t, uint32_t)`. Warp<&add> is the
// PureFn that applies it to 32 lanes; the argument and result types say how each operand lies in the frame:
//
//   bool        one bit of a uint32_t mask            U128     low halves [0,32), high halves [32,64)
//   8 bytes     uint64_t[32]                          others   uint32_t[32], low bits, zero-extended when written
//   Two<A, B>   (result only) two destinations
//
// Invariant: lane i of a destination depends only on lane i of the sources, so source and destination may be the
// same array, and the full-mask loop may be vectorised without alias checks.
#pragma once
#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sem/pure.h"

namespace orrery::sem {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Type;

struct U128 {
  uint64_t lo, hi;
};
template <class A, class B>
struct Two {
  A a;
  B b;
};

template <class T>
inline T get(const void* p, int i) {
  if constexpr (std::is_same_v<T, bool>) {
    return *static_cast<const uint32_t*>(p) >> i & 1;
  } else if constexpr (std::is_same_v<T, U128>) {
    const uint64_t* q = static_cast<const uint64_t*>(p);
    return {q[i], q[32 + i]};
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(static_cast<const uint64_t*>(p)[i]);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<const uint32_t*>(p)[i]);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(uint16_t(static_cast<const uint32_t*>(p)[i]));
  } else {
    return std::bit_cast<T>(uint8_t(static_cast<const uint32_t*>(p)[i]));
  }
}

template <class T>
inline void put(void* p, int i, T v) {
  if constexpr (std::is_same_v<T, U128>) {
    uint64_t* q = static_cast<uint64_t*>(p);
    q[i] = v.lo;
    q[32 + i] = v.hi;
  } else if constexpr (std::is_same_v<T, bool>) {
    uint32_t* q = static_cast<uint32_t*>(p);
    *q = (*q & ~(1u << i)) | uint32_t(v) << i;
  } else if constexpr (sizeof(T) == 8) {
    static_cast<uint64_t*>(p)[i] = std::bit_cast<uint64_t>(v);
  } else if constexpr (sizeof(T) == 4) {
    static_cast<uint32_t*>(p)[i] = std::bit_cast<uint32_t>(v);
  } else if constexpr (sizeof(T) == 2) {
    static_cast<uint32_t*>(p)[i] = std::bit_cast<uint16_t>(v);
  } else {
    static_cast<uint32_t*>(p)[i] = std::bit_cast<uint8_t>(v);
  }
}

/// Calls f(lane) for every lane of `mask`; the full warp is a loop that compilers vectorise.
template <class F>
inline void for_lanes(uint32_t mask, F f) {
  if (mask == ~0u) {
#pragma GCC ivdep
    for (int i = 0; i < 32; i++) f(i);
  } else {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
  }
}

template <auto F>
struct Warp;

template <class R, class... A, R (*F)(A...)>
struct Warp<F> {
  static void run(const Form&, void* const* d, const void* const* s, uint32_t mask) {
    loop(d, s, mask, std::index_sequence_for<A...>{});
  }

 private:
  template <size_t... I>
  static void loop(void* const* d, const void* const* s, uint32_t mask, std::index_sequence<I...>) {
    [[maybe_unused]] const void* const from[sizeof...(A) + 1] = {s[I]...};
    if constexpr (requires(R r) { r.a; r.b; }) {
      void *to = d[0], *too = d[1];
      uint64_t sink[32];
      if (!to) to = sink;
      if (!too) too = sink;
      for (uint32_t m = mask; m; m &= m - 1) {
        int i = std::countr_zero(m);
        R r = F(get<A>(from[I], i)...);
        put(to, i, r.a);
        put(too, i, r.b);
      }
    } else if constexpr (std::is_same_v<R, bool>) {
      if (!d[0]) return;
      uint32_t bits = 0;
      for_lanes(mask, [&](int i) { bits |= uint32_t(F(get<A>(from[I], i)...)) << i; });
      uint32_t* to = static_cast<uint32_t*>(d[0]);
      *to = (*to & ~mask) | bits;
    } else {
      if (!d[0]) return;
      void* const to = d[0];
      for_lanes(mask, [&](int i) { put<R>(to, i, F(get<A>(from[I], i)...)); });
    }
  }
};

/// A PureFn from a meaning.
template <auto F>
constexpr PureFn warp = &Warp<F>::run;

/// Host rounding as PTX's .rn/.rz/.rm/.rp for the lifetime of the object.
class HostRounding {
 public:
  explicit HostRounding(unsigned mode) : saved_(_mm_getcsr()) {
    _mm_setcsr((saved_ & ~_MM_ROUND_MASK) | mode);
    asm volatile("" ::: "memory");
  }
  ~HostRounding() {
    asm volatile("" ::: "memory");
    _mm_setcsr(saved_);
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  unsigned saved_;
};

inline unsigned host_rounding(const Form& f) {
  return f.has(Mod::rz) ? _MM_ROUND_TOWARD_ZERO : f.has(Mod::rm) ? _MM_ROUND_DOWN : f.has(Mod::rp) ? _MM_ROUND_UP : _MM_ROUND_NEAREST;
}

/// The same loop under the form's rounding mode: values pass through memory, so nothing moves across the change.
template <auto F>
void rounded_warp(const Form& form, void* const* d, const void* const* s, uint32_t mask) {
  HostRounding scope(host_rounding(form));
  Warp<F>::run(form, d, s, mask);
}
/// Chooses the plain loop for nearest-even and the other one for the directed modes.
template <auto F>
PureFn rounding_warp(const Form& form) {
  return host_rounding(form) == _MM_ROUND_NEAREST ? warp<F> : &rounded_warp<F>;
}

/// Applies a meaning on 16-bit halves to both halves of 32-bit registers; two predicates for a bool result.
template <auto F>
struct Halves;
template <class R, class... A, R (*F)(A...)>
struct Halves<F> {
  template <class T>
  using Reg = std::conditional_t<std::is_same_v<T, bool>, bool, uint32_t>;
  template <class T>
  static T half(Reg<T> v, int h) {
    if constexpr (std::is_same_v<T, bool>) return v;
    else return std::bit_cast<T>(uint16_t(v >> (16 * h)));
  }
  static uint32_t packed(Reg<A>... a) {
    return uint32_t(std::bit_cast<uint16_t>(F(half<A>(a, 0)...))) | uint32_t(std::bit_cast<uint16_t>(F(half<A>(a, 1)...))) << 16;
  }
  static Two<bool, bool> predicates(Reg<A>... a) { return {F(half<A>(a, 0)...), F(half<A>(a, 1)...)}; }
};

// Picks the instantiation for a type: f.template operator()<T>() for the C++ type of `t`, null for other types.
template <class F>
PureFn for_integer(Type t, F f) {
  switch (t) {
    case Type::u16: case Type::b16: return f.template operator()<uint16_t>();
    case Type::s16: return f.template operator()<int16_t>();
    case Type::u32: case Type::b32: return f.template operator()<uint32_t>();
    case Type::s32: return f.template operator()<int32_t>();
    case Type::u64: case Type::b64: return f.template operator()<uint64_t>();
    case Type::s64: return f.template operator()<int64_t>();
    default: return nullptr;
  }
}

inline bool packed16(Type t) { return t == Type::u16x2 || t == Type::s16x2; }

/// `b` as a template argument: f(std::true_type) or f(std::false_type).
template <class F>
auto with_bool(bool b, F f) {
  return b ? f(std::true_type{}) : f(std::false_type{});
}

}  // namespace orrery::sem
