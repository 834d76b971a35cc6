// Driver API: graphs. The operations are those of the runtime; only parameter structures differ.
#include <cstdio>
#include <cstring>

#include "api/abi_driver.h"
#include "api/driver_copy.h"
#include "api/graph_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using namespace orrery::device;

namespace {

Work work_of(Context& context, const CUDA_KERNEL_NODE_PARAMS* p) {
  require(p != nullptr, Status::invalid_value);
  const void* handle = p->func ? static_cast<const void*>(p->func) : static_cast<const void*>(p->kern);
  return kernel_work(context, handle, {p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                     p->kernelParams, p->extra);
}
Work work_of(const CUDA_MEMCPY3D* p) {
  require(p != nullptr, Status::invalid_value);
  CopyWork work = driver_box(*p);
  check_copy(work, Direction::automatic);
  return work;
}
Work work_of(const CUDA_MEMSET_NODE_PARAMS* p) {
  require(p != nullptr, Status::invalid_value);
  return memset_work({reinterpret_cast<void*>(p->dst), p->pitch, p->value, p->elementSize, p->width, p->height});
}
// Work of the general node description.
Work work_of(Context& context, CUgraphNodeParams* p) {
  require(p != nullptr, Status::invalid_value);
  switch (p->type) {
    case 0: return work_of(context, &p->kernel);
    case 1: return work_of(&p->memcpy.copyParams);
    case 2: return work_of(&p->memset);
    default: return common_work(p->type, &p->host, p->graph.graph, p->event.event);
  }
}

constexpr GraphCalls calls{driver_in};

}  // namespace

API(cuGraphCreate)(CUgraph* out, unsigned flags) {
  return driver([&] {
    require(out != nullptr && flags == 0, Status::invalid_value);
    *out = reinterpret_cast<CUgraph>(handles<Graph>().add(std::make_shared<Graph>()));
  });
}
API(cuGraphDestroy)(CUgraph graph) {
  return driver([&] { destroy_graph(graph); });
}
API(cuGraphClone)(CUgraph* out, CUgraph graph) {
  return driver([&] { *out = reinterpret_cast<CUgraph>(clone_graph(graph)); });
}
API(cuGraphNodeFindInClone)(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  return driver([&] {
    GraphNode* node = graph_of(clone)->node_in_clone(reinterpret_cast<const GraphNode*>(original));
    require(node != nullptr, Status::not_found);
    *out = reinterpret_cast<CUgraphNode>(node);
  });
}
API(cuGraphAddKernelNode_v2)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, const CUDA_KERNEL_NODE_PARAMS* p) {
  return calls.add(out, graph, deps, n, [&](Context& c) { return work_of(c, p); });
}
API(cuGraphAddMemcpyNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, const CUDA_MEMCPY3D* p, CUcontext) {
  return calls.add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cuGraphAddMemsetNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  return calls.add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cuGraphAddHostNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, const cudaHostNodeParams* p) {
  return calls.add(out, graph, deps, n, [&](Context&) { return host_work(p); });
}
API(cuGraphAddChildGraphNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, CUgraph child) {
  return calls.add(out, graph, deps, n, [&](Context&) { return Work{ChildWork{graph_of(child)->clone()}}; });
}
API(cuGraphAddEmptyNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n) {
  return calls.add(out, graph, deps, n, [&](Context&) { return Work{EmptyWork{}}; });
}
API(cuGraphAddEventRecordNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, CUevent event) {
  return calls.add(out, graph, deps, n, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cuGraphAddEventWaitNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, CUevent event) {
  return calls.add(out, graph, deps, n, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
}
API(cuGraphAddNode_v2)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, const cudaGraphEdgeData*, size_t n, CUgraphNodeParams* p) {
  constexpr int kConditional = 13;
  if (!p || p->type != kConditional) return calls.add(out, graph, deps, n, [&](Context& c) { return work_of(c, p); });
  return driver_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUgraphNode>(add_conditional_node(graph, deps, n, p->conditional));
  });
}
API(cuGraphAddNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* deps, size_t n, CUgraphNodeParams* p) {
  return orrery_cuGraphAddNode_v2(out, graph, deps, nullptr, n, p);
}
API(cuGraphConditionalHandleCreate)(unsigned long long* out, CUgraph graph, CUcontext, unsigned default_value, unsigned flags) {
  return driver_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = create_condition(graph, default_value, flags);
  });
}
API(cuGraphKernelNodeGetParams_v2)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  return driver([&] {
    const LaunchWork& w = node_work<LaunchWork>(node);
    *out = {const_cast<CUfunction>(static_cast<const std::remove_pointer_t<CUfunction>*>(w.handle)), w.grid.x, w.grid.y, w.grid.z, w.block.x, w.block.y,
            w.block.z, w.dynamic_shared, argument_pointers(w), nullptr, nullptr, nullptr};
  });
}
API(cuGraphKernelNodeSetParams_v2)(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  return calls.change(node, [&](Context& c) { return work_of(c, p); });
}
API(cuGraphMemcpyNodeGetParams)(CUgraphNode node, CUDA_MEMCPY3D* out) {
  return driver([&] { std::memcpy(out, node_work<CopyWork>(node).description.data(), sizeof *out); });
}
API(cuGraphMemcpyNodeSetParams)(CUgraphNode node, const CUDA_MEMCPY3D* p) {
  return calls.change(node, [&](Context&) { return work_of(p); });
}
API(cuGraphMemsetNodeGetParams)(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  return driver([&] {
    const FillWork& w = node_work<FillWork>(node);
    *out = {w.address, w.pitch, w.value, w.element, w.width, w.height};
  });
}
API(cuGraphMemsetNodeSetParams)(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
  return calls.change(node, [&](Context&) { return work_of(p); });
}
API(cuGraphHostNodeGetParams)(CUgraphNode node, cudaHostNodeParams* out) {
  return driver([&] { *out = {node_work<HostWork>(node).function, node_work<HostWork>(node).argument}; });
}
API(cuGraphHostNodeSetParams)(CUgraphNode node, const cudaHostNodeParams* p) {
  return calls.change(node, [&](Context&) { return host_work(p); });
}
API(cuGraphChildGraphNodeGetGraph)(CUgraphNode node, CUgraph* out) {
  return driver([&] { *out = reinterpret_cast<CUgraph>(handles<Graph>().add(node_work<ChildWork>(node).graph)); });
}
API(cuGraphEventRecordNodeGetEvent)(CUgraphNode node, CUevent* out) {
  return driver([&] { *out = reinterpret_cast<CUevent>(node_work<EventRecordWork>(node).event.get()); });
}
API(cuGraphEventWaitNodeGetEvent)(CUgraphNode node, CUevent* out) {
  return driver([&] { *out = reinterpret_cast<CUevent>(node_work<EventWaitWork>(node).event.get()); });
}
API(cuGraphNodeGetType)(CUgraphNode node, int* out) {
  return driver([&] { *out = type_of(node_of(node)->work); });
}
API(cuGraphGetNodes)(CUgraph graph, CUgraphNode* list, size_t* count) {
  return driver([&] {
    std::vector<GraphNode*> all;
    for (auto& node : graph_of(graph)->nodes()) all.push_back(node.get());
    give_list(all, list, count);
  });
}
API(cuGraphGetRootNodes)(CUgraph graph, CUgraphNode* list, size_t* count) {
  return driver([&] {
    std::vector<GraphNode*> roots;
    for (auto& node : graph_of(graph)->nodes())
      if (node->dependencies.empty()) roots.push_back(node.get());
    give_list(roots, list, count);
  });
}
API(cuGraphGetEdges)(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return driver([&] {
    std::vector<GraphNode*> sources, targets;
    for (auto& node : graph_of(graph)->nodes())
      for (GraphNode* before : node->dependencies) sources.push_back(before), targets.push_back(node.get());
    require(count != nullptr, Status::invalid_value);
    size_t room = *count;
    give_list(sources, from, count);
    if (to) give_list(targets, to, &room);
  });
}
API(cuGraphGetEdges_v2)(CUgraph graph, CUgraphNode* from, CUgraphNode* to, cudaGraphEdgeData* edges, size_t* count) {
  int code = orrery_cuGraphGetEdges(graph, from, to, count);
  if (!code && edges) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return code;
}
API(cuGraphNodeGetDependencies)(CUgraphNode node, CUgraphNode* list, size_t* count) {
  return driver([&] { give_list(node_of(node)->dependencies, list, count); });
}
API(cuGraphNodeGetDependencies_v2)(CUgraphNode node, CUgraphNode* list, cudaGraphEdgeData* edges, size_t* count) {
  int code = orrery_cuGraphNodeGetDependencies(node, list, count);
  if (!code && edges) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return code;
}
API(cuGraphNodeGetDependentNodes)(CUgraphNode node, CUgraphNode* list, size_t* count) {
  return driver([&] { give_list(node_of(node)->graph->dependents(node_of(node)), list, count); });
}
API(cuGraphNodeGetDependentNodes_v2)(CUgraphNode node, CUgraphNode* list, cudaGraphEdgeData* edges, size_t* count) {
  int code = orrery_cuGraphNodeGetDependentNodes(node, list, count);
  if (!code && edges) std::fill_n(edges, *count, cudaGraphEdgeData{});
  return code;
}
API(cuGraphAddDependencies)(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return driver([&] {
    for (size_t i = 0; i < count; i++) graph_of(graph)->connect(node_of(from[i]), node_of(to[i]));
  });
}
API(cuGraphAddDependencies_v2)(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const cudaGraphEdgeData*, size_t count) {
  return orrery_cuGraphAddDependencies(graph, from, to, count);
}
API(cuGraphRemoveDependencies)(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return driver([&] {
    for (size_t i = 0; i < count; i++) graph_of(graph)->disconnect(node_of(from[i]), node_of(to[i]));
  });
}
API(cuGraphRemoveDependencies_v2)(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const cudaGraphEdgeData*, size_t count) {
  return orrery_cuGraphRemoveDependencies(graph, from, to, count);
}
API(cuGraphDestroyNode)(CUgraphNode node) {
  return driver([&] { node_of(node)->graph->remove(node_of(node)); });
}
API(cuGraphInstantiateWithFlags)(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return driver([&] {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUgraphExec>(instantiate(graph_of(graph), flags));
  });
}
API(cuGraphInstantiateWithParams)(CUgraphExec* out, CUgraph graph, cudaGraphInstantiateParams* p) {
  int code = orrery_cuGraphInstantiateWithFlags(out, graph, p ? p->flags : 0);
  if (p) p->errNode_out = nullptr, p->result_out = code ? 1 : 0;
  return code;
}
PER_THREAD(cuGraphInstantiateWithParams, _ptsz)
API(cuGraphExecGetFlags)(CUgraphExec exec, unsigned long long* flags) {
  return driver([&] { *flags = handles<GraphExec>().get(exec, Status::invalid_value)->flags(); });
}
API(cuGraphExecDestroy)(CUgraphExec exec) {
  return driver([&] { handles<GraphExec>().take(exec, Status::invalid_value); });
}
API(cuGraphLaunch)(CUgraphExec exec, CUstream stream) {
  return driver_in([&](Context& context) { launch_graph(context, exec, stream); });
}
PER_THREAD(cuGraphLaunch, _ptsz)
API(cuGraphUpload)(CUgraphExec exec, CUstream) {
  return driver([&] { handles<GraphExec>().get(exec, Status::invalid_value); });
}
PER_THREAD(cuGraphUpload, _ptsz)
API(cuGraphExecUpdate_v2)(CUgraphExec exec, CUgraph graph, cudaGraphExecUpdateResultInfo* info) {
  return driver([&] {
    auto result = handles<GraphExec>().get(exec, Status::invalid_value)->update(*graph_of(graph));
    if (info) *info = {result.code, reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(result.node)), nullptr};
    require(result.code == 0, Status::graph_update_failure);
  });
}
API(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  return calls.change_exec(exec, node, [&](Context& c) { return work_of(c, p); });
}
API(cuGraphExecMemcpyNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
  return calls.change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cuGraphExecMemsetNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  return calls.change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cuGraphExecHostNodeSetParams)(CUgraphExec exec, CUgraphNode node, const cudaHostNodeParams* p) {
  return calls.change_exec(exec, node, [&](Context&) { return host_work(p); });
}
API(cuGraphExecChildGraphNodeSetParams)(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return driver([&] {
    handles<GraphExec>().get(exec, Status::invalid_value)->set_child(reinterpret_cast<const GraphNode*>(node), *graph_of(child));
  });
}
API(cuGraphNodeSetEnabled)(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return driver([&] {
    handles<GraphExec>().get(exec, Status::invalid_value)->set_enabled(reinterpret_cast<const GraphNode*>(node), enabled != 0);
  });
}
API(cuGraphNodeGetEnabled)(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  return driver([&] { *enabled = handles<GraphExec>().get(exec, Status::invalid_value)->enabled(reinterpret_cast<const GraphNode*>(node)); });
}
API(cuGraphDebugDotPrint)(CUgraph graph, const char* path, unsigned) {
  return driver([&] {
    FILE* file = path ? std::fopen(path, "w") : nullptr;
    require(file != nullptr, Status::invalid_value);
    std::fputs(graph_of(graph)->to_dot().c_str(), file);
    std::fclose(file);
  });
}
API(cuUserObjectCreate)(CUuserObject* out, void* data, cudaHostFn_t destroy, unsigned references, unsigned flags) {
  return driver([&] {
    require(out != nullptr && destroy != nullptr && references > 0 && flags == 1, Status::invalid_value);
    auto object = std::make_shared<UserObject>();
    object->data = data;
    object->destroy = destroy;
    *out = reinterpret_cast<CUuserObject>(user_objects().create(object, references));
  });
}
API(cuUserObjectRetain)(CUuserObject object, unsigned count) {
  return driver([&] { user_objects().change(object, long(count)); });
}
API(cuUserObjectRelease)(CUuserObject object, unsigned count) {
  return driver([&] { user_objects().change(object, -long(count)); });
}
API(cuGraphRetainUserObject)(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return driver([&] {
    graph_of(graph)->user_objects.emplace_back(user_objects().get(object), count);
    if (flags & 1) user_objects().change(object, -long(count));
  });
}
