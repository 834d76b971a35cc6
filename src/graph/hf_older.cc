// Readers of config.json for families with field names of their own: Falcon, BLOOM, OPT, GPT-2 and ChatGLM.
// Shapes follow the published implementations (transformers; ChatGLM's own).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

void falcon(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s,
             {r.has("num_hidden_layers") ? "num_hidden_layers" : "n_layer", "hidden_size",
              r.has("num_attention_heads") ? "num_attention_heads" : "n_head"});
  r.ignore({"n_layer", "n_head", "n_embed", "activation", "ff_factor"});
  if (s.heads == 0 || s.hidden % s.heads)
    base::fail("{}: hidden_size is no multiple of the heads", r.origin());
  s.vocab = r.integer("vocab_size");
  s.ffn = r.integer_or("ffn_hidden_size", r.product("hidden_size", 4, s.hidden));
  bool grouped = r.flag_or("new_decoder_architecture", false);
  bool multi_query = r.flag_or("multi_query", true);
  // With multi_query and the first architecture there is one key-value head, whatever num_kv_heads says.
  if (grouped)
    s.kv_heads = r.has("num_kv_heads") ? r.integer("num_kv_heads") : r.integer("n_head_kv");
  else
    s.kv_heads = multi_query ? 1 : s.heads;
  r.ignore({"num_kv_heads", "n_head_kv"});
  bool parallel = r.flag_or("parallel_attn", true);
  // Attention and feed-forward part that run in parallel share a norm; in the new architecture by default
  // each has one.
  int own = r.integer_or("num_ln_in_parallel_attn", 2);
  s.norms_per_layer = parallel && (!grouped || own == 1) ? 1 : 2;
  s.norm_bias = true;
  s.tied = r.flag_or("tie_word_embeddings", true);
  s.qkv_bias = s.o_bias = s.mlp_bias = r.flag_or("bias", false);
  r.only("alibi", false, "position biases");
}

void bloom(ConfigReader& r, TransformerSpec& s) {
  // The published BLOOM configuration gives the heads twice under two names; they must agree.
  read_shape(
      r, s,
      {r.has("n_layer") ? "n_layer" : "num_hidden_layers", r.has("hidden_size") ? "hidden_size" : "n_embed",
       r.has("n_head") ? "n_head" : "num_attention_heads"});
  if (r.has("num_attention_heads") && r.integer("num_attention_heads") != s.heads)
    base::fail("{}: n_head and num_attention_heads differ", r.origin());
  r.ignore({"n_embed", "num_hidden_layers", "num_attention_heads", "n_inner", "unk_token_id", "offset_alibi",
            "attention_softmax_in_fp32", "seq_length", "skip_bias_add", "skip_bias_add_qkv"});
  s.ffn = r.product("hidden_size", 4, s.hidden);
  s.vocab = r.integer("vocab_size");
  s.tied = true;
  s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = s.embedding_norm = true;
}

void opt(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.gated = false;
  s.ffn = r.integer("ffn_dim");
  s.tied = r.flag_or("tie_word_embeddings", true);
  s.learned_positions = r.integer("max_position_embeddings") + 2;
  s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = r.flag_or("enable_bias", true);
  // Norms after the sums are as many; the last layer's is then the final one.
  bool removed = r.flag_or("_remove_final_layer_norm", false);
  s.final_norm = r.flag_or("do_layer_norm_before", true) && !removed;
  r.only("layer_norm_elementwise_affine", true, "norms without weights");
  int width = r.positive_or("word_embed_proj_dim", s.hidden);
  s.embed_dim = width == s.hidden ? 0 : width;
}

void gpt2(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layer", "n_embd", "n_head"});
  s.ffn = r.integer_or("n_inner", r.product("n_embd", 4, s.hidden));
  s.vocab = r.integer("vocab_size");
  s.learned_positions = r.integer("n_positions");
  r.ignore({"n_ctx"});
  s.tied = s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = true;
}

void glm4(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"num_layers", "hidden_size", "num_attention_heads"});
  s.head_dim = r.integer("kv_channels");
  r.product("num_attention_heads", s.heads, s.head_dim);
  s.kv_heads = r.flag_or("multi_query_attention", false) ? r.integer("multi_query_group_num") : s.heads;
  s.ffn = r.integer("ffn_hidden_size");
  s.vocab = r.has("padded_vocab_size") ? r.integer("padded_vocab_size") : r.integer("vocab_size");
  s.gated = true;
  s.qkv_bias = r.flag_or("add_qkv_bias", false);
  s.mlp_bias = s.o_bias = r.flag_or("add_bias_linear", false);
  s.tied = r.flag_or("tie_word_embeddings", false);
  r.only("rmsnorm", true, "LayerNorm");
  r.ignore({"vocab_size", "seq_length", "layernorm_epsilon", "original_rope", "rope_ratio", "post_layer_norm",
            "fp32_residual_connection", "apply_query_key_layer_scaling", "attention_softmax_in_fp32",
            "num_hidden_layers", "use_cache", "multi_query_group_num"});
}

constexpr Architecture kOlder[] = {
    {"FalconForCausalLM", "falcon", falcon}, {"BloomForCausalLM", "bloom", bloom},
    {"OPTForCausalLM", "opt", opt},          {"GPT2LMHeadModel", "gpt", gpt2},
    {"ChatGLMModel", "glm-4", glm4},         {"ChatGLMForConditionalGeneration", "glm-4", glm4},
};

}  // namespace

std::span<const Architecture> older_architectures() { return kOlder; }

}  // namespace orrery::graph
