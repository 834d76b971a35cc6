// Arithmetic, conversion, bit, synchronisation and timing intrinsics of CUDA C++, each one PTX instruction or a few.
//
// Where a function has the same meaning on the host (bit casts, counting) it is host-and-device, as nvcc has it.
// Warp shuffles, votes and matches come from clang's __clang_cuda_intrinsics.h.
// Source: CUDA C++ Programming Guide, "Mathematical Functions" and "C++ Language Extensions"; CUDA Math API.
#ifndef ORRERY_CC_INTRINSICS_H
#define ORRERY_CC_INTRINSICS_H
#define ORRERY_DEV static __device__ __inline__ __attribute__((always_inline))
#define ORRERY_HD static __host__ __device__ __inline__ __attribute__((always_inline))

// ---- rounded arithmetic --------------------------------------------------------------------------------------
#define ORRERY_ROUND(S, R)                                                                                        \
  ORRERY_DEV float __fadd_##S(float a, float b) { return __nvvm_add_##R##_f(a, b); }                              \
  ORRERY_DEV float __fsub_##S(float a, float b) { return __nvvm_add_##R##_f(a, -b); }                             \
  ORRERY_DEV float __fmul_##S(float a, float b) { return __nvvm_mul_##R##_f(a, b); }                              \
  ORRERY_DEV float __fdiv_##S(float a, float b) { return __nvvm_div_##R##_f(a, b); }                              \
  ORRERY_DEV float __fmaf_##S(float a, float b, float c) { return __nvvm_fma_##R##_f(a, b, c); }                  \
  ORRERY_DEV float __fmaf_ieee_##S(float a, float b, float c) { return __nvvm_fma_##R##_f(a, b, c); }             \
  ORRERY_DEV float __frcp_##S(float a) { return __nvvm_rcp_##R##_f(a); }                                          \
  ORRERY_DEV float __fsqrt_##S(float a) { return __nvvm_sqrt_##R##_f(a); }                                        \
  ORRERY_DEV double __dadd_##S(double a, double b) { return __nvvm_add_##R##_d(a, b); }                           \
  ORRERY_DEV double __dsub_##S(double a, double b) { return __nvvm_add_##R##_d(a, -b); }                          \
  ORRERY_DEV double __dmul_##S(double a, double b) { return __nvvm_mul_##R##_d(a, b); }                           \
  ORRERY_DEV double __ddiv_##S(double a, double b) { return __nvvm_div_##R##_d(a, b); }                           \
  ORRERY_DEV double __fma_##S(double a, double b, double c) { return __nvvm_fma_##R##_d(a, b, c); }               \
  ORRERY_DEV double __drcp_##S(double a) { return __nvvm_rcp_##R##_d(a); }                                        \
  ORRERY_DEV double __dsqrt_##S(double a) { return __nvvm_sqrt_##R##_d(a); }                                      \
  ORRERY_DEV float __double2float_##S(double a) { return __nvvm_d2f_##R(a); }
ORRERY_ROUND(rn, rn)
ORRERY_ROUND(rz, rz)
ORRERY_ROUND(ru, rp)
ORRERY_ROUND(rd, rm)
#undef ORRERY_ROUND
// Conversions between integers and floating point are asm: the optimiser takes some of the built-ins for C++ casts, which
// are undefined beyond the integer's range, and drops the rounding mode of others.
#define ORRERY_CONVERT(F, T, tc, U, uc, op)                \
  ORRERY_DEV T F(U a) {                                    \
    T r;                                                   \
    asm(op " %0, %1;" : "=" tc(r) : uc(a));                \
    return r;                                              \
  }
