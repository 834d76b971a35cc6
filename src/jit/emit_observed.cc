// jit/emit_observed.cc: instructions of an observed kernel that report. See emitter.h.
//
// exec/ executes them: its handler tells the observer and goes on to the ordinary one. What the instruction's own code
// would see to beforehand (all member lanes are here) is seen to here.
#include "isa/row.h"
#include "jit/emitter.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using ptx::Instr;

void Emitter::emit_observed(const Instr& in) {
  switch (in.form.op) {
    case Op::shfl: case Op::vote: case Op::match: case Op::redux: case Op::elect: case Op::bar_warp: {
      Value* members = member_mask(in.ops.back());
      require_members(members ? members : b_.getInt32(~0u));
      break;
    }
    default:
      if (isa::row(in.form.row).effects & isa::effect::convergent) require_members(b_.getInt32(~0u));
  }
  if (in.form.has(Mod::acquire) || in.form.has(Mod::release) || in.form.has(Mod::sc)) b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  emit_execute(in);
}

}  // namespace orrery::jit
