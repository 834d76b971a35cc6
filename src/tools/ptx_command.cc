// tools/ptx_command.cc: `orrery ptx`: runs one kernel of a PTX file on buffers made on the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "exec/launch.h"
#include "lower/program.h"
#include "ptx/module.h"
#include "sanitize/checker.h"
#include "sanitize/render.h"
#include "tools/command.h"

#ifdef ORRERY_HAVE_JIT
#include "jit/compiler.h"
#endif

namespace orrery::tools {

namespace {

/// One kernel argument: a scalar, or a device buffer that is filled before and printed after the run.
struct Argument {
  std::vector<std::byte> value;   // bytes of the parameter
  uint64_t buffer = 0;            // address, when it is a buffer
  size_t count = 0;
  std::string type;
  bool print = false;
};

size_t size_of(const std::string& type) {
  if (type == "f64" || type == "u64" || type == "s64") return 8;
  if (type == "f32" || type == "u32" || type == "s32") return 4;
  if (type == "u16" || type == "s16") return 2;
  if (type == "u8" || type == "s8") return 1;
  base::fail("unknown type '{}' in --arg; use u8 u16 u32 u64 s8 s16 s32 s64 f32 f64", type);
}

void store(std::byte* to, const std::string& type, const std::string& text, double plus) {
  const size_t n = size_of(type);
  if (type == "f32") {
    const float f = float(std::stod(text) + plus);
    std::memcpy(to, &f, 4);
  } else if (type == "f64") {
    const double f = std::stod(text) + plus;
    std::memcpy(to, &f, 8);
  } else {
    const uint64_t v = uint64_t(std::stoll(text, nullptr, 0)) + uint64_t(int64_t(plus));
    std::memcpy(to, &v, n);
  }
}

std::string show(const std::byte* p, const std::string& type) {
  uint64_t v = 0;
  const size_t n = size_of(type);
  std::memcpy(&v, p, n);
  if (type == "f32") return fmt::format("{}", std::bit_cast<float>(uint32_t(v)));
  if (type == "f64") return fmt::format("{}", std::bit_cast<double>(v));
  if (type[0] == 's') return fmt::format("{}", int64_t(v << (64 - 8 * n)) >> (64 - 8 * n));
  return fmt::format("{}", v);
}

/// "f32:1.5" scalar; "f32[1024]" zeroed buffer; "f32[1024]=3" filled; "f32[1024]=iota"; a trailing "?" prints it after.
Argument parse_argument(std::string text, exec::DeviceMemory& memory) {
  Argument a;
  if (!text.empty() && text.back() == '?') a.print = true, text.pop_back();
  const size_t bracket = text.find('[');
  if (bracket == std::string::npos) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos) base::fail("--arg {}: write TYPE:VALUE or TYPE[COUNT]=FILL", text);
    a.type = text.substr(0, colon);
    a.value.resize(size_of(a.type));
    store(a.value.data(), a.type, text.substr(colon + 1), 0);
    return a;
  }
  a.type = text.substr(0, bracket);
  a.count = std::stoull(text.substr(bracket + 1));
  const size_t n = size_of(a.type);
  a.buffer = memory.allocate(std::max<size_t>(1, a.count * n), exec::MemoryKind::device, 0);
  if (!a.buffer) base::fail("--arg {}: out of memory", text);
  if (const size_t equals = text.find('='); equals != std::string::npos) {
    const std::string fill = text.substr(equals + 1);
    for (size_t i = 0; i < a.count; i++)
      store(reinterpret_cast<std::byte*>(a.buffer) + i * n, a.type, fill == "iota" ? "0" : fill, fill == "iota" ? double(i) : 0);
  }
  a.value.resize(8);
  std::memcpy(a.value.data(), &a.buffer, 8);
  return a;
}

