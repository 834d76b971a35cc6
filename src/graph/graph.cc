// Construction of graphs and the counts that need no question: parameters.
#include "graph/graph.h"

#include <set>

#include "base/error.h"

namespace orrery::graph {

std::string_view name_of(OpKind kind) {
  constexpr std::string_view names[] = {"contract", "attend", "scan", "map",     "reduce",
                                        "gather",   "select", "move", "collect", "kernel"};
  return names[static_cast<int>(kind)];
}
std::string_view name_of(TensorClass cls) {
  constexpr std::string_view names[] = {"weight",    "state", "activation", "gradient",
                                        "optimizer", "index", "code"};
  return names[static_cast<int>(cls)];
}
std::string_view name_of(Part part) {
  constexpr std::string_view names[] = {"embed", "attention", "dense",  "expert",
                                        "head",  "encoder",   "decoder"};
  return names[static_cast<int>(part)];
}

AxisId Graph::find_axis(std::string_view name) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name) return static_cast<AxisId>(i);
  return kNoAxis;
}

namespace {

double elements(const Graph& graph, const Tensor& tensor) {
  double product = tensor.copies;
  for (AxisId axis : tensor.axes) product *= graph.axes[axis].extent;
  return product;
}

}  // namespace

ParameterCount count_parameters(const Graph& graph) {
  ParameterCount count;
  std::set<TensorId> multiplied;
  for (const Block& block : graph.blocks) {
    for (std::uint32_t t = block.first_tensor; t < block.first_tensor + block.tensor_count; ++t)
      if (graph.tensors[t].cls == TensorClass::kWeight) {
        double n = elements(graph, graph.tensors[t]) * graph.tensors[t].stored * block.repeat;
        count.total += n;
        if (graph.tensors[t].linear) count.linear += n;
      }
    for (std::uint32_t i = block.first_op; i < block.first_op + block.op_count; ++i) {
      const Op& op = graph.ops[i];
      if (op.kind != OpKind::kContract) continue;
      for (TensorId t : op.in) {
        if (graph.tensors[t].cls != TensorClass::kWeight || graph.tensors[t].axes.size() < 2) continue;
        double n = elements(graph, graph.tensors[t]) * block.repeat;
        if (op.grouped != kNoAxis) n *= graph.experts_per_token / graph.axes[op.grouped].extent;
        count.matmul_active += n;
      }
    }
  }
  return count;
}

GraphBuilder::GraphBuilder(std::string name) {
  graph_.name = std::move(name);
  for (const char* free : {"tokens", "seqs", "keys", "keys.window", "pairs", "pairs.window", "scores",
                           "routed", "outputs", "text", "joint", "keys.chosen", "pairs.chosen"})
    graph_.axes.push_back({free, 0});
}

AxisId GraphBuilder::axis(std::string_view name, double extent) {
  AxisId found = graph_.find_axis(name);
  if (found != kNoAxis) {
    if (graph_.axes[found].extent != extent)
      base::fail("axis '{}' has two extents: {} and {}", name, graph_.axes[found].extent, extent);
    return found;
  }
  if (!(extent > 0 && extent < 1e18)) base::fail("axis '{}' of {} has extent {}", name, graph_.name, extent);
  graph_.axes.push_back({std::string(name), extent});
  return static_cast<AxisId>(graph_.axes.size() - 1);
}

void GraphBuilder::begin(std::string_view block, double repeat, bool layer) {
  Block b;
  b.name = block;
  b.repeat = repeat;
  b.layer = layer;
  b.first_op = static_cast<std::uint32_t>(graph_.ops.size());
  b.first_tensor = static_cast<std::uint32_t>(graph_.tensors.size());
  graph_.blocks.push_back(std::move(b));
}

void GraphBuilder::end() {
  Block& b = graph_.blocks.back();
  b.op_count = static_cast<std::uint32_t>(graph_.ops.size()) - b.first_op;
  b.tensor_count = static_cast<std::uint32_t>(graph_.tensors.size()) - b.first_tensor;
}

TensorId GraphBuilder::tensor(std::string_view name, std::vector<AxisId> axes, TensorClass cls, DType dtype) {
  for (AxisId axis : axes)
    if (axis >= graph_.axes.size()) base::fail("tensor '{}' of {} has an axis of extent 0", name, graph_.name);
  Tensor t;
  t.name = name;
  t.axes = std::move(axes);
  t.cls = cls;
  t.dtype = dtype;
  graph_.tensors.push_back(std::move(t));
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::weight(std::string_view name, std::vector<AxisId> axes, bool linear) {
  TensorId id = tensor(name, std::move(axes), TensorClass::kWeight);
  graph_.tensors[id].linear = linear;
  return id;
}

TensorId GraphBuilder::act(std::string_view name, std::vector<AxisId> axes) {
  return tensor(name, std::move(axes), TensorClass::kActivation);
}

TensorId GraphBuilder::linear(Part part, std::string_view name, TensorId x, std::vector<AxisId> in,
                              std::vector<AxisId> out, bool bias, AxisId grouped, AxisId rows) {
  std::string stem(name);
  std::vector<AxisId> w_axes;
  if (grouped != kNoAxis) w_axes.push_back(grouped);
  w_axes.insert(w_axes.end(), in.begin(), in.end());
  w_axes.insert(w_axes.end(), out.begin(), out.end());
  TensorId w = weight(stem + ".weight", std::move(w_axes), true);
  if (bias) {
    std::vector<AxisId> b_axes = out;
    if (grouped != kNoAxis) b_axes.insert(b_axes.begin(), grouped);
    weight(stem + ".bias", std::move(b_axes));
  }
  std::vector<AxisId> y_axes{rows};
  y_axes.insert(y_axes.end(), out.begin(), out.end());
  TensorId y = act(stem, std::move(y_axes));
  Op& o = op(OpKind::kContract, part, name, {x, w}, {y});
  o.grouped = grouped;
  return y;
}

TensorId GraphBuilder::map(Part part, std::string_view name, std::vector<TensorId> in,
                           std::vector<AxisId> out, double ops, bool fused) {
  TensorId y = act(name, std::move(out));
  Op& o = op(OpKind::kMap, part, name, std::move(in), {y});
  o.ops_per_element = ops;
  o.fused = fused;
  return y;
}

Op& GraphBuilder::op(OpKind kind, Part part, std::string_view name, std::vector<TensorId> in,
                     std::vector<TensorId> out) {
  Op o;
  o.kind = kind;
  o.part = part;
  o.name = name;
  o.in = std::move(in);
  o.out = std::move(out);
  graph_.ops.push_back(std::move(o));
  return graph_.ops.back();
}

Graph GraphBuilder::finish() { return std::move(graph_); }

}  // namespace orrery::graph
