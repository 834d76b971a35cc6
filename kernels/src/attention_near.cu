// Attention forward with neighbourhood masks, head dimensions 64 and 128; attention_near.cuh has the masks.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, int blocks, cudaStream_t stream) {
  if (mask == Mask::kEvery) return dim == 64 ? launch<Shape<T, 64, Mask::kEvery, false, 1>>(p, blocks, stream) : launch<Shape<T, 128, Mask::kEvery, false, 1>>(p, blocks, stream);
  if (mask == Mask::kWhole) return dim == 64 ? launch<Shape<T, 64, Mask::kWhole, false, 1>>(p, blocks, stream) : launch<Shape<T, 128, Mask::kWhole, false, 1>>(p, blocks, stream);
  return dim == 64 ? launch<Shape<T, 64, Mask::kNear, false, 1>>(p, blocks, stream) : launch<Shape<T, 128, Mask::kNear, false, 1>>(p, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_near(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, blocks, stream) : launch_typed<__half>(p, dim, mask, blocks, stream);
}

}  // namespace orrery::kernels
