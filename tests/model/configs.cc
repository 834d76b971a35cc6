// Configs of published models (configs/): what they must weigh, and what else must be read of such files or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "config_cases.h"
#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

double parameters(const TransformerSpec& spec) { return count_parameters(build_transformer(spec)).total; }

TEST(Configs, HaveThePublishedSize) {
  for (const ConfigCase& c : config_cases()) {
    TransformerSpec spec = read_hf_config(c.json, c.name);
    EXPECT_NEAR(parameters(spec), c.parameters, c.tolerance * c.parameters) << c.name;
  }
}

// Each divides over two ranks and serves: experts, shared blocks and state-space mixers included.
TEST(Configs, ServeOnTwoGpus) {
  for (const ConfigCase& c : config_cases()) {
    TransformerSpec spec = read_hf_config(c.json, c.name);
    if (spec.kind == "encoder") continue;
    Graph g = build_transformer(spec);
    Plan plan;
    plan.tp = 2;
    StepPredictor p(g, plan, {load_profile("h200"), 2});
    StepShape s;
    s.decode_seqs = 4, s.decode_context = 1000;
    double two = p.step(s).seconds;
    EXPECT_GT(two, 0) << c.name;
    EXPECT_LT(p.program().weight_bytes, 0.62 * compile(g, Plan{}).weight_bytes) << c.name;
  }
}

// The language models of Qwen3.5 under their published names, which round to a hundredth.
TEST(Configs, LanguageModelsOfQwen35) {
  auto count = [](const std::string& architecture, const std::string& type, const std::string& fields) {
    std::string json = R"({"architectures":[")" + architecture + R"("],"text_config":{"model_type":")" + type +
                       R"(","attn_output_gate":true,"full_attention_interval":4,"head_dim":256,"hidden_act":"silu",
      "linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_num_key_heads":16,"linear_value_head_dim":128,
      "mlp_only_layers":[],"mtp_num_hidden_layers":1,"mtp_use_dedicated_embeddings":false,"mamba_ssm_dtype":"float32",
      "attention_bias":false,"vocab_size":248320,)" + fields + R"(},"tie_word_embeddings":false})";
    return count_parameters(build_transformer(read_hf_config(json, "config.json"))).total;
  };
  EXPECT_NEAR(count("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text",
                    R"("hidden_size":2048,"linear_num_value_heads":32,"moe_intermediate_size":512,"num_attention_heads":16,
      "num_experts":256,"num_experts_per_tok":8,"num_hidden_layers":40,"num_key_value_heads":2,
      "shared_expert_intermediate_size":512)"),
              35e9, 0.01 * 35e9);
  EXPECT_NEAR(count("Qwen3_5ForConditionalGeneration", "qwen3_5_text",
                    R"("hidden_size":5120,"intermediate_size":17408,"linear_num_value_heads":48,"num_attention_heads":24,
      "num_hidden_layers":64,"num_key_value_heads":4)"),
              27e9, 0.01 * 27e9);
}

// Names of fine-tunes, releases and formats that share the shape of a built-in model.
TEST(Configs, NamesOfTheSameShape) {
  for (auto [name, same] : {std::pair{"deepseek-ai/DeepSeek-R1-0528", "DeepSeek-V3"},
                            {"nvidia/DeepSeek-V3.1-NVFP4", "DeepSeek-V3"},
                            {"moonshotai/Kimi-K2-Instruct-0905", "Kimi-K2"},
                            {"Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen3-235B-A22B"},
                            {"mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"},
                            {"meta-llama/Meta-Llama-3.1-405B", "Llama-3.1-405B"},
                            {"meta-llama/Llama-4-Scout-17B-16E-Instruct", "Llama-4-Scout"},
                            {"meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"},
                            {"zai-org/GLM-5-FP8", "GLM-5"}}) {
    ASSERT_TRUE(find_transformer(name)) << name;
    EXPECT_EQ(find_transformer(name), find_transformer(same)) << name;
  }
  for (const char* other : {"Mistral-7B-v0.3", "Qwen3-Coder-480B", "Llama-4-Maverick-17B-128E", "GLM-4.5"})
    EXPECT_FALSE(find_transformer(other)) << other;
}

