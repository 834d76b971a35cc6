// timing/sm_copies.cc: bulk and tensor copies of an SM, and the same by the SMs that it stands for.
#include "timing/sm_ghosts.h"

namespace orrery::timing {

/// Where ghosts' copies lie, in sectors from the detailed block's: the same place in the copy of another block. Blocks that were not
/// traced copy what no one else does.
void Sm::State::find_copies_of_ghosts(const WarpRun& w, const Event& e, const CopyPool& pool, uint64_t key) {
  ghost_copies.clear();
  const BlockWork& own = slots[w.slot].work;
  const auto all = kernel.all_copies.find(key);
  for (uint32_t g = 1; g <= kernel.ghosts; g++) {
    const uint64_t index = kernel.block_of(g, own);
    const uint32_t sm = uint32_t(number + kernel.ahead(g));
    if (index >= kernel.grid.count()) continue;
    if (index < kernel.copies_followed.size() && kernel.copies_followed[index]) {
      if (all == kernel.all_copies.end() || index >= all->second.starts.size()) continue;
      const std::vector<uint64_t>& starts = all->second.starts[index];
      if (e.ordinal < starts.size() && starts[e.ordinal]) ghost_copies.push_back({int64_t(starts[e.ordinal] - e.address) >> 5, sm});
      continue;
    }
    if (double(mix(index) >> 32) >= pool.share * 0x1p32) continue;
    const uint64_t pick = (index * 0x9E3779B97F4A7C15ull >> 33) % pool.population;
    const std::vector<uint64_t>& starts = pool.starts[size_t(pick % pool.starts.size())];
    const uint64_t start = starts[std::min<size_t>(e.ordinal, starts.size() - 1)];
    if (start) ghost_copies.push_back({(int64_t(start - e.address) >> 5) + int64_t(pick / pool.starts.size() << 42), sm});
  }
  if (slots[w.slot].apart.late.empty()) return;
  found_mates.assign(kernel.ghosts + 1, 0);
  found_mates[number - first_sm] = mate_of(0);
  for (const auto& [away, sm] : ghost_copies) found_mates[sm - first_sm] = mate_of(away);
  forget_strangers(found_mates);
}

/// Leaves of the copies of ghosts, whose SMs lie from that of `block` on, those whose ranks make them, without the SM `own`.
void Sm::State::leave_out_others(std::vector<std::pair<int64_t, uint32_t>>& copies, uint64_t block, uint32_t ranks, uint32_t own) const {
  std::erase_if(copies, [&](const auto& copy) { return copy.second == own || !(ranks >> kernel.rank_of(block + copy.second - number) & 1); });
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

/// Calls f(address, bytes) for every piece of a row of bytes that leaves shared memory by itself, wherever its destination's lines end
/// [row_store_odd/512 to 8192, box_store_odd/32 to 128: five sectors for each 128 bytes that begin between sectors].
template <class F>
void for_pieces(uint64_t address, uint64_t bytes, F f) {
  constexpr uint64_t kPiece = 128;
  for (uint64_t at = 0; at < bytes; at += kPiece) f(address + at, std::min(kPiece, bytes - at));
}

/// The sectors of a line that so many bytes fill.
uint32_t whole_sectors(uint64_t address, uint64_t bytes, uint64_t line) {
  uint32_t mask = 0;
  for (uint64_t s = 0; s < 4; s++) {
    const uint64_t first = (line << 7) + s * 32;
    mask |= uint32_t(first >= address && first + 32 <= address + bytes) << s;
  }
  return mask;
}

/// A bulk or tensor copy: the lines of its runs at the engine's pace, this SM's or that of a block of its cluster. Returns when the last
/// byte is there.
double Sm::State::run_copy(WarpRun& w, const MachineInstruction& m, const Event& e, double at, bool store, const PeerCopy* peer) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double done = at;
  const uint64_t key = copy_key(e.pc, peer ? peer->warp : w.place);
  const uint32_t asker = number + (peer ? peer->rank : 0);
  const auto drawn = kernel.copies.find(key);
  const CopyPool* const pool = drawn != kernel.copies.end() ? &drawn->second : nullptr;
  if (pool) find_copies_of_ghosts(w, e, *pool, key);
  const std::vector<uint32_t>* mates = &moves_of(slots[w.slot], slots[w.slot].apart, e.pc).mates;
  if (pool) mates = &found_mates;
  const double bandwidth = store ? f.tma_store_bandwidth : f.tma_bandwidth;
  const Moves& moves = moves_of(slots[w.slot], slots[w.slot].apart, e.pc);
  const std::vector<std::pair<int64_t, uint32_t>>* ghosts = &moves.ghosts;
  const uint32_t ranks = ranks_of(e);
  if (peer || std::popcount(ranks) < int(kernel.cluster)) {
    if (!pool) ghost_copies = moves.ghosts, ghosts = &ghost_copies;
    leave_out_others(ghost_copies, slots[w.slot].work.index, ranks, asker);
  }
  const double of_all = std::popcount(ranks) / double(kernel.cluster);  // of the blocks, those that make the copy
  double own_engine = at;
  double& engine = peer ? own_engine : tma;
  asks(slots[w.slot].apart, slots[w.slot], at, true);
  for_many = e.lanes_bytes == kMulticast;
  const double for_each = for_many && !peer ? std::max(1, std::popcount(e.extra & ranks)) : 1;  // what blocks of the cluster copy for each other comes to each of them [rings_bare_tells_one]
  const bool reduces = store && e.lanes_bytes == kReduces;
  // What a row's 128 bytes are added to are words side by side, all of each sector.
  const AtomicWork adds{m.floating || m.kind == Class::tensor_copy, 1 + kWordMore * 7, 1, 1, 0, kAddedSector};
  const auto send = [&] {
    if (reduces) chip.atomic_all({requests.data(), n_requests}, adds);
    else if (store) chip.write_all({requests.data(), n_requests}, 32);
    else done = std::max(done, read_asked(e.pc) - kCopySooner);
    n_requests = 0;
  };
  const double before = engine, begins = engine = std::max(engine, store || m.kind == Class::bulk_copy ? at : at + f.tma_latency);
  const auto copy_line = [&](uint64_t line, uint32_t mask) {
    engine += std::max(sectors_in(mask) * 32.0 / bandwidth, 1.0) * for_each;
    counts.tma_bytes += sectors_in(mask) * 32.0;
    const size_t first = n_requests;
    bool shared_out = false;  // the ghosts have asked for theirs
    moved(line << 4 | mask, moves.own, [&](uint64_t l, uint32_t k) {
      slices.touch(l, of_all);
      const size_t own = n_requests;
      ask_if_taken(l, k, asker, engine);
      const bool taken = n_requests > own;
      if (!std::exchange(shared_out, true)) {
        if (!pool) ask_even_ghosts(*ghosts, line << 4 | mask, engine);
        else
          for (const auto& [ahead, sm] : ghost_copies)
            moved(line << 4 | mask, ahead, [&, sm = sm](uint64_t ghosts_line, uint32_t of_it) { ask_if_taken(ghosts_line, of_it, sm, engine); });
      }
      if (!store) asked.push_back({taken ? own : stand_in_for(l, first), {}, l, engine});
    });
    if (n_requests >= kTogether) send();
    if (store) done = std::max(done, engine + f.tma_store_latency);
  };
  const auto copy_piece = [&](uint64_t address, uint64_t bytes) {
    const double before = engine;
    for_lines(address, bytes, [&](uint64_t line, uint32_t mask) {
      const uint32_t whole = whole_sectors(address, bytes, line);
      if (mask & whole) copy_line(line, mask & whole);
      parted = true;
      if (mask & ~whole) copy_line(line, mask & ~whole);
      parted = false;
    });
    engine = std::max(engine, before + kStoredPiece);
  };
  for (uint32_t i = turn ? turn - 1 : 0; i < (turn ? turn : e.n_detail); i++) {
    const Run& run = block.runs[e.detail + i];
    fetch = run.fetch;
    for (uint32_t row = 0; row < run.rows; row++)
      if (store) for_pieces(run.address + row * run.stride, run.bytes, copy_piece);
      else for_lines(run.address + row * run.stride, run.bytes, copy_line);
  }
  send();
  for_many = false, fetch = FetchSize::half;
  if (!store && !peer) {
    const double busy = begins > before || copies_under_way.empty() ? begins : copies_under_way.back().busy;
    fence_copy({busy, begins, engine, done}, at);
  }
  if (!store) note_trip(w, at, at + longest, *mates, true);
  if (record && record->copies.size() < Record::kSpans) record->copies.push_back({at, done, 0, Wait::copies});
  return done;
}

/// What blocks of the cluster copy into this one, which waits for it from `at` on: they run in step with it.
void Sm::State::take_from_peers(WarpRun& w, const MachineInstruction& m, const Event& e, double at) {
  if (e.ordinal == 0) return;
  Slot& slot = slots[w.slot];
  const uint32_t object = e.object & 0xFFFFFF;
  for (const PeerCopy& c : slot.work.code->trace->from_peers[e.ordinal - 1]) {
    const double done = run_copy(w, m, c.copy, at, false, &c);
    Mbarrier& b = slot.mbarriers[object];
    shared_written += c.copy.count / kCopyBytes;
    b.bytes -= c.copy.count, b.of_copies = true;
    b.when = std::max(b.when, done);
    settle(slot, object, done);
  }
}

/// A bulk copy out of shared memory into that of a block of the cluster. Returns when the last byte is there.
double Sm::State::copy_to_peer(const Event& e, double at) {
  tma = std::max(tma, at) + e.count / f.tma_peer_bandwidth;
  return tma + f.tma_peer_latency;
}

}  // namespace orrery::timing
