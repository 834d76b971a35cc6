// Configs that say what a reader does not count: each is refused by the name of the field, or counted as its
// publisher's implementation does. Expected sizes follow from the shapes by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "base/error.h"
#include "config_cases.h"
#include "graph/config_reader.h"
#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A config with fields changed or added.
Json with(Json json, std::initializer_list<std::pair<const char*, Json>> fields) {
  for (const auto& [key, value] : fields) json[key] = value;
  return json;
}
std::string refusal(const Json& json) {
  return error_of([&] { build_transformer(read_hf_config(json.dump(), "c")); });
}
double keys_and_values(const Json& json, double tokens) {
  Graph g = build_transformer(read_hf_config(json.dump(), "c"));
  return state_bytes(g, compile(g, Plan{}), 1, tokens);
}

Json of(const char* architecture) {
  return {{"architectures", {architecture}},
          {"hidden_size", 4096},
          {"intermediate_size", 14336},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 4},
          {"num_key_value_heads", 8},
          {"vocab_size", 32000}};
}

TEST(RefusedConfigs, WindowsOfCohere2FollowItsList) {
  Json json = with(of("Cohere2ForCausalLM"), {{"sliding_window", 1000}});
  double layer = 2 * 8 * 128 * 2.0;  // bytes of a token in a layer
  EXPECT_EQ(keys_and_values(json, 5000), layer * (3 * 1000 + 5000)) << "every fourth layer is full";
  json["layer_types"] = Json(4, "full_attention");
  EXPECT_EQ(keys_and_values(json, 5000), layer * 4 * 5000);
  for (const char* flag : {"use_gated_activation", "use_parallel_block", "use_embedding_sharing"})
    EXPECT_THAT(refusal(with(json, {{flag, false}})), HasSubstr(flag));
}

TEST(RefusedConfigs, ObjectsInsideAreReadWhole) {
  Json mpt = {{"architectures", {"MPTForCausalLM"}},
              {"d_model", 4096},
              {"n_heads", 32},
              {"n_layers", 2},
              {"vocab_size", 50432},
              {"no_bias", true},
              {"max_seq_len", 2048}};
  auto attention = [&](Json config) { return with(mpt, {{"attn_config", std::move(config)}}); };
  auto width = [&](const char* type, Json more) {
    more["attn_type"] = type, more["alibi"] = true;
    return keys_and_values(attention(more), 1);
  };
  EXPECT_EQ(width("multihead_attention", {}), 2 * 2 * 32 * 128 * 2.0);
  EXPECT_EQ(width("multiquery_attention", {}), 2 * 2 * 1 * 128 * 2.0);
  EXPECT_EQ(width("grouped_query_attention", {{"kv_n_heads", 8}}), 2 * 2 * 8 * 128 * 2.0);
  EXPECT_THAT(refusal(attention({{"attn_type", "grouped_query_attention"}, {"kv_n_heads", 0}})),
              HasSubstr("kv_n_heads"));
  EXPECT_THAT(refusal(attention({{"sliding_window_size", 128}})), HasSubstr("sliding_window_size"));
  EXPECT_THAT(refusal(attention({{"unheard_of", 1}})), HasSubstr("unheard_of"));
  EXPECT_THAT(refusal(attention("x")), HasSubstr("attn_config must be an object"));
  EXPECT_THAT(refusal(with(attention({{"alibi", true}}), {{"ffn_config", {{"ffn_type", "mptglu"}}}})),
              HasSubstr("mptglu"));

  Json dbrx = {{"architectures", {"DbrxForCausalLM"}},
               {"d_model", 6144},
               {"n_heads", 48},
               {"n_layers", 2},
               {"vocab_size", 1000},
               {"attn_config", {{"kv_n_heads", 8}}},
               {"ffn_config", {{"ffn_hidden_size", 10752}, {"moe_num_experts", 16}, {"moe_top_k", 4}}}};
  EXPECT_EQ(refusal(dbrx), "no error");
  dbrx["ffn_config"]["num_shared_experts"] = 2;
  EXPECT_THAT(refusal(dbrx), HasSubstr("num_shared_experts"));

  Json deci = of("DeciLMForCausalLM");
  Json block = {{"attention", {{"n_heads_in_group", 8}}}, {"ffn", {{"ffn_mult", 2.5}}}};
  auto changed = [&](const char* part, const char* key, Json value) {
    Json all = Json(4, block);
    all[2][part][key] = std::move(value);
    return refusal(with(deci, {{"block_configs", all}}));
  };
  EXPECT_EQ(changed("attention", "n_heads_in_group", 8), "no error");
  EXPECT_THAT(changed("attention", "mamba", {{"state_dim", 128}}),
              HasSubstr("block_configs[2]: attention: mamba"));
  EXPECT_THAT(changed("ffn", "moe", {{"num_local_experts", 8}}), HasSubstr("block_configs[2]: ffn: moe"));
  EXPECT_THAT(changed("ffn", "unheard_of", 1), HasSubstr("unheard_of"));
  Json none = {{"attention", {{"no_op", true}}}, {"ffn", {{"no_op", true}}}};
  EXPECT_THAT(refusal(with(deci, {{"block_configs", Json(4, none)}})),
              HasSubstr("every part of every layer"));
  EXPECT_THAT(refusal(with(deci, {{"block_configs", Json(4, {{"attention", "x"}, {"ffn", 5}})}})),
              HasSubstr("must be an object"));
}

