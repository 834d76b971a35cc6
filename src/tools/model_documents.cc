// Inference and training answers as documents, and `why`.
#include "tools/model_documents.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace orrery::tools {

using namespace graph;

namespace {

constexpr double kGiB = 1073741824.0;

std::string plan_text(const Plan& p) {
  std::string text = fmt::format("tp {} pp {} dp {} cp {} ep {}", p.tp, p.pp, p.dp, p.cp, p.ep);
  if (p.zero) text += fmt::format(" zero {}", p.zero);
  for (const std::string& verb : p.verbs) text += "; " + verb;
  return text;
}

void assumptions(Json& doc, const Graph& graph, const Cluster& cluster) {
  for (const std::string& note : graph.notes) doc["assumptions"].push_back(graph.name + ": " + note);
  for (FieldId field : cluster.gpu.assumed_fields_used()) {
    const FieldValue& v = cluster.gpu.at(field);
    doc["assumptions"].push_back(fmt::format("{}: {} = {} {} ({})", cluster.gpu.id(), field_spec(field).key,
                                             v.text.empty() ? fmt::format("{}", v.written) : v.text, v.unit,
                                             v.cite));
  }
}

void memory_sections(Json& doc, const std::vector<MemoryItem>& items, double capacity) {
  Json& table = report::add_table(doc, "memory",
                                  {{"what", ""}, {"class", ""}, {"bytes", "B"}, {"GiB", ""}, {"how", ""}});
  Json chart;
  chart["title"] = "memory of one GPU";
  chart["chart"] = "bars";
  chart["unit"] = "GiB";
  chart["limit"] = capacity / kGiB;
  chart["series"] = Json::array();
  for (const MemoryItem& item : items) {
    table["rows"].push_back(
        {item.what, std::string(name_of(item.cls)), item.bytes, item.bytes / kGiB, item.how});
    chart["series"].push_back({{"name", item.what}, {"value", item.bytes / kGiB}});
  }
  doc["sections"].push_back(std::move(chart));
}

void fact_of(Json& doc, const char* name, double value, const char* unit, const char* table,
             const char* column, std::string note = "") {
  report::add_fact(doc, name, value, unit, std::move(note));
  doc["facts"].back()["why"] = {{"table", table}, {"column", column}};
}

// The lines of one step: what each operator moves and takes, and which resource binds it.
double step_sections(Json& doc, StepPredictor& p, const char* title, double scale) {
  Json& table = report::add_table(doc, title,
                                  {{"operator", ""},
                                   {"part", ""},
                                   {"times", ""},
                                   {"bound", ""},
                                   {"operations", ""},
                                   {"weight", "B"},
                                   {"state", "B"},
                                   {"activation", "B"},
                                   {"link", "B"},
                                   {"seconds", "s"}});
  Json ledger, roof, time;
  ledger["title"] = "what if";
  ledger["model"] = "ledger";
  ledger["result"] = "time of the step";
  const Rates& r = p.rates();
  ledger["rates"] = {{"memory bandwidth", r.memory}, {"tensor rate", r.tensor16}, {"link", r.link}};
  ledger["lines"] = Json::array();
  roof["title"] = "roofline of the step";
  roof["chart"] = "roofline";
  roof["log"] = true;
  roof["x"] = "operations per byte";
  roof["y"] = "TFLOP/s";
  Json points = {{"name", "operators"},
                 {"points", true},
                 {"x", Json::array()},
                 {"y", Json::array()},
                 {"labels", Json::array()}};
  time["title"] = "timeline of one layer of each kind";
  time["timeline"] = Json::array();
  double clock = 0, total = 0;
  for (const Line& line : p.ledger().lines) {
    const ProgramOp& op = p.program().ops[line.op];
    LineTime t = time_of(op, line, p.binding(), r);
    std::string name = p.program().graph->ops[op.op].name;
    if (op.collective != Collective::kNone)
      name += fmt::format(" ({} over {})", name_of(op.collective), op.group);
    double seconds = t.seconds * line.times * scale;
    total += seconds;
    double bytes = line.weight + line.state + line.activation;
    table["rows"].push_back({p.program().graph->blocks[op.block].name + "." + name,
                             std::string(name_of(op.part)), line.times * scale, std::string(name_of(t.bound)),
                             line.ops * line.times * scale, line.weight * line.times * scale,
                             line.state * line.times * scale, line.activation * line.times * scale,
                             line.link * line.times * scale, seconds});
    double variable = std::max({bytes / r.memory, line.ops / r.tensor16, line.link / r.link});
    ledger["lines"].push_back(
        {{"times", line.times * scale},
         {"fixed", std::max(0.0, t.seconds - variable)},
         {"amounts", {{"memory bandwidth", bytes}, {"tensor rate", line.ops}, {"link", line.link}}}});
    if (line.ops > 0 && bytes > 0 && t.seconds > 0) {
      points["x"].push_back(line.ops / bytes);
      points["y"].push_back(line.ops / t.seconds / 1e12);
      points["labels"].push_back(name);
    }
    time["timeline"].push_back(
        {{"name", name},
         {"resource", op.collective != Collective::kNone ? "link" : "compute and memory"},
         {"start", clock},
         {"seconds", t.seconds}});
    clock += t.seconds;
  }
  ledger["given"] = total;
  double corner = r.peak16 / r.memory_peak;
  roof["series"] = {{{"name", "limit"},
                     {"x", {corner / 1000, corner, corner * 30}},
                     {"y", {r.memory_peak * corner / 1000 / 1e12, r.peak16 / 1e12, r.peak16 / 1e12}}},
                    points};
  doc["sections"].push_back(std::move(ledger));
  doc["sections"].push_back(std::move(roof));
  doc["sections"].push_back(std::move(time));
  return total;
}

}  // namespace

