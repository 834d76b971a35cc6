// api/runtime_graph_work.cc: see runtime_graph_work.h.
#include "api/runtime_graph_work.h"

#include <cstring>

namespace orrery::api {

using namespace orrery::abi;
using namespace orrery::device;

namespace {

exec::Dim3 to_dim(dim3 d) { return {d.x, d.y, d.z}; }

struct GraphMemory {
  std::shared_ptr<MemoryPool> pool;
  uint64_t address;
  ~GraphMemory() { pool->release(address); }
};

}  // namespace

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
Work alloc_work(Context& context, cudaMemAllocNodeParams* p) {
  require(p != nullptr && p->bytesize > 0, Status::invalid_value);
  auto pool = context.device().pool();
  uint64_t address = pool->allocate(p->bytesize);
  p->dptr = reinterpret_cast<void*>(address);
  return AllocWork{address, p->bytesize, std::make_shared<GraphMemory>(pool, address)};
}

Work work_of(Context& context, cudaGraphNodeParams* p) {
  require(p != nullptr, Status::invalid_value);
  switch (p->type) {
    case 0: return work_of(context, &p->kernel);
    case 1: return work_of(&p->memcpy.copyParams);
    case 2: return work_of(&p->memset);
    case 10: return alloc_work(context, &p->alloc);
    case 11: return FreeWork{0};
    default: return common_work(p->type, &p->host, p->graph.graph, p->type == 6 ? p->eventWait.event : p->eventRecord.event);
  }
}

}  // namespace orrery::api
