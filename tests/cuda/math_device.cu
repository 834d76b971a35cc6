// The math functions give on the device the bits that they give on the host (math_accuracy.cc judges those).
#include <cmath>

#include "check.h"

constexpr int kCount = 512;
constexpr int kFunctions = 24;

template <class F> __host__ __device__ void each(float x, F put) {
  using namespace orrery_cc;
  double d = x;
  double results[kFunctions] = {exp_f(x),  log_f(x),  sin_f(x),   cos_f(x),   tan_f(x),   tanh_f(x),  erf_f(x),  atan_f(x),
                                exp_d(d),  log_d(d),  sin_d(d),   cos_d(d),   tan_d(d),   tanh_d(d),  erf_d(d),  atan_d(d),
                                pow_d(d, 1.7), cbrt_d(d), lgamma_d(d), tgamma_d(d), erfc_d(d), asinh_d(d), j0_d(d), fmod_d(d, 0.7)};
  for (int i = 0; i < kFunctions; i++) put(i, results[i]);
}
__global__ void evaluate(const float* x, double* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  each(x[i], [=](int f, double v) { y[i * kFunctions + f] = v; });
}
int main() {
  float* x = managed<float>(kCount);
  double* y = managed<double>(kCount * kFunctions);
  for (int i = 0; i < kCount; i++) x[i] = 0.01f + 0.037f * i + (i % 5) * 1e-4f;
  evaluate<<<kCount / 64, 64>>>(x, y);
  finish();
  for (int i = 0; i < kCount; i++)
    each(x[i], [&](int f, double v) {
      double got = y[i * kFunctions + f];
      EXPECT(got == v || (got != got && v != v), "function %d of %a: device %a, host %a", f, x[i], got, v);
    });
  return pass();
}
