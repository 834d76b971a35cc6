// tools/check_report.cc: see check_report.h.
#include "tools/check_report.h"

#include <fmt/format.h>

#include <set>

#include "report/report.h"

namespace orrery::tools {

using report::Json;

namespace {

std::string where(const sanitize::Place& p) {
  if (p.source_line) return fmt::format("{}:{}", p.source_file, p.source_line);
  return p.ptx_line ? fmt::format("PTX line {}", p.ptx_line) : "";
}

std::string where(const Json& place) {
  const std::string file = place.value("source_file", "");
  const auto line = place.value("source_line", 0);
  return line ? fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line) : fmt::format("PTX line {}", place.value("ptx_line", 0));
}

/// Boxes and arrows of a wait-for graph (exec/wait_graph.h as JSON).
Json drawing(const Json& waits) {
  Json g{{"left", Json::array()}, {"right", Json::array()}, {"edges", Json::array()}};
  std::set<std::string> circle;
  for (const Json& name : waits["circle"]) circle.insert(name.get<std::string>());
  for (const Json& w : waits["waiters"]) g["left"].push_back({{"lines", {w["who"], "waits in " + where(w["place"]), w["place"].value("instruction", "")}}});
  for (const Json& r : waits["resources"]) {
    Json lines{r["name"], r["state"]};
    for (const Json& e : r["events"]) lines.push_back(fmt::format("{} {} ({})", e["who"].get<std::string>(), e["what"].get<std::string>(), where(e["place"])));
    g["right"].push_back({{"lines", lines}});
  }
  const auto number = [](const std::string& node) { return std::stoi(node.substr(node.find(' ') + 1)); };
  for (const Json& e : waits["edges"]) {
    const std::string from = e["from"], to = e["to"];
    const bool rightward = from.starts_with("waiter");
    const Json &waiter = waits["waiters"][size_t(number(rightward ? from : to))], &resource = waits["resources"][size_t(number(rightward ? to : from))];
    const bool marked = circle.contains(waiter["who"].get<std::string>()) && circle.contains(resource["name"].get<std::string>());
    g["edges"].push_back({{"from", number(from)}, {"to", number(to)}, {"rightward", rightward}, {"label", e["why"]}, {"marked", marked}});
  }
  return g;
}

void add_hang(Json& document, const Json& waits) {
  Json section;
  section["title"] = fmt::format("Who waits for whom in {}", waits.value("kernel", "the kernel"));
  section["graph"] = drawing(waits);
  document["sections"].push_back(section);
  Json& notes = document["sections"].emplace_back(Json{{"title", "What probably went wrong"}, {"notes", Json::array()}});
  for (const Json& n : waits["notes"]) notes["notes"].push_back(n);
}

}  // namespace

Json check_document(const sanitize::CheckedRun& run, const std::vector<sanitize::Finding>& findings) {
  Json document = report::document("orrery check " + (run.program.empty() ? std::string() : run.program[0]));
  report::add_fact(document, "findings", findings.size());
  report::add_fact(document, "exit status", run.exit_status);
  report::add_fact(document, "runs", run.runs);
  Json& table = report::add_table(document, "Findings", {{"check", ""}, {"kind", ""}, {"kernel", ""}, {"where", ""}, {"times", ""}, {"what", ""}, {"what would make it right", ""}});
  for (const sanitize::Finding& f : findings)
    table["rows"].push_back(Json::array({f.check, f.kind, f.place.kernel, where(f.place), f.count, f.waits.empty() ? f.message : f.message.substr(0, f.message.find('\n')), f.waits.empty() ? f.remedy : "see below"}));
  for (const sanitize::Finding& f : findings)
    if (!f.waits.empty()) add_hang(document, Json::parse(f.waits));
  return document;
}

}  // namespace orrery::tools
