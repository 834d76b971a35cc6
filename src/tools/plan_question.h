// What a search over plans is asked, from its options: the same for `orrery model plan` and for the ranks of
// orrery-plan-mpi. The search itself is graph/search.h.
#pragma once

#include "tools/model_options.h"

namespace orrery::tools {

// Whether somebody asked for lengths of requests or answers.
bool lengths_given(const CLI::App& app);

// Options of `plan --train` have no meaning without it.
void refuse_training_options(const CLI::App& app);

// An image has as many tokens as the model has positions; a text no more than that, and more are refused where
// somebody asked for them.
double tokens_of(const graph::Graph& graph, double tokens, bool asked);

struct PlanQuestion {
  graph::Graph graph;
  graph::Plan base;
  graph::Cluster cluster;

  // Completes `asked.search`: its engine, its lengths, and how a shell asks for the model again.
  PlanQuestion(Asked& asked, bool lengths_given);
};

}  // namespace orrery::tools
