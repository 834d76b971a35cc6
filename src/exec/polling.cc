// exec/polling.cc: see polling.h.
#include "exec/polling.h"

#include "exec/wait_state.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

/// Instructions that leave no trace for other threads (beside registers), also when they are repeated for ever.
bool silent(const Decoded& d) {
  if (d.pure) return true;
  switch (d.instr->form.op) {
    case Op::mov: case Op::cvta: case Op::bra: case Op::brx: case Op::ret: case Op::call: case Op::ld: case Op::ldu: case Op::isspacep:
    case Op::mapa: case Op::getctarank: case Op::prefetch: case Op::mbarrier_test_wait: case Op::mbarrier_try_wait: case Op::nanosleep:
    case Op::membar: case Op::fence: case Op::bar_warp: case Op::activemask: case Op::vote: case Op::shfl: case Op::match: case Op::redux:
    case Op::elect:
      return true;
    default: return false;
  }
}

bool reads_clock(const Stepper& s, const Decoded& d) {
  for (uint32_t i = 0; i < uint32_t(d.n_dst) + d.n_src; i++) {
    const Ref& r = s.code->refs[d.first_ref + i];
    if (r.kind != RefKind::sreg) continue;
    const ptx::Sreg which = ptx::Sreg(r.offset);
    if (which >= ptx::Sreg::clock && which <= ptx::Sreg::globaltimer_hi) return true;
  }
  return false;
}

bool strong(const isa::Form& f) {
  return f.op == Op::atom || f.op == Op::red || f.has(Mod::relaxed) || f.has(Mod::release) || f.has(Mod::volatile_);
}

uint64_t read_word(uint64_t address, uint32_t bytes) { return load_bytes(reinterpret_cast<const std::byte*>(address), std::min(8u, bytes)); }

}  // namespace

bool Polling::touches_memory(const Decoded& d) const {
  const Op op = d.instr->form.op;
  if (op != Op::ld && op != Op::st && op != Op::atom && op != Op::red) return false;
  const Space space = d.instr->form.n_spaces ? d.instr->form.space() : Space::none;
  return d.address >= 0 && (space == Space::none || space == Space::global || space == Space::shared || space == Space::shared_cta || space == Space::shared_cluster);
}

void Polling::before(Stepper& s, const Decoded& d) {
  lanes_ = 0;
  if (!touches_memory(d)) {
    if (spinning && (!silent(d) || reads_clock(s, d))) changes++;
    return;
  }
  const isa::Form& f = d.instr->form;
  if (!spinning && !strong(f)) return;
  bytes_ = uint32_t(isa::bytes_of(f.types[f.n_types - 1]));
  const AddressRef& a = s.code->addresses[d.address];
  const Space space = f.n_spaces ? f.space() : Space::none;
  const bool shared = space == Space::shared || space == Space::shared_cta || space == Space::shared_cluster;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    uint64_t at = s.address(a, lane);
    if (at % std::max(1u, bytes_)) continue;  // it will fault
    if (shared) {
      const uint32_t rank = uint32_t(at) >> 24;
      if (rank > s.cta.cluster->n || (at & 0xFFFFFF) + bytes_ > s.cta.shared_bytes) continue;
      at = reinterpret_cast<uint64_t>((rank ? s.cta.cluster->ctas[rank - 1] : &s.cta)->shared) + (at & 0xFFFFFF);
    } else if (!s.run.machine.memory->find(at)) {
      continue;
    }
    address_[lane] = at;
    value_[lane] = read_word(at, bytes_);
    lanes_ |= uint32_t{1} << lane;
  }
}

void Polling::after(Stepper& s, const Decoded& d) {
  if (!lanes_) return;
  const isa::Form& f = d.instr->form;
  const int first = std::countr_zero(lanes_);
  if (f.op != Op::st && spinning) {
    look(looks_[&s.w], {s.code, s.pc, lanes_, address_[first], value_[first], ""});
  }
  if (f.op == Op::ld) return;
  for (uint32_t m = lanes_; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t now = read_word(address_[lane], bytes_);
    if (now == value_[lane] && bytes_ <= 8) continue;
    changes++;
    if (from_start_ && strong(f)) changed_[address_[lane]] = {s.code, s.pc, uint32_t{1} << lane, address_[lane], now, who({{&s.w, uint32_t{1} << lane}}, true)};
  }
}

void Polling::look(Looks& looks, const Poll& poll) {
  if (looks.roams) return;
  std::erase_if(looks.at, [&](const Poll& p) { return p.code == poll.code && p.pc == poll.pc && p.address == poll.address; });
  looks.at.push_back(poll);
  looks.roams = looks.at.size() > Looks::kMost;
}

const Poll* Polling::of(const WarpContext& w, uint32_t mask) const {
  auto it = looks_.find(&w);
  if (it == looks_.end()) return nullptr;
  for (auto p = it->second.at.rbegin(); p != it->second.at.rend(); ++p)
    if (p->lanes & mask) return &*p;
  return nullptr;
}

const Poll* Polling::at(uint64_t address) const {
  for (auto& [warp, looks] : looks_)
    for (const Poll& p : looks.at)
      if (p.address == address) return &p;
  return nullptr;
}

const Poll* Polling::last_change(uint64_t address) const {
  auto it = changed_.find(address);
  return it == changed_.end() ? nullptr : &it->second;
}

bool Polling::looks_in_vain(const DeviceMemory& memory) const {
  for (auto& [warp, looks] : looks_) {
    if (looks.roams) return false;
    for (const Poll& p : looks.at) {
      const auto a = memory.find(p.address);
      if (!a || a->kind == MemoryKind::managed || a->kind == MemoryKind::pinned) return false;
    }
  }
  return !looks_.empty();
}

}  // namespace orrery::exec
