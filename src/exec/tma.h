// exec/tma.h: the copies of the tensor memory accelerator: boxes of a tensor in global memory to and from a dense,
// possibly swizzled, image in shared memory.
//
// Layout of the image: the rows of the box (runs along dimension 0) follow each other, outer dimensions slowest; with
// a swizzle every row starts at a multiple of the swizzle's width, and inside the image the 16-byte pieces of a row
// are exchanged: bits 4..6 of a piece's shared-memory address are XORed with bits 7..9 (as many as the width has).
//
// Observed on an H200 and kept here: a copy is refused unless its first coordinate is a multiple of 16 bytes; a load
// fills what lies outside the tensor; a store may not start at a negative coordinate and is clipped above, along
// dimension 0 only at 16-byte steps; an im2col store needs a bounding box inside the tensor; a box of an interleaved layout
// has one element along the last dimension but one; an im2col copy steps from image to image by the element stride.
// (tests/vectors/recorder/boxes.cc compares all this.)
//
// Invariant: a map is copied with once check_box has accepted it (which bounds its rows) and its global memory may be touched
// (ops_tma.cc asks, by tensor_end and for_box_pieces): a map is bytes of the program's, and may hold anything.
//
// Not here: operands, mbarriers, multicast (ops_tma.cc). Source: PTX ISA manual, tensors.
#pragma once
#include <cstddef>
#include <cstdint>

#include "exec/reduce.h"
#include "exec/tensor_map.h"

namespace orrery::exec {

/// Where a copy starts: coordinates innermost first, and im2col offsets along the spatial dimensions.
struct BoxOrigin {
  int64_t at[5] = {};
  uint32_t offset[3] = {};
  bool has_offset = false;
};

/// Why a copy is refused; none when it is not.
enum class BoxError : uint8_t { none, not_a_map, misaligned, negative, outside, wrong_mode, type };

/// Bytes that a copy of `map` moves (and an mbarrier counts).
uint64_t box_bytes(const TensorMap& map);
/// Bytes of shared memory from the first to the last that a copy touches.
uint64_t image_bytes(const TensorMap& map);

/// What the GPU checks before it starts.
BoxError check_box(const TensorMap& map, int rank, bool im2col, bool store, const BoxOrigin& origin);

/// The pieces of global memory that a copy reads or writes: calls f(context, address, bytes) for each.
void for_box_pieces(const TensorMap& map, const BoxOrigin& origin, bool store, void (*f)(void*, uint64_t, uint64_t), void* context);

/// Global to shared. `image` is where shared memory holds the box; `address` its shared-memory address, of which the
/// swizzle depends.
void load_box(const TensorMap& map, const BoxOrigin& origin, std::byte* image, uint64_t address);
/// Reads the first and the last byte of what load_box would move, and moves nothing: a page that is missing there is a fault
/// all the same.
void touch_box(const TensorMap& map, const BoxOrigin& origin);
/// Shared to global.
void store_box(const TensorMap& map, const BoxOrigin& origin, const std::byte* image, uint64_t address);
/// A thread that has stored boxes calls this before others may look for them: such stores may pass the caches.
void settle_stores();
/// Shared into global. False when the element type has no such reduction.
bool reduce_box(const TensorMap& map, const BoxOrigin& origin, const std::byte* image, uint64_t address, ReduceKind kind);

}  // namespace orrery::exec
