// The memory-bound kernels against float64 references: odd sizes, every alignment they accept, guard bytes.
//
// Bounds: copies, transposes, gathers, histograms and scans are exact. STREAM operations round once (triad: the
// product and the sum at most once each). Row norms: 1e-5 relative for the f32 statistics and exponentials, then one
// rounding to the type. Quantisation: half a step of e4m3 at the group's scale. Not here: launches that follow each other
// (chain_test.cu), selection and sorting (select_test.cu).
#include <algorithm>

#include "check.h"

using namespace orrery::kernels;
using check::Buffer;
using check::Random;
using check::random_floats;

namespace {

constexpr double kFloat = 0x1p-24;

void streams(int64_t n, size_t offset) {
  const auto a = random_floats(n, 1), b = random_floats(n, 2);
  const Buffer da(a, offset), db(b, offset);
  const float s = 1.37f;
  const char* const names[] = {"copy", "scale", "add", "triad"};
  for (int op = 0; op < 4; op++) {
    Buffer out(n * 4, offset);
    if (op == 0) STATUS_OK(stream_copy(out.as<float>(), da.as<float>(), n, nullptr));
    if (op == 1) STATUS_OK(stream_scale(out.as<float>(), da.as<float>(), s, n, nullptr));
    if (op == 2) STATUS_OK(stream_add(out.as<float>(), da.as<float>(), db.as<float>(), n, nullptr));
    if (op == 3) STATUS_OK(stream_triad(out.as<float>(), da.as<float>(), db.as<float>(), s, n, nullptr));
    const auto got = out.host<float>();
    for (int64_t i = 0; i < n; i++) {
      const double x = a[i], y = b[i];
      const double want = op == 0 ? x : op == 1 ? double(s) * x : op == 2 ? x + y : x + double(s) * y;
      const double bound = op == 0 ? 0 : kFloat * (std::fabs(want) + (op == 3 ? std::fabs(double(s) * y) : 0));
      check::expect_near(got[i], want, bound, names[op], i, n);
    }
    out.check_guards(names[op]);
  }
}

void reductions(int64_t n, size_t offset) {
  const auto a = random_floats(n, 3);
  const Buffer da(a, offset), workspace(std::vector<unsigned char>(reduce_workspace(), 0));
  Buffer out(4);
  float first = 0;
  for (int round = 0; round < 3; round++) {
    out.poison();
    STATUS_OK(reduce_sum(out.as<float>(), da.as<float>(), n, workspace.data(), nullptr));
    const float got = out.host<float>()[0];
    double want = 0, mass = 0;
    for (float x : a) want += x, mass += std::fabs(double(x));
    check::expect_near(got, want, 1e-6 * mass, "sum", n, round);
    if (round && std::memcmp(&got, &first, 4)) check::fail("sum of %lld: another bit pattern", (long long)n);
    first = got;
    const float most = n ? *std::max_element(a.begin(), a.end()) : -INFINITY, least = n ? *std::min_element(a.begin(), a.end()) : INFINITY;
    const auto extreme = [&](bool max, const Buffer& from) {
      out.poison();
      STATUS_OK((max ? reduce_max : reduce_min)(out.as<float>(), from.as<float>(), n, workspace.data(), nullptr));
      return out.host<float>()[0];
    };
    if (extreme(true, da) != most || extreme(false, da) != least) check::fail("largest or smallest of %lld", (long long)n);
    if (round != 1 || n == 0) continue;
    auto b = a;
    b[size_t(n - 1 - n / 3)] = NAN;
    const Buffer db(b, offset);
    if (!std::isnan(extreme(true, db)) || !std::isnan(extreme(false, db))) check::fail("largest or smallest of %lld with a not-a-number is a number", (long long)n);
  }
  out.check_guards("reductions"), workspace.check_guards("reductions' workspace");
}

struct Rows {
  DType t;
  int64_t rows, cols, pitch;
  size_t offset;
  bool residual, gamma;
};

std::vector<unsigned char> random_elements(DType t, int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<unsigned char> v(n * size_of(t));
  for (int64_t i = 0; i < n; i++) check::from_double(v.data(), i, t, 4 * random.symmetric());
  return v;
}

void row_norms(const Rows& c) {
  const int64_t n = (c.rows - 1) * c.pitch + c.cols;
  const size_t bytes = n * size_of(c.t);
  const auto in = random_elements(c.t, n, 5), res = random_elements(c.t, n, 6), g = random_elements(c.t, c.cols, 7),
             b = random_elements(c.t, c.cols, 8);
  const Buffer din(in, c.offset), dres(res, c.offset), dg(g), db(b);
  const double eps = 1e-5;
  for (int op = 0; op < 3; op++) {
    Buffer out(bytes, c.offset), sum(bytes, c.offset);
    const bool residual = c.residual && op > 0, gamma = c.gamma && op > 0;
    void* s = residual ? sum.data() : nullptr;
    const void* r = residual ? dres.data() : nullptr;
    if (op == 0) STATUS_OK(softmax(out.data(), din.data(), c.t, c.rows, c.cols, c.pitch, nullptr));
    if (op == 1)
      STATUS_OK(layernorm(out.data(), s, din.data(), r, gamma ? dg.data() : nullptr, gamma ? db.data() : nullptr, eps,
                          c.t, c.rows, c.cols, c.pitch, nullptr));
    if (op == 2)
      STATUS_OK(rmsnorm(out.data(), s, din.data(), r, gamma ? dg.data() : nullptr, eps, c.t, c.rows, c.cols, c.pitch, nullptr));
    const auto got = out.host<unsigned char>(), got_sum = sum.host<unsigned char>();
    for (int64_t row = 0; row < c.rows; row++) {
      std::vector<double> x(c.cols);
      double top = -INFINITY, mean = 0, squares = 0, total = 0;
      for (int64_t i = 0; i < c.cols; i++) {
        const int64_t at = row * c.pitch + i;
        x[i] = check::to_double(in.data(), at, c.t);
        if (residual) {
          const double want = x[i] + check::to_double(res.data(), at, c.t);
          x[i] = check::to_double(got_sum.data(), at, c.t);
          check::expect_near(x[i], want, check::rounding(c.t, want), "residual sum", row, i);
        }
        top = std::max(top, x[i]), mean += x[i] / c.cols;
      }
      if (op == 2) mean = 0;
      for (double v : x) total += std::exp(v - top), squares += (v - mean) * (v - mean) / c.cols;
      const double scale = 1 / std::sqrt(squares + eps);
      for (int64_t i = 0; i < c.cols; i++) {
        double want = op == 0 ? std::exp(x[i] - top) / total : (x[i] - mean) * scale, mass = std::fabs(want);
        if (gamma) {
          want *= check::to_double(g.data(), i, c.t), mass = std::fabs(want) + std::fabs(mean * scale);
          if (op == 1) want += check::to_double(b.data(), i, c.t), mass += std::fabs(want);
        }
        const double bound = 1e-5 * (mass + (op == 1 ? 4 * scale : 0)) + check::rounding(c.t, want) + 1e-30;
        check::expect_near(check::to_double(got.data(), row * c.pitch + i, c.t), want, bound,
                           op == 0 ? "softmax" : op == 1 ? "layernorm" : "rmsnorm", row, i);
      }
      for (int64_t i = c.cols; i < c.pitch && row + 1 < c.rows; i++)
        for (int k = 0; k < size_of(c.t); k++)
          if (got[(row * c.pitch + i) * size_of(c.t) + k] != 0xFF) check::fail("row norm wrote between rows");
    }
    out.check_guards("row norm");
    sum.check_guards("row norm, sum_out");
  }
}

void rotary_case(DType t, int64_t tokens, int64_t heads, int64_t dim, size_t offset) {
  const int64_t n = tokens * heads * dim, half = dim / 2;
  const auto x = random_elements(t, n, 9);
  std::vector<float> c(tokens * half), s(tokens * half);
  Random random(4);
  for (size_t i = 0; i < c.size(); i++) {
    const double a = 6.3 * random.unit();
    c[i] = float(std::cos(a)), s[i] = float(std::sin(a));
  }
  const Buffer dx(x, offset), dc(c), ds(s);
  STATUS_OK(rotary(dx.data(), dc.as<float>(), ds.as<float>(), t, tokens, heads, dim, nullptr));
  const auto got = dx.host<unsigned char>();
  for (int64_t i = 0; i < tokens * heads; i++)
    for (int64_t d = 0; d < half; d++) {
      const double u = check::to_double(x.data(), i * dim + d, t), v = check::to_double(x.data(), i * dim + half + d, t);
      const double cs = c[i / heads * half + d], sn = s[i / heads * half + d];
      const double bound = 4 * kFloat * (std::fabs(u) + std::fabs(v));
      const double low = u * cs - v * sn, high = v * cs + u * sn;
      check::expect_near(check::to_double(got.data(), i * dim + d, t), low, bound + check::rounding(t, low), "rotary", i, d);
      check::expect_near(check::to_double(got.data(), i * dim + half + d, t), high, bound + check::rounding(t, high), "rotary", i, half + d);
    }
  dx.check_guards("rotary");
}

void quantize_case(DType t, int64_t rows, int64_t cols) {
  const int64_t groups = (cols + 127) / 128;
  auto x = random_elements(t, rows * cols, 11);
  for (int64_t i = 0; i < std::min<int64_t>(cols, 128); i++) check::from_double(x.data(), i, t, 0);  // a group of zeros
  const Buffer dx(x);
  Buffer q(rows * cols), scales(rows * groups * 4), back(rows * cols * size_of(t));
  STATUS_OK(quantize_e4m3(q.data(), scales.as<float>(), dx.data(), t, rows, cols, nullptr));
  STATUS_OK(dequantize_e4m3(back.data(), q.data(), scales.as<float>(), t, rows, cols, nullptr));
  const auto s = scales.host<float>();
  const auto got = back.host<unsigned char>();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t g = 0; g < groups; g++) {
      double top = 0;
      for (int64_t i = g * 128; i < std::min(cols, g * 128 + 128); i++) top = std::max(top, std::fabs(check::to_double(x.data(), r * cols + i, t)));
      const double scale = top > 0 ? top / 448 : 1;
      check::expect_near(s[r * groups + g], scale, 2 * kFloat * scale, "scale", r, g);
      for (int64_t i = g * 128; i < std::min(cols, g * 128 + 128); i++) {
        const double want = check::to_double(x.data(), r * cols + i, t);
        const double bound = std::max(0x1p-4 * std::fabs(want), scale * 0x1p-10) * 1.01 + check::rounding(t, want);
        check::expect_near(check::to_double(got.data(), r * cols + i, t), want, bound, "e4m3", r, i);
      }
    }
  q.check_guards("quantize"), scales.check_guards("quantize scales"), back.check_guards("dequantize");
}

