// Launch checks and execution; see launch.h.
#include "device/launch.h"

#include <cstring>
#include <iterator>
#include <optional>

#include "device/device.h"
#include "device/grid.h"
#include "profile/occupancy.h"

namespace orrery::device {
namespace {

void check_shape(const Profile& profile, const LaunchRequest& request) {
  const exec::Dim3 &grid = request.grid, &block = request.block;
  bool fits = grid.count() > 0 && block.count() > 0 && grid.x <= uint64_t(profile.max_grid_x()) && grid.y <= uint64_t(profile.max_grid_y()) &&
              grid.z <= uint64_t(profile.max_grid_z()) && block.x <= uint64_t(profile.max_block_x()) &&
              block.y <= uint64_t(profile.max_block_y()) && block.z <= uint64_t(profile.max_block_z()) &&
              block.count() <= uint64_t(profile.max_threads_per_block());
  if (!fits)
    throw Failure(Status::invalid_configuration, fmt::format("launch of {}: grid ({}, {}, {}) x block ({}, {}, {}) is beyond the limits of the GPU",
                                                             request.function->name(), grid.x, grid.y, grid.z, block.x, block.y, block.z));
}

void check_function(Function& function, const LaunchRequest& request) {
  const ptx::Directives& directives = function.source().directives;
  FunctionFacts facts = function.facts();
  if (request.block.count() > facts.max_threads)
    throw Failure(Status::invalid_value, fmt::format("launch of {}: {} threads per block, its launch bounds allow {}", function.name(),
                                                     request.block.count(), facts.max_threads));
  const uint32_t* required = directives.reqntid;
  if (required[0])
    require(request.block.x == required[0] && request.block.y == std::max(1u, required[1]) && request.block.z == std::max(1u, required[2]),
            Status::invalid_value);
  const uint64_t limit = function.dynamic_shared_limit(uint32_t(facts.static_shared));
  if (request.dynamic_shared > limit)
    throw Failure(Status::invalid_value,
                  fmt::format("launch of {}: {} bytes of dynamic shared memory where {} are allowed (cudaFuncSetAttribute with "
                              "cudaFuncAttributeMaxDynamicSharedMemorySize raises the limit)",
                              function.name(), request.dynamic_shared, limit));
}

/// A block that does not fit into the registers of an SM. What the compiler made of the kernel decides; where that is not
/// known, an observer is told of what cannot fit by far.
void check_registers(const Device& device, Function& function, const LaunchRequest& request) {
  const uint64_t threads = request.block.count(), limit = uint64_t(device.profile().registers_per_block());
  if (registers_of_block(threads, 255) <= limit) return;
  const FunctionFacts facts = function.facts();
  exec::Observer* observer = system().observer();
  // ptxas keeps to the launch bounds, and takes its time: it is asked where the answer may matter, under check.
  const ptx::Directives& directives = function.source().directives;
  const bool bounded = directives.maxntid[0] || directives.reqntid[0] || directives.maxnreg;
  const bool ask = !facts.registers_known && observer && !bounded && registers_of_block(threads, std::min(255u, 2 * facts.live_words)) > limit;
  const std::optional<uint32_t> known = facts.registers_known ? std::optional(facts.registers) : ask ? function.ask_registers() : std::nullopt;
  const std::string what = fmt::format("launch of {}: {} threads per block of {} registers each, the GPU has {} for a block", function.name(), threads,
                                       known ? fmt::format("{}", *known) : fmt::format("about {} (an estimate)", facts.live_words), limit);
  if (known && registers_of_block(threads, *known) > limit)
    throw Failure(Status::launch_out_of_resources, what + " (__launch_bounds__ tells the compiler how many threads there will be)");
  if (ask && !known && registers_of_block(threads, facts.live_words / 2) > limit) observer->api_error("estimate", int(Status::launch_out_of_resources), what.c_str(), 0);
}

/// The shape of the clusters, as the launch or the kernel says. (An H200's driver gives one error for whatever is wrong.)
exec::Dim3 cluster_of(const Device& device, Function& function, const LaunchRequest& request) {
  const auto& facts = function.source().directives;
  const exec::Dim3 required{facts.reqnctapercluster[0], std::max(1u, facts.reqnctapercluster[1]), std::max(1u, facts.reqnctapercluster[2])};
  exec::Dim3 cluster = request.cluster;
  if (cluster.x == 0 && required.x) cluster = required;
  if (cluster.x == 0) return {1, 1, 1};
  const auto require_that = [](bool good) { require(good, Status::invalid_cluster_size); };
  const Profile& profile = device.profile();
  require_that(profile.cluster_supported() || cluster.count() == 1);
  require_that(!required.x || cluster == required);
  require_that(!facts.maxclusterrank || cluster.count() <= facts.maxclusterrank);
  require_that(cluster.count() <= uint64_t(function.non_portable_cluster ? profile.cluster_max() : profile.cluster_portable_max()) || cluster.count() == 1);
  require_that(request.grid.x % cluster.x == 0 && request.grid.y % cluster.y == 0 && request.grid.z % cluster.z == 0);
  return cluster;
}

std::vector<std::byte> pack(const Function& function, const LaunchRequest& request) {
  std::vector<std::byte> buffer(function.param_bytes());
  if (request.packed) {
    std::memcpy(buffer.data(), request.packed, std::min<uint64_t>(buffer.size(), request.packed_size));
    return buffer;
  }
  const auto& parameters = function.parameters();
  require(request.arguments || parameters.empty(), Status::invalid_value);
  for (size_t i = 0; i < parameters.size(); i++) {
    require(request.arguments[i] != nullptr, Status::invalid_value);
    std::memcpy(buffer.data() + parameters[i].offset, request.arguments[i], parameters[i].size);
  }
  return buffer;
}

Status status_of(exec::FaultKind kind) {
  switch (kind) {
    case exec::FaultKind::illegal_address: return Status::illegal_address;
    case exec::FaultKind::misaligned_address: return Status::misaligned_address;
    case exec::FaultKind::illegal_instruction: return Status::illegal_instruction;
    case exec::FaultKind::hardware_stack: return Status::hardware_stack;
    case exec::FaultKind::assertion: return Status::assertion;
    case exec::FaultKind::hang:
    case exec::FaultKind::timeout: return Status::launch_timeout;
    case exec::FaultKind::unsupported: return Status::not_supported;
    case exec::FaultKind::invalid_pc: return Status::invalid_pc;
    default: return Status::launch_failure;
  }
}

// Memory for the barrier of a cooperative grid, for as long as the launch runs.
class Workspace {
 public:
  Workspace(Context& context, bool needed) {
    if (needed) address = system().allocate(context.device(), 512, exec::MemoryKind::module);
  }
  ~Workspace() {
    if (address) system().memory().release(address);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  uint64_t address = 0;
};

std::string describe(const exec::Fault& fault) {
  std::string text = fault.message;
  if (fault.kind == exec::FaultKind::hang && system().observer())  // whose report has the rest
    return fmt::format("orrery: {}; who waits for whom is in the report", text.substr(0, text.find('\n')));
  if (text.find("kernel") == std::string::npos)
    text += fmt::format("\n  kernel {}, block ({}, {}, {}), thread ({}, {}, {})", fault.kernel, fault.ctaid[0], fault.ctaid[1], fault.ctaid[2],
                        fault.tid[0], fault.tid[1], fault.tid[2]);
  if (fault.loc.line && text.find("PTX line") == std::string::npos) text += fmt::format("\n  PTX line {}", fault.loc.line);
  if (fault.loc.source_line && !fault.source_file.empty() && text.find(fault.source_file) == std::string::npos)
    text += fmt::format("\n  source {}:{}", fault.source_file, fault.loc.source_line);
  return fault.kind == exec::FaultKind::assertion ? text : "orrery: " + text;
}

exec::Machine machine_for(Context& context) {
  System& all = system();
  exec::Machine machine;
  machine.memory = &all.memory();
  machine.gpu = context.device().gpu();
  machine.options = all.options();
  machine.code = all.code();
  machine.observer = all.observer();
  machine.print = [&context](std::string_view text) { context.print(text); };
  machine.print_error = [&context](std::string_view text) { context.print_error(text); };
  machine.heap = context.heap;
  machine.texture = [&all](uint64_t handle) -> const exec::TextureObject* {
    const ObjectRecord* record = all.textures().find(handle);
    return record ? &record->object : nullptr;
  };
  machine.heap_bytes = context.limits.heap;
  machine.stack_bytes = context.limits.stack;
  machine.interrupt = &all.interrupt();
  return machine;
}

}  // namespace

LaunchWork make_launch(Context& context, const LaunchRequest& request) {
  require(request.function != nullptr, Status::invalid_device_function);
  Function& function = *request.function;
  check_shape(context.device().profile(), request);
  check_function(function, request);
  check_registers(context.device(), function, request);
  LaunchWork work;
  work.cluster = cluster_of(context.device(), function, request);
  work.in_clusters = request.cluster.x || function.source().directives.reqnctapercluster[0];
  if (request.cooperative) {
    uint64_t resident = uint64_t(blocks_per_sm(context, function, uint32_t(request.block.count()), request.dynamic_shared)) * context.device().gpu().sm_count;
    require(request.grid.count() <= resident, Status::cooperative_too_large);
  }
  work.function = request.function;
  work.grid = request.grid;
  work.block = request.block;
  work.dynamic_shared = uint32_t(request.dynamic_shared);
  work.registers = function.module().registers_of(function.name());
  work.cooperative = request.cooperative;
  work.programmatic = request.programmatic;
  work.priority = request.priority;
  work.params = pack(function, request);
  work.handle = request.handle;
  function.kernel();  // what cannot run is refused at the launch
  return work;
}

namespace {

/// Work still to do in a tree of grids, last first. Nothing: the end of a grid, whose requests stood above; what it left for
/// its tail stands below, so that a chain of grids which each launch the next for their tail may be endless.
using Todo = std::vector<std::optional<Work>>;

/// Is there memory that the host reads without a call?
bool host_reads_memory() {
  const exec::DeviceMemory& memory = system().memory();
  for (int d = 0; d < system().device_count(); d++)
    if (memory.used(exec::MemoryKind::managed, d) || memory.used(exec::MemoryKind::pinned, d)) return true;
  return memory.has_registered();
}

/// Runs one grid and puts what it asked for on `todo`.
void run_grid(Context& context, const LaunchWork& work, GraphRun* graph, bool launched_by_kernel, Todo& todo, bool timed = false) {
  static std::atomic<uint64_t> grid_id{1};
  exec::Machine machine = machine_for(context);
  Grid grid(context, graph, todo.size() + launched_by_kernel);
  machine.services = &grid;
  exec::Launch launch;
  try {
    launch.kernel = work.function->kernel();
    launch.grid = work.grid;
    launch.block = work.block;
    launch.cluster = work.cluster;
    launch.in_clusters = work.in_clusters;
    launch.dynamic_shared = work.dynamic_shared;
    launch.registers = work.registers;
    launch.params = work.params;
    launch.cooperative = work.cooperative;
    launch.grid_id = grid_id++;
    launch.graph = graph ? reinterpret_cast<uint64_t>(graph->graph) : 0;
    Workspace workspace(context, work.cooperative);
    launch.workspace = workspace.address;
    if (timing::LaunchTimer* const timer = timed ? nullptr : system().timer()) {
      Deferred& deferred = system().deferred();
      if (!timer->knows(machine, launch)) deferred.run();
      const timing::Results results = timer->launch(machine, launch, context.device().profile(), work.turn ? *work.turn : timer->turn(work.function->name()));
      if (results == timing::Results::none) return;
      if (results == timing::Results::when_asked && !graph && !launched_by_kernel && !work.cooperative && !host_reads_memory() && deferred.takes(*launch.kernel))
        return deferred.add(context, work);
      deferred.run();
    }
    exec::LaunchResult result = exec::execute(machine, launch);
    if (!context.heap) context.heap = machine.heap;
    system().record().add(work.function->name(), work.function->sums(), machine.options.fast_numerics, result);
    if (result.fault) return context.break_with(status_of(result.fault->kind), describe(*result.fault));
  } catch (const Failure& failure) {
    return context.break_with(failure.status(), std::string("orrery: ") + failure.what());
  } catch (const std::exception& error) {
    return context.break_with(Status::launch_failure, fmt::format("orrery: launch of {}: {}", work.function->name(), error.what()));
  }
  std::vector<Work> tail = grid.take_tail(), requests = grid.take_requests();
  std::move(tail.rbegin(), tail.rend(), std::back_inserter(todo));
  if (requests.empty()) return;
  if (launched_by_kernel) todo.emplace_back();
  std::move(requests.rbegin(), requests.rend(), std::back_inserter(todo));
}

}  // namespace

void run_launch(Context& context, const LaunchWork& work, GraphRun* graph) {
  Todo todo;
  run_grid(context, work, graph, false, todo);
  while (!todo.empty() && context.fault() == Status::success) {
    const std::optional<Work> next = std::move(todo.back());
    todo.pop_back();
    if (!next) continue;
    if (const auto* child = std::get_if<LaunchWork>(&*next)) {
      run_grid(context, *child, graph, true, todo);
    } else {
      perform(context, *next);
    }
  }
}

void run_timed_launch(Context& context, const LaunchWork& work) {
  Todo todo;  // stays empty: kernels that wait launch none
  run_grid(context, work, nullptr, false, todo, true);
}

uint32_t blocks_per_sm(Context& context, Function& function, uint32_t threads, uint64_t dynamic_shared) {
  FunctionFacts facts = function.facts();
  if (threads == 0 || threads > facts.max_threads) return 0;
  uint64_t shared = facts.static_shared + dynamic_shared;
  if (shared > context.device().gpu().max_shared_optin) return 0;
  return exec::blocks_per_sm(context.device().gpu(), threads, facts.registers, uint32_t(shared));
}

}  // namespace orrery::device
