// What an instruction is called in messages: as the program's text has it, whatever lowering made of it.
#include <gtest/gtest.h>

#include "lower/program.h"
#include "ptx/module.h"

namespace orrery::lower {
namespace {

TEST(TextOf, NamesNoRegisterThatLoweringAdded) {
  constexpr const char* kText = R"(.version 8.0
.target sm_90
.address_size 64
.func (.reg .b32 %o) twice(.reg .b32 %i) { .reg .b32 %t; add.u32 %t, %i, %i; mov.b32 %o, %t; ret; }
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<8>; .reg .b64 %d<2>; .reg .pred %q;
  ld.param.u64 %d1, [p];
  ld.global.u32 %r1, [%d1];
  add.cc.u32 %r2, %r1, %r1;
  addc.u32 %r3, %r1, 0;
  setp.gt.u32 %q, %r3, 4;
  @%q st.global.u32 [%d1+8], %r2;
  call (%r4), twice, (%r3);
  st.global.u32 [%d1+4], %r4;
  ret;
})";
  std::vector<ptx::Diagnostic> diagnostics;
  const ptx::Module module = ptx::parse(kText, diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << diagnostics[0].message;
  Addresses addresses;
  addresses.var.assign(module.vars.size(), 0);
  addresses.function.assign(module.functions.size(), 0);
  uint32_t entry = 0;
  while (!module.functions[entry].is_entry) entry++;
  const KernelPrograms programs = lower_kernel(module, entry, addresses);
  const Program& p = *programs.entry;
  size_t carries = 0;
  for (uint32_t i = 0; i < p.code.size(); i++) {
    const std::string text = text_of(p, i);
    for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1))
      EXPECT_FALSE(at + 1 < text.size() && isdigit(text[at + 1])) << "a register without a name: " << text;
    carries += text == "add.cc.u32 %r2, %r1, %r1;" || text == "addc.u32 %r3, %r1, 0;";
  }
  EXPECT_EQ(carries, 2u);
}

}  // namespace
}  // namespace orrery::lower
