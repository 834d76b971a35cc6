// tools/ptx_command.cc: `orrery ptx`: runs one kernel of a PTX file on buffers made on the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "orrery/gpu.h"
#include "tools/command.h"

namespace orrery::tools {

namespace {

/// One kernel argument: a scalar, or a device buffer that is filled before and printed after the run.
struct Operand {
  std::vector<std::byte> value;   // bytes of the parameter
  std::byte* buffer = nullptr;    // when it is a buffer
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
Operand parse_argument(std::string text, Gpu& gpu) {
  Operand a;
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
  a.buffer = static_cast<std::byte*>(gpu.allocate(std::max<size_t>(1, a.count * n)));
  if (const size_t equals = text.find('='); equals != std::string::npos) {
    const std::string fill = text.substr(equals + 1);
    for (size_t i = 0; i < a.count; i++)
      store(a.buffer + i * n, a.type, fill == "iota" ? "0" : fill, fill == "iota" ? double(i) : 0);
  }
  a.value.resize(8);
  std::memcpy(a.value.data(), &a.buffer, 8);
  return a;
}

/// `--list`: what each kernel of the file needs, and which of its instructions are unsupported.
void list_kernels(const Module& module) {
  for (const std::string& name : module.kernels()) {
    const Kernel kernel = module.kernel(name);
    const KernelNeeds needs = kernel.needs();
    fmt::print("{}: {} parameters ({} B), {} instructions, {} B shared, {} B local per thread, {} B of registers per warp\n", name,
               kernel.parameter_sizes().size(), needs.parameter_bytes, needs.instructions, needs.shared_bytes, needs.local_bytes,
               needs.register_frame_bytes);
    for (const std::string& form : needs.unsupported) fmt::print("  unsupported: {}\n", form);
  }
}

Extent parse_extent(const std::string& text) {
  Extent d;
  uint32_t* out[3] = {&d.x, &d.y, &d.z};
  std::stringstream in(text);
  std::string part;
  for (int i = 0; i < 3 && std::getline(in, part, ','); i++) *out[i] = uint32_t(std::stoul(part));
  return d;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) base::fail("cannot read {}", path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

int run_ptx(const std::vector<std::string>& args) {
  CLI::App app{"Run one kernel from PTX text.\nExample: orrery ptx saxpy.ptx --grid 4 --block 256 --arg 'f32[1024]=iota?' --arg f32:2 --arg u32:1024", "orrery ptx"};
  std::string file, kernel_name, gpu_name = "h200", grid = "1", block = "32", schedule, checks;
  std::vector<std::string> arg_texts;
  uint32_t shared = 0;
  double timeout = 0;
  bool interpret = false, list = false;
  app.add_option("file", file, "PTX file")->required();
  app.add_option("--kernel", kernel_name, "kernel to run (default: the first)");
  app.add_option("--gpu", gpu_name, "the GPU to stand in for: a name of `orrery gpus` or a profile file");
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
  GpuOptions options;
  options.profile = gpu_name;
  options.timeout_seconds = timeout;
  options.interpret = interpret;
  options.checks = checks;
  if (!schedule.empty()) {
    if (schedule.rfind("random:", 0) != 0) base::fail("--schedule {}: write random:SEED", schedule);
    options.schedule_seed = std::stoull(schedule.substr(7));
  }
  Gpu gpu(options);
  std::optional<Module> module;
  try {
    module = gpu.load(read_file(file), file);
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
  if (list) {
    list_kernels(*module);
    return 0;
  }
  const Kernel kernel = module->kernel(kernel_name);
  const std::vector<uint32_t> sizes = kernel.parameter_sizes();
  if (arg_texts.size() != sizes.size()) base::fail("kernel {} takes {} arguments, {} given", kernel.name(), sizes.size(), arg_texts.size());
  std::vector<Operand> arguments;
  std::vector<Argument> values;
  for (size_t i = 0; i < arg_texts.size(); i++) {
    arguments.push_back(parse_argument(arg_texts[i], gpu));
    if (arg_texts[i].find('=') != std::string::npos) gpu.wrote(arguments[i].buffer, arguments[i].count * size_of(arguments[i].type));
    arguments[i].value.resize(sizes[i]);
    values.emplace_back(arguments[i].value);
  }
  const LaunchReport result = kernel.launch({.grid = parse_extent(grid), .block = parse_extent(block), .dynamic_shared = shared}, values);
  if (!checks.empty()) {
    const CheckReport found = gpu.check_report();
    fmt::print(stderr, "{}", found.text);
    if (!found.findings.empty()) return 1;
  }
  if (result.fault) {
    fmt::print(stderr, "{}\n", result.fault->message);
    return 3;
  }
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!arguments[i].print) continue;
    fmt::print("arg {}:", i);
    for (size_t k = 0; k < arguments[i].count; k++)
      fmt::print(" {}", show(arguments[i].buffer + k * size_of(arguments[i].type), arguments[i].type));
    fmt::print("\n");
  }
  fmt::print(stderr, "{}: {} warp instructions, {:.3f} ms\n", kernel.name(), result.warp_instructions, result.seconds * 1e3);
  return 0;
}

ORRERY_COMMAND(ptx, "run one kernel from PTX text", run_ptx);

}  // namespace
}  // namespace orrery::tools
