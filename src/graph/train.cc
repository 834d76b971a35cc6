// Time and energy of a training iteration.
//
// One micro-batch of one rank is a list of lines: every operator forward, again (recomputation) and backward.
// The pace of the fullest stage is their sum; the pipeline's bubble, communication between stages and between
// data-parallel ranks, the optimizer and other tiers come on top. A board that would draw more than its limit
// while it computes is slowed until it does not, and the bubble with it.
#include "graph/train.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/train_parts.h"

namespace orrery::graph {

std::string_view name_of(Pass pass) {
  constexpr std::string_view names[] = {"forward", "again", "backward"};
  return names[static_cast<int>(pass)];
}

namespace {

// Bytes per parameter that Adam moves: reads gradient, master and moments; writes master, moments and weight.
constexpr double kAdamBytesMoved = 34;
constexpr double kHostMemory = 200e9;  // bytes/s that a host's update runs over; assumed for a usual server

// Walks one micro-batch of the forward pass over one rank's part of the model.
Ledger forward_ledger(const Program& program, double sequence, double sequences, bool causal, Binding& b) {
  StepShape s;
  s.prefill_tokens = sequence * sequences;
  s.prefill_seqs = sequences;
  s.causal = causal;
  b = bind(*program.graph, program.plan, s);
  b[kOutputs] = b[kTokens];
  for (FreeAxis axis : {kTokens, kRouted, kOutputs, kPairs, kPairsWindow, kScores})
    b[axis] /= program.plan.cp;
  b.prefill = b.free;
  Ledger ledger;
  walk(program, b, ledger);
  return ledger;
}

bool is_product(const ProgramOp& op) { return op.kind == OpKind::kContract || op.kind == OpKind::kAttend; }

}  // namespace

double training_flops_per_token(const Graph& graph, double sequence, bool causal) {
  Plan one;
  Program program = compile(graph, one);
  Binding b;
  Ledger ledger = forward_ledger(program, sequence, 1, causal, b);
  double ops = 0;
  for (const Line& line : ledger.lines)
    if (is_product(program.ops[line.op])) ops += line.ops * line.times;
  return 3 * ops / sequence;
}

namespace {

class Iteration {
 public:
  Iteration(const Plan& plan, const TrainQuestion& question, const Rates& rates, double micro_batches,
            TrainAnswer& answer)
      : p_(plan), q_(question), r_(rates), micro_batches_(micro_batches), a_(answer) {}

  // The lines of a rank, the seconds of one micro-batch in its stage, and what the iteration takes of both.
  void lines();
  void communication(const Rates& r);
  void optimizer();
  void limit_power();
  void energy();

 private:
  void add(const Line& line, const ProgramOp& op, Pass pass, double factor);
  bool redone(const ProgramOp& op, bool layer) const {
    bool attends = a_.program.graph->ops[op.op].kind == OpKind::kAttend;  // or moves what attention needs
    return layer && (p_.recompute == RecomputePolicy::kFull ||
                     (p_.recompute == RecomputePolicy::kSelective && attends));
  }
  // Cost of an operator's backward pass over its forward pass: gradients of both factors of a product, and
  // the scores of an attention once more. Frozen weights need no gradient.
  double backward(const ProgramOp& op) const {
    // Keys and values that were gathered are gathered again, and their gradients scattered.
    if (op.collective == Collective::kAllGather && op.part == Part::kAttention) return 2;
    if (op.collective != Collective::kNone) return 1;
    if (op.kind == OpKind::kAttend) return 2.5;
    return op.kind == OpKind::kContract && p_.adapter_rank > 0 ? 1 : 2;
  }
  double ranks() const { return static_cast<double>(p_.dp) * p_.cp; }
  double trained() const { return rank_parameters(a_.program) * a_.trainable / a_.parameters; }

