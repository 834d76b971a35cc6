// Inference and training answers as documents, and `why`.
#include "tools/model_documents.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "graph/verbs.h"
#include "tools/model_ledgers.h"

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

void assumptions(Json& doc, const Graph& graph, const Cluster& cluster, const Plan& plan, Question question) {
  for (const std::string& verb : plan.verbs)
    if (!matters(verb, question))
      doc["assumptions"].push_back(fmt::format("'{}' changes nothing that this question asks for", verb));
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

namespace {

// What each token, and a sequence of the context, keep between steps, tensor by tensor.
void state_table(Json& doc, const Graph& graph, const Plan& plan, double context, double whole) {
  Json& table = report::add_table(
      doc, "state of one rank",
      {{"tensor", ""}, {"format", ""}, {"bytes per token", "B"}, {"bytes per sequence", "B"}});
  Program program = compile(graph, plan);
  double held = plan.kv_keep_tokens > 0 ? std::min(context, plan.kv_keep_tokens) : context, sum = 0;
  for (const auto& [id, form] : program.states) {
    Binding b;
    b[kSeqs] = 1, b[kKeys] = held, b[kKeysWindow] = std::min(held, graph.window);
    const Tensor& t = graph.tensors[id];
    sum += form.at(b);
    table["rows"].push_back(
        {t.name, std::string(format_name(t.dtype.format)), form.coefficient[kKeys], form.at(b)});
  }
  if (whole > sum) table["rows"].push_back({"empty part of the last page", "", 0.0, whole - sum});
}

}  // namespace

Json fit_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const FitAnswer& a,
                  double batch, double context) {
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
    add_fact_of(doc, "sequences that fit", a.max_sequences, "per data-parallel rank", "memory", "GiB", "",
                "the capacity less what is no KV cache, over the KV bytes per sequence, rounded down");
    if (batch > 0 && a.max_context >= kAnyContext)
      report::add_fact(doc, "longest context", "any length", "",
                       fmt::format("at batch {:.0f} no length fills the GPU", batch));
    else if (batch > 0)
      add_fact_of(doc, "longest context", a.max_context, "tokens", "memory", "GiB",
                  fmt::format("at batch {:.0f}", batch),
                  "the longest whose state, in whole pages, fits into the capacity less what is no KV cache");
  }
  report::add_fact(doc, "plan", plan_text(plan));
  memory_sections(doc, a.items, a.capacity);
  if (a.kv_bytes_per_sequence > 0) state_table(doc, graph, plan, context, a.kv_bytes_per_sequence);
  memory_timeline(doc, graph, plan, a, batch, context);
  if (!a.advice.empty()) {
    report::add_notes(doc, "what to change", {});
    for (const std::string& advice : a.advice) doc["sections"].back()["notes"].push_back(advice);
  }
  assumptions(doc, graph, cluster, plan, Question::kFit);
  return doc;
}

