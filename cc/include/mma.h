// nvcuda::wmma: warp-wide matrix fragments on the PTX instructions wmma.load, wmma.mma and wmma.store.
//
//   element          shapes (m n k)                          registers of a, b (by shape), accumulator
//   half             16 16 16, 32 8 16, 8 32 16              8, 8                 8 float or 4 (half pairs)
//   bfloat16         the same                                4 4 / 8 2 / 2 8      8 float
//   (un)signed char  the same                                2 2 / 4 1 / 1 4      8 int
//   precision::tf32  16 16 8                                 4 4                  8 float
//   double           8 8 4                                   1 1                  2
//
// Which element of the matrix a register holds is the hardware's affair; x[] may only be worked on element by element.
// Source: CUDA C++ Programming Guide, "Warp Matrix Functions"; PTX ISA, wmma.
#ifndef ORRERY_CC_MMA_H
#define ORRERY_CC_MMA_H
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifndef __CUDA__
#error "mma.h is for CUDA translation units"
#endif

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

namespace detail {
template <class T> struct Storage { typedef T type; };
template <> struct Storage<precision::tf32> { typedef float type; };
}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment;

#define ORRERY_FRAGMENT(use, M, N, K, T, layout, count)                              \
  template <> struct fragment<use, M, N, K, T, layout> {                             \
    typedef typename detail::Storage<T>::type element_type;                          \
    typedef element_type storage_element_type;                                       \
    static constexpr int num_elements = count, num_storage_elements = count;         \
    element_type x[count];                                                           \
  };
#define ORRERY_FRAGMENTS(M, N, K, T, na, nb)               \
  ORRERY_FRAGMENT(matrix_a, M, N, K, T, row_major, na)     \
  ORRERY_FRAGMENT(matrix_a, M, N, K, T, col_major, na)     \
  ORRERY_FRAGMENT(matrix_b, M, N, K, T, row_major, nb)     \
  ORRERY_FRAGMENT(matrix_b, M, N, K, T, col_major, nb)
#define ORRERY_SHAPES(X) X(16, 16, 16) X(32, 8, 16) X(8, 32, 16)
#define ORRERY_SHAPE(M, N, K)                                 \
  ORRERY_FRAGMENTS(M, N, K, __half, 16, 16)                   \
  ORRERY_FRAGMENTS(M, N, K, __nv_bfloat16, M / 2, N / 2)      \
  ORRERY_FRAGMENTS(M, N, K, signed char, M / 2, N / 2)        \
  ORRERY_FRAGMENTS(M, N, K, unsigned char, M / 2, N / 2)      \
  ORRERY_FRAGMENT(accumulator, M, N, K, float, void, 8)       \
  ORRERY_FRAGMENT(accumulator, M, N, K, __half, void, 8)      \
  ORRERY_FRAGMENT(accumulator, M, N, K, int, void, 8)
ORRERY_SHAPES(ORRERY_SHAPE)
ORRERY_FRAGMENTS(16, 16, 8, precision::tf32, 4, 4)
ORRERY_FRAGMENT(accumulator, 16, 16, 8, float, void, 8)
ORRERY_FRAGMENTS(8, 8, 4, double, 1, 1)
ORRERY_FRAGMENT(accumulator, 8, 8, 4, double, void, 2)
#undef ORRERY_SHAPE
#undef ORRERY_FRAGMENTS
#undef ORRERY_FRAGMENT

template <class F, class T> ORRERY_DEV void fill_fragment(F& f, const T& value) {
  for (int i = 0; i < F::num_elements; i++) f.x[i] = (typename F::element_type)value;
}
ORRERY_DEV float __float_to_tf32(float v) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
}

// Register lists of 1, 2, 4, 8 operands: the text from operand number `first`, and the operands with a constraint.
#define ORRERY_T1(a) "{%" #a "}"
#define ORRERY_T2(a, b) "{%" #a ", %" #b "}"
#define ORRERY_T4(a, b, c, d) "{%" #a ", %" #b ", %" #c ", %" #d "}"
#define ORRERY_T8(a, b, c, d, e, f, g, h) \
  "{%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h "}"
#define ORRERY_L1(c, r) c(r[0])
#define ORRERY_L2(c, r) c(r[0]), c(r[1])
#define ORRERY_L4(c, r) c(r[0]), c(r[1]), c(r[2]), c(r[3])
#define ORRERY_L8(c, r) c(r[0]), c(r[1]), c(r[2]), c(r[3]), c(r[4]), c(r[5]), c(r[6]), c(r[7])

