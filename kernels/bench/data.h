// Random operands and comparison on the device, for the benchmarks.
#pragma once
#include <cuda_runtime.h>

#include "orrery/kernels.h"

namespace bench {

/// n normal values (mean 0, variance 1), times `scale`.
void fill_normal(void* p, int64_t n, orrery::kernels::DType t, uint32_t seed, cudaStream_t stream, float scale = 1.f);

/// n x k elements of `t` (f16 or bf16) from int4 words and scales as quantize_int4 leaves them.
void widen_int4(void* out, const void* words, const void* scales, int64_t n, int64_t k, orrery::kernels::DType t, cudaStream_t stream);

/// n elements of `t` (f16 or bf16) from e4m3.
void widen_e4m3(void* out, const void* in, int64_t n, orrery::kernels::DType t, cudaStream_t stream);

/// f32 of int32.
void floats_of_int32(void* out, const void* in, int64_t n, cudaStream_t stream);

/// out[0] = largest |a - b| (infinity where not a number), out[1] = largest |b|; both must start at zero.
void largest_difference(const void* a, const void* b, int64_t n, orrery::kernels::DType t, float* out,
                        cudaStream_t stream);

}  // namespace bench
