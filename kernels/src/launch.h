// How the memory-bound kernels are launched: as programmatic dependents of the kernel ahead in the stream, so that the
// start of one hides behind the end of the other. A kernel launched this way calls `begin_overlapped` before it touches
// memory: it then waits until all kernels ahead have ended and their writes can be seen.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "ptx.cuh"

namespace orrery::kernels {

#ifdef __CUDACC__
__device__ __forceinline__ void begin_overlapped() {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
}
#endif

template <class... P, class... A>
cudaError_t launch_overlapped(void (*kernel)(P...), int64_t blocks, int threads, size_t shared, cudaStream_t stream, A&&... arguments) {
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared, config.stream = stream, config.attrs = attribute, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, P(std::forward<A>(arguments))...);
}

}  // namespace orrery::kernels