TEST(RefusedConfigs, WidthsOfHeads) {
  Json nemotron = with(of("NemotronForCausalLM"), {{"num_attention_heads", 48}, {"kv_channels", 128}});
  EXPECT_EQ(keys_and_values(nemotron, 1), 4 * 2 * 8 * 128 * 2.0);
  nemotron.erase("kv_channels");
  EXPECT_THAT(refusal(nemotron), HasSubstr("hidden_size = 4096 is no multiple of 48 heads"));
  Json qwen = with(of("QWenLMHeadModel"), {{"no_bias", true}, {"kv_channels", 256}});
  qwen.erase("num_key_value_heads");
  EXPECT_EQ(keys_and_values(qwen, 1), 4 * 2 * 32 * 256 * 2.0);
}

// Groups of layers have heads of their own, which must divide as the model's do.
TEST(RefusedConfigs, HeadsOfEveryKindOfLayer) {
  Json mimo = with(of("MiMoV2FlashForCausalLM"), {{"n_routed_experts", 8},
                                                  {"num_experts_per_tok", 2},
                                                  {"moe_intermediate_size", 1024},
                                                  {"sliding_window", 128},
                                                  {"swa_num_attention_heads", 64},
                                                  {"swa_num_key_value_heads", 4},
                                                  {"swa_head_dim", 128},
                                                  {"swa_v_head_dim", 128},
                                                  {"hybrid_layer_pattern", {0, 1, 1, 1}},
                                                  {"moe_layer_freq", {0, 1, 1, 1}}});
  EXPECT_THAT(refusal(with(mimo, {{"swa_num_key_value_heads", 7}})), HasSubstr("64 query heads"));
  EXPECT_THAT(refusal(with(mimo, {{"sliding_window_size", 4096}})), HasSubstr("sliding_window_size"));
  Graph g = build_transformer(read_hf_config(mimo.dump(), "c"));
  Plan plan;
  EXPECT_THAT(error_of([&] { apply_verb("replace kv_heads.4 48", g, plan); }), HasSubstr("no multiple"));
  EXPECT_EQ(error_of([&] { apply_verb("replace kv_heads.4 64", g, plan); }),
            "no error");  // of 64 heads, not of 32
  Json gemma =
      with(of("Gemma4ForCausalLM"), {{"sliding_window", 1024}, {"layer_types", Json(4, "full_attention")}});
  EXPECT_EQ(refusal(gemma), "no error");
  EXPECT_THAT(refusal(with(gemma, {{"global_head_dim", 0}})), HasSubstr("global_head_dim"));
  EXPECT_THAT(refusal(with(gemma, {{"num_global_key_value_heads", 5}})), HasSubstr("32 query heads"));
}

