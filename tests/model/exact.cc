// Sections A to E of the acceptance: identities and published facts. Expected numbers are the sources' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/ask.h"
#include "graph/autoencoder.h"
#include "graph/render.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "known_miss.h"
#include "graph/measured_rows.h"
#include "shared_data.h"

namespace orrery::graph {
namespace {

constexpr double kGiB = 1073741824.0, kMiB = 1048576.0;

double parameters(const std::string& name) {
  if (is_denoiser(name)) return count_parameters(build_denoiser(load_denoiser(name), {})).total;
  return count_parameters(build_transformer(load_transformer(name))).total;
}

double kv_per_token(const std::string& name, int tp = 1) {
  Graph g = build_transformer(load_transformer(name));
  Plan plan;
  plan.tp = tp;
  return compile(g, plan).state_bytes.coefficient[kKeys];
}

double weights(const std::string& name, const std::string& format, int tp = 1,
               const std::string& verb = "weight") {
  Graph g = build_transformer(load_transformer(name));
  Plan plan;
  plan.tp = tp;
  if (!format.empty()) apply_verb("requant " + verb + " " + format, g, plan);
  return compile(g, plan).weight_bytes;
}

TEST(A1, ParametersOfCheckpoints) {
  EXPECT_EQ(parameters("BLOOM-176B"), 176247271424.0);
  EXPECT_EQ(parameters("Llama-3.1-70B"), 70553706496.0);
  EXPECT_NEAR(parameters("FLUX.1-dev"), 11901.41e6, 0.01e6);
  EXPECT_NEAR(parameters("LTX-Video-13B"), 13042.57e6, 0.01e6);
}

TEST(A2, ParametersOfEveryModel) {
  REQUIRE_DATA(path, "models.json");
  auto root = nlohmann::json::parse(std::ifstream(path));
  for (const auto& m : root["models"]) {
    if (m["params_computed"].is_null()) continue;
    double expected = m["params_computed"].get<double>();
    double tolerance = m["family"] == "pixart" ? 1e-5 * expected : 0;  // size embedders: biases
    EXPECT_NEAR(parameters(m["name"]), expected, tolerance) << m["name"];
    if (!m.contains("active_matmul_params") || m["active_matmul_params"].is_null() || m["kind"] == "encoder")
      continue;
    auto c = count_parameters(build_transformer(load_transformer(m["name"])));
    EXPECT_EQ(c.matmul_active, m["active_matmul_params"].get<double>()) << m["name"];
  }
  EXPECT_EQ(parameters("Llama-2-7B"), 6738415616.0);
  EXPECT_EQ(parameters("Llama-3.1-405B"), 405853388800.0);
  EXPECT_NEAR(parameters("Mixtral-8x7B"), 46.70e9, 0.01 * 46.70e9);
  EXPECT_NEAR(parameters("DeepSeek-V3"), 671.03e9, 0.01e9);
  EXPECT_NEAR(parameters("Kimi-K2"), 1026e9, 10e9);
}

TEST(A3, MegatronParameterFormula) {
  struct {
    int layers, hidden, heads;
    double expected, tolerance;
  } rows[] = {{40, 6144, 48, 18.4e9, 0.003},      {48, 8192, 64, 39.1e9, 0.003},
              {60, 10240, 80, 76.1e9, 0.003},     {80, 12288, 96, 145.6e9, 0.003},
              {96, 16384, 128, 310.1e9, 0.003},   {105, 20480, 128, 529.6e9, 0.003},
              {128, 25600, 160, 1008.0e9, 0.003}, {24, 2304, 24, 1.7e9, 0.03},
              {30, 3072, 32, 3.6e9, 0.03},        {36, 4096, 32, 7.5e9, 0.03}};
  for (const auto& r : rows) {
    auto g = build_transformer(megatron_gpt("gpt", r.layers, r.hidden, r.heads, 2048, 51200));
    EXPECT_NEAR(count_parameters(g).total / r.expected, 1, r.tolerance) << r.expected;
  }
}

TEST(A4, KvBytesPerToken) {
  const std::pair<const char*, double> rows[] = {
      {"Llama-2-7B", 524288},   {"Llama-2-70B", 327680},    {"Llama-3.1-70B", 327680},
      {"Qwen2.5-72B", 327680},  {"Llama-3.1-8B", 131072},   {"Mistral-7B-v0.1", 131072},
      {"Mixtral-8x7B", 131072}, {"Llama-3.1-405B", 516096}, {"Qwen3-8B", 147456},
      {"Qwen3-32B", 262144},    {"Qwen3-30B-A3B", 98304},   {"Qwen3-235B-A22B", 192512},
      {"OPT-175B", 4718592},    {"GPT-3-175B", 4718592},    {"Falcon-7B", 8192}};
  for (auto [name, bytes] : rows) EXPECT_EQ(kv_per_token(name), bytes) << name;
}

TEST(A5, LatentKvIsReplicated) {
  EXPECT_EQ(kv_per_token("DeepSeek-V2"), 69120);
  EXPECT_EQ(kv_per_token("DeepSeek-V3"), 70272);
  EXPECT_EQ(kv_per_token("Kimi-K2"), 70272);
  EXPECT_EQ(kv_per_token("DeepSeek-V3", 8), 70272);
  // Under attention data parallelism 8 a rank holds an eighth of the sequences.
  Graph g = build_transformer(load_transformer("DeepSeek-V3"));
  Plan plan;
  plan.dp = plan.ep = 8;
  Cluster cluster{load_profile("h200"), 8};
  auto kv = [&](const FitAnswer& a) {
    for (const MemoryItem& item : a.items)
      if (item.cls == TensorClass::kState) return item.bytes;
    return 0.0;
  };
  EXPECT_EQ(kv(fit(g, plan, cluster, 64, 4096, find_engine("none"))), 8 * 4096 * 70272.0);
}

TEST(A6, WindowedKvOfGptOss) {
  Graph g = build_transformer(load_transformer("gpt-oss-120b"));
  EXPECT_EQ(state_bytes(g, compile(g, Plan{}), 1, 8192), 306708480.0);
}

TEST(A7, WindowedKvOfGemma3) {
  Graph g = build_transformer(load_transformer("Gemma-3-27B"));
  EXPECT_NEAR(state_bytes(g, compile(g, Plan{}), 1, 32768) / kGiB, 2.906, 0.0029);
}

TEST(A9, Mxfp4Experts) {
  EXPECT_NEAR(weights("gpt-oss-120b", "mxfp4 experts-only"), 65.25e9, 0.01 * 65.25e9);
  EXPECT_NEAR(weights("gpt-oss-20b", "mxfp4 experts-only"), 13.76e9, 0.01 * 13.76e9);
}

TEST(A10, Glm130b) {
  EXPECT_NEAR(weights("GLM-130B", ""), 257.4e9, 0.05 * 257.4e9);
  EXPECT_NEAR(weights("GLM-130B", "int8"), 130.5e9, 0.05 * 130.5e9);
  EXPECT_NEAR(weights("GLM-130B", "int4"), 67.1e9, 0.05 * 67.1e9);
}

TEST(A12, KddCupOnFourT4) {
  Graph g = build_transformer(load_transformer("Qwen2-72B"));
  Plan plan;
  plan.tp = 4;
  apply_verb("requant weight int4 g128", g, plan);
  double rank = compile(g, plan).weight_bytes;
  EXPECT_NEAR(rank * 4, 41.5e9, 0.03 * 41.5e9);
  EXPECT_NEAR(rank, 10.4e9, 0.03 * 10.4e9);
  Cluster t4{load_profile("t4"), 4};
  EXPECT_TRUE(fit(g, plan, t4, 1, 1024, find_engine("none")).fits);
  Graph wide = build_transformer(load_transformer("Qwen2-72B"));
  Plan eight;
  eight.tp = 4;
  apply_verb("requant weight int8", wide, eight);
  EXPECT_FALSE(fit(wide, eight, t4, 1, 1024, find_engine("none")).fits);
}

TEST(A14, GrowthOfMemoryWithTokens) {
  const std::pair<const char*, double> rows[] = {{"Qwen3-0.6B", 114688}, {"Qwen3-4B", 147456},
                                                 {"Qwen3-8B", 147456},   {"Qwen3-14B", 163840},
                                                 {"Qwen3-32B", 262144},  {"Qwen3-30B-A3B", 98304}};
  for (auto [name, bytes] : rows) EXPECT_EQ(kv_per_token(name), bytes) << name;
}

TEST(A15, MemoryOfWholeRuns) {
  const std::tuple<const char*, double, double> rows[] = {
      {"Qwen3-8B", 20267, 0.003}, {"Qwen3-32B", 70728, 0.003}, {"Qwen3-30B-A3B", 61342, 0.003}};
  for (auto [name, mib, tolerance] : rows) {
    Graph g = build_transformer(load_transformer(name));
    Program p = compile(g, Plan{});
    EXPECT_NEAR((p.weight_bytes + state_bytes(g, p, 1, 30720 + 2048)) / kMiB / mib, 1, tolerance) << name;
  }
}

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

struct MegatronRun {
  int layers, hidden, heads, tp, pp, interleave, micro, batch;
  double state, none, selective, full_seconds, selective_seconds;
};
constexpr MegatronRun kRuns[] = {
    {48, 6144, 64, 8, 1, 1, 4, 4, 45.5625, 59.25, 9.5625, 1.42, 1.10},
    {96, 12288, 96, 8, 8, 3, 1, 64, 45.5625, 66.84375, 12.3515625, 18.13, 13.75},
    {105, 20480, 128, 8, 35, 3, 1, 280, 31.640625, 114.0234375, 23.076171875, 49.05, 37.83},
    {128, 25600, 160, 8, 64, 1, 1, 512, 32.958984375, 131.25, 26.5625, 94.42, 71.49}};

Graph megatron_graph(const MegatronRun& r) {
  return build_transformer(megatron_gpt("gpt", r.layers, r.hidden, r.heads, 2048, 51200),
                           {true, true, true, 2048});
}
Plan megatron_plan(const MegatronRun& r) {
  Plan p;
  p.tp = r.tp, p.pp = r.pp, p.virtual_stages = r.interleave;
  if (r.interleave > 1) p.schedule = PipelineSchedule::kInterleaved;
  return p;
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

// All twenty values of the figure, as they were read from it. Two of them, full recomputation of the models with
// 1/(2 x 21) of the rest, were read as 9.42: 2 / (34/t + 5 a s / (h t)) is 9.52.
TEST(B5, TwentyRelativeActivations) {
  REQUIRE_DATA(path, "megatron.csv");
  int rows = 0, misses = 0;
  for (const Row& row : read_rows(path)) {
    if (row.at("set") != "seqsel2022-fig7") continue;
    MegatronRun r{whole(row, "layers"), whole(row, "hidden"), whole(row, "heads"), whole(row, "tp"), whole(row, "pp"),
                  whole(row, "vp"), whole(row, "mbs"), whole(row, "gbs"), {}, {}, {}, {}, {}};
    Graph g = megatron_graph(r);
    Plan p = megatron_plan(r);
    double none = activation_bytes(g, p, 2048, r.micro);
    const std::string& recompute = row.at("recompute");
    p.recompute = recompute == "full"        ? RecomputePolicy::kFull
                  : recompute == "selective" ? RecomputePolicy::kSelective
                                             : RecomputePolicy::kNone;
    p.sequence_parallel = row.at("seq_parallel") == "yes";
    double error = 100 * activation_bytes(g, p, 2048, r.micro) / none / number(row, "act_rel_pct", 0) - 1;
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

// 500 K ran on 80 GB, without a remark on memory: the GPU alone would hold more by the rows on an H200 (below, within
// 5%). At 500 K the host holds a quarter of a terabyte.
TEST(B9, TiledSequenceOnH100) {
  Plan plan = long_sequence_plan(true, true, true);
  Cluster h100{load_profile("h100"), 1};
  TrainQuestion q;
  q.sequence = 500000;
  TrainAnswer a = train(llama8b_training(), plan, h100, q);
  EXPECT_TRUE(a.fits);
  EXPECT_GT(a.host_bytes, 250e9);
  expect_known_miss("longest tiled sequence on one H100",
                    longest_sequence(llama8b_training(), plan, h100, {}) / 500000 - 1, 0.15, 0.55);
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

TEST(C1, TrainingOperationsPerToken) {
  const std::tuple<const char*, double, double> rows[] = {{"Llama-3.1-8B", 8192, 51.48},
                                                          {"Llama-3.1-70B", 8192, 448.8},
                                                          {"Llama-3.1-405B", 8192, 2524},
                                                          {"Qwen3-30B-A3B", 4096, 22.94},
                                                          {"Qwen3-235B-A22B", 4096, 147.9}};
  BuildOptions o;
  o.training = true;
  for (auto [name, seq, gflop] : rows)
    EXPECT_NEAR(
        training_flops_per_token(build_transformer(load_transformer(name), o), seq, true) / 1e9 / gflop, 1,
        0.01)
        << name;
}

TEST(C2, MegatronShareOfPeak) {
  auto a = ask("peak-share", {"502e15", "3072", "312e12"});
  EXPECT_NEAR(a[0].value / 1e12, 163.4, 0.05);
  EXPECT_NEAR(a[1].value, 0.524, 0.002);
}

TEST(C3, MegatronIterations) {
  double sum = 0;
  for (const auto& r : kRuns) {
    Graph g = megatron_graph(r);
    Plan p = megatron_plan(r);
    TrainQuestion q;
    q.sequence = 2048, q.micro_batch = r.micro, q.global_batch = r.batch, q.causal = false;
    Cluster cluster{load_profile("a100"), r.tp * r.pp};
    auto error = [&](RecomputePolicy policy, bool sp, double seconds) {
      p.recompute = policy, p.sequence_parallel = sp;
      double e = std::fabs(train(g, p, cluster, q).seconds / seconds - 1);
      EXPECT_LT(e, 0.09) << r.hidden << " " << seconds;
      sum += e;
    };
    error(RecomputePolicy::kFull, false, r.full_seconds);
    error(RecomputePolicy::kSelective, true, r.selective_seconds);
  }
  EXPECT_LT(sum / 8, 0.05);
}

TEST(C6, MlperfLlama405b) {
  BuildOptions o;
  o.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-405B"), o);
  auto rate = [&](int gpus) {
    Plan p;
    p.tp = 4, p.pp = 8, p.cp = 2, p.dp = gpus / 64;
    p.schedule = PipelineSchedule::kInterleaved, p.virtual_stages = 8;
    p.sequence_parallel = true, p.compute = kFp8, p.zero = 1;
    TrainQuestion q;
    q.sequence = 8192, q.global_batch = 1152;
    return 1152 / train(g, p, {load_profile("h200"), gpus}, q).seconds;
  };
  double half = rate(512), whole = rate(1024);
  EXPECT_NEAR(half / 22.995, 1, 0.15);
  EXPECT_NEAR(whole / 45.33, 1, 0.15);
  EXPECT_NEAR(whole / half / 2, 0.986, 0.02);
}

TEST(D1, SwiftKvCountsSkippedWork) {
  auto a = ask("throughput-claim", {"70e9", "16e3", "4", "0.5"});
  EXPECT_EQ(a[0].value, 560e12);
  EXPECT_EQ(a[1].value, 280e12);
}

TEST(D2, SwiftKvKept) {
  EXPECT_EQ(ask("kv-kept", {"2", "0.5"})[0].value, 0.75);
  EXPECT_EQ(ask("kv-kept", {"2", "0.5", "8"})[0].value, 0.375);
  EXPECT_EQ(ask("kv-kept", {"4", "0.5"})[0].value, 0.625);
}

TEST(E1, FluxForward) {
  DenoiserFlops f = denoiser_flops(load_denoiser("flux-dev"), {});
  EXPECT_NEAR(f.linear / 59.5e12, 1, 0.001);
  EXPECT_NEAR(f.attention / 14.9e12, 1, 0.005);
}

double denoiser_peak(const RenderAnswer& a) {
  // The source measures what the framework allocated: without the CUDA context.
  for (const RenderStage& s : a.stages)
    if (s.name == "denoiser") return (s.bytes() - load_profile("l40").context_bytes().value()) / kGiB;
  return 0;
}

TEST(E2, FluxMemory) {
  RenderQuestion q;
  Cluster l40{load_profile("l40"), 1};
  DiffusionSpec flux = load_denoiser("flux-dev");
  EXPECT_NEAR(denoiser_peak(render(flux, {}, l40, q)) / 22.6, 1, 0.03);
  q.weights = parse_dtype("nf4");
  EXPECT_NEAR(denoiser_peak(render(flux, {}, l40, q)) / 6.72, 1, 0.05);
  q.weights = kBf16;
  q.layer_offload = true;
  EXPECT_NEAR(denoiser_peak(render(flux, {}, l40, q)) / 0.55, 1, 0.20);
}

TEST(E3, Ltx13bForward) {
  RenderShape s;
  s.width = 704, s.height = 512, s.frames = 161;
  EXPECT_NEAR(denoiser_flops(load_denoiser("LTX-Video-13B"), s).linear / 167.57e12, 1, 0.001);
}

TEST(E5, LtxTokens) {
  auto a = ask("tokens", {"LTX-Video-2B", "768", "512", "121"});
  EXPECT_EQ(a[0].value, 6144);
  EXPECT_EQ(a[1].value, 32 * 32 * 8);
  EXPECT_EQ(a[2].value, 192);
}

RenderShape video(int width, int height) {
  RenderShape s;
  s.width = width, s.height = height, s.frames = 81;
  return s;
}

TEST(E6, Wan14bForward) {
  DiffusionSpec wan = load_denoiser("Wan2.1-T2V-14B");
  EXPECT_EQ(latent_tokens(wan, video(832, 480)), 32760);
  DenoiserFlops f = denoiser_flops(wan, video(832, 480));
  EXPECT_NEAR(f.linear / 785.4e12, 1, 0.002);
  EXPECT_NEAR(f.attention / 892.9e12, 1, 0.002);
}

// The table of Wan's memory says GB. From 2 to 8 GPUs it falls by what the divided weights weigh in GiB, to 0.1, and by
// nothing that they weigh in GB: its unit is GiB, and all of its rows are read so. The other reading misses.
TEST(E7, Wan1300mOn4090) {
  RenderQuestion q;
  q.shape = video(832, 480);
  q.encoder_on_host = true;
  auto a = render(load_denoiser("Wan2.1-T2V-1.3B"), {}, {load_profile("rtx4090"), 1}, q);
  EXPECT_NEAR(a.peak_bytes / kGiB / 8.19, 1, 0.10);
  expect_known_miss("memory of Wan 1.3B, read in GB", a.peak_bytes / 8.19e9 - 1, 0.10, 0.15);
  EXPECT_NEAR(a.seconds / 261.4, 1, 0.20);
  q.encoder_on_host = false;
  EXPECT_GT(render(load_denoiser("Wan2.1-T2V-1.3B"), {}, {load_profile("rtx4090"), 1}, q).peak_bytes, 8.19 * kGiB);
}

TEST(E8, Wan14bAt720p) {
  const std::pair<const char*, double> rows[] = {{"h20", 6936}, {"a100", 3343}, {"h100", 1838}};
  RenderQuestion q;
  q.shape = video(1280, 720);
  for (auto [gpu, seconds] : rows) {
    auto a = render(load_denoiser("Wan2.1-T2V-14B"), {}, {load_profile(gpu), 1}, q);
    EXPECT_NEAR(a.peak_bytes / kGiB / 69.1, 1, 0.05) << gpu;
    expect_known_miss("memory of Wan 14B, read in GB", a.peak_bytes / 69.1e9 - 1, 0.05, 0.10);
    EXPECT_NEAR(a.seconds / seconds, 1, 0.20) << gpu;
  }
}

// The same table on 2, 4 and 8 GPUs: weights divided, sequence divided, every component stays.
TEST(E8, WanOnSeveralGpus) {
  REQUIRE_DATA(path, "diffusion.csv");
  RenderAccuracy all = validate_render(path);
  int rows = 0;
  for (const Compared& c : all.memory.compared)
    if (!c.group.ends_with(" on 1")) {
      EXPECT_NEAR(c.predicted / c.measured, 1, 0.05) << c.group;
      ++rows;
    }
  for (const Compared& c : all.time.compared) {
    bool slow_links = c.group == "Wan2.1-T2V-1.3B on 8";
    if (slow_links)
      expect_known_miss("time of Wan 1.3B on eight 4090s", c.predicted / c.measured - 1, 0.20, 0.35);
    else
      EXPECT_NEAR(c.predicted / c.measured, 1, 0.20) << c.group;
  }
  EXPECT_EQ(rows, 21);
}

// Companions of the denoisers: their checkpoints' own counts.
TEST(E9, EncodersAndAutoencoders) {
  auto autoencoder = [](const char* kind) { return count_parameters(build_autoencoder(kind)).total; };
  EXPECT_EQ(autoencoder("kl"), 83819683);    // AutoencoderKL with 16 latent channels
  EXPECT_EQ(autoencoder("wan"), 126892531);  // Wan2.1_VAE.pth, 508 MB in 32 bits
  EXPECT_NEAR(autoencoder("dc") / 312.25e6, 1, 0.001);
  EXPECT_NEAR(autoencoder("ltx") / 419e6, 1, 0.02);
  EXPECT_EQ(parameters("Gemma-2-2B"), 2614341888.0);
  EXPECT_NEAR(parameters("CLIP-G text encoder"), 694.66e6, 2e6);
  EXPECT_NEAR(parameters("T5-XXL encoder"), 4762310656.0, 3000);  // less the table of relative positions
}

}  // namespace
}  // namespace orrery::graph
