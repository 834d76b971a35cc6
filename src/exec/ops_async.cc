// exec/ops_async.cc: cp.async and mbarrier.
#include "exec/stepper.h"
namespace orrery::exec {
Handler find_async_handler(const isa::Form&) { return nullptr; }
Handler find_texture_handler(const isa::Form&) { return nullptr; }
Handler find_tensor_handler(const isa::Form&) { return nullptr; }
}  // namespace orrery::exec
