// calib/steps/calls.cu: functions that are called, not made part of their callers: what a call and its return cost a warp alone and many, from a loop,
// from a function that was called itself, and by what a register holds.
#include "steps.h"

namespace {
using namespace steps;

__device__ __noinline__ float leaf(float x) { return x * 1.01f + 0.5f; }
__device__ __noinline__ float other_leaf(float x) { return x * 0.99f + 0.25f; }
__device__ __noinline__ float nested(float x) {
  for (int i = 0; i < 4; i++) x = leaf(x) * x, x = leaf(x) + 3, x = leaf(x) * 2;
  return x;
}

__global__ void __launch_bounds__(1024) call_leaf(float* o, int turns) {
  float x = o[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < turns; i++) x = leaf(x), x = leaf(x + 1), x = leaf(x * x), x = leaf(x - 2);
  o[threadIdx.x] = x;
}
__global__ void __launch_bounds__(1024) call_nested(float* o, int turns) {
  float x = o[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < turns; i++) x = nested(x), x = nested(x + 1);
  o[threadIdx.x] = x;
}
__global__ void __launch_bounds__(1024) call_pointer(float* o, int turns) {
  float x = o[threadIdx.x];
  float (*const f[2])(float) = {leaf, other_leaf};
#pragma unroll 1
  for (int i = 0; i < turns; i++) x = f[i & 1](x), x = f[~i & 1](x + 1);
  o[threadIdx.x] = x;
}
template <void (*kernel)(float*, int)>
truth::Launch calls(long warps, int turns) {
  auto o = zeros<float>(1024);
  return [=] { kernel<<<132, unsigned(32 * warps)>>>(o, turns); };
}
TRUTH("calls", "call_leaf", {1, 4, 16, 32}, [](long warps) { return calls<call_leaf>(warps, 256); });
TRUTH("calls", "call_nested", {1, 4, 16, 32}, [](long warps) { return calls<call_nested>(warps, 32); });
TRUTH("calls", "call_pointer", {1, 4, 16, 32}, [](long warps) { return calls<call_pointer>(warps, 256); });

}  // namespace
