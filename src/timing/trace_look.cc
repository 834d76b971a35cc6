// timing/trace_look.cc: what an instruction is going to touch: lines, wavefronts, mbarriers. See trace_look.h; bulk and tensor
// copies are in trace_copies.cc.
#include "timing/trace_look.h"

#include <algorithm>
#include <bit>

#include "exec/async.h"
#include "timing/lane_addresses.h"

namespace orrery::timing {

using exec::Decoded;
using exec::Stepper;
using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

bool is_shared(Space s) { return s == Space::shared || s == Space::shared_cta || s == Space::shared_cluster; }

enum class Region { global, shared, remote, local, constant, none };

Region region_of(const Stepper& s, Space space, uint64_t address) {
  if (space == Space::local) return Region::local;
  if (space == Space::shared_cluster && address >> 24 && (address >> 24) - 1 != s.cta.cluster_rank) return Region::remote;
  if (is_shared(space)) return Region::shared;
  if (space == Space::param || space == Space::param_entry) return Region::none;
  if (space == Space::const_) return Region::constant;
  if (address - reinterpret_cast<uint64_t>(s.cta.shared) < s.cta.shared_bytes) return Region::shared;
  if (s.cta.cluster)
    for (uint32_t r = 0; r < s.cta.cluster->n && r < 16; r++) {
      const exec::CtaContext* c = s.cta.cluster->ctas[r];
      if (c && address - reinterpret_cast<uint64_t>(c->shared) < c->shared_bytes) return Region::remote;
    }
  if (address - reinterpret_cast<uint64_t>(s.w.local) < s.w.local_stride * 32) return Region::local;
  return Region::global;
}

/// The words of an atomic in shared memory that ptxas makes a loop of and how many lanes have each: loops in which warps get in each
/// other's way (Sm::State::swap).
void record_words(Recording& r, const uint64_t* address) {
  std::vector<uint64_t>& words = r.block.lines;
  r.e.detail = uint32_t(words.size());
  exec::for_lanes(r.s.mask, [&](int lane) {
    const uint64_t word = (address[lane] - reinterpret_cast<uint64_t>(r.s.cta.shared)) << kLanesOfWord;
    const auto found = std::find_if(words.begin() + r.e.detail, words.end(), [&](uint64_t w) { return (w ^ word) >> kLanesOfWord == 0; });
    if (found == words.end()) words.push_back(word | 1);
    else ++*found;
  });
  r.e.object = uint32_t(words.size()) - r.e.detail;
}

/// Words of a thread lie 128 bytes apart, those of the lanes next to each other.
void record_local(Recording& r, uint64_t* address, Space space, uint32_t bytes) {
  Stepper& s = r.s;
  const uint64_t of_warp = (s.w.local_stride + 64) * 32;
  exec::for_lanes(s.mask, [&](int lane) {
    const uint64_t offset = space == Space::local ? address[lane] : (address[lane] - reinterpret_cast<uint64_t>(s.w.local)) % s.w.local_stride;
    address[lane] = s.w.warp_id * of_warp + offset / 4 * 128 + uint64_t(lane) * 4 + offset % 4;
  });
  r.block.local_bytes = s.cta.n_warps * of_warp;
  r.e.address = address[std::countr_zero(s.mask)];
  r.e.detail = uint32_t(r.block.lines.size());
  r.e.count = distinct(address, s.mask) * bytes;
  r.e.n_detail = coalesce(address, s.mask, std::min(4u, bytes), r.block.lines);
  for (uint32_t word = 4; word < bytes; word += 4) {
    exec::for_lanes(s.mask, [&](int lane) { address[lane] += 128; });
    r.e.n_detail += coalesce(address, s.mask, 4, r.block.lines);
  }
}

void record_access(Recording& r, What global, What shared, What local, uint32_t bytes) {
  Stepper& s = r.s;
  const exec::AddressRef& a = s.code->addresses[size_t(r.d.address)];
  const isa::Form& f = r.d.instr->form;
  uint64_t address[32];
  exec::for_lanes(s.mask, [&](int lane) { address[lane] = s.address(a, lane); });
  const Space space = f.n_spaces ? f.space() : Space::none;
  const bool call_param = (space == Space::param || space == Space::param_func) && a.local_frame;
  const Region region = call_param ? Region::none : region_of(s, space, address[std::countr_zero(s.mask)]);
  if (shared == What::shared_atomic && s.cta.cluster && (region == Region::shared || region == Region::remote)) {
    uint32_t remote = 0;  // lanes whose word another block of the cluster has: they set the pace
    exec::for_lanes(s.mask, [&](int lane) { remote |= uint32_t(region_of(s, space, address[lane]) == Region::remote) << lane; });
    if (remote) {
      r.keep = true;
      r.e.lanes_bytes = uint8_t(bytes), r.e.what = What::remote_atomic, r.e.mask = remote;
      r.e.extra = uint16_t(sectors_of(address, remote)), r.e.count = most_on_one_word(address, remote);
      return;
    }
  }
  if (region == Region::none || (region == Region::constant && a.base.kind == exec::RefKind::none)) return;  // an operand of other instructions
  r.keep = true;
  r.e.lanes_bytes = uint8_t(bytes);
  if (region == Region::constant) {
    r.e.what = What::constant_load;
    uint64_t low = ~uint64_t{0};
    exec::for_lanes(s.mask, [&](int lane) { low = std::min(low, address[lane]); });
    r.e.extra = uint16_t(distinct(address, s.mask));
    r.e.object = uint32_t(low >> 6);
    exec::for_lanes(s.mask, [&](int lane) { address[lane] >>= 6; });
    r.e.count = distinct(address, s.mask);
    return;
  }
  if (region == Region::local) {
    r.e.what = local;
    return record_local(r, address, space, bytes);
  }
  if (region == Region::shared) {
    r.e.what = shared;
    if (shared == What::shared_atomic) {
      r.e.extra = uint16_t(atomic_wavefronts(address, s.mask));
      r.e.count = most_on_one_word(address, s.mask);
      if (isa::is_float(f.types[size_t(f.n_types - 1)]) || bytes != 4) record_words(r, address);
      return;
    }
    const AccessPattern::Waves waves = r.pattern.waves(address, s.mask, bytes);
    r.e.extra = uint16_t(waves.own);
    if (bytes < 16 && shared == What::shared_load) r.e.count = waves.merged;
    return;
  }
  if (region == Region::remote) {
    r.e.what = shared == What::shared_load ? What::remote_load : What::remote_store;
    const bool loads = shared == What::shared_load;
    r.e.count = loads ? sectors_of(address, s.mask) : filled_or_halves(address, s.mask, bytes);
    r.e.extra = uint16_t(loads ? lines_of(address, s.mask) : wavefronts(address, s.mask, bytes));
    return;
  }
  r.e.what = global;
  r.e.address = address[std::countr_zero(s.mask)];
  r.e.detail = uint32_t(r.block.lines.size());
  r.e.n_detail = coalesce(address, s.mask, bytes, r.block.lines);
  // Lanes that are far apart: the access itself, lane by lane, would wait for the host's memory for each.
  constexpr uint32_t kScattered = 8;
  if (r.e.n_detail >= kScattered && region == Region::global) exec::for_lanes(s.mask, [&](int lane) { __builtin_prefetch(reinterpret_cast<const void*>(address[lane])); });
  if (global == What::global_load) r.e.extra = uint16_t(wavefronts(address, s.mask, bytes));
  if (global == What::global_store) {
    r.e.count = distinct(address, s.mask) * bytes;
    r.e.extra = uint16_t(note_filled(r, address, s.mask, bytes));
  }
  if (global == What::global_atomic || global == What::global_reduction) {
    // The L2 works on lanes that share a word one after the other.
    r.e.extra = uint16_t(most_on_one_word(address, s.mask));
  }
}

void record_matrix(Recording& r, bool store) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  uint64_t address[32] = {};
  exec::for_lanes(s.mask, [&](int lane) { address[lane] = s.address(s.code->addresses[size_t(r.d.address)], lane); });
  const uint32_t matrices = f.has(Mod::x4) ? 4 : f.has(Mod::x2) ? 2 : 1;
  uint32_t total = 0;
  for (uint32_t m = 0; m < matrices; m++) {  // eight rows of 16 bytes at a time
    uint64_t rows[32];
    for (int i = 0; i < 8; i++) rows[i] = address[(m * 8 + uint32_t(i)) % 32];
    uint32_t worst = 1;
    for (int piece = 0; piece < 8; piece++) {
      uint32_t same = 0;
      uint64_t seen[8];
      for (int i = 0; i < 8; i++)
        if (int(rows[i] >> 4 & 7) == piece && std::find(seen, seen + same, rows[i]) == seen + same) seen[same++] = rows[i];
      worst = std::max(worst, same);
    }
    total += worst;
  }
  r.keep = true;
  r.e.what = store ? What::shared_store : What::shared_load;
  r.e.lanes_bytes = uint8_t(4 * matrices);
  r.e.extra = uint16_t(total);
}

