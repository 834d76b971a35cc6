// timing/swap_loops.cc: see swap_loops.h.
#include "timing/swap_loops.h"

#include <algorithm>
#include <map>
#include <vector>

#include "lower/flow.h"

namespace orrery::timing {

namespace {

bool counts(const ptx::Instr& in) {
  return (in.form.has(isa::Mod::add) || in.form.has(isa::Mod::inc)) && in.ops[0].kind == ptx::OperandKind::reg;
}

bool is_global(const ptx::Instr& in) { return !(in.form.n_spaces && in.form.space() == isa::Space::shared); }

/// The registers that a loop, whose instructions these are, may give another value in each turn: all that it writes but what it makes once, from parameters
/// and from what is the same.
std::set<uint32_t> varying_in(const lower::Program& program, const std::vector<uint32_t>& loop) {
  std::map<uint32_t, uint32_t> writers;  // how many, by register
  std::set<uint32_t> varying;
  for (uint32_t i : loop) lower::for_registers(program.code[i], [&](uint32_t r) { writers[r]++, varying.insert(r); }, [](uint32_t) {});
  for (size_t before = 0; before != varying.size();) {  // what follows from itself stays among them
    before = varying.size();
    for (uint32_t i : loop) {
      const ptx::Instr& in = program.code[i];
      const isa::Op op = in.form.op;
      bool same = in.guard.reg == ptx::kNoReg && (op == isa::Op::cvta || op == isa::Op::mov || op == isa::Op::add || (op == isa::Op::ld && in.form.space() == isa::Space::param));
      lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { same = same && !varying.count(r); });
      if (same) lower::for_registers(in, [&](uint32_t r) { if (writers[r] == 1) varying.erase(r); }, [](uint32_t) {});
    }
  }
  return varying;
}

/// Atomic operations on global memory that a loop makes on the same address in each turn; which of all of them, and the loop, by its header.
template <class F>
std::set<uint32_t> on_one_word(const lower::Program& program, F wanted) {
  std::map<uint32_t, std::vector<uint32_t>> loops;  // their instructions, by header
  std::map<uint32_t, std::set<uint32_t>> found;
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const ptx::Instr& in = program.code[i];
    const uint32_t loop = program.blocks[program.block_of[i]].loop_header;
    if (loop == lower::kNone) continue;
    loops[loop].push_back(i);
    if (in.form.op == isa::Op::atom && is_global(in) && wanted(in, loop)) found[loop].insert(i);
  }
  std::set<uint32_t> out;
  for (const auto& [loop, atoms] : found) {
    const std::set<uint32_t> varying = varying_in(program, loops[loop]);
    const auto elsewhere = [&](const ptx::Operand& o) { return o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg && varying.count(o.id); };  // a table is searched
    for (uint32_t i : atoms)
      if (const auto& ops = program.code[i].ops; std::none_of(ops.begin(), ops.end(), elsewhere)) out.insert(i);
  }
  return out;
}

}  // namespace

std::set<uint32_t> swap_loops_of(const lower::Program& program) {
  return on_one_word(program, [](const ptx::Instr& in, uint32_t) { return in.form.has(isa::Mod::cas); });
}

std::set<uint32_t> work_loops_of(const lower::Program& program) {
  std::set<uint32_t> hand_on;  // loops, by header
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const isa::Op op = program.code[i].form.op;
    if (op == isa::Op::bar || op == isa::Op::barrier || op == isa::Op::shfl || op == isa::Op::mbarrier_arrive) hand_on.insert(program.blocks[program.block_of[i]].loop_header);
  }
  return on_one_word(program, [&](const ptx::Instr& in, uint32_t loop) {
    return counts(in) && hand_on.count(loop);
  });
}

std::set<uint32_t> arrivals_of(const lower::Program& program) {
  std::set<uint32_t> found;
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const ptx::Instr& in = program.code[i];
    const bool once = program.blocks[program.block_of[i]].loop_header == lower::kNone;
    if (once && in.form.op == isa::Op::atom && is_global(in) && counts(in) && isa::bits_of(in.form.type()) == 32) found.insert(i);
  }
  return found;
}

}  // namespace orrery::timing
