// Several warps at once between two barriers: which regions, and that they compute what warps compute one after the other.
#include <gtest/gtest.h>

#include "jit/abreast.h"
#include "jit_run.h"

namespace orrery {
namespace {

const std::string kTile = ".shared .align 4 .b8 tile[8192];\n";

/// A chain of `n` multiply-adds on rows of the tile (a number for each warp, %r20; an element for each lane, %r21), between barriers.
std::string chain(int n, const std::string& more = "") {
  std::string s = "bar.sync 0;\n";
  for (int k = 0; k < n; k++)
    s += "ld.shared.f32 %f1, [%r20+" + std::to_string(4 * k) + "]; ld.shared.f32 %f2, [%r21+" + std::to_string(128 * k) + "];\n" + more +
         "fma.rn.f32 %f0, %f1, %f2, %f0;\n";
  return s + "bar.sync 0;\n";
}

/// Each thread's words in the tile, then `region`, then what it has computed. `last`: %r20, where the tile's rows begin for a warp, from %r19, where they do; %d20 where the result goes elsewhere than to %d1.
std::string kernel(const std::string& region, const std::string& last = "mov.u32 %r20, %r19;\n") {
  return kStart + "{ .reg .b32 %t, %w<3>, %l<2>, %a<2>; mov.u32 %t, tile; shl.b32 %a0, %r12, 2; add.u32 %a1, %t, %a0; cvt.rn.f32.s32 %f4, %r2;\n"
         "mul.f32 %f3, %f4, 0f2F800000; st.shared.f32 [%a1], %f3; st.shared.f32 [%a1+4096], %f3;\n"
         "shr.u32 %w0, %r12, 5; shl.b32 %w1, %w0, 7; add.u32 %r19, %t, %w1; and.b32 %l0, %r12, 31; shl.b32 %l1, %l0, 2; add.u32 %r21, %t, %l1; }\n" +
         last + "mov.f32 %f0, 0f3F800000;\n" + region + "st.global.f32 [" + (last.find("%d20") == std::string::npos ? "%d1" : "%d20") + "], %f0; ret;";
}

void agree(const std::string& region, exec::Dim3 block, const std::string& last = "mov.u32 %r20, %r19;\n") { same(kernel(region, last), {2}, block, 150, kTile); }

TEST(Abreast, AnyNumberOfWarps) {
  for (const uint32_t threads : {32u, 96u, 128u, 160u, 224u, 256u, 416u, 1024u}) agree(chain(16), {threads});
}

TEST(Abreast, AWarpThatIsNotWhole) {
  for (const uint32_t threads : {40u, 140u, 250u}) agree(chain(16), {threads});
}

/// The place of the result (%d20) and the tile's row (%r20) by the thread's place in a block of two dimensions; %tid.x is an element's number in a row.
std::string two_dimensional(uint32_t width) {
  return "{ .reg .b32 %y, %i, %o; .reg .b64 %j; mov.u32 %y, %tid.y; mad.lo.u32 %i, %y, " + std::to_string(width) + ", %r12; mul.wide.u32 %j, %i, 4;\n"
         "add.s64 %d20, %d10, %j; shl.b32 %o, %y, 2; add.u32 %r20, %r19, %o; }\n";
}

TEST(Abreast, BlocksOfTwoDimensions) {
  agree(chain(16), {32, 8}, two_dimensional(32));
  agree(chain(16), {16, 16}, two_dimensional(16));
}

TEST(Abreast, WarpsRunInTurns) {
  // Each warp stores its number in a row that all share and reads it after a chain: another's is there when they take turns
  // (the kernel has a race, so either is right).
  if (!host_has_avx512()) GTEST_SKIP() << "without AVX-512 warps run one after the other";
  std::string region = chain(16);
  const std::string own = "shr.u32 %r30, %r12, 5; cvt.rn.f32.u32 %f8, %r30;\n", store = "st.shared.f32 [%r21+4096], %f8;\n";
  region.insert(region.find("ld.shared"), store);
  region.insert(region.rfind("bar.sync"), "ld.shared.f32 %f9, [%r21+4096];\n");
  setenv("ORRERY_CACHE", "off", 1);
  const Outcome o = run(kernel(own + region + "mov.f32 %f0, %f9;\n"), {1}, {256}, 150, true, kTile);
  ASSERT_EQ(o.fault, "");
  ASSERT_EQ(o.native_blocks, 1u);
  int others = 0;
  for (uint32_t t = 0; t < 256; t += 32) {
    float seen;
    std::memcpy(&seen, &o.memory[t], 4);
    others += seen != float(t / 32);
  }
  EXPECT_EQ(others, 6) << "of four warps that go abreast, the last one's number stays";
}

TEST(Abreast, WhatAWarpStoresItReadsAgain) {
  agree(chain(12, "st.shared.f32 [%r22+4096], %f0; ld.shared.f32 %f5, [%r22+4096]; mul.f32 %f2, %f2, %f5;\n"), {256},
        "mov.u32 %r20, %r19; mov.u32 %r24, tile; shl.b32 %r23, %r12, 2; add.u32 %r22, %r24, %r23;\n");
}

TEST(Abreast, OnePhaseAfterAnother) { agree(chain(16) + "add.f32 %f0, %f0, %f3;\n" + chain(9) + chain(20), {256}); }

TEST(Abreast, OnlySomeWarpsOutsideTheTile) {
  // From the sixth warp on rows begin past the end: the fault is that of a warp on its own.
  agree(chain(16), {256}, "{ .reg .pred %q; setp.lt.u32 %q, %r12, 160; selp.u32 %r25, 0, 0x30000, %q; add.u32 %r20, %r19, %r25; }\n");
}

/// Whether the kernel's region after its first barrier goes abreast.
bool goes(const std::string& region, uint32_t threads = 256) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n" + kTile +
      ".visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)\n{\n"
      ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %d<32>; .reg .f32 %f<32>; .reg .f64 %g<8>;\n" + kernel(region) + "\n}\n", diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
  lower::Addresses addresses;
  addresses.var.assign(module.vars.size(), 0);
  addresses.function.assign(module.functions.size(), 0);
  const auto program = lower::lower_kernel(module, 0, addresses).entry;
  const jit::Plan plan(*program, {threads, 1, 1});
  for (uint32_t r = 0; r < plan.entries.size(); r++) {
    if (!plan.after_barrier[r]) continue;
    const auto ends = [&](uint32_t i) { return plan.ends_before(r, i); };
    return jit::goes_abreast(plan, lower::make_schedule(*program, plan.entries[r], ends, plan.uniformity.divergent), r);
  }
  return false;
}

