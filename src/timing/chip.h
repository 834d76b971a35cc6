// timing/chip.h: the figures that the timing model works with, and the part of the chip that SMs share: L2 and memory.
//
// Every figure comes from the GPU's profile or from microbenchmarks (calib/raw); none from kernels that judge the model.
// Shared resources are reserved in the order in which requests come: a request is told at once when its data arrive.
//
//   L2      two partitions, lines of 128 bytes with four sectors, least recently used; an SM looks in the near one,
//           then in the far one (which leaves a copy in the near one), then in memory. At most half of L2 is dirty: the
//           line that has been dirty longest is written back first. A slice serves one request a cycle.
//           Up to four SMs of a GPC that ask for the same sectors within 80 cycles ask once (the profiler's lrc counters;
//           calib/steps/sharing.cu: share_near, share_far, share_apart); neighbouring blocks are in one GPC. Data on their way are there when they are there, for whoever asks next. Sectors written in part are few:
//           the oldest is completed from memory and written back.
//   memory  64 bytes at least; a page that was not used lately costs extra; a sector that was written in part is
//           read before it is written back. How long a load takes is drawn from the measured spread (banks, refresh, turns
//           between reads and writes), which grows with utilisation: the slowest of many loads sets the pace of a warp
//
// Only some SMs are simulated in detail; the others are ghosts, which access L2 with the addresses that their blocks
// have, at the same time as the detailed one.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "profile/profile.h"
#include "timing/l2_lines.h"

