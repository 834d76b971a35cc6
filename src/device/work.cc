// Doing the work: launches through exec/, copies and fills as host memory operations (device memory is host memory).
#include "device/work.h"

#include <cstring>
#include <deque>
#include <thread>

#include "device/array.h"
#include "device/device.h"
#include "device/graph.h"
#include "device/grid.h"
#include "device/launch.h"
#include "device/observed_work.h"

namespace orrery::device {
namespace {

bool is_mapped(uint64_t address, uint64_t bytes) {
  exec::DeviceMemory& memory = system().memory();
  if (!memory.contains(address)) return true;  // host memory: the program's own business
  auto allocation = memory.find(address);
  return allocation && address + bytes <= allocation->address + allocation->mapped;
}

uint64_t span_of(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice) {
  return width == 0 || height == 0 || depth == 0 ? 0 : width + (height - 1) * pitch + (depth - 1) * slice;
}

void copy(Context& context, const CopyWork& work) {
  uint64_t source = work.staged ? reinterpret_cast<uint64_t>(work.staged->data()) : work.src.address;
  if (!is_mapped(source, span_of(work.width, work.height, work.depth, work.src.pitch, work.src.slice)) ||
      !is_mapped(work.dst.address, span_of(work.width, work.height, work.depth, work.dst.pitch, work.dst.slice)))
    return context.break_with(Status::illegal_address, "orrery: a copy uses device memory that was freed before it ran");
  for (uint64_t z = 0; z < work.depth; z++)
    for (uint64_t y = 0; y < work.height; y++)
      std::memmove(reinterpret_cast<void*>(work.dst.address + z * work.dst.slice + y * work.dst.pitch),
                   reinterpret_cast<const void*>(source + z * work.src.slice + y * work.src.pitch), work.width);
}

template <class T>
void fill_row(uint64_t address, uint32_t value, uint64_t count) {
  T* row = reinterpret_cast<T*>(address);
  for (uint64_t i = 0; i < count; i++) row[i] = T(value);
}

void fill(Context& context, const FillWork& work) {
  if (!is_mapped(work.address, span_of(work.width * work.element, work.height, work.depth, work.pitch, work.slice)))
    return context.break_with(Status::illegal_address, "orrery: a memset uses device memory that was freed before it ran");
  for (uint64_t z = 0; z < work.depth; z++)
    for (uint64_t y = 0; y < work.height; y++) {
      uint64_t row = work.address + z * work.slice + y * work.pitch;
      if (work.element == 1) std::memset(reinterpret_cast<void*>(row), int(work.value), work.width);
      else if (work.element == 2) fill_row<uint16_t>(row, work.value, work.width);
      else fill_row<uint32_t>(row, work.value, work.width);
    }
}

// The conditions of cuStreamWaitValue: 0 cyclic >=, 1 ==, 2 bit and, 3 not or.
bool satisfied(const ValueWork& work) {
  uint64_t now = work.wide ? __atomic_load_n(reinterpret_cast<uint64_t*>(work.address), __ATOMIC_ACQUIRE)
                           : __atomic_load_n(reinterpret_cast<uint32_t*>(work.address), __ATOMIC_ACQUIRE);
  uint64_t mask = work.wide ? ~uint64_t{0} : 0xffffffff;
  switch (work.flags & 7) {
    case 0: return work.wide ? int64_t(now - work.value) >= 0 : int32_t(uint32_t(now) - uint32_t(work.value)) >= 0;
    case 1: return now == (work.value & mask);
    case 2: return (now & work.value) != 0;
    default: return (~(now | work.value) & mask) != 0;
  }
}

void exchange_value(Context& context, const ValueWork& work) {
  if (!is_mapped(work.address, work.wide ? 8 : 4)) return context.break_with(Status::illegal_address, "orrery: a stream memory operation uses freed memory");
  if (!work.wait) {
    if (work.wide) __atomic_store_n(reinterpret_cast<uint64_t*>(work.address), work.value, __ATOMIC_RELEASE);
    else __atomic_store_n(reinterpret_cast<uint32_t*>(work.address), uint32_t(work.value), __ATOMIC_RELEASE);
    return;
  }
  while (!satisfied(work) && !system().interrupt().load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void run_graph(Context& context, const GraphLaunchWork& first);
void run_nodes(Context& context, const GraphLaunchWork& work, GraphRun& run);

bool goes_on(Context& context) { return context.fault() == Status::success && !system().interrupt().load(); }

void run_conditional(Context& context, const ConditionalWork& work, GraphRun& run) {
  const auto value = [&] { return work.condition->value.load(); };
  switch (work.kind) {
    case ConditionKind::if_:
      if (value()) run_nodes(context, work.runs[0], run);
      else if (work.runs.size() > 1) run_nodes(context, work.runs[1], run);
      break;
    case ConditionKind::while_:
      while (value() && goes_on(context)) run_nodes(context, work.runs[0], run);
      break;
    case ConditionKind::switch_:
      if (value() < work.runs.size()) run_nodes(context, work.runs[value()], run);
      break;
  }
}

struct Performer {
  Context& context;
  GraphRun* graph;  // that the work is part of, or null
  void operator()(const EmptyWork&) {}
  void operator()(const LaunchWork& work) { run_launch(context, work, graph); }
  void operator()(const CopyWork& work) { copy(context, work); }
  void operator()(const FillWork& work) { fill(context, work); }
  void operator()(const HostWork& work) {
    if (work.function) work.function(work.argument);
    if (work.callback) work.callback(0);
  }
  void operator()(const EventRecordWork&) {}  // the mark of the operation is what it records
  void operator()(const EventWaitWork&) {}
  void operator()(const AllocWork&) {}
  void operator()(const FreeWork& work) { release_pool_memory(work.address); }
  void operator()(const ChildWork&) {}
  void operator()(const ValueWork& work) { exchange_value(context, work); }
  void operator()(const BatchWork& work) {
    for (const ValueWork& part : work.parts) exchange_value(context, part);
  }
  void operator()(const GraphLaunchWork& work) { run_graph(context, work); }
  void operator()(const ConditionalWork& work) {
    if (graph) run_conditional(context, work, *graph);
  }
};

/// A launch sees to it by itself.
bool touches_memory(const Work& work) {
  return !std::holds_alternative<LaunchWork>(work) && !std::holds_alternative<EmptyWork>(work) && !std::holds_alternative<EventRecordWork>(work) && !std::holds_alternative<EventWaitWork>(work);
}

void perform_part(Context& context, const Work& work, uint64_t id, GraphRun* graph) {
  if (context.fault() == Status::success) {
    if (touches_memory(work)) system().deferred().run();
    const ObservedWork observed(id, work);
    std::visit(Performer{context, graph}, work);
  } else if (auto* host = std::get_if<HostWork>(&work); host && host->callback) {
    host->callback(int(context.fault()));
  }
}

void run_nodes(Context& context, const GraphLaunchWork& work, GraphRun& run) {
  for (const auto& node : *work.nodes) perform_part(context, node->work, 0, &run);
}

/// Runs a graph and then those that its kernels have launched; a chain of these may be long.
void run_graph(Context& context, const GraphLaunchWork& first) {
  std::deque<GraphLaunchWork> todo{first};
  while (!todo.empty()) {
    const GraphLaunchWork work = std::move(todo.front());
    todo.pop_front();
    for (const auto& condition : work.conditions)
      if (condition->assign_default) condition->value = condition->default_value;
    GraphRun run{work.graph.get(), {}, {}};
    run_nodes(context, work, run);
    if (!goes_on(context)) return;
    todo.insert(todo.begin(), run.tail.begin(), run.tail.end());
    todo.insert(todo.begin(), run.forked.begin(), run.forked.end());
  }
}

}  // namespace

void perform(Context& context, const Work& work, uint64_t id) { perform_part(context, work, id, nullptr); }

}  // namespace orrery::device
