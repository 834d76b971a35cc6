// Reader of graph files.
#include "graph/graph_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/toml.h"
#include "graph/stored_format.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

class GraphFileReader {
 public:
  GraphFileReader(const toml::table& root, std::string path)
      : root_(root), path_(std::move(path)), b_(name()) {}

  Graph read() {
    only(root_, {"name", "axes", "block", "window", "chosen", "experts_per_token"});
    if (const auto* axes = root_["axes"].as_table())
      for (auto&& [key, value] : *axes) b_.axis(key.str(), positive(value, std::string(key.str())));
    const auto* blocks = root_["block"].as_array();
    if (!blocks || blocks->empty()) fail(root_, "no [[block]]");
    for (auto&& item : *blocks) block(table(item, "a block"));
    if (b_.graph().ops.empty()) fail(root_, "no block has an operator");
    b_.graph().window = number(root_, "window", 0), b_.graph().chosen = number(root_, "chosen", 0);
    b_.graph().experts_per_token = number(root_, "experts_per_token", 0);
    AxisId experts = b_.graph().find_axis("experts");
    if (b_.graph().experts_per_token > (experts == kNoAxis ? 0 : b_.graph().axes[experts].extent))
      fail(root_, "experts_per_token is more than the axis 'experts' has");
    if (b_.graph().window <= 0 && windowed_) fail(root_, "an operator or tensor has a window, but 'window' is not given");
    if (b_.graph().chosen <= 0 && chosen_) fail(root_, "an operator or tensor has chosen keys, but 'chosen' is not given");
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
  static constexpr double kMost = 1e15;  // nor not-a-number: sums of products of a few stay finite
  double positive(const toml::node& node, const std::string& what) const {
    auto value = node.value<double>();
    if (!value || !(*value > 0 && *value < kMost)) fail(node, what + " must be a positive number below 1e15");
    return *value;
  }
  // Values that may be absent, but not of another type.
  double number(const toml::table& t, const char* key, double absent) const {
    const toml::node* node = t.get(key);
    if (!node) return absent;
    auto value = node->value<double>();
    if (!value || !(*value >= 0 && *value < kMost))
      fail(*node, std::string(key) + " must be a number below 1e15 that is not negative");
    return *value;
  }
  bool flag(const toml::table& t, const char* key, bool absent) const {
    const toml::node* node = t.get(key);
    if (!node) return absent;
    if (!node->is_boolean()) fail(*node, std::string(key) + " must be true or false");
    return *node->value<bool>();
  }
  std::string word(const toml::table& t, const char* key, const char* absent) const {
    return t.contains(key) ? text(t, key) : absent;
  }
  std::vector<const toml::table*> tables(const toml::table& t, const char* key) const {
    std::vector<const toml::table*> out;
    const toml::node* node = t.get(key);
    if (!node) return out;
    if (!node->is_array()) fail(*node, std::string(key) + " must be a list");
    for (auto&& item : *node->as_array()) out.push_back(&table(item, "an entry"));
    return out;
  }
  std::string text(const toml::table& t, const char* key) const {
    auto value = t[key].value<std::string>();
    if (!value) fail(t, std::string("needs text '") + key + "'");
    return *value;
  }
  std::vector<std::string> list(const toml::table& t, const char* key) const {
    std::vector<std::string> out;
    if (!t.contains(key)) return out;
    const auto* array = t[key].as_array();
    if (!array) fail(*t.get(key), std::string(key) + " must be a list of names");
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
  AxisId structural(const toml::table& t, const char* key) {
    AxisId id = axis(t, text(t, key));
    if (id < kFreeAxes) fail(t, std::string("'") + key + "' must be an axis with an extent");
    return id;
  }
  TensorId tensor(const toml::node& at, const std::string& name) const {
    auto it = tensors_.find(name);
    if (it == tensors_.end()) fail(at, "no tensor '" + name + "' before this");
    return it->second;
  }

  void block(const toml::table& t) {
    only(t, {"name", "repeat", "share", "phase", "layer", "tensors", "ops"});
    const toml::node* repeat = t.get("repeat");
    b_.begin(text(t, "name"), repeat ? positive(*repeat, "repeat") : 1, flag(t, "layer", false));
    Block& b = b_.graph().blocks.back();
    if (b.repeat > kMostRepeats) fail(*repeat, "repeat is more than any model has");
    b.share = number(t, "share", 1);
    if (b.share > 1) fail(t, "share must not exceed 1");
    std::string phase = word(t, "phase", "");
    if (phase != "" && phase != "prefill" && phase != "decode")
      fail(*t.get("phase"), "unknown phase '" + phase + "'; known: prefill, decode");
    b.phase = phase == "prefill" ? Phase::kPrefill : phase == "decode" ? Phase::kDecode : Phase::kAlways;
    for (const toml::table* item : tables(t, "tensors")) declare(*item);
    for (const toml::table* item : tables(t, "ops")) op(*item);
    b_.end();
  }

  void declare(const toml::table& t) {
    only(t, {"name", "axes", "class", "dtype", "linear", "replicated"});
    std::vector<AxisId> axes;
    for (const std::string& a : list(t, "axes")) axes.push_back(axis(t, a));
    int free = 0;
    for (AxisId a : axes) free += a < kFreeAxes, windowed_ |= a == kKeysWindow, chosen_ |= a == kKeysChosen;
    if (free > 1) fail(t, "a tensor has at most one free axis");
    TensorClass cls = class_of(t, word(t, "class", "activation"));
    std::string name = text(t, "name");
    if (tensors_.contains(name)) fail(t, "tensor '" + name + "' is declared twice");
    TensorId id =
        b_.tensor(name, std::move(axes), cls, parse_dtype(word(t, "dtype", "bf16")));
    b_.at(id).linear = flag(t, "linear", cls == TensorClass::kWeight);
    b_.at(id).replicated = flag(t, "replicated", false);
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
             "head_v", "fused", "saved", "timed", "kernel"});
    std::vector<TensorId> in, out;
    for (const std::string& n : list(t, "in")) in.push_back(tensor(t, n));
    for (const std::string& n : list(t, "out")) out.push_back(tensor(t, n));
    if (in.empty() || out.empty()) fail(t, "an operator needs 'in' and 'out'");
    Op& o = b_.op(kind_of(t, text(t, "kind")), Part::kDense, text(t, "name"), std::move(in), std::move(out));
    o.ops_per_element = number(t, "ops_per_element", 0);
    o.fused = flag(t, "fused", false);
    if (t.contains("grouped")) o.grouped = structural(t, "grouped");
    auto first_axis = [&](TensorId id) {
      const std::vector<AxisId>& axes = b_.graph().tensors[id].axes;
      return axes.empty() ? kNoAxis : axes.front();
    };
    if (o.kind == OpKind::kContract && first_axis(o.out.front()) >= kFreeAxes)
      fail(t, "the first axis of a contract's result must be a free one: it counts the rows");
    if (o.kind == OpKind::kAttend) {
      for (TensorId id : o.in)
        if (first_axis(id) >= kFreeAxes) fail(t, "the first axis of what attend takes must be a free one");
      o.pairs = axis(t, text(t, "pairs"));
      if (o.pairs >= kFreeAxes) fail(t, "'pairs' must be a free axis: pairs, pairs.window, pairs.chosen or scores");
      windowed_ |= o.pairs == kPairsWindow, chosen_ |= o.pairs == kPairsChosen;
      o.head_axis = structural(t, "head_axis");
      o.head_qk = number(t, "head_qk", 0);
      o.head_v = number(t, "head_v", 0);
      if (o.head_qk <= 0 || o.head_v <= 0) fail(t, "attend needs head_qk and head_v");
    }
    for (const std::string& n : list(t, "saved")) o.saved.push_back(tensor(t, n));
    if (t.contains("timed"))
      bind_kernel(t, o);
    else if (t.contains("kernel"))
      fail(t, "'kernel' names one of the kernels of a file 'timed'");
  }
  // The seam to the kernel scale: seconds and joules of the kernels that carry the operator out.
  void bind_kernel(const toml::table& t, Op& o) {
    std::filesystem::path file = text(t, "timed");
    if (file.is_relative()) file = std::filesystem::path(path_).parent_path() / file;
    std::string wanted = word(t, "kernel", "");
    std::ifstream in(file);
    if (!in) fail(t, "cannot read " + file.string());
    nlohmann::json records = nlohmann::json::parse(in, nullptr, false);
    if (!records.is_array()) fail(t, file.string() + " holds no records of `orrery time --json`");
    int count = 0;
    for (const auto& r : records) {
      if (!r.is_object() || !r.contains("kernel") || !r["kernel"].is_string() || !r.contains("us") ||
          !r["us"].is_number())
        fail(t, file.string() + " holds a record without 'kernel' and 'us'");
      if (r["kernel"].get<std::string>().find(wanted) == std::string::npos) continue;
      o.seconds += r["us"].get<double>() * 1e-6;
      if (r.contains("joules") && r["joules"].is_number()) o.joules += r["joules"].get<double>();
      ++count;
    }
    if (!(o.seconds > 0)) fail(t, file.string() + " has no kernel '" + wanted + "'");
    b_.graph().notes.push_back(fmt::format("operator {} is bound to {} kernels of {}: {:.4g} us whatever its size",
                                           o.name, count, file.filename().string(), o.seconds * 1e6));
  }

