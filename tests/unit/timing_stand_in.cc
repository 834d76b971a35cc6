// Tests of the stand-in for ptxas: what PTX becomes without an assembler. Expected instructions are those that ptxas 13.0
// makes of the same text for sm_90a.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lower/program.h"
#include "ptx/parser.h"
#include "timing/stand_in.h"

namespace orrery::timing {
namespace {

struct Made {
  explicit Made(const std::string& body) {
    std::vector<ptx::Diagnostic> diagnostics;
    module = ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<400>; .reg .pred %p<4>;\n.shared .align 16 .b8 s[4096];\n" +
                            body + "\nret;\n}\n",
                        diagnostics);
    EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
    lower::Addresses addresses;
    addresses.var.assign(module.vars.size(), 0);
    addresses.function.assign(module.functions.size(), 0);
    programs = lower::lower_kernel(module, 0, addresses);
    made = stand_in_for(*programs.entry, 0);
  }
  size_t count(Class c) const {
    size_t n = 0;
    for (const MachineInstruction& m : made.code) n += m.kind == c;
    return n;
  }
  const MachineInstruction& first(Class c) const {
    for (const MachineInstruction& m : made.code)
      if (m.kind == c) return m;
    ADD_FAILURE() << "none of " << name_of(c);
    return made.code[0];
  }
  ptx::Module module;
  lower::KernelPrograms programs;
  StandIn made;
};

TEST(StandIn, AddressesOfElementsAreOneInstruction) {
  const Made m("ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, %tid.x; mul.wide.s32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;\n"
               "ld.global.f32 %f1, [%rd4]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd4], %f2;");
  EXPECT_EQ(m.count(Class::imad_wide), 1u);
  EXPECT_EQ(m.count(Class::load), 1u);
  EXPECT_EQ(m.count(Class::store), 1u);
  EXPECT_EQ(m.count(Class::fma), 1u);
  EXPECT_EQ(m.count(Class::special_register), 1u);
  EXPECT_EQ(m.made.code.size(), 6u);  // S2R, IMAD.WIDE, LDG, FADD, STG, EXIT
}

TEST(StandIn, UsesOfALoadWaitForIt) {
  const Made m("ld.param.u64 %rd1, [p]; ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd1+4], %f2;");
  const MachineInstruction &load = m.first(Class::load), &sum = m.first(Class::fma);
  ASSERT_LT(load.i.write_barrier, 6);
  EXPECT_TRUE(sum.i.wait_mask >> load.i.write_barrier & 1);
}

TEST(StandIn, FixedLatencyIsInTheStallCount) {
  const Made m("ld.param.u64 %rd1, [p]; mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, %f1; mul.f32 %f3, %f2, %f2; st.global.f32 [%rd1], %f3;");
  EXPECT_EQ(m.first(Class::fma).i.stall, 4);  // latency of FADD: 4 cycles [calib/raw ffma chain]
}

TEST(StandIn, NeighbouringSharedLoadsBecomeOne) {
  const Made m("ld.param.u64 %rd1, [p]; mov.u32 %r1, s; ld.shared.f32 %f1, [%r1]; ld.shared.f32 %f2, [%r1+4]; ld.shared.f32 %f3, [%r1+8]; ld.shared.f32 %f4, [%r1+12];\n"
               "add.f32 %f5, %f1, %f2; add.f32 %f6, %f3, %f4; add.f32 %f7, %f5, %f6; st.global.f32 [%rd1], %f7;");
  EXPECT_EQ(m.count(Class::shared_load), 1u);
  EXPECT_EQ(m.first(Class::shared_load).width, 16);
}

TEST(StandIn, LoadsComeEarlyAsFarAsRegistersAllow) {
  std::string body = "ld.param.u64 %rd1, [p];\n", sums = "mov.f32 %f1, 0f00000000;\n";
  for (int k = 0; k < 96; k++) {
    body += fmt::format("ld.global.f32 %f{}, [%rd1+{}];\n", k + 2, k * 1024);
    sums += fmt::format("fma.rn.f32 %f1, %f{0}, %f{0}, %f1;\n", k + 2);
  }
  const Made m(body + sums + "st.global.f32 [%rd1+4], %f1;");
  EXPECT_NEAR(m.made.registers, 30, 8);  // ptxas: 30
}

TEST(StandIn, SumsInOneRegisterAfterAnotherAreNotLiveTogether) {
  // Eight steps of an 8 x 8 tile of sums: a register is written eight times in a block.
  std::string body = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; mov.u32 %r3, 0; mul.wide.u32 %rd2, %r1, 64;\n"
                     "add.s64 %rd2, %rd1, %rd2;\n";
  for (int i = 0; i < 64; i++) body += fmt::format("mov.f32 %f{}, 0f00000000;\n", 300 + i);
  body += "L:\n";
  for (int k = 0; k < 8; k++) {
    for (int i = 0; i < 8; i++) body += fmt::format("ld.shared.f32 %f{}, [%r2+{}]; ld.shared.f32 %f{}, [%r2+{}];\n", 1 + i, k * 512 + i * 4, 11 + i, k * 512 + 256 + i * 4);
    for (int i = 0; i < 64; i++) body += fmt::format("fma.rn.f32 %f{0}, %f{1}, %f{2}, %f{0};\n", 300 + i, 1 + i / 8, 11 + i % 8);
  }
  body += "add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 100; @%p1 bra L;\n";
  for (int i = 0; i < 64; i++) body += fmt::format("st.global.f32 [%rd2+{}], %f{};\n", i * 4, 300 + i);
  const Made m(body);
  EXPECT_NEAR(m.made.registers, 92, 8);  // ptxas: 92
}

TEST(StandIn, StoresKeepLoadsBehindThem) {
  const Made m("mov.u32 %r1, s; ld.param.u64 %rd1, [p]; mov.u32 %r2, %tid.x; st.shared.u32 [%r1], %r2; bar.sync 0; ld.shared.u32 %r3, [%r1+64]; st.global.u32 [%rd1], %r3;");
  size_t store = 0, barrier = 0, load = 0;
  for (size_t i = 0; i < m.made.code.size(); i++) {
    if (m.made.code[i].kind == Class::shared_store) store = i;
    if (m.made.code[i].kind == Class::barrier) barrier = i;
    if (m.made.code[i].kind == Class::shared_load) load = i;
  }
  EXPECT_LT(store, barrier);
  EXPECT_LT(barrier, load);
}

TEST(StandIn, OneLaneWorksForAWarpOnASharedAddress) {
  const Made m("ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; red.global.add.u32 [%rd2], 1;");
  EXPECT_TRUE(m.first(Class::atomic).aggregated);
}

}  // namespace
}  // namespace orrery::timing
