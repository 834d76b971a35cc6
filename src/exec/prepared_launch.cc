// exec/prepared_launch.cc: see prepared_launch.h.
#include "exec/prepared_launch.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "exec/call_stack.h"
#include "exec/heap.h"
#include "exec/unit.h"

namespace orrery::exec {

namespace {

/// The stack of a thread beside the kernel's own frame. The limit is for calls whose depth nobody knows (recursion, pointers);
/// what direct calls need is added where it is more, as the assembler does.
uint64_t stack_of(const Kernel& kernel, uint64_t limit) {
  std::vector<const lower::Program*> functions;
  for (const auto& f : kernel.functions) functions.push_back(f ? f->program.get() : nullptr);
  const uint64_t direct = deepest_calls(*kernel.entry->program, functions);
  return direct > limit ? direct + limit : limit;
}

/// Bytes of local memory of a thread: 32 of them are reached by 32-bit offsets. GPUs have 512 KB.
constexpr uint64_t kMostLocal = uint64_t{32} << 20;

uint32_t local_memory_of(const Kernel& kernel, uint64_t limit) {
  const lower::Program& p = *kernel.entry->program;
  const uint64_t frames = p.local_bytes, bytes = frames + (p.has_calls ? stack_of(kernel, limit) : 0);
  if (bytes > kMostLocal)
    base::fail("kernel {} needs {} bytes of local memory per thread (its own frame {}, calls and stack {}); a GPU has 524288 at most, Orrery {}: "
               "make the arrays of its functions smaller, or cudaLimitStackSize", p.name, bytes, frames, bytes - frames, kMostLocal);
  return uint32_t((bytes + 15) / 16 * 16);
}

/// Two of the first parameters are the same address of device memory.
bool names_memory_twice(const std::vector<std::byte>& params, const DeviceMemory& memory) {
  constexpr size_t kMost = 32;
  uint64_t pointers[kMost];
  size_t n = 0;
  for (size_t at = 0; at + 8 <= params.size() && n < kMost; at += 8) {
    uint64_t v;
    std::memcpy(&v, params.data() + at, 8);
    if (v - memory.base() >= memory.size()) continue;
    if (std::find(pointers, pointers + n, v) != pointers + n) return true;
    pointers[n++] = v;
  }
  return false;
}

}  // namespace

PreparedLaunch::PreparedLaunch(Machine& machine, const Launch& launch) : run(machine, launch) {
  install_fault_handler();
  if (!machine.heap) machine.heap = std::make_shared<Heap>(*machine.memory, machine.heap_bytes);
  const lower::Program& p = *launch.kernel->entry->program;
  if (launch.params.size() < p.param_bytes)
    base::fail("kernel {} takes {} bytes of parameters, the launch has {}", p.name, p.param_bytes, launch.params.size());
  run.thread_local_bytes = local_memory_of(*launch.kernel, machine.stack_bytes);
  context.run = &run;
  context.memory_base = machine.memory->base();
  context.memory_size = machine.memory->size();
  if (!names_memory_twice(launch.params, *machine.memory)) context.streaming_threads = launch.grid.count() * launch.block.count();
  const Dim3 dims[3] = {launch.grid, launch.block, launch.cluster};
  uint32_t* out[3] = {context.grid, context.block, context.cluster};
  for (int i = 0; i < 3; i++) out[i][0] = dims[i].x, out[i][1] = dims[i].y, out[i][2] = dims[i].z;
  run.param_address = machine.memory->acquire_window(std::max<uint64_t>(4096, launch.params.size()));
  if (!launch.params.empty()) std::memcpy(reinterpret_cast<void*>(run.param_address), launch.params.data(), launch.params.size());
}

PreparedLaunch::~PreparedLaunch() { run.machine.memory->release_window(run.param_address); }

KernelCode::KernelCode(const DeviceMemory& memory) : outer_modes_(_mm_getcsr()), outer_(fault_trap()) {
  // The program may flush subnormals, round otherwise or trap: kernels compute as the GPU does.
  constexpr unsigned kDefaultMxcsr = 0x1f80;  // all exceptions masked, to nearest, no flushing
  _mm_setcsr(kDefaultMxcsr);
  FaultTrap& trap = fault_trap();
  trap.base = memory.base();
  trap.size = memory.size();
}

KernelCode::~KernelCode() {
  fault_trap() = outer_;
  _mm_setcsr(outer_modes_);
}

void record_page_fault(RunState& run, const Unit& unit) {
  const FaultTrap& trap = fault_trap();
  const WarpContext& w = trap.late ? *trap.late : unit.current_warp();
  const DecodedProgram& code = *trap.code;
  int lane = trap.lane;
  if (w.at_address && trap.address >= w.at_address) {
    const ptx::Instr& in = code.program->code[w.at_inst];
    const uint64_t bytes = uint64_t(std::max(1, isa::bytes_of(in.form.type()) * in.form.vec));
    lane = int(std::min<uint64_t>(31, (trap.address - w.at_address) / bytes));
  }
  run.record(make_fault(run, w, code, w.at_inst, FaultKind::illegal_address, lane, trap.address,
                        describe_address(*run.machine.memory, trap.address, "access")));
}

}  // namespace orrery::exec
