// Activations that a training rank keeps for the backward pass: the saved tensors of its layers' operators,
// divided as the layout says, times the chunks of layers that its pipeline has in flight.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "graph/train_parts.h"

namespace orrery::graph {

ActivationCounter::ActivationCounter(const Layout& layout, const Plan& plan, double sequence,
                                     double micro_batch)
    : at_(layout),
      p_(plan),
      tokens_(sequence * micro_batch / plan.cp),
      scores_(sequence * sequence * micro_batch / plan.cp) {}

namespace {

// What a layer hands on to its backward pass when the rest is computed again: the stream between layers, which
// need not be what its first operator takes first (a choice among earlier layers takes them all); otherwise
// that.
std::optional<TensorId> input_of(const Graph& g, const Block& block) {
  if (block.op_count == 0) return std::nullopt;
  for (std::uint32_t i = block.first_op; i < block.first_op + block.op_count; ++i)
    for (TensorId t : g.ops[i].in)
      if (g.tensors[t].name == "layer.in") return t;
  const Op& first = g.ops[block.first_op];
  return first.in.empty() ? std::nullopt : std::optional(first.in.front());
}

}  // namespace

Saved ActivationCounter::layer(const Block& block) const {
  Saved s;
  std::set<TensorId> seen;
  for (std::uint32_t i = block.first_op; i < block.first_op + block.op_count; ++i) {
    const Op& op = at_.graph().ops[i];
    for (TensorId t : op.saved)
      if (seen.insert(t).second) count(op, t, s);
  }
  if (std::optional<TensorId> input = input_of(at_.graph(), block)) {
    s.input = bytes(at_.graph().tensors[*input]);
    if (seen.contains(*input)) s.input_in_total = s.input;
  }
  return s;
}

void ActivationCounter::count(const Op& op, TensorId id, Saved& s) const {
  const Graph& g = at_.graph();
  const Tensor& t = g.tensors[id];
  auto wide = [&](AxisId a) {
    const std::string& name = g.axes[a].name;
    return name == "ffn" || name == "dense_ffn" || name == "shared_ffn" || name == "expert_ffn";
  };
  double n = bytes(t) * ulysses_copies(op, t);
  s.total += n;
  if (t.name.starts_with("probabilities")) s.scores += n;
  bool ffn = (op.part == Part::kDense || op.part == Part::kExpert) &&
             std::any_of(t.axes.begin(), t.axes.end(), wide);
  if (narrow_offsets(op, t)) s.elements = std::max(s.elements, bytes(t) / t.dtype.bytes());
  if (ffn) s.ffn += n, s.widest = std::max(s.widest, n);
  if (t.name == "q" || t.name == "q_b") s.query = n;
  if (t.name == "attn.out") s.attention_out = bytes(t);
}

// Ranks that trade the sequence for heads keep attention's result twice, before it is sent back (attention's backward pass
// needs it) and after (the output product's does), and hold at least one key-value head of the whole sequence each
// (DeepSpeed, sequence/layer.py and runtime/sequence_parallel/ulysses_sp.py, which repeats them).
double ActivationCounter::ulysses_copies(const Op& op, const Tensor& t) const {
  if (!p_.ulysses || p_.cp <= 1 || op.kind != OpKind::kAttend) return 1;
  if (t.name == "attn.out") return 2;
  for (AxisId axis : t.axes)
    if (is_sized(at_.graph().axes[axis], "kv_heads")) return std::max(1.0, p_.cp / at_.local(axis));
  return 1;
}

// Norms take the stream between layers whole, attention its queries, keys, values and result. Kernels inside the
// feed-forward part count rows in 64 bits already where those of the norms still do in 32 (Liger 0.5.9), as does the sum of
// query gradients of FlashAttention 2.7.4.
bool ActivationCounter::narrow_offsets(const Op& op, const Tensor& t) const {
  const Graph& g = at_.graph();
  if (t.name == "attn.out") return true;
  if (op.kind == OpKind::kAttend) return !t.name.starts_with("probabilities");
  return t.axes.size() == 2 && t.axes.front() == kTokens && g.axes[t.axes.back()].name == "hidden";
}

double ActivationCounter::bytes(const Tensor& t) const {
  AxisId free;
  double n = at_.bytes(t, free);
  if (free == kScores) return n * scores_;
  if (free == kRouted) return n * tokens_ * at_.graph().experts_per_token * routed_share(p_);
  if (free != kNoAxis) n *= tokens_;
  // What tensor parallelism leaves whole is divided along the sequence.
  bool whole = p_.sequence_parallel && t.cls == TensorClass::kActivation && !at_.divided(t);
  return whole ? n / p_.tp : n;
}

double ActivationCounter::kept(const Saved& s) const {
  switch (p_.recompute) {
    case RecomputePolicy::kFull: return s.input;
    case RecomputePolicy::kSelective: return s.total - s.scores;
    default: return s.total;
  }
}

double ActivationCounter::kept() const {
  double sum = 0;
  for (const Block& b : at_.graph().blocks)
    if (b.layer) sum += kept(layer(b)) * at_.repeat(b);
  return sum;
}

double ActivationCounter::head() const {
  double sum = 0;
  for (const Block& b : at_.graph().blocks)
    if (b.name == "head") sum += layer(b).total;
  return sum;
}

double ActivationCounter::working(bool input_is_kept) const {
  double most = 0;
  for (const Block& b : at_.graph().blocks) {
    if (!b.layer) continue;
    Saved s = layer(b);
    // Feed-forward: everything saved, and the gradients of the product and of one of its factors.
    double ffn = p_.tile_mlp ? 0 : s.ffn + 2 * s.widest;
    double rest = s.total - s.ffn - s.scores - (input_is_kept ? s.input_in_total : 0);
    // Attention: gradients of output and query, fp32 sums for the query's, key and value gradients per query
    // head, and the gradient that passes by.
    double attention = s.attention_out + s.query + 2 * s.query + 2 * s.query + s.input;
    most = std::max(most, rest + std::max(ffn, attention));
  }
  return most;
}

double ActivationCounter::largest_tensor() const {
  double most = 0;
  for (const Block& b : at_.graph().blocks)
    if (b.layer) most = std::max(most, layer(b).elements);
  return most;
}

double addressable_sequence(const Graph& graph, const Plan& plan, double micro_batch) {
  if (plan.offset_bits == 64) return kAnyContext;
  Layout layout(graph, plan);
  double a_token = ActivationCounter(layout, plan, 1, micro_batch).largest_tensor();
  return a_token > 0 ? std::floor((std::exp2(plan.offset_bits - 1) - 1) / a_token) : kAnyContext;
}

// A stage works ahead until the micro-batch that it began with comes back: p - 1 forward steps on the first
// stage, none on the last; with interleaved chunks twice as far, and through the chunks before the last one
// (Megatron-LM's schedules; the sum over the first stage is that of arXiv 2205.05198, section 4.2.3).
double chunks_in_flight(const Plan& plan, Stage stage, double micro_batches) {
  double chunks = plan.chunks(), ahead = stage == Stage::kFirst ? plan.pp - 1.0 : 0;
  if (chunks > 1) ahead = 2 * ahead + (chunks - 1) * plan.pp;
  return std::min(ahead + 1, micro_batches * chunks);
}

double activation_bytes(const Graph& graph, const Plan& plan, double sequence, double micro_batch,
                        double micro_batches) {
  Layout layout(graph, plan);
  return ActivationCounter(layout, plan, sequence, micro_batch).kept() / plan.chunks() *
         chunks_in_flight(plan, Stage::kFirst, micro_batches);
}

}  // namespace orrery::graph
