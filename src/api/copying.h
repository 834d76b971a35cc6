// api/copying.h: the runtime's descriptions of copies as work of the device layer.
#pragma once
#include "api/memory_calls.h"

namespace orrery::api {

/// cudaMemcpyKind. Throws Failure(invalid_memcpy_direction).
device::Direction direction_of(int kind);
device::CopyWork linear_copy(void* dst, const void* src, size_t bytes);
/// Box of cudaMemcpy3DParms; its kind is not looked at. Throws Failure.
device::CopyWork box_copy(const abi::cudaMemcpy3DParms& params);

}  // namespace orrery::api
