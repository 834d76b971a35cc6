#include "tools/model_ledgers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace orrery::tools {

using namespace graph;

namespace {

std::string line_name(const Program& program, const ProgramOp& op) {
  std::string name = program.graph->ops[op.op].name;
  if (op.collective != Collective::kNone)
    return name + fmt::format(" ({} over {})", name_of(op.collective), op.group);
  if (op.narrows != Format::kBf16) return name + fmt::format(" (to {})", format_name(op.narrows));
  return name;
}

std::string arithmetic(const ProgramOp& op, const Rates& r) {
  if (op.kind != OpKind::kContract && op.kind != OpKind::kAttend) return "fp32, element by element";
  if (op.kind == OpKind::kAttend) return "bf16 products";
  if (tensor_peak(op.format, r) == r.peak16)
    return op.format == Format::kTf32 ? "tf32 products" : "bf16 products";
  return std::string(format_name(op.format)) + " products";
}

// Which of a GPU's resources an operator holds longest.
const char* resource(const ProgramOp& op, const LineTime& t, const Rates& r) {
  if (op.collective != Collective::kNone) return op.group > r.per_host ? "network" : "links";
  return t.bound == Bound::kCompute ? "compute" : "memory";
}

class StepSections {
 public:
  StepSections(Json& doc, const StepLedgers& step) : doc_(doc), s_(step), r_(step.rates) {}

  double add(const char* title, const char* result, double other, double divisor) {
    lines(title);
    totals();
    sliders(result, other, divisor);
    roofline();
    timeline(title);
    return seconds_;
  }

 private:
  template <class Visit>
  void each(Visit visit) const {
    for (const Line& line : s_.ledger.lines) {
      const ProgramOp& op = s_.program.ops[line.op];
      visit(line, op, time_of(op, line, s_.binding, r_));
    }
  }
  double shown(const ProgramOp& op, const LineTime& t) const {
    return t.seconds * (op.collective != Collective::kNone ? 1 - s_.program.plan.overlap_tp : 1);
  }

  void lines(const char* title) {
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
    each([&](const Line& line, const ProgramOp& op, const LineTime& t) {
      double times = line.times * s_.stages;
      if (t.seconds == 0 && line.ops == 0 && op.narrows != Format::kBf16) return;
      seconds_ += shown(op, t) * times;
      table["rows"].push_back({s_.program.graph->blocks[op.block].name + "." + line_name(s_.program, op),
                               std::string(name_of(op.part)), std::string(format_name(op.format)), times,
                               std::string(name_of(t.bound)), line.ops * times, line.weight * times,
                               line.state * times, line.activation * times, line.link * times,
                               joules_of(op, line, t, r_).total() * times, shown(op, t) * times});
    });
  }

  // The four ledgers of the step, each a sum over the lines above.
  void totals() {
    std::map<std::string, double> ops, link, joules;
    std::map<std::pair<std::string, std::string>, double> bytes;
    each([&](const Line& line, const ProgramOp& op, const LineTime& t) {
      double times = line.times * s_.stages;
      ops[arithmetic(op, r_)] += line.ops * times;
      Elsewhere e = elsewhere(op, line, s_.program.plan.place, r_);
      auto add = [&](const char* cls, Tier tier, double n) {
        if (n > 0) bytes[{cls, std::string(name_of(tier))}] += n * times;
      };
      add("weight", Tier::kDevice, line.weight - e.weight), add("weight", e.weight_tier, e.weight);
      add("state", Tier::kDevice, line.state - e.state), add("state", e.state_tier, e.state);
      add("activation", Tier::kDevice, line.activation);
      if (line.link > 0)
        link[fmt::format("{}, {} over {}", op.group > r_.per_host ? "network" : "NVLink",
                         name_of(op.collective), op.group)] += line.link * times;
      LineJoules j = joules_of(op, line, t, r_);
      joules["operations: " + arithmetic(op, r_)] += j.ops * times;
      joules["bytes of device memory"] += j.bytes * times;
      joules["bytes over links"] += j.link * times;
    });
    Json& moved =
        report::add_table(doc_, "bytes by class and tier", {{"class", ""}, {"tier", ""}, {"bytes", "B"}});
    for (const auto& [key, n] : bytes) moved["rows"].push_back({key.first, key.second, n});
    Json& done = report::add_table(doc_, "operations by format", {{"format", ""}, {"operations", ""}});
    for (const auto& [key, n] : ops)
      if (n > 0) done["rows"].push_back(Json::array({key, n}));
    Json& links = report::add_table(doc_, "bytes by link", {{"link", ""}, {"payload", "B"}});
    for (const auto& [key, n] : link) links["rows"].push_back(Json::array({key, n}));
    Json& spent = report::add_table(doc_, "joules of the step, one tensor-parallel rank",
                                    {{"use", ""}, {"joules", "J"}});
    for (const auto& [key, n] : joules)
      if (n > 0) spent["rows"].push_back(Json::array({key, n}));
    spent["rows"].push_back(
        Json::array({fmt::format("idle power, {:.0f} W", r_.idle_watts), s_.time.seconds * r_.idle_watts}));
  }

