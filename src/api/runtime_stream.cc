// Runtime API: streams, events, capture.
#include "api/stream_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;

API(cudaStreamCreateWithPriority)(cudaStream_t* out, unsigned flags, int priority) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaStream_t>(create_stream(context, flags, priority));
  });
}
API(cudaStreamCreateWithFlags)(cudaStream_t* out, unsigned flags) { return orrery_cudaStreamCreateWithPriority(out, flags, 0); }
API(cudaStreamCreate)(cudaStream_t* out) { return orrery_cudaStreamCreateWithPriority(out, 0, 0); }
API(cudaStreamDestroy)(cudaStream_t stream) {
  return runtime_in([&](Context&) { destroy_stream(stream); });
}
API(cudaStreamGetPriority)(cudaStream_t stream, int* out) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = stream_of(context, stream)->priority();
  });
}
PER_THREAD(cudaStreamGetPriority, _ptsz)
API(cudaStreamGetFlags)(cudaStream_t stream, unsigned* out) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = stream_of(context, stream)->flags();
  });
}
PER_THREAD(cudaStreamGetFlags, _ptsz)
API(cudaStreamGetId)(cudaStream_t stream, unsigned long long* out) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = stream_of(context, stream)->id();
  });
}
PER_THREAD(cudaStreamGetId, _ptsz)
API(cudaStreamGetDevice)(cudaStream_t stream, int* out) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = stream_of(context, stream)->context().device().ordinal();
  });
}
PER_THREAD(cudaStreamGetDevice, _ptsz)
API(cudaStreamSynchronize)(cudaStream_t stream) {
  return runtime_in([&](Context& context) { synchronize_stream(stream_of(context, stream)); });
}
PER_THREAD(cudaStreamSynchronize, _ptsz)
API(cudaStreamQuery)(cudaStream_t stream) {
  return runtime_in([&](Context& context) { query_stream(stream_of(context, stream)); });
}
PER_THREAD(cudaStreamQuery, _ptsz)
API(cudaStreamWaitEvent)(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return runtime_in([&](Context& context) { wait_event(stream_of(context, stream), event_of(event), flags); });
}
PER_THREAD(cudaStreamWaitEvent, _ptsz)
API(cudaStreamAddCallback)(cudaStream_t stream, cudaStreamCallback_t callback, void* argument, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(callback != nullptr && flags == 0, Status::invalid_value);
    auto target = stream_of(context, stream);
    require(capture_status(target) == 0, Status::capture_unsupported);
    context.submit(target, device::HostWork{nullptr, nullptr, [=](int status) { callback(stream, status, argument); }});
  });
}
PER_THREAD(cudaStreamAddCallback, _ptsz)
API(cudaStreamCopyAttributes)(cudaStream_t dst, cudaStream_t src) {
  return runtime_in([&](Context& context) {
    stream_of(context, dst);
    stream_of(context, src);
  });
}
PER_THREAD(cudaStreamCopyAttributes, _ptsz)
API(cudaStreamGetAttribute)(cudaStream_t stream, int attribute, cudaLaunchAttributeValue* out) {
  return runtime_in([&](Context& context) {
    auto target = stream_of(context, stream);
    require(out != nullptr, Status::invalid_value);
    *out = {};
    if (attribute == kAttrPriority) out->priority = target->priority();
    else if (attribute == kAttrSyncPolicy) out->syncPolicy = 1;
    else require(attribute == kAttrAccessPolicyWindow || attribute == kAttrMemSyncDomain || attribute == kAttrMemSyncDomainMap, Status::invalid_value);
  });
}
PER_THREAD(cudaStreamGetAttribute, _ptsz)
API(cudaStreamSetAttribute)(cudaStream_t stream, int attribute, const cudaLaunchAttributeValue* value) {
  return runtime_in([&](Context& context) {
    stream_of(context, stream);
    require(value != nullptr && (attribute == kAttrAccessPolicyWindow || attribute == kAttrSyncPolicy || attribute == kAttrPriority ||
                                 attribute == kAttrMemSyncDomain || attribute == kAttrMemSyncDomainMap),
            Status::invalid_value);
  });
}
PER_THREAD(cudaStreamSetAttribute, _ptsz)

