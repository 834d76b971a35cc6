// Memory of a training rank: states, kept activations, the working memory of a layer or of the loss, and how
// they come and go over an iteration.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/train_parts.h"

namespace orrery::graph {

StateBytes zero_states(int stage, double ranks) {
  if (stage < 0 || stage > 3 || ranks < 1) base::fail("ZeRO stage {} over {} ranks", stage, ranks);
  StateBytes s;
  if (stage >= 1) s.optimizer /= ranks;
  if (stage >= 2) s.gradients /= ranks;
  if (stage >= 3) s.weights /= ranks;
  return s;
}

double megatron_bytes_per_parameter(std::string_view precision, double shard) {
  if (shard < 1) base::fail("the optimizer is shared by at least one rank, not {}", shard);
  // Without sharing, the master weights, two moments and, for fp16 gradients, an fp32 copy of them.
  if (precision == "fp16") return 4 + 16 / shard;
  if (precision == "bf16") return 6 + 12 / shard;
  if (precision == "fp32") return 8 + 8 / shard;
  base::fail("unknown training precision '{}'; known: fp16, bf16, fp32", precision);
}

RankParameters rank_weight_bytes(const Program& program) {
  RankParameters sum;
  for (const auto& [tensor, bytes] : program.weights)
    (of_experts(*program.graph, program.graph->tensors[tensor]) ? sum.expert : sum.dense) += bytes;
  return sum;
}

RankParameters rank_parameters(const Program& program) {
  RankParameters sum;
  for (const auto& [tensor, bytes] : program.weights) {
    const Tensor& t = program.graph->tensors[tensor];
    (of_experts(*program.graph, t) ? sum.expert : sum.dense) += bytes / t.dtype.bytes();
  }
  return sum;
}

Gathered gathered_weights(const Program& program, const Layout* layout) {
  const Graph& graph = *program.graph;
  Gathered sum;
  for (const Block& block : graph.blocks) {
    double bytes = 0;
    for (const auto& [id, n] : program.weights) {
      if (id < block.first_tensor || id >= block.first_tensor + block.tensor_count) continue;
      const Tensor& t = graph.tensors[id];
      if (layout && layout->replicas(t).ranks <= 1) continue;
      bytes += n * std::min(1.0, 2 / t.dtype.bytes());
    }
    double iterations = std::max(1.0, block.repeat / program.plan.pp);
    if (block.layer)
      sum.layers = std::max(sum.layers, bytes / iterations * std::min(2.0, iterations));
    else
      sum.outside += bytes;
  }
  return sum;
}

namespace {

// Bytes per logit that the loss keeps at its peak: bf16 logits, their fp32 copy, log-probabilities, their
// gradient.
constexpr double kLossBytesPerLogit = 14;
// Gradients that leave for other ranks, or for another tier, are gathered in a flat buffer first: DeepSpeed's default
// (reduce_bucket_size, 5e8 elements of 16 bits, runtime/zero/config.py; made on one GPU, too, runtime/zero/stage3.py).
constexpr double kBucketElements = 5e8;

// What a PyTorch process holds outside its allocator beyond an empty context once it has multiplied, attended and
// normalised: 802 MB in all on an H200 (held.context.usual.worked of calib/raw/h200-held-2026-11-23.jsonl).
constexpr double kLoadedKernels = 802e6 - 300 * 1048576.0;

class TrainingMemory {
 public:
  TrainingMemory(const Graph& g, const Plan& plan, const Program& program, const TrainQuestion& q,
                 TrainAnswer& a)
      : g_(g),
        p_(plan),
        program_(program),
        q_(q),
        a_(a),
        at_(g, plan),
        counter_(at_, plan, q.sequence, q.micro_batch) {}

  void states();
  void activations();
  void add(std::string what, TensorClass cls, double bytes, std::string how) {
    a_.items.push_back({std::move(what), cls, bytes, std::move(how)});
    a_.total += bytes;
  }

 private:
  void weights();
  // What stays on the GPU of a class of which `share` is placed on `tier`.
  double placed(double bytes, Tier tier, double share, double& away) {
    if (tier == Tier::kDevice) return bytes;
    away = bytes * share;
    if (tier == Tier::kHost) a_.host_bytes += away;
    return bytes - away;
  }
  double rotary_tables() const;
  void timeline(Stage stage, double chunk, double working, double loss);

