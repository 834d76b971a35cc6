// Attention forward of sequences of their own lengths, softmax.
#include "attention_dims.cuh"

namespace orrery::kernels {

cudaError_t launch_attention_lengths(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream) {
  return with_type_and_dim(dtype, dim, [&](auto type, auto d) { return launch_masked<typename decltype(type)::type, decltype(d)::value, false, true>(p, mask, blocks, stream); });
}

}  // namespace orrery::kernels
