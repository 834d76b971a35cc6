// Which kernels of attention_kernel.cuh there are for e4m3, and how one is picked: for attention_fp8.cu and attention_fp8_lengths.cu.
#pragma once
#include "attention_kernel.cuh"

namespace orrery::kernels {

template <int kDim, bool kSigmoid, bool kLengths>
cudaError_t launch_fp8_dim(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  using T = __nv_fp8_e4m3;
  if (mask == Mask::kWindow) return launch<Shape<T, kDim, Mask::kWindow, kSigmoid, 1, kLengths>>(p, blocks, stream);
  if (mask == Mask::kCausal) return launch<Shape<T, kDim, Mask::kCausal, kSigmoid, 1, kLengths>>(p, blocks, stream);
  return launch<Shape<T, kDim, Mask::kNone, kSigmoid, 1, kLengths>>(p, blocks, stream);
}

template <bool kLengths>
cudaError_t launch_fp8(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  const auto go = [&](auto d) {
    return sigmoid ? launch_fp8_dim<d, true, kLengths>(p, mask, blocks, stream) : launch_fp8_dim<d, false, kLengths>(p, mask, blocks, stream);
  };
  switch (dim) {
    case 64: return go(std::integral_constant<int, 64>());
    case 128: return go(std::integral_constant<int, 128>());
    case 192: return go(std::integral_constant<int, 192>());
    default: return go(std::integral_constant<int, 256>());
  }
}

}  // namespace orrery::kernels
