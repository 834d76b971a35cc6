// calib/steps/banks.cu: shared memory by what lanes ask for (words of 8 and 16 bytes, in many patterns), instructions that no lane
// executes, divisions and roots of values that take the slow way, fences and barriers of clusters with accesses under way, stores of
// halves of sectors that follow each other.
#include <cooperative_groups.h>

#include "steps.h"

namespace {
using namespace steps;
namespace cg = cooperative_groups;

/// Where a lane loads from, in words of its width.
__device__ int lane_at(int pattern, int lane) {
  switch (pattern) {
    case 0: return 0;                          // all the same
    case 1: return lane / 16 * 64;             // halves of a warp two words of one bank
    case 2: return lane % 16;                  // both halves the same 16
    case 3: return lane;                       // all in a row
    case 4: return lane / 8;                   // four in a row
    case 5: return lane / 8 * 64;              // four of one bank
    case 6: return lane / 2;                   // sixteen in a row, pairs of lanes
    case 7: return lane % 8;                   // eight in a row
    case 8: return lane / 4;                   // eight in a row, four lanes each
    case 9: return lane % 2 * 16 + lane / 16;  // two and two
    case 10: return lane % 16 * 2;             // sixteen, every other
    case 11: return lane / 16;                 // halves two words side by side
    case 12: return lane % 4 * 64;             // four of one bank, mixed
    case 13: return lane % 16 * 33;            // sixteen, padded
    case 14: return lane / 16 * 16 + lane % 4; // halves four each, side by side
    default: return lane * 2;                  // every other
  }
}
template <class T>
__global__ void __launch_bounds__(256) banks(float* out, int pattern, int rounds) {
  __shared__ __align__(16) T s[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) *(float*)&s[i] = float(i);
  __syncthreads();
  const uint32_t at = smem(&s[lane_at(pattern, threadIdx.x % 32)]);
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = 0; k < 16; k++) {
      float x, y, z, w;
      if constexpr (sizeof(T) == 8) {
        asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x), "=f"(y) : "r"(at));
        sum += x + y;
      } else {
        asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(at));
        sum += x + w;
      }
    }
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
const std::vector<long> kPatterns = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
TRUTH("shared", "banks8", kPatterns, [](long pattern) {
  auto o = zeros<float>(132 * 256);
  return [=] { banks<float2><<<132, 256>>>(o, int(pattern), 128); };
});
TRUTH("shared", "banks16", kPatterns, [](long pattern) {
  auto o = zeros<float>(132 * 256);
  return [=] { banks<float4><<<132, 256>>>(o, int(pattern), 128); };
});

/// Instructions whose predicate holds for no lane: 0 shared loads, 1 shared stores, 2 global loads, 3 global stores, 4 shared atomics; 5 and 6
/// shared loads and stores that all lanes execute; 7 additions that none executes.
template <int kWhat>
__global__ void __launch_bounds__(512) off(float* data, float* out, int never, int rounds) {
  __shared__ float s[512];
  s[threadIdx.x] = float(threadIdx.x);
  __syncthreads();
  const uint32_t at = smem(&s[threadIdx.x]);
  float* const far = data + threadIdx.x;
  float sum = 0;
  const int flag = kWhat == 5 || kWhat == 6 ? 1 : never;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = 0; k < 16; k++) {
      float x = 0;
      if constexpr (kWhat == 0 || kWhat == 5) asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.shared.f32 %0, [%1];}" : "+f"(x) : "r"(at), "r"(flag) : "memory");
      if constexpr (kWhat == 1 || kWhat == 6) asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p st.shared.f32 [%1], %0;}" ::"f"(sum), "r"(at), "r"(flag) : "memory");
      if constexpr (kWhat == 2) asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.f32 %0, [%1];}" : "+f"(x) : "l"(far), "r"(flag) : "memory");
      if constexpr (kWhat == 3) asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p st.global.f32 [%1], %0;}" ::"f"(sum), "l"(far), "r"(flag) : "memory");
      if constexpr (kWhat == 4) asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p red.shared.add.u32 [%1], %0;}" ::"r"(r), "r"(at), "r"(flag) : "memory");
      if constexpr (kWhat == 7) asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %1, 0;\n@p add.f32 %0, %0, 1.0;}" : "+f"(sum) : "r"(flag) : "memory");
      else sum += x;
    }
  }
  out[blockIdx.x * 512 + threadIdx.x] = sum + s[threadIdx.x];
}
#define OFF(name, what) \
  TRUTH("shared", name, {1}, [](long) { \
    auto d = zeros<float>(1024), o = zeros<float>(132 * 512); \
    return [=] { off<what><<<132, 512>>>(d, o, 0, 64); }; \
  });
