// calib/locked_clocks.cu: when each block of some of steps/locked.cu's kernels began its steps, by its SM's clock: which SMs go on together.
//
//   nvcc -O3 -std=c++20 -Icalib/steps -gencode arch=compute_90a,code=[sm_90a,compute_90a] -Dmain=truth_main -c -o truth.o calib/truth/truth.cu
//   nvcc -O3 -std=c++20 -Icalib/steps -gencode arch=compute_90a,code=[sm_90a,compute_90a] -o locked_clocks calib/locked_clocks.cu truth.o
//   locked_clocks > calib/raw/GPU-DATE-locked-clocks.jsonl
//
// SMs of a GPC count from the same time, those of others from another. Not here: what a profiler counts of the same kernels (steps/locked.cu).
#define LOCKED_CLOCKS
#include "steps/locked.cu"

#include <cstdio>

namespace {

/// Steps are told of every `every`th only. L2 is cold.
void tell(const char* name, int blocks, int held, locked::Steps m, int every) {
  const size_t row = size_t(m.steps) + 1;
  long long* clocks = nullptr;
  char* other = nullptr;
  cudaMalloc(&clocks, size_t(blocks) * row * sizeof *clocks), cudaMalloc(&other, 256 << 20);
  m.clocks = clocks;
  const auto launch = locked::launch<locked::kFma>(blocks, held, m);
  cudaMemset(other, 1, 256 << 20), cudaDeviceSynchronize();
  launch();
  std::vector<long long> told(size_t(blocks) * row);
  cudaMemcpy(told.data(), clocks, told.size() * sizeof *clocks, cudaMemcpyDeviceToHost);
  if (const cudaError_t error = cudaGetLastError()) std::fprintf(stderr, "%s: %s\n", name, cudaGetErrorString(error));
  long long first = told[1];
  for (int b = 0; b < blocks; b++) first = std::min(first, told[size_t(b) * row + 1]);
  for (int b = 0; b < blocks; b++) {
    const long long* const own = &told[size_t(b) * row];
    std::printf("{\"case\": \"%s\", \"block\": %d, \"sm\": %lld, \"every\": %d, \"began\": [", name, b, own[0], every);
    for (int i = 0; i < m.steps; i += every) std::printf("%s%lld", i ? ", " : "", own[1 + i] - first);
    std::printf("]}\n");
  }
  cudaFree(clocks), cudaFree(other);
}

}  // namespace

int main() {
  tell("locked_turns/1", 132, 1, {256, 100, 16, 0, 1, 0, nullptr}, 32);
  tell("locked_near/8", 132, 1, {256, 100, 16, 0, 8, 1, nullptr}, 32);
  tell("locked_tiles2/64", 256, 2, {64, 64, 64, 16, 0, 0, nullptr}, 8);
}
