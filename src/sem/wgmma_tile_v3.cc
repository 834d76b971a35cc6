// sem/wgmma_tile_v3.cc: wgmma tiles for x86-64-v3, and the choice of the level.
#include "sem/wgmma_tile.inc"

namespace orrery::sem {

const WgmmaTileCode& wgmma_tile_v3() { return kCode; }

const WgmmaTileCode& wgmma_tile() {
  static const bool wide = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }();
  return wide ? wgmma_tile_v4() : kCode;
}

}  // namespace orrery::sem
