// See memory_peers.h.
#include "memory_peers.h"

#if __has_include(<cub/cub.cuh>)
#include <cub/cub.cuh>

namespace bench {

bool cub_sum(float* out, const float* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream) {
  return cub::DeviceReduce::Sum(workspace, bytes, in, out, n, stream) == cudaSuccess;
}
bool cub_max(float* out, const float* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream) {
  return cub::DeviceReduce::Max(workspace, bytes, in, out, n, stream) == cudaSuccess;
}
bool cub_min(float* out, const float* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream) {
  return cub::DeviceReduce::Min(workspace, bytes, in, out, n, stream) == cudaSuccess;
}
bool cub_scan(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream) {
  return cub::DeviceScan::InclusiveSum(workspace, bytes, in, out, n, stream) == cudaSuccess;
}
bool cub_sort(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(workspace, bytes, in, out, n, 0, 32, stream) == cudaSuccess;
}
bool cub_histogram(uint32_t* counts, const uint8_t* in, int64_t n, void* workspace, size_t bytes, cudaStream_t stream) {
  return cub::DeviceHistogram::HistogramEven(workspace, bytes, in, counts, 257, 0, 256, n, stream) == cudaSuccess;
}

}  // namespace bench
#else
namespace bench {

bool cub_sum(float*, const float*, int64_t, void*, size_t, cudaStream_t) { return false; }
bool cub_max(float*, const float*, int64_t, void*, size_t, cudaStream_t) { return false; }
bool cub_min(float*, const float*, int64_t, void*, size_t, cudaStream_t) { return false; }
bool cub_scan(uint32_t*, const uint32_t*, int64_t, void*, size_t, cudaStream_t) { return false; }
bool cub_sort(uint32_t*, const uint32_t*, int64_t, void*, size_t, cudaStream_t) { return false; }
bool cub_histogram(uint32_t*, const uint8_t*, int64_t, void*, size_t, cudaStream_t) { return false; }

}  // namespace bench
#endif
