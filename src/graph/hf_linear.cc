// Readers of config.json for models that mix attention with linear attention or short convolutions: Granite
// 4, LFM2, MiniMax Text 01 and M1, Kimi Linear and Kimi K3. Shapes follow the published implementations
// (transformers; those of MiniMax and Kimi their own).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

void granite_hybrid(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.tied = r.flag_or("tie_word_embeddings", true);
  bool experts = r.integer_or("num_local_experts", 0) > 0;
  s.kind = experts ? "moe" : "dense";
  if (experts) {
    s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
    s.expert_ffn = r.integer("intermediate_size");
    read_shared_experts(r, s, 1, r.integer("shared_intermediate_size"));
  } else {
    s.ffn = r.integer("shared_intermediate_size");
  }
  r.ignore({"intermediate_size", "num_experts_per_tok", "attention_multiplier", "embedding_multiplier",
            "logits_scaling", "residual_multiplier", "normalization_function", "shared_intermediate_size"});
  const Json& types = r.list(r.has("layer_types") ? "layer_types" : "layers_block_type", s.layers);
  r.ignore({"layer_types", "layers_block_type"});
  for (const Json& type : types) {
    if (type != "mamba" && type != "attention")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    s.add_layer(type == "mamba" ? Mixer::kMamba2 : Mixer::kAttention,
                experts ? Feed::kExperts : Feed::kDense);
  }
  read_mamba2_fields(r, s);
}

// The width that is given is brought to two thirds and up to a multiple, unless it is to be taken as it is.
int lfm2_width(ConfigReader& r) {
  int width = r.positive(r.has("intermediate_size") ? "intermediate_size" : "block_ff_dim");
  r.ignore({"block_ff_dim", "intermediate_size"});
  int multiple = r.positive_or("block_multiple_of", 256);
  double factor = 1;
  if (r.has("block_ffn_dim_multiplier")) {
    const Json& given = r.required("block_ffn_dim_multiplier");
    factor = given.is_number() ? given.get<double>() : 0;
    if (!(factor > 0 && factor < 100))
      base::fail("{}: block_ffn_dim_multiplier cannot be {}", r.origin(), given.dump());
  }
  r.ignore({"block_ffn_dim_multiplier"});
  if (!r.flag_or("block_auto_adjust_ff_dim", true)) return width;
  auto adjusted = static_cast<long long>(factor * static_cast<double>(2LL * width / 3));
  long long multiples = (adjusted + multiple - 1) / multiple;
  if (multiples > 2000000000)
    base::fail("{}: a feed-forward part {} wide is more than any model has", r.origin(), adjusted);
  return r.product("block_multiple_of", static_cast<int>(multiples), multiple);
}

void lfm2_layers(ConfigReader& r, TransformerSpec& s, int dense) {
  s.qk_norm = QkNorm::kHead;
  s.ssm_conv = r.positive("conv_L_cache"), s.ssm_conv_bias = r.flag_or("conv_bias", false);
  s.tied = r.flag_or("tie_word_embeddings", r.flag_or("tie_embedding", true));
  std::set<int> full;
  bool listed = r.has("full_attn_idxs");
  if (listed) full = r.places("full_attn_idxs", s.layers);
  if (!listed && s.moe()) r.required("layer_types");
  for (int i = 0; i < s.layers; ++i) {
    bool attention = !listed || full.contains(i);  // a model that lists nothing attends in every layer
    if (r.has("layer_types")) {
      const Json& type = r.list("layer_types", s.layers)[static_cast<std::size_t>(i)];
      if (type != "full_attention" && type != "conv")
        base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
      attention = type == "full_attention";
    }
    s.add_layer(attention ? Mixer::kAttention : Mixer::kShortConv, i < dense ? Feed::kDense : Feed::kExperts);
  }
  r.ignore({"full_attn_idxs", "layer_types", "tie_embedding", "theta", "conv_dim", "conv_dim_out",
            "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu",
            "block_use_xavier_init", "conv_use_xavier_init", "num_heads", "use_pos_enc",
            "block_mlp_init_scale", "norm_eps"});
}
void lfm2(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.ffn = lfm2_width(r);
  lfm2_layers(r, s, s.layers);
}
void lfm2_moe(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.dense_ffn = r.positive("intermediate_size");
  s.experts = r.positive("num_experts"), s.experts_per_token = r.positive("num_experts_per_tok");
  s.expert_ffn = r.positive("moe_intermediate_size");
  s.router_bias = r.flag_or("use_expert_bias", true);
  lfm2_layers(r, s, leading_dense(r, s, "num_dense_layers"));
}

