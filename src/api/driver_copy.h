// api/driver_copy.h: the driver's descriptions of copies as work of the device layer.
#pragma once
#include "api/abi_driver.h"
#include "api/copying.h"

namespace orrery::api {

abi::CUDA_MEMCPY3D driver_box_of(const abi::CUDA_MEMCPY2D& p);
/// Throws Failure(invalid_value).
device::CopyWork driver_box(const abi::CUDA_MEMCPY3D& p);

/// CUarray_format. Throws Failure(invalid_value).
device::Format driver_format(int format, unsigned channels);
int driver_format_number(const device::Format& format);

}  // namespace orrery::api
