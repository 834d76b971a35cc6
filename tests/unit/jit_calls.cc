// Calls that became jumps (lower/merge_calls.h), compiled: results against the same functions in C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "exec/launch.h"
#include "jit/compiler.h"
#include "lower/merge_calls.h"
#include "lower/placement.h"
#include "ptx/module.h"

namespace orrery {
namespace {

constexpr uint32_t kThreads = 64;

// Every function: (.param .b32 r) f (.param .b32 a, .param .b32 b).
const std::string kFunctions = R"(
.func (.param .b32 r) power (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y, %i; .reg .pred %q;
  ld.param.b32 %x, [a]; ld.param.b32 %i, [b]; and.b32 %i, %i, 15; mov.b32 %y, 1;
  LOOP: setp.eq.s32 %q, %i, 0; @%q bra DONE; mul.lo.s32 %y, %y, %x; sub.s32 %i, %i, 1; bra LOOP;
  DONE: st.param.b32 [r], %y; ret;
}
.func (.param .b32 r) less (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y; ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; sub.s32 %x, %x, %y; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) depth (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y; .reg .pred %q;
  ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; and.b32 %y, %y, 7; setp.eq.s32 %q, %y, 0; @%q bra END; sub.s32 %y, %y, 1;
  { .param .b32 p; .param .b32 s; .param .b32 t; st.param.b32 [p], %x; st.param.b32 [s], %y; call.uni (t), depth, (p, s); ld.param.b32 %x, [t]; }
  mad.lo.s32 %x, %x, 3, %y;
  END: st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) faulty (.param .b32 a, .param .b32 b) {
  .reg .b32 %x; .reg .b64 %z; mov.b64 %z, 16; ld.global.b32 %x, [%z]; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) huge (.param .b32 a, .param .b32 b) {
  .local .align 16 .b8 room[3000000000]; .reg .b32 %x, %at; mov.b32 %at, room; st.local.b32 [%at], %at; ld.local.b32 %x, [%at]; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) huger (.param .b32 a, .param .b32 b) {
  .local .align 16 .b8 room[3000000000]; .reg .b32 %x, %at; mov.b32 %at, room; st.local.b32 [%at], %at;
  { .param .b32 p; .param .b32 s; .param .b32 t; st.param.b32 [p], %at; st.param.b32 [s], %at; call.uni (t), huge, (p, s); ld.param.b32 %x, [t]; }
  st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) other (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y; ld.param.b32 %x, [a]; shfl.sync.bfly.b32 %y, %x, 1, 31, -1; st.param.b32 [r], %y; ret;
}
.global .align 8 .u64 choices[4] = {power, less, depth, power};
)";
const std::string kPass = ".param .b32 p; .param .b32 s; .param .b32 t; st.param.b32 [p], %a; st.param.b32 [s], %b; ";
std::string direct(const std::string& f, const std::string& guard = "") { return "{ " + kPass + guard + "call (t), " + f + ", (p, s); " + guard + "ld.param.b32 %r, [t]; }\n"; }
std::string by_pointer(const std::string& index) {
  return "mul.wide.u32 %at, " + index + ", 8; mov.u64 %to, choices; add.s64 %at, %at, %to; ld.global.u64 %to, [%at];\n{ " + kPass +
         "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); call (t), %to, (p, s), P; ld.param.b32 %r, [t]; }\n";
}

uint32_t power(uint32_t a, uint32_t b) {
  uint32_t y = 1;
  for (uint32_t i = b & 15; i; i--) y *= a;
  return y;
}
uint32_t depth(uint32_t a, uint32_t b) { return (b & 7) == 0 ? a : depth(a, (b & 7) - 1) * 3 + (b & 7) - 1; }
uint32_t chosen(uint32_t k, uint32_t a, uint32_t b) { return k == 1 ? a - b : k == 2 ? depth(a, b) : power(a, b); }

struct Outcome {
  std::vector<uint32_t> out;
  std::optional<exec::Fault> fault;
  bool has_calls = false;
  uint64_t native_blocks = 0;
};

/// %t thread, %a and %b what is called with, %r what is stored for the thread.
Outcome run(const std::string& body) {
  setenv("ORRERY_CACHE", "off", 1);
  const std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n" + kFunctions +
      ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<4>; .reg .b32 %t, %a, %b, %r, %i<4>; .reg .b64 %out, %d, %at, %to;\n"
      "ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 4; add.s64 %out, %out, %d; mad.lo.s32 %a, %t, 7, 3; xor.b32 %b, %t, 21; mov.b32 %r, 0;\n" +
      body + "st.global.b32 [%out], %r; ret;\n}\n";
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(text, diagnostics);
  for (const auto& d : diagnostics) ADD_FAILURE() << d.loc.line << ": " << d.message;
  exec::DeviceMemory memory;
  const lower::Addresses addresses =
      lower::place_variables(module, [&](const ptx::Var*, uint64_t bytes, uint64_t align) { return memory.allocate(bytes, exec::MemoryKind::module, 0, align); });
  const uint32_t kernel = uint32_t(std::ranges::find(module.functions, true, &ptx::Function::is_entry) - module.functions.begin());
  lower::KernelPrograms programs = lower::lower_kernel(module, kernel, addresses);
  lower::merge_calls(programs, kernel, addresses);
  jit::Compiler compiler(jit::Mode::synchronous);
  exec::Machine machine;
  machine.memory = &memory;
  machine.code = &compiler;
  machine.options.threads = 1;
  const uint64_t out = memory.allocate(kThreads * 4, exec::MemoryKind::device, 0);
  exec::Launch launch;
  launch.kernel = exec::make_kernel(programs, addresses);
  launch.block = {kThreads, 1, 1};
  launch.params.resize(8);
  std::memcpy(launch.params.data(), &out, 8);
  const exec::LaunchResult result = exec::execute(machine, launch);
  const uint32_t* words = reinterpret_cast<const uint32_t*>(out);
  return {{words, words + kThreads}, result.fault, programs.entry->has_calls, result.native_blocks};
}

void expect(const std::string& body, bool calls_remain, const std::function<uint32_t(uint32_t t, uint32_t a, uint32_t b)>& want) {
  const Outcome o = run(body);
  EXPECT_FALSE(o.fault) << o.fault->message;
  EXPECT_EQ(o.has_calls, calls_remain);
  EXPECT_EQ(o.native_blocks, 1u);
  for (uint32_t t = 0; t < kThreads; t++) ASSERT_EQ(o.out[t], want(t, t * 7 + 3, t ^ 21)) << "thread " << t;
}

TEST(MergedCalls, Direct) {
  expect(direct("power") + "mov.b32 %a, %r;\n" + direct("less"), false, [](uint32_t, uint32_t a, uint32_t b) { return power(a, b) - b; });
}

TEST(MergedCalls, OfSomeLanes) {
  expect("and.b32 %i0, %t, 3; setp.eq.s32 %p1, %i0, 1;\n" + direct("power", "@%p1 ") + "@%p1 bra E; mov.b32 %i1, 5;\n" + direct("less") + "E: add.s32 %r, %r, %t;\n", false,
         [](uint32_t t, uint32_t a, uint32_t b) { return ((t & 3) == 1 ? power(a, b) : a - b) + t; });
}

// Lanes come to the call in different iterations of a loop and from different places.
TEST(MergedCalls, InALoop) {
  expect("mov.b32 %i0, 0; mov.b32 %i2, 0;\nL: and.b32 %i1, %i0, 1; setp.eq.s32 %p1, %i1, 0; @%p1 bra EVEN;\n" + direct("less") + "bra J;\nEVEN:\n" + direct("power") +
             "J: add.s32 %i2, %i2, %r; mov.b32 %a, %i2; add.s32 %i0, %i0, 1; and.b32 %i1, %t, 7; setp.le.u32 %p2, %i0, %i1; @%p2 bra L; mov.b32 %r, %i2;\n",
         false, [](uint32_t t, uint32_t a, uint32_t b) {
           uint32_t sum = 0;
           for (uint32_t i = 0; i <= (t & 7); i++) a = sum += i & 1 ? a - b : power(a, b);
           return sum;
         });
}

TEST(MergedCalls, ThroughPointersThatLanesDoNotShare) {
  expect("and.b32 %i0, %t, 3;\n" + by_pointer("%i0"), true, [](uint32_t t, uint32_t a, uint32_t b) { return chosen(t & 3, a, b); });
}

TEST(MergedCalls, ThroughOnePointer) {
  expect("mov.b32 %i0, 1;\n" + by_pointer("%i0"), true, [](uint32_t, uint32_t a, uint32_t b) { return a - b; });
}

TEST(MergedCalls, OfAFunctionThatCallsItself) {
  expect(direct("depth"), true, [](uint32_t, uint32_t a, uint32_t b) { return depth(a, b); });
}

// Addresses of local memory that are taken apart are addresses, not offsets.
TEST(MergedCalls, PointersIntoTheFrameThatAreTakenApart) {
  expect(".local .align 8 .b8 room[16]; .reg .b64 %q<3>; .reg .b32 %l<4>;\n"
         "mov.u64 %q0, room; cvta.local.u64 %q1, %q0; st.b32 [%q1], %a; st.b32 [%q1+4], %b; mov.b64 {%l0, %l1}, %q1; mov.b64 %q2, {%l0, %l1};\n" +
             direct("power") + "ld.b32 %l2, [%q2+4]; ld.b32 %l3, [%q1]; sub.s32 %r, %r, %l2; add.s32 %r, %r, %l3;\n",
         false, [](uint32_t, uint32_t a, uint32_t b) { return power(a, b) - b + a; });
}

// Both arms call the function, in which their lanes exchange: it has one place.
TEST(MergedCalls, LanesOfTwoPlacesExchange) {
  expect("and.b32 %i0, %t, 1; setp.eq.s32 %p1, %i0, 0; @%p1 bra EVEN;\n" + direct("other") + "bra J;\nEVEN:\n" + direct("other") + "J: add.s32 %r, %r, %b;\n", false,
         [](uint32_t t, uint32_t, uint32_t b) { return (t ^ 1) * 7 + 3 + b; });
}

TEST(MergedCalls, AFaultNamesTheFunctionThatWasCalled) {
  const Outcome o = run(direct("faulty"));
  ASSERT_TRUE(o.fault);
  EXPECT_EQ(o.fault->function, "faulty");
  EXPECT_THAT(o.fault->message, testing::HasSubstr("ld.global.b32 %x, [%z]"));
}

TEST(MergedCalls, APointerToNothingIsAnInvalidPc) {
  const Outcome o = run("mov.b64 %to, 64;\n{ " + kPass + "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); call (t), %to, (p, s), P; ld.param.b32 %r, [t]; }\n");
  ASSERT_TRUE(o.fault);
  EXPECT_EQ(o.fault->kind, exec::FaultKind::invalid_pc);
}

TEST(MergedCalls, FramesBeyondAllMemoryAreNamed) {
  try {
    run(direct("huger"));
    FAIL() << "launched";
  } catch (const base::Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("bytes of local memory per thread"));
  }
}

}  // namespace
}  // namespace orrery
