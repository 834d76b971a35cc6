// tests/differential/program.cc: text of a program, and smaller programs. See program.h.
#include "program.h"

#include <fmt/format.h>

namespace differential {

namespace {

void write(const std::vector<Statement>& list, std::string& out) {
  for (const Statement& s : list)
    for (size_t i = 0; i < s.text.size(); i++) {
      out += s.text[i];
      if (!s.text[i].empty() && s.text[i].back() != '\n') out += '\n';
      if (i < s.parts.size()) write(s.parts[i], out);
    }
}

size_t count(const std::vector<Statement>& list) {
  size_t n = 0;
  for (const Statement& s : list) {
    n++;
    for (const auto& part : s.parts) n += count(part);
  }
  return n;
}

bool remove(std::vector<Statement>& list, size_t& index) {
  for (size_t i = 0; i < list.size(); i++) {
    if (index == 0) {
      list.erase(list.begin() + ptrdiff_t(i));
      return true;
    }
    index--;
    for (auto& part : list[i].parts)
      if (remove(part, index)) return true;
  }
  return false;
}

const char* const kPrologue = R"(
ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; ld.param.u64 %state, [state]; ld.param.u32 %n, [n];
mov.u32 %thr, %tid.x; mov.u32 %w0, %ntid.x; mov.u32 %w1, %tid.y; mad.lo.s32 %thr, %w1, %w0, %thr;
mov.u32 %w2, %ntid.y; mul.lo.s32 %w2, %w2, %w0; mov.u32 %w3, %tid.z; mad.lo.s32 %thr, %w3, %w2, %thr;
mov.u32 %w3, %ntid.z; mul.lo.s32 %w2, %w2, %w3; mov.u32 %w3, %ctaid.x; mad.lo.s32 %gid, %w3, %w2, %thr;
mov.u32 %lan, %laneid;
mul.wide.u32 %x0, %gid, 512; add.s64 %own, %out, %x0; add.s64 %mine, %own, 384;
mul.wide.u32 %x0, %gid, 4; add.s64 %from, %in, %x0;
ld.global.b32 %r0, [%from]; ld.global.b32 %r1, [%from+2048]; ld.global.b32 %r2, [%in]; mov.b32 %r3, %thr; mov.b32 %r4, %gid;
mov.b32 %r5, %n; mov.b32 %r6, 7; mov.b32 %r7, -1; mov.b32 %r8, %lan; shl.b32 %r9, %thr, 2; mov.u32 %r10, %ctaid.x;
and.b32 %r11, %r0, 15; xor.b32 %r12, %r0, %r1; mov.u32 %r13, %tid.x; mov.u32 %r14, %tid.y; ld.global.b32 %r15, [%in+16];
ld.global.b64 %d0, [%in+64]; cvt.u64.u32 %d1, %r0; mov.b64 %d2, {%r0, %r1}; mov.b64 %d3, 1; mul.wide.s32 %d4, %thr, 8; cvt.s64.s32 %d5, %r1;
mov.b64 %d6, -2; mov.b64 %d7, {%r1, %r12};
mov.b32 %f0, %r0; mov.b32 %f1, %r1; mov.f32 %f2, 0f3f800000; cvt.rn.f32.s32 %f3, %r1; cvt.rn.f32.u32 %f4, %thr; mov.b32 %f5, %r2; mov.f32 %f6, 0fc0490fdb; cvt.rn.f32.s32 %f7, %r15;
mov.b64 %g0, %d2; cvt.rn.f64.s32 %g1, %r0; mov.f64 %g2, 0d3ff8000000000000; cvt.f64.f32 %g3, %f1; mov.b64 %g4, %d0; cvt.rn.f64.u32 %g5, %thr;
cvt.u16.u32 %h0, %r0; cvt.u16.u32 %h1, %r1; mov.b16 %h2, 3; cvt.u16.u32 %h3, %thr; mov.b32 {%h4, %h5}, %r12; mov.b16 %h6, 15360; cvt.u16.u32 %h7, %r2;
setp.gt.s32 %p0, %r0, 40; setp.lt.u32 %p1, %lan, 11; setp.eq.s32 %p2, %n, 5; setp.ne.b32 %p3, %n, 0; and.b32 %w0, %r0, 1; setp.eq.b32 %p4, %w0, 0;
setp.lt.u32 %p5, %thr, 40; setp.gt.f32 %p6, %f1, %f2; setp.lt.s32 %p7, %r1, 0;
mov.b32 %w0, loc; st.local.v2.b64 [%w0], {%d6, %d5}; st.local.v2.b64 [%w0+16], {%d4, %d3}; st.local.v2.b64 [%w0+32], {%d2, %d1}; st.local.v2.b64 [%w0+48], {%d1, %d6};
vote.sync.ballot.b32 %m0, 1, -1;
)";

const char* const kLeanPrologue = R"(
ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; ld.param.u64 %state, [state];
mov.u32 %thr, %tid.x; mov.u32 %w0, %ntid.x; mov.u32 %w1, %tid.y; mad.lo.s32 %thr, %w1, %w0, %thr;
mov.u32 %w2, %ntid.y; mul.lo.s32 %w2, %w2, %w0; mov.u32 %w3, %ctaid.x; mad.lo.s32 %gid, %w3, %w2, %thr; mov.u32 %lan, %laneid;
mov.b32 %r0, 0; mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.f32 %f0, 0f00000000;
)";

