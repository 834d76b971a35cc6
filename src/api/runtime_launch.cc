// Runtime API: registration of programs, launches, function attributes, occupancy, libraries.
#include <cstring>

#include "api/launching.h"
#include "api/program.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::Function;

namespace {

struct Registered {
  std::shared_ptr<Program> program;
};

struct CallConfiguration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local std::vector<CallConfiguration> call_configurations;

exec::Dim3 to_dim(dim3 d) { return {d.x, d.y, d.z}; }

}  // namespace

extern "C" {

void** orrery___cudaRegisterFatBinary(void* wrapper) {
  auto program = std::make_shared<Program>([wrapper] { return device::read_image(wrapper, device::system().device(0).capability()); });
  return reinterpret_cast<void**>(new Registered{program});
}
void orrery___cudaRegisterFatBinaryEnd(void** handle) {
  auto& program = reinterpret_cast<Registered*>(handle)->program;
  if (program->has_places()) runtime_in([&](Context& context) { program->module(context); });
}
void orrery___cudaOrreryManagedRange(const void* begin, const void* end) { add_managed_range(begin, end); }
void orrery___cudaUnregisterFatBinary(void** handle) {
  auto* registered = reinterpret_cast<Registered*>(handle);
  forget_program(registered->program.get());
}
void orrery___cudaRegisterFunction(void** handle, const void* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  auto kernel = std::make_shared<Kernel>();
  kernel->program = reinterpret_cast<Registered*>(handle)->program;
  kernel->name = name;
  register_function(host, std::move(kernel));
}
void orrery___cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t size, int, int) {
  register_variable(host, reinterpret_cast<Registered*>(handle)->program, {name, size, nullptr});
}
void orrery___cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t size, int, int) {
  register_variable(host, reinterpret_cast<Registered*>(handle)->program, {name, size, host});
}
void orrery___cudaRegisterHostVar(void**, const char*, char*, size_t) {}
// The address of a managed variable is asked for before anything else happens to its module.
char orrery___cudaInitModule(void** handle) {
  runtime_in([&](Context& context) { reinterpret_cast<Registered*>(handle)->program->module(context); });
  return 1;
}

unsigned orrery___cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  call_configurations.push_back({grid, block, shared, stream});
  return 0;
}
int orrery___cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (call_configurations.empty()) return runtime([] { throw Failure(Status::missing_configuration); });
  CallConfiguration top = call_configurations.back();
  call_configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<void**>(stream) = top.stream;
  return 0;
}

int orrery___cudaGetKernel(void** kernel, const void* host) {
  auto found = kernel_of(host);
  *kernel = found ? found.get() : nullptr;
  return found ? 0 : runtime([] { throw Failure(Status::invalid_device_function); });
}
}

API(cudaLaunchKernel)(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    device::LaunchRequest request = launch_request(function, to_dim(grid), to_dim(block), shared, arguments);
    launch(context, stream, function, request);
  });
}
PER_THREAD(cudaLaunchKernel, _ptsz)
API(__cudaLaunchKernel)(void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return orrery_cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
PER_THREAD(__cudaLaunchKernel, _ptsz)
API(cudaLaunchCooperativeKernel)(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    device::LaunchRequest request = launch_request(function, to_dim(grid), to_dim(block), shared, arguments);
    request.cooperative = true;
    launch(context, stream, function, request);
  });
}
PER_THREAD(cudaLaunchCooperativeKernel, _ptsz)

API(cudaLaunchKernelExC)(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return runtime_in([&](Context& context) {
    require(config != nullptr, Status::invalid_value);
    device::LaunchRequest request = launch_request(function, to_dim(config->gridDim), to_dim(config->blockDim), config->dynamicSmemBytes, arguments);
    LaunchEvents events = apply_attributes(request, config->attrs, config->numAttrs);
    launch(context, config->stream, function, request);
    events.record(context, stream_of(context, config->stream));
  });
}
PER_THREAD(cudaLaunchKernelExC, _ptsz)

API(cudaLaunchHostFunc)(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return runtime_in([&](Context& context) {
    require(function != nullptr, Status::invalid_value);
    context.submit(stream_of(context, stream), device::HostWork{function, argument, {}});
  });
}
PER_THREAD(cudaLaunchHostFunc, _ptsz)

API(cudaFuncGetAttributes)(cudaFuncAttributes* out, const void* handle) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = attributes_of(*function_of(context, handle));
  });
}

