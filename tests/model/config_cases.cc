// tests/model/config_cases.cc: see config_cases.h.
#include "config_cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace orrery::graph {

namespace {
constexpr std::string_view kParameters = "# parameters: ", kTolerance = "# tolerance: ";
}

const std::vector<ConfigCase>& config_cases() {
  static const std::vector<ConfigCase> cases = [] {
    std::vector<ConfigCase> out;
    for (const auto& file : std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/tests/model/configs")) {
      ConfigCase c;
      c.name = file.path().stem().string();
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);) {
        if (line.starts_with(kParameters)) c.parameters = std::stod(line.substr(kParameters.size()));
        else if (line.starts_with(kTolerance)) c.tolerance = std::stod(line.substr(kTolerance.size()));
        else if (!line.starts_with("#")) c.json += line + "\n";
      }
      out.push_back(std::move(c));
    }
    std::sort(out.begin(), out.end(), [](const ConfigCase& a, const ConfigCase& b) { return a.name < b.name; });
    return out;
  }();
  return cases;
}

const ConfigCase& config_case(std::string_view name) {
  for (const ConfigCase& c : config_cases())
    if (c.name == name) return c;
  throw std::out_of_range("no file tests/model/configs/" + std::string(name) + ".case");
}

Graph graph_of(std::string_view name) { return build_transformer(read_hf_config(config_case(name).json, "config.json")); }
double state_of(const Graph& graph, double tokens) { return state_bytes(graph, compile(graph, Plan{}), 1, tokens); }

}  // namespace orrery::graph
