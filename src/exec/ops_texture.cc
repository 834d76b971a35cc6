#include "exec/stepper.h"
namespace orrery::exec { Handler find_texture_handler(const isa::Form&) { return nullptr; } }
