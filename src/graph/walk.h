// One walk of a graph under a plan fills the ledgers.
//
// compile() turns graph and plan into a Program: for each operator of one rank, its amounts as linear forms
// of the free axes (every tensor has at most one free axis, so this loses nothing). walk() evaluates the
// forms for one question and returns ledger lines that sum exactly to the totals. Collectives appear where a
// contracted axis is divided: they follow from the division and are not written by hand.
//
//   ledger   line amounts                    unit
//   bytes    weight, state, activation       bytes moved through device memory
//   ops      by arithmetic format            operations (a multiply-add is two)
//   link     by link                         bytes that leave the rank
//   joules   from the three above and time   (schedule.h)
#pragma once

#include <array>
#include <vector>

#include "graph/plan.h"

namespace orrery::graph {

// Values of the free axes for one question, per rank.
struct Binding {
  std::array<double, kFreeAxes> free{};
  std::array<double, kFreeAxes> prefill{};  // of which prefill's, where a graph has phases
  bool absorbed = false;  // latent attention in its decode form
  bool causal = true;
  double& operator[](FreeAxis axis) { return free[axis]; }
  double operator[](FreeAxis axis) const { return free[axis]; }
};

// constant + sum over free axes of coefficient x value.
struct Linear {
  double constant = 0;
  std::array<double, kFreeAxes> coefficient{};

  double at(const Binding& b) const {
    double sum = constant;
    for (int i = 0; i < kFreeAxes; ++i) sum += coefficient[i] * b.free[i];
    return sum;
  }
  void add(double factor, AxisId free_axis) {
    if (free_axis == kNoAxis)
      constant += factor;
    else
      coefficient[free_axis] += factor;
  }
};

enum class Collective : std::uint8_t {
  kNone,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSendReceive
};
std::string_view name_of(Collective collective);

struct ProgramOp {
  std::uint32_t op = 0, block = 0;
  OpKind kind = OpKind::kMap;
  Part part = Part::kDense;
  double repeat = 1;  // executions on one rank
  int stages = 1;     // pipeline stages that execute it so often, one after the other
  Phase phase = Phase::kAlways;
  double seconds = 0, joules = 0;  // bound to a kernel (Op)
  Format format = Format::kBf16;  // storage format of the weights, or of the activations
  Linear ops, ops_absorbed;
  bool blocks = false;        // its weights have a scale for every block (DType)
  double weight_bytes = 0;    // read once, unless grouped
  double grouped_extent = 0;  // experts on this rank; weight_bytes is for all of them
  double grouped_total = 0;   // experts in all
  int grouped_ranks = 1;      // ranks that divide them, and wait for the one with most
  double load = 0;            // rows of that one over the mean, where declared; also of rows that are exchanged
  const ExpertKernels* engine_experts = nullptr;  // they run in a serving engine's own kernels
  Linear state_read, state_write, act;
  bool cache = false;  // that state is keys and values
  double k_width = 0, n_width = 0;  // contract: inner width and output width on this rank
  AxisId rows = kTokens;            // contract: the axis that counts rows
  double rows_each = 1;             // contract: rows for each unit of it
  double reach = 1;                 // share of the usual kernels' rate (Op::reach)
  Collective collective = Collective::kNone;
  int group = 1;  // ranks of the collective
  int span = 1;   // ranks from its first to its last, which may be on several hosts
  Linear link;    // payload bytes of the collective on this rank
  bool fused = false;
  bool in_reduction = false;  // a norm that runs inside the all-reduce before it, while that one is small
  Format narrows = Format::kBf16;  // map: narrows activations to this format, on GPUs that multiply it
  const char* pass = nullptr;      // map: a pass over tensors that belongs to the operator, in words
  double head_dim = 0;             // attend: mean of the dimensions of scores and values
  double lanes = 0;                // reduce: groups that can be worked on at once; 0: enough
  Linear live;                     // activations alive while it runs (of one block iteration)
};

struct Program {
  const Graph* graph = nullptr;
  Plan plan;
  std::vector<ProgramOp> ops;
  // Memory of one rank: of the stage with the larger of embedding and head.
  double weight_bytes = 0, embedding_bytes = 0;
  Linear state_bytes;                                // held between steps
  std::vector<std::pair<TensorId, double>> weights;  // tensor, bytes on this rank
  std::vector<std::pair<TensorId, Linear>> states;
};

// Activations alive at each operator in order, bytes on one rank: index of the operator and bytes.
std::vector<std::pair<std::uint32_t, double>> activation_timeline(const Program& program,
                                                                  const Binding& binding);
// Largest sum of activations that live at the same time: the maximum of that timeline.
double activation_peak(const Program& program, const Binding& binding);

// Throws base::Error when the plan is not legal for the graph.
Program compile(const Graph& graph, const Plan& plan);

// The values for the tokens of one phase.
Binding part_of(const Binding& binding, Phase phase);

struct Line {
  std::uint32_t op = 0;  // index in Program::ops
  double times = 1;
  double ops = 0, weight = 0, state = 0, activation = 0, link = 0;  // per execution
};

struct Ledger {
  std::vector<Line> lines;
  double ops() const;
  double weight() const;
  double state() const;
  double activation() const;
  double link() const;
  double bytes() const { return weight() + state() + activation(); }
};

void walk(const Program& program, const Binding& binding, Ledger& ledger);

// Values of the free axes for `batch` denoiser forwards.
struct DiffusionSpec;
struct RenderShape;
Binding denoiser_binding(const DiffusionSpec& spec, const RenderShape& shape, double batch);

// Bindings of the usual questions. Counts are per data-parallel rank; `context` is the keys each sequence
// already holds, before the new ones.
struct StepShape {
  double decode_seqs = 0, decode_context = 0;  // each adds one token
  double prefill_tokens = 0, prefill_context = 0,
         prefill_seqs = 0;  // tokens in all; context before them, per sequence
  bool causal = true;
};
Binding bind(const Graph& graph, const Plan& plan, const StepShape& shape);

}  // namespace orrery::graph
