// sanitize/racecheck.cc: see racecheck.h.
#include "sanitize/racecheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/decode.h"
#include "exec/run_state.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Mod;
using isa::Op;

void Racecheck::launch_begin(const RunState& run) {
  launches_[&run] = quick_oldest_ = first_ + uint32_t(blocks_.size());
  site_numbers_.clear();  // programs of other launches may be gone; the sites stay
}

void Racecheck::launch_end(const RunState& run, const LaunchResult&) {
  order_.launch_end(run);
  launches_.erase(&run);
  flush();
  if (!launches_.empty()) return;
  shared_.clear();
  ends_.clear();
  first_ += uint32_t(blocks_.size());  // everything until here is of the past
  blocks_.clear();
}

void Racecheck::block_begin(const CtaContext& cta) {
  Block b;
  std::copy(cta.ctaid, cta.ctaid + 3, b.ctaid);
  const uint32_t serial = first_ + uint32_t(blocks_.size());
  b.cluster = cta.cluster && cta.cluster->n > 1 && cta.cluster_rank ? blocks_.back().cluster : serial;
  const uint32_t* shape = cta.launch->block;
  b.shape = {shape[0], shape[1], shape[2]};
  blocks_.push_back(b);
  order_.block_begin(cta, serial, b.cluster, cta.launch->run);
  auto& shadow = shared_[&cta];
  if (!shadow) shadow = std::make_unique<SharedShadow>();
  shadow->start(serial, cta.shared_bytes);
}

void Racecheck::warp_sync(const Where& where, uint32_t) {
  epoch_++;
  if (where.code->code[where.pc].instr->form.op == Op::bar_warp) order_.warp_sync(where);
  order_.exchange(where);
}

/// A barrier that counts some of the block's threads: which of them meet must not depend on who comes first.
void Racecheck::barrier_arrive(const Where& where, uint32_t number, uint32_t expected, bool) {
  const BarrierArrival* other = order_.barrier_arrive(where, number, expected);
  if (!other || !options_.has("synccheck")) return;
  Finding f;
  f.check = "synccheck";
  f.kind = "barrier-count";
  f.place = place_of(where, -1);
  f.message = fmt::format("more threads use barrier {} than the {} that it counts: nothing orders this arrival of warp {} after that of warp {} in the phase before, so either may be the one that meets the others",
                          number, expected, where.warp->warp_id, other->where.warp->warp_id);
  f.others.push_back({"The arrival in the phase before", place_of(other->where, -1), ""});
  f.remedy = "count all threads that come to the barrier, or give each set of threads a barrier of its own";
  collector_.add(std::move(f));
}

void Racecheck::barrier_complete(const CtaContext& cta, uint32_t number) {
  epoch_++;
  order_.barrier_complete(cta, number);
}
void Racecheck::cluster_arrive(const Where& where, bool relaxed) { order_.cluster_arrive(where, relaxed); }
void Racecheck::cluster_wait(const Where& where) { order_.cluster_wait(where); }
void Racecheck::cluster_complete(const ClusterContext& c) {
  epoch_++;
  order_.cluster_complete(c);
}
void Racecheck::mbarrier(const MbarrierEvent& e) {
  epoch_++;
  order_.mbarrier(e);
}

void Racecheck::instruction(const Where& where) {
  epoch_++;
  const isa::Form& f = where.code->code[where.pc].instr->form;
  if (f.op != Op::fence && f.op != Op::membar) return;
  if (f.has(Mod::proxy)) return;
  const Scope scope = f.has(Mod::cta) ? Scope::cta : f.has(Mod::cluster) ? Scope::cluster : f.has(Mod::sys) ? Scope::sys : Scope::gpu;
  const bool acquires = !f.has(Mod::release), releases = !f.has(Mod::acquire);
  order_.fence(where, scope, acquires, releases);
}

/// Memory from malloc in a kernel may have been another thread's before; free and malloc order the two.
void Racecheck::heap_allocate(const Where&, int, uint64_t address, uint64_t bytes) { global_.forget(address, bytes); }

