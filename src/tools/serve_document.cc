// Answers about inference as documents: serving, and one pass of an encoder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/serve_limits.h"
#include "tools/model_documents.h"
#include "tools/model_ledgers.h"
#include "tools/model_sections.h"

namespace orrery::tools {

using namespace graph;

namespace {

void serve_tables(Json& doc, const ServeQuestion& q, const ServeAnswer& a, const StepTime& one,
                  double kernels) {
  auto fill = [](Json& table, std::initializer_list<std::pair<std::string, double>> rows) {
    for (const auto& [what, seconds] : rows)
      if (seconds > 1e-12) table["rows"].push_back(Json::array({what, seconds * 1e3}));
  };
  double n = a.tokens_a_step, limited = one.power, fetched = one.exposed, hops = a.decode.hops;
  double sent = a.decode_step_seconds - a.decode.seconds - a.draft_seconds - q.engine.step_seconds;
  fill(report::add_table(doc, "time per output token", {{"what", ""}, {"milliseconds", "ms"}}),
       {{n > 1 ? fmt::format("operators of the decode step, over {:.3g} tokens", n)
               : "operators of the decode step",
         kernels / n},
        {"transfers from other tiers that nothing hides", fetched / n},
        {"the board's power limit", limited / n},
        {"hops between stages", hops / n},
        {"draft steps", a.draft_seconds / n},
        {fmt::format("engine between steps ({})", q.engine.source), q.engine.step_seconds / n},
        {"sending each sequence's token", sent / n},
        {"other requests' prefill", a.others_prefill / n}});
  fill(report::add_table(doc, "time to first token", {{"what", ""}, {"milliseconds", "ms"}}),
       {{fmt::format("engine, per request ({})", q.engine.source), q.engine.request_seconds},
        {"prefill of the request", a.prefill_seconds},
        {"keys and values from the GPUs that prefilled", a.transfer_seconds},
        {"steps of others that run when it comes and between its chunks", a.queue_seconds},
        {"requests ahead of it that wait for memory or prefill", a.wait_seconds}});
  fill(report::add_table(doc, "time of a request", {{"what", ""}, {"milliseconds", "ms"}}),
       {{"time to first token, once there is room", a.ttft - a.wait_seconds},
        {fmt::format("{:.0f} further tokens", q.output - 1), (q.output - 1) * a.tpot}});
}

// From which batch on each limit bites; a dash where none that was tried does.
void limit_table(Json& doc, const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q) {
  Json& table = report::add_table(doc, "batch at which each limit bites",
                                  {{"limit", ""}, {"sequences per data-parallel rank", ""}, {"what happens there", ""}});
  for (const BatchLimit& limit : batch_limits(graph, plan, cluster, q))
    table["rows"].push_back(
        {limit.what, limit.batch > kMostTriedBatch ? Json() : Json(limit.batch), limit.how});
}

void energy_table(Json& doc, const StepPredictor& p, const Plan& plan, const ServeQuestion& q,
                  const ServeAnswer& a) {
  LineJoules sum;
  Rates r = under_plan(plan, p.rates());
  for (const Line& line : p.ledger().lines) {
    const ProgramOp& op = p.program().ops[line.op];
    LineJoules j = joules_of(op, line, time_of(op, line, p.binding(), r), r);
    double times = line.times * op.stages;
    sum.ops += j.ops * times, sum.bytes += j.bytes * times, sum.link += j.link * times;
  }
  double ranks = plan.tp, share = ranks / std::max(1.0, a.batch) / a.tokens_a_step;
  Json& table = report::add_table(doc, "energy per output token", {{"what", ""}, {"joules", "J"}});
  auto row = [&](const char* what, double joules) { table["rows"].push_back(Json::array({what, joules})); };
  row("operations of the decode step", sum.ops * share);
  row("bytes of device memory of the decode step", sum.bytes * share);
  row("bytes over links of the decode step", sum.link * share);
  row("idle power over the decode step", (a.decode.joules - sum.total()) * share);
  if (a.draft_joules > 0) row("steps of the draft", a.draft_joules);
  row("prefill of the request, shared by its tokens", a.prefill_joules / q.output * ranks);
  row("idle power while the engine is between steps", a.between_joules);
  if (a.split_joules > 0) row("idle power of the GPUs that only prefill", a.split_joules);
}

void serve_facts(Json& doc, const Plan& plan, const Cluster& cluster, const ServeAnswer& a, const FitAnswer& memory) {
  add_fact_of(doc, "TPOT", a.tpot * 1e3, "ms", "time per output token", "milliseconds",
              fmt::format("{:.3g} to {:.3g} ms", a.low * 1e3, a.high * 1e3));
  add_fact_of(doc, "TTFT", a.ttft * 1e3, "ms", "time to first token", "milliseconds",
              fmt::format("{:.3g} to {:.3g} ms; prefill {:.1f} ms", a.ttft * 0.7e3, a.ttft * 1.5e3,
                          a.prefill_seconds * 1e3));
  add_fact_of(doc, "output tokens", a.output_tokens_s, "1/s", "time of a request", "milliseconds",
              fmt::format("{:.4g} to {:.4g}; {:.4g} per GPU", a.output_tokens_s * a.tpot / a.high,
                          a.output_tokens_s * a.tpot / a.low, a.output_tokens_s / plan.gpus()),
              "the sequences of all data-parallel ranks times the output tokens, over the time of a request");
  add_fact_of(doc, "energy", a.joules_per_token, "J per output token", "energy per output token", "joules",
              fmt::format("{:.3g} to {:.3g}", a.joules_per_token * 0.8, a.joules_per_token * 1.25));
  report::add_fact(doc, "batch", a.batch, "sequences per data-parallel rank",
                   a.waiting > 0 ? fmt::format("{:.0f} more wait: memory is full", a.waiting) : "");
  add_fact_of(doc, "decode MBU", a.mbu * 100, "%", "bytes by class and tier", "bytes", "",
              "the weights and state read, over the time of the step and the peak bandwidth");
  add_fact_of(doc, "decode MFU", a.mfu * 100, "%", "operations by format", "operations", "",
              "the operations, over the time of the step and the peak rate in 16 bits");
  add_fact_of(doc, "bandwidth bound of TPOT", a.tpot_bound * 1e3, "ms", "bytes by class and tier", "bytes",
              "", "the weights and state read, over the peak bandwidth");
  add_fact_of(doc, "peak memory", memory.total / kGiB, "GiB", "memory", "GiB",
              fmt::format("of {:.1f} GiB; {:.1f} to {:.1f}", memory.capacity / kGiB, memory.low / kGiB,
                          memory.high / kGiB));
  add_fact_of(doc, "fits", memory.fits, "memory",
              fmt::format("{:.1f} of {:.1f} GiB at full batch", memory.total / kGiB, memory.capacity / kGiB));
  add_plan(doc, plan, cluster);
}

}  // namespace

Json encode_document(const Graph& graph, const Plan& plan, const Cluster& cluster, double sequences,
                     double tokens, const EncodeAnswer& a) {
  Json doc = report::document(fmt::format("encode: {} on {} x {}, {:.4g} sequences of {:.0f}", graph.name,
                                          cluster.gpus, cluster.gpu.id(), sequences, tokens));
  StepPredictor p(graph, plan, cluster);
  p.step(encode_step(plan, sequences, tokens));
  StepTime one = schedule(p.program(), p.ledger(), p.binding(), p.rates());
  Json scratch = report::document("");
  double kernels =
      add_step_ledgers(scratch, {p.program(), p.ledger(), p.binding(), under_plan(plan, p.rates()), one},
                       "forward pass", "time of a batch", a.step.hops, 1);
  double exact = 0;  // what is assumed may be half or double, as in fit()
  for (const MemoryItem& item : a.items)
    if (item.cls == TensorClass::kWeight) exact += item.bytes;
  add_fact_of(doc, "fits", a.fits, "memory");
  add_fact_of(doc, "peak memory", a.total / kGiB, "GiB", "memory", "GiB",
              fmt::format("of {:.1f} GiB; {:.1f} to {:.1f}", a.capacity / kGiB, (a.total + exact) / 2 / kGiB,
                          (2 * a.total - exact) / kGiB));
  add_fact_of(doc, "time of a batch", a.step.seconds * 1e3, "ms", "time of a batch", "milliseconds",
              fmt::format("{:.3g} to {:.3g} ms", a.step.seconds * 0.8e3, a.step.seconds * 1.35e3));
  add_fact_of(doc, "sequences", sequences / a.step.seconds, "1/s", "time of a batch", "milliseconds", "",
              "the batch over its time");
  double joules = a.step.joules * plan.tp * plan.dp / sequences;
  report::add_fact(doc, "energy", joules, "J per sequence", fmt::format("{:.3g} to {:.3g}", joules * 0.8, joules * 1.25));
  report::add_fact(doc, "MFU", 100 * a.step.ops / a.step.seconds / p.rates().peak16, "%");
  add_plan(doc, plan, cluster);
  Json& table = report::add_table(doc, "time of a batch", {{"what", ""}, {"milliseconds", "ms"}});
  table["rows"].push_back(Json::array({"operators of the forward pass", kernels * 1e3}));
  if (a.step.seconds - kernels > 1e-12)
    table["rows"].push_back(
        Json::array({"power limit, transfers, hops between stages", (a.step.seconds - kernels) * 1e3}));
  for (Json& section : scratch["sections"]) doc["sections"].push_back(std::move(section));
  add_memory(doc, a.items, a.capacity);
  add_memory_timeline(doc, p.program(), p.binding(), a.items, a.capacity);
  add_assumptions(doc, graph, cluster, plan, Question::kServe);
  return doc;
}

Json overload_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q,
                       double most) {
  Json doc = report::document(fmt::format("serve: {} on {} x {}, {:.0f} in, {:.0f} out, {:.4g} requests a second",
                                          graph.name, cluster.gpus, cluster.gpu.id(), q.input, q.output, q.rate));
  report::add_fact(doc, "serves the rate", "no");
  report::add_fact(doc, "highest rate", most, "requests a second",
                   most > 0 ? fmt::format("{:.3g} to {:.3g}, with any number in flight", most / 1.35, most / 0.8)
                            : "not one request finds room in the memory that an engine takes");
  FitAnswer empty = fit(graph, plan, cluster, plan.dp, {q.input, q.output}, q.engine);
  report::add_fact(doc, "fits", empty.fits ? "yes" : "no", "",
                   fmt::format("one sequence a data-parallel rank: {:.1f} of {:.1f} GiB", empty.total / kGiB,
                               empty.capacity / kGiB));
  add_plan(doc, plan, cluster);
  limit_table(doc, graph, plan, cluster, q);
  add_memory(doc, empty.items, empty.capacity);
  add_advice(doc, rate_advice(graph, plan, cluster, q));
  add_assumptions(doc, graph, cluster, plan, Question::kServe);
  return doc;
}

