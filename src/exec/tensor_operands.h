// exec/tensor_operands.h: what the handlers of tensor-core instructions share.
#pragma once
#include "exec/stepper.h"
#include "sem/tensor.h"

namespace orrery::exec {

/// The sums of the simulated GPU's tensor cores.
inline sem::Numerics numerics_of(const Stepper& s) {
  return {sem::tensor_core_of(s.run.machine.gpu.compute_capability), s.run.machine.options.fast_numerics};
}

// Decoded::extra of a wgmma: 0 when it is carried out at issue, else when its group is waited for; those of one form and
// with one D have one number.

/// The fault of a wgmma whose descriptor leaves shared memory.
Next wgmma_outside(Stepper& s, const sem::WgmmaOperands& operands);

Handler find_wgmma_handler(const isa::Form& form);

}  // namespace orrery::exec
