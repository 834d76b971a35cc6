#include "../gemm_instances.cuh"

namespace orrery::kernels {
void add_kernels_tf32(std::vector<GemmKernel>& out) {
  add_kernels<Tf32, Tf32, false, false>(out, DType::kF32, DType::kF32);
}
}  // namespace orrery::kernels
