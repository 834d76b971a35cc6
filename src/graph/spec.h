// Facts of a transformer: what a config.json says, under one set of names, before it becomes a graph.
//
// Read from a Hugging Face config.json (hf_config.cc) or from the built-in zoo (zoo.json). Every reader
// either sets a field from its source or refuses; the initial values below mean "has none", never "probably
// this".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace orrery::graph {

// Query and key normalisation: none, per head (one vector of head_dim), or over all heads.
enum class QkNorm : std::uint8_t { kNone, kHead, kAll };

// What a layer mixes tokens with, and what follows; models whose layers are of several kinds list them.
enum class Mixer : std::uint8_t {
  kNone,
  kAttention,
  kWindow,
  kMamba2,
  kMamba1,
  kDelta,
  kRecurrent,
  kParallel,
  kShared,  // Mamba 2 or 1 behind an attention block that several layers share
  kKda,        // delta rule whose decay has a number for each channel of a key (Kimi)
  kLightning,  // linear attention with a fixed decay (MiniMax)
  kCompressed,  // keys of a window and compressed ones (DeepSeek V4)
  kShortConv   // a gated convolution over a few tokens (LFM2)
};
enum class Feed : std::uint8_t { kNone, kDense, kExperts, kBoth };  // both: side by side, summed
struct LayerGroup {
  int count = 0;
  Mixer mixer = Mixer::kAttention;
  Feed feed = Feed::kDense;
  // Where layers differ in shape; 0: the model's own.
  int heads = 0, kv_heads = 0, head_dim = 0, v_dim = 0, ffn = 0;
  bool keys_are_values = false;  // no product of its own makes the values
  bool indexer = false;          // chooses keys itself; otherwise, with latents, those that a layer before it chose
  int rate = 0;                  // positions that a compressed key stands for; 0: none are compressed
  bool operator==(const LayerGroup&) const = default;
};

struct TransformerSpec {
  std::string name, family;
  std::string kind;  // dense, moe, encoder, vit
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  bool gated = false, tied = false;
  bool qkv_bias = false, o_bias = false, mlp_bias = false, head_bias = false;
  bool norm_bias = false;  // LayerNorm with bias; otherwise RMS norm
  int norms_per_layer = 2;
  QkNorm qk_norm = QkNorm::kNone;
  int learned_positions = 0, segments = 0;
  int trained_positions = 0;  // the longest text that the config allows; 0: it does not say
  bool embedding_norm = false, final_norm = true, pooler = false;
  int embed_dim = 0;       // width of the embedding and the head, where it is not hidden
  bool plain_norms = false;  // norms have no weights
  bool word_head = false;  // masked language models: a product and a norm before the words' product
  bool word_head_bias = true;  // that product has one
  bool first_norm = true;      // the first layer normalises what its attention takes
  // Some layers attend to a window of the last `window` positions only.
  int window = 0, window_layers = 0;
  // Mixture of experts.
  int experts = 0, experts_per_token = 0, expert_ffn = 0, shared_experts = 0, shared_ffn = 0;
  int expert_latent = 0;  // width that rows are brought to before they go to experts; 0: hidden
  int dense_layers = 0, dense_ffn = 0;
  bool router_bias = false, sinks = false, window_sinks = false;
  bool router_scale = false;  // a scale for each element of what the router sees
  int idle_experts = 0;       // that a token may choose and that compute nothing
  bool expert_latent_norm = false;
  int activation_weights = 0;  // numbers that an activation has in each layer
  int expert_norms = 0;       // further norms of layers whose experts lie beside a dense part
  // Latent attention (MLA).
  int q_lora = 0, kv_lora = 0, nope = 0, rope = 0, v_dim = 0;
  // Sparse attention: an indexer of so many heads scores all keys, and attention sees the best of them.
  int index_heads = 0, index_dim = 0, index_topk = 0;
  int index_list = 0;             // entries of the list of what was chosen, where one stands for several keys
  int o_groups = 0, o_lora = 0;   // the output product: groups of heads, and the width that each is brought to
  int streams = 0;                // that layers read and write in parts (hyper-connections); 0: one
  // State-space layers (Mamba 2): how many of the layers, and their shape.
  bool ssm_mlp = false;    // state-space layers carry the same feed-forward part as the others
  bool head_gate = false;    // attention output is gated by one number for each head
  bool latent_gate = false;  // latent attention: a product of its own gates the output
  int depth_sources = 0;     // sums of earlier layers that each layer's input is chosen from (Kimi K3), at the end of the model
  int ssm_gate_rank = 0;     // the output's gate comes from two products over so many numbers; 0: from one
  bool attn_gate = false;  // attention output is gated: the query projection is twice as wide
  int ssm_layers = 0, ssm_inner = 0, ssm_state = 0, ssm_heads = 0, ssm_groups = 0, ssm_conv = 0;
  bool ssm_conv_bias = true, ssm_gate_norm = true;
  int ssm_rank = 0;                // Mamba 1: width of the low-rank step size
  bool ssm_inner_norms = false;    // Mamba 1 of Jamba: norms of step size, B and C
  bool shared_gate = false;        // the shared expert's output is gated
  int shared_blocks = 0, adapter_rank = 0;  // Zamba: attention blocks that layers share, low-rank parts of each layer's own
  bool attention_adapters = false;
  std::vector<LayerGroup> groups;  // when not empty, these are the layers and the counts above are not used
  // Vision transformer.
  int patch = 0, image_tokens = 0, classes = 0;
  // What the checkpoint stores (stored_format.h), and what the reader left out or assumed.
  std::string stored_weights, stored_kv;
  std::vector<std::string> stored_kept;  // matrices that keep 16 bits, or NAME FORMAT: another one
  std::string stored_note;  // how a report says so, where the formats are used
  std::vector<std::string> notes;
  std::string source;