TEST(RefusedConfigs, FieldsThatContradictTheLayers) {
  Json sparse = with(of("DeepseekV32ForCausalLM"), {{"q_lora_rank", 1536},
                                                    {"kv_lora_rank", 512},
                                                    {"qk_nope_head_dim", 128},
                                                    {"qk_rope_head_dim", 64},
                                                    {"v_head_dim", 128},
                                                    {"n_routed_experts", 8},
                                                    {"num_experts_per_tok", 2},
                                                    {"moe_intermediate_size", 1024},
                                                    {"first_k_dense_replace", 1},
                                                    {"index_n_heads", 64},
                                                    {"index_head_dim", 128},
                                                    {"index_topk", 2048}});
  EXPECT_EQ(refusal(with(sparse, {{"indexer_types", {"full", "shared", "shared", "full"}}})), "no error");
  EXPECT_THAT(refusal(with(sparse, {{"indexer_types", {"shared", "full", "full", "full"}}})),
              HasSubstr("before any \"full\""));
  EXPECT_THAT(refusal(with(sparse, {{"first_k_dense_replace", 100}})),
              HasSubstr("first_k_dense_replace = 100 of 4 layers"));

  Json mamba = {{"d_model", 2560}, {"n_layer", 4}, {"vocab_size", 2000000000}, {"ssm_cfg", Json::object()}};
  EXPECT_THAT(refusal(with(mamba, {{"pad_vocab_size_multiple", 1999999999}})),
              HasSubstr("more than any model has"));

  Json opt = {{"architectures", {"OPTForCausalLM"}},
              {"ffn_dim", 4096},
              {"hidden_size", 1024},
              {"max_position_embeddings", 2048},
              {"num_attention_heads", 16},
              {"num_hidden_layers", 2},
              {"vocab_size", 50272}};
  EXPECT_THAT(refusal(with(opt, {{"word_embed_proj_dim", 0}})),
              HasSubstr("word_embed_proj_dim must be at least 1"));
}

// What a mixture's config does not say is not filled in where its absence has had several meanings.
TEST(RefusedConfigs, MixturesThatLeaveFieldsOut) {
  Json ernie = with(of("Ernie4_5_MoeForCausalLM"), {{"moe_num_experts", 64},
                                                    {"moe_k", 6},
                                                    {"moe_intermediate_size", 1536},
                                                    {"moe_num_shared_experts", 2},
                                                    {"moe_layer_start_index", 1}});
  EXPECT_EQ(refusal(with(ernie, {{"moe_layer_end_index", -1}})), "no error");  // to the last layer
  EXPECT_THAT(refusal(with(ernie, {{"moe_layer_end_index", 2}})),
              HasSubstr("moe_layer_end_index = 2 of 4 layers"));
  EXPECT_THAT(refusal(with(ernie, {{"moe_layer_start_index", 100}})),
              HasSubstr("moe_layer_start_index = 100 of 4 layers"));
  for (const char* field : {"moe_num_shared_experts", "moe_layer_start_index"})
    EXPECT_THAT(refusal(with(ernie, {{field, nullptr}})), HasSubstr(field));
  Json granite =
      with(of("GraniteMoeSharedForCausalLM"), {{"num_local_experts", 8}, {"num_experts_per_tok", 2}});
  EXPECT_THAT(refusal(granite), HasSubstr("tie_word_embeddings"));
  granite["tie_word_embeddings"] = true;
  EXPECT_THAT(refusal(granite), HasSubstr("shared_intermediate_size"));
}

// One sentence says what becomes of the checkpoint's formats: used, or not used in training.
TEST(RefusedConfigs, FormatsAreSaidOnce) {
  auto path = std::filesystem::temp_directory_path() / "orrery-formats-said.json";
  std::ofstream(path)
      << with(of("LlamaForCausalLM"), {{"quantization_config", {{"quant_method", "fp8"}}}}).dump();
  BuildOptions training;
  training.training = true;
  for (const std::string& model : {path.string(), std::string("gpt-oss-120b")}) {
    auto said = [&](const BuildOptions& options, const char* what) {
      auto notes = load_graph(model, options).notes;
      return std::count_if(notes.begin(), notes.end(),
                           [&](auto& n) { return n.find(what) != std::string::npos; });
    };
    EXPECT_EQ(said({}, "checkpoint stores them"), 1) << model;
    EXPECT_EQ(said({}, "trained in 16 bits"), 0) << model;
    EXPECT_EQ(said(training, "checkpoint stores them"), 0) << model;
    EXPECT_EQ(said(training, "trained in 16 bits"), 1) << model;
  }
  std::filesystem::remove(path);
}

