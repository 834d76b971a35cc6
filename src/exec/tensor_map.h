// exec/tensor_map.h: the tensor map (CUtensorMap): what a TMA instruction knows about a tensor in global memory.
//
// The object is 128 opaque bytes in the program's memory; this is our layout of them. The encoders make one on the
// host with every check of the driver; tensormap.replace changes one on the device; copies read it (tma.h).
//
//   kind, type, rank, interleave, swizzle, fill   how to read the rest
//   address, dims, strides                        the tensor: sizes in elements, strides in bytes (dims 1..rank-1)
//   box, element_strides                          tiled: elements traversed along each dimension, and the step
//   lower, upper, channels, pixels                im2col: corners of the bounding box, and the size of a copy
//
// Invariant of a map that an encoder made: all values are in the ranges that the driver accepts.
// With an interleave, one element of dimension 0 is a slice of 16 or 32 bytes.
// Source: CUDA driver API, tensor map object management; PTX ISA manual, tensors.
#pragma once
#include <cstdint>
#include <optional>

#include "isa/form.h"

namespace orrery::exec {

enum class TensorMapKind : uint8_t { tiled = 1, im2col = 2, im2col_wide = 3 };
enum class Swizzle : uint8_t { none, b32, b64, b128, b128_atom_32b, b128_atom_32b_flip_8b, b128_atom_64b };
enum class Interleave : uint8_t { none, b16, b32 };

constexpr uint32_t kTensorMapMagic = 0x4D54724F;

/// 128 bytes, as a program stores them.
struct alignas(64) TensorMap {
  uint32_t magic = 0;
  TensorMapKind kind = TensorMapKind::tiled;
  uint8_t type = 0;              // CUtensorMapDataType
  uint8_t rank = 0;
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  uint8_t nan_fill = 0, l2_promotion = 0, spare = 0;
  uint8_t element_strides[5] = {1, 1, 1, 1, 1};
  uint8_t spare2 = 0;
  uint16_t channels = 0, pixels = 0;
  uint16_t box[5] = {};
  uint64_t address = 0;
  uint64_t strides[4] = {};      // bytes
  uint32_t last[5] = {};         // size - 1 of each dimension: sizes go up to 2^32
  int16_t lower[3] = {}, upper[3] = {};

  uint64_t size(int dim) const { return uint64_t{last[dim]} + 1; }
};
static_assert(sizeof(TensorMap) == 128);

/// Bytes of one element of a CUtensorMapDataType; 0 when this GPU does not have the type.
uint32_t tensor_element_bytes(uint32_t type);
/// The PTX type in which reductions treat the elements.
isa::Type tensor_element_type(uint32_t type);
bool tensor_type_is_float(uint32_t type);

/// Bytes of one unit along dimension 0: an element, or a slice of an interleaved layout.
uint32_t unit_bytes(const TensorMap& map);
/// Width of the swizzle in bytes, 0 for none.
uint32_t swizzle_bytes(Swizzle s);

/// Whether every field that copies rely on is in the range that encoders and tensormap.replace keep: of other bytes than
/// theirs a copy could compute any address.
bool is_well_formed(const TensorMap& map);
/// One past the last byte of the tensor, rows rounded up to 16 bytes as stores may; nullopt: beyond all addresses.
std::optional<uint64_t> tensor_end(const TensorMap& map);

enum class EncodeStatus : uint8_t { ok, invalid_value, not_supported };

/// What all encoders take; values are those of the driver's enumerations.
struct TensorSpec {
  uint32_t type = 0, rank = 0;
  uint64_t address = 0;
  const uint64_t* dims = nullptr;             // rank sizes in elements, innermost first
  const uint64_t* strides = nullptr;          // rank - 1 strides in bytes
  const uint32_t* element_strides = nullptr;  // rank
  uint32_t interleave = 0, swizzle = 0, l2_promotion = 0, fill = 0;
};

/// Encodes a map for tiled copies of `box` (rank sizes in elements). `out` is the caller's 128 bytes, 64-byte aligned.
EncodeStatus encode_tiled(TensorMap* out, const TensorSpec& spec, const uint32_t* box);
/// Encodes a map for im2col copies of `pixels` pixels of `channels` channels; `lower` and `upper` have rank - 2 values.
EncodeStatus encode_im2col(TensorMap* out, const TensorSpec& spec, const int* lower, const int* upper, uint32_t channels, uint32_t pixels);
/// The form whose copies need compute capability 10.0 (the driver makes such maps for any GPU). `lower` and `upper` are corners
/// along the second dimension; mode is 0 or 1 (W128).
EncodeStatus encode_im2col_wide(TensorMap* out, const TensorSpec& spec, int lower, int upper, uint32_t channels, uint32_t pixels, uint32_t mode);
/// Another tensor address in an existing map.
EncodeStatus replace_address(TensorMap* map, uint64_t address);

}  // namespace orrery::exec
