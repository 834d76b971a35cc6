// Ledgers of a step or an iteration as sections: lines, totals, sliders, roofline. Timelines: model_timelines.h.
#include "tools/model_ledgers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tools/model_timelines.h"

namespace orrery::tools {

using namespace graph;

namespace {

std::string arithmetic(const ProgramOp& op, const Rates& r) {
  bool product = op.kind == OpKind::kContract || op.kind == OpKind::kAttend || op.kind == OpKind::kKernel;
  if (!product) return "fp32, element by element";
  if (op.kind == OpKind::kAttend) return "bf16 products";
  if (tensor_peak(op.format, r) == r.peak16)
    return op.format == Format::kTf32 ? "tf32 products" : "bf16 products";
  return std::string(format_name(op.format)) + " products";
}

Shown shown(const ProgramOp& op, const Line& line, const StepLedgers& s) {
  Shown l{op, line, time_of(op, line, s.binding, s.rates), {}, {}, "", true};
  l.joules = joules_of(op, line, l.time, s.rates);
  l.away = elsewhere(op, line, s.program.plan.place, s.rates);
  l.line.times *= op.stages;
  if (op.collective != Collective::kNone)
    l.time.seconds *= s.time.shown, l.time.link *= s.time.shown, l.time.fixed *= s.time.shown;
  return l;
}

// The sections of a list of lines.
class Sections {
 public:
  Sections(Json& doc, const Program& program, const Rates& rates, std::vector<Shown> lines)
      : doc_(doc), program_(program), r_(rates), lines_(std::move(lines)) {}

  double table(const char* title);
  void totals(const char* who, double idle_joules);
  // The lines that the page recomputes; returns the joules of all.
  double sliders(Json& section, const char* result) const;
  void roofline(const char* title);
  const std::vector<Shown>& lines() const { return lines_; }

