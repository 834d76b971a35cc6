// Tiled single-precision matrix product: C = A B, verified against the CPU.
//
//   orrery cc -o sgemm examples/sgemm.cu && orrery run -- ./sgemm [n]        (or: nvcc -arch=sm_90 ...)
//
// Every block computes a 32 x 32 tile of C; its threads stage tiles of A and B in shared memory, and each computes four
// elements.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                              \
  do {                                                                           \
    cudaError_t e = (call);                                                      \
    if (e != cudaSuccess) {                                                      \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));            \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

constexpr int kTile = 32, kRows = 8, kPerThread = kTile / kRows;

__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[kTile][kTile], tb[kTile][kTile];
  int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * kTile + x, row = blockIdx.y * kTile + y;
  float sum[kPerThread] = {};
  for (int k = 0; k < n; k += kTile) {
    for (int i = 0; i < kTile; i += kRows) {
      ta[y + i][x] = a[(row + i) * n + k + x];
      tb[y + i][x] = b[(k + y + i) * n + column];
    }
    __syncthreads();
    for (int j = 0; j < kTile; j++)
      for (int i = 0; i < kPerThread; i++) sum[i] = fmaf(ta[y + i * kRows][j], tb[j][x], sum[i]);
    __syncthreads();
  }
  for (int i = 0; i < kPerThread; i++) c[(row + i * kRows) * n + column] = sum[i];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 512;
  if (n <= 0 || n % kTile) {
    std::fprintf(stderr, "n must be a positive multiple of %d\n", kTile);
    return 2;
  }
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; i++) {
    a[i] = float((i * 37 + 11) % 64 - 32) / 16;
    b[i] = float((i * 53 + 7) % 64 - 32) / 16;
  }
  float *da, *db, *dc;
  const size_t bytes = sizeof(float) * n * n;
  CHECK(cudaMalloc(&da, bytes));
  CHECK(cudaMalloc(&db, bytes));
  CHECK(cudaMalloc(&dc, bytes));
  CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));

  dim3 grid(n / kTile, n / kTile), block(kTile, kRows);
  multiply<<<grid, block>>>(da, db, dc, n);  // the first launch also compiles
  CHECK(cudaDeviceSynchronize());
  auto start = std::chrono::steady_clock::now();
  multiply<<<grid, block>>>(da, db, dc, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));

  // All products and sums are multiples of 2^-8 below 2^24 of them: the result is exact in any order.
  int wrong = 0;
  for (int i = 0; i < n; i += 7)
    for (int j = 0; j < n; j += 5) {
      double want = 0;
      for (int k = 0; k < n; k++) want += double(a[i * n + k]) * b[k * n + j];
      wrong += double(c[i * n + j]) != want;
    }
  std::printf("sgemm %d x %d: %.3f s, %.1f GFLOP/s, %s\n", n, n, seconds, 2e-9 * n * n * n / seconds,
              wrong ? "WRONG" : "equal to the CPU");
  CHECK(cudaFree(da));
  CHECK(cudaFree(db));
  CHECK(cudaFree(dc));
  return wrong != 0;
}