void record_wmma(Recording& r, bool store) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const int lane = std::countr_zero(s.mask), refs = store ? int(r.d.instr->ops[1].parts.size()) : r.d.n_dst;
  const uint64_t base = s.address(s.code->addresses[size_t(r.d.address)], lane);
  const bool has_stride = r.d.n_src > (store ? refs : 0);
  const uint64_t stride = has_stride ? exec::scalar(s, s.ref(r.d, refs), lane) : 16;
  const uint32_t element = uint32_t(std::max(1, isa::bytes_of(f.type())));
  const Region region = region_of(s, f.n_spaces ? f.space() : Space::none, base);
  // The machine code has an access of two elements a lane for every piece of 8 x 8.
  r.keep = true;
  for (uint32_t part = 0; part < 4; part++) {
    uint64_t address[32];
    for (uint32_t l = 0; l < 32; l++) address[l] = base + ((part % 2 * 8 + l / 4) * stride + part / 2 * 8 + l % 4 * 2) * element;
    Event e = r.e;
    e.lanes_bytes = uint8_t(2 * element);
    if (region != Region::global) {
      e.what = store ? What::shared_store : What::shared_load;
      e.extra = uint16_t(wavefronts(address, ~0u, 2 * element));
    } else {
      e.what = store ? What::global_store : What::global_load;
      e.address = address[0];
      e.detail = uint32_t(r.block.lines.size());
      e.n_detail = coalesce(address, ~0u, 2 * element, r.block.lines);
      e.count = 64 * element;
      if (!store) e.extra = uint16_t(wavefronts(address, ~0u, 2 * element));
    }
    if (part == 0) r.e = e;
    else r.more.push_back(e);
  }
}

