// timing/sm_memory.cc: loads, stores, atomics and copies of an SM, and the same by the SMs that it stands for.
#include "timing/sm_state.h"

namespace orrery::timing {

namespace {

/// Does a warp wait for what comes back?
constexpr bool goes_out(What w) {
  switch (w) {
    case What::global_load: case What::global_atomic: case What::local_load: case What::copy_async: case What::bulk_load: case What::bulk_prefetch:
      return true;
    default: return false;
  }
}

}  // namespace

Sm::State::State(const ChipFigures& f, const Kernel& k, Chip& c, uint32_t n, uint32_t n_slots)
    : f(f), kernel(k), code(k.join->instructions()), chip(c), number(n), slots(n_slots), l1(std::max<uint32_t>(8192, k.l1_bytes)), slopes(1), requests(kTogether + 4 + 2 * size_t{k.ghosts}) {
  for (const auto& [pc, slope] : k.slopes) {
    if (!slope.regular) continue;
    uint32_t which = 1;
    while (which < slopes.size() && !(slopes[which] == slope)) which++;
    if (which == slopes.size()) slopes.push_back(slope);
    slope_of[pc] = which;
  }
  for (Slot& s : slots) s.moves.resize(slopes.size());
}

/// By how many blocks the ghosts' blocks lie from the traced one.
void Sm::State::find_places(Slot& slot) const {
  const GridShape& grid = kernel.grid;
  const uint32_t* from = slot.work.code->trace->ctaid;
  uint64_t last = ~uint64_t{1}, x = 0, y = 0, z = 0;
  slot.places.clear();
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = slot.work.index + uint64_t(kernel.ahead(g));
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

void Sm::State::find_moves(Slot& slot, const Slope& slope, Moves& m) const {
  const auto sectors_to = [&](int64_t x, int64_t y, int64_t z) { return (slope.x * x + slope.y * y + slope.z * z) >> 5; };
  const int64_t* at = slot.work.at;
  const uint32_t* from = slot.work.code->trace->ctaid;
  m.known = true;
  m.own = sectors_to(at[0] - int64_t(from[0]), at[1] - int64_t(from[1]), at[2] - int64_t(from[2]));
  m.ghosts.clear();
  if (kernel.traces && !slope.regular) return;
  if (slot.places.empty()) find_places(slot);
  for (const Slot::Place& p : slot.places) m.ghosts.push_back({sectors_to(p.x, p.y, p.z), p.sm});
}

/// How the addresses of PTX instruction `pc` move from the traced block to the slot's own and to those of its ghosts: worked out
/// once for each block that runs and each slope.
const Sm::State::Moves& Sm::State::moves_of(Slot& slot, uint32_t pc) {
  const auto found = slope_of.find(pc);
  const uint32_t which = found != slope_of.end() ? found->second : 0;
  Moves& m = slot.moves[which];
  if (!m.known) find_moves(slot, slopes[which], m);
  return m;
}

/// Calls f(line, sectors) for what sectors of a line become that many sectors on: one line or two.
template <class F>
void Sm::State::moved(uint64_t packed, int64_t sectors, F f) {
  const uint64_t first = uint64_t(int64_t((packed >> 4) * 4) + sectors), wide = (packed & 15) << (first & 3);
  f(first >> 2, uint32_t(wide & 15));
  if (wide >> 4) f((first >> 2) + 1, uint32_t(wide >> 4));
}

/// Calls f(line, sectors, SM) for what ghosts do when the detailed block touches the event's line of that number.
template <class F>
void Sm::State::for_ghosts(const WarpRun& w, const Event& e, uint32_t line, F f) {
  if (kernel.ghosts == 0) return;
  Slot& slot = slots[w.slot];
  if (kernel.traces) return for_traced_ghosts(w, e, line, f);
  for_even_ghosts(moves_of(slot, e.pc), slot.work.code->trace->lines[e.detail + line], f);
}

template <class F>
void Sm::State::for_even_ghosts(const Moves& moves, uint64_t packed, F f) {
  for (const auto& [sectors, sm] : moves.ghosts)
    moved(packed, sectors, [&](uint64_t l, uint32_t mask) { f(l, mask, sm); });
}

void Sm::State::find_ghosts(Slot& slot) const {
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = slot.work.index + uint64_t(kernel.ahead(g));
    if (index < kernel.grid.count()) slot.ghosts.push_back({&kernel.traces->of(index), index, uint32_t(number + kernel.ahead(g))});
  }
}

/// Where the lines of a ghost's event lie. Another block's trace is moved by the slope, where addresses have one; else lines that
/// several blocks touch stay, and the block's own lie elsewhere in the range that was seen.
Sm::State::GhostLines Sm::State::lines_of(const Slot::Ghost& g, const Event& e) const {
  GhostLines found{g.trace->lines.data() + e.detail, e.n_detail, g.sm};
  if (g.trace->index == g.index) return found;
  const auto slope = kernel.slopes.find(e.pc);
  if (slope != kernel.slopes.end() && slope->second.regular) {
    const GridShape& grid = kernel.grid;
    const int64_t at[3] = {int64_t(g.index % grid.x), int64_t(g.index / grid.x % grid.y), int64_t(g.index / (grid.x * grid.y))};
    const Slope& s = slope->second;
    const uint32_t* from = g.trace->ctaid;
    found.sectors = (s.x * (at[0] - int64_t(from[0])) + s.y * (at[1] - int64_t(from[1])) + s.z * (at[2] - int64_t(from[2]))) >> 5;
  } else if (const auto pool = kernel.pools.find(e.pc); pool != kernel.pools.end()) {
    found.pool = &pool->second;
    found.away = (g.index * 0xD1B54A32D192ED03ull >> 20) % (pool->second.high - pool->second.low + 1);
  }
  return found;
}

/// Calls f(line, sectors) for lines of a ghost's event, from `first` to before `last`.
template <class F>
void Sm::State::for_lines_of(const GhostLines& g, uint32_t first, uint32_t last, F f) {
  for (uint32_t i = first; i < last; i++) {
    uint64_t packed = g.lines[i];
    if (g.pool && !g.pool->shared.contains(packed >> 4)) {
      const uint64_t room = g.pool->high - g.pool->low + 1;
      uint64_t place = (packed >> 4) - g.pool->low + g.away;
      if (place >= room) place = place < 2 * room ? place - room : place % room;
      packed = (g.pool->low + place) << 4 | (packed & 15);
    }
    moved(packed, g.sectors, f);
  }
}

/// Finds what the ghosts' blocks do where the detailed one has event `e`: once for all lines of it.
void Sm::State::find_ghost_lines(const WarpRun& w, const Event& e) {
  Slot& slot = slots[w.slot];
  if (slot.ghosts.empty()) find_ghosts(slot);
  ghost_lines.clear(), ghost_event = &e, ghost_slot = w.slot;
  const size_t at = size_t(&e - w.trace->events.data());
  for (const Slot::Ghost& g : slot.ghosts) {
    if (w.place >= g.trace->warps.size()) continue;
    if (const Event* own = kernel.traces->find(g.trace->warps[w.place], e, at)) ghost_lines.push_back(lines_of(g, *own));
  }
}

template <class F>
void Sm::State::for_traced_ghosts(const WarpRun& w, const Event& e, uint32_t line, F f) {
  if (ghost_event != &e || ghost_slot != w.slot) find_ghost_lines(w, e);
  for (const GhostLines& g : ghost_lines)
    if (line < g.n) for_lines_of(g, line, line + 1 == e.n_detail ? g.n : line + 1, [&](uint64_t l, uint32_t mask) { f(l, mask, g.sm); });
}

/// What ghosts' blocks access and the detailed one, which ends, did not.
void Sm::State::finish_ghosts(Slot& slot, double now) {
  if (slot.ghosts.empty()) find_ghosts(slot);
  const TracedBlock& own = *slot.work.code->trace;
  for (const Slot::Ghost& g : slot.ghosts) {
    if (g.trace == &own || g.trace->shape == own.shape) continue;
    for (size_t w = 0; w < g.trace->warps.size() && w < own.warps.size(); w++)
      for (size_t i = 0; i < g.trace->warps[w].events.size(); i++) {
        const Event& e = g.trace->warps[w].events[i];
        const bool reads = e.what == What::global_load || e.what == What::copy_async, writes = e.what == What::global_store;
        if (!e.n_detail || (!reads && !writes) || kernel.traces->find(own.warps[w], e, i)) continue;
        for_lines_of(lines_of(g, e), 0, e.n_detail, [&](uint64_t l, uint32_t mask) {
          counts.requests++, counts.looked_up += chip.takes(l);
          if (!chip.takes(l)) return;
          const uint64_t among = chip.among_taken(l);
          if (reads) chip.read(among, mask, g.sm, now);
          else chip.write(among, mask, now, uint32_t(std::min(32.0, double(e.count) / std::max(1, std::popcount(mask)))));
        });
      }
  }
}

/// A request from `first` on that stands for one to a page that is not looked up: of one ghost for all lines of the page, since memory
/// serves them alike.
size_t Sm::State::stand_in_for(uint64_t line, size_t first) const {
  const size_t n = n_requests - first;
  return n > 0 ? first + size_t((mix(line >> 4) >> 32) * n >> 32) : kNone;
}

/// Looks up what PTX instruction `pc` has asked for; returns when the last data of the detailed block are there. Lines of pages that are not
/// looked up take as long as what a ghost's block asked for in their place.
double Sm::State::read_asked(uint32_t pc) {
  chip.read_all({requests.data(), n_requests});
  double last = 0, fresh = 0, &latest = chip.one_of() > 1 ? took.try_emplace(pc, f.l2_latency).first->second : fresh;
  for (const Asked& a : asked) {
    const double back = a.request != kNone ? requests[a.request].when : a.when + latest;
    latest = back - a.when;
    last = std::max(last, back);
    if (a.way && a.way->tag == a.line) a.way->arrives = std::max(a.way->arrives, back);
  }
  n_requests = 0, asked.clear();
  return last;
}

/// All lines are asked for before they are looked up: most look-ups are the ghosts', and many at a time take less than each alone.
double Sm::State::global_read(WarpRun& w, const Event& e, const MachineInstruction& m, double at) {
  Slot& slot = slots[w.slot];
  const TracedBlock& block = *slot.work.code->trace;
  const int64_t own = moves_of(slot, e.pc).own;
  double done = at;
  for (uint32_t i = 0; i < e.n_detail; i++) {
    const uint64_t packed = block.lines[e.detail + i];
    const size_t first = n_requests;
    bool shared_out = false;  // the ghosts have asked for theirs
    moved(packed, own, [&](uint64_t line, uint32_t mask) {
      counts.l1_sectors += sectors_in(mask);
      L1::Way* way = nullptr;
      if (!m.bypasses_l1) {
        bool hit = false;
        way = &l1.find(line, hit);
        const uint32_t missing = mask & ~way->valid;
        counts.l1_hits += sectors_in(mask) - sectors_in(missing);
        if (!missing) {
          done = std::max({done, at + f.l1_latency - kIssueToHit, way->arrives - kIssueToMiss});
          return;
        }
        mask = missing;
        way->valid |= uint8_t(mask);
      }
      request = std::max({request, at, held_until}) + std::max(f.sm_request, sectors_in(mask) * 32.0 / f.sm_bandwidth);
      counts.lines_asked++;
      const size_t own_request = n_requests;
      ask_if_taken(line, mask, number, request);
      const bool taken = n_requests > own_request;
      if (!shared_out) for_ghosts(w, e, i, [&](uint64_t l, uint32_t k, uint32_t sm) { ask_if_taken(l, k, sm, request); });
      shared_out = true;
      asked.push_back({taken ? own_request : stand_in_for(line, first), way, line, request});
    });
    if (n_requests >= kTogether) done = std::max(done, read_asked(e.pc) - kIssueToMiss);
  }
  if (!asked.empty()) done = std::max(done, read_asked(e.pc) - kIssueToMiss);
  return done;
}

/// Does a store to a line join one of its sub-core that lies near the end of the queue? One that a slice holds up takes any; else the two must be
/// of one warp and follow each other closely.
bool Sm::State::joins_waiting(const WarpRun& w, uint64_t line, double at, bool& joins_held) {
  SubCore& p = sub[w.sub];
  for (uint64_t back = 1; back <= std::min(kNear, p.stores); back++) {
    WaitingStore& other = p.waiting[(p.stores - back) % kNear];
    if (other.line != line) continue;
    if (other.held ? other.leaves <= at : other.warp != w.age || w.at - other.step > kJoinsWithin) continue;
    other.step = w.at;
    joins_held |= other.held;
    return true;
  }
  return false;
}

/// When a store that is ready at write_port leaves: L2 must have taken the one so many before it. What comes after waits, too.
double Sm::State::leaves_at(const WarpRun& w, uint64_t line) {
  const double held = taken[stores % kInFlight], leaves = std::max({write_port, held, chip.write_free() - kOnTheWay});
  if (held > write_port) held_until = std::max(held_until, held);
  SubCore& p = sub[w.sub];
  p.waiting[p.stores++ % kNear] = {line, w.age, w.at, leaves, held > write_port};
  left[stores % left.size()] = leaves;
  return leaves;
}

void Sm::State::global_write(WarpRun& w, const Event& e, double at) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double sectors = 0;
  for (uint32_t i = 0; i < e.n_detail; i++) sectors += sectors_in(uint32_t(block.lines[e.detail + i] & 15));
  bool joins_held = false;
  // Bytes next to each other fill their sectors but for the first and the last, which neighbours fill.
  const bool gapless = sectors >= 3 && e.count > 32 * (sectors - 2);
  const uint32_t per_sector = gapless ? 32 : uint32_t(std::min(32.0, std::ceil(double(e.count) / std::max(1.0, sectors))));
  const int64_t own = moves_of(slots[w.slot], e.pc).own;
  for (uint32_t i = 0; i < e.n_detail; i++) {
    const uint64_t packed = block.lines[e.detail + i];
    bool first = true;
    moved(packed, own, [&](uint64_t line, uint32_t mask) {
      const bool shares_out = std::exchange(first, false);
      if (joins_waiting(w, line, at, joins_held)) {
        if (chip.takes(line)) chip.write_more(chip.among_taken(line), mask, per_sector);
        if (shares_out) for_ghosts(w, e, i, [&](uint64_t l, uint32_t k, uint32_t) {
          if (chip.takes(l)) chip.write_more(chip.among_taken(l), k, per_sector);
        });
        return;
      }
      write_port = std::max(write_port, at) + std::max(1.0, sectors_in(mask) * 32.0 / f.sm_write_bandwidth);
      const double leaves = leaves_at(w, line);
      if (shares_out) for_ghosts(w, e, i, [&](uint64_t l, uint32_t k, uint32_t sm) { ask_if_taken(l, k, sm, leaves); });
      chip.write_all({requests.data(), n_requests}, per_sector);
      n_requests = 0;
      counts.requests++, counts.looked_up += chip.takes(line);
      const uint64_t among = chip.among_taken(line);
      taken[stores++ % kInFlight] = chip.takes(line) ? chip.write(among, mask, leaves, per_sector) : chip.would_write(among, mask, leaves, per_sector);
    });
  }
  if (joins_held) write_port += kJoin;
}

