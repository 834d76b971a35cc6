// Questions that have no answer end with exit status 2 and a sentence, never with a crash, a default or
// nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/schedule.h"
#include "graph/spec.h"
#include "orrery/model.h"
#include "profile/profile.h"

namespace orrery::graph {
namespace {

struct Asked {
  const char *question, *says;
};
constexpr Asked kRefused[] = {
    {"train llama-3.1-8b --gpu h100:8 --tp 0", "at least 1"},
    {"train llama-3.1-8b --gpu h100:8 --dp 0", "at least 1"},
    {"train llama-3.1-8b --gpu h100 --precision int4", "bf16, fp16 or fp8"},
    {"train llama-3.1-8b --gpu h100 --precision fp32", "bf16, fp16 or fp8"},
    {"train llama-3.1-8b --gpu h100 --do 'place checkpoint host'", "recompute full"},
    {"train llama-3.1-8b --gpu h100 --do 'adapt -5'", "not negative"},
    {"train llama-3.1-8b --gpu h100:8 --batch 12", "data-parallel 8: 16 is one"},
    {"fit ./nowhere/config.json", "no file ./nowhere/config.json"},
    {"fit llama-3.1-8b --gpu '2 x h100'", "h200:8"},
    {"serve llama-3.1-8b --rate -1", "--rate"},
    {"serve llama-3.1-8b --rate inf", "--rate"},
    {"serve bert-large --concurrency 0", "positive"},
    {"serve bert-large --input -4", "positive"},
    {"serve bert-large --cp 2", "cp divides"},
    {"render flux-dev --gpu h100 --steps -3", "--steps"},
    {"render sdxl --gpu h100 --layer-offload", "no layers here"},
    {"render flux-dev --gpu h100 --passes -1", "--passes"},
    {"plan llama-3.1-8b --gpu h200:8 --input 0", "positive"},
    {"serve llama-3.1-8b --input 0", "positive"},
    {"plan gpt2 --input 1024", "1024 positions"},
    {"plan bert-large --gpu h200:2", "ask `serve` for a batch"},
    {"render wan14b --gpu h200 --size 1280x720 --frames 80", "one more than a multiple of 4, such as 77"},
    {"render flux-dev --gpu h200 --size 1000", "1008 is one"},
    {"plan llama-3.1-8b --gpu h200:8 --cp 2", "cp"},
    {"plan llama-3.1-8b --gpu h200:8 --do 'admit split 1'", "admit split"},
    {"fit llama-3.1-8b --do 'shrink kv nan'", "finite"},
    {"fit llama-3.1-8b --do 'speculate 3 accept inf'", "finite"},
    {"fit llama-3.1-8b --weights 'vq 0.5x4'", "codebook"},
    {"fit llama-3.1-8b --weights 'vq 256x0.5'", "codebook"},
    {"ask kv-bytes-per-token llama-3.1-8b 1e18", "1e18"},
    {"ask kv-bytes-per-token llama-3.1-8b 0", "at least 1"},
    {"ask megatron 96 12288 96 2048 51200 0 8 3", "at least 1"},
    {"ask zero-states 7.5e9 1e12 64", "whole number"},
    {"serve llama-3.1-8b --dp 2147483647 --pp 2", "more than 1048576 GPUs"},
    {"serve llama-3.1-8b --cp 65536 --dp 65536", "more than 1048576 GPUs"},
    {"plan llama-3.1-8b --gpu h200:2147483647", "count of GPUs"},
    {"plan llama-3.1-8b --gpu h200:8 --slo gpus=8x", "count of GPUs"},
    {"plan llama-3.1-8b --gpu h200:8 --slo tpot=nanms", "a time"},
    {"render flux-dev --do 'stage 0 denoising'", "at least 1"},
    {"serve llama-3.1-8b --gpu h200:8 --do 'stage 4 denoising'", "steps of a denoiser"},
    {"train llama-3.1-8b --gpu h200:8 --batch 8 --do 'stage 4 denoising'", "steps of a denoiser"},
    {"serve llama-3.1-8b --do 'sparsify 2:4' --do 'sparsify 2:4'", "already"},
    {"serve mixtral-8x7b --do 'replace experts 1'", "chooses 2"},
    {"fit llama-3.1-8b --do 'repeat layer 1e9'", "more than any model has"},
    {"train bert-large --seq 1024", "512 positions"},
    {"fit gpt-2 --context 4096", "1024 positions"},
    {"serve gpt-2 --input 1000 --output 100", "1024 positions"},
    {"serve gpt-2 --output 2000", "1024 positions"},
    {"plan llama-3.1-8b --gpu h200:8 --tp 2", "have no place in it"},
    {"plan llama-3.1-8b --gpu h200:8 --do 'shard tensor 2'", "have no place in it"},
    {"serve 'vit-l/16 (224, 1000 classes)' --input 100", "197 positions"},
};

TEST(Refusals, ByCommand) {
  for (const Asked& a : kRefused) {
    std::string text,
        command = std::string("timeout 20 " ORRERY_PROGRAM " model ") + a.question + " 2>&1 >/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_TRUE(pipe);
    for (char buffer[512]; fgets(buffer, sizeof buffer, pipe);) text += buffer;
    int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << a.question << ": " << status;
    EXPECT_THAT(text, ::testing::HasSubstr(a.says)) << a.question;
  }
}

// What a verb divides is what is asked about.
TEST(Refusals, RanksThatAVerbGaveAreKept) {
  std::string text;
  FILE* pipe =
      popen("timeout 20 " ORRERY_PROGRAM
            " model train llama-3.1-8b --gpu h100:8 --batch 8 --do 'shard data 4' --do 'shard zero 1' --json",
            "r");
  ASSERT_TRUE(pipe);
  for (char buffer[4096]; fgets(buffer, sizeof buffer, pipe);) text += buffer;
  pclose(pipe);
  EXPECT_THAT(text, ::testing::HasSubstr("tp 1 pp 1 dp 4 cp 1"));
}

std::string config(const std::string& fields) {
  return R"({"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
    "num_key_value_heads":8,"vocab_size":32000,)" +
         fields + "}";
}

TEST(Refusals, WindowsOfNoWidth) {
  auto build = [](const std::string& json) {
    return error_of([&] { build_transformer(read_hf_config(json, "config.json")); });
  };
  EXPECT_THAT(build(config(R"("architectures":["MistralForCausalLM"],"sliding_window":0)")),
              ::testing::HasSubstr("window"));
  EXPECT_THAT(build(config(R"("architectures":["Gemma3ForCausalLM"])")), ::testing::HasSubstr("window"));
  EXPECT_EQ(build(config(R"("architectures":["MistralForCausalLM"],"sliding_window":null)")), "no error");
}

TEST(Refusals, MoreExpertsPerTokenThanThereAre) {
  for (auto [experts, chosen, refused] : {std::tuple{8, 16, true}, {8, 0, true}, {8, 8, false}}) {
    std::string json = config(fmt::format(
        R"("architectures":["MixtralForCausalLM"],"num_local_experts":{},"num_experts_per_tok":{})", experts,
        chosen));
    EXPECT_EQ(error_of([&] { build_transformer(read_hf_config(json, "config.json")); }) != "no error",
              refused);
  }
}

TEST(Refusals, StateSpacesWithoutGroupsOrHeads) {
  for (auto [groups, heads] : {std::pair{0, 128}, {1, 0}}) {
    std::string json = config(fmt::format(
        R"("architectures":["BambaForCausalLM"],"attn_layer_indices":[1],"mamba_n_heads":{},"mamba_d_head":64,
        "mamba_d_state":128,"mamba_d_conv":4,"mamba_n_groups":{})", heads, groups));
    EXPECT_THAT(error_of([&] { build_transformer(read_hf_config(json, "config.json")); }),
                ::testing::HasSubstr("extent 0"));
  }
}

TEST(Refusals, ShapesThatNoModelHas) {
  auto read = [](const std::string& json) { return error_of([&] { read_hf_config(json, "config.json"); }); };
  EXPECT_THAT(read(R"({"architectures":["BloomForCausalLM"],"hidden_size":2000000000,"n_layer":2,"n_head":2,
      "vocab_size":100})"),
              ::testing::HasSubstr("more than any model"));
  EXPECT_THAT(
      read(R"({"architectures":["GPT2LMHeadModel"],"n_layer":200000,"n_embd":64,"n_head":2,"n_positions":8,
      "vocab_size":100})"),
      ::testing::HasSubstr("more than any model"));
  auto denoiser = [](const std::string& json) {
    return error_of([&] { read_denoiser_config(json, "config.json"); });
  };
  EXPECT_THAT(
      denoiser(R"({"_class_name":"DiTTransformer2DModel","num_attention_heads":16,"attention_head_dim":72,
      "num_layers":28,"in_channels":4,"patch_size":0,"num_embeds_ada_norm":1000})"),
      ::testing::HasSubstr("patch 0"));
}

