// Readers of config.json by architecture: the table that hf_config.cc searches, in eleven files.
#pragma once

#include <span>
#include <string_view>

#include "graph/config_reader.h"
#include "graph/spec.h"

namespace orrery::graph {

struct Architecture {
  std::string_view name, family;
  void (*read)(ConfigReader&, TransformerSpec&);
};

// Names under which a config gives its shape; no heads: it has none.
struct ShapeNames {
  const char *layers = "num_hidden_layers", *hidden = "hidden_size", *heads = "num_attention_heads";
};
// Layers, width, heads and their dimension; refuses what no model has.
void read_shape(ConfigReader& reader, TransformerSpec& spec, const ShapeNames& names);
// Layers, width, heads and vocabulary under the names that nearly all configs use.
void read_common_fields(ConfigReader& reader, TransformerSpec& spec);
// The same, a gated feed-forward part, and whether embedding and head are one (`tied` when the config does not say).
void read_gated_fields(ConfigReader& reader, TransformerSpec& spec, bool tied);
// Dense layers before those with experts, as `key` counts them.
int leading_dense(ConfigReader& reader, const TransformerSpec& spec, const char* key);
// `count` experts that see every token, of the width `each`; without a width there are none.
void read_shared_experts(ConfigReader& reader, TransformerSpec& spec, int count, int each);
// Says that layers which predict further tokens are not counted, where `key` has some.
void note_further_tokens(ConfigReader& reader, TransformerSpec& spec,
                         const char* key = "num_nextn_predict_layers");
// The windowed layers that `layer_types` lists.
int listed_windows(ConfigReader& reader, const TransformerSpec& spec);
// Windowed layers where `sliding_window` is shorter than the trained context; otherwise it has no effect.
void window_if_shorter(ConfigReader& reader, TransformerSpec& spec);
// Mamba 2 under the names of Bamba, Falcon-H1 and Granite 4 (hf_hybrid.cc).
void read_mamba2_fields(ConfigReader& reader, TransformerSpec& spec);
// Replaces a config of several parts by its language model, and its class by that one's; what is left out is said (text_part.cc).
void take_text_part(Json& json, std::string& name, const std::string& origin, std::vector<std::string>& notes);
// Encoders of text and images (hf_encoders.cc).
std::span<const Architecture> encoder_architectures();
// Families with field names of their own (hf_older.cc).
std::span<const Architecture> older_architectures();
// Further families of transformers (hf_families.cc).
std::span<const Architecture> family_architectures();
// Families beside them that differ in norms, biases or names (hf_more.cc).
std::span<const Architecture> more_architectures();
// Attention models of 2024 to 2026 (hf_recent.cc).
std::span<const Architecture> recent_architectures();
// Compressed keys, and keys chosen beside grouped heads (hf_compressed.cc).
std::span<const Architecture> compressed_architectures();
// Linear attention and short convolutions beside attention (hf_linear.cc).
std::span<const Architecture> linear_architectures();
// Latent attention: DeepSeek and its descendants (hf_latent.cc).
std::span<const Architecture> latent_architectures();
// Models whose layers differ in shape (hf_mixed.cc).
std::span<const Architecture> mixed_architectures();
// Models that mix attention with state-space layers or recurrences (hf_hybrid.cc).
std::span<const Architecture> hybrid_architectures();

}  // namespace orrery::graph
