// sanitize/hangcheck.cc: see hangcheck.h.
#include "sanitize/hangcheck.h"

#include "exec/wait_graph.h"

namespace orrery::sanitize {

using namespace exec;

namespace {

Place place_from(const WaitGraph& g, const CodePlace& code) {
  Place p;
  p.kernel = g.kernel;
  if (code.function != g.kernel) p.function = code.function;
  p.source_file = code.file;
  p.source_line = code.source_line;
  p.ptx_line = code.ptx_line;
  p.instruction = code.instruction;
  return p;
}

Place place_from(const WaitGraph& g, const Waiter& w) {
  Place p = place_from(g, w.place);
  p.in_kernel = true;
  std::copy_n(w.block, 3, p.block);
  std::copy_n(w.first_thread, 3, p.thread);
  return p;
}

}  // namespace

void Hangcheck::hang(const RunState&, const WaitGraph& g, const std::string& text) {
  Finding f;
  f.check = "hang";
  f.kind = g.livelock ? "livelock" : "hang";
  f.message = text;
  if (!g.waiters.empty()) f.place = place_from(g, g.waiters[0]);
  for (size_t i = 1; i < g.waiters.size() && i < 8; i++) f.others.push_back({g.waiters[i].who + " at " + g.resources[size_t(g.waiters[i].resource)].name, place_from(g, g.waiters[i]), ""});
  for (const Resource& r : g.resources)
    for (const WaitEvent& e : r.events)
      if (f.others.size() < 24) f.others.push_back({e.who + " " + e.text + " (" + r.name + ")", place_from(g, e.place), ""});
  if (!g.notes.empty()) f.remedy = g.notes[0];
  f.waits = to_json(g);
  collector_.add(std::move(f));
}

}  // namespace orrery::sanitize
