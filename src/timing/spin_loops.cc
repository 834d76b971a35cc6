// timing/spin_loops.cc: see spin_loops.h.
#include "timing/spin_loops.h"

#include <map>
#include <vector>

#include "lower/flow.h"

namespace orrery::timing {

namespace {

/// Does it depend on what the loads find where a loop goes on? Else it adds up what they find.
bool decides(const lower::Program& program, const std::vector<uint32_t>& loop, const std::vector<uint32_t>& loads) {
  std::set<uint32_t> found;  // registers that depend on it
  for (uint32_t i : loads) lower::for_registers(program.code[i], [&](uint32_t r) { found.insert(r); }, [](uint32_t) {});
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    for (uint32_t i : loop) {
      const ptx::Instr& in = program.code[i];
      bool depends = in.guard.reg != ptx::kNoReg && found.count(in.guard.reg);
      if (depends && (in.form.op == isa::Op::bra || in.form.op == isa::Op::brx || in.form.op == isa::Op::exit || in.form.op == isa::Op::ret)) return true;
      lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { depends |= found.count(r) > 0; });
      if (depends && in.form.op == isa::Op::brx) return true;
      if (depends) lower::for_registers(in, [&](uint32_t r) { found.insert(r); }, [](uint32_t) {});
    }
  }
  return false;
}

/// An atomic operation by which a program only looks at a word: it adds nothing, or the like.
bool looks_only(const ptx::Instr& in) {
  if (in.form.op != isa::Op::atom || (in.form.n_spaces && in.form.space() == isa::Space::shared)) return false;
  const auto is = [](const ptx::Operand& o, int64_t value) { return o.kind == ptx::OperandKind::imm && o.value == value; };
  if (in.form.has(isa::Mod::cas)) return in.ops.size() > 3 && in.ops[2] == in.ops[3];
  const bool keeps = in.form.has(isa::Mod::add) || in.form.has(isa::Mod::or_) || in.form.has(isa::Mod::xor_);
  return keeps && in.ops.size() > 2 && is(in.ops[2], 0);
}

}  // namespace

namespace {

struct Loop {
  std::vector<uint32_t> code;
  bool stores = false;
  std::vector<uint32_t> looks;
};

/// The loops of a program that look at memory past L1, by header.
std::map<uint32_t, Loop> looking_loops(const lower::Program& program) {
  std::map<uint32_t, Loop> loops;
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const uint32_t header = program.blocks[program.block_of[i]].loop_header;
    if (header == lower::kNone) continue;
    const isa::Form& f = program.code[i].form;
    Loop& loop = loops[header];
    loop.code.push_back(i), loop.stores |= f.op == isa::Op::st;
    const bool fresh = f.has(isa::Mod::volatile_) || f.has(isa::Mod::acquire) || f.has(isa::Mod::relaxed) || f.has(isa::Mod::cv);
    if ((f.op == isa::Op::ld && fresh && f.space() != isa::Space::shared) || looks_only(program.code[i])) loop.looks.push_back(i);
  }
  std::erase_if(loops, [&](const auto& l) { return !decides(program, l.second.code, l.second.looks); });
  return loops;
}

}  // namespace

std::set<uint32_t> polls_of(const lower::Program& program) {
  constexpr uint32_t kShort = 24;  // instructions, back-off and votes among them
  std::set<uint32_t> out;
  for (const auto& [header, loop] : looking_loops(program))
    if (loop.code.size() <= kShort && !loop.stores) out.insert(loop.looks.begin(), loop.looks.end());
  return out;
}

bool may_poll(const lower::Program& program) { return !looking_loops(program).empty(); }

}  // namespace orrery::timing