namespace {

// Live bytes at each operator of one prefill step; its maximum is the peak of the table above.
void memory_timeline(Json& doc, const Graph& graph, const Plan& plan, const FitAnswer& a, double batch,
                     double context) {
  Program program = compile(graph, plan);
  Binding b = fit_binding(graph, plan, batch, context);
  double rest = a.total;
  for (const MemoryItem& item : a.items)
    if (item.cls == TensorClass::kActivation) rest -= item.bytes;
  Json section;
  section["title"] = "memory over one step";
  section["chart"] = "lines";
  section["x"] = "operator";
  section["y"] = "GiB";
  Json live = {{"name", "in use"}, {"x", Json::array()}, {"y", Json::array()}}, limit = live;
  limit["name"] = "capacity";
  for (const auto& [op, bytes] : activation_timeline(program, b)) {
    live["x"].push_back(op);
    live["y"].push_back((rest + bytes) / kGiB);
    limit["x"].push_back(op);
    limit["y"].push_back(a.capacity / kGiB);
  }
  section["series"] = {live, limit};
  doc["sections"].push_back(std::move(section));
}

}  // namespace

Json fit_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const FitAnswer& a,
                  double batch, double context) {
  Json doc = report::document(fmt::format("fit: {} on {} x {}", graph.name, cluster.gpus, cluster.gpu.id()));
  report::add_fact(doc, "fits", a.fits ? "yes" : "no");
  fact_of(doc, "peak memory", a.total / kGiB, "GiB", "memory", "GiB",
          fmt::format("of {:.1f} GiB", a.capacity / kGiB));
  report::add_fact(doc, "KV bytes per token", a.kv_bytes_per_token, "B", "one rank, beyond every window");
  report::add_fact(doc, "KV bytes per sequence", a.kv_bytes_per_sequence, "B",
                   fmt::format("{:.0f} tokens, one rank", context));
  report::add_fact(doc, "sequences that fit", a.max_sequences, "per data-parallel rank");
  report::add_fact(doc, "longest context", a.max_context, "tokens", fmt::format("at batch {:.0f}", batch));
  report::add_fact(doc, "plan", plan_text(plan));
  memory_sections(doc, a.items, a.capacity);
  memory_timeline(doc, graph, plan, a, batch, context);
  if (!a.advice.empty()) {
    report::add_notes(doc, "what to change", {});
    for (const std::string& advice : a.advice) doc["sections"].back()["notes"].push_back(advice);
  }
  assumptions(doc, graph, cluster);
  return doc;
}

