// Runtime API: executable graphs: made from graphs, launched, and changed without being made again.
#include "api/runtime_graph_work.h"

using namespace orrery::api;
using namespace orrery::abi;
using namespace orrery::device;

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
  return runtime_graph_calls.change_exec(exec, node, [&](Context& c) { return work_of(c, p); });
}
API(cudaGraphExecMemcpyNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cudaGraphExecMemcpyNodeSetParams1D)(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst, const void* src, size_t bytes, int kind) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context&) { return work_of_line(dst, src, bytes, kind); });
}
API(cudaGraphExecMemcpyNodeSetParamsToSymbol)(cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* src, size_t bytes, size_t offset, int kind) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context& c) { return work_to_symbol(c, symbol, src, bytes, offset, kind); });
}
API(cudaGraphExecMemcpyNodeSetParamsFromSymbol)(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst, const void* symbol, size_t bytes, size_t offset, int kind) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context& c) { return work_from_symbol(c, dst, symbol, bytes, offset, kind); });
}
API(cudaGraphExecMemsetNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* p) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context&) { return work_of(p); });
}
API(cudaGraphExecHostNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context&) { return host_work(p); });
}
API(cudaGraphExecEventRecordNodeSetEvent)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context&) { return Work{EventRecordWork{event_of(event)}}; });
}
API(cudaGraphExecEventWaitNodeSetEvent)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context&) { return Work{EventWaitWork{event_of(event)}}; });
}
API(cudaGraphExecChildGraphNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child) {
  return runtime_in([&](Context&) {
    handles<GraphExec>().get(exec, Status::invalid_value)->set_child(reinterpret_cast<const GraphNode*>(node), *graph_of(child));
  });
}
API(cudaGraphExecNodeSetParams)(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* p) {
  return runtime_graph_calls.change_exec(exec, node, [&](Context& c) { return work_of(c, p); });
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
