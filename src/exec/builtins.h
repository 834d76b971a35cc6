// exec/builtins.h: functions that the system provides to device code: vprintf, malloc, free, __assertfail, and those of
// the machine around the grid (device_services.h).
#pragma once
#include <string_view>

#include "exec/stepper.h"

namespace orrery::exec {

/// Calls a function that the program declares but does not define; a fault names it when nothing provides it.
Next call_system_function(Stepper& s, const Decoded& d, const ptx::Function& f);

/// Formats one device printf: `args` is the packed argument buffer as the compiler lays it out (each argument at its
/// natural alignment). Strings are read from device memory.
std::string format_printf(std::string_view format, const std::byte* args);

}  // namespace orrery::exec
