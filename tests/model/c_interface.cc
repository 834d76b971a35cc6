// The C interface and its C++ wrapper: whole questions as the program answers them, steps and bytes within what the
// weights allow, errors as codes, text and exceptions.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "orrery/model.hpp"
#include "output_of.h"

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

TEST(CInterface, AnswersWhatTheProgramAnswers) {
  if (!std::filesystem::exists(ORRERY_PROGRAM)) GTEST_SKIP() << "the program is not built";
  std::string cache = std::filesystem::temp_directory_path() / ("orrery-c-interface-" + std::to_string(getpid()));
  const std::vector<std::vector<std::string>> questions = {
      {"fit", "llama-3.1-70b", "--gpu", "h200:2", "--tp", "2", "--batch", "64"},
      {"serve", "llama-3.1-8b", "--gpu", "h200", "--concurrency", "8"},
      {"serve", "llama-3.1-70b", "--gpu", "h200:2", "--tp", "2", "--rate", "400"},
      {"train", "llama-3.1-8b", "--gpu", "h100:8", "--zero", "3"},
      {"render", "flux-dev", "--gpu", "rtx4090"},
      {"plan", "llama-3.1-8b", "--gpu", "h200:2", "--threads", "1"},
  };
  std::vector<bool> yes;
  for (const auto& words : questions) {
    std::string command = "XDG_CACHE_HOME=" + cache + " " ORRERY_PROGRAM " model";
    for (const std::string& word : words) command += " " + word;
    nlohmann::json printed = nlohmann::json::parse(orrery::graph::output_of(command + " --json"), nullptr, false);
    orrery::model::Answer answer = orrery::model::ask(words);
    ASSERT_TRUE(printed.is_object()) << command;
    EXPECT_EQ(nlohmann::json::parse(answer.document), printed) << command;
    yes.push_back(answer.yes);
  }
  EXPECT_EQ(yes, (std::vector<bool>{true, true, false, true, true, true}));
  std::filesystem::remove_all(cache);
}

TEST(CInterface, QuestionsThatAreNoneAreErrors) {
  EXPECT_THROW(orrery::model::ask({"fits", "llama-3.1-8b"}), orrery::model::Error);
  EXPECT_THROW(orrery::model::ask({"fit", "llama-3.1-8b", "--gpus", "h200"}), orrery::model::Error);
  EXPECT_THROW(orrery::model::ask({"why", "last", "TPOT"}), orrery::model::Error);
  EXPECT_THROW(orrery::model::ask({}), orrery::model::Error);
  for (const char* file : {"--html", "--trace"})  // nothing would be written
    EXPECT_THROW(orrery::model::ask({"fit", "llama-3.1-8b", file, "unwritten"}), orrery::model::Error) << file;
  EXPECT_THROW(orrery::model::ask({"fit", "--help"}), orrery::model::Error);
  try {
    orrery::model::ask({"fit", "no-such-model"});
    ADD_FAILURE() << "an unknown model was answered";
  } catch (const orrery::model::Error& error) {
    EXPECT_NE(std::strstr(error.what(), "no-such-model"), nullptr);
  }
  char* document = nullptr;
  EXPECT_NE(orrery_model_ask(1, nullptr, &document, nullptr), 0);
  EXPECT_STREQ(orrery_model_error(), "words is NULL");
  const char* word = "fit";
  EXPECT_NE(orrery_model_ask(0, &word, &document, nullptr), 0);
  EXPECT_NE(std::strstr(orrery_model_error(), "0 words"), nullptr) << orrery_model_error();
  EXPECT_NE(orrery_model_ask(1, &word, nullptr, nullptr), 0);
  EXPECT_NE(std::strstr(orrery_model_error(), "document is NULL"), nullptr) << orrery_model_error();
  EXPECT_EQ(document, nullptr);
}

TEST(CInterface, WrapperStepsAsTheFunctionsDo) {
  orrery::model::Plan plan;
  plan.tp = 2, plan.weights = "fp8", plan.verbs = {"requant kv fp8"};
  orrery::model::Model model("Llama-3.1-70B", "h200:2", plan), moved = std::move(model);
  orrery_model_step step{};
  step.decode_sequences = 16, step.decode_context = 2000;
  EXPECT_GT(moved.step(step).seconds, 0.005);
  EXPECT_GT(moved.memory(16, 2000).bytes, 35e9);
  EXPECT_THROW(orrery::model::Model("Llama-3.1-70B", "h900"), orrery::model::Error);
}

}  // namespace
