// Driver API: modules, libraries, linking, functions, launches, occupancy.
#include <cstring>

#include "api/abi_driver.h"
#include "api/graph_calls.h"
#include "api/jit_log.h"
#include "api/launching.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::Function;
using orrery::device::Module;

namespace {

constexpr int kPtxInput = 1, kFatBinaryInput = 2;  // CU_JIT_INPUT_{PTX, FATBINARY}

CUmodule load_module(Context& context, const std::function<device::Image()>& read, JitLog log) {
  auto module = log.log_of([&] { return context.load(read()); });
  log.finish();
  return reinterpret_cast<CUmodule>(handles<Module>().add(module));
}

CUfunction give_function(std::shared_ptr<Function> function) {
  return reinterpret_cast<CUfunction>(handles<Function>().add(std::move(function)));
}

std::shared_ptr<Function> driver_function(Context& context, const void* handle) {
  if (auto kernel = handles<Kernel>().find(handle)) return kernel->in(context);
  return handles<Function>().get(handle);
}

int function_attribute(Context& context, Function& function, int attribute) {
  device::FunctionFacts facts = function.facts();
  switch (attribute) {
    case 0: return int(facts.max_threads);
    case 1: return int(facts.static_shared);
    case 2: return int(facts.constant_bytes);
    case 3: return int(facts.local_bytes);
    case 4: return int(facts.registers);
    case 5: case 6: return facts.binary_version;
    case 7: return 0;
    case 8: return int(function.dynamic_shared_limit(facts.static_shared));
    case 9: return function.carveout;
    case 10: return facts.required_cluster[0] != 0;
    case 11: case 12: case 13: return int(facts.required_cluster[attribute - 11]);
    case 14: return function.non_portable_cluster;
    case 15: return function.scheduling_policy;
    default: throw Failure(Status::invalid_value);
  }
}

struct Link {
  JitLog log;  // of the caller, who keeps it alive as long as the link
  std::vector<std::string> texts;
  std::string image;

  template <class Read>
  void add(Read read) {
    for (std::string& text : log.log_of(read).texts) texts.push_back(std::move(text));
  }
};

void set_driver_attribute(Context& context, Function& function, int attribute, int value) { set_function_attribute(context, function, attribute, value); }

int launch_kernel(CUfunction function, exec::Dim3 grid, exec::Dim3 block, unsigned shared, CUstream stream, void** arguments, void** extra, bool cooperative) {
  return driver_in([&](Context& context) {
    device::LaunchRequest request = launch_request(function, grid, block, shared, arguments, extra);
    request.function = driver_function(context, function);
    request.cooperative = cooperative;
    auto target = stream_of(context, stream);
    target->context().submit(target, device::make_launch(target->context(), request));
  });
}

}  // namespace

API(cuModuleLoadDataEx)(CUmodule* out, const void* image, unsigned count, int* options, void** values) {
  return driver_in([&](Context& context) {
    require(out != nullptr && image != nullptr, Status::invalid_value);
    *out = load_module(context, [&] { return device::read_image(image, context.device().capability()); }, JitLog(count, options, values));
  });
}
API(cuModuleLoadData)(CUmodule* out, const void* image) { return orrery_cuModuleLoadDataEx(out, image, 0, nullptr, nullptr); }
API(cuModuleLoadFatBinary)(CUmodule* out, const void* image) { return orrery_cuModuleLoadDataEx(out, image, 0, nullptr, nullptr); }
API(cuModuleLoad)(CUmodule* out, const char* path) {
  return driver_in([&](Context& context) {
    require(out != nullptr && path != nullptr, Status::invalid_value);
    *out = load_module(context, [&] { return device::read_image_file(path, context.device().capability()); }, JitLog(0, nullptr, nullptr));
  });
}
API(cuModuleUnload)(CUmodule handle) {
  return driver_in([&](Context&) {
    auto module = handles<Module>().take(handle);
    wait_for_use(module->context());
    for (auto& function : module->functions())
      if (handles<Function>().find(function.get())) handles<Function>().take(function.get());
    module->context().unload(module.get());
  });
}
API(cuModuleGetFunction)(CUfunction* out, CUmodule handle, const char* name) {
  return driver_in([&](Context&) {
    require(out != nullptr && name != nullptr, Status::invalid_value);
    auto function = handles<Module>().get(handle)->function(name);
    require(function != nullptr, Status::not_found);
    *out = give_function(std::move(function));
  });
}
API(cuModuleGetFunctionCount)(unsigned* count, CUmodule handle) {
  return driver_in([&](Context&) { *count = unsigned(handles<Module>().get(handle)->functions().size()); });
}
API(cuModuleEnumerateFunctions)(CUfunction* out, unsigned most, CUmodule handle) {
  return driver_in([&](Context&) {
    auto all = handles<Module>().get(handle)->functions();
    for (size_t i = 0; i < all.size() && i < most; i++) out[i] = give_function(all[i]);
  });
}
API(cuModuleGetGlobal_v2)(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  return driver_in([&](Context&) {
    require(name != nullptr, Status::invalid_value);
    const device::Variable* found = handles<Module>().get(handle)->variable(name);
    require(found != nullptr, Status::not_found);
    if (address) *address = found->address;
    if (bytes) *bytes = found->size;
  });
}

