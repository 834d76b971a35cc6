// SIMD in a 32-bit word (2 x 16 and 4 x 8 bits), and the DPX functions (fused add, min, max, relu).
//
// Everything is written over the elements of the word; the compiler sees through the loops. `ss` saturates signed, `us`
// unsigned; comparisons give all ones (cmp) or one (set) per element.
// Source: CUDA Math API reference, "SIMD Intrinsics"; CUDA C++ Programming Guide, "DPX".
#ifndef ORRERY_CC_SIMD_H
#define ORRERY_CC_SIMD_H
namespace orrery_cc {
template <int Bits> struct Element;
template <> struct Element<8> { typedef signed char s; typedef unsigned char u; };
template <> struct Element<16> { typedef short s; typedef unsigned short u; };

template <int Bits> ORRERY_HD int take_s(unsigned w, int i) { return (typename Element<Bits>::s)(w >> (i * Bits)); }
template <int Bits> ORRERY_HD int take_u(unsigned w, int i) { return (typename Element<Bits>::u)(w >> (i * Bits)); }
template <int Bits> ORRERY_HD unsigned place(int v, int i) {
  return ((unsigned)v & (Bits == 8 ? 0xffu : 0xffffu)) << (i * Bits);
}
template <int Bits> ORRERY_HD int saturate_s(int v) {
  int top = Bits == 8 ? 127 : 32767;
  return v > top ? top : v < -top - 1 ? -top - 1 : v;
}
template <int Bits> ORRERY_HD int saturate_u(int v) {
  int top = Bits == 8 ? 255 : 65535;
  return v > top ? top : v < 0 ? 0 : v;
}
ORRERY_HD int magnitude(int v) { return v < 0 ? -v : v; }
}  // namespace orrery_cc

// One function in both widths: A and B are the elements, `take` how they are read, e the result's element.
#define ORRERY_SIMD1(N, take, e)                                                        \
  template <int Bits> ORRERY_DEV unsigned orrery_##N(unsigned a) {                      \
    unsigned r = 0;                                                                     \
    for (int i = 0; i < 32 / Bits; i++) {                                               \
      int A = orrery_cc::take<Bits>(a, i);                                              \
      r |= orrery_cc::place<Bits>(e, i);                                                \
    }                                                                                   \
    return r;                                                                           \
  }                                                                                     \
  ORRERY_DEV unsigned __##N##2(unsigned a) { return orrery_##N<16>(a); }                \
  ORRERY_DEV unsigned __##N##4(unsigned a) { return orrery_##N<8>(a); }
#define ORRERY_SIMD2(N, take, e)                                                        \
  template <int Bits> ORRERY_DEV unsigned orrery_##N(unsigned a, unsigned b) {          \
    unsigned r = 0;                                                                     \
    for (int i = 0; i < 32 / Bits; i++) {                                               \
      int A = orrery_cc::take<Bits>(a, i), B = orrery_cc::take<Bits>(b, i);             \
      r |= orrery_cc::place<Bits>(e, i);                                                \
    }                                                                                   \
    return r;                                                                           \
  }                                                                                     \
  ORRERY_DEV unsigned __##N##2(unsigned a, unsigned b) { return orrery_##N<16>(a, b); } \
  ORRERY_DEV unsigned __##N##4(unsigned a, unsigned b) { return orrery_##N<8>(a, b); }
#define ORRERY_SIMD_SUM(N, take)                                                        \
  template <int Bits> ORRERY_DEV unsigned orrery_##N(unsigned a, unsigned b) {          \
    unsigned r = 0;                                                                     \
    for (int i = 0; i < 32 / Bits; i++)                                                 \
      r += orrery_cc::magnitude(orrery_cc::take<Bits>(a, i) - orrery_cc::take<Bits>(b, i)); \
    return r;                                                                           \
  }                                                                                     \
  ORRERY_DEV unsigned __##N##2(unsigned a, unsigned b) { return orrery_##N<16>(a, b); } \
  ORRERY_DEV unsigned __##N##4(unsigned a, unsigned b) { return orrery_##N<8>(a, b); }

