// device/launch.h: from a launch request to checked work, and running it.
//
// Limits and codes are those an H200 gave: every impossible shape is invalid_value (or invalid_configuration for
// programs built against CUDA 12: see Shapes).
// Not here: ways to say a launch (api/), execution (exec/).
#pragma once
#include "device/context.h"
#include "device/work.h"

namespace orrery::device {

struct LaunchRequest {
  std::shared_ptr<Function> function;
  exec::Dim3 grid, block, cluster{0, 0, 0};  // cluster 0: none asked for
  uint64_t dynamic_shared = 0;
  bool cooperative = false, programmatic = false;
  int priority = 0;
  void* const* arguments = nullptr;           // one pointer per parameter
  const void* packed = nullptr;               // or the parameter buffer
  uint64_t packed_size = 0;
  const void* handle = nullptr;
};

/// Checks the request against the device and the function and copies its parameters. Throws Failure.
LaunchWork make_launch(Context& context, const LaunchRequest& request);
struct GraphRun;  // grid.h
/// Runs it and all that its threads launch to their end; a fault breaks the context and is explained on standard error.
/// `graph`: the launch of a graph that it belongs to, or null.
void run_launch(Context& context, const LaunchWork& work, GraphRun* graph = nullptr);
/// The same of a launch that has been timed before (deferred.h).
void run_timed_launch(Context& context, const LaunchWork& work);

/// Blocks of `function` that fit one SM.
uint32_t blocks_per_sm(Context& context, Function& function, uint32_t threads, uint64_t dynamic_shared);

}  // namespace orrery::device