// A null in the config is no format of its own, and keys and values alone may be narrow.
TEST(RefusedConfigs, FormatsBesideAConfigWithNone) {
  auto folder = std::filesystem::temp_directory_path() / "orrery_formats_beside_null";
  std::filesystem::create_directories(folder);
  auto formats = [&](Json algo, Json kv) {
    std::ofstream(folder / "hf_quant_config.json")
        << Json{{"quantization", {{"quant_algo", std::move(algo)}, {"kv_cache_quant_algo", std::move(kv)}}}}
               .dump();
    return load_transformer(folder.string());
  };
  std::ofstream(folder / "config.json")
      << with(of("LlamaForCausalLM"), {{"quantization_config", nullptr}}).dump();
  EXPECT_EQ(formats("FP8", nullptr).stored_weights, "fp8");
  TransformerSpec spec = formats(nullptr, "FP8");
  EXPECT_EQ(spec.stored_weights, "");
  EXPECT_EQ(spec.stored_kv, "fp8");
  EXPECT_THAT(load_graph(folder.string()).notes, ::testing::Contains(HasSubstr("keys and values in fp8")));
  std::filesystem::remove_all(folder);
}

Json published(const char* name) { return Json::parse(config_case(name).json); }
// A published config with one field changed; in an object inside where `part` names one.
std::string changed(const char* name, const char* key, Json value, const char* part = nullptr) {
  Json json = published(name);
  (part ? json[part] : json)[key] = std::move(value);
  return refusal(json);
}
std::vector<std::string> notes_of(const Json& json) { return read_hf_config(json.dump(), "c").notes; }

// Each would change what layers hold or do.
TEST(RefusedConfigs, FlagsThatChangeTheShape) {
  for (auto [name, key, value] : {std::tuple<const char*, const char*, Json>{"step-3.5-flash", "use_moe", false},
                                  {"step-3.5-flash", "sink", true},
                                  {"step-3.5-flash", "use_mfa", true},
                                  {"grok-2", "sliding_window_size", 4096},
                                  {"grok-2", "global_attn_every_n", 2},
                                  {"apertus-8b", "qk_norm", false},
                                  {"apertus-8b", "post_norm", true},
                                  {"hunyuan-7b", "add_classification_head", true},
                                  {"hunyuan-7b", "norm_type", "layernorm"}})
    EXPECT_THAT(changed(name, key, value), HasSubstr(key)) << name;
  EXPECT_EQ(changed("hunyuan-7b", "norm_type", "hf_rms"), "no error");
  Json off = published("minimax-m3")["sparse_attention_config"]["sparse_disable_index_value"];
  off[5] = 0;
  EXPECT_THAT(changed("minimax-m3", "sparse_disable_index_value", off, "sparse_attention_config"),
              HasSubstr("0 for layer 5"));
  Json rates = published("deepseek-v4-flash")["compress_ratios"];
  rates[3] = 1;
  EXPECT_THAT(changed("deepseek-v4-flash", "compress_ratios", rates), HasSubstr("compress_ratios has 1"));
}

TEST(RefusedConfigs, NumbersThatNoModelHas) {
  EXPECT_THAT(changed("kimi-linear-48b", "first_k_dense_replace", 28), HasSubstr("= 28 of 27 layers"));
  EXPECT_THAT(changed("lfm2-8b-a1b", "num_dense_layers", 25), HasSubstr("= 25 of 24 layers"));
  EXPECT_THAT(changed("glm-4.5-air", "first_k_dense_replace", 1000), HasSubstr("= 1000 of"));
  EXPECT_THAT(changed("lfm2-1.2b", "full_attn_idxs", {2, 16}), HasSubstr("names layer 16 of 16"));
  EXPECT_THAT(changed("lfm2-1.2b", "full_attn_idxs", {-1}), HasSubstr("full_attn_idxs"));
  EXPECT_THAT(changed("step-3.5-flash", "moe_layers_enum", "3,45"), HasSubstr("names layer 45 of 45"));
  for (int layer : {0, 28}) {  // which count from one
    Json full = published("kimi-linear-48b")["linear_attn_config"]["full_attn_layers"];
    full.push_back(layer);
    EXPECT_THAT(changed("kimi-linear-48b", "full_attn_layers", full, "linear_attn_config"),
                HasSubstr("full_attn_layers names layer"));
  }
  for (long long n : {4294967304LL, -8LL})
    EXPECT_THAT(changed("hunyuan-a13b", "moe_topk", Json(32, n)), HasSubstr("moe_topk must be a whole number"));
  EXPECT_THAT(refusal(with(published("longcat-flash"), {{"moe_topk", 8388620}})),
              HasSubstr("8388620 choices"));  // times 512 they are 2^32 more than 12 times 512
  EXPECT_THAT(refusal(with(published("lfm2-1.2b"), {{"block_ff_dim", 2000000000}, {"block_ffn_dim_multiplier", 90}})),
              HasSubstr("more than any model has"));
}

