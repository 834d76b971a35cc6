// The document as one HTML file: style, charts and sliders inline, the document itself embedded for other
// tools.
#include <fmt/format.h>

#include "report/report.h"
#include "report/wait_graph_svg.h"

namespace orrery::report {
namespace {

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// JSON inside a script element must not close it.
std::string script_safe(std::string text) {
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3)
    text.replace(at, 2, "<\\/");
  return text;
}

constexpr const char* kStyle = R"(
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:68em;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;margin:.5em 0}
td,th{padding:.2em .8em;border-bottom:1px solid #8884;text-align:left;vertical-align:top}td{overflow-wrap:anywhere;min-width:3.5em}td.n{text-align:right;font-variant-numeric:tabular-nums}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(13em,1fr));gap:.8em}
.fact{border:1px solid #8884;border-radius:.5em;padding:.6em .8em}.fact b{display:block;font-size:1.3em}
.fact small,.note{opacity:.7}svg{width:100%;height:auto;max-width:60em}svg text{font-size:11px;fill:currentColor}
input[type=range]{width:16em;vertical-align:middle}
)";

// Draws every section that carries a chart, a timeline or a ledger, from the embedded document.
constexpr const char* kScript = R"JS(
const doc = JSON.parse(document.getElementById('document').textContent);
const hue = i => `hsl(${(i * 67) % 360} 60% 50%)`;
const fmt = v => typeof v !== 'number' ? v : Math.abs(v) >= 1000 ? Math.round(v).toLocaleString('en') : +v.toPrecision(4);
const esc = s => String(s).replace(/[&<>"]/g, c => ({'&':'&amp;','<':'&lt;','>':'&gt;','"':'&quot;'}[c]));
function bars(s, el) {
  const total = s.series.reduce((a, b) => a + b.value, 0), cap = s.limit || total;
  const width = Math.max(total, cap); let x = 0, out = '';
  s.series.forEach((b, i) => { const w = 800 * b.value / width;
    out += `<rect x="${x}" y="10" width="${w}" height="34" fill="${hue(i)}"><title>${esc(b.name)}: ${fmt(b.value)} ${s.unit}</title></rect>`;
    out += `<rect x="${(i % 3) * 270}" y="${62 + 18 * Math.floor(i / 3)}" width="10" height="10" fill="${hue(i)}"/><text x="${(i % 3) * 270 + 15}" y="${71 + 18 * Math.floor(i / 3)}">${esc(b.name)} ${fmt(b.value)} ${s.unit}</text>`;
    x += w; });
  if (s.limit) { const at = 800 * cap / width; out += `<line x1="${at}" x2="${at}" y1="4" y2="50" stroke="currentColor" stroke-dasharray="4"/>`; }
  el.innerHTML = `<svg viewBox="0 0 810 ${80 + 18 * Math.ceil(s.series.length / 3)}">${out}</svg>`;
}
function lines(s, el) {
  const xs = s.series.flatMap(l => l.x), ys = s.series.flatMap(l => l.y), log = s.log;
  const t = v => log ? Math.log10(Math.max(v, 1e-12)) : v;
  const x0 = Math.min(...xs.map(t)), x1 = Math.max(...xs.map(t)), y0 = log ? Math.min(...ys.map(t)) : 0, y1 = Math.max(...ys.map(t));
  const X = v => 60 + 720 * (t(v) - x0) / (x1 - x0 || 1), Y = v => 280 - 260 * (t(v) - y0) / (y1 - y0 || 1);
  let out = '<path d="M60 20V280H780" fill="none" stroke="currentColor" opacity=".4"/>';
  s.series.forEach((l, i) => {
    if (l.points) l.x.forEach((x, k) => out += `<circle cx="${X(x)}" cy="${Y(l.y[k])}" r="4" fill="${hue(i)}"><title>${esc(l.labels ? l.labels[k] : l.name)}: ${fmt(x)}, ${fmt(l.y[k])}</title></circle>`);
    else out += `<polyline fill="none" stroke="${hue(i)}" stroke-width="2" points="${l.x.map((x, k) => X(x) + ',' + Y(l.y[k])).join(' ')}"/>`;
    out += `<text x="640" y="${30 + 15 * i}" style="fill:${hue(i)}">${esc(l.name)}</text>`; });
  const un = v => log ? 10 ** v : v;
  out += `<text x="60" y="296">${fmt(un(x0))}</text><text x="740" y="296">${fmt(un(x1))}</text><text x="380" y="310">${esc(s.x)}</text><text x="2" y="30">${fmt(un(y1))}</text><text x="2" y="14">${esc(s.y)}</text>`;
  el.innerHTML = `<svg viewBox="0 0 810 316">${out}</svg>`;
}
function timeline(s, el) {
  const rows = [...new Set(s.timeline.map(e => e.resource))], end = Math.max(...s.timeline.map(e => e.start + e.seconds));
  let out = '';
  rows.forEach((r, i) => out += `<text x="0" y="${24 + 30 * i}">${esc(r)}</text>`);
  s.timeline.forEach((e, i) => out += `<rect x="${100 + 700 * e.start / end}" y="${8 + 30 * rows.indexOf(e.resource)}" width="${Math.max(.3, 700 * e.seconds / end)}" height="22" fill="${hue(i)}"><title>${esc(e.name)}: ${fmt(e.seconds * 1e6)} us</title></rect>`);
  el.innerHTML = `<svg viewBox="0 0 810 ${20 + 30 * rows.length}">${out}</svg>`;
}
function sliders(s, el) {
  const scale = s.rates.map(() => 1);
  el.innerHTML = s.rates.map((n, i) => `<div><label>${esc(n)} <input type="range" min="-2" max="2" step="0.1" value="0" data-n="${i}"> <output>1.00 x</output></label></div>`).join('') + '<p><b class="answer"></b></p>';
  const show = () => { let busy = 0, around = 0, outside = s.other;
    for (const l of s.lines) { const [memory, compute, link] = l.seconds.map((v, k) => v / scale[k]);
      const t = l.times * ((l.both ? Math.hypot(memory, compute) : Math.max(memory, compute, link)) + l.fixed / scale[3]);
      if (l.outside) outside += t; else { busy += t; around += t * (l.around || 0); } }
    busy += Math.max(s.fetch * (1 - s.hidden), s.fetch - busy);
    const total = ((busy + around) * Math.max(1, s.joules / (s.limit - s.idle) / busy) + outside) / s.divisor;
    const answer = el.querySelector('.answer'); answer.dataset.seconds = total;
    answer.textContent = `${s.result}: ${fmt(total * 1e3)} ms (as given ${fmt(s.given * 1e3)} ms)`; };
  el.querySelectorAll('input').forEach(i => i.addEventListener('input', () => { const k = +i.dataset.n; scale[k] = 2 ** +i.value; i.nextElementSibling.textContent = scale[k].toFixed(2) + ' x'; show(); }));
  show();
}
doc.sections.forEach((s, i) => { const el = document.getElementById('s' + i); if (!el) return;
  if (s.chart === 'bars') bars(s, el); else if (s.chart) lines(s, el); else if (s.timeline) timeline(s, el); else if (s.model) sliders(s, el); });
)JS";

std::string cell(const Json& v) {
  if (v.is_string()) return "<td>" + escape(v.get<std::string>()) + "</td>";
  if (v.is_number()) return fmt::format("<td class=\"n\">{:.6g}</td>", v.get<double>());
  if (v.is_null()) return "<td>-</td>";
  return "<td>" + escape(v.is_boolean() ? (v.get<bool>() ? "yes" : "no") : v.dump()) + "</td>";
}

std::string section_html(const Json& section, std::size_t index) {
  std::string out = "<h2>" + escape(section["title"].get<std::string>()) + "</h2>\n";
  if (section.contains("columns")) {
    out += "<table><tr>";
    for (const Json& c : section["columns"]) {
      std::string unit = c["unit"].get<std::string>();
      out += "<th>" + escape(c["name"].get<std::string>()) +
             (unit.empty() ? "" : " <small>" + escape(unit) + "</small>") + "</th>";
    }
    out += "</tr>\n";
    for (const Json& row : section["rows"]) {
      out += "<tr>";
      for (const Json& v : row) out += cell(v);
      out += "</tr>\n";
    }
    return out + "</table>\n";
  }
  if (section.contains("notes")) {
    for (const Json& note : section["notes"])
      out += "<p class=\"note\">" + escape(note.get<std::string>()) + "</p>\n";
    return out;
  }
  if (section.contains("graph")) return out + graph_svg(section["graph"]);
  return out + fmt::format("<div id=\"s{}\"></div>\n", index);
}

}  // namespace

std::string to_html(const Json& d) {
  std::string title = escape(d["title"].get<std::string>());
  std::string out = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + title +
                    "</title><style>" + kStyle + "</style></head><body><h1>" + title +
                    "</h1>\n<div class=\"facts\">";
  for (const Json& fact : d["facts"]) {
    std::string value = fact["value"].is_string()   ? escape(fact["value"].get<std::string>())
                        : fact["value"].is_number() ? fmt::format("{:.5g}", fact["value"].get<double>())
                                                    : escape(fact["value"].dump());
    out += "<div class=\"fact\">" + escape(fact["name"].get<std::string>()) + "<b>" + value + " " +
           escape(fact["unit"].get<std::string>()) + "</b>" +
           (fact.contains("note") ? "<small>" + escape(fact["note"].get<std::string>()) + "</small>" : "") +
           "</div>";
  }
  out += "</div>\n";
  for (std::size_t i = 0; i < d["sections"].size(); ++i) out += section_html(d["sections"][i], i);
  if (!d["assumptions"].empty()) {
    out += "<h2>Assumed</h2><ul>";
    for (const Json& text : d["assumptions"]) out += "<li>" + escape(text.get<std::string>()) + "</li>";
    out += "</ul>";
  }
  out += "<script type=\"application/json\" id=\"document\">" + script_safe(to_json(d)) +
         "</script>\n<script>" + std::string(kScript) + "</script></body></html>\n";
  return out;
}

std::string to_trace(const Json& d) {
  Json events = Json::array();
  for (const Json& section : d["sections"]) {
    if (!section.contains("timeline")) continue;
    for (const Json& e : section["timeline"])
      events.push_back({{"name", e["name"]},
                        {"ph", "X"},
                        {"ts", e["start"].get<double>() * 1e6},
                        {"dur", e["seconds"].get<double>() * 1e6},
                        {"pid", section["title"]},
                        {"tid", e["resource"]}});
  }
  return to_json(Json{{"traceEvents", events}});
}

}  // namespace orrery::report
