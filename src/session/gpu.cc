// session/gpu.cc: include/orrery/gpu.h over the executor: one GPU, its memory, modules and launches, without the CUDA
// API's streams, contexts and process-wide state (device/).
//
// Invariant: nothing here outlives what it refers to: Kernel -> Module -> Gpu by shared ownership. Only orrery::Error
// leaves a public function.
#include "orrery/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "exec/gpu_facts.h"
#include "exec/launch.h"
#include "lower/merge_calls.h"
#include "lower/placement.h"
#include "lower/program.h"
#include "profile/profile.h"
#include "ptx/module.h"
#include "sanitize/checker.h"
#include "sanitize/render.h"

#ifdef ORRERY_HAVE_JIT
#include "jit/compiler.h"
#endif

namespace orrery {

namespace {

/// Runs `body`; whatever it throws leaves as Error.
template <class Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(e.what());
  }
}

const char* name_of(exec::FaultKind kind) {
  switch (kind) {
    case exec::FaultKind::none: return "none";
    case exec::FaultKind::illegal_address: return "illegal address";
    case exec::FaultKind::misaligned_address: return "misaligned address";
    case exec::FaultKind::illegal_instruction: return "illegal instruction";
    case exec::FaultKind::stack_overflow: return "stack overflow";
    case exec::FaultKind::trap: return "trap";
    case exec::FaultKind::assertion: return "assertion";
    case exec::FaultKind::hang: return "hang";
    case exec::FaultKind::timeout: return "timeout";
    case exec::FaultKind::interrupted: return "interrupted";
    case exec::FaultKind::unsupported: return "unsupported";
    case exec::FaultKind::invalid_pc: return "invalid program counter";
    case exec::FaultKind::heap_exhausted: return "heap exhausted";
    case exec::FaultKind::hardware_stack: return "hardware stack";
  }
  return "unknown";
}

FaultReport report_of(const exec::Fault& f) {
  FaultReport r;
  r.kind = name_of(f.kind);
  r.message = f.message;
  r.kernel = f.kernel;
  r.function = f.function;
  r.ptx_line = f.loc.line;
  r.source_file = f.source_file;
  r.source_line = f.loc.source_line;
  r.block = {f.ctaid[0], f.ctaid[1], f.ctaid[2]};
  r.thread = {f.tid[0], f.tid[1], f.tid[2]};
  r.address = f.address;
  return r;
}

exec::Dim3 dim(const Extent& e) { return {e.x, e.y, e.z}; }

}  // namespace

struct Gpu::State {
  GpuOptions options;
  Profile profile;
  exec::DeviceMemory memory;
  exec::Machine machine;
  sanitize::Options check_options;
  std::unique_ptr<sanitize::Checker> checker;
#ifdef ORRERY_HAVE_JIT
  std::unique_ptr<jit::Compiler> compiler;
#endif

  explicit State(GpuOptions o) : options(std::move(o)), profile(load_profile(options.profile)) {
    machine.memory = &memory;
    machine.gpu = exec::facts_of(profile);
    machine.options.threads = options.threads;
    machine.options.seed = options.schedule_seed;
    machine.options.timeout_seconds = options.timeout_seconds;
    machine.options.interpret_only = options.interpret;
    if (!sanitize::add_checks(options.checks, check_options)) base::fail("checks '{}': there is no such check", options.checks);
    if (!options.checks.empty()) {
      checker = std::make_unique<sanitize::Checker>(check_options, memory);
      memory.observe(checker.get());
      machine.observer = checker.get();
      machine.options.interpret_only |= (checker->wants() & exec::kObserveValues) != 0;  // every computation reports
    }
    auto print = options.print ? options.print : [](std::string_view s) { std::fwrite(s.data(), 1, s.size(), stdout); };
    machine.print = machine.print_error = print;
#ifdef ORRERY_HAVE_JIT
    const jit::Mode mode = jit::mode_from_environment(jit::Mode::synchronous);
    if (!machine.options.interpret_only && mode != jit::Mode::off) compiler = std::make_unique<jit::Compiler>(mode, checker ? checker->wants() : 0);
    machine.code = compiler.get();
#endif
  }
  ~State() { memory.observe(nullptr); }  // memory that the machine's heap still holds goes after the checker
};

struct Module::State {
  std::shared_ptr<Gpu::State> gpu;
  std::string origin;
  ptx::Module source;
  lower::Addresses addresses;
  std::vector<uint64_t> allocations;