namespace {

void serve_tables(Json& doc, const Plan& plan, const ServeQuestion& q, const ServeAnswer& a,
                  const StepTime& one, double kernels) {
  auto fill = [](Json& table, std::initializer_list<std::pair<std::string, double>> rows) {
    for (const auto& [what, seconds] : rows)
      if (seconds > 1e-12) table["rows"].push_back(Json::array({what, seconds * 1e3}));
  };
  double n = a.tokens_a_step, limited = one.power * plan.pp, fetched = one.exposed * plan.pp;
  double hops = a.decode.seconds - one.seconds * plan.pp;
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

void energy_table(Json& doc, const StepPredictor& p, const Plan& plan, const ServeQuestion& q,
                  const ServeAnswer& a) {
  LineJoules sum;
  Rates r = under_plan(plan, p.rates());
  for (const Line& line : p.ledger().lines) {
    const ProgramOp& op = p.program().ops[line.op];
    LineJoules j = joules_of(op, line, time_of(op, line, p.binding(), r), r);
    sum.ops += j.ops * line.times, sum.bytes += j.bytes * line.times, sum.link += j.link * line.times;
  }
  double ranks = plan.tp * plan.pp, share = ranks / std::max(1.0, a.batch) / a.tokens_a_step;
  Json& table = report::add_table(doc, "energy per output token", {{"what", ""}, {"joules", "J"}});
  auto row = [&](const char* what, double joules) { table["rows"].push_back(Json::array({what, joules})); };
  row("operations of the decode step", sum.ops * share);
  row("bytes of device memory of the decode step", sum.bytes * share);
  row("bytes over links of the decode step", sum.link * share);
  row("idle power over the decode step", (a.decode.joules - sum.total()) * share);
  row("prefill of the request, shared by its tokens", a.prefill_joules / q.output * ranks);
  row("idle power while the engine is between steps",
      r.idle_watts * q.engine.step_seconds / std::max(1.0, a.batch) * plan.tp);
  if (a.split_joules > 0) row("idle power of the GPUs that only prefill", a.split_joules);
}

}  // namespace

Json encode_document(const Graph& graph, const Plan& plan, const Cluster& cluster, double sequences,
                     double tokens) {
  Json doc = report::document(fmt::format("encode: {} on {} x {}, {:.4g} sequences of {:.0f}", graph.name,
                                          cluster.gpus, cluster.gpu.id(), sequences, tokens));
  StepPredictor p(graph, plan, cluster);
  StepShape s;
  s.prefill_seqs = std::ceil(sequences / plan.dp), s.prefill_tokens = s.prefill_seqs * tokens,
  s.causal = false;
  StepTime all = p.step(s), one = schedule(p.program(), p.ledger(), p.binding(), p.rates());
  Json scratch = report::document("");
  double kernels = add_step_ledgers(
      scratch,
      {p.program(), p.ledger(), p.binding(), under_plan(plan, p.rates()), one, static_cast<double>(plan.pp)},
      "forward pass", "time of a batch", all.seconds - one.seconds * plan.pp, 1);
  add_fact_of(doc, "time of a batch", all.seconds * 1e3, "ms", "time of a batch", "milliseconds",
              fmt::format("{:.3g} to {:.3g} ms", all.seconds * 0.8e3, all.seconds * 1.35e3));
  add_fact_of(doc, "sequences", sequences / all.seconds, "1/s", "time of a batch", "milliseconds", "",
              "the batch over its time");
  report::add_fact(doc, "energy", one.joules * plan.tp * plan.pp * plan.dp / sequences, "J per sequence");
  report::add_fact(doc, "MFU", 100 * one.ops / one.seconds / p.rates().peak16, "%");
  report::add_fact(doc, "plan", plan_text(plan));
  Json& table = report::add_table(doc, "time of a batch", {{"what", ""}, {"milliseconds", "ms"}});
  table["rows"].push_back(Json::array({"operators of the forward pass", kernels * 1e3}));
  if (all.seconds - kernels > 1e-12)
    table["rows"].push_back(
        Json::array({"power limit, transfers, hops between stages", (all.seconds - kernels) * 1e3}));
  for (Json& section : scratch["sections"]) doc["sections"].push_back(std::move(section));
  assumptions(doc, graph, cluster, plan, Question::kServe);
  return doc;
}

Json serve_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q,
                    const ServeAnswer& a, const FitAnswer& memory) {
  Json doc = report::document(fmt::format("serve: {} on {} x {}, {:.0f} in, {:.0f} out, {:.4g} at a time",
                                          graph.name, cluster.gpus, cluster.gpu.id(), q.input, q.output,
                                          q.concurrency));
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
  add_fact_of(doc, "fits", memory.fits, "memory",
              fmt::format("{:.1f} of {:.1f} GiB at full batch", memory.total / kGiB, memory.capacity / kGiB));
  report::add_fact(doc, "plan", plan_text(plan));
  Plan laid = under(plan, q.engine);
  StepPredictor p(graph, laid, cluster);
  StepShape decode;
  decode.decode_seqs = a.batch;
  decode.decode_context = q.input + q.output / 2;
  if (plan.kv_keep_tokens > 0)
    decode.decode_context = std::min(decode.decode_context, plan.kv_keep_tokens + q.output / 2);
  if (plan.draft_tokens > 0)
    decode.prefill_seqs = a.batch, decode.prefill_tokens = a.batch * plan.draft_tokens,
    decode.prefill_context = decode.decode_context;
  p.step(decode);
  StepTime one = schedule(p.program(), p.ledger(), p.binding(), p.rates());
  Json scratch = report::document("");
  double other = a.tpot * a.tokens_a_step - one.seconds * plan.pp;
  double kernels = add_step_ledgers(
      scratch,
      {p.program(), p.ledger(), p.binding(), under_plan(laid, p.rates()), one, static_cast<double>(plan.pp)},
      "decode step", "TPOT", other, a.tokens_a_step);
  serve_tables(doc, plan, q, a, one, kernels);
  energy_table(doc, p, plan, q, a);
  for (Json& section : scratch["sections"]) doc["sections"].push_back(std::move(section));
  memory_sections(doc, memory.items, memory.capacity);
  assumptions(doc, graph, cluster, plan, Question::kServe);
  if (q.engine.step_seconds > 0)
    doc["assumptions"].push_back(fmt::format("engine {}: {:.1f} ms a step, {:.0f} ms a request ({})",
                                             q.engine.name, q.engine.step_seconds * 1e3,
                                             q.engine.request_seconds * 1e3, q.engine.source));
  return doc;
}

