// The walk: linear forms evaluated for one question, and the bindings of the usual questions.
#include "graph/walk.h"

#include <algorithm>
#include <cmath>

#include "graph/layout.h"

namespace orrery::graph {

std::string_view name_of(Collective collective) {
  constexpr std::string_view names[] = {"none",           "all-reduce", "all-gather",
                                        "reduce-scatter", "all-to-all", "send"};
  return names[static_cast<int>(collective)];
}

namespace {

double hit_share(double extent_total, double per_token_rows, double experts_per_token) {
  // Expected share of the experts that at least one of the tokens chooses, each choosing uniformly.
  if (extent_total <= 0 || experts_per_token <= 0) return 1;
  double tokens = per_token_rows / experts_per_token;
  return 1 - std::pow(1 - experts_per_token / extent_total, tokens);
}

// Keys that one of `fresh` causal queries behind `context` keys sees on average inside a window: their number
// grows along the context's end and stops at the window.
double keys_in_window(double context, double fresh, double window) {
  double growing = std::clamp(window - context, 0.0, fresh);
  if (fresh <= 0) return std::min(context, window);
  return (growing * (context + growing / 2) + (fresh - growing) * window) / fresh;
}

template <class Get>
double total(const std::vector<Line>& lines, Get get) {
  double sum = 0;
  for (const Line& line : lines) sum += line.times * get(line);
  return sum;
}

}  // namespace

std::vector<std::pair<std::uint32_t, double>> activation_timeline(const Program& program,
                                                                  const Binding& binding) {
  std::vector<std::pair<std::uint32_t, double>> timeline;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i)
    timeline.push_back({i, program.ops[i].live.at(binding)});
  return timeline;
}

double activation_peak(const Program& program, const Binding& binding) {
  double peak = 0;
  for (const auto& [op, bytes] : activation_timeline(program, binding)) peak = std::max(peak, bytes);
  return peak;
}

Binding part_of(const Binding& b, Phase phase) {
  if (phase == Phase::kAlways) return b;
  Binding part = b;
  for (int i = 0; i < kFreeAxes; ++i)
    part.free[i] = phase == Phase::kPrefill ? b.prefill[i] : b.free[i] - b.prefill[i];
  return part;
}

void walk(const Program& program, const Binding& all, Ledger& ledger) {
  ledger.lines.resize(program.ops.size());
  const Graph& graph = *program.graph;
  Binding part;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const ProgramOp& op = program.ops[i];
    Line& line = ledger.lines[i];
    line.op = static_cast<std::uint32_t>(i);
    bool phased = op.phase != Phase::kAlways;
    if (phased) part = part_of(all, op.phase);
    const Binding& binding = phased ? part : all;
    line.times = phased && binding.free[kTokens] == 0 ? 0 : op.repeat;
    line.ops = (binding.absorbed ? op.ops_absorbed : op.ops).at(binding);
    line.weight = op.weight_bytes;
    if (op.grouped_total > 0) {
      // Rows over the whole expert group choose among all experts; this rank holds its share of those hit.
      double rows = binding.free[kRouted] * op.grouped_total / op.grouped_extent;
      line.weight *= hit_share(op.grouped_total, rows, graph.experts_per_token);
    }
    line.state = op.state_read.at(binding) + op.state_write.at(binding);
    line.activation = op.act.at(binding);
    line.link = op.link.at(binding);
    bool idle = op.kind == OpKind::kContract && op.rows < kFreeAxes && binding.free[op.rows] == 0;
    if (idle) line.weight = 0;
  }
}

double Ledger::ops() const {
  return total(lines, [](const Line& l) { return l.ops; });
}
double Ledger::weight() const {
  return total(lines, [](const Line& l) { return l.weight; });
}
double Ledger::state() const {
  return total(lines, [](const Line& l) { return l.state; });
}
double Ledger::activation() const {
  return total(lines, [](const Line& l) { return l.activation; });
}
double Ledger::link() const {
  return total(lines, [](const Line& l) { return l.link; });
}

Binding bind(const Graph& graph, const Plan& plan, const StepShape& s) {
  Binding b;
  for (const Block& block : graph.blocks) {
    if (block.phase == Phase::kAlways || s.decode_seqs == 0 || s.prefill_tokens == 0) continue;
    StepShape prefill = s;
    prefill.decode_seqs = 0;
    b.prefill = bind(graph, plan, prefill).free;
    break;
  }
  double per_prefill = s.prefill_seqs > 0 ? s.prefill_tokens / s.prefill_seqs : 0;
  double decode_keys = s.decode_context + 1;
  double prefill_keys = s.prefill_context + per_prefill;
  b[kTokens] = s.decode_seqs + s.prefill_tokens;
  b[kSeqs] = s.decode_seqs + s.prefill_seqs;
  b[kKeys] = s.decode_seqs * decode_keys + s.prefill_seqs * prefill_keys;
  // The mean of the keys that a causal query sees is context + (n + 1) / 2; charged as n / 2, the usual
  // convention.
  double seen = s.causal ? s.prefill_context + per_prefill / 2 : prefill_keys;
  b[kPairs] = s.decode_seqs * decode_keys + s.prefill_tokens * seen;
  b[kScores] = s.decode_seqs * decode_keys + s.prefill_tokens * prefill_keys;
  // Windows, and keys that are chosen: both end at a number of keys.
  auto up_to = [&](double w, FreeAxis keys, FreeAxis pairs) {
    if (w <= 0) return;
    double counted = s.causal ? keys_in_window(s.prefill_context, per_prefill, w) : std::min(seen, w);
    b[keys] = s.decode_seqs * std::min(decode_keys, w) + s.prefill_seqs * std::min(prefill_keys, w + per_prefill);
    b[pairs] = s.decode_seqs * std::min(decode_keys, w) + s.prefill_tokens * counted;
  };
  up_to(graph.window, kKeysWindow, kPairsWindow);
  up_to(graph.chosen, kKeysChosen, kPairsChosen);
  b[kRouted] = b[kTokens] * graph.experts_per_token * routed_share(plan);
  b[kOutputs] = s.decode_seqs + s.prefill_seqs;
  b.absorbed = s.prefill_tokens == 0;
  b.causal = s.causal;
  if (s.decode_seqs == 0) b.prefill = b.free;
  return b;
}

}  // namespace orrery::graph
