// Time and energy of a training iteration.
//
// One micro-batch of one rank is a list of lines (train_lines.cc). The pace of the fullest stage is their
// sum; the pipeline's bubble, communication between stages and between data-parallel ranks, the optimizer and
// other tiers come on top. A board that would draw more than its limit while it computes is slowed until it
// does not, and the bubble with it.
#include "graph/train.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/train_iteration.h"

namespace orrery::graph {

std::string_view name_of(Pass pass) {
  constexpr std::string_view names[] = {"forward", "again", "backward"};
  return names[static_cast<int>(pass)];
}

namespace {

// Bytes per parameter that Adam moves: reads gradient, master and moments, writes master, moments and weight,
// and sets the gradient to zero for the next iteration.
double adam_bytes(const Plan& plan) { return gradient_bytes(plan) + 12 + 12 + 2 + gradient_bytes(plan); }
// On the GPU the gradients' norm reads them before, and clipping reads and writes them.
double clip_bytes(const Plan& plan) { return 3 * gradient_bytes(plan); }

}  // namespace

// Gradients of the parameters that a group shares, and what ZeRO gathers of them; adds to data_bytes.
double Iteration::exchange(Group group, double parameters, double trained, const Rates& r) {
  if (group.ranks <= 1) return 0;
  auto time = [&](Collective kind, double bytes) {
    return collective_time(kind, group.ranks, bytes, r, group.span);
  };
  double gradients = trained * (p_.grad_fp32 && p_.zero < 3 ? 4 : 2);
  a_.data_bytes += gradients;
  if (p_.zero == 0) return time(Collective::kAllReduce, gradients);
  // Each rank updates its part: it takes the sum of its gradients alone, and the others take its new weights;
  // with stage 3 for each micro-batch, forward and backward.
  double gathers = p_.zero >= 3 ? 2 * micro_batches_ : 1, weights = (p_.zero >= 3 ? parameters : trained) * 2;
  a_.data_bytes += gathers * weights;
  return time(Collective::kReduceScatter, gradients) + gathers * time(Collective::kAllGather, weights);
}

void Iteration::communication(const Rates& r) {
  double chunk = q_.sequence * q_.micro_batch / p_.cp * hidden_of(*a_.program.graph) * 2 / p_.tp;
  int reach = far_hops(p_, r.per_host) > 0 ? r.per_host + 1 : 2;  // the slowest hop sets the pace
  double hops = p_.pp > 1 ? 2 * (micro_batches_ + p_.pp - 1) * p_.chunks() : 0, left[] = {left_[0], left_[1]};
  double seconds = hops * collective_time(Collective::kSendReceive, reach, chunk, r);
  // Where the sequence is not divided, each rank of a tensor-parallel group sends its part and gathers the
  // others'.
  if (!p_.sequence_parallel) seconds += hops * collective_time(Collective::kAllGather, p_.tp, chunk * p_.tp, r);
  double& between = left[reach > r.per_host];
  a_.pipeline_comm = exposed(seconds, p_.overlap_pp, between);
  a_.pipeline_bytes = hops * (chunk + (p_.sequence_parallel || p_.tp == 1 ? 0 : chunk * p_.tp));
  between -= seconds - a_.pipeline_comm;
  RankParameters here = rank_parameters(a_.program), mine = trained();
  Group experts = p_.ep > 1 ? expert_data_group(p_) : data_group(p_);
  a_.data_bytes = 0;
  seconds =
      exchange(data_group(p_), here.dense, mine.dense, r) + exchange(experts, here.expert, mine.expert, r);
  a_.data_comm = exposed(seconds, p_.overlap_dp, left[data_group(p_).span > r.per_host]);
}

// Seconds of an iteration's transfers between the GPU and other tiers, both ways; `parameters` are those
// whose states this rank updates.
double Iteration::transfers(double parameters) const {
  const Placement& place = p_.place;
  auto rate = [&](Tier tier) { return tier_rate(tier, false, r_); };
  double seconds = 0;
  // Weights for the forward and the backward pass; checkpoints there and back.
  seconds += 2 * micro_batches_ * a_.away.weights / rate(place.weights);
  seconds += 2 * micro_batches_ * a_.away.checkpoints / rate(place.checkpoints);
  double updated = a_.away.optimizer > 0 ? place.optimizer_fraction : 0;
  double sums = p_.zero >= 2 ? trained().divided(p_) : trained().total();
  bool gone = a_.away.gradients > 0, placed = place.gradients != Tier::kDevice;
  if (gone) {
    // Every micro-batch adds to them; an update on the GPU takes the sum back.
    double share = placed ? place.gradients_fraction : place.optimizer_fraction;
    double back = parameters * std::max(0.0, share - updated) * (p_.grad_fp32 ? 4 : 2);
    seconds += (micro_batches_ * sums * share * 2 + back) / rate(placed ? place.gradients : place.optimizer);
  }
  // Gradients that stay on the GPU go to the host's update in 16 bits, once; weights come back; states on
  // drives are read and written.
  double gradients = gone ? 0 : 2;
  seconds += parameters * updated * (gradients + 2) / rate(Tier::kHost);
  if (place.optimizer == Tier::kNvme || place.optimizer == Tier::kRemote)
    seconds += 2 * a_.away.optimizer / rate(place.optimizer);
  return seconds;
}

void Iteration::optimizer() {
  double share = p_.zero >= 1 ? trained().divided(p_) : trained().total();
  double elsewhere = p_.place.optimizer == Tier::kDevice ? 0 : p_.place.optimizer_fraction;
  moved_ = share * (1 - elsewhere) * (clip_bytes(p_) + adam_bytes(p_));
  a_.optimizer = moved_ / r_.memory;
  // The host's update runs at its memory's speed, when the last gradient is there.
  a_.offload = exposed(transfers(share), p_.overlap_prefetch, work_) +
               share * elsewhere * adam_bytes(p_) / tier_rate(Tier::kHost, true, r_);
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

namespace {

// Whole micro-batches of an iteration; refuses a question that the plan cannot lay out.
double check_question(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q) {
  for (double value : {q.sequence, q.global_batch, q.micro_batch})
    if (!(value >= 1 && value < 1e9))
      base::fail("sequence, batch and micro-batch must be at least 1 and finite");
  if (plan.gpus() > cluster.gpus)
    base::fail("the plan needs {} GPUs, the cluster has {}", plan.gpus(), cluster.gpus);
  double micro_batches = q.global_batch / (q.micro_batch * plan.dp);
  if (micro_batches != std::floor(micro_batches))
    base::fail("batch {:.0f} is no multiple of micro-batch {:.0f} x data-parallel {}: {:.0f} is one", q.global_batch,
               q.micro_batch, plan.dp, std::ceil(micro_batches) * q.micro_batch * plan.dp);
  double parts = 1.0 * plan.pp * plan.chunks();
  if (plan.chunks() > 1 && std::fmod(layers_of(graph), parts) != 0 &&
      std::fmod(layers_of(graph) + 2, parts) != 0)
    base::fail("{:.0f} layers do not fill {} stages of {} chunks", layers_of(graph), plan.pp, plan.chunks());
  refuse_denoising(plan);
  if (plan.offset_bits != 32 && plan.offset_bits != 64)
    base::fail("kernels have offsets of 32 or 64 bits, not {}", plan.offset_bits);
  if (double most = addressable_sequence(graph, plan, q.micro_batch); q.sequence > most)
    base::fail("kernels with {}-bit offsets address a layer's tensors up to {:.0f} tokens a sequence, not {:.0f}",
               plan.offset_bits, most, q.sequence);
  if (plan.place.checkpoints != Tier::kDevice && plan.recompute != RecomputePolicy::kFull)
    base::fail("there are no checkpoints to place without 'recompute full'");
  if (plan.place.experts != Tier::kDevice)
    base::fail("experts by themselves are placed in serving; in training 'place weight' moves them with all weights");
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
  a.model_flops = training_flops_per_token(graph, q.sequence, q.causal, plan.adapter_rank > 0) * q.sequence *
                  q.global_batch;
  Iteration iteration(plan, q, a.rates, micro_batches, a);
  iteration.lines();
  iteration.limit_power();
  Rates latency_only = a.rates;
  latency_only.nvlink = true, latency_only.link = latency_only.network = 1e30;
  iteration.communication(latency_only);
  a.between_fixed = a.pipeline_comm + a.data_comm;
  iteration.communication(a.rates);
  iteration.optimizer();
  a.seconds = a.compute + a.bubble + a.power + a.pipeline_comm + a.data_comm + a.optimizer + a.offload;
  iteration.energy();
  double gpus = plan.gpus();
  a.tflops_per_gpu = a.model_flops / a.seconds / gpus / 1e12;
  a.mfu = a.tflops_per_gpu * 1e12 / a.rates.peak16;
  a.tokens_s_per_gpu = q.sequence * q.global_batch / a.seconds / gpus;
  return a;
}

double longest_sequence(const Graph& graph, const Plan& plan, const Cluster& cluster,
                        TrainQuestion question) {
  auto fits = [&](double sequence) {
    question.sequence = sequence;
    question.global_batch = question.micro_batch * plan.dp * plan.pp;  // every stage has one to work on
    return train(graph, plan, cluster, question).fits;
  };
  double low = 0, high = std::min(64e6, addressable_sequence(graph, plan, question.micro_batch));
  if (fits(high)) return high < 64e6 ? std::floor(high / 1000) * 1000 : kAnyContext;
  while (high - low > 1000) {
    double middle = std::floor((low + high) / 2000) * 1000;
    if (middle <= low) break;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace orrery::graph
