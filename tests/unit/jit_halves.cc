// f16, bf16 and fp8 in compiled code against the interpreter: random numbers whose exponents meet where rounding twice
// goes wrong: in the middle between two results, below the normal numbers, at the largest.
#include <fmt/format.h>

#include "jit_run.h"

namespace orrery {
namespace {

/// What a random word is made, both halves alike: `(word & keep) | set`, and to that a random number up to `spread` (a
/// mask) is added at bit `at`, where the exponent begins.
struct Shape {
  uint32_t keep, set, spread = 0, at = 0;
};
constexpr Shape kAny{0xffff, 0};
Shape brain(uint32_t exponent, uint32_t fraction = 0x7f, uint32_t spread = 0) { return {0x8000u | fraction, exponent << 7, spread, 7}; }
Shape half(uint32_t exponent, uint32_t fraction = 0x3ff, uint32_t spread = 0) { return {0x8000u | fraction, exponent << 10, spread, 10}; }

const std::string kNext =
    "shl.b32 %r31, %r30, 13; xor.b32 %r30, %r30, %r31; shr.u32 %r31, %r30, 17; xor.b32 %r30, %r30, %r31; shl.b32 %r31, %r30, 5; xor.b32 %r30, %r30, %r31;\n";

std::string random_word(const std::string& reg, Shape s) {
  std::string text = kNext + fmt::format("and.b32 {0}, %r30, {1}; or.b32 {0}, {0}, {2};\n", reg, s.keep * 0x10001, s.set * 0x10001);
  if (s.spread) text += kNext + fmt::format("and.b32 %r31, %r30, {1}; mad.lo.u32 {0}, %r31, {2}, {0};\n", reg, s.spread, 0x10001 << s.at);
  return text;
}

/// 100 random triples a thread: %r20, %r21, %r22 -> `code` -> %r23, hashed into the output.
void agree(const std::string& code, Shape a, Shape b = kAny, Shape c = kAny) {
  std::string body = kStart + "mad.lo.u32 %r30, %r1, 747796405, 2891336453; mov.u32 %r24, 0; mov.u32 %r25, 0;\nL:\n";
  body += random_word("%r20", a) + random_word("%r21", b) + random_word("%r22", c) + code;
  body += "mad.lo.u32 %r24, %r24, 1664525, %r23; add.u32 %r25, %r25, 1; setp.lt.u32 %p1, %r25, 100; @%p1 bra L; st.global.u32 [%d1], %r24; ret;";
  SCOPED_TRACE(fmt::format("{} with {:04x} {:04x} {:04x}", code, a.set, b.set, c.set));
  same(body, {4}, {128});
}

void agree_everywhere(const std::string& code, bool bf16) {
  const auto of = [&](uint32_t e, uint32_t fraction = 0xffff, uint32_t spread = 0) {
    return bf16 ? brain(e, fraction & 0x7f, spread) : half(e, fraction & 0x3ff, spread);
  };
  const uint32_t one = bf16 ? 127 : 15, top = bf16 ? 254 : 30;
  agree(code, kAny);
  agree(code, of(one), of(one), of(one - 15, 0xffff, bf16 ? 31 : 15));       // c around a * b
  agree(code, of(one), of(one, 0x70), of(one - 15, 0x61, 15));               // few bits: exact middles
  agree(code, of(one - 7), of(5, 0xffff, 3), of(0, 0xffff, 3));              // the smallest
  agree(code, of(0, 0xffff, 3), of(one - 1, 0x61, 1), of(0, 0xffff, 3));
  agree(code, of(top - 3, 0xffff, 3), of(one, 0xffff, 3), of(top - 1, 0xffff, 1));  // the largest
}

TEST(JitHalves, Arithmetic) {
  for (const std::string op : {"add.rn", "sub.rn", "mul.rn"})
    for (const bool bf16 : {false, true})
      agree_everywhere(fmt::format("{}.{} %r23, %r20, %r21;\n", op, bf16 ? "bf16x2" : "f16x2"), bf16);
  for (const std::string form : {"add.rn.ftz.f16x2", "mul.rn.ftz.f16x2", "sub.rn.sat.f16x2", "mul.rn.ftz.sat.f16x2"})
    agree_everywhere(form + " %r23, %r20, %r21;\n", false);
}

TEST(JitHalves, FusedMultiplyAdd) {
  for (const std::string form : {"fma.rn.f16x2", "fma.rn.ftz.f16x2", "fma.rn.sat.f16x2", "fma.rn.relu.f16x2", "fma.rn.bf16x2", "fma.rn.relu.bf16x2"})
    agree_everywhere(form + " %r23, %r20, %r21, %r22;\n", form.find("bf16") != std::string::npos);
}

TEST(JitHalves, PlainOnes) {
  const std::string in = "cvt.u16.u32 %h1, %r20; cvt.u16.u32 %h2, %r21; cvt.u16.u32 %h3, %r22;\n", out = "cvt.u32.u16 %r23, %h4;\n";
  for (const std::string form : {"fma.rn.f16", "fma.rn.bf16"})
    agree_everywhere(in + form + " %h4, %h1, %h2, %h3;\n" + out, form.find("bf16") != std::string::npos);
  for (const std::string form : {"min.f16", "max.NaN.bf16", "add.f16", "mul.bf16"})
    agree_everywhere(in + form + " %h4, %h1, %h2;\n" + out, form.find("bf16") != std::string::npos);
}

TEST(JitHalves, SignsAndExtremes) {
  for (const std::string form : {"neg.f16x2", "neg.ftz.f16x2", "neg.bf16x2", "abs.f16x2", "abs.bf16x2"}) agree(form + " %r23, %r20;\n", kAny);
  for (const std::string form : {"min.f16x2", "max.f16x2", "min.NaN.f16x2", "max.ftz.f16x2", "max.bf16x2", "min.NaN.bf16x2", "max.xorsign.abs.f16x2"}) {
    agree(form + " %r23, %r20, %r21;\n", kAny);
    agree(form + " %r23, %r20, %r21;\n", {0x8001, 0}, {0x8000, 0});        // zeros of both signs
    agree(form + " %r23, %r20, %r21;\n", {0x80ff, 0x7f80}, {0xffff, 0});   // NaNs
  }
}

TEST(JitHalves, Comparisons) {
  for (const std::string cmp : {"eq", "ne", "lt", "gtu", "num"})
    for (const std::string type : {"f16", "bf16"})
      for (const Shape s : {kAny, Shape{0x8001, 0}, Shape{0x80ff, 0x7f00}}) {
        agree(fmt::format("set.{0}.{1}x2.{1}x2 %r23, %r20, %r21;\n", cmp, type), s, s);
        agree(fmt::format("setp.{0}.{1}x2 %p2|%p3, %r20, %r21; selp.u32 %r23, 1, 0, %p2; @%p3 add.u32 %r23, %r23, 2;\n", cmp, type), s, s);
        agree(fmt::format("cvt.u16.u32 %h1, %r20; cvt.u16.u32 %h2, %r21; setp.{0}.{1} %p2, %h1, %h2; selp.u32 %r23, 1, 0, %p2;\n", cmp, type), s, s);
      }
}

TEST(JitHalves, Conversions) {
  const std::string word = "mov.b32 %f1, %r20; mov.b32 %f2, %r21;\n";
  for (const std::string form : {"cvt.rn.f16x2.f32 %r23, %f1, %f2;\n", "cvt.rn.bf16x2.f32 %r23, %f1, %f2;\n",
                                 "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r23, %h1;\n",
                                 "cvt.rn.satfinite.relu.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r23, %h1;\n",
                                 "cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r23, %h1;\n",
                                 "cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r23, %h1;\n", "cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r23, %h1;\n"})
    for (const Shape s : {kAny, brain(0), brain(127 - 27, 0x7f, 31), brain(127 - 8, 0x7f, 7), brain(140, 0x7f, 3), Shape{0x80ff, 0x7f00}}) {
      agree(word + form, s, s);
      agree("and.b32 %r20, %r20, 0xfff80000; and.b32 %r21, %r21, 0xfff80000;\n" + word + form, s, s);  // middles
    }
  for (const std::string form : {"cvt.u16.u32 %h1, %r20; cvt.f32.f16 %f1, %h1; mov.b32 %r23, %f1;\n", "cvt.u16.u32 %h1, %r20; cvt.f32.bf16 %f1, %h1; mov.b32 %r23, %f1;\n",
                                 "cvt.u16.u32 %h1, %r20; cvt.rn.f16x2.e4m3x2 %r23, %h1;\n", "cvt.u16.u32 %h1, %r20; cvt.rn.relu.f16x2.e5m2x2 %r23, %h1;\n",
                                 "cvt.rn.satfinite.e4m3x2.f16x2 %h1, %r20; cvt.u32.u16 %r23, %h1;\n", "cvt.rn.satfinite.e5m2x2.f16x2 %h1, %r20; cvt.u32.u16 %r23, %h1;\n"}) {
    agree(form, kAny);
    agree(form, half(0));
    agree(form, half(7));
  }
}

}  // namespace
}  // namespace orrery
