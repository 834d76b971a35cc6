// Readers of config.json for models with latent attention: DeepSeek V2 and V3, GLM-4.7-Flash, and those that
// choose keys (DeepSeek V3.2, GLM-5). Shapes follow the published implementations (transformers, vLLM).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

void deepseek(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.q_lora = r.has("q_lora_rank") ? r.integer("q_lora_rank") : 0;
  r.ignore({"q_lora_rank", "head_dim", "moe_layer_freq"});
  note_further_tokens(r, s);
  s.kv_lora = r.integer("kv_lora_rank");
  s.nope = r.integer("qk_nope_head_dim");
  s.rope = r.integer("qk_rope_head_dim");
  s.v_dim = r.integer("v_head_dim");
  r.ignore({"qk_head_dim"});
  s.head_dim = s.v_dim;
  s.dense_ffn = r.integer("intermediate_size");
  s.dense_layers = leading_dense(r, s, "first_k_dense_replace");
  s.experts = r.integer("n_routed_experts");
  s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size");
  s.shared_experts = r.integer_or("n_shared_experts", 0);
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.only("attention_bias", false, "biases of the latent projections");
  r.only("mlp_bias", false, "biases in the feed-forward part");
  r.only("moe_layer_freq", 1, "expert layers that alternate with dense ones");
  r.only("use_mla", true, "attention that is not latent");
  r.only("rm_head", false, "a model without a head");
}

void deepseek_v3(ConfigReader& r, TransformerSpec& s) {
  deepseek(r, s);
  s.router_bias = true;  // the correction of the balance without an auxiliary loss
}

// A dense layer where the list of kinds says so; it must agree with first_k_dense_replace.
void check_dense_layers(ConfigReader& r, const TransformerSpec& s) {
  if (!r.has("mlp_layer_types")) return r.ignore({"mlp_layer_types"});
  int layer = 0;
  for (const Json& type : r.list("mlp_layer_types", s.layers))
    if (type != (layer++ < s.dense_layers ? "dense" : "sparse"))
      base::fail("{}: mlp_layer_types has {} for layer {}, where first_k_dense_replace = {}", r.origin(),
                 type.dump(), layer - 1, s.dense_layers);
}

// Every layer sees the index_topk keys that an indexer chose: its own, or one of a layer before it.
void sparse(ConfigReader& r, TransformerSpec& s) {
  deepseek_v3(r, s);
  s.index_heads = r.positive("index_n_heads"), s.index_dim = r.positive("index_head_dim");
  s.index_topk = r.positive("index_topk");
  if (s.q_lora == 0) base::fail("{}: an indexer without q_lora_rank is not known", r.origin());
  check_dense_layers(r, s);
  r.only("num_experts", s.experts, "another number than n_routed_experts");
  r.only("index_topk_pattern", nullptr, "another way to say which layers choose keys");
  r.ignore({"indexer_types", "index_topk_freq", "index_skip_topk_offset", "index_share_for_mtp_iteration",
            "indexer_rope_interleave", "moe_router_dtype", "layer_types"});
  if (r.has("layer_types"))
    for (const Json& type : r.list("layer_types", s.layers))
      if (type != "deepseek_sparse_attention")
        base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
  if (!r.has("indexer_types") && r.integer_or("index_topk_freq", 1) != 1)
    base::fail("{}: index_topk_freq without the list indexer_types", r.origin());
  bool own = false;  // a layer has chosen keys
  for (int i = 0; i < s.layers; ++i) {
    LayerGroup layer;
    layer.feed = i < s.dense_layers ? Feed::kDense : Feed::kExperts;
    layer.indexer = true;
    if (r.has("indexer_types")) {
      const Json& type = r.list("indexer_types", s.layers)[static_cast<std::size_t>(i)];
      if (type != "full" && type != "shared")
        base::fail("{}: indexer type {} is unknown", r.origin(), type.dump());
      layer.indexer = type == "full";
      own = own || layer.indexer;
      if (!own) base::fail("{}: indexer_types has \"shared\" for layer {}, before any \"full\"", r.origin(), i);
    }
    s.add_layer(layer);
  }
}

void glm_lite(ConfigReader& r, TransformerSpec& s) {
  deepseek_v3(r, s);
  check_dense_layers(r, s);
}

constexpr Architecture kLatent[] = {
    {"DeepseekV2ForCausalLM", "deepseek", deepseek},       {"DeepseekV3ForCausalLM", "deepseek", deepseek_v3},
    {"DeepseekV32ForCausalLM", "deepseek-sparse", sparse}, {"GlmMoeDsaForCausalLM", "glm-5", sparse},
    {"Glm4MoeLiteForCausalLM", "glm-4-moe", glm_lite},
};

}  // namespace

std::span<const Architecture> latent_architectures() { return kLatent; }

}  // namespace orrery::graph
