// The product that any strides and alignments take: 64 x 64 tiles, f32 multiply-adds on the ordinary cores.
//
// Correctness is all it is for: a thread sums its 4 x 4 elements in the order of k, with one rounding per term; of int8, whose sums of 16 terms are exact
// in f32, as whole numbers.
#include "gemm_epilogue.cuh"

namespace orrery::kernels {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256;

struct SimpleParams {
  ConstMatrix a, b;
  int m, n, k;
  Epilogue e;
  const float *block_a, *block_b;
};

__device__ float load_any(const void* p, int64_t i, DType t) {
  if (t == DType::kE4M3) return float(static_cast<const __nv_fp8_e4m3*>(p)[i]);
  if (t == DType::kI8) return float(static_cast<const int8_t*>(p)[i]);
  if (t == DType::kE5M2) return float(static_cast<const __nv_fp8_e5m2*>(p)[i]);
  return load_element(p, i, t);
}

template <bool kWhole>
__global__ void __launch_bounds__(kThreads) simple(const SimpleParams p) {
  __shared__ float a[kDepth][kTile + 1], b[kDepth][kTile + 1];
  const int across = (p.n + kTile - 1) / kTile;
  const int64_t row0 = int64_t(blockIdx.x / across) * kTile, col0 = int64_t(blockIdx.x % across) * kTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float acc[4][4] = {};
  int whole[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const int r = i / kDepth, k = k0 + i % kDepth;
      const int64_t row = row0 + r, col = col0 + r;
      const bool in = k < p.k;
      a[i % kDepth][r] =
          in && row < p.m ? load_any(p.a.data, row * p.a.row_stride + k * p.a.col_stride, p.a.dtype) : 0.f;
      b[i % kDepth][r] =
          in && col < p.n ? load_any(p.b.data, k * p.b.row_stride + col * p.b.col_stride, p.b.dtype) : 0.f;
      if (p.block_a) {
        const int blocks = (p.k + 127) / 128;
        if (in && row < p.m) a[i % kDepth][r] *= p.block_a[row * blocks + k / 128];
        if (in && col < p.n) b[i % kDepth][r] *= p.block_b[col / 128 * blocks + k / 128];
      }
    }
    __syncthreads();
    for (int k = 0; k < kDepth; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc[i][j] = fmaf(a[k][ty + 16 * i], b[k][tx + 16 * j], acc[i][j]);
#pragma unroll
    for (int i = 0; i < (kWhole ? 16 : 0); i++) whole[i / 4][i % 4] += int(acc[i / 4][i % 4]), acc[i / 4][i % 4] = 0.f;
    __syncthreads();
  }
  const float scale = tensor_scale(p.e);
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int64_t row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
      if (row < p.m && col < p.n)
        store_element(p.e.d, row * p.e.d_row_stride + col * p.e.d_col_stride, p.e.dtype,
                      finish(p.e, scale, kWhole ? float(whole[i][j]) : acc[i][j], int(row), int(col)));
    }
}

}  // namespace

cudaError_t gemm_simple(const GemmArgs& g, const Epilogue& e, cudaStream_t stream) {
  SimpleParams p{g.a, g.b, int(g.m), int(g.n), int(g.k), e, g.block_scale_a, g.block_scale_b};
  const int64_t tiles = ((g.m + kTile - 1) / kTile) * ((g.n + kTile - 1) / kTile);
  if (tiles > 0x7fffffff) return cudaErrorInvalidValue;
  (g.a.dtype == DType::kI8 ? simple<true> : simple<false>)<<<unsigned(tiles), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace orrery::kernels
