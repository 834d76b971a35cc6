// A training iteration as a document.
#include "tools/model_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/model_ledgers.h"
#include "tools/model_sections.h"

namespace orrery::tools {

using namespace graph;

namespace {

void training_timeline(Json& doc, const TrainAnswer& a) {
  Json live = {{"name", "in use"}, {"x", Json::array()}, {"y", Json::array()}}, limit = live;
  limit["name"] = "capacity";
  for (const auto& [when, bytes] : a.timeline) {
    live["x"].push_back(when), live["y"].push_back(bytes / kGiB);
    limit["x"].push_back(when), limit["y"].push_back(a.capacity / kGiB);
  }
  doc["sections"].push_back({{"title", "memory over one iteration"},
                             {"chart", "lines"},
                             {"x", "steps of the fullest stage [%]"},
                             {"y", "GiB"},
                             {"series", Json::array({live, limit})}});
}

// Found by thousands; a length that was asked for and fits is known to, whatever lies between.
void longest_fact(Json& doc, const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q, bool fits) {
  double longest = longest_sequence(graph, plan, cluster, q), addressable = addressable_sequence(graph, plan, q.micro_batch);
  if (AxisId positions = graph.find_axis("positions"); positions != kNoAxis && graph.axes[positions].extent <= longest)
    report::add_fact(doc, "longest sequence", graph.axes[positions].extent, "tokens", "all positions that the model has");
  else if (longest == kAnyContext)
    report::add_fact(doc, "longest sequence", "any length", "", "memory hardly grows with it");
  else if (fits && q.sequence > longest)
    report::add_fact(doc, "longest sequence", q.sequence, "tokens", "as asked; found to a thousand, more do not fit");
  else if (longest == 0)
    report::add_fact(doc, "longest sequence", "less than 1,000", "tokens", "more do not fit");
  else
    report::add_fact(doc, "longest sequence", longest, "tokens",
                     longest + 1000 > addressable ? "the kernels' offsets reach no further" : "to a thousand; more do not fit");
}

void training_facts(Json& doc, const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q,
                    const TrainAnswer& a) {
  // Interval of the peak: errors that were seen. Where the sequence is traded for heads it is as wide as the worst of
  // the four published runs that state a peak needs, read in GiB; no arithmetic gives it, and those rows cannot judge it.
  const bool traded = plan.ulysses && plan.cp > 1;
  const double most = traded ? 1.35 : 1.05;
  add_fact_of(doc, "fits", a.fits, "memory",
              traded && a.fits && most * a.total > a.capacity
                  ? "too close to call: the interval of the peak holds the capacity"
                  : "");
  add_fact_of(doc, "peak memory", a.total / kGiB, "GiB", "memory", "GiB",
              fmt::format("of {:.1f} GiB; {:.1f} to {:.1f}: {}", a.capacity / kGiB, a.total * 0.95 / kGiB,
                          a.total * most / kGiB,
                          traded ? "the four published runs that trade the sequence for heads held 6 to 25% more (14 to "
                                   "35% if their GB are GiB), likely what exchanges and the allocator hold"
                                 : "published runs came out within 5%"));
  longest_fact(doc, graph, plan, cluster, q, a.fits);
  if (a.host_bytes > 0) {
    int ranks = std::min(plan.gpus(), static_cast<int>(read_rates(cluster.gpu).per_host));
    report::add_fact(
        doc, "memory of a host", a.host_bytes * ranks / kGiB, "GiB",
        fmt::format("for {} GPUs: weights, gradients, optimizer and checkpoints that are placed there",
                    ranks));
  }
  add_fact_of(doc, "iteration", a.seconds, "s", "time of an iteration", "seconds",
              fmt::format("{:.4g} to {:.4g} s: nine of ten published runs lie so far from their prediction",
                          a.seconds * 0.8, a.seconds * 1.3));
  add_fact_of(doc, "model TFLOP/s per GPU", a.tflops_per_gpu, "TFLOP/s", "operations of an iteration",
              "operations", fmt::format("MFU {:.1f}%", a.mfu * 100),
              "the model's operations, over the time of an iteration and the GPUs");
  add_fact_of(doc, "tokens", a.tokens_s_per_gpu, "1/s per GPU", "time of an iteration", "seconds", "",
              "sequences times their length, over the time of an iteration and the GPUs");
  double tokens = q.global_batch * q.sequence, joules = a.joules / tokens;
  add_fact_of(doc, "energy", joules, "J per token", "energy per token", "joules",
              fmt::format("{:.3g} to {:.3g}", joules * 0.8, joules * 1.25));
  report::add_fact(doc, "parameters", a.parameters, "",
                   a.trainable < a.parameters ? fmt::format("{:.0f} trainable", a.trainable) : "");
  add_fact_of(doc, "operations recomputed", (a.hardware_flops / a.model_flops - 1) * 100, "%",
              "operations of an iteration", "operations", "",
              "what is done again, over the model's operations");
  add_plan(doc, plan, cluster);
}

// Time, operations and energy by what they are spent on.
void training_tables(Json& doc, const Plan& plan, double tokens, const TrainAnswer& a) {
  Json& table = report::add_table(doc, "time of an iteration", {{"what", ""}, {"seconds", "s"}});
  auto row = [&](std::string what, double seconds) {
    table["rows"].push_back(Json::array({std::move(what), seconds}));
  };
  row("operators", a.compute - a.tensor_comm);
  row(plan.cp > 1 ? "tensor- and context-parallel communication" : "tensor-parallel communication",
      a.tensor_comm);
  row("pipeline bubble", a.bubble);
  if (a.power > 0) row("the board's power limit", a.power);
  row("pipeline communication", a.pipeline_comm);
  row("data-parallel communication", a.data_comm);
  row("optimizer", a.optimizer);
  row("other tiers", a.offload);
  Json& ops = report::add_table(doc, "operations of an iteration", {{"what", ""}, {"operations", ""}});
  ops["rows"].push_back(Json::array({"the model's, forward and backward", a.model_flops}));
  ops["rows"].push_back(Json::array({"done again in the backward pass", a.hardware_flops - a.model_flops}));
  Json& energy = report::add_table(doc, "energy per token", {{"what", ""}, {"joules", "J"}});
  for (auto [what, n] : {std::pair{"operations", a.joules_ops},
                         {"bytes of device memory", a.joules_bytes},
                         {"bytes over links", a.joules_link},
                         {"idle power", a.joules_idle}})
    if (n != 0) energy["rows"].push_back(Json::array({what, n / tokens}));
}

}  // namespace

Json train_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q,
                    const TrainAnswer& a) {
  Json doc = report::document(fmt::format("train: {} on {} x {}, {:.0f} sequences of {:.0f}", graph.name,
                                          cluster.gpus, cluster.gpu.id(), q.global_batch, q.sequence));
  training_facts(doc, graph, plan, cluster, q, a);
  training_tables(doc, plan, q.global_batch * q.sequence, a);
  add_memory(doc, a.items, a.capacity);
  training_timeline(doc, a);
  add_training_ledgers(doc, a, q.global_batch / (q.micro_batch * plan.dp));
  add_advice(doc, train_advice(graph, plan, cluster, q, a));
  note_untrained(doc, graph, q.sequence);
  add_assumptions(doc, graph, cluster, plan, Question::kTrain);
  return doc;
}

}  // namespace orrery::tools
