// The program's reports: every number is the sum of its lines, the same question gives the same bytes,
// timelines end at the peak, and the page's sliders recompute what the library computes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "program_test.h"

namespace orrery::graph {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class Reports : public ProgramTest {
 protected:
  std::string ask(const std::string& question) const { return printed(ORRERY_PROGRAM " model " + question); }
};

const char* const kQuestions[] = {
    "fit llama-3.1-70b --gpu h200:2 --tp 2 --batch 64 --context 8192",
    "fit llama-3.1-8b --gpu h200 --batch 3 --context 5001",
    "serve bert-large --gpu h200 --concurrency 32 --input 512",
    "fit gpt-oss-120b --gpu h100 --weights 'mxfp4 experts-only' --batch 8",
    "serve llama-3.1-8b --gpu h200 --weights fp8 --concurrency 16",
    "serve llama-3.1-70b --gpu h200:8 --tp 4 --pp 2 --concurrency 64",
    "serve deepseek-v3 --gpu h200:8 --dp 8 --ep 8 --weights fp8 --concurrency 128",
    "serve llama-3.1-70b --gpu h200 --do 'place weight host share 0.5' --do 'prefetch 0.5'",
    "serve llama-3.1-8b --gpu h200 --do 'speculate 4 accept 0.7 cost 0.1' --concurrency 8",
    "serve mixtral-8x7b --gpu a100:2 --tp 2 --concurrency 300 --input 4000",
    "train llama-3.1-8b --gpu h100:8 --zero 3 --seq 8192 --batch 64 --recompute full",
    "train llama-3.1-70b --gpu h100:64 --tp 8 --pp 4 --seq 8192 --batch 64 --sequence-parallel",
    "serve mixtral-8x7b --gpu rtx4090 --weights 'int4 g128' --do 'place expert host share 0.6 hit 0.9'",
    "serve llama-3.1-8b --gpu h200 --concurrency 64 --do 'share prefix 500 hit 0.5'",
    "serve deepseek-v3 --gpu h200:8 --dp 8 --concurrency 128 --do 'shard expert 8 load 1.5'",
    "render flux-dev --gpu rtx4090",
    "render wan2.2-ti2v-5b --gpu rtx4090 --weights bf16",
    "render sd3.5-medium --gpu rtx4090",
    "render Wan2.1-T2V-14B --gpu h100:4 --cp 4 --size 832x480 --frames 81 --do 'shard zero 3'",
    "render SANA-1.6B --gpu l40 --size 1024 --do 'place weight host'",
};

TEST_F(Reports, EveryNumberIsTheSumOfItsLines) {
  for (const char* question : kQuestions) {
    Json doc = Json::parse(ask(std::string(question) + " --json"), nullptr, false);
    ASSERT_FALSE(doc.is_discarded()) << question;
    int sums = 0;
    for (const Json& fact : doc["facts"]) {
      if (!fact.contains("why")) continue;
      const Json* table = nullptr;
      for (const Json& section : doc["sections"])
        if (section["title"] == fact["why"]["table"]) table = &section;
      ASSERT_NE(table, nullptr) << question << ": " << fact["name"];
      std::size_t column = 0;
      while (column < (*table)["columns"].size() &&
             (*table)["columns"][column]["name"] != fact["why"]["column"])
        ++column;
      ASSERT_LT(column, (*table)["columns"].size()) << fact["name"];
      if (fact["why"].contains("formula")) continue;
      double sum = 0;
      for (const Json& row : (*table)["rows"]) sum += row[column].get<double>();
      EXPECT_NEAR(sum, fact["value"].get<double>(), 1e-9 * std::fabs(sum))
          << question << ": " << fact["name"];
      ++sums;
    }
    EXPECT_GE(sums, 1) << question;
  }
}

// The longest sequence is sought by thousands: one that was asked for and fits is no longer than it.
TEST_F(Reports, LongestSequenceGoesWithTheVerdict) {
  auto longest = [&](const std::string& more) {
    Json doc = Json::parse(ask("train llama-3.1-8b " + more + " --json"), nullptr, false), found;
    for (const Json& fact : doc["facts"])
      if (fact["name"] == "fits" || fact["name"] == "longest sequence") found.push_back(fact["value"]);
    return found;
  };
  EXPECT_EQ(longest("--gpu h100:8 --dp 8 --zero 3 --seq 512 --micro-batch 16 --batch 128"), Json::array({"yes", 512.0}));
  EXPECT_EQ(longest("--gpu h100 --seq 512"), Json::array({"no", "less than 1,000"}));
}

// Laws G9 and G12: the four ledgers are sums over the step's lines; the timeline of memory has the peak as
// its maximum.
TEST_F(Reports, LedgersSumAndTimelinesPeak) {
  for (const char* question : kQuestions) {
    Json doc = Json::parse(ask(std::string(question) + " --json"), nullptr, false);
    ASSERT_FALSE(doc.is_discarded()) << question;
    std::map<std::string, double> column;
    double bytes = 0, operations = 0;
    for (const Json& section : doc["sections"]) {
      std::string title = section["title"].get<std::string>();
      if (title == "decode step" || title == "denoiser forward" || title == "forward pass" ||
          title == "operators of an iteration")
        for (const Json& row : section["rows"])
          for (std::size_t c = 0; c < row.size(); ++c)
            if (row[c].is_number())
              column[section["columns"][c]["name"].get<std::string>()] += row[c].get<double>();
      if (title == "bytes by class and tier")
        for (const Json& row : section["rows"]) bytes += row[2].get<double>();
      if (title == "operations by format")
        for (const Json& row : section["rows"]) operations += row[1].get<double>();
      if (!title.starts_with("memory over")) continue;
      double peak = 0;
      for (const Json& y : section["series"][0]["y"]) peak = std::max(peak, y.get<double>());
      for (const Json& fact : doc["facts"]) {
        if (fact["name"] != "peak memory") continue;
        EXPECT_NEAR(peak, fact["value"].get<double>(), 1e-9 * peak) << question;
      }
    }
    if (column.empty()) continue;
    EXPECT_NEAR(column["weight"] + column["state"] + column["activation"], bytes, 1e-9 * bytes) << question;
    EXPECT_NEAR(column["operations"], operations, 1e-9 * operations) << question;
  }
}

TEST_F(Reports, SameQuestionSameBytes) {
  for (const char* question : kQuestions) {
    std::string page = (folder_ / "page.html").string(), first, again;
    for (std::string* text : {&first, &again}) {
      *text = ask(std::string(question) + " --html " + page + " --trace " + page + ".trace");
      std::ostringstream files;
      files << std::ifstream(page).rdbuf() << std::ifstream(page + ".trace").rdbuf();
      *text += files.str();
    }
    EXPECT_EQ(first, again) << question;
    EXPECT_GT(first.size(), 2000u) << first;
  }
}

TEST_F(Reports, TraceHoldsTheWholeStep) {
  std::string trace = (folder_ / "step.json").string();
  Json doc = Json::parse(ask("serve llama-3.1-8b --gpu h200:2 --tp 2 --json --trace " + trace));
  Json events = Json::parse(std::ifstream(trace))["traceEvents"];
  double end = 0;
  std::set<std::string> resources;
  for (const Json& e : events) {
    end = std::max(end, e["ts"].get<double>() + e["dur"].get<double>());
    resources.insert(e["tid"].get<std::string>());
  }
  for (const Json& section : doc["sections"])
    if (section["title"] == "time per output token") {
      EXPECT_NEAR(end / 1e3, section["rows"][0][1].get<double>(), 1e-6);
    }
  EXPECT_TRUE(resources.contains("links") && resources.contains("memory"));
  EXPECT_GT(events.size(), 32u * 12);
}

// What a page's answer becomes when a slider is moved (in headless Chromium), by name.
std::map<std::string, std::string> moved_sliders(const fs::path& folder) {
  std::ofstream(folder / "frame.html")
      << "<body><iframe id=f src=page.html></iframe><script>f.onload=()=>{const "
         "d=f.contentDocument,o=document.body.dataset;"
         "const read=()=>d.querySelector('.answer').dataset.seconds,move=(k,v)=>{const "
         "i=d.querySelectorAll('input[type=range]')[k];i.value=v;"
         "i.dispatchEvent(new "
         "Event('input'))};o.given=read();move(0,1);o.memory=read();o.shown=d.querySelectorAll('output')[0]."
         "textContent;"
         "move(0,0);move(2,-1);o.links=read();move(2,0);o.back=read();o.drawn=d.querySelectorAll('svg')."
         "length}</script>";
  std::string page = output_of(
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files "
      "--virtual-time-budget=3000 --user-data-dir=" +
      (folder / "profile").string() + " --dump-dom file://" + (folder / "frame.html").string() +
      " 2>/dev/null");
  std::map<std::string, std::string> out;
  for (const char* name : {"given", "memory", "shown", "links", "back", "drawn"}) {
    std::string key = std::string("data-") + name + "=\"";
    auto at = page.find(key);
    EXPECT_NE(at, std::string::npos) << name;
    if (at == std::string::npos) continue;
    at += key.size();
    out[name] = page.substr(at, page.find('"', at) - at);
  }
  return out;
}
Cluster scaled(const char* gpu, int gpus, FieldId field, double scale) {
  Cluster c{load_profile(gpu), gpus};
  c.gpu.set(field, c.gpu.at(field).number * scale, "what if");
  return c;
}

// The page's answers are compared with the library's on a GPU that has the moved rate.
TEST_F(Reports, SlidersRecomputeWhatTheLibraryComputes) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
  Json doc = Json::parse(ask("serve llama-3.1-8b --gpu h200:2 --tp 2 --concurrency 32 --json --html " +
                             (folder_ / "page.html").string()));
  double other = 0, given = 0;
  for (const Json& section : doc["sections"])
    if (section.contains("model"))
      other = section["other"].get<double>(), given = section["given"].get<double>();
  auto page = moved_sliders(folder_);
  Graph g = build_transformer(load_transformer("llama-3.1-8b"));
  Plan plan;
  plan.tp = 2;
  auto tpot = [&](FieldId field, double scale) {
    StepShape s;
    s.decode_seqs = 32, s.decode_context = 1024 + 128;
    return StepPredictor(g, under(plan, find_engine("vllm")), scaled("h200", 2, field, scale))
               .step(s)
               .seconds +
           other;
  };
  EXPECT_NEAR(std::atof(page["given"].c_str()), given, 1e-9 * given);
  EXPECT_NEAR(std::atof(page["memory"].c_str()), tpot(FieldId::memory_bandwidth, 2), 1e-6 * given);
  EXPECT_NEAR(std::atof(page["links"].c_str()), tpot(FieldId::nvlink_bandwidth, 0.5), 1e-6 * given);
  EXPECT_EQ(page["back"], page["given"]);
  EXPECT_EQ(page["shown"], "2.00 x");
  EXPECT_GE(std::atoi(page["drawn"].c_str()), 3);  // memory, roofline, timeline
}

