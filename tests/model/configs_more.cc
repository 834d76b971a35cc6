// Configs with layers or formats of several kinds (configs/): what their models keep, read and weigh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "config_cases.h"
#include "base/error.h"
#include "graph/config_reader.h"
#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

// DeepSeek-V3.2 keeps of each token the latent (576 numbers of 16 bits) and the indexer's key (128 of 8 bits and a scale
// of 4 bytes) in 61 layers, and a step at 100,000 tokens reads 2,048 latents and all keys of the indexer.
TEST(MoreConfigs, SparseAttentionHoldsAllKeysAndReadsThoseChosen) {
  Graph g = graph_of("deepseek-v3.2");
  EXPECT_EQ(state_of(g, 1000), 61 * 1000 * (576 * 2 + 132.0));
  Program program = compile(g, Plan{});
  StepShape s;
  s.decode_seqs = 1, s.decode_context = 99999;
  Ledger ledger;
  walk(program, bind(g, Plan{}, s), ledger);
  EXPECT_EQ(ledger.state(), 61 * (2048 * 576 * 2 + 100000 * 132.0));
}

// A scan reads its input (4,096 numbers a token), two vectors of 128 of its one group and a number for each
// of 64 heads, and writes its output; the convolution before it reads and writes the input and both vectors.
TEST(MoreConfigs, ScansReadWhatSteersThem) {
  Graph g = graph_of("granite-4-h-micro");
  Program program = compile(g, Plan{});
  StepShape s;
  s.prefill_seqs = 1, s.prefill_tokens = 1000;
  Ledger ledger;
  walk(program, bind(g, Plan{}, s), ledger);
  int found = 0;
  for (const Line& line : ledger.lines) {
    const std::string& name = g.ops[program.ops[line.op].op].name;
    double numbers = name == "ssm.scan"   ? 2 * 4096 + 2 * 128 + 64
                     : name == "ssm.conv" ? 2 * (4096 + 2 * 128)
                                          : 0;
    if (numbers == 0) continue;
    ++found;
    EXPECT_EQ(line.activation, 1000 * 2 * numbers) << name;
  }
  EXPECT_GE(found, 2);
}

// transformers' MistralConfig has a window of 4,096 when a config does not name one, and none when it says
// null.
TEST(MoreConfigs, MistralsWindowIsItsClasssWhereNoneIsNamed) {
  std::string json =
      R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 32768)";
  TransformerSpec unnamed = read_hf_config(json + "}", "config.json"),
                  null = read_hf_config(json + R"(, "sliding_window": null})", "config.json");
  EXPECT_EQ(unnamed.window, 4096);
  EXPECT_EQ(unnamed.window_layers, 32);
  EXPECT_THAT(unnamed.notes, ::testing::Contains(::testing::HasSubstr("does not name sliding_window")));
  EXPECT_EQ(null.window, 0);
  EXPECT_EQ(null.trained_positions, 32768);
}

// Qwen2.5 documents YaRN with factor 4 over 32,768 positions for texts of 131,072 tokens; DeepSeek's 163,840 are 40 x 4,096
// already; Llama 3.1's kind and factors of 1 stretch nothing.
TEST(MoreConfigs, StretchedRotationsAllowLongerTexts) {
  auto allowed = [](int stated, const std::string& scaling) {
    return read_hf_config(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 2048,
      "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 32000,
      "tie_word_embeddings": false, "max_position_embeddings": )" + std::to_string(stated) + R"(, "rope_scaling": )" + scaling + "}",
                          "config.json")
        .trained_positions;
  };
  EXPECT_EQ(allowed(32768, R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})"), 131072);
  EXPECT_EQ(allowed(32768, R"({"rope_type": "yarn", "factor": 4.0})"), 131072);
  EXPECT_EQ(allowed(163840, R"({"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096})"), 163840);
  EXPECT_EQ(allowed(4096, R"({"type": "linear", "factor": 2.0})"), 8192);
  EXPECT_EQ(allowed(131072, R"({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192})"), 131072);
  EXPECT_EQ(allowed(4096, "null"), 4096);
}

// A list of layers with experts decides; a pattern that says something else beside it is refused by name.
TEST(MoreConfigs, PatternsOfExpertsBesideAList) {
  std::string json = config_case("step-3.5-flash").json, key = "\"moe_every_n_layer\": 1";
  json.replace(json.find(key), key.size(), "\"moe_every_n_layer\": 2");
  EXPECT_THAT(error_of([&] { read_hf_config(json, "config.json"); }),
              ::testing::HasSubstr("moe_every_n_layer = 2"));
}

