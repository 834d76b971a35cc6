// Attention over compressed keys (DeepSeek V4), keys chosen by an indexer beside grouped heads (MiniMax M3),
// and streams that layers read and write in parts (hyper-connections) or choose from by depth (Kimi K3).
//
// A compressed key stands for `rate` positions: of its width 1/rate counts for each position held and for
// each pair, which is exact when positions are a multiple of the rate. The window's and the compressed keys'
// scores are two operators here, where engines run one kernel. Not here: the table by which some layers
// choose experts (Select's bytes are charged in all).
#include "graph/transformer_builder.h"

namespace orrery::graph {

// Keys of a window and, where the layer has a rate, one for every `rate` positions: all of them, or those
// that an indexer chose. One key, which is the value, for all heads; the output product is divided into
// groups of heads.
TensorId TransformerBuilder::compressed_attention(TensorId a, const LayerGroup& g) {
  AxisId heads = b_.axis("heads", s_.heads), dim = b_.axis("head_dim", s_.head_dim),
         q_axis = b_.axis("q_latent", s_.q_lora);
  TensorId low = b_.linear(Part::kAttention, "q_a", a, {hidden_}, {q_axis});
  b_.last().saved = {a};
  norm_weights("q_a.norm", q_axis);
  TensorId q = b_.linear(Part::kAttention, "q_b", low, {q_axis}, {heads, dim});
  b_.last().saved = {low};
  TensorId kv = b_.linear(Part::kAttention, "kv", a, {hidden_}, {dim});
  b_.last().saved = {a};
  norm_weights("kv.norm", dim);
  if (s_.sinks) b_.weight("sinks", {heads});
  AxisId groups = sized("heads", s_.o_groups),
         part = b_.axis("group_in", 1.0 * s_.heads * s_.head_dim / s_.o_groups);
  TensorId y = b_.act("attn.out", {kTokens, groups, part});
  auto scores = [&](const char* name, TensorId keys, FreeAxis pairs, double width) {
    Op& op = b_.op(OpKind::kAttend, Part::kAttention, name, {q, keys}, {y});
    op.pairs = pairs, op.head_axis = heads, op.head_qk = op.head_v = width;
    op.saved = {q, keys};
  };
  scores("attend.window", o_.training ? kv : latent_state("kv_cache.window", kKeysWindow, dim), kPairsWindow,
         s_.head_dim);
  if (g.rate > 1) {
    TensorId compressed = compress("compressor", "kv_cache.compressed", a, s_.head_dim, g, s_.head_dim);
    double width = 1.0 * s_.head_dim / g.rate;
    if (g.indexer) {
      choose_compressed(a, low, q_axis, g);
      if (!o_.training) {  // all are held, and those that were chosen are read
        compressed = latent_state("kv_cache.chosen", kKeysChosen,
                                  b_.axis("compressor.held." + std::to_string(g.rate), width));
        b_.at(compressed).stored = 0;
      }
    }
    scores("attend.compressed", compressed, g.indexer ? kPairsChosen : kPairs, width);
  }
  AxisId rank = b_.axis("o_latent", s_.o_lora);
  TensorId mixed = b_.act("o_a.out", {kTokens, groups, rank});
  b_.op(OpKind::kContract, Part::kAttention, "o_a", {y, b_.weight("o_a.weight", {groups, part, rank}, true)},
        {mixed})
      .saved = {y};
  TensorId out = b_.linear(Part::kAttention, "o_b", mixed, {groups, rank}, {hidden_});
  b_.last().saved = {mixed};
  return out;
}

// A state that tensor parallelism does not divide.
TensorId TransformerBuilder::latent_state(std::string_view name, FreeAxis keys, AxisId width, DType dtype) {
  TensorId t = b_.tensor(name, {keys, width}, TensorClass::kState, dtype);
  b_.at(t).replicated = true;
  return t;
}

// Keys and their gates for each position, of which a softmax over `rate` positions (twice as many where
// windows overlap, then of twice the width) makes one key. Until then they are held in 4 bytes: a step writes
// one slot of each, and the last of `rate` steps reads them all. Both matrices stay wide in every checkpoint.
TensorId TransformerBuilder::compress(const std::string& stem, const char* cache, TensorId a, int width,
                                      const LayerGroup& g, int kept, DType dtype) {
  double overlap = g.indexer ? 2 : 1;
  AxisId wide = b_.axis(stem + ".width." + std::to_string(g.rate), overlap * width),
         rate = b_.axis("rate." + std::to_string(g.rate), g.rate);
  AxisId dim = b_.axis(stem + ".key", width);
  std::vector<TensorId> in = {a, b_.weight(stem + ".kv.weight", {hidden_, wide}),
                              b_.weight(stem + ".gate.weight", {hidden_, wide})};
  TensorId kv = b_.act(stem + ".kv", {kTokens, wide}), gate = b_.act(stem + ".gate", {kTokens, wide});
  b_.op(OpKind::kContract, Part::kAttention, stem, std::move(in), {kv, gate}).saved = {a};
  b_.weight(stem + ".bias", {rate, wide});
  norm_weights(stem + ".norm", dim);
  AxisId held = b_.axis("compressor.held." + std::to_string(g.rate) + (width == s_.head_dim ? "" : ".index"),
                        1.0 * kept / g.rate);
  TensorId out = b_.act(stem + ".out", {kTokens, held});
  std::vector<TensorId> pooled = {kv, gate}, made = {out};
  if (!o_.training) {
    auto slots = [&](const char* name, double n) {
      AxisId count = b_.axis(name + ("." + std::to_string(g.rate)), n);
      return b_.tensor(stem + "." + name, {kSeqs, count, wide}, TensorClass::kState, kFp32);
    };
    slots("waiting", 2 * overlap * g.rate);
    pooled.push_back(slots("waiting.read", 2 * overlap)), b_.at(pooled.back()).stored = 0;
    made.push_back(slots("waiting.slot", 2)), b_.at(made.back()).stored = 0;
  }
  Op& pool = b_.op(OpKind::kReduce, Part::kAttention, stem + ".pool", std::move(pooled), std::move(made));
  pool.ops_per_element = 8.0 * overlap * g.rate;
  pool.saved = {kv, gate};
  return o_.training ? out : latent_state(cache, kKeys, held, dtype);
}

// The indexer of compressed keys: as for latents, over keys that are compressed themselves.
void TransformerBuilder::choose_compressed(TensorId a, TensorId q_in, AxisId q_axis, const LayerGroup& g) {
  AxisId heads = b_.axis("index_heads", s_.index_heads), dim = b_.axis("index_dim", s_.index_dim);
  TensorId q = b_.linear(Part::kAttention, "index.q", q_in, {q_axis}, {heads, dim});
  b_.last().saved = {q_in};
  TensorId keys = compress("index", "index_cache", a, s_.index_dim, g, s_.index_dim,
                           {Format::kFp8, 8 + 32.0 / s_.index_dim});
  score_keys(a, q, keys, kPairs, 1.0 * s_.index_dim / g.rate, true);
}

// The indexer's scores of all keys, and the best of them.
void TransformerBuilder::score_keys(TensorId a, TensorId q, TensorId keys, FreeAxis pairs, double width,
                                    bool weighted) {
  AxisId heads = b_.axis("index_heads", s_.index_heads);
  if (weighted) {
    TensorId w = b_.weight("index.heads.weight", {hidden_, heads});  // in 16 bits in every checkpoint
    b_.op(OpKind::kContract, Part::kAttention, "index.heads", {a, w},
          {b_.act("index.heads", {kTokens, heads})})
        .saved = {a};
  }
  TensorId chosen = b_.tensor("index.chosen",
                              {kTokens, b_.axis("index_topk", s_.index_list ? s_.index_list : s_.index_topk)},
                              TensorClass::kIndex, {Format::kInt32, 32});
  Op& op = b_.op(OpKind::kAttend, Part::kAttention, "index.scores", {q, keys}, {chosen});
  op.pairs = pairs;
  op.head_axis = heads, op.head_qk = width;
  op.saved = {q};
}

// The indexer beside grouped heads: a query for each of its heads, one key, norms of both; blocks of keys are
// chosen.
void TransformerBuilder::choose_blocks(TensorId a) {
  AxisId heads = b_.axis("index_heads", s_.index_heads), dim = b_.axis("index_dim", s_.index_dim);
  TensorId q = b_.linear(Part::kAttention, "index.q", a, {hidden_}, {heads, dim});
  b_.last().saved = {a};
  TensorId k = b_.linear(Part::kAttention, "index.k", a, {hidden_}, {dim});
  b_.last().saved = {a};
  b_.weight("index.q.norm.weight", {dim}), b_.weight("index.k.norm.weight", {dim});
  score_keys(a, q, o_.training ? k : latent_state("index_cache", kKeys, dim), kPairs, s_.index_dim, false);
}

// Several streams between layers: a part of a layer takes a weighted sum of them, and hands its output to
// each while they mix. The weights of both come from a product over all streams.
TensorId TransformerBuilder::take_streams(const char* name) {
  AxisId streams = b_.axis("streams", s_.streams),
         mix = b_.axis("streams.mix", 1.0 * (2 + s_.streams) * s_.streams);
  std::string stem = name;
  TensorId x = b_.act(stem + ".streams", {kTokens, streams, hidden_});
  TensorId w = b_.weight(stem + ".mix.weight", {mix, streams, hidden_});
  b_.weight(stem + ".mix.bias", {mix}), b_.weight(stem + ".mix.scale", {b_.axis("streams.scales", 3)});
  b_.op(OpKind::kContract, Part::kAttention, stem + ".mix", {x, w}, {b_.act(stem + ".mix", {kTokens, mix})})
      .saved = {x};
  TensorId out = b_.map(Part::kAttention, stem + ".take", {x}, {kTokens, hidden_}, 2.0 * s_.streams);
  return out;
}
TensorId TransformerBuilder::give_streams(const char* name, TensorId y) {
  AxisId streams = b_.axis("streams", s_.streams);
  std::string stem = name;
  TensorId x = b_.act(stem + ".streams.in", {kTokens, streams, hidden_});
  b_.map(Part::kAttention, stem + ".give", {x, y}, {kTokens, streams, hidden_}, 2.0 * s_.streams + 2);
  return y;
}

// The layer's input as a sum of earlier layers' streams, weighted by a softmax over them; half of them exist
// on average.
TensorId TransformerBuilder::choose_depth(const char* name, TensorId x) {
  std::string stem = name;
  b_.weight(stem + ".query", {hidden_}), norm_weights(stem + ".norm", hidden_);
  TensorId sources =
      b_.tensor("depth.sources", {kTokens, b_.axis("depth_sources", (s_.depth_sources + 1) / 2.0), hidden_},
                TensorClass::kActivation, kFp32);
  TensorId y = b_.map(Part::kAttention, stem, {sources, x}, {kTokens, hidden_}, 4.0 * (s_.depth_sources + 3));
  b_.last().kind = OpKind::kReduce;
  return y;
}

}  // namespace orrery::graph
