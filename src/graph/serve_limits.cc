// Limits of a served batch and of a rate.
#include "graph/serve_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/draft.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

// The smallest whole batch up to `most` that `bites`, if a larger one bites wherever a smaller one does; more than
// kMostTriedBatch where none does.
template <class Bites>
double smallest(double most, Bites bites) {
  double low = 0, high = 1;
  while (high < most && !bites(high)) low = high, high = std::min(2 * high, most);
  if (!bites(high)) return 2 * kMostTriedBatch;
  while (high - low > 1) {
    double middle = std::floor((low + high) / 2);
    (bites(middle) ? high : low) = middle;
  }
  return high;
}

// Decode steps of any batch, whatever memory holds.
class Steps {
 public:
  Steps(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& question)
      : plan_(plan),
        q_(question),
        predictor_(graph, under(plan, question.engine), cluster),
        drafter_(plan, cluster, question.engine) {}

  const StepTime& at(double batch) {
    if (batch != batch_) time_ = predictor_.step(decode_step(plan_, q_, batch)), batch_ = batch;
    return time_;
  }
  // With the draft's.
  double seconds(double batch) {
    return at(batch).seconds + drafter_.propose(decode_step(plan_, q_, batch), at(batch)).seconds;
  }
  const Ledger& ledger(double batch) { return at(batch), predictor_.ledger(); }
  // Whether the products together would take longer for their arithmetic than for their bytes.
  bool products_compute(double batch) {
    at(batch);
    double compute = 0, memory = 0;
    for (const Line& line : predictor_.ledger().lines) {
      const ProgramOp& op = predictor_.program().ops[line.op];
      if (op.kind != OpKind::kContract || op.collective != Collective::kNone) continue;
      LineTime t = time_of(op, line, predictor_.binding(), predictor_.rates());
      compute += line.times * t.compute, memory += line.times * t.memory;
    }
    return compute > memory;
  }

 private:
  const Plan& plan_;
  const ServeQuestion& q_;
  StepPredictor predictor_;
  Drafter drafter_;
  StepTime time_;
  double batch_ = 0;
};

}  // namespace

std::vector<BatchLimit> batch_limits(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                     const ServeQuestion& q) {
  std::vector<BatchLimit> limits;
  Steps steps(graph, plan, cluster, q);
  Server server(graph, plan, cluster, q.engine);
  double held = resident_sequences(graph, plan, cluster, q.input, q.output, q.engine);
  limits.push_back({"memory", held,
                    fmt::format("no more sequences of {:.0f} tokens are in {:.2g} of the GPU's memory: others wait",
                                q.input + q.output / 2, plan.memory_share)});
  auto add = [&](const char* what, double batch, std::string how) { limits.push_back({what, batch, std::move(how)}); };
  add("keys and values", smallest(kMostTriedBatch, [&](double b) {
        const Ledger& ledger = steps.ledger(b);
        return ledger.state() >= ledger.weight();
      }),
      "a step reads more of them than of weights: a larger batch reads no weights less per token");
  add("arithmetic", smallest(kMostTriedBatch, [&](double b) { return steps.products_compute(b); }),
      "products take longer for their operations than for their bytes");
  if (plan.tp * plan.dp * plan.ep > 1)
    add("links", smallest(kMostTriedBatch, [&](double b) {
          const StepTime& t = steps.at(b);
          return t.link > std::max({t.compute, t.memory, t.latency});
        }),
        "operators that wait for links take most of the step");
  add("power", smallest(kMostTriedBatch, [&](double b) { return steps.at(b).power > 0; }),
      "the board's limit stretches the step");
  if (q.engine.token_seconds > 0)
    add("host", smallest(kMostTriedBatch, [&](double b) {
          double step = steps.seconds(b) + q.engine.step_seconds;
          return q.engine.token_seconds * b * speculated(plan) > step;
        }),
        "one process turns tokens into text slower than steps make them");
  if (plan.prefill_replicas == 0) {
    ServeQuestion asked = q;
    double batch = held < 2 ? 2 * kMostTriedBatch : smallest(std::min(held, kMostTriedBatch), [&](double b) {
      asked.concurrency = b * plan.dp;
      ServeAnswer a = server.serve(asked);
      return a.others_prefill >= a.decode_step_seconds;
    });
    add("prefill", batch, "the prompts of others take half of the time between two tokens");
  }
  std::stable_sort(limits.begin(), limits.end(), [](const auto& a, const auto& b) { return a.batch < b.batch; });
  return limits;
}

double highest_rate(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& question) {
  ServeQuestion q = question;
  Server server(graph, plan, cluster, q.engine);
  if (resident_sequences(graph, plan, cluster, q.input, q.output, q.engine) < 1) return 0;
  double most = 0;
  for (q.concurrency = plan.dp; q.concurrency <= most_requests(plan); q.concurrency *= 2)
    most = std::max(most, server.serve(q).output_tokens_s / q.output);
  return most;
}

std::vector<std::string> rate_advice(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                     const ServeQuestion& q) {
  std::vector<std::string> advice;
  double now = highest_rate(graph, plan, cluster, q);
  auto tried = [&](const std::string& what, const Graph& g, const Plan& p) {
    Cluster c{cluster.gpu, std::max(cluster.gpus, p.gpus())};
    try {
      check_plan(g, p);
      double rate = highest_rate(g, p, c, q);
      if (!fit(g, p, c, p.dp, {q.input, q.output}, q.engine).fits || rate <= 1.01 * now) return;
      advice.push_back(fmt::format("{}: up to {:.3g} requests a second{}", what, rate, rate >= q.rate ? ", enough" : ""));
    } catch (const base::Error&) {  // it does not divide so
    }
  };
  auto with = [&](const std::string& what, std::initializer_list<const char*> verbs) {
    Graph changed = graph;
    Plan changed_plan = plan;
    try {
      for (const char* verb : verbs) apply_verb(verb, changed, changed_plan);
    } catch (const base::Error&) {  // the model keeps no such tensors
      return;
    }
    tried(what, changed, changed_plan);
  };
  with("--kv fp8", {"requant kv fp8"});
  with("--weights fp8", {"requant weight fp8"});
  with("--weights fp8 --kv fp8", {"requant weight fp8", "requant kv fp8"});
  std::size_t narrower = advice.size();
  for (int times : {2, 4}) {
    Plan wider = plan, more = plan;
    wider.tp *= times, more.dp *= times;
    auto gpus = [&](const Plan& p) {
      return p.gpus() > cluster.gpus ? fmt::format("--gpu {}:{} ", cluster.gpu.id(), p.gpus()) : std::string();
    };
    tried(fmt::format("{}--tp {}", gpus(wider), wider.tp), graph, wider);
    tried(fmt::format("{}--dp {}", gpus(more), more.dp), graph, more);
  }
  if (narrower > 0) advice.push_back("what narrower formats do to quality is not predicted");
  return advice;
}

}  // namespace orrery::graph
