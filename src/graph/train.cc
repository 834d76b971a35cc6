// Memory and time of a training iteration.
#include "graph/train.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

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

namespace {

constexpr double kAdamBytesMoved =
    34;  // per parameter: read gradient, master, moments; write master, moments, weight
// Bytes per logit that the loss keeps at its peak: bf16 logits, their fp32 copy, log-probabilities, their
// gradient.
constexpr double kLossBytesPerLogit = 14;

struct Saved {
  double total = 0;   // all saved tensors of the layer
  double scores = 0;  // of which stored score matrices
  double ffn = 0;     // of which inside the feed-forward part, with a divided width
  double widest = 0;  // largest tensor of the feed-forward part
  double input = 0;   // the layer's input alone
  double query = 0, attention_out = 0;
};

class ActivationCounter {
 public:
  ActivationCounter(const Graph& graph, const Plan& plan, double sequence, double micro_batch)
      : g_(graph),
        p_(plan),
        tokens_(sequence * micro_batch / plan.cp),
        scores_(sequence * sequence * micro_batch / plan.cp) {}

  Saved layer(const Block& block) const {
    Saved s;
    std::set<TensorId> seen;
    for (std::uint32_t i = block.first_op; i < block.first_op + block.op_count; ++i) {
      const Op& op = g_.ops[i];
      for (TensorId t : op.saved)
        if (seen.insert(t).second) count(op, t, s);
    }
    return s;
  }

 private:
  void count(const Op& op, TensorId id, Saved& s) const {
    const Tensor& t = g_.tensors[id];
    bool divided = false;
    double n = bytes(t, divided);
    s.total += n;
    if (t.name.starts_with("probabilities")) s.scores += n;
    bool ffn = (op.part == Part::kDense || op.part == Part::kExpert) && wide(t);
    if (ffn) s.ffn += n, s.widest = std::max(s.widest, n);
    if (t.name == "layer.in") s.input = n;
    if (t.name == "q" || t.name == "q_b") s.query = n;
    if (t.name == "attn.out") s.attention_out = n;
  }
  bool wide(const Tensor& t) const {
    for (AxisId a : t.axes)
      for (const char* name : {"ffn", "dense_ffn", "shared_ffn", "expert_ffn"})
        if (g_.axes[a].name == name) return true;
    return false;
  }
  double bytes(const Tensor& t, bool& divided) const {
    double n = t.dtype.bytes();
    for (AxisId a : t.axes) {
      const std::string& name = g_.axes[a].name;
      if (a == kTokens || a == kOutputs)
        n *= tokens_;
      else if (a == kScores)
        n *= scores_;
      else if (a == kRouted)
        n *= tokens_ * g_.experts_per_token;
      else if (a < kFreeAxes)
        n *= tokens_;
      else if (name == "heads" || name == "ffn" || name == "dense_ffn" || name == "shared_ffn")
        n *= g_.axes[a].extent / p_.tp, divided = true;
      else if (name == "kv_heads")
        n *= std::max(1.0, g_.axes[a].extent / p_.tp), divided = true;
      else
        n *= g_.axes[a].extent;
    }
    if (!divided && p_.sequence_parallel && t.cls == TensorClass::kActivation) n /= p_.tp;
    return n;
  }

  const Graph& g_;
  const Plan& p_;
  double tokens_, scores_;
};

double kept(const Plan& plan, const Saved& s) {
  switch (plan.recompute) {
    case RecomputePolicy::kFull: return s.input;
    case RecomputePolicy::kSelective: return s.total - s.scores;
    default: return s.total;
  }
}

const Block* first_layer(const Graph& g) {
  for (const Block& b : g.blocks)
    if (b.layer) return &b;
  base::fail("{} has no layers", g.name);
}

double layers_of(const Graph& g) {
  double n = 0;
  for (const Block& b : g.blocks)
    if (b.layer) n += b.repeat;
  return n;
}

// Layers' worth of activations that the first stage holds at its fullest: p micro-batches of L/p layers, and
// what interleaving starts early (arXiv 2205.05198, section 4.2.3).
double layers_in_flight(const Plan& plan, double layers) {
  double factor = plan.virtual_stages > 1 ? 1 + (plan.pp - 1.0) / (plan.pp * plan.virtual_stages) : 1;
  return layers * factor;
}

double hidden_of(const Graph& g) {
  AxisId id = g.find_axis("hidden");
  if (id == kNoAxis) base::fail("{} has no axis 'hidden', which training hands from layer to layer", g.name);
  return g.axes[id].extent;
}
double vocab_of(const Graph& g) {
  AxisId v = g.find_axis("vocab");
  return v == kNoAxis ? 0 : g.axes[v].extent;
}

}  // namespace

