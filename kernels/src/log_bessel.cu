// Logarithms of the modified Bessel functions, element by element: one thread an element, whose region decides what it computes (log_bessel.cuh).
// A warp takes as long as the regions its elements are in together. Not here: sorting elements by region.
#include "log_bessel.cuh"

#include "arguments.h"
#include "launch.h"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256;

template <bool kSecond>
__global__ void __launch_bounds__(kThreads) log_bessel(double* out, const double* v, int v_stride, const double* x, int64_t n) {
  begin_overlapped();
  const int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  if (i >= n) return;
  const double order = v[v_stride ? i : 0], at = x[i];
  if constexpr (kSecond) out[i] = log_k(order, at);
  else out[i] = log_i(order, at);
}

template <bool kSecond>
Status run(double* out, const double* v, int64_t v_stride, const double* x, int64_t n, cudaStream_t stream) {
  if (n < 0 || n > int64_t(0x7fffffff) * kThreads) return bad("n", "must be in [0, 2^39 - 256]");
  if (v_stride != 0 && v_stride != 1) return bad("v_stride", "must be 0 or 1");
  if (n == 0) return {};
  const struct { const char* name; const double* p; } all[] = {{"out", out}, {"v", v}, {"x", x}};
  for (const auto& a : all) {
    if (!a.p) return bad(a.name, "is null");
    if (!aligned(a.p, 8)) return bad(a.name, "is not 8-byte aligned");
  }
  const Extent order = dense("v", v, v_stride ? n * 8 : 8), at = dense("x", x, n * 8), to = dense("out", out, n * 8);
  // One order for all may not be written over while others still read it.
  if (Status s = v_stride ? apart(to, {}, {order, at}) : apart(to, {order}, {at}); !s.ok()) return s;
  return launched(launch_overlapped(log_bessel<kSecond>, (n + kThreads - 1) / kThreads, kThreads, 0, stream, out, v, int(v_stride), x, n));
}

}  // namespace

Status log_bessel_i(double* out, const double* v, int64_t v_stride, const double* x, int64_t n, cudaStream_t stream) { return run<false>(out, v, v_stride, x, n, stream); }
Status log_bessel_k(double* out, const double* v, int64_t v_stride, const double* x, int64_t n, cudaStream_t stream) { return run<true>(out, v, v_stride, x, n, stream); }

}  // namespace orrery::kernels
