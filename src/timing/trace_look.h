// timing/trace_look.h: looks at an instruction's operands before it is executed; private to trace.cc, trace_look.cc,
// trace_copies.cc and trace_texels.cc.
#pragma once
#include <vector>

#include "exec/stepper.h"
#include "timing/lane_addresses.h"
#include "timing/trace.h"

namespace orrery::timing {

struct Recording {
  exec::Stepper& s;
  const exec::Decoded& d;
  TracedBlock& block;
  AccessPattern& pattern;           // of this instruction
  Event e;
  bool keep = false;
  std::vector<Event> more;  // lanes that name other mbarriers
};

/// Fills the recording's event with what the instruction touches; `keep` is set when there is something to keep.
void look(Recording& r);

// What look() is made of:

/// Name of an mbarrier: offset in its block's shared memory, and the block's rank.
uint32_t object_of(const exec::Stepper& s, isa::Space space, uint64_t address);
/// How a store of the lanes `mask` fills the sectors that it touches; where it fills some and writes parts of others, which: behind its lines.
Filled note_filled(Recording& r, const uint64_t* address, uint32_t mask, uint32_t bytes);
/// Tensor copies, in either direction, and prefetches.
void record_tensor(Recording& r);
/// Bulk copies of plain memory.
void record_bulk(Recording& r);

}  // namespace orrery::timing