// The indexer's scores are one product of 128 numbers a head and pair of tokens, in 8 bits where the GPU has them: half
// the time that they take in 16, and the same on an A100.
TEST(MoreConfigs, IndexersMultiplyInTheFormatOfTheirKeys) {
  Graph g = graph_of("deepseek-v3.2");
  auto scores = [&](const char* gpu, Format format) {
    Graph changed = g;
    for (Tensor& t : changed.tensors)
      if (t.name == "index_cache") t.dtype.format = format;
    StepPredictor p(changed, Plan{}, {load_profile(gpu), 1});
    StepShape s;
    s.prefill_seqs = 1, s.prefill_tokens = 8192, s.prefill_context = 100000;
    p.step(s);
    for (const Line& line : p.ledger().lines)
      if (changed.ops[p.program().ops[line.op].op].name == "index.scores") {
        EXPECT_EQ(line.ops, 2 * 64 * 128 * 8192 * (100000 + 4096.0));
        return time_of(p.program().ops[line.op], line, p.binding(), p.rates()).compute;
      }
    return 0.0;
  };
  Rates h200 = read_rates(load_profile("h200"));
  EXPECT_GT(scores("h200", Format::kFp8), 0);
  EXPECT_NEAR(scores("h200", Format::kBf16) / scores("h200", Format::kFp8), h200.tensor8 / h200.tensor16, 1e-9);
  EXPECT_EQ(scores("a100", Format::kBf16), scores("a100", Format::kFp8));
}

// Of GLM-5.2's 78 layers those called "shared" have no indexer: neither its weights nor its keys.
TEST(MoreConfigs, LayersThatShareAnIndexer) {
  Json json = Json::parse(config_case("glm-5").json);
  double all = count_parameters(build_transformer(read_hf_config(json.dump(), "c"))).total;
  Json types = Json::array();
  for (int i = 0; i < 78; ++i) types.push_back(i < 3 || i % 4 == 2 ? "full" : "shared");
  json["indexer_types"] = types;
  Graph g = build_transformer(read_hf_config(json.dump(), "c"));
  double shared = std::count(types.begin(), types.end(), "shared");
  EXPECT_EQ(count_parameters(g).total, all - shared * (2048.0 * 32 * 128 + 6144 * 128 + 2 * 128 + 6144 * 32));
  EXPECT_EQ(state_of(g, 1000), 78 * 1000 * 1152.0 + (78 - shared) * 1000 * 132);
  json["indexer_types"][5] = "half";
  EXPECT_THAT(error_of([&] { read_hf_config(json.dump(), "c"); }), ::testing::HasSubstr("half"));
}

// Layers of two shapes: MiMo-V2-Flash keeps 192 + 128 numbers for each of 4 heads in 9 full layers, of 8 heads in 39
// with a window of 128; Gemma 4 31B 2 x 512 for 4 heads in 10 layers, 2 x 256 for 16 in 50 with a window of 1,024.
TEST(MoreConfigs, LayersOfTwoShapes) {
  Graph mimo = graph_of("mimo-v2-flash");
  EXPECT_EQ(state_of(mimo, 5000), 9 * 5000 * 4 * 320 * 2.0 + 39 * 128 * 8 * 320 * 2.0);
  Graph gemma = graph_of("gemma-4-31b");
  EXPECT_EQ(state_of(gemma, 5000), 10 * 5000 * 4 * 1024 * 2.0 + 50 * 1024 * 16 * 512 * 2.0);
  // Heads of every shape must divide.
  Plan plan;
  plan.tp = 64;
  EXPECT_THAT(error_of([&] { compile(gemma, plan); }), ::testing::HasSubstr("heads"));
}

// Llama-Nemotron's layers differ in width, and some have no attention.
TEST(MoreConfigs, LayersThatASearchCutDown) {
  Json json = Json::parse(config_case("nemotron-super-49b").json);
  int attention = 0;
  for (const Json& block : json["block_configs"]) attention += block["attention"]["no_op"] == false;
  EXPECT_EQ(attention, 49);
  Graph g = build_transformer(read_hf_config(json.dump(), "c"));
  EXPECT_EQ(state_of(g, 1000), 49 * 1000 * 2 * 8 * 128 * 2.0);
  json["block_configs"][3]["attention"]["replace_with_linear"] = true;
  EXPECT_THAT(error_of([&] { read_hf_config(json.dump(), "c"); }),
              ::testing::AllOf(::testing::HasSubstr("block_configs[3]"), ::testing::HasSubstr("replace_with_linear")));
}

// What is left in 16 bits may be the whole of the leading dense layers.
TEST(MoreConfigs, LeadingLayersThatKeepSixteenBits) {
  Json json = Json::parse(config_case("glm-5").json);
  Json kept = {"lm_head", "model.layers.0*", "model.layers.1.*", "model.layers.2.*"};
  for (int i = 3; i < 78; ++i) kept.push_back("model.layers." + std::to_string(i) + ".self_attn*");
  json["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", kept}};
  TransformerSpec spec = read_hf_config(json.dump(), "c");
  EXPECT_THAT(spec.stored_kept, ::testing::ElementsAre("attention", "dense"));
  kept.erase(kept.size() - 1);
  json["quantization_config"]["ignore"] = kept;
  EXPECT_THAT(error_of([&] { read_hf_config(json.dump(), "c"); }), ::testing::HasSubstr("77 of 78 layers"));
}

