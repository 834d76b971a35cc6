// calib/yields.cu: which warps of a sub-core issue when, by which instructions of a loop let others go first (the yield bit of a control word) and how long
// others are let: loops of products whose machine code is changed before it is loaded.
//
//   nvcc -O3 -std=c++20 -arch=sm_90a -cubin -o yields.cubin calib/yields.cu
//   nvcc -O3 -std=c++20 -arch=sm_90a -o yields calib/yields.cu -lcuda
//   yields yields.cubin > calib/raw/GPU-DATE-yields.jsonl
//
// A JSON line for each change, loop and shape: of each block of SM 0 the cycles a turn at which its last warp passed the middle of its turns (twice that)
// and ended. Changes: orig none; none: nobody yields; all: every product does; b1, b1_17: the last, the last and the 17th from the end do; f1: the first does;
// s2: nobody does and the last takes two cycles. Not here: what blocks wait for (order.cu), other instructions (pace.cu).
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#define LOOP(name, products, barrier)                                                                          \
  extern "C" __global__ void name(long long* when, float* out, int rounds, float y, float z) {                 \
    float x[8];                                                                                                \
    for (int i = 0; i < 8; i++) x[i] = threadIdx.x * (i + 1);                                                  \
    __syncthreads();                                                                                           \
    const long long begin = clock64();                                                                         \
    long long middle = 0;                                                                                      \
    for (int half = 0; half < 2; half++) {                                                                     \
      _Pragma("unroll 1") for (int r = 0; r < rounds / 2; r++) {                                               \
        _Pragma("unroll") for (int i = 0; i < products; i++) x[i % 8] = x[i % 8] * y + z;                      \
        if (barrier) __syncthreads();                                                                          \
      }                                                                                                        \
      if (half == 0) middle = clock64();                                                                       \
    }                                                                                                          \
    const long long end = clock64();                                                                           \
    if (threadIdx.x % 32 == 0) {                                                                               \
      unsigned sm;                                                                                             \
      asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));                                                          \
      long long* const w = when + (long(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32) * 4;               \
      w[0] = begin, w[1] = middle, w[2] = end, w[3] = sm;                                                      \
    }                                                                                                          \
    float s = 0;                                                                                               \
    for (int i = 0; i < 8; i++) s += x[i];                                                                     \
    out[long(blockIdx.x) * blockDim.x + threadIdx.x] = s;                                                      \
  }
LOOP(loop8, 8, false)
LOOP(loop16, 16, false)
LOOP(loop32, 32, false)
LOOP(loop128, 128, false)
LOOP(loop128b, 128, true)

