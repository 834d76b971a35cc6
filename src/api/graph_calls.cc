// Graph operations of both APIs; see graph_calls.h.
#include "api/graph_calls.h"

namespace orrery::api {

std::shared_ptr<Graph> graph_of(const void* handle) { return handles<Graph>().get(handle, Status::invalid_value); }

GraphNode* node_of(const void* handle) {
  auto* node = static_cast<GraphNode*>(const_cast<void*>(handle));
  require(device::is_live_node(node), Status::invalid_value);
  return node;
}

std::vector<GraphNode*> nodes_of(const void* list, size_t count) {
  require(list != nullptr || count == 0, Status::invalid_value);
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; i++) nodes.push_back(node_of(static_cast<const void* const*>(list)[i]));
  return nodes;
}

GraphNode* add_node(const void* graph, const void* dependencies, size_t count, Work work) {
  return graph_of(graph)->add(std::move(work), nodes_of(dependencies, count));
}

void set_node(const void* handle, Work work) {
  GraphNode* node = node_of(handle);
  require(node->work.index() == work.index(), Status::invalid_value);
  node->work = std::move(work);
}

Work host_work(const abi::cudaHostNodeParams* p) {
  require(p != nullptr && p->fn != nullptr, Status::invalid_value);
  return device::HostWork{p->fn, p->userData, {}};
}
Work child_work(const void* graph) { return device::ChildWork{graph_of(graph)->clone()}; }

Work common_work(int type, const abi::cudaHostNodeParams* host, const void* child, const void* event) {
  switch (type) {
    case 3: return host_work(host);
    case 4: return child_work(child);
    case 5: return device::EmptyWork{};
    case 6: return device::EventWaitWork{event_of(event)};
    case 7: return device::EventRecordWork{event_of(event)};
    default: throw Failure(Status::not_supported, fmt::format("graph nodes of type {} are not supported", type));
  }
}

void give_list(const std::vector<GraphNode*>& nodes, void* list, size_t* count) {
  require(count != nullptr, Status::invalid_value);
  if (list) {
    for (size_t i = 0; i < *count; i++) static_cast<void**>(list)[i] = i < nodes.size() ? nodes[i] : nullptr;
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
}

Work kernel_work(Context& context, const void* function, exec::Dim3 grid, exec::Dim3 block, unsigned shared, void** arguments, void** extra) {
  device::LaunchRequest request = launch_request(function, grid, block, shared, arguments, extra);
  request.function = function_of(context, function);
  return device::make_launch(context, request);
}

Work memset_work(const abi::cudaMemsetParams& params) {
  require(params.elementSize == 1 || params.elementSize == 2 || params.elementSize == 4, Status::invalid_value);
  device::FillWork work;
  work.address = reinterpret_cast<uint64_t>(params.dst);
  work.pitch = params.height > 1 ? params.pitch : params.width * params.elementSize;
  work.value = params.value;
  work.element = params.elementSize;
  work.width = params.width;
  work.height = params.height;
  device::check_fill(work);
  return work;
}

unsigned long long create_condition(const void* graph, unsigned default_value, unsigned flags) {
  constexpr unsigned kAssignDefault = 1;
  require((flags & ~kAssignDefault) == 0, Status::invalid_value);
  return graph_of(graph)->create_condition(default_value, flags & kAssignDefault)->handle;
}

GraphNode* add_conditional_node(const void* graph, const void* dependencies, size_t count, abi::cudaConditionalNodeParams& params) {
  GraphNode* const node = graph_of(graph)->add_conditional(params.handle, params.type, params.size, nodes_of(dependencies, count));
  auto& work = std::get<device::ConditionalWork>(node->work);
  work.body_handles = std::make_shared<std::vector<void*>>();
  for (const auto& body : work.bodies) work.body_handles->push_back(handles<Graph>().add(body));
  params.phGraph_out = reinterpret_cast<abi::cudaGraph_t*>(work.body_handles->data());
  return node;
}

Graph* clone_graph(const void* handle) {
  auto graph = graph_of(handle);
  if (graph->has_conditional()) throw Failure(Status::not_supported, "a graph with conditional nodes cannot be cloned");
  return handles<Graph>().add(graph->clone());
}

namespace {
/// The handles of bodies die with the graph that holds the node.
void forget_bodies(const Graph& graph) {
  for (const auto& node : graph.nodes())
    if (const auto* work = std::get_if<device::ConditionalWork>(&node->work))
      for (const auto& body : work->bodies) {
        forget_bodies(*body);
        if (handles<Graph>().find(body.get())) handles<Graph>().take(body.get());
      }
}
}  // namespace

void destroy_graph(const void* handle) { forget_bodies(*handles<Graph>().take(handle, Status::invalid_value)); }

GraphExec* instantiate(const std::shared_ptr<Graph>& graph, uint64_t flags) {
  require((flags & ~uint64_t{15}) == 0, Status::invalid_value);
  const bool conditional = graph->has_conditional();
  if (conditional && !graph->instance.expired())
    throw Failure(Status::not_supported, "a graph with conditional nodes has one executable at a time: destroy the other first");
  auto exec = std::make_shared<GraphExec>(graph, flags);
  if (conditional) graph->instance = exec;
  return handles<GraphExec>().add(std::move(exec));
}

void launch_graph(Context& context, const void* handle, const void* stream) {
  auto graph = handles<GraphExec>().get(handle, Status::invalid_value);
  auto target = stream_of(context, stream);
  target->context().submit(target, graph->snapshot());
}

UserObject* UserObjects::create(std::shared_ptr<UserObject> object, unsigned references) {
  std::lock_guard lock(mutex_);
  UserObject* handle = object.get();
  all_[handle] = {std::move(object), long(references)};
  return handle;
}

std::shared_ptr<UserObject> UserObjects::get(const void* handle) {
  std::lock_guard lock(mutex_);
  auto at = all_.find(handle);
  require(at != all_.end(), Status::invalid_value);
  return at->second.first;
}

void UserObjects::change(const void* handle, long by) {
  std::shared_ptr<UserObject> last;
  std::lock_guard lock(mutex_);
  auto at = all_.find(handle);
  require(at != all_.end() && at->second.second + by >= 0, Status::invalid_value);
  at->second.second += by;
  if (at->second.second > 0) return;
  last = std::move(at->second.first);
  all_.erase(at);
}

UserObjects& user_objects() {
  static auto* const all = new UserObjects;
  return *all;
}

void** argument_pointers(const device::LaunchWork& work) {
  // Given back to callers that may read them for as long as the node lives; one list per query and thread.
  thread_local std::vector<void*> pointers;
  pointers.clear();
  for (const device::Parameter& parameter : work.function->parameters())
    pointers.push_back(const_cast<std::byte*>(work.params.data()) + parameter.offset);
  return pointers.data();
}

}  // namespace orrery::api
