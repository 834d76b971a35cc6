// The model that proposes tokens under `speculate ... draft MODEL`: its bytes on a rank and the time of its steps.
//
// It is laid out over the plan's tensor-parallel ranks where its heads and widths divide so, and whole on each of them
// otherwise; a pipeline has it on one stage, which is taken to be the fullest. Its formats are those of its checkpoint:
// verbs change the target alone. A draft whose cost is declared has no model, and no bytes.
#pragma once

#include <memory>
#include <optional>

#include "graph/serve.h"

namespace orrery::graph {

// The plan of the draft. The plan has one.
Plan draft_layout(const Plan& plan);

// Nothing where the plan has no draft.
class DraftMemory {
 public:
  explicit DraftMemory(const Plan& plan);
  bool present() const { return program_.has_value(); }
  double weights() const { return program_ ? program_->weight_bytes : 0; }
  int ranks() const { return program_ ? program_->plan.tp : 1; }
  // In the engine's pages, the prompt whole: `shrink kv` is the target's.
  double state(double seqs, const Context& context, const Engine& engine) const;

 private:
  std::shared_ptr<const Graph> graph_;
  std::optional<Program> program_;
};

// What it takes to propose the tokens of one step.
struct Proposed {
  double seconds = 0, joules = 0;  // joules of one tensor-parallel rank of every stage
};

class Drafter {
 public:
  Drafter(const Plan& plan, const Cluster& cluster, const Engine& engine);
  // For a decode step of the target. A declared cost is a share of the target's time and has no energy of its own.
  Proposed propose(const StepShape& decode, const StepTime& target);
  // The draft's own prefill of a chunk.
  Proposed prefill(const StepShape& chunk);

 private:
  Proposed of_stages(const StepTime& step) const;

  int tokens_, stages_;
  double cost_;
  std::unique_ptr<StepPredictor> predictor_;  // none: the cost is declared
};

}  // namespace orrery::graph
