// timing/swap_loops.cc: see swap_loops.h.
#include "timing/swap_loops.h"

#include <algorithm>
#include <map>

#include "lower/flow.h"

namespace orrery::timing {

namespace {

bool counts(const ptx::Instr& in) {
  return (in.form.has(isa::Mod::add) || in.form.has(isa::Mod::inc)) && in.ops[0].kind == ptx::OperandKind::reg;
}

bool is_global(const ptx::Instr& in) { return !(in.form.n_spaces && in.form.space() == isa::Space::shared); }

/// The instructions of a loop that write each register.
using Writers = std::map<uint32_t, std::vector<uint32_t>>;

/// Does a register have the same value in each turn of a loop? One that is made there from what is the same, parameters among it, has it too.
/// asked: those whose answer waits for this one's; what follows from itself is another in each turn.
bool stays(const lower::Program& program, const Writers& writers, uint32_t reg, std::set<uint32_t> asked = {}) {
  const auto own = writers.find(reg);
  if (own == writers.end()) return true;
  if (own->second.size() > 1 || !asked.insert(reg).second) return false;
  const ptx::Instr& in = program.code[own->second[0]];
  const isa::Op op = in.form.op;
  bool same = op == isa::Op::cvta || op == isa::Op::mov || op == isa::Op::add || (op == isa::Op::ld && in.form.space() == isa::Space::param);
  lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { same = same && stays(program, writers, r, asked); });
  return same;
}

/// Atomic operations on global memory that a loop makes on the same address in each turn; which of all of them, and the loop, by its header.
template <class F>
std::set<uint32_t> on_one_word(const lower::Program& program, F wanted) {
  const auto loop_of = [&](uint32_t i) { return program.blocks[program.block_of[i]].loop_header; };
  std::map<uint32_t, Writers> written;  // by loop
  std::set<uint32_t> found;
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const ptx::Instr& in = program.code[i];
    if (loop_of(i) == lower::kNone) continue;
    lower::for_registers(in, [&](uint32_t r) { written[loop_of(i)][r].push_back(i); }, [](uint32_t) {});
    if (in.form.op == isa::Op::atom && is_global(in) && wanted(in, loop_of(i))) found.insert(i);
  }
  std::erase_if(found, [&](uint32_t i) {  // another word in each turn: a table is searched
    return std::any_of(program.code[i].ops.begin(), program.code[i].ops.end(), [&](const ptx::Operand& o) {
      return o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg && !stays(program, written[loop_of(i)], o.id);
    });
  });
  return found;
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
