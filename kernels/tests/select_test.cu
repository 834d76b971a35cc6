// top_k and sort_u32 against sorting on the host: exact, ties and all.
#include <algorithm>
#include <cstring>

#include "check.h"
#include "sort_many.cuh"
#include "top_k_rows.cuh"

using namespace orrery::kernels;
using check::Buffer;
using check::Random;

namespace {

enum class Fill { kSpread, kLevels, kNegative, kSpecial, kZeros, kHalves, kWide, kLeast };

/// Rows of kWarps warps each, which top_k gives to so few rows only where a row has two.
template <int kWarps>
void top_by_warps(void* values, int32_t* indices, const void* in, int64_t rows, int64_t cols, int64_t pitch, int64_t k) {
  using R = RowOfWarps<kWarps>;
  if (!R::takes(cols, k)) check::fail("top %lld of %lld: not for rows of warps", (long long)k, (long long)cols);
  top_of_row_by_warps<R><<<unsigned(rows), R::kThreads, sizeof(typename R::Shared)>>>(static_cast<uint16_t*>(values), indices, static_cast<const uint16_t*>(in), 1,
                                                                                      int(cols), pitch, int(k));
  if (cudaGetLastError()) check::fail("top: launch");
}

/// `levels`: so many different numbers (kLevels); kHalves: one half of each row negative, so that its warps disagree; kWide: a few numbers much above others;
/// kLeast: not-a-numbers with a set sign, the least there is; kSpecial: not-a-numbers of both signs and infinities among others; kZeros: zeros of both
/// signs, and few others. warps: bf16 and f16, rows of so many warps; 0: as top_k chooses.
void top(DType t, int64_t rows, int64_t cols, int64_t pitch, int64_t k, int levels = 0, Fill fill = Fill::kSpread, int warps = 0) {
  Random random(cols + k);
  if (levels) fill = Fill::kLevels;
  std::vector<unsigned char> x(rows * pitch * size_of(t));
  const auto draw = [&](int64_t i) {
    if (fill == Fill::kLevels) return double(random.below(levels)) - levels / 2;
    if (fill == Fill::kZeros) return random.below(200) ? random.below(2) ? 0. : -0. : random.spread(9);
    const double v = random.spread(9);
    if (fill == Fill::kHalves) return i % pitch < cols / 2 ? -std::fabs(v) - 1e-3 : v - 8.5;
    if (fill == Fill::kWide) return random.below(400) ? v : std::ldexp(v, int(random.below(11)));
    if (fill == Fill::kLeast) return std::copysign(double(NAN), -1.);
    if (fill == Fill::kNegative) return -std::fabs(v) - 1e-3;
    if (fill == Fill::kSpread || random.below(50)) return v;
    return std::copysign(random.below(2) ? double(NAN) : double(INFINITY), v);
  };
  for (int64_t i = 0; i < rows * pitch; i++) {
    const double v = draw(i);
    check::from_double(x.data(), i, t, v);
    if (std::isnan(v) && std::signbit(v)) x[(i + 1) * size_of(t) - 1] |= 0x80;  // conversions drop it
  }
  const Buffer dx(x);
  Buffer values(rows * k * size_of(t)), indices(rows * k * 4);
  if (!warps) STATUS_OK(top_k(values.data(), indices.as<int32_t>(), dx.data(), t, rows, cols, pitch, k, nullptr));
  else (warps == 2 ? top_by_warps<2> : top_by_warps<4>)(values.data(), indices.as<int32_t>(), dx.data(), rows, cols, pitch, k);
  const auto got = indices.host<int32_t>();
  const auto got_values = values.host<unsigned char>();
  check::parallel(rows, [&](int64_t r) {
    const auto at = [&](int64_t i) { return check::to_double(x.data(), r * pitch + i, t); };
    const auto sign = [&](int64_t i) { return at(i) == 0 && std::signbit(at(i)); };  // minus zero is less than zero
    const auto of_kind = [&](int64_t i) { return !std::isnan(at(i)) ? 0 : x[(r * pitch + i + 1) * size_of(t) - 1] & 0x80 ? -1 : 1; };  // above all numbers, or below
    std::vector<int32_t> order(cols);
    for (int64_t i = 0; i < cols; i++) order[i] = int32_t(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return of_kind(a) != of_kind(b) ? of_kind(a) > of_kind(b) : at(a) != at(b) ? at(a) > at(b) : sign(a) < sign(b); });
    order.resize(k);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < k; i++)
      if (got[r * k + i] != order[i] || std::memcmp(&got_values[(r * k + i) * size_of(t)], &x[(r * pitch + order[i]) * size_of(t)], size_of(t)))
        check::fail("top %lld of %lld: row %lld place %lld is %d, want %d", (long long)k, (long long)cols, (long long)r, (long long)i, got[r * k + i], order[i]);
  });
  values.check_guards("top_k values"), indices.check_guards("top_k indices");
}

/// many: as many keys are sorted, which sort_u32 does not do with so few.
void sorted(int64_t n, uint32_t mask, bool many = false) {
  Random random(n);
  std::vector<uint32_t> keys(n), order(n);
  for (auto& v : keys) v = uint32_t(random.next() >> 20) & mask;
  for (int64_t i = 0; i < n; i++) order[i] = uint32_t(i);
  const Buffer dkeys(keys), dorder(order), workspace(sort_workspace(n));
  Buffer out(n * 4), values(n * 4), only(n * 4);
  const auto sort = [&](uint32_t* to, uint32_t* values_to, const uint32_t* values_from) {
    if (!many) STATUS_OK(sort_u32(to, values_to, dkeys.as<uint32_t>(), values_from, n, workspace.data(), nullptr));
    else if (sort_many(to, values_to, dkeys.as<uint32_t>(), values_from, n, SortWorkspace(workspace.data(), n), nullptr)) check::fail("sort: launch");
  };
  sort(out.as<uint32_t>(), values.as<uint32_t>(), dorder.as<uint32_t>());
  sort(only.as<uint32_t>(), nullptr, nullptr);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  const auto got = out.host<uint32_t>(), got_values = values.host<uint32_t>(), got_only = only.host<uint32_t>();
  for (int64_t i = 0; i < n; i++)
    if (got[i] != keys[order[i]] || got_values[i] != order[i] || got_only[i] != got[i]) check::fail("sort of %lld: [%lld]", (long long)n, (long long)i);
  out.check_guards("sort keys"), values.check_guards("sort values");
}

