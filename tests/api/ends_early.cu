// A program for loading.sh: it ends without waiting for its last kernel, and looks at the result after that.
// With OWN_CONTEXT the kernel runs in a context that the program made itself.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

static int* result;

__global__ void write(int* out) {
  for (int i = 0; i < 1000; i++) *(volatile int*)out = i;
  *out = 7;
}

int main() {
  std::atexit([] { std::printf("value %d\n", *result); });  // before the first call, so after CUDA's own
#ifdef OWN_CONTEXT
  CUcontext own;
  if (cuInit(0) || cuCtxCreate(&own, nullptr, 0, 0)) return 1;
#endif
  cudaMallocHost(&result, sizeof *result);
  *result = 0;
  write<<<1, 1>>>(result);
}
