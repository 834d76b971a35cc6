// The local memory of direct calls, against sums of the frames that the PTX declares.
#include "exec/call_stack.h"

#include <gtest/gtest.h>

#include <string>

#include "lower/program.h"
#include "ptx/module.h"

namespace orrery::exec {
namespace {

/// Bytes for a kernel that calls `entry_calls`, where A, B and C have frames of 16, 256 and 4096 bytes and call what is given.
uint64_t bytes(const std::string& entry_calls, const std::string& a, const std::string& b, const std::string& c) {
  auto calls = [](const std::string& names) {
    std::string text;
    for (char name : names) text += std::string("call.uni ") + name + ";\n";
    return text;
  };
  auto function = [&](const char* name, int frame, const std::string& callees) {
    return std::string(".func ") + name + "()\n{\n.local .align 16 .b8 room[" + std::to_string(frame) + "];\n" + calls(callees) + "ret;\n}\n";
  };
  const std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.func A();\n.func B();\n.func C();\n" + function("A", 16, a) +
                           function("B", 256, b) + function("C", 4096, c) + ".visible .entry k()\n{\n" + calls(entry_calls) + "ret;\n}\n";
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(text, diagnostics);
  for (const auto& d : diagnostics) ADD_FAILURE() << d.loc.line << ": " << d.message;
  lower::Addresses addresses;
  addresses.function.assign(module.functions.size(), 0);
  uint32_t kernel = 0;
  while (module.functions[kernel].name != "k") kernel++;
  const lower::KernelPrograms programs = lower::lower_kernel(module, kernel, addresses);
  std::vector<const lower::Program*> functions;
  for (const auto& f : programs.functions) functions.push_back(f.get());
  return deepest_calls(*programs.entry, functions);
}

TEST(CallStack, IsTheDeepestChain) {
  EXPECT_EQ(bytes("A", "", "", ""), 16u);
  EXPECT_EQ(bytes("AB", "", "", ""), 256u);
  EXPECT_EQ(bytes("A", "BC", "", ""), 16u + 4096u);
  EXPECT_EQ(bytes("AB", "C", "A", ""), 16u + 256u + 4096u);
}

TEST(CallStack, CountsARecursiveFunctionOnce) { EXPECT_EQ(bytes("A", "AB", "", ""), 16u + 256u); }

// B in A's cycle is met while A is open, and needs A's other callee all the same when it is called first by the kernel.
TEST(CallStack, OfACycleDoesNotDependOnTheOrderOfCalls) {
  EXPECT_EQ(bytes("AB", "BC", "A", ""), 16u + 256u + 4096u);
  EXPECT_EQ(bytes("BA", "BC", "A", ""), 16u + 256u + 4096u);
  EXPECT_EQ(bytes("AC", "B", "A", "B"), 16u + 256u + 4096u);
  EXPECT_EQ(bytes("CA", "B", "A", "B"), 16u + 256u + 4096u);
}

}  // namespace
}  // namespace orrery::exec
