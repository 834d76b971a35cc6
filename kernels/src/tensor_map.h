// Tensor maps without linking libcuda: the encoder is a driver function, fetched through the runtime.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "orrery/kernels.h"

namespace orrery::kernels {

/// Encodes a tiled map, with the 128-byte swizzle unless another is asked for; sizes innermost first, pitches (rank - 1) in bytes. promotion: how much L2 asks
/// memory for at a time.
/// Errors: false where the driver has no encoder or refuses the shape.
bool encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, int rank, const void* data, const uint64_t* sizes,
                       const uint64_t* pitches, const uint32_t* box, CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                       CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B);

CUtensorMapDataType tensor_map_type(DType t);

}  // namespace orrery::kernels
