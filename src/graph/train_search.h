// Search over plans of a training iteration: every legal division of all the GPUs, with ZeRO, recomputation, chunks of a
// stage and micro-batches.
//
// Plans are enumerated, not sampled; the result is the Pareto front of time, memory and energy among those that fit, and
// does not depend on the number of threads. Plans of serving: search.h.
#pragma once

#include <string>
#include <map>
#include <vector>

#include "graph/train.h"

namespace orrery::graph {

struct TrainSearchQuestion {
  double sequence = 2048, global_batch = 1;
  bool causal = true;
  std::string goal = "tokens/s";  // tokens/s, memory or joules
  int threads = 0;                // 0: one for each core
};

struct TrainCandidate {
  Plan plan;
  double micro_batch = 1;
  double seconds = 0, tflops_per_gpu = 0, mfu = 0, joules = 0, memory = 0;  // joules of an iteration, all GPUs
};

struct TrainSearchResult {
  std::vector<TrainCandidate> front;  // best for the goal first
  std::size_t tried = 0, legal = 0, fitting = 0;
  double least_memory = 0;  // of those that are legal
  std::map<std::string, std::size_t> refusals;  // why others are not, and how many of them
};

// Refuses another goal, and a base plan that is divided already.
TrainSearchResult search_training(const Graph& graph, const Plan& base, const Cluster& cluster,
                                  const TrainSearchQuestion& question);

}  // namespace orrery::graph
