// calib/cluster_clocks.cu: blocks of clusters by the clocks of their SMs: how long a block loads, waits at its cluster's first barrier and at the second, and
// how long its place stays empty until another block begins there; by the cluster's size, blocks of an SM, and where what they load lies. Of the barriers what the
// quickest block of each cluster waits, too. A JSON line for each launch.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o cluster_clocks cluster_clocks.cu
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

namespace {

constexpr int kEach = 8;
enum Part { kBegan, kLoaded, kFirst, kSecond, kEnded, kSm, kParts };

/// Every thread loads kEach words, the block adds up, the cluster meets, words of all blocks are taken, the cluster meets again, words are stored.
__global__ void rows(long long* notes, const float* in, float* out, int meets, int stores) {
  __shared__ float part;
  const long long began = clock64();
  const size_t at = size_t(blockIdx.x) * kEach * blockDim.x + threadIdx.x;
  float x[kEach], sum = 0;
#pragma unroll
  for (int k = 0; k < kEach; k++) x[k] = in[at + size_t(k) * blockDim.x];
#pragma unroll
  for (int k = 0; k < kEach; k++) sum += x[k];
  if (__syncthreads_or(sum == 12345)) out[0] = sum;
  const long long loaded = clock64();
  if (threadIdx.x == 0) part = sum;
  if (meets) asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  const long long first = clock64();
  if (meets) {
    unsigned n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    for (unsigned r = 0; r < n; r++) {
      unsigned there;
      float v;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(unsigned(__cvta_generic_to_shared(&part))), "r"(r));
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
      sum += v;
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
  const long long second = clock64();
  if (stores)
#pragma unroll
    for (int k = 0; k < kEach; k++) out[at + size_t(k) * blockDim.x] = x[k] * sum;
  if (__syncthreads_or(sum == 12345)) out[1] = sum;
  if (threadIdx.x == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    long long* n = notes + size_t(blockIdx.x) * kParts;
    n[kBegan] = began, n[kLoaded] = loaded, n[kFirst] = first, n[kSecond] = second, n[kSm] = sm;
    n[kEnded] = clock64();
  }
}

double mean(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x;
  return v.empty() ? 0 : s / double(v.size());
}
double part_of(std::vector<double> v, double share) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, size_t(double(v.size()) * share))];
}

}  // namespace

int main() {
  constexpr size_t kWords = size_t(1) << 26;
  long long* notes;
  float *in, *out;
  cudaMalloc(&notes, 32768 * kParts * sizeof *notes), cudaMalloc(&in, kWords * 4), cudaMalloc(&out, kWords * 4);
  cudaMemset(in, 0, kWords * 4);
  for (int threads : {64, 128, 256})
    for (int on_sm : {1, 2, 4, 8, 12, 16, 32})
      if (on_sm * threads <= 2048 && (threads != 64 || on_sm > 8))
      for (int size : {0, 1, 2, 4, 8})
        for (int memory : {0, 1})
          for (int meets : {0, 1})
            for (int stores : {0, 1}) {
              const int blocks = 132 * on_sm * 4 / 8 * 8;
              const size_t words = size_t(blocks) * kEach * threads;
              const int bytes = on_sm == 1 ? 120000 : 220000 / on_sm / 1024 * 1024 - 1024;
              cudaFuncSetAttribute(rows, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
              cudaLaunchConfig_t config{};
              config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(threads)), config.dynamicSmemBytes = size_t(bytes);
              cudaLaunchAttribute attribute{};
              attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
              config.attrs = &attribute, config.numAttrs = size > 0;
              for (int turn = 0; turn < 3; turn++) {
                if (memory) cudaMemset(out, turn, kWords * 4);  // pushes out what L2 holds
                else cudaMemset(out, turn, words * 4), cudaMemset(in, turn, words * 4);
                cudaLaunchKernelEx(&config, rows, notes, (const float*)in, out, size ? meets : 0, stores);
              }
              std::vector<long long> h(size_t(blocks) * kParts);
              cudaMemcpy(h.data(), notes, h.size() * sizeof h[0], cudaMemcpyDeviceToHost);
              const auto of = [&](int block, Part p) { return double(h[size_t(block) * kParts + p]); };
              std::vector<double> loads, first, second, rest, quickest_first, quickest_second, gaps;
              const int n = std::max(1, size);
              for (int b = 0; b < blocks; b += n) {
                double least = 1e18, least_second = 1e18;
                for (int i = b; i < b + n; i++) {
                  loads.push_back(of(i, kLoaded) - of(i, kBegan)), first.push_back(of(i, kFirst) - of(i, kLoaded)), second.push_back(of(i, kSecond) - of(i, kFirst));
                  rest.push_back(of(i, kEnded) - of(i, kSecond)), least = std::min(least, first.back()), least_second = std::min(least_second, second.back());
                }
                quickest_first.push_back(least), quickest_second.push_back(least_second);
              }
              // Of an SM's blocks in the order in which they began: the one that is on_sm later takes the place of the one that ended first.
              std::map<int, std::vector<std::pair<double, double>>> by_sm;
              for (int b = 0; b < blocks; b++) by_sm[int(of(b, kSm))].push_back({of(b, kBegan), of(b, kEnded)});
              double last = 0;
              size_t most = 0, least = blocks;
              double at_once = 0;  // blocks of an SM, the most of any moment
              for (auto& [sm, spans] : by_sm) {
                std::sort(spans.begin(), spans.end());
                std::vector<double> ends;
                double end = 0;
                for (const auto& [began, ended] : spans) ends.push_back(ended), end = std::max(end, ended);
                std::sort(ends.begin(), ends.end());
                for (size_t i = size_t(on_sm); i < spans.size(); i++) gaps.push_back(spans[i].first - ends[i - size_t(on_sm)]);
                size_t over = 0, peak = 0;
                for (size_t i = 0; i < spans.size(); i++) {
                  while (over < ends.size() && ends[over] <= spans[i].first) over++;
                  peak = std::max(peak, i + 1 - over);
                }
                at_once += double(peak);
                last = std::max(last, end - spans[0].first), most = std::max(most, spans.size()), least = std::min(least, spans.size());
              }
              std::printf("{\"threads\":%d,\"on_sm\":%d,\"size\":%d,\"memory\":%d,\"meets\":%d,\"stores\":%d,\"blocks\":%d,\"sms\":%zu,\"most\":%zu,\"least\":%zu,\"at_once\":%.2f,\"sm_cycles\":%.0f,\"loads\":%.0f,\"loads_p90\":%.0f,"
                          "\"first\":%.0f,\"first_quickest\":%.0f,\"second\":%.0f,\"second_quickest\":%.0f,\"rest\":%.0f,\"gap\":%.0f,\"gap_p50\":%.0f,\"gap_p90\":%.0f,\"status\":\"%s\"}\n",
                          threads, on_sm, size, memory, meets, stores, blocks, by_sm.size(), most, least, at_once / double(by_sm.size()), last, mean(loads), part_of(loads, .9), mean(first), mean(quickest_first), mean(second), mean(quickest_second),
                          mean(rest), mean(gaps), part_of(gaps, .5), part_of(gaps, .9), cudaGetErrorName(cudaGetLastError()));
            }
}
