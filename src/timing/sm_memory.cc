// timing/sm_memory.cc: loads and atomics of an SM, how all accesses take its pipe, and the same by the SMs that it stands for. Not here: stores (sm_stores.cc).
#include "timing/sm_ghosts.h"

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

/// Of any sectors that a ghost touches in a line, by mask, those that it asks for when the detailed block asks for `missing` of its `touched` ones: the same
/// where it touches the same, else as great a share of its own, from the end at which most are missing.
std::array<uint8_t, 16> asked_of(uint32_t touched, uint32_t missing) {
  std::array<uint8_t, 16> out;
  const uint32_t n = sectors_in(touched), k = sectors_in(missing & touched);
  const bool upper = (missing & touched & 12) > (missing & touched & 3);
  for (uint32_t mask = 0; mask < 16; mask++) {
    uint32_t left = mask == touched || n == 0 ? 0 : (sectors_in(mask) * (n - k) + n / 2) / n, kept = mask;
    while (left-- > 0) take_end(kept, upper);
    out[mask] = uint8_t(n == 0 ? mask : mask == touched ? mask & missing : kept);
  }
  return out;
}

}  // namespace

/// Asks for the line of that number of the event as ghosts do whose blocks differ, of pages that are looked up. Most are not, and no processor
/// foretells which: none is jumped over.
void Sm::State::ask_traced_ghosts(const Event& e, uint32_t line, uint32_t touched, uint32_t missing, double when, Part part) {
  const std::array<uint8_t, 16> asked_here = asked_of(touched, missing);
  const PageChoice pages = chip.pages_taken();
  const bool to_the_end = line + 1 == e.n_detail;  // whoever touches more lines does so along with the last
  size_t most = 0, listed = 0;
  for (const GhostLines& g : ghost_lines) most += to_the_end ? g.n : 1;
  if (asking_lines.size() <= most) asking_lines.resize(most + 1);
  GhostLine* const list = asking_lines.data();
  uint64_t others = 0;
  for (const GhostLines& g : ghost_lines) {
    const uint32_t last = to_the_end ? g.n : std::min(line + 1, g.n);
    for (uint32_t i = line; i < last; i++) {
      const uint64_t packed = (g.packed(i) & ~uint64_t{15}) | asked_here[g.packed(i) & g.sectors_of(i, part) & 15];
      const Move to(packed, g.sectors);
      const bool may = pages.takes(to.line) | pages.takes(to.line + (to.sectors > 15));
      list[listed] = {packed, g.sectors, g.sm}, listed += may;
      others += to.requests() & (uint64_t{may} - 1);
    }
  }
  counts.requests += others;
  for (size_t i = 0; i < listed; i++) moved(list[i].packed, list[i].sectors, [&](uint64_t l, uint32_t mask) { ask_if_taken(l, mask, list[i].sm, when); });
}

/// Asks for the line of that number of the event as ghosts do, of pages that are looked up: those that do alike for its `sectors` only, those that
/// the detailed block does not find in L1; of stores those that each fills or writes in part.
void Sm::State::ask_ghosts(const WarpRun& w, const Event& e, uint32_t line, double when, uint32_t sectors, Part part) {
  if (kernel.ghosts == 0) return;
  Slot& slot = slots[w.slot];
  if (!kernel.traces || is_local(e.what)) return ask_even_ghosts(moves_of(w, e).ghosts, slot.work.code->trace->lines[e.detail + line] & (~uint64_t{15} | sectors), when);
  if (ghost_event != &e || ghost_slot != w.slot) find_ghost_lines(w, e);
  ask_traced_ghosts(e, line, part == Part::all ? uint32_t(slot.work.code->trace->lines[e.detail + line] & 15) : 0, sectors, when, part);
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
  double waits = 0;
  for (size_t i = 0; i < n_requests; i++) waits += double(requests[i].waits);
  if (n_requests > 0) kept_waiting = std::max(kept_waiting, waits / double(n_requests));
  double last = 0, fresh = 0, &latest = chip.one_of() > 1 ? took.try_emplace(pc, f.l2_latency).first->second : fresh;
  for (const Asked& a : asked) {
    const double back = a.request != kNone ? requests[a.request].when : a.when + latest;
    latest = back - a.when;
    longest = std::max(longest, latest);
    last = std::max(last, back);
    if (a.way && a.way.tag() == a.line) a.way.arrives() = std::max(a.way.arrives(), back);
  }
  n_requests = 0, asked.clear();
  return last;
}

