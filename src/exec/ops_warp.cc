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

namespace {

/// True when everybody named is here; else the group now waits.
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

uint32_t first_value(Stepper& s, const Ref& r, int slot) { return uint32_t(s.value(r, slot, std::countr_zero(s.mask))); }

void set_predicate(Stepper& s, const Ref& r, uint32_t bits) {
  if (r.kind == RefKind::sink) return;
  uint32_t& m = *reinterpret_cast<uint32_t*>(s.frame + r.offset);
  m = (m & ~s.mask) | (bits & s.mask);
}

Next op_shfl(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool has_pred = d.n_dst == 2;
  const int a = d.n_dst;
  if (f.has(Mod::sync) && !gathered(s, first_value(s, s.ref(d, a + 3), 3))) return Next::regroup;
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
  if (has_pred) set_predicate(s, s.ref(d, 1), pred);
  return Next::next;
}

void set_words(Stepper& s, const Ref& r, uint32_t v) {
  if (r.kind == RefKind::sink) return;
  uint32_t* to = reinterpret_cast<uint32_t*>(s.frame + r.offset);
  for_lanes(s.mask, [&](int lane) { to[lane] = v; });
}

Next op_vote(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  uint32_t members = s.mask;
  if (f.has(Mod::sync)) {
    members = first_value(s, s.ref(d, 2), 1);
    if (!gathered(s, members)) return Next::regroup;
  }
  const uint32_t p = s.words(s.ref(d, 1), 0)[0] & s.mask & members, all = s.mask & members;
  if (f.has(Mod::ballot)) set_words(s, s.ref(d, 0), p);
  else if (f.has(Mod::all)) set_predicate(s, s.ref(d, 0), p == all ? ~0u : 0);
  else if (f.has(Mod::any)) set_predicate(s, s.ref(d, 0), p ? ~0u : 0);
  else set_predicate(s, s.ref(d, 0), p == 0 || p == all ? ~0u : 0);
  return Next::next;
}

Next op_match(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const int a = d.n_dst;
  const uint32_t members = first_value(s, s.ref(d, a + 1), 1);
  if (!gathered(s, members)) return Next::regroup;
  uint64_t v[32];
  for_lanes(s.mask, [&](int l) { v[l] = s.value(s.ref(d, a), 0, l); });
  const uint32_t here = s.mask & members;
  uint32_t out[32] = {}, pred = 0;
  for_lanes(s.mask, [&](int l) {
    for_lanes(here, [&](int k) { out[l] |= uint32_t(v[k] == v[l]) << k; });
    if (f.has(Mod::all)) {
      if (out[l] == here) pred |= uint32_t{1} << l;
      else out[l] = 0;
    }
  });
  const Ref& r = s.ref(d, 0);
  if (r.kind != RefKind::sink) {
    uint32_t* to = reinterpret_cast<uint32_t*>(s.frame + r.offset);
    for_lanes(s.mask, [&](int l) { to[l] = out[l]; });
  }
  if (d.n_dst == 2) set_predicate(s, s.ref(d, 1), pred);
  return Next::next;
}

Next op_redux(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const uint32_t members = first_value(s, s.ref(d, 2), 1);
  if (f.type() == Type::f32)
    return s.fault(FaultKind::unsupported, std::countr_zero(s.mask), 0, "redux.sync on f32 needs sm_100a or later");
  if (!gathered(s, members)) return Next::regroup;
  const uint32_t* in = s.words(s.ref(d, 1), 0);
  bool first = true;
  uint32_t acc = 0;
  for_lanes(s.mask & members, [&](int l) {
    const uint32_t v = in[l];
    const bool sign = f.type() == Type::s32;
    if (first) acc = v;
    else if (f.has(Mod::add)) acc += v;
    else if (f.has(Mod::and_)) acc &= v;
    else if (f.has(Mod::or_)) acc |= v;
    else if (f.has(Mod::xor_)) acc ^= v;
    else if (f.has(Mod::min)) acc = sign ? uint32_t(std::min(int32_t(acc), int32_t(v))) : std::min(acc, v);
    else acc = sign ? uint32_t(std::max(int32_t(acc), int32_t(v))) : std::max(acc, v);
    first = false;
  });
  set_words(s, s.ref(d, 0), acc);
  return Next::next;
}

Next op_activemask(Stepper& s, const Decoded& d) {
  set_words(s, s.ref(d, 0), s.mask);
  return Next::next;
}

Next op_elect(Stepper& s, const Decoded& d) {
  const uint32_t members = first_value(s, s.ref(d, d.n_dst), 0);
  if (!gathered(s, members)) return Next::regroup;
  const uint32_t leader = uint32_t(std::countr_zero(members & s.mask));
  set_words(s, s.ref(d, 0), leader);
  if (d.n_dst == 2) set_predicate(s, s.ref(d, 1), uint32_t{1} << leader);
  return Next::next;
}

Next op_bar_warp(Stepper& s, const Decoded& d) {
  return gathered(s, first_value(s, s.ref(d, 0), 0)) ? Next::next : Next::regroup;
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
