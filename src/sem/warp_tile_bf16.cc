// sem/warp_tile_bf16.cc: tiles of a warp for x86-64-v4 with AVX-512 BF16.
#include "sem/warp_tile.inc"

namespace orrery::sem {
const WarpTileCode& warp_tile_bf16() { return kCode; }
}  // namespace orrery::sem
