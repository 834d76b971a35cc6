// Further readers of config.json: attention models of 2024 to 2026 whose fields or layers differ from those
// of the families in hf_families.cc and hf_more.cc. Shapes follow the published implementations
// (transformers; those of Bailing, MiniCPM, Exaone 3, Grok and Step their own).
#include <charconv>

#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

// Layers with experts behind the first dense ones.
void experts_behind_dense(ConfigReader& r, TransformerSpec& s, const char* experts) {
  s.kind = "moe";
  s.dense_ffn = r.integer("intermediate_size"), s.ffn = 0;
  s.dense_layers = leading_dense(r, s, "first_k_dense_replace");
  s.experts = r.integer(experts), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size");
  note_further_tokens(r, s);
}

void olmo3(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qk_norm = QkNorm::kAll;
  r.only("attention_bias", false, "biases in attention");
  s.window = r.positive("sliding_window");
  s.window_layers = r.has("layer_types") ? listed_windows(r, s) : s.layers - s.layers / 4;
  r.ignore({"layer_types"});
}

// One number for all layers, or a list of equal ones.
int same_in_all(ConfigReader& r, const char* key, int layers) {
  const Json& value = r.required(key);
  if (value.is_number_integer()) return r.integer(key);
  const Json& all = r.list(key, layers);
  for (const Json& one : all)
    if (r.whole(one, key) != r.whole(all.front(), key))
      base::fail("{}: {} differs from layer to layer, which is not supported", r.origin(), key);
  return r.whole(all.front(), key);
}

void hunyuan(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
  if (r.has("attention_head_dim") && r.integer("attention_head_dim") != s.head_dim)
    base::fail("{}: head_dim and attention_head_dim differ", r.origin());
  if (r.flag_or("use_qk_norm", true)) s.qk_norm = QkNorm::kHead;
  r.only("use_cla", false, "layers that share keys and values");
  r.only("use_mla", false, "latent attention");
  r.only("add_classification_head", false, "a head that names classes");  // class_num and dense_list are its
  if (!r.has("norm_type") || r.word("norm_type") != "hf_rms") r.only("norm_type", "rms", "norms of another kind");
  r.ignore({"attention_head_dim",
            "cla_share_factor",
            "class_num",
            "dense_list",
            "org_vocab_size",
            "pool_type",
            "use_rotary_pos_emb",
            "position_embedding_xdrope",
            "enable_lm_head_fp32",
            "pad_id",
            "sep_id",
            "eod_token_id",
            "eod_id",
            "im_start_id",
            "im_end_id",
            "im_newline_id",
            "mask_init_id",
            "text_start_id",
            "text_end_id",
            "image_token_id",
            "num_media_embeds",
            "xdrope_section",
            "cla_share_factor",
            "kv_lora_rank",
            "q_lora_rank",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "v_head_dim"});
}
void hunyuan_dense(ConfigReader& r, TransformerSpec& s) {
  hunyuan(r, s);
  r.ignore({"num_experts", "num_shared_expert", "moe_topk", "use_mixed_mlp_moe", "moe_intermediate_size"});
  if (r.has("num_experts") && same_in_all(r, "num_experts", s.layers) != 1)
    base::fail("{}: num_experts of a dense model", r.origin());
}
void hunyuan_moe(ConfigReader& r, TransformerSpec& s) {
  hunyuan(r, s);
  s.kind = "moe";
  s.experts = same_in_all(r, "num_experts", s.layers),
  s.experts_per_token = same_in_all(r, "moe_topk", s.layers);
  s.expert_ffn = r.has("moe_intermediate_size") ? same_in_all(r, "moe_intermediate_size", s.layers) : s.ffn;
  if (r.flag_or("use_mixed_mlp_moe", false)) {
    read_shared_experts(r, s, same_in_all(r, "num_shared_expert", s.layers), s.ffn);
  }
  s.ffn = 0;
  r.only("moe_layer_num_skipped", 0, "leading dense layers");
  r.ignore({"num_shared_expert", "moe_drop_tokens", "moe_random_routing_dropped_token", "capacity_factor",
            "group_limited_greedy", "moe_intermediate_size", "n_group", "topk_group",
            "routed_scaling_factor"});
}

