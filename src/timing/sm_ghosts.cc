// timing/sm_ghosts.cc: see sm_ghosts.h: by how much ghosts' addresses move, and which traces stand for their blocks.
#include "timing/sm_ghosts.h"

namespace orrery::timing {

Sm::State::State(const ChipFigures& f, const Kernel& k, Chip& c, uint32_t n, uint32_t n_slots)
    : f(f), kernel(k), code(k.join->instructions()), chip(c), number(n), slots(n_slots), l1(std::max<uint32_t>(8192, k.l1_bytes)), fetched(k.executed, k.fetch), slopes(1), requests(kTogether + 4 + 2 * size_t{k.ghosts}), first_sm(n - k.behind) {
  shared_data = shares();
  for (const auto& [pc, slope] : k.slopes) {
    if (!slope.regular) continue;
    uint32_t which = 1;
    while (which < slopes.size() && !(slopes[which] == slope)) which++;
    if (which == slopes.size()) slopes.push_back(slope);
    slope_of[pc] = which;
  }
  for (Slot& s : slots) s.moves.resize(slopes.size() + 1);  // the last: local memory
  for (const MachineInstruction& m : code)
    if (m.bypasses_l1) past_l1_at.insert(m.pc);
}

/// By how many blocks the ghosts' blocks lie from the traced one.
void Sm::State::find_places(Slot& slot) const {
  const GridShape& grid = kernel.grid;
  const uint32_t* from = slot.work.code->trace->ctaid;
  uint64_t last = ~uint64_t{1}, x = 0, y = 0, z = 0;
  slot.places.clear();
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = kernel.block_of(g, slot.work);
    if (index >= grid.count()) continue;
    if (index == last + 1) {
      if (++x == grid.x) x = 0, y++;
      if (y == grid.y) y = 0, z++;
    } else {
      x = index % grid.x, y = index / grid.x % grid.y, z = index / (grid.x * grid.y);
    }
    last = index;
    slot.places.push_back({int64_t(x) - int64_t(from[0]), int64_t(y) - int64_t(from[1]), int64_t(z) - int64_t(from[2]), uint32_t(number + kernel.ahead(g))});
  }
}

/// Nobody that is not like another: none.
void Sm::State::forget_strangers(std::vector<uint32_t>& mates) {
  std::vector<uint32_t>& all = sorted_mates;
  all = mates;
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); i++)
    if (all[i] && all[i] == all[i - 1]) return;
  mates.clear();
}

void Sm::State::find_moves(Slot& slot, const Slope& slope, Moves& m) {
  const auto sectors_to = [&](int64_t x, int64_t y, int64_t z) { return (slope.x * x + slope.y * y + slope.z * z) >> 5; };
  const int64_t* at = slot.work.at;
  const uint32_t* from = slot.work.code->trace->ctaid;
  m.known = true, m.turn = 0;
  m.own = sectors_to(at[0] - int64_t(from[0]), at[1] - int64_t(from[1]), at[2] - int64_t(from[2]));
  m.ghosts.clear(), m.mates.clear();
  if (kernel.traces && !slope.regular) return;
  if (slot.places.empty()) find_places(slot);
  m.mates.assign(kernel.ghosts + 1, 0);
  m.mates[number - first_sm] = mate_of(m.own);
  for (const Slot::Place& p : slot.places) {
    m.ghosts.push_back({sectors_to(p.x, p.y, p.z), p.sm});
    m.mates[p.sm - first_sm] = mate_of(m.ghosts.back().first);
  }
  forget_strangers(m.mates);
}

/// How the addresses of PTX instruction `pc` move from the traced block to the slot's own and to those of its ghosts: worked out
/// once for each block that runs and each slope.
const Sm::State::Moves& Sm::State::moves_of(Slot& slot, const Apart& apart, uint32_t pc) {
  const auto found = slope_of.find(pc);
  const uint32_t which = found != slope_of.end() ? found->second : 0;
  Moves& m = slot.moves[which];
  if (!m.known) find_moves(slot, slopes[which], m);
  if (!m.mates.empty()) in_order(apart, m.ghosts, m.turn, [](const auto& ghost) { return ghost.second; });
  return m;
}

