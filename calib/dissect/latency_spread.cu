// calib/dissect/latency_spread.cu: how the latency of loads spreads, alone and while other SMs read or copy.
//
// One warp times loads from random lines one after the other, with one lane or all; the other SMs stream with a given number of
// threads until it is done. Percentiles of single loads say what the slowest of many will be.
#include "measure.h"

namespace dissect {
namespace {

__device__ uint32_t mixed(uint32_t h) {
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  return h;
}

__global__ void probe(const uint4* data, size_t lines, int lanes, int samples, uint32_t* out, const float4* stream, float4* to, size_t n, volatile int* stop,
                      unsigned long long* moved) {
  if (blockIdx.x > 0) {
    float4 acc = {};
    unsigned long long mine = 0;
    size_t i = (size_t(blockIdx.x - 1) * blockDim.x + threadIdx.x) * 2;
    const size_t step = size_t(gridDim.x - 1) * blockDim.x * 2;
    while (!*stop) {
#pragma unroll 1
      for (int k = 0; k < 16; k++) {
        const float4 a = __ldcg(stream + i), b = __ldcg(stream + i + 1);
        if (to) to[i] = a, to[i + 1] = b;
        else acc.x += a.x + b.w;
        i += step;
        if (i + 1 >= n) i -= n / step * step;
      }
      mine += 16 * 32;
    }
    if (acc.x == 12345.678f) to[0] = acc;
    atomicAdd(moved, mine);
    return;
  }
  if (threadIdx.x >= 32) return;
  uint32_t sink = 0;
  for (int s = -16; s < samples; s++) {
    const uint32_t h = mixed(uint32_t(s * 32 + threadIdx.x) + 77777u);
    const uint4* at = data + size_t(h % uint32_t(lines)) * 8 + (sink & 1 & (s >> 30));
    uint32_t v = 0;
    __syncwarp();
    const long long t0 = clock_now();
    if (int(threadIdx.x) < lanes) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    v = __reduce_add_sync(~0u, v);
    sink += v;
    const long long t1 = clock_now();
    if (threadIdx.x == 0 && s >= 0) out[s] = uint32_t(t1 - t0);
  }
  if (sink == 1) out[0] = 0;
  if (threadIdx.x == 0) *stop = 1;
}

void spread(const std::string& name, size_t bytes, int lanes, int threads, bool copies, const Buffer<float4>& stream, const Buffer<float4>& to) {
  const int samples = 4096;
  Buffer<uint4> data(bytes / 16);
  if (bytes > (size_t(64) << 20)) cudaMemset(to.p, 1, to.n * 16);  // out of L2
  Buffer<uint32_t> out(samples);
  Buffer<int> stop(1);
  Buffer<unsigned long long> moved(1);
  const int blocks = threads ? sm_count() : 1;
  cudaEvent_t a, b;
  cudaEventCreate(&a), cudaEventCreate(&b);
  cudaEventRecord(a);
  probe<<<blocks, threads ? threads : 32>>>(data, bytes / 128, lanes, samples, out, stream, copies ? to.p : nullptr, stream.n, stop, moved);
  cudaEventRecord(b);
  cudaEventSynchronize(b);
  float ms = 0;
  cudaEventElapsedTime(&ms, a, b);
  std::vector<uint32_t> t(samples);
  unsigned long long total = 0;
  cudaMemcpy(t.data(), out, samples * 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(&total, moved, 8, cudaMemcpyDeviceToHost);
  std::sort(t.begin(), t.end());
  double mean = 0;
  for (uint32_t v : t) mean += v / double(samples);
  for (const auto& [label, share] : {std::pair{"p02", .02}, {"p10", .1}, {"p25", .25}, {"p50", .5}, {"p75", .75}, {"p90", .9}, {"p95", .95}, {"p98", .98}, {"p995", .995}})
    report("spread." + name + "." + label, {double(t[size_t(share * samples)])}, "cycles", "one of 4096 timed loads of random lines, with a reduction over the warp");
  report("spread." + name + ".mean", {mean}, "cycles", "mean of 4096 timed loads of random lines");
  if (threads) report("spread." + name + ".stream", {double(total) * (copies ? 2 : 1) / (ms * 1e-3)}, "B/s", "what the other SMs read (and wrote) meanwhile");
}

}  // namespace

void measure_spread() {
  Buffer<float4> stream(size_t(1) << 27), to(size_t(1) << 27);
  for (int lanes : {1, 4, 32}) {
    const std::string l = std::to_string(lanes);
    spread("l2.lanes" + l, size_t(4) << 20, lanes, 0, false, stream, to);
    spread("dram256MB.lanes" + l, size_t(256) << 20, lanes, 0, false, stream, to);
    spread("dram4GB.lanes" + l, size_t(4) << 30, lanes, 0, false, stream, to);
  }
  for (bool copies : {false, true})
    for (int threads : {32, 64, 128, 256, 512, 1024})
      spread(std::string(copies ? "copying." : "reading.") + std::to_string(threads), size_t(256) << 20, 1, threads, copies, stream, to);
}

}  // namespace dissect
