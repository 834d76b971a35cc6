// exec/wait_graph.cc: see wait_graph.h: from the state of warps to waiters, resources and edges.
#include "exec/wait_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/demangle.h"
#include "exec/mbarrier_store.h"
#include "exec/polling.h"
#include "exec/wait_state.h"

namespace orrery::exec {

namespace {

std::string file_of(const ptx::Module& m, uint32_t file) { return file < m.files.size() ? m.files[file] : ""; }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// 0, 1, 2, 5 as "0-2, 5".
std::string ranges(const std::vector<uint32_t>& sorted) {
  std::string out;
  for (size_t i = 0; i < sorted.size();) {
    size_t k = i;
    while (k + 1 < sorted.size() && sorted[k + 1] == sorted[k] + 1) k++;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", sorted[i]);
    if (k > i) out += fmt::format("-{}", sorted[k]);
    i = k + 1;
  }
  return out;
}

}  // namespace

const char* name_of(WaitKind kind) {
  static constexpr const char* kNames[] = {"mbarrier", "barrier", "cluster barrier", "lanes", "warpgroup", "memory"};
  return kNames[int(kind)];
}

CodePlace code_place(const DecodedProgram& code, uint32_t pc) {
  CodePlace p;
  const lower::Program& program = *code.program;
  p.function = base::demangled(lower::function_of(program, pc).name);
  if (pc >= program.code.size()) return p;
  const ptx::Loc& loc = program.code[pc].loc;
  const ptx::Module& m = *program.module;
  p.instruction = lower::text_of(program, pc);
  p.ptx_line = loc.line;
  p.source_line = loc.source_line;
  p.file = file_of(m, loc.file);
  for (uint32_t at = loc.inlined; at && at < m.call_sites.size() && p.called_from.size() < 32; at = m.call_sites[at].inlined)
    p.called_from.push_back({file_of(m, m.call_sites[at].file), m.call_sites[at].source_line});
  return p;
}

std::string to_string(const CodePlace& p) {
  if (!p.source_line) return fmt::format("PTX line {}", p.ptx_line);
  const auto name = [](const std::string& file) { return file.empty() ? std::string("source line") : base_name(file); };
  const std::string inner = fmt::format("{}:{}", name(p.file), p.source_line);
  if (p.called_from.empty()) return inner;
  return fmt::format("{}:{} (in {})", name(p.called_from.back().file), p.called_from.back().line, inner);
}

std::string block_text(const CtaContext& cta) { return fmt::format("block ({},{},{})", cta.ctaid[0], cta.ctaid[1], cta.ctaid[2]); }

std::string who(const std::vector<Lanes>& lanes, bool with_block) {
  if (lanes.empty()) return "nobody";
  const WarpContext& first = *lanes[0].warp;
  const std::string suffix = with_block ? " of " + block_text(*first.cta) : "";
  uint32_t threads = 0;
  bool whole = true;
  std::vector<uint32_t> warps;
  for (const Lanes& l : lanes) {
    threads += uint32_t(std::popcount(l.mask));
    whole &= l.mask == l.warp->lanes;
    warps.push_back(l.warp->warp_id);
  }
  std::sort(warps.begin(), warps.end());
  const std::string names = fmt::format("{} {}", warps.size() == 1 ? "warp" : "warps", ranges(warps));
  if (whole) return names + suffix;
  const int lane = std::countr_zero(lanes[0].mask);
  if (threads == 1) return fmt::format("thread ({},{},{})", first.tid_x[lane], first.tid_y[lane], first.tid_z[lane]) + suffix;
  return fmt::format("{} threads of {}", threads, names) + suffix;
}

std::string shared_name(const RunState& run, uint64_t offset, uint32_t element) {
  for (const lower::SharedVar& v : run.kernel.entry->program->shared_vars) {
    const bool dynamic = v.bytes == 0;
    if (offset < v.offset || (!dynamic && offset >= v.offset + v.bytes)) continue;
    if (dynamic) return fmt::format("dynamic shared memory + {}", offset - v.offset);
    const std::string full = base::demangled(v.name);
    const size_t colon = full.rfind("::");
    std::string name = colon == std::string::npos ? full : full.substr(colon + 2);
    if (v.bytes > element) name += (offset - v.offset) % element ? fmt::format(" + {}", offset - v.offset) : fmt::format("[{}]", (offset - v.offset) / element);
    return name;
  }
  return fmt::format("at shared address {:#x}", offset);
}

uint32_t barrier_expected(const CtaContext& cta, uint32_t number) {
  if (cta.barriers[number].expected) return cta.barriers[number].expected;
  uint32_t n = 0;
  for (uint32_t w = 0; w < cta.n_warps; w++) n += cta.warps[w].live ? uint32_t(std::popcount(cta.warps[w].lanes)) : 0;
  return n;
}

const CtaContext* owner_of(std::span<const CtaContext* const> blocks, const void* word) {
  for (const CtaContext* c : blocks)
    if (uint64_t(static_cast<const std::byte*>(word) - c->shared) < c->shared_bytes) return c;
  return nullptr;
}

uint64_t word_of(const Thing& t) { return t.cta && t.cta->cluster->mbarriers ? t.cta->cluster->mbarriers->peek(t.word) : *t.word; }

const MbarrierHistory* history_of(const Thing& t) {
  return t.kind == WaitKind::mbarrier && t.cta && t.cta->cluster->log ? t.cta->cluster->log->find(t.word) : nullptr;
}

WaitEvent event_of(const MbarrierNote& note, bool with_block) {
  WaitEvent e;
  e.who = who({{note.warp, note.lanes}}, with_block);
  e.place = code_place(*note.code, note.pc);
  e.phase = note.phase;
  switch (note.act) {
    case MbarrierAct::init: e.text = fmt::format("initialised it for {} {}", note.count, note.count == 1 ? "arrival" : "arrivals"); break;
    case MbarrierAct::inval: e.text = "invalidated it"; break;
    case MbarrierAct::expect: e.text = fmt::format("announced {} bytes", note.count); break;
    case MbarrierAct::arrive: e.text = note.count == 1 ? "arrived" : fmt::format("arrived ({} arrivals)", note.count); break;
    default: e.text = fmt::format("sent {} bytes", note.count);
  }
  return e;
}

namespace {

class Builder {
 public:
  Builder(const RunState& run, std::span<const CtaContext* const> blocks) : state_{run, blocks, {}, {}}, many_(blocks.size() > 1) {
    graph_.kernel = base::brief(base::demangled(run.kernel.entry->program->name));
  }

