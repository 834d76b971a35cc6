#include "exec/stepper.h"
namespace orrery::exec { Handler find_tensor_handler(const isa::Form&) { return nullptr; } }