/// `--list`: what each kernel of the file needs, and which of its instructions are approximate or unsupported.
void list_kernels(const ptx::Module& module, const lower::Addresses& addresses) {
  for (uint32_t f = 0; f < module.functions.size(); f++) {
    if (!module.functions[f].is_entry) continue;
    const lower::KernelPrograms programs = lower::lower_kernel(module, f, addresses);
    const lower::Program& p = *programs.entry;
    fmt::print("{}: {} parameters ({} B), {} instructions, {} B shared, {} B local per thread, {} B of registers per warp\n", p.name,
               p.params.size(), p.param_bytes, p.code.size(), p.shared_bytes, p.local_bytes, p.frame_bytes);
    const exec::Fidelity fidelity = exec::fidelity_of(*exec::make_kernel(programs, addresses));
    for (const exec::Approximation& a : fidelity.approximate) fmt::print("  approximate: {} (within {} ulp)\n", a.form, a.bound_ulp);
    for (const std::string& form : fidelity.unsupported) fmt::print("  unsupported: {}\n", form);
  }
}

exec::Dim3 parse_dim(const std::string& text) {
  exec::Dim3 d;
  uint32_t* out[3] = {&d.x, &d.y, &d.z};
  std::stringstream in(text);
  std::string part;
  for (int i = 0; i < 3 && std::getline(in, part, ','); i++) *out[i] = uint32_t(std::stoul(part));
  return d;
}

/// Writes one address inside the initial value of variable `v`.
void write_address(const ptx::Module& m, const lower::Addresses& a, size_t v, const ptx::Reloc& r) {
  uint64_t value = 0;
  for (size_t k = 0; k < m.vars.size(); k++)
    if (m.vars[k].name == r.symbol) value = a.var[k];
  for (size_t k = 0; k < m.functions.size(); k++)
    if (m.functions[k].name == r.symbol) value = a.function[k];
  if (!value) base::fail("variable {} holds the address of {}, which the file does not define", m.vars[v].name, r.symbol);
  value += uint64_t(r.addend);
  if (r.mask) value = (value & r.mask) >> std::countr_zero(r.mask);
  std::memcpy(reinterpret_cast<std::byte*>(a.var[v]) + r.offset, &value, r.size);
}

