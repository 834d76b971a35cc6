#include "device/code.h"

namespace orrery::device {

std::unique_ptr<exec::CodeProvider> make_code_provider() { return nullptr; }

}  // namespace orrery::device
