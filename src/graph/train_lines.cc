// The lines of a training iteration: every operator of one rank for one micro-batch, forward, again
// (recomputation) and backward, and the passes that a framework makes beside them.
#include <algorithm>

#include "graph/train_iteration.h"

namespace orrery::graph {

namespace {

// Bytes a logit that cross-entropy moves, step by step as PyTorch does it: widened to fp32 (6), its logarithm
// of the softmax (12); backward a gradient of zeros and ones (4), that of the softmax (12), narrowed (6). In
// one kernel (tile loss) the logits stay in 16 bits: read twice, the gradient written in their place, and
// scaled.
constexpr double kLossForward = 18, kLossBackward = 22;
constexpr double kFusedLossForward = 6, kFusedLossBackward = 4;

// Rate of attention backward over that forward (attention.training.* of
// calib/raw/h200-model-2026-11-22.jsonl, cuDNN: means of both runs at dimensions 64 and 128).
double attention_backward(double head_dim) {
  constexpr double kNarrow = 0.95, kWide = 0.83;
  return kNarrow + (kWide - kNarrow) * std::clamp((head_dim - 64) / 64, 0.0, 1.0);
}

// Bytes an element of the output of biased experts, where each expert's bias times its rows' probabilities is
// added expert by expert in fp32 and the parts are joined (Megatron-LM's grouped experts, steps of PyTorch):
// the time of pass.expert_bias.32768x4096, of which some 28 and 40 are the bytes of the steps.
constexpr double kExpertBiasForward = 53, kExpertBiasBackward = 49;

// Bytes an element of what a clamped activation takes, where its halves are cut off and joined again before the fused
// kernel (Megatron-LM, weighted_bias_quick_geglu_impl, steps of PyTorch): two reads and two writes forward; backward the
// parts of the gradient are masked by their inputs (6) and joined (4).
constexpr double kClampForward = 8, kClampBackward = 10;

// Walks one micro-batch of the forward pass over one rank's part of the model.
Ledger forward_ledger(const Program& program, double sequence, double sequences, bool causal, Binding& b) {
  StepShape s;
  s.prefill_tokens = sequence * sequences;
  s.prefill_seqs = sequences;
  s.causal = causal;
  b = bind(*program.graph, program.plan, s);
  b[kOutputs] = b[kTokens];
  for (FreeAxis axis : {kTokens, kRouted, kOutputs, kPairs, kPairsWindow, kPairsChosen, kScores})
    b[axis] /= program.plan.cp;
  b.prefill = b.free;
  Ledger ledger;
  walk(program, b, ledger);
  return ledger;
}

// Forward passes' worth of operations that the model's forward and backward pass are, by convention.
double passes(const ProgramOp& op, bool frozen) {
  if (op.kind == OpKind::kAttend) return 3;
  return op.kind == OpKind::kContract ? (frozen ? 2 : 3) : 0;
}

}  // namespace

double training_flops_per_token(const Graph& graph, double sequence, bool causal, bool frozen) {
  Plan one;
  Program program = compile(graph, one);
  Binding b;
  Ledger ledger = forward_ledger(program, sequence, 1, causal, b);
  double ops = 0;
  for (const Line& line : ledger.lines) ops += passes(program.ops[line.op], frozen) * line.ops * line.times;
  return ops / sequence;
}

void Iteration::add(const Line& line, const ProgramOp& op, Pass pass, double factor) {
  TrainLine out;
  out.pass = pass;
  out.layer = a_.program.graph->blocks[op.block].layer;
  out.line = line;
  out.line.times *= micro_batches_;
  out.time = time_of(op, line, a_.binding, r_);
  out.joules = joules_of(op, line, out.time, r_);
  for (double* n : {&out.line.ops, &out.line.weight, &out.line.activation, &out.line.link, &out.time.seconds,
                    &out.time.executed, &out.time.compute, &out.time.memory, &out.time.link, &out.time.fixed,
                    &out.joules.ops, &out.joules.bytes, &out.joules.link})
    *n *= factor;
  if (pass == Pass::kBackward && op.kind == OpKind::kAttend && a_.program.graph->ops[op.op].score_bytes == 0) {
    out.time.compute /= attention_backward(op.head_dim);
    out.time.seconds = std::max(out.time.compute, out.time.memory) + out.time.fixed;
  }
  a_.lines.push_back(out);
}

// Collectives between a rank's operators run behind these as far as the plan says, and as far as no other
// transfer over the same links does.
void Iteration::hide_collectives() {
  double moved[2] = {}, shown[2];
  auto far = [&](const TrainLine& l) { return a_.program.ops[l.line.op].span > r_.per_host; };
  for (const TrainLine& l : a_.lines) {
    bool collective = a_.program.ops[l.line.op].collective != Collective::kNone;
    (collective ? moved[far(l)] : work_) += l.time.seconds * l.line.times;
  }
  for (int links : {0, 1}) {
    double open = exposed(moved[links], p_.overlap_tp, work_);
    left_[links] = work_ - (moved[links] - open);
    shown[links] = moved[links] > 0 ? open / moved[links] : 1;
    a_.tensor_comm += open;
  }
  a_.compute = work_ + a_.tensor_comm;
  for (TrainLine& l : a_.lines) {
    if (a_.program.ops[l.line.op].collective != Collective::kNone)
      for (double* part : {&l.time.seconds, &l.time.link, &l.time.fixed}) *part *= shown[far(l)];
    if (l.layer) stage_ += l.time.seconds * l.line.times / micro_batches_;
  }
}

// A kernel of its own that moves bytes for the operator of a line.
void Iteration::pass_over(const Line& of, const ProgramOp& kernel, double bytes, Pass pass) {
  const ProgramOp& op = a_.program.ops[of.op];
  ProgramOp map = kernel;
  map.op = op.op, map.block = op.block, map.part = op.part, map.repeat = op.repeat, map.stages = op.stages;
  map.kind = OpKind::kMap;
  Line line;
  line.op = static_cast<std::uint32_t>(a_.program.ops.size());
  line.times = of.times, line.activation = bytes;
  a_.program.ops.push_back(map);
  add(line, map, pass, 1);
}

// The sum of a weight's gradients over micro-batches, where the product does not add to it: reads the new
// gradient in 16 bits and the sum, writes the sum.
void Iteration::accumulated(const Line& product) {
  ProgramOp kernel;
  kernel.pass = "sum of gradients";
  double elements = product.weight / 2;
  pass_over(product, kernel, elements * (2 + 2 * gradient_bytes(p_)), Pass::kBackward);
}

void Iteration::loss(const Line& head) {
  ProgramOp kernel;
  kernel.pass = "cross-entropy";
  const ProgramOp& op = a_.program.ops[head.op];
  double logits = a_.binding.free[op.rows] * op.rows_each * op.n_width;
  pass_over(head, kernel, logits * (p_.tile_loss ? kFusedLossForward : kLossForward), Pass::kForward);
  pass_over(head, kernel, logits * (p_.tile_loss ? kFusedLossBackward : kLossBackward), Pass::kBackward);
}

// Rows come from each rank sorted by expert, and are sorted by expert over all ranks before the products;
// back the same way (Megatron-LM's dispatchers).
void Iteration::sorted(const Line& exchange) {
  AxisId experts = a_.program.graph->find_axis("experts");
  if (experts == kNoAxis || Layout(*a_.program.graph, p_).local(experts) <= 1) return;
  ProgramOp kernel;
  kernel.pass = "rows in the order of experts";
  for (Pass pass : {Pass::kForward, Pass::kBackward}) pass_over(exchange, kernel, 2 * exchange.link, pass);
}

void Iteration::expert_biases(const Line& product) {
  ProgramOp kernel;
  kernel.pass = kBiasPass;
  const ProgramOp& op = a_.program.ops[product.op];
  double elements = a_.binding.free[op.rows] * op.n_width;
  pass_over(product, kernel, elements * kExpertBiasForward, Pass::kForward);
  pass_over(product, kernel, elements * kExpertBiasBackward, Pass::kBackward);
}

// An activation reads two tensors and writes one of their width.
void Iteration::cut_off(const Line& activation) {
  ProgramOp kernel;
  kernel.pass = kClampPass;
  double taken = activation.activation / 3 * 2 / 2;
  pass_over(activation, kernel, taken * kClampForward, Pass::kForward);
  pass_over(activation, kernel, taken * kClampBackward, Pass::kBackward);
}

// A product in 8 bits takes its input forward, and the gradient of its output backward, narrowed by their own
// largest value: read for that, read again, and written row by row and column by column, as the tensor cores
// take 8 bits along the inner axis only (Transformer Engine, Float8CurrentScaling on Hopper).
void Iteration::narrowed(const Line& product) {
  constexpr double kBytes = 2 + 2 + 1 + 1;
  a_.program.ops[product.op].format = Format::kFp8;
  const ProgramOp op = a_.program.ops[product.op];
  ProgramOp cast;
  cast.narrows = Format::kFp8;
  double rows = a_.binding.free[op.rows] * op.rows_each, in = rows * op.k_width * kBytes;
  pass_over(product, cast, in, Pass::kForward);
  if (redone(op, a_.program.graph->blocks[op.block].layer)) pass_over(product, cast, in, Pass::kAgain);
  pass_over(product, cast, rows * op.n_width * kBytes, Pass::kBackward);
}

void Iteration::lines() {
  Ledger ledger = forward_ledger(a_.program, q_.sequence, q_.micro_batch, q_.causal, a_.binding);
  bool fp8 = p_.compute.format == Format::kFp8;
  double model = 0, hardware = 0;
  for (const Line& line : ledger.lines) {
    bool narrow = fp8 && a_.program.ops[line.op].kind == OpKind::kContract &&
                  a_.program.ops[line.op].part != Part::kHead;
    if (narrow) narrowed(line);
    const ProgramOp op = a_.program.ops[line.op];
    bool product = op.kind == OpKind::kContract && op.collective == Collective::kNone && op.narrows == Format::kBf16;
    if (product && !p_.joins_accumulation && !frozen()) accumulated(line);
    if (product && op.part == Part::kHead) loss(line);
    if (op.collective == Collective::kAllToAll && op.part == Part::kExpert) sorted(line);
    if (product && biased_experts(op)) expert_biases(line);
    if (a_.program.graph->ops[op.op].name == kClampedActivation) cut_off(line);
    bool redo = redone(op, a_.program.graph->blocks[op.block].layer);
    add(line, op, Pass::kForward, 1);
    if (redo) add(line, op, Pass::kAgain, 1);
    add(line, op, Pass::kBackward, backward(op));
    double ops = line.ops * line.times, whole = passes(op, frozen());
    model += whole * ops, hardware += (whole + (redo && whole > 0 ? 1 : 0)) * ops;
  }
  hide_collectives();
  a_.hardware_flops = a_.model_flops * (model > 0 ? hardware / model : 1);
  // Warm-up and drain of the pipeline, in micro-batches of a stage.
  double warm = (p_.pp - 1.0) / p_.chunks();
  if (p_.schedule == PipelineSchedule::kZeroBubble) warm /= 3;
  a_.bubble_share = warm / micro_batches_;
  a_.bubble = warm * stage_;
}

}  // namespace orrery::graph