OFF("off_load", 0) OFF("off_store", 1) OFF("off_read", 2) OFF("off_write", 3) OFF("off_add", 4) OFF("on_load", 5) OFF("on_store", 6) OFF("off_sum", 7)

/// Steps of a tree of sums in shared memory, by so many words that the first step adds (half of the threads are off from the start).
__global__ void __launch_bounds__(512) tree_steps(const float* in, float* out, int rounds) {
  __shared__ float s[512];
  s[threadIdx.x] = in[threadIdx.x];
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
    for (int d = 256; d > 0; d /= 2) {
      __syncthreads();
      if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    }
  out[blockIdx.x * 512 + threadIdx.x] = s[threadIdx.x];
}
TRUTH("shared", "tree_steps", {1, 4}, [](long blocks) {
  auto i = zeros<float>(512), o = zeros<float>(132 * 4 * 512);
  return [=] { tree_steps<<<132 * int(blocks), 512>>>(i, o, 40); };
});

/// Quotients and roots of values of a kind, a lane in 32 or all: how many instructions, how long.
template <int kWhat>
__global__ void __launch_bounds__(256) slow_way(const float* top, const float* bottom, float* out, int rounds) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float x = top[i], sum = 0;
  const float y = bottom[i];
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    if (kWhat == 0) sum += x / y;
    if (kWhat == 1) sum += sqrtf(x);
    if (kWhat == 2) sum += 1 / y;
    if (kWhat == 3) sum += float(double(x) / double(y));
    asm volatile("" : "+f"(x));
  }
  out[i] = sum;
}
constexpr float kValues[] = {1.5f, 0.f, 1e-40f, 1e-38f, 1e-30f, 1e30f, 3e38f, -2.f, 1e-20f, 2e-36f};
#define SLOW_WAY(name, what) \
  TRUTH("division", name, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 45, 54, 55, 44, 88, 101, 102}, [](long kind) { \
    Array<float> a(132 * 256), b(132 * 256), o(132 * 256); \
    const bool few = kind >= 100; \
    const float x = kValues[kind % 10], y = kValues[kind % 100 / 10]; \
    fill<float>(a, [=](size_t i, Random&) { return few && i % 32 ? 1.5f : x; }); \
    fill<float>(b, [=](size_t i, Random&) { return few && i % 32 ? 1.5f : y; }); \
    return [=] { slow_way<what><<<132, 256>>>(a, b, o, 64); }; \
  });
SLOW_WAY("quotient", 0)
#define SLOW_ROOT(name, what) \
  TRUTH("division", name, {0, 1, 2, 3, 4, 5, 6, 7, 10, 20, 30, 40, 50, 60, 9, 90}, [](long kind) { \
    Array<float> a(132 * 256), b(132 * 256), o(132 * 256); \
    fill<float>(a, [=](size_t, Random&) { return kValues[kind % 10]; }); \
    fill<float>(b, [=](size_t, Random&) { return kValues[kind / 10]; }); \
    return [=] { slow_way<what><<<132, 256>>>(a, b, o, 64); }; \
  });
SLOW_ROOT("root", 1) SLOW_ROOT("reciprocal", 2) SLOW_ROOT("quotient_double", 3)

