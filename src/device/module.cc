// Loading of modules; see module.h.
#include "device/module.h"

#include <algorithm>
#include <cstring>

#include "device/device.h"
#include "lower/merge_calls.h"
#include "lower/placement.h"
#include "timing/assemble.h"

namespace orrery::device {
namespace {

// What a person reads when a text is refused: origin, then each diagnostic with its place.
std::string report(const std::string& origin, const std::vector<ptx::Diagnostic>& diagnostics) {
  std::string text;
  constexpr size_t kMost = 20;
  for (size_t i = 0; i < diagnostics.size() && i < kMost; i++)
    text += fmt::format("{}{}:{}:{}: {}", i ? "\n" : "", origin.empty() ? "ptx" : origin, diagnostics[i].loc.line, diagnostics[i].loc.column,
                        diagnostics[i].message);
  if (diagnostics.size() > kMost) text += fmt::format("\n... and {} more", diagnostics.size() - kMost);
  return text;
}

ptx::Module parse_and_link(const Image& image) {
  std::vector<ptx::Module> parts;
  for (const std::string& text : image.texts) {
    std::vector<ptx::Diagnostic> diagnostics;
    parts.push_back(ptx::parse(text, diagnostics));
    if (!diagnostics.empty()) throw Failure(Status::invalid_ptx, report(image.origin, diagnostics));
  }
  if (parts.size() == 1) return std::move(parts[0]);
  std::vector<ptx::Diagnostic> diagnostics;
  ptx::Module whole = ptx::link(std::move(parts), diagnostics);
  if (!diagnostics.empty()) throw Failure(Status::invalid_ptx, report(image.origin, diagnostics));
  return whole;
}

}  // namespace

Function::Function(Module& module, uint32_t index) : module_(module), index_(index) {
  const ptx::Function& function = source();
  uint64_t offset = 0;
  for (uint32_t i = function.n_rets; i < function.n_rets + function.n_params; i++) {
    const ptx::Var& param = function.locals[i];
    uint64_t align = std::max(1u, param.align);
    offset = (offset + align - 1) / align * align;
    parameters_.push_back({uint32_t(offset), uint32_t(param.size)});
    offset += param.size;
  }
  param_bytes_ = uint32_t(offset);
}

const ptx::Function& Function::source() const { return module_.source().functions[index_]; }

std::shared_ptr<const exec::Kernel> Function::kernel() {
  std::lock_guard lock(mutex_);
  if (kernel_) return kernel_;
  try {
    lower::KernelPrograms programs = lower::lower_kernel(module_.source(), index_, module_.addresses());
    sums_ = sum_forms(programs);
    exec::Observer* observer = system().observer();
    // A timed kernel is joined with its machine code, which has calls.
    if (!observer && !system().timer()) lower::merge_calls(programs, index_, module_.addresses());
    kernel_ = exec::make_kernel(programs, module_.addresses(), observer ? observer->wants() : 0);
  } catch (const Failure&) {
    throw;
  } catch (const base::Error& error) {
    throw Failure(Status::not_supported, fmt::format("{}: kernel {}: {}", module_.origin(), name(), error.what()));
  }
  return kernel_;
}

namespace {

/// The most 32-bit registers live at the start of any block.
uint32_t live_words_of(const lower::Program& program) {
  uint32_t most = 0;
  for (const auto& live : program.live_in) {
    uint32_t words = 0;
    for (uint32_t reg : live) {
      lower::RegKind kind = program.regs[reg].kind;
      words += kind == lower::RegKind::pred ? 0 : kind == lower::RegKind::word ? 1 : kind == lower::RegKind::dword ? 2 : 4;
    }
    most = std::max(most, words);
  }
  return most;
}

}  // namespace

FunctionFacts Function::facts() {
  const lower::Program& program = exec::program_of(*kernel());
  const ptx::Module& text = module_.source();
  const ptx::Directives& directives = source().directives;
  FunctionFacts facts;
  auto product = [](const uint32_t* v) { return v[0] * std::max(1u, v[1]) * std::max(1u, v[2]); };
  if (directives.maxntid[0]) facts.max_threads = std::min(1024u, product(directives.maxntid));
  if (directives.reqntid[0]) facts.max_threads = std::min(1024u, product(directives.reqntid));
  std::copy_n(directives.reqnctapercluster, 3, facts.required_cluster);
  facts.static_shared = program.shared_bytes;
  facts.local_bytes = program.local_bytes;
  for (const ptx::Var& var : text.vars)
    if (var.space == isa::Space::const_) facts.constant_bytes += uint32_t(var.size);
  facts.live_words = live_words_of(program);
  facts.registers = std::clamp((facts.live_words + 8 + 7) / 8 * 8, 16u, 255u);  // an estimate, with room for temporaries
  if (directives.maxnreg) facts.registers = std::min(facts.registers, directives.maxnreg);
  facts.registers = std::min(facts.registers, std::max(16u, 65536 / facts.max_threads / 8 * 8));
  if (const uint32_t known = module_.registers_of(name())) facts.registers = known, facts.registers_known = true;
  facts.ptx_version = int(text.version_major * 10 + text.version_minor);
  facts.binary_version = int(module_.context().device().capability());
  return facts;
}

std::optional<uint32_t> Function::ask_registers() {
  if (const uint32_t known = module_.registers_of(name())) return known;
  if (module_.text().empty()) return std::nullopt;
  std::lock_guard lock(mutex_);
  if (!asked_registers_) {
    asked_registers_ = 0;
    std::string why;
    const auto made = timing::assemble(timing::Layout(module_.text()), module_.source().target, name(), int(module_.context().device().capability()), module_.source().relocatable, why);
    for (size_t i = 0; made && i < made->size(); i++)
      if ((*made)[i].name == name()) asked_registers_ = (*made)[i].registers;
  }
  return *asked_registers_ ? asked_registers_ : std::nullopt;
}

Module::Module(Context& context, Image image)
    : context_(context), origin_(image.origin), source_(parse_and_link(image)), places_(std::move(image.places)),
      registers_(std::move(image.registers)) {
  source_.relocatable = image.relocatable;
  if (system().observer() && image.texts.size() == 1) text_ = std::move(image.texts[0]);
  try {
    place_variables();
  } catch (...) {
    for (uint64_t address : allocations_) system().memory().release(address);
    throw;
  }
  for (uint32_t i = 0; i < source_.functions.size(); i++)
    if (source_.functions[i].is_entry && source_.functions[i].has_body)
      functions_[source_.functions[i].name] = std::make_unique<Function>(*this, i);
}

Module::~Module() {
  for (uint64_t address : allocations_) system().memory().release(address);
}

void Module::place_variables() {
  // Host memory of a variable gets its first value from the first module that shows it to kernels; a later one must not.
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> kept;
  auto allocate = [&](const ptx::Var* var, uint64_t bytes, uint64_t align) {
    if (auto place = var ? places_.find(var->name) : places_.end(); place != places_.end()) {
      const auto* now = reinterpret_cast<const std::byte*>(place->second);
      if (!system().memory().register_host(place->second, bytes)) kept.emplace_back(place->second, std::vector<std::byte>(now, now + bytes));
      variables_[var->name] = {place->second, bytes, true, false};
      return place->second;
    }
    const exec::MemoryKind kind = var && var->managed ? exec::MemoryKind::managed : exec::MemoryKind::module;
    const uint64_t address = system().allocate(context_.device(), bytes, kind, align);
    allocations_.push_back(address);
    if (!var) return address;
    if (exec::Observer* o = system().observer()) o->named(address, var->name, var->space == isa::Space::const_);
    variables_[var->name] = {address, bytes, var->managed, var->space == isa::Space::const_};
    return address;
  };
  try {
    addresses_ = lower::place_variables(source_, allocate);
  } catch (const Failure&) {
    throw;
  } catch (const base::Error& error) {
    throw Failure(Status::invalid_ptx, fmt::format("{}: {}", origin_, error.what()));
  }
  for (auto& [address, bytes] : kept) std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
}

std::shared_ptr<Function> Module::function(const std::string& name) {
  auto at = functions_.find(name);
  return at == functions_.end() ? nullptr : std::shared_ptr<Function>(shared_from_this(), at->second.get());
}

std::shared_ptr<Function> Module::function_at(uint64_t address) {
  const auto at = std::ranges::find(addresses_.function, address);
  return at == addresses_.function.end() ? nullptr : function(source_.functions[size_t(at - addresses_.function.begin())].name);
}

std::vector<std::shared_ptr<Function>> Module::functions() {
  std::vector<std::shared_ptr<Function>> all;
  for (auto& [name, function] : functions_) all.emplace_back(shared_from_this(), function.get());
  return all;
}

const Variable* Module::variable(const std::string& name) const {
  auto at = variables_.find(name);
  return at == variables_.end() ? nullptr : &at->second;
}

}  // namespace orrery::device
