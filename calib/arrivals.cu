// calib/arrivals.cu: loads from memory under load, one a thread: how long warps wait, how far those of a block are apart, how long a block lives, and what
// lies between one block and the next in its place.
//
//   nvcc -O3 -std=c++17 -arch=sm_90 -o arrivals calib/arrivals.cu && ./arrivals        # a line of JSON for each case
//   ncu --clock-control none --cache-control all --metrics gpu__time_duration.sum,sm__cycles_elapsed.max -k plain ./arrivals   # the same without clocks
//
// Every 61st block notes when its warps began, had their word and ended (cycles of its SM).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int kOneOf = 61;

struct Note {
  uint32_t begin, asked, there, end;
};

/// Elements of T, one a thread: read, and written elsewhere unless kReads.
template <class T, bool kReads>
__global__ void __launch_bounds__(1024) plain(const T* from, T* to, uint32_t never) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const T v = from[i];
  if (!kReads || *reinterpret_cast<const unsigned char*>(&v) == never) to[i] = v;
}

template <class T, bool kReads>
__global__ void __launch_bounds__(1024) noted(const T* from, T* to, uint32_t never, Note* notes) {
  uint32_t begin, asked = 0, there = 0, end;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin)::"memory");
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(asked)::"memory");
  const T v = from[i];
  const unsigned char first = *reinterpret_cast<const unsigned char*>(&v);
  if (first == 255) asm volatile("trap;");
  asm volatile("mov.u32 %0, %%clock;" : "=r"(there) : "r"(uint32_t(first)) : "memory");
  if (!kReads || first == never) to[i] = v;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(end)::"memory");
  if (blockIdx.x % kOneOf == 7 && threadIdx.x % 32 == 0) notes[(blockIdx.x / kOneOf) * (blockDim.x / 32) + threadIdx.x / 32] = {begin, asked, there, end};
}

template <class T, bool kReads>
void run(const char* name, uint32_t blocks, uint32_t threads) {
  T *from, *to;
  Note* notes;
  const size_t bytes = size_t(blocks) * threads * sizeof(T);
  cudaMalloc(&from, bytes), cudaMalloc(&to, bytes), cudaMemset(from, 1, bytes), cudaMemset(to, 1, bytes);
  const size_t warps = threads / 32, count = (blocks / kOneOf + 1) * warps;
  cudaMalloc(&notes, count * sizeof(Note)), cudaMemset(notes, 0, count * sizeof(Note));
  cudaEvent_t a, b;
  cudaEventCreate(&a), cudaEventCreate(&b);
  float best = 1e30f;
  for (int k = 0; k < 4; k++) {
    cudaEventRecord(a);
    plain<T, kReads><<<blocks, threads>>>(from, to, 77);
    cudaEventRecord(b), cudaEventSynchronize(b);
    float ms;
    cudaEventElapsedTime(&ms, a, b), best = std::min(best, ms);
  }
  noted<T, kReads><<<blocks, threads>>>(from, to, 77, notes);
  std::vector<Note> got(count);
  cudaMemcpy(got.data(), notes, count * sizeof(Note), cudaMemcpyDeviceToHost);
  double waits = 0, squares = 0, most = 0, least = 0, life = 0, spread = 0;
  size_t n = 0, groups = 0;
  std::vector<uint32_t> all;
  for (size_t g = 0; g * kOneOf + 7 < blocks; g++) {
    uint32_t first = UINT32_MAX, last = 0, longest = 0, shortest = UINT32_MAX, late = 0;
    for (size_t w = 0; w < warps; w++) {
      const Note& x = got[g * warps + w];
      const uint32_t wait = x.there - x.asked;
      waits += wait, squares += double(wait) * wait, n++, all.push_back(wait);
      longest = std::max(longest, wait), shortest = std::min(shortest, wait);
      first = std::min(first, x.begin), last = std::max(last, x.end), late = std::max(late, x.begin);
    }
    most += longest, least += shortest, life += last - first, spread += late - first, groups++;
  }
  std::sort(all.begin(), all.end());
  const double mean = waits / n;
  std::printf("{\"case\":\"%s\",\"bytes\":%zu,\"writes\":%d,\"blocks\":%u,\"threads\":%u,\"us\":%.2f,\"wait\":%.0f,\"deviation\":%.0f,\"p10\":%u,\"p50\":%u,\"p90\":%u,\"p99\":%u,\"shortest_of_block\":%.0f,\"longest_of_block\":%.0f,\"begins_apart\":%.0f,\"block\":%.0f}\n", name, sizeof(T), !kReads,
              blocks, threads, best * 1e3, mean, std::sqrt(squares / n - mean * mean), all[all.size() / 10], all[all.size() / 2], all[all.size() * 9 / 10], all[all.size() * 99 / 100], least / groups, most / groups, spread / groups, life / groups);
  cudaFree(from), cudaFree(to), cudaFree(notes);
}

int main() {
  for (uint32_t threads : {64u, 256u, 1024u}) {
    const uint32_t blocks = (64u << 20) / threads;
    run<uint16_t, true>("read", blocks, threads), run<uint32_t, true>("read", blocks, threads), run<uint2, true>("read", blocks, threads), run<uint4, true>("read", blocks, threads);
    run<uint16_t, false>("copy", blocks, threads), run<uint32_t, false>("copy", blocks, threads), run<uint2, false>("copy", blocks, threads), run<uint4, false>("copy", blocks, threads);
  }
  for (uint32_t blocks : {132u, 528u, 1056u, 4224u}) run<uint32_t, true>("few", blocks, 256);
}