/// Where ghosts' copies lie, in lines from the detailed block's: the same place in the copy of another block. Blocks that were not
/// traced copy what no one else does.
void Sm::State::find_copies_of_ghosts(const WarpRun& w, const Event& e, const CopyPool& pool) {
  ghost_copies.clear();
  const BlockWork& own = slots[w.slot].work;
  const auto all = kernel.all_copies.find(copy_key(e.pc, w.place));
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = own.index + uint64_t(kernel.ahead(g));
    const uint32_t sm = uint32_t(number + kernel.ahead(g));
    if (index >= kernel.grid.count()) continue;
    if (all != kernel.all_copies.end() && index < all->second.starts.size() && !all->second.starts[index].empty()) {
      const std::vector<uint64_t>& starts = all->second.starts[index];
      if (e.ordinal < starts.size() && starts[e.ordinal]) ghost_copies.push_back({int64_t(starts[e.ordinal] - e.address) >> 7, sm});
      continue;
    }
    const uint64_t pick = (index * 0x9E3779B97F4A7C15ull >> 33) % pool.population;
    const std::vector<uint64_t>& starts = pool.starts[size_t(pick % pool.starts.size())];
    const uint64_t start = starts[std::min<size_t>(e.ordinal, starts.size() - 1)];
    if (start) ghost_copies.push_back({(int64_t(start - e.address) >> 7) + int64_t(pick / pool.starts.size() << 40), sm});
  }
}

