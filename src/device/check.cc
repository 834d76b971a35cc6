#include "device/check.h"

#ifdef ORRERY_HAVE_SANITIZE
#include "sanitize/checker.h"
#endif

namespace orrery::device {

std::unique_ptr<exec::Observer> make_observer(exec::DeviceMemory& memory) {
#ifdef ORRERY_HAVE_SANITIZE
  return sanitize::make_checker(memory);
#else
  return nullptr;
#endif
}

}  // namespace orrery::device
