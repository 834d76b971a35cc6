// exec/wait_notes.cc: what probably went wrong, from the state of a hang: one rule a function, each a sentence or two as a
// colleague would say them. A rule speaks only when the state shows what it says.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "exec/mbarrier_store.h"
#include "exec/polling.h"
#include "exec/wait_state.h"

namespace orrery::exec {

namespace {

std::string plural(uint64_t n, const char* one) { return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s"); }

/// The lines of `notes`' instructions, each once: "a.cu:10 and a.cu:12".
std::string lines(const std::vector<MbarrierNote>& notes) {
  std::set<std::string> all;
  for (const MbarrierNote& n : notes) all.insert(to_string(code_place(*n.code, n.pc)));
  std::string out;
  size_t i = 0;
  for (const std::string& s : all) out += fmt::format("{}{}", i++ == 0 ? "" : i == all.size() ? " and " : ", ", s);
  return out;
}

class Causes {
 public:
  Causes(const WaitState& state, WaitGraph& graph) : state_(state), graph_(graph) {}

  void find() {
    for (size_t i = 0; i < state_.things.size(); i++) {
      const Thing& t = state_.things[i];
      const Resource& r = graph_.resources[i];
      if (t.kind == WaitKind::mbarrier) mbarrier_causes(t, r);
      else if (t.kind == WaitKind::barrier) barrier_causes(t, r, int(i));
      else if (t.kind == WaitKind::cluster_barrier) cluster_causes(t, r);
      else if (t.kind == WaitKind::lanes) lane_causes(t);
      else if (t.kind == WaitKind::warpgroup) warpgroup_causes(t);
    }
    if (graph_.circle.size() > 3 && std::all_of(graph_.resources.begin(), graph_.resources.end(), [](const Resource& x) { return x.kind == WaitKind::barrier; }))
      say("each of these barriers waits for threads that stand at another one of them: they come to the barriers in different order, or some leave one out");
    if (graph_.livelock) memory_causes();
  }

 private:
  void say(std::string text) {
    if (graph_.notes.size() < 6 && std::find(graph_.notes.begin(), graph_.notes.end(), text) == graph_.notes.end()) graph_.notes.push_back(std::move(text));
  }

  void mbarrier_causes(const Thing& t, const Resource& r) {
    const MbarrierHistory* h = history_of(t);
    if (!mbarrier::live(word_of(t))) {
      say(fmt::format("{} is not initialised: {}", r.name,
                      h && h->init.code ? "it was invalidated or overwritten after " + lines({h->init}) : "no mbarrier.init was executed for this address"));
      return;
    }
    if (!h) return;
    if (r.missing == 0 && r.missing_bytes > 0) return bytes_missing(t, r, *h);
    if (r.missing_bytes < 0) say(fmt::format("{} got {} bytes that no expect_tx of this phase announced, from {}", r.name, -r.missing_bytes, lines(bringers(*h))));
    if (r.missing == 0) return;
    if (r.missing < r.expected) return some_arrivals(r, *h);
    if (h->arrivers.empty()) return no_arrival_ever(t, r);
    if (all_ended(*h)) return arrivers_ended(r, *h);
  }

  static std::vector<MbarrierNote> bringers(const MbarrierHistory& h) {
    std::vector<MbarrierNote> out;
    for (const MbarrierNote& a : h.arrivers)
      if (a.act == MbarrierAct::bytes) out.push_back(a);
    return out;
  }

  void bytes_missing(const Thing& t, const Resource& r, const MbarrierHistory& h) {
    say(fmt::format("expect_tx announced {} bytes on {}, and {} have come: a copy was not issued, or expect_tx names {} bytes too many", h.expected_bytes,
                    r.name, h.brought_bytes == 0 ? "none" : fmt::format("only {}", h.brought_bytes), r.missing_bytes));
    for (const auto& [word, other] : t.cta->cluster->log->all()) {
      const uint64_t bits = t.cta->cluster->mbarriers->peek(word);
      if (word == t.word || !mbarrier::live(bits) || mbarrier::bytes(bits) >= 0) continue;
      const CtaContext* owner = owner_of(state_.blocks, word);
      if (!owner) continue;
      const std::string name = shared_name(state_.run, uint64_t(reinterpret_cast<const std::byte*>(word) - owner->shared), 8);
      say(fmt::format("mbarrier {} has got {} bytes that nobody announced there, from {}: that copy seems to name the wrong mbarrier", name,
                      -mbarrier::bytes(bits), lines(bringers(other))));
    }
  }

  /// Arrivals of the phase that runs.
  static std::vector<MbarrierNote> now(const MbarrierHistory& h) {
    std::vector<MbarrierNote> out;
    for (const MbarrierNote& a : h.arrivers)
      if (a.act == MbarrierAct::arrive && a.phase == h.phases) out.push_back(a);
    return out;
  }

  void some_arrivals(const Resource& r, const MbarrierHistory& h) {
    const std::vector<MbarrierNote> came = now(h);
    const uint64_t n = r.expected - r.missing;
    const bool one_each = !came.empty() && std::all_of(came.begin(), came.end(), [](const MbarrierNote& a) { return std::has_single_bit(a.lanes); });
    if (one_each && came.size() == n && r.expected == 32 * n) {
      say(fmt::format("one thread of each of {} warps arrives on {} ({}), but it was initialised for {} arrivals ({}): initialise it for {}, or let all threads arrive", n,
                      r.name, lines(came), r.expected, lines({h.init}), n));
      return;
    }
    say(fmt::format("{} of {} arrivals on {} have come ({}); the other {} never come: the count given to mbarrier.init ({}) is too high, or some threads take a path without an arrival",
                    n, r.expected, r.name, lines(came), r.missing, lines({h.init})));
  }

  /// Lines of the kernel's instructions that arrive on some mbarrier.
  std::string arrival_lines() const {
    std::set<std::string> all;
    const DecodedProgram& code = *state_.run.kernel.entry;
    for (uint32_t i = 0; i < code.code.size(); i++) {
      const isa::Op op = code.code[i].instr->form.op;
      if (op == isa::Op::mbarrier_arrive || op == isa::Op::mbarrier_arrive_drop || op == isa::Op::cp_async_mbarrier_arrive) all.insert(to_string(code_place(code, i)));
    }
    std::string out;
    for (const std::string& s : all) out += (out.empty() ? "" : ", ") + s;
    return out;
  }

  void no_arrival_ever(const Thing& t, const Resource& r) {
    const bool first_move = mbarrier::phase(word_of(t)) == 0 && graph_.waiters.size() > 1;
    const std::string where = arrival_lines();
    if (first_move && !graph_.circle.empty()) {
      std::string fresh;  // all mbarriers that are waited for without anybody having come
      for (size_t i = 0; i < state_.things.size(); i++) {
        const Thing& other = state_.things[i];
        const MbarrierHistory* h = other.kind == WaitKind::mbarrier ? history_of(other) : nullptr;
        if (!h) continue;
        if (h->arrivers.empty()) fresh += (fresh.empty() ? "" : " and ") + graph_.resources[i].name;
        else if (h->phases)
          return say(fmt::format("nobody has ever arrived on {}, although {} has completed {}: those who waited for that must arrive on {} when they have used what it told them of{}", r.name,
                                 graph_.resources[i].name, plural(h->phases, "phase"), r.name,
                                 where.empty() ? " (the kernel has no mbarrier.arrive)" : " (the kernel arrives in " + where + ")"));
      }
      return say(fmt::format("nobody has ever arrived on {}: each side waits for the other to begin. A wait for parity 0 of a fresh mbarrier waits for its first phase, one for parity 1 "
                             "passes at once: a producer's first wait for an empty stage must ask for parity 1",
                             fresh));
    }
    say(fmt::format("nobody has ever arrived on {}: {}", r.name,
                    where.empty() ? "the kernel has no mbarrier.arrive at all" : "an arrival is missing, or is made on another mbarrier (the kernel arrives in " + where + ")"));
  }

  static bool ended(const MbarrierNote& a) { return (a.warp->live & a.lanes) == 0; }
  static bool all_ended(const MbarrierHistory& h) { return std::all_of(h.arrivers.begin(), h.arrivers.end(), ended); }

  void arrivers_ended(const Resource& r, const MbarrierHistory& h) {
    const MbarrierNote& a = h.arrivers.front();
    say(fmt::format("those who arrived on {} have ended after {} ({} in {}): the waiting threads ask for one phase more than that", r.name, plural(h.phases, "phase"),
                    event_of(a, false).who, lines(h.arrivers)));
  }

  void barrier_causes(const Thing& t, const Resource& r, int index) {
    std::vector<Lanes> gone;
    std::string elsewhere;
    for (uint32_t w = 0; w < t.cta->n_warps; w++)
      if (t.cta->warps[w].live == 0) gone.push_back({&t.cta->warps[w], t.cta->warps[w].lanes});
    for (size_t i = 0; i < state_.groups.size(); i++) {
      const WaitingGroups& g = state_.groups[i];
      if (g.cta != t.cta || g.resource == index) continue;
      elsewhere += fmt::format("{}{} at {} ({})", elsewhere.empty() ? "" : ", ", who(g.lanes, false), graph_.resources[size_t(g.resource)].name, to_string(code_place(*g.code, g.pc)));
    }
    const uint32_t asked = t.cta->barriers[t.number].expected;
    std::string text = fmt::format("{} is short of {}", r.name, plural(r.missing, "thread"));
    if (!elsewhere.empty()) text += ": waiting elsewhere are " + elsewhere;
    if (!gone.empty() && asked) text += fmt::format("{} ended without coming to it", (elsewhere.empty() ? ": " : "; ") + who(gone, false));
    if (asked && elsewhere.empty() && gone.empty()) text += fmt::format(": it asks for {} threads, and the block has {}", asked, t.cta->n_threads);
    say(std::move(text));
  }

  void cluster_causes(const Thing& t, const Resource& r) {
    std::string missing;
    for (const WaitingGroups& g : state_.groups) {
      std::vector<Lanes> late;
      for (const Lanes& l : g.lanes)
        if (l.mask & ~l.warp->cluster_arrived) late.push_back({l.warp, l.mask & ~l.warp->cluster_arrived});
      if (late.empty() || g.cta->cluster != t.cta->cluster) continue;
      missing += fmt::format("{}{} waiting for {} ({})", missing.empty() ? "" : ", ", who(late, true), graph_.resources[size_t(g.resource)].name, to_string(code_place(*g.code, g.pc)));
    }
    if (!missing.empty()) say(fmt::format("{} is short of {}: not arrived are {}", r.name, plural(r.missing, "thread"), missing));
  }

  void lane_causes(const Thing& t) {
    say(fmt::format("the member mask {:#010x} names lanes of warp {} that take another path and never come to this instruction: the mask must name exactly the lanes that do", t.members,
                    t.warp->warp_id));
  }

  void warpgroup_causes(const Thing& t) {
    say(fmt::format("a warp of the warpgroup (warps {}-{}) does not issue the wgmma that the others wait for: wgmma must be executed by all four warps together", 4 * t.number, 4 * t.number + 3));
  }

  void memory_causes() {
    size_t spinning = 0;
    bool lock = true;
    for (const WaitingGroups& g : state_.groups) {
      if (g.state != GroupState::ready) continue;
      spinning++;
      const isa::Form& f = g.code->code[g.pc].instr->form;
      lock &= f.op == isa::Op::atom && f.has(isa::Mod::cas);
    }
    if (!spinning) return;
    if (lock)
      say("every thread that still runs tries to take a lock that is taken: two threads hold the locks that each other wants, or a path leaves a lock without releasing it");
    else if (state_.blocks.size() == 1 && state_.run.launch.grid.count() > state_.run.launch.cluster.count())
      say("the block waits for something that other blocks should have written, and they have ended");
    else
      say(fmt::format("all threads that still run ({}) only look: the write they wait for is missing, stands on a path that nobody took, or waits behind this loop", plural(spinning, "group")));
  }

  const WaitState& state_;
  WaitGraph& graph_;
};

}  // namespace

void find_causes(const WaitState& state, WaitGraph& graph) { Causes(state, graph).find(); }

}  // namespace orrery::exec
