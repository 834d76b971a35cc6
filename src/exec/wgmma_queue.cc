// exec/wgmma_queue.cc: see wgmma_queue.h.
#include "exec/wgmma_queue.h"

#include <algorithm>

#include "exec/tensor_operands.h"

namespace orrery::exec {

namespace {

constexpr int kMaxAccumulators = 128;

/// What the warps of a warpgroup must have in common.
bool same_for_all(const sem::WgmmaOperands& a, const sem::WgmmaOperands& b) {
  return a.b_desc == b.b_desc && a.keep == b.keep && a.scale_a == b.scale_a && a.scale_b == b.scale_b && a.trans_a == b.trans_a &&
         a.trans_b == b.trans_b && a.selector == b.selector;
}

}  // namespace

WgmmaQueue::Warpgroup& WgmmaQueue::of(const WarpContext& w) {
  const size_t per_block = (w.cta->n_warps + kWarps - 1) / kWarps, at = w.cta->cluster_rank * per_block + w.warp_id / kWarps;
  if (at >= groups_.size()) groups_.resize(w.cta->cluster->n * per_block);
  return groups_[at];
}

void WgmmaQueue::add(const Stepper& s, const Decoded& d, const sem::WgmmaOperands& o) {
  used_ = true;
  Queue& q = of(s.w).warps[s.w.warp_id % kWarps];
  if (q.n == q.ones.size()) q.ones.emplace_back();
  One& one = q.ones[q.n++];
  one.d = &d;
  one.pc = s.pc;
  one.group = s.w.wgmma_groups;
  one.operands = o;
  one.n_a = o.a ? uint32_t(d.instr->ops[1].parts.size()) : 0;
  if (!o.a && !o.metadata) return;
  if (q.words.size() < q.n) q.words.resize(q.n);
  Words& words = q.words[q.n - 1];
  for (uint32_t r = 0; r < one.n_a; r++) std::memcpy(words[r].data(), o.a[r], sizeof words[r]);
  if (o.metadata) std::memcpy(words[4].data(), o.metadata, sizeof words[4]);
}

Next WgmmaQueue::carry_out(Stepper& s, uint32_t end) {
  Warpgroup& g = of(s.w);
  for (;;) {
    std::array<size_t, kWarps> due{};  // instructions of each warp's next chain
    bool some = false;
    for (uint32_t w = 0; w < kWarps; w++) {
      const Queue& q = g.warps[w];
      size_t& n = due[w];
      while (q.first + n < q.n && q.ones[q.first + n].group < end && (!n || q.ones[q.first].d->extra == q.ones[q.first + n].d->extra)) n++;
      some |= n != 0;
    }
    if (!some) return Next::next;
    const bool all = std::all_of(due.begin(), due.end(), [&](size_t n) { return n == due[0]; });
    bool together = all;
    for (size_t i = 0; i < due[0] && together; i++)
      for (uint32_t w = 1; w < kWarps && together; w++) {
        const One &a = g.warps[0].ones[g.warps[0].first + i], &b = g.warps[w].ones[g.warps[w].first + i];
        together = a.d == b.d && same_for_all(a.operands, b.operands);
      }
    if (together) {
      if (run(s, g, 0, kWarps, due) == Next::fault) return Next::fault;
      continue;
    }
    for (uint32_t w = 0; w < kWarps; w++)
      if (due[w] && run(s, g, w, 1, due) == Next::fault) return Next::fault;
  }
}

/// The next chain of some warps, which have the same number of instructions in it.
Next WgmmaQueue::run(Stepper& s, Warpgroup& g, uint32_t first_warp, uint32_t warps, const std::array<size_t, kWarps>& counts) {
  const DecodedProgram& code = *s.run.kernel.entry;  // (a function may wait for what its caller issued)
  const size_t n = counts[first_warp];
  void* registers[kWarps][kMaxAccumulators];
  void* const* d[kWarps];
  const void* a[kMaxChain][kWarps][4];
  for (size_t done = 0; done < n;) {
    const size_t steps = std::min(n - done, kMaxChain);
    steps_.clear();
    for (size_t i = 0; i < steps; i++)
      for (uint32_t w = 0; w < warps; w++) {
        Queue& q = g.warps[first_warp + w];
        One& one = q.ones[q.first + i];
        for (uint32_t r = 0; r < one.n_a; r++) a[i][w][r] = q.words[q.first + i][r].data();
        if (one.operands.a) one.operands.a = a[i][w];
        if (one.operands.metadata) one.operands.metadata = q.words[q.first + i][4].data();
        steps_.push_back(one.operands);
      }
    const Decoded& what = *g.warps[first_warp].ones[g.warps[first_warp].first].d;
    const uint32_t pc = g.warps[first_warp].ones[g.warps[first_warp].first].pc;
    WarpContext* const leader = &s.cta.warps[s.w.warp_id / kWarps * kWarps + first_warp];
    for (uint32_t w = 0; w < warps; w++) {
      std::byte* const frame = leader[w].frame;
      for (uint32_t i = 0; i < what.n_dst; i++) registers[w][i] = frame + code.refs[what.first_ref + i].offset;
      d[w] = registers[w];
    }
    if (!sem::run_wgmma_chain(what.instr->form, d, int(warps), steps_, numerics_of(s))) {
      Stepper of_issue{*leader, s.cta, s.run, &code, leader->frame, nullptr, nullptr, pc, ~0u};
      return wgmma_outside(of_issue, steps_[0]);
    }
    for (uint32_t w = 0; w < warps; w++) {
      Queue& q = g.warps[first_warp + w];
      q.first += steps;
      if (q.first == q.n) q.first = q.n = 0;
    }
    done += steps;
  }
  return Next::next;
}

}  // namespace orrery::exec
