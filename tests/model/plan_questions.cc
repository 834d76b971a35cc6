// A search over plans by the program: the command that it ends with, asked again, gives the figures of the plan that
// stands first; ranks of MPI give the same document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program_test.h"

namespace orrery::graph {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class PlanQuestions : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    fs::create_directories(folder_ / "a model's folder");
    std::ofstream(config_) << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16,
      "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 8192, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16"})";
  }
  // The document that a command prints; its log goes beside it.
  Json document(const std::string& command) const {
    std::string text = printed(command);
    Json doc = Json::parse(text, nullptr, false);
    EXPECT_TRUE(doc.is_object()) << command << "\n" << text;
    return doc.is_object() ? doc : Json::object();
  }
  Json plans(const std::string& question) const {
    return document(ORRERY_PROGRAM " model plan " + question + " --json --threads 1");
  }
  // A fact of a report by its name.
  static double fact(const Json& doc, const std::string& name) {
    for (const Json& f : doc.value("facts", Json::array()))
      if (f["name"] == name && f["value"].is_number()) return f["value"];
    ADD_FAILURE() << "no number " << name;
    return 0;
  }

  fs::path config_ = folder_ / "a model's folder" / "config.json";
};

TEST_F(PlanQuestions, TheLastLineAsksForTheFirstPlan) {
  std::string quoted = "\"" + config_.string() + "\"";
  for (const std::string& question : {
           std::string("llama-3.1-8b --gpu h100:2"),
           std::string("llama-3.1-8b --gpu h200 --kv bf16"),
           std::string("llama-3.1-8b --gpu h200 --weights 'int4 g128' --kv bf16 --engine sglang"),
           std::string("llama-3.1-8b --gpu h200:2 --do 'requant kv bf16' --do 'requant weight bf16'"),
           std::string("llama-3.1-70b --gpu h200:8 --do 'admit chunk 512' --fine --goal ttft"),
           std::string("llama-3.1-8b --gpu h200 --do 'speculate 4 accept 0.7 cost 0.1' --input 3000 --output 100"),
           std::string("gpt-oss-20b --gpu h100:2 --formats 'int4 g128' --goal tpot"),
           std::string("gpt-2 --gpu h100"),
           quoted + " --gpu h100 --goal joules",
       }) {
    SCOPED_TRACE(question);
    Json plan = plans(question);
    ASSERT_TRUE(plan.contains("sections"));
    const Json& first = plan["sections"][0]["rows"][0];
    std::string line = plan["sections"].back()["notes"][0];
    SCOPED_TRACE(line);
    ASSERT_TRUE(line.starts_with("orrery model serve "));
    Json served = document(ORRERY_PROGRAM + line.substr(6) + " --json");
    EXPECT_DOUBLE_EQ(fact(served, "output tokens"), first[9].get<double>());
    EXPECT_DOUBLE_EQ(fact(served, "TPOT"), first[11].get<double>());
    EXPECT_DOUBLE_EQ(fact(served, "TTFT"), first[12].get<double>());
    EXPECT_DOUBLE_EQ(fact(served, "energy"), first[13].get<double>());
  }
}

TEST_F(PlanQuestions, RanksOfMpiGiveTheSameDocument) {
  const char* const kRanks = ORRERY_PLAN_MPI;
  if (!*kRanks || std::system("command -v mpirun >/dev/null")) GTEST_SKIP() << "no MPI";
  for (const char* question : {"mixtral-8x7b --gpu h200:4 --kv bf16 --formats bf16 fp8 --fine", "gpt-2 --gpu h100:2"})
    EXPECT_EQ(document(std::string("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                                   "mpirun --oversubscribe -n 3 ") +
                       kRanks + " " + question),
              plans(question))
        << question;
}

// Plans of training: every row is what `train` says of its plan, no other row beats it, and the first is asked by the line.
TEST_F(PlanQuestions, TrainingPlansAreWhatTrainSays) {
  std::string quoted = "\"" + config_.string() + "\"";
  for (const std::string& question : {std::string("llama-3.1-8b --gpu h100:8 --seq 8192 --batch 64"),
                                      std::string("mixtral-8x7b --gpu h100:64 --seq 4096 --batch 256 --do 'overlap data 0.9'"),
                                      std::string("llama-3.1-8b --gpu h200:16 --seq 65536 --batch 16 --goal memory"),
                                      quoted + " --gpu a100:4 --seq 4096 --batch 32 --goal joules --precision fp16"}) {
    SCOPED_TRACE(question);
    Json plan = plans(question + " --train");
    ASSERT_TRUE(plan.contains("sections"));
    const Json& rows = plan["sections"][0]["rows"];
    ASSERT_GT(rows.size(), 2u);
    for (const Json& a : rows)
      for (const Json& b : rows)
        EXPECT_FALSE(a != b && a[9] <= b[9] && a[12] <= b[12] && a[13] <= b[13]) << a << " beats " << b;
    std::string line = plan["sections"][1]["notes"][0];
    SCOPED_TRACE(line);
    ASSERT_TRUE(line.starts_with("orrery model train "));
    Json trained = document(ORRERY_PROGRAM + line.substr(6) + " --json");
    EXPECT_DOUBLE_EQ(fact(trained, "iteration"), rows[0][9].get<double>());
    EXPECT_DOUBLE_EQ(fact(trained, "energy"), rows[0][12].get<double>());
    EXPECT_DOUBLE_EQ(fact(trained, "peak memory"), rows[0][13].get<double>());
  }
  // The same for any number of threads; what the search decides by itself is not asked for.
  std::string asked = ORRERY_PROGRAM " model plan llama-3.1-8b --train --gpu h100:8 --seq 8192 --batch 64 --json --threads ";
  EXPECT_EQ(document(asked + "1"), document(asked + "3"));
  EXPECT_EQ(document(asked + "1"), document(asked + "100000000"));  // no more than there is work for
  EXPECT_THAT(printed(asked + "-1"), testing::HasSubstr("threads must not be negative"));
  for (const char* more : {"--tp 2", "--do 'recompute full'", "--do 'stage 2'", "--slo tpot=30ms", "--goal tpot", "--input 512"})
    EXPECT_EQ(printed(asked + "1 " + more).find("orrery model: "), 0u) << more;
  for (const char* more : {"--seq 8192", "--batch 64", "--precision fp8"})
    EXPECT_THAT(printed(ORRERY_PROGRAM " model plan llama-3.1-8b --gpu h100:8 " + std::string(more)), testing::HasSubstr("--train")) << more;
}

// Where no plan is legal, what refuses them is said, not that something does.
TEST_F(PlanQuestions, WhatRefusesEveryPlanIsNamed) {
  auto said = [&](const char* question) { return printed(std::string(ORRERY_PROGRAM " model plan llama-3.1-70b --train --seq 8192 ") + question); };
  EXPECT_THAT(said("--gpu h100:8 --batch 8 --do 'place expert host'"), testing::HasSubstr("experts by themselves are placed in serving"));
  EXPECT_THAT(said("--gpu h100:7 --batch 8"), testing::AllOf(testing::HasSubstr("64 heads cannot be divided over 7"),
                                                             testing::HasSubstr("a batch of 8 does not divide over 7")));
}

// Not one request has room: no rate is served, not a small one.
TEST_F(PlanQuestions, AModelThatDoesNotFitServesNoRate) {
  std::string asked = ORRERY_PROGRAM " model serve llama-3.1-70b --gpu h100 --rate 2";
  EXPECT_EQ(fact(document(asked + " --json"), "highest rate"), 0);
  EXPECT_THAT(printed(asked), testing::HasSubstr("not one request finds room"));
}

// A file system takes names that are no UTF-8; a document is UTF-8 all the same.
TEST_F(PlanQuestions, AFolderMayHaveAnyName) {
  fs::path folder = folder_ / "caf\xe9";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 256})";
  nlohmann::json doc = document(ORRERY_PROGRAM " model fit '" + folder.string() + "' --json");
  EXPECT_THAT(doc.value("title", ""), testing::HasSubstr("caf\uFFFD"));
}