std::string refusal_of(const std::string& json) {
  return error_of([&] { read_hf_config(json, "config.json"); });
}

std::string llama(const std::string& quantization) {
  return R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
    "num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":128256,"quantization_config":)" +
         quantization + "}";
}

TEST(Configs, DefaultsThatADumpNames) {
  auto read = [](const std::string& more) { return error_of([&] { read_hf_config(llama("null," + more), "config.json"); }); };
  EXPECT_EQ(read(R"("add_cross_attention":false,"num_beams":1,"pruned_heads":{})"), "no error");
  EXPECT_THAT(read(R"("add_cross_attention":true)"), ::testing::HasSubstr("add_cross_attention"));
  EXPECT_THAT(read(R"("pruned_heads":{"0":[1,2]})"), ::testing::HasSubstr("pruned_heads"));
}

TEST(Configs, StoredFormats) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"({"quant_method":"fp8","weight_block_size":[128,128]})", "fp8 block", ""},
      {R"({"quant_method":"gptq","bits":4,"group_size":128})", "int4 g128", ""},
      {R"({"quant_method":"awq","bits":4,"group_size":64})", "int4 g64", ""},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_use_double_quant":true})", "nf4 dq",
       ""},
      {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", "int8", ""},
      {R"({"quant_method":"mxfp4"})", "mxfp4 experts-only", ""},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4","kv_cache_quant_algo":"FP8"})", "nvfp4", "fp8"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}},
          "kv_cache_scheme":{"num_bits":8,"type":"float"}})",
       "fp8", "fp8"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int","group_size":128}}}})",
       "int4 g128", ""}};
  for (const auto& [quantization, weights, kv] : cases) {
    TransformerSpec spec = read_hf_config(llama(quantization), "config.json");
    EXPECT_EQ(spec.stored_weights, weights) << quantization;
    EXPECT_EQ(spec.stored_kv, kv) << quantization;
    EXPECT_FALSE(spec.stored_note.empty());
  }
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"aqlm"})")), ::testing::HasSubstr("aqlm"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"modelopt","quant_algo":"W1A1"})")),
              ::testing::HasSubstr("W1A1"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"compressed-tensors","config_groups":{
      "a":{"weights":{"num_bits":8,"type":"float"}},"b":{"weights":{"num_bits":4,"type":"int","group_size":128}}}})")),
              ::testing::HasSubstr("--weights"));
}

// Modules that a quantization leaves in 16 bits: bytes counted by hand for Llama-3.1-8B's shape.
TEST(Configs, ModulesThatKeepSixteenBits) {
  double attention = 32 * (2 * 4096.0 * 4096 + 2 * 4096 * 1024), mlp = 32 * 3 * 4096.0 * 14336;
  double rest = 2 * (2 * 128256 * 4096.0 + 65 * 4096);
  auto folder = std::filesystem::temp_directory_path() / "orrery-kept";
  std::filesystem::create_directories(folder);
  auto bytes = [&](const std::string& list) {
    auto path = (folder / "model.json").string();
    std::ofstream(path) << llama(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":
        {"num_bits":8,"type":"float"}}},"ignore":)" + list + "}");
    return compile(load_graph(path), Plan{}).weight_bytes;
  };
  EXPECT_EQ(bytes(R"(["lm_head"])"), attention + mlp + rest);
  EXPECT_EQ(bytes(R"(["lm_head","re:.*self_attn.*"])"), 2 * attention + mlp + rest);
  EXPECT_EQ(bytes(R"(["re:.*\\.mlp\\..*"])"), attention + 2 * mlp + rest);
  EXPECT_EQ(bytes(R"(["model.layers.*.self_attn.o_proj"])"), attention + 32 * 4096.0 * 4096 + mlp + rest);
  std::string every = "[";
  for (int i = 0; i < 32; ++i) every += fmt::format("{}\"model.layers.{}.mlp.down_proj\"", i ? "," : "", i);
  EXPECT_EQ(bytes(every + "]"), attention + mlp + 32 * 4096.0 * 14336 + rest);
  std::filesystem::remove_all(folder);
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"fp8","modules_to_not_convert":["model.layers.3.mlp"]})")),
              ::testing::HasSubstr("1 of 32 layers"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"fp8","modules_to_not_convert":["re:.*layers\\.[0-9]+\\.mlp"]})")),
              ::testing::HasSubstr("one of several places"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"fp8","modules_to_not_convert":["model.novel_part"]})")),
              ::testing::HasSubstr("model.novel_part"));
}

