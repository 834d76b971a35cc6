// Answers of the model scale as report documents. Each fact that is a sum says which table's column it is the sum of
// ("why"), and `orrery model why` prints the lines with their sum.
#pragma once

#include <filesystem>
#include <string>

#include "graph/render.h"
#include "graph/serve.h"
#include "graph/train_search.h"
#include "report/report.h"

namespace orrery::tools {

using report::Json;

Json fit_document(const graph::FitQuestion& question, const graph::FitAnswer& answer);
// One forward pass of a model that makes no tokens (BERT, ViT): time, rate and energy of a batch.
Json encode_document(const graph::Graph& graph, const graph::Plan& plan, const graph::Cluster& cluster, double sequences,
                     double tokens, const graph::EncodeAnswer& answer);
Json serve_document(const graph::Graph& graph, const graph::Plan& plan, const graph::Cluster& cluster,
                    const graph::ServeQuestion& question, const graph::ServeAnswer& answer,
                    const graph::FitAnswer& memory);
// A rate that the plan does not serve: what it serves at most, what ends it, what to change.
Json overload_document(const graph::Graph& graph, const graph::Plan& plan, const graph::Cluster& cluster,
                       const graph::ServeQuestion& question, double highest_rate);
Json train_document(const graph::Graph& graph, const graph::Plan& plan, const graph::Cluster& cluster,
                    const graph::TrainQuestion& question, const graph::TrainAnswer& answer);
// `asked`: the model and what changes it, as a shell takes them.
Json train_plan_document(const graph::Graph& graph, const graph::Plan& base, const graph::Cluster& cluster,
                         const graph::TrainSearchQuestion& question, const graph::TrainSearchResult& result,
                         const std::string& asked);
Json render_document(const graph::DiffusionSpec& spec, const graph::RenderQuestion& question,
                     const graph::Cluster& cluster, const graph::RenderAnswer& answer,
                     const std::vector<std::string>& advice);

// Prints the lines behind the fact whose name contains `what`; throws base::Error when there is none.
std::string why(const Json& document, const std::string& what);
// The same of a report's file; "last": the report that was printed last.
std::string why_in(const std::string& file, const std::string& what);
std::filesystem::path last_report();

}  // namespace orrery::tools
