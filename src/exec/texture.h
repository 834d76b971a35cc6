// exec/texture.h: texture and surface objects as the executor reads them, and sampling.
//
// Invariant: `data` points to live device memory for as long as the object lives.
// Source: CUDA programming guide, texture fetching (filtering with 9-bit fixed-point weights, 8 bits of fraction).
#pragma once
#include <cstdint>

namespace orrery::exec {

enum class TexelKind : uint8_t { sint, uint, flt };
enum class AddressMode : uint8_t { wrap, clamp, mirror, border };

struct TextureObject {
  uint64_t data = 0;               // address of texel (0,0,0) of layer 0, level 0
  uint32_t width = 0, height = 0, depth = 0, layers = 0;  // texels; 0 where the dimension does not exist
  uint64_t pitch = 0, slice = 0;   // bytes from row to row, from slice (or layer) to the next
  uint8_t channels = 1, channel_bits = 32;
  TexelKind kind = TexelKind::flt;
  bool linear_memory = false;      // tex1Dfetch from linear memory
  bool cubemap = false;
  bool array = false;              // in an array, whose texels hardware keeps in tiles (here they lie in rows)
  bool normalized_coords = false, linear_filter = false, read_normalized_float = false, srgb = false;
  AddressMode mode[3] = {AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  float border[4] = {0, 0, 0, 0};
  uint8_t levels = 1;
  const TextureObject* mips = nullptr;   // `levels` objects, one per level, where there are several
  bool mip_linear = false;
  float mip_bias = 0, mip_min = 0, mip_max = 1000;
  bool is_surface = false;
};

struct Texel {
  uint32_t v[4];                   // bits of four 32-bit results (f32, s32 or u32)
};

/// Fetches with integer or float coordinates. `dims` 1..3; `layer` for arrays; coordinates in texels or normalised.
/// Coordinates beyond the edges follow the object's address modes.
/// `level` picks a mipmap level where the object has several.
Texel fetch_integer(const TextureObject& texture, int dims, const int32_t* coords, uint32_t layer);
Texel fetch_float(const TextureObject& texture, int dims, const float* coords, uint32_t layer, float level);

}  // namespace orrery::exec