Json serve_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q,
                    const ServeAnswer& a, const FitAnswer& memory) {
  Json doc = report::document(fmt::format("serve: {} on {} x {}, {:.0f} in, {:.0f} out, {:.4g} at a time",
                                          graph.name, cluster.gpus, cluster.gpu.id(), q.input, q.output,
                                          q.concurrency));
  serve_facts(doc, plan, cluster, a, memory);
  Plan laid = under(plan, q.engine);
  StepPredictor p(graph, laid, cluster);
  p.step(decode_step(plan, q, a.batch));
  StepTime one = schedule(p.program(), p.ledger(), p.binding(), p.rates());
  Json scratch = report::document("");
  double other = a.tpot * a.tokens_a_step - one.seconds;
  double kernels =
      add_step_ledgers(scratch, {p.program(), p.ledger(), p.binding(), under_plan(laid, p.rates()), one},
                       "decode step", "TPOT", other, a.tokens_a_step);
  serve_tables(doc, q, a, one, kernels);
  energy_table(doc, p, plan, q, a);
  limit_table(doc, graph, plan, cluster, q);
  for (Json& section : scratch["sections"]) doc["sections"].push_back(std::move(section));
  add_memory(doc, memory.items, memory.capacity);
  add_memory_timeline(doc, compile(graph, plan), fit_binding(graph, plan, a.batch * plan.dp, q.input + q.output), memory.items,
                      memory.capacity);
  add_advice(doc,
             fit_advice({graph, plan, cluster, a.batch * plan.dp, {q.input, q.output}, q.engine}, memory));
  note_untrained(doc, graph, q.input + q.output);
  add_assumptions(doc, graph, cluster, plan, Question::kServe);
  if (q.engine.step_seconds > 0)
    doc["assumptions"].push_back(fmt::format("engine {}: {:.1f} ms a step, {:.0f} ms a request ({})",
                                             q.engine.name, q.engine.step_seconds * 1e3,
                                             q.engine.request_seconds * 1e3, q.engine.source));
  return doc;
}

}  // namespace orrery::tools