// Ranks of the batch that nobody gave are what the other divisions leave, whether options or techniques say them.
TEST_F(PlanQuestions, DataRanksFollowFromTheOtherDivisions) {
  std::string asked = ORRERY_PROGRAM " model train mixtral-8x7b --gpu h100:16 --zero 1 --seq 4096 --batch 16 --json ";
  auto seconds = [&](const std::string& more) { return fact(document(asked + more), "iteration"); };
  EXPECT_EQ(seconds("--do 'shard expert 8'"), seconds("--dp 16 --ep 8"));
  EXPECT_EQ(seconds("--do 'shard tensor 2' --do 'stage 2' --do 'shard expert 8'"), seconds("--tp 2 --pp 2 --dp 4 --ep 8"));
  EXPECT_GT(seconds("--do 'shard expert 8 load 2'"), seconds("--do 'shard expert 8 load 1'"));
}

// A plan file is its options: the same document, but for what a command line says besides.
TEST_F(PlanQuestions, APlanFileSaysWhatOptionsSay) {
  fs::path plan = folder_ / "plan.toml";
  std::ofstream(plan) << "gpu = \"h200:8\"\ntp = 4\ndp = 2\nweights = \"fp8\"\n"
                         "do = [\"requant kv fp8\", \"admit chunk 1024\"]\n";
  std::string file = " --json --plan " + plan.string(), asked = ORRERY_PROGRAM " model ";
  std::string words = " --json --weights fp8 --do 'requant kv fp8' --do 'admit chunk 1024'";
  for (const char* question : {"serve llama-3.1-8b", "fit llama-3.1-8b --batch 4"})
    EXPECT_EQ(document(asked + question + file), document(asked + question + words + " --gpu h200:8 --tp 4 --dp 2")) << question;
  EXPECT_EQ(document(asked + "serve llama-3.1-8b --tp 2 --gpu h200:4 --do 'requant kv bf16'" + file),
            document(asked + "serve llama-3.1-8b --tp 2 --gpu h200:4 --dp 2" + words + " --do 'requant kv bf16'"));
  std::ofstream(plan) << "gpu = \"h100:8\"\ndp = 4\ndo = [\"shard zero 3\"]\n";
  EXPECT_EQ(document(asked + "train llama-3.1-8b" + file),
            document(asked + "train llama-3.1-8b --json --gpu h100:8 --dp 4 --do 'shard zero 3'"));
  for (auto [text, why] : {std::pair{"zero = 3", "zero"}, {"tp = 0", "tp"}, {"tp = \"4\"", "tp"}, {"do = \"skip\"", "do"},
                           {"do = [4]", "do"}, {"gpu = 8", "gpu"}, {"tp =", ":1"}}) {
    std::ofstream(plan) << text << "\n";
    std::string said = printed(asked + "fit llama-3.1-8b --plan " + plan.string());
    EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("plan.toml"), testing::HasSubstr(why))) << text;
  }
  EXPECT_THAT(printed(asked + "fit llama-3.1-8b --plan " + folder_.string()), testing::HasSubstr("is a folder"));
}

}  // namespace
}  // namespace orrery::graph