template <class T>
void transpose_case(int64_t rows, int64_t cols, int64_t pad) {
  Random random(13);
  std::vector<T> x(rows * (cols + pad));
  for (auto& v : x) v = T(random.next());
  const Buffer dx(x);
  const int64_t pitch = rows + pad;
  Buffer out(((cols - 1) * pitch + rows) * sizeof(T));
  STATUS_OK(transpose(out.data(), dx.data(), sizeof(T), rows, cols, cols + pad, pitch, nullptr));
  const auto got = out.host<T>();
  for (int64_t j = 0; j < cols; j++)
    for (int64_t i = 0; i < pitch && j * pitch + i < int64_t(got.size()); i++) {
      const T want = i < rows ? x[i * (cols + pad) + j] : T(~T(0));
      if (got[j * pitch + i] != want) check::fail("transpose of %d-byte %lldx%lld: [%lld, %lld]", int(sizeof(T)), (long long)rows, (long long)cols, (long long)j, (long long)i);
    }
  out.check_guards("transpose");
}

void rows_by_index(int64_t count, int64_t table_rows, int64_t row_bytes) {
  Random random(17);
  std::vector<unsigned char> table(table_rows * row_bytes);
  for (auto& v : table) v = static_cast<unsigned char>(random.next());
  std::vector<int32_t> index(count);
  for (auto& v : index) v = int32_t(random.below(table_rows + 4)) - 2;  // some outside
  const Buffer dtable(table), dindex(index);
  Buffer out(count * row_bytes);
  STATUS_OK(gather_rows(out.data(), dtable.data(), dindex.as<int32_t>(), count, table_rows, row_bytes, nullptr));
  const auto got = out.host<unsigned char>();
  for (int64_t i = 0; i < count; i++)
    for (int64_t b = 0; b < row_bytes; b++) {
      const bool in = index[i] >= 0 && index[i] < table_rows;
      if (got[i * row_bytes + b] != (in ? table[index[i] * row_bytes + b] : 0)) check::fail("gather: row %lld byte %lld", (long long)i, (long long)b);
    }
  out.check_guards("gather");
  void* pinned;  // a table that stays on the host
  CUDA_OK(cudaMallocHost(&pinned, table.size()));
  std::memcpy(pinned, table.data(), table.size());
  Buffer from_host(out.bytes());
  STATUS_OK(gather_rows(from_host.data(), pinned, dindex.as<int32_t>(), count, table_rows, row_bytes, nullptr));
  if (from_host.host<unsigned char>() != got) check::fail("gather from pinned memory: other rows than from the device's");
  from_host.check_guards("gather from pinned memory");
  CUDA_OK(cudaFreeHost(pinned));
  for (int64_t i = 0; i < count; i++) index[i] = int32_t(i < table_rows ? table_rows - 1 - i : -1);
  const Buffer dunique(index);
  Buffer target(table_rows * row_bytes);
  STATUS_OK(scatter_rows(target.data(), out.data(), dunique.as<int32_t>(), count, table_rows, row_bytes, nullptr));
  const auto put = target.host<unsigned char>();
  for (int64_t i = 0; i < std::min(count, table_rows); i++)
    if (std::memcmp(&put[index[i] * row_bytes], &got[i * row_bytes], row_bytes)) check::fail("scatter: row %lld", (long long)i);
  target.check_guards("scatter");
}