 private:
  Json& doc_;
  const Program& program_;
  const Rates& r_;
  std::vector<Shown> lines_;
};

double Sections::table(const char* title) {
  bool training = !lines_.empty() && !lines_.front().pass.empty();
  Json& table = report::add_table(doc_, title,
                                  {{"operator", ""},
                                   {"part", ""},
                                   {"format", ""},
                                   {"times", ""},
                                   {"bound", ""},
                                   {"operations", ""},
                                   {"weight", "B"},
                                   {"state", "B"},
                                   {"activation", "B"},
                                   {"link", "B"},
                                   {"energy", "J"},
                                   {"seconds", "s"}});
  double seconds = 0;
  for (const Shown& l : lines_) {
    if (l.time.seconds == 0 && l.line.ops == 0 && l.op.narrows != Format::kBf16) continue;
    double times = l.line.times;
    seconds += l.time.seconds * times;
    std::string name = program_.graph->blocks[l.op.block].name + "." + line_name(program_, l.op);
    if (training) name += fmt::format(", {}", l.pass);
    table["rows"].push_back({name, std::string(name_of(l.op.part)), std::string(format_name(l.op.format)),
                             times, std::string(name_of(l.time.bound)), l.line.ops * times,
                             l.line.weight * times, l.line.state * times, l.line.activation * times,
                             l.line.link * times, l.joules.total() * times, l.time.seconds * times});
  }
  return seconds;
}

// The four ledgers, each a sum over the lines.
void Sections::totals(const char* who, double idle_joules) {
  std::map<std::string, double> ops, link, joules;
  std::map<std::pair<std::string, std::string>, double> bytes;
  for (const Shown& l : lines_) {
    double times = l.line.times;
    ops[arithmetic(l.op, r_)] += l.line.ops * times;
    auto add = [&](const char* cls, Tier tier, double n) {
      if (n > 0) bytes[{cls, std::string(name_of(tier))}] += n * times;
    };
    add("weight", Tier::kDevice, l.line.weight - l.away.weight);
    add("weight", l.away.weight_tier, l.away.weight);
    add("state", Tier::kDevice, l.line.state - l.away.state), add("state", l.away.state_tier, l.away.state);
    add("activation", Tier::kDevice, l.line.activation);
    if (l.line.link > 0)
      link[fmt::format("{}, {} over {}", l.op.span > r_.per_host ? "network" : "NVLink",
                       name_of(l.op.collective), l.op.group)] += l.line.link * times;
    joules["operations: " + arithmetic(l.op, r_)] += l.joules.ops * times;
    joules["bytes of device memory"] += l.joules.bytes * times;
    joules["bytes over links"] += l.joules.link * times;
  }
  Json& moved =
      report::add_table(doc_, "bytes by class and tier", {{"class", ""}, {"tier", ""}, {"bytes", "B"}});
  for (const auto& [key, n] : bytes) moved["rows"].push_back({key.first, key.second, n});
  Json& done = report::add_table(doc_, "operations by format", {{"format", ""}, {"operations", ""}});
  for (const auto& [key, n] : ops)
    if (n > 0) done["rows"].push_back(Json::array({key, n}));
  Json& links = report::add_table(doc_, "bytes by link", {{"link", ""}, {"payload", "B"}});
  for (const auto& [key, n] : link) links["rows"].push_back(Json::array({key, n}));
  Json& spent = report::add_table(doc_, who, {{"use", ""}, {"joules", "J"}});
  for (const auto& [key, n] : joules)
    if (n > 0) spent["rows"].push_back(Json::array({key, n}));
  spent["rows"].push_back(Json::array({fmt::format("idle power, {:.0f} W", r_.idle_watts), idle_joules}));
}

double Sections::sliders(Json& section, const char* result) const {
  section["title"] = "what if";
  section["model"] = "ledger";
  section["result"] = result;
  section["rates"] = Json::array({"memory bandwidth", "matrix products", "links", "kernel launches"});
  section["lines"] = Json::array();
  double joules = 0;
  for (const Shown& l : lines_) {
    joules += l.joules.total() * l.line.times;
    if (l.time.seconds == 0) continue;
    section["lines"].push_back({{"times", l.line.times},
                                {"seconds", {l.time.memory, l.time.compute, l.time.link}},
                                {"fixed", l.time.fixed},
                                {"both", l.time.both}});
  }
  section["joules"] = joules, section["limit"] = r_.limit_watts, section["idle"] = r_.idle_watts;
  return joules;
}

void Sections::roofline(const char* title) {
  Json section, points = {{"name", "operators"},
                          {"points", true},
                          {"x", Json::array()},
                          {"y", Json::array()},
                          {"labels", Json::array()}};
  section["title"] = title;
  section["chart"] = "roofline";
  section["log"] = true;
  section["x"] = "operations per byte";
  section["y"] = "TFLOP/s";
  for (const Shown& l : lines_) {
    double bytes = l.line.weight + l.line.state + l.line.activation;
    if (l.line.ops <= 0 || bytes <= 0 || l.time.seconds <= 0) continue;
    points["x"].push_back(l.line.ops / bytes);
    points["y"].push_back(l.line.ops / l.time.seconds / 1e12);
    points["labels"].push_back(line_name(program_, l.op) + (l.pass.empty() ? "" : ", ") +
                               std::string(l.pass));
  }
  double corner = r_.peak16 / r_.memory_peak;
  section["series"] = {{{"name", "limit"},
                        {"x", {corner / 1000, corner, corner * 30}},
                        {"y", {r_.memory_peak * corner / 1000 / 1e12, r_.peak16 / 1e12, r_.peak16 / 1e12}}},
                       points};
  doc_["sections"].push_back(std::move(section));
}

}  // namespace

double add_step_ledgers(Json& document, const StepLedgers& s, const char* title, const char* result,
                        double other, double divisor) {
  std::vector<Shown> lines;
  for (const Line& line : s.ledger.lines) lines.push_back(shown(s.program.ops[line.op], line, s));
  Sections sections(document, s.program, s.rates, std::move(lines));
  double seconds = sections.table(title);
  double idle = s.time.seconds * s.rates.idle_watts * s.program.plan.pp;
  sections.totals("joules of the step, one tensor-parallel rank of each stage", idle);
  Json section;
  double joules = sections.sliders(section, result);
  section["fetch"] = s.time.fetch, section["hidden"] = s.program.plan.overlap_prefetch;
  section["other"] = other, section["divisor"] = divisor;
  double kernels = std::max(seconds + s.time.exposed,
                            joules / (s.rates.limit_watts - s.rates.idle_watts));
  section["given"] = (kernels + other) / divisor;
  document["sections"].push_back(std::move(section));
  sections.roofline("roofline of the step");
  document["sections"].push_back(step_timeline(s.program, s.rates, title, sections.lines()));
  return seconds;
}

void add_training_ledgers(Json& document, const TrainAnswer& a, double micro_batches) {
  std::vector<Shown> lines;
  for (const TrainLine& l : a.lines)
    lines.push_back({a.program.ops[l.line.op], l.line, l.time, l.joules, {}, name_of(l.pass), l.layer});
  Sections sections(document, a.program, a.rates, std::move(lines));
  sections.table("operators of an iteration");
  sections.totals("joules of the operators of one rank", (a.compute + a.power) * a.rates.idle_watts);
  for (Json& table : document["sections"])
    if (table["title"] == "bytes by link") {
      if (a.data_bytes > 0)
        table["rows"].push_back({"between data-parallel ranks: gradients, gathered weights", a.data_bytes});
      if (a.pipeline_bytes > 0) table["rows"].push_back({"between stages: activations", a.pipeline_bytes});
    }
  Json section;
  sections.sliders(section, "iteration");
  // The bubble is a share of the layers' time; communication outside the layers has its own line.
  std::size_t k = 0;
  for (const Shown& l : sections.lines())
    if (l.time.seconds != 0) section["lines"][k++]["around"] = l.layer ? a.bubble_share : 0;
  double between = a.pipeline_comm + a.data_comm;
  section["lines"].push_back({{"times", 1},
                              {"seconds", {0, 0, between - a.between_fixed}},
                              {"fixed", a.between_fixed},
                              {"both", false},
                              {"outside", true}});
  section["lines"].push_back(
      {{"times", 1}, {"seconds", {a.optimizer, 0, 0}}, {"fixed", 0}, {"both", false}, {"outside", true}});
  section["fetch"] = 0, section["hidden"] = 0, section["other"] = a.offload, section["divisor"] = 1;
  section["given"] = a.seconds;
  document["sections"].push_back(std::move(section));
  sections.roofline("roofline of the iteration");
  document["sections"].push_back(micro_batch_timeline(a, micro_batches));
  document["sections"].push_back(iteration_timeline(a));
}

void add_fact_of(Json& document, const char* name, double value, const char* unit, const char* table,
                 const char* column, std::string note, std::string formula) {
  report::add_fact(document, name, value, unit, std::move(note));
  document["facts"].back()["why"] = {{"table", table}, {"column", column}};
  if (!formula.empty()) document["facts"].back()["why"]["formula"] = std::move(formula);
}

void add_fact_of(Json& document, const char* name, bool fits, const char* table, std::string note) {
  report::add_fact(document, name, fits ? "yes" : "no", "", std::move(note));
  document["facts"].back()["why"] = {
      {"table", table}, {"column", "GiB"}, {"formula", "the sum of the items against the GPU's memory"}};
}

}  // namespace orrery::tools