double layer_activation_bytes(const Graph& graph, const Plan& plan, double sequence, double micro_batch) {
  return kept(plan, ActivationCounter(graph, plan, sequence, micro_batch).layer(*first_layer(graph)));
}

double activation_bytes(const Graph& graph, const Plan& plan, double sequence, double micro_batch) {
  ActivationCounter counter(graph, plan, sequence, micro_batch);
  double sum = 0, layers = layers_of(graph);
  for (const Block& b : graph.blocks)
    if (b.layer) sum += kept(plan, counter.layer(b)) * b.repeat;
  return sum * layers_in_flight(plan, layers) / layers;
}

namespace {

// Walks one sequence of the forward pass over the whole model on one rank.
Ledger forward_ledger(const Program& program, double sequence, double sequences, bool causal, Binding& b) {
  StepShape s;
  s.prefill_tokens = sequence * sequences;
  s.prefill_seqs = sequences;
  s.causal = causal;
  b = bind(*program.graph, program.plan, s);
  b[kOutputs] = b[kTokens];
  for (FreeAxis axis : {kTokens, kRouted, kOutputs, kPairs, kPairsWindow, kScores})
    b[axis] /= program.plan.cp;
  Ledger ledger;
  walk(program, b, ledger);
  return ledger;
}

}  // namespace

double training_flops_per_token(const Graph& graph, double sequence, bool causal) {
  Plan one;
  Program program = compile(graph, one);
  Binding b;
  Ledger ledger = forward_ledger(program, sequence, 1, causal, b);
  double ops = 0;
  for (const Line& line : ledger.lines) {
    const ProgramOp& op = program.ops[line.op];
    if (op.kind == OpKind::kContract || op.kind == OpKind::kAttend) ops += line.ops * line.times;
  }
  return 3 * ops / sequence;
}