// ---- loads ---------------------------------------------------------------------------------------------------
#define ORRERY_LOAD(use, letter, layout, short_layout, M, N, K, T, ptx, R, c, n, text, p, s)                         \
  ORRERY_DEV void load_matrix_sync(fragment<use, M, N, K, T, layout>& f, const typename detail::Storage<T>::type* m,  \
                                   unsigned stride) {                                                                 \
    R* r = (R*)f.x;                                                                                                   \
    asm volatile("wmma.load." letter ".sync.aligned." short_layout ".m" #M "n" #N "k" #K "." ptx " " text ", [%" #p  \
                 "], %" #s ";"                                                                                        \
                 : ORRERY_L##n("=" c, r) : "l"(m), "r"(stride) : "memory");                                           \
  }
#define ORRERY_LOADS(letter, use, M, N, K, T, ptx, R, c, n, text, p, s)                                \
  ORRERY_LOAD(use, letter, row_major, "row", M, N, K, T, ptx, R, c, n, text, p, s)                     \
  ORRERY_LOAD(use, letter, col_major, "col", M, N, K, T, ptx, R, c, n, text, p, s)
#define ORRERY_X1 1, ORRERY_T1(0), 1, 2
#define ORRERY_X2 2, ORRERY_T2(0, 1), 2, 3
#define ORRERY_X4 4, ORRERY_T4(0, 1, 2, 3), 4, 5
#define ORRERY_X8 8, ORRERY_T8(0, 1, 2, 3, 4, 5, 6, 7), 8, 9
#define ORRERY_EXPAND(m, ...) m(__VA_ARGS__)
#define ORRERY_LOAD_AB(M, N, K, T, ptx, R, c, xa, xb)                               \
  ORRERY_EXPAND(ORRERY_LOADS, "a", matrix_a, M, N, K, T, ptx, R, c, xa)             \
  ORRERY_EXPAND(ORRERY_LOADS, "b", matrix_b, M, N, K, T, ptx, R, c, xb)
ORRERY_LOAD_AB(16, 16, 16, __half, "f16", unsigned, "r", ORRERY_X8, ORRERY_X8)
ORRERY_LOAD_AB(32, 8, 16, __half, "f16", unsigned, "r", ORRERY_X8, ORRERY_X8)
ORRERY_LOAD_AB(8, 32, 16, __half, "f16", unsigned, "r", ORRERY_X8, ORRERY_X8)
ORRERY_LOAD_AB(16, 16, 16, __nv_bfloat16, "bf16", unsigned, "r", ORRERY_X4, ORRERY_X4)
ORRERY_LOAD_AB(32, 8, 16, __nv_bfloat16, "bf16", unsigned, "r", ORRERY_X8, ORRERY_X2)
ORRERY_LOAD_AB(8, 32, 16, __nv_bfloat16, "bf16", unsigned, "r", ORRERY_X2, ORRERY_X8)
ORRERY_LOAD_AB(16, 16, 16, signed char, "s8", unsigned, "r", ORRERY_X2, ORRERY_X2)
ORRERY_LOAD_AB(32, 8, 16, signed char, "s8", unsigned, "r", ORRERY_X4, ORRERY_X1)
ORRERY_LOAD_AB(8, 32, 16, signed char, "s8", unsigned, "r", ORRERY_X1, ORRERY_X4)
ORRERY_LOAD_AB(16, 16, 16, unsigned char, "u8", unsigned, "r", ORRERY_X2, ORRERY_X2)
ORRERY_LOAD_AB(32, 8, 16, unsigned char, "u8", unsigned, "r", ORRERY_X4, ORRERY_X1)
ORRERY_LOAD_AB(8, 32, 16, unsigned char, "u8", unsigned, "r", ORRERY_X1, ORRERY_X4)
ORRERY_LOAD_AB(16, 16, 8, precision::tf32, "tf32", unsigned, "r", ORRERY_X4, ORRERY_X4)
ORRERY_LOAD_AB(8, 8, 4, double, "f64", double, "d", ORRERY_X1, ORRERY_X1)
#undef ORRERY_LOAD_AB
#undef ORRERY_LOADS
#undef ORRERY_LOAD

#define ORRERY_LOAD_C(M, N, K, T, ptx, R, c, n, text, p, s)                                                          \
  ORRERY_DEV void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* m, unsigned stride, layout_t layout) { \
    R* r = (R*)f.x;                                                                                                   \
    if (layout == mem_row_major)                                                                                      \
      asm volatile("wmma.load.c.sync.aligned.row.m" #M "n" #N "k" #K "." ptx " " text ", [%" #p "], %" #s ";"        \
                   : ORRERY_L##n("=" c, r) : "l"(m), "r"(stride) : "memory");                                         \
    else                                                                                                              \
      asm volatile("wmma.load.c.sync.aligned.col.m" #M "n" #N "k" #K "." ptx " " text ", [%" #p "], %" #s ";"        \
                   : ORRERY_L##n("=" c, r) : "l"(m), "r"(stride) : "memory");                                         \
  }
#define ORRERY_STORE_D(M, N, K, T, ptx, R, c, n, text, p, s)                                                         \
  ORRERY_DEV void store_matrix_sync(T* m, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout) { \
    const R* r = (const R*)f.x;                                                                                       \
    if (layout == mem_row_major)                                                                                      \
      asm volatile("wmma.store.d.sync.aligned.row.m" #M "n" #N "k" #K "." ptx " [%" #p "], " text ", %" #s ";"       \
                   ::ORRERY_L##n(c, r), "l"(m), "r"(stride) : "memory");                                              \
    else                                                                                                              \
      asm volatile("wmma.store.d.sync.aligned.col.m" #M "n" #N "k" #K "." ptx " [%" #p "], " text ", %" #s ";"       \
                   ::ORRERY_L##n(c, r), "l"(m), "r"(stride) : "memory");                                              \
  }
#define ORRERY_ACCUMULATOR(M, N, K, T, ptx, R, c, x)                 \
  ORRERY_EXPAND(ORRERY_LOAD_C, M, N, K, T, ptx, R, c, x)             \
  ORRERY_EXPAND(ORRERY_STORE_D, M, N, K, T, ptx, R, c, x)
#define ORRERY_SHAPE(M, N, K)                                              \
  ORRERY_ACCUMULATOR(M, N, K, float, "f32", float, "f", ORRERY_X8)         \
  ORRERY_ACCUMULATOR(M, N, K, __half, "f16", unsigned, "r", ORRERY_X4)     \
  ORRERY_ACCUMULATOR(M, N, K, int, "s32", int, "r", ORRERY_X8)
ORRERY_SHAPES(ORRERY_SHAPE)
#undef ORRERY_SHAPE
ORRERY_ACCUMULATOR(16, 16, 8, float, "f32", float, "f", ORRERY_X8)
ORRERY_ACCUMULATOR(8, 8, 4, double, "f64", double, "d", ORRERY_X2)
#undef ORRERY_ACCUMULATOR
#undef ORRERY_LOAD_C
#undef ORRERY_STORE_D

// ---- products ------------------------------------------------------------------------------------------------
// dn, an, bn: registers; the operand texts follow each other: d, a, b, c.
#define ORRERY_MMA(LA, LB, la, lb, M, N, K, T, CD, types, R, rc, RD, dc, dn, an, bn, texts)                           \
  ORRERY_DEV void mma_sync(fragment<accumulator, M, N, K, CD>& fd, const fragment<matrix_a, M, N, K, T, LA>& fa,      \
                           const fragment<matrix_b, M, N, K, T, LB>& fb, const fragment<accumulator, M, N, K, CD>& fc, \
                           bool = false) {                                                                            \
    RD* d = (RD*)fd.x;                                                                                                \
    const R *a = (const R*)fa.x, *b = (const R*)fb.x;                                                                 \
    const RD* c = (const RD*)fc.x;                                                                                    \
    asm volatile("wmma.mma.sync.aligned." la "." lb ".m" #M "n" #N "k" #K "." types " " texts ";"                     \
                 : ORRERY_L##dn("=" dc, d)                                                                            \
                 : ORRERY_L##an(rc, a), ORRERY_L##bn(rc, b), ORRERY_L##dn(dc, c));                                    \
  }
#define ORRERY_MMAS(...)                                            \
  ORRERY_MMA(row_major, row_major, "row", "row", __VA_ARGS__)       \
  ORRERY_MMA(row_major, col_major, "row", "col", __VA_ARGS__)       \
  ORRERY_MMA(col_major, row_major, "col", "row", __VA_ARGS__)       \
  ORRERY_MMA(col_major, col_major, "col", "col", __VA_ARGS__)
#define ORRERY_D8 ORRERY_T8(0, 1, 2, 3, 4, 5, 6, 7)
#define ORRERY_888 ORRERY_D8 ", " ORRERY_T8(8, 9, 10, 11, 12, 13, 14, 15) ", " ORRERY_T8(16, 17, 18, 19, 20, 21, 22, 23) \
  ", " ORRERY_T8(24, 25, 26, 27, 28, 29, 30, 31)
#define ORRERY_488 ORRERY_T4(0, 1, 2, 3) ", " ORRERY_T8(4, 5, 6, 7, 8, 9, 10, 11) ", "                                \
  ORRERY_T8(12, 13, 14, 15, 16, 17, 18, 19) ", " ORRERY_T4(20, 21, 22, 23)
#define ORRERY_844 ORRERY_D8 ", " ORRERY_T4(8, 9, 10, 11) ", " ORRERY_T4(12, 13, 14, 15) ", " ORRERY_T8(16, 17, 18, 19, 20, 21, 22, 23)
#define ORRERY_882 ORRERY_D8 ", " ORRERY_T8(8, 9, 10, 11, 12, 13, 14, 15) ", " ORRERY_T2(16, 17) ", " ORRERY_T8(18, 19, 20, 21, 22, 23, 24, 25)
#define ORRERY_828 ORRERY_D8 ", " ORRERY_T2(8, 9) ", " ORRERY_T8(10, 11, 12, 13, 14, 15, 16, 17) ", " ORRERY_T8(18, 19, 20, 21, 22, 23, 24, 25)
#define ORRERY_822 ORRERY_D8 ", " ORRERY_T2(8, 9) ", " ORRERY_T2(10, 11) ", " ORRERY_T8(12, 13, 14, 15, 16, 17, 18, 19)
#define ORRERY_841 ORRERY_D8 ", " ORRERY_T4(8, 9, 10, 11) ", " ORRERY_T1(12) ", " ORRERY_T8(13, 14, 15, 16, 17, 18, 19, 20)
#define ORRERY_814 ORRERY_D8 ", " ORRERY_T1(8) ", " ORRERY_T4(9, 10, 11, 12) ", " ORRERY_T8(13, 14, 15, 16, 17, 18, 19, 20)
#define ORRERY_SHAPE(M, N, K)                                                                                     \
  ORRERY_MMAS(M, N, K, __half, float, "f32.f32", unsigned, "r", float, "f", 8, 8, 8, ORRERY_888)                  \
  ORRERY_MMAS(M, N, K, __half, __half, "f16.f16", unsigned, "r", unsigned, "r", 4, 8, 8, ORRERY_488)
ORRERY_SHAPES(ORRERY_SHAPE)
#undef ORRERY_SHAPE
#define ORRERY_BF "f32.bf16.bf16.f32"
ORRERY_MMAS(16, 16, 16, __nv_bfloat16, float, ORRERY_BF, unsigned, "r", float, "f", 8, 4, 4, ORRERY_844)
ORRERY_MMAS(32, 8, 16, __nv_bfloat16, float, ORRERY_BF, unsigned, "r", float, "f", 8, 8, 2, ORRERY_882)
ORRERY_MMAS(8, 32, 16, __nv_bfloat16, float, ORRERY_BF, unsigned, "r", float, "f", 8, 2, 8, ORRERY_828)
ORRERY_MMAS(16, 16, 16, signed char, int, "s32.s8.s8.s32", unsigned, "r", int, "r", 8, 2, 2, ORRERY_822)
ORRERY_MMAS(32, 8, 16, signed char, int, "s32.s8.s8.s32", unsigned, "r", int, "r", 8, 4, 1, ORRERY_841)
ORRERY_MMAS(8, 32, 16, signed char, int, "s32.s8.s8.s32", unsigned, "r", int, "r", 8, 1, 4, ORRERY_814)
ORRERY_MMAS(16, 16, 16, unsigned char, int, "s32.u8.u8.s32", unsigned, "r", int, "r", 8, 2, 2, ORRERY_822)
ORRERY_MMAS(32, 8, 16, unsigned char, int, "s32.u8.u8.s32", unsigned, "r", int, "r", 8, 4, 1, ORRERY_841)
ORRERY_MMAS(8, 32, 16, unsigned char, int, "s32.u8.u8.s32", unsigned, "r", int, "r", 8, 1, 4, ORRERY_814)
ORRERY_MMAS(16, 16, 8, precision::tf32, float, "f32.tf32.tf32.f32", unsigned, "r", float, "f", 8, 4, 4, ORRERY_844)
ORRERY_MMAS(8, 8, 4, double, double, "f64.f64.f64.f64", double, "d", double, "d", 2, 1, 1,
            ORRERY_T2(0, 1) ", " ORRERY_T1(2) ", " ORRERY_T1(3) ", " ORRERY_T2(4, 5))
#undef ORRERY_MMAS
#undef ORRERY_MMA
}  // namespace wmma
}  // namespace nvcuda
#endif
