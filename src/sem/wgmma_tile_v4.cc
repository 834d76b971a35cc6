// sem/wgmma_tile_v4.cc: wgmma tiles for x86-64-v4.
#include "sem/wgmma_tile.inc"

namespace orrery::sem {
const WgmmaTileCode& wgmma_tile_v4() { return kCode; }
}  // namespace orrery::sem
