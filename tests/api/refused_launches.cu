// Driver calls with arguments that no launch can have: each is refused with CUDA_ERROR_INVALID_VALUE (as the driver's manual says
// of an argument outside the acceptable range), nothing is launched and nothing crashes. Ends with PASS.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>

__global__ void set(int* out) { *out = 1; }

template <class F>
F entry(const char* name) {
  void* p = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found);
  return reinterpret_cast<F>(p);
}

int main() {
  int* out;
  cudaMalloc(&out, sizeof(int));
  cudaMemset(out, 0, sizeof(int));
  CUfunction f;
  if (cudaGetFuncBySymbol(&f, reinterpret_cast<const void*>(set)) != cudaSuccess) return printf("no function\n"), 1;
  void* arguments[] = {&out};
  size_t bytes = sizeof out;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &out, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void* no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &out, CU_LAUNCH_PARAM_BUFFER_SIZE, nullptr, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  const auto launch = entry<decltype(&cuLaunchKernel)>("cuLaunchKernel");
  const auto launch_ex = entry<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  const auto cluster_size = entry<decltype(&cuOccupancyMaxPotentialClusterSize)>("cuOccupancyMaxPotentialClusterSize");
  const auto clusters = entry<decltype(&cuOccupancyMaxActiveClusters)>("cuOccupancyMaxActiveClusters");
  if (!launch || !launch_ex || !cluster_size || !clusters) return printf("no entry\n"), 1;

  int failed = 0, value = 0;
  const auto expect = [&](const char* what, int got, int want) {
    if (got != want) printf("%s: %d, not %d\n", what, got, want), failed++;
  };
  expect("arguments and extra", launch(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra), CUDA_ERROR_INVALID_VALUE);
  expect("arguments and extra, Ex", launch_ex(&config, f, arguments, extra), CUDA_ERROR_INVALID_VALUE);
  expect("a buffer without a size", launch_ex(&config, f, nullptr, no_size), CUDA_ERROR_INVALID_VALUE);
  expect("no configuration", launch_ex(nullptr, f, arguments, nullptr), CUDA_ERROR_INVALID_VALUE);
  expect("cluster size of nothing", cluster_size(&value, f, nullptr), CUDA_ERROR_INVALID_VALUE);
  expect("cluster size to nowhere", cluster_size(nullptr, f, &config), CUDA_ERROR_INVALID_VALUE);
  expect("clusters of nothing", clusters(&value, f, nullptr), CUDA_ERROR_INVALID_VALUE);
  expect("clusters to nowhere", clusters(nullptr, f, &config), CUDA_ERROR_INVALID_VALUE);
  int host = -1;
  cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost);
  expect("nothing was launched", host, 0);
  expect("extra alone", launch_ex(&config, f, nullptr, extra), CUDA_SUCCESS);
  cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost);
  expect("extra alone: the kernel's value", host, 1);
  if (!failed) printf("PASS\n");
  return failed != 0;
}
