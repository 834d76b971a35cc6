// Attention forward for head dimensions 64 and 128, softmax, sequences of one length: which kernels of attention_kernel.cuh exist, and how one is picked.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, int kDim>
cudaError_t launch_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  if (mask == Mask::kWindow && p.keys == kMostKeys) return launch<Shape<T, kDim, Mask::kWindow, false, 1, false, kMostKeys>>(p, blocks, stream);
  if (mask == Mask::kWindow)
    return p.cluster == 2 ? launch<Shape<T, kDim, Mask::kWindow, false, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kWindow, false, 1>>(p, blocks, stream);
  const bool causal = mask != Mask::kNone;
  if (p.cluster == 2) return causal ? launch<Shape<T, kDim, Mask::kCausal, false, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, false, 2>>(p, blocks, stream);
  return causal ? launch<Shape<T, kDim, Mask::kCausal, false, 1>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, false, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return dim == 64 ? launch_dim<T, 64>(p, mask, blocks, stream) : launch_dim<T, 128>(p, mask, blocks, stream);
}

}  // namespace

cudaError_t launch_attention(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, blocks, stream) : launch_typed<__half>(p, dim, mask, blocks, stream);
}

}  // namespace orrery::kernels