namespace {

// Memory over one iteration of the first stage: activations grow through the forward pass, the loss or a
// recomputed layer comes on top, and the backward pass frees them.
void training_timeline(Json& doc, const TrainAnswer& a) {
  double kept = 0, working = 0;
  bool first = true;
  for (const MemoryItem& item : a.items) {
    if (item.cls != TensorClass::kActivation) continue;
    (first ? kept : working) += item.bytes;
    first = false;
  }
  double rest = a.total - kept - working;
  Json live = {{"name", "in use"}, {"x", Json::array()}, {"y", Json::array()}}, limit = live;
  limit["name"] = "capacity";
  auto point = [&](double x, double bytes) {
    live["x"].push_back(x), live["y"].push_back(bytes / kGiB);
    limit["x"].push_back(x), limit["y"].push_back(a.capacity / kGiB);
  };
  constexpr int kPoints = 16;
  for (int i = 0; i <= kPoints; ++i) point(50.0 * i / kPoints, rest + kept * i / kPoints);
  for (int i = kPoints; i >= 0; --i) point(100 - 50.0 * i / kPoints, rest + kept * i / kPoints + working);
  point(100, rest);
  doc["sections"].push_back({{"title", "memory over one iteration"},
                             {"chart", "lines"},
                             {"x", "forward, then backward pass [%]"},
                             {"y", "GiB"},
                             {"series", Json::array({live, limit})}});
}

}  // namespace

namespace {

// What would make an iteration fit, largest class first.
void training_advice(Json& doc, const Plan& plan, const TrainAnswer& a) {
  if (a.fits) return;
  report::add_notes(doc, "what to change", {});
  auto note = [&doc](std::string text) { doc["sections"].back()["notes"].push_back(std::move(text)); };
  std::map<TensorClass, double> by;
  for (const MemoryItem& item : a.items) by[item.cls] += item.bytes / kGiB;
  note(fmt::format("{:.1f} GiB too much", (a.total - a.capacity) / kGiB));
  if (by[TensorClass::kActivation] > 0.3 * a.total / kGiB && plan.recompute != RecomputePolicy::kFull)
    note(fmt::format("--recompute full keeps the layers' inputs only, of {:.1f} GiB of activations",
                     by[TensorClass::kActivation]));
  if (plan.dp * plan.cp > 1 && plan.zero < 3)
    note(fmt::format("--zero {} divides more of {:.1f} GiB of weights, gradients and optimizer over {} ranks",
                     plan.zero + 1,
                     by[TensorClass::kWeight] + by[TensorClass::kGradient] + by[TensorClass::kOptimizer],
                     plan.dp * plan.cp));
  if (plan.zero == 0 && plan.dp * plan.cp == 1)
    note("more GPUs (--gpu NAME:N with --tp, --pp or --zero) divide weights and states");
  if (plan.place.optimizer == Tier::kDevice)
    note(fmt::format("--do 'place optimizer host' frees {:.1f} GiB", by[TensorClass::kOptimizer]));
}

}  // namespace