Json serve_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q,
                    const ServeAnswer& a, const FitAnswer& memory) {
  Json doc = report::document(fmt::format("serve: {} on {} x {}, {:.0f} in, {:.0f} out, {:.4g} at a time",
                                          graph.name, cluster.gpus, cluster.gpu.id(), q.input, q.output,
                                          q.concurrency));
  fact_of(doc, "TPOT", a.tpot * 1e3, "ms", "time per output token", "milliseconds",
          fmt::format("{:.3g} to {:.3g} ms", a.low * 1e3, a.high * 1e3));
  report::add_fact(doc, "TTFT", a.ttft * 1e3, "ms",
                   fmt::format("{:.3g} to {:.3g} ms; prefill {:.1f} ms", a.ttft * 0.7e3, a.ttft * 1.5e3,
                               a.prefill_seconds * 1e3));
  report::add_fact(doc, "output tokens", a.output_tokens_s, "1/s",
                   fmt::format("{:.4g} to {:.4g}; {:.4g} per GPU", a.output_tokens_s * a.tpot / a.high,
                               a.output_tokens_s * a.tpot / a.low, a.output_tokens_s / plan.gpus()));
  report::add_fact(doc, "energy", a.joules_per_token, "J per output token",
                   fmt::format("{:.3g} to {:.3g}", a.joules_per_token * 0.8, a.joules_per_token * 1.25));
  report::add_fact(doc, "batch", a.batch, "sequences per data-parallel rank",
                   a.waiting > 0 ? fmt::format("{:.0f} more wait: memory is full", a.waiting) : "");
  report::add_fact(doc, "decode MBU", a.mbu * 100, "%");
  report::add_fact(doc, "decode MFU", a.mfu * 100, "%");
  report::add_fact(doc, "bandwidth bound of TPOT", a.tpot_bound * 1e3, "ms");
  report::add_fact(
      doc, "fits", memory.fits ? "yes" : "no", "",
      fmt::format("{:.1f} of {:.1f} GiB at full batch", memory.total / kGiB, memory.capacity / kGiB));
  report::add_fact(doc, "plan", plan_text(plan));
  StepPredictor p(graph, under(plan, q.engine), cluster);
  StepShape decode;
  decode.decode_seqs = a.batch;
  decode.decode_context = q.input + q.output / 2;
  p.step(decode);
  Json scratch = report::document("");
  double kernels = step_sections(scratch, p, "decode step", plan.pp);
  Json& table = report::add_table(doc, "time per output token", {{"what", ""}, {"milliseconds", "ms"}});
  table["rows"].push_back(Json::array({"operators of the decode step", kernels * 1e3}));
  double limited = a.decode.power * plan.pp;
  if (limited > 0) table["rows"].push_back(Json::array({"the board's power limit", limited * 1e3}));
  double served = a.decode_step_seconds - kernels - limited - q.engine.step_seconds;
  if (served > 1e-9)
    table["rows"].push_back(
        Json::array({"sending each sequence's token, draft steps, hops between stages", served * 1e3}));
  if (q.engine.step_seconds > 0)
    table["rows"].push_back(Json::array(
        {fmt::format("engine between steps ({})", q.engine.source), q.engine.step_seconds * 1e3}));
  table["rows"].push_back(Json::array(
      {"other requests' prefill; accepted tokens",
       (a.tpot - (kernels + limited + q.engine.step_seconds + std::max(0.0, served > 1e-9 ? served : 0.0))) *
           1e3}));
  for (Json& section : scratch["sections"]) doc["sections"].push_back(std::move(section));
  memory_sections(doc, memory.items, memory.capacity);
  assumptions(doc, graph, cluster);
  if (q.engine.step_seconds > 0)
    doc["assumptions"].push_back(fmt::format("engine {}: {:.1f} ms a step, {:.0f} ms a request ({})",
                                             q.engine.name, q.engine.step_seconds * 1e3,
                                             q.engine.request_seconds * 1e3, q.engine.source));
  return doc;
}

