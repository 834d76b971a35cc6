// Skip, Repeat, Speculate: how often work is done.
#include <fmt/format.h>

#include <cmath>

#include "graph/spec.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

void skip(VerbWords& w, Graph& g, Plan& p) {
  std::string what = w.word("what");
  double share = w.number("share");
  if (share < 0 || share >= 1) w.refuse("the share must be at least 0 and less than 1");
  if (what == "prefill-layers" || what == "tokens")
    p.prefill_skip = 1 - (1 - p.prefill_skip) * (1 - share);
  else if (what == "layers") {
    for (Block& b : g.blocks)
      if (b.layer) b.repeat *= 1 - share;
  } else {
    w.refuse("prefill-layers, tokens or layers can be skipped");
  }
}

void repeat(VerbWords& w, Graph& g, Plan&) {
  std::string what = w.word("block");
  double times = w.number("times");
  if (times < 0) w.refuse("times must not be negative");
  if (times > kMostRepeats) w.refuse(fmt::format("more than {:.0f} times is more than any model has", kMostRepeats));
  bool matched = false;
  for (Block& b : g.blocks)
    if (b.name == what) b.repeat = times, matched = true;
  if (!matched) {
    std::string names;
    for (const Block& b : g.blocks) names += " " + b.name;
    w.refuse("no block '" + what + "'; blocks:" + names);
  }
}

void speculate(VerbWords& w, Graph&, Plan& p) {
  p.draft_tokens = w.count("tokens proposed");
  p.acceptance = w.pair("accept", -1);
  p.draft_cost = w.pair("cost", 0);
  const std::string draft = w.accept("draft") ? w.word("model of the draft") : "";
  p.draft.reset();
  if (p.draft_tokens == 0) return;
  if (p.acceptance < 0 || p.acceptance > 1) w.refuse("declare the acceptance rate: accept A, 0 to 1");
  if (p.draft_cost < 0) w.refuse("the cost of a draft step must not be negative");
  if (draft.empty()) return;
  if (p.draft_cost > 0) w.refuse("a cost or a draft: what the steps of a draft take is predicted");
  TransformerSpec spec = load_transformer(draft);
  if (spec.kind != "dense" && spec.kind != "moe") w.refuse(spec.name + " makes no tokens");
  p.draft = std::make_shared<const Graph>(build_transformer(spec));
}

constexpr Verb kVerbs[] = {
    {"skip", "skip prefill-layers|tokens|layers SHARE",
     "Leaves out a share of the prefill's layers, of the input tokens, or of the layers altogether.", skip},
    {"repeat", "repeat BLOCK TIMES", "Runs a block so many times: layers, denoising steps, guidance passes.",
     repeat},
    {"speculate", "speculate TOKENS accept A [cost C | draft MODEL]",
     "A draft proposes TOKENS, the target checks them in one step. Each is accepted with probability A, so a "
     "step "
     "yields (1 - A^(n+1)) / (1 - A) tokens; C is the time of a draft step over a target step. Of a draft MODEL (a "
     "config.json or a built-in name) weights, keys and values are counted, and its steps and prefill are predicted.",
     speculate},
};

}  // namespace

std::span<const Verb> work_verbs() { return kVerbs; }

}  // namespace orrery::graph
