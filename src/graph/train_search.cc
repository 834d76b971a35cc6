// Enumeration and Pareto front of training plans.
#include "graph/train_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/layout.h"
#include "graph/parallel.h"

namespace orrery::graph {
namespace {

constexpr int kMostMicroBatch = 8, kMostChunks = 4;
// Sequences that are shorter are not divided over ranks.
constexpr double kDividedSequence = 16384;

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int i = 1; i <= n; ++i)
    if (n % i == 0) all.push_back(i);
  return all;
}

class TrainSearch {
 public:
  TrainSearch(const Graph& graph, const Plan& base, const Cluster& cluster, const TrainSearchQuestion& question)
      : graph_(graph), base_(base), cluster_(cluster), q_(question) {}

  TrainSearchResult run() {
    divide();
    std::vector<TrainSearchResult> results(divisions_.size());
    in_parallel(divisions_.size(), q_.threads, [&](std::size_t i) { variants(divisions_[i], results[i]); });
    for (TrainSearchResult& r : results) add(std::move(r));
    keep_front(all_.front);
    std::sort(all_.front.begin(), all_.front.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
    return std::move(all_);
  }

 private:
  // Every way to divide all the GPUs.
  void divide() {
    int host = read_rates(cluster_.gpu).per_host;
    AxisId experts = graph_.find_axis("experts");
    for (int tp : divisors(cluster_.gpus)) {
      if (tp > host) break;
      for (int pp : divisors(cluster_.gpus / tp))
        for (int cp : divisors(cluster_.gpus / tp / pp)) {
          if (cp > 1 && q_.sequence < kDividedSequence) break;
          Plan plan = base_;
          plan.tp = tp, plan.pp = pp, plan.cp = cp, plan.dp = cluster_.gpus / tp / pp / cp;
          plan.sequence_parallel = tp > 1;
          int ranks = plan.tp * plan.cp * plan.dp;
          for (int ep : experts == kNoAxis ? std::vector<int>{1} : divisors(ranks)) {
            plan.ep = ep;
            try {
              check_plan(graph_, plan);
              divisions_.push_back(plan);
            } catch (const base::Error& error) {
              ++all_.refusals[error.what()];
            }
          }
        }
    }
  }

  // ZeRO, recomputation, chunks and micro-batches of one division.
  void variants(const Plan& division, TrainSearchResult& r) const {
    int most_zero = division.dp * division.cp == 1 ? 0 : division.pp > 1 ? 1 : 3;
    for (double micro = 1; micro <= kMostMicroBatch; micro *= 2) {
      if (std::fmod(q_.global_batch, micro * division.dp) != 0) {
        if (micro == 1) ++r.refusals[fmt::format("a batch of {:.0f} does not divide over {} data-parallel ranks", q_.global_batch, division.dp)];
        break;
      }
      for (int chunks = 1; chunks <= (division.pp > 1 ? kMostChunks : 1); chunks *= 2)
        for (int zero = 0; zero <= most_zero; ++zero)
          for (RecomputePolicy policy : {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
            Plan plan = division;
            plan.zero = zero, plan.recompute = policy;
            if (chunks > 1) plan.schedule = PipelineSchedule::kInterleaved, plan.virtual_stages = chunks;
            attempt(plan, micro, r);
          }
    }
  }
  void attempt(const Plan& plan, double micro, TrainSearchResult& r) const {
    ++r.tried;
    try {
      TrainAnswer a = train(graph_, plan, cluster_, {q_.sequence, q_.global_batch, micro, q_.causal});
      ++r.legal;
      r.least_memory = r.least_memory > 0 ? std::min(r.least_memory, a.total) : a.total;
      if (!a.fits) return;
      ++r.fitting;
      r.front.push_back({plan, micro, a.seconds, a.tflops_per_gpu, a.mfu, a.joules, a.total});
      if (r.front.size() > 512) keep_front(r.front);
    } catch (const base::Error& error) {
      ++r.refusals[error.what()];
    }
  }

  // Plans that no other beats in all three. Of equal ones the first in the order of their numbers stays.
  static void keep_front(std::vector<TrainCandidate>& list) {
    auto numbers = [](const TrainCandidate& c) {
      const Plan& p = c.plan;
      return std::tuple(c.seconds, c.memory, c.joules, p.tp, p.pp, p.cp, p.ep, p.zero, static_cast<int>(p.recompute), p.virtual_stages,
                        c.micro_batch);
    };
    std::sort(list.begin(), list.end(), [&](const auto& a, const auto& b) { return numbers(a) < numbers(b); });
    std::vector<TrainCandidate> front;
    for (TrainCandidate& c : list)
      if (std::none_of(front.begin(), front.end(),
                       [&](const TrainCandidate& f) { return f.memory <= c.memory && f.joules <= c.joules; }))
        front.push_back(std::move(c));
    list = std::move(front);
  }
  void add(TrainSearchResult mine) {
    for (const auto& [why, plans] : mine.refusals) all_.refusals[why] += plans;
    all_.tried += mine.tried, all_.legal += mine.legal, all_.fitting += mine.fitting;
    if (mine.least_memory > 0)
      all_.least_memory = all_.least_memory > 0 ? std::min(all_.least_memory, mine.least_memory) : mine.least_memory;
    for (TrainCandidate& c : mine.front) all_.front.push_back(std::move(c));
  }
  double order(const TrainCandidate& c) const {
    return q_.goal == "memory" ? c.memory : q_.goal == "joules" ? c.joules : c.seconds;
  }

  const Graph& graph_;
  const Plan& base_;
  const Cluster& cluster_;
  const TrainSearchQuestion& q_;
  std::vector<Plan> divisions_;
  TrainSearchResult all_;
};

}  // namespace

TrainSearchResult search_training(const Graph& graph, const Plan& base, const Cluster& cluster,
                                  const TrainSearchQuestion& question) {
  if (question.goal != "tokens/s" && question.goal != "memory" && question.goal != "joules")
    base::fail("unknown goal '{}' of training; known: tokens/s, memory, joules", question.goal);
  if (base.gpus() > 1 || base.zero > 0 || base.recompute != RecomputePolicy::kNone || base.virtual_stages > 1)
    base::fail("the search divides, recomputes and stages by itself: it takes no --tp, --pp, --dp, --cp, --ep, 'shard', 'stage' "
               "or 'recompute'");
  if (!(question.sequence >= 1 && question.sequence < 1e9 && question.global_batch >= 1 && question.global_batch < 1e9))
    base::fail("sequence and batch must be positive and finite");
  if (question.threads < 0) base::fail("threads must not be negative");
  return TrainSearch(graph, base, cluster, question).run();
}

}  // namespace orrery::graph
