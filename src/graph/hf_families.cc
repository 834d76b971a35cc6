// Further readers of config.json: mixtures of Qwen2, GLM, Llama 4, MiniMax and Phi, and families whose layers
// differ from Llama's in norms, biases or activation. Shapes follow the published implementations
// (transformers).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

// Dense and expert layers by number, as Qwen's configs say it.
void sparse_layers(ConfigReader& r, TransformerSpec& s) {
  int step = r.integer_or("decoder_sparse_step", 1);
  std::set<int> dense;
  if (r.has("mlp_only_layers")) dense = r.places("mlp_only_layers", s.layers);
  r.ignore({"mlp_only_layers"});
  if (step < 1) base::fail("{}: decoder_sparse_step must be positive", r.origin());
  s.dense_ffn = s.ffn;
  s.ffn = 0;
  if (step == 1 && dense.empty()) return;
  for (int i = 0; i < s.layers; ++i)
    s.add_layer(Mixer::kAttention, !dense.contains(i) && (i + 1) % step == 0 ? Feed::kExperts : Feed::kDense);
}

void qwen2_moe(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.kind = "moe";
  s.qkv_bias = r.flag_or("qkv_bias", true);
  s.experts = r.integer("num_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size");
  read_shared_experts(r, s, 1, r.integer("shared_expert_intermediate_size")), s.shared_gate = true;
  sparse_layers(r, s);
  r.only("use_sliding_window", false, "which layers are windowed is not recorded here");
  r.ignore({"sliding_window", "layer_types"});
}

void phi(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.ffn = r.integer("intermediate_size");
  s.gated = false, s.norms_per_layer = 1, s.norm_bias = true;
  s.qkv_bias = s.o_bias = s.mlp_bias = s.head_bias = true;
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.only("qk_layernorm", false, "norms of queries and keys");
}

void phi_moe(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.expert_ffn = r.integer("intermediate_size");
  s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.norm_bias = true;
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.head_bias = r.flag_or("lm_head_bias", false);
  s.tied = r.flag_or("tie_word_embeddings", false);
  window_if_shorter(r, s);
  r.ignore({"input_jitter_noise"});
}

void glm(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = r.flag_or("attention_bias", false);
}
void glm_0414(ConfigReader& r, TransformerSpec& s) {
  glm(r, s);
  s.norms_per_layer = 4;
}

void glm4_moe(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.kind = "moe";
  s.dense_ffn = s.ffn, s.ffn = 0;
  s.dense_layers = leading_dense(r, s, "first_k_dense_replace");
  s.experts = r.integer("n_routed_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size");
  s.shared_experts = r.integer("n_shared_experts");
  s.router_bias = true;  // the correction of the balance without an auxiliary loss
  s.qkv_bias = r.flag_or("attention_bias", false);
  if (r.flag_or("use_qk_norm", false)) s.qk_norm = QkNorm::kHead;
  note_further_tokens(r, s);
}

void gemma(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  r.only("attention_bias", false, "biases in attention");
}

void llama4(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("intermediate_size"), s.dense_ffn = r.integer("intermediate_size_mlp");
  s.shared_experts = 1;
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.only("attention_bias", false, "biases in attention");
  r.ignore({"use_qk_norm", "no_rope_layers", "no_rope_layer_interval", "attn_temperature_tuning",
            "floor_scale", "attn_scale", "for_llm_compressor", "moe_layers", "interleave_moe_layer_step",
            "attention_chunk_size", "layer_types"});
  if (r.has("attention_chunk_size"))
    s.notes.push_back(
        "three of four layers see chunks of attention_chunk_size tokens: longer contexts are charged in full "
        "here");
  int step = r.integer("interleave_moe_layer_step");
  if (step < 1) base::fail("{}: interleave_moe_layer_step must be positive", r.origin());
  if (step == 1) return;
  for (int i = 0; i < s.layers; ++i)
    s.add_layer(Mixer::kAttention, (i + 1) % step == 0 ? Feed::kExperts : Feed::kDense);
}

void minimax_m2(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.router_bias = r.flag_or("use_routing_bias", true);
  if (r.flag_or("use_qk_norm", false)) s.qk_norm = QkNorm::kAll;
  r.only("shared_intermediate_size", 0, "shared experts");
  if (r.flag_or("use_mtp", false))
    s.notes.push_back("the modules that predict further tokens (use_mtp) are not counted");
  r.ignore({"attn_type_list", "mtp_transformer_layers", "num_mtp_modules", "qk_norm_type", "rotary_dim",
            "layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta",
            "mlp_intermediate_size", "output_router_logits", "max_model_len", "sliding_window"});
}

void gpt_neox(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.ffn = r.integer("intermediate_size");
  s.gated = false, s.norm_bias = true, s.mlp_bias = true;
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", true);
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.ignore({"use_parallel_residual", "rotary_pct", "rotary_emb_base"});
}

void olmo2(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qk_norm = QkNorm::kAll;
  r.only("attention_bias", false, "biases in attention");
}

void granite(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
  r.ignore({"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"});
}

void starcoder2(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.gated = false, s.norm_bias = true;
  s.qkv_bias = s.o_bias = s.mlp_bias = r.flag_or("use_bias", true);
  if (r.has("sliding_window")) s.window = r.integer("sliding_window"), s.window_layers = s.layers;
  r.ignore({"sliding_window", "residual_dropout", "embedding_dropout", "mlp_type", "norm_type"});
}

// Vision and language models of Qwen whose config holds the language model's fields at its top.
void qwen_vl(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = true;
  r.only("use_sliding_window", false, "which layers are windowed is not recorded here");
  r.ignore({"sliding_window", "layer_types", "vision_config", "vision_start_token_id", "vision_end_token_id",
            "vision_token_id", "image_token_id", "video_token_id"});
  s.notes.push_back("the language model alone: the vision tower is not counted");
}

constexpr Architecture kFamilies[] = {
    {"Qwen2MoeForCausalLM", "qwen2-moe", qwen2_moe},
    {"PhiForCausalLM", "phi", phi},
    {"PhiMoEForCausalLM", "phi-moe", phi_moe},
    {"GlmForCausalLM", "glm-4", glm},
    {"Glm4ForCausalLM", "glm-4", glm_0414},
    {"Glm4MoeForCausalLM", "glm-4-moe", glm4_moe},
    {"GemmaForCausalLM", "gemma", gemma},
    {"Llama4ForCausalLM", "llama-4", llama4},
    {"MiniMaxM2ForCausalLM", "minimax-m2", minimax_m2},
    {"GPTNeoXForCausalLM", "gpt-neox", gpt_neox},
    {"Olmo2ForCausalLM", "olmo-2", olmo2},
    {"GraniteForCausalLM", "granite", granite},
    {"Starcoder2ForCausalLM", "starcoder-2", starcoder2},
    {"Qwen2VLForConditionalGeneration", "qwen2", qwen_vl},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2", qwen_vl},
};

}  // namespace

std::span<const Architecture> family_architectures() { return kFamilies; }

}  // namespace orrery::graph
