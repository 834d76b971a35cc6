// Runtime API: graphs and their nodes; runtime_graph_exec.cc has those that run.
#include <cstdio>
#include <cstring>

#include "api/runtime_graph_work.h"

using namespace orrery::api;
using namespace orrery::abi;
using namespace orrery::device;

API(cudaGraphCreate)(cudaGraph_t* out, unsigned flags) {
  return runtime_in([&](Context&) {
    require(out != nullptr && flags == 0, Status::invalid_value);
    *out = reinterpret_cast<cudaGraph_t>(handles<Graph>().add(std::make_shared<Graph>()));
  });
}
API(cudaGraphDestroy)(cudaGraph_t graph) {
  return runtime_in([&](Context&) { destroy_graph(graph); });
}
API(cudaGraphClone)(cudaGraph_t* out, cudaGraph_t graph) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaGraph_t>(clone_graph(graph));
  });
}
API(cudaGraphNodeFindInClone)(cudaGraphNode_t* out, cudaGraphNode_t original, cudaGraph_t clone) {
  return runtime_in([&](Context&) {
    GraphNode* node = graph_of(clone)->node_in_clone(reinterpret_cast<const GraphNode*>(original));
    require(out != nullptr && node != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaGraphNode_t>(node);
  });
}

API(cudaGraphAddKernelNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaKernelNodeParams* p) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphAddMemcpyNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaMemcpy3DParms* p) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cudaGraphAddMemcpyNode1D)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, void* dst, const void* src, size_t bytes, int kind) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return work_of_line(dst, src, bytes, kind); });
}
API(cudaGraphAddMemcpyNodeToSymbol)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const void* symbol, const void* src,
                                    size_t bytes, size_t offset, int kind) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context& c) { return work_to_symbol(c, symbol, src, bytes, offset, kind); });
}
API(cudaGraphAddMemcpyNodeFromSymbol)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, void* dst, const void* symbol,
                                      size_t bytes, size_t offset, int kind) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context& c) { return work_from_symbol(c, dst, symbol, bytes, offset, kind); });
}
API(cudaGraphAddMemsetNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaMemsetParams* p) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cudaGraphAddHostNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaHostNodeParams* p) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return host_work(p); });
}
API(cudaGraphAddChildGraphNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaGraph_t child) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return child_work(child); });
}
API(cudaGraphAddEmptyNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return Work{EmptyWork{}}; });
}
API(cudaGraphAddEventRecordNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaEvent_t event) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cudaGraphAddEventWaitNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaEvent_t event) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
}
API(cudaGraphAddMemAllocNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaMemAllocNodeParams* p) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context& c) { return alloc_work(c, p); });
}
API(cudaGraphAddMemFreeNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, void*) {
  return runtime_graph_calls.add(out, graph, deps, n, [&](Context&) { return Work{FreeWork{0}}; });
}
API(cudaGraphAddNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, const cudaGraphEdgeData*, size_t n, cudaGraphNodeParams* p) {
  constexpr int kConditional = 13;
  if (!p || p->type != kConditional) return runtime_graph_calls.add(out, graph, deps, n, [&](Context& c) { return work_of(c, p); });
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaGraphNode_t>(add_conditional_node(graph, deps, n, p->conditional));
  });
}
API(cudaGraphConditionalHandleCreate)(unsigned long long* out, cudaGraph_t graph, unsigned default_value, unsigned flags) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = create_condition(graph, default_value, flags);
  });
}
API(cudaGraphAddNode_12)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaGraphNodeParams* p) {
  return orrery_cudaGraphAddNode(out, graph, deps, nullptr, n, p);
}

