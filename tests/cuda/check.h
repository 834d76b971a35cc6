// tests/cuda/check.h: what the CUDA test programs share: one PASS or FAIL line, and checked calls.
#pragma once
#include <cstdio>
#include <cstdlib>

#define CUDA(call)                                                                             \
  do {                                                                                         \
    cudaError_t error_ = (call);                                                               \
    if (error_ != cudaSuccess) {                                                               \
      std::printf("FAIL line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error_));      \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)

#define EXPECT(condition, ...)                       \
  do {                                               \
    if (!(condition)) {                              \
      std::printf("FAIL line %d: ", __LINE__);       \
      std::printf(__VA_ARGS__);                      \
      std::printf("\n");                             \
      std::exit(1);                                  \
    }                                                \
  } while (0)

#define EXPECT_EQ(got, want)                                                  \
  do {                                                                        \
    const long long got_ = (long long)(got), want_ = (long long)(want);       \
    EXPECT(got_ == want_, "%s is %lld, not %lld", #got, got_, want_);         \
  } while (0)

// Memory that host and device share.
template <class T> T* managed(size_t n) {
  T* p = nullptr;
  CUDA(cudaMallocManaged(&p, n * sizeof(T)));
  for (size_t i = 0; i < n; i++) p[i] = T();
  return p;
}
inline void finish() {
  CUDA(cudaGetLastError());
  CUDA(cudaDeviceSynchronize());
}
inline int pass() {
  std::printf("PASS\n");
  return 0;
}
