// exec/async.h: asynchronous operations as handlers see them.
//
// An asynchronous copy is carried out when it is issued, in the order of issue, and then tells its mbarrier: that is
// one of the orders that the rules allow. A checked run puts it off instead (later.h): what a copy needs after its issue
// goes through in_time.
//
// Not here: the mbarrier word (mbarrier.h), box traversal (tma.h).
#pragma once
#include "exec/mbarrier.h"
#include "exec/mbarrier_store.h"
#include "exec/stepper.h"
#include "exec/wait_log.h"

namespace orrery::exec {

/// The value of operand `r` in `lane`, whatever width the instruction reads it in.
inline uint64_t scalar(Stepper& s, const Ref& r, int lane) {
  if (r.kind == RefKind::constant) return uint64_t(r.value);
  if (r.kind != RefKind::frame) return s.value(r, 0, lane);
  const std::byte* p = s.frame + r.offset;
  if (r.bits == 1) return (*reinterpret_cast<const uint32_t*>(p) >> lane & 1) ^ uint32_t{r.negated};
  return r.bits >= 64 ? reinterpret_cast<const uint64_t*>(p)[lane] : reinterpret_cast<const uint32_t*>(p)[lane];
}

/// Writes one lane of a destination register of up to 64 bits.
inline void set_lane(Stepper& s, const Ref& r, int lane, uint64_t v) {
  if (r.kind == RefKind::sink) return;
  std::byte* p = s.frame + r.offset;
  if (r.bits == 1) {
    uint32_t& m = *reinterpret_cast<uint32_t*>(p);
    m = (m & ~(uint32_t{1} << lane)) | uint32_t(v & 1) << lane;
  } else if (r.bits == 32) {
    reinterpret_cast<uint32_t*>(p)[lane] = uint32_t(v);
  } else {
    reinterpret_cast<uint64_t*>(p)[lane] = v;
  }
}

/// Whether memory belongs to a block of the cluster.
bool in_cluster_shared(const Stepper& s, const std::byte* p);

/// Offset of a place in shared memory in its block, whichever of the cluster that is: where a multicast writes in all of
/// them, and the address that swizzles look at.
inline uint64_t shared_offset(const Stepper& s, const void* p) {
  for (uint32_t r = 0; r < s.cta.cluster->n; r++) {
    const CtaContext& c = *s.cta.cluster->ctas[r];
    const uint64_t offset = uint64_t(static_cast<const std::byte*>(p) - c.shared);
    if (offset < c.shared_bytes) return offset;
  }
  return 0;
}

/// Where in shared memory the mbarrier of an address operand is; null after a fault was recorded.
uint64_t* mbarrier_at(Stepper& s, isa::Space space, uint64_t address, int lane);

/// Records what was wrong with an operation on an mbarrier. Next::next when nothing was.
Next check(Stepper& s, mbarrier::Outcome outcome, uint64_t word, uint64_t operand, int lane, uint64_t address);

/// The word of the mbarrier at that place, good until the next call.
inline uint64_t& mbarrier_word(Stepper& s, uint64_t* at) { return s.cta.cluster->mbarriers->open(at); }

/// Notes an operation on an mbarrier for the explanation of a hang.
inline void note_mbarrier(Stepper& s, MbarrierAct act, const uint64_t* word, uint64_t before, uint64_t after, uint64_t count, int lane) {
  s.cta.cluster->log->add(word, before, after, {act, s.code, &s.w, s.pc, 0, count, 0, 0}, lane);
}

/// A finished copy of `bytes` tells the mbarrier at `bar`. False after a fault was recorded.
inline bool complete_bytes(Stepper& s, uint64_t* bar, uint64_t bytes, int lane) {
  uint64_t& w = mbarrier_word(s, bar);
  const uint64_t before = w;
  const mbarrier::Outcome outcome = mbarrier::complete_bytes(w, bytes);
  note_mbarrier(s, MbarrierAct::bytes, bar, before, w, bytes, lane);
  if (Observer* o = s.observer()) {
    MbarrierEvent e{s.where(), lane, MbarrierOp::complete_tx, bar, before, w, bytes};
    e.refused = outcome != mbarrier::Outcome::ok;
    e.by_copy = true;
    o->mbarrier(e);
  }
  return check(s, outcome, w, bytes, lane, reinterpret_cast<uint64_t>(bar)) == Next::next;
}

/// Tells the observer, if there is one, of an asynchronous operation at its issue.
inline void report_async(Stepper& s, AsyncKind kind, int lane, std::span<const ByteRange> reads, std::span<const ByteRange> writes,
                         const uint64_t* bar, uint64_t tx_bytes, bool reduces = false) {
  if (!s.observer()) return;
  AsyncEvent e{s.where(), lane, kind, reduces, reads, writes, bar, tx_bytes, nullptr};
  s.observer()->async_copy(e);
}

/// The same place (`offset` bytes into shared memory) in the block of rank `rank` of the cluster.
inline std::byte* in_block(const Stepper& s, uint32_t rank, uint64_t offset) { return s.cta.cluster->ctas[rank]->shared + offset; }

Handler find_mbarrier_handler(const isa::Form& form);
Handler find_copy_handler(const isa::Form& form);  // cp.async, st.async, red.async
Handler find_bulk_handler(const isa::Form& form);  // cp.async.bulk, cp.reduce.async.bulk
Handler find_tma_handler(const isa::Form& form);   // tensor maps

/// A handler that refuses the form by name with `FaultKind::unsupported`.
Next refuse(Stepper& s, const Decoded& d);

}  // namespace orrery::exec
