// How the memory-bound kernels are launched: as programmatic dependents of the kernel ahead in the stream, so that the
// start of one hides behind the end of the other. A kernel launched this way calls `begin_overlapped`, or what it consists of,
// before it touches memory (prefetches may come first, and loads whose result nobody uses): it then waits until all kernels ahead have
// ended and their writes can be seen. Also how products are launched, in clusters and so or plainly.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#ifdef __CUDACC__
#include "ptx.cuh"
#endif

namespace orrery::kernels {

#ifdef __CUDACC__
__device__ __forceinline__ void begin_overlapped() {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
}

/// A block's share of bringing `bytes` from a 16-byte boundary on into L2: a hint that reads nothing, and so may come before the wait.
__device__ __forceinline__ void prefetch_share(const void* p, int64_t bytes) {
  constexpr int64_t kPiece = 4096;
  if (threadIdx.x >= 32) return;
  for (int64_t at = (int64_t(threadIdx.x) * gridDim.x + blockIdx.x) * kPiece; at < bytes; at += int64_t(gridDim.x) * 32 * kPiece)
    ptx::bulk_prefetch(static_cast<const char*>(p) + at, uint32_t(min(kPiece, bytes - at)));
}

/// Loads what a block will read to shared memory before the wait, where nobody looks at it. L2 has two halves, and a prefetch brings a line to the
/// one that its memory belongs to: from the other one it is read no faster than memory is. A load leaves it in the reader's half as well (NOTES.md).
/// One thread does all this, and calls `end` before it leaves.
struct LoadAhead {
  uint32_t bar;
  __device__ __forceinline__ explicit LoadAhead(uint64_t* barrier) : bar(ptx::smem_address(barrier)) {}
  /// `count` pieces of `bytes` (a multiple of 16), `apart` bytes from one to the next.
  __device__ __forceinline__ void begin(void* scratch, const void* p, uint32_t bytes, int64_t apart, int count) const {
    ptx::mbarrier_init(bar, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(bar, bytes * count);
#pragma unroll 1
    for (int i = 0; i < count; i++) ptx::bulk_load(ptx::smem_address(scratch) + i * bytes, static_cast<const char*>(p) + i * apart, bytes, bar);
  }
  __device__ __forceinline__ void end() const { ptx::mbarrier_wait(bar, 0); }
};
#endif

/// Launches a grid of one to three axes so; `launch_overlapped`: one of `blocks`.
template <class... P, class... A>
cudaError_t launch_grid_overlapped(void (*kernel)(P...), dim3 grid, int threads, size_t shared, cudaStream_t stream, A&&... arguments) {
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared, config.stream = stream, config.attrs = attribute, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, P(std::forward<A>(arguments))...);
}
template <class... P, class... A>
cudaError_t launch_overlapped(void (*kernel)(P...), int64_t blocks, int threads, size_t shared, cudaStream_t stream, A&&... arguments) {
  return launch_grid_overlapped(kernel, dim3(unsigned(blocks)), threads, shared, stream, std::forward<A>(arguments)...);
}

/// The same for a kernel whose blocks wait for each other: all of them are resident, or the launch is refused.
template <class... P, class... A>
cudaError_t launch_cooperative(void (*kernel)(P...), int64_t blocks, int threads, size_t shared, cudaStream_t stream, A&&... arguments) {
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared, config.stream = stream, config.attrs = attributes, config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, P(std::forward<A>(arguments))...);
}

/// Launches `function`, whose one parameter is at `parameters`, in clusters along x, and where `overlap` as a dependent of the kernel ahead.
/// most_shared: SMs are to be divided so that all of shared memory is there, whatever a block takes; blocks of two launches meet on an SM only
/// where both divide it in the same way.
inline cudaError_t launch_in_clusters(const void* function, dim3 grid, int threads, size_t shared, int cluster, bool overlap, cudaStream_t stream,
                                      void* parameters, bool most_shared = false) {
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(unsigned(threads)), config.dynamicSmemBytes = shared, config.stream = stream, config.attrs = attributes;
  if (cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {unsigned(cluster), 1, 1};
  }
  if (overlap) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (most_shared) {
    attributes[config.numAttrs].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[config.numAttrs++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
  return cudaLaunchKernelExC(&config, function, &parameters);
}

/// The same for kernels whose shared memory differs from call to call: the most there is is always asked for, so that calls from several
/// threads ask for the same.
inline cudaError_t launch_with_most_shared(const void* function, dim3 grid, int threads, size_t shared, int cluster, bool overlap, cudaStream_t stream,
                                           void* parameters) {
  if (shared > 48 * 1024)
    if (cudaError_t e = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024)) return e;
  return launch_in_clusters(function, grid, threads, shared, cluster, overlap, stream, parameters);
}

}  // namespace orrery::kernels
