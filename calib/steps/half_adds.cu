// calib/steps/half_adds.cu: additions to 16-bit floats, which ptxas makes loops of compare and swap on the word that holds them: by how many words there
// are, lanes that share a word, and whether words lie side by side or anywhere.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "steps.h"

namespace {
using namespace steps;

enum class Where { side, anywhere, own };

template <class T, Where kWhere>
__global__ void __launch_bounds__(256) add_halves(T* p, int words, int per) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < per; i++) {
    const uint32_t at = kWhere == Where::own ? thread : kWhere == Where::side ? threadIdx.x % uint32_t(words) : mix(thread * 8 + uint32_t(i)) % uint32_t(words);
    atomicAdd(p + at, T(1.f));
  }
}
template <class T, Where kWhere>
truth::Launch adds(long n) {
  auto p = zeros<T>(kWhere == Where::own ? 264 * 256 : size_t(n));
  return [=] { add_halves<T, kWhere><<<264, 256>>>(p.p, int(n), 4); };
}
TRUTH("atomic", "add_halves_side", {2, 32, 256}, [](long n) { return adds<__half, Where::side>(n); });
TRUTH("atomic", "add_halves_anywhere", {1024, 16384, 1048576}, [](long n) { return adds<__half, Where::anywhere>(n); });
TRUTH("atomic", "add_halves_own", {1}, [](long n) { return adds<__half, Where::own>(n); });
TRUTH("atomic", "add_bfloats_anywhere", {1024, 1048576}, [](long n) { return adds<__nv_bfloat16, Where::anywhere>(n); });
}  // namespace