/// So many keys that published counts need more than 30 bits: upwards, and the same keys, by their sums.
void sorted_wide(int64_t n) {
  std::vector<uint32_t> keys(n);
  check::parallel(64, [&](int64_t part) {
    for (int64_t i = part * n / 64; i < (part + 1) * n / 64; i++) keys[i] = uint32_t(i) * 2654435761u ^ uint32_t(i >> 7);
  });
  const Buffer dkeys(keys), workspace(sort_workspace(n));
  Buffer out(n * 4);
  STATUS_OK(sort_u32(out.as<uint32_t>(), nullptr, dkeys.as<uint32_t>(), nullptr, n, workspace.data(), nullptr));
  const auto got = out.host<uint32_t>();
  std::vector<uint64_t> sums(64 * 4);
  check::parallel(64, [&](int64_t part) {
    uint64_t* s = &sums[part * 4];
    for (int64_t i = part * n / 64; i < (part + 1) * n / 64; i++) {
      if (i && got[i - 1] > got[i]) check::fail("sort of %lld: [%lld]", (long long)n, (long long)i);
      s[0] += keys[i], s[1] += got[i], s[2] += uint64_t(keys[i]) * keys[i], s[3] += uint64_t(got[i]) * got[i];
    }
  });
  for (int part = 1; part < 64; part++)
    for (int k = 0; k < 4; k++) sums[k] += sums[part * 4 + k];
  if (sums[0] != sums[1] || sums[2] != sums[3]) check::fail("sort of %lld: other keys", (long long)n);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  for (DType t : {DType::kBF16, DType::kF16, DType::kF32}) {
    top(t, 5, 1000, 1008, 17), top(t, 3, 4096, 4096, 64), top(t, 2, 8192, 8192, 256), top(t, 2, 4000, 4000, 100, 3), top(t, 2, 2048, 2048, 5, 1), top(t, 3, 1000, 1003, 17);
    top(t, 2, 700, 700, 700), top(t, 2, 1500, 1500, 1, 5), top(t, 2, 1100, 1100, 600, 7), top(t, 2, 2000, 2000, 40, 0, Fill::kSpecial), top(t, 2, 2000, 2000, 60, 0, Fill::kZeros), top(t, 2, 1000, 1003, 600, 0, Fill::kZeros);
    if (!small) top(t, 40, 32000, 32000, 64), top(t, 3, 128000, 128000, 2000, 100);
  }
  for (DType t : {DType::kBF16, DType::kF16}) {  // two warps a row, or four; of the widest also k that is too much for them
    for (int warps : {0, 4}) {
      top(t, 3, 8192, 8192, 64, 0, Fill::kSpread, warps), top(t, 2, 4104, 4112, 96, 0, Fill::kSpread, warps), top(t, 2, 5000, 5000, 1, 0, Fill::kSpread, warps);
      top(t, 2, 8192, 8192, 64, 3, Fill::kLevels, warps), top(t, 1, 8192, 8192, 64, 1, Fill::kLevels, warps), top(t, 2, 8192, 8192, 90, 60, Fill::kLevels, warps);
      top(t, 2, 6000, 6008, 64, 0, Fill::kNegative, warps), top(t, 2, 7000, 7000, 64, 0, Fill::kSpecial, warps), top(t, 2, 4104, 4104, 40, 0, Fill::kSpecial, warps);
      top(t, 2, 8192, 8192, 64, 0, Fill::kZeros, warps), top(t, 2, 6000, 6000, 90, 0, Fill::kZeros, warps), top(t, 2, 4104, 4112, 33, 50, Fill::kLevels, warps);
      top(t, 2, 6000, 6000, 64, 0, Fill::kHalves, warps), top(t, 2, 8192, 8192, 5, 0, Fill::kWide, warps), top(t, 1, 8192, 8192, 64, 0, Fill::kLeast, warps);
    }
    top(t, 2, 8184, 8192, 97);
    if (!small) {
      top(t, 6000, 4104, 4104, 3), top(t, 3000, 8192, 8192, 64), top(t, 2500, 8192, 8192, 64, 40), top(t, 2500, 8192, 8200, 64, 0, Fill::kSpecial);
      top(t, 10000, 8192, 8192, 64, 0, Fill::kHalves), top(t, 1000, 8192, 8192, 96), top(t, 1000, 8192, 8192, 96, 0, Fill::kNegative);
    }
  }
  for (int64_t n : {1, 5000, 9000}) sorted(n, ~0u), sorted(n, 0xF0F);
  sorted(1, ~0u, true), sorted(30000, ~0u, true), sorted(30000, 0, true), sorted(20000, 0, false);
  if (!small) sorted(500000, ~0u), sorted(800001, 0xF00F00), sorted(2100001, ~0u), sorted(2100000, 0), sorted(3000000, ~0u), sorted(6000001, 0xFFFF00), sorted_wide((int64_t(1) << 30) + 77);
  std::printf("PASS selection\n");
}
