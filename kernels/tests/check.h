// What every kernel test needs: deterministic data, device buffers that start poisoned with guard bytes on
// both sides, and comparisons with a float64 reference under a stated bound. A test is a plain program: it
// prints one line per group and exits non-zero at the first fault. `--small` keeps sizes fit for a software GPU. What tensor cores left
// on an H200 is recorded under tests/recorded, and every run of the small sizes is held to it, bit for bit.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "orrery/kernels.h"

namespace check {

using orrery::kernels::DType;

[[noreturn]] inline void fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::fprintf(stderr, "FAIL: ");
  std::vfprintf(stderr, format, args);
  std::fprintf(stderr, "\n");
  std::exit(1);
}

#define CUDA_OK(call)                                                                                    \
  do {                                                                                                   \
    if (cudaError_t e_ = (call); e_ != cudaSuccess)                                                      \
      check::fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, cudaGetErrorString(e_));                   \
  } while (0)
#define STATUS_OK(call)                                                                                  \
  do {                                                                                                   \
    if (orrery::kernels::Status s_ = (call); !s_.ok())                                                   \
      check::fail("%s:%d: %s: %s %s", __FILE__, __LINE__, #call, s_.argument ? s_.argument : "", s_.reason); \
  } while (0)
/// The call must name `arg` as the argument at fault.
#define NAMES(call, arg)                                                                                 \
  do {                                                                                                   \
    orrery::kernels::Status s_ = (call);                                                                 \
    if (s_.ok() || !s_.argument || std::strcmp(s_.argument, arg))                                        \
      check::fail("%s:%d: %s named %s, not %s", __FILE__, __LINE__, #call,                               \
                  s_.argument ? s_.argument : "nothing", arg);                                           \
  } while (0)

/// Hashes of results by the name of their case. `--record FILE` leaves those of this run, `--recorded FILE` holds this run to
/// those of another: the same cases, none more and none less, with the same bits. `--partial` is for builds that lack kernels:
/// recorded cases may not run, though not all of them, and what takes the simple path instead need not be recorded. A hash of zeros
/// stands for a case that no GPU has run yet: it must run, whatever its bits. Settled when
/// the program ends, with exit status 1 at fault.
class Results {
 public:
  static Results& all() {
    static Results* const results = new Results;  // outlives the handlers of exit
    return *results;
  }
  void open(int argc, char** argv) {
    for (int i = 1; i < argc; i++) {
      if (!std::strcmp(argv[i], "--partial")) partial_ = true;
      if (i + 1 == argc) break;
      if (!std::strcmp(argv[i], "--record")) {
        to_ = std::fopen(argv[i + 1], "w");
        if (!to_) fail("cannot write %s", argv[i + 1]);
      }
      if (!std::strcmp(argv[i], "--recorded")) read(argv[i + 1]);
    }
    std::atexit([] { all().settle(); });
  }
  void add(const std::string& what, const std::vector<unsigned char>& got) {
    const std::string name = what + " #" + std::to_string(seen_[what]++);
    uint64_t hash = 0xcbf29ce484222325ull;
    for (unsigned char c : got) hash = (hash ^ c) * 0x100000001b3ull;
    if (to_) std::fprintf(to_, "%016llx %s\n", (unsigned long long)hash, name.c_str()), std::fflush(to_);
    if (!held_) return;
    const auto it = want_.find(name);
    if (it == want_.end() && partial_) return void(unknown_++);
    if (it == want_.end()) fail("%s: is not recorded", name.c_str());
    if (it->second == kAwaited) awaited_++;
    else if (it->second != hash) fail("%s: other bits than were recorded", name.c_str());
    same_++;
  }

 private:
  void read(const char* path) {
    held_ = true;
    FILE* f = std::fopen(path, "r");
    if (!f) fail("cannot read %s", path);
    unsigned long long hash;
    char name[400];
    while (std::fscanf(f, "%llx %399[^\n]", &hash, name) == 2) want_[name] = hash;
    std::fclose(f);
    if (want_.empty()) fail("%s: nothing is recorded", path);
  }
  /// Nothing of what was recorded may have been left out.
  void settle() {
    if (to_) std::fclose(to_);
    if (!held_) return;
    std::printf("%zu of %zu recorded results have their bits, %zu results are not recorded, %zu await a GPU\n", same_ - awaited_, want_.size() - awaited_, unknown_, awaited_);
    std::fflush(stdout);
    if (same_ == want_.size() || (partial_ && same_ > 0)) return;
    for (const auto& [name, hash] : want_)
      if (!seen_.count(name.substr(0, name.rfind(" #")))) {
        std::fprintf(stderr, "FAIL: %s: is recorded but did not run\n", name.c_str());
        break;
      }
    std::fprintf(stderr, "FAIL: %zu of %zu recorded results were not seen\n", want_.size() - same_, want_.size());
    std::_Exit(1);
  }
  static constexpr uint64_t kAwaited = 0;
  FILE* to_ = nullptr;
  bool held_ = false, partial_ = false;
  std::map<std::string, uint64_t> want_;
  std::map<std::string, int> seen_;
  size_t same_ = 0, unknown_ = 0, awaited_ = 0;
};

inline bool small_mode(int argc, char** argv) {
  Results::all().open(argc, argv);
  for (int i = 1; i < argc; i++)
    if (!std::strcmp(argv[i], "--small")) return true;
  return false;
}

/// xorshift64*.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {}
  uint64_t next() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
  }
  double unit() { return double(next() >> 11) * 0x1p-53; }
  double symmetric() { return 2 * unit() - 1; }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  /// Sign and fraction random, exponent uniform in [-spread, spread].
  double spread(int spread) { return std::ldexp(symmetric(), int(below(2 * spread + 1)) - spread); }
};

