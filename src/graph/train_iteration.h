// One training iteration while it is worked out: the lines of a rank (train_lines.cc), and what lies between
// the ranks and between iterations (train.cc).
#pragma once

#include <algorithm>

#include "graph/train_parts.h"

namespace orrery::graph {

// Bytes of one gradient as it is summed.
inline double gradient_bytes(const Plan& plan) { return plan.grad_fp32 ? 4 : 2; }

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
  void hide_collectives();
  void narrowed(const Line& product);
  void pass_over(const Line& of, const ProgramOp& kernel, double bytes, Pass pass);
  void accumulated(const Line& product);
  void loss(const Line& head);
  void sorted(const Line& exchange);
  void expert_biases(const Line& product);
  void cut_off(const Line& activation);
  void add(const Line& line, const ProgramOp& op, Pass pass, double factor);
  bool redone(const ProgramOp& op, bool layer) const {
    bool attends = a_.program.graph->ops[op.op].kind == OpKind::kAttend;  // or moves what attention needs
    return layer && (p_.recompute == RecomputePolicy::kFull ||
                     (p_.recompute == RecomputePolicy::kSelective && attends));
  }
  // Amounts of an operator's backward pass over its forward pass: gradients of both factors of a product, and
  // the scores of an attention once more. Frozen weights need no gradient.
  double backward(const ProgramOp& op) const {
    // Keys and values that were gathered are gathered again, and their gradients scattered.
    if (op.collective == Collective::kAllGather && op.part == Part::kAttention) return 2;
    if (op.collective != Collective::kNone) return 1;
    if (op.kind == OpKind::kAttend) return 2.5;
    return op.kind == OpKind::kContract && frozen() ? 1 : 2;
  }
  bool frozen() const { return p_.adapter_rank > 0; }
  // Whether the product leaves the experts and each adds a bias of its own.
  bool biased_experts(const ProgramOp& op) const {
    if (op.grouped_total == 0) return false;
    const Graph& g = *a_.program.graph;
    AxisId experts = g.find_axis("experts"), hidden = g.find_axis("hidden");
    const std::vector<AxisId> bias{experts, hidden};
    auto is_bias = [&](const Tensor& t) { return t.cls == TensorClass::kWeight && t.axes == bias; };
    const std::vector<AxisId>& out = g.tensors[g.ops[op.op].out.front()].axes;
    return out.back() == hidden && std::any_of(g.tensors.begin(), g.tensors.end(), is_bias);
  }
  RankParameters trained() const { return rank_parameters(a_.program) * (a_.trainable / a_.parameters); }
  double exchange(Group group, double parameters, double trained, const Rates& r);
  double transfers(double parameters) const;

  const Plan& p_;
  const TrainQuestion& q_;
  const Rates& r_;
  double micro_batches_;
  TrainAnswer& a_;
  double stage_ = 0;     // seconds of one micro-batch in the layers of a stage
  double work_ = 0;      // seconds of an iteration's operators, behind which communication can hide
  double left_[2] = {};  // of which collectives have not taken: on the links of a host, on the network
  double moved_ = 0;     // bytes of device memory that the optimizer moves
};

}  // namespace orrery::graph
