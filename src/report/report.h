// Reports: one JSON document, and its renderings as text and as one self-contained HTML file.
//
// Every number a user sees exists first in the document (schema "orrery.report/1", docs/report.md). The
// renderings are functions of the document alone, so this layer knows nothing of kernels or models, and the
// same document always gives the same bytes.
//
//   { schema, title, facts: [{name, value, unit, note}], sections: [section...], assumptions: [text...] }
//   section: { title, columns: [{name, unit}], rows: [[cell...]] }                a table
//          | { title, notes: [text...] }                                          remarks
//          | { title, chart: "bars"|"lines"|"roofline", x, y, series: [...] }     drawn in HTML only
//          | { title, model: "ledger", rates, lines, ... }                        what-if sliders in HTML
//          | { title, graph: { left, right, edges } }                             who waits for whom; drawn in HTML only
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace orrery::report {

using Json = nlohmann::ordered_json;

// An empty document with its title.
Json document(std::string title);
void add_fact(Json& document, std::string name, Json value, std::string unit = "", std::string note = "");
// Appends a table and returns it; add rows to ["rows"].
Json& add_table(Json& document, std::string title,
                std::initializer_list<std::pair<const char*, const char*>> columns);
void add_notes(Json& document, std::string title, std::vector<std::string> notes);

// The document as JSON. Bytes of a name (a folder's, on file systems that take any) that are no UTF-8 become U+FFFD.
std::string to_json(const Json& document, int indent = -1);
// Plain text for a terminal.
std::string to_text(const Json& document);
// One HTML file with nothing to load.
std::string to_html(const Json& document);
// Chrome trace events (open in Perfetto): one row per "resource" of the document's timeline section, if it
// has one.
std::string to_trace(const Json& document);

}  // namespace orrery::report
