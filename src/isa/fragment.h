// isa/fragment.h: how many registers of a thread hold one fragment of a matrix instruction.
//
// Not here: which element is where (sem/). Source: PTX ISA manual, sections on wmma, mma and wgmma; counts checked
// against ptxas 13.0 for every shape and type (tests/lit/ptx/samples.txt).
#pragma once
#include <optional>

#include "isa/form.h"

namespace orrery::isa {

struct Fragment {
  uint16_t registers = 0;
  Type type = Type::none;  // of one register: b32, f32 or f64
  bool operator==(const Fragment&) const = default;
};

/// The fragment `part` ('a', 'b', 'c', 'd') of a wmma, mma, mma.sp or wgmma form, per thread; for wmma.load and
/// wmma.store the fragment that they move, whatever `part` says. Nothing for other forms.
std::optional<Fragment> fragment(const Form& form, char part);

}  // namespace orrery::isa
