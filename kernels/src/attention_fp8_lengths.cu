// Attention forward with e4m3 operands for sequences of their own lengths.
#include "attention_fp8_launch.cuh"

namespace orrery::kernels {

cudaError_t launch_attention_fp8_lengths(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  return launch_fp8<true>(p, dim, mask, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
