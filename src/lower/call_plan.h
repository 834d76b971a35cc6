// lower/call_plan.h: which calls of a kernel become plain jumps, and where the called functions live then.
//
// A function that a kernel calls is given a place in the kernel's own program: an instance. Its registers are registers of the
// kernel, its frame a part of the kernel's frame; a call is a jump there and a return a jump back. That is possible as long
// as no instance can be active twice in a lane, so calls that would close a cycle stay calls. A small function gets an instance
// for each place that calls it; a large one has one, which returns by a table.
//
//   entry ── call f ──> f#1 ── call through a pointer ──> g#1, h#1      (every function whose address somebody takes and that
//     └───── call f ──> f#2 ── ...                                      has the call's signature may be meant)
//
// Invariants: instances are in an order in which callers come before callees; the frames of an instance and of all that may be
// active at the same time do not overlap; a kernel's own instance is number 0.
// Not here: the code (merge_calls.cc), calls that stay calls (exec/).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lower/program.h"

namespace orrery::lower {

/// Where one call may lead.
struct CallSite {
  uint32_t pc = 0;
  std::vector<uint32_t> callees;   // instances
  std::vector<uint64_t> pointers;  // by callee: the function pointer that means it; empty: a direct call
  enum Stays : uint8_t { never, seldom, often } stays = never;  // what is not one of `callees` remains a call: seldom
                                   // when only functions are left whose address nobody takes
};

struct Instance {
  uint32_t function = 0;           // of the module
  const Program* program = nullptr;
  uint64_t frame = 0;              // where its local frame starts in the kernel's
  uint32_t callers = 0;            // places that lead here
  std::map<uint32_t, CallSite> calls;  // by instruction
};

struct CallPlan {
  std::vector<Instance> instances;
  uint64_t local_bytes = 0;        // of all frames, less than 2^32
};

/// `function`: the kernel's number in the module. Only instance 0 when nothing can be done.
CallPlan plan_calls(const KernelPrograms& programs, uint32_t function, const Addresses& addresses);

}  // namespace orrery::lower