namespace orrery::timing {

/// Cycles, and bytes or sectors a cycle, at the SM clock. Where each comes from is in the profile (gpus/*.toml, section
/// timing); what it means is in profile/fields.def.
struct ChipFigures {
  double clock = 0, l2_bytes = 0;
  uint32_t sms = 0, warps = 0, blocks = 0;
  uint32_t registers = 0, shared_bytes = 0, l1_bytes = 0;
  double l1_latency = 0;                // load that hits L1
  double shared_latency = 0;            // load from shared memory, 32-bit address
  double constant_latency = 0;          // load from the constant bank that hits
  double l2_latency = 0;                // load that hits the near L2 partition
  double l2_far_latency = 0;            // load that hits the far L2 partition
  double dram_latency = 0;              // load from device memory
  double l2_spread = 0;                 // how far an L2 hit is from the mean, by slice
  double dram_wait = 0;                 // mean of what a load from idle memory takes beyond the quickest
  double dram_wait_busy = 0;            // more of it when others read
  double dram_wait_written = 0;         // more of it when memory is written too
  double l2_requests = 0;               // lines that L2 serves in a cycle, whole chip
  double l2_sectors = 0;                // read from L2 in a cycle, whole chip
  double l2_far_sectors = 0;            // the same when a partition reads a line first
  double l2_write_sectors = 0;          // written to or filled into L2 in a cycle, whole chip
  double write_request = 0;             // sectors whose time a write of parts of sectors takes beside its own
  double write_slice = 0;               // cycles of a slice for each of them
  double l2_dirty_bytes = 0;            // written bytes that L2 keeps
  double l2_partial_sectors = 0;        // sectors written in part that L2 keeps
  double dram_bandwidth = 0;            // bytes a cycle
  double dram_write_cost = 0;           // time of a byte written to memory over one read
  double dram_turn_cost = 0;            // more of it when memory is read and written by turns
  double dram_page_cost = 0;            // bytes that could be read while a page of memory is opened
  double partial_write_cost = 0;        // bytes that could be read while a sector written in part is completed
  double sm_request = 0;                // cycles of an SM for a line that misses L1
  double sm_bandwidth = 0;              // bytes that an SM takes from L2 in a cycle
  double sm_write_bandwidth = 0;        // bytes that an SM writes to L2 in a cycle
  double tensor_clock = 0;              // clock as soon as tensor cores work
  double idle_watts = 0;                // power at full clock without work
  double dynamic_watts = 0;             // power above it that the clock holds with tensor cores
  double plain_watts = 0;               // the same without
  double launch_cycles = 0;             // a kernel of one warp, beside what it executes
  double cold_cycles = 0;               // more with cold caches
  double launch_all_sms = 0;            // more for a grid on all SMs
  double launch_wide = 0;               // more for blocks of eight warps
  double store_done = 0;                // from the last store to the end of a kernel
  double fetch_jump = 0;                // jump into 2 KiB of code that were not fetched
  double fetch_jump_cold = 0;           // the same with cold caches
  double first_access = 0;              // more for an SM's first load: address translation
  double first_access_cold = 0;         // the same with cold caches
  double block_interval = 0;            // from block to block, whole chip
  double block_start = 0;               // from the end of a block to the start of the next in its place
  double tma_bandwidth = 0;             // bytes that the copy engine of an SM moves in a cycle
  double tma_latency = 0;               // what a bulk copy adds to the load that it replaces
  double tma_store_bandwidth = 0;       // bytes that the copy engine of an SM stores in a cycle
  double tma_store_latency = 0;         // from a bulk store to its end, beside its bytes
  double tma_peer_bandwidth = 0;        // bytes of bulk copies to another SM's shared memory in a cycle
  double tma_peer_latency = 0;          // of such a copy, beside its bytes
  double dsmem_latency = 0;             // load from shared memory of another block
  double dsmem_bandwidth = 0;           // bytes that an SM loads from shared memory of other blocks in a cycle, 16 a lane
  double atomic_one_line = 0;           // integer operation of one lane on the line of the last one, in a slice
  double atomic_interval = 0;           // a lane's atomic operation in a slice
  double atomic_same_line = 0;          // floating-point operation on the line of the last one, in a slice
  /// The same seen from SMs that run at `now` instead of the highest clock: L2 and memory keep theirs.
  ChipFigures at_clock(double now) const;
  bool borrowed = false;            // the profile has no figures of its own: they are the H200's
};

/// The figures of a GPU. Those that its profile does not give are the H200's.
ChipFigures figures_of(const Profile& profile);

struct MemoryCounts {
  double l2_read_sectors = 0, l2_write_sectors = 0, l2_hits = 0, dram_read = 0, dram_write = 0, dram_pages = 0;  // whole chip
  double merged_sectors = 0;       // read by an SM along with another
  double fabric_sectors = 0;       // that cross from one partition to the other
  /// Adds `times` what was counted between `from` and `to`.
  void extend(const MemoryCounts& from, const MemoryCounts& to, double times);
};

/// What an SM asks L2 for, and when.
struct Request {
  uint64_t line = 0;               // address / 128
  uint32_t sectors = 0, sm = 0;
  double when = 0;
  bool in_pairs = false;           // what memory gives comes with the other line of its 256 bytes
};

class Chip {
 public:
  /// `cluster`: blocks of a cluster of the kernel that runs.
  explicit Chip(const ChipFigures& figures, uint64_t cluster = 1);
  /// Reads the sectors `mask` of line `line` (address / 128) for SM number `sm` at `now`; returns when the data are there.
  double read(uint64_t line, uint32_t mask, uint32_t sm, double now);
  /// The same for requests of several SMs, one after the other; returns when the data of SM `sm` are there.
  double read_all(std::span<const Request> requests, uint32_t sm);
  /// `bytes` of each sector are written; returns when the slice has taken them.
  double write(uint64_t line, uint32_t mask, double now, uint32_t bytes);
  /// The same for several SMs, one after the other.
  void write_all(std::span<const Request> requests, uint32_t bytes);
  /// `bytes` more of each sector come along with a write that was taken before.
  void write_more(uint64_t line, uint32_t mask, uint32_t bytes);
  /// `lanes` atomic operations, one after the other, on a line: a sector at a time, and again for lanes on one word.
  double atomic(uint64_t line, uint32_t mask, uint32_t lanes, bool floating, uint32_t sm, double now);
  const MemoryCounts& counts() const { return counts_; }
  /// Counts from here on; what is in L2 stays.
  void forget_counts() { counts_ = MemoryCounts{}, dram_busy_ = l2_busy_ = l2_write_busy_ = 0; }
  double dram_free() const { return dram_free_; }
  double dram_busy() const { return dram_busy_; }
  double l2_busy() const { return l2_busy_ > l2_write_busy_ ? l2_busy_ : l2_write_busy_; }
  /// When the last atomic operation taken so far is done.
  double atomics_free() const { return atomics_free_; }
  double write_free() const { return l2_write_free_; }
  /// When the last write taken so far is done.
  double writes_done() const { return l2_write_free_ > slices_free_ ? l2_write_free_ : slices_free_; }

