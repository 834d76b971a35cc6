// attention_backward against float64: odd lengths, causal offsets, grouped heads, strided layouts, queries without keys.
//
// out and lse are given as they are rounded, so that the reference starts from the same numbers. Bounds for one element: the
// weights are rounded to bf16 (u) before they multiply d_out, and dS before it multiplies q and k; exponentials, sums and
// differences are f32, good to 3e-4 of the largest term (dS is a difference, so its terms count, not its value).
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

constexpr DType B = DType::kBF16;

struct Case {
  int64_t batch, heads, kv_heads, seq_q, seq_k, dim;
  bool causal, packed;  // packed: q, k, v interleaved in one tensor of 3 x heads, dq, dk, dv likewise
};

/// A tensor of batch x seq x heads x dim on the host.
struct Tensor {
  std::vector<unsigned char> bytes;
  AttentionArgs::Strides strides;
  Tensor(int64_t batch, int64_t seq, int64_t heads, int64_t dim) : bytes(batch * seq * heads * dim * 2), strides{seq * heads * dim, heads * dim, dim} {}
  double at(int64_t b, int64_t i, int64_t h, int64_t d) const { return check::to_double(bytes.data(), b * strides.batch + i * strides.seq + h * strides.head + d, B); }
};

struct Row {  // of weights: p and its bound apart from rounding
  std::vector<double> p, ds, ds_error;
};

class Reference {
 public:
  Reference(const Case& c, double scale, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& d_out)
      : c_(c), scale_(scale), q_(q), k_(k), v_(v), d_out_(d_out), out_(c.batch, c.seq_q, c.heads, c.dim), lse_(c.batch * c.heads * c.seq_q), rows_(lse_.size()) {
    check::parallel(c.batch * c.heads, [&](int64_t bh) {
      for (int64_t i = 0; i < c.seq_q; i++) rows_[bh * c.seq_q + i] = row(bh / c.heads, bh % c.heads, i);
    });
  }
  const Tensor& out() const { return out_; }
  const std::vector<float>& lse() const { return lse_; }
  const Row& at(int64_t b, int64_t h, int64_t i) const { return rows_[(b * c_.heads + h) * c_.seq_q + i]; }

 private:
  Row row(int64_t b, int64_t h, int64_t i) {
    const int64_t keys = c_.causal ? std::max<int64_t>(0, std::min(c_.seq_k, i + c_.seq_k - c_.seq_q + 1)) : c_.seq_k, kvh = h / (c_.heads / c_.kv_heads);
    Row r{std::vector<double>(keys), std::vector<double>(keys), std::vector<double>(keys)};
    double top = -INFINITY, sum = 0, delta = 0, mass = 0;
    for (int64_t j = 0; j < keys; j++) {
      double s = 0;
      for (int64_t d = 0; d < c_.dim; d++) s += q_.at(b, i, h, d) * k_.at(b, j, kvh, d);
      top = std::max(top, r.p[j] = s * scale_);
    }
    for (double x : r.p) sum += std::exp(x - top);
    const float lse = keys ? float(top + std::log(sum)) : -INFINITY;
    lse_[(b * c_.heads + h) * c_.seq_q + i] = lse;
    for (double& x : r.p) x = std::exp(x - double(lse));
    for (int64_t d = 0; d < c_.dim; d++) {
      double o = 0;
      for (int64_t j = 0; j < keys; j++) o += r.p[j] * v_.at(b, j, kvh, d);
      const int64_t at = b * out_.strides.batch + i * out_.strides.seq + h * out_.strides.head + d;
      check::from_double(out_.bytes.data(), at, B, o);
      delta += out_.at(b, i, h, d) * d_out_.at(b, i, h, d), mass += std::fabs(out_.at(b, i, h, d) * d_out_.at(b, i, h, d));
    }
    for (int64_t j = 0; j < keys; j++) {
      double dp = 0, terms = 0;
      for (int64_t d = 0; d < c_.dim; d++) dp += d_out_.at(b, i, h, d) * v_.at(b, j, kvh, d), terms += std::fabs(d_out_.at(b, i, h, d) * v_.at(b, j, kvh, d));
      r.ds[j] = r.p[j] * (dp - delta);
      r.ds_error[j] = check::unit_roundoff(B) * std::fabs(r.ds[j]) + 3e-4 * r.p[j] * (terms + mass);
    }
    return r;
  }
  const Case& c_;
  double scale_;
  const Tensor &q_, &k_, &v_, &d_out_;
  Tensor out_;
  std::vector<float> lse_;
  std::vector<Row> rows_;
};

void expect(const std::vector<unsigned char>& got, int64_t at, double want, double bound, const char* what, int64_t i, int64_t d) {
  check::expect_near(check::to_double(got.data(), at, B), want, bound + check::rounding(B, std::fabs(want) + bound), what, i, d);
}

