// Attention of a transformer layer: grouped heads, latent attention, state-space mixers beside or instead of it, and
// blocks that several layers share.
#include <algorithm>
#include <tuple>

#include "graph/transformer_builder.h"

namespace orrery::graph {

TensorId TransformerBuilder::mix(const LayerGroup& g, TensorId a) {
  switch (g.mixer) {
    case Mixer::kMamba2: return mamba2_mixer(b_, s_, hidden_, a);
    case Mixer::kMamba1: return mamba1_mixer(b_, s_, hidden_, a);
    case Mixer::kDelta: return delta_mixer(b_, s_, hidden_, a);
    case Mixer::kRecurrent: return recurrent_mixer(b_, s_, hidden_, a);
    case Mixer::kKda: return kda_mixer(b_, s_, hidden_, a);
    case Mixer::kLightning: return lightning_mixer(b_, s_, hidden_, a);
    case Mixer::kCompressed: return compressed_attention(a, g);
    case Mixer::kShortConv: return short_convolution(b_, s_, hidden_, a);
    case Mixer::kParallel: {
      TensorId y = mamba2_mixer(b_, s_, hidden_, a);
      return b_.map(Part::kAttention, "mixers.add", {y, attention(a, false)}, {kTokens, hidden_}, 1, true);
    }
    default:
      if (s_.mla()) return latent_attention(a, g.mixer == Mixer::kWindow, g.indexer);
      return attention(a, g.mixer == Mixer::kWindow, hidden_, g);
  }
}

// An attention block whose weights several layers share (Zamba): it sees the layer's input beside the
// model's, and a product of the layer's own takes its output.
TensorId TransformerBuilder::shared_block(TensorId x, int layers) {
  double own = std::min(1.0, static_cast<double>(s_.shared_blocks) / layers);
  AxisId twice = b_.axis("hidden.twice", 2.0 * s_.hidden);
  std::size_t first = b_.graph().tensors.size();
  b_.weight("shared.norm.weight", {twice});
  TensorId both = b_.map(Part::kAttention, "shared.concat", {x, b_.act("model.in", {kTokens, hidden_})},
                         {kTokens, twice}, 0);
  TensorId a = b_.map(Part::kAttention, "shared.norm", {both}, {kTokens, twice}, 4);
  b_.last().kind = OpKind::kReduce;
  b_.last().saved = {both};
  TensorId y = attention(a, false, twice, {});
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

TensorId TransformerBuilder::attention(TensorId a, bool window, AxisId from, const LayerGroup& shape) {
  int wide = shape.head_dim ? shape.head_dim : s_.head_dim;
  int v_wide = shape.v_dim ? shape.v_dim : s_.v_dim ? s_.v_dim : wide;
  AxisId heads = sized("heads", shape.heads ? shape.heads : s_.heads);
  AxisId kv = sized("kv_heads", shape.kv_heads ? shape.kv_heads : s_.kv_heads);
  AxisId dim = sized("head_dim", wide), v_dim = sized("head_dim", v_wide);
  std::vector<TensorId> in = {a, b_.weight("q.weight", {from, heads, dim}, true),
                              b_.weight("k.weight", {from, kv, dim}, true)};
  if (s_.attn_gate) b_.at(in[1]).copies = 2;
  if (!shape.keys_are_values) in.push_back(b_.weight("v.weight", {from, kv, v_dim}, true));
  if (s_.qkv_bias) {
    b_.weight("q.bias", {heads, dim});
    b_.weight("k.bias", {kv, dim});
    b_.weight("v.bias", {kv, v_dim});
  }
  if (s_.qk_norm == QkNorm::kHead) b_.weight("q.norm", {dim}), b_.weight("k.norm", {dim});
  if (s_.qk_norm == QkNorm::kAll) b_.weight("q.norm", {heads, dim}), b_.weight("k.norm", {kv, dim});
  if (s_.sinks || (s_.window_sinks && window)) b_.weight("sinks", {heads});
  TensorId q = b_.act("q", {kTokens, heads, dim});
  TensorId k = b_.act("k", {kTokens, kv, dim}), v = b_.act("v", {kTokens, kv, v_dim});
  b_.op(OpKind::kContract, Part::kAttention, "qkv", std::move(in), {q, k, v}).saved = {a};
  AxisId keys = window ? kKeysWindow : kKeys;
  bool cached = s_.kind == "dense" || s_.kind == "moe";
  TensorId ck = k, cv = v;
  if (cached && !o_.training) {
    ck = b_.tensor("k_cache", {keys, kv, dim}, TensorClass::kState);
    cv = b_.tensor("v_cache", {keys, kv, v_dim}, TensorClass::kState);
  }
  if (s_.qk_norm != QkNorm::kNone) {
    per_head(OpKind::kReduce, "qk.norm", q, k, heads, kv, dim, 4);
    b_.last().saved = b_.last().out;  // as large as what a norm keeps for its backward pass: what it took
  }
  if (!s_.learned_positions) per_head(OpKind::kMap, "rope", q, k, heads, kv, dim, 6);
  if (cached && !o_.training) b_.op(OpKind::kMap, Part::kAttention, "kv.write", {k, v}, {});
  if (shape.indexer) {
    choose_blocks(a);
    if (cached && !o_.training)  // all keys are held, and those that were chosen are read
      for (auto [held, width, name] : {std::tuple{&ck, dim, "k_cache.chosen"}, {&cv, v_dim, "v_cache.chosen"}}) {
        *held = b_.tensor(name, {kKeysChosen, kv, width}, TensorClass::kState);
        b_.at(*held).stored = 0;
      }
  }
  TensorId y = attend(heads, v_dim, {q, ck, cv}, {q, k, v}, window);
  Op& op = b_.last();
  if (shape.indexer) op.pairs = kPairsChosen;
  op.head_qk = wide, op.head_v = v_wide;
  if (s_.head_gate) y = gated(a, y, {heads}, {heads, v_dim});
  return output(y, heads, v_dim);
}

// One kernel that rewrites queries and keys head by head.
void TransformerBuilder::per_head(OpKind kind, std::string_view name, TensorId q, TensorId k, AxisId heads, AxisId kv,
              AxisId dim, double ops) {
  std::string stem(name);
  TensorId q_out = b_.act(stem + ".q", {kTokens, heads, dim}),
           k_out = b_.act(stem + ".k", {kTokens, kv, dim});
  b_.op(kind, Part::kAttention, name, {q, k}, {q_out, k_out}).ops_per_element = ops;
}

TensorId TransformerBuilder::attend(AxisId heads, AxisId dim, std::vector<TensorId> in, std::vector<TensorId> saved,
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

TensorId TransformerBuilder::gated(TensorId a, TensorId y, std::vector<AxisId> numbers, std::vector<AxisId> shape) {
  TensorId gate = b_.linear(Part::kAttention, "attn.gate", a, {hidden_}, std::move(numbers));
  b_.last().saved = {a};
  shape.insert(shape.begin(), kTokens);
  TensorId out = b_.map(Part::kAttention, "attn.gated", {y, gate}, std::move(shape), 5);
  b_.last().saved = {y, gate};
  return out;
}

TensorId TransformerBuilder::output(TensorId y, AxisId heads, AxisId dim) {
  TensorId out = b_.linear(Part::kAttention, "o", y, {heads, dim}, {hidden_}, s_.o_bias);
  b_.last().saved = {y};
  return out;
}

void TransformerBuilder::choose_keys(TensorId a, TensorId q_in, AxisId q_axis) {
  AxisId heads = b_.axis("index_heads", s_.index_heads), dim = b_.axis("index_dim", s_.index_dim);
  TensorId q = b_.linear(Part::kAttention, "index.q", q_in, {q_axis}, {heads, dim});
  b_.last().saved = {q_in};
  TensorId keys = b_.linear(Part::kAttention, "index.k", a, {hidden_}, {dim});
  b_.last().saved = {a};
  b_.weight("index.k.norm.weight", {dim}), b_.weight("index.k.norm.bias", {dim});
  // Kept in 8 bits with a scale for each key (DeepSeek's and vLLM's kernels).
  if (!o_.training)
    keys = b_.tensor("index_cache", {kKeys, dim}, TensorClass::kState, {Format::kFp8, 8 + 32.0 / s_.index_dim});
  score_keys(a, q, keys, kPairs, s_.index_dim, true);
}

TensorId TransformerBuilder::latent_attention(TensorId a, bool window, bool indexer) {
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
  if (indexer) choose_keys(a, q_in, q_axis);
  bool sparse = s_.index_topk > 0;
  TensorId cache = kvx;
  if (!o_.training) {
    cache = b_.tensor("latent_cache", {window ? kKeysWindow : kKeys, kv_rope}, TensorClass::kState);
    b_.at(cache).replicated = true;
    if (sparse) {  // all keys are held, and those that were chosen are read
      cache = b_.tensor("latent_cache.chosen", {kKeysChosen, kv_rope}, TensorClass::kState);
      b_.at(cache).replicated = true, b_.at(cache).stored = 0;
    }
  }
  TensorId y = attend(heads, v, {q, cache}, {q, kvx}, window);
  Op& op = b_.last();
  if (sparse) op.pairs = kPairsChosen;
  // Chosen keys are read as latents by prefill, too.
  op.head_qk = sparse ? s_.kv_lora + s_.rope : s_.nope + s_.rope;
  op.head_v = sparse ? s_.kv_lora : s_.v_dim;
  op.absorbed_qk = s_.kv_lora + s_.rope;
  op.absorbed_v = s_.kv_lora;
  if (s_.latent_gate) y = gated(a, y, {heads, v}, {heads, v});
  return output(y, heads, v);
}

}  // namespace orrery::graph
