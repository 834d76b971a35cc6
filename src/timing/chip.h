// timing/chip.h: the figures that the timing model works with, and the part of the chip that SMs share: L2 and memory.
//
// Every figure comes from the GPU's profile or from microbenchmarks (calib/raw); none from kernels that judge the model.
// Shared resources are reserved in the order in which requests come: a request is told at once when its data arrive.
//
//   L2      two partitions, lines of 128 bytes with four sectors, least recently used; an SM looks in the near one,
//           then in the far one (which leaves a copy in the near one), then in memory
//   memory  bytes at the sustained bandwidth
//
// Only some SMs are simulated in detail; the others are ghosts, which access L2 with the addresses that their blocks
// have, at the same time as the detailed one.
#pragma once
#include <cstdint>
#include <vector>

#include "profile/profile.h"

namespace orrery::timing {

/// Cycles and bytes a cycle, at the SM clock.
struct ChipFigures {
  double clock = 1.98e9;
  uint32_t sms = 132, warps = 64, blocks = 32;
  uint32_t registers = 65536, shared_bytes = 233472, l1_bytes = 262144;
  double l1_latency = 32, shared_latency = 23, constant_latency = 28;
  double l2_latency = 281, l2_far_latency = 510, dram_latency = 660;
  double l2_bandwidth = 4200, dram_bandwidth = 2290, sm_bandwidth = 64, sm_write_bandwidth = 64;
  double dram_write_cost = 1.12;
  uint64_t l2_bytes = 60u << 20;
  double launch_cycles = 2900, block_interval = 1.21, block_start = 250, tma_bandwidth = 106, tma_latency = 20;
  double dsmem_latency = 190, dsmem_bandwidth = 18;
  double atomic_interval = 1;
};

ChipFigures figures_of(const Profile& profile);

struct MemoryCounts {
  double l2_read_sectors = 0, l2_write_sectors = 0, l2_hits = 0, dram_read = 0, dram_write = 0;  // whole chip
};

class Chip {
 public:
  Chip(const ChipFigures& figures, double share);
  /// Reads the sectors `mask` of line `line` (address / 128) for SM number `sm` at `now`; returns when data leave L2's far end
  /// for the SM (latency included). `weight`: how many SMs do the same to their own lines (for bandwidth only).
  double read(uint64_t line, uint32_t mask, uint32_t sm, double now);
  void write(uint64_t line, uint32_t mask, uint32_t sm, double now, bool full);
  /// An atomic on `same` lanes' words of a line.
  double atomic(uint64_t line, uint32_t mask, uint32_t same, uint32_t lanes, uint32_t sm, double now);
  /// The same access by an SM that is not simulated: it moves L2's contents and takes memory's bandwidth.
  void ghost_read(uint64_t line, uint32_t mask, uint32_t sm, double now);
  void ghost_write(uint64_t line, uint32_t mask, uint32_t sm, double now);
  const MemoryCounts& counts() const { return counts_; }
  double dram_free() const { return dram_free_; }
  double dram_busy() const { return dram_busy_; }
  double l2_busy() const { return l2_busy_; }

 private:
  struct Way {
    uint64_t tag = ~uint64_t{0};
    uint32_t used = 0;
    uint8_t valid = 0, dirty = 0;
  };
  enum class Found { near, far, missing };
  static constexpr uint32_t kWays = 16;
  Found look_up(uint64_t line, uint32_t mask, uint32_t side, bool write, uint32_t& missing, double now);
  Way& find(uint64_t line, uint32_t side, bool& hit, double now);
  void take_dram(double bytes, double now);
  double take_l2(double sectors, double now);

  const ChipFigures& f_;
  const double share_;
  uint32_t sets_;
  std::vector<Way> ways_;
  uint32_t clock_ = 0;
  double dram_free_ = 0, l2_free_ = 0, dram_busy_ = 0, l2_busy_ = 0;
  MemoryCounts counts_;
};

}  // namespace orrery::timing
