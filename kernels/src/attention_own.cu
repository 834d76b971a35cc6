// Attention forward with neighbourhood masks whose warpgroups have tiles of keys of their own (attention_own.cuh), head dimensions 64 and 128.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

template <class T, bool kSigmoid, int kKeys>
cudaError_t launch_keys(const AttentionParams& p, int dim, int blocks, cudaStream_t stream) {
  return dim == 64 ? launch<Shape<T, 64, Mask::kOwn, kSigmoid, 1, false, kKeys>>(p, blocks, stream) : launch<Shape<T, 128, Mask::kOwn, kSigmoid, 1, false, kKeys>>(p, blocks, stream);
}

template <class T, bool kSigmoid>
cudaError_t launch_typed(const AttentionParams& p, int dim, int blocks, cudaStream_t stream) {
  return p.keys == kMostKeys ? launch_keys<T, kSigmoid, kMostKeys>(p, dim, blocks, stream) : launch_keys<T, kSigmoid, kOwnKeys>(p, dim, blocks, stream);
}

}  // namespace

cudaError_t launch_attention_own(const AttentionParams& p, DType dtype, int dim, bool sigmoid, int blocks, cudaStream_t stream) {
  if (sigmoid) return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16, true>(p, dim, blocks, stream) : launch_typed<__half, true>(p, dim, blocks, stream);
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16, false>(p, dim, blocks, stream) : launch_typed<__half, false>(p, dim, blocks, stream);
}

}  // namespace orrery::kernels