Json train_document(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q,
                    const TrainAnswer& a) {
  Json doc = report::document(fmt::format("train: {} on {} x {}, {:.0f} sequences of {:.0f}", graph.name,
                                          cluster.gpus, cluster.gpu.id(), q.global_batch, q.sequence));
  add_fact_of(doc, "fits", a.fits, "memory");
  add_fact_of(doc, "peak memory", a.total / kGiB, "GiB", "memory", "GiB",
              fmt::format("of {:.1f} GiB; {:.1f} to {:.1f}: published runs came out within 5%",
                          a.capacity / kGiB, a.total * 0.95 / kGiB, a.total * 1.05 / kGiB));
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
  report::add_fact(doc, "plan", plan_text(plan));
  Json& table = report::add_table(doc, "time of an iteration", {{"what", ""}, {"seconds", "s"}});
  auto row = [&](std::string what, double seconds) {
    table["rows"].push_back(Json::array({std::move(what), seconds}));
  };
  row("operators", a.compute - a.tensor_comm);
  row(plan.cp > 1 ? "tensor- and context-parallel communication" : "tensor-parallel communication", a.tensor_comm);
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
  memory_sections(doc, a.items, a.capacity);
  training_timeline(doc, a);
  add_training_ledgers(doc, a, q.global_batch / (q.micro_batch * plan.dp));
  training_advice(doc, plan, a);
  assumptions(doc, graph, cluster, plan, Question::kTrain);
  return doc;
}

namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

std::string explained(const Json& document, const Json& fact) {
  const Json& why = fact["why"];
  std::string name = fact["name"].get<std::string>(), unit = fact["unit"].get<std::string>(),
              column = why["column"].get<std::string>();
  for (const Json& section : document["sections"]) {
    if (section["title"] != why["table"] || !section.contains("columns")) continue;
    std::size_t at = 0;
    while (section["columns"][at]["name"] != column) ++at;
    double sum = 0;
    for (const Json& row : section["rows"])
      if (row[at].is_number()) sum += row[at].get<double>();
    std::string value = fact["value"].is_number() ? fmt::format("{:.6g}", fact["value"].get<double>())
                                                  : fact["value"].get<std::string>();
    Json small = report::document(fmt::format("{} = {}{}{}", name, value, unit.empty() ? "" : " ", unit));
    small["sections"].push_back(section);
    for (const Json& other : document["sections"])
      if (other["title"] == "decode step" && (name == "TPOT" || name == "energy"))
        small["sections"].push_back(other);
    std::string out = report::to_text(small);
    if (why.contains("formula")) return out + "  " + why["formula"].get<std::string>() + "\n";
    return out + fmt::format("  sum of {}: {:.6g}\n", column, sum);
  }
  base::fail("the report has no table '{}'", why["table"].get<std::string>());
}

}  // namespace

std::string why(const Json& document, const std::string& what) {
  std::string names;
  const Json* found = nullptr;
  for (const Json& fact : document["facts"]) {
    std::string name = fact["name"].get<std::string>();
    if (fact.contains("why")) names += (names.empty() ? "" : ", ") + name;
    bool same = lower(name) == lower(what);
    if (same || (!found && fact.contains("why") && lower(name).find(lower(what)) != std::string::npos))
      found = &fact;
    if (same) break;
  }
  if (!found)
    base::fail("no number '{}' with ledger lines in the last report ({}); it has: {}", what,
               document["title"].get<std::string>(), names.empty() ? "none" : names);
  if (!found->contains("why"))
    base::fail("'{}' is not made of ledger lines: {} {}; these are: {}", (*found)["name"].get<std::string>(),
               (*found)["value"].dump(), (*found)["unit"].get<std::string>(), names);
  return explained(document, *found);
}

}  // namespace orrery::tools
