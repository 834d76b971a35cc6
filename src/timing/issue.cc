// timing/issue.cc: what a warp issues of a machine block: its instructions, with the events of the trace that say what they touched, for which lanes, and how
// often. Not here: which blocks a warp goes through (walk.cc, entries.cc).
#include <algorithm>
#include <utility>

#include "timing/join.h"
#include "timing/join_cursor.h"

namespace orrery::timing {

namespace {
/// Does it read or write memory itself?
bool is_access(Class c) {
  switch (c) {
    case Class::load: case Class::store: case Class::atomic: case Class::shared_load: case Class::shared_store: case Class::shared_atomic: case Class::texture: return true;
    default: return false;
  }
}
}  // namespace

/// Constant and local memory: ptxas spills where there was no such access, keeps small arrays in registers and makes constants operands.
/// An instruction that has an event of its kind takes it, another its own of add_spills.
void Join::take_event_if_any(uint32_t i, Cursor& c, size_t begin, size_t end, Step& s) const {
  const Class kind = code_[i].kind;
  const uint32_t place = place_[i];
  if (place == kNowhere || !may_have_event(kind)) return;
  const std::span<const uint32_t> list = c.of(place);
  uint32_t& next = c.next[place];
  while (next < list.size() && list[next] < begin) next++;
  if (next < list.size() && list[next] < end && is_of(kind, c.events[list[next]].what)) s.event = list[next++];
}

/// What lanes name as members is told by an event of the exchange, if they name different ones: who stands ahead of the exchange looks at it, who
/// makes it uses it up. False: it has nothing to do with members.
bool Join::take_members(uint32_t i, Cursor& c, size_t begin, size_t end, Step& s) const {
  const MachineInstruction& m = code_[i];
  const uint32_t place = place_[i];
  const bool makes = m.kind == Class::shuffle || m.kind == Class::vote || m.kind == Class::redux;
  if (place == kNowhere || (m.members == Members::none && !makes)) return false;
  const std::span<const uint32_t> list = c.of(place);
  uint32_t& next = c.next[place];
  while (next < list.size() && list[next] < begin) next++;
  if (next < list.size() && list[next] < end && c.events[list[next]].what == What::match) {
    if (makes) next++;
    else s.event = list[next];
  }
  return true;
}

/// Once more what each further set of members does by itself.
void Join::repeat_for_members(Cursor& c, std::vector<Step>& out) const {
  const size_t begin = std::exchange(c.one_by_one, SIZE_MAX), end = out.size();
  for (uint32_t set = 1; set < c.sets && begin < end; set++)
    for (size_t k = begin; k < end; k++) out.push_back(Step(out[k]));
}

/// Do sets of lanes make the exchange behind `f` one by one, out of line? A shuffle is made by all at once.
bool Join::are_parted(const Flow& f, const Cursor& c) const {
  if (f.exchange == kNowhere) return false;
  const std::span<const uint32_t> list = c.of(f.exchange);
  const uint32_t next = c.next[f.exchange];
  return next < list.size() && c.events[list[next]].what == What::match;
}

/// Issues one machine instruction with the next of its events from `begin` to before `end`, and again for each further mbarrier that its
/// lanes name.
void Join::take_step(uint32_t i, Cursor& c, size_t begin, size_t end, uint32_t lanes, std::vector<Step>& out, JoinStatistics& statistics) const {
  const MachineInstruction& m = code_[i];
  Step s;
  s.instruction = i;
  s.lanes = std::min(32u, lanes);
  s.off = m.i.never;
  if (take_members(i, c, begin, end, s)) {
    if (m.members == Members::one_by_one || m.members == Members::collective) c.one_by_one = out.size(), c.sets = s.event == UINT32_MAX ? 1 : c.events[s.event].extra;
    out.push_back(s);
    return;
  }
  if (m.i.opcode == 0x141 && c.one_by_one < out.size()) {  // BSYNC
    out.push_back(s);
    repeat_for_members(c, out);
    return;
  }
  if (!eventful(m.kind) || (m.swaps && m.kind == Class::shared_load)) {  // the loop's load goes where its swap goes
    take_event_if_any(i, c, begin, end, s);
    if (s.event == UINT32_MAX) s.event = spill_event(i, c);
    out.push_back(s);
    return;
  }
  uint32_t none = 0;
  const uint32_t place = place_[i];
  const std::span<const uint32_t> list = place == kNowhere ? std::span<const uint32_t>() : c.of(place);
  uint32_t& next = place == kNowhere ? none : c.next[place];
  if (!m.i.never) {
    statistics.memory_steps++;
    while (next < list.size() && list[next] < begin) next++;
    if (m.part) s.event = place == kNowhere ? UINT32_MAX : c.latest[place];
    else if (next < list.size() && list[next] < end) s.event = list[next++];
    if (place != kNowhere) c.latest[place] = s.event;
    if (s.event == UINT32_MAX) {
      s.off = m.i.guarded;
      statistics.unmatched += !m.i.guarded && m.width >= m.asked;  // parts of a split access hit what the first one asked for
    } else if (is_access(m.kind) && std::any_of(c.put_off.begin(), c.put_off.end(), [&](const auto& p) { return s.event >= p.first && s.event < p.second; })) {
      c.waiting[place].push_back({i, s.event});
      s.off = 1, s.event = UINT32_MAX;
    }
  }
  out.push_back(s);
  if (m.kind != Class::mbarrier || s.event == UINT32_MAX) return;
  for (; next < list.size() && list[next] == s.event + 1; next++) s.event = list[next], out.push_back(s);
}

/// Issues the machine instructions of `range`; a guarded one takes only an event before `end`.
void Join::emit_range(std::pair<uint32_t, uint32_t> range, Cursor& c, size_t end, uint32_t lanes, std::vector<Step>& out, JoinStatistics& statistics) const {
  for (uint32_t i = range.first; i < range.second; i++) {
    size_t before = code_[i].i.guarded ? end : SIZE_MAX;
    if (code_[i].i.guarded && place_[i] != kNowhere && eventful(code_[i].kind))  // what was skipped on the way to this entry is not what the next one will find
      if (const auto s = skipped_.find(block_first_[place_[i]].second); s != skipped_.end() && s->second == c.entered) before = std::min(before, c.entered_at);
    take_step(i, c, 0, before, lanes, out, statistics);
  }
}

/// Lanes that have parted leave one group after the other: the warp ends where the last of them does.
void Join::some_leave(std::vector<Step>& steps) const {
  bool last = true;
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    const MachineInstruction& m = code_[s->instruction];
    if (m.kind != Class::exit || m.i.guarded) continue;
    if (!last) s->off = 1;
    last = false;
  }
}

