// exec/observer.h: what an observer (check, time) learns of a run: typed events, none of which can change a result.
//
// A kernel is observed when it was made so (make_kernel's `observe`): its memory and synchronising instructions then
// have handlers that report and go on to the ordinary ones. A kernel made without pays nothing. Rare operations
// (barriers, mbarriers, asynchronous copies) report from inside their handlers when Machine::observer is set.
//
//   who      Where: the lanes of a warp at an instruction
//   memory   access (before it happens), async_copy (at issue), heap_*
//   order    warp_arrive/warp_sync, barrier_*, cluster_*, mbarrier, instruction (fences, groups, wgmma.fence, ...)
//   life     launch_*, block_*, exit
//   host     Host* events: allocations, copies, fills, streams: reported by device/ and by DeviceMemory
//
// Invariant: events of one block come in the order in which things happened. Events of different launches may come from
// different threads: an observer locks. An observer that wants one order of all events of a launch says so (`serial`),
// and the launch runs on one worker.
// Not here: what is wrong (sanitize/).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "exec/launch.h"
#include "exec/warp.h"
#include "isa/form.h"

namespace orrery::exec {

struct DecodedProgram;
struct RunState;
struct CallFrame;
struct ClusterContext;
struct WaitGraph;

/// Which events an observer wants of a kernel's instructions: bits of make_kernel's `observe`.
constexpr unsigned kObserveMemory = 1;   // access
constexpr unsigned kObserveSync = 2;     // warp_arrive, instruction
constexpr unsigned kObserveValues = 4;   // computed

/// Fills the mapped bytes around an allocation when wants() is 0.
constexpr unsigned char kFenceByte = 0xCB;

/// The lanes `mask` of a warp at an instruction.
struct Where {
  const RunState* run = nullptr;
  const WarpContext* warp = nullptr;
  const DecodedProgram* code = nullptr;  // the kernel, or the function that it has called
  const CallFrame* call = nullptr;       // null: in the kernel itself
  uint32_t pc = 0;
  uint32_t mask = 0;
};

enum class AccessKind : uint8_t { load, store, atomic, reduction };  // reduction: an atomic without result
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel, sc };
enum class Scope : uint8_t { none, cta, cluster, gpu, sys };

/// An access to memory by a warp, before it is carried out.
struct Access {
  Where where;
  AccessKind kind = AccessKind::load;
  Order order = Order::weak;
  Scope scope = Scope::none;
  bool volatile_ = false;
  bool proxy_read_only = false;         // ld.global.nc, textures
  isa::Space space = isa::Space::none;  // none: generic; param of calls is local
  uint32_t bytes = 0;                   // per lane
  uint32_t align = 1;                   // that the access needs
  uint64_t address[kWarpSize];          // of active lanes, in `space`
  uint64_t value[kWarpSize];            // store, atomic: first operand's low 8 bytes, of active lanes
  bool has_value = false;
};

enum class MbarrierOp : uint8_t { init, inval, expect_tx, complete_tx, arrive, arrive_drop, test };

/// An operation of one lane on an mbarrier, after it happened.
struct MbarrierEvent {
  Where where;
  int lane = 0;
  MbarrierOp op = MbarrierOp::init;
  const uint64_t* word = nullptr;   // its place in shared memory
  uint64_t before = 0, after = 0;   // the word (exec/mbarrier.h reads it)
  uint64_t count = 0;               // arrivals, or bytes
  uint32_t phase = 0;               // test: the phase asked for
  bool passed = false;              // test
  bool refused = false;             // the operation is a fault
  bool by_copy = false;             // complete_tx of an asynchronous copy that this lane issued
};

enum class AsyncKind : uint8_t { cp_async, bulk, tensor, st_async, red_async, wgmma };

/// Bytes in host addresses: shared memory of a block of the cluster, or global memory.
struct ByteRange {
  const std::byte* begin = nullptr;
  uint64_t bytes = 0;
  bool shared = false;
};

/// An asynchronous operation at its issue. (Its effects are carried out at once; the rules allow them until the wait.)
struct AsyncEvent {
  Where where;
  int lane = 0;
  AsyncKind kind = AsyncKind::cp_async;
  bool reduces = false;                  // adds to its destination
  std::span<const ByteRange> reads, writes;
  const uint64_t* mbarrier = nullptr;    // told when it is complete; null: a group of the thread waits for it
  uint64_t tx_bytes = 0;                 // a bulk copy: the bytes that the instruction asks for
  const std::byte* tensor_map = nullptr;
};