  WaitGraph build() {
    for (const CtaContext* c : state_.blocks)
      for (uint32_t w = 0; w < c->n_warps; w++)
        for (uint32_t i = 0; i < c->warps[w].n_groups; i++) add_group(*c, c->warps[w], c->warps[w].groups[i]);
    for (WaitingGroups& g : state_.groups) add_waiter(g);
    for (size_t i = 0; i < state_.things.size(); i++) describe(int(i));
    for (size_t i = 0; i < state_.groups.size(); i++)
      if (state_.groups[i].resource >= 0) graph_.edges.push_back({true, int(i), state_.groups[i].resource, "waits for"});
    for (size_t i = 0; i < state_.things.size(); i++) add_releasers(int(i));
    find_circle();
    find_causes(state_, graph_);
    return std::move(graph_);
  }

 private:
  int thing(const Thing& t) {
    for (size_t i = 0; i < state_.things.size(); i++) {
      const Thing& o = state_.things[i];
      if (o.kind == t.kind && o.cta == t.cta && o.word == t.word && o.number == t.number && o.warp == t.warp && o.members == t.members && o.address == t.address)
        return int(i);
    }
    state_.things.push_back(t);
    return int(state_.things.size() - 1);
  }

  /// What a group waits for, and the instruction at which it does.
  void add_group(const CtaContext& c, const WarpContext& w, const Group& g) {
    WaitingGroups x{&c, g.frame ? g.frame->code : state_.run.kernel.entry.get(), g.pc, g.state, -1, {}};
    Thing t;
    t.cta = &c;
    if (g.state == GroupState::ready) {
      const Poll* poll = state_.run.polling ? state_.run.polling->of(w, g.mask) : nullptr;
      if (!poll) return;
      graph_.livelock = true;
      x.code = poll->code;
      x.pc = poll->pc;
      t.kind = WaitKind::memory;
      t.cta = nullptr;
      t.address = poll->address;
    } else if (g.state == GroupState::barrier) {
      t.kind = WaitKind::barrier;
      t.number = g.barrier;
      if (!g.reduction && g.pc) x.pc = g.pc - 1;
    } else if (g.state == GroupState::cluster) {
      t.kind = WaitKind::cluster_barrier;
      t.cta = c.cluster->ctas[0];
      if (g.pc) x.pc = g.pc - 1;
    } else if (g.state == GroupState::warp_sync) {
      t.kind = WaitKind::lanes;
      t.warp = &w;
      t.members = g.member_mask;
    } else if (!g.wait_word) {
      t.kind = WaitKind::warpgroup;
      t.number = w.warp_id / 4;
    } else {
      t.word = g.wait_word;
      if (const CtaContext* owner = owner_of(state_.blocks, g.wait_word)) t.cta = owner;
    }
    x.resource = thing(t);
    for (WaitingGroups& o : state_.groups)
      if (o.cta == x.cta && o.code == x.code && o.pc == x.pc && o.resource == x.resource) return o.lanes.push_back({&w, g.mask});
    x.lanes.push_back({&w, g.mask});
    state_.groups.push_back(std::move(x));
  }

