// From the facts of a transformer to its graph: embedding, layers in up to four kinds, head.
//
// Layers differ by attention (full, window, latent, state space) and by feed-forward (dense, experts). Equal
// layers form one block with a repeat count. Projections that engines run as one matrix product (q, k, v;
// gate, up) are one operator with several weights. `saved` lists what the backward pass keeps; with dropout
// and stored scores these are the 34 s b h + 5 a s^2 b bytes of arXiv 2205.05198.
#include "base/error.h"
#include "graph/build_mixers.h"
#include "graph/spec.h"

namespace orrery::graph {
namespace {

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerSpec& spec, const BuildOptions& options)
      : s_(spec), o_(options), b_(spec.name), hidden_(b_.axis("hidden", spec.hidden)) {}

  Graph build() {
    check();
    embed();
    for (const LayerGroup& g : s_.groups) group(g);
    if (s_.groups.empty()) counted_layers();
    head();
    b_.graph().window = s_.window_layers ? s_.window : 0;
    b_.graph().experts_per_token = s_.experts_per_token;
    b_.graph().notes = s_.notes;
    return b_.finish();
  }

 private:
  void counted_layers() {
    int window = s_.window_layers, dense = s_.moe() ? s_.dense_layers : s_.layers - s_.ssm_layers;
    int moe = s_.moe() ? s_.layers - s_.dense_layers - s_.ssm_layers : 0;
    // Windowed layers are taken from the larger kind; no known model mixes windows with leading dense layers.
    layers("layer.window", s_.moe() ? 0 : window, true, false, false);
    layers("layer", s_.moe() ? dense : dense - window, false, false, false);
    layers("layer.moe.window", s_.moe() ? window : 0, true, true, false);
    layers("layer.moe", s_.moe() ? moe - window : 0, false, true, false);
    layers("layer.ssm", s_.ssm_layers, false, s_.moe() && s_.ssm_mlp, true);
  }

  void check() const {
    if (s_.layers <= 0 || s_.hidden <= 0) base::fail("{}: layers and hidden must be positive", s_.name);
    if (s_.heads > 0 && s_.kv_heads > 0 && s_.heads % s_.kv_heads)
      base::fail("{}: {} query heads are no multiple of {} key-value heads", s_.name, s_.heads, s_.kv_heads);
    if (s_.window_layers > s_.layers) base::fail("{}: more window layers than layers", s_.name);
    if (s_.window_layers > 0 && s_.window <= 0)
      base::fail("{}: {} windowed layers, but no width of the window (sliding_window)", s_.name, s_.window_layers);
    if (s_.moe() && (s_.experts_per_token < 1 || s_.experts_per_token > s_.experts))
      base::fail("{}: {} experts per token of {} experts", s_.name, s_.experts_per_token, s_.experts);
  }

  void norm_weights(std::string_view name, AxisId axis) {
    b_.weight(std::string(name) + ".weight", {axis});
    if (s_.norm_bias) b_.weight(std::string(name) + ".bias", {axis});
  }

  TensorId norm(Part part, std::string_view name, TensorId x, AxisId rows = kTokens) {
    norm_weights(name, hidden_);
    TensorId y = b_.map(part, name, {x}, {rows, hidden_}, 4);
    b_.last().kind = OpKind::kReduce;
    b_.last().saved = {x};
    return y;
  }

  void embed() {
    b_.begin("embed", 1, false);
    if (s_.kind == "vit") {
      patch_embed();
      return b_.end();
    }
    AxisId vocab = b_.axis("vocab", s_.vocab);
    embedding_ = b_.weight("embed.weight", {vocab, hidden_});
    TensorId ids = b_.tensor("token_ids", {kTokens}, TensorClass::kIndex, {Format::kInt32, 32});
    TensorId x = b_.act("hidden_states", {kTokens, hidden_});
    b_.op(OpKind::kGather, Part::kEmbed, "embed", {ids, embedding_}, {x});
    if (s_.learned_positions)
      b_.weight("position.weight", {b_.axis("positions", s_.learned_positions), hidden_});
    if (s_.segments) b_.weight("segment.weight", {b_.axis("segments", s_.segments), hidden_});
    if (s_.embedding_norm) norm(Part::kEmbed, "embed.norm", x);
    b_.end();
  }

