// The C++ interface orrery/gpu.h as its users see it: this program knows include/orrery only and links liborrery.so.
#include "orrery/gpu.h"

#include <gmock/gmock.h>

#include <string>

namespace {

using orrery::Error;
using orrery::Gpu;
using orrery::Kernel;
using orrery::LaunchReport;
using orrery::Module;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .entry scale(.param .u64 x, .param .f32 a, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %d<4>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p ret;
  ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
  ld.param.f32 %f1, [a]; ld.global.f32 %f2, [%d1]; mul.f32 %f2, %f2, %f1; st.global.f32 [%d1], %f2;
  ret;
}
.visible .entry wild()
{
  .reg .b64 %d<2>;
  mov.u64 %d1, 4096; st.global.u32 [%d1], 7;
  ret;
}
)";

TEST(GpuLibrary, RunsAKernelOnMemoryThatTheHostWrites) {
  Gpu gpu;
  float* x = static_cast<float*>(gpu.allocate(1000 * sizeof(float)));
  for (int i = 0; i < 1000; i++) x[i] = float(i);
  const LaunchReport report = gpu.load(kText).kernel("scale").launch({.grid = {4}, .block = {256}}, {x, 2.5f, 1000u});
  ASSERT_FALSE(report.fault) << report.fault->message;
  EXPECT_GT(report.warp_instructions, 0u);
  for (int i = 0; i < 1000; i++) ASSERT_EQ(x[i], 2.5f * float(i)) << i;
  gpu.release(x);
}

TEST(GpuLibrary, NamesKernelsParametersAndVariables) {
  Gpu gpu;
  const Module module = gpu.load(kText);
  EXPECT_THAT(module.kernels(), ElementsAre("scale", "wild"));
  EXPECT_THAT(module.kernel().parameter_sizes(), ElementsAre(8u, 4u, 4u));
  size_t bytes = 0;
  const auto* table = static_cast<const uint32_t*>(module.variable("table", &bytes));
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(bytes, 16u);
  EXPECT_EQ(table[2], 30u);
  EXPECT_EQ(module.variable("nothing"), nullptr);
}

TEST(GpuLibrary, AFaultNamesKernelLineAndAddress) {
  Gpu gpu;
  const LaunchReport report = gpu.load(kText).kernel("wild").launch({}, {});
  ASSERT_TRUE(report.fault);
  EXPECT_EQ(report.fault->kind, "illegal address");
  EXPECT_EQ(report.fault->kernel, "wild");
  EXPECT_EQ(report.fault->ptx_line, 18u);
  EXPECT_EQ(report.fault->address, 4096u);
}

TEST(GpuLibrary, ChecksNameTheMistake) {
  Gpu gpu({.checks = "memcheck"});
  auto* x = static_cast<float*>(gpu.allocate(100 * sizeof(float)));
  const Kernel scale = gpu.load(kText).kernel("scale");
  EXPECT_FALSE(scale.launch({.block = {128}}, {x, 2.0f, 100u}).fault);
  EXPECT_TRUE(gpu.check_report().findings.empty());
  scale.launch({.block = {128}}, {x, 2.0f, 101u});
  const orrery::CheckReport report = gpu.check_report();
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].check, "memcheck");
  EXPECT_EQ(report.findings[0].ptx_line, 12u);
  EXPECT_THAT(report.text, HasSubstr("400-byte device allocation"));
}

TEST(GpuLibrary, AKernelOutlivesTheHandlesItCameFrom) {
  Kernel kernel = [] {
    Gpu gpu;
    return gpu.load(kText).kernel("scale");
  }();
  EXPECT_EQ(kernel.name(), "scale");
  EXPECT_FALSE(kernel.launch({}, {static_cast<float*>(nullptr), 1.0f, 0u}).fault);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "(no error)";
}

TEST(GpuLibrary, RefusesWhatCannotBeDoneByName) {
  EXPECT_THAT(error_of([] { Gpu gpu({.profile = "h9000"}); }), HasSubstr("h9000"));
  Gpu gpu;
  EXPECT_THAT(error_of([&] { gpu.load(".version 8.0\n.target sm_90\nnonsense\n", "bad.ptx"); }), HasSubstr("bad.ptx:3:1"));
  const Module module = gpu.load(kText);
  EXPECT_THAT(error_of([&] { module.kernel("gale"); }), HasSubstr("scale wild"));
  const Kernel kernel = module.kernel("scale");
  EXPECT_THAT(error_of([&] { kernel.launch({}, {1.0f}); }), HasSubstr("takes 3 arguments, 1 given"));
  EXPECT_THAT(error_of([&] { kernel.launch({}, {1.0f, 1.0f, 1.0f}); }), HasSubstr("argument 0 has 4 bytes, the parameter 8"));
  EXPECT_THAT(error_of([&] { kernel.launch({.block = {2048}}, {uint64_t{0}, 1.0f, 0u}); }), HasSubstr("beyond the limits of h200"));
  EXPECT_THAT(error_of([&] { gpu.allocate(0); }), HasSubstr("0 bytes"));
  EXPECT_THAT(error_of([&] { gpu.allocate(size_t{1} << 50); }), HasSubstr("do not fit"));
  int host = 0;
  EXPECT_THAT(error_of([&] { gpu.release(&host); }), HasSubstr("not the start"));
}

TEST(GpuLibrary, AnEndlessKernelIsStoppedByTheTimeout) {
  Gpu gpu({.timeout_seconds = 0.2});
  const LaunchReport report =
      gpu.load(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f()\n{\nLOOP: bra LOOP;\n}\n").kernel().launch({}, {});
  ASSERT_TRUE(report.fault);
  EXPECT_THAT(report.fault->kind, testing::AnyOf("timeout", "hang"));
}

}  // namespace
