// Driver API: streams, events, capture, stream memory operations.
#include "api/abi_driver.h"
#include "api/stream_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;

namespace {

// Streams carry their context, so these work without a current one.
int on_stream(CUstream handle, const std::function<void(const std::shared_ptr<Stream>&)>& body) {
  return driver([&] {
    auto created = handles<Stream>().find(handle);
    auto stream = created ? created : stream_of(driver_context(), handle);
    body(stream);
  });
}

device::ValueWork value_work(CUdeviceptr address, uint64_t value, unsigned flags, bool wait, bool wide) {
  device::ValueWork work{address, value, flags, wait, wide};
  device::check_side({address, 8, 8, nullptr}, wide ? 8 : 4, false);
  return work;
}

int value_operation(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, bool wait, bool wide) {
  return on_stream(stream, [&](auto& target) { target->context().submit(target, value_work(address, value, flags, wait, wide)); });
}

}  // namespace

API(cuStreamCreateWithPriority)(CUstream* out, unsigned flags, int priority) {
  return driver_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUstream>(create_stream(context, flags, priority));
  });
}
API(cuStreamCreate)(CUstream* out, unsigned flags) { return orrery_cuStreamCreateWithPriority(out, flags, 0); }
API(cuStreamDestroy_v2)(CUstream stream) {
  return driver([&] { destroy_stream(stream); });
}
API(cuStreamDestroy)(CUstream stream) { return orrery_cuStreamDestroy_v2(stream); }
API(cuStreamSynchronize)(CUstream stream) {
  return on_stream(stream, [](auto& s) { synchronize_stream(s); });
}
PER_THREAD(cuStreamSynchronize, _ptsz)
API(cuStreamQuery)(CUstream stream) {
  return on_stream(stream, [](auto& s) { query_stream(s); });
}
PER_THREAD(cuStreamQuery, _ptsz)
API(cuStreamGetPriority)(CUstream stream, int* out) {
  return on_stream(stream, [&](auto& s) { *out = s->priority(); });
}
PER_THREAD(cuStreamGetPriority, _ptsz)
API(cuStreamGetFlags)(CUstream stream, unsigned* out) {
  return on_stream(stream, [&](auto& s) { *out = s->flags(); });
}
PER_THREAD(cuStreamGetFlags, _ptsz)
API(cuStreamGetId)(CUstream stream, unsigned long long* out) {
  return on_stream(stream, [&](auto& s) { *out = s->id(); });
}
PER_THREAD(cuStreamGetId, _ptsz)
API(cuStreamGetCtx)(CUstream stream, CUcontext* out) {
  return on_stream(stream, [&](auto& s) { *out = reinterpret_cast<CUcontext>(&s->context()); });
}
PER_THREAD(cuStreamGetCtx, _ptsz)
API(cuStreamGetCtx_v2)(CUstream stream, CUcontext* out, void** green) {
  return on_stream(stream, [&](auto& s) {
    *out = reinterpret_cast<CUcontext>(&s->context());
    if (green) *green = nullptr;
  });
}
PER_THREAD(cuStreamGetCtx_v2, _ptsz)
API(cuStreamGetDevice)(CUstream stream, CUdevice* out) {
  return on_stream(stream, [&](auto& s) { *out = s->context().device().ordinal(); });
}
PER_THREAD(cuStreamGetDevice, _ptsz)
API(cuStreamWaitEvent)(CUstream stream, CUevent event, unsigned flags) {
  return on_stream(stream, [&](auto& s) { wait_event(s, event_of(event), flags); });
}
PER_THREAD(cuStreamWaitEvent, _ptsz)
API(cuStreamAddCallback)(CUstream stream, cudaStreamCallback_t callback, void* argument, unsigned) {
  return on_stream(stream, [&](auto& s) {
    require(callback != nullptr, Status::invalid_value);
    s->context().submit(s, device::HostWork{nullptr, nullptr, [=](int status) { callback(stream, status, argument); }});
  });
}
PER_THREAD(cuStreamAddCallback, _ptsz)
API(cuStreamAttachMemAsync)(CUstream stream, CUdeviceptr, size_t, unsigned) {
  return on_stream(stream, [](auto&) {});
}
PER_THREAD(cuStreamAttachMemAsync, _ptsz)
API(cuStreamCopyAttributes)(CUstream dst, CUstream src) {
  return on_stream(dst, [&](auto& s) { stream_of(s->context(), src); });
}
PER_THREAD(cuStreamCopyAttributes, _ptsz)
API(cuStreamGetAttribute)(CUstream stream, int attribute, cudaLaunchAttributeValue* out) {
  return on_stream(stream, [&](auto& s) {
    *out = {};
    if (attribute == kAttrPriority) out->priority = s->priority();
    else if (attribute == kAttrSyncPolicy) out->syncPolicy = 1;
  });
}
PER_THREAD(cuStreamGetAttribute, _ptsz)
API(cuStreamSetAttribute)(CUstream stream, int, const cudaLaunchAttributeValue*) {
  return on_stream(stream, [](auto&) {});
}
PER_THREAD(cuStreamSetAttribute, _ptsz)

