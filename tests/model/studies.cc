// Every published system of the model layer has a study that runs, and nearly all of them predict something.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "graph/expression.h"
#include "graph/study.h"
#include "shared_data.h"

namespace orrery::graph {
namespace {

std::string folder() { return std::string(ORRERY_SOURCE_DIR) + "/studies"; }

TEST(Studies, EachRuns) {
  int predicted = 0;
  for (const std::string& file : study_files(folder())) {
    Study s = run_study(file);
    predicted += !s.predictions.empty();
    EXPECT_FALSE(s.title.empty() || s.claim.empty()) << file;
    for (const Prediction& p : s.predictions) EXPECT_GT(p.value, 0) << file << ": " << p.name;
    EXPECT_FALSE(study_text(s).empty());
  }
  EXPECT_GE(predicted, 55);
}

TEST(Studies, FilesThatAreNoStudies) {
  const std::string path = (std::filesystem::temp_directory_path() / "none.toml").string();
  for (const char* text : {"[{x]", "id = \"none\"\narithmetic = [1]", "id = \"none\"\npredict = 5", "id = \"none\""}) {
    std::ofstream(path) << text;
    EXPECT_THROW(run_study(path), base::Error) << text;
  }
  std::filesystem::remove(path);
}

TEST(Studies, EveryRowHasOne) {
  const char* env = std::getenv("ORRERY_SHARED");
  std::filesystem::path base =
      env ? std::filesystem::path(env) : std::filesystem::path(ORRERY_SOURCE_DIR) / ".." / "shared";
  std::ifstream in(base / "data" / "seed-systems.tsv");
  if (!in) GTEST_SKIP() << "needs shared data: seed-systems.tsv";
  std::set<std::string> have;
  for (const std::string& file : study_files(folder())) have.insert(std::filesystem::path(file).stem());
  int rows = 0, model = 0;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '\t');) cells.push_back(cell);
    if (cells.size() < 6 || cells[0] == "id") continue;
    ++rows;
    model += cells[5] == "model";
    EXPECT_TRUE(have.contains(cells[0])) << "no study for " << cells[0];
  }
  EXPECT_GE(rows, 130);
  EXPECT_EQ(model, 60);
}

TEST(Studies, TheArithmeticFindsKnownContradictions) {
  Study s = run_study(folder() + "/tma-descriptor-by-value.toml");
  ASSERT_EQ(s.judgements.size(), 1u);
  EXPECT_EQ(s.judgements[0].value, 400);
  EXPECT_FALSE(s.judgements[0].agrees);
  Study megatron = run_study(folder() + "/megatron-lm.toml");
  for (const Judgement& j : megatron.judgements) EXPECT_TRUE(j.agrees) << j.name;
}

TEST(Expression, Evaluates) {
  EXPECT_EQ(evaluate("1+2*3^2"), 19);
  EXPECT_EQ(evaluate("(1+2)*-3"), -9);
  EXPECT_DOUBLE_EQ(evaluate("502e15/3072/312e12"), 502e15 / 3072 / 312e12);
  EXPECT_DOUBLE_EQ(evaluate("40%*10"), 4);
  EXPECT_EQ(evaluate("log2(256)/4"), 2);
  EXPECT_EQ(evaluate("max(2, min(7, 3))"), 3);
  for (const char* bad : {"", "1+", "(1", "1)", "f(2)", "2 2", "max(1)"})
    EXPECT_THROW(evaluate(bad), base::Error) << bad;
}

}  // namespace
}  // namespace orrery::graph
