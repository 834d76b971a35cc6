// calib/nexts.cu: which block an SM takes next: launches of several waves of blocks that read columns, stream, work, or work for different times; a JSON
// line for each launch, with the numbers of the blocks that some SMs took in the order in which they began, and the cycles at which each began and ended.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o nexts nexts.cu
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

enum Kind { kColumn, kStream, kWork, kUneven };
const char* const kNames[] = {"column", "stream", "work", "uneven"};
struct Span {
  unsigned block, sm;
  long long begin, end;
};

__global__ void blocks(Kind kind, const float* in, float* out, Span* spans, int rows) {
  __shared__ long long begin;
  if (threadIdx.x == 0) begin = clock64();
  float sum = 0;
  const int width = int(gridDim.x);
  if (kind == kColumn)
    for (int i = int(threadIdx.x); i < rows; i += int(blockDim.x)) sum += in[size_t(i) * size_t(width) + blockIdx.x];
  if (kind == kStream)
    for (int i = int(threadIdx.x); i < rows; i += int(blockDim.x)) sum += in[size_t(blockIdx.x) * size_t(rows) + size_t(i)];
  if (kind == kWork || kind == kUneven) {
    const int turns = kind == kWork ? rows : rows / 2 + int(blockIdx.x * 2654435761u >> 16) % rows;
    for (int i = 0; i < turns; i++) sum = sum * 1.0001f + 0.5f;
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  unsigned sm;
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  if (threadIdx.x == 0) spans[blockIdx.x] = {blockIdx.x, sm, begin, clock64()};
}

void measure(Kind kind, int count, int threads, int rows, const float* in, float* out, Span* spans) {
  std::vector<Span> host(static_cast<size_t>(count));
  for (int repeat = 0; repeat < 2; repeat++) {
    blocks<<<count, threads>>>(kind, in, out, spans, rows);
    cudaMemcpy(host.data(), spans, host.size() * sizeof(Span), cudaMemcpyDeviceToHost);
  }
  std::printf("{\"kind\":\"%s\",\"blocks\":%d,\"threads\":%d,\"rows\":%d,\"status\":\"%s\",\"sms\":[", kNames[kind], count, threads, rows, cudaGetErrorName(cudaGetLastError()));
  for (unsigned sm = 0; sm < 132; sm += 12) {
    std::vector<Span> own;
    for (const Span& s : host)
      if (s.sm == sm) own.push_back(s);
    std::sort(own.begin(), own.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::printf("%s{\"sm\":%u,\"taken\":[", sm ? "," : "", sm);
    for (size_t i = 0; i < own.size() && i < 160; i++) std::printf("%s[%u,%lld,%lld]", i ? "," : "", own[i].block, own[i].begin - own[0].begin, own[i].end - own[0].begin);
    std::printf("]}");
  }
  std::printf("]}\n");
}

}  // namespace

int main() {
  float *in, *out;
  Span* spans;
  cudaMalloc(&in, size_t(4096) * 3072 * 4), cudaMemset(in, 0, size_t(4096) * 3072 * 4);
  cudaMalloc(&out, size_t(3072) * 1024 * 4), cudaMalloc(&spans, 3072 * sizeof(Span));
  for (const int threads : {64, 128, 256, 512, 768, 1024})
    for (const Kind kind : {kColumn, kStream, kWork, kUneven}) measure(kind, 3072, threads, kind == kWork || kind == kUneven ? 2048 : 4096, in, out, spans);
}
