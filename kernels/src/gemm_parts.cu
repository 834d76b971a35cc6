// The second launch of a product whose K is cut into parts: adds up what gemm_split left in the workspace, a plane of f32 for each
// part, in the order of the parts, and finishes D. It starts while the products still run and waits for them, and the next product
// starts under it, so that what two launches cost is a wait each.
//
// A thread has four elements of D. Where parts are many or D is small threads share them: two halves of a warp, which takes no shared memory,
// so that blocks are on the SMs before products that leave none have ended; four or eight groups of a block, by way of it.
#include <algorithm>
#include <iterator>

#include "gemm_epilogue.cuh"
#include "launch.h"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kAtOnce = 8;

struct PartsSum {
  Epilogue e;
  const float* parts;
  int count, plane, pitch;  // parts; floats from one to the next, and from row to row
  int quads;                // in all of D
  FastDivide by_row;        // quads of a row
};

__device__ __forceinline__ void add(float4& to, const float4& v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; }

/// 1 << kLog threads share a quad.
template <int kLog>
__global__ void __launch_bounds__(kThreads) sum_parts(const __grid_constant__ PartsSum p) {
  begin_overlapped();
  constexpr int kTeam = kLog == 1 ? 16 : kThreads >> kLog;  // threads with quads of their own that lie side by side
  const int group = threadIdx.x / kTeam % (1 << kLog), quad = (blockIdx.x * kThreads + threadIdx.x) / (kTeam << kLog) * kTeam + threadIdx.x % kTeam;
  const int row = p.by_row.divide(quad), col = 4 * (quad - row * p.by_row.divisor);
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
  if (quad < p.quads) {
    const float* from = p.parts + int64_t(row) * p.pitch + col;
    // A thread's parts follow each other, so that sums over threads are in the order of K.
    const int first = p.count * group >> kLog, end = p.count * (group + 1) >> kLog;
    for (int part = first; part < end; part += kAtOnce) {
      float4 v[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; i++)
        if (part + i < end) v[i] = __ldcg(reinterpret_cast<const float4*>(from + int64_t(part + i) * p.plane));
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) add(sum, v[i]);
    }
  }
  if constexpr (kLog == 1) {
    const auto other = [](float v) { return __shfl_down_sync(~0u, v, kTeam); };
    add(sum, make_float4(other(sum.x), other(sum.y), other(sum.z), other(sum.w)));
  } else if constexpr (kLog > 1) {
    __shared__ float4 sums[kThreads - kTeam];
    if (group > 0) sums[threadIdx.x - kTeam] = sum;
    __syncthreads();
    if (group > 0) return;
#pragma unroll
    for (int g = 0; g < (1 << kLog) - 1; g++) add(sum, sums[g * kTeam + threadIdx.x]);
  }
  if (group == 0 && quad < p.quads) finish_quad(p.e, tensor_scale(p.e), sum, row, col);
}

}  // namespace

cudaError_t gemm_sum_parts(const Epilogue& epilogue, const float* parts, int count, int plane_rows, int pitch, int sms, bool beside, cudaStream_t stream) {
  static constexpr void (*kKernels[])(PartsSum) = {sum_parts<0>, sum_parts<1>, sum_parts<2>, sum_parts<3>};
  PartsSum p{epilogue, parts, count, plane_rows * pitch, pitch, 0, {}};
  const int quads = (epilogue.n + 3) / 4;
  p.quads = epilogue.m * quads, p.by_row = FastDivide(uint32_t(quads));
  int log = 0;
  const auto blocks = [&] { return ((int64_t(p.quads) << log) + kThreads - 1) / kThreads; };
  while (log + 1 < int(std::size(kKernels)) && 2 << log <= count && (count > kAtOnce << log || 2 * blocks() < 3 * sms)) log++;
  return launch_in_clusters(reinterpret_cast<const void*>(kKernels[log]), dim3(unsigned(blocks())), kThreads, 0, 1, true, stream, &p, beside);
}

}  // namespace orrery::kernels
