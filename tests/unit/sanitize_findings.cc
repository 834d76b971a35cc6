// Findings as data: JSON there and back, merging, suppression rules, SARIF's required properties.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "sanitize/collector.h"
#include "sanitize/render.h"
#include "sanitize/suppress.h"

namespace orrery::sanitize {
namespace {

Finding sample() {
  Finding f;
  f.check = "racecheck";
  f.kind = "read-after-write";
  f.message = "a thread reads what another wrote";
  f.place = {"kernel(int*)", "", "a.cu", 12, 40, "ld.shared.u32 %r1, [%r2];", true, {1, 2, 3}, {4, 5, 6}, {}};
  f.others.push_back({"The write", {"kernel(int*)", "", "a.cu", 10, 33, "st", true, {1, 2, 3}, {7, 0, 0}, {}}, "7"});
  f.remedy = "put __syncthreads() between the two";
  f.address = 0x1000;
  return f;
}

TEST(Findings, SurviveJson) {
  const Finding f = sample(), g = finding_from_json(to_json(f));
  EXPECT_EQ(g.key(), f.key());
  EXPECT_EQ(g.address, f.address);
  EXPECT_EQ(g.place.thread[2], 6u);
  EXPECT_EQ(g.others.at(0).place.source_line, 10u);
  EXPECT_EQ(to_json(g), to_json(f));
  EXPECT_NO_THROW(finding_from_json(to_json(Finding{})));
  EXPECT_ANY_THROW(finding_from_json("{"));
}

TEST(Findings, AreMergedByPlaceAndCounted) {
  const std::string file = testing::TempDir() + "findings.jsonl";
  std::remove(file.c_str());
  Collector collector(file);
  Finding f = sample();
  collector.add(f);
  f.place.thread[0] = 9;  // another thread at the same place
  collector.add(f);
  f.place.source_line = 13;
  collector.add(f);
  collector.finish();
  std::ofstream(file, std::ios::app) << "{\"check\": \"half a li";  // a process that was killed while writing
  const auto found = read_results(file);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].count, 2u);
  EXPECT_EQ(found[0].place.thread[0], 4u) << "the first stands for all";
  EXPECT_EQ(found[1].count, 1u);
}

TEST(Rules, MatchWithStars) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("void k*int)", "void kernel(int)"));
  EXPECT_FALSE(matches("void k*int", "void kernel(int)"));
  EXPECT_TRUE(matches("*/a.cu", "/src/x/a.cu"));
}

std::vector<Rule> rules_from(const std::string& text) {
  const std::string file = testing::TempDir() + "rules.toml";
  std::ofstream(file) << text;
  return read_rules(file);
}

TEST(Rules, SuppressWithAReason) {
  auto rules = rules_from("[[suppress]]\ncheck = \"racecheck\"\nfile = \"*a.cu\"\nline = 12\nreason = \"meant\"\n");
  std::vector<Finding> findings{sample(), sample()};
  findings[1].place.source_line = 14;
  const auto out = suppress(rules, findings);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].reason, "meant");
  EXPECT_EQ(findings.size(), 1u);
}

TEST(Rules, NeedAReasonAndKnownKeys) {
  EXPECT_THROW(rules_from("[[suppress]]\ncheck = \"racecheck\"\n"), base::Error);
  EXPECT_THROW(rules_from("[[suppress]]\nreason = \"x\"\nwhere = \"y\"\n"), base::Error);
  EXPECT_THROW(rules_from("suppress = 3"), base::Error);
  EXPECT_THROW(rules_from("[["), base::Error);
  EXPECT_THROW(read_rules("/nowhere/rules.toml"), base::Error);
}

TEST(Sarif, HasWhatTheStandardRequires) {
  const auto j = nlohmann::json::parse(render_sarif({}, {sample()}, {{sample(), "meant"}}));
  EXPECT_EQ(j["version"], "2.1.0");
  const auto& run = j["runs"][0];
  EXPECT_TRUE(run["tool"]["driver"]["name"].is_string());
  ASSERT_EQ(run["results"].size(), 2u);
  const auto& r = run["results"][0];
  EXPECT_TRUE(r["message"]["text"].is_string());
  EXPECT_EQ(r["locations"][0]["physicalLocation"]["region"]["startLine"], 12);
  EXPECT_EQ(r["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"], "a.cu");
  EXPECT_EQ(run["results"][1]["suppressions"][0]["justification"], "meant");
}

}  // namespace
}  // namespace orrery::sanitize
