// Replace, Fuse: which operators there are.
#include <fmt/format.h>

#include <cmath>

#include "graph/verbs.h"

namespace orrery::graph {
namespace {

// Whether query heads are a multiple of so many key-value heads in every kind of layer that has this axis: queries
// and keys of one product say which axes belong together.
bool heads_divide(const Graph& g, AxisId kv_heads, double extent) {
  for (const Op& op : g.ops) {
    const Tensor *q = nullptr, *k = nullptr;
    for (TensorId id : op.in) {
      const Tensor& t = g.tensors[id];
      if (t.axes.size() == 3 && t.name == "q.weight") q = &t;
      if (t.axes.size() == 3 && t.name == "k.weight") k = &t;
    }
    if (q && k && k->axes[1] == kv_heads && std::fmod(g.axes[q->axes[1]].extent, extent) != 0) return false;
  }
  return true;
}

void replace(VerbWords& w, Graph& g, Plan&) {
  std::string axis = w.word("axis");
  double extent = w.number("extent");
  AxisId id = g.find_axis(axis);
  if (id == kNoAxis || id < kFreeAxes) {
    std::string names;
    for (std::size_t i = kFreeAxes; i < g.axes.size(); ++i) names += " " + g.axes[i].name;
    w.refuse("no axis '" + axis + "'; axes:" + names);
  }
  if (extent < 1 || extent != std::floor(extent)) w.refuse("an extent is a positive whole number");
  if (axis.starts_with("kv_heads") && !heads_divide(g, id, extent))
    w.refuse("query heads are no multiple of that many key-value heads");
  if (axis == "experts" && extent < g.experts_per_token)
    w.refuse(fmt::format("each token chooses {:.0f} experts", g.experts_per_token));
  g.axes[id].extent = extent;
}

void fuse(VerbWords& w, Graph& g, Plan&) {
  std::string name = w.word("operator");
  bool matched = false;
  for (Op& op : g.ops) {
    bool hit = op.name == name || (name == "maps" && op.kind == OpKind::kMap);
    if (!hit) continue;
    if (op.kind != OpKind::kMap && op.kind != OpKind::kReduce)
      w.refuse("only map and reduce operators fuse into a neighbour");
    op.fused = true;
    matched = true;
  }
  if (!matched) w.refuse("no operator '" + name + "'");
}

constexpr Verb kVerbs[] = {
    {"replace", "replace AXIS EXTENT",
     "Gives a structural axis another extent: fewer key-value heads, a narrower latent, a smaller "
     "feed-forward part.",
     replace},
    {"fuse", "fuse OPERATOR|maps",
     "An element-wise operator runs inside its neighbour: its traffic and its kernel disappear, its "
     "operations stay.",
     fuse},
};

}  // namespace

std::span<const Verb> structure_verbs() { return kVerbs; }

}  // namespace orrery::graph
