// Building documents.
#include "report/report.h"

namespace orrery::report {

Json document(std::string title) {
  Json d;
  d["schema"] = "orrery.report/1";
  d["title"] = std::move(title);
  d["facts"] = Json::array();
  d["sections"] = Json::array();
  d["assumptions"] = Json::array();
  return d;
}

std::string to_json(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

void add_fact(Json& document, std::string name, Json value, std::string unit, std::string note) {
  Json fact;
  fact["name"] = std::move(name);
  fact["value"] = std::move(value);
  fact["unit"] = std::move(unit);
  if (!note.empty()) fact["note"] = std::move(note);
  document["facts"].push_back(std::move(fact));
}

Json& add_table(Json& document, std::string title,
                std::initializer_list<std::pair<const char*, const char*>> columns) {
  Json table;
  table["title"] = std::move(title);
  table["columns"] = Json::array();
  for (auto [name, unit] : columns) table["columns"].push_back({{"name", name}, {"unit", unit}});
  table["rows"] = Json::array();
  document["sections"].push_back(std::move(table));
  return document["sections"].back();
}

void add_notes(Json& document, std::string title, std::vector<std::string> notes) {
  Json section;
  section["title"] = std::move(title);
  section["notes"] = std::move(notes);
  document["sections"].push_back(std::move(section));
}

}  // namespace orrery::report
