// The fusion layer against float64: vertical chains, row reductions, many problems in one launch; odd sizes, misaligned.
#include "check.h"
#include "orrery/fuse.h"

using check::Buffer;
namespace fuse = orrery::fuse;

namespace {

std::vector<float> values(int64_t n, uint64_t seed) {
  check::Random random(seed);
  std::vector<float> v(n);
  for (auto& x : v) x = float(4 * random.symmetric());
  return v;
}
double silu(double x) { return x / (1 + std::exp(-x)); }

void chain(int64_t n, size_t offset) {
  const auto x = values(n, 1), g = values(n, 2);
  const Buffer dx(x, offset), dg(g, offset);
  Buffer y(n * 4, offset), z(n * 2, offset / 2);
  using namespace fuse;
  auto v = silu(in(dx.as<float>())) * in(dg.as<float>()) + 1.f;
  CUDA_OK(map(nullptr, n, out(y.as<float>()) <<= v, out(z.as<__half>()) <<= max(v, 0.5f)));
  const auto got = y.host<float>();
  const auto half = z.host<__half>();
  for (int64_t i = 0; i < n; i++) {
    const double want = ::silu(x[i]) * g[i] + 1;
    check::expect_near(got[i], want, 1e-5, "chain", i, 0);
    check::expect_near(__half2float(half[i]), std::max(want, 0.5), 1e-5 + check::rounding(orrery::kernels::DType::kF16, want), "chain, f16", i, 0);
  }
  y.check_guards("chain"), z.check_guards("chain, f16");
}

void softmax(int64_t count, int64_t cols) {
  const auto x = values(count * cols, 3);
  std::vector<__nv_bfloat16> b(x.size());
  for (size_t i = 0; i < x.size(); i++) b[i] = __float2bfloat16(x[i]);
  const auto scale = values(count, 4), shift = values(cols, 5);
  const Buffer dx(b), dscale(scale), dshift(shift);
  Buffer y(count * cols * 4);
  using namespace fuse;
  auto v = in(dx.as<__nv_bfloat16>()) * per_row(dscale.as<float>()) + per_col(dshift.as<float>());
  auto e = exp(v - row_max<0>(v));
  CUDA_OK(rows(nullptr, count, cols, out(y.as<float>()) <<= e / row_sum<1>(e)));
  const auto got = y.host<float>();
  for (int64_t r = 0; r < count; r++) {
    std::vector<double> p(cols);
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < cols; j++) top = std::max(top, p[j] = double(__bfloat162float(b[r * cols + j])) * scale[r] + shift[j]);
    for (auto& v : p) sum += v = std::exp(v - top);
    for (int64_t j = 0; j < cols; j++) check::expect_near(got[r * cols + j], p[j] / sum, 1e-5 * p[j] / sum * 8 + 1e-7, "softmax", r, j);
  }
  y.check_guards("softmax");
}

void side_by_side() {
  const auto x = values(5000, 6);
  const Buffer dx(x);
  Buffer a(3 * 4), b(5000 * 4), c(1024 * 4);
  using namespace fuse;
  auto v = in(dx.as<float>());
  CUDA_OK(many(nullptr, problem(3, out(a.as<float>()) <<= -v), problem(5000, out(b.as<float>()) <<= abs(v) / 2.f),
               problem(1024, out(c.as<float>()) <<= 2.f - v * v), problem(0, out(c.as<float>()) <<= v)));
  const auto ga = a.host<float>(), gb = b.host<float>(), gc = c.host<float>();
  for (int i = 0; i < 5000; i++) {
    if (i < 3 && ga[i] != -x[i]) check::fail("many: a[%d]", i);
    if (gb[i] != std::fabs(x[i]) / 2) check::fail("many: b[%d]", i);
    if (i < 1024) check::expect_near(gc[i], 2 - double(x[i]) * x[i], 1e-5, "many: c", i, 0);
  }
  a.check_guards("many a"), b.check_guards("many b"), c.check_guards("many c");
}

}  // namespace

int main() {
  for (int64_t n : {1, 1000, 4096, 8195}) chain(n, 0), chain(n, 4);
  for (int64_t cols : {1, 77, 512, 1000}) softmax(3, cols);
  side_by_side();
  if (fuse::rows(nullptr, -1, 3, fuse::out(static_cast<float*>(nullptr)) <<= fuse::in(static_cast<const float*>(nullptr))) != cudaErrorInvalidValue)
    check::fail("rows accepted a negative count");
  CUDA_OK(cudaDeviceSynchronize());
  std::printf("PASS fuse\n");
}