#define ORRERY_CONVERSIONS(S, R)                                                                       \
  ORRERY_CONVERT(__double2int_##S, int, "r", double, "d", "cvt." #R "i.s32.f64")                       \
  ORRERY_CONVERT(__double2uint_##S, unsigned, "r", double, "d", "cvt." #R "i.u32.f64")                 \
  ORRERY_CONVERT(__double2ll_##S, long long, "l", double, "d", "cvt." #R "i.s64.f64")                  \
  ORRERY_CONVERT(__double2ull_##S, unsigned long long, "l", double, "d", "cvt." #R "i.u64.f64")        \
  ORRERY_CONVERT(__float2int_##S, int, "r", float, "f", "cvt." #R "i.s32.f32")                         \
  ORRERY_CONVERT(__float2uint_##S, unsigned, "r", float, "f", "cvt." #R "i.u32.f32")                   \
  ORRERY_CONVERT(__float2ll_##S, long long, "l", float, "f", "cvt." #R "i.s64.f32")                    \
  ORRERY_CONVERT(__float2ull_##S, unsigned long long, "l", float, "f", "cvt." #R "i.u64.f32")          \
  ORRERY_CONVERT(__int2float_##S, float, "f", int, "r", "cvt." #R ".f32.s32")                          \
  ORRERY_CONVERT(__uint2float_##S, float, "f", unsigned, "r", "cvt." #R ".f32.u32")                    \
  ORRERY_CONVERT(__ll2float_##S, float, "f", long long, "l", "cvt." #R ".f32.s64")                     \
  ORRERY_CONVERT(__ull2float_##S, float, "f", unsigned long long, "l", "cvt." #R ".f32.u64")           \
  ORRERY_CONVERT(__ll2double_##S, double, "d", long long, "l", "cvt." #R ".f64.s64")                   \
  ORRERY_CONVERT(__ull2double_##S, double, "d", unsigned long long, "l", "cvt." #R ".f64.u64")
ORRERY_CONVERSIONS(rn, rn)
ORRERY_CONVERSIONS(rz, rz)
ORRERY_CONVERSIONS(ru, rp)
ORRERY_CONVERSIONS(rd, rm)
#undef ORRERY_CONVERSIONS
#undef ORRERY_CONVERT
ORRERY_DEV double __int2double_rn(int a) { return a; }
ORRERY_DEV double __uint2double_rn(unsigned a) { return a; }
ORRERY_DEV float __frsqrt_rn(float a) {
  // rsqrt in double has 0.5 ulp of float to spare everywhere but at exact ties, which cannot occur.
  return (float)(1.0 / __nvvm_sqrt_rn_d((double)a));
}
#define ORRERY_FADD2(S)                                                                                        \
  ORRERY_DEV float2 __fadd2_##S(float2 a, float2 b) { return {__fadd_##S(a.x, b.x), __fadd_##S(a.y, b.y)}; }   \
  ORRERY_DEV float2 __fmul2_##S(float2 a, float2 b) { return {__fmul_##S(a.x, b.x), __fmul_##S(a.y, b.y)}; }   \
  ORRERY_DEV float2 __ffma2_##S(float2 a, float2 b, float2 c) {                                                \
    return {__fmaf_##S(a.x, b.x, c.x), __fmaf_##S(a.y, b.y, c.y)};                                             \
  }
ORRERY_FADD2(rn)
ORRERY_FADD2(rz)
ORRERY_FADD2(ru)
ORRERY_FADD2(rd)
#undef ORRERY_FADD2

// ---- fast approximations: the hardware's own instructions ----------------------------------------------------
#if defined(__CUDA_FTZ) || defined(__CLANG_CUDA_FTZ__)
#define ORRERY_APPROX(op) __nvvm_##op##_approx_ftz_f
#else
#define ORRERY_APPROX(op) __nvvm_##op##_approx_f
#endif
ORRERY_DEV float __sinf(float a) { return ORRERY_APPROX(sin)(a); }
ORRERY_DEV float __cosf(float a) { return ORRERY_APPROX(cos)(a); }
ORRERY_DEV void __sincosf(float a, float* s, float* c) { *s = __sinf(a); *c = __cosf(a); }
ORRERY_DEV float __fdividef(float a, float b) { return ORRERY_APPROX(div)(a, b); }
ORRERY_DEV float __tanf(float a) { return __fdividef(__sinf(a), __cosf(a)); }
ORRERY_DEV float __exp2f(float a) { return ORRERY_APPROX(ex2)(a); }
ORRERY_DEV float __expf(float a) { return ORRERY_APPROX(ex2)(a * 1.44269504088896341f); }
ORRERY_DEV float __exp10f(float a) { return ORRERY_APPROX(ex2)(a * 3.32192809488736235f); }
ORRERY_DEV float __log2f(float a) { return ORRERY_APPROX(lg2)(a); }
ORRERY_DEV float __logf(float a) { return ORRERY_APPROX(lg2)(a) * 0.693147180559945309f; }
ORRERY_DEV float __log10f(float a) { return ORRERY_APPROX(lg2)(a) * 0.301029995663981195f; }
ORRERY_DEV float __powf(float a, float b) { return ORRERY_APPROX(ex2)(b * ORRERY_APPROX(lg2)(a)); }
ORRERY_DEV float __saturatef(float a) { return __nvvm_saturate_f(a); }
ORRERY_DEV float __tanhf(float a) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}

// ---- bit casts and bits --------------------------------------------------------------------------------------
ORRERY_HD int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
ORRERY_HD unsigned __float_as_uint(float a) { return __builtin_bit_cast(unsigned, a); }
ORRERY_HD float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
ORRERY_HD float __uint_as_float(unsigned a) { return __builtin_bit_cast(float, a); }
ORRERY_HD long long __double_as_longlong(double a) { return __builtin_bit_cast(long long, a); }
ORRERY_HD double __longlong_as_double(long long a) { return __builtin_bit_cast(double, a); }
ORRERY_HD int __double2hiint(double a) { return (int)(__builtin_bit_cast(unsigned long long, a) >> 32); }
ORRERY_HD int __double2loint(double a) { return (int)__builtin_bit_cast(unsigned long long, a); }
ORRERY_HD double __hiloint2double(int hi, int lo) {
  return __builtin_bit_cast(double, (unsigned long long)(unsigned)hi << 32 | (unsigned)lo);
}
ORRERY_DEV unsigned __brev(unsigned a) { return __builtin_bitreverse32(a); }
ORRERY_DEV unsigned long long __brevll(unsigned long long a) { return __builtin_bitreverse64(a); }
ORRERY_DEV int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
ORRERY_DEV int __clzll(long long a) { return a ? __builtin_clzll((unsigned long long)a) : 64; }
ORRERY_DEV int __ffs(int a) { return a ? __builtin_ctz((unsigned)a) + 1 : 0; }
ORRERY_DEV int __ffsll(long long a) { return a ? __builtin_ctzll((unsigned long long)a) + 1 : 0; }
ORRERY_DEV int __popc(unsigned a) { return __builtin_popcount(a); }
ORRERY_DEV int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
ORRERY_DEV unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return __nvvm_prmt(a, b, s & 0x7777u); }

// ---- integer arithmetic --------------------------------------------------------------------------------------
ORRERY_DEV int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
ORRERY_DEV unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
ORRERY_DEV long long __mul64hi(long long a, long long b) { return __nvvm_mulhi_ll(a, b); }
ORRERY_DEV unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return __nvvm_mulhi_ull(a, b); }
ORRERY_DEV int __mul24(int a, int b) { return __nvvm_mul24_i(a, b); }
ORRERY_DEV unsigned __umul24(unsigned a, unsigned b) { return __nvvm_mul24_ui(a, b); }
ORRERY_DEV unsigned __sad(int a, int b, unsigned c) { return (unsigned)__nvvm_sad_i(a, b, (int)c); }
ORRERY_DEV unsigned __usad(unsigned a, unsigned b, unsigned c) { return __nvvm_sad_ui(a, b, c); }
ORRERY_DEV int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
ORRERY_DEV int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
ORRERY_DEV unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
ORRERY_DEV unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
ORRERY_DEV int mul24(int a, int b) { return __mul24(a, b); }
ORRERY_DEV unsigned umul24(unsigned a, unsigned b) { return __umul24(a, b); }
ORRERY_DEV int mulhi(int a, int b) { return __mulhi(a, b); }
ORRERY_DEV unsigned umulhi(unsigned a, unsigned b) { return __umulhi(a, b); }

// 4-way and 2-way dot products with accumulation.
#define ORRERY_DP(F, T, U, C, type)                                                    \
  ORRERY_DEV T F(U a, C b, T c) {                                                      \
    T d;                                                                               \
    asm(type " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));                   \
    return d;                                                                          \
  }
ORRERY_DP(__dp4a, int, int, int, "dp4a.s32.s32")
ORRERY_DP(__dp4a, unsigned, unsigned, unsigned, "dp4a.u32.u32")
ORRERY_DP(__dp2a_lo, int, int, int, "dp2a.lo.s32.s32")
ORRERY_DP(__dp2a_lo, unsigned, unsigned, unsigned, "dp2a.lo.u32.u32")
ORRERY_DP(__dp2a_hi, int, int, int, "dp2a.hi.s32.s32")
ORRERY_DP(__dp2a_hi, unsigned, unsigned, unsigned, "dp2a.hi.u32.u32")
#undef ORRERY_DP
ORRERY_HD unsigned orrery_bits(char4 v) { return __builtin_bit_cast(unsigned, v); }
ORRERY_HD unsigned orrery_bits(uchar4 v) { return __builtin_bit_cast(unsigned, v); }
ORRERY_HD unsigned orrery_bits(short2 v) { return __builtin_bit_cast(unsigned, v); }
ORRERY_HD unsigned orrery_bits(ushort2 v) { return __builtin_bit_cast(unsigned, v); }
ORRERY_DEV int __dp4a(char4 a, char4 b, int c) { return __dp4a((int)orrery_bits(a), (int)orrery_bits(b), c); }
ORRERY_DEV unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return __dp4a(orrery_bits(a), orrery_bits(b), c); }
ORRERY_DEV int __dp2a_lo(short2 a, char4 b, int c) { return __dp2a_lo((int)orrery_bits(a), (int)orrery_bits(b), c); }
ORRERY_DEV unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) { return __dp2a_lo(orrery_bits(a), orrery_bits(b), c); }
ORRERY_DEV int __dp2a_hi(short2 a, char4 b, int c) { return __dp2a_hi((int)orrery_bits(a), (int)orrery_bits(b), c); }
ORRERY_DEV unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) { return __dp2a_hi(orrery_bits(a), orrery_bits(b), c); }

// ---- synchronisation and time --------------------------------------------------------------------------------
// __syncthreads is a clang built-in.
ORRERY_DEV int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
ORRERY_DEV int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
ORRERY_DEV int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
ORRERY_DEV void __threadfence_block() { __nvvm_membar_cta(); }
ORRERY_DEV void __threadfence() { __nvvm_membar_gl(); }
ORRERY_DEV void __threadfence_system() { __nvvm_membar_sys(); }
ORRERY_DEV void __nanosleep(unsigned ns) { __nvvm_nanosleep(ns); }
ORRERY_DEV void __trap() { asm volatile("trap;"); __builtin_unreachable(); }
ORRERY_DEV void __brkpt() { asm volatile("brkpt;"); }
ORRERY_DEV void __prof_trigger(int) {}
ORRERY_DEV unsigned __pm0() { return __nvvm_read_ptx_sreg_pm0(); }
ORRERY_DEV long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }
ORRERY_DEV unsigned long long orrery_globaltimer() { return __nvvm_read_ptx_sreg_globaltimer(); }
static __device__ __inline__ clock_t clock() { return (clock_t)(int)__nvvm_read_ptx_sreg_clock(); }
ORRERY_DEV unsigned __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
ORRERY_DEV unsigned __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
ORRERY_DEV unsigned __isConstant(const void* p) { return __nvvm_isspacep_const(p); }
ORRERY_DEV unsigned __isLocal(const void* p) { return __nvvm_isspacep_local(p); }
ORRERY_DEV unsigned __isGridConstant(const void* p) {
  unsigned r;
  asm("{ .reg .pred p; isspacep.param p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "l"(p));
  return r;
}
ORRERY_DEV size_t __cvta_generic_to_global(const void* p) {
  return (size_t)(__attribute__((address_space(1))) const void*)p;
}
ORRERY_DEV size_t __cvta_generic_to_shared(const void* p) {
  size_t r;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
ORRERY_DEV size_t __cvta_generic_to_constant(const void* p) {
  size_t r;
  asm("cvta.to.const.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
ORRERY_DEV size_t __cvta_generic_to_local(const void* p) {
  size_t r;
  asm("cvta.to.local.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
ORRERY_DEV void* __cvta_global_to_generic(size_t p) {
  void* r;
  asm("cvta.global.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
ORRERY_DEV void* __cvta_shared_to_generic(size_t p) {
  void* r;
  asm("cvta.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
ORRERY_DEV void* __cvta_constant_to_generic(size_t p) {
  void* r;
  asm("cvta.const.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
ORRERY_DEV void* __cvta_local_to_generic(size_t p) {
  void* r;
  asm("cvta.local.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
// ---- programmatic dependent launch ---------------------------------------------------------------------------
ORRERY_DEV void cudaTriggerProgrammaticLaunchCompletion() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
ORRERY_DEV void cudaGridDependencySynchronize() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif
