// Kernels that launch kernels (dynamic parallelism). Codes and orders are those of an H200 (driver 580.159.04).
#include <cstring>
#include <vector>

#include "../cuda/check.h"

__global__ void nothing() {}
__global__ __launch_bounds__(128) void bounded(int* p) { *p = 1; }
__global__ void add(int* p, int n) { atomicAdd(p, n); }
__global__ void log_it(int* log, int* n, int v) { log[atomicAdd(n, 1)] = v; }
__global__ void fault(int*) { *(volatile int*)0 = 1; }
__global__ void dynamic(int* p) {
  extern __shared__ int s[];
  s[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) *p = s[31];
}

/// Codes of launches that cannot be, one after the other.
__global__ void refused(int* out, int* p) {
  nothing<<<1, 2048>>>();
  *out++ = cudaPeekAtLastError();
  *out++ = cudaGetLastError();
  *out++ = cudaGetLastError();
  nothing<<<0, 32>>>();
  *out++ = cudaGetLastError();
  bounded<<<1, 256>>>(p);
  *out++ = cudaGetLastError();
  dynamic<<<1, 32, 300000>>>(p);
  *out++ = cudaGetLastError();
  nothing<<<dim3(1, 70000), 32>>>();
  *out++ = cudaGetLastError();
  nothing<<<1, 1, 0, (cudaStream_t)0x1234>>>();
  *out++ = cudaGetLastError();
  cudaEvent_t event;
  *out++ = cudaEventCreateWithFlags(&event, cudaEventDefault);
  *out++ = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  *out++ = cudaMemcpyAsync(p, p + 2, 4, cudaMemcpyHostToDevice, 0);
  *out++ = cudaMemsetAsync(nullptr, 0, 4, 0);
}

/// What is in streams runs in their order; what is for the tail after all else.
__global__ void ordered(int* log, int* n) {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEvent_t event;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  log_it<<<1, 1, 0, cudaStreamTailLaunch>>>(log, n, 100);
  log_it<<<1, 1, 0, stream>>>(log, n, 1);
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(0, event, 0);
  log_it<<<1, 1>>>(log, n, 2);
  log_it<<<1, 1, 0, cudaStreamTailLaunch>>>(log, n, 101);
  log_it<<<1, 1>>>(log, n, 3);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

__global__ void deep(int* deepest, int* code, int depth) {
  atomicMax(deepest, depth);
  deep<<<1, 1>>>(deepest, code, depth + 1);
  if (const cudaError_t e = cudaGetLastError()) *code = e;
}
__global__ void chain(int* n) {
  if (atomicAdd(n, 1) < 9999) chain<<<1, 1, 0, cudaStreamTailLaunch>>>(n);
}
__global__ void many(int* n, int* errors, int launches) {
  for (int i = 0; i < launches; i++) {
    add<<<1, 1>>>(n, 1);
    if (cudaGetLastError()) atomicAdd(errors, 1);
  }
}
/// A thread sees its own errors only.
__global__ void own_errors(int* out) {
  if (threadIdx.x == 0) nothing<<<1, 4096>>>();
  __syncthreads();
  out[threadIdx.x] = cudaGetLastError();
}
__global__ void parent_of_fault(int* p) { fault<<<1, 1>>>(p); }

struct Large {
  char bytes[4000];
};
__global__ void take_large(Large large, int* p) { *p = large.bytes[3999]; }
__global__ void give_large(int* p) {
  Large large;
  for (int i = 0; i < 4000; i++) large.bytes[i] = char(i % 7);
  take_large<<<1, 1>>>(large, p);
}

__global__ void ask(int* out) {
  int v = -1;
  out[0] = cudaGetDeviceCount(&v) == cudaSuccess ? v : -1;
  out[1] = cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0) == cudaSuccess ? v : -1;
  out[2] = cudaDeviceGetAttribute(&v, (cudaDeviceAttr)9999, 0);
  out[3] = cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 5);
  size_t limit = 0;
  out[4] = cudaDeviceGetLimit(&limit, cudaLimitDevRuntimePendingLaunchCount) == cudaSuccess ? int(limit) : -1;
  cudaFuncAttributes attributes;
  out[5] = cudaFuncGetAttributes(&attributes, (const void*)bounded) == cudaSuccess ? attributes.maxThreadsPerBlock : -1;
  out[6] = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, (const void*)bounded, 128, 0) == cudaSuccess ? v : -1;
  void* memory = nullptr;
  out[7] = cudaMalloc(&memory, 256) == cudaSuccess && memory != nullptr;
  out[8] = cudaFree(memory);
  out[9] = cudaMalloc(&memory, 1ull << 40);
  const char* text = cudaGetErrorString(cudaErrorInvalidValue);
  out[10] = text[0] == 'i' && text[7] == ' ' && text[16] == 0;  // "invalid argument"
}

