// timing/figures.h: the figures that the timing model works with.
//
// Every figure comes from the GPU's profile or from microbenchmarks (calib/raw); none from kernels that judge
// the model. Not here: constants of one mechanism each, which stand beside it (chip.h, sm_units.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace orrery::timing {

/// Cycles, and bytes or sectors a cycle, at the SM clock. Where each comes from is in the profile
/// (gpus/*.toml, section timing); what it means is in profile/fields.def.
struct ChipFigures {
  double clock = 0, l2_bytes = 0;
  uint32_t sms = 0, gpcs = 0, warps = 0, blocks = 0;
  uint32_t registers = 0, shared_bytes = 0, shared_reserved = 0, l1_bytes = 0;
  double l1_latency = 0;           // load that hits L1
  std::vector<uint32_t> groups;    // SMs of each group that takes blocks by turns: GPCs, and what the card sets apart of one
  double shared_latency = 0;       // load from shared memory, 32-bit address
  double constant_latency = 0;     // load from the constant bank that hits
  double l2_latency = 0;           // load that hits the near L2 partition
  double l2_far_latency = 0;       // load that hits the far L2 partition
  double dram_latency = 0;         // load from device memory
  double l2_spread = 0;            // how far an L2 hit is from the mean, by slice
  double dram_wait = 0;            // mean of what a load from idle memory takes beyond the quickest
  double dram_wait_busy = 0;       // more of it when others read
  double dram_wait_queue = 0;      // more of it as memory fills: times u / (1 - u)
  double dram_wait_mixed = 0;      // more of it when memory is written too: times u
  double dram_wait_written = 0;    // and times u u / (1 - u)
  double l2_requests = 0;          // lines that L2 serves in a cycle, whole chip
  double l2_sectors = 0;           // read from L2 in a cycle, whole chip
  double l2_far_sectors = 0;       // the same when a partition reads a line first
  double l2_write_sectors = 0;     // written to or filled into L2 in a cycle, whole chip
  double write_request = 0;        // sectors whose time a write of parts of sectors takes beside its own
  double write_slice = 0;          // cycles of a slice for each of them
  double l2_dirty_bytes = 0;       // written bytes that L2 keeps
  double l2_partial_sectors = 0;   // sectors written in part that L2 keeps
  double l2_completed_lines = 0;   // lines that were, completed from memory, that it keeps until it writes them
  double dram_bandwidth = 0;       // bytes a cycle
  double dram_write_cost = 0;      // time of a byte written to memory over one read
  double dram_turn_cost = 0;       // more of it when memory is read and written by turns
  double dram_page_cost = 0;       // bytes that could be read while a page of memory is opened
  double partial_write_cost = 0;   // bytes that could be read while a sector written in part is completed
  double sm_request = 0;           // cycles of an SM for a line that misses L1
  double sm_bandwidth = 0;         // bytes that an SM takes from L2 in a cycle
  double sm_write_bandwidth = 0;   // bytes that an SM writes to L2 in a cycle
  double tensor_clock = 0;         // clock as soon as tensor cores work
  double idle_watts = 0;           // power at full clock without work
  double dynamic_watts = 0;        // power above it that the clock holds with tensor cores
  double plain_watts = 0;          // the same without
  double launch_cycles = 0;        // a kernel of one warp, beside what it executes
  double move_first = 0, move_held = 0, move_fresh = 0;  // managed memory that comes as it is touched: seconds, bytes a second
  double cold_cycles = 0;          // more with cold caches
  double launch_all_sms = 0;       // more for a grid on all SMs
  double launch_sectors = 0;       // of L2 that a launch looks up by itself
  double end_touched = 0;          // from the last access to memory to the end of a kernel: each SM's barrier in L2
  double end_all_sms = 0;          // more where half of the SMs or more end so
  double fetch_jump = 0;           // jump into 2 KiB of code that were not fetched
  double fetch_jump_cold = 0;      // the same with cold caches
  double fetch_line = 0, fetch_line_cold = 0;            // from a line of code to the next: warm, cold
  double fetch_far = 0, fetch_far_cold = 0;              // ... of code further into the kernel than a launch brings near
  double fetch_line_again = 0, fetch_line_together = 0;  // ... of code larger than an SM holds; when half of the SMs or more fetch theirs
  double first_load_cold = 0;      // more for an SM's first load with cold caches: address translation
  double first_load_all_sms = 0;   // more where all SMs load: the slowest of them
  double block_interval = 0;       // from block to block, whole chip
  double block_start = 0;          // from the end of a block to the start of the next in its place
  double tma_bandwidth = 0;        // bytes that the copy engine of an SM moves in a cycle
  double tma_latency = 0;          // what a tensor copy takes longer than a bulk copy
  double tma_store_bandwidth = 0;  // bytes that the copy engine of an SM stores in a cycle
  double tma_store_latency = 0;    // from a bulk store to its end, beside its bytes
  double tma_peer_bandwidth = 0;   // bytes of bulk copies to another SM's shared memory in a cycle
  double tma_peer_latency = 0;     // of such a copy, beside its bytes
  double dsmem_latency = 0;        // load from shared memory of another block
  double dsmem_bandwidth =
      0;  // bytes that an SM loads from shared memory of other blocks in a cycle, 16 a lane
  double dsmem_far_latency = 0, dsmem_far_bandwidth = 0;  // the same in clusters of more than two blocks
  double fence_gpu = 0, fence_system = 0;  // barriers of memory, nothing under way
  double fence_stored = 0;                 // more where L2 was touched since the last
  double barrier_sectors = 0;              // of L2, of a barrier of memory that goes to every slice
  double barrier_touched = 0;              // 1: they go to what the SM has touched only, and one ends the kernel on each SM
  double atomic_one_line = 0;   // integer operation of one lane on the line of the last one, in a slice
  double atomic_interval = 0;   // a lane's atomic operation in a slice
  double atomic_same_line = 0;  // floating-point operation on the line of the last one, in a slice
  /// The same seen from SMs that run at `now` instead of the highest clock: L2 and memory keep theirs.
  ChipFigures at_clock(double now) const;
  std::string borrowed_from;  // the GPU whose figures they are, when the profile has none of its own
};

/// The figures of a GPU. Those that its profile neither gives nor inherits are the H200's. What was measured on another GPU
/// is scaled by SMs, L2 and power.
ChipFigures figures_of(const Profile& profile);

}  // namespace orrery::timing
