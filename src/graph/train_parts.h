// What the memory (train_memory.cc), the kept activations (train_activations.cc) and the time (train.cc) of a training
// rank share.
#pragma once

#include "graph/layout.h"
#include "graph/train.h"

namespace orrery::graph {

// Parameters (or bytes of them) of a rank: each kind has its own data-parallel ranks.
struct RankParameters {
  double dense = 0, expert = 0;
  double total() const { return dense + expert; }
  // What is left on a rank when ranks with the same parameters divide them.
  double divided(const Plan& plan) const {
    return dense / data_group(plan).ranks + expert / (plan.ep > 1 ? expert_data_group(plan) : data_group(plan)).ranks;
  }
  RankParameters operator*(double factor) const { return {dense * factor, expert * factor}; }
};
// Parameters of a rank, whatever width they are stored in, and their bytes.
RankParameters rank_parameters(const Program& program);
RankParameters rank_weight_bytes(const Program& program);

// Weights of which ranks hold a part each (or that another tier holds) exist whole while they are used: those outside
// the layers, which frameworks gather once and keep, and two layers, of which one is on its way. In 16 bits. `layout`:
// count only what several ranks divide; none: everything.
struct Gathered {
  double outside = 0, layers = 0;
  double total() const { return outside + layers; }
};
Gathered gathered_weights(const Program& program, const Layout* layout);

// Activations that one layer of a block keeps, and what its backward pass needs besides when it is recomputed.
struct Saved {
  double total = 0;   // all saved tensors of the layer
  double scores = 0;  // of which stored score matrices
  double ffn = 0;     // of which inside the feed-forward part, with a divided width
  double widest = 0;  // largest tensor of the feed-forward part
  double input = 0;   // the layer's input alone
  double input_in_total = 0;  // the same where an operator saves it, otherwise nothing
  double query = 0, attention_out = 0;
  double elements = 0;  // of the largest tensor whose kernels may have narrow offsets (Plan::offset_bits)
};
class ActivationCounter {
 public:
  ActivationCounter(const Layout& layout, const Plan& plan, double sequence, double micro_batch);
  // Of one micro-batch in all layers of one stage: what the recomputation policy keeps.
  double kept() const;
  // Largest working memory of a layer that is computed again; its input is among what is kept where checkpoints stay.
  double working(bool input_is_kept) const;
  // What the last norm and the head keep while the loss is computed.
  double head() const;
  // Elements of the largest tensor of a layer whose kernels may have narrow offsets.
  double largest_tensor() const;
  double tokens() const { return tokens_; }

 private:
  Saved layer(const Block& block) const;
  void count(const Op& op, TensorId id, Saved& s) const;
  double bytes(const Tensor& t) const;
  double ulysses_copies(const Op& op, const Tensor& t) const;
  bool narrow_offsets(const Op& op, const Tensor& t) const;
  double kept(const Saved& s) const;

  const Layout& at_;
  const Plan& p_;
  double tokens_, scores_;
};
// Chunks of layers (a stage holds Plan::chunks() of them) whose activations a stage keeps before it frees the first.
enum class Stage : std::uint8_t { kFirst, kLast };
double chunks_in_flight(const Plan& plan, Stage stage, double micro_batches);

// Fills the items, timeline, total, capacity, host bytes and verdict of an answer whose parameters are known.
void training_memory(const Graph& graph, const Plan& plan, const Program& program, const Cluster& cluster,
                     const TrainQuestion& question, TrainAnswer& answer);

}  // namespace orrery::graph
