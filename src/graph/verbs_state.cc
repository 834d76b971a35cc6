// Shrink, Share, Tile: how much of a tensor exists at once.
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

bool has_state(const Graph& g) {
  for (const Tensor& t : g.tensors)
    if (t.cls == TensorClass::kState) return true;
  return false;
}

void shrink(VerbWords& w, Graph& g, Plan& p) {
  std::string what = w.word("what");
  if (what == "kv") {
    if (!has_state(g)) w.refuse("the graph keeps no KV cache");
    double keep = w.number("tokens kept");
    if (keep < 0) w.refuse("tokens kept must not be negative");
    w.accept("at");
    w.accept("prefill-end");
    if (keep > 0 && p.prefix_tokens > 0) w.refuse("what prompts share is not cut: shrink or share a prefix");
    if (keep > 0) p.kv_keep_tokens = keep;
    return;
  }
  w.refuse("only kv can shrink; 'skip tokens' drops inputs");
}

void share(VerbWords& w, Graph& g, Plan& p) {
  if (w.accept("prefix")) {
    if (!has_state(g)) w.refuse("the graph keeps no KV cache");
    double tokens = w.count("tokens of the prefix"), hit = w.pair("hit", 1);
    if (hit < 0 || hit > 1) w.refuse("hit is the share of requests, 0 to 1");
    if (tokens > 0 && p.kv_keep_tokens > 0) w.refuse("what prompts share is not cut: shrink or share a prefix");
    p.prefix_tokens = tokens, p.prefix_hit = hit;
    return;
  }
  if (!w.accept("kv")) w.refuse("kv can be shared between layers, a prefix between requests");
  if (!has_state(g)) w.refuse("the graph keeps no KV cache");
  double layers = w.number("layers per copy");
  if (layers < 1) w.refuse("layers per copy must be at least 1");
  double part = w.pair("over", 1.0);
  if (part < 0 || part > 1) w.refuse("'over' is a share of the layers, 0 to 1");
  p.kv_share *= 1 - part + part / layers;
}

void tile(VerbWords& w, Graph& g, Plan& p) {
  std::string what = w.word("what");
  if (what == "mlp")
    p.tile_mlp = true;
  else if (what == "loss")
    p.tile_loss = true;
  else
    w.refuse("mlp or loss can be tiled over the sequence");
}

constexpr Verb kVerbs[] = {
    {"shrink", "shrink kv TOKENS [at prefill-end]",
     "After prefill each sequence keeps at most so many keys (an eviction or selection policy); later tokens "
     "are added "
     "to them. 0 keeps all. What the policy does to quality is not modelled.",
     shrink},
    {"share", "share kv LAYERS [over SHARE] | share prefix TOKENS [hit H]",
     "LAYERS neighbouring layers keep one KV cache, over the given share of the layers. TOKENS that prompts have in "
     "common are kept once, and the share H of the requests does not prefill them.",
     share},
    {"tile", "tile mlp|loss",
     "The feed-forward part, or logits and loss, pass over the sequence in pieces: their activations exist "
     "for one "
     "piece only.",
     tile},
};

}  // namespace

std::span<const Verb> state_verbs() { return kVerbs; }

}  // namespace orrery::graph
