// Attention forward with sigmoids instead of softmax, of sequences of one length or their own.
#include "attention_dims.cuh"

namespace orrery::kernels {
namespace {

template <class T, int kDim>
cudaError_t launch_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  if (p.q_starts) return launch_masked<T, kDim, true, true>(p, mask, blocks, stream);
  if constexpr (kDim <= 128)
    if (p.cluster == 2 && mask != Mask::kWindow)
      return mask == Mask::kCausal ? launch<Shape<T, kDim, Mask::kCausal, true, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, true, 2>>(p, blocks, stream);
  return launch_masked<T, kDim, true, false>(p, mask, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_sigmoid(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return with_type_and_dim(dtype, dim, [&](auto type, auto d) { return launch_dim<typename decltype(type)::type, decltype(d)::value>(p, mask, blocks, stream); });
}

}  // namespace orrery::kernels
