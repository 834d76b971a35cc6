// calib/naive.cu: the inner loop of a product as a beginner writes it, taken apart: which of its loads L1 holds, which are there at all, and how far it is
// unrolled; and loops of loads that L1 holds. Each case is launched twice; under a profiler (`ncu --cache-control none`) the second is what counts.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o naive naive.cu
#include <cuda_runtime.h>

#include <cstdio>

namespace {

/// What is multiplied: A is the same for a warp's lanes and eight k lie in a sector, B is a row of 32; `near`: the same 16 or 32 again and again.
enum Kind { kBoth, kNearB, kOnlyA, kOnlyB, kFarAndNearB, kNearBoth, kOnlyNearB, kTwoNearB, kOnlyNearA, kRowsOfA, kShiftedB };
constexpr const char* kNames[] = {"both", "near_b", "only_a", "only_b", "far_and_near_b", "near_both", "only_near_b", "two_near_b", "only_near_a", "rows_of_a", "shifted_b"};

template <int kUnroll, Kind kKind>
__global__ void product(const float* a, const float* b, float* c, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
#pragma unroll kUnroll
  for (int k = 0; k < n; k++) {
    if (kKind == kBoth) sum += a[y * n + k] * b[k * n + x];
    if (kKind == kNearB) sum += a[y * n + k] * b[(k & 15) * n + x];
    if (kKind == kOnlyA) sum += a[y * n + k] * 3.f;
    if (kKind == kOnlyB) sum += b[k * n + x] * 3.f;
    if (kKind == kFarAndNearB) sum += b[k * n + x] * b[(k & 15) * n + x];
    if (kKind == kNearBoth) sum += a[threadIdx.y * n + (k & 31)] * b[(k & 15) * n + x];
    if (kKind == kOnlyNearB) sum += b[(k & 15) * n + x] * 3.f;
    if (kKind == kTwoNearB) sum += b[(k & 15) * n + x] * b[((k & 15) + 16) * n + x];
    if (kKind == kOnlyNearA) sum += a[threadIdx.y * n + (k & 31)] * 3.f;
    if (kKind == kRowsOfA) sum += a[(threadIdx.y * 32 + (k & 31)) * 32 + threadIdx.x] * b[k * n + x];
    if (kKind == kShiftedB) sum += a[y * n + k] * b[k * n + x + y];
  }
  c[y * n + x] = sum;
}

/// kLoads of lines that L1 holds, then their sum.
template <int kLoads>
__global__ void __launch_bounds__(256) held(const float* b, float* c, int rounds, int zero) {
  const float* p = b + threadIdx.x % 32;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
#pragma unroll
    for (int k = 0; k < kLoads; k++) {
      float v;
      asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p + k * 32));
      sum += v;
    }
    p += zero;
  }
  c[blockIdx.x * 256 + threadIdx.x] = sum;
}

float *a, *b, *c;

template <class Launch>
void twice(const char* name, int number, Launch launch) {
  for (int i = 0; i < 2; i++) {
    launch();
    std::printf("case %s_%d %s\n", name, number, cudaGetErrorString(cudaDeviceSynchronize()));
  }
}
template <int kUnroll, Kind kKind>
void one(dim3 grid = {32, 128}, dim3 block = {32, 8}, const char* name = kNames[kKind]) {
  twice(name, kUnroll, [=] { product<kUnroll, kKind><<<grid, block>>>(a, b, c, 1024); });
}
template <int kLoads>
void loads() {
  twice("held", kLoads, [] { held<kLoads><<<1056, 256>>>(b, c, 256, 0); });
}

}  // namespace

int main() {
  for (float** p : {&a, &b, &c}) cudaMalloc(p, 64 << 20), cudaMemset(*p, 0, 64 << 20);
  one<4, kBoth>(), one<4, kNearB>(), one<4, kOnlyA>(), one<4, kOnlyB>(), one<4, kFarAndNearB>(), one<4, kNearBoth>(), one<4, kOnlyNearB>(), one<4, kTwoNearB>();
  one<4, kOnlyNearA>(), one<4, kRowsOfA>(), one<4, kShiftedB>(), one<1, kBoth>(), one<8, kBoth>(), one<16, kBoth>(), one<16, kNearB>(), one<16, kNearBoth>();
  one<16, kOnlyB>(), one<16, kOnlyA>();
  loads<1>(), loads<2>(), loads<4>(), loads<8>(), loads<16>();
  one<4, kBoth>({32, 32}, {32, 32}, "both_32x32"), one<4, kBoth>({4, 1024}, {256, 1}, "both_256");
}
