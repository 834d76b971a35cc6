// exec/builtins.h: functions that the system provides to device code: vprintf, malloc, free, __assertfail.
#pragma once
#include <string_view>

#include "exec/stepper.h"

namespace orrery::exec {

using Builtin = Next (*)(Stepper&, const Decoded&);
/// Null when there is no such function.
Builtin find_builtin(std::string_view name);

/// Formats one device printf: `args` is the packed argument buffer as the compiler lays it out (each argument at its
/// natural alignment). Strings are read from device memory.
std::string format_printf(std::string_view format, const std::byte* args);

}  // namespace orrery::exec
