// Attention forward with neighbourhood masks, head dimensions 64 and 128; attention_near.cuh has the masks.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, int kDim, bool kSigmoid>
cudaError_t launch_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  if (mask == Mask::kEvery) return launch<Shape<T, kDim, Mask::kEvery, kSigmoid, 1>>(p, blocks, stream);
  if (mask == Mask::kWhole) return launch<Shape<T, kDim, Mask::kWhole, kSigmoid, 1>>(p, blocks, stream);
  return launch<Shape<T, kDim, Mask::kNear, kSigmoid, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  if (dim == 64) return sigmoid ? launch_dim<T, 64, true>(p, mask, blocks, stream) : launch_dim<T, 64, false>(p, mask, blocks, stream);
  return sigmoid ? launch_dim<T, 128, true>(p, mask, blocks, stream) : launch_dim<T, 128, false>(p, mask, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_near(const AttentionParams& p, DType dtype, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, sigmoid, blocks, stream) : launch_typed<__half>(p, dim, mask, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