  void add_waiter(const WaitingGroups& g) {
    Waiter w;
    w.who = who(g.lanes, many_);
    std::copy_n(g.cta->ctaid, 3, w.block);
    const WarpContext& first = *g.lanes[0].warp;
    const int lane = std::countr_zero(g.lanes[0].mask);
    w.first_thread[0] = first.tid_x[lane], w.first_thread[1] = first.tid_y[lane], w.first_thread[2] = first.tid_z[lane];
    for (const Lanes& l : g.lanes) w.threads += uint32_t(std::popcount(l.mask));
    w.place = code_place(*g.code, g.pc);
    w.resource = g.resource;
    graph_.waiters.push_back(std::move(w));
  }

  void describe(int index) {
    const Thing& t = state_.things[size_t(index)];
    Resource r;
    r.kind = t.kind;
    if (t.cta) std::copy_n(t.cta->ctaid, 3, r.block);
    switch (t.kind) {
      case WaitKind::mbarrier: describe_mbarrier(t, r); break;
      case WaitKind::barrier: describe_barrier(t, r); break;
      case WaitKind::cluster_barrier: describe_cluster(*t.cta->cluster, r); break;
      case WaitKind::lanes:
        r.name = fmt::format("lanes {:#010x} of warp {}", t.members, t.warp->warp_id);
        r.expected = uint64_t(std::popcount(t.members));
        r.state = fmt::format("{:#010x} of them have not ended", t.members & t.warp->live);
        break;
      case WaitKind::warpgroup:
        r.name = fmt::format("the warpgroup of warps {}-{}", 4 * t.number, 4 * t.number + 3);
        r.state = "not all of its warps have issued the same wgmma groups";
        break;
      default: describe_memory(t, r);
    }
    graph_.resources.push_back(std::move(r));
  }

  void describe_mbarrier(const Thing& t, Resource& r) {
    r.address = t.cta ? uint64_t(reinterpret_cast<const std::byte*>(t.word) - t.cta->shared) : 0;
    r.name = "mbarrier " + shared_name(state_.run, r.address, 8) + (many_ && t.cta ? " of " + block_text(*t.cta) : "");
    const uint64_t word = word_of(t);
    const MbarrierHistory* h = history_of(t);
    if (!mbarrier::live(word)) r.state = "it is not initialised";
    else {
      r.missing = mbarrier::pending(word), r.expected = mbarrier::expected(word), r.missing_bytes = mbarrier::bytes(word);
      r.phase = h ? h->phases : mbarrier::phase(word);
      r.state = fmt::format("in phase {} (parity {}) {} of {} arrivals have come", r.phase, mbarrier::phase(word), r.expected - r.missing, r.expected);
      if (r.missing_bytes > 0) r.state += fmt::format(", and {} bytes are missing", r.missing_bytes);
      if (r.missing_bytes < 0) r.state += fmt::format(", and {} bytes more than announced", -r.missing_bytes);
    }
    if (!h) return;
    const uint32_t n = std::min<uint32_t>(h->n, MbarrierHistory::kLast);
    if (h->n > MbarrierHistory::kLast && h->init.code) r.events.push_back(event_of(h->init, many_));
    for (uint32_t i = h->n - n; i < h->n; i++) r.events.push_back(event_of(h->last[i % MbarrierHistory::kLast], many_));
  }

  void describe_barrier(const Thing& t, Resource& r) {
    const Barrier& b = t.cta->barriers[t.number];
    r.name = fmt::format("barrier {}", t.number) + (many_ ? " of " + block_text(*t.cta) : "");
    r.address = t.number;
    r.phase = b.phase;
    r.expected = barrier_expected(*t.cta, t.number);
    r.missing = r.expected - std::min<uint64_t>(r.expected, b.arrived);
    r.state = fmt::format("{} of {} threads have come", b.arrived, r.expected);
  }

  void describe_cluster(const ClusterContext& c, Resource& r) {
    r.name = "the cluster barrier";
    r.phase = c.phase;
    r.expected = c.live_threads;
    r.missing = c.live_threads - c.arrived;
    r.state = fmt::format("{} of {} threads have arrived", c.arrived, c.live_threads);
  }

