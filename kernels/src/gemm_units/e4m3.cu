#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_e4m3(std::vector<GemmKernel>& out) {
  add_kernels<__nv_fp8_e4m3, __nv_fp8_e4m3, false, false>(out, DType::kE4M3, DType::kE4M3);
  add_promoted_kernels<__nv_fp8_e4m3, __nv_fp8_e4m3>(out, DType::kE4M3, DType::kE4M3);
}
}  // namespace orrery::kernels
