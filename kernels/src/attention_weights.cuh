// From scores to weights of the values, in the accumulator layout of wgmma: softmax with a running maximum, sigmoid, masks,
// and the operand registers that P V takes. Not here: who multiplies what when (attention_kernel.cuh).
#pragma once
#include "gemm_epilogue.cuh"

namespace orrery::kernels {

/// A thread's two query rows: running maximum (of unscaled scores) and its own part of the sum.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};

  /// Scores -> exponentials under the new maximum, or where kLazy under one that is at most `reach` less; `rescale` is what earlier sums and
  /// outputs are worth now. Returns whether outputs need it: where kLazy, for some row of the warp.
  /// They are 2^kLift times as large as the definition has them. `between` is called once kFirst of them are there. kApart: the maximum of these scores
  /// is found before it is compared with the one before them, which is what is better where `between` does nothing (NOTES.md).
  template <int kLift, int kFirst, bool kApart, bool kLazy, int kCount, class Between>
  __device__ __forceinline__ bool take(float (&s)[kCount], float scale, float reach, float (&rescale)[2], Between between) {
    float shift[2];
    static_assert(kApart || !kLazy);
    bool moved = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float most = kApart ? -INFINITY : top[h];
#pragma unroll
      for (int i = 0; i < kCount; i += 4) most = fmaxf(most, fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const bool higher = !kApart || most > (kLazy ? __fadd_rn(top[h], reach) : top[h]);
      if (!higher) most = top[h];
      const float safe = most == -INFINITY ? 0.f : most;  // nothing seen yet: everything stays zero
      const float most_scaled = __fmul_rn(safe, scale);
      shift[h] = kLift ? __fsub_rn(most_scaled, float(kLift)) : most_scaled;
      rescale[h] = higher ? exp2_of(fmaf(top[h], scale, -most_scaled)) : 1.f;  // spelled out, here and below: what a compiler would fuse is its affair
      top[h] = most;
      moved = moved || higher;
    }
    float part[2] = {0.f, 0.f};
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      if (i == kFirst) between();
      s[i] = exp2_of(fmaf(s[i], scale, -shift[i / 2 % 2]));
      part[i / 2 % 2] += s[i];
    }
#pragma unroll
    for (int h = 0; h < 2; h++) sum[h] = fmaf(sum[h], rescale[h], part[h]);
    return kLazy ? __any_sync(~0u, moved) : true;
  }
  /// How far scores may exceed the maximum that exponentials are under where it follows them lazily: weights are 2^8 at most then, and no less
  /// exact, and outputs are rescaled a few times for a tile of queries (Dao's FlashAttention-4 does the same).
  __device__ static __forceinline__ float reach_of(float scale) { return fminf(8.f / scale, 1e30f); }
  __device__ static __forceinline__ float exp2_of(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
  }
};

/// Scores -> sigmoids, 2^lift times as large: one special-function operation each, nothing to rescale. `between` is called once kFirst are there.
template <int kFirst, int kCount, class Between>
__device__ __forceinline__ void take_sigmoid(float (&s)[kCount], float half_scale, float half_bias, int lift, Between between) {
  const float half = 0.5f * float(1 << lift);
#pragma unroll
  for (int i = 0; i < kCount; i++) {
    if (i == kFirst) between();
    float t;
    asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(fmaf(s[i], half_scale, half_bias)));
    s[i] = fmaf(t, half, half);
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

/// Weights as the operand A of the next product. e4m3 takes a thread's keys of two eights together, so that V has them in that
/// order too (attention_fp8.cuh).
template <class T, int kSteps, int kCount>
__device__ __forceinline__ void pack(uint32_t (&out)[kSteps][4], const float (&s)[kCount]) {
  if constexpr (sizeof(T) == 1) {
#pragma unroll
    for (int j = 0; j < kSteps; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int at = 16 * j + i / 2 * 8 + i % 2 * 2;
        asm("{ .reg .b16 lo, hi;\n\tcvt.rn.satfinite.e4m3x2.f32 lo, %2, %1;\n\tcvt.rn.satfinite.e4m3x2.f32 hi, %4, %3;\n\tmov.b32 %0, {lo, hi}; }"
            : "=r"(out[j][i])
            : "f"(s[at]), "f"(s[at + 1]), "f"(s[at + 4]), "f"(s[at + 5]));
      }
  } else {
#pragma unroll
    for (int i = 0; i < kSteps * 4; i++) out[i / 4][i % 4] = pack_pair(s[2 * i], s[2 * i + 1], std::is_same_v<T, __nv_bfloat16>);
  }
}

}  // namespace orrery::kernels
