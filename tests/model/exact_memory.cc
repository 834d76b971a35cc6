// Section B of the acceptance: training memory. Expected numbers are the sources' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/ask.h"
#include "graph/autoencoder.h"
#include "graph/measured_rows.h"
#include "graph/render.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "known_miss.h"
#include "megatron_runs.h"
#include "shared_data.h"

namespace orrery::graph {
namespace {

TEST(B1, ZeroStates) {
  const double expected[] = {120, 31.4, 16.6, 1.88};
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_NEAR(7.5 * zero_states(stage, 64).total(), expected[stage], 0.1);
}

TEST(B2, MegatronBytesPerParameter) {
  EXPECT_EQ(megatron_bytes_per_parameter("fp16", 1), 20);
  EXPECT_EQ(megatron_bytes_per_parameter("bf16", 1), 18);
  EXPECT_EQ(megatron_bytes_per_parameter("fp32", 1), 16);
  EXPECT_EQ(megatron_bytes_per_parameter("fp16", 8), 4 + 16.0 / 8);
  EXPECT_EQ(megatron_bytes_per_parameter("bf16", 8), 6 + 12.0 / 8);
  EXPECT_EQ(megatron_bytes_per_parameter("fp32", 8), 8 + 8.0 / 8);
  EXPECT_THROW(megatron_bytes_per_parameter("fp8", 8), std::runtime_error);
}

TEST(B3, ParametersAndOptimizerPerGpu) {
  for (const auto& r : kRuns)
    EXPECT_EQ(count_parameters(megatron_graph(r)).linear * 18 / (r.tp * r.pp) / kGiB, r.state);
}

TEST(B4, ActivationsOfTheFirstStage) {
  for (const auto& r : kRuns) {
    Graph g = megatron_graph(r);
    Plan p = megatron_plan(r);
    EXPECT_DOUBLE_EQ(activation_bytes(g, p, 2048, r.micro) / kGiB, r.none);
    p.recompute = RecomputePolicy::kSelective;
    p.sequence_parallel = true;
    EXPECT_DOUBLE_EQ(activation_bytes(g, p, 2048, r.micro) / kGiB, r.selective);
  }
}

TEST(B5, RelativeActivations) {
  // 175B: none, sequence parallel, selective, both, full (figure 7 as read by calculon).
  Graph g = megatron_graph(kRuns[1]);
  Plan p = megatron_plan(kRuns[1]);
  auto percent = [&](RecomputePolicy policy, bool sp) {
    p.recompute = RecomputePolicy::kNone, p.sequence_parallel = false;
    double none = activation_bytes(g, p, 2048, 1);
    p.recompute = policy, p.sequence_parallel = sp;
    return 100 * activation_bytes(g, p, 2048, 1) / none;
  };
  EXPECT_NEAR(percent(RecomputePolicy::kNone, true) / 62.04, 1, 0.01);
  EXPECT_NEAR(percent(RecomputePolicy::kSelective, false) / 56.53, 1, 0.01);
  EXPECT_NEAR(percent(RecomputePolicy::kSelective, true) / 18.49, 1, 0.01);
  EXPECT_NEAR(percent(RecomputePolicy::kFull, false) / 8.71, 1, 0.01);
}

// All twenty values of the figure, as they were read from it: in steps of 100/562.5, on which all of them lie
// to the last of their digits. Two, full recomputation of two models, were read as step 53, 9.42; 2 / (10 +
// 24/t + 5 a s / (h t)) = 2/21 is 9.52, half way to the next step, 9.60.
TEST(B5, TwentyRelativeActivations) {
  REQUIRE_DATA(path, "megatron.csv");
  int rows = 0, misses = 0;
  for (const Row& row : read_rows(path)) {
    if (row.at("set") != "seqsel2022-fig7") continue;
    MegatronRun r{whole(row, "layers"),
                  whole(row, "hidden"),
                  whole(row, "heads"),
                  whole(row, "tp"),
                  whole(row, "pp"),
                  whole(row, "vp"),
                  whole(row, "mbs"),
                  whole(row, "gbs"),
                  {},
                  {},
                  {},
                  {},
                  {}};
    Graph g = megatron_graph(r);
    Plan p = megatron_plan(r);
    double none = activation_bytes(g, p, 2048, r.micro);
    const std::string& recompute = row.at("recompute");
    p.recompute = recompute == "full"        ? RecomputePolicy::kFull
                  : recompute == "selective" ? RecomputePolicy::kSelective
                                             : RecomputePolicy::kNone;
    p.sequence_parallel = row.at("seq_parallel") == "yes";
    constexpr double kStep = 100 / 562.5;
    double percent = 100 * activation_bytes(g, p, 2048, r.micro) / none, read = number(row, "act_rel_pct", 0);
    if (read < 100) {
      EXPECT_NEAR(read, std::round(read / kStep) * kStep, 0.005);
    }
    EXPECT_NEAR(percent, read, kStep * (1 + read / 100));
    double error = percent / read - 1;
    std::string name = row.at("model") + " " + recompute + " " + row.at("seq_parallel");
    if (std::fabs(error) > 0.01)
      expect_known_miss(("relative activations of " + name).c_str(), error, 0.01, 0.012), ++misses;
    ++rows;
  }
  EXPECT_EQ(rows, 20);
  EXPECT_EQ(misses, 2) << "docs/model.md says two of twenty";
}

Plan long_sequence_plan(bool tile_loss, bool offload, bool tile_mlp) {
  Plan p;
  p.zero = 3;
  p.recompute = RecomputePolicy::kFull;
  p.place.weights = p.place.optimizer = p.place.gradients = Tier::kHost;
  p.tile_loss = tile_loss, p.tile_mlp = tile_mlp;
  if (offload) p.place.checkpoints = Tier::kHost;
  return p;
}

Graph llama8b_training() {
  BuildOptions o;
  o.training = true;
  return build_transformer(load_transformer("Llama-3.1-8B"), o);
}

// LoRA of rank 16 on all linear layers of Llama-3.1-8B: 41,943,040 parameters, as its libraries print.
TEST(B6, LowRankAdapters) {
  BuildOptions o;
  o.training = true;
  EXPECT_EQ(adapter_parameters(build_transformer(load_transformer("Llama-3.1-8B"), o), 16), 41943040.0);
}

TEST(B9, LongestPlainSequenceOnH100) {
  double longest = longest_sequence(llama8b_training(), long_sequence_plan(false, false, false),
                                    {load_profile("h100"), 1}, {});
  EXPECT_GT(longest, 32000 * 0.85);
  EXPECT_LT(longest, 36000 * 1.15);
}

// Its recipe calls kernels with 32-bit offsets, and failed at 555,000 tokens with an illegal access, not for want of
// memory: 2^31 elements are 524,288 tokens of 4,096. At 500 K the host holds a quarter of a terabyte.
TEST(B9, TiledSequenceOnH100) {
  Plan plan = long_sequence_plan(true, true, true);
  plan.offset_bits = 32;
  Cluster h100{load_profile("h100"), 1};
  TrainQuestion q;
  q.sequence = 500000;
  TrainAnswer a = train(llama8b_training(), plan, h100, q);
  EXPECT_TRUE(a.fits);
  EXPECT_GT(a.host_bytes, 250e9);
  EXPECT_EQ(longest_sequence(llama8b_training(), plan, h100, {}), std::floor(std::exp2(31) / 4096 / 1000) * 1000);
  q.sequence = 555000;
  EXPECT_THROW(train(llama8b_training(), plan, h100, q), base::Error);
  plan.offset_bits = 64;
  EXPECT_TRUE(train(llama8b_training(), plan, h100, q).fits);
}

// No recipe of the source runs what the offsets of its kernels would forbid, among them one for eight GPUs whose
// feed-forward tensors have 300,000 x 14,336 elements, twice 2^31: kernels there have other offsets.
TEST(B9, OffsetsAllowEveryRecipeForH100) {
  REQUIRE_DATA(path, "long_sequence.csv");
  BuildOptions o;
  o.training = true;
  std::map<std::string, Graph> graphs;
  int rows = 0, longer = 0;
  for (const Row& row : read_rows(path)) {
    const std::string& model = row.at("model");
    if (!graphs.contains(model)) graphs.emplace(model, build_transformer(load_transformer(model), o));
    Plan plan = long_sequence_plan(row.at("liger") == "yes", row.at("act_ckpt_cpu_offload") == "yes", row.at("tiled_mlp") == "yes");
    plan.cp = whole(row, "gpus"), plan.ulysses = plan.cp > 1;
    plan.offset_bits = 32;
    double most = addressable_sequence(graphs.at(model), plan, 1), ran = number(row, "max_length", 0);
    bool h100 = row.at("gpu").starts_with("H100");
    rows += h100, longer += !h100 && ran > most;
    if (h100) {
      EXPECT_GE(most, ran) << model << " on " << plan.cp;
    }
  }
  EXPECT_EQ(rows, 19);
  EXPECT_EQ(longer, 2) << "650,000 and 1,200,000 tokens of 4,096 on an H200";
}

TEST(B10, LongSequencesOnH200) {
  struct {
    bool loss, offload, mlp;
    double sequence, gb;
  } rows[] = {{false, false, false, 65000, 137.36},
              {true, false, false, 300000, 134.96},
              {true, true, false, 650000, 126.81},
              {true, true, true, 1200000, 136.15}};
  Graph g = llama8b_training();
  for (const auto& r : rows) {
    TrainQuestion q;
    q.sequence = r.sequence;
    auto a = train(g, long_sequence_plan(r.loss, r.offload, r.mlp), {load_profile("h200"), 1}, q);
    // The tool that printed these divides by 2^30 and calls that GB. Read as 10^9 one of the four misses by 5.4%.
    EXPECT_NEAR(a.total / kGiB / r.gb, 1, 0.05) << r.sequence;
    if (r.sequence == 650000)
      expect_known_miss("memory of 650,000 tokens, read in GB", a.total / 1e9 / r.gb - 1, 0.05, 0.055);
    else
      EXPECT_NEAR(a.total / 1e9 / r.gb, 1, 0.05) << r.sequence;
  }
}

TEST(B11, WhereTheCheckpointsAre) {
  Graph g = llama8b_training();
  Plan p;
  p.recompute = RecomputePolicy::kFull;
  EXPECT_NEAR(activation_bytes(g, p, 300000, 1), 78.6e9, 0.05e9);
  EXPECT_NEAR(activation_bytes(g, p, 500000, 1), 131e9, 0.1e9);
  EXPECT_NEAR(ask("checkpoints", {"Llama-3.1-8B", "300000"})[1].value, 153.9e9, 0.05e9);
  TrainQuestion q;
  q.sequence = 500000;
  auto a = train(g, long_sequence_plan(true, true, true), {load_profile("h200"), 1}, q);
  for (const MemoryItem& item : a.items) {
    if (item.what != "activations") continue;
    EXPECT_EQ(item.bytes, 0);
  }
}

}  // namespace
}  // namespace orrery::graph
