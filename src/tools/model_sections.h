// Sections that the documents of several questions have: the plan in words, memory by item, what was assumed.
#pragma once

#include <string>
#include <vector>

#include "graph/serve.h"
#include "graph/verbs.h"
#include "report/report.h"

namespace orrery::tools {

using report::Json;

std::string plan_text(const graph::Plan& plan);
// The plan in words, and how many of the GPUs it leaves idle.
void add_plan(Json& document, const graph::Plan& plan, const graph::Cluster& cluster);
// The items as table and bars, against the capacity.
void add_memory(Json& document, const std::vector<graph::MemoryItem>& items, double capacity);
// Memory in use at each operator of a step, beside what stays; its maximum is the sum of the items.
void add_memory_timeline(Json& document, const graph::Program& program, const graph::Binding& binding,
                         const std::vector<graph::MemoryItem>& items, double capacity);
// What would make it fit, or use the GPUs that are there.
void add_advice(Json& document, std::vector<std::string> advice);
// That a text is longer than the model's config allows.
void note_untrained(Json& document, const graph::Graph& graph, double tokens);
// Verbs that change nothing of what was asked, notes of the model's reader, and the assumed values of the profile.
void add_assumptions(Json& document, const graph::Graph& graph, const graph::Cluster& cluster,
                     const graph::Plan& plan, graph::Question question);
// The assumed values of the GPU's profile that the answer used.
void add_assumed_values(Json& document, const graph::Cluster& cluster);

}  // namespace orrery::tools
