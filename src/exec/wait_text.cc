// exec/wait_text.cc: a wait-for graph as a note and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exec/observer.h"
#include "exec/wait_graph.h"

namespace orrery::exec {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostWaiters = 16, kMostEvents = 5;

std::string sentence(const Waiter& w, const Resource& r) {
  const char* verb = w.threads == 1 || w.who.starts_with("warp ") ? "waits" : "wait";
  if (r.kind == WaitKind::memory) verb = w.threads == 1 || w.who.starts_with("warp ") ? "spins, looking at" : "spin, looking at";
  const char* join = r.kind == WaitKind::memory ? "" : r.kind == WaitKind::mbarrier ? " for" : " at";
  return fmt::format("  {} {}{} {}, in {}\n", w.who, verb, join, r.name, to_string(w.place));
}

void add_resource(std::string& out, const Resource& r) {
  out += fmt::format("      {}\n", r.state);
  const size_t skip = r.events.size() > kMostEvents + 1 ? r.events.size() - kMostEvents : 0;
  for (size_t i = 0; i < r.events.size(); i++) {
    if (i && i < skip) continue;
    const WaitEvent& e = r.events[i];
    out += fmt::format("      {}{} {}, in {}\n", r.kind == WaitKind::mbarrier ? fmt::format("phase {}: ", e.phase) : "", e.who, e.text, to_string(e.place));
  }
}

Json place_json(const CodePlace& p) {
  Json j{{"function", p.function}, {"source_file", p.file}, {"source_line", p.source_line}, {"ptx_line", p.ptx_line}, {"instruction", p.instruction}};
  for (const CodePlace::Call& c : p.called_from) j["called_from"].push_back({{"source_file", c.file}, {"source_line", c.line}});
  return j;
}

template <class T>
Json triple(const T* v) {
  return Json::array({v[0], v[1], v[2]});
}

}  // namespace

Fault make_hang(const RunState& run, std::span<const CtaContext* const> blocks) {
  auto graph = std::make_shared<const WaitGraph>(make_wait_graph(run, blocks));
  Fault f;
  f.kind = FaultKind::hang;
  f.kernel = run.kernel.entry->program->name;
  for (int i = 0; i < 3; i++) f.ctaid[i] = blocks[0]->ctaid[i];
  const char* state = graph->livelock ? "all threads that still run only spin, and no memory changes" : "no thread can go on";
  f.message = fmt::format("{}: {} (kernel {}, block ({},{},{}))\n{}", graph->livelock ? "livelock" : "hang", state, graph->kernel, f.ctaid[0], f.ctaid[1], f.ctaid[2], to_text(*graph));
  f.waits = graph;
  if (Observer* o = run.machine.observer) o->hang(run, *graph, f.message);
  return f;
}

std::string to_text(const WaitGraph& g) {
  std::string out;
  std::vector<char> told(g.resources.size());
  for (size_t i = 0; i < g.waiters.size() && i < kMostWaiters; i++) {
    const Waiter& w = g.waiters[i];
    const Resource& r = g.resources[size_t(w.resource)];
    out += sentence(w, r);
    if (!told[size_t(w.resource)]++) add_resource(out, r);
  }
  if (g.waiters.size() > kMostWaiters) out += fmt::format("  and {} more\n", g.waiters.size() - kMostWaiters);
  if (!g.circle.empty()) {
    out += "  circle: ";
    for (const std::string& name : g.circle) out += name + " -> ";
    out += g.circle[0] + "\n";
  }
  for (const std::string& note : g.notes) out += "  probably: " + note + "\n";
  return out;
}

std::string to_json(const WaitGraph& g) {
  Json j{{"kernel", g.kernel}, {"livelock", g.livelock}, {"waiters", Json::array()}, {"resources", Json::array()}, {"edges", Json::array()}, {"circle", g.circle}, {"notes", g.notes}};
  for (const Waiter& w : g.waiters)
    j["waiters"].push_back({{"who", w.who}, {"block", triple(w.block)}, {"first_thread", triple(w.first_thread)}, {"threads", w.threads}, {"place", place_json(w.place)}, {"resource", w.resource}});
  for (const Resource& r : g.resources) {
    Json x{{"kind", name_of(r.kind)}, {"name", r.name}, {"state", r.state}, {"block", triple(r.block)}, {"phase", r.phase}, {"missing", r.missing}, {"expected", r.expected}, {"missing_bytes", r.missing_bytes}, {"address", r.address}, {"events", Json::array()}};
    for (const WaitEvent& e : r.events) x["events"].push_back({{"phase", e.phase}, {"who", e.who}, {"what", e.text}, {"place", place_json(e.place)}});
    j["resources"].push_back(std::move(x));
  }
  for (const Edge& e : g.edges)
    j["edges"].push_back({{"from", fmt::format("{}{}", e.from_waiter ? "waiter " : "resource ", e.from)}, {"to", fmt::format("{}{}", e.from_waiter ? "resource " : "waiter ", e.to)}, {"why", e.why}});
  return j.dump();
}

}  // namespace orrery::exec