  void sliders(const char* result, double other, double divisor) {
    Json section;
    section["title"] = "what if";
    section["model"] = "ledger";
    section["result"] = result;
    section["rates"] = Json::array({"memory bandwidth", "matrix products", "links", "kernel launches"});
    section["lines"] = Json::array();
    double joules = 0;
    each([&](const Line& line, const ProgramOp& op, const LineTime& t) {
      double times = line.times * s_.stages;
      joules += joules_of(op, line, t, r_).total() * times;
      if (t.seconds == 0) return;
      section["lines"].push_back(
          {{"times", times * (op.collective != Collective::kNone ? 1 - s_.program.plan.overlap_tp : 1)},
           {"seconds", {t.memory, t.compute, t.link}},
           {"fixed", t.fixed},
           {"both", t.both}});
    });
    section["fetch"] = s_.time.fetch * s_.stages, section["hidden"] = s_.program.plan.overlap_prefetch;
    section["joules"] = joules, section["limit"] = r_.limit_watts, section["idle"] = r_.idle_watts;
    section["other"] = other, section["divisor"] = divisor;
    double kernels =
        std::max(seconds_ + s_.time.exposed * s_.stages, joules / (r_.limit_watts - r_.idle_watts));
    section["given"] = (kernels + other) / divisor;
    doc_["sections"].push_back(std::move(section));
  }

  void roofline() {
    Json section, points = {{"name", "operators"},
                            {"points", true},
                            {"x", Json::array()},
                            {"y", Json::array()},
                            {"labels", Json::array()}};
    section["title"] = "roofline of the step";
    section["chart"] = "roofline";
    section["log"] = true;
    section["x"] = "operations per byte";
    section["y"] = "TFLOP/s";
    each([&](const Line& line, const ProgramOp& op, const LineTime& t) {
      double bytes = line.weight + line.state + line.activation;
      if (line.ops <= 0 || bytes <= 0 || t.seconds <= 0) return;
      points["x"].push_back(line.ops / bytes);
      points["y"].push_back(line.ops / t.seconds / 1e12);
      points["labels"].push_back(line_name(s_.program, op));
    });
    double corner = r_.peak16 / r_.memory_peak;
    section["series"] = {{{"name", "limit"},
                          {"x", {corner / 1000, corner, corner * 30}},
                          {"y", {r_.memory_peak * corner / 1000 / 1e12, r_.peak16 / 1e12, r_.peak16 / 1e12}}},
                         points};
    doc_["sections"].push_back(std::move(section));
  }

  // Every operator of the step in its order, layer after layer of one stage; transfers from other tiers
  // beside them.
  void timeline(const char* title) {
    Json section;
    section["title"] = fmt::format("timeline: {}", title);
    section["timeline"] = Json::array();
    double clock = 0, copied = 0;
    const auto& lines = s_.ledger.lines;
    for (std::size_t i = 0; i < lines.size();) {
      std::size_t end = i;
      std::uint32_t block = s_.program.ops[lines[i].op].block;
      while (end < lines.size() && s_.program.ops[lines[end].op].block == block) ++end;
      double repeat = std::max(1.0, lines[i].times);
      for (double layer = 0; layer < repeat; ++layer)
        for (std::size_t k = i; k < end; ++k) {
          const ProgramOp& op = s_.program.ops[lines[k].op];
          LineTime t = time_of(op, lines[k], s_.binding, r_);
          double seconds = shown(op, t) * lines[k].times / repeat;
          if (seconds > 0) event(section, line_name(s_.program, op), resource(op, t, r_), clock, seconds);
          clock += seconds;
          Elsewhere e = elsewhere(op, lines[k], s_.program.plan.place, r_);
          double fetch = e.seconds() * lines[k].times / repeat;
          bool host = s_.program.plan.place.compute_follows;
          Tier tier = e.weight > 0 ? e.weight_tier : e.state_tier;
          if (fetch > 0)
            event(section, line_name(s_.program, op),
                  host                  ? "host"
                  : tier == Tier::kNvme ? "storage"
                                        : "copy engine",
                  copied, fetch);
          copied += fetch;
        }
      i = end;
    }
    doc_["sections"].push_back(std::move(section));
  }
  static void event(Json& section, std::string name, const char* where, double start, double seconds) {
    section["timeline"].push_back(
        {{"name", std::move(name)}, {"resource", where}, {"start", start}, {"seconds", seconds}});
  }

  Json& doc_;
  const StepLedgers& s_;
  const Rates& r_;
  double seconds_ = 0;
};

}  // namespace

double add_step_ledgers(Json& document, const StepLedgers& step, const char* title, const char* result,
                        double other, double divisor) {
  return StepSections(document, step).add(title, result, other, divisor);
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
