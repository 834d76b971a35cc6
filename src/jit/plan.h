// jit/plan.h: what is decided about a kernel before code is generated.
//
// A kernel is compiled as regions: functions that run a warp from an entry to the next instruction that exec/ must
// execute (a service: barriers, calls, traps) or that has to wait (a test of an mbarrier that fails, for one).
//
//   entry                                        its region ends at
//   main: the start, after a service, a hub      services and other hubs
//         (resumable plans: the header of any loop)
//   side: after a wait, a loop that may spin,    services, hubs and all other entries at the start of a block
//         where lanes meet again after a service
//
// A hub is the header of the loop around a wait: a warp that had to leave compiled code inside it comes back by a side
// entry and is in the loop's own region after the next iteration's start. Regions that end at entries keep the sum of
// all regions proportional to the program. A long tail that several regions come to is a hub, too.
//
// Invariant: Plan is read-only while regions are emitted; the program outlives it.
// Not here: code (emitter.h), how lanes vary (lower/uniformity.h).
#pragma once
#include <cstdint>
#include <vector>

#include "jit/ahead.h"
#include "jit/steps.h"
#include "jit/streams.h"
#include "lower/program.h"
#include "lower/uniformity.h"

namespace orrery::jit {

struct Plan {
  /// `observe`: bits kObserve* of exec/observer.h.
  /// `resumable`: loops are entries, too, for warps that have begun in the interpreter.
  Plan(const lower::Program& program, lower::BlockSize block, unsigned observe = 0, bool resumable = false);

  const lower::Program& program;
  lower::Uniformity uniformity;
  const unsigned observe;
  const bool resumable;
  std::vector<uint8_t> observed;       // by instruction: exec/ executes and reports it, without the warp leaving compiled code
  bool quiet_exchanges = false;        // observed: shuffles and votes of whole warps tell nobody anything (no fences, no strong accesses)
  bool quiet_local = false;            // accesses of local memory that are known to be right tell nobody anything
  std::vector<uint32_t> origins;       // kObserveOutside: lower::find_shared_origins, else empty
  std::vector<uint8_t> service;        // by instruction: exec/ executes it
  std::vector<uint32_t> entries;       // instruction of each region's start
  std::vector<int32_t> entry_of;       // instruction -> region, -1
  std::vector<uint8_t> hub;            // by instruction: the header of a loop with waits (resumable: of any)
  uint32_t tail = lower::kNone;        // block: a hub, too, as many regions come to it and what follows is long
  std::vector<uint8_t> side;           // by region
  std::vector<uint8_t> spin_entry;     // by instruction: entry at a loop header that counts down the budget
  std::vector<uint8_t> all_lanes;      // by region: every warp starts it with 32 live lanes
  std::vector<uint8_t> lazy_nan;       // by register: result of f32 arithmetic (or a copy, also through shfl or an
                                       // integer register) whose NaN may have any payload until it is looked at
  std::vector<uint8_t> computed;       // by register: of thread and block numbers, parameters and constants; nothing loaded
  std::vector<uint8_t> at_home;        // by register: an accumulator of wgmma: it stays in the frame, where exec/ changes it
  std::vector<uint32_t> definitions;   // by register: instructions that write it
  std::vector<uint32_t> uses;          // by register: instructions that read it
  std::vector<Loop> loops;             // outer ones first
  std::vector<Ahead> ahead;            // by instruction: what to fetch for the iterations to come
  Streams streams;                     // what may be stored past the host's caches
  bool independent = true;             // its warps meet nowhere: no barriers, no atomics, nothing asynchronous
  static constexpr int32_t kInFrame = -1, kConstant = -2, kSpecial = -3;
  std::vector<uint8_t> after_barrier;  // by region: it starts right after a barrier of the whole block
  std::vector<uint32_t> copied_at;     // by register: the instruction, the only one to write it, that copies a special register to it
  std::vector<int32_t> kept_at;        // by register: where its bases are kept at such barriers, in bytes behind the
                                       // frame; kInFrame: it is in the frame; kConstant: its base is known;
                                       // kSpecial: it is a copy of a special register of the warp or block

  /// True when the region ends before instruction `i`: a service, or another entry.
  bool ends_before(uint32_t region, uint32_t i) const;
  /// The special register that a register of kind kSpecial is a copy of.
  ptx::Sreg special_of(uint32_t reg) const;
  /// Registers live before instruction `i`, ascending.
  std::vector<uint32_t> live_before(uint32_t i) const;

 private:
  void find_observed();
  void find_services();
  void find_entries();
  void find_hubs();
  void limit_size();
  uint32_t find_tail(const std::vector<uint32_t>& regions_of) const;
  size_t weight_of_regions(std::vector<uint32_t>& regions_of) const;
  void find_full_regions();
  void find_lazy_nans();
  void find_computed();
  void find_kept();
  void find_at_home();
};

/// True when exec/ must execute the instruction: it nearly always blocks, jumps to another function, ends the launch.
bool is_service(const ptx::Instr& instr);
/// True when the instruction may find that it has to wait: compiled code executes it and leaves before it when it has.
bool may_block(const ptx::Instr& instr);
/// True when the f32 instruction makes NaNs by host arithmetic (and so with the host's payload).
bool makes_nan(const ptx::Instr& instr);

}  // namespace orrery::jit
