// sem/warp_tile_v3.cc: tiles of a warp for x86-64-v3, and the choice of the level.
#include "sem/warp_tile.inc"

namespace orrery::sem {

const WarpTileCode& warp_tile_v3() { return kCode; }

const WarpTileCode& warp_tile() {
  static const WarpTileCode& chosen = []() -> const WarpTileCode& {
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return !wide ? kCode : __builtin_cpu_supports("avx512bf16") ? warp_tile_bf16() : warp_tile_v4();
  }();
  return chosen;
}

}  // namespace orrery::sem