// A training page: the bubble, the board's limit and communication between ranks follow the sliders too.
TEST_F(Reports, SlidersRecomputeAnIteration) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
  Json doc = Json::parse(ask("train llama-3.1-8b --gpu h100:8 --tp 2 --pp 2 --zero 1 --seq 4096 --batch 16 "
                             "--json --html " +
                             (folder_ / "page.html").string()));
  auto page = moved_sliders(folder_);
  BuildOptions o;
  o.training = true;
  Graph g = build_transformer(load_transformer("llama-3.1-8b"), o);
  Plan plan;
  plan.tp = 2, plan.pp = 2, plan.dp = 2, plan.zero = 1;
  TrainQuestion q;
  q.sequence = 4096, q.global_batch = 16;
  auto seconds = [&](FieldId field, double scale) {
    return train(g, plan, scaled("h100", 8, field, scale), q).seconds;
  };
  double given = seconds(FieldId::nvlink_bandwidth, 1);
  EXPECT_NEAR(std::atof(page["given"].c_str()), given, 1e-9 * given);
  EXPECT_NEAR(std::atof(page["memory"].c_str()), seconds(FieldId::memory_bandwidth, 2), 1e-6 * given);
  EXPECT_NEAR(std::atof(page["links"].c_str()), seconds(FieldId::nvlink_bandwidth, 0.5), 1e-6 * given);
  EXPECT_EQ(page["back"], page["given"]);
}

