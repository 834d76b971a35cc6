// api/runtime_graph_work.h: the work of graph nodes out of the parameters of runtime calls. All throw Failure(invalid_value) for
// parameters that no node can have.
#pragma once
#include "api/graph_calls.h"

namespace orrery::api {

Work work_of(Context& context, const abi::cudaKernelNodeParams* p);
Work work_of(const abi::cudaMemcpy3DParms* p);
Work work_of(const abi::cudaMemsetParams* p);
/// A copy of `bytes` bytes; `kind`: cudaMemcpyKind.
Work work_of_line(void* dst, const void* src, size_t bytes, int kind);
Work work_to_symbol(Context& context, const void* symbol, const void* src, size_t bytes, size_t offset, int kind);
Work work_from_symbol(Context& context, void* dst, const void* symbol, size_t bytes, size_t offset, int kind);
/// Allocates, and writes the address to p->dptr.
Work alloc_work(Context& context, abi::cudaMemAllocNodeParams* p);
/// Of the general description of a node.
Work work_of(Context& context, abi::cudaGraphNodeParams* p);

inline constexpr GraphCalls runtime_graph_calls{runtime_in};

}  // namespace orrery::api
