// Which instructions touch the accumulators of a wgmma between its issue and its wait.
#include <gtest/gtest.h>

#include "lower/in_flight.h"
#include "ptx/module.h"

namespace orrery::lower {
namespace {

InFlight flights(const std::string& body) {
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 n) {\n"
                                        ".reg .f32 %f<12>; .reg .b64 %d, %p; .reg .b32 %n; .reg .pred %q;\nld.param.u64 %p, [out]; ld.param.u32 %n, [n]; mov.b64 %d, 0;\n"
                                        "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;\n" +
                                            body + "st.global.f32 [%p], %f0; st.global.f32 [%p], %f1; st.global.f32 [%p], %f2; st.global.f32 [%p], %f3; ret; }\n",
                                        diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
  Addresses addresses;
  addresses.function.assign(module.functions.size(), 0);
  return find_in_flight(*lower_kernel(module, 0, addresses).entry);
}

const std::string kFirst = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d, %d, 1, 1, 1, 0, 0;\n";
const std::string kSecond = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f4, %f5, %f6, %f7}, %d, %d, 1, 1, 1, 0, 0;\n";
const std::string kCommit = "wgmma.commit_group.sync.aligned;\n";
std::string wait(int n) { return "wgmma.wait_group.sync.aligned " + std::to_string(n) + ";\n"; }

TEST(InFlight, EndsAtTheWait) {
  const InFlight f = flights(kFirst + kFirst + kCommit + wait(0) + "add.f32 %f0, %f0, %f1;\n");
  EXPECT_EQ(f.wgmmas, 2u);
  EXPECT_TRUE(f.apart());
}

TEST(InFlight, UsesBeforeTheWaitAreFound) {
  EXPECT_NE(flights(kFirst + kCommit + "add.f32 %f0, %f0, %f1;\n" + wait(0)).touched, UINT32_MAX);
  EXPECT_NE(flights(kFirst + kCommit + "mov.f32 %f0, 0f00000000;\n" + wait(0)).touched, UINT32_MAX);
  const InFlight copied = flights(kFirst + kCommit + "mov.f32 %f8, %f1;\n" + wait(0) + "st.global.f32 [%p], %f8;\n");
  EXPECT_EQ(copied.touched, UINT32_MAX);
  EXPECT_NE(copied.copied, UINT32_MAX);
  EXPECT_FALSE(flights(kFirst + wait(0) + kCommit).apart()) << "the wait comes before the commit";
}

TEST(InFlight, GroupsEndInOrder) {
  const std::string issue = kFirst + kCommit + kSecond + kCommit + wait(1);
  EXPECT_TRUE(flights(issue + "add.f32 %f0, %f0, %f1;\n" + wait(0)).apart());
  EXPECT_FALSE(flights(issue + "add.f32 %f4, %f4, %f5;\n" + wait(0)).apart());
}

TEST(InFlight, GoesAroundLoops) {
  const std::string loop = "AGAIN:\n" + kFirst + kCommit, back = "sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra AGAIN;\n";
  EXPECT_TRUE(flights(loop + wait(1) + back + wait(0)).apart());
  EXPECT_FALSE(flights(loop + back + "add.f32 %f0, %f0, %f1;\n" + wait(0)).apart());
  EXPECT_FALSE(flights("AGAIN:\nadd.f32 %f0, %f0, %f1;\n" + kFirst + kCommit + wait(1) + back + wait(0)).apart());
}

}  // namespace
}  // namespace orrery::lower
