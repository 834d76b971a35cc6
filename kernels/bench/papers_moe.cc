// A mixture of experts in one launch (moe) in turns with one launch a step: gemm_grouped, the activation, gemm_grouped, the weighted sums.
//
// Two models' layers, tokens dealt to experts at random without favour. Operands are normal numbers, the same in every replay; weights are scaled as a model's, so that
// what comes before the activation has variance 1: where its exponentials overflow, divisions take the slow way. Weights of a layer are more than L2 holds.
#include <algorithm>
#include <numeric>
#include <random>

#include "data.h"
#include "papers.h"
#include "papers_peers.h"

using namespace orrery::kernels;

namespace bench {
namespace {

struct Layer {
  const char* name;
  int experts;
  int64_t top_k, hidden, inner;
};

/// Which rows are whose: rows in the order of experts, then of tokens.
struct Routing {
  std::vector<int32_t> ends, token_rows;
  int64_t used = 0;  // experts with rows
  Routing(const Layer& l, int64_t tokens) : ends(size_t(l.experts)), token_rows(size_t(tokens * l.top_k)) {
    std::mt19937_64 random(11);
    std::vector<std::vector<int32_t>> places(l.experts);
    std::vector<int> order(l.experts);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t t = 0; t < tokens; t++)
      for (int64_t k = 0; k < l.top_k; k++) {
        std::swap(order[k], order[k + int64_t(random() % uint64_t(l.experts - k))]);
        places[order[k]].push_back(int32_t(t * l.top_k + k));
      }
    int32_t row = 0;
    for (int e = 0; e < l.experts; e++) {
      for (int32_t place : places[e]) token_rows[place] = row++;
      ends[e] = row, used += !places[e].empty();
    }
  }
};

void layer(Bench& b, const Layer& l, const void* w1, const void* w2, int64_t tokens) {
  const DType B = DType::kBF16;
  const int64_t rows = tokens * l.top_k;
  const Routing routing(l, tokens);
  const auto bytes = [&](int64_t elements) { return b.memory<uint16_t>(size_t(elements)); };
  uint16_t *const x = bytes(rows * l.hidden), *const out = bytes(tokens * l.hidden), *const want = bytes(tokens * l.hidden);
  uint16_t *const wide = bytes(rows * l.inner * 2), *const between = bytes(rows * l.inner), *const y = bytes(rows * l.hidden);
  const int32_t *const ends = b.memory(routing.ends), *const token_rows = b.memory(routing.token_rows);
  const float* const weights = b.memory(std::vector<float>(size_t(rows), 1.f / float(l.top_k)));
  fill_normal(x, rows * l.hidden, B, 1, b.stream());
  MoeArgs a;
  a.tokens = tokens, a.rows = rows, a.hidden = l.hidden, a.inner = l.inner, a.groups = l.experts, a.group_ends = ends, a.x = {x, B, l.hidden, 1}, a.w1 = w1, a.w1_stride = l.hidden, a.w2 = w2, a.w2_stride = l.inner;
  a.top_k = l.top_k, a.token_rows = token_rows, a.token_weights = weights, a.out = {out, B, l.hidden, 1};
  char* const workspace = b.memory<char>(moe_workspace(a));
  a.workspace = workspace;
  const auto product = [&](const void* from, int64_t k, const void* w, void* d, int64_t n) {
    GroupedGemmArgs g;
    g.rows = rows, g.n = n, g.k = k, g.groups = l.experts, g.group_ends = ends, g.a = {from, B, k, 1}, g.b = w, g.b_stride = k, g.d = {d, B, n, 1};
    b.did(gemm_grouped(g, b.stream()));
  };
  const Launch ours = [&] { b.did(moe(a, b.stream())); };
  const Launch theirs = [&] {
    product(x, l.hidden, w1, wide, l.inner * 2);
    gate_rows(between, wide, rows, l.inner, b.stream());
    product(between, l.inner, w2, y, l.hidden);
    combine_rows(want, y, token_rows, weights, tokens, l.top_k, l.hidden, b.stream());
  };
  float* const difference = b.memory<float>(2);
  ours(), theirs();
  largest_difference(out, want, tokens * l.hidden, B, difference, b.stream());
  const auto off = b.host(difference, 2);
  b.wrong("moe", off[0] / off[1], 0.02);
  const double flops = double(rows) * double(l.hidden) * double(l.inner) * 6;
  const std::string megabytes = std::to_string(routing.used * l.hidden * l.inner * 6 / 1000000);
  b.race("moe", std::string(l.name) + " " + std::to_string(tokens) + " tokens", ours, "one launch a step", theirs, flops * 1e-6, ("TFLOP/s at " + megabytes + " MB of weights").c_str(), tokens == 4096 ? flops : 0);
  for (const void* p : {(const void*)x, (const void*)out, (const void*)want, (const void*)wide, (const void*)between, (const void*)y, (const void*)ends, (const void*)token_rows, (const void*)weights, (const void*)workspace, (const void*)difference})
    BENCH_OK(cudaFree(const_cast<void*>(p)));
}

}  // namespace

void papers_moe(Bench& b) {
  if (!b.wants("moe")) return;
  for (const Layer& l : {Layer{"128 experts top 8 2048x768", 128, 8, 2048, 768}, Layer{"8 experts top 2 4096x14336", 8, 2, 4096, 14336}}) {
    const int64_t count = l.experts * l.inner * l.hidden;
    uint16_t *const w1 = b.memory<uint16_t>(size_t(count * 2)), *const w2 = b.memory<uint16_t>(size_t(count));
    fill_normal(w1, count * 2, DType::kBF16, 2, b.stream(), float(1 / std::sqrt(double(l.hidden))));
    fill_normal(w2, count, DType::kBF16, 3, b.stream(), float(1 / std::sqrt(double(l.inner))));
    for (int64_t tokens : {16, 256, 4096, 16384}) layer(b, l, w1, w2, tokens);
    BENCH_OK(cudaFree(w1));
    BENCH_OK(cudaFree(w2));
  }
}

}  // namespace bench