void dots1(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.tied = r.flag_or("tie_word_embeddings", false);
  experts_behind_dense(r, s, "n_routed_experts");
  s.shared_experts = r.integer_or("n_shared_experts", 0);
  s.router_bias = true;  // the correction of the balance
  s.qk_norm = QkNorm::kHead;
  r.only("attention_bias", false, "biases in attention");
  r.only("moe_layer_freq", 1, "expert layers that alternate with dense ones");
  r.only("sliding_window", nullptr, "windowed attention");
  r.ignore({"layer_types", "max_window_layers"});
}

void deepseek_v1(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.tied = r.flag_or("tie_word_embeddings", false);
  experts_behind_dense(r, s, "n_routed_experts");
  s.shared_experts = r.integer_or("n_shared_experts", 0);
  r.only("attention_bias", false, "biases in attention");
  r.only("moe_layer_freq", 1, "expert layers that alternate with dense ones");
}

// Ling and Ring.
void bailing(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.tied = r.flag_or("tie_word_embeddings", false);
  experts_behind_dense(r, s, "num_experts");
  s.shared_experts = r.integer_or("num_shared_experts", 0);
  if (r.has("moe_shared_expert_intermediate_size"))
    read_shared_experts(r, s, s.shared_experts, r.integer("moe_shared_expert_intermediate_size"));
  r.ignore({"moe_shared_expert_intermediate_size"});
  s.router_bias = r.flag_or("moe_router_enable_expert_bias", false);
  if (r.flag_or("use_qk_norm", false)) s.qk_norm = QkNorm::kHead;
  s.qkv_bias = r.flag_or("use_qkv_bias", false);
  s.o_bias = r.flag_or("use_bias", false);
  r.only("use_rmsnorm", true, "norms of another kind");
  r.only("use_sliding_window", false, "which layers are windowed is not recorded here");
  note_further_tokens(r, s, "num_mtp_layers");
  r.only("mtp_loss_scaling_factor", 0, "training of layers that predict further tokens");
  r.ignore({"output_dropout", "embedding_dropout", "rotary_dim", "score_function", "router_dtype",
            "moe_router_topk_scaling_factor", "norm_head", "norm_softmax", "sliding_window",
            "use_expert_bias", "router_type"});
}

// Each layer is two of attention and feed-forward, with experts beside the first of them; some of the choices
// of a token are experts that hand on what they get: of k choices n/(n + idle) meet weights when they are
// uniform.
void longcat(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {.layers = "num_layers"});
  s.kind = "moe", s.gated = true;
  s.vocab = r.integer("vocab_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.q_lora = r.positive("q_lora_rank"), s.kv_lora = r.positive("kv_lora_rank");
  s.nope = r.positive("qk_nope_head_dim"), s.rope = r.positive("qk_rope_head_dim"),
  s.v_dim = r.positive("v_head_dim");
  s.head_dim = s.v_dim;
  s.dense_ffn = r.integer("ffn_hidden_size"), s.expert_ffn = r.integer("expert_ffn_hidden_size");
  s.experts = r.positive("n_routed_experts"), s.idle_experts = r.integer_or("zero_expert_num", 0);
  long long choices = r.positive("moe_topk"), all = 0LL + s.experts + s.idle_experts;
  long long real = choices * s.experts / all;
  if (real * all != choices * s.experts)
    base::fail("{}: of {} choices among {} experts and {} idle ones no whole number meets weights",
               r.origin(), choices, s.experts, s.idle_experts);
  s.experts_per_token = static_cast<int>(real);
  s.router_bias = true;
  if (s.idle_experts)
    s.notes.push_back(fmt::format(
        "of {} experts that a token chooses {} have weights when choices are uniform", choices, real));
  r.only("zero_expert_type", "identity", "idle experts that compute something");
  r.only("attention_bias", false, "biases of the latent projections");
  r.only("router_bias", false, "a bias of the router's product");
  note_further_tokens(r, s);
  r.ignore({"num_hidden_layers", "num_key_value_heads", "attention_method", "mla_scale_q_lora",
            "mla_scale_kv_lora", "router_dtype", "head_dim", "qk_head_dim", "intermediate_size",
            "moe_intermediate_size", "num_experts_per_tok"});
  for (int i = 0; i < s.layers; ++i)
    s.add_layer(Mixer::kAttention, Feed::kBoth), s.add_layer(Mixer::kAttention, Feed::kDense);
  s.layers = r.product("num_layers", 2, s.layers);
}

