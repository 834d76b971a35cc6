// Attention forward with sigmoids instead of softmax, of sequences of one length or their own.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, int kDim>
cudaError_t launch_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  if (p.q_starts) {
    if (mask == Mask::kWindow) return launch<Shape<T, kDim, Mask::kWindow, true, 1, true>>(p, blocks, stream);
    return mask == Mask::kCausal ? launch<Shape<T, kDim, Mask::kCausal, true, 1, true>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, true, 1, true>>(p, blocks, stream);
  }
  if (mask == Mask::kWindow) return launch<Shape<T, kDim, Mask::kWindow, true, 1>>(p, blocks, stream);
  const bool causal = mask == Mask::kCausal;
  if constexpr (kDim <= 128)
    if (p.cluster == 2) return causal ? launch<Shape<T, kDim, Mask::kCausal, true, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, true, 2>>(p, blocks, stream);
  return causal ? launch<Shape<T, kDim, Mask::kCausal, true, 1>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, true, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, int blocks, cudaStream_t stream) {
  switch (dim) {
    case 64: return launch_dim<T, 64>(p, mask, blocks, stream);
    case 128: return launch_dim<T, 128>(p, mask, blocks, stream);
    case 192: return launch_dim<T, 192>(p, mask, blocks, stream);
    default: return launch_dim<T, 256>(p, mask, blocks, stream);
  }
}

}  // namespace

cudaError_t launch_attention_sigmoid(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, blocks, stream) : launch_typed<__half>(p, dim, mask, blocks, stream);
}

}  // namespace orrery::kernels
