// attention_forward against float64: odd lengths, causal offsets, grouped heads, strided layouts, rows without keys.
//
// Bound for one element: the probabilities are rounded to the operand type (u), the sum of exponentials and the scores
// are f32; so |error| <= (u + 2e-4) * sum p |v| plus one rounding of the result. Scores are kept below about 20.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  DType t;
  int64_t batch, heads, kv_heads, seq_q, seq_k, dim;
  bool causal, packed;  // packed: q, k, v interleaved in one tensor of 3 x heads
};

void run(const Case& c) {
  check::Random random(c.seq_q * 7 + c.seq_k + c.dim);
  const int64_t pitch_q = c.packed ? 3 * c.heads * c.dim : c.heads * c.dim;
  const int64_t pitch_k = c.packed ? pitch_q : c.kv_heads * c.dim;
  const int64_t nq = c.batch * c.seq_q * pitch_q, nk = c.packed ? 0 : c.batch * c.seq_k * pitch_k;
  std::vector<unsigned char> q(nq * 2), k(nk * 2), v(nk * 2);
  for (auto* x : {&q, &k, &v})
    for (size_t i = 0; i < x->size() / 2; i++) check::from_double(x->data(), i, c.t, 1.5 * random.symmetric());
  const Buffer dq(q), dk(k), dv(v);
  Buffer out(c.batch * c.seq_q * c.heads * c.dim * 2), lse(c.batch * c.heads * c.seq_q * 4);
  AttentionArgs a;
  a.q = dq.data(), a.k = c.packed ? dq.data() + c.heads * c.dim * 2 : dk.data();
  a.v = c.packed ? dq.data() + 2 * c.heads * c.dim * 2 : dv.data();
  a.out = out.data(), a.lse = lse.as<float>(), a.dtype = c.t;
  a.batch = c.batch, a.heads = c.heads, a.kv_heads = c.kv_heads, a.seq_q = c.seq_q, a.seq_k = c.seq_k, a.dim = c.dim;
  a.q_strides = {c.seq_q * pitch_q, pitch_q, c.dim};
  a.k_strides = a.v_strides = {c.seq_k * pitch_k, pitch_k, c.dim};
  a.out_strides = {c.seq_q * c.heads * c.dim, c.heads * c.dim, c.dim};
  a.causal = c.causal, a.scale = 0.2f;
  STATUS_OK(attention_forward(a, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<unsigned char>();
  const auto got_lse = lse.host<float>();
  const unsigned char* hk = c.packed ? q.data() + c.heads * c.dim * 2 : k.data();
  const unsigned char* hv = c.packed ? q.data() + 2 * c.heads * c.dim * 2 : v.data();
  const double u = check::unit_roundoff(c.t);
  char what[160];
  std::snprintf(what, sizeof what, "type %d batch %lld heads %lld/%lld seq %lld/%lld dim %lld causal %d", int(c.t), (long long)c.batch,
                (long long)c.heads, (long long)c.kv_heads, (long long)c.seq_q, (long long)c.seq_k, (long long)c.dim, c.causal);
  check::parallel(c.batch * c.heads, [&](int64_t bh) {
    const int64_t b = bh / c.heads, h = bh % c.heads, kvh = h / (c.heads / c.kv_heads);
    const int64_t every = c.seq_q > 600 ? 37 : 1;
    for (int64_t i = bh % every; i < c.seq_q; i += every) {
      const int64_t keys = c.causal ? std::max<int64_t>(0, std::min(c.seq_k, i + c.seq_k - c.seq_q + 1)) : c.seq_k;
      std::vector<double> p(keys);
      double top = -INFINITY, sum = 0;
      for (int64_t j = 0; j < keys; j++) {
        double s = 0;
        for (int64_t d = 0; d < c.dim; d++)
          s += check::to_double(q.data(), (b * c.seq_q + i) * pitch_q + h * c.dim + d, c.t) *
               check::to_double(hk, (b * c.seq_k + j) * pitch_k + kvh * c.dim + d, c.t);
        p[j] = s * double(a.scale), top = std::max(top, p[j]);
      }
      for (double& x : p) sum += x = std::exp(x - top);
      const float l = got_lse[bh * c.seq_q + i];
      if (keys) check::expect_near(l, top + std::log(sum), 1e-4 * (1 + std::fabs(top)), what, bh, i);
      else if (l != -INFINITY) check::fail("%s: lse of a row without keys is %g", what, l);
      for (int64_t d = 0; d < c.dim; d++) {
        double want = 0, mass = 0;
        for (int64_t j = 0; j < keys; j++) {
          const double t = p[j] / sum * check::to_double(hv, (b * c.seq_k + j) * pitch_k + kvh * c.dim + d, c.t);
          want += t, mass += std::fabs(t);
        }
        const double bound = (u + 2e-4) * mass;
        check::expect_near(check::to_double(got.data(), ((b * c.seq_q + i) * c.heads + h) * c.dim + d, c.t), want,
                           bound + check::rounding(c.t, std::fabs(want) + bound), what, bh * c.seq_q + i, d);
      }
    }
  });
  out.check_guards(what), lse.check_guards(what);
}

void refusals() {
  Buffer x(1 << 16), y(1 << 16), z(1 << 16), o(1 << 16);
  AttentionArgs a;
  a.q = x.data(), a.k = y.data(), a.v = z.data(), a.out = o.data();
  a.batch = 1, a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 16, a.dim = 64;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {16 * 128, 128, 64};
  STATUS_OK(attention_forward(a, nullptr));
  auto with = [&](auto change) { AttentionArgs h = a; change(h); return attention_forward(h, nullptr); };
  NAMES(with([](AttentionArgs& h) { h.q = nullptr; }), "q");
  NAMES(with([](AttentionArgs& h) { h.out = nullptr; }), "out");
  NAMES(with([](AttentionArgs& h) { h.k = static_cast<const char*>(h.k) + 2; }), "k");
  NAMES(with([](AttentionArgs& h) { h.dim = 80; }), "dim");
  NAMES(with([](AttentionArgs& h) { h.kv_heads = 3; }), "kv_heads");
  NAMES(with([](AttentionArgs& h) { h.dtype = DType::kF32; }), "dtype");
  NAMES(with([](AttentionArgs& h) { h.seq_q = -1; }), "seq_q");
  NAMES(with([](AttentionArgs& h) { h.seq_k = 0; }), "seq_k");
  NAMES(with([](AttentionArgs& h) { h.v_strides.seq = 100; }), "v_strides");
  NAMES(with([](AttentionArgs& h) { h.out = const_cast<void*>(h.q); }), "out");
  NAMES(with([](AttentionArgs& h) { h.scale = NAN; }), "scale");
  CUDA_OK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  const DType B = DType::kBF16, H = DType::kF16;
  std::vector<Case> cases = {{B, 1, 2, 1, 130, 200, 64, true, false}, {H, 1, 1, 1, 70, 70, 128, false, false},
                             {B, 1, 4, 2, 300, 300, 128, true, false}, {H, 2, 2, 2, 1, 400, 64, false, false},
                             {B, 1, 2, 2, 260, 100, 128, true, false}, {H, 2, 2, 2, 77, 77, 64, true, true}, {B, 1, 1, 1, 2100, 2100, 128, true, false}};
  if (!small)
    for (DType t : {B, H})
      for (int64_t dim : {64, 128})
        for (bool causal : {false, true})
          for (const Case& c : {Case{t, 2, 3, 3, 1, 1, dim, causal, false}, Case{t, 2, 4, 2, 333, 333, dim, causal, false},
                                Case{t, 1, 4, 1, 128, 1000, dim, causal, false}, Case{t, 1, 2, 2, 700, 200, dim, causal, false},
                                Case{t, 2, 4, 4, 257, 257, dim, causal, true}, Case{t, 3, 12, 3, 1024, 1024, dim, causal, false},
                                Case{t, 1, 16, 16, 4096, 4096, dim, causal, false}})
            cases.push_back(c);
  for (const Case& c : cases) run(c);
  std::printf("PASS attention: %zu cases\n", cases.size());
}