/// Bytes that a cp.async reads: all, what its source size says, or none when its predicate says to ignore the source.
uint32_t source_bytes(Recording& r, int lane, uint32_t size) {
  if (r.d.n_src < 2 || (r.d.n_src == 2 && r.d.instr->form.has(Mod::L2_cache_hint))) return size;
  const exec::Ref& ref = r.s.ref(r.d, 1);
  const uint64_t v = exec::scalar(r.s, ref, lane);
  return ref.bits == 1 ? (v ? 0 : size) : uint32_t(std::min<uint64_t>(v, size));
}

void record_copy_async(Recording& r) {
  Stepper& s = r.s;
  uint64_t address[32];
  const uint32_t size = uint32_t(s.ref(r.d, 0).value);
  r.keep = true;
  r.e.what = What::copy_async;
  r.e.lanes_bytes = uint8_t(size);
  r.e.detail = uint32_t(r.block.lines.size());
  uint32_t reads = 0, most = 0;  // lanes that read, and the most bytes that one reads
  exec::for_lanes(s.mask, [&](int lane) {
    address[lane] = s.address(s.code->addresses[size_t(r.d.address) + 1], lane);
    const uint32_t bytes = source_bytes(r, lane, size);
    if (bytes) reads |= 1u << lane, most = std::max(most, bytes);
  });
  uint64_t target[32];
  exec::for_lanes(s.mask, [&](int lane) { target[lane] = s.address(s.code->addresses[size_t(r.d.address)], lane); });
  if (reads) {
    r.e.address = address[std::countr_zero(reads)];
    const bool past_l1 = r.d.instr->form.has(Mod::cg);
    r.e.n_detail = past_l1 ? coalesce_copies(address, target, reads, r.block.lines) : coalesce(address, reads, most, r.block.lines);
  }
  r.e.extra = uint16_t(wavefronts(target, s.mask, size));
}

}  // namespace

Filled note_filled(Recording& r, const uint64_t* address, uint32_t mask, uint32_t bytes) {
  std::vector<uint64_t>& lines = r.block.lines;
  uint32_t sectors = 0;
  for (uint32_t i = 0; i < r.e.n_detail; i++) sectors += uint32_t(std::popcount(lines[r.e.detail + i] & 15));
  if (r.e.count == 32 * sectors) return Filled::all;
  if (r.e.count < 32) return Filled::none;
  filled_sectors(address, mask, bytes, r.e.detail, r.e.n_detail, lines);
  const bool any = std::any_of(lines.end() - r.e.n_detail, lines.end(), [](uint64_t filled) { return filled != 0; });
  if (!any) lines.resize(lines.size() - r.e.n_detail);
  return any ? Filled::some : Filled::none;
}

