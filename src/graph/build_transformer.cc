// From the facts of a transformer to its graph: embedding, layers in up to four kinds, head.
//
// Layers differ by attention (full, window, latent, state space) and by feed-forward (dense, experts). Equal
// layers form one block with a repeat count. Projections that engines run as one matrix product (q, k, v;
// gate, up) are one operator with several weights. `saved` lists what the backward pass keeps; with dropout
// and stored scores these are the 34 s b h + 5 a s^2 b bytes of arXiv 2205.05198.
#include <fmt/format.h>

#include "base/error.h"
#include "graph/transformer_builder.h"

namespace orrery::graph {
Graph TransformerBuilder::build() {
  check();
  embed();
  for (const LayerGroup& g : s_.groups) group(g);
  if (s_.groups.empty()) counted_layers();
  head();
  b_.graph().window = s_.window_layers ? s_.window : 0, b_.graph().chosen = s_.index_topk;
  b_.graph().experts_per_token = s_.experts_per_token;
  b_.graph().notes = s_.notes;
  b_.graph().trained_positions = s_.trained_positions;
  return b_.finish();
}

void TransformerBuilder::counted_layers() {
  int window = s_.window_layers, dense = s_.moe() ? s_.dense_layers : s_.layers - s_.ssm_layers;
  int moe = s_.moe() ? s_.layers - s_.dense_layers - s_.ssm_layers : 0;
  // Windowed layers are taken from the larger kind; no known model mixes windows with leading dense layers.
  layers("layer.window", s_.moe() ? 0 : window, true, false, false);
  layers("layer", s_.moe() ? dense : dense - window, false, false, false);
  layers("layer.moe.window", s_.moe() ? window : 0, true, true, false);
  layers("layer.moe", s_.moe() ? moe - window : 0, false, true, false);
  layers("layer.ssm", s_.ssm_layers, false, s_.moe() && s_.ssm_mlp, true);
}

void TransformerBuilder::check() const {
  if (s_.layers <= 0 || s_.hidden <= 0) base::fail("{}: layers and hidden must be positive", s_.name);
  if (s_.heads > 0 && s_.kv_heads > 0 && s_.heads % s_.kv_heads)
    base::fail("{}: {} query heads are no multiple of {} key-value heads", s_.name, s_.heads, s_.kv_heads);
  for (const LayerGroup& g : s_.groups) {
    if (s_.mla() || (g.mixer != Mixer::kAttention && g.mixer != Mixer::kWindow)) continue;
    int heads = g.heads ? g.heads : s_.heads, kv = g.kv_heads ? g.kv_heads : s_.kv_heads;
    if (heads < 1 || kv < 1 || heads % kv)
      base::fail("{}: {} query heads of a kind of layer are no multiple of {} key-value heads", s_.name, heads, kv);
  }
  if (s_.moe() && s_.dense_layers > s_.layers)
    base::fail("{}: {} leading dense layers of {} layers", s_.name, s_.dense_layers, s_.layers);
  if (s_.window_layers > s_.layers) base::fail("{}: more window layers than layers", s_.name);
  if (s_.moe() && s_.groups.empty() && s_.window_layers > s_.layers - s_.dense_layers - s_.ssm_layers)
    base::fail("{}: more window layers than layers with experts, whose kind they are taken for", s_.name);
  if (s_.window_layers > 0 && s_.window <= 0)
    base::fail("{}: {} windowed layers, but no width of the window (sliding_window)", s_.name, s_.window_layers);
  if (s_.moe() && (s_.experts_per_token < 1 || s_.experts_per_token > s_.experts))
    base::fail("{}: {} experts per token of {} experts", s_.name, s_.experts_per_token, s_.experts);
}

void TransformerBuilder::norm_weights(std::string_view name, AxisId axis) {
  if (s_.plain_norms) return;
  b_.weight(std::string(name) + ".weight", {axis});
  if (s_.norm_bias) b_.weight(std::string(name) + ".bias", {axis});
}

TensorId TransformerBuilder::norm(Part part, std::string_view name, TensorId x, AxisId rows) {
  norm_weights(name, hidden_);
  TensorId y = b_.map(part, name, {x}, {rows, hidden_}, 4);
  b_.last().kind = OpKind::kReduce;
  b_.last().saved = {x};
  return y;
}

void TransformerBuilder::embed() {
  b_.begin("embed", 1, false);
  if (s_.kind == "vit") {
    patch_embed();
    return b_.end();
  }
  AxisId vocab = b_.axis("vocab", s_.vocab);
  AxisId width = s_.embed_dim ? b_.axis("embed_dim", s_.embed_dim) : hidden_;
  embedding_ = b_.weight("embed.weight", {vocab, width});
  TensorId ids = b_.tensor("token_ids", {kTokens}, TensorClass::kIndex, {Format::kInt32, 32});
  TensorId x = b_.act("hidden_states", {kTokens, width});
  b_.op(OpKind::kGather, Part::kEmbed, "embed", {ids, embedding_}, {x});
  if (s_.embed_dim) x = b_.linear(Part::kEmbed, "embed.project", x, {width}, {hidden_});
  if (s_.learned_positions)
    b_.weight("position.weight", {b_.axis("positions", s_.learned_positions), hidden_});
  if (s_.segments) b_.weight("segment.weight", {b_.axis("segments", s_.segments), hidden_});
  if (s_.embedding_norm) norm(Part::kEmbed, "embed.norm", x);
  b_.end();
}

void TransformerBuilder::patch_embed() {
  AxisId pixels = b_.axis("patch.pixels", 3.0 * s_.patch * s_.patch);
  TensorId image = b_.act("patches", {kTokens, pixels});
  b_.linear(Part::kEmbed, "patch", image, {pixels}, {hidden_}, true);
  b_.weight("class_token", {hidden_});
  b_.weight("position.weight", {b_.axis("positions", s_.image_tokens), hidden_});
}

void TransformerBuilder::layers(std::string_view name, int count, bool window, bool moe, bool ssm) {
  if (count <= 0) return;
  b_.begin(name, count, true);
  TensorId x = b_.act("layer.in", {kTokens, hidden_});
  if (ssm && !s_.ssm_mlp) {
    mamba2_mixer(b_, s_, hidden_, norm(Part::kAttention, "ssm.norm", x));
  } else if (ssm) {
    TensorId mixed = mamba2_mixer(b_, s_, hidden_, norm(Part::kAttention, "ssm.norm", x));
    TensorId y = residual(Part::kAttention, "ssm.residual", x, mixed);
    TensorId m = norm(Part::kDense, "mlp.norm", y);
    residual(Part::kDense, "mlp.residual", y, moe ? experts(m) : mlp(m, s_.ffn, "ffn"));
  } else {
    std::size_t first = b_.graph().tensors.size();
    TensorId a = norm(Part::kAttention, "attn.norm", x);
    if (!s_.first_norm && !window)  // the model's first layer is one of these
      b_.at(static_cast<TensorId>(first)).stored = (count - 1.0) / count;
    TensorId y = s_.mla() ? latent_attention(a, window) : attention(a, window);
    x = residual(Part::kAttention, "attn.residual", x, y);
    TensorId m = s_.norms_per_layer == 1 ? a : norm(Part::kDense, "mlp.norm", x);
    if (s_.norms_per_layer == 4) {
      norm(Part::kAttention, "attn.post_norm", x);
      norm(Part::kDense, "mlp.post_norm", x);
    }
    TensorId z =
        moe ? experts(m) : mlp(m, s_.moe() ? s_.dense_ffn : s_.ffn, s_.moe() ? "dense_ffn" : "ffn");
    residual(Part::kDense, "mlp.residual", x, z);
  }
  b_.end();
}

void TransformerBuilder::group(const LayerGroup& g) {
  static constexpr const char* mixers[] = {"",       ".attention", ".window",   ".mamba2", ".mamba1",
                                           ".delta", ".recurrent", ".parallel", ".shared", ".kda", ".lightning", ".compressed", ".conv"};
  static constexpr const char* feeds[] = {"", ".dense", ".moe", ".both"};
  b_.begin(std::string("layer") + mixers[static_cast<int>(g.mixer)] + feeds[static_cast<int>(g.feed)],
           g.count, true);
  TensorId x = b_.act("layer.in", {kTokens, hidden_});
  if (g.mixer == Mixer::kShared) {
    TensorId y = shared_block(x, g.count);
    TensorId a = norm(Part::kAttention, "mixer.norm",
                      b_.map(Part::kAttention, "link.add", {x, y}, {kTokens, hidden_}, 1, true));
    x = residual(Part::kAttention, "mixer.residual", x,
                 s_.ssm_rank ? mamba1_mixer(b_, s_, hidden_, a) : mamba2_mixer(b_, s_, hidden_, a));
  } else if (s_.streams) {
    TensorId y = mix(g, norm(Part::kAttention, "mixer.norm", take_streams("mixer")));
    give_streams("mixer", y);
    x = take_streams("mlp");
  } else if (g.mixer != Mixer::kNone) {
    TensorId taken = s_.depth_sources ? choose_depth("mixer.depth", x) : x;
    TensorId y = mix(g, norm(Part::kAttention, "mixer.norm", taken));
    if (s_.norms_per_layer == 4) norm(Part::kAttention, "mixer.post_norm", y);
    x = residual(Part::kAttention, "mixer.residual", x, y);
  }
  if (g.feed != Feed::kNone) {
    TensorId taken = s_.depth_sources ? choose_depth("mlp.depth", x) : x;
    TensorId z = feed(g, norm(Part::kDense, "mlp.norm", taken));
    if (s_.norms_per_layer == 4) norm(Part::kDense, "mlp.post_norm", z);
    if (s_.streams)
      give_streams("mlp", z);
    else
      residual(Part::kDense, "mlp.residual", x, z);
  }
  b_.end();
}

TensorId TransformerBuilder::feed(const LayerGroup& g, TensorId m) {
  if (g.feed == Feed::kExperts) return experts(m);
  int width = g.ffn ? g.ffn : s_.moe() ? s_.dense_ffn : s_.ffn;
  TensorId dense = mlp(m, width, s_.moe() ? "dense_ffn" : "ffn");
  if (g.feed == Feed::kDense) return dense;
  for (int i = 0; i < s_.expert_norms; ++i) norm(Part::kDense, fmt::format("experts.norm{}", i), m);
  TensorId out = b_.map(Part::kExpert, "feeds.add", {dense, experts(m)}, {kTokens, hidden_}, 1, true);
  b_.last().adds = true;
  return out;
}

TensorId TransformerBuilder::residual(Part part, std::string_view name, TensorId x, TensorId y) {
  TensorId out = b_.map(part, name, {x, y}, {kTokens, hidden_}, 1, !o_.training);
  if (o_.dropout) {
    TensorId mask =
        b_.tensor(std::string(name) + ".mask", {kTokens, hidden_}, TensorClass::kActivation, kByte);
    b_.last().saved = {mask};
  }
  return out;
}

AxisId TransformerBuilder::sized(std::string_view name, double extent) {
  AxisId known = b_.graph().find_axis(name);
  bool other = known != kNoAxis && b_.graph().axes[known].extent != extent;
  return b_.axis(other ? fmt::format("{}.{:.0f}", name, extent) : std::string(name), extent);
}

TensorId TransformerBuilder::mlp(TensorId m, int width, std::string_view axis_name) {
  AxisId ffn = sized(axis_name, width);
  TensorId h;
  if (s_.gated) {
    TensorId wg = b_.weight("gate.weight", {hidden_, ffn}, true),
             wu = b_.weight("up.weight", {hidden_, ffn}, true);
    if (s_.mlp_bias) b_.weight("gate.bias", {ffn}), b_.weight("up.bias", {ffn});
    TensorId g = b_.act("gate", {kTokens, ffn}), u = b_.act("up", {kTokens, ffn});
    b_.op(OpKind::kContract, Part::kDense, "gate_up", {m, wg, wu}, {g, u}).saved = {m};
    h = b_.map(Part::kDense, "swiglu", {g, u}, {kTokens, ffn}, 5);
    b_.last().saved = {g, u};
  } else {
    TensorId u = b_.linear(Part::kDense, "up", m, {hidden_}, {ffn}, s_.mlp_bias);
    b_.last().saved = {m};
    h = b_.map(Part::kDense, "gelu", {u}, {kTokens, ffn}, 8);
    if (s_.activation_weights) b_.weight("activation.weight", {b_.axis("activation.weights", s_.activation_weights)});
    b_.last().saved = {u};
  }
  TensorId out = b_.linear(Part::kDense, "down", h, {ffn}, {hidden_}, s_.mlp_bias);
  b_.last().saved = {h};
  return out;
}

// From the rows of experts to what their last product takes.
TensorId TransformerBuilder::expert_inner(TensorId x, AxisId experts, AxisId width, AxisId ffn) {
  if (!s_.gated) {
    TensorId u = b_.linear(Part::kExpert, "experts.up", x, {width}, {ffn}, s_.mlp_bias, experts, kRouted);
    b_.last().saved = {x};
    TensorId h = b_.map(Part::kExpert, "experts.activation", {u}, {kRouted, ffn}, 2);
    b_.last().saved = {u};
    return h;
  }
  TensorId wg = b_.weight("experts.gate.weight", {experts, width, ffn}, true);
  TensorId wu = b_.weight("experts.up.weight", {experts, width, ffn}, true);
  if (s_.mlp_bias)
    b_.weight("experts.gate.bias", {experts, ffn}), b_.weight("experts.up.bias", {experts, ffn});
  TensorId g = b_.act("experts.gate", {kRouted, ffn}), u = b_.act("experts.up", {kRouted, ffn});
  Op& up = b_.op(OpKind::kContract, Part::kExpert, "experts.gate_up", {x, wg, wu}, {g, u});
  up.grouped = experts;
  up.saved = {x};
  const char* activation = s_.family == "gpt-oss" ? kClampedActivation : "experts.swiglu";
  TensorId h = b_.map(Part::kExpert, activation, {g, u}, {kRouted, ffn}, 5);
  b_.last().saved = {g, u};
  return h;
}

TensorId TransformerBuilder::experts(TensorId m) {
  AxisId experts = b_.axis("experts", s_.experts), ffn = b_.axis("expert_ffn", s_.expert_ffn);
  AxisId choices = s_.idle_experts ? b_.axis("choices", s_.experts + s_.idle_experts) : experts;
  TensorId wr = b_.weight("router.weight", {hidden_, choices});
  b_.at(wr).replicated = true;
  if (s_.router_bias) b_.weight("router.bias", {choices}), b_.at(wr + 1).replicated = true;
  if (s_.router_scale) b_.weight("router.scale", {hidden_});
  TensorId scores = b_.act("router.scores", {kTokens, choices});
  b_.at(scores).replicated = true;
  b_.op(OpKind::kContract, Part::kExpert, "router", {m, wr}, {scores}).saved = {m};
  b_.op(OpKind::kSelect, Part::kExpert, "top_k", {scores},
        {b_.tensor("chosen", {kRouted}, TensorClass::kIndex, {Format::kInt32, 32})});
  // The rows are sorted by expert before the grouped products can start.
  TensorId order = b_.tensor("order", {kRouted}, TensorClass::kIndex, {Format::kInt32, 32});
  b_.op(OpKind::kSelect, Part::kExpert, "sort", {static_cast<TensorId>(order - 1)}, {order});
  AxisId width = s_.expert_latent ? b_.axis("expert_latent", s_.expert_latent) : hidden_;
  TensorId rows = s_.expert_latent ? b_.linear(Part::kExpert, "latent.down", m, {hidden_}, {width}, false) : m;
  if (s_.expert_latent) b_.last().saved = {m};
  TensorId x = b_.act("routed.in", {kRouted, width});
  b_.op(OpKind::kMove, Part::kExpert, "dispatch", {rows}, {x});
  TensorId h = expert_inner(x, experts, width, ffn);
  TensorId y = b_.linear(Part::kExpert, "experts.down", h, {ffn}, {width}, s_.mlp_bias, experts, kRouted);
  b_.last().saved = {h};
  TensorId out = b_.act("experts.out", {kTokens, width});
  b_.op(OpKind::kMove, Part::kExpert, "combine", {y}, {out}).adds = true;
  if (s_.expert_latent) {
    TensorId latent = out;
    if (s_.expert_latent_norm) norm_weights("latent.norm", width);
    out = b_.linear(Part::kExpert, "latent.up", latent, {width}, {hidden_}, false);
    b_.last().saved = {latent};
  }
  if (s_.shared_experts) {
    int width = s_.shared_ffn ? s_.shared_ffn : s_.shared_experts * s_.expert_ffn;
    if (s_.shared_gate) b_.weight("shared.gate", {hidden_});
    TensorId z = mlp(m, width, "shared_ffn");
    out = b_.map(Part::kExpert, "experts.add", {out, z}, {kTokens, hidden_}, 1, true);
    b_.last().adds = true;
  }
  return out;
}

void TransformerBuilder::head() {
  b_.begin("head", 1, false);
  TensorId x = b_.act("head.in", {kOutputs, hidden_});
  if (s_.streams) {
    AxisId streams = b_.axis("streams", s_.streams), mix = b_.axis("streams.out", s_.streams);
    b_.weight("head.mix.weight", {mix, streams, hidden_}), b_.weight("head.mix.bias", {mix});
    b_.weight("head.mix.scale", {b_.axis("streams.scale", 1)});
  }
  if (s_.final_norm) x = norm(Part::kHead, "final.norm", x, kOutputs);
  if (s_.pooler)
    b_.linear(Part::kHead, "pooler", x, {hidden_}, {b_.axis("pooled", s_.hidden)}, true, kNoAxis, kOutputs);
  if (s_.word_head) {
    x = b_.linear(Part::kHead, "transform", x, {hidden_}, {b_.axis("transformed", s_.hidden)}, s_.word_head_bias, kNoAxis,
                  kOutputs);
    x = b_.map(Part::kHead, "transform.gelu", {x}, {kOutputs, hidden_}, 8);
    x = norm(Part::kHead, "transform.norm", x, kOutputs);
  }
  if (s_.kind == "vit") {
    b_.linear(Part::kHead, "classifier", x, {hidden_}, {b_.axis("classes", s_.classes)}, true, kNoAxis,
              kOutputs);
  } else {
    AxisId vocab = b_.axis("vocab", s_.vocab), width = s_.embed_dim ? b_.axis("embed_dim", s_.embed_dim) : hidden_;
    if (s_.embed_dim) x = b_.linear(Part::kHead, "head.project", x, {hidden_}, {width}, false, kNoAxis, kOutputs);
    TensorId w = s_.tied ? embedding_ : b_.weight("head.weight", {vocab, width});
    if (s_.head_bias) b_.weight("head.bias", {vocab});
    TensorId logits = b_.act("logits", {kOutputs, vocab});
    b_.op(OpKind::kContract, Part::kHead, "head", {x, w}, {logits}).saved = {x};
  }
  b_.end();
}

void TransformerSpec::add_layer(LayerGroup layer) {
  for (LayerGroup& g : groups) {
    layer.count = g.count;
    if (g == layer) {
      ++g.count;
      return;
    }
  }
  layer.count = 1;
  groups.push_back(layer);
}

Graph build_transformer(const TransformerSpec& spec, const BuildOptions& options) {
  return TransformerBuilder(spec, options).build();
}

TransformerSpec megatron_gpt(std::string name, int layers, int hidden, int heads, int sequence, int vocab) {
  if (heads <= 0 || hidden % heads)
    base::fail("{}: hidden {} is no multiple of {} heads", name, hidden, heads);
  TransformerSpec s;
  s.name = std::move(name);
  s.family = "gpt";
  s.kind = "dense";
  s.layers = layers;
  s.hidden = hidden;
  s.heads = s.kv_heads = heads;
  s.head_dim = hidden / heads;
  s.ffn = 4 * hidden;
  s.vocab = vocab;
  s.tied = s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = true;
  s.learned_positions = sequence;
  return s;
}

}  // namespace orrery::graph
