// calib/steps/hinted.cu: what loads and copies bring along that say how much L2 is to fetch (.L2::64B, 128B, 256B): matrices gone through by columns of so many
// bytes, each read once, so that the next column of a row has come with this one or has not.
#include "steps.h"

namespace {
using namespace steps;

template <int kHint>
__device__ void copy16(uint32_t to, const char* from) {
  if constexpr (kHint == 0) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  if constexpr (kHint == 64) asm volatile("cp.async.cg.shared.global.L2::64B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  if constexpr (kHint == 128) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  if constexpr (kHint == 256) asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
template <int kHint>
__device__ float4 load16(const char* from) {
  float4 v;
  if constexpr (kHint == 0) asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  if constexpr (kHint == 64) asm volatile("ld.global.L2::64B.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  if constexpr (kHint == 128) asm volatile("ld.global.L2::128B.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  if constexpr (kHint == 256) asm volatile("ld.global.L2::256B.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
  return v;
}

constexpr int kThreads = 256, kPitch = 4096;

/// 16 bytes a thread of columns of kColumn bytes, column by column; a block has kThreads / (kColumn / 16) rows of its own. One column on its way.
template <int kHint, int kColumn, bool kCopies>
__global__ void __launch_bounds__(kThreads) columns(const char* from, float* out, int n) {
  __shared__ __align__(128) char room[2][kThreads * 16];
  constexpr int kPieces = kColumn / 16;
  const char* at = from + (size_t(blockIdx.x) * (kThreads / kPieces) + threadIdx.x / kPieces) * kPitch + threadIdx.x % kPieces * 16;
  float sum = 0;
  if constexpr (kCopies) {
    copy16<kHint>(smem(&room[0][threadIdx.x * 16]), at);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int i = 0; i < n; i++) {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
      __syncthreads();
      if (i + 1 < n) copy16<kHint>(smem(&room[(i + 1) & 1][threadIdx.x * 16]), at + size_t(i + 1) * kColumn);
      asm volatile("cp.async.commit_group;" ::: "memory");
      sum += *reinterpret_cast<const float*>(&room[i & 1][(threadIdx.x ^ 32) * 16]);
    }
  } else {
    for (int i = 0; i < n; i++) {
      const float4 v = load16<kHint>(at + size_t(i) * kColumn);
      sum += v.x + v.y + v.z + v.w;
      __syncthreads();
    }
  }
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}
template <int kHint, int kColumn, bool kCopies>
Launch columns_of(long blocks) {
  constexpr long kRows = kThreads / (kColumn / 16);
  auto from = zeros<char>(blocks * kRows * kPitch);
  auto out = zeros<float>(blocks * kThreads);
  return [=] { columns<kHint, kColumn, kCopies><<<unsigned(blocks), kThreads>>>(from, out, 2048 / kColumn); };
}
#define COLUMNS(name, column, copies)                                                                                          \
  TRUTH("hinted", #name "_plain_" #column, {32, 132, 528}, [](long n) { return columns_of<0, column, copies>(n); });           \
  TRUTH("hinted", #name "_64_" #column, {32, 132, 528}, [](long n) { return columns_of<64, column, copies>(n); });             \
  TRUTH("hinted", #name "_128_" #column, {32, 132, 528}, [](long n) { return columns_of<128, column, copies>(n); });           \
  TRUTH("hinted", #name "_256_" #column, {32, 132, 528}, [](long n) { return columns_of<256, column, copies>(n); });
COLUMNS(copies, 32, true) COLUMNS(copies, 64, true) COLUMNS(copies, 128, true) COLUMNS(loads, 32, false) COLUMNS(loads, 64, false) COLUMNS(loads, 128, false)
}  // namespace
