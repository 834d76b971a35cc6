// The ledgers of one step as sections of a report: its lines, the totals by format, class and tier, link and
// use of energy, the roofline, the timeline of its operators on resources, and what the page's sliders
// recompute.
#pragma once

#include "graph/serve.h"
#include "graph/train.h"
#include "report/report.h"

namespace orrery::tools {

using report::Json;

struct StepLedgers {
  const graph::Program& program;
  const graph::Ledger& ledger;
  const graph::Binding& binding;
  graph::Rates rates;  // under the plan
  graph::StepTime time;
};

// Adds the sections; returns the seconds of the operators over all stages (without transfers from other tiers
// and the power limit). `title` names the table of lines, `result` what the sliders recompute: the step and
// `other` seconds that it needs besides, over `divisor`.
double add_step_ledgers(Json& document, const StepLedgers& step, const char* title, const char* result,
                        double other, double divisor);

// The same for the operators of a training iteration on one rank of a stage, forward, recomputed and backward.
void add_training_ledgers(Json& document, const graph::TrainAnswer& answer, double micro_batches);

// A fact that is the sum of a table's column, or follows from a table by `formula`.
void add_fact_of(Json& document, const char* name, double value, const char* unit, const char* table,
                 const char* column, std::string note = "", std::string formula = "");
// Whether it fits, which follows from the table of memory and the capacity.
void add_fact_of(Json& document, const char* name, bool fits, const char* table, std::string note = "");

}  // namespace orrery::tools
