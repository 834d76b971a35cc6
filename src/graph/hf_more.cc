// Further readers of config.json: families that are Llama's shape under other names, and those that differ in
// norms, biases, positions or in how attention and feed-forward part lie. Shapes follow the published
// implementations (transformers; those of InternLM, Baichuan, Qwen and Phi-3-small their own).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

void internlm2(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = s.o_bias = r.flag_or("bias", false);
}

void internlm3(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.o_bias = s.mlp_bias = r.flag_or("bias", false);
  s.qkv_bias = r.flag_or("qkv_bias", false);
}

void baichuan(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  r.ignore({"z_loss_weight"});
}

void smollm3(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
  r.only("use_sliding_window", false, "windowed attention");
  r.ignore({"sliding_window", "layer_types", "no_rope_layers", "no_rope_layer_interval"});
}

void seed_oss(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = r.flag_or("attention_bias", true), s.o_bias = r.flag_or("attention_out_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
  r.ignore({"residual_dropout"});
}

void ernie(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.qkv_bias = s.o_bias = s.mlp_bias = r.flag_or("use_bias", false);
}
void ernie_moe(ConfigReader& r, TransformerSpec& s) {
  ernie(r, s);
  s.kind = "moe";
  s.dense_ffn = s.ffn, s.ffn = 0;
  s.experts = r.integer("moe_num_experts"), s.experts_per_token = r.integer("moe_k");
  s.expert_ffn = r.integer("moe_intermediate_size");
  s.shared_experts = r.integer("moe_num_shared_experts");
  s.router_bias = r.flag_or("moe_use_aux_free", true);
  s.dense_layers = leading_dense(r, s, "moe_layer_start_index");
  r.only("moe_layer_interval", 1, "expert layers that alternate with dense ones");
  if (r.has("moe_layer_end_index") && r.required("moe_layer_end_index") != -1 &&  // to the last one
      r.integer("moe_layer_end_index") < s.layers - 1)
    base::fail("{}: moe_layer_end_index = {} of {} layers: dense layers at the end are not supported",
               r.origin(), r.integer("moe_layer_end_index"), s.layers);
  note_further_tokens(r, s);
  r.ignore({"moe_layer_end_index", "moe_capacity", "moe_gate", "moe_norm_min"});
}

void olmo(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.plain_norms = true;
  r.only("attention_bias", false, "biases in attention");
  r.ignore({"clip_qkv"});
}
void olmoe(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.kind = "moe";
  s.qk_norm = QkNorm::kAll;
  s.expert_ffn = s.ffn, s.ffn = 0;
  s.experts = r.integer("num_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  r.only("attention_bias", false, "biases in attention");
  r.ignore({"clip_qkv"});
}

void granite_moe(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  r.required("tie_word_embeddings");  // releases of transformers differ in what its absence means
  s.kind = "moe";
  s.expert_ffn = s.ffn, s.ffn = 0;
  s.experts = r.integer("num_local_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  r.only("attention_bias", false, "biases in attention");
  r.ignore({"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"});
}
void granite_moe_shared(ConfigReader& r, TransformerSpec& s) {
  granite_moe(r, s);
  s.shared_ffn = r.integer("shared_intermediate_size"), s.shared_experts = s.shared_ffn > 0;
}

void exaone4(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qk_norm = QkNorm::kHead;
  r.ignore({"sliding_window", "layer_types"});
  if (!r.has("sliding_window")) return;
  s.window = r.integer("sliding_window"), s.window_layers = listed_windows(r, s);
}

// One norm, behind which attention and feed-forward part run side by side.
void cohere(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.norms_per_layer = 1;
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  if (r.flag_or("use_qk_norm", false)) s.qk_norm = QkNorm::kAll;
  r.ignore({"logit_scale"});
}
void cohere2(ConfigReader& r, TransformerSpec& s) {
  cohere(r, s);
  r.only("use_gated_activation", true, "a feed-forward part without a gate");
  r.only("use_parallel_block", true, "attention and feed-forward part one behind the other");
  r.only("use_embedding_sharing", true, "a head of its own");
  r.ignore({"layer_types", "layer_switch", "sliding_window", "sliding_window_pattern", "order_of_interleaved_layers",
            "position_embedding_type", "rotary_pct", "use_parallel_embedding", "head_dim"});
  s.window = r.positive("sliding_window");
  if (r.has("layer_types")) {
    s.window_layers = listed_windows(r, s);
    return;
  }
  int period = r.integer_or("sliding_window_pattern", r.integer_or("layer_switch", 4));
  if (period < 1) base::fail("{}: sliding_window_pattern must be positive", r.origin());
  s.window_layers = s.layers - s.layers / period;
}

void stablelm(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.norm_bias = true;
  s.qkv_bias = r.flag_or("use_qkv_bias", false);
  s.norms_per_layer = r.flag_or("use_parallel_residual", false) ? 1 : 2;
  r.only("qk_layernorm", false, "norms of queries and keys");
}

// The width of a head, as Megatron's configs call it.
void channels(ConfigReader& r, TransformerSpec& s) {
  if (!r.has("kv_channels")) return r.ignore({"kv_channels"});
  int width = r.positive("kv_channels");
  if (r.has("head_dim") && width != s.head_dim) base::fail("{}: head_dim and kv_channels differ", r.origin());
  s.head_dim = width;
  r.product("num_attention_heads", s.heads, s.head_dim);
}

void nemotron(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.gated = false, s.norm_bias = true;
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
  channels(r, s);
  r.ignore({"norm_eps"});
}

void gpt_j(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layer", "n_embd", "n_head"});
  s.ffn = r.integer_or("n_inner", r.product("n_embd", 4, s.hidden));
  s.vocab = r.integer("vocab_size");
  s.norms_per_layer = 1, s.norm_bias = s.mlp_bias = s.head_bias = true;
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.ignore({"n_positions", "n_ctx", "rotary", "rotary_dim", "scale_attn_weights", "gradient_checkpointing"});
}

void gpt_bigcode(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layer", "n_embd", "n_head"});
  s.ffn = r.integer_or("n_inner", r.product("n_embd", 4, s.hidden));
  s.vocab = r.integer("vocab_size");
  s.learned_positions = r.integer("n_positions");
  if (r.flag_or("multi_query", true)) s.kv_heads = 1;
  s.tied = s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = true;
  r.ignore({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "scale_attn_weights",
            "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length",
            "pre_allocate_kv_cache", "validate_runner_input", "n_ctx"});
}

// Key-value heads by the kind of attention.
int mpt_kv_heads(ConfigReader& r, int heads) {
  std::string type = r.has("attn_type") ? r.word("attn_type") : "multihead_attention";
  if (type == "multihead_attention" || type == "multiquery_attention") {
    int all = type == "multihead_attention" ? heads : 1;
    r.only("kv_n_heads", all, "another number of key-value heads than attn_type has");
    return all;
  }
  if (type == "grouped_query_attention") return r.positive("kv_n_heads");
  base::fail("{}: attn_type {} is unknown", r.origin(), type);
}

void mpt(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layers", "d_model", "n_heads"});
  s.ffn = r.product("d_model", r.integer_or("expansion_ratio", 4), s.hidden);
  s.vocab = r.integer("vocab_size");
  s.tied = true;
  bool bias = !r.flag_or("no_bias", true);
  s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = bias;
  ConfigReader attention = r.part("attn_config");
  attention.only("qk_ln", false, "norms of queries and keys");
  attention.only("sliding_window_size", -1, "windowed attention");
  attention.ignore({"alibi_bias_max", "attn_impl", "attn_uses_sequence_id", "clip_qkv", "prefix_lm", "rope",
                    "rope_hf_config", "rope_dail_config", "rope_impl", "softmax_scale", "attn_type"});
  s.kv_heads = mpt_kv_heads(attention, s.heads);
  if (!attention.flag_or("alibi", false) && r.flag_or("learned_pos_emb", true))
    s.learned_positions = r.integer("max_seq_len");
  attention.finish();
  if (r.has("ffn_config")) {
    ConfigReader ffn = r.part("ffn_config");
    ffn.only("ffn_type", "mptmlp", "another feed-forward part");
    ffn.ignore({"fc_type"});
    ffn.finish();
  }
  r.ignore({"emb_pdrop", "embedding_fraction", "init_config", "init_device", "learned_pos_emb", "logit_scale",
            "max_seq_len", "norm_type", "tokenizer_name", "verbose", "resid_pdrop", "fc_type", "ffn_config"});
}

void dbrx(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layers", "d_model", "n_heads"});
  s.kind = "moe", s.gated = true;
  s.vocab = r.integer("vocab_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  ConfigReader attention = r.part("attn_config"), ffn = r.part("ffn_config");
  s.kv_heads = attention.positive("kv_n_heads");
  attention.ignore({"clip_qkv"});
  attention.finish();
  s.expert_ffn = ffn.integer("ffn_hidden_size");
  s.experts = ffn.integer("moe_num_experts"), s.experts_per_token = ffn.integer("moe_top_k");
  ffn.ignore({"ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights", "uniform_expert_assignment"});
  ffn.finish();
  r.ignore({"max_seq_len", "emb_pdrop", "resid_pdrop"});
}

void qwen1(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  int both = r.integer("intermediate_size");
  if (both % 2) base::fail("{}: intermediate_size is not even", r.origin());
  s.ffn = both / 2;  // the config counts both branches
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.qkv_bias = true;
  r.only("no_bias", true, "biases in the other products");
  channels(r, s);
  r.ignore({"attn_dropout_prob", "emb_dropout_prob", "bf16", "fp16", "fp32", "onnx_safe",
            "rotary_emb_base", "rotary_pct", "scale_attn_weights", "seq_length", "use_dynamic_ntk",
            "use_flash_attn", "use_logn_attn", "softmax_in_fp32", "use_cache_kernel",
            "use_cache_quantization"});
}

void phi3_small(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.ffn = r.integer("ff_intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", true);
  s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = true;
  r.only("hidden_act", "gegelu", "another activation");
  if (r.integer_or("dense_attention_every_n_layers", 1) != 1)
    s.notes.push_back(
        "block-sparse attention of some layers (dense_attention_every_n_layers) is charged in full here");
  r.ignore({"attention_bias", "attention_dropout_prob", "blocksparse_block_size",
            "blocksparse_homo_head_pattern", "blocksparse_num_local_blocks",
            "blocksparse_triton_kernel_block_size", "blocksparse_vert_stride", "dummy_token_indices",
            "embedding_dropout_prob", "ff_dim_multiplier", "ffn_dropout_prob", "gegelu_limit",
            "gegelu_pad_to_256", "mup_attn_multiplier", "mup_embedding_multiplier", "mup_use_scaling",
            "mup_width_multiplier", "rope_embedding_base", "rope_position_scale"});
}

constexpr Architecture kMore[] = {
    {"InternLM2ForCausalLM", "internlm2", internlm2},
    {"InternLM3ForCausalLM", "internlm3", internlm3},
    {"BaichuanForCausalLM", "baichuan", baichuan},
    {"BaiChuanForCausalLM", "baichuan", baichuan},
    {"SmolLM3ForCausalLM", "smollm3", smollm3},
    {"SeedOssForCausalLM", "seed-oss", seed_oss},
    {"Ernie4_5ForCausalLM", "ernie-4.5", ernie},
    {"Ernie4_5_MoeForCausalLM", "ernie-4.5", ernie_moe},
    {"OlmoForCausalLM", "olmo", olmo},
    {"OlmoeForCausalLM", "olmoe", olmoe},
    {"GraniteMoeForCausalLM", "granite", granite_moe},
    {"GraniteMoeSharedForCausalLM", "granite", granite_moe_shared},
    {"Exaone4ForCausalLM", "exaone", exaone4},
    {"CohereForCausalLM", "cohere", cohere},
    {"Cohere2ForCausalLM", "cohere", cohere2},
    {"StableLmForCausalLM", "stablelm", stablelm},
    {"NemotronForCausalLM", "nemotron", nemotron},
    {"GPTJForCausalLM", "gpt-j", gpt_j},
    {"GPTBigCodeForCausalLM", "starcoder", gpt_bigcode},
    {"MPTForCausalLM", "mpt", mpt},
    {"MptForCausalLM", "mpt", mpt},
    {"DbrxForCausalLM", "dbrx", dbrx},
    {"QWenLMHeadModel", "qwen", qwen1},
    {"Phi3SmallForCausalLM", "phi", phi3_small},
};

}  // namespace

std::span<const Architecture> more_architectures() { return kMore; }

}  // namespace orrery::graph
