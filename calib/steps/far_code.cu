// calib/steps/far_code.cu: code that is executed once and is longer than what a launch finds near (clusters.cu has shorter code): what fetching
// it takes, by its length, the SMs that run it and how far into the kernel it begins.
#include "steps.h"

namespace {
using namespace steps;

/// kSkip instructions that are jumped over, and kN that are executed.
template <int kSkip, int kN>
__global__ void far_code(float* out, float y, int skips) {
  float s = 0;
  if (!skips) s = straight<kSkip>(y);
  s += straight<kN>(y);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
#define FAR(skip, n) \
  TRUTH("far_code", "far_code_" #skip "_" #n, {1, 132}, [](long blocks) { \
    auto o = zeros<float>(132 * 32); \
    return [=] { far_code<skip, n><<<int(blocks), 32>>>(o, .99f, 1); }; \
  });
FAR(8, 2048) FAR(8, 4096) FAR(8, 5120) FAR(8, 6144) FAR(8, 7168) FAR(8, 8192) FAR(8, 12288) FAR(8, 16384)
FAR(4096, 2048) FAR(8192, 2048) FAR(16384, 2048)
}  // namespace
