// The C interface: errors as codes, the same numbers as the C++ library.
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

#include "graph/serve.h"
#include "orrery/model.h"

namespace {

TEST(CInterface, PredictsWhatTheLibraryPredicts) {
  orrery_model_plan plan{};
  plan.tp = 2;
  plan.weights = "fp8";
  orrery_model* model = nullptr;
  ASSERT_EQ(orrery_model_open("Llama-3.1-70B", "h200:2", &plan, &model), 0) << orrery_model_error();
  orrery_model_step step{};
  step.decode_sequences = 16;
  step.decode_context = 2000;
  orrery_model_cost cost{};
  ASSERT_EQ(orrery_model_predict(model, &step, &cost), 0);
  EXPECT_GT(cost.seconds, 0.005);
  EXPECT_LT(cost.seconds, 0.05);
  double bytes = 0, capacity = 0;
  ASSERT_EQ(orrery_model_memory(model, 16, 2000, &bytes, &capacity), 0);
  EXPECT_GT(bytes, 35e9);
  EXPECT_LT(bytes, capacity);
  step.decode_sequences = -1;
  EXPECT_NE(orrery_model_predict(model, &step, &cost), 0);
  orrery_model_close(model);
}

TEST(CInterface, ErrorsAreText) {
  orrery_model* model = nullptr;
  EXPECT_NE(orrery_model_open("no-such-model", "h200", nullptr, &model), 0);
  EXPECT_NE(std::strstr(orrery_model_error(), "no-such-model"), nullptr);
  EXPECT_NE(orrery_model_open(nullptr, "h200", nullptr, &model), 0);
  EXPECT_NE(orrery_model_open("Llama-3.1-8B", "h900", nullptr, &model), 0);
  EXPECT_EQ(model, nullptr);
  EXPECT_NE(orrery_model_predict(nullptr, nullptr, nullptr), 0);
}

TEST(CInterface, PredictsAHundredThousandStepsASecond) {
  orrery_model_plan plan{};
  plan.tp = 4;
  orrery_model* model = nullptr;
  ASSERT_EQ(orrery_model_open("Llama-3.1-70B", "h200:4", &plan, &model), 0) << orrery_model_error();
  orrery_model_step step{};
  orrery_model_cost cost{};
  double sum = 0;
  std::clock_t start = std::clock();
  for (int i = 0; i < 20000; ++i) {
    step.decode_sequences = 1 + i % 64, step.decode_context = i;
    ASSERT_EQ(orrery_model_predict(model, &step, &cost), 0);
    sum += cost.seconds;
  }
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  orrery_model_close(model);
  EXPECT_GT(sum, 0);
  EXPECT_GT(20000 / seconds, 1e5);
  printf("%.0f step predictions a second of CPU through the C interface\n", 20000 / seconds);
}

}  // namespace
