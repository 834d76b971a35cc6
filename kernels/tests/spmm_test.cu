// spmm against float64: types, blocks of rows, pixels that fill no line, rows without entries, columns and starts that are out of range, channels that
// fit in shared memory and that do not.
//
// Bound: a sum of c entries in f32, one rounding for each: c 2^-24 of its terms' magnitudes; then bias and one rounding to the type.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  DType t;
  int64_t images, n, k, pixels;
  int block;
  double density;
  bool bias, relu, faults;  // faults: some columns and starts are out of range
  int offset = 0;           // elements by which x and out lie off
};

void run(const Case& c) {
  char what[120];
  std::snprintf(what, sizeof what, "spmm type %d, %lld x %lldx%lldx%lld, blocks of %d", int(c.t), (long long)c.images, (long long)c.n, (long long)c.k, (long long)c.pixels, c.block);
  check::Random random(c.n + 3 * c.k + 5 * c.pixels + c.block);
  const int64_t rows = c.n / c.block, size = size_of(c.t);
  std::vector<int32_t> starts = {0}, columns;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < c.k && r % 7 != 3; j++)
      if (random.unit() < c.density) columns.push_back(int32_t(c.faults && random.below(9) == 0 ? (random.below(2) ? -1 - random.below(100) : c.k + random.below(1000)) : j));
    starts.push_back(int32_t(columns.size()));
  }
  const int64_t entries = int64_t(columns.size());
  std::vector<int32_t> told = starts;
  if (c.faults) told.front() = -5, told.back() = int32_t(entries) + 1000;
  std::vector<unsigned char> values(std::max<int64_t>(entries, 1) * c.block * size), x(c.images * c.k * c.pixels * size);
  for (int64_t i = 0; i < entries * c.block; i++) check::from_double(values.data(), i, c.t, random.spread(3));
  for (int64_t i = 0; i < c.images * c.k * c.pixels; i++) check::from_double(x.data(), i, c.t, random.spread(4));
  std::vector<float> bias(c.n);
  for (float& b : bias) b = float(random.symmetric());
  const Buffer d_starts(told), d_columns(columns), d_values(values), dx(x, c.offset * size), d_bias(bias);
  Buffer out(size_t(c.images * c.n * c.pixels * size), c.offset * size);
  SpmmArgs g;
  g.images = c.images, g.n = c.n, g.k = c.k, g.pixels = c.pixels, g.block = c.block, g.entries = entries, g.row_starts = d_starts.as<int32_t>(), g.columns = d_columns.as<int32_t>();
  g.values = d_values.data(), g.x = dx.data(), g.out = out.data(), g.dtype = c.t, g.bias = c.bias ? d_bias.as<float>() : nullptr, g.relu = c.relu;
  STATUS_OK(spmm(g, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<unsigned char>();
  check::parallel(c.images * c.n, [&](int64_t line) {
    const int64_t image = line / c.n, row = line % c.n, r = row / c.block;
    std::vector<double> sum(c.pixels), mass(c.pixels);
    for (int64_t e = starts[r]; e < starts[r + 1]; e++) {
      if (columns[e] < 0 || columns[e] >= c.k) continue;
      const double w = check::to_double(values.data(), e * c.block + row % c.block, c.t);
      for (int64_t p = 0; p < c.pixels; p++) {
        const double term = w * check::to_double(x.data(), (image * c.k + columns[e]) * c.pixels + p, c.t);
        sum[p] += term, mass[p] += std::fabs(term);
      }
    }
    for (int64_t p = 0; p < c.pixels; p++) {
      const double add = c.bias ? bias[row] : 0, bound = (starts[r + 1] - starts[r] + 1) * 0x1p-24 * (mass[p] + std::fabs(add));
      double want = sum[p] + add;
      if (c.relu) want = std::max(want, 0.0);
      check::expect_near(check::to_double(got.data(), line * c.pixels + p, c.t), want, bound + check::rounding(c.t, std::fabs(want) + bound), what, line, p);
    }
  });
  out.check_guards(what);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  const DType B = DType::kBF16, H = DType::kF16, F = DType::kF32;
  std::vector<Case> cases = {{B, 2, 20, 30, 49, 1, 0.2, true, true, false}, {H, 1, 72, 40, 128, 2, 0.15, false, true, true}, {F, 1, 36, 33, 70, 4, 0.3, true, false, true}, {B, 1, 8, 2000, 40, 4, 0.01, true, false, true},
                             {F, 1, 3, 1900, 65, 1, 0.02, false, false, false}, {H, 1, 66, 64, 64, 1, 0.1, true, true, false, 3}, {B, 1, 4, 16, 64, 4, 0, true, false, false}, {B, 1, 140, 24, 200, 2, 0.2, false, false, false}};
  if (!small)
    for (DType t : {B, H, F})
      for (int block : {1, 2, 4})
        for (const auto& [images, n, k, pixels] : {std::tuple{1, 512, 512, 196}, {4, 256, 128, 3136}, {2, 1000, 1024, 49}, {1, 64, 4096, 784}, {3, 128, 1812, 333}})
          cases.push_back({t, images, n, k, pixels, block, 0.1, true, true, block == 2}), cases.push_back({t, images, n, k, pixels, block, 0.05, false, false, false, block - 1});
  for (const Case& c : cases) run(c);
  std::printf("PASS spmm: %zu cases\n", cases.size());
}
