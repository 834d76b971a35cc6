// Sections D of the acceptance: measured serving rows. The accuracy reached is printed; limits are the stated
// targets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "graph/truth.h"
#include "graph/validate.h"
#include "graph/validate_goals.h"
#include "shared_data.h"

namespace orrery::graph {
namespace {

TEST(D3, NoMeasurementLiesBelowTheBandwidthBound) {
  REQUIRE_DATA(path, "open.csv");
  Accuracy a = validate_tpot(path);
  EXPECT_EQ(a.bound_violations, 0u);
  EXPECT_EQ(a.refused, 0u);
}

TEST(D5, TimePerOutputToken) {
  REQUIRE_DATA(path, "open.csv");
  Accuracy a = validate_tpot(path);
  RecordProperty("median_percent", std::to_string(100 * a.median));
  RecordProperty("p90_percent", std::to_string(100 * a.p90));
  EXPECT_LE(a.median, 0.15);
  EXPECT_LE(a.p90, 0.35);
  EXPECT_LE(a.regret, 0.05);
}

TEST(D8, MaximumThroughput) {
  REQUIRE_DATA(path, "throughput.csv");
  Accuracy a = validate_throughput(path);
  EXPECT_EQ(a.rows, 86u);
  EXPECT_LE(a.median, 0.20);
  const auto ratio = one_h200_over_two_h100(a);
  ASSERT_TRUE(ratio);
  EXPECT_GT(*ratio, 0.58);
  EXPECT_LT(*ratio, 0.72);
}

// Ten iterations of Megatron of 2021 and eight of arXiv 2205.05198: within 5% on average.
TEST(C3, EighteenMegatronIterations) {
  REQUIRE_DATA(path, "megatron.csv");
  double sum = 0;
  int n = 0;
  for (const Compared& c : validate_training(path).compared) {
    if (!c.group.starts_with("megatron2021") && !c.group.starts_with("seqsel2022-tab5")) continue;
    sum += std::fabs(c.predicted / c.measured - 1), ++n;
  }
  EXPECT_EQ(n, 18);
  RecordProperty("mean_percent", std::to_string(100 * sum / n));
  EXPECT_LE(sum / n, 0.05);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

// Operators, steps, encoders and autoencoders as measured on H200s; the files are part of the repository.
TEST(Truth, OperatorsStepsMemoryAndEnergy) {
  std::map<std::string, std::vector<double>> time, energy, memory;
  for (const auto& entry : std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/calib/model-truth")) {
    if (entry.path().extension() != ".jsonl") continue;
    for (const Measured& m : compare_with_truth(entry.path().string()).rows) {
      if (m.bytes_measured > 0) memory[m.kind].push_back(std::fabs(m.bytes_predicted / m.bytes_measured - 1));
      if (m.measured == 0) continue;
      double error = std::fabs(m.predicted / m.measured - 1);
      time["all"].push_back(error), time[m.kind].push_back(error);
      if (m.joules_measured == 0) continue;
      error = std::fabs(m.joules_predicted / m.joules_measured - 1);
      energy["all"].push_back(error), energy[m.kind].push_back(error);
    }
  }
  EXPECT_GE(time["gemm"].size() + time["grouped"].size() + time["collective"].size(), 30u);
  EXPECT_GE(time["step, decode"].size() + time["step, prefill"].size(), 10u);
  EXPECT_LE(median(time["all"]), 0.10);
  EXPECT_LE(median(time["step, decode"]), 0.15);
  EXPECT_LE(median(time["step, prefill"]), 0.15);
  EXPECT_LE(median(time["autoencoder"]), 0.15);
  EXPECT_GE(time["expert layer"].size(), 10u);
  EXPECT_LE(median(time["expert layer"]), 0.10);
  EXPECT_LE(median(energy["all"]), 0.15);
  EXPECT_LE(median(energy["step, decode"]), 0.15);
  EXPECT_LE(median(energy["step, prefill"]), 0.15);
  EXPECT_LE(median(energy["autoencoder"]), 0.15);
  EXPECT_LE(median(memory["encoder"]), 0.05);
  EXPECT_LE(median(memory["autoencoder"]), 0.10);
}

}  // namespace
}  // namespace orrery::graph
