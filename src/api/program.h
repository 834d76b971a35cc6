// api/program.h: code that a program brings along, before and independent of any context.
//
// A Program is one image: a registered fat binary or a library. It is loaded into a context when something of it is
// first used there. A Kernel names a function of a program (cudaKernel_t, CUkernel); host functions that stand for
// kernels, and host variables that stand for device variables, are found by their addresses.
// Not here: loaded code (device/module.h).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/entry.h"

namespace orrery::api {

struct HostVariable {
  std::string name;
  size_t size = 0;
  void** managed_pointer = nullptr;  // where the host keeps the address of a managed variable
  void* place = nullptr;             // the variable itself, when it lives in host memory (`orrery cc`)
};

class Program {
 public:
  explicit Program(std::function<device::Image()> source) : source_(std::move(source)) {}
  /// The module in `context`, loaded now when it was not. Throws Failure.
  std::shared_ptr<device::Module> module(Context& context);
  void unload();
  void add_variable(const HostVariable& variable);
  /// Whether variables of it live in host memory: their first values must be there before main.
  bool has_places();

 private:
  std::function<device::Image()> source_;
  std::mutex mutex_;
  std::map<Context*, std::shared_ptr<device::Module>> modules_;
  std::vector<HostVariable> variables_;
};

struct Kernel {
  std::shared_ptr<Program> program;
  std::string name;
  std::shared_ptr<device::Function> in(Context& context) const;
};

/// Registrations of the program's own images.
void register_function(const void* host, std::shared_ptr<Kernel> kernel);
void register_variable(const void* host, std::shared_ptr<Program> program, HostVariable variable);
void forget_program(const Program* program);
/// Host variables in [begin, end) are the memory of managed variables, not their shadows.
void add_managed_range(const void* begin, const void* end);
/// Null when `host` is not registered.
std::shared_ptr<Kernel> kernel_of(const void* host);
/// The device variable of a host symbol. Throws Failure(invalid_symbol).
device::Variable variable_of(Context& context, const void* symbol);
/// A function by host function, kernel handle or function handle. Throws Failure(invalid_device_function).
std::shared_ptr<device::Function> function_of(Context& context, const void* handle);
/// Loads every registered program that has managed variables into `context`.
void load_managed(Context& context);

}  // namespace orrery::api