uint32_t Racecheck::site_of(const Access& a) {
  std::vector<uint32_t>& numbers = site_numbers_[a.where.code];
  if (numbers.empty()) numbers.resize(a.where.code->code.size(), 0);
  uint32_t& number = numbers[a.where.pc];
  if (!number) {
    number = uint32_t(sites_.size());
    const isa::Form& f = a.where.code->code[a.where.pc].instr->form;
    sites_.push_back({place_of(*a.where.code, kernel_of(a.where), a.where.pc), f.n_types ? f.types[f.n_types - 1] : isa::Type::none,
                      a.volatile_, a.kind == AccessKind::atomic || a.kind == AccessKind::reduction, f.has(Mod::cas), a.kind == AccessKind::load});
  }
  return number;
}

void Racecheck::access(const Access& a) {
  if (a.space == isa::Space::local || a.space == isa::Space::const_ || a.proxy_read_only) {
    if (a.space != isa::Space::global) return;
  }
  BlockOrder& b = order_.block(*a.where.warp->cta);
  WarpOrder& w = b.warps[a.where.warp->warp_id];
  const uint32_t site = site_of(a);
  for (uint32_t m = a.where.mask; m; m &= m - 1) lane(a, std::countr_zero(m), site, w, b);
}

/// A block whose last threads end must have been told by every visitor that it is through.
void Racecheck::exit(const Where& where) {
  const CtaContext& cta = *where.warp->cta;
  if (!cta.cluster || cta.cluster->n < 2) return;
  BlockOrder& order = order_.block(cta);
  End& end = ends_[order.serial];
  end.known = join(end.known, release(order.warps[where.warp->warp_id].clock, where.mask, where.warp->live));
  if (cta.live_threads > uint32_t(std::popcount(where.mask))) return;
  for (const auto& [thread, s] : end.visitors) {
    if (end.known->knows(s.block, s.thread, s.clock)) continue;
    Finding f;
    f.check = "racecheck";
    f.kind = "block-ends-while-used";
    f.place = place_of(where, -1);
    f.message = "the block ends, and nothing orders its end after the use of its shared memory by another block of the cluster";
    f.others.push_back({"The use", place_of_stamp(s), ""});
    f.remedy = "put cluster.sync() (barrier.cluster) at the end of the kernel, after the last use";
    collector_.add(std::move(f));
  }
  ends_.erase(order.serial);
}

SharedShadow& Racecheck::shared_of(const CtaContext& cta) { return *shared_[&cta]; }

/// Releases and acquires of a strong access; a weak write ends what a location had to give.
void Racecheck::strong(const Access& a, int lane, const std::byte* memory, bool global) {
  const uint64_t key = reinterpret_cast<uint64_t>(memory);
  if (a.order == Order::weak) {
    if (a.kind != AccessKind::load) order_.weak_write(key);
    return;
  }
  if (a.order != Order::relaxed) epoch_++;
  const bool writes = a.kind != AccessKind::load, reads = a.kind != AccessKind::store;
  if (reads) order_.strong_read(a.where, lane, key, a.order == Order::release ? Order::relaxed : a.order, a.scope);
  if (writes) order_.strong_write(a.where, lane, key, a.order == Order::acquire ? Order::relaxed : a.order, a.scope, reads, global);
}