API(cudaFuncSetAttribute)(const void* handle, int attribute, int value) {
  return runtime_in([&](Context& context) { set_function_attribute(context, *function_of(context, handle), attribute, value); });
}
API(cudaFuncSetCacheConfig)(const void* handle, int) {
  return runtime_in([&](Context& context) { function_of(context, handle); });
}
API(cudaFuncSetSharedMemConfig)(const void* handle, int) {
  return runtime_in([&](Context& context) { function_of(context, handle); });
}
API(cudaFuncGetName)(const char** name, const void* handle) {
  return runtime_in([&](Context& context) {
    require(name != nullptr, Status::invalid_value);
    *name = function_of(context, handle)->name().c_str();
  });
}
API(cudaFuncGetParamInfo)(const void* handle, size_t index, size_t* offset, size_t* size) {
  return runtime_in([&](Context& context) {
    auto function = function_of(context, handle);
    require(index < function->parameters().size() && offset, Status::invalid_value);
    *offset = function->parameters()[index].offset;
    if (size) *size = function->parameters()[index].size;
  });
}
API(cudaGetFuncBySymbol)(cudaFunction_t* out, const void* symbol) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaFunction_t>(handles<Function>().add(function_of(context, symbol)));
  });
}
API(cudaGetKernel)(cudaKernel_t* out, const void* host) {
  return runtime([&] {
    auto kernel = kernel_of(host);
    if (!kernel) kernel = handles<Kernel>().find(host);
    require(out != nullptr && kernel, Status::invalid_device_function);
    *out = reinterpret_cast<cudaKernel_t>(kernel.get());
  });
}
API(cudaKernelSetAttributeForDevice)(cudaKernel_t handle, int attribute, int value, int ordinal) {
  return runtime([&] {
    Context& context = device::system().device(ordinal).primary();
    set_function_attribute(context, *handles<Kernel>().get(handle)->in(context), attribute, value);
  });
}

API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int* blocks, const void* handle, int threads, size_t shared, unsigned) {
  return runtime_in([&](Context& context) {
    require(blocks != nullptr && threads > 0, Status::invalid_value);
    *blocks = int(device::blocks_per_sm(context, *function_of(context, handle), unsigned(threads), shared));
  });
}
API(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, const void* handle, int threads, size_t shared) {
  return orrery_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, shared, 0);
}
API(cudaOccupancyAvailableDynamicSMemPerBlock)(size_t* bytes, const void* handle, int blocks, int threads) {
  return runtime_in([&](Context& context) {
    require(bytes != nullptr, Status::invalid_value);
    *bytes = available_dynamic_shared(context, *function_of(context, handle), blocks, threads);
  });
}
API(cudaOccupancyMaxPotentialClusterSize)(int* size, const void* handle, const cudaLaunchConfig_t* config) {
  return runtime_in([&](Context& context) {
    require(size != nullptr && config != nullptr, Status::invalid_value);
    *size = max_cluster_size(context, *function_of(context, handle), unsigned(to_dim(config->blockDim).count()), config->dynamicSmemBytes);
  });
}
API(cudaOccupancyMaxActiveClusters)(int* clusters, const void* handle, const cudaLaunchConfig_t* config) {
  return runtime_in([&](Context& context) {
    require(clusters != nullptr && config != nullptr, Status::invalid_value);
    device::LaunchRequest request;
    apply_attributes(request, config->attrs, config->numAttrs);
    *clusters = active_clusters(context, *function_of(context, handle), unsigned(to_dim(config->blockDim).count()), config->dynamicSmemBytes,
                                request.cluster.x ? unsigned(request.cluster.count()) : 1);
  });
}

API(cudaLibraryLoadData)(cudaLibrary_t* out, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && code != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaLibrary_t>(load_library(context, device::read_image(code, context.device().capability())));
  });
}
API(cudaLibraryLoadFromFile)(cudaLibrary_t* out, const char* path, int*, void**, unsigned, int*, void**, unsigned) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && path != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaLibrary_t>(load_library(context, device::read_image_file(path, context.device().capability())));
  });
}
API(cudaLibraryUnload)(cudaLibrary_t library) {
  return runtime([&] { unload_library(library); });
}
API(cudaLibraryGetKernel)(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && name != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaKernel_t>(library_kernel(context, library, name));
  });
}
API(cudaLibraryGetGlobal)(void** address, size_t* bytes, cudaLibrary_t library, const char* name) {
  return runtime_in([&](Context& context) { library_variable(context, library, name, address, bytes); });
}
API(cudaLibraryGetManaged)(void** address, size_t* bytes, cudaLibrary_t library, const char* name) {
  return runtime_in([&](Context& context) { library_variable(context, library, name, address, bytes); });
}
API(cudaLibraryGetKernelCount)(unsigned* count, cudaLibrary_t library) {
  return runtime_in([&](Context& context) {
    require(count != nullptr, Status::invalid_value);
    *count = unsigned(library_kernels(context, library).size());
  });
}
API(cudaLibraryEnumerateKernels)(cudaKernel_t* out, unsigned most, cudaLibrary_t library) {
  return runtime_in([&](Context& context) {
    auto all = library_kernels(context, library);
    for (size_t i = 0; i < all.size() && i < most; i++) out[i] = reinterpret_cast<cudaKernel_t>(all[i]);
  });
}
