// What bounds a served model from which batch on, and what a rate that it does not reach would need.
//
// Each limit is found by asking steps of growing batch, not from a formula of its own: a limit bites at the smallest
// batch at which the step shows it. Not here: the memory of a question (serve.h).
#pragma once

#include <string>
#include <vector>

#include "graph/serve.h"

namespace orrery::graph {

// Batches that are tried; a limit that no smaller one shows does not bite.
inline constexpr double kMostTriedBatch = 65536;

struct BatchLimit {
  std::string what;
  double batch = 0;  // sequences of a data-parallel rank; more than kMostTriedBatch: it does not bite
  std::string how;   // what happens there
};
// In the order of their batches.
std::vector<BatchLimit> batch_limits(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                     const ServeQuestion& question);

// Requests a second that the plan serves with any number in flight.
double highest_rate(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& question);
// Changes under which it would serve `question.rate`, or come nearer; each is asked before it is named.
std::vector<std::string> rate_advice(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                     const ServeQuestion& question);

}  // namespace orrery::graph
