#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_bf16_kk(std::vector<GemmKernel>& out) {
  add_kernels<__nv_bfloat16, __nv_bfloat16, false, false>(out, DType::kBF16, DType::kBF16);
}
}  // namespace orrery::kernels