  void describe_memory(const Thing& t, Resource& r) {
    r.address = t.address;
    const Poll* poll = state_.run.polling->at(t.address);
    const auto a = state_.run.machine.memory->nearest(t.address, nullptr);
    r.name = fmt::format("the word at {:#x}", t.address);
    if (const CtaContext* c = owner_of(state_.blocks, reinterpret_cast<const void*>(t.address)))
      r.name = "the shared word " + shared_name(state_.run, t.address - reinterpret_cast<uint64_t>(c->shared), 4) + (many_ ? " of " + block_text(*c) : "");
    else if (a && t.address < a->address + a->size)
      r.name += fmt::format(" (byte {} of the {}-byte allocation at {:#x})", t.address - a->address, a->size, a->address);
    r.state = fmt::format("it is {} and nobody changes it", poll ? poll->value : 0);
    if (const Poll* change = state_.run.polling->last_change(t.address))
      r.events.push_back({fmt::format("changed it to {}", change->value), change->who, code_place(*change->code, change->pc), 0});
  }

  bool waits_here(const WaitingGroups& g, int thing_index) const { return g.resource == thing_index; }

  void release_edge(int from, size_t waiter, std::string why) {
    for (const Edge& e : graph_.edges)
      if (!e.from_waiter && e.from == from && e.to == int(waiter)) return;
    graph_.edges.push_back({false, from, int(waiter), std::move(why)});
  }

  /// Waiters that could release resource `index` if they could go on.
  void add_releasers(int index) {
    const Thing& t = state_.things[size_t(index)];
    const MbarrierHistory* h = history_of(t);
    bool found = false;
    for (size_t i = 0; i < state_.groups.size(); i++) {
      const WaitingGroups& g = state_.groups[i];
      if (t.kind == WaitKind::mbarrier) found |= h && released_before(index, i, *h);
      else if (t.kind != WaitKind::memory && missing_at(t, g, index)) release_edge(index, i, "has not come");
    }
    if (t.kind != WaitKind::mbarrier || found) return;
    // Nobody who waits has ever arrived there: everybody who waits for something else may be who should.
    for (size_t i = 0; i < state_.groups.size(); i++)
      if (!waits_here(state_.groups[i], index) && !others_arrived(h)) release_edge(index, i, "may have to arrive, but waits itself");
  }

  bool released_before(int index, size_t i, const MbarrierHistory& h) {
    for (const MbarrierNote& a : h.arrivers)
      for (const Lanes& l : state_.groups[i].lanes)
        if (a.act == MbarrierAct::arrive && graph_.resources[size_t(index)].missing == 0) continue;  // bytes are missing
        else if (a.warp == l.warp && (a.lanes & l.mask)) {
          release_edge(index, i, fmt::format("{} in phase {}, at {}", a.act == MbarrierAct::bytes ? "sent bytes there" : "arrived there", a.phase, to_string(code_place(*a.code, a.pc))));
          return true;
        }
    return false;
  }

  /// Somebody has arrived in an earlier phase; then the others need not.
  static bool others_arrived(const MbarrierHistory* h) { return h && !h->arrivers.empty(); }

  bool missing_at(const Thing& t, const WaitingGroups& g, int index) const {
    if (waits_here(g, index) && t.kind != WaitKind::lanes) return false;
    for (const Lanes& l : g.lanes) {
      if (t.kind == WaitKind::barrier && g.cta == t.cta) return true;
      if (t.kind == WaitKind::cluster_barrier && g.cta->cluster == t.cta->cluster && (l.mask & ~l.warp->cluster_arrived)) return true;
      if (t.kind == WaitKind::lanes && l.warp == t.warp && (l.mask & t.members) && !waits_here(g, index)) return true;
      if (t.kind == WaitKind::warpgroup && g.cta == t.cta && l.warp->warp_id / 4 == t.number) return true;
    }
    return false;
  }

  /// Depth-first search from every waiter; the first circle found is kept.
  void find_circle() {
    for (size_t i = 0; i < graph_.waiters.size() && graph_.circle.empty(); i++) {
      std::vector<int> path{int(i)};
      walk(path, int(i));
    }
  }
  bool walk(std::vector<int>& path, int start) {
    const int at = path.back(), resource = graph_.waiters[size_t(at)].resource;
    for (const Edge& e : graph_.edges) {
      if (e.from_waiter || e.from != resource) continue;
      if (e.to == start) {
        for (int w : path) {
          graph_.circle.push_back(graph_.waiters[size_t(w)].who);
          graph_.circle.push_back(graph_.resources[size_t(graph_.waiters[size_t(w)].resource)].name);
        }
        return true;
      }
      if (path.size() > 16 || std::find(path.begin(), path.end(), e.to) != path.end()) continue;
      path.push_back(e.to);
      if (walk(path, start)) return true;
      path.pop_back();
    }
    return false;
  }

  WaitState state_;
  WaitGraph graph_;
  const bool many_;
};

}  // namespace

WaitGraph make_wait_graph(const RunState& run, std::span<const CtaContext* const> blocks) { return Builder(run, blocks).build(); }

}  // namespace orrery::exec
