// atomicAdd and its kin in device, block and system scope.
//
// Integer and float forms use clang's atomic built-ins, so that the compiler can infer the address space; what they
// lack (128-bit, half precision, signed 64-bit forms) is inline PTX. All are relaxed, as in CUDA.
// Source: CUDA C++ Programming Guide, "Atomic Functions"; PTX ISA, atom.
#ifndef ORRERY_CC_ATOMICS_H
#define ORRERY_CC_ATOMICS_H

// Suffix of the CUDA name, scope part of the built-in's name, scope of PTX.
#define ORRERY_SCOPES(X) X(, , gpu) X(_block, cta_, cta) X(_system, sys_, sys)

#define ORRERY_ATOMIC(CUDA, T, B, BT)                                                                   \
  ORRERY_DEV T CUDA(T* p, T v) { return __builtin_bit_cast(T, B((BT*)p, __builtin_bit_cast(BT, v))); }

#define ORRERY_ATOMICS_OF(S, B, P)                                                          \
  ORRERY_ATOMIC(atomicAdd##S, int, __nvvm_atom_##B##add_gen_i, int)                         \
  ORRERY_ATOMIC(atomicAdd##S, unsigned, __nvvm_atom_##B##add_gen_i, int)                    \
  ORRERY_ATOMIC(atomicAdd##S, unsigned long long, __nvvm_atom_##B##add_gen_ll, long long)   \
  ORRERY_ATOMIC(atomicAdd##S, float, __nvvm_atom_##B##add_gen_f, float)                     \
  ORRERY_ATOMIC(atomicAdd##S, double, __nvvm_atom_##B##add_gen_d, double)                   \
  ORRERY_DEV int atomicSub##S(int* p, int v) { return __nvvm_atom_##B##add_gen_i(p, -v); }  \
  ORRERY_DEV unsigned atomicSub##S(unsigned* p, unsigned v) {                               \
    return (unsigned)__nvvm_atom_##B##add_gen_i((int*)p, (int)(0u - v));                    \
  }                                                                                         \
  ORRERY_ATOMIC(atomicExch##S, int, __nvvm_atom_##B##xchg_gen_i, int)                       \
  ORRERY_ATOMIC(atomicExch##S, unsigned, __nvvm_atom_##B##xchg_gen_i, int)                  \
  ORRERY_ATOMIC(atomicExch##S, unsigned long long, __nvvm_atom_##B##xchg_gen_ll, long long) \
  ORRERY_ATOMIC(atomicExch##S, float, __nvvm_atom_##B##xchg_gen_i, int)                     \
  ORRERY_ATOMIC(atomicInc##S, unsigned, __nvvm_atom_##B##inc_gen_ui, unsigned)              \
  ORRERY_ATOMIC(atomicDec##S, unsigned, __nvvm_atom_##B##dec_gen_ui, unsigned)              \
  ORRERY_ATOMIC(atomicAnd##S, int, __nvvm_atom_##B##and_gen_i, int)                         \
  ORRERY_ATOMIC(atomicAnd##S, unsigned, __nvvm_atom_##B##and_gen_i, int)                    \
  ORRERY_ATOMIC(atomicAnd##S, long long, __nvvm_atom_##B##and_gen_ll, long long)            \
  ORRERY_ATOMIC(atomicAnd##S, unsigned long long, __nvvm_atom_##B##and_gen_ll, long long)   \
  ORRERY_ATOMIC(atomicOr##S, int, __nvvm_atom_##B##or_gen_i, int)                           \
  ORRERY_ATOMIC(atomicOr##S, unsigned, __nvvm_atom_##B##or_gen_i, int)                      \
  ORRERY_ATOMIC(atomicOr##S, long long, __nvvm_atom_##B##or_gen_ll, long long)              \
  ORRERY_ATOMIC(atomicOr##S, unsigned long long, __nvvm_atom_##B##or_gen_ll, long long)     \
  ORRERY_ATOMIC(atomicXor##S, int, __nvvm_atom_##B##xor_gen_i, int)                         \
  ORRERY_ATOMIC(atomicXor##S, unsigned, __nvvm_atom_##B##xor_gen_i, int)                    \
  ORRERY_ATOMIC(atomicXor##S, long long, __nvvm_atom_##B##xor_gen_ll, long long)            \
  ORRERY_ATOMIC(atomicXor##S, unsigned long long, __nvvm_atom_##B##xor_gen_ll, long long)   \
  ORRERY_DEV int atomicCAS##S(int* p, int c, int v) { return __nvvm_atom_##B##cas_gen_i(p, c, v); }  \
  ORRERY_DEV unsigned atomicCAS##S(unsigned* p, unsigned c, unsigned v) {                            \
    return (unsigned)__nvvm_atom_##B##cas_gen_i((int*)p, (int)c, (int)v);                            \
  }                                                                                                  \
  ORRERY_DEV unsigned long long atomicCAS##S(unsigned long long* p, unsigned long long c, unsigned long long v) { \
    return (unsigned long long)__nvvm_atom_##B##cas_gen_ll((long long*)p, (long long)c, (long long)v);            \
  }                                                                                                  \
  ORRERY_DEV unsigned short atomicCAS##S(unsigned short* p, unsigned short c, unsigned short v) {    \
    unsigned short r;                                                                                \
    asm volatile("atom." #P ".cas.b16 %0, [%1], %2, %3;" : "=h"(r) : "l"(p), "h"(c), "h"(v) : "memory"); \
    return r;                                                                                        \
  }                                                                                                  \
  template <class T> ORRERY_DEV T orrery_atomic_cas128##S(T* p, T c, T v) {                          \
    ulonglong2 a = __builtin_bit_cast(ulonglong2, c), b = __builtin_bit_cast(ulonglong2, v), r;      \
    asm volatile("{ .reg .b128 c, v, r; mov.b128 c, {%3, %4}; mov.b128 v, {%5, %6};\n\t"             \
                 "atom." #P ".cas.b128 r, [%2], c, v; mov.b128 {%0, %1}, r; }"                       \
                 : "=l"(r.x), "=l"(r.y) : "l"(p), "l"(a.x), "l"(a.y), "l"(b.x), "l"(b.y) : "memory"); \
    return __builtin_bit_cast(T, r);                                                                 \
  }                                                                                                  \
  template <class T> ORRERY_DEV T orrery_atomic_exch128##S(T* p, T v) {                              \
    ulonglong2 b = __builtin_bit_cast(ulonglong2, v), r;                                             \
    asm volatile("{ .reg .b128 v, r; mov.b128 v, {%3, %4};\n\t"                                      \
                 "atom." #P ".exch.b128 r, [%2], v; mov.b128 {%0, %1}, r; }"                         \
                 : "=l"(r.x), "=l"(r.y) : "l"(p), "l"(b.x), "l"(b.y) : "memory");                    \
    return __builtin_bit_cast(T, r);                                                                 \
  }                                                                                                  \
  template <class T, __SIZE_TYPE__ N = sizeof(T), class = char[N == 16 ? 1 : -1]>                    \
  ORRERY_DEV T atomicCAS##S(T* p, T c, T v) { return orrery_atomic_cas128##S(p, c, v); }             \
  template <class T, __SIZE_TYPE__ N = sizeof(T), class = char[N == 16 ? 1 : -1]>                    \
  ORRERY_DEV T atomicExch##S(T* p, T v) { return orrery_atomic_exch128##S(p, v); }
ORRERY_SCOPES(ORRERY_ATOMICS_OF)

// Minimum and maximum: in device scope the built-ins are right; in the other scopes clang 19 emits the signed
// instruction for unsigned operands, so those are asm.
ORRERY_ATOMIC(atomicMin, int, __nvvm_atom_min_gen_i, int)
ORRERY_ATOMIC(atomicMin, unsigned, __nvvm_atom_min_gen_ui, unsigned)
ORRERY_ATOMIC(atomicMin, long long, __nvvm_atom_min_gen_ll, long long)
ORRERY_ATOMIC(atomicMin, unsigned long long, __nvvm_atom_min_gen_ull, unsigned long long)
ORRERY_ATOMIC(atomicMax, int, __nvvm_atom_max_gen_i, int)
ORRERY_ATOMIC(atomicMax, unsigned, __nvvm_atom_max_gen_ui, unsigned)
ORRERY_ATOMIC(atomicMax, long long, __nvvm_atom_max_gen_ll, long long)
ORRERY_ATOMIC(atomicMax, unsigned long long, __nvvm_atom_max_gen_ull, unsigned long long)
#define ORRERY_EXTREME(F, T, op, c)                                                                      \
  ORRERY_DEV T F(T* p, T v) {                                                                            \
    T r;                                                                                                 \
    asm volatile("atom." op " %0, [%1], %2;" : "=" c(r) : "l"(p), c(v) : "memory");                      \
    return r;                                                                                            \
  }
#define ORRERY_EXTREMES(S, P)                                                           \
  ORRERY_EXTREME(atomicMin##S, int, #P ".min.s32", "r")                                 \
  ORRERY_EXTREME(atomicMin##S, unsigned, #P ".min.u32", "r")                            \
  ORRERY_EXTREME(atomicMin##S, long long, #P ".min.s64", "l")                           \
  ORRERY_EXTREME(atomicMin##S, unsigned long long, #P ".min.u64", "l")                  \
  ORRERY_EXTREME(atomicMax##S, int, #P ".max.s32", "r")                                 \
  ORRERY_EXTREME(atomicMax##S, unsigned, #P ".max.u32", "r")                            \
  ORRERY_EXTREME(atomicMax##S, long long, #P ".max.s64", "l")                           \
  ORRERY_EXTREME(atomicMax##S, unsigned long long, #P ".max.u64", "l")
ORRERY_EXTREMES(_block, cta)
ORRERY_EXTREMES(_system, sys)
#undef ORRERY_EXTREME
#undef ORRERY_EXTREMES
#define ORRERY_VECTOR_ADD(S, B, P)                                                                        \
  ORRERY_DEV float2 atomicAdd##S(float2* p, float2 v) {                                                   \
    float2 r;                                                                                             \
    asm volatile("atom.global." #P ".add.v2.f32 {%0, %1}, [%2], {%3, %4};"                                \
                 : "=f"(r.x), "=f"(r.y) : "l"(p), "f"(v.x), "f"(v.y) : "memory");                         \
    return r;                                                                                             \
  }                                                                                                       \
  ORRERY_DEV float4 atomicAdd##S(float4* p, float4 v) {                                                   \
    float4 r;                                                                                             \
    asm volatile("atom.global." #P ".add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};"                \
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)                                             \
                 : "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");                            \
    return r;                                                                                             \
  }
ORRERY_SCOPES(ORRERY_VECTOR_ADD)
#undef ORRERY_VECTOR_ADD
#undef ORRERY_ATOMICS_OF
#undef ORRERY_ATOMIC

// ---- warp reductions -----------------------------------------------------------------------------------------
#define ORRERY_REDUCE(N, T, builtin) \
  ORRERY_DEV T __reduce_##N##_sync(unsigned mask, T v) { return (T)__nvvm_redux_sync_##builtin((int)v, (int)mask); }
ORRERY_REDUCE(add, int, add)
ORRERY_REDUCE(add, unsigned, add)
ORRERY_REDUCE(min, int, min)
ORRERY_REDUCE(min, unsigned, umin)
ORRERY_REDUCE(max, int, max)
ORRERY_REDUCE(max, unsigned, umax)
ORRERY_REDUCE(and, unsigned, and)
ORRERY_REDUCE(or, unsigned, or)
ORRERY_REDUCE(xor, unsigned, xor)
#undef ORRERY_REDUCE
#endif