/// Clusters of four meet again and again: 0 with nothing under way, 1 each warp has read a line of its own from memory, 2 and has not waited
/// for it, 3 has written four lines, 4 one line, 5 a fence of the GPU alone after one line, 6 a fence after what the others of the SM read.
template <int kWhat>
__global__ void __cluster_dims__(4) __launch_bounds__(512) meetings(float4* data, float* out, int rounds) {
  const auto cluster = cg::this_cluster();
  float sum = 0;
  float4* at = data + blockIdx.x * 512l * (kWhat == 3 ? 4 : 1) * rounds + threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    float4 v = make_float4(0, 0, 0, 0);
    if (kWhat == 1 || kWhat == 2) v = *at;
    if (kWhat == 1) sum += v.x;
    if (kWhat == 1 && sum == 12345) out[1] = sum;
    if (kWhat == 3)
      for (int k = 0; k < 4; k++) at[k * 512] = make_float4(r, r, r, r);
    if (kWhat == 4 || kWhat == 5) *at = make_float4(r, r, r, r);
    if (kWhat == 6 && threadIdx.x >= 32) v = *at, sum += v.x;
    if (kWhat == 5 || kWhat == 6) __threadfence();
    else cluster.sync();
    if (kWhat == 2) sum += v.x;
    at += 512 * (kWhat == 3 ? 4 : 1);
  }
  out[blockIdx.x * 512 + threadIdx.x] = sum;
}
#define MEETINGS(name, what) \
  TRUTH("cluster", name, {1, 33, 132}, [](long clusters) { \
    auto d = zeros<float4>(132l * 4 * 512 * 16 * 4); \
    auto out = zeros<float>(132 * 4 * 512); \
    return [=] { meetings<what><<<int(clusters) * 4, 512>>>(d, out, 16); }; \
  });
MEETINGS("meet_idle", 0) MEETINGS("meet_read", 1) MEETINGS("meet_reading", 2) MEETINGS("meet_written4", 3) MEETINGS("meet_written", 4) MEETINGS("fence_written", 5) MEETINGS("fence_beside_reads", 6)

/// 16 bytes a lane, 32 or 64 apart, written by two or four instructions that follow each other: halves of sectors, quarters of lines.
template <int kPieces, int kApart>
__global__ void halves_written(uint4* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
#pragma unroll
  for (int k = 0; k < kPieces; k++) {
    if (kApart && k) asm volatile("nanosleep.u32 0;");
    out[long(i) * kPieces + k] = make_uint4(i, k, i, k);
  }
}
#define HALVES(name, pieces, apart) \
  TRUTH("stores", name, {1 << 16, 1 << 20}, [](long n) { \
    auto o = zeros<uint4>(n * pieces); \
    return [=] { halves_written<pieces, apart><<<blocks_for(n, 256), 256>>>(o, int(n)); }; \
  });
HALVES("halves_2", 2, 0) HALVES("halves_4", 4, 0) HALVES("halves_2_apart", 2, 1)
/// The same read.
template <int kPieces>
__global__ void halves_read(const uint4* in, uint32_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t sum = 0;
#pragma unroll
  for (int k = 0; k < kPieces; k++) sum += in[long(i) * kPieces + k].x;
  out[i] = sum;
}
#define HALVES_READ(name, pieces) \
  TRUTH("loads", name, {1 << 16, 1 << 20}, [](long n) { \
    auto in = zeros<uint4>(n * pieces); \
    auto o = zeros<uint32_t>(n); \
    return [=] { halves_read<pieces><<<blocks_for(n, 256), 256>>>(in, o, int(n)); }; \
  });
HALVES_READ("halves_read_2", 2) HALVES_READ("halves_read_4", 4)

/// Additions of one lane a warp to one of so many words of memory, as counters of classes take them.
__global__ void count_classes(uint32_t* table, uint32_t mask, int rounds) {
  uint32_t h = mix((blockIdx.x * blockDim.x + threadIdx.x) / 32 + 1);
  for (int r = 0; r < rounds; r++) {
    h = mix(h + r);
    if (threadIdx.x % 32 == 0) atomicAdd(&table[h & mask], 1);
  }
}
TRUTH("atomic", "count_classes", {1, 8, 32, 64, 256, 1024, 16384}, [](long words) {
  auto t = zeros<uint32_t>(words);
  return [=] { count_classes<<<132 * 8, 256>>>(t, uint32_t(words - 1), 32); };
});
}  // namespace