ORRERY_SIMD1(vabs, take_s, orrery_cc::magnitude(A))
ORRERY_SIMD1(vabsss, take_s, orrery_cc::saturate_s<Bits>(orrery_cc::magnitude(A)))
ORRERY_SIMD1(vneg, take_s, -A)
ORRERY_SIMD1(vnegss, take_s, orrery_cc::saturate_s<Bits>(-A))
ORRERY_SIMD2(vadd, take_s, A + B)
ORRERY_SIMD2(vsub, take_s, A - B)
ORRERY_SIMD2(vaddss, take_s, orrery_cc::saturate_s<Bits>(A + B))
ORRERY_SIMD2(vsubss, take_s, orrery_cc::saturate_s<Bits>(A - B))
ORRERY_SIMD2(vaddus, take_u, orrery_cc::saturate_u<Bits>(A + B))
ORRERY_SIMD2(vsubus, take_u, orrery_cc::saturate_u<Bits>(A - B))
ORRERY_SIMD2(vabsdiffs, take_s, orrery_cc::magnitude(A - B))
ORRERY_SIMD2(vabsdiffu, take_u, orrery_cc::magnitude(A - B))
ORRERY_SIMD2(vavgs, take_s, (A + B + (A + B >= 0)) >> 1)
ORRERY_SIMD2(vavgu, take_u, (A + B + 1) >> 1)
ORRERY_SIMD2(vhaddu, take_u, (A + B) >> 1)
ORRERY_SIMD2(vmaxs, take_s, A > B ? A : B)
ORRERY_SIMD2(vmaxu, take_u, A > B ? A : B)
ORRERY_SIMD2(vmins, take_s, A < B ? A : B)
ORRERY_SIMD2(vminu, take_u, A < B ? A : B)
ORRERY_SIMD_SUM(vsads, take_s)
ORRERY_SIMD_SUM(vsadu, take_u)
#define ORRERY_SIMD_COMPARE(N, take, op)     \
  ORRERY_SIMD2(vcmp##N, take, A op B ? -1 : 0) \
  ORRERY_SIMD2(vset##N, take, A op B)
ORRERY_SIMD_COMPARE(eq, take_u, ==)
ORRERY_SIMD_COMPARE(ne, take_u, !=)
ORRERY_SIMD_COMPARE(ges, take_s, >=)
ORRERY_SIMD_COMPARE(gts, take_s, >)
ORRERY_SIMD_COMPARE(les, take_s, <=)
ORRERY_SIMD_COMPARE(lts, take_s, <)
ORRERY_SIMD_COMPARE(geu, take_u, >=)
ORRERY_SIMD_COMPARE(gtu, take_u, >)
ORRERY_SIMD_COMPARE(leu, take_u, <=)
ORRERY_SIMD_COMPARE(ltu, take_u, <)
#undef ORRERY_SIMD_COMPARE
#undef ORRERY_SIMD_SUM
#undef ORRERY_SIMD1
#undef ORRERY_SIMD2

// ---- DPX -----------------------------------------------------------------------------------------------------
#define ORRERY_DPX static __host__ __device__ __inline__
namespace orrery_cc {
ORRERY_HD int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
ORRERY_HD int larger(int a, int b) { return a > b ? a : b; }
ORRERY_HD int smaller(int a, int b) { return a < b ? a : b; }
ORRERY_HD unsigned larger_u(unsigned a, unsigned b) { return a > b ? a : b; }
ORRERY_HD unsigned smaller_u(unsigned a, unsigned b) { return a < b ? a : b; }
}  // namespace orrery_cc
#define ORRERY_DPX_S32(N, pick)                                                                                    \
  ORRERY_DPX int __viadd##N##_s32(int a, int b, int c) { return orrery_cc::pick(orrery_cc::wrap_add(a, b), c); }   \
  ORRERY_DPX unsigned __viadd##N##_u32(unsigned a, unsigned b, unsigned c) { return orrery_cc::pick##_u(a + b, c); } \
  ORRERY_DPX int __viadd##N##_s32_relu(int a, int b, int c) {                                                      \
    return orrery_cc::larger(orrery_cc::pick(orrery_cc::wrap_add(a, b), c), 0);                                    \
  }                                                                                                                \
  ORRERY_DPX int __vi##N##3_s32(int a, int b, int c) { return orrery_cc::pick(orrery_cc::pick(a, b), c); }         \
  ORRERY_DPX unsigned __vi##N##3_u32(unsigned a, unsigned b, unsigned c) {                                         \
    return orrery_cc::pick##_u(orrery_cc::pick##_u(a, b), c);                                                      \
  }                                                                                                                \
  ORRERY_DPX int __vi##N##3_s32_relu(int a, int b, int c) { return orrery_cc::larger(__vi##N##3_s32(a, b, c), 0); } \
  ORRERY_DPX int __vi##N##_s32_relu(int a, int b) { return orrery_cc::larger(orrery_cc::pick(a, b), 0); }
