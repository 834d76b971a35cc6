// From what a call says of an attention to the template arguments of its kernel: element type, head dimension and mask. Not here: clusters and
// neighbourhoods, which not all kernels have.
#pragma once
#include <type_traits>

#include "attention_kernel.cuh"

namespace orrery::kernels {

/// go(std::integral_constant<int, dim>()), dim being 64, 128, 192 or 256.
template <class F>
cudaError_t with_dim(int dim, F go) {
  switch (dim) {
    case 64: return go(std::integral_constant<int, 64>());
    case 128: return go(std::integral_constant<int, 128>());
    case 192: return go(std::integral_constant<int, 192>());
    default: return go(std::integral_constant<int, 256>());
  }
}

/// The same with std::type_identity of the type of 16 bits before it.
template <class F>
cudaError_t with_type_and_dim(DType dtype, int dim, F go) {
  return with_dim(dim, [&](auto d) { return dtype == DType::kBF16 ? go(std::type_identity<__nv_bfloat16>(), d) : go(std::type_identity<__half>(), d); });
}

/// The kernel without clusters for a mask.
template <class T, int kDim, bool kSigmoid, bool kLengths>
cudaError_t launch_masked(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  if (mask == Mask::kWindow) return launch<Shape<T, kDim, Mask::kWindow, kSigmoid, 1, kLengths>>(p, blocks, stream);
  if (mask == Mask::kCausal) return launch<Shape<T, kDim, Mask::kCausal, kSigmoid, 1, kLengths>>(p, blocks, stream);
  return launch<Shape<T, kDim, Mask::kNone, kSigmoid, 1, kLengths>>(p, blocks, stream);
}

}  // namespace orrery::kernels