namespace {

constexpr int kSms = 132;
constexpr uint32_t kProduct = 0xc23, kBranch = 0x947;  // FFMA of uniform operands, BRA
struct Header {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t align, entry;
};

struct Code {
  std::vector<char>& file;
  template <class T>
  T at(size_t offset) const {
    T v;
    std::memcpy(&v, &file[offset], sizeof v);
    return v;
  }
  uint32_t op(size_t i) const { return uint32_t(at<uint64_t>(i) & 0xfff); }
  void set(size_t i, int bit, int bits, uint64_t value) const {  // of the upper half
    uint64_t v = at<uint64_t>(i + 8);
    v = (v & ~(((uint64_t{1} << bits) - 1) << bit)) | value << bit;
    std::memcpy(&file[i + 8], &v, sizeof v);
  }
  void yields(size_t i, bool does) const { set(i, 45, 1, !does); }
  void takes(size_t i, uint64_t cycles) const { set(i, 41, 4, cycles); }
};

std::vector<char> changed(std::vector<char> file, const std::string& how) {
  if (how == "orig") return file;
  const Code code{file};
  const auto headers = code.at<uint64_t>(0x28);
  const int n = code.at<uint16_t>(0x3c);
  const auto header = [&](int i) { return code.at<Header>(headers + 64 * size_t(i)); };
  const Header names = header(code.at<uint16_t>(0x3e));
  for (int s = 0; s < n; s++) {
    const Header h = header(s);
    if (std::strncmp(&file[names.offset + h.name], ".text.", 6) != 0) continue;
    std::vector<size_t> run;  // products since the last branch
    for (size_t i = h.offset; i < h.offset + h.size; i += 16) {
      code.yields(i, false);
      if (code.op(i) == kProduct) run.push_back(i);
      if (code.op(i) != kBranch) continue;
      if (run.size() >= 8) {
        if (how == "all") for (size_t p : run) code.yields(p, true);
        if (how[0] == 'f') code.yields(run[size_t(std::stoi(how.substr(1))) - 1], true);
        if (how[0] == 's') code.takes(run.back(), uint64_t(std::stoi(how.substr(1))));
        for (size_t from = how[0] == 'b' ? 1 : how.size(); from < how.size();) {
          const size_t end = std::min(how.find('_', from), how.size()), back = size_t(std::stoi(how.substr(from, end - from)));
          if (back <= run.size()) code.yields(run[run.size() - back], true);
          from = end + 1;
        }
      }
      run.clear();
    }
  }
  return file;
}

void measure(CUmodule module, const std::string& how, const std::string& loop, int products, int warps, int blocks) {
  CUfunction function;
  if (cuModuleGetFunction(&function, module, loop.c_str())) return (void)std::fprintf(stderr, "%s is not there\n", loop.c_str());
  const size_t all = size_t(kSms) * size_t(blocks * warps);
  CUdeviceptr when, out;
  cuMemAlloc(&when, all * 32), cuMemAlloc(&out, all * 128);
  int rounds = 32768 / products;
  float y = 1, z = 0;
  void* parameters[] = {&when, &out, &rounds, &y, &z};
  for (int i = 0; i < 2; i++) cuLaunchKernel(function, unsigned(kSms * blocks), 1, 1, unsigned(warps * 32), 1, 1, 0, nullptr, parameters, nullptr);
  std::vector<long long> h(all * 4);
  if (const int error = cuMemcpyDtoH(h.data(), when, h.size() * 8)) std::fprintf(stderr, "%s %s: %d\n", how.c_str(), loop.c_str(), error);
  cuMemFree(when), cuMemFree(out);
  long long first = 1ll << 62;
  for (size_t i = 0; i < all; i++)
    if (h[i * 4 + 3] == 0) first = std::min(first, h[i * 4]);
  std::map<size_t, std::pair<long long, long long>> ends;
  for (size_t i = 0; i < all; i++)
    if (h[i * 4 + 3] == 0) {
      auto& [middle, end] = ends[i / size_t(warps)];
      middle = std::max(middle, h[i * 4 + 1] - first), end = std::max(end, h[i * 4 + 2] - first);
    }
  std::printf("{\"change\": \"%s\", \"loop\": \"%s\", \"warps\": %d, \"blocks\": %d, \"middle_and_end\": [", how.c_str(), loop.c_str(), warps, blocks);
  bool more = false;
  for (const auto& [block, at] : ends) std::printf("%s[%.1f, %.1f]", std::exchange(more, true) ? ", " : "", 2.0 * double(at.first) / rounds, double(at.second) / rounds);
  std::printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "yields yields.cubin\n"), 2;
  std::ifstream in(argv[1], std::ios::binary);
  const std::vector<char> file((std::istreambuf_iterator<char>(in)), {});
  if (file.size() < 64) return std::fprintf(stderr, "%s: no cubin\n", argv[1]), 1;
  CUdevice device;
  CUcontext context;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return std::fprintf(stderr, "no GPU\n"), 1;
  for (const char* how : {"orig", "none", "all", "b1", "b2", "b3", "b4", "b5", "b6", "b8", "b16", "b1_2", "b1_5", "b1_9", "b1_17", "f1", "s2", "s10"}) {
    CUmodule module;
    const std::vector<char> code = changed(file, how);
    if (const int error = cuModuleLoadData(&module, code.data())) return std::fprintf(stderr, "%s: error %d\n", how, error), 1;
    for (const auto& [loop, products] : {std::pair("loop8", 8), {"loop16", 16}, {"loop32", 32}, {"loop128", 128}, {"loop128b", 128}})
      for (const auto& [warps, blocks] : {std::pair(4, 1), {8, 1}, {8, 2}, {4, 4}, {4, 8}, {8, 8}}) measure(module, how, loop, products, warps, blocks);
    cuModuleUnload(module);
  }
}
