// The built-in vector types (char1 .. double4), dim3, with the sizes and alignments of the CUDA ABI.
#ifndef ORRERY_CC_VECTOR_TYPES_H
#define ORRERY_CC_VECTOR_TYPES_H
#include <crt/host_defines.h>

// name, scalar, alignment of the 2- and 4-element type (1 and 3 elements are aligned as the scalar).
#define ORRERY_VECTOR(N, T, A2, A4)                                  \
  struct N##1 { T x; };                                              \
  struct __attribute__((aligned(A2))) N##2 { T x; T y; };            \
  struct N##3 { T x; T y; T z; };                                    \
  struct __attribute__((aligned(A4))) N##4 { T x; T y; T z; T w; };  \
  typedef struct N##1 N##1;                                          \
  typedef struct N##2 N##2;                                          \
  typedef struct N##3 N##3;                                          \
  typedef struct N##4 N##4;

ORRERY_VECTOR(char, signed char, 2, 4)
ORRERY_VECTOR(uchar, unsigned char, 2, 4)
ORRERY_VECTOR(short, short, 4, 8)
ORRERY_VECTOR(ushort, unsigned short, 4, 8)
ORRERY_VECTOR(int, int, 8, 16)
ORRERY_VECTOR(uint, unsigned int, 8, 16)
ORRERY_VECTOR(long, long, 16, 16)
ORRERY_VECTOR(ulong, unsigned long, 16, 16)
ORRERY_VECTOR(longlong, long long, 16, 16)
ORRERY_VECTOR(ulonglong, unsigned long long, 16, 16)
ORRERY_VECTOR(float, float, 8, 16)
ORRERY_VECTOR(double, double, 16, 16)
#undef ORRERY_VECTOR

// CUDA 13 names the alignment of the 32-byte types.
#define ORRERY_VECTOR4(N, T)                                                    \
  struct __attribute__((aligned(16))) N##4_16a { T x; T y; T z; T w; };         \
  struct __attribute__((aligned(32))) N##4_32a { T x; T y; T z; T w; };         \
  typedef struct N##4_16a N##4_16a;                                             \
  typedef struct N##4_32a N##4_32a;
ORRERY_VECTOR4(long, long)
ORRERY_VECTOR4(ulong, unsigned long)
ORRERY_VECTOR4(longlong, long long)
ORRERY_VECTOR4(ulonglong, unsigned long long)
ORRERY_VECTOR4(double, double)
#undef ORRERY_VECTOR4

struct dim3 {
  unsigned int x, y, z;
#if defined(__cplusplus)
#if __cplusplus >= 201103L
  __host__ __device__ constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1)
      : x(vx), y(vy), z(vz) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
#else
  __host__ __device__ dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
  __host__ __device__ dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
#endif
#endif
};
typedef struct dim3 dim3;

#endif
