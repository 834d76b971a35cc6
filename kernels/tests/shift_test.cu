// gemm_shift and gemm_add against whole numbers: signs, shifts up to 31, terms that fill what halves of words hold, odd sizes, padded rows, places that are
// aligned to nothing. Everything is exact, modulo 2^32.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

enum class Fill { kRandom, kLargest, kSmallest };

/// offset: bytes by which a, w and d lie off (times the bytes of an element).
void run(bool adds, int a_bytes, int64_t m, int64_t n, int64_t k, int64_t pad, int offset, Fill fill = Fill::kRandom) {
  char what[100];
  std::snprintf(what, sizeof what, "%s of int%d %lldx%lldx%lld pad %lld", adds ? "adds" : "shifts", 8 * a_bytes, (long long)m, (long long)n, (long long)k, (long long)pad);
  check::Random random(m + 3 * n + 5 * k);
  const int64_t a_pitch = k + pad, d_pitch = n + pad, w_row = adds ? (k + 31) / 32 : k, w_pitch = w_row + pad;
  std::vector<int32_t> x(m * a_pitch), weights(n * k);
  for (auto& v : x) v = fill == Fill::kLargest ? 127 : fill == Fill::kSmallest ? -128 : a_bytes == 1 ? int32_t(random.below(256)) - 128 : int32_t(random.next() >> 32);
  const std::vector<int8_t> narrow(x.begin(), x.end());
  std::vector<uint32_t> bits(adds ? n * w_pitch : 1);
  std::vector<uint8_t> codes(adds ? 1 : n * w_pitch);
  for (auto& v : bits) v = uint32_t(random.next() >> 30);
  for (auto& v : codes) v = uint8_t(random.next() >> 40);
  for (int64_t j = 0; j < n; j++)
    for (int64_t e = 0; e < k; e++) {
      if (adds) weights[j * k + e] = fill == Fill::kLargest ? 1 : fill == Fill::kSmallest ? -1 : bits[j * w_pitch + e / 32] >> e % 32 & 1 ? 1 : -1;
      if (adds && fill != Fill::kRandom) bits[j * w_pitch + e / 32] = fill == Fill::kLargest ? ~0u : 0;
      if (!adds) weights[j * k + e] = int32_t((codes[j * w_pitch + e] & 128 ? ~0u : 1u) << (codes[j * w_pitch + e] & 31));
    }
  const Buffer da = a_bytes == 1 ? Buffer(narrow, offset) : Buffer(x, offset * 4), dw = adds ? Buffer(bits, offset * 4) : Buffer(codes, offset);
  Buffer d(size_t(m * d_pitch) * 4, offset * 4);
  ShiftGemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = da.data(), g.a_bytes = a_bytes, g.a_stride = a_pitch, g.w = dw.data(), g.w_stride = w_pitch, g.d = d.as<int32_t>(), g.d_stride = d_pitch;
  STATUS_OK(adds ? gemm_add(g, nullptr) : gemm_shift(g, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = d.host<int32_t>();
  check::parallel(m, [&](int64_t i) {
    for (int64_t j = 0; j < d_pitch; j++) {
      uint32_t sum = 0;
      for (int64_t e = 0; j < n && e < k; e++) sum += uint32_t(x[i * a_pitch + e]) * uint32_t(weights[j * k + e]);
      if (j >= n) sum = ~0u;
      if (uint32_t(got[i * d_pitch + j]) != sum) check::fail("%s: [%lld, %lld] is %d, want %d", what, (long long)i, (long long)j, got[i * d_pitch + j], int32_t(sum));
    }
  });
  d.check_guards(what);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  run(false, 1, 1, 1, 1, 0, 0), run(false, 1, 130, 140, 37, 0, 0), run(false, 1, 64, 130, 48, 16, 0), run(false, 4, 65, 70, 33, 3, 1), run(false, 4, 40, 128, 64, 0, 0), run(false, 1, 9, 5, 300, 1, 1);
  run(true, 1, 1, 1, 1, 0, 0), run(true, 1, 130, 140, 37, 0, 0), run(true, 1, 100, 64, 288, 16, 0), run(true, 1, 65, 70, 33, 3, 1), run(true, 1, 5, 9, 600, 0, 0, Fill::kLargest), run(true, 1, 66, 3, 600, 0, 0, Fill::kSmallest);
  if (!small) {
    for (Fill fill : {Fill::kRandom, Fill::kLargest, Fill::kSmallest}) run(true, 1, 200, 300, 4096, 0, 0, fill);
    run(true, 1, 1000, 1000, 1000, 0, 0), run(true, 1, 3136, 512, 64, 0, 0), run(false, 1, 3136, 512, 64, 0, 0), run(false, 1, 784, 128, 1024, 0, 0), run(false, 4, 784, 130, 1000, 5, 1), run(false, 1, 1000, 1000, 1001, 0, 0);
  }
  std::printf("PASS shifts and adds\n");
}
