// Which variable or parameter an address comes from.
#include <gtest/gtest.h>

#include "lower/shared_origin.h"
#include "ptx/module.h"

namespace orrery::lower {
namespace {

constexpr const char* kHead = ".version 8.0\n.target sm_90\n.address_size 64\n";

struct Lowered {
  ptx::Module module;
  KernelPrograms programs;
  explicit Lowered(const std::string& body) {
    std::vector<ptx::Diagnostic> diagnostics;
    module = ptx::parse(kHead + body, diagnostics);
    EXPECT_TRUE(diagnostics.empty()) << (diagnostics.empty() ? "" : diagnostics[0].message);
    Addresses addresses;
    addresses.var.assign(module.vars.size(), 0);
    addresses.function.assign(module.functions.size(), 0);
    programs = lower_kernel(module, 0, addresses);
  }
  const Program& program() const { return *programs.entry; }
  /// Of the n-th load or store from or to shared memory.
  std::string origin(size_t n) const {
    const auto origins = find_shared_origins(program());
    for (size_t i = 0; i < origins.size(); i++) {
      const isa::Form& f = program().code[i].form;
      const bool shared = (f.op == isa::Op::ld || f.op == isa::Op::st) && f.n_spaces && f.space() == isa::Space::shared;
      if (shared && n-- == 0) return origins[i] ? program().shared_vars[origins[i] - 1].name : "";
    }
    return "none";
  }
};

TEST(SharedOrigins, FollowSumsAndLoops) {
  const Lowered k(R"(.visible .entry k(.param .u32 n, .param .u64 p) {
    .shared .align 4 .b8 low[64];
    .shared .align 4 .b8 high[64];
    .reg .b32 %r<20>; .reg .b64 %d<4>; .reg .pred %q;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, low;
    mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3+4], %r1;
    mov.u32 %r4, high;
    st.shared.u32 [%r4], %r1;
    xor.b32 %r5, %r4, 16;
    st.shared.u32 [%r5], %r1;
    sub.u32 %r6, %r4, %r2;
    add.u32 %r7, %r2, %r6;
    st.shared.u32 [%r7], %r1;
    selp.b32 %r8, %r2, %r4, %q;
    st.shared.u32 [%r8], %r1;
    ld.shared.u32 %r9, [low];
    add.u32 %r10, %r2, %r9;
    st.shared.u32 [%r10], %r1;
    ret; })");
  EXPECT_EQ(k.origin(0), "low");
  EXPECT_EQ(k.origin(1), "high");
  EXPECT_EQ(k.origin(2), "") << "other arithmetic may lead anywhere";
  EXPECT_EQ(k.origin(3), "") << "a distance between variables leads to the other one";
  EXPECT_EQ(k.origin(4), "") << "either";
  EXPECT_EQ(k.origin(5), "low") << "a constant address";
  EXPECT_EQ(k.origin(6), "") << "what comes from memory may be an address";
}

TEST(WrittenParams, AreKnownWhereAllStoresAre) {
  const Lowered known(R"(.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {
    .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];
    cvta.to.global.u64 %d3, %d2;
    mul.wide.u32 %d4, %r1, 4;
    add.s64 %d5, %d3, %d4;
    add.s64 %d6, %d1, %d4;
    ld.global.u32 %r2, [%d6];
    st.global.u32 [%d5], %r2;
    ret; })");
  const auto params = find_written_params(known.program());
  ASSERT_TRUE(params);
  EXPECT_EQ(*params, std::vector<uint32_t>{8});
  const Lowered unknown(R"(.visible .entry k(.param .u64 in) {
    .reg .b64 %d<9>;
    ld.param.u64 %d1, [in];
    ld.global.u64 %d2, [%d1];
    st.global.u64 [%d2], %d1;
    ret; })");
  EXPECT_FALSE(find_written_params(unknown.program())) << "a pointer from memory";
}

}  // namespace
}  // namespace orrery::lower
