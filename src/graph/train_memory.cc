// Memory of a training rank: states, kept activations, the working memory of a layer or of the loss.
#include "graph/train.h"

#include <algorithm>
#include <cmath>
#include <set>

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

double layers_of(const Graph& g) {
  double n = 0;
  for (const Block& b : g.blocks)
    if (b.layer) n += b.repeat;
  return n;
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

// Parameters of a rank, whatever width they are stored in.
double rank_parameters(const Program& program) {
  double sum = 0;
  for (const auto& [tensor, bytes] : program.weights)
    sum += bytes / program.graph->tensors[tensor].dtype.bytes();
  return sum;
}

namespace {

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

// Layers' worth of activations that the first stage holds at its fullest: p micro-batches of L/p layers, and
// what interleaving starts early (arXiv 2205.05198, section 4.2.3).
double layers_in_flight(const Plan& plan, double layers) {
  double factor = plan.virtual_stages > 1 ? 1 + (plan.pp - 1.0) / (plan.pp * plan.virtual_stages) : 1;
  return layers * factor;
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

void add(TrainAnswer& a, std::string what, TensorClass cls, double bytes, std::string how) {
  a.items.push_back({std::move(what), cls, bytes, std::move(how)});
  a.total += bytes;
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

}  // namespace

void training_memory(const Graph& g, const Plan& plan, const Program& program, const Cluster& cluster,
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
  if (plan.adapter_rank > 0) add(a, "adapters", TensorClass::kWeight, trainable * 2, "low-rank matrices in 16 bits");
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