/// All lines are asked for before they are looked up: most look-ups are the ghosts', and many at a time take less than each alone.
Sm::State::Came Sm::State::global_read(WarpRun& w, const Event& e, const MachineInstruction& m, double at) {
  Slot& slot = slots[w.slot];
  const TracedBlock& block = *slot.work.code->trace;
  const int64_t own = moves_of(w, e).own;
  double done = at;
  asks(apart_of(w), slot, at, false);
  fetch = m.fetch, past_l1 = m.bypasses_l1;
  bool missed = false, alike = true;  // alike: the requests for this line
  w.queued += std::max(0.0, std::max(request, held_until) - at);
  if (!m.bypasses_l1 && e.n_detail > 1)
    for (uint32_t i = 0; i < e.n_detail; i++) moved(block.lines[e.detail + i], own, [&](uint64_t line, uint32_t) { l1.fetch(line); });
  for (uint32_t i = 0; i < e.n_detail; i++) {
    const uint64_t packed = block.lines[e.detail + i];
    const size_t first = n_requests;
    // Copies may ask for a line more than once (coalesce_copies), requests right behind each other. Where all are for the same sectors L2 looks
    // these up once and answers each [async_halves_whole, async_round/1: 16 of 32 sectors; async_halves/1040, of which one request lies between: 31.95].
    const auto of_line = [&](uint32_t other) { return other < e.n_detail && block.lines[e.detail + other] >> 4 == packed >> 4; };
    if (!of_line(i - 1)) {
      alike = true;
      for (uint32_t other = i + 1; of_line(other); other++) alike &= block.lines[e.detail + other] == packed;
    }
    const bool again = alike && of_line(i - 1);
    parted = !alike;
    struct Part {
      uint64_t line;
      uint32_t missing;
      L1::Way way;
    } parts[2];
    size_t n = 0;
    uint32_t missing = 0;  // of the traced line's sectors
    const auto look_up = [&](uint64_t line, uint32_t mask) {
      counts.l1_sectors += sectors_in(mask);
      L1::Way way;
      uint32_t misses = mask;
      if (!m.bypasses_l1) {
        way = l1.find(line);
        misses &= ~way.valid();
        counts.l1_hits += sectors_in(mask) - sectors_in(misses);
        if (!misses) {
          done = std::max({done, at + f.l1_latency - kIssueToHit, way.arrives() - kIssueToMiss});
          return;
        }
        way.valid() |= uint8_t(misses);
      }
      parts[n++] = {line, misses, way};
    };
    moved(packed, own, look_up);
    const uint64_t lowest = (packed >> 4) * 4 + uint64_t(own);  // where the traced line's first sector has moved
    for (size_t k = 0; k < n; k++) missing |= uint32_t(uint64_t{parts[k].missing} << 4 >> (4 + lowest - parts[k].line * 4)) & 15;
    bool shared_out = again;  // the ghosts have asked for theirs
    for (size_t k = 0; k < n; k++) {
      const auto& [line, misses, way] = parts[k];
      request = std::max({request, at, held_until}) + std::max(f.sm_request, sectors_in(misses) * 32.0 / f.sm_bandwidth);
      counts.lines_asked++, missed = true;
      leaving_lines.pass();
      slices.touch(line);
      if (again) continue;
      const size_t own_request = n_requests;
      ask_if_taken(line, misses, number, request);
      const bool taken = n_requests > own_request;
      if (!shared_out) ask_ghosts(w, e, i, request, missing);
      shared_out = true;
      asked.push_back({taken ? own_request : stand_in_for(line, first), way, line, request});
    }
    if (n_requests >= kTogether) done = std::max(done, read_asked(e.pc) - kIssueToMiss);
  }
  if (!asked.empty()) done = std::max(done, read_asked(e.pc) - kIssueToMiss);
  parted = false, fetch = FetchSize::half;
  sub[w.sub].requests += missed;
  if (missed) {
    note_fetch(slot, at, done);
    const std::vector<uint32_t>& even = moves_of(w, e).mates;
    note_trip(w, at, done, kernel.traces && even.empty() && !is_local(e.what) ? traced_mates(w, e, own) : even, e.what == What::copy_async);
  }
  else if (done > at + f.l1_latency) wait_with(w, done);
  past_l1 = false;
  return {done, done > at + f.l1_latency - kIssueToHit};
}

/// Cycles in which L1 looks up the lines of a load: those that lie in one bank one after the other.
double Sm::State::lookups_of(const WarpRun& w, const Event& e) {
  if (e.n_detail <= 4) return 1;
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  const int64_t own = moves_of(w, e).own;
  std::array<uint32_t, 4> lines{};
  for (uint32_t i = 0; i < e.n_detail; i++) lines[bank_of_line(Move(block.lines[e.detail + i], own).line)]++;
  return std::max(*std::max_element(lines.begin(), lines.end()) * 4, e.n_detail) / kLinesLookedUp;
}