/// Gives variables addresses, writes their initial values, makes function pointers.
lower::Addresses load_variables(const ptx::Module& m, exec::DeviceMemory& memory) {
  lower::Addresses a;
  a.var.assign(m.vars.size(), 0);
  for (size_t v = 0; v < m.vars.size(); v++) {
    const ptx::Var& var = m.vars[v];
    if (var.space != isa::Space::global && var.space != isa::Space::const_) continue;
    a.var[v] = memory.allocate(std::max<uint64_t>(1, var.size), exec::MemoryKind::module, 0);
    if (!var.init.empty()) std::memcpy(reinterpret_cast<void*>(a.var[v]), var.init.data(), var.init.size());
  }
  for (size_t f = 0; f < m.functions.size(); f++) a.function.push_back(0x1000 + 16 * f);
  for (size_t v = 0; v < m.vars.size(); v++)
    for (const ptx::Reloc& r : m.vars[v].relocs) write_address(m, a, v, r);
  return a;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) base::fail("cannot read {}", path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

uint32_t find_kernel(const ptx::Module& m, const std::string& name) {
  std::string known;
  for (uint32_t f = 0; f < m.functions.size(); f++) {
    if (!m.functions[f].is_entry) continue;
    if (name.empty() || m.functions[f].name == name) return f;
    known += " " + m.functions[f].name;
  }
  base::fail("no kernel '{}' in the file; it has:{}", name, known);
}

int run_ptx(const std::vector<std::string>& args) {
  CLI::App app{"Run one kernel from PTX text.\nExample: orrery ptx saxpy.ptx --grid 4 --block 256 --arg 'f32[1024]=iota?' --arg f32:2 --arg u32:1024"};
  std::string file, kernel_name, grid = "1", block = "32", schedule, checks;
  std::vector<std::string> arg_texts;
  uint32_t shared = 0;
  double timeout = 0;
  bool interpret = false, list = false;
  app.add_option("file", file, "PTX file")->required();
  app.add_option("--kernel", kernel_name, "kernel to run (default: the first)");
  app.add_option("--grid", grid, "blocks: X[,Y[,Z]]");
  app.add_option("--block", block, "threads per block: X[,Y[,Z]]");
  app.add_option("--shared", shared, "dynamic shared memory, bytes");
  app.add_option("--arg", arg_texts, "argument: TYPE:VALUE, or a buffer TYPE[COUNT], TYPE[COUNT]=VALUE, TYPE[COUNT]=iota; '?' at the end prints it");
  app.add_option("--timeout", timeout, "stop after this many seconds");
  app.add_option("--schedule", schedule, "random:SEED explores another interleaving of warps and blocks");
  app.add_option("--check", checks, "look for mistakes: all, or some of the checks of `orrery check`; buffers with =VALUE count as written");
  app.add_flag("--list", list, "list the kernels of the file and what they need, run nothing");
  app.add_flag("--interpret", interpret, "do not compile");
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const std::string text = read_file(file);
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(text, diagnostics);
  for (const ptx::Diagnostic& d : diagnostics) fmt::print(stderr, "{}:{}:{}: {}\n", file, d.loc.line, d.loc.column, d.message);
  if (!diagnostics.empty()) return 2;

  exec::DeviceMemory memory;
  sanitize::Options check_options;
  if (!sanitize::add_checks(checks, check_options)) base::fail("--check {}: there is no such check", checks);
  sanitize::Checker checker(check_options, memory);
  if (!checks.empty()) memory.observe(&checker);
  const lower::Addresses addresses = load_variables(module, memory);
  if (list) {
    list_kernels(module, addresses);
    return 0;
  }
  const lower::KernelPrograms programs = lower::lower_kernel(module, find_kernel(module, kernel_name), addresses);
  exec::Launch launch;
  launch.kernel = exec::make_kernel(programs, addresses, checker.wants());
  launch.grid = parse_dim(grid);
  launch.block = parse_dim(block);
  launch.dynamic_shared = shared;
  launch.params.resize(programs.entry->param_bytes);
  std::vector<Argument> arguments;
  if (arg_texts.size() != programs.entry->params.size())
    base::fail("kernel {} takes {} arguments, {} given", programs.entry->name, programs.entry->params.size(), arg_texts.size());
  for (size_t i = 0; i < arg_texts.size(); i++) {
    arguments.push_back(parse_argument(arg_texts[i], memory));
    if (arguments[i].buffer && arg_texts[i].find('=') != std::string::npos) {
      exec::HostWork written;
      written.op = exec::HostOp::fill;
      written.destination = arguments[i].buffer;
      written.width = arguments[i].count * size_of(arguments[i].type);
      checker.performed(written);
    }
    const lower::Param& p = programs.entry->params[i];
    std::memcpy(launch.params.data() + p.offset, arguments[i].value.data(), std::min<size_t>(p.size, arguments[i].value.size()));
  }
  exec::Machine machine;
  machine.memory = &memory;
  machine.options.timeout_seconds = timeout;
  machine.options.interpret_only = interpret || !checks.empty();
  if (!checks.empty()) machine.observer = &checker;
  if (!schedule.empty()) {
    if (schedule.rfind("random:", 0) != 0) base::fail("--schedule {}: write random:SEED", schedule);
    machine.options.seed = std::stoull(schedule.substr(7));
  }
  machine.print = machine.print_error = [](std::string_view s) { fwrite(s.data(), 1, s.size(), stdout); };
#ifdef ORRERY_HAVE_JIT
  jit::Compiler compiler(jit::mode_from_environment(jit::Mode::synchronous));
  machine.code = &compiler;
#endif
  const exec::LaunchResult result = exec::execute(machine, launch);
  if (!checks.empty()) {
    checker.process_end();
    const auto findings = checker.findings();
    fmt::print(stderr, "{}", sanitize::render_text({{}, 0, {check_options.checks.begin(), check_options.checks.end()}}, findings, {}));
    if (!findings.empty()) return 1;
  }
  if (result.fault) {
    fmt::print(stderr, "{}\n", result.fault->message);
    return 3;
  }
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!arguments[i].print) continue;
    fmt::print("arg {}:", i);
    for (size_t k = 0; k < arguments[i].count; k++)
      fmt::print(" {}", show(reinterpret_cast<std::byte*>(arguments[i].buffer) + k * size_of(arguments[i].type), arguments[i].type));
    fmt::print("\n");
  }
  fmt::print(stderr, "{}: {} warp instructions, {:.3f} ms\n", programs.entry->name, result.warp_instructions, result.seconds * 1e3);
  return 0;
}

ORRERY_COMMAND(ptx, "run one kernel from PTX text", run_ptx);

}  // namespace
}  // namespace orrery::tools
