// tests/differential/run.cc: see run.h.
#include "run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/launch.h"
#include "jit/compiler.h"
#include "lower/merge_calls.h"
#include "lower/placement.h"
#include "lower/program.h"
#include "ptx/module.h"

namespace differential {

using namespace orrery;

namespace {

/// Small numbers, random bits, and floats that are special: by word, the same for every run of a seed.
uint32_t input_word(Random& random) {
  static const std::vector<uint32_t> kEdges{0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x00800000, 0x007fffff, 0x3f800000, 0x4f800000, 0x00010001, 0x7c003c00};
  switch (random.below(4)) {
    case 0: return uint32_t(random.below(64));
    case 1: return random.pick(kEdges);
    default: return uint32_t(random.bits());
  }
}

}  // namespace

Outcome run(const Program& program, Engine engine) {
  Outcome o;
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(program.text(), diagnostics);
  for (const auto& d : diagnostics) {
    o.problem = fmt::format("line {}: {}", d.loc.line, d.message);
    return o;
  }
  exec::DeviceMemory memory;
  const lower::Addresses addresses = lower::place_variables(module, [&](const ptx::Var*, uint64_t bytes, uint64_t align) { return memory.allocate(bytes, exec::MemoryKind::device, 0, align); });
  const uint32_t kernel = uint32_t(std::ranges::find(module.functions, true, &ptx::Function::is_entry) - module.functions.begin());
  lower::KernelPrograms programs = lower::lower_kernel(module, kernel, addresses);
  if (engine == Engine::compiled) lower::merge_calls(programs, kernel, addresses);
  jit::Compiler compiler(jit::Mode::synchronous);
  exec::Machine machine;
  machine.memory = &memory;
  machine.code = engine == Engine::compiled ? &compiler : nullptr;
  machine.options.threads = 1;
  machine.options.timeout_seconds = 20;
  const size_t out_bytes = size_t{kMaxThreads} * kOutBytes;
  const uint64_t out = memory.allocate(out_bytes, exec::MemoryKind::device, 0), state = memory.allocate(kStateBytes + kWalkBytes, exec::MemoryKind::device, 0),
                 in = memory.allocate(kInWords * 4, exec::MemoryKind::device, 0);
  std::memset(reinterpret_cast<void*>(out), 0, out_bytes);
  std::memset(reinterpret_cast<void*>(state), 0, kStateBytes + kWalkBytes);
  Random random{program.seed};
  for (uint32_t i = 0; i < kInWords; i++) reinterpret_cast<uint32_t*>(in)[i] = input_word(random);
  exec::Launch launch;
  launch.kernel = exec::make_kernel(programs, addresses);
  launch.grid = {program.grid, 1, 1};
  launch.block = {program.block[0], program.block[1], program.block[2]};
  launch.params.resize(28);
  std::memcpy(launch.params.data(), &out, 8);
  std::memcpy(launch.params.data() + 8, &in, 8);
  std::memcpy(launch.params.data() + 16, &state, 8);
  const uint32_t n = 5;
  std::memcpy(launch.params.data() + 24, &n, 4);
  const exec::LaunchResult result = exec::execute(machine, launch);
  if (result.fault) o.kind = result.fault->kind, o.fault = fmt::format("{}: {}", int(result.fault->kind), result.fault->message);
  o.native_blocks = result.native_blocks;
  o.memory.resize((out_bytes + kStateBytes + kWalkBytes) / 4);
  std::memcpy(o.memory.data(), reinterpret_cast<void*>(out), out_bytes);
  std::memcpy(o.memory.data() + out_bytes / 4, reinterpret_cast<void*>(state), kStateBytes + kWalkBytes);
  return o;
}

namespace {

std::string place_of(size_t word) {
  const size_t out_words = size_t{kMaxThreads} * kOutBytes / 4;
  if (word >= out_words) return fmt::format("state+{}", 4 * (word - out_words));
  const size_t thread = word / (kOutBytes / 4), at = word % (kOutBytes / 4) * 4;
  std::string what = at < 64 ? fmt::format("%r{}", at / 4) : at < 96 ? fmt::format("%f{}", (at - 64) / 4) : at < 160 ? fmt::format("%d{}", (at - 96) / 8)
                   : at < 208 ? fmt::format("%g{}", (at - 160) / 8) : at < 224 ? fmt::format("%h{}", (at - 208) / 2) : at < 228 ? "%p" : fmt::format("own+{}", at - kOwnBytes);
  return fmt::format("thread {} {}", thread, what);
}

}  // namespace

std::string difference(const Program& program, int* compiled) {
  Outcome a, b;
  try {
    a = run(program, Engine::interpreter);
    if (!a.problem.empty()) return "not valid: " + a.problem;
    b = run(program, Engine::compiled);
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
  if (compiled && b.native_blocks) ++*compiled;
  if (a.fault != b.fault) return fmt::format("interpreter: {}\ncompiled: {}", a.fault.empty() ? "no fault" : a.fault, b.fault.empty() ? "no fault" : b.fault);
  if (a.kind == exec::FaultKind::timeout) return "hangs: " + a.fault;
  if (!a.fault.empty()) return "";  // where a launch stops is not defined
  std::string text;
  int shown = 0;
  for (size_t i = 0; i < a.memory.size(); i++)
    if (a.memory[i] != b.memory[i] && shown++ < 6) text += fmt::format("{}: interpreter {:#010x}, compiled {:#010x}\n", place_of(i), a.memory[i], b.memory[i]);
  if (shown > 6) text += fmt::format("and {} more words\n", shown - 6);
  return text;
}

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = program.size(); i-- > 0;) {
      if (i >= program.size()) continue;
      Program candidate = program.without(i);
      if (fails(candidate)) program = std::move(candidate), smaller = true;
    }
  }
  return program;
}

}  // namespace differential
