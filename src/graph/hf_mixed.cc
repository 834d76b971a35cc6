// Readers of config.json for models whose layers differ in shape: heads of windowed and of full layers (MiMo
// V2, Gemma 4), layers that a search has cut down one by one (Nemotron of DeciLM's kind). Shapes follow the
// published implementations (transformers; MiMo's and Nemotron's own).
#include <cmath>

#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

bool one_or_zero(ConfigReader& r, const char* key, int layers, int layer) {
  const Json& value = r.list(key, layers)[static_cast<std::size_t>(layer)];
  if (value != 0 && value != 1) base::fail("{}: {} must list 0 and 1, not {}", r.origin(), key, value.dump());
  return value == 1;
}

void mimo_v2(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.v_dim = r.positive_or("v_head_dim", s.head_dim);
  s.dense_ffn = r.integer("intermediate_size");
  s.experts = r.integer("n_routed_experts"), s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size");
  s.shared_experts = r.integer_or("n_shared_experts", 0);
  s.router_bias = true;  // the correction of the balance without an auxiliary loss
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.window = r.positive("sliding_window");
  s.window_sinks = r.flag_or("add_swa_attention_sink_bias", false);
  r.only("add_full_attention_sink_bias", false, "sinks of full attention");
  r.only("attention_bias", false, "biases in attention");
  LayerGroup window;
  window.mixer = Mixer::kWindow;
  window.heads = r.positive("swa_num_attention_heads"),
  window.kv_heads = r.positive("swa_num_key_value_heads");
  window.head_dim = r.positive("swa_head_dim"), window.v_dim = r.positive("swa_v_head_dim");
  for (int i = 0; i < s.layers; ++i) {
    bool near = one_or_zero(r, "hybrid_layer_pattern", s.layers, i);
    LayerGroup layer = near ? window : LayerGroup{};
    layer.feed = one_or_zero(r, "moe_layer_freq", s.layers, i) ? Feed::kExperts : Feed::kDense;
    s.window_layers += near;
    s.add_layer(layer);
  }
  r.only("sliding_window_size", s.window, "another width than sliding_window");
  r.ignore({"attention_chunk_size", "swa_rope_theta", "attention_value_scale",
            "layernorm_epsilon", "hybrid_block_size"});
}

void gemma4_experts(ConfigReader& r, TransformerSpec& s) {
  s.kind = "moe";
  s.dense_ffn = s.ffn, s.ffn = 0;
  s.experts = r.integer("num_experts"), s.experts_per_token = r.integer("top_k_experts");
  s.expert_ffn =
      r.integer(r.has("moe_intermediate_size") ? "moe_intermediate_size" : "expert_intermediate_size");
  s.router_bias = s.router_scale = true;  // a scale for each expert, and of what the router sees
  s.expert_norms = 3;                     // of both parts' outputs and of the experts' input
}

void gemma4(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.norms_per_layer = 4, s.qk_norm = QkNorm::kHead;
  s.window = r.positive("sliding_window");
  bool experts = r.flag_or("enable_moe_block", false);
  if (experts) gemma4_experts(r, s);
  r.only("attention_bias", false, "biases in attention");
  r.only("hidden_size_per_layer_input", 0, "an embedding for every layer");
  r.only("num_kv_shared_layers", 0, "layers that share keys and values");
  r.only("use_double_wide_mlp", false, "layers of twice the width");
  r.ignore({"num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size",
            "use_bidirectional_attention", "vocab_size_per_layer_input"});
  LayerGroup full;
  full.head_dim = r.positive_or("global_head_dim", s.head_dim);
  full.kv_heads = r.positive_or("num_global_key_value_heads", s.kv_heads);
  full.keys_are_values = r.flag_or("attention_k_eq_v", false);
  for (const Json& type : r.list("layer_types", s.layers)) {
    if (type != "sliding_attention" && type != "full_attention")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    LayerGroup layer = full;
    if (type == "sliding_attention") layer = {}, layer.mixer = Mixer::kWindow, ++s.window_layers;
    layer.feed = experts ? Feed::kBoth : Feed::kDense;
    s.add_layer(layer);
  }
}

// A part of a block: taken out, or replaced by a product, which nobody has published.
bool taken_out(ConfigReader& part) {
  part.only("replace_with_linear", false, "a product in the place of a layer's part");
  part.only("sparsify", nullptr, "sparse layers");
  return part.flag_or("no_op", false);
}

void deci(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {});
  s.vocab = r.integer("vocab_size");
  s.gated = true;
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.head_dim = r.integer_or("head_dim", s.head_dim);
  r.only("attention_bias", false, "biases in attention");
  r.only("mlp_bias", false, "biases in the feed-forward part");
  r.ignore({"num_key_value_heads", "intermediate_size"});
  const Json& blocks = r.list("block_configs", s.layers);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ConfigReader block = r.inside(blocks[i], fmt::format("block_configs[{}]", i));
    ConfigReader attention = block.part("attention"), ffn = block.part("ffn");
    block.only("parallel_blocks", nullptr, "parts side by side");
    block.finish();
    attention.only("window_length", nullptr, "windowed attention in some layers");
    attention.only("num_sink_tokens", nullptr, "sinks");
    attention.only("unshifted_sink", false, "sinks");
    attention.only("use_prefill_window_in_sink_attention", false, "sinks");
    attention.only("mamba", nullptr, "state-space layers");
    attention.only("llama4", nullptr, "attention of another kind");
    attention.ignore({"n_heads_in_group"});
    LayerGroup layer;
    if (taken_out(attention)) {
      layer.mixer = Mixer::kNone;
    } else {
      int group = attention.positive("n_heads_in_group");
      if (s.heads % group)
        base::fail("{}: {} heads are no multiple of n_heads_in_group = {}", attention.origin(), s.heads, group);
      layer.kv_heads = s.heads / group;
      s.kv_heads = std::max(i == 0 ? 0 : s.kv_heads, layer.kv_heads);
    }
    attention.finish();
    ffn.only("moe", nullptr, "experts in some layers");
    ffn.only("gated", true, "a feed-forward part without a gate");
    ffn.only("hidden_act", "silu", "another activation");
    ffn.only("intermediate_size", nullptr, "a width beside ffn_mult");
    ffn.ignore({"ffn_mult"});
    layer.feed = taken_out(ffn) ? Feed::kNone : Feed::kDense;
    if (layer.feed == Feed::kDense) {
      const Json& mult = ffn.required("ffn_mult");
      double width = mult.is_number() ? std::floor(2 * mult.get<double>() * s.hidden / 3) : 0;
      if (!(width >= 1 && width < 1e7)) base::fail("{}: ffn_mult cannot be {}", ffn.origin(), mult.dump());
      layer.ffn = static_cast<int>(std::ceil(width / 256) * 256);
      s.ffn = std::max(s.ffn, layer.ffn);
    }
    ffn.finish();
    if (layer.mixer == Mixer::kNone && layer.feed == Feed::kNone) continue;
    s.add_layer(layer);
  }
  if (s.groups.empty()) base::fail("{}: block_configs takes every part of every layer out", r.origin());
}

constexpr Architecture kMixed[] = {
    {"MiMoV2FlashForCausalLM", "mimo-v2", mimo_v2},
    {"Gemma4ForCausalLM", "gemma-4", gemma4},
    {"DeciLMForCausalLM", "deci", deci},
};

}  // namespace

std::span<const Architecture> mixed_architectures() { return kMixed; }

}  // namespace orrery::graph
