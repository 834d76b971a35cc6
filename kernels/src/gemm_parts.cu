// The second launch of a product whose K is cut into parts: adds up what gemm_split left in the workspace, a plane of f32 for each
// part, in the order of the parts, and finishes D. It starts while the products still run and waits for them, and the next product
// starts under it, so that what two launches cost is a wait each.
//
// A thread has four elements of D; where parts are many or D is small, threads of a block share them and add up through shared memory.
#include <algorithm>

#include "gemm_epilogue.cuh"
#include "launch.h"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kMostGroups = 8, kAtOnce = 8;

struct PartsSum {
  Epilogue e;
  const float* parts;
  int count, plane, pitch;  // parts; floats from one to the next, and from row to row
  int quads, groups_log;    // in all of D; threads that share a quad
  FastDivide by_row;        // quads of a row
};

__global__ void __launch_bounds__(kThreads) sum_parts(const __grid_constant__ PartsSum p) {
  begin_overlapped();
  __shared__ float4 sums[kThreads];
  const int per_block = kThreads >> p.groups_log, groups = 1 << p.groups_log;
  const int group = threadIdx.x / per_block, quad = blockIdx.x * per_block + threadIdx.x % per_block;
  const int row = p.by_row.divide(quad), col = 4 * (quad - row * p.by_row.divisor);
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
  const auto add = [&](const float4& v) { sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w; };
  if (quad < p.quads) {
    const float* from = p.parts + int64_t(row) * p.pitch + col;
    // A thread's parts follow each other, so that sums over threads are in the order of K.
    const int first = p.count * group >> p.groups_log, end = p.count * (group + 1) >> p.groups_log;
    for (int part = first; part < end; part += kAtOnce) {
      float4 v[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; i++)
        if (part + i < end) v[i] = __ldcg(reinterpret_cast<const float4*>(from + int64_t(part + i) * p.plane));
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) add(v[i]);
    }
  }
  if (groups > 1) {
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (group > 0) return;
    for (int g = 1; g < groups; g++) add(sums[g * per_block + threadIdx.x]);
  }
  if (quad < p.quads) finish_quad(p.e, tensor_scale(p.e), sum, row, col);
}

}  // namespace

cudaError_t gemm_sum_parts(const Epilogue& epilogue, const float* parts, int count, int plane_rows, int pitch, int sms, cudaStream_t stream) {
  PartsSum p{epilogue, parts, count, plane_rows * pitch, pitch, 0, 0, {}};
  const int quads = (epilogue.n + 3) / 4;
  p.quads = epilogue.m * quads, p.by_row = FastDivide(uint32_t(quads));
  const auto blocks = [&] { return ((int64_t(p.quads) << p.groups_log) + kThreads - 1) / kThreads; };
  while (2 << p.groups_log <= std::min(count, kMostGroups) && (count > kAtOnce << p.groups_log || blocks() < 2 * sms)) p.groups_log++;
  return launch_overlapped(sum_parts, blocks(), kThreads, 0, stream, p);
}

}  // namespace orrery::kernels
