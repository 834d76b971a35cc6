// Whether it fits, as a document.
#include "tools/model_documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/model_ledgers.h"
#include "tools/model_sections.h"

namespace orrery::tools {

using namespace graph;

namespace {

// What each token, and a sequence of the context, keep between steps, tensor by tensor.
void state_table(Json& doc, const Graph& graph, const Plan& plan, double context, double whole) {
  Json& table = report::add_table(
      doc, "state of one rank",
      {{"tensor", ""}, {"format", ""}, {"bytes per token", "B"}, {"bytes per sequence", "B"}});
  Program program = compile(graph, plan);
  double held = held_tokens(plan, context), sum = 0;
  for (const auto& [id, form] : program.states) {
    Binding b;
    b[kSeqs] = 1, b[kKeys] = held, b[kKeysWindow] = std::min(held, graph.window), b[kKeysChosen] = std::min(held, graph.chosen);
    const Tensor& t = graph.tensors[id];
    sum += form.at(b);
    table["rows"].push_back(
        {t.name, std::string(format_name(t.dtype.format)), form.coefficient[kKeys], form.at(b)});
  }
  if (whole > sum) table["rows"].push_back({"empty part of the last page", "", 0.0, whole - sum});
}

}  // namespace

Json fit_document(const FitQuestion& q, const FitAnswer& a) {
  const auto& [graph, plan, cluster, batch, asked, engine] = q;
  double context = asked.prompt + asked.generated;
  Json doc = report::document(fmt::format("fit: {} on {} x {}", graph.name, cluster.gpus, cluster.gpu.id()));
  bool close = a.low <= a.capacity && a.high > a.capacity;
  add_fact_of(doc, "fits", a.fits, "memory",
              close ? "too close to call: the interval of the peak holds the capacity" : "");
  add_fact_of(doc, "peak memory", a.total / kGiB, "GiB", "memory", "GiB",
              fmt::format("of {:.1f} GiB; {:.1f} to {:.1f}: weights and state are exact, activations and "
                          "overheads may be half or double",
                          a.capacity / kGiB, a.low / kGiB, a.high / kGiB));
  if (a.kv_bytes_per_sequence > 0) {
    add_fact_of(doc, "KV bytes per token", a.kv_bytes_per_token, "B", "state of one rank", "bytes per token",
                "one rank, beyond every window");
    add_fact_of(doc, "KV bytes per sequence", a.kv_bytes_per_sequence, "B", "state of one rank",
                "bytes per sequence", fmt::format("{:.0f} tokens, one rank", context));
    if (a.max_sequences >= kAnyContext)
      report::add_fact(doc, "sequences that fit", "any number", "per data-parallel rank",
                       "their keys and values are on another tier");
    else
      add_fact_of(doc, "sequences that fit", a.max_sequences, "per data-parallel rank", "memory", "GiB",
                  engine.name == "none" ? ""
                                        : fmt::format("{:.0f} in the {:g} of the memory that an engine takes",
                                                      a.admitted_sequences, plan.memory_share),
                  "the capacity less what is no KV cache, over the KV bytes per sequence, rounded down");
    if (batch > 0 && a.max_context >= kAnyContext)
      report::add_fact(doc, "longest context", "any length", "",
                       fmt::format("at batch {:.0f} no length fills the GPU", batch));
    else if (batch > 0)
      add_fact_of(doc, "longest context", a.max_context, "tokens", "memory", "GiB",
                  fmt::format("at batch {:.0f}; by memory{}", batch,
                              graph.trained_positions > 0
                                  ? fmt::format(": the model's config allows {} (max_position_embeddings)",
                                                graph.trained_positions)
                                  : ", whatever length the model was trained for"),
                  "the longest whose state, in whole pages, fits into the capacity less what is no KV cache");
  }
  add_plan(doc, plan, cluster);
  add_memory(doc, a.items, a.capacity);
  if (a.kv_bytes_per_sequence > 0) state_table(doc, graph, plan, context, a.kv_bytes_per_sequence);
  add_memory_timeline(doc, compile(q.graph, q.plan), fit_binding(q.graph, q.plan, q.batch, q.context.prompt + q.context.generated), a.items, a.capacity);
  add_advice(doc, fit_advice(q, a));
  note_untrained(doc, graph, context);
  add_assumptions(doc, graph, cluster, plan, Question::kFit);
  return doc;
}

}  // namespace orrery::tools
