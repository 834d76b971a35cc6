// lower/local_pointers.h: generic pointers that can only mean the thread's own frame.
//
// A function that takes `const Ray&` is compiled for any memory; merged into the kernel whose variable the ray is, its pointer
// comes from cvta.local and nothing else. Then the accesses become ld.local and st.local, and the register holds the offset in
// the frame in place of the address.
//
// Invariant: instructions are replaced in place, none is added; a register that is looked at as an address (compared, stored,
// given to a call that stays) keeps the address.
// Not here: which memory other pointers mean. Source: LLVM's InferAddressSpaces does the same to whole functions.
#pragma once
#include "lower/program.h"

namespace orrery::lower {

/// Rewrites the code of `program`, of which blocks need not be there yet.
void use_local_accesses(Program& program);

}  // namespace orrery::lower
