// timing/chip.h: the figures that the timing model works with, and the part of the chip that SMs share: L2 and memory.
//
// Every figure comes from the GPU's profile or from microbenchmarks (calib/raw); none from kernels that judge the model.
// Shared resources are reserved in the order in which requests come: a request is told at once when its data arrive.
//
//   L2      two partitions, lines of 128 bytes with four sectors, least recently used; an SM looks in the near one,
//           then in the far one (which leaves a copy in the near one), then in memory. At most half of L2 is dirty: the
//           line that has been dirty longest is written back first. A slice serves one request a cycle.
//           Data on their way are there when they are there, for whoever asks next. Sectors written in part are few:
//           the oldest is completed from memory and written back.
//   memory  64 bytes at least; a page that was not used lately costs extra; a sector that was written in part is
//           read before it is written back
//
// Only some SMs are simulated in detail; the others are ghosts, which access L2 with the addresses that their blocks
// have, at the same time as the detailed one.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "profile/profile.h"

namespace orrery::timing {

/// Cycles and bytes a cycle, at the SM clock. Names in brackets are measurements of calib/raw/h200-2026-11-21*.jsonl.
struct ChipFigures {
  double clock = 1.98e9;
  uint32_t sms = 132, warps = 64, blocks = 32;
  uint32_t registers = 65536, shared_bytes = 233472, l1_bytes = 262144;
  double l1_latency = 32, shared_latency = 23;          // [latency.global.ca.16KB, latency.shared]
  double constant_latency = 28;
  double l2_latency = 281, l2_far_latency = 510;        // [latency.global.ca.16384KB, .40960KB]
  double dram_latency = 690;                            // [load_chain cold: 699 a step, with the loop]
  double l2_spread = 40, dram_spread = 150;             // either side, by slice and bank: assumed, no microbenchmark isolates it
  double l2_requests = 78, l2_sectors = 131;            // a cycle, whole chip [random_read/1; power.l2_read]
  double partial_write = 1.8;                           // of a line whose sectors are written in part, in sectors [random_write/8]
  double l2_far_sectors = 96, l2_write_sectors = 73;    // read first by this partition; written or filled [bulk_l2; copy_loop16/8]
  double tma_l2_bandwidth = 3075;                       // bytes a cycle, whole chip [bulk_l2]
  double dram_bandwidth = 2336;                         // [read16/2048, bulk_dram/8]
  double dram_write_cost = 1.06, dram_turn_cost = 0.10; // [write16/1024; copy_loop16/1024]
  double dram_page_cost = 50;                           // bytes' worth of a page that is not open [random_read/1024]
  double partial_write_cost = 138;                      // [random_write/1024]
  double l2_partial_sectors = 150'000;                  // written in part that wait for the rest [random_write/8: bytes written back]
  double sm_request = 1.5;                              // cycles of one SM for a line that misses L1 [random_read/1]
  double sm_bandwidth = 64, sm_write_bandwidth = 64;    // [read16_l2_few/1]
  uint64_t l2_bytes = 60u << 20, l2_dirty_bytes = 29'400'000;  // [write16/64: bytes that stay]
  double tensor_clock = 1.80e9;                         // as soon as tensor cores work [hmma_paused, wgmma_two_zero]
  double idle_watts = 130, dynamic_watts = 534;         // what the clock holds [wgmma_two_random: 664 W at 1.72 GHz]
  double launch_cycles = 2610, cold_cycles = 250;       // [empty/1]
  double launch_all_sms = 330, launch_wide = 250;       // more: for a grid on all SMs; for blocks of eight warps [empty/132, empty_256/132]
  double store_done = 420;                              // from the last store to the end of the kernel [straight64/1]
  double fetch_jump = 28, fetch_jump_cold = 95;         // a jump into 2 KiB of code that were not fetched yet [jumps31/1]
  double first_access = 106, first_access_cold = 736;   // of an SM to memory: address translation [load_chain/1]
  double block_interval = 1.19;                         // cycles from block to block, whole chip [empty/131072]
  double block_start = 180;
  double tma_bandwidth = 106, tma_latency = 20;         // one SM [tma.bulk.latency.l2.*]
  double dsmem_latency = 190, dsmem_bandwidth = 18;     // [latency.dsmem, bandwidth.dsmem]
  double atomic_one_line = 1.47;                        // operations of single lanes on one line [add_words_line/1]
  double atomic_interval = 1.75, atomic_same_line = 3.48;  // a lane's operation in a slice [random_add/1024, add_one_address]
};

ChipFigures figures_of(const Profile& profile);

struct MemoryCounts {
  double l2_read_sectors = 0, l2_write_sectors = 0, l2_hits = 0, dram_read = 0, dram_write = 0;  // whole chip
};

class Chip {
 public:
  explicit Chip(const ChipFigures& figures);
  /// Reads the sectors `mask` of line `line` (address / 128) for SM number `sm` at `now`; returns when the data are there.
  double read(uint64_t line, uint32_t mask, uint32_t sm, double now);
  /// `bytes` of each sector are written.
  void write(uint64_t line, uint32_t mask, uint32_t sm, double now, uint32_t bytes);
  /// `lanes` atomic operations, one after the other, on a line: a sector at a time, and again for lanes on one word.
  double atomic(uint64_t line, uint32_t mask, uint32_t lanes, bool floating, uint32_t sm, double now);
  const MemoryCounts& counts() const { return counts_; }
  double dram_free() const { return dram_free_; }
  double dram_busy() const { return dram_busy_; }
  double l2_busy() const { return l2_busy_ > l2_write_busy_ ? l2_busy_ : l2_write_busy_; }
  /// When the last atomic operation taken so far is done.
  double atomics_free() const { return atomics_free_; }
  double write_free() const { return l2_write_free_; }

 private:
  struct Way {
    uint64_t tag = ~uint64_t{0};
    uint32_t used = 0;
    uint8_t valid = 0, dirty = 0;      // sectors
    std::array<uint8_t, 4> written{};  // bytes of a dirty sector that never came from memory
    double arrives = 0;                // when the last sectors asked for are there
  };
  enum class Found { near, far, missing };
  static constexpr uint32_t kWays = 16, kPages = 2048, kSlices = 96;
  Way* set_of(uint64_t line, uint32_t side);
  Way& find(uint64_t line, uint32_t side, double now);
  Found look_up(uint64_t line, uint32_t mask, uint32_t side, uint32_t& missing, double now);
  void take_dram(uint64_t line, double bytes, bool write, double now);
  double take_l2(double sectors, bool first, double now);
  void take_l2_write(double sectors, double now);
  void write_back(uint64_t line, Way& way, double now);
  void limit_dirty(double now);
  void limit_partial(double now);

  const ChipFigures& f_;
  uint32_t sets_;
  std::vector<Way> ways_;
  std::deque<std::pair<uint64_t, uint32_t>> dirty_order_, partial_order_;  // line, side
  double dirty_bytes_ = 0;
  std::vector<uint64_t> pages_;
  std::array<double, kSlices> slice_{};
  std::array<uint64_t, kSlices> slice_line_{};
  uint32_t clock_ = 0;
  Way* last_ = nullptr;   // that look_up found or made
  bool last_was_write_ = false;
  double atomics_free_ = 0, dram_free_ = 0, l2_free_ = 0, l2_write_free_ = 0, l2_write_busy_ = 0, dram_busy_ = 0, l2_busy_ = 0;
  MemoryCounts counts_;
};

}  // namespace orrery::timing