/// The most words that a bank has to give.
uint32_t words_of_a_bank(const std::vector<uint64_t>& words) {
  uint32_t most = 1;
  std::array<uint8_t, 32> n{};
  for (uint64_t word : words) most = std::max<uint32_t>(most, ++n[word >> (kLanesOfWord + 2) & 31]);
  return most;
}

/// A turn of a loop that makes an atomic of floats: of the lanes on a bank one swaps its word, unless another warp did since the turn
/// loaded [shared_add_float/1 to 1024: 820 to 25 instructions an addition, and 25 with next to no word that two lanes share].
void Sm::State::swap(WarpRun& w, const Event& e, double at) {
  Slot& slot = slots[w.slot];
  if (w.swaps_for != &e) {
    const auto first = slot.work.code->trace->lines.begin() + e.detail;
    w.swaps_for = &e, w.swaps_left.assign(first, first + e.object);
  }
  uint32_t banks = 0;  // in which a lane had its turn
  std::erase_if(w.swaps_left, [&](uint64_t& word) {
    const uint32_t bank = 1u << (word >> (kLanesOfWord + 2) & 31);
    if (banks & bank) return false;
    banks |= bank;
    const auto [found, fresh] = slot.swapped.try_emplace(word >> kLanesOfWord, at);
    if (!fresh && found->second > w.swap_loaded) return false;
    found->second = at;
    return (--word & ((1 << kLanesOfWord) - 1)) == 0;
  });
}

/// Cycles for which a load from another block keeps the way there: by sectors and by the lines in which they lie.
double Sm::State::remote_load_cycles(const Event& e, bool far) const {
  return 32.0 / (far ? f.dsmem_far_bandwidth : f.dsmem_bandwidth) * e.count + (kernel.cluster > 4 ? kRemoteLineWide : kRemoteLine) * e.extra;
}

/// ... and a store: by sectors that it fills, and halves of the others.
double Sm::State::remote_store_cycles(double sectors, bool far) const { return (far ? kRemoteStoreFar : kRemoteStore) * sectors; }

/// ... and what is added there without an answer (red.async): by sectors and words, or by lanes on one word.
double Sm::State::remote_add_cycles(const Event& e, bool far) const {
  return std::max(kRemoteAdded * e.extra + kRemoteAddedWord * std::popcount(e.mask), (far ? kRemoteAddedSameFar : kRemoteAddedSame) * e.detail);
}

