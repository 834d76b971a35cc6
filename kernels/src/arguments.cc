// See arguments.h.
#include "arguments.h"

#include <algorithm>
#include <vector>

namespace orrery::kernels {
namespace {

/// Places of the one less those of the other, from `low` up to `high`, at a stride.
struct Difference {
  int64_t low, high, stride;
};

/// Whether `at` plus some of the differences from `i` on, the longest stride first, comes to lie in (-before, behind).
bool comes_near(int64_t at, const std::vector<Difference>& all, size_t i, int64_t before, int64_t behind) {
  if (i == all.size()) return -before < at && at < behind;
  constexpr int64_t kMostPlaces = 8;  // of a loop, to look at: more, and loops are hardly nested
  int64_t least = 0, most = 0;        // what the loops inside can add
  for (size_t j = i + 1; j < all.size(); j++) least += product(-all[j].low, all[j].stride), most += product(all[j].high, all[j].stride);
  const Difference& d = all[i];
  const auto floor = [&](int64_t x) { return x >= 0 ? x / d.stride : -((-x + d.stride - 1) / d.stride); };
  const int64_t from = std::max(d.low, floor(-before - most - at)), to = std::min(d.high, floor(behind + least - at) + 1);
  if (to - from > kMostPlaces) return true;
  for (int64_t x = from; x <= to; x++)
    if (comes_near(at + x * d.stride, all, i + 1, before, behind)) return true;
  return false;
}

}  // namespace

bool share_bytes(const Extent& a, const Extent& b) {
  if (!overlap(a.data, span(a), b.data, span(b))) return false;
  std::vector<Difference> all;
  for (int i = 0; i < 3; i++) {
    const auto &x = a.axis[i], &y = b.axis[i];
    if (x.count > 1 && y.count > 1 && x.stride != y.stride) return true;
    const int64_t stride = x.count > 1 ? x.stride : y.stride;
    if ((x.count > 1 || y.count > 1) && stride > 0) all.push_back({1 - y.count, x.count - 1, stride});
  }
  std::sort(all.begin(), all.end(), [](const Difference& x, const Difference& y) { return x.stride > y.stride; });
  return comes_near(static_cast<const char*>(a.data) - static_cast<const char*>(b.data), all, 0, a.bytes, b.bytes);
}

}  // namespace orrery::kernels
