// Runtime API: graphs.
#include <cstdio>
#include <cstring>

#include "api/graph_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using namespace orrery::device;

namespace {

exec::Dim3 to_dim(dim3 d) { return {d.x, d.y, d.z}; }

Work work_of(Context& context, const cudaKernelNodeParams* p) {
  require(p != nullptr, Status::invalid_value);
  return kernel_work(context, p->func, to_dim(p->gridDim), to_dim(p->blockDim), p->sharedMemBytes, p->kernelParams, p->extra);
}
Work work_of(const cudaMemcpy3DParms* p) {
  require(p != nullptr, Status::invalid_value);
  CopyWork work = box_copy(*p);
  check_copy(work, direction_of(p->kind));
  return work;
}
Work work_of_line(void* dst, const void* src, size_t bytes, int kind) {
  CopyWork work = linear_copy(dst, src, bytes);
  check_copy(work, direction_of(kind));
  cudaMemcpy3DParms p{};
  p.srcPtr = {const_cast<void*>(src), bytes, bytes, 1};
  p.dstPtr = {dst, bytes, bytes, 1};
  p.extent = {bytes, 1, 1};
  p.kind = kind;
  std::memcpy(work.description.data(), &p, sizeof p);
  return work;
}
Work work_to_symbol(Context& context, const void* symbol, const void* src, size_t bytes, size_t offset, int kind) {
  Variable variable = variable_of(context, symbol);
  require(offset <= variable.size && bytes <= variable.size - offset, Status::invalid_value);
  return work_of_line(reinterpret_cast<void*>(variable.address + offset), src, bytes, kind);
}
Work work_from_symbol(Context& context, void* dst, const void* symbol, size_t bytes, size_t offset, int kind) {
  Variable variable = variable_of(context, symbol);
  require(offset <= variable.size && bytes <= variable.size - offset, Status::invalid_value);
  return work_of_line(dst, reinterpret_cast<const void*>(variable.address + offset), bytes, kind);
}
Work work_of(const cudaMemsetParams* p) {
  require(p != nullptr, Status::invalid_value);
  return memset_work(*p);
}
Work work_of(const cudaHostNodeParams* p) {
  require(p != nullptr && p->fn != nullptr, Status::invalid_value);
  return HostWork{p->fn, p->userData, {}};
}
Work child_work(cudaGraph_t child) { return ChildWork{graph_of(child)->clone()}; }

struct GraphMemory {
  std::shared_ptr<MemoryPool> pool;
  uint64_t address;
  ~GraphMemory() { pool->release(address); }
};
Work alloc_work(Context& context, cudaMemAllocNodeParams* p) {
  require(p != nullptr && p->bytesize > 0, Status::invalid_value);
  auto pool = context.device().pool();
  uint64_t address = pool->allocate(p->bytesize);
  p->dptr = reinterpret_cast<void*>(address);
  return AllocWork{address, p->bytesize, std::make_shared<GraphMemory>(pool, address)};
}

// Work of the general node description.
Work work_of(Context& context, cudaGraphNodeParams* p) {
  require(p != nullptr, Status::invalid_value);
  switch (p->type) {
    case 0: return work_of(context, &p->kernel);
    case 1: return work_of(&p->memcpy.copyParams);
    case 2: return work_of(&p->memset);
    case 3: return work_of(&p->host);
    case 4: return child_work(p->graph.graph);
    case 5: return EmptyWork{};
    case 6: return EventWaitWork{event_of(p->eventWait.event)};
    case 7: return EventRecordWork{event_of(p->eventRecord.event)};
    case 10: return alloc_work(context, &p->alloc);
    case 11: return FreeWork{0};
    default: throw Failure(Status::not_supported, fmt::format("graph nodes of type {} are not supported", p->type));
  }
}

// Most functions that add a node differ only in how its work is made.
template <class Make>
int add(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count, Make make) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaGraphNode_t>(add_node(graph, dependencies, count, make(context)));
  });
}
template <class Make>
int change(cudaGraphNode_t node, Make make) {
  return runtime_in([&](Context& context) { set_node(node, make(context)); });
}
template <class Make>
int change_exec(cudaGraphExec_t exec, cudaGraphNode_t node, Make make) {
  return runtime_in([&](Context& context) {
    auto graph = handles<GraphExec>().get(exec, Status::invalid_value);
    graph->set_work(reinterpret_cast<const GraphNode*>(node), make(context));
  });
}

}  // namespace

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
  return add(out, graph, deps, n, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphAddMemcpyNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaMemcpy3DParms* p) {
  return add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cudaGraphAddMemcpyNode1D)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, void* dst, const void* src, size_t bytes, int kind) {
  return add(out, graph, deps, n, [&](Context&) { return work_of_line(dst, src, bytes, kind); });
}
API(cudaGraphAddMemcpyNodeToSymbol)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const void* symbol, const void* src,
                                    size_t bytes, size_t offset, int kind) {
  return add(out, graph, deps, n, [&](Context& c) { return work_to_symbol(c, symbol, src, bytes, offset, kind); });
}
API(cudaGraphAddMemcpyNodeFromSymbol)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, void* dst, const void* symbol,
                                      size_t bytes, size_t offset, int kind) {
  return add(out, graph, deps, n, [&](Context& c) { return work_from_symbol(c, dst, symbol, bytes, offset, kind); });
}
API(cudaGraphAddMemsetNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaMemsetParams* p) {
  return add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cudaGraphAddHostNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, const cudaHostNodeParams* p) {
  return add(out, graph, deps, n, [&](Context&) { return work_of(p); });
}
API(cudaGraphAddChildGraphNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaGraph_t child) {
  return add(out, graph, deps, n, [&](Context&) { return child_work(child); });
}
API(cudaGraphAddEmptyNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n) {
  return add(out, graph, deps, n, [&](Context&) { return Work{EmptyWork{}}; });
}
API(cudaGraphAddEventRecordNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaEvent_t event) {
  return add(out, graph, deps, n, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cudaGraphAddEventWaitNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaEvent_t event) {
  return add(out, graph, deps, n, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
}
API(cudaGraphAddMemAllocNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, cudaMemAllocNodeParams* p) {
  return add(out, graph, deps, n, [&](Context& c) { return alloc_work(c, p); });
}
API(cudaGraphAddMemFreeNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, size_t n, void*) {
  return add(out, graph, deps, n, [&](Context&) { return Work{FreeWork{0}}; });
}
API(cudaGraphAddNode)(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* deps, const cudaGraphEdgeData*, size_t n, cudaGraphNodeParams* p) {
  constexpr int kConditional = 13;
  if (!p || p->type != kConditional) return add(out, graph, deps, n, [&](Context& c) { return work_of(c, p); });
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
  return change(node, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphKernelNodeCopyAttributes)(cudaGraphNode_t dst, cudaGraphNode_t src) {
  return runtime_in([&](Context&) {
    const LaunchWork& from = node_work<LaunchWork>(src);
    auto& to = const_cast<LaunchWork&>(node_work<LaunchWork>(dst));
    to.cooperative = from.cooperative;
    to.cluster = from.cluster;
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
    if (attribute == kAttrClusterDimension) work.cluster = {value->clusterDim.x, value->clusterDim.y, value->clusterDim.z};
  });
}
API(cudaGraphMemcpyNodeGetParams)(cudaGraphNode_t node, cudaMemcpy3DParms* out) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    std::memcpy(out, node_work<CopyWork>(node).description.data(), sizeof *out);
  });
}
API(cudaGraphMemcpyNodeSetParams)(cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return change(node, [&](Context&) { return work_of(p); });
}
API(cudaGraphMemcpyNodeSetParams1D)(cudaGraphNode_t node, void* dst, const void* src, size_t bytes, int kind) {
  return change(node, [&](Context&) { return work_of_line(dst, src, bytes, kind); });
}
API(cudaGraphMemcpyNodeSetParamsToSymbol)(cudaGraphNode_t node, const void* symbol, const void* src, size_t bytes, size_t offset, int kind) {
  return change(node, [&](Context& c) { return work_to_symbol(c, symbol, src, bytes, offset, kind); });
}
API(cudaGraphMemcpyNodeSetParamsFromSymbol)(cudaGraphNode_t node, void* dst, const void* symbol, size_t bytes, size_t offset, int kind) {
  return change(node, [&](Context& c) { return work_from_symbol(c, dst, symbol, bytes, offset, kind); });
}
API(cudaGraphMemsetNodeGetParams)(cudaGraphNode_t node, cudaMemsetParams* out) {
  return runtime_in([&](Context&) {
    const FillWork& work = node_work<FillWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {reinterpret_cast<void*>(work.address), work.pitch, work.value, work.element, work.width, work.height};
  });
}
API(cudaGraphMemsetNodeSetParams)(cudaGraphNode_t node, const cudaMemsetParams* p) {
  return change(node, [&](Context&) { return work_of(p); });
}
API(cudaGraphHostNodeGetParams)(cudaGraphNode_t node, cudaHostNodeParams* out) {
  return runtime_in([&](Context&) {
    const HostWork& work = node_work<HostWork>(node);
    require(out != nullptr, Status::invalid_value);
    *out = {work.function, work.argument};
  });
}
API(cudaGraphHostNodeSetParams)(cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return change(node, [&](Context&) { return work_of(p); });
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
  return change(node, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cudaGraphEventWaitNodeGetEvent)(cudaGraphNode_t node, cudaEvent_t* out) {
  return runtime_in([&](Context&) { *out = reinterpret_cast<cudaEvent_t>(node_work<EventWaitWork>(node).event.get()); });
}
API(cudaGraphEventWaitNodeSetEvent)(cudaGraphNode_t node, cudaEvent_t event) {
  return change(node, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
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
  return change(node, [&](Context& c) { return work_of(c, p); });
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

API(cudaGraphInstantiateWithFlags)(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaGraphExec_t>(instantiate(graph_of(graph), flags));
  });
}
API(cudaGraphInstantiate)(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return orrery_cudaGraphInstantiateWithFlags(out, graph, flags);
}
API(cudaGraphInstantiateWithParams)(cudaGraphExec_t* out, cudaGraph_t graph, cudaGraphInstantiateParams* p) {
  int code = orrery_cudaGraphInstantiateWithFlags(out, graph, p ? p->flags : 0);
  if (p) p->errNode_out = nullptr, p->result_out = code ? 1 : 0;
  return code;
}
PER_THREAD(cudaGraphInstantiateWithParams, _ptsz)
API(cudaGraphExecGetFlags)(cudaGraphExec_t exec, unsigned long long* flags) {
  return runtime_in([&](Context&) {
    require(flags != nullptr, Status::invalid_value);
    *flags = handles<GraphExec>().get(exec, Status::invalid_value)->flags();
  });
}
API(cudaGraphExecDestroy)(cudaGraphExec_t exec) {
  return runtime_in([&](Context&) { handles<GraphExec>().take(exec, Status::invalid_value); });
}
API(cudaGraphLaunch)(cudaGraphExec_t exec, cudaStream_t stream) {
  return runtime_in([&](Context& context) { launch_graph(context, exec, stream); });
}
PER_THREAD(cudaGraphLaunch, _ptsz)
API(cudaGraphUpload)(cudaGraphExec_t exec, cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    handles<GraphExec>().get(exec, Status::invalid_value);
    stream_of(context, stream);
  });
}
PER_THREAD(cudaGraphUpload, _ptsz)
API(cudaGraphExecUpdate)(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  return runtime_in([&](Context&) {
    auto result = handles<GraphExec>().get(exec, Status::invalid_value)->update(*graph_of(graph));
    if (info) *info = {result.code, reinterpret_cast<cudaGraphNode_t>(const_cast<GraphNode*>(result.node)), nullptr};
    require(result.code == 0, Status::graph_update_failure);
  });
}
API(cudaGraphExecKernelNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  return change_exec(exec, node, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphExecMemcpyNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cudaGraphExecMemcpyNodeSetParams1D)(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst, const void* src, size_t bytes, int kind) {
  return change_exec(exec, node, [&](Context&) { return work_of_line(dst, src, bytes, kind); });
}
API(cudaGraphExecMemcpyNodeSetParamsToSymbol)(cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* src, size_t bytes, size_t offset, int kind) {
  return change_exec(exec, node, [&](Context& c) { return work_to_symbol(c, symbol, src, bytes, offset, kind); });
}
API(cudaGraphExecMemcpyNodeSetParamsFromSymbol)(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst, const void* symbol, size_t bytes, size_t offset, int kind) {
  return change_exec(exec, node, [&](Context& c) { return work_from_symbol(c, dst, symbol, bytes, offset, kind); });
}
API(cudaGraphExecMemsetNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* p) {
  return change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cudaGraphExecHostNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cudaGraphExecEventRecordNodeSetEvent)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
  return change_exec(exec, node, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cudaGraphExecEventWaitNodeSetEvent)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
  return change_exec(exec, node, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
}
API(cudaGraphExecChildGraphNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child) {
  return runtime_in([&](Context&) {
    handles<GraphExec>().get(exec, Status::invalid_value)->set_child(reinterpret_cast<const GraphNode*>(node), *graph_of(child));
  });
}
API(cudaGraphExecNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* p) {
  return change_exec(exec, node, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphNodeSetEnabled)(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  return runtime_in([&](Context&) {
    handles<GraphExec>().get(exec, Status::invalid_value)->set_enabled(reinterpret_cast<const GraphNode*>(node), enabled != 0);
  });
}
API(cudaGraphNodeGetEnabled)(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  return runtime_in([&](Context&) {
    require(enabled != nullptr, Status::invalid_value);
    *enabled = handles<GraphExec>().get(exec, Status::invalid_value)->enabled(reinterpret_cast<const GraphNode*>(node));
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
