// Records tanh.approx.f32 on a GPU: a hash of the results of each binade from 2^-8 to 2^2, for tests/unit/sem_pure.cc.
//
//   nvcc -arch=sm_90a -o tanh tanh.cu && ./tanh
//
// Says so if arguments that the unit is thought not to tell apart have different results, if a negative one has another magnitude, or if a
// result below 2^-8 is not its argument or one from 8 on not 1. Not here: NaN (tests/vectors).
#include <cstdint>
#include <cstdio>
#include <vector>

__global__ void all(uint32_t base, uint32_t* out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  float r;
  asm volatile("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(__uint_as_float(base + i)));
  out[i] = __float_as_uint(r);
}

int main() {
  constexpr uint32_t kCount = 1u << 23, kNegative = 1u << 31, kOne = 0x3f800000;
  const int bits[11] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};  // leading bits of the fraction that choose a row; of the others the first 17 count
  uint32_t* device = nullptr;
  if (cudaMalloc(&device, kCount * 4)) return std::fprintf(stderr, "no memory, or no GPU\n"), 1;
  std::vector<uint32_t> results(kCount), negative(kCount);
  uint64_t other = 0;
  for (uint32_t exponent = 0; exponent < 255; exponent++) {
    const uint32_t base = exponent << 23, row = exponent - 119;
    all<<<kCount / 256, 256>>>(base, device);
    cudaMemcpy(results.data(), device, kCount * 4, cudaMemcpyDeviceToHost);
    all<<<kCount / 256, 256>>>(base | kNegative, device);
    cudaMemcpy(negative.data(), device, kCount * 4, cudaMemcpyDeviceToHost);
    const uint32_t step = row < 11 ? 1u << (6 - bits[row]) : 1;
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t i = 0; i < kCount; i++) {
      other += negative[i] != (results[i] | kNegative) || results[i] != results[i & ~(step - 1)];
      if (row >= 11) other += results[i] != (exponent < 119 ? base + i : kOne);
      if (i % step == 0) hash = (hash ^ results[i]) * 0x100000001b3;
    }
    if (row < 11) std::printf("2^%d 0x%016llx\n", int(exponent) - 127, static_cast<unsigned long long>(hash));
  }
  std::printf("%llu others: %s\n", static_cast<unsigned long long>(other), cudaGetErrorString(cudaGetLastError()));
  return other != 0;
}
