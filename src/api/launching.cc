// Launches, function attributes and libraries of both APIs; see launching.h.
#include "api/launching.h"

#include <algorithm>

namespace orrery::api {
namespace {

// Kernels handed out per library, so that the same name gives the same handle.
std::mutex library_mutex;
std::map<const Program*, std::map<std::string, std::shared_ptr<Kernel>>>& library_table() {
  static auto* const all = new std::map<const Program*, std::map<std::string, std::shared_ptr<Kernel>>>;
  return *all;
}

Kernel* kernel_in(const std::shared_ptr<Program>& program, const std::string& name) {
  std::lock_guard lock(library_mutex);
  auto& kernel = library_table()[program.get()][name];
  if (!kernel) {
    kernel = std::make_shared<Kernel>();
    kernel->program = program;
    kernel->name = name;
    handles<Kernel>().add(kernel);
  }
  return kernel.get();
}

/// Parameter buffer and size out of the `extra` list of a launch.
void read_extra(device::LaunchRequest& request, void** extra) {
  for (; *extra; extra += 2) {
    uintptr_t key = reinterpret_cast<uintptr_t>(*extra);
    require(key == 1 || (key == 2 && extra[1]), Status::invalid_value);
    if (key == 1) request.packed = extra[1];
    else request.packed_size = *static_cast<const size_t*>(extra[1]);
  }
}

}  // namespace

device::LaunchRequest launch_request(const void* handle, exec::Dim3 grid, exec::Dim3 block, uint64_t shared, void** arguments, void** extra) {
  require(!(arguments && extra), Status::invalid_value);
  device::LaunchRequest request;
  request.handle = handle;
  request.grid = grid;
  request.block = block;
  request.dynamic_shared = shared;
  request.arguments = arguments;
  if (extra) read_extra(request, extra);
  return request;
}

void LaunchEvents::record(Context& context, const std::shared_ptr<device::Stream>& stream) const {
  for (auto& event : events) context.submit(stream, device::EventRecordWork{event});
}

LaunchEvents apply_attributes(device::LaunchRequest& request, const abi::cudaLaunchAttribute* attributes, unsigned count) {
  LaunchEvents events;
  for (unsigned i = 0; i < count; i++) {
    const abi::cudaLaunchAttributeValue& value = attributes[i].val;
    switch (attributes[i].id) {
      case abi::kAttrCooperative: request.cooperative = value.cooperative != 0; break;
      case abi::kAttrClusterDimension:
        require(value.clusterDim.x && value.clusterDim.y && value.clusterDim.z, Status::invalid_cluster_size);
        request.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        break;
      case abi::kAttrProgrammaticSerialization: request.programmatic = value.programmaticStreamSerializationAllowed != 0; break;
      case abi::kAttrProgrammaticEvent: events.events.push_back(handles<device::Event>().get(value.programmaticEvent.event)); break;
      case abi::kAttrLaunchCompletionEvent: events.events.push_back(handles<device::Event>().get(value.launchCompletionEvent.event)); break;
      case abi::kAttrPriority: request.priority = value.priority; break;
      case abi::kAttrDeviceUpdatable: throw Failure(Status::not_supported, "graph kernel nodes that kernels update are not supported");
      default: require(attributes[i].id >= 0 && attributes[i].id <= 16, Status::invalid_value);  // hints
    }
  }
  return events;
}

void launch(Context& context, const void* stream, const void* function, device::LaunchRequest& request) {
  auto target = stream_of(context, stream);
  request.function = function_of(target->context(), function);
  request.handle = function;
  try {
    target->context().submit(target, device::make_launch(target->context(), request));
  } catch (const Failure& failure) {
    if (exec::Observer* o = device::system().observer())
      o->api_error("launch", int(failure.status()), *failure.what() ? failure.what() : request.function->name().c_str(), 0);
    throw;
  }
}

abi::cudaFuncAttributes attributes_of(device::Function& function) {
  const device::FunctionFacts facts = function.facts();
  abi::cudaFuncAttributes out{};
  out.sharedSizeBytes = facts.static_shared;
  out.constSizeBytes = facts.constant_bytes;
  out.localSizeBytes = facts.local_bytes;
  out.maxThreadsPerBlock = int(facts.max_threads);
  out.numRegs = int(facts.registers);
  out.ptxVersion = out.binaryVersion = facts.binary_version;
  out.maxDynamicSharedSizeBytes = int(function.dynamic_shared_limit(facts.static_shared));
  out.preferredShmemCarveout = function.carveout;
  out.requiredClusterWidth = int(facts.required_cluster[0]);
  out.requiredClusterHeight = int(facts.required_cluster[1]);
  out.requiredClusterDepth = int(facts.required_cluster[2]);
  out.clusterSchedulingPolicyPreference = function.scheduling_policy;
  out.nonPortableClusterSizeAllowed = function.non_portable_cluster;
  return out;
}

void set_function_attribute(Context& context, device::Function& function, int attribute, int value) {
  switch (attribute) {
    case 8: {
      device::FunctionFacts facts = function.facts();
      require(value >= 0 && uint64_t(value) + facts.static_shared <= context.device().gpu().max_shared_optin, Status::invalid_value);
      function.max_dynamic_shared = uint32_t(value);
      break;
    }
    case 9:
      require(value >= -1 && value <= 100, Status::invalid_value);
      function.carveout = value;
      break;
    case 11: function.cluster_width = value; break;
    case 12: function.cluster_height = value; break;
    case 13: function.cluster_depth = value; break;
    case 14: function.non_portable_cluster = value != 0; break;
    case 15: function.scheduling_policy = value; break;
    default: throw Failure(Status::invalid_value);
  }
}

size_t available_dynamic_shared(Context& context, device::Function& function, int blocks, int threads) {
  require(blocks > 0 && threads > 0, Status::invalid_value);
  const exec::GpuFacts& gpu = context.device().gpu();
  uint64_t share = gpu.shared_per_sm / unsigned(blocks) / 128 * 128;
  uint64_t taken = gpu.reserved_shared + function.facts().static_shared;
  return share < taken ? 0 : std::min<uint64_t>(share - taken, gpu.max_shared_optin - function.facts().static_shared);
}

int active_clusters(Context& context, device::Function& function, unsigned threads, size_t shared, unsigned cluster) {
  const Profile& profile = context.device().profile();
  if (cluster > 1 && cluster > uint64_t(function.non_portable_cluster ? profile.cluster_max() : profile.cluster_portable_max())) return 0;
  uint32_t per_sm = device::blocks_per_sm(context, function, threads, shared);
  return int(clusters_at_once(profile, std::max(1u, cluster), per_sm));
}

int max_cluster_size(Context& context, device::Function& function, unsigned threads, size_t shared) {
  const Profile& profile = context.device().profile();
  if (!profile.cluster_supported()) return 1;
  int most = int(function.non_portable_cluster ? profile.cluster_max() : profile.cluster_portable_max());
  while (most > 1 && active_clusters(context, function, threads, shared, unsigned(most)) == 0) most /= 2;
  return most;
}

Program* load_library(Context& context, device::Image image) {
  auto shared = std::make_shared<device::Image>(std::move(image));
  auto program = std::make_shared<Program>([shared] { return *shared; });
  program->module(context);
  return handles<Program>().add(program);
}

void unload_library(const void* library) {
  auto program = handles<Program>().take(library);
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  {
    std::lock_guard lock(library_mutex);
    kernels.swap(library_table()[program.get()]);
    library_table().erase(program.get());
  }
  for (auto& [name, kernel] : kernels) handles<Kernel>().take(kernel.get());
  program->unload();
}

Kernel* library_kernel(Context& context, const void* library, const char* name) {
  auto program = handles<Program>().get(library);
  require(program->module(context)->function(name) != nullptr, Status::not_found);
  return kernel_in(program, name);
}

void library_variable(Context& context, const void* library, const char* name, void** address, size_t* bytes) {
  auto program = handles<Program>().get(library);
  const device::Variable* found = program->module(context)->variable(name);
  require(found != nullptr, Status::not_found);
  if (address) *address = reinterpret_cast<void*>(found->address);
  if (bytes) *bytes = found->size;
}

std::vector<Kernel*> library_kernels(Context& context, const void* library) {
  auto program = handles<Program>().get(library);
  std::vector<Kernel*> all;
  for (auto& function : program->module(context)->functions()) all.push_back(kernel_in(program, function->name()));
  return all;
}

}  // namespace orrery::api