API(cudaEventCreateWithFlags)(cudaEvent_t* out, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaEvent_t>(create_event(context, flags));
  });
}
API(cudaEventCreate)(cudaEvent_t* out) { return orrery_cudaEventCreateWithFlags(out, 0); }
API(cudaEventDestroy)(cudaEvent_t event) {
  return runtime_in([&](Context&) { handles<Event>().take(event); });
}
API(cudaEventRecordWithFlags)(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return runtime_in([&](Context& context) { record_event(event_of(event), stream_of(context, stream), flags); });
}
PER_THREAD(cudaEventRecordWithFlags, _ptsz)
API(cudaEventRecord)(cudaEvent_t event, cudaStream_t stream) { return orrery_cudaEventRecordWithFlags(event, stream, 0); }
PER_THREAD(cudaEventRecord, _ptsz)
API(cudaEventQuery)(cudaEvent_t event) {
  return runtime_in([&](Context&) { query_event(event_of(event)); });
}
API(cudaEventSynchronize)(cudaEvent_t event) {
  return runtime_in([&](Context&) { synchronize_event(event_of(event)); });
}
API(cudaEventElapsedTime)(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return runtime_in([&](Context&) {
    require(ms != nullptr, Status::invalid_value);
    *ms = elapsed_ms(event_of(start), event_of(end));
  });
}

API(cudaStreamBeginCapture)(cudaStream_t stream, int mode) {
  return runtime_in([&](Context& context) { begin_capture(stream_of(context, stream), std::make_shared<device::Graph>(), {}, mode); });
}
PER_THREAD(cudaStreamBeginCapture, _ptsz)
API(cudaStreamBeginCaptureToGraph)(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes, const cudaGraphEdgeData*, size_t count, int mode) {
  return runtime_in([&](Context& context) {
    auto first = reinterpret_cast<device::GraphNode* const*>(nodes);
    begin_capture(stream_of(context, stream), handles<device::Graph>().get(graph, Status::invalid_value), {first, first + count}, mode);
  });
}
PER_THREAD(cudaStreamBeginCaptureToGraph, _ptsz)
API(cudaStreamEndCapture)(cudaStream_t stream, cudaGraph_t* out) {
  return runtime_in([&](Context& context) {
    if (out) *out = nullptr;
    auto graph = end_capture(stream_of(context, stream));
    if (out) *out = reinterpret_cast<cudaGraph_t>(handles<device::Graph>().add(graph));  // a capture into a graph needs none
  });
}
PER_THREAD(cudaStreamEndCapture, _ptsz)
API(cudaStreamIsCapturing)(cudaStream_t stream, int* out) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = capture_status(stream_of(context, stream));
  });
}
PER_THREAD(cudaStreamIsCapturing, _ptsz)
API(cudaStreamGetCaptureInfo)(cudaStream_t stream, int* status, unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** nodes,
                              const cudaGraphEdgeData** edges, size_t* count) {
  return runtime_in([&](Context& context) {
    require(status != nullptr, Status::invalid_value);
    CaptureInfo info = capture_info(stream_of(context, stream));
    *status = info.status;
    if (id) *id = info.id;
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(info.graph);
    if (nodes) *nodes = reinterpret_cast<const cudaGraphNode_t*>(info.tails);
    if (edges) *edges = nullptr;
    if (count) *count = info.count;
  });
}
PER_THREAD(cudaStreamGetCaptureInfo, _ptsz)
API(cudaStreamGetCaptureInfo_12)(cudaStream_t stream, int* status, unsigned long long* id) {
  return orrery_cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
PER_THREAD(cudaStreamGetCaptureInfo_12, _ptsz)
API(cudaStreamGetCaptureInfo_v2)(cudaStream_t stream, int* status, unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** nodes, size_t* count) {
  return orrery_cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, nullptr, count);
}
PER_THREAD(cudaStreamGetCaptureInfo_v2, _ptsz)
API(cudaStreamUpdateCaptureDependencies)(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return runtime_in([&](Context& context) {
    auto first = reinterpret_cast<device::GraphNode**>(nodes);
    update_capture_tails(stream_of(context, stream), {first, first + count}, flags == 1);
  });
}
PER_THREAD(cudaStreamUpdateCaptureDependencies, _ptsz)
API(cudaStreamUpdateCaptureDependencies_12)(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
  return orrery_cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
}
PER_THREAD(cudaStreamUpdateCaptureDependencies_12, _ptsz)
API(cudaThreadExchangeStreamCaptureMode)(int* mode) {
  return runtime([&] {
    require(mode != nullptr && *mode >= 0 && *mode <= 2, Status::invalid_value);
    std::swap(*mode, thread_state().capture_mode);
  });
}
