// Registered programs; see program.h.
#include "api/program.h"

#include <algorithm>

namespace orrery::api {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Kernel>> functions;
  std::unordered_map<const void*, std::pair<std::shared_ptr<Program>, HostVariable>> variables;
  std::vector<std::pair<const void*, const void*>> managed_ranges;
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

std::shared_ptr<device::Module> Program::module(Context& context) {
  std::lock_guard lock(mutex_);
  auto& module = modules_[&context];
  if (module) return module;
  device::Image image = source_();
  for (const HostVariable& variable : variables_)
    if (variable.place) image.places[variable.name] = reinterpret_cast<uint64_t>(variable.place);
  module = context.load(std::move(image));
  for (const HostVariable& variable : variables_)
    if (variable.managed_pointer)
      if (const device::Variable* found = module->variable(variable.name)) *variable.managed_pointer = reinterpret_cast<void*>(found->address);
  return module;
}

void Program::unload() {
  std::lock_guard lock(mutex_);
  for (auto& [context, module] : modules_)
    if (module && context->active) context->unload(module.get());
  modules_.clear();
}

void Program::add_variable(const HostVariable& variable) {
  std::lock_guard lock(mutex_);
  variables_.push_back(variable);
}

bool Program::has_places() {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(variables_, [](const HostVariable& v) { return v.place != nullptr; });
}

std::shared_ptr<device::Function> Kernel::in(Context& context) const {
  auto function = program->module(context)->function(name);
  if (!function) throw Failure(Status::invalid_device_function, fmt::format("kernel {} is not in the PTX of its program", name));
  return function;
}

void register_function(const void* host, std::shared_ptr<Kernel> kernel) {
  handles<Kernel>().add(kernel);
  std::lock_guard lock(registry().mutex);
  registry().functions[host] = std::move(kernel);
}

void add_managed_range(const void* begin, const void* end) {
  std::lock_guard lock(registry().mutex);
  registry().managed_ranges.emplace_back(begin, end);
}

void register_variable(const void* host, std::shared_ptr<Program> program, HostVariable variable) {
  {
    std::lock_guard lock(registry().mutex);
    for (auto [begin, end] : registry().managed_ranges)
      if (host >= begin && host < end) variable.place = const_cast<void*>(host);
  }
  program->add_variable(variable);
  std::lock_guard lock(registry().mutex);
  registry().variables[host] = {std::move(program), std::move(variable)};
}

void forget_program(const Program* program) {
  std::lock_guard lock(registry().mutex);
  std::erase_if(registry().functions, [&](auto& item) { return item.second->program.get() == program; });
  std::erase_if(registry().variables, [&](auto& item) { return item.second.first.get() == program; });
}

std::shared_ptr<Kernel> kernel_of(const void* host) {
  std::lock_guard lock(registry().mutex);
  auto at = registry().functions.find(host);
  return at == registry().functions.end() ? nullptr : at->second;
}

device::Variable variable_of(Context& context, const void* symbol) {
  std::shared_ptr<Program> program;
  HostVariable variable;
  {
    std::lock_guard lock(registry().mutex);
    auto at = registry().variables.find(symbol);
    require(at != registry().variables.end(), Status::invalid_symbol);
    std::tie(program, variable) = at->second;
  }
  const device::Variable* found = program->module(context)->variable(variable.name);
  require(found != nullptr, Status::invalid_symbol);
  device::Variable result = *found;
  if (variable.size) result.size = variable.size;
  return result;
}

std::shared_ptr<device::Function> function_of(Context& context, const void* handle) {
  if (auto kernel = kernel_of(handle)) return kernel->in(context);
  if (auto kernel = handles<Kernel>().find(handle)) return kernel->in(context);
  return handles<device::Function>().get(handle, Status::invalid_device_function);
}

void load_managed(Context& context) {
  std::vector<std::shared_ptr<Program>> programs;
  {
    std::lock_guard lock(registry().mutex);
    for (auto& [host, item] : registry().variables)
      if (item.second.managed_pointer) programs.push_back(item.first);
  }
  for (auto& program : programs) program->module(context);
}

}  // namespace orrery::api