// Attention that keeps a matrix for each head instead of keys, with full attention in some layers (1 in the
// list).
void minimax_text(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("intermediate_size");
  s.ssm_heads = s.ssm_groups = s.heads, s.ssm_state = s.head_dim;
  s.ssm_inner = r.product("num_attention_heads", s.heads, s.head_dim);
  r.only("shared_intermediate_size", 0, "shared experts");
  r.only("sliding_window", nullptr, "windowed attention");
  r.ignore({"shared_moe_mode", "postnorm", "rotary_dim", "layernorm_full_attention_alpha",
            "layernorm_full_attention_beta", "layernorm_linear_attention_alpha",
            "layernorm_linear_attention_beta", "layernorm_mlp_alpha", "layernorm_mlp_beta",
            "full_attn_alpha_factor", "full_attn_beta_factor", "linear_attn_alpha_factor",
            "linear_attn_beta_factor", "mlp_alpha_factor", "mlp_beta_factor", "block_size", "attn_type_list",
            "layer_types", "max_model_len"});
  const Json& types = r.list(r.has("layer_types") ? "layer_types" : "attn_type_list", s.layers);
  for (const Json& type : types) {
    bool full = type == 1 || type == "full_attention";
    if (!full && type != 0 && type != "linear_attention")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    s.add_layer(full ? Mixer::kAttention : Mixer::kLightning, Feed::kExperts);
  }
}

// Kimi's delta attention in most layers, latent attention without positions in the others; experts behind the
// first layers.
void kimi_linear(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.q_lora = r.integer_or("q_lora_rank", 0), s.kv_lora = r.positive("kv_lora_rank");
  s.nope = r.positive("qk_nope_head_dim"), s.rope = r.integer("qk_rope_head_dim"),
  s.v_dim = r.positive("v_head_dim");
  s.head_dim = s.v_dim;
  s.latent_gate = r.flag_or("mla_use_output_gate", false);
  s.dense_ffn = r.positive("intermediate_size");
  s.experts = r.positive("num_experts"), s.experts_per_token = r.positive("num_experts_per_token");
  s.expert_ffn = r.positive("moe_intermediate_size"),
  s.expert_latent = r.integer_or("routed_expert_hidden_size", 0);
  s.expert_latent_norm = r.flag_or("latent_moe_use_norm", false);
  s.shared_experts = r.integer_or("num_shared_experts", 0);
  s.router_bias = true;  // the correction of the balance
  s.depth_sources = r.integer_or("attn_res_block_size", 0);
  if (s.depth_sources) s.depth_sources = (s.layers + s.depth_sources - 1) / s.depth_sources;
  ConfigReader linear = r.part("linear_attn_config");
  s.ssm_heads = s.ssm_groups = linear.positive("num_heads"), s.ssm_state = linear.positive("head_dim");
  s.ssm_inner = r.product("num_heads", s.ssm_heads, s.ssm_state);
  s.ssm_conv = linear.positive("short_conv_kernel_size"), s.ssm_conv_bias = false;
  s.ssm_gate_rank = linear.flag_or("use_full_rank_gate", false) ? 0 : s.ssm_state;
  std::set<int> full = linear.places("full_attn_layers", s.layers, 1),
                delta = linear.places("kda_layers", s.layers, 1);
  linear.ignore({"gate_lower_bound"});
  linear.finish();
  int dense = leading_dense(r, s, "first_k_dense_replace");
  for (int i = 1; i <= s.layers; ++i) {  // the lists count from one
    if (full.contains(i) == delta.contains(i))
      base::fail("{}: linear_attn_config names no kind, or two, for layer {}", r.origin(), i);
    s.add_layer(full.contains(i) ? Mixer::kAttention : Mixer::kKda,
                i <= dense ? Feed::kDense : Feed::kExperts);
  }
  r.only("moe_layer_freq", 1, "expert layers that alternate with dense ones");
  r.only("mla_use_nope", true, "positions in the latent attention");
  note_further_tokens(r, s);
  r.ignore({"moe_renormalize", "moe_router_activation_func", "num_expert_group", "use_grouped_topk",
            "head_dim", "rope_theta", "activation_situ_beta", "activation_situ_linear_beta",
            "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
            "suppress_tokens", "bad_words_ids", "cross_attention_hidden_size"});
}

constexpr Architecture kLinear[] = {
    {"GraniteMoeHybridForCausalLM", "granite-4", granite_hybrid},
    {"Lfm2ForCausalLM", "lfm2", lfm2},
    {"Lfm2MoeForCausalLM", "lfm2", lfm2_moe},
    {"MiniMaxText01ForCausalLM", "minimax-text", minimax_text},
    {"MiniMaxM1ForCausalLM", "minimax-text", minimax_text},
    {"MiniMaxForCausalLM", "minimax-text", minimax_text},
    {"KimiLinearForCausalLM", "kimi-linear", kimi_linear},
};

}  // namespace

std::span<const Architecture> linear_architectures() { return kLinear; }

}  // namespace orrery::graph
