// report/kernel_page.h: what `orrery time` found out about kernels, as one HTML file and as a trace.
//
// A record is one launch: what orrery time --json holds for it, with `details` (waits and issues of each machine instruction
// with its PTX and source, spans of warps and pipes of one SM, traffic by level). Both functions use the records alone.
#pragma once
#include <string>

#include "report/report.h"

namespace orrery::report {

/// One HTML file with nothing to load: for each launch the prediction, a roofline, traffic by level, waits by instruction
/// beside source, PTX and machine code, and a timeline of one SM. Tables hold all that is drawn.
std::string kernel_page(const Json& records);

/// Chrome trace events (Perfetto opens them): one process a launch, one row a warp and a pipe of one SM; microseconds.
std::string kernel_trace(const Json& records);

}  // namespace orrery::report
