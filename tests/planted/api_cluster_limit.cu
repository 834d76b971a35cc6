// A cluster of 16 blocks without the attribute that allows more than 8.
// planted: apicheck
// finding: launch-limit
// needs: --api-errors
// says: fill
#include "planted.h"

__global__ void fill(int* out) { if (threadIdx.x == 0) out[blockIdx.x] = cluster_rank(); }

PROGRAM(api_cluster_limit) {
  Buffer<int> out(16);
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = BUG(16) REPAIR(8);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.gridDim = dim3(16);
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (cudaLaunchKernelEx(&config, fill, out.p) != cudaSuccess) return false;
  std::vector<int> want(16);
  for (int i = 0; i < 16; i++) want[i] = i % 8;
  return finished() && same(out.host(), want);
}
