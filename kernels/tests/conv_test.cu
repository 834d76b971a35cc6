// conv_grouped against float64: every size of group, both strides, images that fill no tile, channels that fill no slab, bias and ReLU.
//
// Bound: products of f16 or bf16 values are exact and each tensor-core step truncates at 2^-24 of its largest term, so a sum is within (steps) 2^-22 of its
// terms' magnitudes, nine steps for each 16 channels of a group; then bias and one rounding.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  DType t;
  int64_t images, height, width, channels;
  int group, stride;
  bool bias, relu;
};

void run(const Case& c) {
  char what[120];
  std::snprintf(what, sizeof what, "conv type %d, %lldx%lldx%lldx%lld, groups of %d, stride %d", int(c.t), (long long)c.images, (long long)c.height, (long long)c.width, (long long)c.channels, c.group, c.stride);
  check::Random random(c.height + 3 * c.width + 5 * c.channels + c.group);
  const int64_t high = (c.height + c.stride - 1) / c.stride, wide = (c.width + c.stride - 1) / c.stride;
  std::vector<unsigned char> x(c.images * c.height * c.width * c.channels * 2), w(c.channels * 9 * c.group * 2);
  for (size_t i = 0; i < x.size() / 2; i++) check::from_double(x.data(), i, c.t, random.spread(4));
  for (size_t i = 0; i < w.size() / 2; i++) check::from_double(w.data(), i, c.t, random.spread(3));
  std::vector<float> bias(c.channels);
  for (float& b : bias) b = float(random.symmetric());
  const Buffer dx(x), dw(w, 4), d_bias(bias);
  Buffer out(size_t(c.images * high * wide * c.channels * 2));
  GroupedConvArgs g;
  g.images = c.images, g.height = c.height, g.width = c.width, g.channels = c.channels, g.group = c.group, g.stride = c.stride, g.dtype = c.t, g.x = dx.data(), g.w = dw.data(), g.out = out.data();
  g.bias = c.bias ? d_bias.as<float>() : nullptr, g.relu = c.relu;
  STATUS_OK(conv_grouped(g, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<unsigned char>();
  check::Results::all().add(what, got);
  std::vector<double> weights(w.size() / 2);
  for (size_t i = 0; i < weights.size(); i++) weights[i] = check::to_double(w.data(), i, c.t);
  check::parallel(c.images * high, [&](int64_t line) {
    const int64_t image = line / high, y = line % high;
    for (int64_t at = 0; at < wide; at++)
      for (int64_t ch = 0; ch < c.channels; ch++) {
        double sum = 0, mass = 0;
        for (int tap = 0; tap < 9; tap++) {
          const int64_t from_y = y * c.stride + tap / 3 - 1, from_x = at * c.stride + tap % 3 - 1;
          if (from_y < 0 || from_y >= c.height || from_x < 0 || from_x >= c.width) continue;
          for (int i = 0; i < c.group; i++) {
            const double term = weights[(ch * 9 + tap) * c.group + i] * check::to_double(x.data(), ((image * c.height + from_y) * c.width + from_x) * c.channels + ch / c.group * c.group + i, c.t);
            sum += term, mass += std::fabs(term);
          }
        }
        const double add = c.bias ? bias[ch] : 0, bound = mass * 9 * ((c.group + 15) / 16) * 0x1p-22 + 1e-7 * std::fabs(sum + add);
        double want = sum + add;
        if (c.relu) want = std::max(want, 0.0);
        check::expect_near(check::to_double(got.data(), (line * wide + at) * c.channels + ch, c.t), want, bound + check::rounding(c.t, std::fabs(want) + bound), what, line * wide + at, ch);
      }
  });
  out.check_guards(what);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  const DType B = DType::kBF16, H = DType::kF16;
  std::vector<Case> cases = {{B, 1, 7, 7, 8, 1, 1, true, true}, {H, 2, 9, 18, 24, 4, 2, false, false}, {B, 1, 1, 1, 16, 16, 1, false, false}};
  for (int group : {1, 2, 4, 8, 16, 32, 64})
    for (int stride : {1, 2}) cases.push_back({group % 3 == 1 ? B : H, 1, 9, 17, std::max(group, 8) == 64 ? 64 : 96, group, stride, true, group == 2});
  if (!small)
    for (DType t : {B, H})
      for (int group : {1, 2, 4, 8, 16, 32, 64})
        for (int stride : {1, 2})
          cases.push_back({t, 3, 28, 28, 256, group, stride, true, true}), cases.push_back({t, 1, 57, 113, std::max(group, 8) * 3, group, stride, false, false}), cases.push_back({t, 33, 14, 14, 192, group, stride, false, true});
  for (const Case& c : cases) run(c);
  std::printf("PASS conv: %zu cases\n", cases.size());
}