API(cuLinkCreate_v2)(unsigned count, int* options, void** values, CUlinkState* out) {
  return driver_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUlinkState>(handles<Link>().add(std::make_shared<Link>(Link{JitLog(count, options, values), {}, {}})));
  });
}
API(cuLinkCreate)(unsigned count, int* options, void** values, CUlinkState* out) { return orrery_cuLinkCreate_v2(count, options, values, out); }
API(cuLinkAddData_v2)(CUlinkState state, int type, void* data, size_t size, const char* name, unsigned, int*, void**) {
  return driver_in([&](Context& context) {
    auto link = handles<Link>().get(state);
    require(data != nullptr, Status::invalid_value);
    if (type == kPtxInput) {
      const char* text = static_cast<const char*>(data);
      link->texts.emplace_back(text, strnlen(text, size ? size : SIZE_MAX));
      return;
    }
    link->add([&] {
      if (type != kFatBinaryInput)
        throw Failure(Status::no_binary, fmt::format("cuLinkAddData: {} is machine code; only PTX and fat binaries with PTX can be linked", name ? name : "input"));
      return device::read_image(data, context.device().capability());
    });
  });
}
API(cuLinkAddData)(CUlinkState state, int type, void* data, size_t size, const char* name, unsigned count, int* options, void** values) {
  return orrery_cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}
API(cuLinkAddFile_v2)(CUlinkState state, int, const char* path, unsigned, int*, void**) {
  return driver_in([&](Context& context) {
    auto link = handles<Link>().get(state);
    require(path != nullptr, Status::invalid_value);
    link->add([&] { return device::read_image_file(path, context.device().capability()); });
  });
}
API(cuLinkComplete)(CUlinkState state, void** image, size_t* size) {
  return driver_in([&](Context&) {
    auto link = handles<Link>().get(state);
    require(image != nullptr && !link->texts.empty(), Status::invalid_value);
    link->image = device::link_image(link->texts);
    link->log.finish();
    *image = link->image.data();
    if (size) *size = link->image.size();
  });
}
API(cuLinkDestroy)(CUlinkState state) {
  return driver_in([&](Context&) { handles<Link>().take(state); });
}

