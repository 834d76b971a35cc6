// exec/launch.h: running a grid of thread blocks.
//
// execute() runs one kernel launch to its end (or first fault) on the calling thread and a pool of workers. Blocks
// start in order of their number. A worker runs the warps of a block until they finish or all wait; when a block can
// only wait for others (spinning on memory, grid barriers), the worker starts further blocks up to the residency that
// the GPU profile allows, so that blocks which could run together on the GPU make progress together here.
//
// Determinism: without `options.parallel_atomics`, a kernel whose result could depend on the order of blocks (it has
// atomics with a used result, float reductions, volatile or acquire loads) runs its blocks on one worker, round
// robin; all other kernels use all workers. `options.seed` shuffles the order of warps and blocks reproducibly.
//
// Observers (check, time) get events and can never change a value.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/memory.h"
#include "exec/native.h"
#include "exec/warp.h"
#include "lower/program.h"

namespace orrery::exec {

/// Why a launch stopped. The API maps these to error codes.
enum class FaultKind : uint8_t {
  none, illegal_address, misaligned_address, illegal_instruction, stack_overflow, trap, assertion, hang, timeout,
  interrupted, unsupported, invalid_pc, heap_exhausted, hardware_stack
};

/// The first thing that went wrong in a launch.
struct Fault {
  FaultKind kind = FaultKind::none;
  std::string message;       // one paragraph: what, where, what to do
  std::string kernel;
  uint32_t inst = 0;         // instruction index in `function`
  std::string function;
  ptx::Loc loc;
  std::string source_file;   // with loc.source_line, when known
  uint32_t ctaid[3] = {0, 0, 0}, tid[3] = {0, 0, 0};
  uint32_t warp = 0;
  bool thread_known = true;  // false: only the warp is known (a page fault in compiled code)
  uint64_t address = 0;
  std::shared_ptr<const struct WaitGraph> waits;  // hang: who waits for whom (exec/wait_graph.h)
};

struct TextureObject;  // exec/texture.h
class Heap;            // exec/heap.h
class DeviceServices;  // exec/device_services.h

/// Tensor-core and other facts of the simulated GPU that execution depends on.
struct GpuFacts {
  std::string name = "h200";
  int compute_capability = 90;         // 10 * major + minor
  uint32_t sm_count = 132, max_threads_per_sm = 2048, max_blocks_per_sm = 32, max_warps_per_sm = 64, registers_per_sm = 65536;
  uint32_t shared_per_sm = 233472, reserved_shared = 1024, max_shared_optin = 232448;
  uint32_t clock_khz = 1980000;
};

struct Options {
  unsigned threads = 0;                // workers; 0: one per core
  std::optional<uint64_t> seed;        // explore another interleaving
  double timeout_seconds = 0;          // 0: none; per launch
  double livelock_seconds = 10;        // threads that only spin, with no change of memory, for so long: a hang; 0: never
  bool parallel_atomics = false;
  bool interpret_only = false;
  bool fast_numerics = false;
};

struct Observer;                       // exec/observer.h

/// A program ready to run: resolved code, decoded form, and compiled code when there is some.
class Kernel;
/// Decodes a lowered kernel and the functions it can call. Throws base::Error that names the first instruction that
/// this machine cannot execute, with its PTX line. `addresses` are the function pointers that lowering was given.
/// `observe` (bits kObserve* of exec/observer.h): which instructions report to Machine::observer.
std::shared_ptr<const Kernel> make_kernel(const lower::KernelPrograms& programs, const lower::Addresses& addresses, unsigned observe = 0);
const lower::Program& program_of(const Kernel& kernel);

/// The forms in a kernel and the functions it can call that would stop it, by their dotted names.
std::set<std::string> unsupported_forms(const Kernel& kernel);

/// Source of compiled code; called once per launch, must return quickly (null: interpret for now).
class CodeProvider {
 public:
  virtual ~CodeProvider() = default;
  virtual std::shared_ptr<const NativeCode> code_for(const lower::Program& program, Dim3 block) = 0;
  /// The same code with entries at the headers of its loops, for warps that the interpreter began and is still running.
  virtual std::shared_ptr<const NativeCode> resumable_code_for(const lower::Program&, Dim3) { return nullptr; }
  /// The same as code_for, but waits until it is there; null: it cannot be made.
  virtual std::shared_ptr<const NativeCode> wait_for_code(const lower::Program& program, Dim3 block) { return code_for(program, block); }
  /// Waits until what code_for has asked to be compiled is done.
  virtual void finish() {}
  /// The process ends: nobody waits for what is being compiled.
  virtual void abandon() {}
};

/// What a grid needs from the device around it.
struct Machine {
  DeviceMemory* memory = nullptr;
  GpuFacts gpu;
  Options options;
  CodeProvider* code = nullptr;                       // null: interpret
  Observer* observer = nullptr;
  std::function<void(std::string_view)> print;        // device printf text, one call per thread; must be thread-safe
  std::function<void(std::string_view)> print_error;  // device assert text
  std::function<const TextureObject*(uint64_t)> texture;  // texture or surface object by handle
  DeviceServices* services = nullptr;                 // functions that kernels call by name; null: none
  uint64_t heap_bytes = 8 << 20;                      // device malloc
  std::shared_ptr<Heap> heap;                         // made at the first launch; keep it from launch to launch
  uint64_t stack_bytes = 1024;                        // per thread, for calls
  std::atomic<uint32_t>* interrupt = nullptr;         // nonzero: stop all launches
};

struct Launch {
  std::shared_ptr<const Kernel> kernel;
  Dim3 grid, block, cluster;
  bool in_clusters = false;                           // clusters were asked for, if only of one block
  uint32_t dynamic_shared = 0;
  uint32_t registers = 0;                             // of a thread, by the machine code that the program holds for this GPU; 0: it holds none
  std::vector<std::byte> params;                      // laid out as Program::params says
  bool cooperative = false;
  uint64_t grid_id = 0;
  uint64_t graph = 0;                                 // %current_graph_exec: the executable graph that the launch belongs to
  uint64_t workspace = 0;                             // cooperative: 8 zeroed bytes for grid barriers (%envreg1 high, %envreg2 low)
};

/// Counts of one launch, for the fidelity line and reports.
struct LaunchResult {
  std::optional<Fault> fault;
  uint64_t warp_instructions = 0;
  uint64_t native_blocks = 0, interpreted_blocks = 0;
  double seconds = 0;
};

/// Runs the grid. Never throws for what a kernel does; throws base::Error for a launch the caller should have refused.
LaunchResult execute(Machine& machine, const Launch& launch);

/// Blocks that an SM holds at once (profile/occupancy.h), of so many bytes of shared memory each, static and dynamic.
uint32_t blocks_per_sm(const GpuFacts& gpu, uint32_t threads, uint32_t registers, uint32_t shared_bytes);

}  // namespace orrery::exec
