// Loads and stores with cache hints, and the read-only load of types that clang's __ldg does not cover.
// Source: CUDA C++ Programming Guide, "Load Functions Using Cache Hints".
#ifndef ORRERY_CC_MEMORY_H
#define ORRERY_CC_MEMORY_H

// Every type is moved as the unsigned vector of its size; X(type, words, word type).
namespace orrery_cc {
template <__SIZE_TYPE__ N> struct Bits;
#define ORRERY_CACHED_LOAD(F, op)                                                                              \
  ORRERY_DEV void F(uchar1& v, const void* p) {                                                                \
    unsigned short r;                                                                                          \
    asm volatile("ld.global." op ".u8 %0, [%1];" : "=h"(r) : "l"(p) : "memory");                               \
    v.x = (unsigned char)r;                                                                                    \
  }                                                                                                            \
  ORRERY_DEV void F(ushort1& v, const void* p) {                                                               \
    asm volatile("ld.global." op ".u16 %0, [%1];" : "=h"(v.x) : "l"(p) : "memory");                            \
  }                                                                                                            \
  ORRERY_DEV void F(uint1& v, const void* p) {                                                                 \
    asm volatile("ld.global." op ".u32 %0, [%1];" : "=r"(v.x) : "l"(p) : "memory");                            \
  }                                                                                                            \
  ORRERY_DEV void F(ulonglong1& v, const void* p) {                                                            \
    asm volatile("ld.global." op ".u64 %0, [%1];" : "=l"(v.x) : "l"(p) : "memory");                            \
  }                                                                                                            \
  ORRERY_DEV void F(ulonglong2& v, const void* p) {                                                            \
    asm volatile("ld.global." op ".v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");        \
  }
#define ORRERY_CACHED_STORE(F, op)                                                                             \
  ORRERY_DEV void F(uchar1 v, void* p) {                                                                       \
    asm volatile("st.global." op ".u8 [%1], %0;" ::"h"((unsigned short)v.x), "l"(p) : "memory");               \
  }                                                                                                            \
  ORRERY_DEV void F(ushort1 v, void* p) {                                                                      \
    asm volatile("st.global." op ".u16 [%1], %0;" ::"h"(v.x), "l"(p) : "memory");                              \
  }                                                                                                            \
  ORRERY_DEV void F(uint1 v, void* p) {                                                                        \
    asm volatile("st.global." op ".u32 [%1], %0;" ::"r"(v.x), "l"(p) : "memory");                              \
  }                                                                                                            \
  ORRERY_DEV void F(ulonglong1 v, void* p) {                                                                   \
    asm volatile("st.global." op ".u64 [%1], %0;" ::"l"(v.x), "l"(p) : "memory");                              \
  }                                                                                                            \
  ORRERY_DEV void F(ulonglong2 v, void* p) {                                                                   \
    asm volatile("st.global." op ".v2.u64 [%2], {%0, %1};" ::"l"(v.x), "l"(v.y), "l"(p) : "memory");           \
  }
template <> struct Bits<1> { typedef uchar1 type; };
template <> struct Bits<2> { typedef ushort1 type; };
template <> struct Bits<4> { typedef uint1 type; };
template <> struct Bits<8> { typedef ulonglong1 type; };
template <> struct Bits<16> { typedef ulonglong2 type; };
}  // namespace orrery_cc

#define ORRERY_LOAD(CUDA, op)                                              \
  namespace orrery_cc { ORRERY_CACHED_LOAD(load_##CUDA, op) }              \
  template <class T> ORRERY_DEV T CUDA(const T* p) {                       \
    typename orrery_cc::Bits<sizeof(T)>::type v;                           \
    orrery_cc::load_##CUDA(v, p);                                          \
    return __builtin_bit_cast(T, v);                                       \
  }
#define ORRERY_STORE(CUDA, op)                                                                      \
  namespace orrery_cc { ORRERY_CACHED_STORE(store_##CUDA, op) }                                     \
  template <class T, class U> ORRERY_DEV void CUDA(T* p, U value) {                                 \
    orrery_cc::store_##CUDA(__builtin_bit_cast(typename orrery_cc::Bits<sizeof(T)>::type, (T)value), p); \
  }
ORRERY_LOAD(__ldcg, "cg")
ORRERY_LOAD(__ldca, "ca")
ORRERY_LOAD(__ldcs, "cs")
ORRERY_LOAD(__ldlu, "lu")
ORRERY_LOAD(__ldcv, "cv")
ORRERY_STORE(__stwb, "wb")
ORRERY_STORE(__stcg, "cg")
ORRERY_STORE(__stcs, "cs")
ORRERY_STORE(__stwt, "wt")
#undef ORRERY_LOAD
#undef ORRERY_STORE
#undef ORRERY_CACHED_LOAD
#undef ORRERY_CACHED_STORE
#endif
