// Timelines of the model scale, operator by operator.
#include "tools/model_timelines.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::tools {

using namespace graph;

std::string line_name(const Program& program, const ProgramOp& op) {
  std::string name = program.graph->ops[op.op].name;
  if (op.collective != Collective::kNone)
    return name + fmt::format(" ({} over {})", name_of(op.collective), op.group);
  if (op.narrows != Format::kBf16) return name + fmt::format(" (to {})", format_name(op.narrows));
  if (op.pass) return name + fmt::format(" ({})", op.pass);
  return name;
}

namespace {

// Which of a GPU's resources an operator holds longest.
const char* resource(const ProgramOp& op, const LineTime& t, const Rates& r) {
  if (op.collective != Collective::kNone) return op.span > r.per_host ? "network" : "links";
  return t.bound == Bound::kCompute ? "compute" : "memory";
}

void event(Json& section, std::string name, const char* where, double start, double seconds) {
  section["timeline"].push_back(
      {{"name", std::move(name)}, {"resource", where}, {"start", start}, {"seconds", seconds}});
}

// Of many repetitions of a block the first and the last are drawn: calls `one` for each of these, and `many`
// once with the number of those between them.
constexpr double kDrawn = 256;
template <class One, class Many>
void draw(double repeat, One one, Many many) {
  double between = std::max(0.0, repeat - kDrawn);
  for (double i = 0; i < repeat - between; ++i) {
    if (between > 0 && i == kDrawn / 2) many(between);
    one();
  }
}
std::string alike(double repetitions) { return fmt::format("{:.0f} more repetitions", repetitions); }

// Every operator of a step in its order, layer after layer of one stage; transfers from other tiers beside
// them.
class StepTimeline {
 public:
  StepTimeline(const Program& program, const Rates& rates) : program_(program), r_(rates) {}

  Json section(const char* title, const std::vector<Shown>& lines) {
    section_["title"] = fmt::format("timeline: {}", title);
    section_["timeline"] = Json::array();
    for (std::size_t i = 0; i < lines.size();) {
      std::size_t end = i;
      while (end < lines.size() && lines[end].op.block == lines[i].op.block) ++end;
      double times = lines[i].line.times / lines[i].op.stages, repeat = std::max(1.0, times);
      double share = times / repeat;
      auto one = [&] {
        for (std::size_t k = i; k < end; ++k) add(lines[k], share);
      };
      draw(repeat, one, [&](double repetitions) {
        double seconds = 0, fetch = 0;
        for (std::size_t k = i; k < end; ++k)
          seconds += lines[k].time.seconds * share * repetitions, fetch += lines[k].away.seconds() * share * repetitions;
        event(section_, alike(repetitions), "compute", clock_, seconds);
        clock_ += seconds, copied_ += fetch;
      });
      i = end;
    }
    return std::move(section_);
  }

 private:
  void add(const Shown& l, double times) {
    double seconds = l.time.seconds * times;
    if (seconds > 0) event(section_, line_name(program_, l.op), resource(l.op, l.time, r_), clock_, seconds);
    clock_ += seconds;
    double fetch = l.away.seconds() * times;
    bool host = program_.plan.place.compute_follows;
    Tier tier = l.away.weight > 0 ? l.away.weight_tier : l.away.state_tier;
    if (fetch > 0)
      event(section_, line_name(program_, l.op),
            host                  ? "host"
            : tier == Tier::kNvme ? "storage"
                                  : "copy engine",
            copied_, fetch);
    copied_ += fetch;
  }

  const Program& program_;
  const Rates& r_;
  double clock_ = 0, copied_ = 0;
  Json section_;
};

// One micro-batch of training: forward layer after layer, then backward from the last one, each preceded by
// what it computes again.
class MicroBatchTimeline {
 public:
  MicroBatchTimeline(const TrainAnswer& answer, double micro_batches) : a_(answer), n_(micro_batches) {}

  Json section() {
    section_["title"] = "timeline: one micro-batch";
    section_["timeline"] = Json::array();
    auto blocks = ranges();
    for (const auto& range : blocks) pass(range, false);
    for (auto range = blocks.rbegin(); range != blocks.rend(); ++range) pass(*range, true);
    return std::move(section_);
  }

 private:
  using Range = std::pair<std::size_t, std::size_t>;
  std::uint32_t block(std::size_t i) const { return a_.program.ops[a_.lines[i].line.op].block; }
  std::vector<Range> ranges() const {
    std::vector<Range> out;
    for (std::size_t i = 0; i < a_.lines.size();) {
      std::size_t end = i;
      while (end < a_.lines.size() && block(end) == block(i)) ++end;
      out.push_back({i, end});
      i = end;
    }
    return out;
  }
  void pass(const Range& range, bool backward) {
    double times = a_.lines[range.first].line.times / n_, repeat = std::max(1.0, times);
    double share = times / repeat;
    auto one = [&] {
      for (std::size_t i = range.first; i < range.second; ++i)
        if (a_.lines[i].pass == (backward ? Pass::kAgain : Pass::kForward)) add(a_.lines[i], share);
      for (std::size_t i = range.second; backward && i-- > range.first;)
        if (a_.lines[i].pass == Pass::kBackward) add(a_.lines[i], share);
    };
    draw(repeat, one, [&](double repetitions) {
      double seconds = 0;
      for (std::size_t i = range.first; i < range.second; ++i)
        if ((a_.lines[i].pass == Pass::kForward) != backward) seconds += a_.lines[i].time.seconds * share * repetitions;
      event(section_, alike(repetitions), "compute", clock_, seconds);
      clock_ += seconds;
    });
  }
  void add(const TrainLine& l, double times) {
    double seconds = l.time.seconds * times;
    const ProgramOp& op = a_.program.ops[l.line.op];
    if (seconds > 0)
      event(section_, fmt::format("{}, {}", line_name(a_.program, op), name_of(l.pass)),
            resource(op, l.time, a_.rates), clock_, seconds);
    clock_ += seconds;
  }

  const TrainAnswer& a_;
  double n_, clock_ = 0;
  Json section_;
};

}  // namespace

Json step_timeline(const Program& program, const Rates& rates, const char* title, const std::vector<Shown>& lines) {
  return StepTimeline(program, rates).section(title, lines);
}

Json micro_batch_timeline(const TrainAnswer& a, double micro_batches) {
  return MicroBatchTimeline(a, micro_batches).section();
}

Json iteration_timeline(const TrainAnswer& a) {
  Json section;
  section["title"] = "timeline: an iteration";
  section["timeline"] = Json::array();
  double clock = 0;
  auto next = [&](const char* name, const char* where, double seconds) {
    if (seconds > 0) event(section, name, where, clock, seconds);
    clock += seconds;
  };
  double slower = 1 + a.power / (a.compute + a.bubble);  // by the board's power limit
  next("micro-batches", "compute", a.compute * slower);
  next("waiting for other stages", "idle", a.bubble * slower);
  next("between stages", "links", a.pipeline_comm);
  next("between data-parallel ranks", "links", a.data_comm);
  next("optimizer", "memory", a.optimizer);
  next("other tiers", "host", a.offload);
  return section;
}

}  // namespace orrery::tools
