// api/graph_calls.h: graph operations that both APIs offer.
#pragma once
#include <algorithm>

#include "api/copying.h"
#include "api/launching.h"
#include "api/stream_calls.h"

namespace orrery::api {

using device::Graph;
using device::GraphExec;
using device::GraphNode;
using device::Work;

std::shared_ptr<Graph> graph_of(const void* handle);
/// Throws Failure(invalid_value) when the node is not one of a live graph.
GraphNode* node_of(const void* handle);
std::vector<GraphNode*> nodes_of(const void* list, size_t count);
/// Adds a node; returns its handle.
GraphNode* add_node(const void* graph, const void* dependencies, size_t count, Work work);
/// Replaces the work of a node; the kind must stay. Throws Failure(invalid_value).
void set_node(const void* node, Work work);
template <class T>
const T& node_work(const void* handle) {
  const T* work = std::get_if<T>(&node_of(handle)->work);
  require(work != nullptr, Status::invalid_value);
  return *work;
}

/// Writes handles into a list of the caller's with the counting rules of CUDA: a null list asks for the count; slots
/// beyond the count get null.
void give_list(const std::vector<GraphNode*>& nodes, void* list, size_t* count);

Work kernel_work(Context& context, const void* function, exec::Dim3 grid, exec::Dim3 block, unsigned shared, void** arguments, void** extra);
Work memset_work(const abi::cudaMemsetParams& params);
Work host_work(const abi::cudaHostNodeParams* params);
Work child_work(const void* graph);
/// Work of the kinds of node that both APIs describe alike, by their number: a call of the host, a child graph, nothing, the wait
/// for an event, its record. Throws Failure(not_supported) for others.
Work common_work(int type, const abi::cudaHostNodeParams* host, const void* child, const void* event);
/// The handle of a condition that nodes of `graph` can have. Throws Failure(invalid_value).
unsigned long long create_condition(const void* graph, unsigned default_value, unsigned flags);
/// Adds a conditional node and fills params.phGraph_out with the graphs of its bodies. Throws Failure(invalid_value).
GraphNode* add_conditional_node(const void* graph, const void* dependencies, size_t count, abi::cudaConditionalNodeParams& params);
Graph* clone_graph(const void* graph);
void destroy_graph(const void* graph);
GraphExec* instantiate(const std::shared_ptr<Graph>& graph, uint64_t flags);
void launch_graph(Context& context, const void* exec, const void* stream);

/// How the calls of one API add and change nodes: they differ only in how a node's work is made.
struct GraphCalls {
  int (*in)(const std::function<void(Context&)>&);  // runtime_in, driver_in

  template <class Node, class Make>
  int add(Node* out, const void* graph, const void* dependencies, size_t count, Make make) const {
    return in([&](Context& context) {
      require(out != nullptr, Status::invalid_value);
      *out = reinterpret_cast<Node>(add_node(graph, dependencies, count, make(context)));
    });
  }
  template <class Make>
  int change(const void* node, Make make) const {
    return in([&](Context& context) { set_node(node, make(context)); });
  }
  template <class Make>
  int change_exec(const void* exec, const void* node, Make make) const {
    return in([&](Context& context) {
      handles<GraphExec>().get(exec, Status::invalid_value)->set_work(static_cast<const GraphNode*>(node), make(context));
    });
  }
};

/// A reference-counted object that graphs keep alive.
struct UserObject {
  void* data = nullptr;
  void (*destroy)(void*) = nullptr;
  ~UserObject() {
    if (destroy) destroy(data);
  }
};

/// User objects with the references that the program holds itself; graphs hold shared pointers.
class UserObjects {
 public:
  UserObject* create(std::shared_ptr<UserObject> object, unsigned references);
  std::shared_ptr<UserObject> get(const void* handle);
  /// Adds or, below zero, drops references. Throws Failure(invalid_value).
  void change(const void* handle, long by);

 private:
  std::mutex mutex_;
  std::map<const void*, std::pair<std::shared_ptr<UserObject>, long>> all_;
};
UserObjects& user_objects();

/// Kernel launches remember their arguments for queries: pointers into the parameter buffer.
void** argument_pointers(const device::LaunchWork& work);

}  // namespace orrery::api
