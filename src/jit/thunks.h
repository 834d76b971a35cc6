// jit/thunks.h: how compiled code calls C++ without losing registers.
//
// LLVM treats a call of a thunk as one that changes no register except the result (no_caller_saved_registers), so a
// call on a rare path costs the common path neither spills nor moves. The thunk saves everything that C++ may change.
// Source: System V x86-64 ABI, register usage.
#pragma once
#include <cstdint>

namespace orrery::jit {

/// Address of a thunk by the symbol name that object code uses (Symbols in emitter.h); null for other names.
void* thunk_named(const char* name);

}  // namespace orrery::jit
