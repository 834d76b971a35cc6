// Configs of models without attention, or with attention in some of their layers only.
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

void mamba1(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {.heads = nullptr});
  s.vocab = r.integer("vocab_size");
  s.ssm_state = r.integer("state_size");
  s.ssm_conv = r.integer("conv_kernel");
  s.ssm_inner = r.has("intermediate_size") ? r.integer("intermediate_size") : r.product("expand", r.integer("expand"), s.hidden);
  s.ssm_rank = r.integer("time_step_rank");
  s.ssm_conv_bias = r.flag_or("use_conv_bias", true);
  s.tied = r.flag_or("tie_word_embeddings", true);
  r.only("use_bias", false, "biases in projections");
  r.ignore({"expand", "intermediate_size", "d_inner", "d_model", "n_layer", "ssm_cfg", "fused_add_norm",
            "pad_vocab_size_multiple", "residual_in_fp32", "rms_norm", "rescale_prenorm_residual",
            "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min", "time_step_scale",
            "use_mambapy", "mixer_rms_eps"});
  for (int i = 0; i < s.layers; ++i) s.add_layer(Mixer::kMamba1, Feed::kNone);
}

// Mamba's own config: what it does not name is the same in all of its checkpoints.
void mamba_original(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layer", "d_model", nullptr});
  int multiple = r.integer_or("pad_vocab_size_multiple", 8), vocab = r.integer("vocab_size");
  if (multiple < 1) base::fail("{}: pad_vocab_size_multiple must be at least 1", r.origin());
  s.vocab = r.product("pad_vocab_size_multiple", static_cast<int>((static_cast<long long>(vocab) + multiple - 1) / multiple), multiple);
  r.only("ssm_cfg", Json::object(), "state-space layers of another shape (Mamba 2 has a config.json of transformers)");
  r.only("attn_layer_idx", Json::array(), "attention in some layers");
  r.only("d_intermediate", 0, "layers with a feed-forward part");
  s.ssm_state = 16, s.ssm_conv = 4, s.ssm_inner = 2 * s.hidden, s.ssm_rank = (s.hidden + 15) / 16;
  s.tied = r.flag_or("tie_embeddings", true);
  r.ignore({"rms_norm", "residual_in_fp32", "fused_add_norm", "attn_cfg"});
  for (int i = 0; i < s.layers; ++i) s.add_layer(Mixer::kMamba1, Feed::kNone);
}

void jamba(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.dense_ffn = s.expert_ffn = r.integer("intermediate_size");
  s.experts = r.integer("num_experts");
  s.experts_per_token = r.integer("num_experts_per_tok");
  s.ssm_state = r.integer("mamba_d_state"), s.ssm_conv = r.integer("mamba_d_conv");
  s.ssm_inner = r.product("mamba_expand", r.integer("mamba_expand"), s.hidden);
  s.ssm_rank = r.integer("mamba_dt_rank");
  s.ssm_conv_bias = r.flag_or("mamba_conv_bias", true);
  s.ssm_inner_norms = true;
  r.only("mamba_proj_bias", false, "biases in projections");
  r.only("sliding_window", nullptr, "windowed attention");
  r.ignore({"num_logits_to_keep", "use_mamba_kernels", "n_ctx", "calc_logits_for_entire_prompt",
            "mamba_inner_layernorms"});
  int period = r.integer("attn_layer_period"), offset = r.integer("attn_layer_offset");
  int every = r.integer("expert_layer_period"), first = r.integer("expert_layer_offset");
  if (period < 1 || every < 1) base::fail("{}: layer periods must be positive", r.origin());
  for (int i = 0; i < s.layers; ++i)
    s.add_layer(i % period == offset ? Mixer::kAttention : Mixer::kMamba1,
                s.experts > 1 && i % every == first ? Feed::kExperts : Feed::kDense);
}

}  // namespace

void read_mamba2_fields(ConfigReader& r, TransformerSpec& s) {
  s.ssm_heads = r.integer("mamba_n_heads");
  s.ssm_inner = r.product("mamba_d_head", s.ssm_heads, r.integer("mamba_d_head"));
  s.ssm_state = r.integer("mamba_d_state"), s.ssm_conv = r.integer("mamba_d_conv");
  s.ssm_groups = r.integer("mamba_n_groups");
  s.ssm_conv_bias = r.flag_or("mamba_conv_bias", true);
  r.only("mamba_proj_bias", false, "biases in projections");
  r.only("attention_bias", false, "biases in attention");
  r.only("mlp_bias", false, "biases in the feed-forward part");
  r.ignore({"mamba_chunk_size", "mamba_expand", "num_logits_to_keep", "time_step_floor", "time_step_limit",
            "time_step_max", "time_step_min", "z_loss_coefficient"});
}