/// Local memory lies where its block runs: that of an SM's blocks side by side.
void Sm::State::find_local_moves(Slot& slot, Moves& m) {
  const uint64_t place = uint64_t(&slot - slots.data()), bytes = slot.work.code->trace->local_bytes;
  const auto sectors_to = [&](uint32_t sm) { return int64_t(kLocalBase + (uint64_t{sm} * slots.size() + place) * bytes) >> 5; };
  m.known = true, m.own = sectors_to(number);
  m.ghosts.clear(), m.mates.clear();
  if (slot.places.empty()) find_places(slot);
  for (const Slot::Place& p : slot.places) m.ghosts.push_back({sectors_to(p.sm), p.sm});
}

/// The same for what the event touches.
const Sm::State::Moves& Sm::State::moves_of(const WarpRun& w, const Event& e) {
  Slot& slot = slots[w.slot];
  if (!is_local(e.what)) return moves_of(slot, apart_of(w), e.pc);
  Moves& m = slot.moves.back();
  if (!m.known) find_local_moves(slot, m);
  return m;
}

void Sm::State::find_ghosts(Slot& slot) const {
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = kernel.block_of(g, slot.work);
    if (index >= kernel.grid.count()) continue;
    const GhostTraces::View block = kernel.traces->of(index);
    slot.ghosts.push_back({block, index, uint32_t(number + kernel.ahead(g)), block.trace->index == index});
  }
}

/// Where the lines of a ghost's event lie. Another block's trace is moved by the slope, where addresses have one; else lines that
/// several blocks touch stay, and the block's own lie elsewhere in the range that was seen.
Sm::State::GhostLines Sm::State::lines_of(const Slot::Ghost& g, uint32_t pc, const GhostTraces::Access& access) const {
  GhostLines found{g.block.lines + access.detail, nullptr, access.n_detail, g.sm};
  found.filled = access.filled;
  if (g.as_traced) return found;
  const TracedBlock& trace = *g.block.trace;
  const auto slope = kernel.slopes.find(pc);
  if (slope != kernel.slopes.end() && slope->second.regular) {
    const GridShape& grid = kernel.grid;
    const int64_t at[3] = {int64_t(g.index % grid.x), int64_t(g.index / grid.x % grid.y), int64_t(g.index / (grid.x * grid.y))};
    const Slope& s = slope->second;
    const uint32_t* from = trace.ctaid;
    found.sectors = (s.x * (at[0] - int64_t(from[0])) + s.y * (at[1] - int64_t(from[1])) + s.z * (at[2] - int64_t(from[2]))) >> 5;
  } else if (const auto pool = kernel.pools.find(pc); pool != kernel.pools.end()) {
    found.own = trace.own.data() + access.detail;
    found.low = pool->second.low, found.room = pool->second.high - pool->second.low + 1;
    // Blocks lie in the range as in the grid: what follows a list that all share is read once, and drawn places are drawn either way.
    const double share = double(found.room) / double(std::max<uint64_t>(1, kernel.grid.count()));
    found.away = uint64_t(std::fmod((double(g.index) - double(trace.index)) * share + double(found.room), double(found.room)));
  }
  return found;
}

/// Finds what the ghosts' blocks do where the detailed one has event `e`: once for all lines of it. What is looked at in each of many
/// blocks lies in no cache of the host: it is fetched for all, step by step.
void Sm::State::find_ghost_lines(const WarpRun& w, const Event& e) {
  Slot& slot = slots[w.slot];
  if (slot.ghosts.empty()) find_ghosts(slot);
  in_order(apart_of(w), slot.ghosts, slot.ghosts_turn, [](const Slot::Ghost& ghost) { return ghost.sm; });
  ghost_lines.clear(), ghost_event = &e, ghost_slot = w.slot;
  const uint32_t column = kernel.traces->column_of(e.pc);
  if (column == GhostTraces::kNoColumn) return;
  for (const Slot::Ghost& g : slot.ghosts) fetch_ahead(g.block.begin_of(w.place, column));
  ghost_accesses.clear();
  for (const Slot::Ghost& g : slot.ghosts) {
    const std::span<const GhostTraces::Access> all = g.block.of(w.place, column);
    if (e.ordinal >= all.size()) continue;
    fetch_ahead(&all[e.ordinal]);
    ghost_accesses.push_back({&g, &all[e.ordinal]});
  }
  for (const auto& [g, access] : ghost_accesses) {
    ghost_lines.push_back(lines_of(*g, e.pc, *access));
    constexpr uint32_t kInLine = 8;  // of a trace's lines in one of the host's
    for (uint32_t i = 0; i < access->n_detail; i += kInLine) fetch_ahead(ghost_lines.back().lines + i);
  }
}

