// calib/truth/arithmetic.cu: kernels bound by arithmetic: fp32, fp64, half, integer, special functions, matrix products.
#include <cuda_fp16.h>

#include <algorithm>

#include "truth.h"

namespace {
using namespace truth;

__global__ void nbody(const float4* pos, float4* acc, int n) {
  __shared__ float4 tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 me = pos[i];
  float3 a = make_float3(0, 0, 0);
  for (int base = 0; base < n; base += 256) {
    tile[threadIdx.x] = pos[base + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 256; j++) {
      const float4 o = tile[j];
      const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
      const float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f), s = o.w * r * r * r;
      a.x += dx * s, a.y += dy * s, a.z += dz * s;
    }
    __syncthreads();
  }
  acc[i] = make_float4(a.x, a.y, a.z, 0);
}
__global__ void mandelbrot(int* out, int n, int limit) {
  const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  const float cx = -2.f + 3.f * px / n, cy = -1.5f + 3.f * py / n;
  float x = 0, y = 0;
  int i = 0;
  while (i < limit && x * x + y * y < 4.f) {
    const float t = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = t;
    i++;
  }
  out[py * n + px] = i;
}
__device__ float normal_cdf(float d) {
  const float k = 1.f / (1.f + 0.2316419f * fabsf(d));
  const float c = 0.3989423f * __expf(-.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1 - c : c;
}
__global__ void black_scholes(const float* s, const float* x, const float* t, float* call, float* put, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float root = sqrtf(t[i] + .1f), d1 = (logf((s[i] + 1) / (x[i] + 1)) + (.02f + .045f) * t[i]) / (.3f * root), d2 = d1 - .3f * root;
  const float c1 = normal_cdf(d1), c2 = normal_cdf(d2), discount = __expf(-.02f * t[i]);
  call[i] = s[i] * c1 - x[i] * discount * c2;
  put[i] = x[i] * discount * (1 - c2) - s[i] * (1 - c1);
}
__global__ void sgemm_naive(const float* a, const float* b, float* c, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}
template <class T, int kTile>
__device__ void tiled_product(const T* a, const T* b, T* c, int n) {
  __shared__ T as[kTile][kTile], bs[kTile][kTile];
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  T sum = 0;
  for (int k = 0; k < n; k += kTile) {
    as[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[y * n + x] = sum;
}
__global__ void sgemm_tiled(const float* a, const float* b, float* c, int n) { tiled_product<float, 16>(a, b, c, n); }
__global__ void sgemm_tiled32(const float* a, const float* b, float* c, int n) { tiled_product<float, 32>(a, b, c, n); }
__global__ void dgemm_tiled(const double* a, const double* b, double* c, int n) { tiled_product<double, 16>(a, b, c, n); }
__global__ void __launch_bounds__(256) sgemm_registers(const float* a, const float* b, float* c, int n) {
  __shared__ float as[8][128], bs[8][128];
  const int t = threadIdx.x, row = blockIdx.y * 128, col = blockIdx.x * 128, tx = t % 16 * 8, ty = t / 16 * 8;
  float acc[8][8] = {};
  for (int k = 0; k < n; k += 8) {
    const float4 av = *(const float4*)&a[(row + t / 2) * n + k + t % 2 * 4];
    const float4 bv = *(const float4*)&b[(k + t / 32) * n + col + t % 32 * 4];
    as[t % 2 * 4][t / 2] = av.x, as[t % 2 * 4 + 1][t / 2] = av.y, as[t % 2 * 4 + 2][t / 2] = av.z, as[t % 2 * 4 + 3][t / 2] = av.w;
    *(float4*)&bs[t / 32][t % 32 * 4] = bv;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float x[8], y[8];
#pragma unroll
      for (int j = 0; j < 8; j++) y[j] = as[i][ty + j], x[j] = bs[i][tx + j];
#pragma unroll
      for (int p = 0; p < 8; p++)
#pragma unroll
        for (int q = 0; q < 8; q++) acc[p][q] += y[p] * x[q];
    }
    __syncthreads();
  }
  for (int p = 0; p < 8; p++)
    for (int q = 0; q < 8; q += 4) *(float4*)&c[(row + ty + p) * n + col + tx + q] = make_float4(acc[p][q], acc[p][q + 1], acc[p][q + 2], acc[p][q + 3]);
}
__global__ void murmur(const uint32_t* in, uint32_t* out, int rounds, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  uint32_t h = in[i];
  for (int r = 0; r < rounds; r++) {
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16, h = (h << 5 | h >> 27) + r;
  }
  out[i] = h;
}
__global__ void monte_carlo(uint32_t* hits, int rounds) {
  uint32_t s = (blockIdx.x * blockDim.x + threadIdx.x) * 747796405u + 2891336453u, inside = 0;
  for (int i = 0; i < rounds; i++) {
    s = s * 1664525u + 1013904223u;
    const float x = float(s >> 8) * (1.f / 16777216.f);
    s = s * 1664525u + 1013904223u;
    const float y = float(s >> 8) * (1.f / 16777216.f);
    inside += x * x + y * y < 1.f;
  }
  hits[blockIdx.x * blockDim.x + threadIdx.x] = inside;
}
__global__ void softplus(const float* in, float* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float v = in[i];
#pragma unroll
  for (int r = 0; r < 16; r++) v = __logf(1.f + __expf(v)) - .5f;
  out[i] = v;
}
__global__ void half_horner(const __half2* in, __half2* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  __half2 x = in[i], s = x, t = x;
  const __half2 c = __float2half2_rn(.25f);
#pragma unroll 32
  for (int r = 0; r < 256; r++) s = __hfma2(s, x, c), t = __hfma2(t, c, x);
  out[i] = __hadd2(s, t);
}
__global__ void double_horner(const double* in, double* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  double x = in[i], s = x, t = x;
#pragma unroll 16
  for (int r = 0; r < 128; r++) s = s * x + .5, t = t * .25 + x;
  out[i] = s + t;
}
__global__ void float_chain(float* out, int rounds) {  // one dependent chain a thread, few warps
  float x = threadIdx.x * 1e-3f, y = blockIdx.x * 1e-3f;
#pragma unroll 16
  for (int r = 0; r < rounds; r++) x = x * .999f + y;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void integer_divide(const uint32_t* a, const uint32_t* b, uint32_t* c, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  uint32_t x = a[i] | 1, y = b[i] & 1023 | 1;
#pragma unroll 1
  for (int r = 0; r < 16; r++) x = x / y + x % (y + r) * 7;
  c[i] = x;
}
__global__ void norm_divide(const float* a, float* b, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float x = a[i] + 1;
#pragma unroll 1
  for (int r = 0; r < 16; r++) x = 1.f + sqrtf(x) / (x + r);
  b[i] = x;
}

TRUTH("fp32", "nbody", {4096, 16384, 65536}, [](long n) {
  auto p = uniform<float>(n * 4), a = zeros<float>(n * 4);
  return [=] { nbody<<<int(n / 256), 256>>>((const float4*)p.p, (float4*)a.p, int(n)); };
});
TRUTH("fp32", "mandelbrot", {512, 2048}, [](long n) {
  auto o = zeros<int>(n * n);
  return [=] { mandelbrot<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(o, int(n), 256); };
});
TRUTH("fp32", "black_scholes", {1 << 20, 1 << 24}, [](long n) {
  auto s = uniform<float>(n), x = uniform<float>(n), t = uniform<float>(n), c = zeros<float>(n), p = zeros<float>(n);
  return [=] { black_scholes<<<blocks_for(n, 256), 256>>>(s, x, t, c, p, int(n)); };
});
TRUTH("fp32", "sgemm_naive", {256, 1024, 2048}, [](long n) {
  auto a = uniform<float>(n * n), b = uniform<float>(n * n), c = zeros<float>(n * n);
  return [=] { sgemm_naive<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, b, c, int(n)); };
});
TRUTH("fp32", "sgemm_tiled", {256, 1024, 2048}, [](long n) {
  auto a = uniform<float>(n * n), b = uniform<float>(n * n), c = zeros<float>(n * n);
  return [=] { sgemm_tiled<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, int(n)); };
});
TRUTH("fp32", "sgemm_tiled32", {512, 2048}, [](long n) {
  auto a = uniform<float>(n * n), b = uniform<float>(n * n), c = zeros<float>(n * n);
  return [=] { sgemm_tiled32<<<dim3(n / 32, n / 32), dim3(32, 32)>>>(a, b, c, int(n)); };
});
TRUTH("fp32", "sgemm_registers", {512, 1024, 2048, 4096}, [](long n) {
  auto a = uniform<float>(n * n), b = uniform<float>(n * n), c = zeros<float>(n * n);
  return [=] { sgemm_registers<<<dim3(n / 128, n / 128), 256>>>(a, b, c, int(n)); };
});
TRUTH("fp64", "dgemm_tiled", {256, 1024}, [](long n) {
  auto a = uniform<double>(n * n), b = uniform<double>(n * n), c = zeros<double>(n * n);
  return [=] { dgemm_tiled<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, int(n)); };
});
TRUTH("integer", "murmur", {1 << 18, 1 << 22}, [](long n) {
  auto a = indices(n, ~0u), b = zeros<uint32_t>(n);
  return [=] { murmur<<<blocks_for(n, 256), 256>>>(a, b, 64, n); };
});
TRUTH("integer", "monte_carlo", {64, 1024}, [](long rounds) {
  auto h = zeros<uint32_t>(132 * 8 * 256);
  return [=] { monte_carlo<<<132 * 8, 256>>>(h, int(rounds)); };
});
TRUTH("special", "softplus", {1 << 20, 1 << 24}, [](long n) {
  auto a = uniform<float>(n), b = zeros<float>(n);
  return [=] { softplus<<<blocks_for(n, 256), 256>>>(a, b, n); };
});
TRUTH("half", "half_horner", {1 << 18, 1 << 22}, [](long n) {
  auto a = zeros<uint32_t>(n), b = zeros<uint32_t>(n);
  return [=] { half_horner<<<blocks_for(n, 256), 256>>>((const __half2*)a.p, (__half2*)b.p, n); };
});
TRUTH("fp64", "double_horner", {1 << 18, 1 << 22}, [](long n) {
  auto a = uniform<double>(n), b = zeros<double>(n);
  return [=] { double_horner<<<blocks_for(n, 256), 256>>>(a, b, n); };
});
TRUTH("latency", "float_chain", {256, 4096}, [](long rounds) {
  auto o = zeros<float>(132 * 128);
  return [=] { float_chain<<<132, 128>>>(o, int(rounds)); };
});
TRUTH("integer", "integer_divide", {1 << 18, 1 << 21}, [](long n) {
  auto a = indices(n, ~0u), b = indices(n, ~0u), c = zeros<uint32_t>(n);
  return [=] { integer_divide<<<blocks_for(n, 128), 128>>>(a, b, c, n); };
});
TRUTH("special", "norm_divide", {1 << 18, 1 << 22}, [](long n) {
  auto a = uniform<float>(n), b = zeros<float>(n);
  return [=] { norm_divide<<<blocks_for(n, 256), 256>>>(a, b, n); };
});

}  // namespace