  void patch_embed() {
    AxisId pixels = b_.axis("patch.pixels", 3.0 * s_.patch * s_.patch);
    TensorId image = b_.act("patches", {kTokens, pixels});
    b_.linear(Part::kEmbed, "patch", image, {pixels}, {hidden_}, true);
    b_.weight("class_token", {hidden_});
    b_.weight("position.weight", {b_.axis("positions", s_.image_tokens), hidden_});
  }

  void layers(std::string_view name, int count, bool window, bool moe, bool ssm) {
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
      TensorId a = norm(Part::kAttention, "attn.norm", x);
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

  TensorId mix(Mixer mixer, TensorId a) {
    switch (mixer) {
      case Mixer::kMamba2: return mamba2_mixer(b_, s_, hidden_, a);
      case Mixer::kMamba1: return mamba1_mixer(b_, s_, hidden_, a);
      case Mixer::kDelta: return delta_mixer(b_, s_, hidden_, a);
      case Mixer::kRecurrent: return recurrent_mixer(b_, s_, hidden_, a);
      case Mixer::kParallel: {
        TensorId y = mamba2_mixer(b_, s_, hidden_, a);
        return b_.map(Part::kAttention, "mixers.add", {y, attention(a, false)}, {kTokens, hidden_}, 1, true);
      }
      default: return attention(a, mixer == Mixer::kWindow);
    }
  }

  void group(const LayerGroup& g) {
    static constexpr const char* mixers[] = {"",       ".attention", ".window",   ".mamba2", ".mamba1",
                                             ".delta", ".recurrent", ".parallel", ".shared"};
    static constexpr const char* feeds[] = {"", ".dense", ".moe"};
    b_.begin(std::string("layer") + mixers[static_cast<int>(g.mixer)] + feeds[static_cast<int>(g.feed)],
             g.count, true);
    TensorId x = b_.act("layer.in", {kTokens, hidden_});
    if (g.mixer == Mixer::kShared) {
      TensorId y = shared_block(x, g.count);
      TensorId a = norm(Part::kAttention, "mixer.norm",
                        b_.map(Part::kAttention, "link.add", {x, y}, {kTokens, hidden_}, 1, true));
      x = residual(Part::kAttention, "mixer.residual", x,
                   s_.ssm_rank ? mamba1_mixer(b_, s_, hidden_, a) : mamba2_mixer(b_, s_, hidden_, a));
    } else if (g.mixer != Mixer::kNone)
      x = residual(Part::kAttention, "mixer.residual", x,
                   mix(g.mixer, norm(Part::kAttention, "mixer.norm", x)));
    if (g.feed != Feed::kNone) {
      TensorId m = norm(Part::kDense, "mlp.norm", x);
      TensorId z = g.feed == Feed::kExperts
                       ? experts(m)
                       : mlp(m, s_.moe() ? s_.dense_ffn : s_.ffn, s_.moe() ? "dense_ffn" : "ffn");
      residual(Part::kDense, "mlp.residual", x, z);
    }
    b_.end();
  }

  // An attention block whose weights several layers share (Zamba): it sees the layer's input beside the
  // model's, and a product of the layer's own takes its output.
  TensorId shared_block(TensorId x, int layers) {
    double own = std::min(1.0, static_cast<double>(s_.shared_blocks) / layers);
    AxisId twice = b_.axis("hidden.twice", 2.0 * s_.hidden);
    std::size_t first = b_.graph().tensors.size();
    b_.weight("shared.norm.weight", {twice});
    TensorId a = b_.map(Part::kAttention, "shared.norm", {x, b_.act("model.in", {kTokens, hidden_})},
                        {kTokens, twice}, 4);
    b_.last().kind = OpKind::kReduce;
    TensorId y = attention(a, false, twice);
    TensorId z = mlp(norm(Part::kDense, "shared.mlp.norm", y), s_.ffn, "ffn");
    for (std::size_t t = first; t < b_.graph().tensors.size(); ++t)
      if (b_.graph().tensors[t].cls == TensorClass::kWeight) b_.graph().tensors[t].stored = own;
    if (s_.adapter_rank) {
      AxisId rank = b_.axis("adapter", s_.adapter_rank);
      AxisId both = b_.axis("ffn.both", 2.0 * s_.ffn);
      b_.linear(Part::kDense, "adapter.mlp.up",
                b_.linear(Part::kDense, "adapter.mlp.down", y, {hidden_}, {rank}), {rank}, {both});
      AxisId wide = b_.axis("attention.width", 1.0 * s_.heads * s_.head_dim);
      for (const char* name : {"q", "k", "v"})
        if (s_.attention_adapters) {
          std::string stem = std::string("adapter.") + name;
          b_.linear(Part::kAttention, stem + ".up",
                    b_.linear(Part::kAttention, stem + ".down", a, {twice}, {rank}), {rank}, {wide});
        }
    }
    TensorId out = b_.act("link", {kTokens, hidden_});
    TensorId w = b_.weight("link.weight", {hidden_, hidden_}, true);
    b_.op(OpKind::kContract, Part::kAttention, "link", {z, w}, {out}).saved = {z};
    return out;
  }

  TensorId residual(Part part, std::string_view name, TensorId x, TensorId y) {
    TensorId out = b_.map(part, name, {x, y}, {kTokens, hidden_}, 1, !o_.training);
    if (o_.dropout) {
      TensorId mask =
          b_.tensor(std::string(name) + ".mask", {kTokens, hidden_}, TensorClass::kActivation, kByte);
      b_.last().saved = {mask};
    }
    return out;
  }

  TensorId attention(TensorId a, bool window) { return attention(a, window, hidden_); }
  TensorId attention(TensorId a, bool window, AxisId from) {
    AxisId heads = b_.axis("heads", s_.heads), kv = b_.axis("kv_heads", s_.kv_heads);
    AxisId dim = b_.axis("head_dim", s_.head_dim);
    TensorId wq = b_.weight("q.weight", {from, heads, dim}, true);
    TensorId wk = b_.weight("k.weight", {from, kv, dim}, true);
    TensorId wv = b_.weight("v.weight", {from, kv, dim}, true);
    if (s_.attn_gate) b_.at(wq).copies = 2;
    if (s_.qkv_bias) {
      b_.weight("q.bias", {heads, dim});
      b_.weight("k.bias", {kv, dim});
      b_.weight("v.bias", {kv, dim});
    }
    if (s_.qk_norm == QkNorm::kHead) b_.weight("q.norm", {dim}), b_.weight("k.norm", {dim});
    if (s_.qk_norm == QkNorm::kAll) b_.weight("q.norm", {heads, dim}), b_.weight("k.norm", {kv, dim});
    if (s_.sinks) b_.weight("sinks", {heads});
    TensorId q = b_.act("q", {kTokens, heads, dim});
    TensorId k = b_.act("k", {kTokens, kv, dim}), v = b_.act("v", {kTokens, kv, dim});
    b_.op(OpKind::kContract, Part::kAttention, "qkv", {a, wq, wk, wv}, {q, k, v}).saved = {a};
    AxisId keys = window ? kKeysWindow : kKeys;
    bool cached = s_.kind == "dense" || s_.kind == "moe";
    TensorId ck = k, cv = v;
    if (cached && !o_.training) {
      ck = b_.tensor("k_cache", {keys, kv, dim}, TensorClass::kState);
      cv = b_.tensor("v_cache", {keys, kv, dim}, TensorClass::kState);
    }
    if (s_.qk_norm != QkNorm::kNone) per_head(OpKind::kReduce, "qk.norm", q, k, heads, kv, dim, 4);
    if (!s_.learned_positions) per_head(OpKind::kMap, "rope", q, k, heads, kv, dim, 6);
    if (cached && !o_.training) b_.op(OpKind::kMap, Part::kAttention, "kv.write", {k, v}, {});
    TensorId y = attend(heads, dim, {q, ck, cv}, {q, k, v}, window);
    Op& op = b_.last();
    op.head_qk = op.head_v = s_.head_dim;
    return output(y, heads, dim);
  }

  // One kernel that rewrites queries and keys head by head.
  void per_head(OpKind kind, std::string_view name, TensorId q, TensorId k, AxisId heads, AxisId kv,
                AxisId dim, double ops) {
    std::string stem(name);
    TensorId q_out = b_.act(stem + ".q", {kTokens, heads, dim}),
             k_out = b_.act(stem + ".k", {kTokens, kv, dim});
    b_.op(kind, Part::kAttention, name, {q, k}, {q_out, k_out}).ops_per_element = ops;
  }

  TensorId attend(AxisId heads, AxisId dim, std::vector<TensorId> in, std::vector<TensorId> saved,
                  bool window) {
    TensorId y = b_.act("attn.out", {kTokens, heads, dim});
    std::vector<TensorId> extra;
    if (o_.math_attention) {
      extra.push_back(b_.act("probabilities", {kScores, heads}));
      if (o_.dropout) {
        extra.push_back(b_.act("probabilities.dropped", {kScores, heads}));
        extra.push_back(b_.tensor("probabilities.mask", {kScores, heads}, TensorClass::kActivation, kByte));
      }
    } else if (o_.training) {
      extra.push_back(b_.tensor("softmax.lse", {kTokens, heads}, TensorClass::kActivation, kFp32));
    }
    Op& op =
        b_.op(OpKind::kAttend, Part::kAttention, window ? "attend.window" : "attend", std::move(in), {y});
    op.pairs = window ? kPairsWindow : kPairs;
    op.head_axis = heads;
    // Scores are written and read by product, softmax, dropout (with its mask) and product.
    if (o_.math_attention) op.score_bytes = o_.dropout ? 13 : 8;
    op.saved = std::move(saved);
    op.saved.insert(op.saved.end(), extra.begin(), extra.end());
    return y;
  }

  TensorId output(TensorId y, AxisId heads, AxisId dim) {
    TensorId out = b_.linear(Part::kAttention, "o", y, {heads, dim}, {hidden_}, s_.o_bias);
    b_.last().saved = {y};
    return out;
  }

  TensorId latent_attention(TensorId a, bool window) {
    AxisId heads = b_.axis("heads", s_.heads), kv = b_.axis("kv_latent", s_.kv_lora);
    AxisId kv_rope = b_.axis("kv_latent_rope", s_.kv_lora + s_.rope);
    AxisId qk = b_.axis("qk_dim", s_.nope + s_.rope), v = b_.axis("v_dim", s_.v_dim);
    AxisId kvb = b_.axis("kv_b_dim", s_.nope + s_.v_dim);
    TensorId q_in = a;
    AxisId q_axis = hidden_;
    if (s_.q_lora) {
      q_axis = b_.axis("q_latent", s_.q_lora);
      q_in = b_.linear(Part::kAttention, "q_a", a, {hidden_}, {q_axis});
      b_.last().saved = {a};
      norm_weights("q_a.norm", q_axis);
    }
    TensorId latent = b_.linear(Part::kAttention, "kv_a", a, {hidden_}, {kv_rope});
    b_.last().saved = {a};
    norm_weights("kv_a.norm", kv);
    TensorId q = b_.linear(Part::kAttention, "q_b", q_in, {q_axis}, {heads, qk});
    b_.last().saved = {q_in};
    TensorId kvx = b_.linear(Part::kAttention, "kv_b", latent, {kv}, {heads, kvb});
    b_.last().saved = {latent};
    TensorId cache = kvx;
    if (!o_.training) {
      cache = b_.tensor("latent_cache", {window ? kKeysWindow : kKeys, kv_rope}, TensorClass::kState);
      b_.at(cache).replicated = true;
    }
    TensorId y = attend(heads, v, {q, cache}, {q, kvx}, window);
    Op& op = b_.last();
    op.head_qk = s_.nope + s_.rope;
    op.head_v = s_.v_dim;
    op.absorbed_qk = s_.kv_lora + s_.rope;
    op.absorbed_v = s_.kv_lora;
    return output(y, heads, v);
  }

  TensorId mlp(TensorId m, int width, std::string_view axis_name) {
    AxisId ffn = b_.axis(axis_name, width);
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
      b_.last().saved = {u};
    }
    TensorId out = b_.linear(Part::kDense, "down", h, {ffn}, {hidden_}, s_.mlp_bias);
    b_.last().saved = {h};
    return out;
  }

