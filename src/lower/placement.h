// lower/placement.h: a module's variables get addresses and their initial values.
//
// Invariant: afterwards every variable of global and constant space with a size has an address that holds its initial
// value, with the addresses inside it resolved, and every function has an address of its own (there is no code behind
// it: a function pointer is a name). Shared variables get no address here: a block brings its own.
// Not here: who owns the memory (device/, session/), joining modules (ptx/link).
#pragma once
#include <cstdint>
#include <functional>

#include "lower/program.h"
#include "ptx/module.h"

namespace orrery::lower {

/// Device memory for one variable, or for all function pointers (`var` null). Must not return 0.
using Allocate = std::function<uint64_t(const ptx::Var* var, uint64_t bytes, uint64_t align)>;

/// Places the variables of `module` and writes their initial values. Throws base::Error when an initial value names a
/// symbol without an address, and whatever `allocate` throws.
Addresses place_variables(const ptx::Module& module, const Allocate& allocate);

/// Whether a variable lives in device memory (and not in a block's shared memory).
inline bool in_device_memory(const ptx::Var& var) { return var.space == isa::Space::global || var.space == isa::Space::const_; }

}  // namespace orrery::lower
