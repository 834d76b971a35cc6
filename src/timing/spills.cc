// timing/spills.cc: what ptxas had no register for: loads and stores of the stack frame that no PTX instruction makes.
//
// Their places are told by machine code alone, the same in every turn: each warp gets an event for each such instruction behind those of its trace,
// with lines of local memory behind its block's arrays. All lanes are taken to spill. Not here: arrays, which PTX accesses (trace_look.cc).
#include <algorithm>

#include "timing/join.h"
#include "timing/join_cursor.h"

namespace orrery::timing {

/// Loads and stores of the stack frame, at the offset of R1 that they bear.
void Join::find_spills() {
  constexpr uint8_t kStack = 1;
  std::map<Spill, uint32_t> known;
  for (uint32_t i = 0; i < code_.size(); i++) {
    const MachineInstruction& m = code_[i];
    const int32_t offset = int32_t(m.i.lo >> 32) >> 8;  // bits 40-63
    if ((m.kind != Class::local_load && m.kind != Class::local_store) || uint8_t(m.i.lo >> 24) != kStack || offset < 0) continue;
    const Spill spill{m.kind == Class::local_load, uint32_t(offset), m.width};
    spill_of_[i] = known.try_emplace(spill, uint32_t(known.size())).first->second;
    frame_ = std::max(frame_, (spill.offset + spill.bytes + 3) / 4 * 4);
  }
  spills_.resize(known.size());
  for (const auto& [spill, number] : known) spills_[number] = spill;
}

/// A word of all lanes is a line, as in arrays (record_local).
void Join::add_spills(TracedBlock& block) const {
  if (spills_.empty()) return;
  constexpr uint64_t kLanes = 32, kLine = 128, kWholeLine = 15;
  for (uint64_t w = 0; w < block.warps.size(); w++)
    for (const Spill& s : spills_) {
      const uint32_t words = std::max(1u, s.bytes / 4);
      Event e;
      e.pc = UINT32_MAX, e.mask = UINT32_MAX;
      e.what = s.loads ? What::local_load : What::local_store;
      e.lanes_bytes = uint8_t(s.bytes), e.count = uint32_t(kLanes) * s.bytes;
      e.detail = uint32_t(block.lines.size()), e.n_detail = words;
      for (uint32_t k = 0; k < words; k++) block.lines.push_back(((block.local_bytes + w * frame_ * kLanes) / kLine + s.offset / 4 + k) << 4 | kWholeLine);
      block.warps[w].events.push_back(e);
    }
  if (!block.own.empty()) block.own.resize(block.lines.size());
  block.local_bytes += block.warps.size() * frame_ * kLanes;
}

/// The event that add_spills has appended for the instruction, or none.
uint32_t Join::spill_event(uint32_t i, const Cursor& c) const {
  const auto found = spill_of_.find(i);
  if (found == spill_of_.end() || c.events.size() < spills_.size() || c.events.back().pc != UINT32_MAX) return UINT32_MAX;
  return uint32_t(c.events.size() - spills_.size()) + found->second;
}

}  // namespace orrery::timing
