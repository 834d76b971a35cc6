// calib/placement.cu: on which SM the blocks of a launch run, by the grid's size, threads of a block and how many blocks stay: a JSON line for
// each launch, with the SMs in the order of the blocks and when they began (ns after the first).
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o placement placement.cu
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

/// Blocks from `stay` on leave at once; the others stay for so many cycles.
__global__ void place(unsigned* sm, unsigned long long* began, unsigned stay, long long cycles) {
  if (threadIdx.x == 0 && blockIdx.x < 4096) {
    unsigned id;
    unsigned long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    sm[blockIdx.x] = id, began[blockIdx.x] = now;
  }
  if (blockIdx.x >= stay) return;
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

void measure(unsigned grid, unsigned threads, unsigned stay, unsigned shared) {
  unsigned* sm;
  unsigned long long* began;
  cudaMalloc(&sm, 4096 * sizeof *sm);
  cudaMalloc(&began, 4096 * sizeof *began);
  cudaFuncSetAttribute(place, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared));
  for (int i = 0; i < 2; i++) place<<<grid, threads, shared>>>(sm, began, stay, 100000);
  const unsigned n = std::min(grid, 1200u);
  std::vector<unsigned> s(n);
  std::vector<unsigned long long> t(n);
  cudaMemcpy(s.data(), sm, n * sizeof(unsigned), cudaMemcpyDeviceToHost);
  cudaMemcpy(t.data(), began, n * sizeof(unsigned long long), cudaMemcpyDeviceToHost);
  const unsigned long long first = *std::min_element(t.begin(), t.end());
  std::printf("{\"grid\":%u,\"threads\":%u,\"stay\":%u,\"shared\":%u,\"error\":\"%s\",\"sm\":[", grid, threads, stay, shared, cudaGetErrorName(cudaGetLastError()));
  for (unsigned i = 0; i < n; i++) std::printf("%s%u", i ? "," : "", s[i]);
  std::printf("],\"ns\":[");
  for (unsigned i = 0; i < n; i++) std::printf("%s%llu", i ? "," : "", t[i] - first);
  std::printf("]}\n");
  cudaFree(sm), cudaFree(began);
}

}  // namespace

int main() {
  for (unsigned grid : {100u, 132u, 264u, 391u, 528u, 924u, 1056u, 1057u, 1100u, 1391u, 2112u, 10391u}) measure(grid, 256, grid, 0);
  for (unsigned grid : {450u, 1000u, 1056u, 1057u, 1391u, 100391u}) measure(grid, 256, 391, 0);
  for (unsigned grid : {132u, 200u, 264u, 265u, 400u, 1000u}) measure(grid, 1024, grid, 0);
  for (unsigned grid : {391u, 1056u, 2112u, 2113u, 4000u}) measure(grid, 128, grid, 0);
  for (unsigned grid : {264u, 500u, 4224u, 4225u, 9000u}) measure(grid, 32, grid, 0);
  for (unsigned grid : {132u, 264u, 396u, 397u, 1000u}) measure(grid, 256, grid, 65536);
}