/// Which SMs' blocks load the same line first where the detailed one, whose own line moved by `own`, has event `e`: alike for the same, 0 where a block does
/// not load. What ghosts do there was found.
const std::vector<uint32_t>& Sm::State::traced_mates(const WarpRun& w, const Event& e, int64_t own) {
  found_mates.clear();
  if (ghost_event != &e || ghost_slot != w.slot || e.n_detail == 0) return found_mates;
  found_mates.assign(kernel.ghosts + 1, 0);
  found_mates[number - first_sm] = mate_of(int64_t(Move(slots[w.slot].work.code->trace->lines[e.detail], own).line));
  for (const GhostLines& g : ghost_lines)
    if (g.n > 0) found_mates[g.sm - first_sm] = mate_of(int64_t(Move(g.packed(0), g.sectors).line));
  forget_strangers(found_mates);
  return found_mates;
}

/// What ghosts' blocks access and the detailed one, which ends, did not: their warps side by side, each block with its part of an L1.
void Sm::State::finish_ghosts(Slot& slot, double now) {
  if (slot.ghosts.empty()) find_ghosts(slot);
  const GhostTraces::View own = kernel.traces->of(slot.work.code->trace->index);
  constexpr size_t kRemembered = 512;  // accesses of a warp by an instruction, which filled L1 before
  std::vector<RestAccess> rest;
  for (const Slot::Ghost& g : slot.ghosts) {
    if (g.block.trace == own.trace || g.block.trace->shape == own.trace->shape) continue;
    rest.clear();
    bool more = false;
    for (uint32_t w = 0; w < g.block.warps && w < own.warps; w++)
      for (uint32_t column = 0; column < g.block.columns; column++) {
        const std::span<const GhostTraces::Access> all = g.block.of(w, column);
        const size_t done = own.of(w, column).size();
        if (done < all.size()) more = true;
        for (size_t i = done - std::min(done, kRemembered); i < all.size(); i++) {
          fetch_ahead(g.block.lines + all[i].detail);
          rest.push_back({&all[i], w, i < done});
        }
      }
    if (!more) continue;
    std::sort(rest.begin(), rest.end(), [](const RestAccess& a, const RestAccess& b) { return std::pair(a.access->event, a.warp) < std::pair(b.access->event, b.warp); });
    if (!ghost_l1) ghost_l1.emplace(std::max<uint64_t>(8192, kernel.l1_bytes / slots.size()));
    ghost_l1->forget();
    for (const RestAccess& x : rest) finish_access(g, x, now);
  }
}

void Sm::State::finish_access(const Slot::Ghost& g, const RestAccess& x, double now) {
  const GhostTraces::Access& access = *x.access;
  const bool reads = access.what == What::global_load || access.what == What::copy_async, writes = access.what == What::global_store;
  if (!reads && !writes) return;
  const Event& e = g.block.trace->warps[x.warp].events[access.event];
  const bool keeps = access.what == What::global_load && !past_l1_at.count(e.pc);
  for_lines_of(lines_of(g, g.as_traced ? 0 : e.pc, access), 0, access.n_detail, [&](uint64_t l, uint32_t mask) {
    if (keeps) {
      const L1::Way way = ghost_l1->find(l);
      mask &= ~uint32_t{way.valid()};
      way.valid() |= uint8_t(mask);
    }
    if (!mask || x.done) return;
    counts.requests++, counts.looked_up += chip.takes(l);
    if (!chip.takes(l)) return;
    const uint64_t among = chip.among_taken(l);
    if (reads) chip.read(among, mask, g.sm, now);
    else chip.write(among, mask, now, uint32_t(std::min(32.0, double(e.count) / std::max(1, std::popcount(mask)))));
  });
}

}  // namespace orrery::timing
