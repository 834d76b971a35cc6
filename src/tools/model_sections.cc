// Sections that the documents of several questions have.
#include "tools/model_sections.h"

#include <fmt/format.h>

#include "tools/model_ledgers.h"

namespace orrery::tools {

using namespace graph;

std::string plan_text(const Plan& p) {
  std::string text = fmt::format("tp {} pp {} dp {} cp {} ep {}", p.tp, p.pp, p.dp, p.cp, p.ep);
  if (p.zero) text += fmt::format(" zero {}", p.zero);
  for (const std::string& verb : p.verbs) text += "; " + verb;
  return text;
}

void add_plan(Json& doc, const Plan& plan, const Cluster& cluster) {
  int idle = cluster.gpus - plan.gpus();
  report::add_fact(doc, "plan", plan_text(plan), "",
                   idle > 0 ? fmt::format("{} of {} GPUs idle: --tp, --pp or --dp divide over more", idle, cluster.gpus) : "");
}

void add_advice(Json& doc, std::vector<std::string> advice) {
  if (!advice.empty()) report::add_notes(doc, "what to change", std::move(advice));
}

void note_untrained(Json& doc, const Graph& graph, double tokens) {
  if (graph.trained_positions > 0 && tokens > graph.trained_positions)
    report::add_notes(doc, "longer than the model allows",
                      {fmt::format("{:.0f} tokens were asked for, the config allows {} "
                                   "(max_position_embeddings, stretched by its rope_scaling): memory and time are those "
                                   "of that length, an engine refuses it unless it is told otherwise",
                                   tokens, graph.trained_positions)});
}

void add_assumptions(Json& doc, const Graph& graph, const Cluster& cluster, const Plan& plan,
                     Question question) {
  for (const std::string& verb : plan.verbs)
    if (!matters(verb, question))
      doc["assumptions"].push_back(fmt::format("'{}' changes nothing that this question asks for", verb));
  for (const std::string& note : graph.notes) doc["assumptions"].push_back(graph.name + ": " + note);
  for (const std::string& note : assumed_rates(plan, cluster.gpu)) doc["assumptions"].push_back(note);
  if (question == Question::kServe && plan.draft_tokens > 0 && !plan.draft)
    doc["assumptions"].push_back("the draft's cost is declared: its memory, prefill and energy are not counted ('draft MODEL' counts them)");
  if (question == Question::kFit || question == Question::kTrain)
    doc["assumptions"].push_back(fmt::format("libraries take {:.2f} GB: workspace of products{}", library_bytes(plan) / 1e9,
                                             has_communicator(plan) ? ", the communication library" : ""));
  add_assumed_values(doc, cluster);
}

void add_assumed_values(Json& doc, const Cluster& cluster) {
  for (FieldId field : cluster.gpu.assumed_fields_used()) {
    const FieldValue& v = cluster.gpu.at(field);
    doc["assumptions"].push_back(fmt::format("{}: {} = {} {} ({})", cluster.gpu.id(), field_spec(field).key,
                                             v.text.empty() ? fmt::format("{}", v.written) : v.text, v.unit,
                                             v.cite));
  }
}

void add_memory_timeline(Json& doc, const Program& program, const Binding& binding, const std::vector<MemoryItem>& items,
                         double capacity) {
  double rest = 0;
  for (const MemoryItem& item : items)
    if (item.cls != TensorClass::kActivation) rest += item.bytes;
  Json section;
  section["title"] = "memory over one step";
  section["chart"] = "lines";
  section["x"] = "operator";
  section["y"] = "GiB";
  Json live = {{"name", "in use"}, {"x", Json::array()}, {"y", Json::array()}}, limit = live;
  limit["name"] = "capacity";
  for (const auto& [op, bytes] : activation_timeline(program, binding)) {
    live["x"].push_back(op);
    live["y"].push_back((rest + bytes) / kGiB);
    limit["x"].push_back(op);
    limit["y"].push_back(capacity / kGiB);
  }
  section["series"] = {live, limit};
  doc["sections"].push_back(std::move(section));
}

void add_memory(Json& doc, const std::vector<MemoryItem>& items, double capacity) {
  Json& table = report::add_table(doc, "memory",
                                  {{"what", ""}, {"class", ""}, {"bytes", "B"}, {"GiB", ""}, {"how", ""}});
  Json chart;
  chart["title"] = "memory of one GPU";
  chart["chart"] = "bars";
  chart["unit"] = "GiB";
  chart["limit"] = capacity / kGiB;
  chart["series"] = Json::array();
  for (const MemoryItem& item : items) {
    table["rows"].push_back(
        {item.what, std::string(name_of(item.cls)), item.bytes, item.bytes / kGiB, item.how});
    chart["series"].push_back({{"name", item.what}, {"value", item.bytes / kGiB}});
  }
  doc["sections"].push_back(std::move(chart));
}

}  // namespace orrery::tools
