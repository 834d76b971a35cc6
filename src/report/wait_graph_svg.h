// The drawing of a graph section of a report document; see wait_graph_svg.cc.
#pragma once
#include <string>
#include <vector>

#include "report/report.h"

namespace orrery::report {

/// One SVG element for `graph` (left, right, edges).
std::string graph_svg(const Json& graph);

}  // namespace orrery::report
