// calib/held-out/rows.cu: one row a block or a warp: norms, softmax, quantisation, the largest element, matrix times vector.
#include <cuda_fp16.h>

#include "../truth/truth.h"

namespace {
using namespace truth;

__device__ float warp_sum(float v) {
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
__device__ float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < int(blockDim.x) / 32; i++) sum += scratch[i];
  __syncthreads();
  return sum;
}

/// Layer norm, a block of 256 a row of `width` floats: mean, then variance, then the result, from registers.
template <int kParts>
__global__ void layer_norm_rows(const float4* x, const float4* gain, const float4* bias, float4* y) {
  __shared__ float scratch[8];
  constexpr int kWidth = kParts * 256;
  const float4* row = x + long(blockIdx.x) * kWidth;
  float4 v[kParts];
  float sum = 0;
  for (int i = 0; i < kParts; i++) v[i] = row[threadIdx.x + i * 256], sum += v[i].x + v[i].y + v[i].z + v[i].w;
  const float mean = block_sum(sum, scratch) / (kWidth * 4);
  float squares = 0;
  for (int i = 0; i < kParts; i++) {
    v[i].x -= mean, v[i].y -= mean, v[i].z -= mean, v[i].w -= mean;
    squares += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
  }
  const float scale = rsqrtf(block_sum(squares, scratch) / (kWidth * 4) + 1e-5f);
  for (int i = 0; i < kParts; i++) {
    const int at = threadIdx.x + i * 256;
    const float4 g = gain[at], b = bias[at];
    y[long(blockIdx.x) * kWidth + at] = make_float4(v[i].x * scale * g.x + b.x, v[i].y * scale * g.y + b.y, v[i].z * scale * g.z + b.z, v[i].w * scale * g.w + b.w);
  }
}
TRUTH("rows", "layer_norm_rows", {512, 16384}, [](long rows) {
  auto x = uniform<float>(rows * 4096), y = zeros<float>(rows * 4096), g = uniform<float>(4096), b = uniform<float>(4096);
  return [=] { layer_norm_rows<4><<<int(rows), 256>>>((const float4*)x.p, (const float4*)g.p, (const float4*)b.p, (float4*)y.p); };
});

/// Softmax of rows of `width` halves, a warp a row, with a running maximum, read twice.
__global__ void softmax_online(const __half* x, __half* y, int rows, int width) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const __half2* from = (const __half2*)(x + long(row) * width);
  float top = -1e30f, sum = 0;
  for (int i = lane; i < width / 2; i += 32) {
    const float2 v = __half22float2(from[i]);
    const float larger = fmaxf(top, fmaxf(v.x, v.y));
    sum = sum * __expf(top - larger) + __expf(v.x - larger) + __expf(v.y - larger), top = larger;
  }
  for (int d = 16; d; d >>= 1) {
    const float other = __shfl_xor_sync(~0u, top, d), its = __shfl_xor_sync(~0u, sum, d), larger = fmaxf(top, other);
    sum = sum * __expf(top - larger) + its * __expf(other - larger), top = larger;
  }
  const float scale = 1 / sum;
  __half2* to = (__half2*)(y + long(row) * width);
  for (int i = lane; i < width / 2; i += 32) {
    const float2 v = __half22float2(from[i]);
    to[i] = __floats2half2_rn(__expf(v.x - top) * scale, __expf(v.y - top) * scale);
  }
}
TRUTH("rows", "softmax_online", {1024, 32768}, [](long rows) {
  Array<__half> x(rows * 2048), y(rows * 2048);
  fill<__half>(x, [](size_t, Random& r) { return __float2half(r.unit()); });
  return [=] { softmax_online<<<blocks_for(rows * 32, 128), 128>>>(x.p, y.p, int(rows), 2048); };
});

/// Floats to bytes, one scale a row.
__global__ void quantise_rows(const float* x, int8_t* y, float* scales, int width) {
  __shared__ float largest[32];
  const float* row = x + long(blockIdx.x) * width;
  float top = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) top = fmaxf(top, fabsf(row[i]));
  for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = top;
  __syncthreads();
  for (int i = 0; i < int(blockDim.x) / 32; i++) top = fmaxf(top, largest[i]);
  if (threadIdx.x == 0) scales[blockIdx.x] = top / 127;
  const float scale = 127 / top;
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[long(blockIdx.x) * width + i] = int8_t(__float2int_rn(row[i] * scale));
}
TRUTH("rows", "quantise_rows", {256, 8192}, [](long rows) {
  auto x = uniform<float>(rows * 5120), s = zeros<float>(rows);
  auto y = zeros<int8_t>(rows * 5120);
  return [=] { quantise_rows<<<int(rows), 320>>>(x, y, s, 5120); };
});

/// The largest element of each row and where it is.
__global__ void argmax_rows(const float* x, int* where, int width) {
  __shared__ float best[8];
  __shared__ int place[8];
  const float* row = x + long(blockIdx.x) * width;
  float top = -1;
  int at = 0;
  for (int i = threadIdx.x; i < width; i += 256)
    if (row[i] > top) top = row[i], at = i;
  for (int d = 16; d; d >>= 1) {
    const float other = __shfl_down_sync(~0u, top, d);
    const int its = __shfl_down_sync(~0u, at, d);
    if (other > top || (other == top && its < at)) top = other, at = its;
  }
  if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = top, place[threadIdx.x / 32] = at;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < 8; i++)
    if (best[i] > top) top = best[i], at = place[i];
  where[blockIdx.x] = at;
}
TRUTH("rows", "argmax_rows", {128, 2048}, [](long rows) {
  auto x = uniform<float>(rows * 32000);
  auto w = zeros<int>(rows);
  return [=] { argmax_rows<<<int(rows), 256>>>(x, w, 32000); };
});

/// y = A x in halves, a warp a row.
__global__ void matrix_vector(const uint4* a, const uint4* x, float* y, int rows, int words) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4* from = a + long(row) * words;
  float sum = 0;
#pragma unroll 4
  for (int i = lane; i < words; i += 32) {
    const uint4 m = from[i], v = x[i];
    const __half2 *p = (const __half2*)&m, *q = (const __half2*)&v;
    for (int k = 0; k < 4; k++) {
      const float2 s = __half22float2(p[k]), t = __half22float2(q[k]);
      sum += s.x * t.x + s.y * t.y;
    }
  }
  sum = warp_sum(sum);
  if (lane == 0) y[row] = sum;
}
TRUTH("rows", "matrix_vector", {2048, 28672}, [](long rows) {
  Array<__half> a(rows * 4096), x(4096);
  fill<__half>(a, [](size_t, Random& r) { return __float2half(r.unit()); });
  fill<__half>(x, [](size_t, Random& r) { return __float2half(r.unit()); });
  auto y = zeros<float>(rows);
  return [=] { matrix_vector<<<blocks_for(rows, 8), 256>>>((const uint4*)a.p, (const uint4*)x.p, y, int(rows), 512); };
});

}  // namespace
