// device/grid.h: one grid while it runs, and what its threads ask the device to do: dynamic parallelism.
//
// What a grid asks for is kept until the grid has ended and is then carried out, in the order of asking: CUDA promises no
// more, since whether a child runs beside its parent is open. One order fulfils every stream and event of the device side,
// so these need no state but a number. A grid is complete when all it asked for is, and so on down the tree; work for the
// tail comes after everything else of its grid.
//
//   GraphRun   one launch of an executable graph: the graphs that its kernels launch run when it has ended
//
// Invariant: a request is checked when it is made, so that the thread gets the error code.
// Not here: the functions that threads call (api/device_runtime.cc), the walk over the tree (launch.cc).
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "device/context.h"
#include "exec/device_services.h"

namespace orrery::device {

class Grid;

/// The functions that kernels may call, by name; nothing when there is none of that name. Set once, before any launch.
using DeviceFunction = std::function<uint64_t(Grid&, exec::DeviceCall&)>;
void provide_device_functions(const std::map<std::string, DeviceFunction, std::less<>>* functions);

struct GraphRun {
  const GraphExec* graph = nullptr;
  std::vector<GraphLaunchWork> forked, tail;  // launched from inside: to run beside it, and after it
};

class Grid final : public exec::DeviceServices {
 public:
  /// `pending`: launches that are not complete yet in the tree of grids that this one stands in. `graph`: null outside one.
  Grid(Context& context, GraphRun* graph, size_t pending) : context_(context), graph_(graph), pending_(pending) {}
  ~Grid() override;
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  std::optional<uint64_t> call(std::string_view name, exec::DeviceCall& call) override;

  Context& context() { return context_; }
  GraphRun* graph() { return graph_; }

  /// Asks for work after the grid (`tail`: after all other work too). Throws Failure(launch_pending_exceeded) when the
  /// tree is as deep as cudaLimitDevRuntimePendingLaunchCount allows.
  void ask(Work work, bool tail);
  std::vector<Work> take_requests() { return std::move(requests_); }
  std::vector<Work> take_tail() { return std::move(tail_); }

  /// A launch that is being prepared: its shape, and where the thread writes the parameters.
  struct Prepared {
    uint64_t function = 0, shared = 0;
    exec::Dim3 grid, block;
  };
  /// Device memory for `bytes` of parameters. Throws Failure(out_of_memory).
  uint64_t parameter_buffer(uint64_t bytes, const Prepared& launch);
  /// Null when `buffer` did not come from parameter_buffer.
  const Prepared* prepared(uint64_t buffer) const;

  /// Streams and events: numbers.
  uint64_t create_handle();
  bool drop_handle(uint64_t handle) { return handles_.erase(handle) == 1; }
  bool is_handle(uint64_t handle) const { return handles_.contains(handle); }

  /// The error of a thread's last failed call.
  void set_error(uint64_t thread, int code) { errors_[thread] = code; }
  int error(uint64_t thread, bool clear);

 private:
  Context& context_;
  GraphRun* const graph_;
  const size_t pending_;
  std::vector<Work> requests_, tail_;
  std::map<uint64_t, Prepared> prepared_;
  std::vector<uint64_t> chunks_;
  uint64_t next_ = 0, end_ = 0;   // room for parameters
  std::set<uint64_t> handles_;
  std::map<uint64_t, int> errors_;
};

}  // namespace orrery::device
