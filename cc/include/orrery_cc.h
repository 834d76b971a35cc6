// What `orrery cc` includes before every CUDA translation unit: the device built-ins of CUDA C++.
//
// The order matters. Device overloads of the C math functions are declared before <cmath>, because libstdc++ makes
// its own constexpr and clang would otherwise take those for host-and-device functions; they are defined after the
// vector types; then clang's own headers add the std:: overloads and the warp intrinsics.
//
//   __clang_cuda_*.h        part of clang (Apache-2.0 with LLVM exceptions), found in its resource directory
//   orrery/math.h           the CUDA math functions, without libdevice
//   orrery/intrinsics.h     arithmetic, conversion, synchronisation and memory intrinsics
//   orrery/strings.h        memcpy, memset, strlen and their kin
//   orrery/simd.h           SIMD-in-a-word and DPX functions
//   orrery/atomics.h        atomicAdd and its kin, with _block and _system forms
//   orrery/textures.h       texture and surface objects
#ifndef ORRERY_CC_H
#define ORRERY_CC_H
#if !defined(__CUDA__) || !defined(__clang__)
#error "orrery_cc.h is for CUDA translation units compiled by `orrery cc`"
#endif
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#define __CUDACC_EXTENDED_LAMBDA__ 1
#define __CUDACC_RELAXED_CONSTEXPR__ 1

#include <__clang_cuda_math_forward_declares.h>
#include <crt/host_defines.h>

// ---- system calls of the PTX interoperability guide; clang turns printf into vprintf --------------------------
extern "C" {
__device__ int vprintf(const char*, const char*);
__device__ void free(void*) __attribute__((nothrow));
__device__ void* malloc(__SIZE_TYPE__) __attribute__((nothrow)) __attribute__((malloc));
__device__ void __assertfail(const char* message, const char* file, unsigned line, const char* function, __SIZE_TYPE__ char_size);
__device__ static inline void __assert_fail(const char* message, const char* file, unsigned line,
                                            const char* function) {
  __assertfail(message, file, line, function, sizeof(char));
}
__device__ int printf(const char*, ...);
}

#include <assert.h>
#include <cmath>
#include <cstdlib>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <__clang_cuda_builtin_vars.h>
#include <builtin_types.h>
#include <vector_functions.h>

__device__ inline __cuda_builtin_threadIdx_t::operator dim3() const { return dim3(x, y, z); }
__device__ inline __cuda_builtin_threadIdx_t::operator uint3() const { return {x, y, z}; }
__device__ inline __cuda_builtin_blockIdx_t::operator dim3() const { return dim3(x, y, z); }
__device__ inline __cuda_builtin_blockIdx_t::operator uint3() const { return {x, y, z}; }
__device__ inline __cuda_builtin_blockDim_t::operator dim3() const { return dim3(x, y, z); }
__device__ inline __cuda_builtin_blockDim_t::operator uint3() const { return {x, y, z}; }
__device__ inline __cuda_builtin_gridDim_t::operator dim3() const { return dim3(x, y, z); }
__device__ inline __cuda_builtin_gridDim_t::operator uint3() const { return {x, y, z}; }

// What is inlined from here on has the line of its caller: that is the line which a report should name.
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
#include <orrery/intrinsics.h>
#include <orrery/strings.h>

#include <orrery/math.h>

#include <__clang_cuda_cmath.h>

#pragma push_macro("CUDA_VERSION")
#undef CUDA_VERSION
#define CUDA_VERSION 13000
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
// clang's vector atomicAdd is an asm without `volatile`, which is dropped when its result is not used: atomics.h has ours.
#define atomicAdd orrery_clang_atomicAdd
#define atomicAdd_block orrery_clang_atomicAdd_block
#define atomicAdd_system orrery_clang_atomicAdd_system
// Its __reduce_*_sync pass mask and value in the wrong order (clang 19); ours are in orrery/atomics.h too.
#define __reduce_add_sync orrery_clang_reduce_add
#define __reduce_min_sync orrery_clang_reduce_min
#define __reduce_max_sync orrery_clang_reduce_max
#define __reduce_and_sync orrery_clang_reduce_and
#define __reduce_or_sync orrery_clang_reduce_or
#define __reduce_xor_sync orrery_clang_reduce_xor
#include <__clang_cuda_intrinsics.h>
#undef __reduce_add_sync
#undef __reduce_min_sync
#undef __reduce_max_sync
#undef __reduce_and_sync
#undef __reduce_or_sync
#undef __reduce_xor_sync
#undef atomicAdd
#undef atomicAdd_block
#undef atomicAdd_system
#pragma pop_macro("CUDA_VERSION")
#include <__clang_cuda_complex_builtins.h>

#include <orrery/atomics.h>
#include <orrery/memory.h>
#include <orrery/simd.h>
#include <orrery/textures.h>
#pragma clang attribute pop

#include <cuda_runtime.h>
#endif
