// lower/merge_calls.h: a kernel and the functions that it calls, as one program without calls.
//
// Compiled code and the interpreter then meet branches only, which they both know how to run when lanes part: lanes that call
// different functions are lanes at different blocks, and meet again behind the call. What cannot be merged (recursion, a
// pointer that means no function of the module with the call's signature) stays a call; exec/ carries it out.
//
// Invariant: an instruction keeps its place in the PTX text (Instr::loc), by which messages find its function.
// Not here: which calls (call_plan.h), how arguments travel (argument_slots.h).
// Source: Allen, Cooke, "A catalogue of optimizing transformations", 1972 (procedure integration); the return by a table for
// shared instances is Reynolds' defunctionalisation, ACM 1972.
#pragma once
#include "lower/program.h"

namespace orrery::lower {

/// Replaces programs.entry. `function`: the kernel's number in the module. Not for kernels that are observed: their observers
/// know calls.
void merge_calls(KernelPrograms& programs, uint32_t function, const Addresses& addresses);

}  // namespace orrery::lower
