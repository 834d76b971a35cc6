// Configs of attention models of 2024 to 2026 (configs/): what a sequence of them holds and reads, and what
// is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../error_of.h"
#include "config_cases.h"
#include "graph/config_reader.h"
#include "graph/serve.h"
#include "graph/spec.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

using ::testing::HasSubstr;

std::string refusal(const Json& json) {
  return error_of([&] { read_hf_config(json.dump(), "c"); });
}

// Kimi Linear: 7 layers keep a latent of 576 numbers, 20 a matrix of 128 x 128 numbers of 4 bytes for each of
// 32 heads and three inputs of 3 x 4,096 channels. MiniMax M1: 10 layers keep 8 heads' keys and values, 70 a
// matrix for each of 64 heads. LFM2: 6 of 16 layers keep keys, 10 two inputs of 2,048 channels. Granite 4: 4
// of 40 keep keys.
TEST(RecentConfigs, LinearAttentionHoldsMatrices) {
  EXPECT_EQ(state_of(graph_of("kimi-linear-48b"), 1000),
            7 * 1000 * 576 * 2.0 + 20 * (32 * 128 * 128 * 4.0 + 3 * 3 * 4096 * 2));
  EXPECT_EQ(state_of(graph_of("minimax-m1"), 1000),
            10 * 1000 * 2 * 8 * 128 * 2.0 + 70 * 64 * 128 * 128 * 4.0);
  EXPECT_EQ(state_of(graph_of("lfm2-1.2b"), 1000), 6 * 1000 * 2 * 8 * 64 * 2.0 + 10 * 2048 * 2 * 2.0);
  EXPECT_EQ(state_of(graph_of("granite-4-h-small"), 2000) - state_of(graph_of("granite-4-h-small"), 1000),
            4 * 1000 * 2 * 8 * 128 * 2.0);
}

// Step 3.5's windowed layers have 96 heads, its full ones 64; 12 of 45 are full. OLMo 3: 8 of 32.
TEST(RecentConfigs, WindowsOfTheirOwnShape) {
  EXPECT_EQ(state_of(graph_of("step-3.5-flash"), 5000), (12 * 5000 + 33 * 512) * 2 * 8 * 128 * 2.0);
  EXPECT_EQ(state_of(graph_of("olmo3-7b"), 10000), (8 * 10000 + 24 * 4096) * 2 * 32 * 128 * 2.0);
}

// DeepSeek V4 Pro: of 61 layers 30 keep a key of 512 numbers and an indexer's of 128 (8 bits and 4 bytes of
// scale) for every 4 positions, 31 one key for every 128; all keep a window of 128, and in 4 bytes what is
// not yet compressed. With indexer's keys in 16 bits its makers' 9.62 GiB for a million positions.
TEST(RecentConfigs, CompressedKeys) {
  Graph g = graph_of("deepseek-v4-pro");
  double n = 1048576, key = 512 * 2, index = 128 + 4, held = 30 * n / 4 * (key + index) + 31 * n / 128 * key;
  double waiting = 30 * (2 * 2 * 4 * 4 * (2 * 512 + 2 * 128.0)) + 31 * (2 * 128 * 4 * 512.0);
  EXPECT_NEAR(state_of(g, n), held + 61 * 128 * key + waiting, 1);
  EXPECT_NEAR((held + 30 * n / 4 * (256 - index)) / 9.62 / (1 << 30), 1, 1e-3);
  // Of 1.6e12 parameters 49e9 at work, by its card, and 13e9 of the smaller one's 284e9.
  EXPECT_NEAR(count_parameters(g).matmul_active / 49e9, 1, 0.02);
  EXPECT_NEAR(count_parameters(graph_of("deepseek-v4-flash")).matmul_active / 13e9, 1, 0.03);
}

// A step at a million positions reads, in a layer with an indexer, the window, 1,024 compressed keys and all
// of the indexer's; in one without, the window and every compressed key. MiniMax M3 reads 2,048 positions and
// the indexer's keys.
TEST(RecentConfigs, ChosenKeysAreRead) {
  auto read = [](const char* name) {
    Graph g = graph_of(name);
    Program program = compile(g, Plan{});
    StepShape s;
    s.decode_seqs = 1, s.decode_context = 1048575;
    Ledger ledger;
    walk(program, bind(g, Plan{}, s), ledger);
    double sum = 0;
    for (const Line& line : ledger.lines)
      if (const std::string& op = g.ops[program.ops[line.op].op].name;
          op.starts_with("attend") || op == "index.scores")
        sum += line.times * line.state;
    return sum;
  };
  double n = 1048576, key = 1024, index = 132;
  EXPECT_NEAR(read("deepseek-v4-pro"),
              61 * 128 * key + 30 * (1024 * key + n / 4 * index) + 31 * n / 128 * key, 1);
  EXPECT_NEAR(read("minimax-m3"), 57 * (2048 * 2 * 4 * 128 * 2.0 + n * 128 * 2) + 3 * n * 2 * 4 * 128 * 2, 1);
}

