// From scores to weights of the values, in the accumulator layout of wgmma: softmax with a running maximum, sigmoid, masks,
// and the operand registers that P V takes. Not here: who multiplies what when (attention.cu).
#pragma once
#include "gemm_epilogue.cuh"

namespace orrery::kernels {

/// A thread's two query rows: running maximum (of unscaled scores) and its own part of the sum.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};

  /// Scores -> exponentials under the new maximum; `rescale` is what earlier sums and outputs are worth now.
  template <int kCount>
  __device__ __forceinline__ void take(float (&s)[kCount], float scale, float (&rescale)[2]) {
    float shift[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float most = top[h];
#pragma unroll
      for (int i = 0; i < kCount; i += 4) most = fmaxf(most, fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float safe = most == -INFINITY ? 0.f : most;  // nothing seen yet: everything stays zero
      shift[h] = safe * scale;
      rescale[h] = exp2_of(top[h] * scale - shift[h]);
      top[h] = most;
      sum[h] *= rescale[h];
    }
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      const int h = i / 2 % 2;
      s[i] = exp2_of(fmaf(s[i], scale, -shift[h]));
      sum[h] += s[i];
    }
  }
  __device__ static __forceinline__ float exp2_of(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
  }
};

/// Scores -> sigmoids: one special-function operation each, nothing to rescale.
template <int kCount>
__device__ __forceinline__ void take_sigmoid(float (&s)[kCount], float half_scale, float half_bias) {
#pragma unroll
  for (int i = 0; i < kCount; i++) {
    float t;
    asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(fmaf(s[i], half_scale, half_bias)));
    s[i] = fmaf(t, 0.5f, 0.5f);
  }
}

/// Hides keys below `limit[h]`.
template <int kCount>
__device__ __forceinline__ void hide_below(float (&s)[kCount], int key0, const int (&limit)[2]) {
  const int base = key0 + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kCount; i++)
    if (base + i / 4 * 8 + i % 2 < limit[i / 2 % 2]) s[i] = -INFINITY;
}

/// Hides keys from `limit[h]` on, for the thread's rows h = 0, 1.
template <int kCount>
__device__ __forceinline__ void hide(float (&s)[kCount], int key0, const int (&limit)[2]) {
  const int base = key0 + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kCount; i++)
    if (base + i / 4 * 8 + i % 2 >= limit[i / 2 % 2]) s[i] = -INFINITY;
}

template <class T, int kSteps>
__device__ __forceinline__ void pack(uint32_t (&out)[kSteps][4], const float (&s)[kSteps * 8]) {
#pragma unroll
  for (int i = 0; i < kSteps * 4; i++)
    out[i / 4][i % 4] = pack_pair(s[2 * i], s[2 * i + 1], std::is_same_v<T, __nv_bfloat16>);
}

}  // namespace orrery::kernels
