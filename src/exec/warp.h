// exec/warp.h: the state of a running warp and thread block (CTA), shared by interpreter and compiled code.
//
// A warp's architectural state is its register frame (lower/program.h) and its groups: disjoint sets of lanes, each
// at one instruction. A converged warp has one group. Compiled code may run a warp whose live lanes form one runnable
// group at an instruction where compiled code can start (NativeCode::entry_of); whenever it stops it has written the
// live registers back to the frame and the groups here, so the interpreter can go on from any such point, and the
// other way round. That is what gives every thread forward progress at compiled speed for ordinary code: compiled
// code keeps lanes together, and leaves to the interpreter what needs independent threads.
//
// Layout is ABI for compiled code (jit/ checks the offsets): plain data, no virtual functions.
// Not here: who runs when (exec/scheduler.h), what instructions do (exec/interpreter.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace orrery::exec {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

enum class GroupState : uint8_t {
  ready,
  barrier,     // waits at a CTA barrier
  warp_sync,   // waits for the lanes named in a member mask
  cluster,     // waits at barrier.cluster
  waiting,     // waits for an mbarrier's phase or for its warpgroup: runs the instruction again when woken
};

/// Lanes of a warp that are at the same instruction in the same call frame.
struct Group {
  uint32_t pc = 0;          // instruction index in the current function
  uint32_t mask = 0;
  GroupState state = GroupState::ready;
  uint8_t barrier = 0;      // number of the CTA barrier waited on
  bool reduction = false;   // waits at a barrier reduction, whose result it takes when it runs again
  uint32_t member_mask = 0; // of a warp_sync wait
  struct CallFrame* frame = nullptr;  // null: the kernel itself
  const uint64_t* wait_word = nullptr;  // waiting: the mbarrier; null when somebody else wakes it (a warpgroup's wait)
  uint8_t wait_phase = 0;   // waiting: the phase of the mbarrier that must pass
  bool polled = false;      // was woken to look again: a test that fails now says so to the program
};

constexpr int kMaxGroups = 32;
constexpr int kWarpSize = 32;

struct CtaContext;

struct alignas(64) WarpContext {
  // What starting and ending a warp touches is one cache line.
  std::byte* frame = nullptr;      // register frame of the kernel
  uint64_t instructions = 0;       // warp instructions executed (estimate by blocks in compiled code)
  uint64_t intact_since = ~uint64_t{0} >> 2;  // compiled code: `instructions` when it stopped with all lanes together
  CtaContext* cta = nullptr;
  uint32_t warp_id = 0;            // in the CTA
  uint32_t live = 0;               // lanes that exist and have not exited
  uint32_t lanes = 0;              // lanes that exist
  uint32_t n_groups = 0;
  bool finished = false;
  bool fresh = false;              // it has not run since its block started: groups[0] is all lanes at the first instruction
  int32_t budget = 0;              // of a turn: loops that may wait count it down in both engines and stop (Stop::spin) below zero
  uint32_t at_inst = 0;            // compiled code: instruction of the memory access in flight, for fault reports
  uint32_t stop = 0;               // compiled code: why it gave the warp back, a Stop
  uint64_t at_address = 0;         // compiled code: lane 0's address of that access when lanes are contiguous, else 0
  std::byte* local = nullptr;      // local memory of lane 0
  uint64_t local_stride = 0;       // bytes from one lane's local memory to the next
  uint32_t tid_x[32] = {}, tid_y[32] = {}, tid_z[32] = {};
  Group groups[kMaxGroups];
  bool stalled = false;            // it last stopped in a loop or poll that waits for others
  uint32_t turn = 0;               // random schedule: instructions until another warp runs; 0: no limit
  uint32_t cluster_phase = 0;      // by lane: parity of the cluster barrier's phase at its last arrival
  uint32_t cluster_arrived = 0;    // lanes that have arrived in the cluster barrier's current phase
  uint32_t wgmma_groups = 0;       // wgmma groups that it has committed
  uint32_t parked = 0;             // lanes of groups that cannot run while compiled code runs the others
  bool poll_failed = false;        // its last look at an mbarrier since it was woken found nothing new
};

/// Why compiled code or the interpreter gave a warp back.
enum class Stop : uint32_t {
  done,      // no live lanes
  service,   // one group stands at an instruction that exec/ must execute (barrier, call, ...), groups are written
  diverged,  // several groups: only the interpreter can go on
  spin,      // a loop that may wait for others used up its budget; groups are written
  fault,     // LaunchContext::fault is set
  blocked,   // (interpreter) every group waits
  preempted, // (interpreter, random schedule) its turn is over
  arrived,   // (compiled code) all live lanes are at a barrier of the whole block; its instruction is in the bits above
             // the lowest 8; groups are not written
  entry,     // (compiled code) stands at another entry point
  mixed,     // (compiled code) the warps of a sweep stopped in different ways: WarpContext::stop
};

/// A CTA barrier (bar.sync 0..15). Threads arrive by warp: a warp all of whose live lanes have arrived counts 32,
/// part of a warp counts its lanes, as the hardware counts.
struct Barrier {
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // threads asked for by the arrivals of this phase; 0: all threads of the CTA
  uint32_t phase = 0;     // completed phases
  bool open = false;      // somebody has arrived in this phase
  uint32_t and_ = 1, or_ = 0, count = 0;                  // barrier.red, so far
  uint32_t last_and = 0, last_or = 0, last_count = 0;     // barrier.red of the phase that completed last
};

struct LaunchContext;
struct ClusterContext;

struct CtaContext {
  std::byte* shared = nullptr;     // shared memory; its host address is its generic address
  uint32_t shared_bytes = 0;       // static + dynamic
  uint32_t n_threads = 0, n_warps = 0;
  const std::byte* params = nullptr;  // kernel parameter buffer
  const LaunchContext* launch = nullptr;
  ClusterContext* cluster = nullptr;
  uint32_t cluster_rank = 0;
  uint32_t ctaid[3] = {0, 0, 0};
  uint64_t cta_linear = 0;
  uint32_t smid = 0;
  uint32_t live_threads = 0;
  WarpContext* warps = nullptr;
  WarpContext* running = nullptr;  // compiled code: the warp that it runs
  Barrier barriers[16];
  uint32_t used_barriers = 0;      // bit per barrier that somebody has arrived at since the block started
  uint32_t* partial = nullptr;     // [16][n_warps]: lanes of a warp that arrived while others of it have not
  uint64_t clock = 0;              // simulated cycles of %clock: grows with executed instructions
  const struct NativeCode* native = nullptr;  // compiled code of the kernel, when there is some
};

}  // namespace orrery::exec
