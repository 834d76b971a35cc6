// lower/finish.cc: the last steps of making a program: places of registers, its hash, and where its instructions come from
// (program.h, flow.h).
#include <algorithm>
#include <functional>

#include "lower/flow.h"

namespace orrery::lower {

namespace {

class Hash {
 public:
  void mix(uint64_t v) {
    value_ ^= v;
    value_ *= 0x9E3779B97F4A7C15ull;
    value_ ^= value_ >> 29;
  }
  void mix(const ptx::Operand& o) {
    mix(uint64_t(o.kind) | uint64_t(o.base) << 8 | uint64_t(o.negated) << 16 | uint64_t(o.is_float) << 17 |
        uint64_t(o.selector) << 24 | uint64_t(o.id) << 40);
    mix(uint64_t(o.value));
    mix(o.parts.size());
    for (const ptx::Operand& part : o.parts) mix(part);
  }
  uint64_t of(const Program& p) {
    for (const Register& r : p.regs) mix(uint64_t(r.type) << 32 | r.offset);
    for (const ptx::Instr& i : p.code) {
      mix(std::hash<std::string>{}(isa::to_string(i.form)));
      mix(uint64_t(i.guard.reg) << 1 | i.guard.negated);
      for (const ptx::Operand& o : i.ops) mix(o);
    }
    for (const Block& b : p.blocks) mix(uint64_t(b.first) << 32 | b.last);
    for (const auto& table : p.branch_tables)
      for (uint32_t block : table) mix(block);
    mix(uint64_t(p.param_bytes) << 32 | p.local_bytes);
    mix(uint64_t(p.shared_bytes) << 32 | p.dynamic_shared_offset);
    return value_;
  }

 private:
  uint64_t value_ = 0x6f72726572790001ull;
};

}  // namespace

void place_registers(Program& program) {
  static constexpr uint32_t kBytes[] = {4, 128, 256, 512};
  struct Span { uint32_t first = kNone, last = 0; };
  std::vector<Span> spans(program.regs.size());
  auto touch = [&](uint32_t r, uint32_t at) {
    spans[r].first = std::min(spans[r].first, at);
    spans[r].last = std::max(spans[r].last, at);
  };
  for (uint32_t b = 0; b < program.blocks.size(); b++) {
    const Block& block = program.blocks[b];
    for (uint32_t r : program.live_in[b]) touch(r, block.first);
    for (uint32_t s : block.successors)
      for (uint32_t r : program.live_in[s]) touch(r, block.last - 1);  // live out: occupied to the block's end
    for (uint32_t k = block.first; k < block.last; k++)
      for_registers(program.code[k], [&](uint32_t r) { touch(r, k); }, [&](uint32_t r) { touch(r, k); });
  }
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < spans.size(); r++)
    if (spans[r].first != kNone) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return spans[a].first < spans[b].first; });
  std::vector<uint32_t> free_slots[4];
  std::vector<std::pair<uint32_t, uint32_t>> active;  // (last, register), a heap by last
  uint32_t size = 0;
  for (uint32_t r : order) {
    while (!active.empty() && active.front().first < spans[r].first) {
      const uint32_t done = active.front().second;
      std::pop_heap(active.begin(), active.end(), std::greater<>());
      active.pop_back();
      free_slots[int(program.regs[done].kind)].push_back(program.regs[done].offset);
    }
    const int kind = int(program.regs[r].kind);
    if (free_slots[kind].empty()) {
      size = (size + kBytes[kind] - 1) / kBytes[kind] * kBytes[kind];
      program.regs[r].offset = size;
      size += kBytes[kind];
    } else {
      program.regs[r].offset = free_slots[kind].back();
      free_slots[kind].pop_back();
    }
    active.push_back({spans[r].last, r});
    std::push_heap(active.begin(), active.end(), std::greater<>());
  }
  program.frame_bytes = (size + 63) & ~63u;
}

void finish_program(Program& program, const std::vector<uint32_t>& label_targets) {
  build_blocks(program, label_targets);
  find_post_dominators(program);
  find_live_registers(program);
  place_registers(program);
  program.hash = Hash().of(program);
}

/// The last one that starts before the instruction.
const ptx::Function& function_of(const Program& program, uint32_t inst) {
  const ptx::Function* found = program.source;
  if (!program.is_merged || inst >= program.code.size()) return *found;
  const auto place = [](const ptx::Loc& l) { return std::pair(l.line, l.column); };
  const auto here = place(program.code[inst].loc);
  std::pair<uint32_t, uint32_t> nearest;
  for (const ptx::Function& f : program.module->functions)
    if (f.has_body && place(f.loc) <= here && place(f.loc) >= nearest) nearest = place(f.loc), found = &f;
  return *found;
}

std::string text_of(const Program& program, uint32_t inst) {
  const ptx::Instr& in = program.code[inst];
  const ptx::Function& f = function_of(program, inst);
  for (const ptx::Instr& original : f.body)
    if (original.loc.line == in.loc.line && original.loc.column == in.loc.column) return ptx::to_string(*program.module, f, original);
  return isa::to_string(in.form);
}

}  // namespace orrery::lower
