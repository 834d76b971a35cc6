// Random models, plans, questions and how ledgers are compared, for the tests of laws.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "graph/serve.h"

namespace orrery::graph {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int pick(std::initializer_list<int> values) { return *(values.begin() + engine_() % values.size()); }
  bool coin() { return engine_() & 1; }
  int below(int n) { return static_cast<int>(engine_() % n); }

 private:
  std::mt19937 engine_;
};

inline TransformerSpec random_spec(Random& r) {
  TransformerSpec s;
  s.name = "random";
  s.kind = "dense";
  s.layers = r.pick({4, 8, 16, 32});
  s.head_dim = r.pick({64, 128});
  s.heads = r.pick({8, 16, 32});
  s.kv_heads = s.heads / r.pick({1, 2, 4, 8});
  s.hidden = s.heads * s.head_dim;
  s.vocab = r.pick({32000, 128256});
  s.gated = r.coin(), s.tied = r.coin(), s.qkv_bias = r.coin();
  s.ffn = s.hidden * r.pick({2, 4});
  if (r.coin()) s.window = r.pick({128, 1024}), s.window_layers = s.layers / 2;
  if (r.coin()) {
    s.kind = "moe";
    s.experts = r.pick({8, 64});
    s.experts_per_token = r.pick({1, 2, 8});
    s.expert_ffn = s.hidden / 2;
    s.shared_experts = r.below(2);
    s.ffn = 0;
  }
  return s;
}

inline Plan random_plan(Random& r, const TransformerSpec& s) {
  Plan p;
  p.tp = r.pick({1, 2, 4, 8});
  p.pp = r.pick({1, 2});
  p.dp = r.pick({1, 2});
  if (s.moe()) p.ep = p.tp * p.dp > 1 && r.coin() ? p.tp * p.dp : 1;
  if (p.ep > s.experts || (s.experts && s.experts % p.ep)) p.ep = 1;
  return p;
}

inline Cluster cluster_of(const Plan& p, const char* gpu = "h100") { return {load_profile(gpu), p.gpus()}; }

inline StepShape random_shape(Random& r) {
  StepShape s;
  if (r.coin())
    s.decode_seqs = 1 + r.below(64), s.decode_context = r.pick({100, 2000, 20000});
  else
    s.prefill_seqs = 1, s.prefill_tokens = r.pick({64, 1024, 8192});
  return s;
}

inline Ledger ledger_of(const Graph& g, const Plan& p, const StepShape& s) {
  Ledger l;
  walk(compile(g, p), bind(g, p, s), l);
  return l;
}

template <class Body>
void for_random_cases(int cases, Body body) {
  Random r(20261121);
  for (int i = 0; i < cases; ++i) {
    TransformerSpec spec = random_spec(r);
    Plan plan = random_plan(r, spec);
    body(r, spec, plan);
  }
}

inline void expect_same(const Ledger& a, const Ledger& b) {
  EXPECT_EQ(a.ops(), b.ops());
  EXPECT_EQ(a.weight(), b.weight());
  EXPECT_EQ(a.state(), b.state());
  EXPECT_EQ(a.activation(), b.activation());
  EXPECT_EQ(a.link(), b.link());
}

template <class Body>
void for_random_cases(Body body) {
  for_random_cases(60, body);
}

}  // namespace orrery::graph
