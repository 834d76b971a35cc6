// jit/plan.h: what is decided about a kernel before code is generated.
//
// A kernel is compiled as regions: functions that run a warp from an entry to the next instruction that exec/ must
// execute (a service: barriers, calls, waits, traps). Entries are the kernel's start, the instruction after each
// service, headers of loops that may spin, and the points where lanes meet again after a service that only some of
// them reach.
//
//   region = code reachable from its entry, each path cut at its first service
//
// Invariant: Plan is read-only while regions are emitted; the program outlives it.
// Not here: code (emitter.h), how lanes vary (lower/uniformity.h).
#pragma once
#include <cstdint>
#include <vector>

#include "lower/program.h"
#include "lower/uniformity.h"

namespace orrery::jit {

struct Plan {
  Plan(const lower::Program& program, lower::BlockSize block);

  const lower::Program& program;
  lower::Uniformity uniformity;
  std::vector<uint8_t> service;        // by instruction: exec/ executes it
  std::vector<uint32_t> entries;       // instruction of each region's start
  std::vector<int32_t> entry_of;       // instruction -> region, -1
  std::vector<uint8_t> spin_entry;     // by instruction: entry at a loop header that counts down the budget
  std::vector<uint8_t> all_lanes;      // by region: every warp starts it with 32 live lanes
  std::vector<uint8_t> lazy_nan;       // by register: f32 whose NaN may have any payload until it is looked at
  std::vector<uint32_t> definitions;   // by register: instructions that write it

  /// Registers live before instruction `i`, ascending.
  std::vector<uint32_t> live_before(uint32_t i) const;

 private:
  void find_services();
  void find_entries();
  void find_full_regions();
  void find_lazy_nans();
};

/// True when exec/ must execute the instruction: it may block, jump to another function, end the launch.
bool is_service(const ptx::Instr& instr);
/// True when the f32 instruction makes NaNs by host arithmetic (and so with the host's payload).
bool makes_nan(const ptx::Instr& instr);

}  // namespace orrery::jit