/// The steps from `begin` on are of a block that one lane after the other goes through for a copy or an mbarrier of its own: bulk copies take what they
/// copy, and mbarriers are made, from registers that all lanes share.
void Join::repeat_for_lanes(size_t begin, const std::vector<Event>& events, std::vector<Step>& out) const {
  const std::vector<Step> once(out.begin() + ptrdiff_t(begin), out.end());
  const auto copy = std::find_if(once.begin(), once.end(), [&](const Step& s) { return code_[s.instruction].kind == Class::bulk_copy && s.event != UINT32_MAX; });
  const uint32_t turns = copy == once.end() ? 0 : std::min(32u, events[copy->event].n_detail);
  if (turns >= 2) {
    out.resize(begin);
    for (uint32_t turn = 1; turn <= turns; turn++)
      for (Step s : once) {
        if (s.event == copy->event) s.turn = turn;
        out.push_back(s);
      }
    return;
  }
  const auto makes = [&](const Step& s) { return code_[s.instruction].op == isa::Op::mbarrier_init && code_[s.instruction].kind == Class::mbarrier; };
  const auto made = std::count_if(once.begin(), once.end(), makes);
  if (made < 2) return;
  out.resize(begin);
  for (ptrdiff_t turn = 0; turn < made; turn++) {
    ptrdiff_t seen = 0;
    for (const Step& s : once)
      if (!makes(s) || seen++ == turn) out.push_back(s);
  }
}

/// Issues machine instructions for lanes whose accesses were put off, or made with those of others.
void Join::issue_owed(std::pair<uint32_t, uint32_t> range, Cursor& c, uint32_t lanes, std::vector<Step>& out) const {
  for (uint32_t i = range.first; i < range.second; i++) {
    Step s;
    s.instruction = i;
    s.lanes = std::min(32u, lanes);
    s.off = code_[i].i.never || eventful(code_[i].kind);
    if (const auto found = c.waiting.find(place_[i]); found != c.waiting.end() && !found->second.empty() && code_[i].kind == code_[found->second.front().first].kind) {
      s.event = found->second.front().second, s.off = 0;
      found->second.erase(found->second.begin());
    }
    out.push_back(s);
  }
}

/// Issues what was put off and found no instruction behind the loop, ahead of the warp's last instruction.
void Join::issue_waiting(Cursor& c, std::vector<Step>& out) const {
  for (const auto& [place, list] : c.waiting)
    for (const auto& [instruction, event] : list) {
      Step s;
      s.instruction = instruction, s.event = event;
      out.insert(out.end() - (out.empty() ? 0 : 1), s);
    }
  c.waiting.clear();
}

/// The function that begins there, by the way whose length is nearest; 0: the longest.
void Join::call(uint32_t begin, uint32_t instructions, uint32_t lanes, std::vector<Step>& out) const {
  const auto found = ways_.find(begin);
  if (found == ways_.end() || found->second.empty()) return;
  const auto far = [&](const Way& w) { return instructions == 0 ? -int64_t(w.size()) : std::abs(int64_t(w.size()) - int64_t(instructions)); };
  const Way& way = *std::min_element(found->second.begin(), found->second.end(), [&](const Way& a, const Way& b) { return far(a) < far(b); });
  for (const uint32_t i : way) {
    Step s;
    s.instruction = i;
    s.lanes = std::min(32u, lanes);
    s.off = code_[i].i.never;
    out.push_back(s);
  }
}

}  // namespace orrery::timing
