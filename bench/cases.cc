// bench/cases.cc: see cases.h.
#include "cases.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "limits.h"
#include "plain.h"

namespace bench {

using namespace orrery;

namespace {

/// Splits [0, n) between the threads in multiples of `unit`.
void on_threads(int n, int unit, const std::function<void(int, int, int)>& f) {
  std::vector<std::thread> threads;
  const int part = (n / unit + kThreads - 1) / kThreads * unit;
  for (int t = 0; t < kThreads; t++) threads.emplace_back([=, &f] { f(std::min(n, t * part), std::min(n, (t + 1) * part), t); });
  for (auto& t : threads) t.join();
}

/// Buffers live in device memory, which is host memory: plain C++ uses the same ones.
struct Buffers {
  exec::DeviceMemory& memory;
  std::minstd_rand random{1};
  template <class T>
  T* make(size_t n) {
    T* p = reinterpret_cast<T*>(memory.allocate(n * sizeof(T), exec::MemoryKind::device, 0));
    if (!p) throw std::bad_alloc();
    return p;
  }
  float* floats(size_t n) {
    float* p = make<float>(n);
    for (size_t i = 0; i < n; i++) p[i] = float(random() % 2001) / 1000.0f - 1.0f;
    return p;
  }
};

template <class T>
Argument buffer(T* p, size_t n) { return {const_cast<std::remove_const_t<T>*>(p), n * sizeof(T), 0}; }
Argument number(int v) { return {nullptr, 0, v}; }

}  // namespace

std::vector<Case> make_cases(exec::DeviceMemory& memory, bool quick, const std::function<bool(const char*)>& wanted) {
  Buffers b{memory};
  std::vector<Case> cases;
  auto blocks = [](int n, int per) { return uint32_t((n + per - 1) / per); };
  if (wanted("vadd") || wanted("reduce")) {
    const int n = quick ? 4 << 20 : 64 << 20;
    float *x = b.floats(size_t(n)), *y = b.floats(size_t(n)), *z = b.floats(size_t(n)), *r = b.make<float>(size_t(n));
    cases.push_back({"vadd", {blocks(n, 256)}, {256}, {buffer(x, n), buffer(y, n), buffer(z, n), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::vadd(x, y, r, f, l); }); }, {}, 0, 12.0 * n, 2, r});
    const size_t parts = size_t(n) / 4096;
    float* part = b.make<float>(parts + 2);
    cases.push_back({"reduce", {uint32_t(parts)}, {256}, {buffer(x, n), buffer(part, parts), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int t) { part[parts + size_t(t)] = plain::reduce(x, f, l); }); }, {}, 0, 4.0 * n});
  }
  if (wanted("sgemm_naive") || wanted("sgemm_tiled")) {
    const int n = quick ? 512 : 1024;
    float *x = b.floats(size_t(n) * n), *y = b.floats(size_t(n) * n), *z = b.make<float>(size_t(n) * n), *r = b.make<float>(size_t(n) * n);
    std::function<void()> blas;
    if (limits::blas_sgemm(x, y, r, n, 0, 0)) blas = [=] { on_threads(n, 1, [=](int f, int l, int) { limits::blas_sgemm(x, y, r, n, f, l); }); };
    auto plain_gemm = [=] { on_threads(n, 1, [=](int f, int l, int) { plain::sgemm(x, y, r, n, f, l); }); };
    const double flops = 2.0 * n * n * n;
    const std::vector<Argument> args{buffer(x, size_t(n) * n), buffer(y, size_t(n) * n), buffer(z, size_t(n) * n), number(n)};
    cases.push_back({"sgemm_naive", {uint32_t(n / 16), uint32_t(n / 16)}, {16, 16}, args, plain_gemm, blas, flops, 0, 2, r});
    cases.push_back({"sgemm_tiled", {uint32_t(n / 32), uint32_t(n / 32)}, {32, 32}, args, plain_gemm, blas, flops, 0, 2, r});
  }
  if (wanted("mandelbrot")) {
    const int n = quick ? 512 : 2048, limit = 256;
    int *z = b.make<int>(size_t(n) * n), *r = b.make<int>(size_t(n) * n);
    cases.push_back({"mandelbrot", {uint32_t(n / 16), uint32_t(n / 16)}, {16, 16}, {buffer(z, size_t(n) * n), number(n), number(limit)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::mandelbrot(r, n, limit, f, l); }); }, {}});
  }
  if (wanted("transpose") || wanted("stencil") || wanted("convolve")) {
    const int n = quick ? 1024 : 4096;
    const size_t all = size_t(n) * n;
    float *x = b.floats(all), *z = b.make<float>(all), *r = b.make<float>(all), *w = b.floats(25);
    const exec::Dim3 tiles{uint32_t(n / 32), uint32_t(n / 32)}, fine{uint32_t(n / 32), uint32_t(n / 8)};
    cases.push_back({"transpose", tiles, {32, 8}, {buffer(x, all), buffer(z, all), number(n)},
                     [=] { on_threads(n, 32, [=](int f, int l, int) { plain::transpose(x, r, n, f, l); }); }, {}, 0, 8.0 * double(all), 1, r});
    cases.push_back({"stencil", fine, {32, 8}, {buffer(x, all), buffer(z, all), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::stencil(x, r, n, f, l); }); }, {}, 0, 8.0 * double(all), 1, r});
    cases.push_back({"convolve", fine, {32, 8}, {buffer(x, all), buffer(w, 25), buffer(z, all), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::convolve(x, w, r, n, f, l); }); }, {}, 50.0 * double(all), 0, 2, r});
  }
  if (wanted("nbody")) {
    const int n = quick ? 2048 : 8192;
    float *x = b.floats(4 * size_t(n)), *z = b.make<float>(4 * size_t(n)), *r = b.make<float>(4 * size_t(n));
    cases.push_back({"nbody", {uint32_t(n / 256)}, {256}, {buffer(x, 4 * size_t(n)), buffer(z, 4 * size_t(n)), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::nbody(x, r, n, f, l); }); }, {}, 20.0 * n * n, 0, 1, r});
  }
  if (wanted("histogram")) {
    const int n = quick ? 1 << 20 : 16 << 20;
    auto* x = b.make<unsigned char>(size_t(n));
    for (int i = 0; i < n; i++) x[i] = static_cast<unsigned char>(b.random());
    unsigned *z = b.make<unsigned>(256), *r = b.make<unsigned>(512);
    cases.push_back({"histogram", {256}, {256}, {buffer(x, size_t(n)), buffer(z, 256), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int t) { plain::histogram(x, r + 256 * t, f, l); }); }, {}, 0, double(n)});
  }
  if (wanted("spmv")) {
    const int n = quick ? 1 << 16 : 1 << 19, per = 16;
    int *row = b.make<int>(size_t(n) + 1), *col = b.make<int>(size_t(n) * per);
    float *val = b.floats(size_t(n) * per), *x = b.floats(size_t(n)), *z = b.make<float>(size_t(n)), *r = b.make<float>(size_t(n));
    int at = 0;
    for (int i = 0; i < n; i++) {
      row[i] = at;
      const int count = int(b.random() % (2 * per - 1));
      for (int k = 0; k < count && at < n * per; k++) col[at++] = int(std::min<int64_t>(n - 1, std::max<int64_t>(0, i + int64_t(b.random() % 2000) - 1000)));
    }
    row[n] = at;
    cases.push_back({"spmv", {blocks(n, 256)}, {256},
                     {buffer(row, size_t(n) + 1), buffer(col, size_t(n) * per), buffer(val, size_t(n) * per), buffer(x, size_t(n)), buffer(z, size_t(n)), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::spmv(row, col, val, x, r, f, l); }); }, {}, 2.0 * at, 8.0 * at, 4, r});
  }
  if (wanted("scan") || wanted("integers")) {
    const int n = quick ? 1 << 20 : 16 << 20;
    int *x = b.make<int>(size_t(n)), *z = b.make<int>(size_t(n)), *r = b.make<int>(size_t(n));
    for (int i = 0; i < n; i++) x[i] = int(b.random() % 100);
    cases.push_back({"scan", {uint32_t(n / 256)}, {256}, {buffer(x, size_t(n)), buffer(z, size_t(n)), number(n)},
                     [=] { on_threads(n, 256, [=](int f, int l, int) { plain::scan(x, r, f, l); }); }, {}, 0, 8.0 * n, 1, r, false});
    auto *u = reinterpret_cast<unsigned*>(x), *v = reinterpret_cast<unsigned*>(z), *e = reinterpret_cast<unsigned*>(r);
    const int m = n / 4;
    cases.push_back({"integers", {blocks(m, 256)}, {256}, {buffer(u, size_t(n)), buffer(v, size_t(n)), number(m)},
                     [=] { on_threads(m, 1, [=](int f, int l, int) { plain::integers(u, e, f, l); }); }, {}, 0, 0, 1, e, false});
  }
  return cases;
}

}  // namespace bench