  bool mla() const { return kv_lora > 0; }
  bool moe() const { return experts > 0; }
  // Adds a layer of a kind to `groups` (its count is not looked at).
  void add_layer(LayerGroup layer);
  void add_layer(Mixer mixer, Feed feed) { add_layer(LayerGroup{1, mixer, feed}); }
};

// Denoiser of a diffusion model with its companions.
struct DiffusionSpec {
  std::string name, family;  // dit, pixart, flux, sd3, wan, ltx, sana, unet
  int layers = 0, single_layers = 0, hidden = 0, heads = 0, head_dim = 0, ffn = 0;
  int in_channels = 0, patch = 0;
  bool qkv_bias = true;
  int out_channels = 0;  // 0: as many as in_channels
  int text_tokens = 0, text_dim = 0, vec_dim = 0;
  int image_tokens = 0, image_dim = 0;    // of a picture that conditions the result; 0: none
  int time_stride = 1, space_stride = 8;  // pixels per latent element
  int size = 0;                           // pixels of an image's side that it was made for; 0: its source does not say
  int classes = 0;                        // class-conditional: size of the label table
  bool guidance_embed = false;
  bool qk_norm = true;        // of FLUX and SD3
  int dual_layers = 0;        // SD3: so many first layers have a second attention, of the image to itself
  bool timed_tokens = false;  // Wan: each token has a noise level of its own
  int cfg_passes = 1, steps = 0;
  bool compiled = false;        // element-wise steps are joined by a compiler; otherwise each is a kernel
  double stored_bits = 16;      // per parameter, in the published pipeline
  // Networks of this shape that share the steps (Wan 2.2): the first down to the noise level `boundary`, the second below.
  // The levels of n steps are those of 1 to 1/n, shifted: shift x / (1 + (shift - 1) x).
  int denoisers = 1;
  double boundary = 0, shift = 1;
  int video = 0;                // 1: frames are a dimension of the latent
  double published_params = 0;  // used when the layers are not itemised
  double published_flops = 0;   // forward at 1024 x 1024 with published_params
  std::string source;
};

struct BuildOptions {
  bool training = false;
  bool dropout = false;         // masks are kept for the backward pass
  bool math_attention = false;  // score matrices are stored instead of streamed (no flash attention)
  bool stored = true;           // the checkpoint's formats must be understood: none is given otherwise
};

// Name of the experts' activation where its halves are cut off first (gpt-oss).
inline constexpr const char* kClampedActivation = "experts.clamped_swiglu";
Graph build_transformer(const TransformerSpec& spec, const BuildOptions& options = {});

// A question about images or video: size of the latent grid follows.
struct RenderShape {
  int width = 1024, height = 1024, frames = 1, text_tokens = 0;  // text_tokens 0: the model's own
};
// Latent tokens of the denoiser; refuses sizes that the strides do not divide.
double latent_tokens(const DiffusionSpec& spec, const RenderShape& shape);
struct DenoiserFlops {
  double linear = 0, attention = 0;
};
// Operations of one forward pass.
DenoiserFlops denoiser_flops(const DiffusionSpec& spec, const RenderShape& shape);
Graph build_denoiser(const DiffusionSpec& spec, const RenderShape& shape);
// Of so many steps, those of the first of two denoisers; all when there is one.
double first_steps(const DiffusionSpec& spec, double steps);

// Built-in models. Names match without regard to case; an unknown one is refused with near matches.
struct Zoo {
  std::vector<TransformerSpec> transformers;
  std::vector<DiffusionSpec> denoisers;
};
const Zoo& zoo();
const TransformerSpec* find_transformer(std::string_view name);
// Whether the name is the model's own, with no word behind it.
bool names_whole(std::string_view name, const TransformerSpec& spec);
const DiffusionSpec* find_denoiser(std::string_view name);

// Reads a Hugging Face config.json. Refuses an unknown architecture, and any field that changes the shape and
// that the reader of that architecture does not know, by name.
// `stored`: refuse a quantization_config that is not understood; otherwise it is noted and not used, because the formats
// are given otherwise.
TransformerSpec read_hf_config(std::string_view json_text, const std::string& origin, bool stored = true);
// Reads the config.json of a denoiser (diffusers, or Wan's own); refuses like read_hf_config.
DiffusionSpec read_denoiser_config(std::string_view json_text, const std::string& origin);
// A denoiser whose folder lies beside another's that takes a part of the steps (transformer and transformer_2 of
// diffusers, high_noise_model and low_noise_model of Wan) is one of two; refuses a boundary that it cannot find.
void pair_denoisers(const std::string& config_path, DiffusionSpec& spec);
// Whether a config.json is a denoiser's (it has a _class_name).
bool is_denoiser_config(std::string_view json_text);
// `model` is a path to a config.json (or a folder with one), or the name of a zoo entry.
TransformerSpec load_transformer(const std::string& model, bool stored = true);
DiffusionSpec load_denoiser(const std::string& model);
// Whether the name or config is a denoiser.
bool is_denoiser(const std::string& model);

// GPT of the Megatron family: learned positions, biases, tied head, GeLU.
TransformerSpec megatron_gpt(std::string name, int layers, int hidden, int heads, int sequence, int vocab);

}  // namespace orrery::graph
