// Legality of a division of a graph over ranks.
#include "graph/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "graph/layout.h"

namespace orrery::graph {

std::string_view name_of(RecomputePolicy policy) {
  constexpr std::string_view names[] = {"none", "selective", "full"};
  return names[static_cast<int>(policy)];
}
std::string_view name_of(Tier tier) {
  constexpr std::string_view names[] = {"device", "host", "nvme", "remote"};
  return names[static_cast<int>(tier)];
}

namespace {

void divides(const Graph& graph, const char* name, int parts, const char* what) {
  if (parts == 1) return;
  for (const Axis& axis : graph.axes) {
    if (!is_sized(axis, name)) continue;
    auto extent = static_cast<long long>(axis.extent);
    if (extent % parts)
      base::fail("{}: {} {} cannot be divided over {} {} ranks", graph.name, extent, name, parts, what);
  }
}

void positive(int value, const char* name) {
  if (value < 1) base::fail("{} must be at least 1, not {}", name, value);
}

}  // namespace

int Plan::gpus() const {
  double n = 1.0 * tp * pp * cp * (1.0 * dp + prefill_replicas);
  return n > kMostGpus ? kMostGpus + 1 : static_cast<int>(n);
}

void check_plan(const Graph& graph, const Plan& plan) {
  positive(plan.tp, "tp"), positive(plan.pp, "pp"), positive(plan.dp, "dp"), positive(plan.cp, "cp");
  positive(plan.ep, "ep"), positive(plan.virtual_stages, "virtual stages"),
      positive(plan.chunk_tokens, "chunk");
  if (plan.gpus() > kMostGpus) base::fail("the plan needs more than {} GPUs", kMostGpus);
  if (plan.zero < 0 || plan.zero > 3) base::fail("zero stage must be 0 to 3, not {}", plan.zero);
  for (const char* axis : {"heads", "ssm.heads", "ssm.inner"})
    divides(graph, axis, plan.attention_ranks(), "tensor-parallel");
  for (const char* axis : {"ffn", "dense_ffn", "shared_ffn"})
    divides(graph, axis, plan.dense_ranks(), "tensor-parallel");
  for (int ranks : {plan.attention_ranks(), plan.dense_ranks()})
    if (plan.tp % ranks)
      base::fail("{} ranks of one class of operators do not divide the {} tensor-parallel ones", ranks,
                 plan.tp);
  if (plan.prefill_replicas < 0) base::fail("the replicas that prefill must not be negative");
  int tp = plan.attention_ranks();
  for (const Axis& axis : graph.axes) {
    if (tp == 1 || (!is_sized(axis, "kv_heads") && axis.name != "ssm.groups")) continue;
    auto heads = static_cast<int>(axis.extent);
    if (heads % tp && tp % heads)
      base::fail("{}: {} {} can neither be divided over nor replicated evenly on {} tensor-parallel ranks",
                 graph.name, heads, axis.name, tp);
  }
  if (plan.ep > 1 && graph.find_axis("experts") == kNoAxis)
    base::fail("{} has no experts for ep {}", graph.name, plan.ep);
  divides(graph, "experts", plan.ep, "expert-parallel");
  int group = plan.tp * plan.dp * plan.cp;
  if (plan.ep > 1 && group % plan.ep)
    base::fail("ep {} does not divide the {} ranks of tp x dp x cp", plan.ep, group);
  divides(graph, "expert_ffn", expert_tensor_ranks(plan), "tensor-parallel");
  double layers = layers_of(graph);
  if (plan.pp > layers) base::fail("{}: {} layers cannot fill {} stages", graph.name, layers, plan.pp);
  // Embedding and head may count as a layer each, as in Llama 3's own plans.
  if (std::fmod(layers, plan.pp) != 0 && std::fmod(layers + 2, plan.pp) != 0)
    base::fail("{}: neither {} layers nor these with embedding and head divide over {} pipeline stages",
               graph.name, layers, plan.pp);
  if (plan.ulysses) divides(graph, "heads", plan.tp * plan.cp, "Ulysses and tensor-parallel");
}

void refuse_denoising(const Plan& plan) {
  if (plan.schedule == PipelineSchedule::kDenoising)
    base::fail("'stage {} denoising' divides the steps of a denoiser, and there are none here", plan.pp);
}

Cluster parse_cluster(const std::string& text) {
  auto colon = text.rfind(':');
  std::string name = text.substr(0, colon);
  int count = 1;
  if (colon != std::string::npos) {
    const char* first = text.data() + colon + 1;
    auto [end, error] = std::from_chars(first, text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMostGpus)
      base::fail("'{}': the number after the colon must be a count of GPUs from 1 to {}", text, kMostGpus);
  }
  return {load_profile(name), count};
}

}  // namespace orrery::graph
