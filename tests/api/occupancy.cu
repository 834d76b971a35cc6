// How many blocks of 128 threads fit an SM of 228 KiB of shared memory, a KiB of which each block takes besides its own: dynamic shared memory that just does
// not fit once more and that just does, by the occupancy calculator of the CUDA toolkit (cuda_occupancy.h); 40,000 bytes static, too. Ends with PASS.
#include <cuda_runtime.h>

#include <cstdio>

extern __shared__ char dynamic_room[];
__global__ void touches(char* out) { out[threadIdx.x] = dynamic_room[threadIdx.x]; }
__global__ void holds(char* out) {
  __shared__ char room[40000];
  room[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = room[127 - threadIdx.x];
}

int main() {
  int failed = 0;
  const auto expect = [&](const void* kernel, int shared, int want) {
    int got = -1;
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&got, kernel, 128, size_t(shared));
    if (error != cudaSuccess || got != want) printf("%d bytes: %d (%s), not %d\n", shared, got, cudaGetErrorName(error), want), failed++;
  };
  cudaFuncSetAttribute((const void*)touches, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448);
  const struct {
    int shared, blocks;
  } of[] = {{232192, 1}, {115968, 1}, {114944, 2}, {77226, 2}, {76202, 3}, {57856, 3}, {56832, 4}, {38485, 5}, {37461, 6}, {19114, 11}, {18090, 12}, {0, 16}};
  for (const auto& [shared, blocks] : of) expect((const void*)touches, shared, blocks);
  expect((const void*)holds, 0, 5);
  if (!failed) printf("PASS\n");
  return failed;
}
