// What may be stored past the host's caches, and that it is there when a launch is over.
#include <gtest/gtest.h>

#include "exec/prepared_launch.h"
#include "jit/plan.h"
#include "jit_run.h"

namespace orrery {
namespace {

const std::string kHead = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)\n{\n"
    ".reg .pred %p<16>; .reg .b32 %r<64>; .reg .b64 %d<32>; .reg .f32 %f<32>;\n";

/// Bytes of a thread that may go past the caches.
uint32_t streamed(const std::string& body) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(kHead + kStart + body + "\n}\n", diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
  lower::Addresses addresses;
  addresses.function.assign(1, 0);
  const auto program = lower::lower_kernel(module, 0, addresses).entry;
  return jit::Plan(*program, {256, 1, 1}).streams.bytes;
}

TEST(Streams, WhatIsStoredOnceAndNotRead) {
  EXPECT_EQ(streamed("st.global.u32 [%d1], %r2; ret;"), 4u);
  EXPECT_EQ(streamed("st.global.u32 [%d1], %r2; st.global.v2.u32 [%d1+64], {%r2, %r2}; ret;"), 12u);
  EXPECT_EQ(streamed("@%p1 st.global.u32 [%d1], %r2; ret;"), 4u) << "whether all lanes store is seen at run time";
}

TEST(Streams, NotWhatTheKernelReads) {
  EXPECT_EQ(streamed("st.global.u32 [%d2], %r2; ret;"), 0u) << "in place";
  EXPECT_EQ(streamed("ld.global.u32 %r4, [%d1+4096]; st.global.u32 [%d1], %r4; ret;"), 0u);
}

TEST(Streams, NotInLoops) {
  EXPECT_EQ(streamed("L: st.global.u32 [%d1], %r2; add.s64 %d1, %d1, 4096; sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L; ret;"), 0u);
}

TEST(Streams, NotWhatOthersWaitFor) {
  EXPECT_EQ(streamed("st.volatile.global.u32 [%d1], %r2; ret;"), 0u);
  EXPECT_EQ(streamed("st.release.gpu.global.u32 [%d1], %r2; ret;"), 0u);
}

TEST(Streams, NotWhereDataDecide) {
  EXPECT_EQ(streamed("mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d10, %d4; st.global.u32 [%d4], %r2; ret;"), 0u);
}

TEST(Streams, NotWhereAPointerMayComeFromElsewhere) {
  EXPECT_EQ(streamed("ld.global.u64 %d6, [%d11]; ld.global.u32 %r4, [%d6]; st.global.u32 [%d1], %r4; ret;"), 0u) << "a pointer from memory may be any";
  EXPECT_EQ(streamed("or.b64 %d6, %d1, 4; st.global.u32 [%d6], %r2; ret;"), 0u);
  EXPECT_EQ(streamed("mul.wide.u32 %d6, %r2, 4; add.s64 %d6, %d11, %d6; ld.global.u32 %r4, [%d6]; st.global.u32 [%d1], %r4; ret;"), 4u)
      << "an index from memory does not make another array";
}

TEST(Streams, NotWhatIsCopiedAsynchronously) {
  EXPECT_EQ(streamed("cp.async.ca.shared.global [%r4], [%d1], 4; st.global.u32 [%d1], %r2; ret;"), 0u);
}

TEST(Streams, ParametersThatAreOneArray) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(kHead + "ret; }\n", diagnostics);
  lower::Addresses addresses;
  addresses.function.assign(1, 0);
  const lower::KernelPrograms programs = lower::lower_kernel(module, 0, addresses);
  exec::DeviceMemory memory;
  exec::Machine machine;
  machine.memory = &memory;
  const uint64_t a = memory.allocate(4096, exec::MemoryKind::device, 0), b = memory.allocate(4096, exec::MemoryKind::device, 0);
  const auto threads = [&](uint64_t out, uint64_t in) {
    exec::Launch launch;
    launch.kernel = exec::make_kernel(programs, addresses);
    launch.grid = {1000, 10};
    launch.block = {256};
    launch.params.resize(20);
    std::memcpy(launch.params.data(), &out, 8);
    std::memcpy(launch.params.data() + 8, &in, 8);
    return exec::PreparedLaunch(machine, launch).context.streaming_threads;
  };
  EXPECT_EQ(threads(a, b), 2560000u);
  EXPECT_EQ(threads(a, a), 0u) << "in place";
  EXPECT_EQ(threads(7, 7), 2560000u) << "numbers, not pointers";
}

/// out[i + shift] = in[i] * 3 for i < n by more threads than kLeast bytes need.
TEST(Streams, LargeGridsStoreEverything) {
  if (!host_has_avx512()) GTEST_SKIP() << "without AVX-512 all stores go to the caches";
  setenv("ORRERY_CACHE", "off", 1);
  const std::string text = kHead +
      "ld.param.u64 %d10, [out]; ld.param.u64 %d11, [in]; ld.param.u32 %r3, [n]; mov.u32 %r10, %ctaid.x; mov.u32 %r12, %tid.x; mad.lo.s32 %r1, %r10, 256, %r12;\n"
      "setp.ge.u32 %p1, %r1, %r3; @%p1 bra END; mul.wide.s32 %d3, %r1, 4; add.s64 %d1, %d10, %d3; add.s64 %d2, %d11, %d3;\n"
      "ld.global.u32 %r2, [%d2]; mul.lo.u32 %r2, %r2, 3; st.global.u32 [%d1], %r2; END: ret; }\n";
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(text, diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << diagnostics[0].message;
  lower::Addresses addresses;
  addresses.function.assign(1, 0);
  const lower::KernelPrograms programs = lower::lower_kernel(module, 0, addresses);
  const uint32_t n = uint32_t(jit::Streams::kLeast / 4) + 1000, threads = (n + 255) / 256 * 256;
  ASSERT_GE(threads, jit::Plan(*programs.entry, {256, 1, 1}).streams.least_threads());
  exec::DeviceMemory memory;
  jit::Compiler compiler(jit::Mode::synchronous);
  exec::Machine machine;
  machine.memory = &memory;
  machine.code = &compiler;
  machine.options.threads = 2;
  const uint64_t out = memory.allocate((n + 64) * 4, exec::MemoryKind::device, 0), in = memory.allocate(n * 4, exec::MemoryKind::device, 0);
  for (uint32_t i = 0; i < n; i++) reinterpret_cast<uint32_t*>(in)[i] = i * 2654435761u;
  for (const uint32_t shift : {0u, 1u, 16u}) {  // lines of the host, parts of lines
    std::memset(reinterpret_cast<void*>(out), 0x55, (n + 64) * 4);
    exec::Launch launch;
    launch.kernel = exec::make_kernel(programs, addresses);
    launch.grid = {threads / 256};
    launch.block = {256};
    launch.params.resize(20);
    const uint64_t to = out + 4 * shift;
    std::memcpy(launch.params.data(), &to, 8);
    std::memcpy(launch.params.data() + 8, &in, 8);
    std::memcpy(launch.params.data() + 16, &n, 4);
    const exec::LaunchResult result = exec::execute(machine, launch);
    ASSERT_FALSE(result.fault) << result.fault->message;
    ASSERT_EQ(result.interpreted_blocks, 0u);
    const auto* p = reinterpret_cast<const uint32_t*>(to);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < n; i++) wrong += p[i] != i * 2654435761u * 3;
    EXPECT_EQ(wrong, 0u) << "shift " << shift;
    EXPECT_EQ(p[n], 0x55555555u) << "nothing past the end";
  }
}

}  // namespace
}  // namespace orrery
