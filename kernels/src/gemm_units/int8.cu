#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_int8(std::vector<GemmKernel>& out) {
  add_kernels<int8_t, int8_t, false, false>(out, DType::kI8, DType::kI8);
}
}  // namespace orrery::kernels
