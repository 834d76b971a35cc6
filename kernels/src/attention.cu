// Attention forward for head dimensions 64 and 128: which kernels of attention_kernel.cuh exist, and how one is picked.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, int kDim, bool kSigmoid>
cudaError_t launch_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  const bool causal = mask != Mask::kNone;
  if constexpr (!kSigmoid)
    if (p.q_starts)
      return causal ? launch<Shape<T, kDim, Mask::kCausal, false, 1, true>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, false, 1, true>>(p, blocks, stream);
  if constexpr (!kSigmoid) {
    if (mask == Mask::kWindow && p.keys == kMostKeys) return launch<Shape<T, kDim, Mask::kWindow, false, 1, false, kMostKeys>>(p, blocks, stream);
    if (mask == Mask::kWindow)
      return p.cluster == 2 ? launch<Shape<T, kDim, Mask::kWindow, false, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kWindow, false, 1>>(p, blocks, stream);
  }
  if (p.cluster == 2)
    return causal ? launch<Shape<T, kDim, Mask::kCausal, kSigmoid, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, kSigmoid, 2>>(p, blocks, stream);
  return causal ? launch<Shape<T, kDim, Mask::kCausal, kSigmoid, 1>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, kSigmoid, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  if (dim == 64) return sigmoid ? launch_dim<T, 64, true>(p, mask, blocks, stream) : launch_dim<T, 64, false>(p, mask, blocks, stream);
  return sigmoid ? launch_dim<T, 128, true>(p, mask, blocks, stream) : launch_dim<T, 128, false>(p, mask, blocks, stream);
}

}  // namespace

cudaError_t launch_attention(const AttentionParams& p, DType dtype, int dim, Mask mask, bool sigmoid, int blocks,
                             cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, sigmoid, blocks, stream)
                               : launch_typed<__half>(p, dim, mask, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
