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

}  // namespace

std::set<uint32_t> polls_of(const lower::Program& program) {
  constexpr uint32_t kShort = 24;  // instructions, back-off and votes among them
  struct Loop {
    std::vector<uint32_t> code;
    bool stores = false;
    std::vector<uint32_t> looks;
  };
  std::map<uint32_t, Loop> loops;  // by header
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const uint32_t header = program.blocks[program.block_of[i]].loop_header;
    if (header == lower::kNone) continue;
    const isa::Form& f = program.code[i].form;
    Loop& loop = loops[header];
    loop.code.push_back(i), loop.stores |= f.op == isa::Op::st;
    const bool fresh = f.has(isa::Mod::volatile_) || f.has(isa::Mod::acquire) || f.has(isa::Mod::relaxed);
    if (f.op == isa::Op::ld && fresh && f.space() != isa::Space::shared) loop.looks.push_back(i);
  }
  std::set<uint32_t> out;
  for (const auto& [header, loop] : loops)
    if (loop.code.size() <= kShort && !loop.stores && decides(program, loop.code, loop.looks)) out.insert(loop.looks.begin(), loop.looks.end());
  return out;
}

}  // namespace orrery::timing