// The lines of an iteration sum to its operators; the trace's operators end where its micro-batch does.
TEST_F(Reports, TrainingHasItsLinesAndItsTrace) {
  std::string trace = (folder_ / "trace.json").string();
  Json doc = Json::parse(ask("train llama-3.1-8b --gpu h100:8 --zero 3 --seq 8192 --batch 64 --recompute "
                             "selective --json --trace " +
                             trace));
  double lines = 0, operators = 0;
  for (const Json& section : doc["sections"]) {
    if (section["title"] == "operators of an iteration")
      for (const Json& row : section["rows"]) lines += row.back().get<double>();
    if (section["title"] == "time of an iteration")
      for (const Json& row : section["rows"])
        if (row[0] == "operators" || row[0] == "tensor-parallel communication")
          operators += row[1].get<double>();
  }
  EXPECT_NEAR(lines, operators, 1e-9 * operators);
  std::ifstream in(trace);
  double end = 0;
  Json events = Json::parse(in)["traceEvents"];
  for (const Json& e : events)
    if (e["pid"] == "timeline: one micro-batch")
      end = std::max(end, e["ts"].get<double>() + e["dur"].get<double>());
  EXPECT_NEAR(end * 1e-6 * 8, operators, 1e-6 * operators);  // eight micro-batches a rank
}

}  // namespace
}  // namespace orrery::graph
