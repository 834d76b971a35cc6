// The memory-bound kernels at 16 MiB and 1 GiB, against the rate of a device-to-device cudaMemcpy of the same size.
//
//   memory_bench [KERNEL,KERNEL...]
//
// One CSV row per kernel and size: microseconds and GB/s, counting each byte that must be read or written once.
// NAME:cub is the same job by CUB, NAME:sweeps what a kernel reads and writes that goes over its data several times, read and copied so often and no
// more. Replays of a kernel and of its rivals go in turns.
// Replays rotate over as many buffers as fit in 4 GiB, at least three of the largest, so that nothing comes from L2.
#include <cstring>
#include <memory>

#include "data.h"
#include "measure.h"
#include "memory_peers.h"
#include "orrery/kernels.h"

using namespace orrery::kernels;
using bench::Device;
using bench::Replay;

namespace {

constexpr size_t kArena = size_t(12) << 30;

struct Case {
  const char* name;
  double traffic;  // bytes per byte of `size`
  std::function<Status(char* out, char* x, char* y, int64_t bytes, cudaStream_t)> run;
  std::function<bool(char* out, char* x, char* y, int64_t bytes, cudaStream_t)> rival = {};   // by CUB
  std::function<Status(char* out, char* x, char* y, int64_t bytes, cudaStream_t)> sweeps = {};  // what it reads and writes, by kernels that do no more
};

const DType kB = DType::kBF16;

constexpr size_t kTheirs = size_t(16) << 20;

std::vector<Case> cases(void* workspace, void* theirs) {
  const auto f = [](char* p) { return reinterpret_cast<float*>(p); };
  const auto u = [](char* p) { return reinterpret_cast<uint32_t*>(p); };
  constexpr int64_t kCols = 8192;
  return {
      {"cudaMemcpy", 2, [](char* o, char* x, char*, int64_t n, cudaStream_t s) { return cudaMemcpyAsync(o, x, n, cudaMemcpyDeviceToDevice, s) ? Status{nullptr, "memcpy", cudaErrorUnknown} : Status{}; }},
      {"copy", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return stream_copy(f(o), f(x), n / 4, s); }},
      {"scale", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return stream_scale(f(o), f(x), 1.5f, n / 4, s); }},
      {"add", 3, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return stream_add(f(o), f(x), f(y), n / 4, s); }},
      {"triad", 3, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return stream_triad(f(o), f(x), f(y), 1.5f, n / 4, s); }},
      {"reduce_sum", 1, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return reduce_sum(f(o), f(x), n / 4, workspace, s); },
       [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return bench::cub_sum(f(o), f(x), n / 4, theirs, kTheirs, s); }},
      {"reduce_max", 1, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return reduce_max(f(o), f(x), n / 4, workspace, s); },
       [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return bench::cub_max(f(o), f(x), n / 4, theirs, kTheirs, s); }},
      {"reduce_min", 1, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return reduce_min(f(o), f(x), n / 4, workspace, s); },
       [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return bench::cub_min(f(o), f(x), n / 4, theirs, kTheirs, s); }},
      {"softmax_bf16", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return softmax(o, x, kB, n / 2 / kCols, kCols, kCols, s); }},
      {"layernorm_bf16", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return layernorm(o, nullptr, x, nullptr, workspace, workspace, 1e-5f, kB, n / 2 / kCols, kCols, kCols, s); }},
      {"rmsnorm_bf16", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return rmsnorm(o, nullptr, x, nullptr, workspace, 1e-5f, kB, n / 2 / kCols, kCols, kCols, s); }},
      {"rmsnorm_residual_bf16", 4, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return rmsnorm(o, y, x, y, workspace, 1e-5f, kB, n / 2 / kCols, kCols, kCols, s); }},
      {"rotary_bf16", 2 + 1.0 / 8, [=](char*, char* x, char* y, int64_t n, cudaStream_t s) { return rotary(x, f(y), f(y), kB, n / 2 / (32 * 128), 32, 128, s); }},
      {"quantize_e4m3", 1.5 + 4.0 / 256, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return quantize_e4m3(o, f(y), x, kB, n / 2 / kCols, kCols, s); }},
      {"dequantize_e4m3", 1.5 + 4.0 / 256, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return dequantize_e4m3(o, x, f(y), kB, n / 2 / kCols, kCols, s); }},
      {"quantize_int4", 1.25 + 2.0 / 256, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return quantize_int4(o, y, x, kB, n / 2 / kCols, kCols, s); }},
      {"dequantize_int4", 1.25 + 2.0 / 256, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return dequantize_int4(o, x, y, kB, n / 2 / kCols, kCols, s); }},
      {"transpose_16bit", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return transpose(o, x, 2, n / 2 / kCols, kCols, kCols, n / 2 / kCols, s); }},
      {"transpose_32bit", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return transpose(o, x, 4, n / 4 / kCols, kCols, kCols, n / 4 / kCols, s); }},
      {"gather_4KiB", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return gather_rows(o, x, static_cast<int32_t*>(workspace) + (1 << 20), n / 4096, n / 4096, 4096, s); }},
      {"top_64_of_8192_bf16", 1, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return top_k(o, nullptr, x, kB, n / 2 / kCols, kCols, kCols, 64, s); }},
      {"sort_u32_quarter", 0.5, [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return sort_u32(u(o), nullptr, u(x), nullptr, n / 16, y, s); },
       [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) { return bench::cub_sort(u(o), u(x), n / 16, y, n, s); },
       [=](char* o, char* x, char* y, int64_t n, cudaStream_t s) {  // counts of all digits, then a pass for each of four
         Status status = reduce_sum(f(o), f(x), n / 16, workspace, s);
         for (const auto& [to, from] : {std::pair{y, x}, {o, y}, {y, o}, {o, y}})
           if (status.ok()) status = stream_copy(f(to), f(from), n / 16, s);
         return status;
       }},
      {"pack_64_of_128_bytes", 1, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return pack(o, x, {1, 64, {n / 128}, {128}}, s); }},
      {"histogram_u8", 1, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return histogram_u8(u(o), reinterpret_cast<uint8_t*>(x), n, s); },
       [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return bench::cub_histogram(u(o), reinterpret_cast<uint8_t*>(x), n, theirs, kTheirs, s); }},
      {"inclusive_scan", 2, [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return inclusive_scan(u(o), u(x), n / 4, static_cast<char*>(workspace) + (16 << 20), s); },
       [=](char* o, char* x, char*, int64_t n, cudaStream_t s) { return bench::cub_scan(u(o), u(x), n / 4, theirs, kTheirs, s); }},
  };
}

}  // namespace

