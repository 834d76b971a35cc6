// exec/tensor_map.h: the 128 bytes of a tensor map (CUtensorMap) as this machine lays them out.
//
// Programs get a tensor map from cuTensorMapEncode* and only pass it on, by value as a kernel parameter or through
// memory, so that the layout is ours to choose; tensormap.replace changes fields by name. What the fields mean for a
// copy is in the PTX manual, chapter "Tensors" and cp.async.bulk.tensor.
// Invariant of a map that encode accepted: rank 1..5, boxes 1..256, strides multiples of 16, addresses multiples of 16.
#pragma once
#include <cstdint>

namespace orrery::exec {

struct TensorMap {
  static constexpr uint32_t kMagic = 0x4d54524f;  // "ORTM"
  uint32_t magic = kMagic;
  uint8_t rank = 0;
  uint8_t type = 0;            // CUtensorMapDataType: 0 u8, 1 u16, 2 u32, 3 s32, 4 u64, 5 s64, 6 f16, 7 f32, 8 f64, 9 bf16,
                               // 10 f32.ftz, 11 tf32, 12 tf32.ftz, 13 16u4 align 8, 14 16u4 align 16, 15 16u6 align 16
  uint8_t interleave = 0;      // 0 none, 1 16 bytes, 2 32 bytes
  uint8_t swizzle = 0;         // 0 none, 1 32 B, 2 64 B, 3 128 B, 4 128 B atom 32, 5 128 B atom 32 flip 8, 6 128 B atom 64
  uint64_t address = 0;
  uint64_t strides[4] = {};    // bytes from one element to the next in dimensions 1..4
  uint32_t dims[5] = {};       // elements minus one, innermost first
  uint8_t box[5] = {};         // elements minus one
  uint8_t element_strides[5] = {};
  uint8_t l2_promotion = 0;
  uint8_t fill_nan = 0;        // out-of-bounds elements read as a NaN instead of zero
  uint8_t im2col = 0;          // 0 tiled, 1 im2col, 2 im2col wide
  uint8_t pad = 0;
  int16_t lower_corner[3] = {}, upper_corner[3] = {};
  uint16_t channels_per_pixel = 0, pixels_per_column = 0;
  uint8_t reserved[26] = {};
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace orrery::exec
