#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_e4m3_e5m2(std::vector<GemmKernel>& out) {
  add_kernels<__nv_fp8_e4m3, __nv_fp8_e5m2, false, false>(out, DType::kE4M3, DType::kE5M2);
}
}  // namespace orrery::kernels
