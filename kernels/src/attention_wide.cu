// Attention forward for head dimensions 192 and 256, softmax, sequences of one length: fewer keys a tile, one tile of queries at a time, no clusters.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, int kDim>
cudaError_t launch_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  if (mask == Mask::kWindow) return launch<Shape<T, kDim, Mask::kWindow, false, 1>>(p, blocks, stream);
  if (mask == Mask::kCausal) return launch<Shape<T, kDim, Mask::kCausal, false, 1>>(p, blocks, stream);
  return launch<Shape<T, kDim, Mask::kNone, false, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return dim == 192 ? launch_dim<T, 192>(p, mask, blocks, stream) : launch_dim<T, 256>(p, mask, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_wide(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, blocks, stream) : launch_typed<__half>(p, dim, mask, blocks, stream);
}

}  // namespace orrery::kernels