  State(std::shared_ptr<Gpu::State> g, std::string_view text, std::string_view from) : gpu(std::move(g)), origin(from) {
    std::vector<ptx::Diagnostic> diagnostics;
    source = ptx::parse(text, diagnostics);
    std::string report;
    for (const ptx::Diagnostic& d : diagnostics)
      report += fmt::format("{}{}:{}:{}: {}", report.empty() ? "" : "\n", origin, d.loc.line, d.loc.column, d.message);
    if (!diagnostics.empty()) throw Error(report);
    addresses = lower::place_variables(source, [this](const ptx::Var* var, uint64_t bytes, uint64_t align) {
      const auto kind = var && var->managed ? exec::MemoryKind::managed : exec::MemoryKind::module;
      const uint64_t address = gpu->memory.allocate(bytes, kind, 0, align);
      if (!address) base::fail("{}: no room for {} bytes of {}", origin, bytes, var ? var->name : "function pointers");
      allocations.push_back(address);
      if (var && gpu->checker) gpu->checker->named(address, var->name, var->space == isa::Space::const_);
      return address;
    });
  }
  ~State() {
    for (uint64_t a : allocations) gpu->memory.release(a);
  }
};

struct Kernel::State {
  std::shared_ptr<Module::State> module;
  lower::KernelPrograms programs;
  std::shared_ptr<const exec::Kernel> kernel;
};

// ---- Gpu

Gpu::Gpu(GpuOptions options) : state_(translated([&] { return std::make_shared<State>(std::move(options)); })) {}

void* Gpu::allocate(size_t bytes) {
  if (bytes == 0) throw Error("allocate: 0 bytes asked for");
  const uint64_t total = uint64_t(state_->profile.memory_total().count());
  const uint64_t used = state_->memory.used(exec::MemoryKind::device, 0);
  const uint64_t address = bytes <= total - std::min(total, used) ? state_->memory.allocate(bytes, exec::MemoryKind::device, 0) : 0;
  if (!address)
    throw Error(fmt::format("allocate: {} bytes do not fit: {} of the {} bytes of {} are in use", bytes, used, total, state_->profile.id()));
  return reinterpret_cast<void*>(address);
}

void Gpu::release(void* memory) {
  if (!state_->memory.release(reinterpret_cast<uint64_t>(memory)))
    throw Error(fmt::format("release: {} is not the start of a live allocation", memory));
}

void Gpu::wrote(const void* memory, size_t bytes) {
  if (!state_->checker || bytes == 0) return;
  exec::HostWork work;
  work.op = exec::HostOp::fill;
  work.destination = reinterpret_cast<uint64_t>(memory);
  work.width = bytes;
  state_->checker->performed(work);
}

CheckReport Gpu::check_report() {
  CheckReport report;
  if (!state_->checker) return report;
  return translated([&] {
    const std::vector<sanitize::Finding> findings = state_->checker->findings();
    for (const sanitize::Finding& f : findings)
      report.findings.push_back({f.check, f.kind, f.severity, f.message, f.remedy, f.place.kernel, f.place.source_file, f.place.instruction,
                                 f.place.source_line, f.place.ptx_line, f.count});
    const std::set<std::string>& checks = state_->check_options.checks;
    const sanitize::CheckedRun run{{}, 0, {checks.begin(), checks.end()}};
    report.text = sanitize::render_text(run, findings, {});
    report.json = sanitize::render_json(run, findings, {});
    return report;
  });
}

Module Gpu::load(std::string_view ptx, std::string_view origin) {
  return translated([&] { return Module(std::make_shared<Module::State>(state_, ptx, origin)); });
}

// ---- Module

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const ptx::Function& f : state_->source.functions)
    if (f.is_entry && f.has_body) names.push_back(f.name);
  return names;
}

Kernel Module::kernel(std::string_view name) const {
  const ptx::Module& m = state_->source;
  for (uint32_t f = 0; f < m.functions.size(); f++) {
    if (!m.functions[f].is_entry || !m.functions[f].has_body || (!name.empty() && m.functions[f].name != name)) continue;
    return translated([&] {
      auto state = std::make_shared<Kernel::State>();
      state->module = state_;
      state->programs = lower::lower_kernel(m, f, state_->addresses);
      if (!state_->gpu->checker) lower::merge_calls(state->programs, f, state_->addresses);
      state->kernel = exec::make_kernel(state->programs, state_->addresses, state_->gpu->checker ? state_->gpu->checker->wants() : 0);
      return Kernel(std::move(state));
    });
  }
  std::string known;
  for (const std::string& k : kernels()) known += " " + k;
  throw Error(fmt::format("{}: no kernel '{}'; there are:{}", state_->origin, name, known.empty() ? " none" : known));
}

void* Module::variable(std::string_view name, size_t* bytes) const {
  const ptx::Module& m = state_->source;
  for (size_t v = 0; v < m.vars.size(); v++) {
    if (m.vars[v].name != name || !state_->addresses.var[v]) continue;
    if (bytes) *bytes = m.vars[v].size;
    return reinterpret_cast<void*>(state_->addresses.var[v]);
  }
  return nullptr;
}

