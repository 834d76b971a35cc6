#include <cstdio>
__global__ void smooth(float* out, const float* in, int n) {
  __shared__ float tile[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  tile[t] = i < n ? in[i] : 0;
  float left = t > 0 ? tile[t - 1] : 0, right = t < 255 ? tile[t + 1] : 0;
  if (i < n) out[i] = (left + tile[t] + right) / 3;
}
// A barrier is missing in it: README.md shows what `orrery check` says.
int main() {
  const int n = 1000;
  float *in, *out, host[n];
  for (int i = 0; i < n; i++) host[i] = float(i);
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  smooth<<<(n + 255) / 256, 256>>>(out, in, n);
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  printf("out[63] = %g, out[64] = %g\n", host[63], host[64]);
}