void counts(int64_t n, size_t offset) {
  Random random(19);
  std::vector<uint8_t> bytes(n);
  for (auto& v : bytes) v = uint8_t(random.next() & random.next());
  const Buffer din(bytes, offset), dcounts(std::vector<uint32_t>(256, 5));
  STATUS_OK(histogram_u8(dcounts.as<uint32_t>(), din.as<uint8_t>(), n, nullptr));
  std::vector<uint32_t> want(256, 5), got = dcounts.host<uint32_t>();
  for (uint8_t v : bytes) want[v]++;
  if (got != want) check::fail("histogram of %lld", (long long)n);
  std::vector<uint32_t> words(n);
  for (auto& v : words) v = uint32_t(random.next());
  const Buffer dwords(words, offset / 4 * 4), workspace(scan_workspace(n));
  Buffer out(n * 4, offset / 4 * 4);
  STATUS_OK(inclusive_scan(out.as<uint32_t>(), dwords.as<uint32_t>(), n, workspace.data(), nullptr));
  const auto sums = out.host<uint32_t>();
  uint32_t sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (sums[i] != (sum += words[i])) check::fail("scan of %lld: [%lld]", (long long)n, (long long)i);
  out.check_guards("scan");
}

void packed(const StridedLayout& l, int64_t span, size_t offset) {
  Random random(span);
  std::vector<unsigned char> x(span);
  for (auto& v : x) v = static_cast<unsigned char>(random.next());
  int64_t total = 1;
  for (int d = 0; d < l.rank; d++) total *= l.count[d];
  std::vector<int64_t> place;  // of each element
  for (int64_t i = 0; i < total; i++) {
    int64_t rest = i, at = 0;
    for (int d = l.rank - 1; d >= 0; d--) at += rest % l.count[d] * l.stride[d], rest /= l.count[d];
    place.push_back(at);
  }
  const Buffer dx(x, offset);
  Buffer dense(total * l.element_bytes), back(span, offset);
  STATUS_OK(pack(dense.data(), dx.data(), l, nullptr));
  STATUS_OK(unpack(back.data(), dense.data(), l, nullptr));
  const auto got = dense.host<unsigned char>(), again = back.host<unsigned char>();
  std::vector<unsigned char> want(span, 0xFF);
  for (int64_t i = 0; i < total; i++)
    for (int64_t b = 0; b < l.element_bytes; b++) {
      if (got[i * l.element_bytes + b] != x[place[i] + b]) check::fail("pack: element %lld byte %lld", (long long)i, (long long)b);
      want[place[i] + b] = x[place[i] + b];
    }
  if (again != want) check::fail("unpack: not the same places");
  dense.check_guards("pack"), back.check_guards("unpack");
}

