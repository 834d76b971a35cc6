// See data.h.
#include "data.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace bench {

using orrery::kernels::DType;

namespace {

__global__ void fill(void* p, int64_t n, DType t, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    uint32_t h = uint32_t(i) * 2654435761u ^ seed;
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    const float u = (float(h & 0xffff) + 0.5f) / 65536.f, v = float(h >> 16) / 65536.f;
    const float x = sqrtf(-2.f * logf(u)) * cospif(2.f * v);  // normal, mean 0, variance 1
    if (t == DType::kBF16) static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(x);
    else if (t == DType::kF16) static_cast<__half*>(p)[i] = __float2half(x);
    else if (t == DType::kI8) static_cast<int8_t*>(p)[i] = int8_t(rintf(fminf(127.f, fmaxf(-127.f, 30.f * x))));
    else static_cast<__nv_fp8_e4m3*>(p)[i] = __nv_fp8_e4m3(x);
  }
}

__global__ void difference(const void* a, const void* b, int64_t n, DType t, float* out) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    const float x = t == DType::kBF16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(a)[i]) : __half2float(static_cast<const __half*>(a)[i]);
    const float y = t == DType::kBF16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(b)[i]) : __half2float(static_cast<const __half*>(b)[i]);
    const float d = fabsf(x - y);
    atomicMax(reinterpret_cast<int*>(out), __float_as_int(d == d ? d : INFINITY));
    atomicMax(reinterpret_cast<int*>(out + 1), __float_as_int(fabsf(y)));
  }
}

}  // namespace

void fill_normal(void* p, int64_t n, DType t, uint32_t seed, cudaStream_t stream) {
  fill<<<1024, 256, 0, stream>>>(p, n, t, seed);
}

void largest_difference(const void* a, const void* b, int64_t n, DType t, float* out, cudaStream_t stream) {
  difference<<<512, 256, 0, stream>>>(a, b, n, t, out);
}

}  // namespace bench
