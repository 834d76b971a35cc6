// calib/truth/truth.h: kernels that judge the timing model: how one is declared, prepared and launched.
//
// A case is one kernel at one size. prepare() allocates and fills its operands (copies only: no kernel but the judged
// one is ever launched, so a profiler's list of launches is the list of cases), and returns the launch. Nothing
// measured here is used to make a GPU profile; calib/dissect is for that.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace truth {

using Launch = std::function<void()>;
struct Case {
  std::string family, kernel, size;
  std::function<Launch()> prepare;
  std::string name() const { return kernel + "/" + size; }
};
std::vector<Case>& cases();

struct Add {
  Add(const char* family, const char* kernel, std::vector<long> sizes, std::function<Launch(long)> prepare) {
    for (long n : sizes) cases().push_back({family, kernel, std::to_string(n), [=] { return prepare(n); }});
  }
};
#define TRUTH_NAME2(line) add_##line
#define TRUTH_NAME(line) TRUTH_NAME2(line)
#define TRUTH static const truth::Add TRUTH_NAME(__COUNTER__)

/// Device memory that a case has taken, and its bytes: what is put back for launches that change their operands.
std::vector<std::pair<void*, size_t>>& taken();

/// Device memory shared by the launches that copy this handle.
template <class T>
struct Array {
  std::shared_ptr<void> owner;
  T* p = nullptr;
  size_t n = 0;
  explicit Array(size_t count) : n(count) {
    void* raw = nullptr;
    if (cudaMalloc(&raw, count * sizeof(T) + 256) != cudaSuccess) {
      std::fprintf(stderr, "truth: out of device memory\n");
      std::exit(1);
    }
    taken().push_back({raw, count * sizeof(T)});
    owner = std::shared_ptr<void>(raw, [](void* q) {
      std::erase_if(taken(), [=](const auto& t) { return t.first == q; });
      cudaFree(q);
    });
    p = static_cast<T*>(raw);
  }
  operator T*() const { return p; }
};

/// xorshift64*: the same data everywhere.
struct Random {
  uint64_t s = 88172645463325252ull;
  uint32_t next() {
    s ^= s >> 12, s ^= s << 25, s ^= s >> 27;
    return uint32_t((s * 2685821657736338717ull) >> 32);
  }
  float unit() { return float(next() >> 8) * (1.f / 16777216.f); }
};

/// Fills from a host pattern of up to 1 M elements, doubled by device-to-device copies.
template <class T>
void fill(const Array<T>& a, const std::function<T(size_t, Random&)>& value) {
  Random r;
  const size_t head = a.n < (size_t(1) << 20) ? a.n : size_t(1) << 20;
  std::vector<T> host(head);
  for (size_t i = 0; i < head; i++) host[i] = value(i, r);
  cudaMemcpy(a.p, host.data(), head * sizeof(T), cudaMemcpyHostToDevice);
  for (size_t done = head; done < a.n;) {
    const size_t more = std::min(done, a.n - done);
    cudaMemcpy(a.p + done, a.p, more * sizeof(T), cudaMemcpyDeviceToDevice);
    done += more;
  }
}
template <class T>
Array<T> uniform(size_t n) {
  Array<T> a(n);
  fill<T>(a, [](size_t, Random& r) { return T(r.unit()); });
  return a;
}
template <class T>
Array<T> zeros(size_t n) {
  Array<T> a(n);
  cudaMemset(a.p, 0, n * sizeof(T));
  return a;
}
/// Copies a host array of any size.
template <class T>
Array<T> upload(const std::vector<T>& host) {
  Array<T> a(host.size());
  cudaMemcpy(a.p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return a;
}
/// Random indices below `below` (n at most some millions: made on the host).
inline Array<uint32_t> indices(size_t n, uint32_t below) {
  Random r;
  std::vector<uint32_t> host(n);
  for (auto& v : host) v = r.next() % below;
  return upload(host);
}
inline int blocks_for(long n, int threads) { return int((n + threads - 1) / threads); }

}  // namespace truth
