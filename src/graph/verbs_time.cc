// Prefetch, Recompute, Overlap, Admit: when things happen.
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

double share_of(VerbWords& w) {
  double share = w.number("share");
  if (share < 0 || share > 1) w.refuse("a share lies between 0 and 1");
  return share;
}

void prefetch(VerbWords& w, Graph&, Plan& p) { p.overlap_prefetch = share_of(w); }

void recompute(VerbWords& w, Graph&, Plan& p) {
  std::string policy = w.word("policy");
  if (policy == "none")
    p.recompute = RecomputePolicy::kNone;
  else if (policy == "selective")
    p.recompute = RecomputePolicy::kSelective;
  else if (policy == "full")
    p.recompute = RecomputePolicy::kFull;
  else
    w.refuse("none, selective or full");
}

void overlap(VerbWords& w, Graph&, Plan& p) {
  std::string what = w.word("what");
  double share = share_of(w);
  if (what == "tensor")
    p.overlap_tp = share;
  else if (what == "data")
    p.overlap_dp = share;
  else if (what == "pipeline")
    p.overlap_pp = share;
  else
    w.refuse("tensor, data or pipeline communication can overlap");
}

void admit(VerbWords& w, Graph&, Plan& p) {
  std::string what = w.word("what");
  if (what == "chunk")
    p.chunk_tokens = w.count("tokens");
  else if (what == "memory")
    p.memory_share = share_of(w);
  else if (what == "page")
    p.block_tokens = w.count("tokens");
  else if (what == "split")
    p.prefill_replicas = w.count("replicas");
  else
    w.refuse("chunk, memory, page or split");
  if (p.chunk_tokens < 1 || p.block_tokens < 1) w.refuse("must be at least 1");
}

constexpr Verb kVerbs[] = {
    {"prefetch", "prefetch SHARE",
     "Bytes from another tier are fetched while earlier layers compute; SHARE of the transfer may hide.",
     prefetch},
    {"recompute", "recompute none|selective|full",
     "Activations are computed again in the backward pass: those of the attention core (selective) or of "
     "whole layers "
     "(full).",
     recompute},
    {"overlap", "overlap tensor|data|pipeline SHARE",
     "That share of a communication may run behind computation.", overlap},
    {"admit", "admit chunk TOKENS | admit memory SHARE | admit page TOKENS | admit split REPLICAS",
     "How requests enter: tokens of a chunked prefill step, the share of memory the engine takes, the page "
     "size, or so many further replicas that only prefill and send their keys and values over.",
     admit},
};

}  // namespace

std::span<const Verb> time_verbs() { return kVerbs; }

}  // namespace orrery::graph