/// Sums by halves: each grid launches two for its parts, down to 32 elements.
__global__ void tree_sum(const int* in, int n, int* out) {
  if (n <= 32) {
    if (int(threadIdx.x) < n) atomicAdd(out, in[threadIdx.x]);
  } else if (threadIdx.x == 0) {
    tree_sum<<<1, 32>>>(in, n / 2, out);
    tree_sum<<<1, 32>>>(in + n / 2, n - n / 2, out);
  }
}

int main() {
  int* d;
  CUDA(cudaMalloc(&d, 1 << 20));
  std::vector<int> h(64);
  const auto run = [&](auto launch) {
    CUDA(cudaMemset(d, 0, 1 << 20));
    launch();
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(h.data(), d, h.size() * 4, cudaMemcpyDeviceToHost));
  };

  run([&] { refused<<<1, 1>>>(d, d + 1000); });
  const int codes[] = {9, 9, 0, 9, 9, 9, 9, 1, 1, 0, 21, 1};
  for (int i = 0; i < 12; i++) EXPECT_EQ(h[i], codes[i]);
  CUDA(cudaGetLastError());

  run([&] { ordered<<<1, 1>>>(d, d + 50); });
  EXPECT_EQ(h[50], 5);
  const int order[] = {1, 2, 3, 100, 101};
  for (int i = 0; i < 5; i++) EXPECT_EQ(h[i], order[i]);

  run([&] { deep<<<1, 1>>>(d, d + 1, 0); });
  EXPECT_EQ(h[0], 2048);
  EXPECT_EQ(h[1], cudaErrorLaunchPendingCountExceeded);
  run([&] { chain<<<1, 1>>>(d); });
  EXPECT_EQ(h[0], 10000);
  run([&] { many<<<1, 1>>>(d, d + 1, 5000); });
  EXPECT_EQ(h[0], 5000);
  EXPECT_EQ(h[1], 0);
  run([&] { own_errors<<<1, 2>>>(d); });
  EXPECT_EQ(h[0], cudaErrorInvalidConfiguration);
  EXPECT_EQ(h[1], 0);
  run([&] { give_large<<<1, 1>>>(d); });
  EXPECT_EQ(h[0], 3999 % 7);

  run([&] { ask<<<1, 1>>>(d); });
  const int answers[] = {1, 32, 1, 101, 2048, 128, 16, 1, 0, 2, 1};
  for (int i = 0; i < 11; i++) EXPECT_EQ(h[i], answers[i]);

  std::vector<int> numbers(10000);
  long long sum = 0;
  for (int i = 0; i < 10000; i++) sum += numbers[i] = i % 101 - 30;
  CUDA(cudaMemset(d, 0, 4));
  CUDA(cudaMemcpy(d + 64, numbers.data(), numbers.size() * 4, cudaMemcpyHostToDevice));
  tree_sum<<<1, 32>>>(d + 64, 10000, d);
  CUDA(cudaMemcpy(h.data(), d, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(h[0], sum);

  parent_of_fault<<<1, 1>>>(d);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  return pass();
}
