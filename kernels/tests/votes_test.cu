// kv_votes against float64: odd lengths, grouped heads, windows longer than a block's queries, averages, refusals.
//
// Bound: scores and exponentials are f32; with scores below 20 a weight is good to 1e-5 of itself.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  DType t;
  int64_t batch, heads, kv_heads, seq_q, seq_k, dim, window, pool;
};

void run(const Case& c) {
  check::Random random(c.seq_k + c.window);
  std::vector<unsigned char> q(c.batch * c.seq_q * c.heads * c.dim * 2), k(c.batch * c.seq_k * c.kv_heads * c.dim * 2);
  for (auto* x : {&q, &k})
    for (size_t i = 0; i < x->size() / 2; i++) check::from_double(x->data(), i, c.t, 1.5 * random.symmetric());
  const double scale = 0.2;
  const int64_t group = c.heads / c.kv_heads;
  std::vector<float> lse(c.batch * c.heads * c.seq_q, NAN);
  std::vector<double> votes(c.batch * c.kv_heads * c.seq_k, 0.0);
  for (int64_t b = 0; b < c.batch; b++)
    for (int64_t h = 0; h < c.heads; h++)
      for (int64_t i = c.seq_q - c.window; i < c.seq_q; i++) {
        const int64_t keys = std::max<int64_t>(0, std::min(c.seq_k, i + c.seq_k - c.seq_q + 1));
        std::vector<double> s(keys);
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) {
          for (int64_t d = 0; d < c.dim; d++)
            s[j] += scale * check::to_double(q.data(), ((b * c.seq_q + i) * c.heads + h) * c.dim + d, c.t) * check::to_double(k.data(), ((b * c.seq_k + j) * c.kv_heads + h / group) * c.dim + d, c.t);
          top = std::max(top, s[j]);
        }
        for (double x : s) sum += std::exp(x - top);
        const float l = lse[(b * c.heads + h) * c.seq_q + i] = keys ? float(top + std::log(sum)) : -INFINITY;
        for (int64_t j = 0; j < keys; j++) votes[(b * c.kv_heads + h / group) * c.seq_k + j] += std::exp(s[j] - double(l));
      }
  const Buffer dq(q), dk(k), dlse(lse);
  Buffer out(votes.size() * 4);
  KvVoteArgs a;
  a.q = dq.data(), a.k = dk.data(), a.lse = dlse.as<float>(), a.votes = out.as<float>(), a.dtype = c.t;
  a.batch = c.batch, a.heads = c.heads, a.kv_heads = c.kv_heads, a.seq_q = c.seq_q, a.seq_k = c.seq_k, a.dim = c.dim, a.window = c.window, a.pool = c.pool, a.scale = float(scale);
  a.q_strides = {c.seq_q * c.heads * c.dim, c.heads * c.dim, c.dim}, a.k_strides = {c.seq_k * c.kv_heads * c.dim, c.kv_heads * c.dim, c.dim};
  Buffer workspace(kv_votes_workspace(a));
  a.workspace = workspace.data();
  STATUS_OK(kv_votes(a, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<float>();
  char what[120];
  std::snprintf(what, sizeof what, "votes type %d batch %lld heads %lld/%lld seq %lld/%lld dim %lld window %lld pool %lld", int(c.t), (long long)c.batch, (long long)c.heads, (long long)c.kv_heads,
                (long long)c.seq_q, (long long)c.seq_k, (long long)c.dim, (long long)c.window, (long long)c.pool);
  check::Results::all().add(what, out.host<unsigned char>());
  for (int64_t r = 0; r < c.batch * c.kv_heads; r++)
    for (int64_t j = 0; j < c.seq_k; j++) {
      double want = 0;
      for (int64_t e = std::max<int64_t>(0, j - c.pool / 2); e <= std::min(c.seq_k - 1, j + c.pool / 2); e++) want += votes[r * c.seq_k + e] / double(c.pool);
      check::expect_near(got[r * c.seq_k + j], want, 2e-5 * want + 1e-12, "votes", r, j);
    }
  out.check_guards("votes"), workspace.check_guards("votes' workspace");
}

void refusals() {
  Buffer x(1 << 16), y(1 << 16), z(1 << 16);
  KvVoteArgs a;
  a.q = x.data(), a.k = y.data(), a.lse = z.as<float>(), a.votes = z.as<float>() + 4096, a.batch = 1, a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 64, a.dim = 64;
  a.q_strides = a.k_strides = {64 * 128, 128, 64};
  auto with = [&](auto change) { KvVoteArgs h = a; change(h); return kv_votes(h, nullptr); };
  NAMES(with([](KvVoteArgs& h) { h.k = nullptr; }), "k");
  NAMES(with([](KvVoteArgs& h) { h.window = 65; }), "window");
  NAMES(with([](KvVoteArgs& h) { h.pool = 4; }), "pool");
  NAMES(with([](KvVoteArgs& h) { h.pool = 5; }), "workspace");
  NAMES(with([](KvVoteArgs& h) { h.lse = nullptr; }), "lse");
  NAMES(with([](KvVoteArgs& h) { h.dim = 96; }), "dim");
  NAMES(with([](KvVoteArgs& h) { h.kv_heads = 3; }), "kv_heads");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  const DType B = DType::kBF16, H = DType::kF16;
  std::vector<Case> cases = {{B, 1, 4, 2, 40, 150, 128, 32, 1}, {H, 2, 2, 2, 20, 77, 64, 7, 5}, {B, 1, 3, 1, 50, 300, 64, 40, 7}, {H, 1, 1, 1, 70, 50, 128, 70, 1}, {B, 1, 4, 1, 40, 90, 64, 36, 3}};
  if (!small)
    for (DType t : {B, H})
      for (int64_t dim : {64, 128})
        for (int64_t window : {1, 16, 33, 64}) cases.push_back({t, 2, 8, 2, 100, 2000 + window, dim, window, window % 2 ? 1 : 7});
  for (const Case& c : cases) run(c);
  std::printf("PASS votes: %zu cases\n", cases.size());
}