// Without a gate; the activation has two numbers of its own in each layer.
void apertus(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.gated = false;
  s.qk_norm = QkNorm::kHead;
  s.activation_weights = 2;
  r.only("hidden_act", "xielu", "another activation");
  r.only("attention_bias", false, "biases in attention");
  r.only("mlp_bias", false, "biases in the feed-forward part");
  r.only("post_norm", false, "norms behind each part");
  r.only("qk_norm", true, "queries and keys that are not normalised");
}

void arcee(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.gated = false;
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
}

void exaone3(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {.layers = "num_layers"});
  s.gated = true;
  s.vocab = r.integer("vocab_size");
  s.kv_heads = r.integer_or("num_key_value_heads", s.heads);
  s.head_dim = r.integer_or("head_dim", s.head_dim);
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", true);
  r.ignore({"num_hidden_layers", "embed_dropout", "embd_dropout"});
}

void minicpm(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  r.only("attention_bias", false, "biases in attention");
  if (r.has("sparse_config")) s.notes.push_back("sparse attention (sparse_config) is charged in full here");
  r.ignore({"scale_emb", "scale_depth", "dim_model_base", "sparse_config", "mup_denominator", "mlp_bias"});
}
void minicpm3(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.q_lora = r.integer("q_lora_rank"), s.kv_lora = r.positive("kv_lora_rank");
  s.nope = r.integer("qk_nope_head_dim"), s.rope = r.integer("qk_rope_head_dim");
  s.v_dim = r.has("v_head_dim") ? r.integer("v_head_dim") : s.hidden / r.positive("num_attention_heads");
  s.head_dim = s.v_dim;
  r.only("attention_bias", false, "biases in attention");
  r.ignore({"scale_emb", "scale_depth", "dim_model_base", "mup_denominator", "mlp_bias", "head_dim"});
}

// Grok 1, and Grok 2 with a dense part beside the experts.
void grok(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.kind = "moe", s.norms_per_layer = 4;
  s.experts = r.has("num_local_experts") ? r.integer("num_local_experts") : r.integer("num_experts");
  s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer_or("moe_intermediate_size", s.ffn);
  r.only("sliding_window_size", -1, "windowed attention");
  r.only("global_attn_every_n", 1, "windowed attention");
  bool beside = r.flag_or("residual_moe", false);
  if (beside) s.dense_ffn = s.ffn;
  s.ffn = 0;
  r.ignore({"num_experts",
            "num_local_experts",
            "attn_output_multiplier",
            "embedding_multiplier_scale",
            "output_multiplier_scale",
            "max_attn_value",
            "max_attn_val",
            "attn_logit_softcapping",
            "router_logit_softcapping",
            "attn_temperature_len",
            "embedding_multiplier",
            "final_logit_softcapping",
            "scaling_factor",
            "extrapolation_factor",
            "attn_factor",
            "beta_fast",
            "beta_slow",
            "rope_type",
            "dual_rotary"});
  if (beside)
    for (int i = 0; i < s.layers; ++i) s.add_layer(Mixer::kAttention, Feed::kBoth);
}

// A dense part as wide as the stream beside the experts, with a norm of its own.
void arctic(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.kind = "moe";
  s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = s.ffn, s.ffn = 0, s.dense_ffn = s.hidden, s.expert_norms = 1;
  // Left out they mean something else: no dense part beside the experts, and experts in every second layer.
  for (const char* key : {"parallel_attn_mlp_res", "moe_layer_frequency"}) r.required(key);
  r.only("parallel_attn_mlp_res", true, "experts behind the dense part");
  r.only("use_residual", true, "layers without a dense part");
  r.only("moe_layer_frequency", 1, "expert layers that alternate with dense ones");
  r.only("attention_bias", false, "biases in attention");
  r.only("sliding_window", nullptr, "windowed attention");
  r.ignore({"enable_expert_tensor_parallelism", "moe_eval_capacity_factor", "moe_train_capacity_factor",
            "moe_min_capacity", "moe_token_dropping", "quantization", "enc_index"});
  for (int i = 0; i < s.layers; ++i) s.add_layer(Mixer::kAttention, Feed::kBoth);
}

