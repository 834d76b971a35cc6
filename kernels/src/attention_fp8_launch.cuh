// Which kernels of attention_kernel.cuh there are for e4m3, and how one is picked: for attention_fp8.cu and attention_fp8_lengths.cu.
#pragma once
#include "attention_dims.cuh"

namespace orrery::kernels {

template <bool kLengths>
cudaError_t launch_fp8(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  return with_dim(dim, [&](auto d) {
    using T = __nv_fp8_e4m3;
    return sigmoid ? launch_masked<T, decltype(d)::value, true, kLengths>(p, mask, blocks, stream) : launch_masked<T, decltype(d)::value, false, kLengths>(p, mask, blocks, stream);
  });
}

}  // namespace orrery::kernels
