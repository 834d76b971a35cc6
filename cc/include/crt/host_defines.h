// Qualifiers of CUDA C++ as clang attributes. A plain C or C++ compiler sees the host meaning of each.
#ifndef ORRERY_CC_HOST_DEFINES_H
#define ORRERY_CC_HOST_DEFINES_H
#define __HOST_DEFINES_H__  // libraries ask for these names

#if defined(__CUDA__)
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
// The host's variable is the memory of a managed variable: cuda_runtime.h tells the runtime where this section is.
#if defined(__CUDA_ARCH__)
#define __managed__ __attribute__((device))
#else
#define __managed__ __attribute__((device, section("orrery_managed")))
#endif
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__ __attribute__((grid_constant))
// `orrery cc` reads this note and puts .reqnctapercluster into the PTX.
#define ORRERY_CLUSTER_DIMS(x, y, z, ...) __attribute__((annotate("orrery.cluster_dims", (int)(x), (int)(y), (int)(z))))
#define __cluster_dims__(...) ORRERY_CLUSTER_DIMS(__VA_ARGS__, 1, 1, 1)
#define __block_size__(...)
#define __maxnreg__(...)
#else
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#define __grid_constant__
#endif

#define __noinline__ __attribute__((noinline))
#ifndef __forceinline__
#define __forceinline__ __inline__ __attribute__((always_inline))
#endif
#define __align__(n) __attribute__((aligned(n)))
#define __thread__ __thread
#define __import__
#define __export__
#define __cdecl
#define __annotate__(a) __attribute__((a))
#define __location__(a) __annotate__(a)
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDART_CB
#define CUDAAPI
#define CUDA_CB

#endif
