// Where a plan puts a graph: the one place that knows which axes are divided, and over whom.
//
// Compiler, legality test, training memory and communication all ask here. Ranks are numbered in one order:
// tensor-parallel ranks are neighbours, then those that divide the sequence, then those that divide the batch,
// then pipeline stages. Experts are divided over the ranks of a stage: over `ep`, what is left of `tp` divides
// their width, and the rest hold replicas, which alone sum the gradients of these experts.
#pragma once

#include "graph/plan.h"

namespace orrery::graph {

// Ranks that act together, and how many ranks lie from the first to the last of them.
struct Group {
  int ranks = 1, span = 1;
};
// Ranks that divide the width of an expert, and those that hold the same part of the same experts.
int expert_tensor_ranks(const Plan& plan);
int expert_replicas(const Plan& plan);
// Share of a rank's routed rows (its tokens times experts per token) that it works on itself.
double routed_share(const Plan& plan);

// Data-parallel ranks: those that sum gradients and, by ZeRO, divide states. Of experts: their replicas.
Group data_group(const Plan& plan);
Group expert_data_group(const Plan& plan);
Group context_group(const Plan& plan);
Group expert_group(const Plan& plan);
// Of the hops from each stage to the next, those between hosts of `per_host` ranks.
int far_hops(const Plan& plan, int per_host);

class Layout {
 public:
  Layout(const Graph& graph, const Plan& plan);

  const Graph& graph() const { return g_; }
  double local(AxisId axis) const { return local_[axis]; }  // extent on this rank
  int split(AxisId axis) const { return split_[axis]; }     // ranks over which it is divided or replicated
  // Elements per unit of the free axis on this rank; sets `free` (kNoAxis: none).
  double elements(const Tensor& tensor, AxisId& free) const;
  double bytes(const Tensor& tensor, AxisId& free) const { return elements(tensor, free) * tensor.dtype.bytes(); }
  // Whether a rank holds only its part of the tensor.
  bool divided(const Tensor& tensor) const;
  // Iterations of the block on one rank, and the stages that run it one after the other.
  double repeat(const Block& block) const { return block.layer ? block.repeat / p_.pp : block.repeat; }
  int stages(const Block& block) const { return block.layer ? p_.pp : 1; }
  // Data-parallel ranks that hold the same part of a weight.
  Group replicas(const Tensor& weight) const;

 private:
  void divide(std::string_view name, int parts, double least);

  const Graph& g_;
  const Plan& p_;
  std::vector<double> local_;
  std::vector<int> split_;
};

// Whether the axis is the one of that name, or NAME.EXTENT: the same of layers of another size.
bool is_sized(const Axis& axis, std::string_view name);
// Whether the tensor belongs to experts that are an axis of it.
bool of_experts(const Graph& graph, const Tensor& tensor);
// Keys and values of a sequence, in contrast to a state that does not grow with it.
bool is_cache(const Tensor& tensor);
double layers_of(const Graph& graph);
// Extent of the axis that layers hand on; refuses a graph without it by name.
double hidden_of(const Graph& graph);

}  // namespace orrery::graph
