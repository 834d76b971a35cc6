// exec/wait_graph.h: who waits for whom when a launch cannot go on, as plain data.
//
//   Waiter     threads of one block that wait at one instruction
//   Resource   what they wait for: an mbarrier, a barrier of the block or the cluster, lanes of their warp, a word in memory
//   Edge       waiter -> resource (waits for it), resource -> waiter (could release it)
//
// The graph is made once, from the state in which the launch stopped; it holds text and numbers only, so it outlives
// the launch. to_text makes the note that people read, to_json the same as data (docs/check.md has the schema).
//
// Invariant: waiters and resources are in the order of blocks and warps; equal states give equal graphs.
// Not here: finding out that nothing can go on (unit.cc, scheduler.cc).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/run_state.h"

namespace orrery::exec {

/// An instruction: where it stands in the PTX and, when known, in the source; the calls around it when it was inlined.
struct CodePlace {
  std::string function, instruction;
  std::string file;
  uint32_t source_line = 0, ptx_line = 0;
  struct Call {
    std::string file;
    uint32_t line = 0;
  };
  std::vector<Call> called_from;  // innermost first
};
CodePlace code_place(const DecodedProgram& code, uint32_t pc);
/// "gemm.cu:27", "gemm.cu:27 (in pipeline.h:12)", "PTX line 80".
std::string to_string(const CodePlace& place);

enum class WaitKind : uint8_t { mbarrier, barrier, cluster_barrier, lanes, warpgroup, memory };
const char* name_of(WaitKind kind);

/// Something that happened to a resource.
struct WaitEvent {
  std::string text;          // "arrived and expects 1024 bytes"
  std::string who;           // "thread (0,0,0)"
  CodePlace place;
  uint32_t phase = 0;
};

struct Resource {
  WaitKind kind = WaitKind::mbarrier;
  std::string name;          // "mbarrier full[2]"
  std::string state;         // "phase 3: 1 of 1 arrivals and 512 transaction bytes are missing"
  uint32_t block[3] = {0, 0, 0};
  uint64_t phase = 0, missing = 0, expected = 0;  // arrivals, or threads
  int64_t missing_bytes = 0;
  uint64_t address = 0;      // offset in shared memory; address of a word in memory
  std::vector<WaitEvent> events;  // oldest first
};

struct Waiter {
  std::string who;           // "warps 4-7", "thread (0,0,0)"
  uint32_t block[3] = {0, 0, 0};
  uint32_t first_thread[3] = {0, 0, 0};
  uint64_t threads = 0;
  CodePlace place;
  int resource = -1;         // index
};

struct Edge {
  bool from_waiter = true;   // waiter -> resource, else resource -> waiter
  int from = 0, to = 0;
  std::string why;           // resource -> waiter: "arrived there in phase 2, at gemm.cu:31"
};

struct WaitGraph {
  std::string kernel;
  bool livelock = false;     // threads run, but only look at memory that nobody changes
  std::vector<Waiter> waiters;
  std::vector<Resource> resources;
  std::vector<Edge> edges;
  std::vector<std::string> circle;  // names of waiters and resources along a circle; empty when there is none
  std::vector<std::string> notes;   // what probably went wrong, a sentence or two each
};

/// The graph of blocks none of whose warps can go on.
WaitGraph make_wait_graph(const RunState& run, std::span<const CtaContext* const> blocks);

/// The fault of a launch that cannot go on, told to the observer if there is one.
Fault make_hang(const RunState& run, std::span<const CtaContext* const> blocks);

std::string to_text(const WaitGraph& graph);
std::string to_json(const WaitGraph& graph);

}  // namespace orrery::exec