uint32_t object_of(const Stepper& s, Space space, uint64_t address) {
  if (is_shared(space)) {
    const uint32_t rank = uint32_t(address) >> 24;
    return (uint32_t(address) & 0xFFFFFF) | (space == Space::shared_cluster && rank ? rank - 1 : s.cta.cluster_rank) << 24;
  }
  for (uint32_t i = 0; s.cta.cluster && i < s.cta.cluster->n && i < 16; i++) {
    const uint64_t base = reinterpret_cast<uint64_t>(s.cta.cluster->ctas[i]->shared);
    if (address - base < s.cta.cluster->ctas[i]->shared_bytes) return uint32_t(address - base) | i << 24;
  }
  return uint32_t(address) & 0xFFFFFF;
}

namespace {

/// One event for each mbarrier that the lanes name.
void record_mbarrier(Recording& r, What what) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const Space space = f.n_spaces ? f.space() : Space::none;
  r.keep = true;
  uint32_t rest = s.mask;
  for (bool first = true; rest; first = false) {
    const int lane = std::countr_zero(rest);
    Event e = r.e;
    e.what = what;
    e.object = object_of(s, space, s.address(s.code->addresses[size_t(r.d.address)], lane));
    uint32_t lanes = 0;
    for (uint32_t m = rest; m; m &= m - 1) {
      const int other = std::countr_zero(m);
      if (what != What::mbarrier_wait && object_of(s, space, s.address(s.code->addresses[size_t(r.d.address)], other)) != e.object) continue;
      lanes++, rest &= ~(1u << other);
    }
    const uint64_t operand = r.d.n_src ? exec::scalar(s, s.ref(r.d, r.d.n_dst), lane) : 1;
    if (what == What::mbarrier_init) e.count = uint32_t(operand);
    if (what == What::mbarrier_expect) e.count = uint32_t(operand) * lanes;
    if (what == What::mbarrier_wait) e.count = uint32_t(operand), e.extra = f.has(Mod::parity) ? uint16_t(operand & 1) : uint16_t(exec::mbarrier::phase(operand));
    if (what == What::mbarrier_arrive) {
      const bool expects = f.has(Mod::expect_tx);
      e.extra = uint16_t(expects ? lanes : uint32_t(operand) * lanes);
      e.count = expects ? uint32_t(operand) * lanes : 0;
      if (r.d.instr->form.op == Op::cp_async_mbarrier_arrive) e.lanes_bytes = kOfCopies, e.extra = uint16_t(f.has(Mod::noinc) ? lanes : 0);
    }
    if (first) r.e = e;
    else r.more.push_back(e);
  }
}

/// What lanes store to another block or add there, which its mbarrier is told of; to one of them all, as blocks of a cluster do alike.
void record_peer_store(Recording& r) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const Space space = f.n_spaces ? f.space() : Space::none;
  const uint32_t bytes = uint32_t(isa::bytes_of(f.type())) * r.d.n_src;
  uint64_t address[32];
  exec::for_lanes(s.mask, [&](int lane) { address[lane] = s.address(s.code->addresses[size_t(r.d.address)], lane); });
  r.keep = true;
  r.e.what = What::peer_store;
  r.e.lanes_bytes = uint8_t(bytes);
  const bool adds = r.d.instr->form.op == Op::red_async;
  r.e.extra = uint16_t(adds ? sectors_of(address, s.mask) : filled_or_halves(address, s.mask, bytes));
  if (adds) r.e.detail = most_on_one_word(address, s.mask);
  r.e.count = bytes * uint32_t(std::popcount(s.mask));
  r.e.object = object_of(s, space, s.address(s.code->addresses[size_t(r.d.address) + 1], std::countr_zero(s.mask)));
}

void record_barrier(Recording& r) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const int lane = std::countr_zero(s.mask);
  const bool red = f.has(Mod::red);
  r.keep = true;
  r.e.what = f.has(Mod::arrive) ? What::barrier_arrive : red ? What::barrier_red : What::barrier;
  r.e.extra = uint16_t(s.value(s.ref(r.d, r.d.n_dst), 0, lane));
  if (r.d.n_src - (red ? 1 : 0) > 1) r.e.count = uint32_t(s.value(s.ref(r.d, r.d.n_dst + 1), 1, lane));
}

/// match.any takes as long as the lanes hold different values; match.all asks for one.
void record_match(Recording& r) {
  Stepper& s = r.s;
  uint64_t value[32];
  const exec::Ref& ref = s.ref(r.d, r.d.n_dst);
  exec::for_lanes(s.mask, [&](int lane) { value[lane] = exec::scalar(s, ref, lane); });
  r.keep = true;
  r.e.what = What::match;
  r.e.extra = r.d.instr->form.has(Mod::all) ? 1 : uint16_t(distinct(value, s.mask));
}

