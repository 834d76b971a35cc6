// tests/unit/jit_run.h: one kernel run by the interpreter or compiled, for the tests of jit/ that compare the two.
//
// The interpreter is judged by recorded hardware elsewhere; here only agreement counts.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "exec/launch.h"
#include "jit/compiler.h"
#include "lower/program.h"
#include "ptx/module.h"

namespace orrery {

inline constexpr int kWords = 4096;

inline bool host_has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

struct Outcome {
  std::vector<uint32_t> memory;
  std::string fault;
  uint64_t native_blocks = 0, interpreted_blocks = 0, resumed = 0, instructions = 0;
};

/// Has the code ready at the n-th time that it is asked for it, as a background compilation has at some time. Counts how
/// often the code that can be entered in loops was entered at each of its first entries.
class Late : public exec::CodeProvider {
 public:
  Late(exec::CodeProvider& code, int n) : code_(code), n_(n) {}
  std::shared_ptr<const exec::NativeCode> code_for(const lower::Program& program, exec::Dim3 block) override {
    return n_-- > 0 ? nullptr : code_.code_for(program, block);
  }
  std::shared_ptr<const exec::NativeCode> resumable_code_for(const lower::Program& program, exec::Dim3 block) override {
    if (counting_) return counting_;
    resumable_ = code_.resumable_code_for(program, block);
    counting_ = std::make_shared<exec::NativeCode>(*resumable_);
    entered_.fill(0);
    [&]<size_t... E>(std::index_sequence<E...>) { (count_entry<E>(), ...); }(std::make_index_sequence<kCounted>());
    return counting_;
  }
  uint64_t entered() const { return counting_ ? std::accumulate(entered_.begin(), entered_.end(), uint64_t{0}) : 0; }

 private:
  static constexpr size_t kCounted = 8;
  static inline std::array<uint64_t, kCounted> entered_;
  static inline std::array<exec::RegionFn, kCounted> original_;
  template <size_t E>
  void count_entry() {
    if (E >= counting_->entries.size()) return;
    original_[E] = counting_->entries[E];
    counting_->entries[E] = [](exec::WarpContext* w, uint32_t n) { return entered_[E]++, original_[E](w, n); };
  }

  std::shared_ptr<const exec::NativeCode> resumable_;
  std::shared_ptr<exec::NativeCode> counting_;
  exec::CodeProvider& code_;
  int n_;
};

/// Runs kernel `k(.u64 out, .u64 in, .u32 n)` on fresh buffers.
inline Outcome run(const std::string& body, exec::Dim3 grid, exec::Dim3 block, uint32_t n, bool compiled, const std::string& decls = "", int late = 0) {
  const std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n" + decls +
      "\n.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)\n{\n"
      ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %d<32>; .reg .f32 %f<32>; .reg .f64 %g<8>;\n" + body + "\n}\n";
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(text, diagnostics);
  for (const auto& d : diagnostics) ADD_FAILURE() << d.loc.line << ": " << d.message;
  exec::DeviceMemory memory;
  lower::Addresses addresses;
  addresses.var.assign(module.vars.size(), 0);
  addresses.function.assign(module.functions.size(), 0);
  const lower::KernelPrograms programs = lower::lower_kernel(module, 0, addresses);
  jit::Compiler compiler(jit::Mode::synchronous);
  exec::Machine machine;
  machine.memory = &memory;
  Late provider(compiler, late);
  machine.code = compiled ? &provider : nullptr;
  machine.options.threads = 1;
  const uint64_t out = memory.allocate(kWords * 4, exec::MemoryKind::device, 0), in = memory.allocate(kWords * 4, exec::MemoryKind::device, 0);
  std::mt19937 random(7);
  for (int i = 0; i < kWords; i++) reinterpret_cast<uint32_t*>(in)[i] = i % 3 ? uint32_t(random()) : uint32_t(random() % 64);
  exec::Launch launch;
  launch.kernel = exec::make_kernel(programs, addresses);
  launch.grid = grid;
  launch.block = block;
  launch.params.resize(20);
  std::memcpy(launch.params.data(), &out, 8);
  std::memcpy(launch.params.data() + 8, &in, 8);
  std::memcpy(launch.params.data() + 16, &n, 4);
  const exec::LaunchResult result = exec::execute(machine, launch);
  Outcome o;
  if (result.fault) o.fault = result.fault->message.substr(0, result.fault->message.find(':'));
  o.native_blocks = result.native_blocks;
  o.instructions = result.warp_instructions;
  o.interpreted_blocks = result.interpreted_blocks;
  o.resumed = provider.entered();
  const uint32_t* p = reinterpret_cast<uint32_t*>(out);
  o.memory.assign(p, p + kWords);
  return o;
}

inline void same(const std::string& body, exec::Dim3 grid = {2}, exec::Dim3 block = {96}, uint32_t n = 150, const std::string& decls = "", bool waits = false) {
  setenv("ORRERY_CACHE", "off", 1);
  const Outcome a = run(body, grid, block, n, true, decls), b = run(body, grid, block, n, false, decls);
  EXPECT_EQ(a.fault, b.fault);
  if (a.fault.empty()) {
    EXPECT_GT(a.native_blocks, 0u);
  }
  if (a.fault.empty()) {
    EXPECT_EQ(a.memory, b.memory);
    if (!waits) EXPECT_EQ(a.instructions, b.instructions);  // how often a thread looks in vain is nobody's business
  }
}

// %r1 = global thread number, %d1 = &out[%r1], %d2 = &in[%r1], %r2 = in[%r1], %r3 = n
inline const std::string kStart =
    "ld.param.u64 %d10, [out]; ld.param.u64 %d11, [in]; ld.param.u32 %r3, [n];\n"
    "mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ntid.x; mov.u32 %r12, %tid.x; mad.lo.s32 %r1, %r10, %r11, %r12;\n"
    "mul.wide.s32 %d3, %r1, 4; add.s64 %d1, %d10, %d3; add.s64 %d2, %d11, %d3; ld.global.u32 %r2, [%d2];\n";

}  // namespace orrery
