// The same jobs by CUB, for the benchmarks of memory-bound kernels. False where the toolkit has none or the workspace is too small.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace bench {

bool cub_sum(float* out, const float* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream);
bool cub_max(float* out, const float* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream);
bool cub_min(float* out, const float* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream);
bool cub_scan(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream);
bool cub_sort(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream);
bool cub_histogram(uint32_t* counts, const uint8_t* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream);

}  // namespace bench
