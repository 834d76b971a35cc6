// exec/stepper.h: what a handler sees while it executes one instruction for one group of lanes.
//
// The stepper owns no state of the machine: it points into the warp, its current group and the group's call frame.
// Not here: which group runs next (interpreter.cc).
#pragma once
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string>

#include "exec/decode.h"
#include "exec/launch.h"
#include "exec/observer.h"
#include "exec/run_state.h"
#include "exec/warp.h"

namespace orrery::exec {

/// A call in progress: the callee's registers and local memory for the lanes that made the call.
struct CallFrame {
  const DecodedProgram* code = nullptr;
  std::byte* registers = nullptr;       // frame of `code`
  uint32_t local_base = 0;              // local address where the function's frame starts
  uint32_t return_pc = 0;               // in the caller
  const Decoded* call = nullptr;        // the call instruction, for results
  CallFrame* caller = nullptr;          // null: called from the kernel
  uint32_t lanes = 0;                   // lanes that are still inside
  uint32_t depth = 1;
};

/// Room for eight operands of 32 lanes; left as it is, because clearing it would cost more than most instructions.
struct Scratch {
  Scratch() {}
  uint64_t* operator[](int i) { return lanes[i]; }
  uint64_t lanes[8][32];
};

struct Stepper {
  WarpContext& w;
  CtaContext& cta;
  RunState& run;
  const DecodedProgram* code;           // of the current frame
  std::byte* frame;                     // registers of the current frame
  CallFrame* call = nullptr;
  Group* group = nullptr;
  uint32_t pc = 0;
  uint32_t mask = 0;                    // active lanes, guard applied
  Scratch scratch;                      // operands that must be made (special registers, negations)

  // A constructor, because compilers clear an aggregate that is initialised in part, Scratch included.
  Stepper(WarpContext& warp, CtaContext& block, RunState& launch, const DecodedProgram* program, std::byte* registers, CallFrame* frame_call,
          Group* of, uint32_t at, uint32_t lanes)
      : w(warp), cta(block), run(launch), code(program), frame(registers), call(frame_call), group(of), pc(at), mask(lanes) {}

  uint32_t local_base() const { return call ? call->local_base : 0; }
  const Ref& ref(const Decoded& d, int i) const { return code->refs[d.first_ref + uint32_t(i)]; }
  /// Lanes of operand i, readable; special registers are made in scratch slot `slot`.
  const void* source(const Ref& r, int slot);
  /// Lanes of destination operand i; null for the sink.
  void* destination(const Ref& r) { return r.kind == RefKind::sink ? nullptr : frame + r.offset; }
  const uint32_t* words(const Ref& r, int slot) { return static_cast<const uint32_t*>(source(r, slot)); }
  const uint64_t* dwords(const Ref& r, int slot) { return static_cast<const uint64_t*>(source(r, slot)); }
  /// Operand value of one lane, zero-extended.
  uint64_t value(const Ref& r, int slot, int lane);
  bool predicate(const Ref& r, int slot, int lane) {
    return ((words(r, slot)[0] >> lane & 1) != 0);
  }
  /// Address of one lane of an address operand, before translation of its space.
  uint64_t address(const AddressRef& a, int lane);

  /// Null when nobody listens.
  Observer* observer() const { return run.machine.observer; }
  Where where() const { return {&run, &w, code, call, pc, mask}; }

  Next fault(FaultKind kind, int lane, uint64_t address, std::string what);
};

template <class F>
void for_lanes(uint32_t mask, F f) {
  for (uint32_t m = mask; m; m &= m - 1) f(std::countr_zero(m));
}

/// Host pointer for an access of `bytes` at `address` in `space` by `lane`; null after a fault was recorded.
std::byte* translate(Stepper& s, isa::Space space, uint64_t address, uint32_t bytes, uint32_t align, int lane, bool write);

inline uint64_t load_bytes(const std::byte* p, uint32_t bytes) {
  uint64_t v = 0;
  std::memcpy(&v, p, bytes);
  return v;
}

}  // namespace orrery::exec
