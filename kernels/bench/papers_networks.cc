// Kernels of papers about narrow, multiplication-free, pruned and grouped networks (see papers.h): gemm_bits, gemm_shift, gemm_add, spmm, conv_grouped.
//
// Rivals are products of this library by the tensor core, on the same numbers or of the same shape, and cuSPARSE where the toolkit has it. That of conv_grouped is
// cuDNN, which papers_peers.py asks through PyTorch.
#include "papers.h"

#ifdef PAPERS_CUSPARSE
#include <cusparse.h>
#endif

using namespace orrery::kernels;

namespace bench {
namespace {

constexpr double kTera = 1e-6;  // a unit a microsecond, in T/s

struct Numbers {
  uint64_t state = 7;
  int below(int n) { return int((state = state * 6364136223846793005u + 1) >> 33) % n; }
  /// bf16 of whole numbers of up to eight bits.
  static uint16_t bf16(int v) {
    const float f = float(v);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return uint16_t(bits >> 16);
  }
  static double of_bf16(uint16_t v) {
    const uint32_t bits = uint32_t(v) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }
};

/// d (f32) = a b' of this library; K-major.
GemmArgs dense(int64_t m, int64_t n, int64_t k, const void* a, const void* b, void* d, DType t, DType out = DType::kF32) {
  GemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = {a, t, k, 1}, g.b = {b, t, 1, k}, g.d = {d, out, n, 1};
  return g;
}

void bits(Bench& b) {
  if (!b.wants("gemm_bits") && !b.wants("pack_bits")) return;
  struct Shape { int64_t m, n, k; };
  for (const Shape& s : {Shape{4096, 4096, 4096}, {16, 4096, 4096}, {2048, 4096, 14336}})
    for (const auto& [p, q] : {std::pair{1, 1}, {1, 2}, {2, 2}, {2, 4}, {3, 3}, {4, 4}, {4, 8}, {8, 8}}) {
      if (s.m != 4096 && p * q > 16) continue;
      Numbers numbers;
      std::vector<int8_t> x(s.m * s.k), w(s.n * s.k), x_wide(x.size()), w_wide(w.size());
      const auto draw = [&](std::vector<int8_t>& narrow, std::vector<int8_t>& wide, int count) {
        for (size_t i = 0; i < narrow.size(); i++) narrow[i] = int8_t(numbers.below(1 << count) - (1 << (count - 1))), wide[i] = int8_t(2 * narrow[i] + 1);  // of 8 bits no int8 has it
      };
      draw(x, x_wide, p), draw(w, w_wide, q);
      int8_t *const dx = b.memory(x), *const dw = b.memory(w), *const dx_wide = b.memory(x_wide), *const dw_wide = b.memory(w_wide);
      BitGemmArgs g;
      uint8_t *const a_planes = b.memory<uint8_t>(p * s.m * bit_row_bytes(s.k)), *const b_planes = b.memory<uint8_t>(q * s.n * bit_row_bytes(s.k));
      int32_t *const a_sums = b.memory<int32_t>(s.m), *const b_sums = b.memory<int32_t>(s.n);
      float* const theirs = b.memory<float>(s.m * s.n);
      g.m = s.m, g.n = s.n, g.k = s.k, g.a = {a_planes, a_sums, p}, g.b = {b_planes, b_sums, q}, g.d = b.memory<int32_t>(s.m * s.n), g.d_stride = s.n;
      const auto pack = [&] { b.did(pack_bits(a_planes, a_sums, dx, p, s.m, s.k, s.k, b.stream())); };
      pack(), b.did(pack_bits(b_planes, b_sums, dw, q, s.n, s.k, s.k, b.stream()));
      const GemmArgs wide = dense(s.m, s.n, s.k, dx_wide, dw_wide, theirs, DType::kI8);
      const auto ours = [&] { b.did(gemm_bits(g, b.stream())); };
      const auto rival = [&] { b.did(gemm(wide, b.stream())); };
      ours(), rival();
      if (p < 8 && q < 8) {  // sums are below 2^24: exact in f32
        const auto got = b.host(g.d, s.m * s.n);
        b.wrong("gemm_bits", farthest(std::vector<double>(got.begin(), got.end()), [&] {
                  const auto want = b.host(theirs, s.m * s.n);
                  return std::vector<double>(want.begin(), want.end());
                }()), 0);
      }
      const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " " + std::to_string(p) + " x " + std::to_string(q) + " bits";
      if (b.wants("gemm_bits")) b.race("gemm_bits", size, ours, "gemm int8", rival, double(s.m) * s.n * s.k * kTera, "T multiply-adds/s", s.m == 4096 && p == q && (p == 1 || p == 2 || p == 4) ? double(s.m) * s.n * s.k : 0);
      if (b.wants("pack_bits") && s.m == 4096 && p == q) b.race("pack_bits", std::to_string(s.m) + "x" + std::to_string(s.k) + " " + std::to_string(p) + " bits", pack, "", {}, double(s.m) * s.k * (1 + p / 8.) * 1e-3, "GB/s");
      for (const void* m : {(const void*)dx, (const void*)dw, (const void*)dx_wide, (const void*)dw_wide, (const void*)a_planes, (const void*)b_planes, (const void*)a_sums, (const void*)b_sums, (const void*)theirs, (const void*)g.d}) BENCH_OK(cudaFree(const_cast<void*>(m)));
    }
}

void shifts(Bench& b) {
  if (!b.wants("gemm_shift") && !b.wants("gemm_add")) return;
  struct Shape { int64_t m, n, k; };
  for (const Shape& s : {Shape{3136, 512, 64}, {784, 128, 1024}, {4096, 4096, 4096}})
    for (const bool adds : {false, true}) {
      const char* const name = adds ? "gemm_add" : "gemm_shift";
      if (!b.wants(name)) continue;
      Numbers numbers;
      std::vector<int8_t> x(s.m * s.k), w(s.n * s.k), codes(s.n * s.k);
      std::vector<uint32_t> words(s.n * s.k / 32);
      for (auto& v : x) v = int8_t(numbers.below(256) - 128);
      for (int64_t i = 0; i < s.n * s.k; i++) {
        const bool minus = numbers.below(2);
        const int shift = adds ? 0 : numbers.below(7);
        w[i] = int8_t((minus ? -1 : 1) * (1 << shift)), codes[i] = int8_t(shift | (minus ? 128 : 0)), words[i / 32] |= uint32_t(!minus) << i % 32;
      }
      std::vector<uint16_t> x16(x.size()), w16(w.size());
      for (size_t i = 0; i < x.size(); i++) x16[i] = Numbers::bf16(x[i]);
      for (size_t i = 0; i < w.size(); i++) w16[i] = Numbers::bf16(w[i]);
      int8_t *const dx = b.memory(x), *const dw = b.memory(w), *const d_codes = b.memory(codes);
      uint32_t* const d_words = b.memory(words);
      uint16_t *const dx16 = b.memory(x16), *const dw16 = b.memory(w16);
      float* const theirs = b.memory<float>(s.m * s.n);
      int32_t* const out = b.memory<int32_t>(s.m * s.n);
      ShiftGemmArgs g;
      g.m = s.m, g.n = s.n, g.k = s.k, g.a = dx, g.a_stride = s.k, g.w = adds ? static_cast<void*>(d_words) : d_codes, g.w_stride = adds ? s.k / 32 : s.k, g.d = out, g.d_stride = s.n;
      const auto ours = [&] { b.did(adds ? gemm_add(g, b.stream()) : gemm_shift(g, b.stream())); };
      const GemmArgs as_bytes = dense(s.m, s.n, s.k, dx, dw, theirs, DType::kI8), as_bf16 = dense(s.m, s.n, s.k, dx16, dw16, theirs, DType::kBF16);
      ours(), b.did(gemm(as_bytes, b.stream()));
      const auto got = b.host(out, s.m * s.n);
      const auto want = b.host(theirs, s.m * s.n);
      b.wrong(name, farthest(std::vector<double>(got.begin(), got.end()), std::vector<double>(want.begin(), want.end())), 1e-6);
      const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
      const double terms = double(s.m) * s.n * s.k;
      b.race(name, size, ours, "gemm bf16", [&] { b.did(gemm(as_bf16, b.stream())); }, terms * kTera, "T terms/s", s.m == 4096 ? terms : 0);
      b.race(name, size, ours, "gemm int8", [&] { b.did(gemm(as_bytes, b.stream())); }, terms * kTera, "T terms/s");
      for (void* p : {(void*)dx, (void*)dw, (void*)d_codes, (void*)d_words, (void*)dx16, (void*)dw16, (void*)theirs, (void*)out}) BENCH_OK(cudaFree(p));
    }
}

#ifdef PAPERS_CUSPARSE
/// out = w x of bf16, both by rows, sums f32.
struct Cusparse {
  cusparseHandle_t handle;
  cusparseSpMatDescr_t w;
  cusparseDnMatDescr_t x, out;
  void* workspace = nullptr;
  float one = 1, zero = 0;
  Cusparse(cudaStream_t stream, int64_t n, int64_t k, int64_t pixels, int64_t entries, int32_t* starts, int32_t* columns, void* values, void* dx, void* d_out) {
    BENCH_OK(cusparseCreate(&handle));
    BENCH_OK(cusparseSetStream(handle, stream));
    BENCH_OK(cusparseCreateCsr(&w, n, k, entries, starts, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_16BF));
    BENCH_OK(cusparseCreateDnMat(&x, k, pixels, pixels, dx, CUDA_R_16BF, CUSPARSE_ORDER_ROW));
    BENCH_OK(cusparseCreateDnMat(&out, n, pixels, pixels, d_out, CUDA_R_16BF, CUSPARSE_ORDER_ROW));
    size_t bytes = 0;
    BENCH_OK(cusparseSpMM_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, w, x, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, &bytes));
    BENCH_OK(cudaMalloc(&workspace, bytes + 256));
    BENCH_OK(cusparseSpMM_preprocess(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, w, x, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, workspace));
  }
  void run() { BENCH_OK(cusparseSpMM(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, w, x, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, workspace)); }
};
#endif

void sparse(Bench& b) {
  if (!b.wants("spmm")) return;
  struct Layer { int64_t n, k, pixels; };
  for (const Layer& l : {Layer{512, 512, 196}, {256, 256, 64 * 784}, {512, 512, 64 * 196}, {1024, 1024, 64 * 64}})
    for (double density : {0.02, 0.05, 0.1, 0.3})
      for (int block : {1, 4}) {
        Numbers numbers;
        std::vector<int32_t> starts = {0}, columns, starts1 = {0}, columns1;
        std::vector<uint16_t> values, values1, x(l.k * l.pixels), whole(l.n * l.k);
        for (int64_t r = 0; r < l.n / block; r++) {
          for (int j = 0; j < l.k; j++)
            if (numbers.below(10000) < density * 10000) {
              columns.push_back(j);
              for (int i = 0; i < block; i++) values.push_back(Numbers::bf16(numbers.below(255) - 127));
            }
          starts.push_back(int32_t(columns.size()));
          for (int i = 0; i < block; i++) {
            for (int32_t e = starts[r]; e < starts[r + 1]; e++) columns1.push_back(columns[e]), values1.push_back(values[e * block + i]);
            starts1.push_back(int32_t(columns1.size()));
          }
        }
        for (auto* all : {&x, &whole})
          for (auto& v : *all) v = Numbers::bf16(numbers.below(255) - 127);
        SpmmArgs g;
        uint16_t *const dx = b.memory(x), *const out = b.memory<uint16_t>(l.n * l.pixels), *const theirs = b.memory<uint16_t>(l.n * l.pixels), *const w = b.memory(whole);
        g.n = l.n, g.k = l.k, g.pixels = l.pixels, g.block = block, g.entries = int64_t(columns.size()), g.row_starts = b.memory(starts), g.columns = b.memory(columns), g.values = b.memory(values), g.x = dx, g.out = out;
        const auto ours = [&] { b.did(spmm(g, b.stream())); };
        const std::string size = std::to_string(l.n) + "x" + std::to_string(l.k) + "x" + std::to_string(l.pixels) + " density " + std::to_string(density).substr(0, 4) + " blocks of " + std::to_string(block);
        const double terms = double(values.size()) * double(l.pixels) * kTera;
        GemmArgs d = dense(l.pixels, l.n, l.k, dx, w, theirs, DType::kBF16, DType::kBF16);
        b.race("spmm", size, ours, "gemm bf16 NHWC", [&] { b.did(gemm(d, b.stream())); }, terms, "T multiply-adds/s");
#ifdef PAPERS_CUSPARSE
        if (density == 0.1 || density == 0.3) {
          Cusparse peer(b.stream(), l.n, l.k, l.pixels, int64_t(columns1.size()), b.memory(starts1), b.memory(columns1), b.memory(values1), dx, theirs);
          ours(), peer.run();
          // Some 4,000 elements, exact, for all are whole numbers. cuSPARSE rounds more than once: it is to have multiplied the same matrices, no more.
          const auto off = [&](const uint16_t* p) {
            const auto v = b.host(p, l.n * l.pixels);
            double worst = 0, largest = 0;
            for (int64_t i = 0; i < l.n * l.pixels; i += l.n * l.pixels / 4096 | 1) {
              const int64_t row = i / l.pixels;
              double sum = 0;
              for (int32_t e = starts1[row]; e < starts1[row + 1]; e++) sum += Numbers::of_bf16(values1[e]) * Numbers::of_bf16(x[columns1[e] * l.pixels + i % l.pixels]);
              worst = std::max(worst, std::fabs(Numbers::of_bf16(v[i]) - sum)), largest = std::max(largest, std::fabs(sum));
            }
            return worst / largest;
          };
          b.wrong("spmm", off(out), 0x1p-8), b.wrong("spmm by cuSPARSE", off(theirs), 0.03);
          std::printf("# cuSPARSE: off by %.2g of the largest, ours by %.2g\n", off(theirs), off(out));
          b.race("spmm", size, ours, "cuSPARSE", [&] { peer.run(); }, terms, "T multiply-adds/s");
        }
#endif
        for (const void* p : {(const void*)dx, (const void*)out, (const void*)theirs, (const void*)w}) BENCH_OK(cudaFree(const_cast<void*>(p)));
      }
}

void grouped(Bench& b) {
  if (!b.wants("conv_grouped")) return;
  struct Layer { int64_t side, channels; };
  for (const Layer& l : {Layer{56, 128}, {14, 512}})
    for (int group : {1, 2, 4, 8, 16, 32, 64}) {
      GroupedConvArgs g;
      Numbers numbers;
      std::vector<uint16_t> x(64 * l.side * l.side * l.channels), w(l.channels * 9 * group);
      for (auto& v : x) v = Numbers::bf16(numbers.below(255) - 127);
      for (auto& v : w) v = Numbers::bf16(numbers.below(255) - 127);
      uint16_t *const dx = b.memory(x), *const dw = b.memory(w), *const out = b.memory<uint16_t>(x.size());
      g.images = 64, g.height = g.width = l.side, g.channels = l.channels, g.group = group, g.x = dx, g.w = dw, g.out = out;
      const double bytes = double(x.size()) * 4, terms = double(x.size()) * 9 * group;
      const std::string size = "64x" + std::to_string(l.side) + "x" + std::to_string(l.side) + "x" + std::to_string(l.channels) + " groups of " + std::to_string(group);
      b.race("conv_grouped", size, [&] { b.did(conv_grouped(g, b.stream())); }, "", {}, terms * kTera, ("T multiply-adds/s at " + std::to_string(int(bytes / 1e6)) + " MB").c_str(), l.side == 56 ? terms : 0);
      for (void* p : {(void*)dx, (void*)dw, (void*)out}) BENCH_OK(cudaFree(p));
    }
}

}  // namespace

void papers_networks(Bench& b) {
  bits(b);
  shifts(b);
  sparse(b);
  grouped(b);
}

}  // namespace bench
