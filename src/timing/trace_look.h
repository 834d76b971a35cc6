// timing/trace_look.h: looks at an instruction's operands before it is executed; private to trace.cc and trace_look.cc.
#pragma once
#include <vector>

#include "exec/stepper.h"
#include "timing/trace.h"

namespace orrery::timing {

struct Recording {
  exec::Stepper& s;
  const exec::Decoded& d;
  TracedBlock& block;
  Event e;
  bool keep = false;
  std::vector<Event> more;  // lanes that name other mbarriers
};

/// Fills the recording's event with what the instruction touches; `keep` is set when there is something to keep.
void look(Recording& r);

}  // namespace orrery::timing