namespace {

void bamba(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  read_mamba2_fields(r, s);
  r.ignore({"attn_rotary_emb"});
  std::set<int> attention = r.places("attn_layer_indices", s.layers);
  for (int i = 0; i < s.layers; ++i)
    s.add_layer(attention.contains(i) ? Mixer::kAttention : Mixer::kMamba2, Feed::kDense);
}

void falcon_h1(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  read_mamba2_fields(r, s);
  s.ssm_gate_norm = r.flag_or("mamba_rms_norm", false);
  if (r.has("mamba_d_ssm") && r.integer("mamba_d_ssm") != s.ssm_inner)
    base::fail("{}: mamba_d_ssm is not mamba_n_heads x mamba_d_head", r.origin());
  r.only("projectors_bias", false, "biases in projections");
  r.only("mamba_use_mlp", true, "layers without a feed-forward part");
  r.only("attn_layer_indices", nullptr, "attention in some layers only");
  r.ignore({"mamba_d_ssm", "mamba_norm_before_gate", "embedding_multiplier", "lm_head_multiplier",
            "key_multiplier", "attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
            "ssm_out_multiplier", "ssm_multipliers", "mlp_multipliers", "mlp_expansion_factor"});
  for (int i = 0; i < s.layers; ++i) s.add_layer(Mixer::kParallel, Feed::kDense);
}

// Experts without a gate, which newer ones reach through a latent of less width.
void nemotron_experts(ConfigReader& r, TransformerSpec& s) {
  r.ignore({"moe_shared_expert_overlap", "mtp_hybrid_override_pattern", "mtp_layers_block_type"});
  note_further_tokens(r, s);
  if (!r.has("n_routed_experts")) return;
  s.kind = "moe";
  s.dense_ffn = s.ffn, s.ffn = 0;
  s.experts = r.integer("n_routed_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size"), s.expert_latent = r.integer_or("moe_latent_size", 0);
  read_shared_experts(r, s, r.integer("n_shared_experts"), r.integer("moe_shared_expert_intermediate_size"));
  s.router_bias = true;  // the correction of the balance
}

// The kind of each layer, a letter each: by name in newer configs.
std::string nemotron_layers(ConfigReader& r) {
  if (!r.has("layers_block_type")) return r.word("hybrid_override_pattern");
  std::string text;
  for (const Json& type : r.list("layers_block_type")) {
    if (type != "mamba" && type != "attention" && type != "moe" && type != "mlp")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    text += type == "mamba" ? 'M' : type == "attention" ? '*' : type == "moe" ? 'E' : '-';
  }
  return text;
}

void nemotron_h(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.gated = false;
  if (r.has("attention_head_dim")) s.head_dim = r.integer("attention_head_dim");
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.ssm_heads = r.integer("mamba_num_heads");
  s.ssm_inner = r.product("mamba_head_dim", s.ssm_heads, r.integer("mamba_head_dim"));
  s.ssm_state = r.integer("ssm_state_size"), s.ssm_conv = r.integer("conv_kernel"),
  s.ssm_groups = r.integer("n_groups");
  s.ssm_conv_bias = r.flag_or("use_conv_bias", true);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
  r.only("use_bias", false, "biases in projections");
  r.only("mamba_proj_bias", false, "biases in projections");
  r.ignore({"attention_head_dim", "chunk_size", "expand", "mamba_hidden_act", "mlp_hidden_act",
            "num_logits_to_keep", "rescale_prenorm_residual", "residual_in_fp32", "sliding_window",
            "time_step_floor", "time_step_limit", "time_step_max", "time_step_min", "time_step_rank",
            "use_mamba_kernels", "mamba_n_groups", "norm_eps", "mamba_ssm_cache_dtype"});
  nemotron_experts(r, s);
  std::string text = nemotron_layers(r);
  if (static_cast<int>(text.size()) != s.layers)
    base::fail("{}: hybrid_override_pattern has {} layers, num_hidden_layers is {}", r.origin(), text.size(),
               s.layers);
  for (char c : text) {
    if (c == 'M')
      s.add_layer(Mixer::kMamba2, Feed::kNone);
    else if (c == '*')
      s.add_layer(Mixer::kAttention, Feed::kNone);
    else if (c == '-')
      s.add_layer(Mixer::kNone, Feed::kDense);
    else if (c == 'E' && s.moe())
      s.add_layer(Mixer::kNone, Feed::kExperts);
    else
      base::fail("{}: layer kind '{}' of hybrid_override_pattern is unknown", r.origin(), c);
  }
}

// Qwen3-Next and the language models of Qwen3.5, with experts or with a dense feed-forward part.
void qwen3_next(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  bool experts = r.has("num_experts");
  s.kind = experts ? "moe" : "dense";
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.qk_norm = QkNorm::kHead, s.attn_gate = true;
  if (experts) {
    s.experts = r.integer("num_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
    s.expert_ffn = r.integer("moe_intermediate_size");
    read_shared_experts(r, s, 1, r.integer("shared_expert_intermediate_size")), s.shared_gate = true;
  } else {
    s.ffn = r.integer("intermediate_size");
  }
  r.only("attn_output_gate", true, "attention without a gate");
  r.only("output_gate_type", "swish", "another function of the gate");
  if (r.integer_or("mtp_num_hidden_layers", 0) > 0)
    s.notes.push_back("the layer that predicts further tokens is not counted");
  r.ignore({"mtp_use_dedicated_embeddings", "mamba_ssm_dtype"});
  s.ssm_groups = r.integer("linear_num_key_heads"), s.ssm_state = r.integer("linear_key_head_dim");
  s.ssm_heads = r.integer("linear_num_value_heads");
  s.ssm_inner = r.product("linear_value_head_dim", s.ssm_heads, r.integer("linear_value_head_dim"));
  s.ssm_conv = r.integer("linear_conv_kernel_dim"), s.ssm_conv_bias = false;
  r.only("decoder_sparse_step", 1, "expert layers that alternate with dense ones");
  r.only("mlp_only_layers", Json::array(), "dense layers at given places");
  r.only("attention_bias", false, "biases in attention");
  r.only("use_sliding_window", false, "which layers are windowed is not recorded here");
  r.ignore({"intermediate_size", "full_attention_interval"});
  int interval = r.integer_or("full_attention_interval", 4);
  for (int i = 0; i < s.layers; ++i) {
    bool full = interval > 0 && (i + 1) % interval == 0;
    if (r.has("layer_types")) {
      const Json& type = r.list("layer_types", s.layers)[static_cast<std::size_t>(i)];
      if (type != "full_attention" && type != "linear_attention")
        base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
      full = type == "full_attention";
    }
    s.add_layer(full ? Mixer::kAttention : Mixer::kDelta, experts ? Feed::kExperts : Feed::kDense);
  }
  r.ignore({"layer_types"});
}

void recurrent_gemma(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.tied = r.flag_or("tie_word_embeddings", true);
  int width = r.integer("intermediate_size");
  if (width % 2) base::fail("{}: intermediate_size is not even", r.origin());
  s.ffn = width / 2;  // the config counts both branches
  s.mlp_bias = s.o_bias = true;
  s.window = r.integer("attention_window_size");
  s.ssm_inner = r.integer_or("lru_width", s.hidden);
  s.ssm_heads = s.heads, s.ssm_conv = r.integer("conv1d_width");
  r.only("attention_bias", false, "biases of queries, keys and values");
  r.ignore({"block_types", "logits_soft_cap", "embeddings_scale_by_sqrt_dim", "final_w_init_variance_scale",
            "w_init_variance_scale", "_block_types", "block_types"});
  const Json& types = r.required("block_types");
  if (!types.is_array() || types.empty()) base::fail("{}: block_types must list kinds of layers", r.origin());
  for (int i = 0; i < s.layers; ++i) {
    const Json& type = types[static_cast<std::size_t>(i) % types.size()];
    if (type != "recurrent" && type != "attention")
      base::fail("{}: block type {} is unknown", r.origin(), type.dump());
    bool attention = type == "attention";
    s.window_layers += attention;
    s.add_layer(attention ? Mixer::kWindow : Mixer::kRecurrent, Feed::kDense);
  }
}

// Layers of both Zambas: state-space ones, and hybrid ones that put a shared attention block in front of
// theirs.
void zamba_layers(ConfigReader& r, TransformerSpec& s, Mixer plain) {
  const Json& types = r.required("layers_block_type");
  if (!types.is_array() || static_cast<int>(types.size()) != s.layers)
    base::fail("{}: layers_block_type must name the kind of each of the {} layers", r.origin(), s.layers);
  for (const Json& type : types) {
    if (type != "mamba" && type != "hybrid")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    s.add_layer(type == "hybrid" ? Mixer::kShared : plain, Feed::kNone);
  }
  r.ignore({"hybrid_layer_ids",   "attn_layer_period", "attn_layer_offset",
            "num_logits_to_keep", "use_mamba_kernels", "kv_channels",
            "num_query_groups",   "use_mem_rope",      "use_long_context",
            "use_mem_eff_path",   "chunk_size",        "attention_hidden_size",
            "ffn_hidden_size",    "time_step_floor",   "time_step_limit",
            "time_step_max",      "time_step_min",     "rope_theta",
            "rms_norm",           "residual_in_fp32",  "rescale_prenorm_residual",
            "mamba_expand",       "use_bias"});
}

void zamba2(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.head_dim = r.integer("attention_head_dim");
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", true);
  s.ssm_heads = r.integer("n_mamba_heads");
  s.ssm_inner = r.has("mamba_headdim") ? r.product("mamba_headdim", s.ssm_heads, r.integer("mamba_headdim"))
                                       : r.product("mamba_expand", r.integer("mamba_expand"), s.hidden);
  s.ssm_state = r.integer("mamba_d_state"), s.ssm_conv = r.integer("mamba_d_conv"),
  s.ssm_groups = r.integer("mamba_ngroups");
  s.ssm_conv_bias = r.flag_or("use_conv_bias", true);
  s.shared_blocks = r.integer("num_mem_blocks");
  s.attention_adapters = r.flag_or("use_shared_attention_adapter", false);
  if (r.flag_or("use_shared_mlp_adapter", true)) s.adapter_rank = r.integer("adapter_rank");
  r.only("add_bias_linear", false, "biases in the feed-forward part");
  r.ignore({"adapter_rank", "state_size", "mamba_headdim"});
  zamba_layers(r, s, Mixer::kMamba2);
}

void zamba1(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.head_dim =
      r.has("attention_head_dim") ? r.integer("attention_head_dim") : 2 * s.hidden / std::max(1, s.heads);
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", true);
  s.ssm_inner = r.product("mamba_expand", r.integer("mamba_expand"), s.hidden);
  s.ssm_state = r.integer("mamba_d_state"), s.ssm_conv = r.integer("mamba_d_conv");
  s.ssm_rank = r.has("mamba_dt_rank") && r.required("mamba_dt_rank").is_number_integer()
                   ? r.integer("mamba_dt_rank")
                   : (s.hidden + 15) / 16;
  s.ssm_conv_bias = r.flag_or("mamba_conv_bias", true);
  s.shared_blocks = 1;
  r.only("mamba_proj_bias", false, "biases in projections");
  r.ignore({"n_mamba_heads", "attention_head_dim",
            "hidden_mamba_act"});  // heads of the mixer share out its weights
  zamba_layers(r, s, Mixer::kMamba1);
}

void mamba2(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {.heads = nullptr});
  s.ssm_layers = s.layers;
  s.vocab = r.integer("vocab_size");
  s.ssm_heads = r.integer("num_heads");
  s.ssm_inner = r.product("head_dim", s.ssm_heads, r.integer("head_dim"));
  s.ssm_state = r.integer("state_size");
  s.ssm_groups = r.integer("n_groups");
  s.ssm_conv = r.integer("conv_kernel");
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.only("use_bias", false, "biases in projections");
  r.only("intermediate_size", s.ssm_inner, "another width than that of its heads");
  r.ignore({"expand", "chunk_size", "rescale_prenorm_residual", "residual_in_fp32", "rms_norm",
            "time_step_rank", "time_step_floor", "time_step_limit", "time_step_max", "time_step_min",
            "time_step_init_scheme", "time_step_scale", "use_conv_bias", "norm_before_gate"});
}

constexpr Architecture kHybrids[] = {
    {"Mamba2ForCausalLM", "mamba2", mamba2},
    {"MambaForCausalLM", "mamba", mamba1},
    {"FalconMambaForCausalLM", "mamba", mamba1},
    {"MambaLMHeadModel", "mamba", mamba_original},
    {"JambaForCausalLM", "jamba", jamba},
    {"BambaForCausalLM", "bamba", bamba},
    {"FalconH1ForCausalLM", "falcon-h1", falcon_h1},
    {"NemotronHForCausalLM", "nemotron-h", nemotron_h},
    {"Qwen3NextForCausalLM", "qwen3-next", qwen3_next},
    {"Zamba2ForCausalLM", "zamba-2", zamba2},
    {"ZambaForCausalLM", "zamba", zamba1},
    {"RecurrentGemmaForCausalLM", "recurrent-gemma", recurrent_gemma},
};

}  // namespace

std::span<const Architecture> hybrid_architectures() { return kHybrids; }

}  // namespace orrery::graph