// What a class means by a field that is not there (transformers).
TEST(RefusedConfigs, FieldsLeftOut) {
  Json lfm2 = published("lfm2-1.2b");
  lfm2.erase("full_attn_idxs");  // attention in each of its 16 layers
  EXPECT_EQ(keys_and_values(lfm2, 1000), 16 * 1000 * 2 * 8 * 64 * 2.0);
  Json experts = published("lfm2-8b-a1b");
  experts.erase("layer_types");
  EXPECT_THAT(refusal(experts), HasSubstr("layer_types"));
  for (const char* key : {"parallel_attn_mlp_res", "moe_layer_frequency"}) {
    Json arctic = published("arctic");
    arctic.erase(key);
    EXPECT_THAT(refusal(arctic), HasSubstr(key));
  }
  Json mistral = published("mistral-small-3.1");
  double layer = 40 * 2 * 8 * 128 * 2.0;
  EXPECT_EQ(keys_and_values(mistral, 10000), layer * 10000) << "null: no window";
  EXPECT_THAT(notes_of(mistral), Not(Contains(HasSubstr("leaves out"))));
  mistral["text_config"].erase("sliding_window");
  EXPECT_EQ(keys_and_values(mistral, 10000), layer * 4096);
  EXPECT_THAT(notes_of(mistral), Contains(HasSubstr("leaves out: sliding_window = 4096")));
  EXPECT_THAT(notes_of(published("gemma-3-4b")), Contains(HasSubstr("num_attention_heads = 8")));
}

TEST(RefusedConfigs, WhatIsNotCountedIsSaid) {
  Json v4 = published("deepseek-v4-flash");
  EXPECT_THAT(notes_of(v4), Not(Contains(HasSubstr("expert_dtype"))));
  v4.erase("quantization_config");
  EXPECT_THAT(notes_of(v4), Contains(HasSubstr("expert_dtype")));
  EXPECT_THAT(notes_of(with(published("ling-mini-2"), {{"num_mtp_layers", 1}})),
              Contains(HasSubstr("num_mtp_layers")));
}

// A shared expert of no width is none, not one of the others' width.
TEST(RefusedConfigs, SharedExpertsWithoutWidth) {
  auto without = [](const char* name, const char* key) {
    Graph g = build_transformer(read_hf_config(with(published(name), {{key, 0}}).dump(), "c"));
    return g.find_axis("shared_ffn") == kNoAxis;
  };
  EXPECT_TRUE(without("granite-4-h-small", "shared_intermediate_size"));
  EXPECT_TRUE(without("ling-mini-2", "moe_shared_expert_intermediate_size"));
  EXPECT_TRUE(without("qwen1.5-moe", "shared_expert_intermediate_size"));
}

// Of the head's two biases each is there when the config says so; windows must be those of the list.
TEST(RefusedConfigs, HeadsAndWindowsOfModernBert) {
  Json base = published("modernbert-base");
  auto size = [](const Json& json) {
    return count_parameters(build_transformer(read_hf_config(json.dump(), "c"))).total;
  };
  EXPECT_EQ(size(with(base, {{"classifier_bias", true}})) - size(base), 768);
  EXPECT_EQ(size(base) - size(with(base, {{"decoder_bias", false}})), 50368);
  EXPECT_THAT(refusal(with(base, {{"layer_types", Json(22, "full_attention")}})), HasSubstr("layer_types"));
}

}  // namespace
}  // namespace orrery::graph