// A step writes one slot of what waits to be compressed, in 4 bytes a key and its gate (twice as wide, and of
// twice the width, where windows overlap), and reads all slots once in `rate` steps. The matrices of both stay
// in 16 bits where others have 8.
TEST(RecentConfigs, KeysThatWaitToBeCompressed) {
  Graph g = graph_of("deepseek-v4-pro");
  Program program = compile(g, Plan{});
  StepShape s;
  s.decode_seqs = 1, s.decode_context = 1000;
  Ledger ledger;
  walk(program, bind(g, Plan{}, s), ledger);
  double moved = 0;
  for (const Line& line : ledger.lines)
    if (g.ops[program.ops[line.op].op].name.ends_with(".pool")) moved += line.times * line.state;
  double numbers = 30 * (2 * 2 + 2) * (2 * 512 + 2 * 128.0) + 31 * (2 * 1 + 2) * 512.0;
  EXPECT_EQ(moved, numbers * 4);
  std::set<std::string> narrow, wide;
  for (const Tensor& t : g.tensors) (t.linear ? narrow : wide).insert(t.name);
  for (const char* name : {"compressor.kv.weight", "compressor.gate.weight", "index.kv.weight", "index.gate.weight"})
    EXPECT_TRUE(wide.contains(name) && !narrow.contains(name)) << name;
}

// Experts are stored in 4 bits with a scale for 32, the other matrices in 8: 160 GB of a 284e9 model, by its
// card.
TEST(RecentConfigs, ExpertsInAFormatOfTheirOwn) {
  TransformerSpec spec = read_hf_config(config_case("deepseek-v4-flash").json, "c");
  EXPECT_EQ(spec.stored_weights, "fp8 block");
  EXPECT_THAT(spec.stored_kept, ::testing::Contains("experts mxfp4"));
  Json json = Json::parse(config_case("deepseek-v4-flash").json);
  json["expert_dtype"] = "fp6";
  EXPECT_THAT(refusal(json), HasSubstr("expert_dtype"));
  json["expert_dtype"] = "fp4", json["compress_ratios"] = Json::array({4, 128});
  EXPECT_THAT(refusal(json), HasSubstr("compress_ratios"));
}

// Kimi K3: 24 layers keep latents, 69 a matrix for each of 96 heads.
TEST(RecentConfigs, KimiK3) {
  EXPECT_EQ(state_of(graph_of("kimi-k3"), 1000),
            24 * 1000 * 576 * 2.0 + 69 * (96 * 128 * 128 * 4.0 + 3 * 3 * 96 * 128 * 2));
}

// LongCat's 12 choices among 512 experts and 256 idle ones meet 8 with weights; each of its 28 layers attends
// twice.
TEST(RecentConfigs, IdleExperts) {
  Json json = Json::parse(config_case("longcat-flash").json);
  TransformerSpec spec = read_hf_config(json.dump(), "c");
  EXPECT_EQ(spec.experts_per_token, 8);
  EXPECT_EQ(state_of(build_transformer(spec), 1000), 56 * 1000 * 576 * 2.0);
  // 27e9 of 560e9 parameters at work, by its card.
  EXPECT_NEAR(count_parameters(build_transformer(spec)).matmul_active / 27e9, 1, 0.04);
  json["moe_topk"] = 11;
  EXPECT_THAT(refusal(json), HasSubstr("no whole number"));
}

TEST(RecentConfigs, RefusedByName) {
  // An unknown class is answered with those that begin as it does, not with all.
  EXPECT_THAT(refusal({{"architectures", {"Qwen3SingsForCausalLM"}}}),
              ::testing::AllOf(HasSubstr("Qwen3MoeForCausalLM"), ::testing::Not(HasSubstr("LlamaForCausalLM"))));
  Json step = Json::parse(config_case("step-3.5-flash").json);
  step["moe_layers_enum"] = "3,four";
  EXPECT_THAT(refusal(step), HasSubstr("moe_layers_enum"));
  Json kimi = Json::parse(config_case("kimi-linear-48b").json);
  kimi["linear_attn_config"]["kda_layers"].erase(0);
  EXPECT_THAT(refusal(kimi), HasSubstr("layer 1"));
  Json hunyuan = Json::parse(config_case("hunyuan-a13b").json);
  hunyuan["moe_topk"][7] = 4;
  EXPECT_THAT(refusal(hunyuan), HasSubstr("moe_topk differs"));
  Json minicpm = Json::parse(config_case("minicpm3-4b").json);
  minicpm["num_attention_heads"] = 0;
  EXPECT_THAT(refusal(minicpm), HasSubstr("num_attention_heads must be at least 1"));
}

// The language model may be called llm_config, language_config, or lie inside a thinker; its type may be
// unknown here when it names its class; a part of a known class may leave out what its class says.
TEST(RecentConfigs, PartsOfSeveral) {
  Json llava = Json::parse(config_case("llava-1.5-7b").json);
  EXPECT_EQ(read_hf_config(llava.dump(), "c").ffn, 11008);
  llava["text_config"] = {{"model_type", "singing"}};
  EXPECT_THAT(refusal(llava), HasSubstr("'singing'"));
  Json whole = llava["text_config"];
  whole["architectures"] = {"LlamaForCausalLM"}, whole["model_type"] = "llama";
  EXPECT_THAT(refusal(whole), HasSubstr("num_hidden_layers")) << "a whole model names its shape";
}

}  // namespace
}  // namespace orrery::graph
