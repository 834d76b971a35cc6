// calib/units.cu: which lines of memory share a unit for atomic operations: prints JSON, of each line the first line whose unit it has.
//
//     nvcc -O3 -std=c++17 -arch=sm_90a -o units calib/units.cu && ./units 512
//
// Two lines that all SMs add to by turns take twice as long when one unit works on both. Not part of the suite: it launches thousands of times.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void __launch_bounds__(256) add_to_two(uint32_t* words, long one, long other, int rounds) {
  uint32_t* const a = words + one * 32 + threadIdx.x % 32;
  uint32_t* const b = words + other * 32 + threadIdx.x % 32;
  for (int r = 0; r < rounds; r++) atomicAdd(a, 1u), atomicAdd(b, 1u);
}

int main(int argc, char** argv) {
  const int lines = argc > 1 ? std::atoi(argv[1]) : 512;
  uint32_t* words = nullptr;
  if (lines < 2 || cudaMalloc(&words, size_t(lines) * 128) != cudaSuccess || cudaMemset(words, 0, size_t(lines) * 128) != cudaSuccess) return std::fprintf(stderr, "units: no memory of a GPU for %d lines\n", lines), 1;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  const auto time = [&](long one, long other) {
    float best = 1e9f;
    for (int i = 0; i < 2; i++) {
      cudaEventRecord(begin);
      add_to_two<<<132, 256>>>(words, one, other, 6);
      cudaEventRecord(end);
      cudaEventSynchronize(end);
      float ms = 0;
      cudaEventElapsedTime(&ms, begin, end);
      best = std::min(best, ms);
    }
    return best;
  };
  for (int i = 0; i < 50; i++) time(0, 1);
  const float same = time(0, 0);
  float apart = same;
  for (int j = 1; j < std::min(lines, 64); j++) apart = std::min(apart, time(0, j));
  const float cut = (same + apart) / 2;
  std::vector<int> firsts, of;
  for (int j = 0; j < lines; j++) {
    const auto found = std::find_if(firsts.begin(), firsts.end(), [&](int first) { return time(first, j) > cut; });
    if (found == firsts.end()) firsts.push_back(j), of.push_back(j);
    else of.push_back(*found);
  }
  std::printf("{\"name\": \"units\", \"one_unit_us\": %.2f, \"two_units_us\": %.2f, \"units\": %zu, \"first_line_of_unit\": [", same * 1000, apart * 1000, firsts.size());
  for (int j = 0; j < lines; j++) std::printf("%s%d", j ? "," : "", of[size_t(j)]);
  std::printf("]}\n");
  return 0;
}
