// timing/spills.cc: local memory as ptxas accesses it, where PTX does not: what it had no register for, and neighbouring words of an array at once.
//
// The places of spills are told by machine code alone, the same in every turn: each warp gets an event for each such instruction behind those of its
// trace, with lines of local memory behind its block's arrays. All lanes are taken to spill. Of words that one instruction takes together the event of
// the PTX instruction that it came from gets the lines of all. Not here: arrays word by word, which PTX accesses (trace_look.cc).
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

/// PTX instructions of whose words ptxas takes several at once, each time: the bytes of a lane.
void Join::find_wide_local() {
  for (const MachineInstruction& m : code_)
    if ((m.kind == Class::local_load || m.kind == Class::local_store) && m.asked) {
      const auto [found, fresh] = wide_local_.try_emplace(m.pc, m.width);
      if (!fresh) found->second = std::min<uint32_t>(found->second, m.width);
    }
  std::erase_if(wide_local_, [](const auto& of) { return of.second <= 4; });
}

/// Words next to each other of a lane are lines next to each other, beginning at a multiple of their number.
void Join::widen_local(TracedBlock& block) const {
  if (wide_local_.empty()) return;
  for (TracedWarp& w : block.warps)
    for (Event& e : w.events) {
      const auto found = is_local(e.what) ? wide_local_.find(e.pc) : wide_local_.end();
      if (found == wide_local_.end() || found->second <= e.lanes_bytes) continue;
      const uint64_t words = found->second / 4, begins = block.lines.size();
      std::map<uint64_t, uint32_t> groups;  // sectors of the lines of each
      for (uint32_t i = 0; i < e.n_detail; i++) groups[(block.lines[e.detail + i] >> 4) / words] |= block.lines[e.detail + i] & 15;
      for (const auto& [group, sectors] : groups)
        for (uint64_t k = 0; k < words; k++) block.lines.push_back((group * words + k) << 4 | sectors);
      e.count = e.count * found->second / std::max<uint32_t>(4, e.lanes_bytes), e.lanes_bytes = uint8_t(found->second);
      e.detail = uint32_t(begins), e.n_detail = uint32_t(block.lines.size() - begins);
    }
  if (!block.own.empty()) block.own.resize(block.lines.size());
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