std::string graph_error(const std::string& op, const std::string& more = "") {
  auto path = (std::filesystem::temp_directory_path() / "orrery-refusals.toml").string();
  std::ofstream(path) << R"(name = "g"
experts_per_token = )" << (more.empty() ? "0" : more)
                      << R"(
[axes]
inner = 64
heads = 4
experts = 8
[[block]]
name = "b"
tensors = [ { name = "x", axes = ["tokens", "inner"] }, { name = "w", axes = ["inner", "heads"], class = "weight" },
            { name = "y", axes = ["inner", "tokens"] }, { name = "z", axes = ["tokens", "heads"] } ]
ops = [ )" << op << " ]\n";
  std::string error = error_of([&] { read_graph_file(path); });
  std::filesystem::remove(path);
  return error;
}

TEST(Refusals, GraphFilesThatDoNothing) { EXPECT_THAT(graph_error(""), ::testing::HasSubstr("no block has an operator")); }

TEST(Refusals, AxesOfGraphFilesThatCountNothing) {
  EXPECT_THAT(graph_error(R"({ kind = "contract", name = "c", in = ["x", "w"], out = ["y"] })"),
              ::testing::HasSubstr("first axis"));
  EXPECT_THAT(
      graph_error(
          R"({ kind = "attend", name = "a", in = ["x"], out = ["z"], pairs = "inner", head_axis = "heads", head_qk = 4, head_v = 4 })"),
      ::testing::HasSubstr("pairs"));
  EXPECT_THAT(
      graph_error(
          R"({ kind = "attend", name = "a", in = ["x"], out = ["z"], pairs = "pairs", head_axis = "tokens", head_qk = 4, head_v = 4 })"),
      ::testing::HasSubstr("head_axis"));
  EXPECT_THAT(graph_error(R"({ kind = "contract", name = "c", in = ["x", "w"], out = ["z"] })", "9"),
              ::testing::HasSubstr("experts_per_token"));
  EXPECT_THAT(graph_error(R"({ kind = "map", name = "m", in = ["x"], out = ["y"], ops_per_element = nan })"),
              ::testing::HasSubstr("not negative"));
  EXPECT_THAT(graph_error(R"({ kind = "map", name = "m", in = ["x"], out = ["y"], ops_per_element = inf })"),
              ::testing::HasSubstr("not negative"));
}

