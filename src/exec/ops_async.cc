// exec/ops_async.cc: where asynchronous instructions go, and the few that need no more than a line.
//
// griddepcontrol orders a grid after the one before it in its stream; the stream runs grids one after the other, so
// both its forms hold already. setmaxnreg moves registers that a host does not count.
// Source: PTX ISA manual, griddepcontrol, setmaxnreg.
#include "exec/async.h"
#include "exec/interpreter.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;

Next refuse(Stepper& s, const Decoded& d) {
  const lower::Program& p = *s.code->program;
  return s.fault(FaultKind::unsupported, std::countr_zero(s.mask), 0,
                 fmt::format("'{}' is not supported on this GPU", lower::text_of(p, s.pc)));
}

namespace {

Next op_nothing(Stepper&, const Decoded&) { return Next::next; }

Next op_setmaxnreg(Stepper& s, const Decoded& d) {
  const int64_t n = s.ref(d, 0).value;
  if (n < 24 || n > 256 || n % 8)
    return s.fault(FaultKind::illegal_instruction, std::countr_zero(s.mask), 0, fmt::format("setmaxnreg {}: must be a multiple of 8 in 24..256", n));
  return Next::next;
}

}  // namespace

Handler find_async_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::griddepcontrol: return op_nothing;
    case Op::setmaxnreg: return op_setmaxnreg;
    default: break;
  }
  for (auto find : {find_mbarrier_handler, find_copy_handler, find_bulk_handler, find_tma_handler})
    if (Handler h = find(form)) return h;
  return nullptr;
}

}  // namespace orrery::exec
