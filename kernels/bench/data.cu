// See data.h.
#include "data.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace bench {

using orrery::kernels::DType;

namespace {

__global__ void fill(void* p, int64_t n, DType t, uint32_t seed, float scale) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    uint32_t h = uint32_t(i) * 2654435761u ^ seed;
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    const float u = (float(h & 0xffff) + 0.5f) / 65536.f, v = float(h >> 16) / 65536.f;
    const float x = scale * (sqrtf(-2.f * logf(u)) * cospif(2.f * v));  // normal, mean 0, variance 1
    if (t == DType::kBF16) static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(x);
    else if (t == DType::kF16) static_cast<__half*>(p)[i] = __float2half(x);
    else if (t == DType::kI8) static_cast<int8_t*>(p)[i] = int8_t(rintf(fminf(127.f, fmaxf(-127.f, 30.f * x))));
    else static_cast<__nv_fp8_e4m3*>(p)[i] = __nv_fp8_e4m3(x);
  }
}

__device__ float element(const void* p, int64_t i, DType t) {
  if (t == DType::kF32) return static_cast<const float*>(p)[i];
  return t == DType::kBF16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]) : __half2float(static_cast<const __half*>(p)[i]);
}

__global__ void difference(const void* a, const void* b, int64_t n, DType t, float* out) {
  float most = 0.f, largest = 0.f;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    const float x = element(a, i, t), y = element(b, i, t), d = fabsf(x - y);
    most = fmaxf(most, d == d ? d : INFINITY), largest = fmaxf(largest, fabsf(y));
  }
  atomicMax(reinterpret_cast<int*>(out), __float_as_int(most));
  atomicMax(reinterpret_cast<int*>(out + 1), __float_as_int(largest));
}

/// The order of nibbles and words is that of quantize_int4: word 4 t + q of a group of 128 holds elements 32 q + 8 t onwards, nibble p of
/// it element 2 p, nibble p + 4 element 2 p + 1.
__global__ void widen(void* out, const uint32_t* words, const void* scales, int64_t n, DType t) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t group = i / 128, in_group = i % 128, word = group * 16 + in_group % 32 / 8 * 4 + in_group / 32;
    const float v = float(int(words[word] >> 4 * (in_group % 8 / 2 + in_group % 2 * 4) & 15) - 8) * element(scales, group, t);
    if (t == DType::kBF16) static_cast<__nv_bfloat16*>(out)[i] = __float2bfloat16(v);
    else static_cast<__half*>(out)[i] = __float2half(v);
  }
}

__global__ void widen8(void* out, const __nv_fp8_e4m3* in, int64_t n, DType t) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    if (t == DType::kBF16) static_cast<__nv_bfloat16*>(out)[i] = __float2bfloat16(float(in[i]));
    else static_cast<__half*>(out)[i] = __float2half(float(in[i]));
  }
}

__global__ void to_float(float* out, const int32_t* in, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) out[i] = float(in[i]);
}

}  // namespace

void fill_normal(void* p, int64_t n, DType t, uint32_t seed, cudaStream_t stream, float scale) {
  fill<<<1024, 256, 0, stream>>>(p, n, t, seed, scale);
}

void widen_int4(void* out, const void* words, const void* scales, int64_t n, int64_t k, DType t, cudaStream_t stream) {
  widen<<<1024, 256, 0, stream>>>(out, static_cast<const uint32_t*>(words), scales, n * k, t);
}

void widen_e4m3(void* out, const void* in, int64_t n, DType t, cudaStream_t stream) {
  widen8<<<1024, 256, 0, stream>>>(out, static_cast<const __nv_fp8_e4m3*>(in), n, t);
}

void floats_of_int32(void* out, const void* in, int64_t n, cudaStream_t stream) {
  to_float<<<1024, 256, 0, stream>>>(static_cast<float*>(out), static_cast<const int32_t*>(in), n);
}

void largest_difference(const void* a, const void* b, int64_t n, DType t, float* out, cudaStream_t stream) {
  difference<<<512, 256, 0, stream>>>(a, b, n, t, out);
}

}  // namespace bench
