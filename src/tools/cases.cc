// tools/cases.cc: see cases.h.
#include "tools/cases.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace orrery::tools {

using nlohmann::json;

/// Names of a truth program's cases in the order in which it launches them.
std::vector<std::string> case_names(const std::string& program, const std::string& pattern) {
  std::vector<std::string> names;
  FILE* p = popen(("'" + program + "' list").c_str(), "r");
  char line[512];
  while (p && std::fgets(line, sizeof line, p)) {
    const std::string text = line;
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = text.substr(space + 1, text.find_last_not_of("\n") - space);
    if (name.find(pattern) != std::string::npos) names.push_back(name);
  }
  if (p) pclose(p);
  return names;
}

void write_or_throw(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file);
}

void require_writable(const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  const bool may = access(file.c_str(), F_OK) == 0 ? access(file.c_str(), W_OK) == 0 && !std::filesystem::is_directory(file) : access(folder.c_str(), W_OK | X_OK) == 0;
  if (!may) throw std::runtime_error("cannot write " + file);
}

std::map<std::string, json> read_truth(const std::string& file) {
  std::map<std::string, json> truth;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (json j = json::parse(line, nullptr, false); j.is_object() && j.contains("case") && j["case"].is_string()) truth[j["case"]] = j;
  return truth;
}

std::pair<int, std::vector<json>> time_quietly(const TimeOptions& options, const std::vector<std::string>& program, const std::string& output) {
  const int out = dup(1), elsewhere = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::fflush(stdout);
  dup2(elsewhere, 1);
  auto result = time_program(options, program);
  dup2(out, 1);
  close(out), close(elsewhere);
  return result;
}

/// The record of one case. Cases are chosen by what their names hold, so that others may run along.
std::optional<json> predict_case(const TimeOptions& options, const std::string& program, const std::string& name, const std::vector<std::string>& names) {
  size_t place = 0;
  for (const std::string& other : names) {
    if (other == name) break;
    place += other.find(name) != std::string::npos;
  }
  const auto [status, records] = time_quietly(options, {program, "once", name});
  if (place >= records.size()) return std::nullopt;
  return records[place];
}

}  // namespace orrery::tools