// A mixture that this reader does not take apart is refused, unless the formats are given.
TEST(Configs, FormatsThatAreGivenStandForThoseThatAreNotUnderstood) {
  std::string mixed = llama(R"({"quant_method":"fp8","modules_to_not_convert":["model.layers.3.mlp"]})");
  EXPECT_THROW(read_hf_config(mixed, "config.json"), base::Error);
  TransformerSpec spec = read_hf_config(mixed, "config.json", false);
  EXPECT_TRUE(spec.stored_weights.empty());
  ASSERT_FALSE(spec.notes.empty());
  EXPECT_THAT(spec.notes.back(), ::testing::HasSubstr("1 of 32 layers"));
}

// The question of a user with a config.json: what the checkpoint stores is what has to fit.
TEST(Configs, FitCountsWhatTheCheckpointStores) {
  auto folder = std::filesystem::temp_directory_path() / "orrery-configs";
  std::filesystem::create_directories(folder);
  auto path = (folder / "gpt-oss-120b.json").string();
  std::ofstream(path) << config_case("gpt-oss-120b").json;
  Graph g = load_graph(path);
  EXPECT_NEAR(compile(g, Plan{}).weight_bytes, 65.25e9, 0.01 * 65.25e9);  // fits one 80 GB GPU (its README)
  EXPECT_TRUE(fit(g, {}, {load_profile("h100"), 1}, 8, 8192, find_engine("vllm")).fits);
  std::filesystem::remove_all(folder);
}

TEST(Configs, PartsThatAreNotCountedAreSaid) {
  for (const ConfigCase& c : config_cases()) {
    if (c.json.find("vision_config") == std::string::npos) continue;
    TransformerSpec spec = read_hf_config(c.json, c.name);
    bool said = false;
    for (const std::string& note : spec.notes) said |= note.find("not counted") != std::string::npos;
    EXPECT_TRUE(said) << c.name;
  }
  EXPECT_THAT(
      refusal_of(
          R"({"architectures":["NewForConditionalGeneration"],"text_config":{"model_type":"new_text"}})"),
      ::testing::HasSubstr("new_text"));
}

// A config with a published model's own name must have its shape; of one that is named after it a difference is said.
TEST(Configs, NamedAfterAPublishedModel) {
  auto config = [](const std::string& name) {
    return R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
"num_hidden_layers":16,"num_key_value_heads":8,"vocab_size":128256,"_name_or_path":")" + name + "\"}";
  };
  EXPECT_THROW(read_hf_config(config("meta-llama/Llama-3.1-8B"), "here"), base::Error);
  TransformerSpec other = read_hf_config(config("someone/Llama-3.1-8B-base"), "here");
  ASSERT_FALSE(other.notes.empty());
  EXPECT_NE(other.notes.back().find("layers = 16"), std::string::npos);
}

// Formats in a file beside the config, as NVIDIA's Model Optimizer writes them, count as the config's own.
TEST(Configs, FormatsBesideTheConfig) {
  auto folder = std::filesystem::temp_directory_path() / "orrery_formats_beside";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":128,
"num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":4,"vocab_size":100})";
  EXPECT_TRUE(load_transformer(folder.string()).stored_note.empty());
  std::ofstream(folder / "hf_quant_config.json")
      << R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8","exclude_modules":
["lm_head","model.layers.0.self_attn*","model.layers.1.self_attn*"]}})";
  TransformerSpec spec = load_transformer(folder.string());
  EXPECT_EQ(spec.stored_weights, "nvfp4");
  EXPECT_EQ(spec.stored_kv, "fp8");
  EXPECT_THAT(spec.stored_kept, ::testing::ElementsAre("attention"));
  std::ofstream(folder / "hf_quant_config.json") << "{}";
  EXPECT_THAT(error_of([&] { load_transformer(folder.string()); }), ::testing::HasSubstr("no object 'quantization'"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace orrery::graph