void Racecheck::lane(const Access& a, int lane, uint32_t site, WarpOrder& w, BlockOrder& b) {
  const uint64_t address = a.address[lane];
  if (address & (a.align - 1)) return;
  const Target t = find_target(a.where, a.space, address, lane);
  if (t.region != Region::shared && t.region != Region::global) return;
  const bool shared = t.region == Region::shared;
  if (shared && t.offset + a.bytes > t.cta->shared_bytes) return;
  const DeviceMemory& memory = *a.where.run->machine.memory;
  if (!shared && !memory.contains(address)) return;
  Now now;
  now.access = &a;
  now.lane = lane;
  now.shared = shared;
  now.memory = shared ? t.cta->shared + t.offset : reinterpret_cast<const std::byte*>(address);
  now.reads = a.kind != AccessKind::store;
  now.writes = a.kind != AccessKind::load;
  if (a.order != Order::weak) strong(a, lane, now.memory, !shared);
  const uint16_t thread = uint16_t(w.clock.first_thread + lane);
  now.stamp = {b.serial, w.clock.clock, site, thread, 0, uint8_t(a.order == Order::weak ? Scope::none : a.scope)};
  now.known = w.clock.of(lane).get();
  if (!w.fences.empty()) {
    if (a.order != Order::weak) now.seen = w.fences[size_t(lane)].seen.get();
    now.depends = w.fences[size_t(lane)].depends.get();
  }
  now.oldest = shared ? blocks_[order_.block(*t.cta).serial - first_].cluster : launches_[a.where.run];
  // A store of what is there already changes nothing for anybody.
  const isa::Form& form = a.where.code->code[a.where.pc].instr->form;
  if (a.kind == AccessKind::store && a.has_value && !options_.strict && a.bytes <= 8 && a.bytes == uint32_t(isa::bytes_of(form.type())) && a.order == Order::weak &&
      (shared || memory.find(address)) && std::memcmp(now.memory, &a.value[lane], a.bytes) == 0)
    now.writes = false, now.reads = now.silent = true;
  else if (a.order == Order::weak && now.writes) strong(a, lane, now.memory, !shared);
  if (shared && t.cta != a.where.warp->cta)
    ends_[order_.block(*t.cta).serial].visitors[uint64_t{b.serial} << 16 | now.stamp.thread] = now.stamp;
  const uint64_t first = shared ? t.offset : address;
  SharedShadow* shadow = shared ? &shared_of(*t.cta) : nullptr;
  if (shadow) shadow->now = epoch_;
  for (uint64_t at = first & ~uint64_t{3}; at < first + a.bytes; at += 4) {
    const uint32_t from = at < first ? uint32_t(first - at) : 0, to = uint32_t(std::min<uint64_t>(4, first + a.bytes - at));
    const uint8_t mask = uint8_t(((1u << to) - 1) & ~((1u << from) - 1));
    if (shadow) word(now, shadow->cell(at / 4), shadow->words, at, mask);
    else word(now, global_.cell(at), global_.words, at, mask);
  }
}

void Racecheck::word(Now& now, Cell& cell, WordMap& words, uint64_t address, uint8_t mask) {
  if (cell.empty() && cell.write.bytes != 0xFF) {  // nobody yet: no need to split
    Stamp s = now.stamp;
    s.bytes = mask;
    (now.writes ? cell.write : cell.read[0]) = s;
    return;
  }
  if (mask != 0xF && cell.write.bytes != 0xFF && (cell.write.site == 0 || cell.write.bytes == mask) &&
      (cell.read[0].site == 0 || cell.read[0].bytes == mask) && (cell.read[1].site == 0 || cell.read[1].bytes == mask))
    return visit(now, cell, mask);  // always the same part of the word
  words.with(cell, address, mask, [&](Cell& part, uint8_t bytes) { visit(now, part, bytes); });
}

bool Racecheck::ordered(const Now& now, const Stamp& before) const {
  if (before.block < now.oldest) return true;
  if (before.block == now.stamp.block && before.thread == now.stamp.thread) return true;
  return (now.known && now.known->knows(before.block, before.thread, before.clock)) ||
         (now.seen && now.seen->knows(before.block, before.thread, before.clock));
}

bool Racecheck::reach_each_other(const Stamp& a, const Stamp& b) const {
  if (!a.scope || !b.scope) return false;
  const Scope narrow = Scope(std::min(a.scope, b.scope));
  if (a.block == b.block || narrow >= Scope::gpu) return true;
  return narrow == Scope::cluster && blocks_[a.block - first_].cluster == blocks_[b.block - first_].cluster;
}

/// A plain load beside a compare-and-swap of the same function: its value is a guess that the swap confirms, as in the
/// usual loop around atomicCAS.
bool Racecheck::guess_for_cas(const Now& now, const Stamp& before) const {
  const Site &a = sites_[before.site], &b = sites_[now.stamp.site];
  const bool pair = (a.cas && b.load && !now.writes) || (b.cas && a.load && before.scope == 0);
  return pair && !options_.strict && a.place.kernel == b.place.kernel && a.place.function == b.place.function;
}

