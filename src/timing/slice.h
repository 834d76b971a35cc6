// timing/slice.h: which instructions of a kernel control and addresses depend on.
#pragma once
#include <span>
#include <vector>

#include "exec/decode.h"

namespace orrery::timing {

/// What of a kernel must run for control flow, synchronisation and the addresses of copies to be right: arithmetic and loads whose
/// results nobody needs for that may be left out; so may stores, unless something that runs reads memory which they may have written.
/// Products are never needed for their values, which hardly ever steer control: a kept one has to give something, the same in all blocks.
struct Slice {
  std::vector<std::vector<bool>> kept;  // by program, by instruction
  bool reads_memory = false;            // control or addresses depend on what is in memory
  bool reads_given = false;             // or in constant memory or tensor maps, which a program may change between launches
  bool quotients = false;               // operands of quotients and roots are right
  bool moves_data = false;              // these or operands of quotients do: what is stored and copied must be there
};

/// Is it a product of matrices?
bool is_product(isa::Op op);

/// The slice of a kernel and the functions that it may call. A branch of which no way to where they meet has anything that runs may go any
/// way, unless `accesses`. With `accesses` every load, store and shuffle runs with the right
/// address (and may store or load what does not matter), because all of them are looked at; and, in kernels without products, what quotients and
/// roots are made of, whose machine code may call a function for it (slow_paths.h).
Slice slice_of(std::span<const exec::DecodedProgram* const> programs, bool accesses);

}  // namespace orrery::timing
