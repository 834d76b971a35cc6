// calib/steps/boxes3.cu: grids in three dimensions gone through by blocks of threads of different shapes: the same bytes, but in pieces of 16
// to 1,024 bytes, many rows and planes side by side: what memory gives by the piece, read, written, copied and exchanged.
#include "steps.h"

namespace {
using namespace steps;

enum Kind { kRead, kWrite, kCopy, kSwap };

/// Element (x, y, z) by the thread of that place; x runs first in memory.
template <class T, Kind kind>
__global__ void __launch_bounds__(256) boxes3(T* a, T* b, int n) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= unsigned(n) || y >= unsigned(n) || z >= unsigned(n)) return;
  const size_t i = (size_t(z) * n + y) * n + x;
  if (kind == kRead) {
    if (a[i] == T(1.25)) b[0] = T(1);
  }
  if (kind == kWrite) b[i] = T(n);
  if (kind == kCopy) b[i] = a[i];
  if (kind == kSwap) {
    const T was = a[i];
    a[i] = b[i];
    b[i] = was;
  }
}
/// The block's shape as digits: 80804 is 8 by 8 by 4, 320801 32 by 8 by 1.
template <class T, Kind kind>
truth::Launch boxes(long shape, int n) {
  const dim3 block(unsigned(shape / 10000), unsigned(shape / 100 % 100), unsigned(shape % 100));
  const dim3 grid((n + block.x - 1) / block.x, (n + block.y - 1) / block.y, (n + block.z - 1) / block.z);
  auto a = zeros<T>(size_t(n) * n * n), b = zeros<T>(size_t(n) * n * n);
  return [=] { boxes3<T, kind><<<grid, block>>>(a.p, b.p, n); };
}
#define BOXES(name, type, kind, n) \
  TRUTH("boxes3", "boxes3_" name, {40808, 80804, 160404, 161601, 320801, 640401, 2560101}, [](long shape) { return boxes<type, kind>(shape, n); });
BOXES("read_double_400", double, kRead, 400)
BOXES("write_double_400", double, kWrite, 400)
BOXES("copy_double_400", double, kCopy, 400)
BOXES("swap_double_400", double, kSwap, 400)
BOXES("read_float_512", float, kRead, 512)
BOXES("write_float_512", float, kWrite, 512)
BOXES("copy_float_512", float, kCopy, 512)
BOXES("swap_float_300", float, kSwap, 300)
}  // namespace