  const Plan& p_;
  const TrainQuestion& q_;
  const Rates& r_;
  double micro_batches_;
  TrainAnswer& a_;
  double stage_ = 0;      // seconds of one micro-batch in the layers of a stage
  double moved_ = 0;      // bytes of device memory that the optimizer moves
};

void Iteration::add(const Line& line, const ProgramOp& op, Pass pass, double factor) {
  TrainLine out;
  out.pass = pass;
  out.layer = a_.program.graph->blocks[op.block].layer;
  out.line = line;
  out.line.times *= micro_batches_;
  out.time = time_of(op, line, a_.binding, r_);
  out.joules = joules_of(op, line, out.time, r_);
  if (op.collective != Collective::kNone) {
    double shown = 1 - p_.overlap_tp;
    out.time.seconds *= shown, out.time.link *= shown, out.time.fixed *= shown;
  }
  for (double* n : {&out.line.ops, &out.line.weight, &out.line.activation, &out.line.link, &out.time.seconds,
                    &out.time.executed, &out.time.compute, &out.time.memory, &out.time.link, &out.time.fixed,
                    &out.joules.ops, &out.joules.bytes, &out.joules.link})
    *n *= factor;
  double seconds = out.time.seconds * out.line.times;
  a_.compute += seconds;
  if (op.collective != Collective::kNone) a_.tensor_comm += seconds;
  if (out.layer) stage_ += seconds / micro_batches_;
  a_.lines.push_back(out);
}

void Iteration::lines() {
  Ledger ledger = forward_ledger(a_.program, q_.sequence, q_.micro_batch, q_.causal, a_.binding);
  bool fp8 = p_.compute.format == Format::kFp8;
  for (ProgramOp& op : a_.program.ops)
    if (fp8 && op.kind == OpKind::kContract && op.part != Part::kHead) op.format = Format::kFp8;
  double model = 0, hardware = 0;
  for (const Line& line : ledger.lines) {
    const ProgramOp& op = a_.program.ops[line.op];
    bool redo = redone(op, a_.program.graph->blocks[op.block].layer);
    add(line, op, Pass::kForward, 1);
    if (redo) add(line, op, Pass::kAgain, 1);
    add(line, op, Pass::kBackward, backward(op));
    double ops = is_product(op) ? line.ops * line.times : 0;
    model += 3 * ops, hardware += (redo ? 4 : 3) * ops;
  }
  a_.hardware_flops = a_.model_flops * (model > 0 ? hardware / model : 1);
  // Warm-up and drain of the pipeline, in micro-batches of a stage.
  double warm = (p_.pp - 1.0) / (p_.schedule == PipelineSchedule::kInterleaved ? p_.virtual_stages : 1);
  if (p_.schedule == PipelineSchedule::kZeroBubble) warm /= 3;
  a_.bubble_share = warm / micro_batches_;
  a_.bubble = warm * stage_;
}

void Iteration::communication(const Rates& r) {
  double chunk = q_.sequence * q_.micro_batch / p_.cp * hidden_of(*a_.program.graph) * 2 / p_.tp;
  int reach = p_.tp * p_.pp > r.per_host ? r.per_host + 1 : 2;
  double hops = p_.pp > 1 ? 2 * (micro_batches_ + p_.pp - 1) * std::max(1, p_.virtual_stages) : 0;
  a_.pipeline_comm =
      hops * collective_time(Collective::kSendReceive, reach, chunk, r) * (1 - p_.overlap_pp);
  a_.pipeline_bytes = hops * chunk;
  if (ranks() <= 1) return;
  int group = static_cast<int>(ranks()), span = group * p_.tp;  // tensor-parallel ranks are neighbours
  double gradients = trained() * (p_.grad_fp32 && p_.zero < 3 ? 4 : 2);
  a_.data_bytes = gradients;
  if (p_.zero >= 3) {
    // Weights are gathered for each micro-batch, forward and backward; gradients are scattered once.
    double weights = rank_parameters(a_.program) * 2;
    a_.data_comm = 2 * micro_batches_ * collective_time(Collective::kAllGather, group, weights, r, span) +
                   collective_time(Collective::kReduceScatter, group, gradients, r, span);
    a_.data_bytes += 2 * micro_batches_ * weights;
  } else {
    a_.data_comm = collective_time(Collective::kAllReduce, group, gradients, r, span);
  }
  a_.data_comm *= 1 - p_.overlap_dp;
}

void Iteration::optimizer() {
  double share = trained() / (p_.zero >= 1 ? ranks() : 1), shown = 1 - p_.overlap_prefetch;
  if (p_.place.optimizer == Tier::kDevice) {
    moved_ = share * kAdamBytesMoved;
    a_.optimizer = moved_ / r_.memory;
  } else {
    // Gradients go to the host, weights come back; the host's update runs at its memory's speed.
    a_.offload = (share * 4 / r_.host + share * kAdamBytesMoved / kHostMemory) * shown;
  }
  if (p_.place.weights != Tier::kDevice)
    a_.offload += micro_batches_ * 2 * a_.program.weight_bytes / ranks() / r_.host * shown;
}

// The limit acts within milliseconds: the lines share it among themselves, not with the bubble.
void Iteration::limit_power() {
  double joules = 0;
  for (const TrainLine& l : a_.lines) joules += l.joules.total() * l.line.times;
  double slower = joules / (r_.limit_watts - r_.idle_watts) / a_.compute;
  if (slower <= 1) return;
  a_.power = (a_.compute + a_.bubble) * (slower - 1);
}

void Iteration::energy() {
  double gpus = p_.gpus();
  for (const TrainLine& l : a_.lines) {
    double times = gpus * l.line.times / (l.layer ? 1 : p_.pp);  // embedding and head are on one stage
    a_.joules_ops += l.joules.ops * times, a_.joules_bytes += l.joules.bytes * times;
    a_.joules_link += l.joules.link * times;
  }
  a_.joules_bytes += gpus * moved_ * r_.joules_byte;
  a_.joules_link += gpus * (a_.data_bytes + a_.pipeline_bytes) * r_.joules_link;
  a_.joules_idle = gpus * a_.seconds * r_.idle_watts;
  a_.joules = a_.joules_ops + a_.joules_bytes + a_.joules_link + a_.joules_idle;
}

// Whole micro-batches of an iteration; refuses a question that the plan cannot lay out.
double check_question(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q) {
  for (double value : {q.sequence, q.global_batch, q.micro_batch})
    if (!(value >= 1 && value < 1e9))
      base::fail("sequence, batch and micro-batch must be at least 1 and finite");
  if (plan.gpus() > cluster.gpus)
    base::fail("the plan needs {} GPUs, the cluster has {}", plan.gpus(), cluster.gpus);
  double micro_batches = q.global_batch / (q.micro_batch * plan.dp);
  if (micro_batches != std::floor(micro_batches))
    base::fail("batch {:.0f} is no multiple of micro-batch {:.0f} x data-parallel {}", q.global_batch,
               q.micro_batch, plan.dp);
  if (plan.schedule == PipelineSchedule::kInterleaved &&
      std::fmod(layers_of(graph), plan.pp * plan.virtual_stages) != 0 &&
      std::fmod(layers_of(graph) + 2, plan.pp * plan.virtual_stages) != 0)
    base::fail("{:.0f} layers do not fill {} stages of {} chunks", layers_of(graph), plan.pp,
               plan.virtual_stages);
  return micro_batches;
}

}  // namespace

TrainAnswer train(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q) {
  double micro_batches = check_question(graph, plan, cluster, q);
  TrainAnswer a;
  a.program = compile(graph, plan);
  a.rates = read_rates(cluster.gpu);
  a.parameters = a.trainable = count_parameters(graph).total;
  if (plan.adapter_rank > 0) a.trainable = adapter_parameters(graph, plan.adapter_rank);
  training_memory(graph, plan, a.program, cluster, q, a);
  a.model_flops = training_flops_per_token(graph, q.sequence, q.causal) * q.sequence * q.global_batch;
  Iteration iteration(plan, q, a.rates, micro_batches, a);
  iteration.lines();
  iteration.limit_power();
  Rates latency_only = a.rates;
  latency_only.link = latency_only.network = 1e30;
  iteration.communication(latency_only);
  a.between_fixed = a.pipeline_comm + a.data_comm;
  iteration.communication(a.rates);
  iteration.optimizer();
  a.seconds =
      a.compute + a.bubble + a.power + a.pipeline_comm + a.data_comm + a.optimizer + a.offload;
  iteration.energy();
  double gpus = plan.gpus();
  a.tflops_per_gpu = a.model_flops / a.seconds / gpus / 1e12;
  a.mfu = a.tflops_per_gpu * 1e12 / a.rates.peak16;
  a.tokens_s_per_gpu = q.sequence * q.global_batch / a.seconds / gpus;
  return a;
}

double longest_sequence(const Graph& graph, const Plan& plan, const Cluster& cluster,
                        TrainQuestion question) {
  double low = 0, high = 64e6;
  while (high - low > 1000) {
    double middle = std::floor((low + high) / 2000) * 1000;
    if (middle <= low) break;
    question.sequence = middle;
    question.global_batch = question.micro_batch * plan.dp;
    (train(graph, plan, cluster, question).fits ? low : high) = middle;
  }
  return low;
}

}  // namespace orrery::graph