// ---- Kernel

const std::string& Kernel::name() const { return state_->programs.entry->name; }

std::vector<uint32_t> Kernel::parameter_sizes() const {
  std::vector<uint32_t> sizes;
  for (const lower::Param& p : state_->programs.entry->params) sizes.push_back(uint32_t(p.size));
  return sizes;
}

KernelNeeds Kernel::needs() const {
  const lower::Program& p = *state_->programs.entry;
  KernelNeeds n;
  n.instructions = p.code.size();
  n.parameter_bytes = uint32_t(p.param_bytes);
  n.shared_bytes = uint32_t(p.shared_bytes);
  n.local_bytes = uint32_t(p.local_bytes);
  n.register_frame_bytes = p.frame_bytes;
  const std::set<std::string> unsupported = exec::unsupported_forms(*state_->kernel);
  n.unsupported.assign(unsupported.begin(), unsupported.end());
  return n;
}

namespace {

void check_shape(const Profile& gpu, const std::string& kernel, const LaunchShape& s, uint32_t static_shared) {
  const Extent &g = s.grid, &b = s.block;
  const uint64_t threads = dim(b).count();
  if (dim(g).count() == 0 || threads == 0 || threads > uint64_t(gpu.max_threads_per_block()) || g.x > uint64_t(gpu.max_grid_x()) ||
      g.y > uint64_t(gpu.max_grid_y()) || g.z > uint64_t(gpu.max_grid_z()) || b.x > uint64_t(gpu.max_block_x()) ||
      b.y > uint64_t(gpu.max_block_y()) || b.z > uint64_t(gpu.max_block_z()))
    throw Error(fmt::format("{}: grid ({}, {}, {}) x block ({}, {}, {}) is beyond the limits of {}", kernel, g.x, g.y, g.z, b.x, b.y, b.z, gpu.id()));
  const uint64_t cluster = dim(s.cluster).count();
  if (cluster != 1 && (!gpu.cluster_supported() || cluster == 0 || cluster > uint64_t(gpu.cluster_max()) || g.x % s.cluster.x ||
                       g.y % s.cluster.y || g.z % s.cluster.z))
    throw Error(fmt::format("{}: clusters of ({}, {}, {}) blocks do not fit {} or do not divide the grid", kernel, s.cluster.x, s.cluster.y,
                            s.cluster.z, gpu.id()));
  const uint64_t most = uint64_t(gpu.shared_per_block_optin().count());
  if (uint64_t{static_shared} + s.dynamic_shared > most)
    throw Error(fmt::format("{}: {} bytes of shared memory, {} gives a block at most {}", kernel, uint64_t{static_shared} + s.dynamic_shared,
                            gpu.id(), most));
}

std::vector<std::byte> pack(const lower::Program& p, const std::vector<Argument>& arguments) {
  if (arguments.size() != p.params.size())
    throw Error(fmt::format("{} takes {} arguments, {} given", p.name, p.params.size(), arguments.size()));
  std::vector<std::byte> buffer(p.param_bytes);
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::vector<std::byte>& bytes = arguments[i].bytes();
    if (bytes.size() != p.params[i].size)
      throw Error(fmt::format("{}: argument {} has {} bytes, the parameter {}", p.name, i, bytes.size(), p.params[i].size));
    std::copy(bytes.begin(), bytes.end(), buffer.begin() + ptrdiff_t(p.params[i].offset));
  }
  return buffer;
}

}  // namespace

LaunchReport Kernel::launch(const LaunchShape& shape, const std::vector<Argument>& arguments) const {
  Gpu::State& gpu = *state_->module->gpu;
  const lower::Program& program = *state_->programs.entry;
  check_shape(gpu.profile, program.name, shape, uint32_t(program.shared_bytes));
  exec::Launch launch;
  launch.kernel = state_->kernel;
  launch.grid = dim(shape.grid);
  launch.block = dim(shape.block);
  launch.cluster = dim(shape.cluster);
  launch.dynamic_shared = shape.dynamic_shared;
  launch.cooperative = shape.cooperative;
  launch.params = pack(program, arguments);
  const uint64_t workspace = shape.cooperative ? gpu.memory.allocate(512, exec::MemoryKind::heap, 0) : 0;
  launch.workspace = workspace;
  const exec::LaunchResult result = translated([&] { return exec::execute(gpu.machine, launch); });
  if (workspace) gpu.memory.release(workspace);
  LaunchReport report;
  if (result.fault) report.fault = report_of(*result.fault);
  report.warp_instructions = result.warp_instructions;
  report.seconds = result.seconds;
  return report;
}

}  // namespace orrery
