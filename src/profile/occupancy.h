// profile/occupancy.h: how many blocks an SM holds at once.
//
// The one place where that is worked out, as the occupancy calculator of the CUDA toolkit does. Not here: which resources a kernel takes
// (timing/predict.cc, device/launch.cc), clusters (clusters_at_once in profile.h).
#pragma once
#include <algorithm>
#include <cstdint>

namespace orrery {

/// What an SM has for its blocks.
struct SmRoom {
  uint32_t warps = 64, blocks = 32, registers = 65536;
  uint32_t shared = 228 << 10, reserved_shared = 1 << 10;  // bytes: in all, and what each block takes besides its own
};

struct BlocksOfSm {
  uint32_t blocks = 0;
  const char* limiter = "warps";  // "warps", "blocks", "registers" or "shared"
};

/// Registers that warps of so many registers a thread take each: 256 at a time.
constexpr uint64_t registers_of_warp(uint64_t per_thread) { return (per_thread * 32 + 255) / 256 * 256; }

/// What a block has to find free in an SM: as if it had as many warps in each of four sub-cores.
constexpr uint64_t registers_of_block(uint64_t threads, uint64_t per_thread) { return (threads + 127) / 128 * 4 * registers_of_warp(per_thread); }

/// Blocks of `threads` threads of `registers` registers each (0: not known) and `shared` bytes of shared memory that an SM holds at once; 0: not one.
/// Each of four sub-cores has a quarter of the registers, and a block's warps are spread over all of them; shared memory
/// is given out 128 bytes at a time.
inline BlocksOfSm blocks_of_sm(const SmRoom& room, uint32_t threads, uint32_t registers, uint64_t shared) {
  const uint32_t warps = (threads + 31) / 32;
  if (threads == 0 || threads > 1024) return {};
  BlocksOfSm out{room.warps / warps, "warps"};
  const auto limit = [&](uint64_t blocks, const char* why) {
    if (blocks < out.blocks) out = {uint32_t(blocks), why};
  };
  limit(room.blocks, "blocks");
  if (registers) {
    const uint64_t of_sub_core = room.registers / 4 / registers_of_warp(registers);
    limit(registers_of_block(threads, registers) > room.registers ? 0 : of_sub_core * 4 / warps, "registers");
  }
  const uint64_t taken = (shared + room.reserved_shared + 127) / 128 * 128;
  if (taken) limit(room.shared / taken, "shared");
  return out;
}

}  // namespace orrery