API(cuEventCreate)(CUevent* out, unsigned flags) {
  return driver_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUevent>(create_event(context, flags));
  });
}
API(cuEventDestroy_v2)(CUevent event) {
  return driver([&] { handles<Event>().take(event); });
}
API(cuEventDestroy)(CUevent event) { return orrery_cuEventDestroy_v2(event); }
API(cuEventRecordWithFlags)(CUevent event, CUstream stream, unsigned flags) {
  return on_stream(stream, [&](auto& s) { record_event(event_of(event), s, flags); });
}
PER_THREAD(cuEventRecordWithFlags, _ptsz)
API(cuEventRecord)(CUevent event, CUstream stream) { return orrery_cuEventRecordWithFlags(event, stream, 0); }
PER_THREAD(cuEventRecord, _ptsz)
API(cuEventQuery)(CUevent event) {
  return driver([&] { query_event(event_of(event)); });
}
API(cuEventSynchronize)(CUevent event) {
  return driver([&] { synchronize_event(event_of(event)); });
}
API(cuEventElapsedTime)(float* ms, CUevent start, CUevent end) {
  return driver([&] { *ms = elapsed_ms(event_of(start), event_of(end)); });
}
API(cuEventElapsedTime_v2)(float* ms, CUevent start, CUevent end) { return orrery_cuEventElapsedTime(ms, start, end); }
API(cuCtxRecordEvent)(CUcontext, CUevent event) {
  return driver_in([&](Context& context) { record_event(event_of(event), context.legacy_stream(), 0); });
}
API(cuCtxWaitEvent)(CUcontext, CUevent event) {
  return driver_in([&](Context& context) { wait_event(context.legacy_stream(), event_of(event), 0); });
}

