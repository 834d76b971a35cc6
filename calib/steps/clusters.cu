// calib/steps/clusters.cu: what clusters cost around the work of their blocks: kernels that do nothing, that load, that meet, in clusters
// by size; and loads that hit in L1 beside loads that do not, by all SMs.
#include <cooperative_groups.h>

#include "steps.h"

namespace {
using namespace steps;

enum What { kNothing, kLoads, kMeet, kLoadsAndMeet };

/// Every thread adds up `per` floats, 256 apart; blocks meet before and after one thread's worth of work.
__global__ void in_cluster(const float* in, float* out, int per, int what) {
  namespace cg = cooperative_groups;
  float v = 0;
  if (what & kLoads)
    for (int i = threadIdx.x; i < per; i += 256) v += in[long(blockIdx.x) * per + i];
  if (what & kMeet) cg::this_cluster().sync(), cg::this_cluster().sync();
  if (v != 0) out[blockIdx.x] = v;
}
Launch clusters_of(long size, int blocks, int per, int what) {
  auto p = zeros<float>(long(blocks) * std::max(1, per)), o = zeros<float>(blocks);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(256);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
    config.attrs = &attribute, config.numAttrs = size > 0;
    cudaLaunchKernelEx(&config, in_cluster, (const float*)p.p, o.p, per, what);
  };
}
#define IN_CLUSTERS(name, blocks, per, what) TRUTH("clusters", name, {0, 1, 2, 4, 8}, [](long n) { return clusters_of(n, blocks, per, what); });
IN_CLUSTERS("clusters_empty_512", 512, 0, kNothing) IN_CLUSTERS("clusters_empty_8192", 8192, 0, kNothing)
IN_CLUSTERS("clusters_load_512", 512, 4096, kLoads) IN_CLUSTERS("clusters_load_long", 512, 65536, kLoads)
#define MEETING(name, blocks, per, what) TRUTH("clusters", name, {1, 2, 4, 8}, [](long n) { return clusters_of(n, blocks, per, what); });
MEETING("clusters_meet_512", 512, 0, kMeet) MEETING("clusters_meet_8192", 8192, 0, kMeet) MEETING("clusters_both_512", 512, 4096, kLoadsAndMeet)

/// A block reads rows of `width` words, each `times` times: at 1 all loads miss L1, at 8 one of eight.
__global__ void again_in_l1(const float* p, float* out, int rows, int times) {
  float s = 0;
  const float* own = p + long(blockIdx.x) * rows * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rows; r += 4)
#pragma unroll 1
    for (int t = 0; t < times; t++)
#pragma unroll
      for (int k = 0; k < 4; k++) {  // in an order of its own each time: nothing is loaded once for all
        float x;
        asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(x) : "l"(own + long(r + ((k + t) & 3)) * blockDim.x));
        s += x;
      }
  if (s == 12345) out[blockIdx.x] = s;
}
TRUTH("l1", "again_in_l1", {1, 2, 4, 8, 16, 32}, [](long times) {
  auto p = zeros<float>(528l * 512 * 64), o = zeros<float>(528);
  return [=] { again_in_l1<<<528, 512>>>(p, o, 64, int(times)); };
});

/// Instructions in a row that do not depend on each other, each executed once: what fetching them takes, from caches that are cold or not.
template <int kN>
__global__ void straight_free(float* out, float y) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = straight<kN>(y);
}
#define STRAIGHT(n) \
  TRUTH("code", "straight_free" #n, {32, 128, 512}, [](long threads) { \
    auto o = zeros<float>(132 * 512); \
    return [=] { straight_free<n><<<132, int(threads)>>>(o, .99f); }; \
  });
STRAIGHT(256) STRAIGHT(512) STRAIGHT(1024) STRAIGHT(2048) STRAIGHT(4096) STRAIGHT(8192)

}  // namespace