// Windowed layers have heads of their own, attention is gated head by head, and some layers have experts
// (Step 3.5).
void step3p5(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {});
  s.kind = "moe", s.gated = true;
  s.vocab = r.integer("vocab_size");
  s.kv_heads = r.positive("num_attention_groups"), s.head_dim = r.positive("head_dim");
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.dense_ffn = r.positive("intermediate_size");
  s.experts = r.positive("moe_num_experts"), s.experts_per_token = r.positive("moe_top_k");
  s.expert_ffn = r.positive("moe_intermediate_size");
  s.shared_experts = 1;
  s.shared_ffn = r.has("share_expert_dim") ? r.positive("share_expert_dim") : r.positive("share_expert_dims");
  s.router_bias = r.flag_or("use_moe_router_bias", false);
  s.head_gate = r.flag_or("use_head_wise_attn_gate", false);
  if (r.flag_or("use_qk_norm", true)) s.qk_norm = QkNorm::kHead;
  s.window = r.positive("sliding_window");
  ConfigReader other = r.part("attention_other_setting");
  other.only("attention_type", "sliding_attention", "another kind of attention");
  LayerGroup window;
  window.mixer = Mixer::kWindow;
  window.heads = other.positive("num_attention_heads"),
  window.kv_heads = other.positive("num_attention_groups");
  window.head_dim = other.positive("head_dim");
  other.only("true_head_dim", window.head_dim, "heads of another width");
  other.finish();
  std::set<int> experts;
  std::string text = r.word("moe_layers_enum");
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(',', at), text.size());
    int layer = -1;
    auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, layer);
    if (error != std::errc() || rest != text.data() + end || layer < 0)
      base::fail("{}: moe_layers_enum must list layers, not '{}'", r.origin(), text.substr(0, 60));
    experts.insert(r.place(layer, "moe_layers_enum", s.layers)), at = end + 1;
  }
  note_further_tokens(r, s);
  const Json& types = r.list("layer_types");
  if (static_cast<int>(types.size()) < s.layers)
    base::fail("{}: layer_types has {} entries for {} layers", r.origin(), types.size(), s.layers);
  for (int i = 0; i < s.layers; ++i) {
    const Json& type = types[static_cast<std::size_t>(i)];
    if (type != "sliding_attention" && type != "full_attention")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    LayerGroup layer = type == "sliding_attention" ? window : LayerGroup{};
    s.window_layers += type == "sliding_attention";
    layer.feed = experts.contains(i) ? Feed::kExperts : Feed::kDense;
    s.add_layer(layer);
  }
  r.only("use_moe", true, "layers without experts");
  r.only("sink", false, "attention sinks");
  r.only("use_mfa", false, "attention of another kind");
  // The list decides; these would without one.
  r.only("moe_every_n_layer", 1, "a pattern beside moe_layers_enum");
  r.only("moe_layer_offset", 0, "a pattern beside moe_layers_enum");
  r.ignore({"share_expert_dim", "share_expert_dims", "moe_layers_enum", "moe_router_activation",
            "moe_router_scaling_factor", "norm_expert_weight", "need_fp32_gate", "att_impl_type",
            "zero_centered", "max_seq_len", "partial_rotary_factors", "yarn_only_types", "use_rope_layers",
            "swiglu_limits", "swiglu_limits_shared", "rope_theta", "use_swiglu_limit"});
}

constexpr Architecture kRecent[] = {
    {"Olmo3ForCausalLM", "olmo-3", olmo3},
    {"HunYuanDenseV1ForCausalLM", "hunyuan", hunyuan_dense},
    {"HunYuanMoEV1ForCausalLM", "hunyuan", hunyuan_moe},
    {"Dots1ForCausalLM", "dots1", dots1},
    {"DeepseekForCausalLM", "deepseek-moe", deepseek_v1},
    {"BailingMoeForCausalLM", "bailing", bailing},
    {"BailingMoeV2ForCausalLM", "bailing", bailing},
    {"LongcatFlashForCausalLM", "longcat", longcat},
    {"ApertusForCausalLM", "apertus", apertus},
    {"ArceeForCausalLM", "arcee", arcee},
    {"ExaoneForCausalLM", "exaone", exaone3},
    {"MiniCPMForCausalLM", "minicpm", minicpm},
    {"MiniCPM3ForCausalLM", "minicpm-3", minicpm3},
    {"Grok1ForCausalLM", "grok", grok},
    {"Grok1ModelForCausalLM", "grok", grok},
    {"ArcticForCausalLM", "arctic", arctic},
    {"Step3p5ForCausalLM", "step-3.5", step3p5},
};

}  // namespace

std::span<const Architecture> recent_architectures() { return kRecent; }

}  // namespace orrery::graph
