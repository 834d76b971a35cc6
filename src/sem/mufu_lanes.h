// sem/mufu_lanes.h: the special-function unit of mufu.h for the lanes of a warp at once.
//
// Each function does the lanes of `mask` whose argument and result are ordinary (normal numbers, no range handling) and
// says which these were; mufu.h and approx.cc do the others. Invariant: a lane that is done has exactly their result.
#pragma once
#include <cstdint>

namespace orrery::sem {

struct MufuLanes {
  /// in, out: 32 lanes of f32, which may be the same array. Only lanes that are done are written. Returns these.
  using Function = uint32_t (*)(const uint32_t* in, uint32_t* out, uint32_t mask);
  Function rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh;
  /// a * rcp(b).
  uint32_t (*div)(const uint32_t* a, const uint32_t* b, uint32_t* out, uint32_t mask);
};

/// Of the highest level that the processor has.
const MufuLanes& mufu_lanes();
const MufuLanes& mufu_lanes_v3();
const MufuLanes& mufu_lanes_v4();  // needs AVX-512

}  // namespace orrery::sem