/// Whether the low bits of `v` are a NaN or an infinity of `type` (packed types: either half).
constexpr bool is_special(isa::Type type, uint64_t v) {
  switch (type) {
    case isa::Type::f64: return (v >> 52 & 0x7FF) == 0x7FF;
    case isa::Type::f32: return (v >> 23 & 0xFF) == 0xFF;
    case isa::Type::f16: return (v >> 10 & 0x1F) == 0x1F;
    case isa::Type::bf16: return (v >> 7 & 0xFF) == 0xFF;
    case isa::Type::f16x2: return (v >> 10 & 0x1F) == 0x1F || (v >> 26 & 0x1F) == 0x1F;
    case isa::Type::bf16x2: return (v >> 7 & 0xFF) == 0xFF || (v >> 23 & 0xFF) == 0xFF;
    default: return false;
  }
}

// ---- what the host does ----

enum class HostOp : uint8_t { launch, copy, fill, host_function, event_record, event_wait, allocate, free_, other };

/// An operation put into a stream (`submitted`), or about to be carried out (`performing`), in this order for each id.
struct HostWork {
  uint64_t id = 0;                       // counts up
  HostOp op = HostOp::other;
  uint64_t stream = 0, context = 0;
  bool legacy = false, blocking = true;  // the legacy default stream; a stream ordered with it
  bool waits = false;                    // the host waits for the operation's end
  uint64_t event = 0;                    // event_record, event_wait: which
  uint64_t destination = 0, source = 0;  // copy, fill, allocate, free_: addresses; 0: none
  uint64_t destination_pitch = 0, destination_slice = 0, source_pitch = 0, source_slice = 0;
  uint64_t width = 0, height = 1, depth = 1;  // bytes, rows, slices
  bool source_staged = false;            // pageable source that was copied when submitted
};

/// What the host waited for.
enum class HostWait : uint8_t { stream, event, context };

struct Observer {
  virtual ~Observer() = default;
  /// Bits kObserve*: what kernels must report.
  virtual unsigned wants() const { return kObserveMemory | kObserveSync; }
  /// One worker per launch, so that all events of it come in one order.
  virtual bool serial() const { return true; }

  virtual void launch_begin(const RunState&) {}
  virtual void launch_end(const RunState&, const LaunchResult&) {}
  virtual void block_begin(const CtaContext&) {}
  virtual void block_end(const CtaContext&) {}
  /// The lanes in where.mask end.
  virtual void exit(const Where&) {}

  virtual void access(const Access&) {}
  virtual void async_copy(const AsyncEvent&) {}
  /// Device-side malloc and free by one lane.
  virtual void heap_allocate(const Where&, int lane, uint64_t address, uint64_t bytes) {}
  virtual void heap_free(const Where&, int lane, uint64_t address) {}

  /// Lanes come to an instruction that names member lanes (`members[lane]`); it may have to wait and come again.
  virtual void warp_arrive(const Where&, const uint32_t* members) {}
  /// The lanes in where.mask, and no others of `members`, execute it together.
  virtual void warp_sync(const Where&, uint32_t members) {}
  /// `expected` threads: 0 means all of the block. Not `waits`: bar.arrive.
  virtual void barrier_arrive(const Where&, uint32_t number, uint32_t expected, bool waits) {}
  virtual void barrier_complete(const CtaContext&, uint32_t number) {}
  virtual void cluster_arrive(const Where&, bool relaxed) {}
  virtual void cluster_wait(const Where&) {}
  virtual void cluster_complete(const ClusterContext&) {}
  virtual void mbarrier(const MbarrierEvent&) {}
  /// When it has been executed: fence, membar, commit and wait of groups, wgmma.fence, griddepcontrol, setmaxnreg.
  virtual void instruction(const Where&) {}
  /// Before another instruction than wgmma that names registers which a wgmma of the kernel uses.
  virtual void registers(const Where&) {}
  /// After a computation whose results are floating point; only with kObserveValues. `special`: lanes with a NaN or Inf
  /// among their inputs.
  virtual void computed(const Where&, uint32_t special) {}
  /// No warp of a block can go on; the launch ends with Fault hang after this. `text` says who waits where.
  virtual void hang(const RunState&, const WaitGraph&, const std::string& text) {}

  virtual void allocated(const Allocation&) {}
  virtual void released(const Allocation&) {}
  virtual void submitted(const HostWork&) {}
  virtual void performing(const HostWork&) {}
  virtual void performed(const HostWork&) {}
  virtual void host_waited(HostWait, uint64_t what) {}
  /// The variable at `address` of a loaded module.
  virtual void named(uint64_t address, const std::string& name, bool constant) {}
  /// An API call returned an error code that is not success; `address` is the pointer it was about, 0 when none.
  virtual void api_error(const char* call, int code, const char* name, uint64_t address) {}
  virtual void process_end() {}
};

}  // namespace orrery::exec