  const toml::table& root_;
  std::string path_;
  GraphBuilder b_;
  std::map<std::string, TensorId> tensors_;
  bool windowed_ = false, chosen_ = false;
};

}  // namespace

Graph read_graph_file(const std::string& path) {
  toml::table root = base::read_toml(path);
  return GraphFileReader(root, path).read();
}

Graph load_graph(const std::string& model, const BuildOptions& options) {
  if (model.ends_with(".toml")) return read_graph_file(model);
  TransformerSpec spec = load_transformer(model, options.stored && !options.training);
  Graph graph = build_transformer(spec, options);
  bool narrow = !spec.stored_weights.empty(), narrow_kv = !spec.stored_kv.empty();
  if (options.training) {
    if (narrow) graph.notes.push_back("trained in 16 bits, not in the checkpoint's " + spec.stored_weights);
    return graph;
  }
  Plan stored;
  if (narrow && options.stored) {
    apply_verb("requant weight " + spec.stored_weights, graph, stored), keep_wide(graph, spec.stored_kept);
    graph.notes.push_back(spec.stored_note);
  } else if (narrow_kv) {
    graph.notes.push_back(fmt::format("keys and values in {} as the checkpoint stores them", spec.stored_kv));
  }
  if (narrow_kv) apply_verb("requant kv " + spec.stored_kv, graph, stored);
  return graph;
}

}  // namespace orrery::graph
