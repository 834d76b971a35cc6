// Axes over ranks, groups of ranks, and where they lie.
#include "graph/layout.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace orrery::graph {

int expert_tensor_ranks(const Plan& plan) {
  if (plan.ep <= 1) return plan.tp;
  return std::max(1, std::gcd(plan.tp, plan.tp * plan.dp * plan.cp / plan.ep));
}

int expert_replicas(const Plan& plan) {
  return std::max(1, plan.tp * plan.dp * plan.cp / (std::max(1, plan.ep) * expert_tensor_ranks(plan)));
}

double routed_share(const Plan& plan) { return static_cast<double>(expert_tensor_ranks(plan)) / plan.tp; }

Group data_group(const Plan& plan) { return {plan.dp * plan.cp, plan.tp * plan.cp * plan.dp}; }
Group expert_data_group(const Plan& plan) { return {expert_replicas(plan), plan.tp * plan.cp * plan.dp}; }
Group context_group(const Plan& plan) { return {plan.cp, plan.tp * plan.cp}; }
Group expert_group(const Plan& plan) { return {plan.ep, plan.ep * expert_tensor_ranks(plan)}; }

int far_hops(const Plan& plan, int per_host) {
  int width = plan.tp * plan.cp * plan.dp;
  int crossings = (plan.pp * width + per_host - 1) / per_host - 1;
  return std::min(plan.pp - 1, crossings);
}

Layout::Layout(const Graph& graph, const Plan& plan)
    : g_(graph), p_(plan), local_(graph.axes.size()), split_(graph.axes.size(), 1) {
  for (std::size_t i = 0; i < graph.axes.size(); ++i) local_[i] = graph.axes[i].extent;
  for (const char* axis : {"heads", "ssm.heads", "ssm.inner"}) divide(axis, plan.attention_ranks(), 0);
  // Fewer key-value heads (or groups of a state-space mixer) than ranks: each rank holds one.
  for (const char* axis : {"kv_heads", "ssm.groups"}) divide(axis, plan.attention_ranks(), 1);
  for (const char* axis : {"ffn", "dense_ffn", "shared_ffn"}) divide(axis, plan.dense_ranks(), 0);
  divide("vocab", plan.tp, 0);
  divide("experts", plan.ep, 0);
  divide("expert_ffn", expert_tensor_ranks(plan), 0);
}

void Layout::divide(std::string_view name, int parts, double least) {
  if (parts <= 1) return;
  for (AxisId id = kFreeAxes; id < g_.axes.size(); ++id) {
    if (!is_sized(g_.axes[id], name)) continue;
    local_[id] = std::max(least, g_.axes[id].extent / parts);
    split_[id] = parts;
  }
}

bool is_sized(const Axis& axis, std::string_view name) {
  std::string_view own = axis.name;
  if (!own.starts_with(name)) return false;
  own.remove_prefix(name.size());
  return own.empty() || (own.size() > 1 && own[0] == '.' && own[1] >= '0' && own[1] <= '9');
}

double Layout::elements(const Tensor& t, AxisId& free) const {
  double product = t.copies;
  free = kNoAxis;
  for (AxisId axis : t.axes) {
    if (axis < kFreeAxes)
      free = axis;
    else
      product *= t.replicated ? g_.axes[axis].extent : local_[axis];
  }
  return product;
}

bool Layout::divided(const Tensor& t) const {
  return !t.replicated && std::any_of(t.axes.begin(), t.axes.end(), [&](AxisId a) { return split_[a] > 1; });
}

Group Layout::replicas(const Tensor& weight) const {
  return p_.ep > 1 && of_experts(g_, weight) ? expert_data_group(p_) : data_group(p_);
}

bool of_experts(const Graph& graph, const Tensor& tensor) {
  AxisId experts = graph.find_axis("experts");
  return !tensor.replicated && experts != kNoAxis &&
         std::find(tensor.axes.begin(), tensor.axes.end(), experts) != tensor.axes.end();
}

bool is_cache(const Tensor& t) {
  return t.cls == TensorClass::kState &&
         std::any_of(t.axes.begin(), t.axes.end(), [](AxisId a) { return a == kKeys || a == kKeysWindow || a == kKeysChosen; });
}

double layers_of(const Graph& g) {
  double n = 0;
  for (const Block& b : g.blocks)
    if (b.layer) n += b.repeat;
  return n;
}

double hidden_of(const Graph& g) {
  AxisId id = g.find_axis("hidden");
  if (id == kNoAxis) base::fail("{} has no axis 'hidden', which layers and stages hand on", g.name);
  return g.axes[id].extent;
}

}  // namespace orrery::graph
