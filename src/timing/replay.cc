// timing/replay.cc: the stand-in's code issued as a trace tells: Join without machine code. Each entry of the trace into a PTX
// block issues that block's code, with the addresses of the events that follow the entry.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "timing/stand_in.h"

namespace orrery::timing {

using isa::Op;

/// Without machine code: the stand-in's blocks, one for each block of PTX.
Join::Join(const exec::Kernel& kernel) {
  std::map<uint32_t, const ptx::Instr*> instr;
  std::set<uint32_t> closes;
  const auto add = [&](const lower::Program& program, uint32_t tag) {
    StandIn own = stand_in_for(program, tag);
    const uint32_t start = uint32_t(code_.size());
    uint32_t last_product = UINT32_MAX;
    for (uint32_t i = 0; i < program.code.size(); i++) {
      const Op op = program.code[i].form.op;
      instr[i | tag] = &program.code[i];
      if (op == Op::wgmma_mma_async || op == Op::wgmma_mma_async_sp) last_product = i | tag;
      if (op == Op::wgmma_commit_group) closes.insert(last_product);
    }
    for (uint32_t b = 0; b < own.blocks.size(); b++) stand_in_[program.blocks[b].first | tag] = {own.blocks[b].first + start, own.blocks[b].second + start};
    code_.insert(code_.end(), own.code.begin(), own.code.end());
    registers_ = std::max(registers_, own.registers);
  };
  add(*kernel.entry->program, 0);
  for (uint32_t f = 0; f < kernel.functions.size(); f++)
    if (kernel.functions[f]) add(*kernel.functions[f]->program, (f + 1) << 24);
  for (MachineInstruction& m : code_) {
    const ptx::Instr& in = *instr.at(m.pc);
    describe_operands(m, in, closes.count(m.pc) != 0);
  }
}

/// What the stand-in's code issues for a warp: the block of every entry of its trace, from where the warp entered it.
std::vector<Step> Join::replay(const TracedWarp& warp, JoinStatistics& statistics) const {
  std::vector<Step> out;
  for (size_t k = 0; k < warp.events.size(); k++) {
    const Event& e = warp.events[k];
    if (e.what != What::enter) continue;
    size_t end = k + 1;
    std::unordered_map<uint32_t, std::vector<uint32_t>> found;
    for (; end < warp.events.size() && warp.events[end].what != What::enter; end++) found[warp.events[end].pc].push_back(uint32_t(end));
    std::unordered_map<uint32_t, size_t> used;
    const auto block = stand_in_.find(e.pc);
    if (block == stand_in_.end()) continue;
    const uint32_t from = e.pc >> 24 << 24 | (e.count & 0xFFFFFF);
    for (uint32_t i = block->second.first; i < block->second.second; i++) {
      const MachineInstruction& m = code_[i];
      if (m.pc < from) continue;  // the part of the block before a call that came back
      if (m.kind == Class::exit && end < warp.events.size()) continue;  // some lanes leave, or a function returns
      Step s;
      s.instruction = i, s.lanes = std::min<uint32_t>(32, e.extra);
      if (may_have_event(m.kind)) {
        const auto list = found.find(m.pc);
        size_t& at = used[m.pc];
        if (list != found.end() && at < list->second.size() && is_of(m.kind, warp.events[list->second[at]].what)) s.event = list->second[at++];
      } else if (eventful(m.kind)) {
        statistics.memory_steps++;
        const auto list = found.find(m.pc);
        size_t& at = used[m.pc];
        if (list != found.end() && at < list->second.size()) s.event = list->second[at++];
        else s.off = m.i.guarded, statistics.unmatched += !m.i.guarded;
        out.push_back(s);
        for (; m.kind == Class::mbarrier && list != found.end() && at < list->second.size(); at++) s.event = list->second[at], out.push_back(s);
        continue;
      }
      out.push_back(s);
    }
    k = end - 1;
  }
  statistics.walked++, statistics.steps = out.size();
  return out;
}

}  // namespace orrery::timing
