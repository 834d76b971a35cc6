// exec/ops_warp.cc: exchange between the lanes of a warp: shfl, vote, match, redux, activemask, elect, bar.warp.sync.
//
// A .sync form runs when all live lanes named in its member mask are at it; until then its group waits
// (Group::warp_sync) and check_warp_sync joins the groups. Source: PTX ISA manual, parallel synchronisation.
#include "exec/interpreter.h"
#include "exec/stepper.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Type;

bool gathered(Stepper& s, uint32_t members) {
  if (!s.group) return true;  // called by compiled code, which checked
  const uint32_t needed = members & s.w.live;
  if ((s.mask & needed) == needed || (s.group->member_mask == s.group->mask && s.group->state == GroupState::ready && s.group->member_mask)) {
    s.group->member_mask = 0;
    return true;
  }
  s.group->state = GroupState::warp_sync;
  s.group->member_mask = members;
  s.group->pc = s.pc;
  // A guard may hold back lanes of this group: those go on past the instruction as a group of their own.
  if (s.mask != s.group->mask) {
    Group rest = *s.group;
    rest.mask = s.group->mask & ~s.mask;
    rest.pc = s.pc + 1;
    rest.state = GroupState::ready;
    rest.member_mask = 0;
    s.group->mask = s.mask;
    add_group(s.w) = rest;
  }
  check_warp_sync(s.w);
  return false;
}