  TensorId experts(TensorId m) {
    AxisId experts = b_.axis("experts", s_.experts), ffn = b_.axis("expert_ffn", s_.expert_ffn);
    TensorId wr = b_.weight("router.weight", {hidden_, experts});
    b_.at(wr).replicated = true;
    if (s_.router_bias) b_.weight("router.bias", {experts}), b_.at(wr + 1).replicated = true;
    TensorId scores = b_.act("router.scores", {kTokens, experts});
    b_.at(scores).replicated = true;
    b_.op(OpKind::kContract, Part::kExpert, "router", {m, wr}, {scores}).saved = {m};
    b_.op(OpKind::kSelect, Part::kExpert, "top_k", {scores},
          {b_.tensor("chosen", {kRouted}, TensorClass::kIndex, {Format::kInt32, 32})});
    // The rows are sorted by expert before the grouped products can start.
    TensorId order = b_.tensor("order", {kRouted}, TensorClass::kIndex, {Format::kInt32, 32});
    b_.op(OpKind::kSelect, Part::kExpert, "sort", {static_cast<TensorId>(order - 1)}, {order});
    TensorId x = b_.act("routed.in", {kRouted, hidden_});
    b_.op(OpKind::kMove, Part::kExpert, "dispatch", {m}, {x});
    TensorId wg = b_.weight("experts.gate.weight", {experts, hidden_, ffn}, true);
    TensorId wu = b_.weight("experts.up.weight", {experts, hidden_, ffn}, true);
    if (s_.mlp_bias)
      b_.weight("experts.gate.bias", {experts, ffn}), b_.weight("experts.up.bias", {experts, ffn});
    TensorId g = b_.act("experts.gate", {kRouted, ffn}), u = b_.act("experts.up", {kRouted, ffn});
    Op& up = b_.op(OpKind::kContract, Part::kExpert, "experts.gate_up", {x, wg, wu}, {g, u});
    up.grouped = experts;
    up.saved = {x};
    TensorId h = b_.map(Part::kExpert, "experts.swiglu", {g, u}, {kRouted, ffn}, 5);
    b_.last().saved = {g, u};
    TensorId y = b_.linear(Part::kExpert, "experts.down", h, {ffn}, {hidden_}, s_.mlp_bias, experts, kRouted);
    b_.last().saved = {h};
    TensorId out = b_.act("experts.out", {kTokens, hidden_});
    b_.op(OpKind::kMove, Part::kExpert, "combine", {y}, {out}).adds = true;
    if (s_.shared_experts) {
      int width = s_.shared_ffn ? s_.shared_ffn : s_.shared_experts * s_.expert_ffn;
      if (s_.shared_gate) b_.weight("shared.gate", {hidden_});
      TensorId z = mlp(m, width, "shared_ffn");
      out = b_.map(Part::kExpert, "experts.add", {out, z}, {kTokens, hidden_}, 1, true);
      b_.last().adds = true;
    }
    return out;
  }

