// device/module.h: a loaded PTX program: its variables in device memory, its functions ready to launch.
//
// Loading parses and links the texts, places variables and writes their initial values with relocations applied.
// A kernel is lowered when it is first needed. A function pointer is a unique address without code.
// Invariant: a Module that exists has all variables placed; a Function is owned by its Module.
// Not here: containers (image.h), compilation (jit/), launches (launch.h).
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/image.h"
#include "device/record.h"
#include "device/status.h"
#include "exec/launch.h"
#include "lower/program.h"
#include "ptx/module.h"

namespace orrery::device {

class Context;
class Module;

struct Parameter {
  uint32_t offset = 0, size = 0;
};

/// What cudaFuncGetAttributes reports.
struct FunctionFacts {
  uint32_t max_threads = 1024, static_shared = 0, constant_bytes = 0, local_bytes = 0, registers = 0;
  bool registers_known = false;  // from machine code; else `registers` is an estimate
  uint32_t live_words = 0;       // the most registers of 32 bits that are in use at the start of a block of instructions
  uint32_t required_cluster[3] = {0, 0, 0};
  int ptx_version = 0, binary_version = 0;
};

class Function {
 public:
  Function(Module& module, uint32_t index);
  Module& module() const { return module_; }
  const ptx::Function& source() const;
  const std::string& name() const { return source().name; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  uint32_t param_bytes() const { return param_bytes_; }
  /// Lowered on first call. Throws Failure(not_supported) for what cannot be executed.
  std::shared_ptr<const exec::Kernel> kernel();
  FunctionFacts facts();
  /// Registers a thread: by the program's machine code, or by ptxas where there is one; else nothing.
  std::optional<uint32_t> ask_registers();
  /// Forms in the kernel and what it calls whose results are not exact; after kernel().
  const SumForms& sums() const { return sums_; }

  // Settable attributes.
  static constexpr uint32_t kDefaultShared = 48 << 10;
  /// The program's limit (cudaFuncAttributeMaxDynamicSharedMemorySize), when it has set one.
  std::optional<uint32_t> max_dynamic_shared;
  /// Bytes of dynamic shared memory that a launch may ask for: the program's limit, else what 48 KB leave.
  uint32_t dynamic_shared_limit(uint32_t static_shared) const {
    return max_dynamic_shared.value_or(kDefaultShared - std::min(static_shared, kDefaultShared));
  }
  int carveout = -1, cluster_width = 0, cluster_height = 0, cluster_depth = 0, scheduling_policy = 0;
  bool non_portable_cluster = false;

 private:
  Module& module_;
  const uint32_t index_;
  std::vector<Parameter> parameters_;
  uint32_t param_bytes_ = 0;
  std::mutex mutex_;
  std::shared_ptr<const exec::Kernel> kernel_;
  std::optional<uint32_t> asked_registers_;  // what ptxas said; 0: nothing
  SumForms sums_;
};

struct Variable {
  uint64_t address = 0, size = 0;
  bool managed = false, constant = false;
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  /// Throws Failure: invalid_ptx with all diagnostics in what(), out_of_memory.
  Module(Context& context, Image image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  Context& context() const { return context_; }
  const ptx::Module& source() const { return source_; }
  const std::string& origin() const { return origin_; }
  /// The kernel of that name, or null. The pointer keeps the module alive.
  std::shared_ptr<Function> function(const std::string& name);
  std::vector<std::shared_ptr<Function>> functions();
  /// The kernel whose address device code has, or null.
  std::shared_ptr<Function> function_at(uint64_t address);
  /// The variable of that name in global or constant space, or null.
  const Variable* variable(const std::string& name) const;
  const lower::Addresses& addresses() const { return addresses_; }
  /// Of a kernel, by the machine code that the program holds for this GPU; 0: it holds none.
  uint32_t registers_of(const std::string& kernel) const {
    const auto it = registers_.find(kernel);
    return it == registers_.end() ? 0 : it->second;
  }
  /// The PTX, of one text: several are linked here and not known to ptxas as one.
  const std::string& text() const { return text_; }

 private:
  void place_variables();

  Context& context_;
  std::string origin_;
  ptx::Module source_;
  std::map<std::string, uint64_t> places_;  // Image::places
  std::map<std::string, uint32_t> registers_;
  std::string text_;                        // kept where an observer may want to know what ptxas makes of it
  lower::Addresses addresses_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
  std::vector<uint64_t> allocations_;
};

}  // namespace orrery::device
