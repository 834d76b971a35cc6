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

void give_list(const std::vector<GraphNode*>& nodes, void* list, size_t* count) {
  require(count != nullptr, Status::invalid_value);
  if (list) {
    for (size_t i = 0; i < *count; i++) static_cast<void**>(list)[i] = i < nodes.size() ? nodes[i] : nullptr;
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
}

void read_extra(device::LaunchRequest& request, void** extra) {
  if (!extra) return;
  for (; *extra; extra += 2) {
    uintptr_t key = reinterpret_cast<uintptr_t>(*extra);
    require(key == 1 || key == 2, Status::invalid_value);
    if (key == 1) request.packed = extra[1];
    else request.packed_size = *static_cast<const size_t*>(extra[1]);
  }
}

Work kernel_work(Context& context, const void* function, exec::Dim3 grid, exec::Dim3 block, unsigned shared, void** arguments, void** extra) {
  device::LaunchRequest request;
  request.function = function_of(context, function);
  request.handle = function;
  request.grid = grid;
  request.block = block;
  request.dynamic_shared = shared;
  request.arguments = arguments;
  require(!(arguments && extra), Status::invalid_value);
  read_extra(request, extra);
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

GraphExec* instantiate(const std::shared_ptr<Graph>& graph, uint64_t flags) {
  require((flags & ~uint64_t{15}) == 0, Status::invalid_value);
  if (flags & 4) throw Failure(Status::not_supported, "graphs that kernels launch are not supported");
  return handles<GraphExec>().add(std::make_shared<GraphExec>(graph, flags));
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
