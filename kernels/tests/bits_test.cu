// pack_bits and gemm_bits against whole numbers of 64 bits: every pair of widths, sizes that fill nothing, padded rows, numbers out of range, sums beyond 32 bits.
// Everything is exact, modulo 2^32.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Operand {
  std::vector<int32_t> values;  // what the planes stand for
  Buffer planes, sums;
  BitMatrix matrix() const { return {planes.data(), sums.as<int32_t>(), bits}; }
  int bits;

  /// extreme: all of them the largest or the smallest there are.
  Operand(int bits, int64_t rows, int64_t k, int64_t pitch, uint64_t seed, bool extreme)
      : values(rows * k), planes(size_t(bits * rows) * bit_row_bytes(k)), sums(size_t(rows) * 4), bits(bits) {
    check::Random random(seed);
    const int half = 1 << (bits - 1);
    std::vector<int8_t> in(rows * pitch);
    std::vector<int32_t> codes(rows * k);
    for (int64_t i = 0; i < rows * pitch; i++) in[i] = int8_t(extreme ? random.below(2) ? 127 : -128 : random.below(20) ? random.below(2 * half) - half : random.below(256) - 128);
    for (int64_t i = 0; i < rows * k; i++) {
      codes[i] = std::clamp(int(in[i / k * pitch + i % k]), -half, half - 1) + half;
      values[i] = 2 * codes[i] - (2 * half - 1);
    }
    const Buffer din(in, 3);  // bytes need no alignment
    STATUS_OK(pack_bits(planes.data(), sums.as<int32_t>(), din.as<int8_t>(), bits, rows, k, pitch, nullptr));
    const auto got = planes.host<uint32_t>();
    const auto got_sums = sums.host<int32_t>();
    const int64_t words = int64_t(bit_row_bytes(k) / 4);
    for (int64_t r = 0; r < rows; r++) {
      int64_t sum = 0;
      for (int64_t c = 0; c < words * 32; c++)
        for (int b = 0; b < bits; b++)
          if (int(got[(b * rows + r) * words + c / 32] >> c % 32 & 1) != (c < k ? codes[r * k + c] >> b & 1 : 0)) check::fail("pack_bits of %d: [%lld, %lld] bit %d", bits, (long long)r, (long long)c, b);
      for (int64_t c = 0; c < k; c++) sum += codes[r * k + c];
      if (got_sums[r] != sum) check::fail("pack_bits of %d: sum of row %lld is %d, want %lld", bits, (long long)r, got_sums[r], (long long)sum);
    }
    planes.check_guards("planes"), sums.check_guards("sums");
  }
};

void run(int p, int q, int64_t m, int64_t n, int64_t k, int64_t pad, bool extreme = false) {
  char what[100];
  std::snprintf(what, sizeof what, "bits %d x %d, %lldx%lldx%lld pad %lld%s", p, q, (long long)m, (long long)n, (long long)k, (long long)pad, extreme ? " extreme" : "");
  const Operand a(p, m, k, k + pad, m + 7 * k, extreme), b(q, n, k, k + pad, n + 11 * k + 1, extreme);
  const int64_t pitch = n + pad;
  Buffer d(size_t(m * pitch) * 4, pad % 2 * 4);
  BitGemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = a.matrix(), g.b = b.matrix(), g.d = d.as<int32_t>(), g.d_stride = pitch;
  STATUS_OK(gemm_bits(g, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = d.host<int32_t>();
  check::Results::all().add(what, d.host<unsigned char>());
  check::parallel(m, [&](int64_t i) {
    for (int64_t j = 0; j < pitch; j++) {
      if (j >= n) {
        if (got[i * pitch + j] != -1) check::fail("%s: wrote between rows", what);
        continue;
      }
      int64_t sum = 0;
      const int32_t *x = &a.values[i * k], *y = &b.values[j * k];
      for (int64_t e = 0; e < k; e++) sum += int64_t(x[e]) * y[e];
      if (got[i * pitch + j] != int32_t(uint32_t(uint64_t(sum)))) check::fail("%s: [%lld, %lld] is %d, want %lld", what, (long long)i, (long long)j, got[i * pitch + j], (long long)sum);
    }
  });
  d.check_guards(what);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  run(1, 1, 1, 1, 1, 0), run(2, 3, 70, 75, 300, 3), run(4, 4, 129, 130, 1100, 2), run(8, 8, 33, 66, 260, 0, true), run(3, 1, 200, 64, 2049, 1), run(1, 8, 5, 200, 128, 5);
  run(1, 1, 2100, 2050, 96, 0), run(2, 1, 2100, 2051, 33, 0);  // more wide tiles than SMs
  if (!small) {
    for (int p = 1; p <= 8; p++)
      for (int q = 1; q <= 8; q++) run(p, q, 150 + p, 140 + q, 1500 + 37 * p, (p + q) % 4);
    run(8, 8, 40, 50, 40000, 1, true);  // beyond 32 bits
    run(2, 2, 2500, 2300, 3000, 0), run(4, 4, 2048, 2048, 4096, 0), run(3, 5, 4000, 1030, 1025, 3), run(1, 2, 16, 4096, 4096, 0);
  }
  std::printf("PASS bits\n");
}
