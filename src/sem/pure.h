// sem/pure.h: the meaning of instructions that only compute, for all lanes of a warp.
//
// A pure instruction maps source values to destination values lane by lane: arithmetic, logic, comparison, shifts,
// conversions, packing, video and DPX forms. Memory, control, warp-wide exchange and tensor cores are not here
// (exec/, sem/tensor.h).
//
// Values are arrays of 32 lanes in the frame layout of lower/program.h:
//   pred: one uint32_t bit mask     up to 32 bits: uint32_t[32], low bits     64: uint64_t[32]
//   128: uint64_t[64], low halves first
// Sources may have unspecified upper bits above the operand's width; destinations of less than 32 bits are written
// zero-extended. Only lanes set in `mask` are read and written (a predicate destination keeps its other bits).
// A destination may be the same array as a source. Functions expect MXCSR in its default state (nearest, no
// flushing, exceptions masked) and leave it so.
#pragma once
#include <cstdint>
#include <string_view>

#include "isa/form.h"

namespace orrery::sem {

/// d: destinations in operand order (a null pointer for the sink); s: sources in operand order. Packed operands
/// ({a,b} vectors) are flattened in order. An add.cc/addc destination or source carry is the last d or s.
using PureFn = void (*)(const isa::Form& form, void* const* d, const void* const* s, uint32_t mask);

/// The function that computes `form` for an instruction with this many destinations and sources after flattening
/// (they tell `setp p` from `setp p|q`, two-source from three-source min, and packing moves from each other);
/// null when the form is not pure or has no meaning on this machine.
PureFn find_pure(const isa::Form& form, int dests = 1, int sources = 0);

/// The word that stands for a video operand's selector (`b2`, `h1`, `b3210`; 0 for none). Video functions take the
/// sources a, b, c (null where absent) and then three pointers to such words: of d, a and b.
uint32_t video_selector(std::string_view text);

}  // namespace orrery::sem