std::string epilogue(bool lean) {
  std::string s;
  int at = 0;
  if (lean) {
    s = "mul.wide.u32 %x0, %gid, 512; add.s64 %own, %out, %x0;\n";
    for (int i = 0; i < 4; i++, at += 4) s += fmt::format("st.global.b32 [%own+{}], %r{};\n", at, i);
    return s + "st.global.f32 [%own+64], %f0;\nret;\n";
  }
  for (int i = 0; i < 16; i++, at += 4) s += fmt::format("st.global.b32 [%own+{}], %r{};\n", at, i);
  for (int i = 0; i < 8; i++, at += 4) s += fmt::format("st.global.b32 [%own+{}], %f{};\n", at, i);
  for (int i = 0; i < 8; i++, at += 8) s += fmt::format("st.global.b64 [%own+{}], %d{};\n", at, i);
  for (int i = 0; i < 6; i++, at += 8) s += fmt::format("st.global.b64 [%own+{}], %g{};\n", at, i);
  for (int i = 0; i < 8; i++, at += 2) s += fmt::format("st.global.b16 [%own+{}], %h{};\n", at, i);
  for (int i = 0; i < 8; i++) s += fmt::format("selp.b32 %w0, {}, 0, %p{}; {} %w1, %w0{};\n", 1 << i, i, i ? "or.b32" : "mov.b32", i ? ", %w1" : "");
  return s + fmt::format("st.global.b32 [%own+{}], %w1;\nret;\n", at);
}

}  // namespace

std::string Program::text() const {
  std::string code = lean ? kLeanPrologue : kPrologue;
  write(body, code);
  std::string out = ".version 8.6\n.target sm_90a\n.address_size 64\n" + std::string(code.find("call") != std::string::npos ? kFunctions : "") +
      ".visible .entry k(.param .u64 out, .param .u64 in, .param .u64 state, .param .u32 n)\n{\n"
      ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .f32 %f<8>; .reg .f64 %g<6>;\n"
      ".reg .b32 %thr, %gid, %lan, %n, %w<4>, %m0; .reg .b64 %out, %in, %state, %own, %mine, %from, %x<4>;\n"
      ".shared .align 8 .b8 sh[4096]; .local .align 8 .b8 loc[64];\n";
  for (const std::string& d : declarations) {  // those that are still used; a name without its definition is an error
    const std::string name = d.substr(d.find('%'), d.size() - d.find('%') - 1);
    if (name.starts_with("%u") ? code.find("defines " + name + ".") != std::string::npos : code.find(name) != std::string::npos) out += d + "\n";
  }
  return out + code + epilogue(lean) + "}\n";
}

size_t Program::size() const { return count(body); }

Program Program::without(size_t index) const {
  Program p = *this;
  remove(p.body, index);
  return p;
}

}  // namespace differential
