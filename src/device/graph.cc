// Graphs and their executables; see graph.h.
#include "device/graph.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "device/status.h"
#include "device/stream.h"

namespace orrery::device {
namespace {

std::atomic<uint64_t> next_graph_id{1}, next_node_id{1};
std::mutex live_mutex;
std::unordered_set<const GraphNode*>& live_nodes() {
  static auto* set = new std::unordered_set<const GraphNode*>;
  return *set;
}

/// By handle; guarded by live_mutex.
std::unordered_map<uint64_t, std::weak_ptr<Condition>>& conditions() {
  static auto* map = new std::unordered_map<uint64_t, std::weak_ptr<Condition>>;
  return *map;
}

void note_node(const GraphNode* node, bool live) {
  std::lock_guard lock(live_mutex);
  if (live) live_nodes().insert(node);
  else live_nodes().erase(node);
}

}  // namespace

bool is_live_node(const GraphNode* node) {
  std::lock_guard lock(live_mutex);
  return live_nodes().contains(node);
}

int type_of(const Work& work) {
  struct Visitor {
    int operator()(const LaunchWork&) { return 0; }
    int operator()(const CopyWork&) { return 1; }
    int operator()(const FillWork&) { return 2; }
    int operator()(const HostWork&) { return 3; }
    int operator()(const ChildWork&) { return 4; }
    int operator()(const EmptyWork&) { return 5; }
    int operator()(const EventWaitWork&) { return 6; }
    int operator()(const EventRecordWork&) { return 7; }
    int operator()(const AllocWork&) { return 10; }
    int operator()(const FreeWork&) { return 11; }
    int operator()(const ValueWork&) { return 12; }
    int operator()(const BatchWork&) { return 12; }
    int operator()(const GraphLaunchWork&) { return 4; }
    int operator()(const ConditionalWork&) { return 13; }
  };
  return std::visit(Visitor{}, work);
}

std::shared_ptr<Condition> find_condition(uint64_t handle) {
  std::lock_guard lock(live_mutex);
  const auto at = conditions().find(handle);
  return at == conditions().end() ? nullptr : at->second.lock();
}

std::shared_ptr<Condition> Graph::create_condition(uint32_t default_value, bool assign_default) {
  static std::atomic<uint64_t> next{1};
  auto condition = std::make_shared<Condition>();
  condition->handle = next++;
  condition->default_value = default_value;
  condition->assign_default = assign_default;
  conditions_.push_back(condition);
  std::lock_guard lock(live_mutex);
  std::erase_if(conditions(), [](const auto& item) { return item.second.expired(); });
  conditions()[condition->handle] = condition;
  return condition;
}

GraphNode* Graph::add_conditional(uint64_t handle, int kind, uint32_t bodies, const std::vector<GraphNode*>& dependencies) {
  const auto at = std::ranges::find_if(conditions_, [&](const auto& c) { return c->handle == handle; });
  require(at != conditions_.end() && !(*at)->used && kind >= 0 && kind <= int(ConditionKind::switch_), Status::invalid_value);
  ConditionalWork work;
  work.condition = *at;
  work.kind = ConditionKind(kind);
  const uint32_t most = work.kind == ConditionKind::if_ ? 2 : work.kind == ConditionKind::while_ ? 1 : 1u << 16;
  require(bodies >= 1 && bodies <= most, Status::invalid_value);
  for (uint32_t i = 0; i < bodies; i++) work.bodies.push_back(std::make_shared<Graph>());
  GraphNode* const node = add(std::move(work), dependencies);
  (*at)->used = true;
  return node;
}

bool Graph::has_conditional() const {
  return std::ranges::any_of(nodes_, [](const auto& node) {
    const auto* child = std::get_if<ChildWork>(&node->work);
    return std::holds_alternative<ConditionalWork>(node->work) || (child && child->graph->has_conditional());
  });
}

Graph::Graph() : id_(next_graph_id++) {}

Graph::~Graph() {
  for (auto& node : nodes_) note_node(node.get(), false);
}

GraphNode* Graph::add(Work work, const std::vector<GraphNode*>& dependencies) {
  std::set<GraphNode*> seen;
  for (GraphNode* node : dependencies) require(is_live_node(node) && node->graph == this && seen.insert(node).second, Status::invalid_value);
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->work = std::move(work);
  node->dependencies = dependencies;
  node->id = next_node_id++;
  note_node(node.get(), true);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Graph::remove(GraphNode* node) {
  for (auto& other : nodes_) std::erase(other->dependencies, node);
  note_node(node, false);
  std::erase_if(nodes_, [&](auto& item) { return item.get() == node; });
}

void Graph::connect(GraphNode* from, GraphNode* to) {
  require(is_live_node(from) && is_live_node(to) && from->graph == this && to->graph == this && from != to, Status::invalid_value);
  require(std::ranges::find(to->dependencies, from) == to->dependencies.end(), Status::invalid_value);
  to->dependencies.push_back(from);
}

void Graph::disconnect(GraphNode* from, GraphNode* to) {
  require(is_live_node(from) && is_live_node(to) && to->graph == this, Status::invalid_value);
  require(std::erase(to->dependencies, from) == 1, Status::invalid_value);
}

std::vector<GraphNode*> Graph::dependents(const GraphNode* node) const {
  std::vector<GraphNode*> result;
  for (auto& other : nodes_)
    if (std::ranges::find(other->dependencies, node) != other->dependencies.end()) result.push_back(other.get());
  return result;
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::make_shared<Graph>();
  copy->user_objects = user_objects;
  copy->conditions_ = conditions_;
  for (auto& node : nodes_) {
    Work work = node->work;
    if (auto* child = std::get_if<ChildWork>(&work)) child->graph = child->graph->clone();
    GraphNode* twin = copy->add(std::move(work), {});
    twin->enabled = node->enabled;
    copy->from_original_[node.get()] = twin;
  }
  for (auto& node : nodes_)
    for (GraphNode* dependency : node->dependencies) copy->from_original_[node.get()]->dependencies.push_back(copy->from_original_[dependency]);
  return copy;
}

GraphNode* Graph::node_in_clone(const GraphNode* original) const {
  auto at = from_original_.find(original);
  return at == from_original_.end() || !is_live_node(at->second) ? nullptr : at->second;
}

std::vector<GraphNode*> Graph::sorted() const {
  std::vector<GraphNode*> order;
  std::set<const GraphNode*> placed;
  while (order.size() < nodes_.size()) {
    size_t before = order.size();
    for (auto& node : nodes_) {
      if (placed.contains(node.get())) continue;
      if (!std::ranges::all_of(node->dependencies, [&](GraphNode* d) { return placed.contains(d); })) continue;
      order.push_back(node.get());
      placed.insert(node.get());
    }
    require(order.size() > before, Status::invalid_value);
  }
  return order;
}

std::string Graph::to_dot() const {
  static const char* const kNames[] = {"kernel", "memcpy", "memset", "host", "graph", "empty", "wait event", "record event", "", "", "alloc", "free", "mem op", "conditional"};
  std::string text = "digraph dot {\n";
  for (auto& node : nodes_) text += fmt::format("  n{} [label=\"{} {}\"];\n", node->id, node->id, kNames[type_of(node->work)]);
  for (auto& node : nodes_)
    for (GraphNode* from : node->dependencies) text += fmt::format("  n{} -> n{};\n", from->id, node->id);
  return text + "}\n";
}

GraphExec::GraphExec(const std::shared_ptr<Graph>& graph, uint64_t flags) : keeps_(graph->clone()), flags_(flags) { append(*graph, {}); }

void GraphExec::append(const Graph& graph, std::vector<const GraphNode*> path) {
  for (const auto& condition : graph.conditions_) {
    require(condition->used, Status::invalid_value);
    conditions_.push_back(condition);
  }
  for (GraphNode* node : graph.sorted()) {
    if (auto* child = std::get_if<ChildWork>(&node->work)) {
      size_t first = entries_.size();
      append(*child->graph, path);
      children_[node] = {first, entries_.size()};
    } else if (auto* conditional = std::get_if<ConditionalWork>(&node->work)) {
      ConditionalWork ready = *conditional;
      for (const auto& body : ready.bodies) {
        const GraphExec inner(body, 0);
        ready.runs.push_back(inner.snapshot());
        conditions_.insert(conditions_.end(), inner.conditions_.begin(), inner.conditions_.end());
      }
      entries_.push_back({node, std::make_shared<const NodeWork>(NodeWork{std::move(ready)}), node->enabled});
    } else {
      entries_.push_back({node, std::make_shared<const NodeWork>(NodeWork{node->work}), node->enabled});
    }
  }
}

GraphExec::Entry& GraphExec::find(const GraphNode* node) {
  for (Entry& entry : entries_)
    if (entry.node == node) return entry;
  throw Failure(Status::invalid_value);
}

void GraphExec::set_work(const GraphNode* node, Work work) {
  Entry& entry = find(node);
  require(entry.work->work.index() == work.index(), Status::invalid_value);
  entry.work = std::make_shared<const NodeWork>(NodeWork{std::move(work)});
}

const Work& GraphExec::work(const GraphNode* node) const { return const_cast<GraphExec*>(this)->find(node).work->work; }

void GraphExec::set_child(const GraphNode* node, const Graph& child) {
  auto at = children_.find(node);
  require(at != children_.end(), Status::invalid_value);
  GraphExec fresh(std::const_pointer_cast<Graph>(child.shared_from_this()), 0);
  auto [first, last] = at->second;
  require(fresh.entries_.size() == last - first, Status::graph_update_failure);
  for (size_t i = first; i < last; i++) entries_[i].work = fresh.entries_[i - first].work;
}

void GraphExec::set_enabled(const GraphNode* node, bool enabled) { find(node).enabled = enabled; }
bool GraphExec::enabled(const GraphNode* node) const { return const_cast<GraphExec*>(this)->find(node).enabled; }

GraphExec::UpdateResult GraphExec::update(const Graph& graph) {
  GraphExec fresh(std::const_pointer_cast<Graph>(graph.shared_from_this()), 0);
  if (fresh.entries_.size() != entries_.size()) return {2, fresh.entries_.empty() ? nullptr : fresh.entries_.back().node};
  for (size_t i = 0; i < entries_.size(); i++)
    if (entries_[i].work->work.index() != fresh.entries_[i].work->work.index()) return {3, fresh.entries_[i].node};
  for (size_t i = 0; i < entries_.size(); i++) entries_[i].work = fresh.entries_[i].work;
  return {};
}

GraphLaunchWork GraphExec::snapshot() const {
  auto nodes = std::make_shared<std::vector<std::shared_ptr<const NodeWork>>>();
  for (const Entry& entry : entries_)
    if (entry.enabled) nodes->push_back(entry.work);
  return {std::move(nodes), conditions_, weak_from_this().lock()};
}

std::shared_ptr<Capture> capture_of(const Stream& stream) {
  if (stream.capture && stream.capture->invalidated) throw Failure(Status::capture_invalidated);
  return stream.capture;
}

}  // namespace orrery::device