  void head() {
    b_.begin("head", 1, false);
    TensorId x = b_.act("head.in", {kOutputs, hidden_});
    if (s_.final_norm) x = norm(Part::kHead, "final.norm", x, kOutputs);
    if (s_.pooler)
      b_.linear(Part::kHead, "pooler", x, {hidden_}, {b_.axis("pooled", s_.hidden)}, true, kNoAxis, kOutputs);
    if (s_.word_head) {
      x = b_.linear(Part::kHead, "transform", x, {hidden_}, {b_.axis("transformed", s_.hidden)}, true, kNoAxis, kOutputs);
      x = b_.map(Part::kHead, "transform.gelu", {x}, {kOutputs, hidden_}, 8);
      x = norm(Part::kHead, "transform.norm", x, kOutputs);
    }
    if (s_.kind == "vit") {
      b_.linear(Part::kHead, "classifier", x, {hidden_}, {b_.axis("classes", s_.classes)}, true, kNoAxis,
                kOutputs);
    } else {
      AxisId vocab = b_.axis("vocab", s_.vocab);
      TensorId w = s_.tied ? embedding_ : b_.weight("head.weight", {vocab, hidden_});
      if (s_.head_bias) b_.weight("head.bias", {vocab});
      TensorId logits = b_.act("logits", {kOutputs, vocab});
      b_.op(OpKind::kContract, Part::kHead, "head", {x, w}, {logits}).saved = {x};
    }
    b_.end();
  }

  const TransformerSpec& s_;
  const BuildOptions& o_;
  GraphBuilder b_;
  AxisId hidden_;
  TensorId embedding_ = 0;
};

}  // namespace

void TransformerSpec::add_layer(Mixer mixer, Feed feed) {
  for (LayerGroup& g : groups)
    if (g.mixer == mixer && g.feed == feed) {
      ++g.count;
      return;
    }
  groups.push_back({1, mixer, feed});
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
