// Laws that a caller declares (routing load, hits of a prefix and of experts), what they change and what they leave;
// the batch at which limits bite, and rates that a plan does not serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../error_of.h"
#include "graph/graph_file.h"
#include "graph/serve_limits.h"
#include "graph/train.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

struct Asked {
  Graph graph;
  Plan plan;
};
Asked with(const char* model, Plan plan, std::initializer_list<std::string> verbs) {
  Asked a{build_transformer(load_transformer(model)), plan};
  for (const std::string& verb : verbs) apply_verb(verb, a.graph, a.plan);
  return a;
}
Plan ranks(int tp, int dp) {
  Plan p;
  p.tp = tp, p.dp = dp;
  return p;
}

TEST(RoutingLoad, TheFullestRankSetsTheTimeAndNoLedger) {
  ServeQuestion q;
  q.concurrency = 512;
  q.engine = find_engine("none");
  double before = 0, joules = 0;
  Ledger even;
  for (const char* load : {" load 1", " load 1.5", " load 3", " load 8"}) {
    Asked a = with("DeepSeek-V3", ranks(1, 8), {std::string("shard expert 8") + load});
    Cluster cluster = parse_cluster("h200:8");
    StepPredictor p(a.graph, a.plan, cluster);
    StepTime t = p.step(decode_step(a.plan, q, 64));
    EXPECT_GT(t.seconds, before) << load;
    if (before == 0) even = p.ledger();
    ASSERT_EQ(even.lines.size(), p.ledger().lines.size());
    for (std::size_t i = 0; i < even.lines.size(); ++i) {
      EXPECT_EQ(even.lines[i].ops, p.ledger().lines[i].ops);
      EXPECT_EQ(even.lines[i].link, p.ledger().lines[i].link);
      EXPECT_EQ(even.lines[i].weight, p.ledger().lines[i].weight);
    }
    before = t.seconds, joules = t.joules;
  }
  EXPECT_GT(joules, 0);
  for (const char* load : {"load 0", "load 0.5", "load 9"})
    EXPECT_THAT(error_of([&] { with("DeepSeek-V3", ranks(1, 8), {std::string("shard expert 8 ") + load}); }),
                ::testing::HasSubstr("fullest rank"));
  EXPECT_THAT(error_of([&] { with("DeepSeek-V3", ranks(1, 1), {"shard tensor 8 load 2"}); }), ::testing::HasSubstr("left over"));
}

// An all-to-all whose fullest rank carries twice the mean takes what one of twice the bytes takes.
TEST(RoutingLoad, ExchangesWaitForTheRankThatCarriesMost) {
  auto exchange = [](const std::string& load) {
    Asked a = with("DeepSeek-V3", ranks(1, 8), {"shard expert 8 load " + load});
    Program p = compile(a.graph, a.plan);
    StepShape s;
    s.prefill_seqs = 1, s.prefill_tokens = 8192;
    Binding b = bind(a.graph, a.plan, s);
    Ledger ledger;
    walk(p, b, ledger);
    Rates r = read_rates(parse_cluster("h200:8").gpu);
    for (const Line& line : ledger.lines)
      if (p.ops[line.op].collective == Collective::kAllToAll)
        return std::pair{time_of(p.ops[line.op], line, b, r).seconds, collective_time(Collective::kAllToAll, 8, 2 * line.link, r)};
    return std::pair{0.0, 0.0};
  };
  EXPECT_GT(exchange("1").first, 0);
  EXPECT_DOUBLE_EQ(exchange("2").first, exchange("1").second);
}

TEST(ExpertHits, OnlyMissesCrossTheLink) {
  auto transfer = [](const std::string& hit) {
    Asked a = with("Mixtral-8x7B", {}, {"place expert host share 0.75" + hit});
    StepPredictor p(a.graph, a.plan, parse_cluster("rtx4090"));
    StepShape s;
    s.decode_seqs = 1, s.decode_context = 1000;
    return p.step(s).fetch;
  };
  double all = transfer(" hit 0"), none = transfer(" hit 1");
  EXPECT_EQ(none, 0);
  EXPECT_NEAR(transfer(" hit 0.55"), 0.45 * all, 1e-12 * all);
  EXPECT_NEAR(transfer(""), 0.75 * all, 1e-12 * all);  // uniform
  for (const char* verb : {"place weight host hit 0.5", "place weight host hit -1", "place expert host hit -1"})
    EXPECT_THAT(error_of([&] { with("Mixtral-8x7B", {}, {verb}); }), ::testing::HasSubstr("hit is the share")) << verb;
}

