// Sums 1000 ones with the installed library; exits with 0 if the sum is right.
#include <orrery/kernels.h>

#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> ones(1000, 1.f);
  void *in, *out, *workspace;
  if (cudaMalloc(&in, 4000) || cudaMalloc(&out, 4) || cudaMalloc(&workspace, orrery::kernels::reduce_workspace())) return 1;
  cudaMemset(workspace, 0, orrery::kernels::reduce_workspace());
  cudaMemcpy(in, ones.data(), 4000, cudaMemcpyHostToDevice);
  const orrery::kernels::Status s =
      orrery::kernels::reduce_sum(static_cast<float*>(out), static_cast<float*>(in), 1000, workspace, nullptr);
  float sum = 0;
  cudaMemcpy(&sum, out, 4, cudaMemcpyDeviceToHost);
  std::printf("sum %g\n", sum);
  return s.ok() && sum == 1000.f ? 0 : 1;
}
