#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_e5m2(std::vector<GemmKernel>& out) {
  add_kernels<__nv_fp8_e5m2, __nv_fp8_e5m2, false, false>(out, DType::kE5M2, DType::kE5M2);
}
}  // namespace orrery::kernels
