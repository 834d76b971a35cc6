// make_<type>: constructors of the built-in vector types.
#ifndef ORRERY_CC_VECTOR_FUNCTIONS_H
#define ORRERY_CC_VECTOR_FUNCTIONS_H
#include <vector_types.h>

#define ORRERY_MAKE static __inline__ __host__ __device__
#define ORRERY_MAKE_VECTOR(N, T)                                                              \
  ORRERY_MAKE N##1 make_##N##1(T x) { N##1 v; v.x = x; return v; }                             \
  ORRERY_MAKE N##2 make_##N##2(T x, T y) { N##2 v; v.x = x; v.y = y; return v; }               \
  ORRERY_MAKE N##3 make_##N##3(T x, T y, T z) { N##3 v; v.x = x; v.y = y; v.z = z; return v; } \
  ORRERY_MAKE N##4 make_##N##4(T x, T y, T z, T w) { N##4 v; v.x = x; v.y = y; v.z = z; v.w = w; return v; }
ORRERY_MAKE_VECTOR(char, signed char)
ORRERY_MAKE_VECTOR(uchar, unsigned char)
ORRERY_MAKE_VECTOR(short, short)
ORRERY_MAKE_VECTOR(ushort, unsigned short)
ORRERY_MAKE_VECTOR(int, int)
ORRERY_MAKE_VECTOR(uint, unsigned int)
ORRERY_MAKE_VECTOR(long, long)
ORRERY_MAKE_VECTOR(ulong, unsigned long)
ORRERY_MAKE_VECTOR(longlong, long long)
ORRERY_MAKE_VECTOR(ulonglong, unsigned long long)
ORRERY_MAKE_VECTOR(float, float)
ORRERY_MAKE_VECTOR(double, double)
#undef ORRERY_MAKE_VECTOR

#define ORRERY_MAKE_VECTOR4(N, T)                                                                                      \
  ORRERY_MAKE N##4_16a make_##N##4_16a(T x, T y, T z, T w) { N##4_16a v; v.x = x; v.y = y; v.z = z; v.w = w; return v; } \
  ORRERY_MAKE N##4_32a make_##N##4_32a(T x, T y, T z, T w) { N##4_32a v; v.x = x; v.y = y; v.z = z; v.w = w; return v; }
ORRERY_MAKE_VECTOR4(long, long)
ORRERY_MAKE_VECTOR4(ulong, unsigned long)
ORRERY_MAKE_VECTOR4(longlong, long long)
ORRERY_MAKE_VECTOR4(ulonglong, unsigned long long)
ORRERY_MAKE_VECTOR4(double, double)
#undef ORRERY_MAKE_VECTOR4
#undef ORRERY_MAKE

#endif
