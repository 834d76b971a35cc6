// calib/steps/in_place.cu: arrays that are read and written where they are, beside such that are copied: what memory gives by the size of
// the arrays and by how far apart they lie.
#include "steps.h"

namespace {
using namespace steps;

enum Kind { kScale, kAxpy, kSwap, kCopy, kTwoCopies, kAdd, kRotate };

/// A thread an element; arrays `apart` elements apart in one allocation.
template <Kind kind>
__global__ void __launch_bounds__(256) in_place(double* p, size_t n, size_t apart) {
  const size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  double *a = p, *b = p + apart, *c = p + 2 * apart, *d = p + 3 * apart;
  if (kind == kScale) a[i] *= 1.5;
  if (kind == kAxpy) b[i] += a[i];
  if (kind == kSwap) {
    const double was = a[i];
    a[i] = b[i];
    b[i] = was;
  }
  if (kind == kCopy) b[i] = a[i];
  if (kind == kTwoCopies) {
    const double x = a[i], y = b[i];
    c[i] = x, d[i] = y;
  }
  if (kind == kAdd) c[i] = a[i] + b[i];
  if (kind == kRotate) {
    const double x = a[i], y = b[i], z = c[i];
    a[i] = y, b[i] = z, c[i] = x;
  }
}
__global__ void __launch_bounds__(256) in_place_rows(double* a, size_t apart) {
  const unsigned x = blockIdx.x * 256 + threadIdx.x;
  if (x >= 400) return;
  const size_t i = blockIdx.y * size_t{400} + x;
  const double was = a[i];
  a[i] = a[i + apart];
  a[i + apart] = was;
}
/// n: MB of an array; `gap`: bytes between arrays.
template <Kind kind>
truth::Launch arrays(long mb, long gap) {
  const size_t n = size_t(mb) << 17, apart = n + size_t(gap) / 8;
  auto p = zeros<double>(4 * apart);
  return [=] { in_place<kind><<<unsigned((n + 255) / 256), 256>>>(p.p, n, apart); };
}
#define PLACES(name, kind) \
  TRUTH("in_place", "in_place_" name, {16, 64, 128, 256, 500}, [](long mb) { return arrays<kind>(mb, 0); });
PLACES("scale", kScale)
PLACES("axpy", kAxpy)
PLACES("swap", kSwap)
PLACES("copy", kCopy)
PLACES("two_copies", kTwoCopies)
PLACES("add", kAdd)
PLACES("rotate", kRotate)
TRUTH("in_place", "in_place_swap_gap", {512, 2048, 8192, 32768, 131072, 1048576, 1114112, 33554432}, [](long gap) { return arrays<kSwap>(256, gap); });
TRUTH("in_place", "in_place_two_copies_gap", {2048, 32768, 1114112}, [](long gap) { return arrays<kTwoCopies>(256, gap); });
/// Pages of 2 MB between arrays.
TRUTH("in_place", "in_place_swap_pages", {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 117}, [](long pages) { return arrays<kSwap>(256, pages << 21); });
TRUTH("in_place", "in_place_copy_pages", {1, 2, 3, 5, 7, 117}, [](long pages) { return arrays<kCopy>(256, pages << 21); });
TRUTH("in_place", "in_place_add_pages", {1, 3, 7, 117}, [](long pages) { return arrays<kAdd>(256, pages << 21); });
TRUTH("in_place", "in_place_two_copies_pages", {1, 3, 7, 117}, [](long pages) { return arrays<kTwoCopies>(256, pages << 21); });
TRUTH("in_place", "in_place_rotate_pages", {1, 3, 7, 117}, [](long pages) { return arrays<kRotate>(256, pages << 21); });
/// As blocks of 256 and 144 threads by turns, rows of 400 elements.
TRUTH("in_place", "in_place_rows", {0, 1, 117}, [](long pages) {
  const size_t n = size_t{256} << 17, apart = n + (size_t(pages) << 18);
  auto p = zeros<double>(2 * apart);
  return [=] { in_place_rows<<<dim3(2, unsigned(n / 400)), 256>>>(p.p, apart); };
});
}  // namespace