// 131,072 bytes a token of Llama-3.1-8B; the first 1,792 of 2,048 are the same in 64 sequences.
// Training moves all weights or none: experts alone would change nothing.
TEST(ExpertHits, AreOfServing) {
  Graph graph = build_transformer(load_transformer("Mixtral-8x7B"), [] {
    BuildOptions o;
    o.training = true;
    return o;
  }());
  Plan plan;
  apply_verb("place expert host", graph, plan);
  EXPECT_THAT(error_of([&] { train(graph, plan, parse_cluster("h200"), {}); }), ::testing::HasSubstr("in serving"));
}

TEST(SharedPrefix, IsHeldOnceInWholePages) {
  Cluster cluster = parse_cluster("h200");
  auto state = [&](const std::string& verb, double batch, const char* engine) {
    Asked a = with("Llama-3.1-8B", {}, {verb});
    for (const MemoryItem& item : fit(a.graph, a.plan, cluster, batch, 2048.0, find_engine(engine)).items)
      if (item.cls == TensorClass::kState) return item.bytes;
    return 0.0;
  };
  EXPECT_EQ(state("share prefix 1792", 64, "vllm"), 131072.0 * (64 * 2048 - 63 * 1792));
  EXPECT_EQ(state("share prefix 1799", 64, "vllm"), 131072.0 * (64 * 2048 - 63 * 1792));
  EXPECT_EQ(state("share prefix 1799", 64, "none"), 131072.0 * (64 * 2048 - 63 * 1799));
  EXPECT_EQ(state("share prefix 1792", 1, "vllm"), 131072.0 * 2048);
  EXPECT_EQ(state("share prefix 4096", 64, "vllm"), 131072.0 * 2048);  // all of it
  Asked a = with("Llama-3.1-8B", {}, {"share prefix 1792"});
  FitAnswer f = fit(a.graph, a.plan, cluster, 1, 2048.0, find_engine("none"));
  double room = f.capacity - f.total + 131072.0 * 2048;
  EXPECT_EQ(f.max_sequences, std::floor((room - 131072.0 * 1792) / (131072.0 * 256)));
}

TEST(SharedPrefix, RequestsThatFindItPrefillTheRest) {
  Cluster cluster = parse_cluster("h200");
  ServeQuestion q;
  q.input = 4096, q.output = 64, q.concurrency = 8, q.engine = find_engine("vllm");
  auto prefill = [&](const std::string& verb) {
    Asked a = with("Llama-3.1-8B", {}, {verb});
    return serve(a.graph, a.plan, cluster, q).prefill_seconds;
  };
  double whole = prefill("share prefix 0"), rest = prefill("share prefix 3840");
  EXPECT_EQ(prefill("share prefix 3840 hit 0"), whole);
  EXPECT_EQ(prefill("share prefix 3855"), rest);  // pages of 16: the last one is not whole
  EXPECT_NEAR(prefill("share prefix 3840 hit 0.25"), 0.25 * rest + 0.75 * whole, 1e-12);
  // The 256 tokens that are left see 3,840 keys before them.
  Asked plain = with("Llama-3.1-8B", {}, {});
  StepShape s;
  s.prefill_seqs = 1, s.prefill_tokens = 256, s.prefill_context = 3840;
  EXPECT_DOUBLE_EQ(rest, StepPredictor(plain.graph, under(plain.plan, q.engine), cluster).step(s).seconds);
  EXPECT_THAT(error_of([&] { prefill("share prefix 4096"); }), ::testing::HasSubstr("in common"));
  EXPECT_THAT(error_of([&] { with("Llama-3.1-8B", {}, {"shrink kv 512", "share prefix 64"}); }), ::testing::HasSubstr("not cut"));
}

double limit(const std::vector<BatchLimit>& limits, const std::string& what) {
  for (const BatchLimit& l : limits)
    if (l.what == what) return l.batch;
  return -1;
}

