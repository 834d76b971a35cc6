// report/kernel_page.cc: see kernel_page.h. Tables are written here; drawings are made from the embedded records by
// kernel_page_script.h, and say in words what they show.
#include "report/kernel_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/demangle.h"
#include "report/kernel_page_script.h"

namespace orrery::report {

namespace {

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

double number(const Json& j, const char* key) { return j.contains(key) && j[key].is_number() ? j[key].get<double>() : 0; }

std::string bytes(double n) { return n >= 1e9 ? fmt::format("{:.2f} GB", n / 1e9) : n >= 1e6 ? fmt::format("{:.2f} MB", n / 1e6) : fmt::format("{:.1f} kB", n / 1e3); }

void facts(std::string& out, const Json& r) {
  const auto fact = [&](const char* name, const std::string& value) { out += fmt::format("<div class=fact><dt>{}</dt><dd>{}</dd></div>", name, escape(value)); };
  out += "<dl class=facts>";
  fact("predicted time", fmt::format("{:.2f} us", number(r, "us")));
  fact("interval", fmt::format("{:.2f} to {:.2f} us", number(r, "low_us"), number(r, "high_us")));
  fact("bound by", fmt::format("{}, {:.0f}% of its rate", r.value("bound", ""), 100 * number(r, "fraction")));
  fact("occupancy", fmt::format("{:.0f}%, limited by {}", 100 * number(r, "occupancy"), r.value("limiter", "")));
  fact("waves", fmt::format("{:.2f}", number(r, "waves")));
  fact("registers, shared memory", fmt::format("{:.0f}, {}", number(r, "registers"), bytes(number(r, "shared_bytes"))));
  fact("clock", fmt::format("{:.0f} MHz", number(r, "clock_mhz")));
  fact("energy, power", fmt::format("{:.3f} mJ, {:.0f} W", 1e3 * number(r, "joules"), number(r, "watts")));
  out += "</dl>";
}

void traffic(std::string& out, const Json& m) {
  const double l1 = number(m, "l1_sectors"), l1_hits = number(m, "l1_hits"), l2 = number(m, "l2_read_sectors"), l2_hits = number(m, "l2_hits");
  out += "<table><caption>Traffic by level</caption><thead><tr><th scope=col>level<th scope=col>requested<th scope=col>hits</thead><tbody>";
  const auto row = [&](const char* level, const std::string& asked, const std::string& hits) { out += fmt::format("<tr><th scope=row>{}<td>{}<td>{}", level, asked, hits); };
  row("shared memory", fmt::format("{:.4g} wavefronts", number(m, "shared_wavefronts")), "");
  row("L1", bytes(32 * l1), l1 > 0 ? fmt::format("{:.0f}%", 100 * l1_hits / l1) : "");
  row("bulk copies", bytes(number(m, "copied")), "");
  row("L2 read", bytes(32 * l2), l2 > 0 ? fmt::format("{:.0f}%", 100 * std::min(1.0, l2_hits / l2)) : "");
  row("L2 written", bytes(32 * number(m, "l2_write_sectors")), "");
  row("memory read", bytes(number(m, "dram_read")), "");
  row("memory written", bytes(number(m, "dram_write")), "");
  out += "</tbody></table>";
}

struct Row {
  double issues = 0, waits = 0;
  std::vector<double> by_reason;
  std::string source, ptx, sass;
  int instructions = 0;
};

/// Waits by source line where there is one, else by PTX line.
std::vector<Row> rows_of(const Json& d) {
  std::map<std::string, Row> rows;
  for (const Json& line : d["lines"]) {
    const bool has_source = line.contains("line");
    const std::string ptx = line.contains("ptx") ? std::to_string(line["ptx"].get<int>()) : "";
    const std::string key = has_source ? fmt::format("s{}:{:08}", line["file"].get<int>(), line["line"].get<int>()) : fmt::format("p{:>8}", ptx);
    Row& row = rows[key];
    row.issues += number(line, "issues"), row.instructions++;
    row.by_reason.resize(d["waits"].size());
    for (size_t i = 0; line.contains("wait") && i < line["wait"].size(); i++) row.by_reason[i] += line["wait"][i].get<double>(), row.waits += line["wait"][i].get<double>();
    if (has_source && row.source.empty()) {
      const std::string file = std::to_string(line["file"].get<int>()), n = std::to_string(line["line"].get<int>());
      const std::string path = d["files"][line["file"].get<size_t>()].get<std::string>();
      row.source = path.substr(path.rfind('/') + 1) + ":" + n;
      if (d.contains("source") && d["source"].contains(file) && d["source"][file].contains(n)) row.source += "  " + d["source"][file][n].get<std::string>();
    }
    if (!ptx.empty() && d.contains("ptx") && d["ptx"].contains(ptx)) {
      const std::string text = ptx + "  " + d["ptx"][ptx].get<std::string>();
      if (row.ptx.find(text) == std::string::npos && row.ptx.size() < 600) row.ptx += (row.ptx.empty() ? "" : "\n") + text;
    }
    if (row.sass.size() < 300) row.sass += (row.sass.empty() ? "" : "\n") + fmt::format("{:04x} {}", line["at"].get<int>() * 16, line["sass"].get<std::string>());
  }
  std::vector<Row> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  std::sort(list.begin(), list.end(), [](const Row& a, const Row& b) { return a.waits > b.waits; });
  if (list.size() > 400) list.resize(400);
  return list;
}

void waits(std::string& out, const Json& d) {
  const std::vector<Row> rows = rows_of(d);
  double total = 0;
  for (const Row& row : rows) total += row.waits;
  out += "<div class=wide tabindex=0 role=region aria-label='waits by line'><table class=sortable><caption>Waits by line, of one SM, in cycles of all warps (a button in each heading sorts)</caption><thead><tr>";
  for (const char* name : {"source", "PTX", "machine code"}) out += fmt::format("<th scope=col><button type=button>{}</button>", name);
  for (const char* name : {"issues", "waits", "share"}) out += fmt::format("<th scope=col class=n><button type=button>{}</button>", name);
  out += "<th scope=col><button type=button>mostly for</button></thead><tbody>";
  for (const Row& row : rows) {
    const size_t most = size_t(std::max_element(row.by_reason.begin(), row.by_reason.end()) - row.by_reason.begin());
    const std::string why = row.waits > 0 ? fmt::format("{} ({:.0f}%)", d["waits"][most].get<std::string>(), 100 * row.by_reason[most] / row.waits) : "";
    out += fmt::format("<tr><td><code>{}</code><td><code>{}</code><td><code>{}</code><td class=n>{:.0f}<td class=n>{:.0f}<td class=n>{:.1f}%<td>{}", escape(row.source), escape(row.ptx), escape(row.sass),
                       row.issues, row.waits, total > 0 ? 100 * row.waits / total : 0, why);
  }
  out += "</tbody></table></div>";
}

void section(std::string& out, const Json& r, size_t i) {
  out += fmt::format("<section id=k{} aria-labelledby=h{}><h2 id=h{}>{}</h2><p>grid {}, block {}</p>", i, i, i, escape(base::demangled(r.value("kernel", ""))), escape(r.value("grid", Json()).dump()), escape(r.value("block", Json()).dump()));
  if (r.contains("error")) {
    out += fmt::format("<p>Not timed: {}</p></section>", escape(r["error"].get<std::string>()));
    return;
  }
  facts(out, r);
  if (r.contains("details")) {
    out += fmt::format("<h3>Roofline</h3><div class=draw data-draw=roofline data-k={}></div><h3>Why warps waited</h3><div class=draw data-draw=reasons data-k={}></div>", i, i);
    out += fmt::format("<h3>Memory</h3><div class=draw data-draw=memory data-k={}></div>", i);
    traffic(out, r["details"]["memory"]);
    out += fmt::format("<h3>One SM over time</h3><div class='draw wide' tabindex=0 role=region aria-label='timeline' data-draw=timeline data-k={}></div><h3>Where the time goes</h3>", i);
    waits(out, r["details"]);
  }
  if (r.contains("notes") && !r["notes"].empty()) {
    out += "<h3>Notes</h3><ul>";
    for (const Json& n : r["notes"]) out += "<li>" + escape(n.get<std::string>());
    out += "</ul>";
  }
  out += "</section>";
}

}  // namespace

std::string kernel_page(const Json& records) {
  std::string out = "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'><title>Orrery: kernels</title><style>";
  out += kKernelStyle;
  out += "</style></head><body><main><h1>Predicted kernels</h1><nav aria-label=kernels><ol>";
  for (size_t i = 0; i < records.size(); i++) out += fmt::format("<li><a href='#k{}'>{}</a> {:.2f} us", i, escape(base::demangled(records[i].value("kernel", ""))), number(records[i], "us"));
  out += "</ol></nav>";
  for (size_t i = 0; i < records.size(); i++) section(out, records[i], i);
  Json drawn = Json::array();  // what the drawings need
  for (const Json& r : records) {
    Json d;
    for (const char* key : {"us", "clock_mhz", "bound", "fraction"})
      if (r.contains(key)) d[key] = r[key];
    if (r.contains("details")) {
      for (const char* key : {"waits", "spans", "memory", "classes", "tensor_busy", "gpu"})
        if (r["details"].contains(key)) d[key] = r["details"][key];
      std::vector<double> sum(r["details"]["waits"].size());
      for (const Json& line : r["details"]["lines"])
        for (size_t i = 0; line.contains("wait") && i < line["wait"].size(); i++) sum[i] += line["wait"][i].get<double>();
      d["sum"] = sum;
    }
    drawn.push_back(std::move(d));
  }
  std::string text = drawn.dump();
  for (size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) text.replace(at, 2, "<\\/");
  out += "</main><script type=application/json id=records>" + text + "</script><script>";
  out += kKernelScript;
  return out + "</script></body></html>\n";
}

std::string kernel_trace(const Json& records) {
  Json events = Json::array();
  for (size_t k = 0; k < records.size(); k++) {
    const Json& r = records[k];
    const double us = 1 / std::max(1.0, number(r, "clock_mhz"));
    events.push_back({{"ph", "M"}, {"pid", k}, {"name", "process_name"}, {"args", {{"name", base::demangled(r.value("kernel", ""))}}}});
    if (!r.contains("details")) continue;
    const Json& spans = r["details"]["spans"];
    const auto add = [&](const char* list, const char* row, int base) {
      std::map<int, bool> named;
      for (const Json& s : spans[list]) {
        const int track = base + s[2].get<int>();
        if (!named[track]) events.push_back({{"ph", "M"}, {"pid", k}, {"tid", track}, {"name", "thread_name"}, {"args", {{"name", fmt::format("{} {}", row, s[2].get<int>())}}}});
        named[track] = true;
        const Json& names = r["details"]["waits"];
        events.push_back({{"ph", "X"}, {"pid", k}, {"tid", track}, {"ts", s[0].get<double>() * us}, {"dur", (s[1].get<double>() - s[0].get<double>()) * us}, {"name", names[s[3].get<size_t>()]}});
      }
    };
    add("tensor", "tensor core", 0), add("copies", "copy engine", 100), add("warps", "warp", 1000);
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ns"}}.dump();
}

}  // namespace orrery::report