 private:
  struct Merge {                     // a line that a GPC has lately asked for
    uint64_t line = ~uint64_t{0};
    uint32_t mask = 0, asked = 0;      // how many have asked
    double when = 0, back = 0;
  };
  enum class Found { near, far, missing };
  static constexpr uint32_t kPages = 32768, kOpenPages = 6144, kSlices = 96;
  static constexpr uint32_t kGpcs = 8, kMerges = 1024;
  static constexpr double kMergeWindow = 80;  // cycles in which requests of a GPC for the same sectors become one [share_apart]
  static constexpr uint32_t kMergeMost = 4;   // requests that become one [feed_alone, share_near]
  static constexpr double kWindow = 1024;  // cycles over which utilisation is taken
  L2Line* peek(uint64_t line, uint32_t side);  // null when it is not there
  L2Line& find(uint64_t line, L2Lines::Place at, double now);
  L2Lines::Place place_of(uint64_t line, uint32_t side) const;
  uint32_t gpc_of(uint32_t sm) const;
  size_t merge_of(uint64_t line, uint32_t sm) const;
  double read_at(const Request& r, Merge& merge, L2Lines::Place near);
  Found look_up(uint64_t line, uint32_t mask, uint32_t side, uint32_t& missing, double now, L2Lines::Place near);
  double read_from_l2(const Request& r, L2Lines::Place near);
  void bring_other(uint64_t line, uint32_t side, double now, double arrives);
  bool take_dram(uint64_t line, double bytes, bool write, double now);  // true: a page was opened
  double dram_latency(uint64_t line, uint32_t sm, double now) const;
  double take_l2(uint32_t sectors, bool first, double now);
  void take_l2_write(double sectors, double now);
  void mark_written(uint64_t line, uint32_t mask, double now, uint32_t bytes);
  void write_back(uint64_t line, L2Line& way, double now, uint8_t sectors = 15);
  void limit_dirty(double now);
  void limit_partial(double now);

  const ChipFigures& f_;
  const uint32_t cluster_;
  L2Lines lines_;
  std::deque<std::pair<uint64_t, uint32_t>> dirty_order_, partial_order_;  // line, side; and sector << 1
  double dirty_bytes_ = 0;
  std::vector<Merge> merges_;
  struct Page {
    uint64_t page = ~uint64_t{0};
    uint64_t opened = 0;             // how many pages had been opened when it was last used
  };
  std::vector<Page> pages_;
  Page& page_of(uint64_t line);
  std::array<double, 5> near_cycles_{}, far_cycles_{};  // of L2, by number of sectors
  uint64_t openings_ = 0;
  std::array<double, kSlices> slice_{};
  std::array<uint64_t, kSlices> slice_line_{};
  std::array<double, kSlices> read_slice_{}, write_slice_{};
  double slices_free_ = 0;           // of writing
  L2Line* last_ = nullptr;   // that look_up found or made
  double written_share_ = 0;  // of the last accesses to memory
  double window_start_ = 0, window_busy_ = 0, utilisation_ = 0;  // of memory, lately
  double atomics_free_ = 0, dram_free_ = 0, l2_free_ = 0, l2_write_free_ = 0, l2_write_busy_ = 0, dram_busy_ = 0, l2_busy_ = 0;
  MemoryCounts counts_;
};

}  // namespace orrery::timing