bool Racecheck::same_store(const Now& now, const Stamp& before) const {
  const Stamp& s = now.stamp;
  const Access& a = *now.access;
  if (options_.strict || !now.writes || a.kind != AccessKind::store || before.site != s.site || before.block != s.block) return false;
  const int other = before.thread % 32;
  return before.thread / 32 == s.thread / 32 && before.clock == s.clock && (a.where.mask >> other & 1) && a.has_value &&
         a.address[other] == a.address[now.lane] && a.value[other] == a.value[now.lane];
}

void Racecheck::visit(Now& now, Cell& cell, uint8_t mask) {
  Stamp s = now.stamp;
  s.bytes = mask;
  if (cell.write.site && cell.write.same(s)) return;
  if (cell.write.site && !now.silent && !ordered(now, cell.write)) {
    const Stamp& w = cell.write;
    // Volatile accesses of one warp's lanes do not race by the letter, but nothing orders them: code that relies on
    // lanes being in step.
    const bool in_step = now.shared && w.block == s.block && w.thread / 32 == s.thread / 32 && sites_[w.site].volatile_ &&
                         sites_[s.site].volatile_ && (now.access->where.mask >> (w.thread % 32) & 1);
    if ((!reach_each_other(w, s) || in_step) && !same_store(now, w) && !guess_for_cas(now, w)) report(now, w, true);
  }
  if (!now.writes) {
    Stamp &first = cell.read[0], &latest = cell.read[1];
    if (first.same(s)) return;
    if (!first.site || ordered(now, first)) {
      if (latest.site && ordered(now, latest)) latest = {};
      first = s;
    } else {
      latest = s;
    }
    return;
  }
  for (Stamp& r : cell.read)
    if (r.site && !ordered(now, r) && !reach_each_other(r, s) && !(now.depends && now.depends->knows(r.block, r.thread, r.clock)) &&
        !guess_for_cas(now, r))
      report(now, r, false);
  cell.read[0] = cell.read[1] = {};
  cell.write = s;
}

namespace {

std::string number_text(isa::Type type, uint64_t bits, uint32_t bytes) {
  if (type == isa::Type::f32 && bytes >= 4) return fmt::format("{:g}", std::bit_cast<float>(uint32_t(bits)));
  if (type == isa::Type::f64 && bytes >= 8) return fmt::format("{:g}", std::bit_cast<double>(bits));
  if (bytes < 8) bits &= (uint64_t{1} << (8 * bytes)) - 1;
  if (isa::is_signed(type)) {
    const int shift = 64 - 8 * int(std::min(bytes, 8u));
    return fmt::format("{}", int64_t(bits << shift) >> shift);
  }
  return bits < 65536 ? fmt::format("{}", bits) : fmt::format("{:#x}", bits);
}

}  // namespace

std::string Racecheck::value_of(const Now& now, bool stored) const {
  const Access& a = *now.access;
  const Decoded& d = a.where.code->code[a.where.pc];
  const isa::Type type = d.instr->form.n_types ? d.instr->form.types[d.instr->form.n_types - 1] : isa::Type::none;
  const uint32_t bytes = std::min<uint32_t>(8, std::max(1, isa::bytes_of(type)));
  uint64_t bits = 0;
  if (stored) bits = a.value[now.lane];
  else std::memcpy(&bits, now.memory, bytes);
  return number_text(type, bits, bytes);
}

Place Racecheck::place_of_stamp(const Stamp& s) const {
  const Block& b = blocks_[s.block - first_];
  Place p = sites_[s.site].place;
  p.in_kernel = true;
  std::copy(b.ctaid, b.ctaid + 3, p.block);
  p.thread[0] = s.thread % b.shape.x;
  p.thread[1] = s.thread / b.shape.x % b.shape.y;
  p.thread[2] = s.thread / (b.shape.x * b.shape.y);
  return p;
}

