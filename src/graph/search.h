// Search over plans: every legal division of the GPUs, weight and KV formats, and batch, against goals and
// limits.
//
// Plans are enumerated, not sampled; each is one fit and a few step walks. The result is the Pareto front of
// throughput per GPU, time per token, time to first token and the goal among the plans that fit and keep the
// limits. Divisions are independent, so threads (and parts, for ranks of MPI) take them in turn;
// the answer does not depend on how many there are.
#pragma once

#include <nlohmann/json.hpp>

#include "graph/serve.h"

namespace orrery::graph {

struct SearchQuestion {
  double input = 1024, output = 256;
  std::string goal = "tokens/s";    // tokens/s, tokens/s/gpu, tpot, ttft, joules
  std::vector<std::string> limits;  // "tpot=30ms", "ttft=2s", "gpus=4"
  std::vector<std::string> formats;  // of weights, beside the given one; none: fp8 where that has 16 bits
  bool fine = false;  // more chunk sizes, and batches that grow by a quarter instead of doubling
  Engine engine;
  // The model and what changes it, and the GPU's name, as a shell takes them; empty: no command line.
  std::string asked, asked_gpu;
  int threads = 0;          // 0: one for each core
  int part = 0, parts = 1;  // this process takes every parts-th division
};

struct Candidate {
  Plan plan;
  std::string weights, kv;
  double concurrency = 0;
  int gpus = 1;
  ServeAnswer answer;
  double memory = 0;
};

struct SearchResult {
  std::vector<Candidate> front;  // best for the goal first
  std::string given_weights, given_kv;  // formats of the model as it was given
  int given_chunk = 0;                  // and the tokens of a chunk of its prefill
  std::vector<std::string> weights, kv;  // that were tried; no kv: nothing is cached
  std::size_t tried = 0, legal = 0, fitting = 0, kept = 0;
  double best_tpot = kAnyContext, best_ttft = kAnyContext;  // seconds, of all that fit: what limits can ask for
};
// Sequences of a rank beyond which no plan is tried.
inline constexpr double kMostBatch = 1024;

SearchResult search(const Graph& graph, const Plan& base, const Cluster& cluster,
                    const SearchQuestion& question);
// Adds the counts of `other` to `into` and keeps the front of both.
void merge(SearchResult& into, SearchResult other, const std::string& goal);
// The same as a report document.
nlohmann::ordered_json search_document(const Graph& graph, const Plan& base, const Cluster& cluster,
                                       const SearchQuestion& question);
nlohmann::ordered_json search_document(const SearchResult& result, const std::string& model,
                                       const Cluster& cluster, const SearchQuestion& question);

}  // namespace orrery::graph
