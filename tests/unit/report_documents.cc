// Documents and their renderings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/report.h"

namespace orrery::report {
namespace {

using testing::HasSubstr;
using testing::Not;

Json sample() {
  Json d = document("a <title> & more");
  add_fact(d, "peak", 12.5, "GiB", "of 80");
  Json& t = add_table(d, "items", {{"what", ""}, {"bytes", "B"}});
  t["rows"].push_back(Json::array({"weights", 1234567}));
  t["rows"].push_back(Json::array({"</script><b>", 2}));
  add_notes(d, "remarks", {"one", "two"});
  Json line;
  line["title"] = "time";
  line["timeline"] =
      Json::array({{{"name", "gemm"}, {"resource", "compute"}, {"start", 0.0}, {"seconds", 1e-6}}});
  d["sections"].push_back(line);
  d["assumptions"].push_back("something");
  return d;
}

TEST(Report, TextHasFactsTablesAndAssumptions) {
  std::string text = to_text(sample());
  EXPECT_THAT(text, HasSubstr("peak  12.5 GiB  (of 80)"));
  EXPECT_THAT(text, HasSubstr("1,234,567"));
  EXPECT_THAT(text, HasSubstr("bytes [B]"));
  EXPECT_THAT(text, HasSubstr("Assumed\n  something"));
}

TEST(Report, HtmlIsSelfContainedAndEscaped) {
  std::string html = to_html(sample());
  EXPECT_THAT(html, HasSubstr("a &lt;title&gt; &amp; more"));
  EXPECT_THAT(html, Not(HasSubstr("<b></td>")));
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_EQ(html, to_html(sample()));
}

TEST(Report, TraceIsChromeFormat) {
  Json trace = Json::parse(to_trace(sample()));
  ASSERT_EQ(trace["traceEvents"].size(), 1u);
  EXPECT_EQ(trace["traceEvents"][0]["ph"], "X");
  EXPECT_EQ(trace["traceEvents"][0]["dur"], 1.0);
}

}  // namespace
}  // namespace orrery::report