void Sm::State::memory(WarpRun& w, const MachineInstruction& m, const Event* e, double start) {
  SubCore& p = sub[w.sub];
  if (e && goes_out(e->what)) {
    if (translated < 0) translated = start + kernel.first_load;
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
      if (is_local(what)) break;
      const double at = use_pipe(std::max(1, m.width / 4));  // where is not known: in L1
      return set_barriers(w, m, at + f.l1_latency, at + 8);
    }
    case Class::texture: {
      if (what == What::global_store) break;
      return fetch_texels(w, m, e, start);
    }
    default: break;
  }
  if (what == What::shared_load || what == What::shared_store || what == What::shared_atomic) {
    double waves = e->extra;
    if (e->lanes_bytes && m.width > e->lanes_bytes && m.kind != Class::matrix_load) {
      const uint32_t merged = m.width == 8 ? e->count & 0xFFFF : m.width == 16 ? e->count >> 16 : 0;
      waves = merged ? merged : waves * m.width / e->lanes_bytes;
    }
    // One LDSM loads several pieces of a fragment, of each of which the trace tells (wmma); ldmatrix is told of as one.
    const double pieces = m.kind == Class::matrix_load && m.op == isa::Op::wmma_load ? m.width / 4.0 : 1;
    waves *= pieces;
    if (m.i.opcode == kStoreMatrix) p.queue += std::max(0.0, kMatrixWaveQueue * waves - 4), waves *= kMatrixWave;
    if (what == What::shared_atomic) waves = m.swaps ? 1 : m.counts_lanes ? kCountLanes : std::max(1.0, waves * kAtomicWave);
    stored_shared |= what == What::shared_store;
    const double at = use_pipe(waves);
    if (m.swaps && what == What::shared_atomic) swap(w, *e, at);
    counts.shared_wavefronts += waves;
    const bool of_matrices = m.kind == Class::matrix_load || m.i.opcode == kStoreMatrix;
    const double words = double(m.change) * std::popcount(e->mask) * (of_matrices ? pieces * e->lanes_bytes / 4.0 : std::max(1.0, m.width / 4.0));
    (what == What::shared_load ? counts.shared_words_read : counts.shared_words_written) += words;
    // What comes back takes a cycle of the write port for each register [broadcast_mix8: 12 cycles for 8 products and a load of 4].
    if (what == What::shared_load) p.write = std::max(p.write, w.issued) + (of_matrices ? 1 : std::max(1, m.width / 4));
    const double latency = what == What::shared_atomic ? m.swaps ? kSwap : 26 : f.shared_latency + (m.kind == Class::matrix_load ? 6 : 0);
    double done = at + waves - 1 + latency - 2;
    if (what == What::shared_load) {  // what comes word by word, since lanes want the same banks, comes back as what L1 holds does
      const double together = std::max(1.0, of_matrices ? pieces * e->lanes_bytes / 4.0 : m.width / 4.0);
      done = std::max(done, std::max(at + latency - 2, p.returned) + kWavefront * std::max(0.0, waves - together));
      p.returned = done;
    }
    return set_barriers(w, m, done, at + waves + 8);
  }
  if (what == What::remote_load || what == What::remote_store) {
    const double at = use_pipe(e->extra);
    const bool far = kernel.cluster > 2;  // a pair shares a TPC
    dsmem = std::max(dsmem, at) + (what == What::remote_store ? remote_store_cycles(e->count, far) : remote_load_cycles(*e, far));
    if (dsmem - at > kOutstanding) p.queue = std::max(p.queue, dsmem - kOutstanding);
    const double done = dsmem + (far ? f.dsmem_far_latency : f.dsmem_latency) - kIssueToRemote;
    w.gave_peers |= what == What::remote_store;
    peers_done = std::max(peers_done, what == What::remote_store ? dsmem + kRemoteStored : done);
    return set_barriers(w, m, done, at + 12);
  }
  if (what == What::remote_atomic) {  // a sector at a time
    const double at = use_pipe(e->extra), words = double(std::popcount(e->mask)) / e->extra;
    const bool far = kernel.cluster > 2;
    dsmem = std::max(dsmem, at) + std::max(e->extra * (kRemoteSector + kRemoteSectorWord * std::min(8.0, words)), kRemoteSame * e->count);
    if (dsmem - at > kOutstanding) p.queue = std::max(p.queue, dsmem - kOutstanding);
    return set_barriers(w, m, dsmem + (far ? f.dsmem_far_latency : f.dsmem_latency) - kIssueToRemote, at + 12);
  }
  if (what == What::global_load || what == What::local_load) {
    w.loads++;
    const double bytes = double(e->lanes_bytes) * std::popcount(e->mask);
    const double lookups = what == What::global_load ? lookups_of(w, *e) : e->n_detail / kLinesLookedUp;
    if (m.part) {  // its lines are asked for
      const double at = use_pipe(std::max(1.0, lookups));
      return set_barriers(w, m, std::max(at + f.l1_latency - 2, w.arrives), at + 10);
    }
    // L1 looks up lines and gives a word of each bank in a cycle; what a sub-core gets comes in two.
    const double words = std::max<double>(1, e->extra);
    const double wavefronts = std::max({1.0, bytes / 128, words}), at = use_pipe(std::max(wavefronts, lookups));
    const uint64_t asked_before = counts.lines_asked;
    const Came came = global_read(w, *e, m, at);
    pipe += kMissedLine * double(counts.lines_asked - asked_before);
    const double wide = m.width >= 16 ? 6 : m.width == 8 ? 2 : 0;  // of wavefronts that no bank has two words of
    double done = waited_for(w, *e, came.done);
    if (came.missed && !m.bypasses_l1) {
      w.filled = std::max(done, w.filled + words);  // loads of the same lines, which are on their way, come one after the other
      done = w.filled + kWordMoreMissed * (words - 1);
    } else if (!came.missed) {
      done = std::max(done + std::max(0.0, lookups - 1), p.returned) + std::max(0.0, kWavefront * (wavefronts - 1) - wide);
      p.returned = done + wide;
    }
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
    w.loaded = std::max(w.loaded, done), w.arrives = done;
    return set_barriers(w, m, done + wide, at + 10);
  }
  if (what == What::global_store || what == What::local_store) {
    const double bytes = double(e->lanes_bytes) * std::popcount(e->mask);
    const bool parts = e->n_detail > kFewLines && e->count < 32 * e->n_detail;  // of sectors of many lines: they hold up the loads behind them
    const double lines = parts ? kPartialLine * e->n_detail : e->n_detail;
    const double at = use_pipe(std::max(lines, bytes / 128));
    global_write(w, *e, at, m.kind == Class::texture);
    w.stored = true;
    tell_next(w, *e, at);
    const double backlog = std::max({write_port, chip.dram_free() - 2 * kOutstanding, chip.write_free()});
    if (backlog - at > kOutstanding) p.queue = std::max(p.queue, backlog - kOutstanding);
    p.queue = std::max(p.queue, left[stores % left.size()]);  // so many may wait
    return set_barriers(w, m, at + 20, at + 12);
  }
  if (what == What::global_atomic || what == What::global_reduction) {
    // A warp may add up its lanes before it goes out.
    const uint32_t same = m.aggregated ? 1 : std::max<uint32_t>(1, e->extra);  // lanes on one word go one after the other
    const TracedBlock& block = *slots[w.slot].work.code->trace;
    uint32_t sectors = 0;
    for (uint32_t i = 0; i < e->n_detail; i++) sectors += sectors_in(uint32_t(block.lines[e->detail + i] & 15));
    const double words = m.aggregated ? 1 : std::clamp(double(std::popcount(e->mask)) / std::max(1u, sectors * same), 1.0, 8.0);
    const bool one = m.aggregated || std::popcount(e->mask) == 1;
    const double weight = one ? f.atomic_one_line / f.atomic_interval : 1 + kWordMore * (words - 1);
    AtomicWork work{m.floating, weight, 1, 1, m.answers ? kAnswered + kAnsweredWordMore * (words - 1) : 0};
    if (m.floating && e->lanes_bytes == 8) work.passes = std::max(1.0, kDoublePasses * words / 4), work.turn = 1 + kDoubleWordMore * (words - 1);
    const double at = use_pipe(e->n_detail * std::max(1.0, (kAtomicOut + kAtomicWordOut * words) * (m.compares ? kSwapOut : 1)));
    const int64_t moves = moves_of(w, *e).own;
    p.requests++;
    for (uint32_t i = 0; i < e->n_detail; i++) {
      const uint64_t packed = block.lines[e->detail + i];
      bool first = true;
      on_word = i == 0 ? uint8_t(same) : 1;  // of the event's lines one has that word
      moved(packed, moves, [&](uint64_t line, uint32_t mask) {  // atomics do not part: what crosses into a second line is left out
        if (!std::exchange(first, false)) return;
        request = std::max(request, at) + sectors_in(mask) * 32.0 / f.sm_bandwidth;
        slices.touch(line);
        asked.push_back({n_requests, {}, line, request});
        ask(chip.among_taken(line), mask, number, request);
      });
      for_ghosts(w, *e, i, [&](uint64_t l, uint32_t k, uint32_t sm) { ask(chip.among_taken(l), k, sm, request); });
    }
    on_word = 1;
    chip.atomic_all({requests.data(), n_requests}, work);
    double done = at;
    for (const Asked& a : asked) {
      done = std::max(done, requests[a.request].when);
      for (uint32_t n = sectors_in(requests[a.request].sectors); n > 0; n--) {
        double& oldest = adding[adds++ % adding.size()];
        p.queue = std::max(p.queue, oldest);
        oldest = requests[a.request].taken;
      }
    }
    n_requests = 0, asked.clear();
    const double backlog = std::max(request, chip.dram_free() - 2 * kOutstanding);
    if (backlog - at > kOutstanding) p.queue = std::max(p.queue, backlog - kOutstanding);
    tell_next(w, *e, at);
    return set_barriers(w, m, waited_for(w, *e, done), at + 12);
  }
  if (what == What::copy_async) {
    counts.shared_words_written += double(m.change) * e->lanes_bytes / 4 * std::popcount(e->mask);
    const double lines = std::max(double(e->n_detail), double(e->extra));
    const double at = use_pipe(m.bypasses_l1 ? std::max(kCopiedPast * e->extra, e->n_detail / kLinesLookedUp) : std::max(kCopied + lines, kCopiedLine * lines));
    const double done = global_read(w, *e, m, at).done + 10;
    w.copies_done = std::max(w.copies_done, done);
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
    return set_barriers(w, m, done, at + 12);
  }
  if (what == What::other) {  // nothing is known of it: an access that hits
    const double at = use_pipe(m.swaps ? words_of_a_bank(w.swaps_left) : 1);
    if (m.swaps) w.swap_loaded = at;
    return set_barriers(w, m, at + f.shared_latency, at + 8);
  }
  synchronise(w, number_of(w), m, e, start);
}

}  // namespace orrery::timing
