// Layout, memory and steps of a draft.
#include "graph/draft.h"

#include "base/error.h"

namespace orrery::graph {

Plan draft_layout(const Plan& plan) {
  Plan p;
  p.tp = plan.tp;
  p.chunk_tokens = plan.chunk_tokens, p.block_tokens = plan.block_tokens, p.memory_share = plan.memory_share;
  try {
    check_plan(*plan.draft, p);
  } catch (const base::Error&) {  // it does not divide so
    p.tp = 1;
  }
  return p;
}

DraftMemory::DraftMemory(const Plan& plan) : graph_(plan.draft) {
  if (graph_) program_ = compile(*graph_, draft_layout(plan));
}

double DraftMemory::state(double seqs, const Context& context, const Engine& engine) const {
  return program_ ? paged_state_bytes(*graph_, *program_, seqs, context, engine) : 0;
}

Drafter::Drafter(const Plan& plan, const Cluster& cluster, const Engine& engine)
    : tokens_(plan.draft_tokens), stages_(plan.pp), cost_(plan.draft_cost) {
  if (!plan.draft) return;
  Plan p = draft_layout(plan);
  predictor_ = std::make_unique<StepPredictor>(*plan.draft, under(p, engine), Cluster{cluster.gpu, p.tp});
}

// The boards of the other stages idle meanwhile.
Proposed Drafter::of_stages(const StepTime& step) const {
  return {step.seconds, step.joules + (stages_ - 1) * step.seconds * predictor_->rates().idle_watts};
}

Proposed Drafter::propose(const StepShape& decode, const StepTime& target) {
  if (!predictor_) return {tokens_ * cost_ * target.seconds, 0};
  StepShape one;
  one.decode_seqs = decode.decode_seqs, one.decode_context = decode.decode_context;
  Proposed p = of_stages(predictor_->step(one));
  return {tokens_ * p.seconds, tokens_ * p.joules};
}

Proposed Drafter::prefill(const StepShape& chunk) {
  return predictor_ ? of_stages(predictor_->step(chunk)) : Proposed{};
}

}  // namespace orrery::graph
