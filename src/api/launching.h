// api/launching.h: what both APIs do to launch a kernel and to ask about one.
#pragma once
#include <memory>
#include <vector>

#include "api/program.h"

namespace orrery::api {

/// What is to be launched, with one pointer per parameter or with the parameter buffer that `extra` names (CU_LAUNCH_PARAM_*).
/// Throws Failure(invalid_value) when both are given or `extra` holds something else.
device::LaunchRequest launch_request(const void* handle, exec::Dim3 grid, exec::Dim3 block, uint64_t shared, void** arguments, void** extra = nullptr);

/// Events that launch attributes ask to record.
struct LaunchEvents {
  std::vector<std::shared_ptr<device::Event>> events;
  void record(Context& context, const std::shared_ptr<device::Stream>& stream) const;
};
/// Reads launch attributes into the request. Unknown ones are refused. Throws Failure(invalid_value).
LaunchEvents apply_attributes(device::LaunchRequest& request, const abi::cudaLaunchAttribute* attributes, unsigned count);
/// Resolves the function and submits the launch. Throws Failure.
void launch(Context& context, const void* stream, const void* function, device::LaunchRequest& request);

/// What cudaFuncGetAttributes says, on the host and on the device.
abi::cudaFuncAttributes attributes_of(device::Function& function);
/// cudaFuncAttribute and CUfunction_attribute share these numbers. Throws Failure(invalid_value).
void set_function_attribute(Context& context, device::Function& function, int attribute, int value);
size_t available_dynamic_shared(Context& context, device::Function& function, int blocks, int threads);
int max_cluster_size(Context& context, device::Function& function, unsigned threads, size_t shared);
int active_clusters(Context& context, device::Function& function, unsigned threads, size_t shared, unsigned cluster);

/// Libraries, by handle.
Program* load_library(Context& context, device::Image image);
void unload_library(const void* library);
Kernel* library_kernel(Context& context, const void* library, const char* name);
void library_variable(Context& context, const void* library, const char* name, void** address, size_t* bytes);
std::vector<Kernel*> library_kernels(Context& context, const void* library);

}  // namespace orrery::api
