// jit/target.h: the host machine: what vectors it has, optimisation, object code.
#pragma once
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace orrery::jit {

struct HostTraits {
  bool avx512 = false;        // predicates live in mask registers
  bool asks_for_rows = false; // rows read in order are asked for early: the prefetchers alone do not keep up (ahead.h)
  bool asks_foreseen = true;  // those of rounds that can be foreseen are on any host
  bool streams = false;       // whole lines may be stored past the caches (streams.h)
  std::string cpu, features;  // as LLVM names them
  static const HostTraits& get();
};

/// How much LLVM does: quick leaves loops as they are and its code generator without optimisation, for functions so large that the
/// full one would take a minute.
enum class Tier { quick, full };

/// A target machine for position-independent code on this host. Not shared between threads.
std::unique_ptr<llvm::TargetMachine> make_target_machine(Tier tier);

/// Optimises `module` in place and appends its object file to `object`.
void compile_module(llvm::Module& module, llvm::TargetMachine& machine, Tier tier, llvm::SmallVectorImpl<char>& object);

}  // namespace orrery::jit
