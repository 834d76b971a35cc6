// What an answer says to do: about GPUs that stand idle, limits that nothing meets, goals that are missed,
// values that had to be assumed; and what stays untouched when a question is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "../error_of.h"
#include "base/error.h"
#include "config_cases.h"
#include "graph/graph_file.h"
#include "graph/search.h"
#include "graph/train.h"
#include "graph/validate_goals.h"
#include "graph/verbs.h"
#include "shared_data.h"

namespace orrery::graph {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Graph llama() { return build_transformer(load_transformer("Llama-3.1-8B")); }

// What a question of memory is told to change.
std::vector<std::string> advised(const Graph& graph, const Plan& plan, const Cluster& cluster, double batch,
                                 double context) {
  Engine none = find_engine("none");
  return fit_advice({graph, plan, cluster, batch, context, none},
                    fit(graph, plan, cluster, batch, context, none));
}

TEST(Advice, GpusThatThePlanDoesNotUse) {
  Plan plan;
  EXPECT_THAT(advised(llama(), plan, {load_profile("h200"), 8}, 1, 4096),
              Contains(HasSubstr("uses 1 of 8 GPUs: --tp 8")));
  // 32 heads over 3 ranks: no such plan is proposed.
  EXPECT_THAT(advised(llama(), plan, {load_profile("h200"), 3}, 1, 4096),
              Contains(HasSubstr("uses 1 of 3 GPUs: --tp, --pp or --dp")));
  plan.tp = 8;
  EXPECT_TRUE(advised(llama(), plan, {load_profile("h200"), 8}, 1, 4096).empty());
}

// 131.4 GiB of weights and 50 of keys and values: four GPUs of 79 GiB hold them, two do not; one does only
// when both are narrower. In 8 bits the weights take 2.1 G x 2 (embedding and head) and 68.5 G bytes: 67.7
// GiB, beside 50 and some 2.
TEST(Advice, ChangesThatMakeItFitDo) {
  Graph g = build_transformer(load_transformer("Llama-3.1-70B"));
  Cluster one{load_profile("h100"), 1};
  std::vector<std::string> advice = advised(g, {}, one, 20, 8192);
  EXPECT_THAT(advice, Contains(HasSubstr("--weights fp8: 119.")));
  EXPECT_THAT(advice, Contains(AllOf(HasSubstr("--kv fp8 --weights 'int4 g128'"), HasSubstr("fits"))));
  EXPECT_THAT(advice, Contains(AllOf(HasSubstr("--gpu h100:4 --tp 4"), HasSubstr("fits"))));
  Plan four;
  four.tp = 4;
  EXPECT_TRUE(fit(g, four, {one.gpu, 4}, 20, 8192, find_engine("none")).fits);
  four.tp = 2;
  EXPECT_FALSE(fit(g, four, {one.gpu, 2}, 20, 8192, find_engine("none")).fits);
}

// 405 G weights in 16 bits and 4,096 sequences of 128 K tokens, 500 KB each: 260 TB, where 64 GPUs have 9.
TEST(Advice, WhatNoGpusHoldIsSaid) {
  Graph g = build_transformer(load_transformer("Llama-3.1-405B"));
  EXPECT_THAT(advised(g, {}, {load_profile("h200"), 1}, 4096, 128 * 1024),
              Contains(HasSubstr("over up to 64 GPUs holds it either")));
  Plan many;
  many.tp = 8, many.pp = 6;
  EXPECT_THAT(advised(g, many, {load_profile("h200"), 48}, 4096, 128 * 1024),
              Contains(HasSubstr("more than 48 GPUs were not tried")));
}

// A micro-batch changes nothing else of an iteration: the advice names the sequences, which otherwise follow from it.
TEST(Advice, SmallerMicroBatchesKeepTheIteration) {
  Graph g = llama();
  Cluster one{load_profile("h100"), 1};
  Plan plan;
  plan.zero = 0, plan.place.optimizer = Tier::kHost, plan.place.gradients = Tier::kHost;
  TrainQuestion q;
  q.sequence = 8192, q.micro_batch = 4, q.global_batch = 16;
  EXPECT_THAT(train_advice(g, plan, one, q, train(g, plan, one, q)), Contains(HasSubstr("--micro-batch 1 --batch 16")));
}

// GPT-2's 3 GB of keys and values for 2,048 sequences of 40 tokens fit by far; Llama 70B's on one H200 do not.
TEST(Advice, MostLoadSaysWhereItStops) {
  Cluster one{load_profile("h200"), 1};
  EXPECT_TRUE(serve_max_load(load_graph("gpt-2"), {}, one, 20, 20, find_engine("trtllm")).capped);
  EXPECT_FALSE(serve_max_load(llama(), {}, one, 2048, 2048, find_engine("trtllm")).capped);
}

// A model without a cache has no keys and values to narrow.
TEST(Advice, FormatsThatAreTriedAreNamed) {
  SearchQuestion q;
  q.threads = 1;
  Cluster one{load_profile("h200"), 1};
  Graph mamba = build_transformer(read_hf_config(config_case("falcon-mamba-7b").json, "config.json"));
  EXPECT_THAT(search_document(llama(), {}, one, q).dump(), HasSubstr("keys and values in bf16, fp8 (given: bf16)"));
  EXPECT_THAT(search_document(mamba, {}, one, q).dump(), Not(HasSubstr("keys and values")));
}

// Each change that is said to suffice does when it is asked; where none does alone, some together.
TEST(Advice, ChangesThatMakeAnIterationFitDo) {
  Graph g = llama();
  Cluster eight{load_profile("h100"), 8};
  Plan plan;
  plan.dp = 8;
  TrainQuestion q;
  q.sequence = 8192, q.global_batch = 64;
  TrainAnswer a = train(g, plan, eight, q);
  std::vector<std::string> advice = train_advice(g, plan, eight, q, a);
  ASSERT_FALSE(a.fits);
  EXPECT_THAT(advice, Contains(AllOf(HasSubstr("--zero 3: "), HasSubstr("fits"))));
  plan.zero = 3;
  EXPECT_TRUE(train(g, plan, eight, q).fits);
  EXPECT_TRUE(train_advice(g, plan, eight, q, train(g, plan, eight, q)).empty());
  plan.zero = 0, q.sequence = 16384;
  TrainAnswer longer = train(g, plan, eight, q);
  EXPECT_THAT(train_advice(g, plan, eight, q, longer),
              Contains(AllOf(HasSubstr("--zero 3 --recompute"), HasSubstr("fits"))));
}

// A checkpoint that is quantized in part keeps its formats.
TEST(Advice, QuantizedWeightsStay) {
  Cluster one{load_profile("rtx4090"), 1};
  std::vector<std::string> advice = advised(load_graph("gpt-oss-120b"), {}, one, 1, 4096);
  EXPECT_FALSE(advice.empty());
  for (const std::string& a : advice) EXPECT_EQ(a.find("--weights"), a.npos) << a;
  SearchQuestion q;
  q.threads = 1;
  SearchResult r = search(load_graph("gpt-oss-20b"), {}, one, q);
  EXPECT_FALSE(r.front.empty());
  for (const Candidate& c : r.front) EXPECT_EQ(c.weights, "as given");
}

// A server that answered other questions answers as one that did not.
TEST(Advice, ServersKeepNothingOfAQuestion) {
  Graph g = build_transformer(load_transformer("Qwen3-30B-A3B"));
  Cluster one{load_profile("h200"), 1};
  Server server(g, {}, one, find_engine("vllm"));
  for (double input : {512., 9000., 512.})
    for (double batch : {1., 64., 3000.}) {
      ServeQuestion q;
      q.input = input, q.concurrency = batch, q.engine = find_engine("vllm");
      ServeAnswer kept = server.serve(q), fresh = serve(g, {}, one, q);
      EXPECT_EQ(kept.tpot, fresh.tpot) << input << " " << batch;
      EXPECT_EQ(kept.ttft, fresh.ttft) << input << " " << batch;
      EXPECT_EQ(kept.joules_per_token, fresh.joules_per_token) << input << " " << batch;
    }
  ServeQuestion other;
  other.engine = find_engine("sglang");
  EXPECT_THAT(error_of([&] { server.serve(other); }), HasSubstr("runs vllm, not sglang"));
  other.engine = find_engine("vllm");
  other.engine.joins_reduce_norm = true;
  EXPECT_THAT(error_of([&] { server.serve(other); }), HasSubstr("with other properties"));
}

TEST(Advice, LimitsThatNoPlanMeets) {
  SearchQuestion q;
  q.limits = {"tpot=0.001ms"};
  q.threads = 1;
  Cluster one{load_profile("h200"), 1};
  SearchResult r = search(llama(), {}, one, q);
  EXPECT_TRUE(r.front.empty());
  EXPECT_GT(r.best_tpot, 1e-6);
  EXPECT_THAT(search_document(r, "m", one, q).dump(), HasSubstr("the shortest TPOT of any is"));
  Graph large = build_transformer(load_transformer("Llama-3.1-405B"));
  EXPECT_THAT(search_document(large, {}, one, q).dump(),
              HasSubstr("no plan fits into the memory of 1 x h200"));
}

TEST(Advice, VerbsThatRefuseChangeNothing) {
  Graph graph = llama();
  Plan plan;
  double before = compile(graph, plan).weight_bytes;
  for (const char* text :
       {"requant weight int4 g128 and more", "shard tensor 4 8", "place weight host share 0.5 twice",
        "recompute full full", "overlap data 0.5 0.7"}) {
    EXPECT_NE(error_of([&] { apply_verb(text, graph, plan); }), "no error") << text;
    EXPECT_EQ(compile(graph, plan).weight_bytes, before) << text;
    EXPECT_EQ(plan.tp, 1) << text;
    EXPECT_EQ(plan.place.weights, Tier::kDevice) << text;
    EXPECT_EQ(plan.recompute, RecomputePolicy::kNone) << text;
    EXPECT_EQ(plan.overlap_dp, 0) << text;
    EXPECT_TRUE(plan.verbs.empty()) << text;
  }
}

// The published checkpoint of gpt-oss-120b is said to fit one GPU of 80 GB, and counts so without a word
// about formats.
TEST(Advice, BuiltInModelsWeighWhatTheirCheckpointsDo) {
  Graph g = load_graph("gpt-oss-120b");
  EXPECT_NEAR(compile(g, Plan{}).weight_bytes, 65.25e9, 0.01 * 65.25e9);
  EXPECT_THAT(g.notes, Contains(HasSubstr("mxfp4")));
  BuildOptions given;
  given.stored = false;
  EXPECT_NEAR(compile(load_graph("gpt-oss-120b", given), Plan{}).weight_bytes, 2 * 116.83e9,
              0.01 * 2 * 116.83e9);
}

TEST(Advice, RatesThatAProfileDoesNotHaveAreSaid) {
  Plan near, far;
  far.dp = 64;
  Profile board = load_profile("rtx4090");  // its profile has no network
  auto network = HasSubstr("share of the network");
  EXPECT_THAT(assumed_rates(near, board), ::testing::Not(Contains(network)));
  EXPECT_THAT(assumed_rates(far, board), Contains(network));
  near.place.kv = Tier::kRemote;
  EXPECT_THAT(assumed_rates(near, board), Contains(network));
  near.place.kv = Tier::kNvme;
  EXPECT_THAT(assumed_rates(near, board), Contains(HasSubstr("a drive moves")));
}

// What a rank sends to the next stage, and, where the sequence is not divided, the whole that is gathered
// from the parts.
TEST(Advice, GatheredPartsOfAMessageCountAsLinkBytes) {
  BuildOptions o;
  o.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"), o);
  Plan p;
  p.tp = 2, p.pp = 2;
  TrainQuestion q;
  q.sequence = 2048, q.global_batch = 4;
  Cluster c{load_profile("h100"), 4};
  double hops = 2 * (4 + 1), whole = 2048 * 4096 * 2.0;
  EXPECT_EQ(train(g, p, c, q).pipeline_bytes, hops * (whole / 2 + whole));
  p.sequence_parallel = true;
  EXPECT_EQ(train(g, p, c, q).pipeline_bytes, hops * whole / 2);
}

// A prompt in a thousand chunks takes what its chunks take one by one.
TEST(Advice, PromptsInVeryManyChunks) {
  Graph g = llama();
  Plan plan;
  plan.chunk_tokens = 64;
  Cluster one{load_profile("h200"), 1};
  ServeQuestion q;
  q.input = 64 * 1000 + 10, q.output = 2, q.engine = find_engine("none");
  StepPredictor p(g, plan, one);
  double sum = 0;
  for (double done = 0; done < q.input; done += 64) {
    StepShape s;
    s.prefill_seqs = 1, s.prefill_tokens = std::min(64.0, q.input - done), s.prefill_context = done;
    sum += p.step(s).seconds;
  }
  EXPECT_NEAR(serve(g, plan, one, q).prefill_seconds / sum, 1, 1e-4);
}

TEST(Goals, AContradictionOfTheSourceIsNeitherMetNorMissed) {
  std::vector<Goal> goals = {{"median error, %", 8, 20, false, ""},
                             {"pairs in order, %", 91, 92, true, ""},
                             {"memory, %", 13, 10, false, "its unit is another"}};
  std::string text = goals_text(goals);
  EXPECT_THAT(text, HasSubstr("met     median error, %: 8.00 (at most 20)"));
  EXPECT_THAT(text, HasSubstr("MISSED  pairs in order, %: 91.00 (at least 92)"));
  EXPECT_THAT(text, HasSubstr("SOURCE  memory, %: 13.00 (at most 10)\n          the source contradicts itself: its unit is another"));
  EXPECT_THAT(text, HasSubstr("of 3 goals 1 met, 1 missed; of 1 the source contradicts itself"));
}

// What docs/model.md names, each with its arithmetic; to meet more is no failure.
TEST(Goals, OfThePublishedTables) {
  REQUIRE_DATA(megatron, "megatron.csv");
  REQUIRE_DATA(lengths, "long_sequence.csv");
  REQUIRE_DATA(mlperf, "mlperf_training.csv");
  std::vector<Goal> all = activation_goals(megatron), more = long_sequence_goals(lengths),
                    third = mlperf_goals(mlperf);
  EXPECT_EQ(third.size(), 3u);
  all.insert(all.end(), more.begin(), more.end()), all.insert(all.end(), third.begin(), third.end());
  constexpr const char* kNamed[] = {"relative activations of turing-530B, recomputation full",
                                    "relative activations of megatron-1T, recomputation full",
                                    "memory of 650000 tokens on one H200, read in GB of 10^9"};
  // The recipes' peaks are judged in both units.
  constexpr const char* kInGib = "memory of long sequences on one H200, read in GiB, 4 rows";
  EXPECT_EQ(std::count_if(more.begin(), more.end(), [&](const Goal& g) { return g.what.starts_with(kInGib); }), 1);
  for (const Goal& g : all) {
    if (g.met()) continue;
    EXPECT_TRUE(std::any_of(std::begin(kNamed), std::end(kNamed), [&](const char* n) { return g.what.starts_with(n); }))
        << g.what << " is missed at " << g.value;
    EXPECT_EQ(g.verdict(), Verdict::kContradiction) << g.what << " is missed at " << g.value;
  }
}

std::vector<std::string> names_of(const std::vector<Goal>& goals) {
  std::vector<std::string> names;
  for (const Goal& g : goals) names.push_back((g.met() ? "met " : "missed ") + g.what);
  return names;
}

TEST(Goals, NoFigureWithoutARow) {
  EXPECT_THAT(names_of(tpot_goals({})), ::testing::IsEmpty());
  EXPECT_THAT(names_of(throughput_goals({})), ::testing::IsEmpty());
  RenderAccuracy forwards;
  forwards.memory.compared = {{"FLUX.1-dev forward, bf16", "", 100, 101}};
  EXPECT_THAT(names_of(rendering_goals(forwards)),
              ::testing::ElementsAre("met FLUX.1-dev, memory of a forward, bf16: error, %"));
  Accuracy single;  // one row says nothing about an order
  single.compared = {{"g", "q", 1, 1}};
  EXPECT_THAT(names_of(tpot_goals(single)), ::testing::Not(Contains(HasSubstr("order"))));
}

TEST(Goals, RowsThatAreRefusedAreMissed) {
  Accuracy tpot;
  tpot.refused_rows = {{{"model", "m"}}};
  EXPECT_THAT(names_of(tpot_goals(tpot)), ::testing::ElementsAre("missed TPOT: rows without a prediction"));
  RenderAccuracy wan;
  wan.time.compared = {{"Wan2.1-T2V-14B on 1", "", 100, 101}, {"Wan2.1-T2V-14B on 2", "", 100, 101}};
  wan.time.refused_rows = {{{"model", "Wan2.1-T2V-14B"}, {"scope", "whole pipeline"}, {"variant", "bf16"}},
                           {{"model", "PixArt-alpha"}, {"scope", "whole pipeline"}, {"variant", "bf16"}}};
  std::vector<Goal> goals = rendering_goals(wan);
  EXPECT_THAT(names_of(goals), ::testing::ElementsAre("met Wan, seconds of a rendering, 2 rows: worst error, %",
                                                      "missed rendering, seconds: rows without a prediction"));
  EXPECT_EQ(goals[1].value, 1);
}

// A reason stands beside a miss only where the other reading of the source meets the limit.
TEST(Goals, AnotherUnitExplainsOnlyWhatItMends) {
  auto reason = [](double predicted) {
    RenderAccuracy r;  // Wan's table, GB
    r.memory.compared = {{"Wan2.1-T2V-14B on 1", "", predicted, 69.1},
                         {"Wan2.1-T2V-14B on 2", "", 53.9, 53.9},
                         {"Wan2.1-T2V-14B on 8", "", 29.9, 29.9}};
    for (const Goal& g : rendering_goals(r))
      if (g.what.find("10^9") != std::string::npos) return g.met() ? "met" : g.contradiction;
    return std::string("no goal");
  };
  EXPECT_THAT(reason(69.1), HasSubstr("its unit is GiB"));
  EXPECT_EQ(reason(90), "");
}

}  // namespace
}  // namespace orrery::graph