TEST(Abreast, ChainsOfArithmetic) {
  EXPECT_TRUE(goes(chain(16)));
  EXPECT_FALSE(goes(chain(4))) << "too short to wait for";
  EXPECT_FALSE(goes(chain(16), 250)) << "a warp is not whole";
}

TEST(Abreast, NotWhereWorkIsThereWithoutIt) {
  const std::string sums = "fma.rn.f32 %f5, %f1, %f2, %f5; fma.rn.f32 %f6, %f1, %f2, %f6; fma.rn.f32 %f7, %f1, %f2, %f7;\n";
  EXPECT_FALSE(goes("mov.f32 %f5, 0f00000000; mov.f32 %f6, %f5; mov.f32 %f7, %f5;\n" + chain(16, sums)));
}

TEST(Abreast, OnlyRegistersAndSharedMemory) {
  EXPECT_FALSE(goes(chain(16, "ld.global.f32 %f4, [%d2];\n"))) << "a page may be missing";
  EXPECT_FALSE(goes(chain(16, "ld.volatile.shared.f32 %f4, [%r21];\n")));
  EXPECT_FALSE(goes(chain(16, "@%p1 ld.shared.f32 %f2, [%r21];\n")));
  EXPECT_FALSE(goes(chain(16, "add.u32 %r20, %r20, 4;\n"))) << "the address is not known before";
  EXPECT_FALSE(goes(chain(16, "mul.ftz.f32 %f4, %f1, %f2;\n"))) << "near the smallest normal number the interpreter decides";
}

}  // namespace
}  // namespace orrery
