// device/check.h: the observer of a checked process, when there is one; the only place that knows src/sanitize.
#pragma once
#include <memory>

#include "exec/observer.h"

namespace orrery::device {

/// What the environment asks for (ORRERY_CHECK), or null.
std::unique_ptr<exec::Observer> make_observer(exec::DeviceMemory& memory);

}  // namespace orrery::device
