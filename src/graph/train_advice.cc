// What would make an iteration fit: each change is asked anew, and its memory and time stand in the advice.
#include <fmt/format.h>

#include <functional>

#include "base/error.h"
#include "graph/train.h"

namespace orrery::graph {
namespace {

class Advisor {
 public:
  Advisor(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& question,
          const TrainAnswer& answer)
      : graph_(graph), plan_(plan), cluster_(cluster), question_(question), answer_(answer) {}

  std::vector<std::string> advise() {
    if (answer_.fits) return advice_;
    advice_.push_back(fmt::format("{:.1f} GiB too much", (answer_.total - answer_.capacity) / kGiB));
    bool done = false;
    for (const Change& c : alone()) done |= attempt(c.words, changed({c}));
    if (!done) together();
    return advice_;
  }

 private:
  struct Change {
    std::string words;
    std::function<void(Plan&, TrainQuestion&)> apply;
  };
  struct Asked {
    Plan plan;
    TrainQuestion question;
  };

  // What the plan does not do yet, cheapest first.
  std::vector<Change> alone() const {
    std::vector<Change> all;
    if (question_.micro_batch > 1)
      all.push_back({fmt::format("--micro-batch 1 --batch {:.0f}", question_.global_batch),  // without: a smaller one
                     [](Plan&, TrainQuestion& q) { q.micro_batch = 1; }});
    if (plan_.tp > 1 && !plan_.sequence_parallel)
      all.push_back({"--sequence-parallel", [](Plan& p, TrainQuestion&) { p.sequence_parallel = true; }});
    for (int stage = plan_.zero + 1; plan_.dp * plan_.cp > 1 && stage <= 3; ++stage)
      all.push_back({fmt::format("--zero {}", stage), [stage](Plan& p, TrainQuestion&) { p.zero = stage; }});
    if (plan_.recompute == RecomputePolicy::kNone)
      all.push_back({"--recompute selective",
                     [](Plan& p, TrainQuestion&) { p.recompute = RecomputePolicy::kSelective; }});
    if (plan_.recompute != RecomputePolicy::kFull)
      all.push_back(
          {"--recompute full", [](Plan& p, TrainQuestion&) { p.recompute = RecomputePolicy::kFull; }});
    if (plan_.place.optimizer == Tier::kDevice)
      all.push_back(
          {"--do 'place optimizer host'", [](Plan& p, TrainQuestion&) { p.place.optimizer = Tier::kHost; }});
    return all;
  }

  // The fewest of them, in their order, that suffice; of options with several values the last.
  void together() {
    std::vector<Change> some;
    for (const Change& c : alone()) {
      std::string option = c.words.substr(0, c.words.find(' '));
      if (!some.empty() && option != "--do" && some.back().words.starts_with(option + " ")) some.pop_back();
      some.push_back(c);
      std::string words;
      for (const Change& each : some) words += (words.empty() ? "" : " ") + each.words;
      if (some.size() > 1 && attempt(words, changed(some), false)) return;
    }
    advice_.push_back(
        "all of these together do not suffice: more GPUs (--gpu NAME:N with --tp, --pp or --zero) divide "
        "weights, states and activations");
  }

  Asked changed(const std::vector<Change>& changes) const {
    Asked asked{plan_, question_};
    for (const Change& c : changes) c.apply(asked.plan, asked.question);
    return asked;
  }

  // Whether it fits so; said when it does, or always.
  bool attempt(const std::string& words, const Asked& asked, bool always = true) {
    try {
      TrainAnswer a = train(graph_, asked.plan, cluster_, asked.question);
      if (a.total > 0.99 * answer_.total || (!a.fits && !always)) return false;
      advice_.push_back(fmt::format("{}: {:.1f} GiB, {}, in {:.2f} times the time", words, a.total / kGiB,
                                    a.fits ? "fits" : "still too much", a.seconds / answer_.seconds));
      return a.fits;
    } catch (const base::Error&) {  // not for this model or plan
      return false;
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const Cluster& cluster_;
  const TrainQuestion& question_;
  const TrainAnswer& answer_;
  std::vector<std::string> advice_;
};

}  // namespace

std::vector<std::string> train_advice(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                      const TrainQuestion& question, const TrainAnswer& answer) {
  return Advisor(graph, plan, cluster, question, answer).advise();
}

}  // namespace orrery::graph