/// Calls f(line, sectors) for every line of a row of bytes.
template <class F>
void for_lines(uint64_t address, uint64_t bytes, F f) {
  for (uint64_t line = address >> 7; line <= (address + bytes - 1) >> 7; line++) {
    const uint64_t low = std::max(address, line << 7), high = std::min(address + bytes, (line + 1) << 7);
    uint32_t mask = 0;
    for (uint64_t s = low >> 5; s <= (high - 1) >> 5; s++) mask |= 1u << (s & 3);
    f(line, mask);
  }
}

/// A bulk or tensor copy: the lines of its runs at the engine's pace. Returns when the last byte is there.
double Sm::State::run_copy(WarpRun& w, const Event& e, double at, bool store) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double done = at;
  const auto drawn = kernel.copies.find(copy_key(e.pc, w.place));
  const CopyPool* const pool = drawn != kernel.copies.end() ? &drawn->second : nullptr;
  if (pool) find_copies_of_ghosts(w, e, *pool);
  const double bandwidth = store ? f.tma_store_bandwidth : f.tma_bandwidth;
  const Moves& moves = moves_of(slots[w.slot], e.pc);
  bool in_pairs = false;
  const auto touch = [&](uint64_t line, uint32_t mask, uint32_t sm) { ask(line, mask, sm, tma, in_pairs); };
  const auto send = [&] {
    if (store) chip.write_all({requests.data(), n_requests}, 32);
    else done = std::max(done, read_asked(e.pc));
    n_requests = 0;
  };
  tma = std::max(tma, store ? at : at + f.tma_latency);
  const auto copy_line = [&](uint64_t line, uint32_t mask) {
    tma += std::max(sectors_in(mask) * 32.0 / bandwidth, 1.0);
    counts.tma_bytes += sectors_in(mask) * 32.0;
    bool first = true;
    moved(line << 4 | mask, moves.own, [&](uint64_t l, uint32_t k) {
      if (!store) asked.push_back({n_requests, nullptr, l, tma});
      touch(l, k, number);
      if (!std::exchange(first, false)) return;
      if (!pool) return for_even_ghosts(moves, line << 4 | mask, touch);
      for (const auto& [ahead, sm] : ghost_copies) touch(uint64_t(int64_t(line) + ahead), mask, sm);
    });
    if (n_requests >= kTogether) send();
    if (store) done = std::max(done, tma + f.tma_store_latency);
  };
  for (uint32_t i = 0; i < e.n_detail; i++) {
    const Run& run = block.runs[e.detail + i];
    in_pairs = run.in_pairs;
    for (uint32_t row = 0; row < run.rows; row++) for_lines(run.address + row * run.stride, run.bytes, copy_line);
  }
  send();
  if (record && record->copies.size() < Record::kSpans) record->copies.push_back({at, done, 0, Wait::copies});
  return done;
}

