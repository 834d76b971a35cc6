// Configs that say what a reader does not count: each is refused by the name of the field, or counted as its
// publisher's implementation does. Expected sizes follow from the shapes by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../error_of.h"
#include "base/error.h"
#include "graph/config_reader.h"
#include "graph/graph_file.h"
#include "graph/serve.h"

namespace orrery::graph {
namespace {

using ::testing::HasSubstr;

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
  return {{"architectures", {architecture}}, {"hidden_size", 4096},       {"intermediate_size", 14336},
          {"num_attention_heads", 32},       {"num_hidden_layers", 4},    {"num_key_value_heads", 8},
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
  Json mpt = {{"architectures", {"MPTForCausalLM"}}, {"d_model", 4096}, {"n_heads", 32},        {"n_layers", 2},
              {"vocab_size", 50432},                 {"no_bias", true}, {"max_seq_len", 2048}};
  auto attention = [&](Json config) { return with(mpt, {{"attn_config", std::move(config)}}); };
  auto width = [&](const char* type, Json more) {
    more["attn_type"] = type, more["alibi"] = true;
    return keys_and_values(attention(more), 1);
  };
  EXPECT_EQ(width("multihead_attention", {}), 2 * 2 * 32 * 128 * 2.0);
  EXPECT_EQ(width("multiquery_attention", {}), 2 * 2 * 1 * 128 * 2.0);
  EXPECT_EQ(width("grouped_query_attention", {{"kv_n_heads", 8}}), 2 * 2 * 8 * 128 * 2.0);
  EXPECT_THAT(refusal(attention({{"attn_type", "grouped_query_attention"}, {"kv_n_heads", 0}})), HasSubstr("kv_n_heads"));
  EXPECT_THAT(refusal(attention({{"sliding_window_size", 128}})), HasSubstr("sliding_window_size"));
  EXPECT_THAT(refusal(attention({{"unheard_of", 1}})), HasSubstr("unheard_of"));
  EXPECT_THAT(refusal(attention("x")), HasSubstr("attn_config must be an object"));
  EXPECT_THAT(refusal(with(attention({{"alibi", true}}), {{"ffn_config", {{"ffn_type", "mptglu"}}}})), HasSubstr("mptglu"));

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
  EXPECT_THAT(changed("attention", "mamba", {{"state_dim", 128}}), HasSubstr("block_configs[2]: attention: mamba"));
  EXPECT_THAT(changed("ffn", "moe", {{"num_local_experts", 8}}), HasSubstr("block_configs[2]: ffn: moe"));
  EXPECT_THAT(changed("ffn", "unheard_of", 1), HasSubstr("unheard_of"));
  EXPECT_THAT(refusal(with(deci, {{"block_configs", Json(4, {{"attention", "x"}, {"ffn", 5}})}})), HasSubstr("must be an object"));
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

}  // namespace
}  // namespace orrery::graph
