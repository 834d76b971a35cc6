// Driver API: tensor maps. The encoders themselves are in exec/tensor_map.h.
#include "api/entry.h"
#include "exec/tensor_map.h"

namespace {

using orrery::exec::EncodeStatus;
using orrery::exec::TensorMap;
using orrery::exec::TensorSpec;

/// CUDA_ERROR_INVALID_VALUE and CUDA_ERROR_NOT_SUPPORTED.
int code_of(EncodeStatus s) { return s == EncodeStatus::ok ? 0 : s == EncodeStatus::invalid_value ? 1 : 801; }

TensorSpec spec_of(unsigned type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const unsigned* element_strides,
                   unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
  return {type, rank, reinterpret_cast<uint64_t>(address), dims, strides, element_strides, interleave, swizzle, promotion, fill};
}

}  // namespace

extern "C" {

int orrery_cuTensorMapEncodeTiled(TensorMap* out, unsigned type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides,
                                  const unsigned* box, const unsigned* element_strides, unsigned interleave, unsigned swizzle,
                                  unsigned promotion, unsigned fill) {
  return code_of(encode_tiled(out, spec_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill), box));
}

int orrery_cuTensorMapEncodeIm2col(TensorMap* out, unsigned type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides,
                                   const int* lower, const int* upper, unsigned channels, unsigned pixels, const unsigned* element_strides,
                                   unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
  return code_of(encode_im2col(out, spec_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill), lower,
                               upper, channels, pixels));
}

int orrery_cuTensorMapEncodeIm2colWide(TensorMap* out, unsigned type, unsigned rank, void* address, const uint64_t* dims,
                                       const uint64_t* strides, int lower, int upper, unsigned channels, unsigned pixels,
                                       const unsigned* element_strides, unsigned interleave, unsigned mode, unsigned swizzle,
                                       unsigned promotion, unsigned fill) {
  return code_of(encode_im2col_wide(out, spec_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill),
                                    lower, upper, channels, pixels, mode));
}

int orrery_cuTensorMapReplaceAddress(TensorMap* map, void* address) { return code_of(replace_address(map, reinterpret_cast<uint64_t>(address))); }

}  // extern "C"