API(cudaGraphKernelNodeGetParams)(cudaGraphNode_t node, cudaKernelNodeParams* out) {
  return runtime_in([&](Context&) {
    const LaunchWork& work = node_work<LaunchWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {const_cast<void*>(work.handle), {work.grid.x, work.grid.y, work.grid.z}, {work.block.x, work.block.y, work.block.z}, work.dynamic_shared,
            argument_pointers(work), nullptr};
  });
}
API(cudaGraphKernelNodeSetParams)(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  return runtime_graph_calls.change(node, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphKernelNodeCopyAttributes)(cudaGraphNode_t dst, cudaGraphNode_t src) {
  return runtime_in([&](Context&) {
    const LaunchWork& from = node_work<LaunchWork>(src);
    auto& to = const_cast<LaunchWork&>(node_work<LaunchWork>(dst));
    to.cooperative = from.cooperative;
    to.cluster = from.cluster, to.in_clusters = from.in_clusters;
    to.priority = from.priority;
  });
}
API(cudaGraphKernelNodeGetAttribute)(cudaGraphNode_t node, int attribute, cudaLaunchAttributeValue* out) {
  return runtime_in([&](Context&) {
    const LaunchWork& work = node_work<LaunchWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {};
    if (attribute == kAttrCooperative) out->cooperative = work.cooperative;
    if (attribute == kAttrPriority) out->priority = work.priority;
    if (attribute == kAttrClusterDimension) out->clusterDim = {work.cluster.x, work.cluster.y, work.cluster.z};
  });
}
API(cudaGraphKernelNodeSetAttribute)(cudaGraphNode_t node, int attribute, const cudaLaunchAttributeValue* value) {
  return runtime_in([&](Context&) {
    auto& work = const_cast<LaunchWork&>(node_work<LaunchWork>(node));
    require(value != nullptr, Status::invalid_value);
    if (attribute == kAttrCooperative) work.cooperative = value->cooperative != 0;
    if (attribute == kAttrPriority) work.priority = value->priority;
    if (attribute == kAttrClusterDimension) work.cluster = {value->clusterDim.x, value->clusterDim.y, value->clusterDim.z}, work.in_clusters = true;
  });
}
API(cudaGraphMemcpyNodeGetParams)(cudaGraphNode_t node, cudaMemcpy3DParms* out) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    std::memcpy(out, node_work<CopyWork>(node).description.data(), sizeof *out);
  });
}
API(cudaGraphMemcpyNodeSetParams)(cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return runtime_graph_calls.change(node, [&](Context&) { return work_of(p); });
}
API(cudaGraphMemcpyNodeSetParams1D)(cudaGraphNode_t node, void* dst, const void* src, size_t bytes, int kind) {
  return runtime_graph_calls.change(node, [&](Context&) { return work_of_line(dst, src, bytes, kind); });
}
API(cudaGraphMemcpyNodeSetParamsToSymbol)(cudaGraphNode_t node, const void* symbol, const void* src, size_t bytes, size_t offset, int kind) {
  return runtime_graph_calls.change(node, [&](Context& c) { return work_to_symbol(c, symbol, src, bytes, offset, kind); });
}
API(cudaGraphMemcpyNodeSetParamsFromSymbol)(cudaGraphNode_t node, void* dst, const void* symbol, size_t bytes, size_t offset, int kind) {
  return runtime_graph_calls.change(node, [&](Context& c) { return work_from_symbol(c, dst, symbol, bytes, offset, kind); });
}
API(cudaGraphMemsetNodeGetParams)(cudaGraphNode_t node, cudaMemsetParams* out) {
  return runtime_in([&](Context&) {
    const FillWork& work = node_work<FillWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {reinterpret_cast<void*>(work.address), work.pitch, work.value, work.element, work.width, work.height};
  });
}
API(cudaGraphMemsetNodeSetParams)(cudaGraphNode_t node, const cudaMemsetParams* p) {
  return runtime_graph_calls.change(node, [&](Context&) { return work_of(p); });
}
API(cudaGraphHostNodeGetParams)(cudaGraphNode_t node, cudaHostNodeParams* out) {
  return runtime_in([&](Context&) {
    const HostWork& work = node_work<HostWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {work.function, work.argument};
  });
}
API(cudaGraphHostNodeSetParams)(cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return runtime_graph_calls.change(node, [&](Context&) { return host_work(p); });
}
API(cudaGraphChildGraphNodeGetGraph)(cudaGraphNode_t node, cudaGraph_t* out) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaGraph_t>(handles<Graph>().add(node_work<ChildWork>(node).graph));
  });
}
API(cudaGraphEventRecordNodeGetEvent)(cudaGraphNode_t node, cudaEvent_t* out) {
  return runtime_in([&](Context&) { *out = reinterpret_cast<cudaEvent_t>(node_work<EventRecordWork>(node).event.get()); });
}
API(cudaGraphEventRecordNodeSetEvent)(cudaGraphNode_t node, cudaEvent_t event) {
  return runtime_graph_calls.change(node, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cudaGraphEventWaitNodeGetEvent)(cudaGraphNode_t node, cudaEvent_t* out) {
  return runtime_in([&](Context&) { *out = reinterpret_cast<cudaEvent_t>(node_work<EventWaitWork>(node).event.get()); });
}
API(cudaGraphEventWaitNodeSetEvent)(cudaGraphNode_t node, cudaEvent_t event) {
  return runtime_graph_calls.change(node, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
}
API(cudaGraphMemAllocNodeGetParams)(cudaGraphNode_t node, cudaMemAllocNodeParams* out) {
  return runtime_in([&](Context&) {
    const AllocWork& work = node_work<AllocWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {};
    out->bytesize = work.bytes;
    out->dptr = reinterpret_cast<void*>(work.address);
  });
}
API(cudaGraphMemFreeNodeGetParams)(cudaGraphNode_t node, void* out) {
  return runtime_in([&](Context&) { *static_cast<uint64_t*>(out) = node_work<FreeWork>(node).address; });
}
API(cudaGraphNodeSetParams)(cudaGraphNode_t node, cudaGraphNodeParams* p) {
  return runtime_graph_calls.change(node, [&](Context& c) { return work_of(c, p); });
}

API(cudaGraphNodeGetType)(cudaGraphNode_t node, int* out) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = type_of(node_of(node)->work);
  });
}
API(cudaGraphGetNodes)(cudaGraph_t graph, cudaGraphNode_t* list, size_t* count) {
  return runtime_in([&](Context&) {
    std::vector<GraphNode*> all;
    for (auto& node : graph_of(graph)->nodes()) all.push_back(node.get());
    give_list(all, list, count);
  });
}
API(cudaGraphGetRootNodes)(cudaGraph_t graph, cudaGraphNode_t* list, size_t* count) {
  return runtime_in([&](Context&) {
    std::vector<GraphNode*> roots;
    for (auto& node : graph_of(graph)->nodes())
      if (node->dependencies.empty()) roots.push_back(node.get());
    give_list(roots, list, count);
  });
}
API(cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges, size_t* count) {
  return runtime_in([&](Context&) {
    std::vector<GraphNode*> sources, targets;
    for (auto& node : graph_of(graph)->nodes())
      for (GraphNode* before : node->dependencies) sources.push_back(before), targets.push_back(node.get());
    require(count != nullptr && (from == nullptr) == (to == nullptr), Status::invalid_value);
    size_t room = *count;
    give_list(sources, from, count);
    if (to) give_list(targets, to, &room);
    if (edges) std::fill_n(edges, *count, cudaGraphEdgeData{});
  });
}
API(cudaGraphGetEdges_12)(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
  return orrery_cudaGraphGetEdges(graph, from, to, nullptr, count);
}
API(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t* list, cudaGraphEdgeData* edges, size_t* count) {
  return runtime_in([&](Context&) {
    give_list(node_of(node)->dependencies, list, count);
    if (edges) std::fill_n(edges, *count, cudaGraphEdgeData{});
  });
}
API(cudaGraphNodeGetDependencies_12)(cudaGraphNode_t node, cudaGraphNode_t* list, size_t* count) {
  return orrery_cudaGraphNodeGetDependencies(node, list, nullptr, count);
}
API(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t* list, cudaGraphEdgeData* edges, size_t* count) {
  return runtime_in([&](Context&) {
    GraphNode* found = node_of(node);
    give_list(found->graph->dependents(found), list, count);
    if (edges) std::fill_n(edges, *count, cudaGraphEdgeData{});
  });
}
API(cudaGraphNodeGetDependentNodes_12)(cudaGraphNode_t node, cudaGraphNode_t* list, size_t* count) {
  return orrery_cudaGraphNodeGetDependentNodes(node, list, nullptr, count);
}
API(cudaGraphAddDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return runtime_in([&](Context&) {
    auto found = graph_of(graph);
    for (size_t i = 0; i < count; i++) found->connect(node_of(from[i]), node_of(to[i]));
  });
}
API(cudaGraphAddDependencies_12)(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  return orrery_cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
API(cudaGraphRemoveDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return runtime_in([&](Context&) {
    auto found = graph_of(graph);
    for (size_t i = 0; i < count; i++) found->disconnect(node_of(from[i]), node_of(to[i]));
  });
}
API(cudaGraphRemoveDependencies_12)(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  return orrery_cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}
API(cudaGraphDestroyNode)(cudaGraphNode_t node) {
  return runtime_in([&](Context&) {
    GraphNode* found = node_of(node);
    found->graph->remove(found);
  });
}

API(cudaGraphDebugDotPrint)(cudaGraph_t graph, const char* path, unsigned) {
  return runtime_in([&](Context&) {
    require(path != nullptr, Status::invalid_value);
    FILE* file = std::fopen(path, "w");
    require(file != nullptr, Status::invalid_value);
    std::fputs(graph_of(graph)->to_dot().c_str(), file);
    std::fclose(file);
  });
}

API(cudaUserObjectCreate)(cudaUserObject_t* out, void* data, cudaHostFn_t destroy, unsigned references, unsigned flags) {
  return runtime([&] {
    require(out != nullptr && destroy != nullptr && references > 0 && flags == 1, Status::invalid_value);
    auto object = std::make_shared<UserObject>();
    object->data = data;
    object->destroy = destroy;
    *out = reinterpret_cast<cudaUserObject_t>(user_objects().create(object, references));
  });
}
API(cudaUserObjectRetain)(cudaUserObject_t object, unsigned count) {
  return runtime([&] { user_objects().change(object, long(count)); });
}
API(cudaUserObjectRelease)(cudaUserObject_t object, unsigned count) {
  return runtime([&] { user_objects().change(object, -long(count)); });
}
API(cudaGraphRetainUserObject)(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  return runtime([&] {
    graph_of(graph)->user_objects.emplace_back(user_objects().get(object), count);
    if (flags & 1) user_objects().change(object, -long(count));
  });
}
API(cudaGraphReleaseUserObject)(cudaGraph_t graph, cudaUserObject_t object, unsigned) {
  return runtime([&] {
    auto& kept = graph_of(graph)->user_objects;
    auto at = std::ranges::find_if(kept, [&](auto& item) { return item.first.get() == static_cast<void*>(object); });
    require(at != kept.end(), Status::invalid_value);
    kept.erase(at);
  });
}
