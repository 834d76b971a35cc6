// The C interface: steps and bytes within what the weights allow, errors as codes and text.
#include <gtest/gtest.h>

#include <cstring>

#include "orrery/model.h"

namespace {

TEST(CInterface, PredictsStepsAndMemory) {
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

TEST(CInterface, StepsTakeLongerWithLongerContexts) {
  orrery_model_plan plan{};
  plan.tp = 4;
  orrery_model* model = nullptr;
  ASSERT_EQ(orrery_model_open("Llama-3.1-70B", "h200:4", &plan, &model), 0) << orrery_model_error();
  orrery_model_step step{};
  orrery_model_cost cost{};
  for (int sequences : {1, 16, 64}) {
    step.decode_sequences = sequences;
    double before = 0;
    for (int context = 1000; context <= 64000; context *= 2) {
      step.decode_context = context;
      ASSERT_EQ(orrery_model_predict(model, &step, &cost), 0);
      EXPECT_GT(cost.seconds, before) << sequences << " sequences of " << context;
      before = cost.seconds;
    }
  }
  orrery_model_close(model);
}

}  // namespace
