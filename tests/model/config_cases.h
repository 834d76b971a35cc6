// tests/model/config_cases.h: configs of published models, a file each in configs/, with the parameters that they must count
// in lines that begin with #.
//
// A config holds the facts of the shape as the publisher's config.json has them; fields without effect may be left out. The line
// `judge` says whose number the count is: most were written down from memory of the model's card, and a count that agrees to the
// digit with arithmetic on the shape is hardly remembered wrongly; round ones prove less.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graph/serve.h"

namespace orrery::graph {

struct ConfigCase {
  std::string name;
  double parameters = 0, tolerance = 0;  // 0: to the digit
  std::string json;                      // as a config.json
};

/// By name.
const std::vector<ConfigCase>& config_cases();
const ConfigCase& config_case(std::string_view name);
/// Its graph.
Graph graph_of(std::string_view name);
/// Bytes that a sequence of so many tokens keeps.
double state_of(const Graph& graph, double tokens);

}  // namespace orrery::graph