API(cuStreamBeginCapture_v2)(CUstream stream, int mode) {
  return on_stream(stream, [&](auto& s) { begin_capture(s, std::make_shared<device::Graph>(), {}, mode); });
}
PER_THREAD(cuStreamBeginCapture_v2, _ptsz)
API(cuStreamBeginCapture)(CUstream stream) { return orrery_cuStreamBeginCapture_v2(stream, 0); }
API(cuStreamBeginCaptureToGraph)(CUstream stream, CUgraph graph, const CUgraphNode* nodes, const cudaGraphEdgeData*, size_t count, int mode) {
  return on_stream(stream, [&](auto& s) {
    auto first = reinterpret_cast<device::GraphNode* const*>(nodes);
    begin_capture(s, handles<device::Graph>().get(graph, Status::invalid_value), {first, first + count}, mode);
  });
}
PER_THREAD(cuStreamBeginCaptureToGraph, _ptsz)
API(cuStreamEndCapture)(CUstream stream, CUgraph* out) {
  return on_stream(stream, [&](auto& s) {
    if (out) *out = nullptr;
    auto graph = end_capture(s);
    if (out) *out = reinterpret_cast<CUgraph>(handles<device::Graph>().add(graph));
  });
}
PER_THREAD(cuStreamEndCapture, _ptsz)
API(cuStreamIsCapturing)(CUstream stream, int* out) {
  return on_stream(stream, [&](auto& s) { *out = capture_status(s); });
}
PER_THREAD(cuStreamIsCapturing, _ptsz)
API(cuStreamGetCaptureInfo_v3)(CUstream stream, int* status, unsigned long long* id, CUgraph* graph, const CUgraphNode** nodes, const cudaGraphEdgeData** edges, size_t* count) {
  return on_stream(stream, [&](auto& s) {
    CaptureInfo info = capture_info(s);
    *status = info.status;
    if (id) *id = info.id;
    if (graph) *graph = reinterpret_cast<CUgraph>(info.graph);
    if (nodes) *nodes = reinterpret_cast<const CUgraphNode*>(info.tails);
    if (edges) *edges = nullptr;
    if (count) *count = info.count;
  });
}
PER_THREAD(cuStreamGetCaptureInfo_v3, _ptsz)
API(cuStreamGetCaptureInfo_v2)(CUstream stream, int* status, unsigned long long* id, CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return orrery_cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, nullptr, count);
}
PER_THREAD(cuStreamGetCaptureInfo_v2, _ptsz)
API(cuStreamGetCaptureInfo)(CUstream stream, int* status, unsigned long long* id) {
  return orrery_cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
PER_THREAD(cuStreamGetCaptureInfo, _ptsz)
API(cuStreamUpdateCaptureDependencies_v2)(CUstream stream, CUgraphNode* nodes, const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return on_stream(stream, [&](auto& s) {
    auto first = reinterpret_cast<device::GraphNode**>(nodes);
    update_capture_tails(s, {first, first + count}, flags == 1);
  });
}
PER_THREAD(cuStreamUpdateCaptureDependencies_v2, _ptsz)
API(cuStreamUpdateCaptureDependencies)(CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags) {
  return orrery_cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}
PER_THREAD(cuStreamUpdateCaptureDependencies, _ptsz)

API(cuStreamWaitValue32_v2)(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) { return value_operation(stream, address, value, flags, true, false); }
PER_THREAD(cuStreamWaitValue32_v2, _ptsz)
API(cuStreamWaitValue64_v2)(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) { return value_operation(stream, address, value, flags, true, true); }
PER_THREAD(cuStreamWaitValue64_v2, _ptsz)
API(cuStreamWriteValue32_v2)(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) { return value_operation(stream, address, value, flags, false, false); }
PER_THREAD(cuStreamWriteValue32_v2, _ptsz)
API(cuStreamWriteValue64_v2)(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) { return value_operation(stream, address, value, flags, false, true); }
PER_THREAD(cuStreamWriteValue64_v2, _ptsz)
API(cuStreamWaitValue32)(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) { return orrery_cuStreamWaitValue32_v2(stream, address, value, flags); }
API(cuStreamWaitValue64)(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) { return orrery_cuStreamWaitValue64_v2(stream, address, value, flags); }
API(cuStreamWriteValue32)(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) { return orrery_cuStreamWriteValue32_v2(stream, address, value, flags); }
API(cuStreamWriteValue64)(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) { return orrery_cuStreamWriteValue64_v2(stream, address, value, flags); }
API(cuStreamBatchMemOp_v2)(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned) {
  return on_stream(stream, [&](auto& s) {
    device::BatchWork batch;
    for (unsigned i = 0; i < count; i++) {
      int operation = list[i].operation;
      if (operation == 3 || operation == 6) continue;  // barriers: every operation here is one
      require(operation == 1 || operation == 2 || operation == 4 || operation == 5, Status::invalid_value);
      bool wide = operation >= 4;
      batch.parts.push_back(value_work(list[i].address, wide ? list[i].value : list[i].value & 0xffffffff, list[i].flags, operation == 1 || operation == 4, wide));
    }
    s->context().submit(s, std::move(batch));
  });
}
PER_THREAD(cuStreamBatchMemOp_v2, _ptsz)
API(cuStreamBatchMemOp)(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned flags) { return orrery_cuStreamBatchMemOp_v2(stream, count, list, flags); }