void run(const Case& c) {
  check::Random random(c.seq_q * 11 + c.seq_k + c.dim);
  Tensor q(c.batch, c.seq_q, c.heads, c.dim), k(c.batch, c.seq_k, c.kv_heads, c.dim), v = k, d_out = q;
  for (Tensor* x : {&q, &k, &v, &d_out})
    for (size_t i = 0; i < x->bytes.size() / 2; i++) check::from_double(x->bytes.data(), i, B, 1.5 * random.symmetric());
  const float scale = 0.2f;
  const Reference reference(c, scale, q, k, v, d_out);
  // One tensor of q, k and v side by side, and its gradient, or three.
  const int64_t pitch = 3 * c.heads * c.dim, row = c.heads * c.dim * 2;
  std::vector<unsigned char> together(c.packed ? size_t(c.batch * c.seq_q * pitch * 2) : 0);
  const Tensor* const parts[3] = {&q, &k, &v};
  for (int64_t r = 0; r < (c.packed ? c.batch * c.seq_q : 0); r++)
    for (int part = 0; part < 3; part++) std::memcpy(together.data() + r * pitch * 2 + part * row, parts[part]->bytes.data() + r * row, row);
  const Buffer b_together(together), bq(q.bytes), bk(k.bytes), bv(v.bytes), b_out(reference.out().bytes), b_d_out(d_out.bytes), b_lse(reference.lse());
  Buffer d_together(together.size()), dq(c.packed ? 0 : q.bytes.size()), dk(c.packed ? 0 : k.bytes.size()), dv(dk.bytes());
  AttentionBackwardArgs a;
  a.batch = c.batch, a.heads = c.heads, a.kv_heads = c.kv_heads, a.seq_q = c.seq_q, a.seq_k = c.seq_k, a.dim = c.dim, a.causal = c.causal, a.scale = scale;
  a.q = c.packed ? b_together.data() : bq.data(), a.k = c.packed ? b_together.data() + row : bk.data(), a.v = c.packed ? b_together.data() + 2 * row : bv.data();
  a.dq = c.packed ? d_together.data() : dq.data(), a.dk = c.packed ? d_together.data() + row : dk.data(), a.dv = c.packed ? d_together.data() + 2 * row : dv.data();
  a.out = b_out.data(), a.d_out = b_d_out.data(), a.lse = b_lse.as<float>();
  const AttentionArgs::Strides side_by_side{c.seq_q * pitch, pitch, c.dim};
  a.q_strides = a.dq_strides = c.packed ? side_by_side : q.strides, a.k_strides = a.v_strides = a.dk_strides = a.dv_strides = c.packed ? side_by_side : k.strides;
  a.out_strides = a.d_out_strides = q.strides;
  Buffer workspace(attention_backward_workspace(a));
  a.workspace = workspace.data();
  STATUS_OK(attention_backward(a, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  std::vector<unsigned char> got_q = q.bytes, got_k = k.bytes, got_v = v.bytes;
  if (c.packed) {
    const auto all = d_together.host<unsigned char>();
    unsigned char* const to[3] = {got_q.data(), got_k.data(), got_v.data()};
    for (int64_t r = 0; r < c.batch * c.seq_q; r++)
      for (int part = 0; part < 3; part++) std::memcpy(to[part] + r * row, all.data() + r * pitch * 2 + part * row, row);
  } else {
    got_q = dq.host<unsigned char>(), got_k = dk.host<unsigned char>(), got_v = dv.host<unsigned char>();
  }
  char what[120];
  std::snprintf(what, sizeof what, "batch %lld heads %lld/%lld seq %lld/%lld dim %lld causal %d", (long long)c.batch, (long long)c.heads, (long long)c.kv_heads,
                (long long)c.seq_q, (long long)c.seq_k, (long long)c.dim, c.causal);
  auto& results = check::Results::all();
  if (c.seq_k <= 256) results.add(what + std::string(" dq"), got_q);  // of more tiles of keys the order of sums is that of time
  results.add(what + std::string(" dk"), got_k), results.add(what + std::string(" dv"), got_v);
  const int64_t group = c.heads / c.kv_heads, every = c.seq_q * c.seq_k > 400 * 400 ? 13 : 1;
  check::parallel(c.batch * c.heads, [&](int64_t bh) {
    const int64_t b = bh / c.heads, h = bh % c.heads;
    for (int64_t i = bh % every; i < c.seq_q; i += every) {
      const Row& r = reference.at(b, h, i);
      for (int64_t d = 0; d < c.dim; d++) {
        double want = 0, bound = 0;
        for (size_t j = 0; j < r.p.size(); j++) {
          const double x = k.at(b, int64_t(j), h / group, d);
          want += scale * r.ds[j] * x, bound += scale * (r.ds_error[j] + 1e-4 * std::fabs(r.ds[j])) * std::fabs(x);
        }
        expect(got_q, b * q.strides.batch + i * q.strides.seq + h * q.strides.head + d, want, bound, what, i, d);
      }
    }
  });
  check::parallel(c.batch * c.kv_heads, [&](int64_t bh) {
    const int64_t b = bh / c.kv_heads, kvh = bh % c.kv_heads;
    for (int64_t j = bh % every; j < c.seq_k; j += every)
      for (int64_t d = 0; d < c.dim; d++) {
        double want_k = 0, want_v = 0, bound_k = 0, bound_v = 0;
        for (int64_t h = kvh * group; h < (kvh + 1) * group; h++)
          for (int64_t i = 0; i < c.seq_q; i++) {
            const Row& r = reference.at(b, h, i);
            if (j >= int64_t(r.p.size())) continue;
            const double x = q.at(b, i, h, d), y = d_out.at(b, i, h, d);
            want_k += scale * r.ds[j] * x, bound_k += scale * (r.ds_error[j] + 1e-4 * std::fabs(r.ds[j])) * std::fabs(x);
            want_v += r.p[j] * y, bound_v += (check::unit_roundoff(B) + 4e-4) * r.p[j] * std::fabs(y);
          }
        const int64_t at = b * k.strides.batch + j * k.strides.seq + kvh * k.strides.head + d;
        expect(got_k, at, want_k, bound_k, what, j, d), expect(got_v, at, want_v, bound_v, what, j, d);
      }
  });
  for (const Buffer* x : {&d_together, &dq, &dk, &dv, &workspace}) x->check_guards(what);
}

void refusals() {
  Buffer x(1 << 16), y(1 << 16), z(1 << 16), o(1 << 16), d(1 << 16), dx(1 << 16), dy(1 << 16), dz(1 << 16), w(1 << 18);
  AttentionBackwardArgs a;
  a.q = x.data(), a.k = y.data(), a.v = z.data(), a.out = o.data(), a.d_out = d.data(), a.lse = w.as<float>(), a.dq = dx.data(), a.dk = dy.data(), a.dv = dz.data();
  a.batch = 1, a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 16, a.dim = 64, a.workspace = w.data();
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = a.d_out_strides = a.dq_strides = a.dk_strides = a.dv_strides = {16 * 128, 128, 64};
  auto with = [&](auto change) { AttentionBackwardArgs h = a; change(h); return attention_backward(h, nullptr); };
  NAMES(with([](AttentionBackwardArgs& h) { h.q = nullptr; }), "q");
  NAMES(with([](AttentionBackwardArgs& h) { h.lse = nullptr; }), "lse");
  NAMES(with([](AttentionBackwardArgs& h) { h.workspace = nullptr; }), "workspace");
  NAMES(with([](AttentionBackwardArgs& h) { h.dk = h.dv; }), "dk");
  NAMES(with([](AttentionBackwardArgs& h) { h.dq = const_cast<void*>(h.q); }), "dq");
  NAMES(with([](AttentionBackwardArgs& h) { h.dtype = DType::kF16; }), "dtype");
  NAMES(with([](AttentionBackwardArgs& h) { h.dim = 96; }), "dim");
  NAMES(with([](AttentionBackwardArgs& h) { h.kv_heads = 3; }), "kv_heads");
  NAMES(with([](AttentionBackwardArgs& h) { h.seq_q = 0; }), "seq_q");
  NAMES(with([](AttentionBackwardArgs& h) { h.d_out_strides.head = 60; }), "d_out_strides");
  NAMES(with([](AttentionBackwardArgs& h) { h.scale = -1; }), "scale");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  std::vector<Case> cases = {{1, 1, 1, 64, 128, 128, false, false}, {1, 2, 1, 130, 150, 64, true, false}, {1, 1, 1, 200, 90, 128, true, false},
                             {2, 2, 2, 77, 77, 64, false, true},    {1, 2, 1, 70, 300, 128, true, false}};
  if (!small)
    for (int64_t dim : {64, 128})
      for (bool causal : {false, true})
        for (const Case& c : {Case{2, 3, 3, 1, 1, dim, causal, false}, Case{2, 4, 2, 333, 333, dim, causal, false}, Case{1, 4, 1, 128, 700, dim, causal, false},
                              Case{1, 2, 2, 500, 200, dim, causal, false}, Case{2, 4, 4, 257, 257, dim, causal, true}, Case{2, 6, 3, 1024, 1024, dim, causal, false}})
          cases.push_back(c);
  for (const Case& c : cases) run(c);
  std::printf("PASS attention backward: %zu cases\n", cases.size());
}