namespace {

struct Passes {
  double forward = 0, backward = 0, again = 0;  // seconds of one micro-batch on one stage
  double forward_head = 0, backward_head = 0;   // of embedding, head and loss
  double comm = 0;                              // of which tensor-parallel communication
  double model_ops = 0, hardware_ops = 0;       // of one micro-batch on one rank, whole stage
  double bytes = 0;                             // of device memory, the same
};

Passes measure_passes(const Program& program, const TrainQuestion& q, const Rates& rates) {
  Binding b;
  Ledger ledger = forward_ledger(program, q.sequence, q.micro_batch, q.causal, b);
  const Plan& plan = program.plan;
  bool fp8 = plan.compute.format == Format::kFp8;
  Passes t;
  for (const Line& line : ledger.lines) {
    ProgramOp op = program.ops[line.op];
    if (fp8 && op.kind == OpKind::kContract && op.part != Part::kHead) op.format = Format::kFp8;
    // Stored scores are not causal: the whole matrix is computed.
    double seconds = time_of(op, line, b, rates).seconds * line.times;
    bool layer = program.graph->blocks[op.block].layer;
    bool matmul = op.kind == OpKind::kContract || op.kind == OpKind::kAttend;
    if (op.collective != Collective::kNone) {
      seconds *= 1 - plan.overlap_tp;
      double repeats = 2 + (layer && plan.recompute == RecomputePolicy::kFull ? 1 : 0);
      t.comm += seconds * repeats;
    }
    double back = op.collective != Collective::kNone ? 1 : op.kind == OpKind::kAttend ? 2.5 : 2;
    (layer ? t.forward : t.forward_head) += seconds;
    (layer ? t.backward : t.backward_head) += seconds * back;
    double ops = matmul ? line.ops * line.times : 0;
    t.bytes += 3 * (line.weight + line.activation) * line.times;
    t.model_ops += 3 * ops;
    bool redo = layer && (plan.recompute == RecomputePolicy::kFull ||
                          (plan.recompute == RecomputePolicy::kSelective && op.kind == OpKind::kAttend));
    if (redo) t.again += seconds;
    t.hardware_ops += (redo ? 4 : 3) * ops;
  }
  return t;
}

void add(TrainAnswer& a, std::string what, TensorClass cls, double bytes, std::string how) {
  a.items.push_back({std::move(what), cls, bytes, std::move(how)});
  a.total += bytes;
}

// Parameters of a rank, whatever width they are stored in.
double rank_parameters(const Program& program) {
  double sum = 0;
  for (const auto& [tensor, bytes] : program.weights)
    sum += bytes / program.graph->tensors[tensor].dtype.bytes();
  return sum;
}

// What the backward pass of one recomputed layer needs besides its checkpoint.
double working_bytes(const Plan& plan, const Saved& s) {
  // Feed-forward: everything saved, and the gradients of the product and of one of its factors.
  double ffn = plan.tile_mlp ? 0 : s.ffn + 2 * s.widest;
  double rest = s.total - s.ffn - s.scores;
  // Attention: gradients of output and query, fp32 sums for the query's, key and value gradients per query
  // head, and the gradient that passes by.
  double attention = s.attention_out + s.query + 2 * s.query + 2 * s.query + s.input;
  return rest + std::max(ffn, attention);
}

void memory(const Graph& g, const Plan& plan, const Program& program, const Cluster& cluster,
            const TrainQuestion& q, TrainAnswer& a) {
  double here = rank_parameters(program);
  double ranks = static_cast<double>(plan.dp) * plan.cp;
  double trainable = a.trainable / a.parameters * here;
  double w = program.weight_bytes / (plan.zero >= 3 ? ranks : 1);
  if (plan.place.weights != Tier::kDevice) {
    double gathered = 2 * hidden_of(g) * vocab_of(g) * 2;
    w = gathered;
    add(a, "weights", TensorClass::kWeight, w, "embedding and head gathered; the rest streams from the host");
  } else {
    add(a, "weights", TensorClass::kWeight, w, fmt::format("{:.2f} G parameters on this rank", here / 1e9));
  }
  double grad_bytes = plan.grad_fp32 ? 4 : 2;
  double grads = q.gradients_held ? trainable * grad_bytes / (plan.zero >= 2 ? ranks : 1) : 0;
  if (plan.place.optimizer != Tier::kDevice && plan.zero >= 2) grads = 0;
  if (plan.place.gradients == Tier::kDevice) add(a, "gradients", TensorClass::kGradient, grads, "");
  if (plan.place.optimizer == Tier::kDevice)
    add(a, "optimizer", TensorClass::kOptimizer, trainable * 12 / (plan.zero >= 1 ? ranks : 1),
        "fp32 master and two moments");
  ActivationCounter counter(g, plan, q.sequence, q.micro_batch);
  double act = activation_bytes(g, plan, q.sequence, q.micro_batch);
  if (plan.place.weights == Tier::kHost) a.host_bytes += program.weight_bytes / (plan.zero >= 3 ? ranks : 1);
  if (plan.place.gradients == Tier::kHost)
    a.host_bytes += trainable * grad_bytes / (plan.zero >= 2 ? ranks : 1);
  if (plan.place.optimizer == Tier::kHost) a.host_bytes += trainable * 12 / (plan.zero >= 1 ? ranks : 1);
  if (plan.place.checkpoints == Tier::kHost && plan.recompute == RecomputePolicy::kFull) a.host_bytes += act;
  if (plan.place.checkpoints != Tier::kDevice && plan.recompute == RecomputePolicy::kFull) act = 0;
  double working =
      plan.recompute == RecomputePolicy::kFull ? working_bytes(plan, counter.layer(*first_layer(g))) : 0;
  double tokens = q.sequence * q.micro_batch / plan.cp;
  double loss = plan.tile_loss ? 0 : tokens * vocab_of(g) / plan.tp * kLossBytesPerLogit;
  add(a, "activations", TensorClass::kActivation, act,
      fmt::format("kept for the backward pass, recompute {}", name_of(plan.recompute)));
  // The loss and the backward pass of a layer follow one another.
  add(a, working > loss ? "working memory of a layer" : "logits and loss", TensorClass::kActivation,
      std::max(working, loss), working > loss ? "recomputed layer and its gradients" : "14 bytes a logit");
  add(a, "context and libraries", TensorClass::kCode, cluster.gpu.context_bytes().value() + 1.1e9,
      "CUDA context, matrix workspace, communication buffers");
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.total <= a.capacity;
}

}  // namespace

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

