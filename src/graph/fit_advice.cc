// What would make a model fit: each change is asked anew, and what a GPU would then hold stands in the
// advice.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/layout.h"
#include "graph/serve.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

constexpr int kMostAdvised = 64, kHost = 8;  // GPUs, and those of a host

class Advisor {
 public:
  Advisor(const FitQuestion& question, const FitAnswer& answer) : q_(question), answer_(answer) {}

  std::vector<std::string> advise() {
    idle();
    if (answer_.fits) return advice_;
    note(fmt::format("{:.1f} GiB too much", (answer_.total - answer_.capacity) / kGiB));
    if (answer_.max_sequences > 0)
      note(fmt::format("at this context {:.0f} sequences fit per rank", answer_.max_sequences));
    if (answer_.max_context > 0 && answer_.max_context < q_.context.prompt + q_.context.generated)
      note(fmt::format("at this batch a context of {:.0f} tokens fits", answer_.max_context));
    bool plain = narrowest_weight() >= 16;
    bool done = narrower("--kv fp8", {"requant kv fp8"});
    if (plain)
      done |= narrower("--weights fp8", {"requant weight fp8"}) ||
              narrower("--weights 'int4 g128'", {"requant weight int4 g128"});
    if (plain && !done)
      narrower("--kv fp8 --weights 'int4 g128'", {"requant kv fp8", "requant weight int4 g128"});
    more_gpus();
    if (narrowed_) note("what narrower formats do to quality is not predicted");
    return advice_;
  }

 private:
  void note(std::string text) { advice_.push_back(std::move(text)); }

  // Of a checkpoint that is quantized in part, no further format is proposed.
  double narrowest_weight() const {
    double bits = 64;
    for (const Tensor& t : q_.graph.tensors)
      if (t.cls == TensorClass::kWeight && t.linear) bits = std::min(bits, t.dtype.bits);
    return bits;
  }

  FitAnswer asked(const Graph& graph, const Plan& plan) const {
    return fit(graph, plan, {q_.cluster.gpu, std::max(q_.cluster.gpus, plan.gpus())}, q_.batch, q_.context,
               q_.engine);
  }

  // Whether these verbs make it fit. What they do not change, and what refuses them, is not said.
  bool narrower(const std::string& what, std::initializer_list<const char*> verbs) {
    Graph graph = q_.graph;
    Plan plan = q_.plan;
    try {
      for (const char* verb : verbs) apply_verb(verb, graph, plan);
      FitAnswer a = asked(graph, plan);
      if (a.total >= answer_.total) return false;
      note(fmt::format("{}: {:.1f} GiB, {}", what, a.total / kGiB, a.fits ? "fits" : "still too much"));
      narrowed_ = true;
      return a.fits;
    } catch (const base::Error&) {
      return false;
    }
  }

  // The fewest GPUs that hold it, in steps that hosts come in: more ranks for each tensor inside of one,
  // stages beyond.
  void more_gpus() {
    int most = q_.plan.gpus();
    for (int times = 2; q_.plan.gpus() * times <= kMostAdvised; times += times < 8 ? times : 8) {
      int gpus = most = q_.plan.gpus() * times;
      for (int stages = 1; stages <= times; ++stages) {
        if (times % stages || q_.plan.tp * times / stages > kHost) continue;
        Plan wider = q_.plan;
        wider.tp *= times / stages, wider.pp *= stages;
        try {
          check_plan(q_.graph, wider);
          FitAnswer a = asked(q_.graph, wider);
          if (!a.fits) continue;
          std::string how =
              gpus > q_.cluster.gpus ? fmt::format("--gpu {}:{} ", q_.cluster.gpu.id(), gpus) : "";
          how += fmt::format("--tp {}", wider.tp) + (wider.pp > 1 ? fmt::format(" --pp {}", wider.pp) : "");
          return note(fmt::format("{}: {:.1f} GiB a GPU, fits", how, a.total / kGiB));
        } catch (const base::Error&) {  // heads, widths or layers do not divide so
        }
      }
    }
    note(most > q_.plan.gpus() ? fmt::format("no division of tensors and layers over up to {} GPUs holds it either", most)
                               : fmt::format("more than {} GPUs were not tried", most));
  }

  // A cluster of which the plan leaves GPUs idle.
  void idle() {
    const Plan& plan = q_.plan;
    if (plan.gpus() >= q_.cluster.gpus) return;
    std::string how = "--tp, --pp or --dp divide the work, and `orrery model plan` searches";
    Plan wider = plan;
    wider.tp = plan.tp * (q_.cluster.gpus / plan.gpus());
    try {
      check_plan(q_.graph, wider);
      how = fmt::format("--tp {} divides weights and heads over all, and `orrery model plan` searches",
                        wider.tp);
    } catch (const base::Error&) {  // heads or widths do not divide so
    }
    note(fmt::format("the plan uses {} of {} GPUs: {}", plan.gpus(), q_.cluster.gpus, how));
  }

  const FitQuestion& q_;
  const FitAnswer& answer_;
  std::vector<std::string> advice_;
  bool narrowed_ = false;
};

}  // namespace

std::vector<std::string> fit_advice(const FitQuestion& question, const FitAnswer& answer) {
  return Advisor(question, answer).advise();
}

}  // namespace orrery::graph