void refusals() {
  Buffer x(4096), y(4096);
  float* p = x.as<float>();
  float* q = y.as<float>();
  NAMES(stream_copy(nullptr, p, 4, nullptr), "c");
  NAMES(stream_copy(q, nullptr, 4, nullptr), "a");
  NAMES(stream_copy(q, p, -1, nullptr), "n");
  NAMES(stream_copy(p + 1, p, 4, nullptr), "a");
  NAMES(stream_add(q, p, reinterpret_cast<float*>(x.data() + 1), 4, nullptr), "b");
  NAMES(reduce_sum(nullptr, p, 4, q, nullptr), "out");
  NAMES(reduce_sum(p, q, 4, nullptr, nullptr), "workspace");
  NAMES(softmax(q, p, DType::kE4M3, 1, 4, 4, nullptr), "dtype");
  NAMES(softmax(q, p, DType::kF32, 2, 4, 3, nullptr), "pitch");
  NAMES(softmax(q, p, DType::kF32, 1, 1 << 20, 1 << 20, nullptr), "cols");
  NAMES(layernorm(q, p, p, nullptr, nullptr, nullptr, 0, DType::kF32, 1, 4, 4, nullptr), "sum_out");
  NAMES(rotary(p, q, q, DType::kF32, 1, 1, 3, nullptr), "dim");
  NAMES(quantize_e4m3(nullptr, q, p, DType::kF32, 1, 4, nullptr), "out");
  NAMES(transpose(q, p, 3, 2, 2, 2, 2, nullptr), "element_bytes");
  NAMES(transpose(q, p, 4, 2, 2, 1, 2, nullptr), "in_pitch");
  NAMES(gather_rows(q, p, nullptr, 1, 1, 4, nullptr), "indices");
  NAMES(top_k(q, nullptr, p, DType::kF32, 1, 4, 4, 5, nullptr), "k");
  NAMES(top_k(nullptr, nullptr, p, DType::kF32, 1, 4, 4, 2, nullptr), "values");
  NAMES(sort_u32(reinterpret_cast<uint32_t*>(q), nullptr, reinterpret_cast<uint32_t*>(p), nullptr, 4, nullptr, nullptr), "workspace");
  NAMES(pack(q, p, {9, 4}, nullptr), "layout.rank");
  NAMES(pack(q, nullptr, {1, 4, {2}, {8}}, nullptr), "in");
  NAMES(histogram_u8(nullptr, reinterpret_cast<uint8_t*>(p), 4, nullptr), "counts");
  NAMES(inclusive_scan(reinterpret_cast<uint32_t*>(q), reinterpret_cast<uint32_t*>(p), 4, nullptr, nullptr), "workspace");
  NAMES(inclusive_scan(reinterpret_cast<uint32_t*>(q), reinterpret_cast<uint32_t*>(p), INT64_MAX, x.data(), nullptr), "n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  std::vector<int64_t> sizes = small ? std::vector<int64_t>{1, 777, 8205} : std::vector<int64_t>{1, 3, 777, 8192, 8205, 1 << 20, 5000003};
  for (int64_t n : sizes)
    for (size_t offset : {0, 4, 12}) streams(n, offset), reductions(n, offset), counts(n, offset + (n % 3));
  for (int64_t n : {8192, 49152, 66000, 425984}) counts(n, 0);  // several tiles of a scan, whole ones only and not, and more than a group of them
  if (!small)  // where one round of loads has all of a sum, and a little more
    for (int64_t n : {(1 << 22) - 5, 1 << 22, (1 << 22) + 7}) reductions(n, 0), reductions(n, 4);
  if (!small) counts(1 << 22, 0), counts(132 * 8192 * 9 + 77, 0), counts(132 * 8192 * 3, 4);
  std::printf("ok streams, reductions, histograms, scans\n");
  std::vector<Rows> rows = {{DType::kBF16, 3, 1000, 1000, 0, true, true}, {DType::kF16, 2, 77, 80, 2, true, false},
                            {DType::kF32, 3, 1025, 1028, 0, false, true}};
  if (!small)
    for (DType t : {DType::kBF16, DType::kF16, DType::kF32})
      for (int64_t cols : {1, 31, 128, 4096, 8192, 16384, 20000, 32768})
        for (int64_t pad : {0, 3, 8}) rows.push_back({t, 5, cols, cols + pad, size_t(pad == 3 ? 4 : 0), pad != 8, pad != 3});
  for (const Rows& r : rows) row_norms(r);
  std::printf("ok row norms\n");
  for (DType t : {DType::kBF16, DType::kF16, DType::kF32}) {
    rotary_case(t, 7, 3, 128, 0), rotary_case(t, 5, 2, 10, 4);
    quantize_case(t, 3, 300), quantize_case(t, 5, 512), quantize_case(t, 2, 77);
  }
  if (!small) rotary_case(DType::kBF16, 1000, 16, 128, 0), quantize_case(DType::kBF16, 700, 4096);
  for (int64_t pad : {0, 3, 16}) {
    transpose_case<uint8_t>(130, 70, pad), transpose_case<uint16_t>(130, 70, pad), transpose_case<uint32_t>(65, 129, pad), transpose_case<uint64_t>(65, 33, pad);
    if (!small) transpose_case<uint16_t>(1024, 2048, pad), transpose_case<uint8_t>(1024, 2048, pad);
  }
  packed({2, 4, {7, 5}, {40, 8}}, 300, 0), packed({3, 16, {3, 4, 6}, {1024, 160, 16}}, 3200, 0), packed({1, 3, {50}, {7}}, 400, 1);
  packed({2, 2, {30, 64}, {200, 2}}, 6100, 8), packed({3, 8, {4, 1, 9}, {88, 8, 8}}, 400, 4), packed({0, 24, {}, {}}, 24, 0);
  packed({1, 64, {40001}, {128}}, 40001 * 128, 0);  // more than a wave of pieces, less than four
  std::printf("ok packs\n");
  for (int64_t bytes : {16, 48, 20, 7, 2064}) rows_by_index(small ? 9 : 500, 37, bytes);
  std::printf("ok rotary, quantisation, transposes, gathers\nPASS memory\n");
}
