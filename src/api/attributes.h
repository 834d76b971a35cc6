// api/attributes.h: what devices say about themselves, from the GPU profile.
#pragma once
#include "api/entry.h"

namespace orrery::api {

constexpr int kPciBusId = 33;

/// cudaDeviceAttr and CUdevice_attribute share these numbers. Throws Failure(invalid_value) for unknown ones.
int device_attribute(const device::Device& device, int attribute);
void fill_properties(abi::cudaDeviceProp13& out, const device::Device& device);
void fill_properties(abi::cudaDeviceProp12& out, const device::Device& device);
/// cudaLimit and CUlimit. Throws Failure(unsupported_limit).
uint64_t* limit_of(Context& context, int limit);
void set_limit(Context& context, int limit, uint64_t value);
void enable_peer(Context& context, int peer, unsigned flags);

}  // namespace orrery::api