namespace {

/// Lanes may name different members, but each itself: an H200 takes another mask in a register for an illegal instruction.
bool name_themselves(Stepper& s, const uint32_t* named) {
  uint32_t missing = 0;
  for_lanes(s.mask, [&](int l) { missing |= (~named[l] >> l & 1) << l; });
  if (!missing) return true;
  const int lane = std::countr_zero(missing);
  s.fault(FaultKind::illegal_instruction, lane, 0, fmt::format("the member mask {:#010x} does not name lane {}, which executes the instruction with it", named[lane], lane));
  return false;
}

/// Runs `op(members)` for each set of lanes that name the same member mask (s.mask is that set meanwhile). Sets whose
/// members have not all arrived wait; the others go on.
template <class F>
Next for_member_sets(Stepper& s, const Ref& r, int slot, F op) {
  uint32_t named[32];
  std::memcpy(named, s.source(r, slot), sizeof named);
  const uint32_t all = s.mask, first = named[std::countr_zero(all)];
  bool same = true;
  for_lanes(all, [&](int l) { same &= named[l] == first; });
  if (same) {
    if (!gathered(s, first)) return Next::regroup;
    op(first);
    return Next::next;
  }
  if (!name_themselves(s, named)) return Next::fault;
  uint32_t waiting = 0;
  for (uint32_t rest = all; rest;) {
    const uint32_t members = named[std::countr_zero(rest)];
    uint32_t set = 0;
    for_lanes(rest, [&](int l) { set |= uint32_t(named[l] == members) << l; });
    rest &= ~set;
    if ((members & s.w.live) & ~set) {
      waiting |= set;
      continue;
    }
    s.mask = set;
    op(members);
  }
  s.mask = all;
  if (!waiting) return Next::next;
  if (!s.group) return Next::block;  // compiled code
  const Group base = *s.group;
  s.group->mask = base.mask & ~waiting;
  s.group->pc = s.pc + 1;
  while (waiting) {
    const uint32_t members = named[std::countr_zero(waiting)];
    uint32_t set = 0;
    for_lanes(waiting, [&](int l) { set |= uint32_t(named[l] == members) << l; });
    waiting &= ~set;
    Group& g = add_group(s.w) = base;
    g.mask = set;
    g.pc = s.pc;
    g.state = GroupState::warp_sync;
    g.member_mask = members;
  }
  check_warp_sync(s.w);
  return Next::regroup;
}

void set_predicate(Stepper& s, const Ref& r, uint32_t bits) {
  if (r.kind == RefKind::sink) return;
  uint32_t& m = *reinterpret_cast<uint32_t*>(s.frame + r.offset);
  m = (m & ~s.mask) | (bits & s.mask);
}

/// Waits for the named lanes. When lanes name different sets that are all complete, the exchange is done in one go.
Next shfl_gather(Stepper& s, const Ref& members) {
  bool complete = true, same = true;
  const uint32_t* named = s.words(members, 3);
  const uint32_t first = named[std::countr_zero(s.mask)];
  for_lanes(s.mask, [&](int l) { complete &= ((named[l] & s.w.live) & ~s.mask) == 0, same &= named[l] == first; });
  if (!same && !name_themselves(s, named)) return Next::fault;
  if (complete) {
    if (s.group) s.group->member_mask = 0;
    return Next::next;
  }
  return gathered(s, first) ? Next::next : Next::regroup;
}

/// Exchanges within s.mask; lanes outside it that are named as sources give their old values, as on hardware.
void exchange(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const int a = d.n_dst;
  uint32_t in[32], out[32] = {}, pred = 0;
  std::memcpy(in, s.source(s.ref(d, a), 0), 128);
  const uint32_t* b = s.words(s.ref(d, a + 1), 1);
  const uint32_t* c = s.words(s.ref(d, a + 2), 2);
  for_lanes(s.mask, [&](int lane) {
    const int bval = int(b[lane] & 31), cval = int(c[lane] & 31), segmask = int(c[lane] >> 8 & 31);
    const int max_lane = (lane & segmask) | (cval & ~segmask), min_lane = lane & segmask;
    int j;
    bool p;
    if (f.has(Mod::up)) j = lane - bval, p = j >= max_lane;
    else if (f.has(Mod::down)) j = lane + bval, p = j <= max_lane;
    else if (f.has(Mod::bfly)) j = lane ^ bval, p = j <= max_lane;
    else j = min_lane | (bval & ~segmask), p = j <= max_lane;
    if (!p) j = lane;
    out[lane] = in[j];
    if (p) pred |= uint32_t{1} << lane;
  });
  const Ref& r = s.ref(d, 0);
  if (r.kind != RefKind::sink) {
    uint32_t* to = reinterpret_cast<uint32_t*>(s.frame + r.offset);
    for_lanes(s.mask, [&](int lane) { to[lane] = out[lane]; });
  }
  if (d.n_dst == 2) set_predicate(s, s.ref(d, 1), pred);
}

Next op_shfl(Stepper& s, const Decoded& d) {
  if (d.instr->form.has(Mod::sync))  // the whole group exchanges at once: member sets never name each other's lanes
    if (Next n = shfl_gather(s, s.ref(d, d.n_dst + 3)); n != Next::next) return n;
  exchange(s, d);
  return Next::next;
}

void set_words(Stepper& s, const Ref& r, uint32_t v) {
  if (r.kind == RefKind::sink) return;
  uint32_t* to = reinterpret_cast<uint32_t*>(s.frame + r.offset);
  for_lanes(s.mask, [&](int lane) { to[lane] = v; });
}

Next op_vote(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const auto vote = [&](uint32_t members) {
    const uint32_t all = s.mask & members, p = s.words(s.ref(d, 1), 0)[0] & all;
    if (f.has(Mod::ballot)) set_words(s, s.ref(d, 0), p);
    else if (f.has(Mod::all)) set_predicate(s, s.ref(d, 0), p == all ? ~0u : 0);
    else if (f.has(Mod::any)) set_predicate(s, s.ref(d, 0), p ? ~0u : 0);
    else set_predicate(s, s.ref(d, 0), p == 0 || p == all ? ~0u : 0);
  };
  if (f.has(Mod::sync)) return for_member_sets(s, s.ref(d, 2), 1, vote);
  vote(s.mask);
  return Next::next;
}

Next op_match(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const int a = d.n_dst;
  return for_member_sets(s, s.ref(d, a + 1), 1, [&](uint32_t members) {
    uint64_t v[32];
    const void* in = s.source(s.ref(d, a), 0);
    const bool wide = s.ref(d, a).want == 64;
    for_lanes(s.mask, [&](int l) { v[l] = wide ? static_cast<const uint64_t*>(in)[l] : static_cast<const uint32_t*>(in)[l]; });
    const uint32_t here = s.mask & members;
    uint32_t out[32] = {}, pred = 0;
    for_lanes(s.mask, [&](int l) {
      for_lanes(here, [&](int k) { out[l] |= uint32_t(v[k] == v[l]) << k; });
      if (!f.has(Mod::all)) return;
      if (out[l] == here) pred |= uint32_t{1} << l;
      else out[l] = 0;
    });
    const Ref& r = s.ref(d, 0);
    if (r.kind != RefKind::sink) {
      uint32_t* to = reinterpret_cast<uint32_t*>(s.frame + r.offset);
      for_lanes(s.mask, [&](int l) { to[l] = out[l]; });
    }
    if (d.n_dst == 2) set_predicate(s, s.ref(d, 1), pred);
  });
}

uint32_t combine(const isa::Form& f, uint32_t a, uint32_t b) {
  const bool sign = f.type() == Type::s32;
  if (f.has(Mod::add)) return a + b;
  if (f.has(Mod::and_)) return a & b;
  if (f.has(Mod::or_)) return a | b;
  if (f.has(Mod::xor_)) return a ^ b;
  if (f.has(Mod::min)) return sign ? uint32_t(std::min(int32_t(a), int32_t(b))) : std::min(a, b);
  return sign ? uint32_t(std::max(int32_t(a), int32_t(b))) : std::max(a, b);
}

Next op_redux(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  if (f.type() == Type::f32)
    return s.fault(FaultKind::unsupported, std::countr_zero(s.mask), 0, "redux.sync on f32 needs sm_100a or later");
  return for_member_sets(s, s.ref(d, 2), 1, [&](uint32_t members) {
    const uint32_t* in = s.words(s.ref(d, 1), 0);
    const uint32_t here = s.mask & members;
    if (!here) return;
    uint32_t acc = in[std::countr_zero(here)];
    for_lanes(here & (here - 1), [&](int l) { acc = combine(f, acc, in[l]); });
    set_words(s, s.ref(d, 0), acc);
  });
}

Next op_activemask(Stepper& s, const Decoded& d) {
  set_words(s, s.ref(d, 0), s.mask);
  return Next::next;
}

Next op_elect(Stepper& s, const Decoded& d) {
  return for_member_sets(s, s.ref(d, d.n_dst), 0, [&](uint32_t members) {
    const uint32_t here = members & s.mask, leader = here ? uint32_t(std::countr_zero(here)) : 0;
    set_words(s, s.ref(d, 0), leader);
    if (d.n_dst == 2) set_predicate(s, s.ref(d, 1), uint32_t{1} << leader);
  });
}

Next op_bar_warp(Stepper& s, const Decoded& d) {
  return for_member_sets(s, s.ref(d, 0), 0, [](uint32_t) {});
}

}  // namespace

Handler find_warp_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::shfl: return op_shfl;
    case Op::vote: return op_vote;
    case Op::match: return op_match;
    case Op::redux: return op_redux;
    case Op::activemask: return op_activemask;
    case Op::elect: return op_elect;
    case Op::bar_warp: return op_bar_warp;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