/// A bulk copy out of shared memory into that of a block of the cluster. Returns when the last byte is there.
double Sm::State::copy_to_peer(const Event& e, double at) {
  tma = std::max(tma, at) + e.count / f.tma_peer_bandwidth;
  return tma + f.tma_peer_latency;
}

void Sm::State::memory(WarpRun& w, const MachineInstruction& m, const Event* e, double start) {
  SubCore& p = sub[w.sub];
  if (e && goes_out(e->what)) {
    if (translated < 0) translated = start + kernel.first_access;
    start = std::max(start, translated);
  }
  const auto use_pipe = [&](double cycles) {
    const double at = std::max(pipe, start + 2);
    pipe = at + cycles;
    if (pipe - start > 64) p.queue = std::max(p.queue, pipe - 40);
    return at;
  };
  // A generic or merged access goes by what it turned out to touch.
  const What what = e ? e->what : What::other;
  switch (m.kind) {
    case Class::shuffle: {
      if (p.products > start) p.queue += kShuffleBeside;
      const double at = use_pipe(1);
      return set_barriers(w, m, at + 22, at + 4);
    }
    case Class::local_load: case Class::local_store: {
      const double at = use_pipe(std::max(1, m.width / 4));
      return set_barriers(w, m, at + f.l1_latency, at + 8);
    }
    case Class::texture: {
      const double at = use_pipe(2);
      return set_barriers(w, m, at + 200, at + 12);
    }
    default: break;
  }
  if (what == What::shared_load || what == What::shared_store || what == What::shared_atomic) {
    double waves = e->extra;
    if (e->lanes_bytes && m.width > e->lanes_bytes && m.kind != Class::matrix_load) {
      const uint32_t merged = m.width == 8 ? e->count & 0xFFFF : m.width == 16 ? e->count >> 16 : 0;
      waves = merged ? merged : waves * m.width / e->lanes_bytes;
    }
    if (what == What::shared_atomic) waves = m.counts_lanes ? kCountLanes : waves * 2;
    const double at = use_pipe(waves);
    counts.shared_wavefronts += waves;
    // What comes back takes a cycle of the write port for each register [broadcast_mix8: 12 cycles for 8 products and a load of 4].
    if (what == What::shared_load) p.write = std::max(p.write, w.issued) + std::max(1, m.width / 4);
    const double latency = what == What::shared_atomic ? 26 : f.shared_latency + (m.kind == Class::matrix_load ? 6 : 0);
    return set_barriers(w, m, at + waves - 1 + latency - 2, at + waves + 8);
  }
  if (what == What::remote_load || what == What::remote_store) {
    const double at = use_pipe(e->extra);
    const double words = std::clamp((16.0 - e->lanes_bytes) / 12, 0.0, 1.0);  // 1: 4 bytes a lane, 0: 16
    const double bandwidth = f.dsmem_bandwidth * (what == What::remote_store ? kRemoteStore : 1 + words * (kRemoteWords - 1));
    dsmem = std::max(dsmem, at) + double(e->lanes_bytes) * std::popcount(e->mask) / bandwidth;
    return set_barriers(w, m, dsmem + f.dsmem_latency, at + 12);
  }
  if (what == What::global_load || what == What::local_load) {
    const double bytes = double(e->lanes_bytes) * std::popcount(e->mask);
    // L1 looks up 3.5 lines and gives a word of each bank in a cycle; one warp's lines come one after the other.
    const double words = std::max<double>(1, e->extra), lines = e->n_detail;
    const double at = use_pipe(std::max({1.0, bytes / 128, words, lines / 3.5}));
    const double done = global_read(w, *e, m, at) + (m.bypasses_l1 ? 0 : 2 * std::max(0.0, std::max(words, lines / 3.5) - std::max(4.0, bytes / 128)));
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
    return set_barriers(w, m, done + (m.width >= 16 ? 6 : m.width == 8 ? 2 : 0), at + 10);
  }
  if (what == What::global_store || what == What::local_store) {
    const double bytes = double(e->lanes_bytes) * std::popcount(e->mask);
    const double at = use_pipe(std::max<double>(e->n_detail, bytes / 128));
    global_write(w, *e, at);
    const double backlog = std::max({write_port, chip.dram_free() - 2 * kOutstanding, chip.write_free()});
    if (backlog - at > kOutstanding) p.queue = std::max(p.queue, backlog - kOutstanding);
    p.queue = std::max(p.queue, left[stores % left.size()]);  // so many may wait
    return set_barriers(w, m, at + 20, at + 12);
  }
  if (what == What::global_atomic || what == What::global_reduction) {
    const double at = use_pipe(e->n_detail);
    // A warp may add up its lanes before it goes out.
    const uint32_t same = m.aggregated ? 1 : std::max<uint32_t>(1, e->extra);  // lanes on one word go one after the other
    const TracedBlock& block = *slots[w.slot].work.code->trace;
    const int64_t moves = moves_of(slots[w.slot], e->pc).own;
    double done = at;
    for (uint32_t i = 0; i < e->n_detail; i++) {
      const uint64_t packed = block.lines[e->detail + i];
      bool first = true;
      moved(packed, moves, [&](uint64_t line, uint32_t mask) {  // atomics do not part: what crosses into a second line is left out
        if (!std::exchange(first, false)) return;
        request = std::max(request, at) + sectors_in(mask) * 32.0 / f.sm_bandwidth;
        done = std::max(done, chip.atomic(chip.among_taken(line), mask, same * sectors_in(mask), m.floating, number, request));
      });
      for_ghosts(w, *e, i, [&](uint64_t l, uint32_t k, uint32_t sm) { chip.atomic(chip.among_taken(l), k, same * sectors_in(k), m.floating, sm, request); });
    }
    const double backlog = std::max(request, chip.atomics_free());
    if (backlog - at > kOutstanding) p.queue = std::max(p.queue, backlog - kOutstanding);
    return set_barriers(w, m, done, at + 12);
  }
  if (what == What::copy_async) {
    const double at = use_pipe(std::max<double>(e->n_detail, e->extra));
    const double done = global_read(w, *e, m, at) + 10;
    w.copies_done = std::max(w.copies_done, done);
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
    return set_barriers(w, m, done, at + 12);
  }
  if (what == What::other) {  // nothing is known of it: an access that hits
    const double at = use_pipe(1);
    return set_barriers(w, m, at + f.shared_latency, at + 8);
  }
  synchronise(w, uint32_t(&w - warps.data()), m, e, start);
}

}  // namespace orrery::timing
