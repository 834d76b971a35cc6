// Reader of graph files.
#include "graph/graph_file.h"

#include <initializer_list>
#include <map>

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "base/error.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

class GraphFileReader {
 public:
  GraphFileReader(const toml::table& root, std::string path)
      : root_(root), path_(std::move(path)), b_(name()) {}

  Graph read() {
    only(root_, {"name", "axes", "block", "window", "experts_per_token"});
    if (const auto* axes = root_["axes"].as_table())
      for (auto&& [key, value] : *axes) b_.axis(key.str(), positive(value, std::string(key.str())));
    const auto* blocks = root_["block"].as_array();
    if (!blocks || blocks->empty()) fail(root_, "no [[block]]");
    for (auto&& item : *blocks) block(table(item, "a block"));
    b_.graph().window = root_["window"].value_or(0.0);
    b_.graph().experts_per_token = root_["experts_per_token"].value_or(0.0);
    return b_.finish();
  }

 private:
  [[noreturn]] void fail(const toml::node& at, const std::string& what) const {
    base::fail("{}:{}: {}", path_, at.source().begin.line, what);
  }
  std::string name() const { return root_["name"].value_or(path_); }
  const toml::table& table(const toml::node& node, const char* what) const {
    if (!node.is_table()) fail(node, std::string(what) + " must be a table");
    return *node.as_table();
  }
  void only(const toml::table& t, std::initializer_list<std::string_view> known) const {
    for (auto&& [key, value] : t) {
      bool found = false;
      for (std::string_view k : known) found |= key.str() == k;
      if (!found) fail(value, "unknown key '" + std::string(key.str()) + "'");
    }
  }
  double positive(const toml::node& node, const std::string& what) const {
    auto value = node.value<double>();
    if (!value || *value <= 0) fail(node, what + " must be a positive number");
    return *value;
  }
  std::string text(const toml::table& t, const char* key) const {
    auto value = t[key].value<std::string>();
    if (!value) fail(t, std::string("needs text '") + key + "'");
    return *value;
  }
  std::vector<std::string> list(const toml::table& t, const char* key) const {
    std::vector<std::string> out;
    const auto* array = t[key].as_array();
    if (!array) return out;
    for (auto&& item : *array) {
      auto value = item.value<std::string>();
      if (!value) fail(item, std::string(key) + " holds something that is no name");
      out.push_back(*value);
    }
    return out;
  }
  AxisId axis(const toml::node& at, const std::string& name) {
    AxisId id = b_.graph().find_axis(name);
    if (id == kNoAxis) fail(at, "no axis '" + name + "'");
    return id;
  }
  TensorId tensor(const toml::node& at, const std::string& name) const {
    auto it = tensors_.find(name);
    if (it == tensors_.end()) fail(at, "no tensor '" + name + "' before this");
    return it->second;
  }

  void block(const toml::table& t) {
    only(t, {"name", "repeat", "layer", "tensors", "ops"});
    const toml::node* repeat = t.get("repeat");
    b_.begin(text(t, "name"), repeat ? positive(*repeat, "repeat") : 1, t["layer"].value_or(false));
    if (const auto* tensors = t["tensors"].as_array())
      for (auto&& item : *tensors) declare(table(item, "a tensor"));
    if (const auto* ops = t["ops"].as_array())
      for (auto&& item : *ops) op(table(item, "an operator"));
    b_.end();
  }

  void declare(const toml::table& t) {
    only(t, {"name", "axes", "class", "dtype", "linear", "replicated"});
    std::vector<AxisId> axes;
    for (const std::string& a : list(t, "axes")) axes.push_back(axis(t, a));
    int free = 0;
    for (AxisId a : axes) free += a < kFreeAxes;
    if (free > 1) fail(t, "a tensor has at most one free axis");
    TensorClass cls = class_of(t, t["class"].value_or(std::string("activation")));
    std::string name = text(t, "name");
    if (tensors_.contains(name)) fail(t, "tensor '" + name + "' is declared twice");
    TensorId id =
        b_.tensor(name, std::move(axes), cls, parse_dtype(t["dtype"].value_or(std::string("bf16"))));
    b_.at(id).linear = t["linear"].value_or(cls == TensorClass::kWeight);
    b_.at(id).replicated = t["replicated"].value_or(false);
    tensors_[name] = id;
  }
  TensorClass class_of(const toml::node& at, const std::string& name) const {
    for (int i = 0; i < kTensorClasses; ++i)
      if (name_of(static_cast<TensorClass>(i)) == name) return static_cast<TensorClass>(i);
    fail(at, "unknown class '" + name + "'");
  }
  OpKind kind_of(const toml::node& at, const std::string& name) const {
    for (int i = 0; i <= static_cast<int>(OpKind::kKernel); ++i)
      if (name_of(static_cast<OpKind>(i)) == name) return static_cast<OpKind>(i);
    fail(at, "unknown operator kind '" + name + "'");
  }

  void op(const toml::table& t) {
    only(t, {"kind", "name", "in", "out", "ops_per_element", "grouped", "pairs", "head_axis", "head_qk",
             "head_v", "fused", "saved"});
    std::vector<TensorId> in, out;
    for (const std::string& n : list(t, "in")) in.push_back(tensor(t, n));
    for (const std::string& n : list(t, "out")) out.push_back(tensor(t, n));
    if (in.empty() || out.empty()) fail(t, "an operator needs 'in' and 'out'");
    Op& o = b_.op(kind_of(t, text(t, "kind")), Part::kDense, text(t, "name"), std::move(in), std::move(out));
    o.ops_per_element = t["ops_per_element"].value_or(0.0);
    o.fused = t["fused"].value_or(false);
    if (t.contains("grouped")) o.grouped = axis(t, text(t, "grouped"));
    if (o.kind == OpKind::kContract && b_.graph().tensors[o.out.front()].axes.empty())
      fail(t, "a contract's result needs axes");
    if (o.kind == OpKind::kAttend) {
      o.pairs = axis(t, text(t, "pairs"));
      o.head_axis = axis(t, text(t, "head_axis"));
      o.head_qk = t["head_qk"].value_or(0.0);
      o.head_v = t["head_v"].value_or(0.0);
      if (o.head_qk <= 0 || o.head_v <= 0) fail(t, "attend needs head_qk and head_v");
    }
    for (const std::string& n : list(t, "saved")) o.saved.push_back(tensor(t, n));
  }

  const toml::table& root_;
  std::string path_;
  GraphBuilder b_;
  std::map<std::string, TensorId> tensors_;
};

}  // namespace

Graph read_graph_file(const std::string& path) {
  try {
    toml::table root = toml::parse_file(path);
    return GraphFileReader(root, path).read();
  } catch (const toml::parse_error& error) {
    base::fail("{}:{}: {}", path, error.source().begin.line, error.description());
  }
}

Graph load_graph(const std::string& model, const BuildOptions& options) {
  if (model.ends_with(".toml")) return read_graph_file(model);
  TransformerSpec spec = load_transformer(model);
  Graph graph = build_transformer(spec, options);
  Plan stored;
  if (!spec.stored_weights.empty() && !options.training)
    apply_verb("requant weight " + spec.stored_weights, graph, stored);
  if (!spec.stored_weights.empty() && options.training)
    graph.notes.push_back("trained in 16 bits, not in the format of the checkpoint");
  if (!spec.stored_kv.empty() && !options.training) apply_verb("requant kv " + spec.stored_kv, graph, stored);
  return graph;
}

}  // namespace orrery::graph