  const Graph& g_;
  const Plan& p_;
  const Program& program_;
  const TrainQuestion& q_;
  TrainAnswer& a_;
  Layout at_;
  ActivationCounter counter_;
};

void TrainingMemory::weights() {
  RankParameters bytes = rank_weight_bytes(program_);
  bool away = p_.place.weights != Tier::kDevice;
  double share = p_.place.weights_fraction;
  double here =
      placed(p_.zero >= 3 ? bytes.divided(p_) : bytes.total(), p_.place.weights, share, a_.away.weights);
  add("weights", TensorClass::kWeight, here,
      fmt::format("{:.2f} G parameters on this rank{}", rank_parameters(program_).total() / 1e9,
                  away ? fmt::format(", {:.0f}% of them stream from another tier", 100 * share) : ""));
  Gathered whole;
  if (p_.zero >= 3) whole = gathered_weights(program_, &at_);
  if (away) {
    Gathered streamed = gathered_weights(program_, nullptr);
    whole.outside = std::max(whole.outside, share * streamed.outside);
    whole.layers = std::max(whole.layers, share * streamed.layers);
  }
  if (whole.total() > 0)
    add("weights gathered", TensorClass::kWeight, whole.total(),
        "outside the layers, and two layers, in 16 bits");
}

void TrainingMemory::states() {
  weights();
  RankParameters trained = rank_parameters(program_) * (a_.trainable / a_.parameters);
  auto on_rank = [&](int stage) { return p_.zero >= stage ? trained.divided(p_) : trained.total(); };
  if (p_.adapter_rank > 0)
    add("adapters", TensorClass::kWeight, trained.total() * 2, "low-rank matrices in 16 bits");
  double grads = on_rank(2) * (p_.grad_fp32 ? 4 : 2);
  // Gradients that ranks divide follow the optimizer: each part leaves as soon as it is summed.
  bool follow = p_.place.gradients == Tier::kDevice && p_.zero >= 2;
  add("gradients", TensorClass::kGradient,
      placed(grads, follow ? p_.place.optimizer : p_.place.gradients,
             follow ? p_.place.optimizer_fraction : p_.place.gradients_fraction, a_.away.gradients),
      "");
  bool leave = follow && p_.place.optimizer != Tier::kDevice;
  if (p_.zero >= 2 && (data_group(p_).ranks > 1 || leave || p_.place.gradients != Tier::kDevice))
    add("gradient bucket", TensorClass::kGradient, 2 * std::min(kBucketElements, trained.total()),
        "assumed: gradients on their way to where they are kept, 5e8 elements at most");
  add("optimizer", TensorClass::kOptimizer,
      placed(on_rank(1) * 12, p_.place.optimizer, p_.place.optimizer_fraction, a_.away.optimizer),
      "fp32 master and two moments");
}

void TrainingMemory::activations() {
  double micro_batches = q_.global_batch / (q_.micro_batch * p_.dp);
  bool full = p_.recompute == RecomputePolicy::kFull, stay = p_.place.checkpoints == Tier::kDevice;
  double working = full ? counter_.working(stay) : 0;
  AxisId vocab = g_.find_axis("vocab");
  double logits = p_.tile_loss || vocab == kNoAxis ? 0 : counter_.tokens() * at_.local(vocab) * kLossBytesPerLogit;
  double loss = vocab == kNoAxis ? 0 : logits + counter_.head();
  double moved = 0;
  double chunk = placed(counter_.kept() / p_.chunks(), full ? p_.place.checkpoints : Tier::kDevice,
                        p_.place.checkpoints_fraction, moved);
  if (full && p_.place.checkpoints == Tier::kHost)  // all that are in flight, not one chunk alone
    a_.host_bytes += moved * (chunks_in_flight(p_, Stage::kFirst, micro_batches) - 1);
  a_.away.checkpoints = moved * p_.chunks();
  // The loss and the backward pass of a layer follow one another; the loss is on the last stage.
  double first = chunk * chunks_in_flight(p_, Stage::kFirst, micro_batches) + working;
  double last = chunk * chunks_in_flight(p_, Stage::kLast, micro_batches) + std::max(working, loss);
  Stage stage = last > first ? Stage::kLast : Stage::kFirst;
  if (p_.pp > 1 && stage == Stage::kFirst) loss = 0;
  add("activations", TensorClass::kActivation, chunk * chunks_in_flight(p_, stage, micro_batches),
      fmt::format("kept for the backward pass, recompute {}{}", name_of(p_.recompute),
                  p_.pp == 1               ? ""
                  : stage == Stage::kFirst ? "; first stage"
                                           : "; last stage"));
  if (working > loss)
    add("working memory of a layer", TensorClass::kActivation, working, "recomputed layer and its gradients");
  else if (loss > 0)
    add("logits and loss", TensorClass::kActivation, loss,
        logits > 0 ? "14 bytes a logit, and what the head keeps" : "what the head keeps");
  if (double tables = rotary_tables(); tables > 0)
    add("rotary tables", TensorClass::kActivation, tables, "cosines and sines of every position, made once for all layers");
  timeline(stage, chunk, working, loss);
}

// In 16 bits, as transformers' models make them (LlamaRotaryEmbedding) and hand them to each layer.
double TrainingMemory::rotary_tables() const {
  for (const Op& op : g_.ops)
    if (op.name == "rope") return 2 * 2 * counter_.tokens() / q_.micro_batch * g_.axes[g_.tensors[op.out.front()].axes.back()].extent;
  return 0;
}

// Steps of one stage in their order: forward steps ahead, then one forward and one backward step by turns,
// then the backward steps that are left. Long iterations are shown with fewer micro-batches: their middle
// repeats itself.
void TrainingMemory::timeline(Stage stage, double chunk, double working, double loss) {
  double micro_batches = std::min(q_.global_batch / (q_.micro_batch * p_.dp), 2.0 * p_.pp + 2);
  double steps = micro_batches * p_.chunks(), ahead = chunks_in_flight(p_, stage, micro_batches) - 1;
  double done = 0, freed = 0, tables = rotary_tables();
  auto point = [&](double more) {
    a_.timeline.push_back({100 * (done + freed) / (2 * steps), tables + (done - freed) * chunk + more});
  };
  auto forward = [&] {
    ++done;
    point(0);
    if (loss > 0) point(loss);
  };
  auto backward = [&] {
    point(working);
    ++freed;
    point(0);
  };
  point(0);
  while (done < ahead) forward();
  while (done < steps) forward(), backward();
  while (freed < steps) backward();
}

}  // namespace

void training_memory(const Graph& g, const Plan& plan, const Program& program, const Cluster& cluster,
                     const TrainQuestion& q, TrainAnswer& a) {
  TrainingMemory memory(g, plan, program, q, a);
  memory.states();
  memory.add("context and libraries", TensorClass::kCode,
             cluster.gpu.context_bytes().value() + kLoadedKernels + library_bytes(plan),
             "CUDA context and its kernels, matrix workspace, communication buffers");
  double fixed = a.total;
  memory.activations();
  for (auto& [when, bytes] : a.timeline) bytes += fixed;
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.total <= a.capacity;
}

double adapter_parameters(const Graph& graph, double rank) {
  double sum = 0;
  for (const Block& b : graph.blocks)
    for (std::uint32_t i = b.first_op; i < b.first_op + b.op_count; ++i) {
      const Op& op = graph.ops[i];
      if (op.kind != OpKind::kContract) continue;
      double in = 1, groups = op.grouped == kNoAxis ? 1 : graph.axes[op.grouped].extent;
      for (AxisId axis : graph.tensors[op.in.front()].axes)
        if (axis >= kFreeAxes) in *= graph.axes[axis].extent;
      for (TensorId t : op.in) {
        if (graph.tensors[t].cls != TensorClass::kWeight || !graph.tensors[t].linear) continue;
        double all = graph.tensors[t].copies;
        for (AxisId axis : graph.tensors[t].axes) all *= graph.axes[axis].extent;
        sum += rank * (in + all / groups / in) * groups * b.repeat;
      }
    }
  return sum;
}

}  // namespace orrery::graph