int main(int argc, char** argv) {
  Device device;
  char* arena;
  void *workspace, *theirs;
  BENCH_OK(cudaMalloc(&theirs, kTheirs));
  BENCH_OK(cudaMalloc(&arena, kArena));
  BENCH_OK(cudaMalloc(&workspace, 64 << 20));
  BENCH_OK(cudaMemset(workspace, 0, 64 << 20));
  std::vector<int32_t> index(1 << 20);
  cudaDeviceProp prop;
  BENCH_OK(cudaGetDeviceProperties(&prop, 0));
  int driver = 0;
  BENCH_OK(cudaDriverGetVersion(&driver));
  std::printf("# %s, driver API %d; columns: kernel,bytes,us,GB/s\n", prop.name, driver);
  for (int64_t bytes : {int64_t(16) << 20, int64_t(1) << 30}) {
    const int64_t rows = bytes / 4096;
    for (int64_t i = 0; i < rows; i++) index[i] = int32_t(i * 2654435761u % rows);
    BENCH_OK(cudaMemcpy(static_cast<int32_t*>(workspace) + (1 << 20), index.data(), rows * 4, cudaMemcpyHostToDevice));
    const int sets = int(std::min<int64_t>(20, kArena / (3 * bytes)));
    for (const Case& c : cases(workspace, theirs)) {
      if (argc > 1 && !std::strstr(argv[1], c.name)) continue;
      bench::fill_normal(arena, kArena / 2, kB, 3, device.stream);  // the case before has left what it made
      std::vector<std::unique_ptr<Replay>> replays;
      std::vector<const char*> names;
      const auto add = [&](const char* name, auto run) {  // run: false where it cannot
        replays.push_back(std::make_unique<Replay>(device, std::max(sets, 3), [&](int i) {
          char* base = arena + int64_t(i % sets) * 3 * bytes;
          if (!run(base, base + bytes, base + 2 * bytes)) std::exit((std::fprintf(stderr, "%s%s failed\n", c.name, name), 1));
        }));
        names.push_back(name);
      };
      const auto ours = [&](const auto& f) {
        return [&](char* o, char* x, char* y) {
          const Status s = f(o, x, y, bytes, device.stream);
          if (!s.ok()) std::fprintf(stderr, "%s %s\n", s.argument ? s.argument : "", s.reason);
          return s.ok();
        };
      };
      add("", ours(c.run));
      if (c.rival && c.rival(arena, arena + bytes, arena + 2 * bytes, bytes, device.stream)) add(":cub", [&](char* o, char* x, char* y) { return c.rival(o, x, y, bytes, device.stream); });
      if (c.sweeps) add(":sweeps", ours(c.sweeps));
      std::vector<Replay*> rivals;
      for (const auto& r : replays) rivals.push_back(r.get());
      const auto us = bench::race(rivals, bytes > (1 << 28) ? 9 : 21, true);
      for (size_t i = 0; i < us.size(); i++)
        std::printf("%s%s,%lld,%.2f,%.0f\n", c.name, names[i], (long long)bytes, us[i], c.traffic * bytes / us[i] * 1e-3);
      std::fflush(stdout);
    }
  }
}