namespace {
std::string line_of(const Place& p) {
  return p.kernel + "|" + p.function + "|" + (p.source_line ? fmt::format("{}:{}", p.source_file, p.source_line) : std::to_string(p.ptx_line));
}
}  // namespace

void Racecheck::flush() {
  for (auto& [lines, pair] : found_) {
    pair.finding.count = pair.count;
    if (!collector_.full("racecheck")) collector_.add(std::move(pair.finding));
  }
  found_.clear();
  known_.clear();
}

void Racecheck::report(const Now& now, const Stamp& before, bool before_wrote) {
  const bool one_block = before.block == now.stamp.block, one_warp = one_block && before.thread / 32 == now.stamp.thread / 32;
  const int distance = one_warp ? 0 : one_block ? 1 : blocks_[before.block - first_].cluster == blocks_[now.stamp.block - first_].cluster ? 2 : 3;
  const uint64_t sites = uint64_t{before.site} << 34 | uint64_t{before_wrote} << 33 | now.stamp.site;
  const auto known = known_.find(sites);
  if (known != known_.end() && known->second.second >= distance) {
    known->second.first->count++;
    return;
  }
  std::string here = line_of(sites_[now.stamp.site].place), there = line_of(sites_[before.site].place);
  if (there < here) std::swap(here, there);
  Pair& pair = found_[{here, there}];
  known_[sites] = {&pair, distance};
  if (pair.count++ && pair.distance >= distance) return;
  pair.distance = distance;
  pair.finding = describe(now, before, before_wrote);
}

Finding Racecheck::describe(const Now& now, const Stamp& before, bool before_wrote) const {
  const Access& a = *now.access;
  const Block& other = blocks_[before.block - first_];
  const bool same_block = before.block == now.stamp.block, same_warp = same_block && before.thread / 32 == now.stamp.thread / 32;
  Finding f;
  f.check = "racecheck";
  const bool atomic = a.kind == AccessKind::atomic || a.kind == AccessKind::reduction;
  const char* verb = atomic ? "updates" : now.writes ? "writes" : "reads";
  f.kind = !before_wrote ? "write-after-read" : now.writes ? "write-after-write" : "read-after-write";
  f.place = place_of(a.where, now.lane);
  f.address = reinterpret_cast<uint64_t>(now.memory);
  const uint64_t address = now.shared ? a.address[now.lane] : f.address;
  f.message = fmt::format("a thread {} {} bytes of {} memory at {:#x}", verb, a.bytes, now.shared ? "shared" : "global", address);
  if (now.writes && a.has_value && !atomic) f.message += fmt::format(" ({}, where {} is)", value_of(now, true), value_of(now, false));
  else if (now.memory && !now.writes) f.message += fmt::format(" (it gets {})", value_of(now, false));
  f.message += fmt::format(" that a thread of {} {} before, and nothing orders the two", same_warp ? "the same warp" : same_block ? "the same block" : "another block",
                           before_wrote || !sites_[before.site].load ? sites_[before.site].atomic ? "updated" : "wrote" : "read");
  f.others.push_back({before_wrote ? sites_[before.site].atomic ? "The update" : "The write"
                      : sites_[before.site].load ? "The read" : "The write (of the value that was there)", place_of_stamp(before), ""});
  const bool scopes = before.scope && now.stamp.scope;
  if (scopes && !same_block) f.remedy = "widen the scope of both accesses until it includes the other block (.cluster, .gpu or .sys)";
  else if (same_warp) f.remedy = "put __syncwarp() between the two: lanes of a warp need not be in step, and shuffles and votes do not order memory";
  else if (same_block) f.remedy = "put __syncthreads() (or another barrier that both threads pass) between the two";
  else if (blocks_[now.stamp.block - first_].cluster == other.cluster) f.remedy = "put cluster.sync() (barrier.cluster) between the two";
  else f.remedy = "blocks run in any order: use atomics, a release and an acquire at the scope of the GPU (cuda::atomic_ref, __threadfence), or two launches";
  return f;
}

}  // namespace orrery::sanitize