/// Lanes that name different members: ptxas has them compared (match.any) ahead of the exchange itself.
void record_members(Recording& r) {
  Stepper& s = r.s;
  if ((!r.d.instr->form.has(Mod::sync) && r.d.instr->form.op != Op::bar_warp) || r.d.n_src == 0) return;
  const exec::Ref& ref = s.ref(r.d, r.d.n_dst + r.d.n_src - 1);
  if (ref.kind != exec::RefKind::frame) return;
  uint64_t members[32];
  bool alike = true;
  const uint64_t first = exec::scalar(s, ref, std::countr_zero(s.mask));
  exec::for_lanes(s.mask, [&](int lane) { alike &= (members[lane] = exec::scalar(s, ref, lane)) == first; });
  if (alike) return;
  r.keep = true;
  r.e.what = What::match;
  r.e.extra = uint16_t(distinct(members, s.mask));
}

void record_sleep(Recording& r) {
  Stepper& s = r.s;
  const exec::Ref& ref = s.ref(r.d, r.d.n_dst);
  r.keep = true;
  r.e.what = What::sleep;
  exec::for_lanes(s.mask, [&](int lane) { r.e.count = std::max(r.e.count, uint32_t(exec::scalar(s, ref, lane))); });
}

uint32_t bytes_of_access(const Decoded& d, int values) {
  return uint32_t(std::max(1, isa::bytes_of(d.instr->form.type()))) * uint32_t(std::max(1, values));
}

}  // namespace

void look(Recording& r) {
  const isa::Form& f = r.d.instr->form;
  switch (f.op) {
    case Op::ld: case Op::ldu: return r.d.address >= 0 ? record_access(r, What::global_load, What::shared_load, What::local_load, bytes_of_access(r.d, r.d.n_dst)) : void();
    case Op::st: return r.d.address >= 0 ? record_access(r, What::global_store, What::shared_store, What::local_store, bytes_of_access(r.d, r.d.n_src)) : void();
    case Op::atom: return record_access(r, What::global_atomic, What::shared_atomic, What::local_load, uint32_t(isa::bytes_of(f.types[size_t(f.n_types - 1)])) * std::max<uint32_t>(1, f.vec));
    case Op::red: return record_access(r, What::global_reduction, What::shared_atomic, What::local_store, uint32_t(isa::bytes_of(f.types[size_t(f.n_types - 1)])) * std::max<uint32_t>(1, f.vec));
    case Op::ldmatrix: return record_matrix(r, false);
    case Op::stmatrix: return record_matrix(r, true);
    case Op::wmma_load: return record_wmma(r, false);
    case Op::wmma_store: return record_wmma(r, true);
    case Op::cp_async: return record_copy_async(r);
    case Op::cp_async_bulk_tensor: case Op::cp_reduce_async_bulk_tensor: case Op::cp_async_bulk_prefetch_tensor: return record_tensor(r);
    case Op::cp_async_bulk: case Op::cp_reduce_async_bulk: case Op::cp_async_bulk_prefetch: return record_bulk(r);
    case Op::st_async: case Op::red_async: return record_peer_store(r);
    case Op::mbarrier_init: return record_mbarrier(r, What::mbarrier_init);
    case Op::mbarrier_expect_tx: return record_mbarrier(r, What::mbarrier_expect);
    case Op::mbarrier_arrive: case Op::mbarrier_arrive_drop: case Op::cp_async_mbarrier_arrive: return record_mbarrier(r, What::mbarrier_arrive);
    case Op::mbarrier_test_wait: case Op::mbarrier_try_wait: return record_mbarrier(r, What::mbarrier_wait);
    case Op::match: return record_match(r);
    case Op::shfl: case Op::vote: case Op::redux: case Op::bar_warp: return record_members(r);
    case Op::nanosleep: return record_sleep(r);
    case Op::bar: case Op::barrier: return record_barrier(r);
    case Op::barrier_cluster:
      if (!r.s.cta.cluster || r.s.cta.cluster->n == 1) {  // the machine code has a barrier of the block where the wait is
        r.keep = !f.has(Mod::arrive);
        r.e.what = What::barrier;
        return;
      }
      r.keep = true;
      r.e.what = f.has(Mod::arrive) ? What::cluster_arrive : What::cluster_wait;
      return;
    default: return;
  }
}

}  // namespace orrery::timing
