// calib/waves.cu: on which SM the later blocks of a launch run, those that begin when others have ended: a JSON line for each launch, with the SMs in the order
// of the blocks and when they began (ns after the first). Kernels whose blocks do alike: filters, plain products, copies, arithmetic.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o waves waves.cu
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

struct Notes {
  unsigned* sm;
  unsigned long long* began;
  __device__ void note() const {
    if (threadIdx.x || threadIdx.y) return;
    const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned id;
    unsigned long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (b < 8192) sm[b] = id, began[b] = now;
  }
};

template <int kTaps>
__global__ void filter(Notes n, float* out, const float* in, const float* taps) {
  n.note();
  const int x = threadIdx.x, y = blockIdx.y * 7 + threadIdx.y, k = blockIdx.z % 128, image = blockIdx.z / 128;
  float sum = 0;
  for (int c = 0; c < 64; c++) {
    const float* p = in + (size_t(image * 64 + c) * 28 + y) * 28 + x;
#pragma unroll
    for (int j = 0; j < kTaps; j++)
#pragma unroll
      for (int i = 0; i < kTaps; i++) sum += p[j * 28 + i] * taps[(k * 64 + c) * kTaps * kTaps + j * kTaps + i];
  }
  out[(size_t(blockIdx.z) * 28 + y) * 28 + x] = sum;
}

__global__ void product(Notes n, float* c, const float* a, const float* b, int size) {
  n.note();
  const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < size; k++) sum += a[size_t(row) * size + k] * b[size_t(k) * size + column];
  c[size_t(row) * size + column] = sum;
}

__global__ void copy(Notes n, float4* out, const float4* in) {
  n.note();
  const size_t i = size_t(blockIdx.x) * 1024 + threadIdx.x;
  for (int k = 0; k < 4; k++) out[i + k * 256] = in[i + k * 256];
}

__global__ void arithmetic(Notes n, float* out) {
  n.note();
  float x = threadIdx.x;
#pragma unroll 16
  for (int i = 0; i < 4096; i++) x = x * 1.0001f + 1;
  out[size_t(blockIdx.x) * blockDim.x + threadIdx.x] = x;
}

template <class F>
void measure(const char* name, dim3 grid, dim3 block, F launch) {
  Notes n;
  const unsigned blocks = std::min(8192u, grid.x * grid.y * grid.z);
  cudaMalloc(&n.sm, 8192 * sizeof *n.sm), cudaMalloc(&n.began, 8192 * sizeof *n.began);
  for (int i = 0; i < 2; i++) launch(n, grid, block);
  std::vector<unsigned> s(blocks);
  std::vector<unsigned long long> t(blocks);
  cudaMemcpy(s.data(), n.sm, blocks * sizeof(unsigned), cudaMemcpyDeviceToHost);
  cudaMemcpy(t.data(), n.began, blocks * sizeof(unsigned long long), cudaMemcpyDeviceToHost);
  const unsigned long long first = *std::min_element(t.begin(), t.end());
  std::printf("{\"kernel\":\"%s\",\"grid\":[%u,%u,%u],\"block\":[%u,%u],\"error\":\"%s\",\"sm\":[", name, grid.x, grid.y, grid.z, block.x, block.y, cudaGetErrorName(cudaGetLastError()));
  for (unsigned i = 0; i < blocks; i++) std::printf("%s%u", i ? "," : "", s[i]);
  std::printf("],\"ns\":[");
  for (unsigned i = 0; i < blocks; i++) std::printf("%s%llu", i ? "," : "", t[i] - first);
  std::printf("]}\n");
}

}  // namespace

int main() {
  char *a, *b, *c;
  const size_t bytes = size_t(64) << 20;
  cudaMalloc(&a, bytes), cudaMalloc(&b, bytes), cudaMalloc(&c, bytes);
  cudaMemset(a, 0, bytes), cudaMemset(b, 0, bytes);
  float *x = reinterpret_cast<float*>(a), *y = reinterpret_cast<float*>(b), *z = reinterpret_cast<float*>(c);
  measure("filter_1", {1, 4, 512}, {28, 7}, [&](Notes n, dim3 g, dim3 t) { filter<1><<<g, t>>>(n, z, x, y); });
  measure("filter_3", {1, 4, 512}, {28, 7}, [&](Notes n, dim3 g, dim3 t) { filter<3><<<g, t>>>(n, z, x, y); });
  measure("product", {32, 128}, {32, 8}, [&](Notes n, dim3 g, dim3 t) { product<<<g, t>>>(n, z, x, y, 1024); });
  measure("product", {32, 32}, {32, 32}, [&](Notes n, dim3 g, dim3 t) { product<<<g, t>>>(n, z, x, y, 1024); });
  measure("copy", {4096}, {256}, [&](Notes n, dim3 g, dim3 t) { copy<<<g, t>>>(n, reinterpret_cast<float4*>(c), reinterpret_cast<const float4*>(a)); });
  measure("arithmetic", {4096}, {256}, [&](Notes n, dim3 g, dim3 t) { arithmetic<<<g, t>>>(n, z); });
  cudaDeviceSynchronize();
}
