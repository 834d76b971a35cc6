// device/code.h: where compiled code comes from: the JIT when it is part of the build, else nowhere.
#pragma once
#include <memory>

#include "exec/launch.h"

namespace orrery::device {

/// Null when this build has no JIT: everything is interpreted. `observe`: what kernels must report (make_kernel).
std::unique_ptr<exec::CodeProvider> make_code_provider(unsigned observe);

}  // namespace orrery::device
