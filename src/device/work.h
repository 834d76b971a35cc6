// device/work.h: what can stand in a stream or in a node of a graph.
//
// A Work is complete: addresses resolved, parameters copied, so that it can run later and any number of times.
// perform() does it on the calling thread. After a fault in the context nothing but marks happens.
// Not here: order (stream.h, graph.h), checks of arguments (launch.h, copy.h).
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "exec/launch.h"
#include "timing/launch_choice.h"

namespace orrery::device {

class Context;
class Function;
class Graph;
class GraphExec;
struct Event;
struct Array;

/// One kernel launch, checked and ready.
struct LaunchWork {
  std::shared_ptr<Function> function;
  exec::Dim3 grid, block, cluster;
  bool in_clusters = false;   // clusters were asked for, if only of one block
  uint32_t dynamic_shared = 0;
  uint32_t registers = 0;  // exec::Launch::registers
  bool cooperative = false;
  bool programmatic = false;  // programmatic dependent launch was asked for
  int priority = 0;
  std::vector<std::byte> params;
  const void* handle = nullptr;  // what the program named the function by, given back by queries
  std::optional<timing::Turn> turn;  // of those that the program itself has put into a stream, where launches are timed
};

/// One side of a copy: rows of bytes, `pitch` apart, in slices `slice` apart.
struct CopySide {
  uint64_t address = 0, pitch = 0, slice = 0;
  std::shared_ptr<Array> array;  // keeps the memory alive
};
struct CopyWork {
  CopySide src, dst;
  uint64_t width = 0, height = 1, depth = 1;            // bytes, rows, slices
  std::shared_ptr<std::vector<std::byte>> staged;       // copy of pageable source memory
  std::array<uint64_t, 32> description{};               // the caller's own parameters, given back by queries
};

/// Repeats an element of 1, 2 or 4 bytes over rows.
struct FillWork {
  uint64_t address = 0, pitch = 0, slice = 0;
  uint32_t value = 0, element = 1;
  uint64_t width = 0, height = 1, depth = 1;            // elements, rows, slices
};
struct HostWork {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
  std::function<void(int status)> callback;  // cudaStreamAddCallback: runs after errors too
};
struct EventRecordWork { std::shared_ptr<Event> event; };
struct EventWaitWork { std::shared_ptr<Event> event; };
struct AllocWork { uint64_t address = 0, bytes = 0; std::shared_ptr<void> owner; };
struct FreeWork { uint64_t address = 0; };
struct ChildWork { std::shared_ptr<Graph> graph; };
/// cuStreamWaitValue and cuStreamWriteValue.
struct ValueWork {
  uint64_t address = 0, value = 0;
  uint32_t flags = 0;
  bool wait = false, wide = false;
};
struct BatchWork { std::vector<ValueWork> parts; };
struct EmptyWork {};
/// One launch of an executable graph: the work of its nodes, and the conditions that get their default value before.
struct GraphLaunchWork {
  std::shared_ptr<const std::vector<std::shared_ptr<const struct NodeWork>>> nodes;
  std::vector<std::shared_ptr<struct Condition>> conditions;
  std::shared_ptr<const GraphExec> graph;
};
enum class ConditionKind : int { if_, while_, switch_ };
/// Runs bodies as a value says that kernels set.
struct ConditionalWork {
  std::shared_ptr<Condition> condition;
  ConditionKind kind = ConditionKind::if_;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<std::vector<void*>> body_handles;  // what the program was given
  std::vector<GraphLaunchWork> runs;  // of the bodies; in an executable graph only
};

using Work = std::variant<EmptyWork, LaunchWork, CopyWork, FillWork, HostWork, EventRecordWork, EventWaitWork, AllocWork, FreeWork,
                          ChildWork, ValueWork, BatchWork, GraphLaunchWork, ConditionalWork>;
struct NodeWork { Work work; };

/// Does the work now, on this thread. Faults end up in the context's status, not in an exception. `id`: the number that
/// an observer knows the operation by.
void perform(Context& context, const Work& work, uint64_t id = 0);

}  // namespace orrery::device
