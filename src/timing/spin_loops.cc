// timing/spin_loops.cc: see spin_loops.h.
#include "timing/spin_loops.h"

#include <map>
#include <vector>

namespace orrery::timing {

std::set<uint32_t> polls_of(const lower::Program& program) {
  constexpr uint32_t kShort = 24;  // instructions, back-off and votes among them
  struct Loop {
    uint32_t length = 0;
    bool stores = false;
    std::vector<uint32_t> looks;
  };
  std::map<uint32_t, Loop> loops;  // by header
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const uint32_t header = program.blocks[program.block_of[i]].loop_header;
    if (header == lower::kNone) continue;
    const isa::Form& f = program.code[i].form;
    Loop& loop = loops[header];
    loop.length++, loop.stores |= f.op == isa::Op::st;
    const bool fresh = f.has(isa::Mod::volatile_) || f.has(isa::Mod::acquire) || f.has(isa::Mod::relaxed);
    if (f.op == isa::Op::ld && fresh && f.space() != isa::Space::shared) loop.looks.push_back(i);
  }
  std::set<uint32_t> out;
  for (const auto& [header, loop] : loops)
    if (loop.length <= kShort && !loop.stores) out.insert(loop.looks.begin(), loop.looks.end());
  return out;
}

}  // namespace orrery::timing
