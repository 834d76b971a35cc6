// Attention forward with narrow windows (attention_narrow.cuh): which kernels there are.
#include "attention_narrow.cuh"

#include "launch.h"

namespace orrery::kernels {
namespace {

template <class S>
cudaError_t launch_narrow(const AttentionParams& p, int blocks, cudaStream_t stream) {
  const auto kernel = attention_narrow<S>;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared)) return e;
  return launch_overlapped(kernel, blocks, 128 * (1 + S::kConsumers), S::kShared, stream, p);
}

template <class T, bool kLine, bool kSigmoid>
cudaError_t launch_dim(const AttentionParams& p, int dim, int blocks, cudaStream_t stream) {
  return dim == 64 ? launch_narrow<Narrow<T, 64, kLine, kSigmoid>>(p, blocks, stream) : launch_narrow<Narrow<T, 128, kLine, kSigmoid>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  if (mask == Mask::kLine) return sigmoid ? launch_dim<T, true, true>(p, dim, blocks, stream) : launch_dim<T, true, false>(p, dim, blocks, stream);
  return sigmoid ? launch_dim<T, false, true>(p, dim, blocks, stream) : launch_dim<T, false, false>(p, dim, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_narrow(const AttentionParams& p, DType dtype, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, mask, sigmoid, blocks, stream) : launch_typed<__half>(p, dim, mask, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