ORRERY_DPX_S32(max, larger)
ORRERY_DPX_S32(min, smaller)
#undef ORRERY_DPX_S32
ORRERY_DPX int __vimax_s32(int a, int b) { return orrery_cc::larger(a, b); }
ORRERY_DPX int __vimin_s32(int a, int b) { return orrery_cc::smaller(a, b); }
#define ORRERY_DPX_PICK(N, T, op)                                       \
  ORRERY_DPX T __vib##N(T a, T b, bool* pred) {                         \
    *pred = a op b;                                                     \
    return *pred ? a : b;                                               \
  }
ORRERY_DPX_PICK(max_s32, int, >=)
ORRERY_DPX_PICK(min_s32, int, <=)
ORRERY_DPX_PICK(max_u32, unsigned, >=)
ORRERY_DPX_PICK(min_u32, unsigned, <=)
#undef ORRERY_DPX_PICK

// Two 16-bit elements in a word.
#define ORRERY_PAIRS(F, take, PARAMS, e)                                                         \
  ORRERY_DPX unsigned F PARAMS {                                                                 \
    unsigned r = 0;                                                                              \
    for (int i = 0; i < 2; i++) r |= orrery_cc::place<16>(e, i);                                 \
    return r;                                                                                    \
  }
#define ORRERY_S(v) orrery_cc::take_s<16>(v, i)
#define ORRERY_U(v) orrery_cc::take_u<16>(v, i)
#define ORRERY_3 (unsigned a, unsigned b, unsigned c)
#define ORRERY_2 (unsigned a, unsigned b)
#define ORRERY_DPX_16(N, pick)                                                                                            \
  ORRERY_PAIRS(__viadd##N##_s16x2, , ORRERY_3, orrery_cc::pick((short)(ORRERY_S(a) + ORRERY_S(b)), ORRERY_S(c)))          \
  ORRERY_PAIRS(__viadd##N##_u16x2, , ORRERY_3, orrery_cc::pick((unsigned short)(ORRERY_U(a) + ORRERY_U(b)), ORRERY_U(c))) \
  ORRERY_PAIRS(__viadd##N##_s16x2_relu, , ORRERY_3,                                                                       \
               orrery_cc::larger(orrery_cc::pick((short)(ORRERY_S(a) + ORRERY_S(b)), ORRERY_S(c)), 0))                    \
  ORRERY_PAIRS(__vi##N##3_s16x2, , ORRERY_3, orrery_cc::pick(orrery_cc::pick(ORRERY_S(a), ORRERY_S(b)), ORRERY_S(c)))     \
  ORRERY_PAIRS(__vi##N##3_u16x2, , ORRERY_3, orrery_cc::pick(orrery_cc::pick(ORRERY_U(a), ORRERY_U(b)), ORRERY_U(c)))     \
  ORRERY_PAIRS(__vi##N##3_s16x2_relu, , ORRERY_3,                                                                         \
               orrery_cc::larger(orrery_cc::pick(orrery_cc::pick(ORRERY_S(a), ORRERY_S(b)), ORRERY_S(c)), 0))             \
  ORRERY_PAIRS(__vi##N##_s16x2_relu, , ORRERY_2, orrery_cc::larger(orrery_cc::pick(ORRERY_S(a), ORRERY_S(b)), 0))
ORRERY_DPX_16(max, larger)
ORRERY_DPX_16(min, smaller)
#undef ORRERY_DPX_16
#define ORRERY_DPX_PICK16(N, take, op)                                                          \
  ORRERY_DPX unsigned __vib##N(unsigned a, unsigned b, bool* high, bool* low) {                 \
    bool p[2];                                                                                  \
    unsigned r = 0;                                                                             \
    for (int i = 0; i < 2; i++) {                                                               \
      p[i] = take(a) op take(b);                                                                \
      r |= orrery_cc::place<16>(p[i] ? take(a) : take(b), i);                                   \
    }                                                                                           \
    *low = p[0];                                                                                \
    *high = p[1];                                                                               \
    return r;                                                                                   \
  }
ORRERY_DPX_PICK16(max_s16x2, ORRERY_S, >=)
ORRERY_DPX_PICK16(min_s16x2, ORRERY_S, <=)
ORRERY_DPX_PICK16(max_u16x2, ORRERY_U, >=)
ORRERY_DPX_PICK16(min_u16x2, ORRERY_U, <=)
#undef ORRERY_DPX_PICK16
#undef ORRERY_PAIRS
#undef ORRERY_S
#undef ORRERY_U
#undef ORRERY_2
#undef ORRERY_3
#undef ORRERY_DPX
#endif
