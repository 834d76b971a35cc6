// A hand-made grid barrier that a block without work does not reach.
// planted: hang
// finding: livelock | hang
#include "planted.h"

__global__ void two_steps(unsigned* arrived, int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  BUG(if (blockIdx.x * blockDim.x >= n) return;)
  if (i < n) x[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < gridDim.x) {}  // HERE
    __threadfence();
  }
  __syncthreads();  // HERE
  if (i < n) atomicAdd(&x[n - 1 - i], 1000);
}

PROGRAM(hang_grid_barrier_exit) {
  Buffer<unsigned> arrived(1);
  Buffer<int> x(96);
  arrived.zero();
  two_steps<<<4, 32>>>(arrived, x, 96);
  std::vector<int> want(96);
  for (int i = 0; i < 96; i++) want[i] = i + 1000;
  return finished() && same(x.host(), want);
}
