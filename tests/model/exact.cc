// Section A of the acceptance, and companions: parameters and bytes. Expected numbers are the sources' own.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/ask.h"
#include "graph/autoencoder.h"
#include "graph/measured_rows.h"
#include "graph/render.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "known_miss.h"
#include "shared_data.h"

namespace orrery::graph {
namespace {

constexpr double kMiB = 1048576.0;

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

// The advice names what the same question with fp8 keys and values takes less: states of linear attention stay.
TEST(Fit, WhatNarrowKeysAndValuesWouldFree) {
  for (const char* name : {"Llama-3.1-8B", "Qwen3.5-397B-A17B"}) {
    Graph wide = build_transformer(load_transformer(name)), narrow = wide;
    Plan plan;
    apply_verb("requant kv fp8", narrow, plan);
    Cluster cluster{load_profile("h200"), 1};
    Engine none = find_engine("none");
    FitAnswer a = fit(wide, plan, cluster, 2000, 20000, none), b = fit(narrow, plan, cluster, 2000, 20000, none);
    EXPECT_THAT(
        fit_advice({wide, plan, cluster, 2000, 20000, none}, a),
        ::testing::Contains(::testing::HasSubstr(fmt::format("--kv fp8: {:.1f} GiB", b.total / kGiB))))
        << name;
  }
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

// Companions of the denoisers: their checkpoints' own counts.
TEST(E9, EncodersAndAutoencoders) {
  auto autoencoder = [](const char* kind) { return count_parameters(build_autoencoder(kind)).total; };
  EXPECT_EQ(autoencoder("kl"), 83819683);    // AutoencoderKL with 16 latent channels
  EXPECT_EQ(autoencoder("wan"), 126892531);  // Wan2.1_VAE.pth, 508 MB in 32 bits
  EXPECT_NEAR(autoencoder("dc") / 312.25e6, 1, 0.001);
  EXPECT_NEAR(autoencoder("ltx") / 419e6, 1, 0.02);
  // What tells LTX 0.9.7's decoder the noise level (diffusers' AutoencoderKLLTXVideo): embeddings of 256 values for four
  // vectors of 1024, 512, 256 and 128 channels and two of 128, four vectors in each of five blocks, two at the end.
  auto embedding = [](double n) { return 256 * n + n + n * n + n; };
  double vectors = 4 * 5 * (1024 + 512 + 256 + 128) + 2 * 128;
  EXPECT_EQ(autoencoder("ltx-0.9.7") - autoencoder("ltx-0.9.7 untimed"),
            embedding(4096) + embedding(2048) + embedding(1024) + embedding(512) + embedding(256) + vectors);
  EXPECT_EQ(parameters("Gemma-2-2B"), 2614341888.0);
  EXPECT_NEAR(parameters("CLIP-G text encoder"), 694.66e6, 2e6);
  EXPECT_NEAR(parameters("T5-XXL encoder"), 4762310656.0, 3000);  // less the table of relative positions
}

}  // namespace
}  // namespace orrery::graph