TrainAnswer train(const Graph& graph, const Plan& plan, const Cluster& cluster, const TrainQuestion& q) {
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
  Program program = compile(graph, plan);
  Rates rates = read_rates(cluster.gpu);
  TrainAnswer a;
  ParameterCount count = count_parameters(graph);
  a.parameters = count.total;
  a.trainable = count.total;
  if (plan.adapter_rank > 0) a.trainable = adapter_parameters(graph, plan.adapter_rank);
  memory(graph, plan, program, cluster, q, a);

  Passes t = measure_passes(program, q, rates);
  double frozen =
      plan.adapter_rank > 0 ? 0.5 : 1;  // no gradients of frozen weights: one of two backward products
  double stage = t.forward + t.backward * frozen + t.again;
  double head = (t.forward_head + t.backward_head);
  double warm = (plan.pp - 1.0) / (plan.schedule == PipelineSchedule::kInterleaved ? plan.virtual_stages : 1);
  if (plan.schedule == PipelineSchedule::kZeroBubble) warm /= 3;
  a.bubble = warm * stage;
  a.compute = micro_batches * (stage + head);
  a.tensor_comm = micro_batches * t.comm;
  double chunk = q.sequence * q.micro_batch / plan.cp * hidden_of(graph) * 2 / plan.tp;
  int reach = plan.tp * plan.pp > rates.per_host ? rates.per_host + 1 : 2;
  double hops = plan.pp > 1 ? 2 * (micro_batches + plan.pp - 1) * std::max(1, plan.virtual_stages) : 0;
  a.pipeline_comm =
      hops * collective_time(Collective::kSendReceive, reach, chunk, rates) * (1 - plan.overlap_pp);
  double here = rank_parameters(program) * a.trainable / a.parameters;
  double ranks = static_cast<double>(plan.dp) * plan.cp;
  int dp_group = static_cast<int>(ranks);
  int wide = plan.gpus() > rates.per_host ? std::max(dp_group, rates.per_host + 1) : dp_group;
  if (ranks > 1) {
    double gradients = here * (plan.grad_fp32 && plan.zero < 3 ? 4 : 2);
    if (plan.zero >= 3) {
      // Weights are gathered for each micro-batch, forward and backward; gradients are scattered once.
      double weights = rank_parameters(program) * 2;
      a.data_comm = 2 * micro_batches * collective_time(Collective::kAllGather, wide, weights, rates) +
                    collective_time(Collective::kReduceScatter, wide, gradients, rates);
    } else {
      a.data_comm = collective_time(Collective::kAllReduce, wide, gradients, rates);
    }
    a.data_comm *= 1 - plan.overlap_dp;
  }
  a.optimizer = here * kAdamBytesMoved / (plan.zero >= 1 ? ranks : 1) / rates.memory;
  if (plan.place.optimizer != Tier::kDevice) {
    // Gradients go to the host, weights come back; the host's update runs at its memory's speed.
    double share = here / (plan.zero >= 1 ? ranks : 1);
    a.offload = (share * 4 / rates.host + share * kAdamBytesMoved / 200e9) * (1 - plan.overlap_prefetch);
    a.optimizer = 0;
  }
  if (plan.place.weights != Tier::kDevice)
    a.offload += micro_batches * 2 * program.weight_bytes / ranks / rates.host * (1 - plan.overlap_prefetch);
  a.seconds = a.compute + a.bubble + a.pipeline_comm + a.data_comm + a.optimizer + a.offload;
  double gpus = plan.gpus();
  a.model_flops = training_flops_per_token(graph, q.sequence, q.causal) * q.sequence * q.global_batch;
  a.hardware_flops = a.model_flops * (t.model_ops > 0 ? t.hardware_ops / t.model_ops : 1);
  a.tflops_per_gpu = a.model_flops / a.seconds / gpus / 1e12;
  a.mfu = a.tflops_per_gpu * 1e12 / rates.peak16;
  a.tokens_s_per_gpu = q.sequence * q.global_batch / a.seconds / gpus;
  bool narrow = plan.compute.format == Format::kFp8 && rates.has_fp8;
  a.joules_ops = a.hardware_flops * (narrow ? rates.joules_op8 : rates.joules_op16);
  a.joules_bytes = gpus * micro_batches * t.bytes * rates.joules_byte;
  a.joules_idle = gpus * a.seconds * rates.idle_watts;
  double all = a.joules_ops + a.joules_bytes + a.joules_idle;
  a.joules = std::min(all, gpus * a.seconds * rates.limit_watts);
  a.joules_cut = a.joules - all;
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