TEST(Refusals, FilesThatAreNoReports) {
  const auto path = std::filesystem::temp_directory_path() / "orrery-no-report.json";
  for (const char* text :
       {"[1]", R"({"facts":5})", R"({"facts":[{}]})",
        R"({"title":"x","facts":[{"name":"TPOT","unit":"","value":1,"why":{"table":"t","column":"no"}}],
            "sections":[{"title":"t","columns":[{"name":"a"}],"rows":[[1]]}]})"}) {
    std::ofstream(path) << text;
    std::string command = "timeout 20 " ORRERY_PROGRAM " model why " + path.string() + " TPOT 2>&1 >/dev/null", said;
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_TRUE(pipe);
    for (char buffer[512]; fgets(buffer, sizeof buffer, pipe);) said += buffer;
    int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << text << ": " << status;
    EXPECT_THAT(said, ::testing::HasSubstr("not a report")) << text;
  }
  std::filesystem::remove(path);
}

TEST(Refusals, MemoryIsOfADataParallelRank) {
  double one = 0, four = 0, capacity = 0;
  for (auto [ranks, bytes] : {std::pair{1, &one}, {4, &four}}) {
    orrery_model_plan plan{};
    plan.dp = ranks;
    orrery_model* model = nullptr;
    ASSERT_EQ(orrery_model_open("llama-3.1-8b", "h200", &plan, &model), 0) << orrery_model_error();
    ASSERT_EQ(orrery_model_memory(model, 64, 4000, bytes, &capacity), 0);
    orrery_model_close(model);
  }
  // One rank of NCCL: the driver's count before and after (held.context.usual of calib/raw/h200-held-2026-11-23.jsonl).
  EXPECT_NEAR(four - one, 1861025792 - 1275920384, 1);
}

TEST(Refusals, ProfilesThatNothingCanBeWorkedOutWith) {
  for (FieldId field : {FieldId::memory_bandwidth, FieldId::memory_efficiency, FieldId::sm_count, FieldId::clock_max,
                        FieldId::tensor_fp16, FieldId::pcie_bandwidth, FieldId::gpus_per_host, FieldId::power_limit}) {
    Profile p = load_profile("h200");
    p.set(field, 0, "what if");
    EXPECT_THAT(error_of([&] { read_rates(p); }), ::testing::HasSubstr("h200: its ")) << field_spec(field).key;
  }
}

TEST(Refusals, TokensWithoutSequences) {
  orrery_model* model = nullptr;
  ASSERT_EQ(orrery_model_open("llama-3.1-8b", "h200", nullptr, &model), 0);
  orrery_model_step step{};
  step.prefill_tokens = 100;
  orrery_model_cost cost;
  EXPECT_EQ(orrery_model_predict(model, &step, &cost), 1);
  EXPECT_THAT(orrery_model_error(), ::testing::HasSubstr("sequences"));
  orrery_model_close(model);
}

}  // namespace
}  // namespace orrery::graph
