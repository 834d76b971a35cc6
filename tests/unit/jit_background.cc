// Compilation in the background: what is waited for, and what is not.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "jit_run.h"

namespace orrery {
namespace {

struct Lowered {
  std::unique_ptr<const ptx::Module> module;
  std::shared_ptr<const lower::Program> entry;
};

Lowered lowered(const std::string& body) {
  std::vector<ptx::Diagnostic> diagnostics;
  auto module = std::make_unique<const ptx::Module>(ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
                                        ".reg .pred %p<4>; .reg .b32 %r<2048>; .reg .b64 %d<4>;\n" + body + "\n}\n", diagnostics));
  for (const auto& d : diagnostics) ADD_FAILURE() << d.loc.line << ": " << d.message;
  lower::Addresses addresses;
  addresses.function.assign(module->functions.size(), 0);
  auto entry = lower::lower_kernel(*module, 0, addresses).entry;
  return {std::move(module), std::move(entry)};
}

Lowered small() { return lowered("ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; st.global.u32 [%d1], %r1; ret;"); }

/// LLVM is at this one for half a minute: thousands of branches over thousands of registers.
Lowered large() {
  std::string body = "ld.param.u64 %d1, [out]; mov.u32 %r0, %tid.x;\n";
  for (int i = 1; i < 2000; i++) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1), label = "L" + n;
    body += "mov.u32 %r" + n + ", " + n + "; setp.gt.u32 %p1, %r" + before + ", " + n + "; @%p1 bra " + label + ";\n" +
            "mad.lo.u32 %r" + n + ", %r" + before + ", %r" + std::to_string(i / 2) + ", %r0; st.global.u32 [%d1], %r" + n + ";\n" + label + ":\n";
  }
  return lowered(body + "ret;");
}

class JitBackground : public testing::Test {
 protected:
  JitBackground() {
    setenv("ORRERY_CACHE", "off", 1);
    setenv("ORRERY_JIT_TIER", "full", 1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  ~JitBackground() override { unsetenv("ORRERY_JIT_TIER"); }
};

TEST_F(JitBackground, CodeIsThereLater) {
  const auto program = small();
  jit::Compiler compiler(jit::Mode::background);
  EXPECT_EQ(compiler.code_for(*program.entry, {32}), nullptr);
  compiler.finish();
  EXPECT_NE(compiler.code_for(*program.entry, {32}), nullptr);
  EXPECT_NE(compiler.wait_for_code(*program.entry, {64}), nullptr);
}

/// A kernel that is waited for does not wait for others, and the end of the process waits for none.
TEST_F(JitBackground, NobodyWaitsForALargeKernel) {
  const auto a = small(), b = large();
  const auto end_early = [&] {
    auto compiler = std::make_unique<jit::Compiler>(jit::Mode::background);
    compiler->code_for(*b.entry, {32});
    const bool ready = compiler->wait_for_code(*a.entry, {32}) != nullptr, before = compiler->code_for(*b.entry, {32}) != nullptr;
    std::this_thread::sleep_for(std::chrono::seconds(1));  // by then it is in LLVM
    compiler->abandon();
    const bool after = compiler->code_for(*b.entry, {32}) != nullptr;
    compiler.reset();
    std::exit(ready && !before && !after ? 0 : 1);
  };
  EXPECT_EXIT(end_early(), testing::ExitedWithCode(0), "");
}

/// The same where a launch's own thread compiles.
TEST_F(JitBackground, TheEndDoesNotWaitForALaunch) {
  const auto b = large();
  const auto end_early = [&] {
    auto compiler = std::make_unique<jit::Compiler>(jit::Mode::synchronous);
    std::thread([&] { compiler->code_for(*b.entry, {32}); }).detach();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    compiler->abandon();
    compiler.reset();
    std::exit(0);
  };
  EXPECT_EXIT(end_early(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace orrery
