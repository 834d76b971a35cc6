// Attention forward with neighbourhood masks, head dimensions 192 and 256: boxes of 64 keys, as two of 128 and their values leave no room for queries, and
// one kernel whatever the share of tiles that need masks.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, bool kSigmoid>
cudaError_t launch_dim(const AttentionParams& p, int dim, int blocks, cudaStream_t stream) {
  return dim == 192 ? launch<Shape<T, 192, Mask::kNear, kSigmoid, 1>>(p, blocks, stream) : launch<Shape<T, 256, Mask::kNear, kSigmoid, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, bool sigmoid, int blocks, cudaStream_t stream) {
  return sigmoid ? launch_dim<T, true>(p, dim, blocks, stream) : launch_dim<T, false>(p, dim, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_near_wide(const AttentionParams& p, DType dtype, int dim, bool sigmoid, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, sigmoid, blocks, stream) : launch_typed<__half>(p, dim, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