// Llama-3.1-8B reads 2 bytes of each of its 8.03 G weights but the embedding's 0.525 G in a step, and 131,072 bytes of
// each of 1,153 keys of a sequence halfway through its answer: 99 sequences read as much of both.
TEST(BatchLimits, FollowFromBytes) {
  Asked a = with("Llama-3.1-8B", {}, {});
  Cluster cluster = parse_cluster("h200");
  ServeQuestion q;
  q.engine = find_engine("vllm");
  std::vector<BatchLimit> limits = batch_limits(a.graph, a.plan, cluster, q);
  EXPECT_NEAR(limit(limits, "keys and values"), 2 * (8030261248.0 - 128256.0 * 4096) / (131072.0 * 1153), 1.5);
  EXPECT_EQ(limit(limits, "memory"), resident_sequences(a.graph, a.plan, cluster, q.input, q.output, q.engine));
  // 2 operations a weight and sequence against 2 bytes a weight: the machine's balance of 989.4e12 / 4.8e12 = 206, and
  // more or less by what kernels reach of both.
  EXPECT_GT(limit(limits, "arithmetic"), 206 * 0.6);
  EXPECT_LT(limit(limits, "arithmetic"), 206 * 2.2);
  EXPECT_EQ(limit(limits, "links"), -1);  // one GPU
  q.engine.token_seconds = 1e-3;          // of a step of some 6 ms
  double host = limit(batch_limits(a.graph, a.plan, cluster, q), "host");
  EXPECT_GT(host, 4);
  EXPECT_LT(host, 12);
  for (std::size_t i = 1; i < limits.size(); ++i) EXPECT_LE(limits[i - 1].batch, limits[i].batch);
}

// The host turns every accepted token into text: a served step takes that long from the limit's batch on, not before.
TEST(BatchLimits, TheHostSeesEveryAcceptedToken) {
  Asked a = with("Llama-3.1-8B", {}, {"speculate 4 accept 0.7 cost 0.05"});
  Cluster cluster = parse_cluster("h200");
  ServeQuestion q;
  q.input = 512, q.output = 64, q.engine = find_engine("vllm"), q.engine.token_seconds = 1e-4;
  double batch = limit(batch_limits(a.graph, a.plan, cluster, q), "host");
  ASSERT_GT(batch, 1);
  ASSERT_LT(batch, 1000);
  const double tokens = (1 - std::pow(0.7, 5)) / 0.3;
  auto step = [&](double b) {
    q.concurrency = b;
    return serve(a.graph, a.plan, cluster, q).decode_step_seconds;
  };
  EXPECT_NEAR(step(batch), 1e-4 * batch * tokens, 1e-9);
  EXPECT_GT(step(batch - 1), 1e-4 * (batch - 1) * tokens);
}

// Ranks of the batch do not meet: each serves what one serves alone, however many there are.
TEST(Rates, EveryDataRankServesTheSame) {
  ServeQuestion q;
  q.input = 512, q.output = 64, q.engine = find_engine("vllm");
  auto rate = [&](int dp) {
    Asked a = with("Llama-3.1-8B", ranks(1, dp), {});
    Cluster cluster = parse_cluster("h200:" + std::to_string(dp));
    double most = highest_rate(a.graph, a.plan, cluster, q);
    q.rate = 0.9 * most;
    EXPECT_LE(concurrency_at_rate(a.graph, a.plan, cluster, q), most_requests(a.plan));
    return most / dp;
  };
  double alone = rate(1);
  EXPECT_GT(alone, 0);
  for (int dp : {3, 4096, 32768}) EXPECT_NEAR(rate(dp), alone, 0.01 * alone) << dp;
}

TEST(Rates, AdviceServesWhatItSays) {
  Asked a = with("Llama-3.1-70B", ranks(2, 1), {});
  Cluster cluster = parse_cluster("h200:2");
  ServeQuestion q;
  q.input = 2048, q.output = 256, q.engine = find_engine("vllm");
  double most = highest_rate(a.graph, a.plan, cluster, q);
  q.rate = 0.98 * most;
  EXPECT_GT(concurrency_at_rate(a.graph, a.plan, cluster, q), 1);
  q.rate = 1.1 * most;
  EXPECT_THAT(error_of([&] { concurrency_at_rate(a.graph, a.plan, cluster, q); }), ::testing::HasSubstr("at most"));
  q.rate = 5;
  int enough = 0;
  for (const std::string& line : rate_advice(a.graph, a.plan, cluster, q)) {
    if (!line.starts_with("--weights fp8: up to")) continue;
    Asked narrow = with("Llama-3.1-70B", ranks(2, 1), {"requant weight fp8"});
    EXPECT_EQ(line.ends_with("enough"), highest_rate(narrow.graph, narrow.plan, cluster, q) >= q.rate) << line;
    EXPECT_GT(concurrency_at_rate(narrow.graph, narrow.plan, cluster, q), 1);
    ++enough;
  }
  EXPECT_EQ(enough, 1);
}

}  // namespace
}  // namespace orrery::graph