Json train_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q,
                    const TrainAnswer& a) {
  Json doc = report::document(fmt::format("train: {} on {} x {}, {:.0f} sequences of {:.0f}", graph.name,
                                          cluster.gpus, cluster.gpu.id(), q.global_batch, q.sequence));
  report::add_fact(doc, "fits", a.fits ? "yes" : "no");
  fact_of(doc, "peak memory", a.total / kGiB, "GiB", "memory", "GiB",
          fmt::format("of {:.1f} GiB", a.capacity / kGiB));
  fact_of(doc, "iteration", a.seconds, "s", "time of an iteration", "seconds",
          fmt::format("{:.4g} to {:.4g} s: the error on published runs is up to 9%", a.seconds * 0.91,
                      a.seconds * 1.09));
  report::add_fact(doc, "model TFLOP/s per GPU", a.tflops_per_gpu, "TFLOP/s",
                   fmt::format("MFU {:.1f}%", a.mfu * 100));
  report::add_fact(doc, "tokens", a.tokens_s_per_gpu, "1/s per GPU");
  double joules = a.joules / (q.global_batch * q.sequence);
  report::add_fact(doc, "energy", joules, "J per token",
                   fmt::format("{:.3g} to {:.3g}", joules * 0.8, joules * 1.25));
  report::add_fact(doc, "parameters", a.parameters, "",
                   a.trainable < a.parameters ? fmt::format("{:.0f} trainable", a.trainable) : "");
  report::add_fact(doc, "operations recomputed", (a.hardware_flops / a.model_flops - 1) * 100, "%");
  report::add_fact(doc, "plan", plan_text(plan));
  Json& table = report::add_table(doc, "time of an iteration", {{"what", ""}, {"seconds", "s"}});
  auto row = [&](std::string what, double seconds) {
    table["rows"].push_back(Json::array({std::move(what), seconds}));
  };
  row("operators", a.compute - a.tensor_comm);
  row("tensor-parallel communication", a.tensor_comm);
  row("pipeline bubble", a.bubble);
  row("pipeline communication", a.pipeline_comm);
  row("data-parallel communication", a.data_comm);
  row("optimizer", a.optimizer);
  row("other tiers", a.offload);
  memory_sections(doc, a.items, a.capacity);
  assumptions(doc, graph, cluster);
  return doc;
}

std::string why(const Json& document, const std::string& what) {
  auto lower = [](std::string s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
    return s;
  };
  std::string names;
  for (const Json& fact : document["facts"]) {
    std::string name = fact["name"].get<std::string>();
    if (fact.contains("why")) names += (names.empty() ? "" : ", ") + name;
    if (lower(name).find(lower(what)) == std::string::npos) continue;
    if (!fact.contains("why"))
      base::fail("'{}' is not a sum of ledger lines: {} {}", name, fact["value"].dump(),
                 fact["unit"].get<std::string>());
    for (const Json& section : document["sections"]) {
      if (section["title"] != fact["why"]["table"] || !section.contains("columns")) continue;
      std::size_t column = 0;
      while (section["columns"][column]["name"] != fact["why"]["column"]) ++column;
      double sum = 0;
      for (const Json& row : section["rows"]) sum += row[column].get<double>();
      Json small = report::document(
          fmt::format("{} = {:.6g} {}", name, fact["value"].get<double>(), fact["unit"].get<std::string>()));
      small["sections"].push_back(section);
      for (const Json& other : document["sections"])
        if (other["title"] == "decode step" && name == "TPOT") small["sections"].push_back(other);
      return report::to_text(small) +
             fmt::format("  sum of {}: {:.6g}\n", fact["why"]["column"].get<std::string>(), sum);
    }
  }
  base::fail("no fact '{}'; facts that are sums: {}", what, names);
}

}  // namespace orrery::tools
