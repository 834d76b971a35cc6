#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_f16_kk(std::vector<GemmKernel>& out) {
  add_kernels<__half, __half, false, false>(out, DType::kF16, DType::kF16);
}
}  // namespace orrery::kernels
