// calib/truth/memory.cu: kernels that wait for memory: streams, strides, transposes, gathers, row operations.
#include <algorithm>

#include "truth.h"

namespace {
using namespace truth;

__global__ void copy_f4(const float4* a, float4* b, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) b[i] = a[i];
}
__global__ void saxpy(const float* x, float* y, float a, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void triad_loop(const float* b, const float* c, float* a, float s, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) a[i] = b[i] + s * c[i];
}
__global__ void fill_words(uint32_t* p, uint32_t v, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) p[i] = v;
}
__global__ void strided_read(const float* a, float* b, long n, int stride) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) b[i] = a[i * stride];
}
__global__ void transpose_naive(const float* a, float* b, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) b[long(x) * n + y + j] = a[long(y + j) * n + x];
}
__global__ void transpose_tiled(const float* a, float* b, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = a[long(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) b[long(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void gather(const float* table, const uint32_t* index, float* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = table[index[i]];
}
__global__ void scatter(const float* in, const uint32_t* index, float* table, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) table[index[i]] = in[i];
}
__global__ void add_bytes(const uint8_t* a, const uint8_t* b, uint8_t* c, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void aos_update(float* points, float dt, long n) {  // structures of 6 floats
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float* p = points + i * 6;
  p[0] += dt * p[3], p[1] += dt * p[4], p[2] += dt * p[5];
}
__global__ void double_axpy(const double* x, double* y, double a, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) y[i] += a * x[i];
}
__global__ void embedding_rows(const float4* table, const uint32_t* index, float4* out, int width) {
  const float4* row = table + long(index[blockIdx.x]) * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) out[long(blockIdx.x) * width + i] = row[i];
}

TRUTH("memory", "copy_f4", {1 << 16, 1 << 20, 1 << 24, 1 << 26}, [](long n) {
  auto a = uniform<float>(n * 4), b = zeros<float>(n * 4);
  return [=] { copy_f4<<<blocks_for(n, 256), 256>>>((const float4*)a.p, (float4*)b.p, n); };
});
TRUTH("memory", "saxpy", {1 << 14, 1 << 18, 1 << 22, 1 << 26}, [](long n) {
  auto x = uniform<float>(n), y = uniform<float>(n);
  return [=] { saxpy<<<blocks_for(n, 256), 256>>>(x, y, 2.f, n); };
});
TRUTH("memory", "triad_loop", {1 << 20, 1 << 23, 1 << 26}, [](long n) {
  auto a = zeros<float>(n), b = uniform<float>(n), c = uniform<float>(n);
  return [=] { triad_loop<<<132 * 8, 256>>>(b, c, a, 3.f, n); };
});
TRUTH("memory", "fill_words", {1 << 20, 1 << 26}, [](long n) {
  auto a = zeros<uint32_t>(n);
  return [=] { fill_words<<<132 * 4, 512>>>(a, 7, n); };
});
TRUTH("memory", "strided_read", {2, 4, 8, 32}, [](long stride) {
  const long n = 1 << 22;
  auto a = uniform<float>(n * stride), b = zeros<float>(n);
  return [=] { strided_read<<<blocks_for(n, 256), 256>>>(a, b, n, int(stride)); };
});
TRUTH("memory", "transpose_naive", {1024, 4096}, [](long n) {
  auto a = uniform<float>(n * n), b = zeros<float>(n * n);
  return [=] { transpose_naive<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(a, b, int(n)); };
});
TRUTH("memory", "transpose_tiled", {1024, 4096, 8192}, [](long n) {
  auto a = uniform<float>(n * n), b = zeros<float>(n * n);
  return [=] { transpose_tiled<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(a, b, int(n)); };
});
TRUTH("memory", "gather", {1 << 20, 1 << 23}, [](long n) {
  auto t = uniform<float>(1 << 25), o = zeros<float>(n);
  auto i = indices(n, 1 << 25);
  return [=] { gather<<<blocks_for(n, 256), 256>>>(t, i, o, n); };
});
TRUTH("memory", "scatter", {1 << 20, 1 << 22}, [](long n) {
  auto t = zeros<float>(1 << 25), o = uniform<float>(n);
  auto i = indices(n, 1 << 25);
  return [=] { scatter<<<blocks_for(n, 256), 256>>>(o, i, t, n); };
});
TRUTH("memory", "add_bytes", {1 << 22, 1 << 26}, [](long n) {
  auto a = zeros<uint8_t>(n), b = zeros<uint8_t>(n), c = zeros<uint8_t>(n);
  return [=] { add_bytes<<<blocks_for(n, 256), 256>>>(a, b, c, n); };
});
TRUTH("memory", "aos_update", {1 << 20, 1 << 23}, [](long n) {
  auto p = uniform<float>(n * 6);
  return [=] { aos_update<<<blocks_for(n, 128), 128>>>(p, .01f, n); };
});
TRUTH("memory", "double_axpy", {1 << 20, 1 << 25}, [](long n) {
  auto x = uniform<double>(n), y = uniform<double>(n);
  return [=] { double_axpy<<<132 * 4, 512>>>(x, y, 1.5, n); };
});
TRUTH("memory", "embedding_rows", {1024, 16384}, [](long rows) {
  auto t = uniform<float>(long(65536) * 1024), o = zeros<float>(rows * 1024);
  auto i = indices(rows, 65536);
  return [=] { embedding_rows<<<int(rows), 128>>>((const float4*)t.p, i, (float4*)o.p, 256); };
});

}  // namespace
