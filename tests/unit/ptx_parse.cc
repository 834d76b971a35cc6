// Parsing of PTX text: structure, names, operands, and errors. Expected values come from the PTX manual.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptx/module.h"

namespace orrery::ptx {
namespace {

const char* kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";

Module parsed(const std::string& text) {
  std::vector<Diagnostic> d;
  Module m = parse(kHead + text, d);
  for (auto& e : d) ADD_FAILURE() << e.loc.line << ":" << e.loc.column << ": " << e.message;
  return m;
}
/// The messages as "line:column: text", lines counted from the first one after the three of the head.
std::vector<std::string> errors(const std::string& text) {
  std::vector<Diagnostic> d;
  parse(kHead + text, d);
  std::vector<std::string> out;
  for (auto& e : d) out.push_back(fmt::format("{}:{}: {}", int(e.loc.line) - 3, e.loc.column, e.message));
  return out;
}
const Instr& only(const Module& m, size_t i = 0) { return m.functions.at(0).body.at(i); }

TEST(Parse, FormOfAnInstruction) {
  Module m = parsed(".entry k() { .reg .f32 f<4>; .reg .b64 d; ld.global.nc.L1::no_allocate.v4.f32 {f0, f1, f2, f3}, [d+16]; }");
  const Instr& i = only(m);
  EXPECT_EQ(i.form.op, isa::Op::ld);
  EXPECT_EQ(i.form.vec, 4);
  EXPECT_EQ(i.form.space(), isa::Space::global);
  EXPECT_EQ(i.form.type(), isa::Type::f32);
  EXPECT_TRUE(i.form.has(isa::Mod::nc));
  EXPECT_TRUE(i.form.has(isa::Mod::L1_no_allocate));
  ASSERT_EQ(i.ops.size(), 2u);
  EXPECT_EQ(i.ops[0].kind, OperandKind::vec);
  EXPECT_EQ(i.ops[1].base, BaseKind::reg);
  EXPECT_EQ(i.ops[1].value, 16);
}

TEST(Parse, ImmediatesOfEveryForm) {
  Module m = parsed(
      ".entry k() { .reg .b32 r; .reg .f32 f; .reg .f64 e; mov.b32 r, 0x10; mov.b32 r, 017; mov.b32 r, 0b101;"
      "mov.b32 r, 5U; mov.b32 r, -1; mov.b32 r, WARP_SZ; mov.b32 r, (1<<4)|3; mov.f32 f, 0f3F800000;"
      "mov.f64 e, 0dBFF0000000000000; mov.f32 f, 1.5; mov.b32 r, 2 > 1 ? 7 : 8; }");
  int64_t want[] = {16, 15, 5, 5, -1, 32, 19, 0x3F800000, int64_t(0xBFF0000000000000), 0x3FF8000000000000, 7};
  for (size_t i = 0; i < std::size(want); ++i) EXPECT_EQ(only(m, i).ops[1].value, want[i]) << i;
  EXPECT_EQ(only(m, 7).ops[1].float_bits, 32);
  EXPECT_EQ(only(m, 9).ops[1].float_bits, 64);
}

TEST(Parse, NamesInNestedScopesAreDistinct) {
  Module m = parsed(
      ".entry k() { .reg .b32 r; mov.b32 r, 1; { .reg .b32 r; mov.b32 r, 2; bra L; L: } { .reg .b64 r;"
      "mov.b64 r, 3; bra L; L: } mov.b32 r, 4; ret; }");
  const Function& f = m.functions[0];
  ASSERT_EQ(f.regs.size(), 3u);
  EXPECT_EQ(f.body[0].ops[0].id, 0u);
  EXPECT_EQ(f.body[1].ops[0].id, 1u);
  EXPECT_EQ(f.body[3].ops[0].id, 2u);
  EXPECT_EQ(f.body[5].ops[0].id, 0u);
  EXPECT_EQ(f.labels[f.body[2].ops[0].id].target, 3u);
  EXPECT_EQ(f.labels[f.body[4].ops[0].id].target, 5u);
  EXPECT_NE(f.regs[0].name, f.regs[1].name);
}

TEST(Parse, CallsKeepFourOperands) {
  Module m = parsed(
      ".func (.param .b32 ret) f (.param .b32 a, .param .align 8 .b8 s[16]);\n"
      ".entry k() { .reg .b64 d; .param .b32 x; .param .b32 y; .param .align 8 .b8 z[16];\n"
      "call.uni (y), f, (x, z);\n"
      "p: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "call (y), d, (x), p; }");
  const Function& k = m.functions[1];
  ASSERT_EQ(k.body.size(), 2u);
  EXPECT_EQ(k.body[0].ops[1].kind, OperandKind::func);
  EXPECT_EQ(k.body[0].ops[2].parts.size(), 2u);
  EXPECT_EQ(k.body[0].ops[3].kind, OperandKind::none);
  EXPECT_EQ(k.body[1].ops[1].kind, OperandKind::reg);
  EXPECT_EQ(k.body[1].ops[3].kind, OperandKind::prototype);
  EXPECT_EQ(m.functions[0].n_rets, 1u);
  EXPECT_EQ(m.functions[0].locals[2].size, 16u);
}

TEST(Parse, InitialValues) {
  Module m = parsed(
      ".global .u32 a[2][3] = {{1, 2}, {3, 4, 5}};\n.global .u64 p[2] = {a, generic(a)+8};\n"
      ".global .b8 s[] = \"hi\";\n.const .f32 c = 1.0;\n.global .b8 m[4] = {0xFF(a), 0xFF00(a), 7, 8};\n"
      ".extern .shared .align 16 .b8 dyn[];\n");
  EXPECT_EQ(m.vars[0].init, (std::vector<uint8_t>{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0}));
  ASSERT_EQ(m.vars[1].relocs.size(), 2u);
  EXPECT_TRUE(m.vars[1].relocs[1].generic);
  EXPECT_EQ(m.vars[1].relocs[1].offset, 8u);
  EXPECT_EQ(m.vars[1].relocs[1].addend, 8);
  EXPECT_EQ(m.vars[2].size, 3u);
  EXPECT_EQ(m.vars[3].init, (std::vector<uint8_t>{0, 0, 0x80, 0x3F}));
  EXPECT_EQ(m.vars[4].relocs[1].mask, 0xFF00u);
  EXPECT_TRUE(m.vars[5].unsized);
  EXPECT_EQ(m.vars[5].align, 16u);
}

TEST(Parse, SpecialRegisters) {
  Module m = parsed(".entry k() { .reg .b32 r<4>; mov.u32 r0, %ctaid.y; mov.v4.u32 {r0,r1,r2,r3}, %tid; mov.u32 r1, %envreg7; }");
  EXPECT_EQ(only(m).ops[1].id, uint32_t(Sreg::ctaid_y));
  ASSERT_EQ(only(m, 1).ops[1].parts.size(), 4u);
  EXPECT_EQ(only(m, 1).ops[1].parts[3].id, uint32_t(Sreg::zero));
  EXPECT_EQ(only(m, 2).ops[1].value, 7);
}

TEST(Parse, AllErrorsAreReported) {
  auto e = errors(
      ".entry k() {\n"
      "  .reg .b32 r<3>;\n"
      "  add.s33 r0, r1, r2;\n"
      "  add.s32 r0, r1;\n"
      "  foo.b32 r0;\n"
      "  add.s32 r0, r1, r9;\n"
      "  bra nowhere;\n"
      "}\n");
  ASSERT_EQ(e.size(), 5u);
  EXPECT_THAT(e[0], testing::StartsWith("3:7: '.s33' is not a word"));
  EXPECT_THAT(e[1], testing::StartsWith("4:3: add.s32 has 2 operands"));
  EXPECT_THAT(e[2], testing::StartsWith("5:3: 'foo' is not a PTX instruction"));
  EXPECT_THAT(e[3], testing::StartsWith("6:19: 'r9' is not declared"));
  EXPECT_THAT(e[4], testing::StartsWith("7:7: label 'nowhere'"));
}

}  // namespace
TEST(PtxParse, InlinedCallsOfALine) {
  // As nvcc writes it for g inlined into f inlined into the kernel: the call of g stands in f, the call of f in the kernel.
  Module m = parsed(
      ".entry k() { .reg .b32 r; .loc 1 5 3\n"
      " .loc 1 3 3, function_name F, inlined_at 1 5 3\n"
      " .loc 1 1 71, function_name G, inlined_at 1 3 3\n"
      " mov.b32 r, 1;\n .loc 1 6 1\n ret; }");
  const Loc& in_g = m.functions[0].body[0].loc;
  EXPECT_EQ(in_g.source_line, 1u);
  const Loc call_of_g = m.call_sites.at(in_g.inlined);
  EXPECT_EQ(call_of_g.source_line, 3u);
  const Loc call_of_f = m.call_sites.at(call_of_g.inlined);
  EXPECT_EQ(call_of_f.source_line, 5u);
  EXPECT_EQ(call_of_f.inlined, 0u);
  EXPECT_EQ(m.functions[0].body[1].loc.inlined, 0u);
}

}  // namespace orrery::ptx