/// Floats of exponents in [-6, 6].
inline std::vector<float> random_floats(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> v(n);
  for (auto& x : v) x = float(random.spread(6));
  return v;
}

inline double to_double(const void* p, int64_t i, DType t) {
  switch (t) {
    case DType::kF32: return static_cast<const float*>(p)[i];
    case DType::kF16: return double(__half2float(static_cast<const __half*>(p)[i]));
    case DType::kBF16: return double(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]));
    case DType::kE4M3: return double(float(static_cast<const __nv_fp8_e4m3*>(p)[i]));
    case DType::kI8: return static_cast<const int8_t*>(p)[i];
    default: return double(float(static_cast<const __nv_fp8_e5m2*>(p)[i]));
  }
}
inline void from_double(void* p, int64_t i, DType t, double v) {
  switch (t) {
    case DType::kF32: static_cast<float*>(p)[i] = float(v); break;
    case DType::kF16: static_cast<__half*>(p)[i] = __half(float(v)); break;
    case DType::kBF16: static_cast<__nv_bfloat16*>(p)[i] = __nv_bfloat16(float(v)); break;
    case DType::kE4M3: static_cast<__nv_fp8_e4m3*>(p)[i] = __nv_fp8_e4m3(float(v)); break;
    case DType::kI8: static_cast<int8_t*>(p)[i] = int8_t(std::lrint(15 * v)); break;
    default: static_cast<__nv_fp8_e5m2*>(p)[i] = __nv_fp8_e5m2(float(v)); break;
  }
}
/// What an epilogue's activation makes of v; GELU by its tanh.
inline double activated(double v, orrery::kernels::Activation a) {
  using orrery::kernels::Activation;
  if (a == Activation::kRelu) return std::max(v, 0.0);
  if (a == Activation::kSilu) return v / (1 + std::exp(-v));
  if (a == Activation::kGelu) return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  return v;
}
/// What that is off by at most where v is off by `error`: no slope is steeper than 1.13; f32 exponentials and tanh are within 2^-20 of |v|.
inline double activation_error(double v, double error, orrery::kernels::Activation a) {
  return a == orrery::kernels::Activation::kNone || a == orrery::kernels::Activation::kRelu ? error : 1.13 * error + 0x1p-20 * std::fabs(v);
}

/// Half the distance between neighbouring values, relative: the bound of one rounding.
inline double unit_roundoff(DType t) {
  switch (t) {
    case DType::kF32: return 0x1p-24;
    case DType::kF16: return 0x1p-11;
    case DType::kBF16: return 0x1p-8;
    case DType::kE4M3: return 0x1p-4;
    default: return 0x1p-3;
  }
}

/// Bound of rounding `want` to t once: relative, or half the step of subnormals.
inline double rounding(DType t, double want) {
  const double step = t == DType::kF16 ? 0x1p-24 : t == DType::kE4M3 ? 0x1p-9 : t == DType::kE5M2 ? 0x1p-16 : 0x1p-133;
  return 1.01 * std::max(unit_roundoff(t) * std::fabs(want), step / 2);
}

/// Device bytes between two guards; all of it starts as 0xFF, a NaN in every floating type.
class Buffer {
 public:
  static constexpr size_t kGuard = 4096;
  explicit Buffer(size_t bytes, size_t offset = 0) : bytes_(bytes), offset_(offset) {
    CUDA_OK(cudaMalloc(&base_, bytes + 2 * kGuard + offset));
    poison();
  }
  template <class T>
  explicit Buffer(const std::vector<T>& host, size_t offset = 0) : Buffer(host.size() * sizeof(T), offset) {
    CUDA_OK(cudaMemcpy(data(), host.data(), bytes_, cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(base_); }
  template <class T = void>
  T* as() const { return reinterpret_cast<T*>(data()); }
  char* data() const { return static_cast<char*>(base_) + kGuard + offset_; }
  size_t bytes() const { return bytes_; }
  void poison() { CUDA_OK(cudaMemset(base_, 0xFF, bytes_ + 2 * kGuard + offset_)); }
  template <class T>
  std::vector<T> host() const {
    std::vector<T> out(bytes_ / sizeof(T));
    CUDA_OK(cudaMemcpy(out.data(), data(), out.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }
  /// Fails if anything wrote outside.
  void check_guards(const char* what) const {
    std::vector<unsigned char> all(bytes_ + 2 * kGuard + offset_);
    CUDA_OK(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < all.size(); i++)
      if ((i < kGuard + offset_ || i >= kGuard + offset_ + bytes_) && all[i] != 0xFF)
        fail("%s: wrote %lld bytes from its output's start", what, (long long)i - (long long)(kGuard + offset_));
  }

 private:
  void* base_ = nullptr;
  size_t bytes_, offset_;
};

/// Runs body(i) for i in [0, n) on all host cores.
template <class Body>
void parallel(int64_t n, Body body) {
  const int workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; w++)
    threads.emplace_back([=] {
      for (int64_t i = w; i < n; i += workers) body(i);
    });
  for (auto& t : threads) t.join();
}

/// |got - want| <= bound, and got is a number.
inline void expect_near(double got, double want, double bound, const char* what, int64_t i, int64_t j) {
  if (!(std::fabs(got - want) <= bound))
    fail("%s: [%lld, %lld] is %.9g, want %.9g within %.3g", what, (long long)i, (long long)j, got, want, bound);
}

}  // namespace check
