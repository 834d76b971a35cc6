// orrery audit [FOLDER] [ID ...]: published claims against arithmetic and against the model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "graph/study.h"
#include "tools/command.h"

namespace orrery::tools {
namespace {

// The studies of a table's rows (the first column names them), in its order; says which rows have none.
std::vector<std::string> in_order(const std::string& table, const std::string& folder, int& missing) {
  std::ifstream in(table);
  if (!in) base::fail("cannot read {}", table);
  std::vector<std::string> files;
  for (std::string line; std::getline(in, line);) {
    std::string id = line.substr(0, line.find('\t'));
    if (id.empty() || id == "id") continue;
    std::string file = (std::filesystem::path(folder) / (id + ".toml")).string();
    if (std::filesystem::exists(file)) {
      files.push_back(file);
    } else {
      fmt::print(stderr, "orrery audit: no study for the row {}\n", id);
      ++missing;
    }
  }
  return files;
}

int audit_command(const std::vector<std::string>& args) {
  std::string folder = "studies";
  std::set<std::string> wanted;
  std::string table;
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h") {
      fmt::print(
          "usage: orrery audit [FOLDER] [ROWS.tsv] [ID ...]\nReads FOLDER (default: studies) and prints for "
          "each study "
          "the claim, whether its own\n"
          "numbers agree, the technique in verbs, the prediction, and what had to be assumed.\n"
          "With ROWS.tsv the rows of that table in their order; a row without a study is named.\n");
      return 0;
    }
    if (arg.ends_with(".tsv"))
      table = arg;
    else if (std::filesystem::is_directory(arg))
      folder = arg;
    else
      wanted.insert(arg);
  }
  int agree = 0, disagree = 0, predicted = 0, shown = 0, failed = 0;
  try {
    std::vector<std::string> files = graph::study_files(folder);
    if (!table.empty()) files = in_order(table, folder, failed);
    for (const std::string& file : files) {
      if (!wanted.empty() && !wanted.contains(std::filesystem::path(file).stem())) continue;
      ++shown;
      try {
        graph::Study study = graph::run_study(file);
        fmt::print("{}\n", graph::study_text(study));
        for (const auto& j : study.judgements) ++(j.agrees ? agree : disagree);
        predicted += !study.predictions.empty();
      } catch (const base::Error& error) {
        fmt::print(stderr, "orrery audit: {}\n", error.what());
        ++failed;
      }
    }
    if (shown == 0) base::fail("no such study in {}", folder);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "orrery audit: {}\n", error.what());
    return 2;
  }
  fmt::print("{} studies, {} with a prediction; arithmetic: {} agree, {} do not\n", shown, predicted, agree,
             disagree);
  return failed ? 3 : 0;
}

ORRERY_COMMAND(audit, "published claims against arithmetic and against the model", audit_command);

}  // namespace
}  // namespace orrery::tools
