// Tensors of batch x seq x heads x dim: their checks and their tensor maps.
#pragma once
#include <cuda.h>

#include "arguments.h"
#include "orrery/kernels.h"

namespace orrery::kernels {

/// Names the first fault of a tensor of batch x seq x heads x dim with these strides; elements of `size` bytes.
Status check_tensor(const char* name, const char* strides_name, const void* data, const AttentionArgs::Strides& strides, int64_t batch, int64_t seq,
                    int64_t heads, int64_t dim, int size = 2);

/// Where it lies.
Extent extent_of_tensor(const char* name, const void* data, const AttentionArgs::Strides& strides, int64_t batch, int64_t seq, int64_t heads, int64_t dim, int size = 2);

/// Map of boxes of 128 bytes of dim by `rows` of seq. Errors: false where the driver refuses it.
bool encode_tensor(CUtensorMap* map, const void* data, DType t, const AttentionArgs::Strides& strides, int64_t batch, int64_t seq, int64_t heads,
                   int64_t dim, uint32_t rows);

}  // namespace orrery::kernels