// Each module may name its own format: 8 bits for attention, 4 with scales (4.5) for the rest, the head included.
TEST(MoreConfigs, FormatsByModule) {
  Json json = Json::parse(R"({"architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":512,"num_attention_heads":4,
"num_hidden_layers":2,"num_key_value_heads":4,"vocab_size":1000,"quantization_config":{"quant_method":"modelopt",
"quant_algo":"MIXED_PRECISION","quantized_layers":{"lm_head":{"quant_algo":"NVFP4"}}}})");
  Json& modules = json["quantization_config"]["quantized_layers"];
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"})
      modules[layer + std::string(name)] = {{"quant_algo", "FP8"}};
    for (const char* name : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      modules[layer + std::string(name)] = {{"quant_algo", "NVFP4"}};
  }
  auto path = std::filesystem::temp_directory_path() / "orrery-by-module.json";
  auto written = [&] {
    std::ofstream(path) << json.dump();
    return path.string();
  };
  double attention = 2 * 4 * 256.0 * 256, mlp = 2 * 3 * 256.0 * 512, head = 1000 * 256.0, rest = 2 * (1000 * 256.0 + 5 * 256);
  EXPECT_EQ(compile(load_graph(written()), Plan{}).weight_bytes, attention + (mlp + head) * 4.5 / 8 + rest);
  modules["model.layers.1.mlp.down_proj"]["quant_algo"] = "FP8";
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("some matrices of dense in nvfp4 and some in fp8"));
  // A matrix that is not listed keeps 16 bits: then the part is not of one format.
  modules.erase("model.layers.1.mlp.down_proj");
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("of dense in layer 1 only gate, up"));
  for (const char* name : {"gate_proj", "up_proj"}) modules.erase(std::string("model.layers.1.mlp.") + name);
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("1 of 2 layers"));
  modules["model.mlp.down_proj"] = {{"quant_algo", "NVFP4"}};
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("model.mlp.down_proj names no layer"));
  modules.erase("model.mlp.down_proj");
  modules["model.layers.1.mlp.down_proj"] = {{"quant_algo", "W1A1"}};
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("W1A1"));
  std::filesystem::remove(path);
}

// Of a mixture the shared experts alone may be narrow, and experts may be named one by one: all of them or none.
TEST(MoreConfigs, FormatsOfExpertsAndSharedExperts) {
  Json json = Json::parse(config_case("deepseek-v3.2").json);
  json["num_hidden_layers"] = 4, json["n_routed_experts"] = 8;
  Json modules = Json::object();
  auto list = [&](const std::string& part) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"})
      modules["model.layers.3.mlp." + part + "." + name] = {{"quant_algo", "FP8"}};
  };
  auto read = [&] {
    json["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}, {"quantized_layers", modules}};
    return read_hf_config(json.dump(), "c");
  };
  list("shared_experts");
  TransformerSpec spec = read();
  EXPECT_EQ(spec.stored_weights, "fp8");
  EXPECT_THAT(spec.stored_kept, ::testing::UnorderedElementsAre("attention", "dense", "experts"));
  for (int e = 0; e < 7; ++e) list("experts." + std::to_string(e));
  EXPECT_THAT(error_of(read), ::testing::HasSubstr("down of 7 experts"));
  list("experts.7");
  EXPECT_THAT(read().stored_kept, ::testing::UnorderedElementsAre("attention", "dense"));
}

// The class of DiT's and PixArt's first checkpoints is told apart by its norm.
TEST(MoreConfigs, DenoisersOfTheFirstClass) {
  auto config = [](const std::string& more) {
    return R"({"_class_name":"Transformer2DModel","attention_bias":true,"attention_head_dim":72,"in_channels":4,
"num_attention_heads":16,"num_embeds_ada_norm":1000,"num_layers":28,"out_channels":8,"patch_size":2,)" + more + "}";
  };
  EXPECT_EQ(read_denoiser_config(config(R"("norm_type":"ada_norm_zero","sample_size":32)"), "c").family, "dit");
  // DiT's pipeline makes sample_size x 8 pixels: 256 and 512 for the two checkpoints.
  EXPECT_EQ(read_denoiser_config(config(R"("norm_type":"ada_norm_zero","sample_size":32)"), "c").size, 256);
  EXPECT_EQ(read_denoiser_config(config(R"("norm_type":"ada_norm_zero","sample_size":64)"), "c").size, 512);
  EXPECT_EQ(read_denoiser_config(config(R"("norm_type":"ada_norm_zero")"), "c").size, 0);
  EXPECT_THAT(error_of([&] { read_denoiser_config(config(R"("norm_type":"ada_norm_zero","sample_size":-1)"), "c"); }),
              ::testing::HasSubstr("sample_size"));
  DiffusionSpec pixart = read_denoiser_config(
      config(R"("norm_type":"ada_norm_single","sample_size":128,"caption_channels":4096,"cross_attention_dim":1152)"), "c");
  EXPECT_EQ(pixart.family, "pixart");
  EXPECT_EQ(pixart.size, 1024);
  EXPECT_THAT(error_of([&] { read_denoiser_config(config(R"("norm_type":"layer_norm")"), "c"); }),
              ::testing::HasSubstr("norm_type"));
}

}  // namespace
}  // namespace orrery::graph
