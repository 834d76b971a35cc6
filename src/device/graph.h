// device/graph.h: task graphs: nodes, stream capture, and executables made from them.
//
// A Graph owns its nodes, in the order they were added, which is always a topological order of a captured graph and
// usually of a hand-made one; instantiate() sorts. A GraphExec is flat: child graphs are expanded, each entry holds its
// own immutable Work, so that a launch in flight never sees an update.
// Threads: graphs under construction are guarded by Context::capture_lock() (capture) or by the caller, as in CUDA.
// A conditional node owns the graphs of its bodies; its Condition is shared by all copies of the node, so a graph with
// one has at most one executable at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/work.h"

namespace orrery::device {

class Stream;

struct GraphNode {
  Graph* graph = nullptr;
  Work work;
  std::vector<GraphNode*> dependencies;
  uint64_t id = 0;
  bool enabled = true;
};

/// The value behind a conditional node, which kernels set.
struct Condition {
  uint64_t handle = 0;
  std::atomic<uint32_t> value{0};
  uint32_t default_value = 0;
  bool assign_default = false;  // at each launch of the graph
  bool used = false;            // a node has it
};
/// The condition with that handle, or null.
std::shared_ptr<Condition> find_condition(uint64_t handle);

/// Type numbers of the ABI (cudaGraphNodeType and CUgraphNodeType agree).
int type_of(const Work& work);

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Throws Failure(invalid_value) when a dependency is foreign or named twice.
  GraphNode* add(Work work, const std::vector<GraphNode*>& dependencies);
  void remove(GraphNode* node);
  void connect(GraphNode* from, GraphNode* to);
  void disconnect(GraphNode* from, GraphNode* to);
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  std::vector<GraphNode*> dependents(const GraphNode* node) const;
  /// The copy; `node_in_clone` finds a node's counterpart in it.
  std::shared_ptr<Graph> clone() const;
  GraphNode* node_in_clone(const GraphNode* original) const;
  /// Nodes so that each stands after its dependencies. Throws Failure(invalid_value) on a circle.
  std::vector<GraphNode*> sorted() const;
  uint64_t id() const { return id_; }
  std::string to_dot() const;

  std::shared_ptr<Condition> create_condition(uint32_t default_value, bool assign_default);
  /// The node and the graphs of its bodies, in its work. Throws Failure(invalid_value): a condition that is not this
  /// graph's or has a node already, or a number of bodies that the kind does not have.
  GraphNode* add_conditional(uint64_t condition, int kind, uint32_t bodies, const std::vector<GraphNode*>& dependencies);
  bool has_conditional() const;
  /// The executable of a graph with conditional nodes.
  std::weak_ptr<GraphExec> instance;

  std::vector<std::pair<std::shared_ptr<void>, uint32_t>> user_objects;

 private:
  const uint64_t id_;
  std::vector<std::unique_ptr<GraphNode>> nodes_;
  std::map<const GraphNode*, GraphNode*> from_original_;
  std::vector<std::shared_ptr<Condition>> conditions_;
  friend class GraphExec;
};

/// True when `node` is a node of a live graph.
bool is_live_node(const GraphNode* node);

/// A capture in progress.
struct Capture {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  Stream* origin = nullptr;
  int mode = 0;                       // cudaStreamCaptureMode
  std::thread::id thread;
  bool invalidated = false;
  bool forked = false;  // other streams have joined it
  std::vector<Stream*> streams;
};

class GraphExec : public std::enable_shared_from_this<GraphExec> {
 public:
  explicit GraphExec(const std::shared_ptr<Graph>& graph, uint64_t flags);
  struct Entry {
    const GraphNode* node;            // the node it was made from: key of later updates
    std::shared_ptr<const NodeWork> work;
    bool enabled;
  };
  struct UpdateResult {
    int code = 0;                     // cudaGraphExecUpdateResult
    const GraphNode* node = nullptr;
  };
  UpdateResult update(const Graph& graph);
  /// Replaces a node's work. Throws Failure(invalid_value) when the node is not one of the executable's.
  void set_work(const GraphNode* node, Work work);
  const Work& work(const GraphNode* node) const;
  void set_child(const GraphNode* node, const Graph& child);
  void set_enabled(const GraphNode* node, bool enabled);
  bool enabled(const GraphNode* node) const;
  GraphLaunchWork snapshot() const;
  uint64_t flags() const { return flags_; }

 private:
  void append(const Graph& graph, std::vector<const GraphNode*> path);
  Entry& find(const GraphNode* node);
  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<Condition>> conditions_;
  std::shared_ptr<Graph> keeps_;      // a clone: keeps user objects and child graphs alive
  std::map<const GraphNode*, std::pair<size_t, size_t>> children_;  // child node -> range of entries
  uint64_t flags_ = 0;
};

/// The capture that submitting to `stream` belongs to, or null. Throws Failure when it was invalidated.
std::shared_ptr<Capture> capture_of(const Stream& stream);

}  // namespace orrery::device