API(cuLibraryLoadData)(CUlibrary* out, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
  return driver_in([&](Context& context) {
    require(out != nullptr && code != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUlibrary>(load_library(context, device::read_image(code, context.device().capability())));
  });
}
API(cuLibraryLoadFromFile)(CUlibrary* out, const char* path, int*, void**, unsigned, int*, void**, unsigned) {
  return driver_in([&](Context& context) {
    require(out != nullptr && path != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUlibrary>(load_library(context, device::read_image_file(path, context.device().capability())));
  });
}
API(cuLibraryUnload)(CUlibrary library) {
  return driver([&] { unload_library(library); });
}
API(cuLibraryGetKernel)(CUkernel* out, CUlibrary library, const char* name) {
  return driver_in([&](Context& context) { *out = reinterpret_cast<CUkernel>(library_kernel(context, library, name)); });
}
API(cuLibraryGetModule)(CUmodule* out, CUlibrary library) {
  return driver_in([&](Context& context) {
    *out = reinterpret_cast<CUmodule>(handles<Module>().add(handles<Program>().get(library)->module(context)));
  });
}
API(cuLibraryGetGlobal)(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return driver_in([&](Context& context) { library_variable(context, library, name, reinterpret_cast<void**>(address), bytes); });
}
API(cuLibraryGetManaged)(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return driver_in([&](Context& context) { library_variable(context, library, name, reinterpret_cast<void**>(address), bytes); });
}
API(cuLibraryGetKernelCount)(unsigned* count, CUlibrary library) {
  return driver_in([&](Context& context) { *count = unsigned(library_kernels(context, library).size()); });
}
API(cuLibraryEnumerateKernels)(CUkernel* out, unsigned most, CUlibrary library) {
  return driver_in([&](Context& context) {
    auto all = library_kernels(context, library);
    for (size_t i = 0; i < all.size() && i < most; i++) out[i] = reinterpret_cast<CUkernel>(all[i]);
  });
}
API(cuKernelGetFunction)(CUfunction* out, CUkernel kernel) {
  return driver_in([&](Context& context) { *out = give_function(handles<Kernel>().get(kernel)->in(context)); });
}
API(cuKernelGetLibrary)(CUlibrary* out, CUkernel kernel) {
  return driver_in([&](Context&) { *out = reinterpret_cast<CUlibrary>(handles<Kernel>().get(kernel)->program.get()); });
}
API(cuKernelGetName)(const char** name, CUkernel kernel) {
  return driver_in([&](Context&) { *name = handles<Kernel>().get(kernel)->name.c_str(); });
}
API(cuKernelGetAttribute)(int* value, int attribute, CUkernel kernel, CUdevice device) {
  return driver([&] {
    Context& context = device::system().device(device).primary();
    *value = function_attribute(context, *handles<Kernel>().get(kernel)->in(context), attribute);
  });
}
API(cuKernelSetAttribute)(int attribute, int value, CUkernel kernel, CUdevice device) {
  return driver([&] {
    Context& context = device::system().device(device).primary();
    set_driver_attribute(context, *handles<Kernel>().get(kernel)->in(context), attribute, value);
  });
}
API(cuKernelSetCacheConfig)(CUkernel, int, CUdevice) { return 0; }
namespace {
void parameter_info(const Function& function, size_t index, size_t* offset, size_t* size) {
  require(index < function.parameters().size() && offset, Status::invalid_value);
  *offset = function.parameters()[index].offset;
  if (size) *size = function.parameters()[index].size;
}
}  // namespace
API(cuKernelGetParamInfo)(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return driver_in([&](Context& context) { parameter_info(*handles<Kernel>().get(kernel)->in(context), index, offset, size); });
}
API(cuFuncGetParamInfo)(CUfunction function, size_t index, size_t* offset, size_t* size) {
  return driver_in([&](Context& context) { parameter_info(*driver_function(context, function), index, offset, size); });
}
API(cuFuncGetAttribute)(int* value, int attribute, CUfunction function) {
  return driver_in([&](Context& context) {
    require(value != nullptr, Status::invalid_value);
    *value = function_attribute(context, *driver_function(context, function), attribute);
  });
}
API(cuFuncSetAttribute)(CUfunction function, int attribute, int value) {
  return driver_in([&](Context& context) { set_driver_attribute(context, *driver_function(context, function), attribute, value); });
}
API(cuFuncSetCacheConfig)(CUfunction function, int) {
  return driver_in([&](Context& context) { driver_function(context, function); });
}
API(cuFuncSetSharedMemConfig)(CUfunction function, int) {
  return driver_in([&](Context& context) { driver_function(context, function); });
}
API(cuFuncGetModule)(CUmodule* out, CUfunction function) {
  return driver_in([&](Context& context) {
    *out = reinterpret_cast<CUmodule>(handles<Module>().add(driver_function(context, function)->module().shared_from_this()));
  });
}
API(cuFuncGetName)(const char** name, CUfunction function) {
  return driver_in([&](Context& context) { *name = driver_function(context, function)->name().c_str(); });
}
API(cuFuncIsLoaded)(int* state, CUfunction function) {
  return driver_in([&](Context& context) {
    driver_function(context, function);
    *state = 1;
  });
}
API(cuFuncLoad)(CUfunction function) {
  return driver_in([&](Context& context) { driver_function(context, function)->kernel(); });
}

API(cuLaunchKernel)(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                    void** arguments, void** extra) {
  return launch_kernel(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, extra, false);
}
PER_THREAD(cuLaunchKernel, _ptsz)
API(cuLaunchCooperativeKernel)(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                               void** arguments) {
  return launch_kernel(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, nullptr, true);
}
PER_THREAD(cuLaunchCooperativeKernel, _ptsz)
API(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  return driver_in([&](Context& context) {
    require(config != nullptr, Status::invalid_value);
    device::LaunchRequest request = launch_request(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                                                   {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes, arguments, extra);
    request.function = driver_function(context, function);
    LaunchEvents events = apply_attributes(request, config->attrs, config->numAttrs);
    auto target = stream_of(context, config->hStream);
    target->context().submit(target, device::make_launch(target->context(), request));
    events.record(target->context(), target);
  });
}
PER_THREAD(cuLaunchKernelEx, _ptsz)
API(cuLaunchHostFunc)(CUstream stream, cudaHostFn_t function, void* argument) {
  return driver_in([&](Context& context) {
    require(function != nullptr, Status::invalid_value);
    auto target = stream_of(context, stream);
    target->context().submit(target, device::HostWork{function, argument, {}});
  });
}
PER_THREAD(cuLaunchHostFunc, _ptsz)

API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int* blocks, CUfunction f, int threads, size_t shared, unsigned) {
  return driver_in([&](Context& context) {
    require(blocks != nullptr && threads > 0, Status::invalid_value);
    *blocks = int(device::blocks_per_sm(context, *driver_function(context, f), unsigned(threads), shared));
  });
}
API(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, CUfunction f, int threads, size_t shared) {
  return orrery_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, 0);
}
API(cuOccupancyMaxPotentialBlockSizeWithFlags)(int* grid, int* block, CUfunction f, size_t (*shared_of)(int), size_t shared, int limit, unsigned) {
  return driver_in([&](Context& context) {
    require(grid != nullptr && block != nullptr, Status::invalid_value);
    auto function = driver_function(context, f);
    int most = int(function->facts().max_threads), best = 0;
    if (limit > 0) most = std::min(most, limit);
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
      size_t dynamic = shared_of ? shared_of(threads) : shared;
      int blocks = int(device::blocks_per_sm(context, *function, unsigned(threads), dynamic));
      if (blocks * threads > best) best = blocks * threads, *block = threads, *grid = blocks * int(context.device().gpu().sm_count);
    }
    require(best > 0, Status::invalid_value);
  });
}
API(cuOccupancyMaxPotentialBlockSize)(int* grid, int* block, CUfunction f, size_t (*shared_of)(int), size_t shared, int limit) {
  return orrery_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of, shared, limit, 0);
}
API(cuOccupancyAvailableDynamicSMemPerBlock)(size_t* bytes, CUfunction f, int blocks, int threads) {
  return driver_in([&](Context& context) { *bytes = available_dynamic_shared(context, *driver_function(context, f), blocks, threads); });
}
API(cuOccupancyMaxPotentialClusterSize)(int* size, CUfunction f, const CUlaunchConfig* config) {
  return driver_in([&](Context& context) {
    require(size != nullptr && config != nullptr, Status::invalid_value);
    unsigned threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    *size = max_cluster_size(context, *driver_function(context, f), threads, config->sharedMemBytes);
  });
}
API(cuOccupancyMaxActiveClusters)(int* clusters, CUfunction f, const CUlaunchConfig* config) {
  return driver_in([&](Context& context) {
    require(clusters != nullptr && config != nullptr, Status::invalid_value);
    device::LaunchRequest request;
    apply_attributes(request, config->attrs, config->numAttrs);
    unsigned threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    *clusters = active_clusters(context, *driver_function(context, f), threads, config->sharedMemBytes,
                                request.cluster.x ? unsigned(request.cluster.count()) : 1);
  });
}
