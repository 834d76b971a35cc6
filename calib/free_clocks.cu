// calib/free_clocks.cu: when each warp of one of steps/free.cu's kernels began its steps, by its SM's clock: how warps that meet at no barrier part.
//
//   nvcc -O3 -std=c++20 -Icalib/steps -gencode arch=compute_90a,code=[sm_90a,compute_90a] -Dmain=truth_main -c -o truth.o calib/truth/truth.cu
//   nvcc -O3 -std=c++20 -Icalib/steps -gencode arch=compute_90a,code=[sm_90a,compute_90a] -o free_clocks calib/free_clocks.cu truth.o
//   free_clocks > calib/raw/GPU-DATE-free-clocks.jsonl
//
// SMs of a GPC count from the same time, those of others from another. Not here: what a profiler counts of the same kernel (steps/free.cu).
#define FREE_CLOCKS
#include "steps/free.cu"

#include <cstdio>

namespace {

/// Warps' steps are told of every `m.every`th only. L2 is cold.
template <free_warps::Pattern pattern, int kUnrolled>
void tell(const char* name, int blocks, int warps, int held, free_warps::Steps m) {
  const size_t row = size_t(m.steps / m.every) + 1, rows = size_t(blocks) * size_t(warps);
  long long* clocks = nullptr;
  char* other = nullptr;
  cudaMalloc(&clocks, rows * row * sizeof *clocks), cudaMalloc(&other, 256 << 20);
  m.clocks = clocks;
  const auto launch = free_warps::roaming<pattern, kUnrolled>(blocks, warps, held, m);
  cudaMemset(other, 1, 256 << 20), cudaDeviceSynchronize();
  launch();
  std::vector<long long> told(rows * row);
  cudaMemcpy(told.data(), clocks, told.size() * sizeof *clocks, cudaMemcpyDeviceToHost);
  if (const cudaError_t error = cudaGetLastError()) std::fprintf(stderr, "%s: %s\n", name, cudaGetErrorString(error));
  long long first = told[1];
  for (size_t r = 0; r < rows; r++) first = std::min(first, told[r * row + 1]);
  for (size_t r = 0; r < rows; r++) {
    const long long* const own = &told[r * row];
    std::printf("{\"case\": \"%s\", \"block\": %zu, \"warp\": %zu, \"sm\": %lld, \"every\": %d, \"began\": [", name, r / size_t(warps), r % size_t(warps), own[0], m.every);
    for (size_t i = 1; i < row; i++) std::printf("%s%lld", i > 1 ? ", " : "", own[i] - first);
    std::printf("]}\n");
  }
  cudaFree(clocks), cudaFree(other);
}

}  // namespace

int main() {
  using namespace free_warps;
  tell<kOwn, 4>("free_own8/16", 132, 8, 1, {1024, 16, 512, 0, 1, nullptr, 128});
}
