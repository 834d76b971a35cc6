// sem/warp_tile_v4.cc: tiles of a warp for x86-64-v4.
#include "sem/warp_tile.inc"

namespace orrery::sem {
const WarpTileCode& warp_tile_v4() { return kCode; }
}  // namespace orrery::sem
