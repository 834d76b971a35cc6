// tools/check_report.h: the findings of `orrery check` as a report document (report/report.h), with the wait-for graph of
// every hang.
#pragma once
#include <nlohmann/json.hpp>

#include "sanitize/render.h"

namespace orrery::tools {

/// The document of a checked run.
nlohmann::ordered_json check_document(const sanitize::CheckedRun& run, const std::vector<sanitize::Finding>& findings);

}  // namespace orrery::tools
