// sanitize/region.cc: see region.h. A generic address of shared or local memory is its host address (exec/warp.h).
#include "sanitize/region.h"

#include "exec/run_state.h"

namespace orrery::sanitize {

using isa::Space;

const exec::CtaContext* shared_owner(const exec::CtaContext& any, const void* address, uint64_t* offset) {
  const uint64_t at = reinterpret_cast<uint64_t>(address), own = at - reinterpret_cast<uint64_t>(any.shared);
  if (own < any.shared_bytes) return *offset = own, &any;
  if (!any.cluster) return nullptr;
  for (uint32_t r = 0; r < any.cluster->n; r++) {
    const exec::CtaContext& c = *any.cluster->ctas[r];
    const uint64_t there = at - reinterpret_cast<uint64_t>(c.shared);
    if (there < c.shared_bytes) return *offset = there, &c;
  }
  return nullptr;
}

namespace {

Target shared_target(const exec::CtaContext& cta, Space space, uint64_t address) {
  Target t{Region::shared, &cta, 0, uint32_t(address)};
  const uint32_t rank = uint32_t(t.offset >> 24);
  if (space == Space::shared_cta || !rank || !cta.cluster) return t;
  t.offset &= 0xFFFFFF;
  if (rank > cta.cluster->n) return {Region::outside, nullptr, 0, address};
  t.cta = cta.cluster->ctas[rank - 1];
  return t;
}

}  // namespace

Target find_target(const exec::Where& where, Space space, uint64_t address, int lane) {
  const exec::WarpContext& w = *where.warp;
  if (is_shared(space)) return shared_target(*w.cta, space, address);
  if (space == Space::local) return {Region::local, nullptr, lane, address};
  if (space == Space::param || space == Space::param_entry || space == Space::param_func) return {Region::param, nullptr, lane, address};
  uint64_t offset = 0;
  if (const exec::CtaContext* cta = shared_owner(*w.cta, reinterpret_cast<const void*>(address), &offset)) return {Region::shared, cta, 0, offset};
  const uint64_t in_local = address - reinterpret_cast<uint64_t>(w.local);
  if (in_local < 32 * w.local_stride) return {Region::local, nullptr, int(in_local / w.local_stride), in_local % w.local_stride};
  const uint64_t in_param = address - where.run->param_address;
  if (in_param < 4096 * 8) return {Region::param, nullptr, lane, in_param};
  return {Region::global, nullptr, lane, address};
}

}  // namespace orrery::sanitize
