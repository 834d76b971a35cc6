// tests/differential/calls.cc: calls of the fixed functions below, direct and through pointers, guarded or not, anywhere in a
// program (generate.h). The interpreter carries the calls out; the compiled program is the merged one (lower/merge_calls.h).
//
//   fA a loop          fB a branch around a call of fA       fC an array in local memory    fD recursion, up to 7 deep
//   fE a call through a pointer to fA, fC or fD              fF a struct, cut in one way     fG a struct, cut in two ways
//   fH registers as parameters                               fI small integers               fJ four results in a vector
#include <fmt/format.h>

#include "generate.h"

namespace differential {

const char* const kFunctions = R"(
.func (.param .b32 r) fA (.param .b32 a, .param .b32 b);
.func (.param .b32 r) fC (.param .b32 a, .param .b32 b);
.func (.param .b32 r) fD (.param .b32 a, .param .b32 b);
.global .align 8 .u64 choices[4] = {fA, fC, fD, fB};
.func (.param .b32 r) fA (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y, %i; .reg .pred %q;
  ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; and.b32 %i, %y, 7;
  LOOP: setp.eq.s32 %q, %i, 0; @%q bra DONE; mad.lo.s32 %x, %x, 3, %y; sub.s32 %i, %i, 1; bra LOOP;
  DONE: st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) fB (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y; .reg .pred %q;
  ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; setp.lt.s32 %q, %x, %y; @%q bra LESS;
  { .param .b32 p; .param .b32 s; .param .b32 t; st.param.b32 [p], %y; st.param.b32 [s], %x; call.uni (t), fA, (p, s); ld.param.b32 %x, [t]; }
  xor.b32 %x, %x, %y; st.param.b32 [r], %x; ret;
  LESS: not.b32 %y, %y; st.param.b32 [r], %y; ret;
}
.func (.param .b32 r) fC (.param .b32 a, .param .b32 b) {
  .local .align 4 .b8 room[32]; .reg .b32 %x, %y, %at, %base;
  ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; mov.b32 %base, room; st.local.v4.b32 [%base], {%x, %y, %x, %y}; st.local.v4.b32 [%base+16], {%y, %y, %x, 7};
  and.b32 %at, %x, 7; shl.b32 %at, %at, 2; add.s32 %at, %at, %base; st.local.b32 [%at], %y; and.b32 %at, %y, 7; shl.b32 %at, %at, 2; add.s32 %at, %at, %base;
  ld.local.b32 %x, [%at]; add.s32 %x, %x, %y; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) fD (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y, %k; .reg .pred %q;
  ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; and.b32 %k, %x, 7; setp.eq.s32 %q, %k, 0; @%q bra END;
  sub.s32 %k, %k, 1;
  { .param .b32 p; .param .b32 s; .param .b32 t; st.param.b32 [p], %k; st.param.b32 [s], %y; call.uni (t), fD, (p, s); ld.param.b32 %y, [t]; }
  mad.lo.s32 %y, %y, 5, %x;
  END: st.param.b32 [r], %y; ret;
}
.func (.param .b32 r) fE (.param .b32 a, .param .b32 b) {
  .reg .b32 %x, %y, %k; .reg .b64 %at, %to;
  ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; and.b32 %k, %x, 3; min.u32 %k, %k, 2; mul.wide.u32 %at, %k, 8; mov.u64 %to, choices; add.s64 %at, %at, %to; ld.global.u64 %to, [%at];
  { .param .b32 p; .param .b32 s; .param .b32 t; st.param.b32 [p], %x; st.param.b32 [s], %y; P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
    call (t), %to, (p, s), P; ld.param.b32 %x, [t]; }
  add.s32 %x, %x, 1; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) fF (.param .align 8 .b8 v[12]) {
  .reg .b32 %x, %y, %z;
  ld.param.v2.b32 {%x, %y}, [v]; ld.param.b32 %z, [v+8]; mad.lo.s32 %x, %y, %z, %x; st.param.b32 [r], %x; ret;
}
.func (.param .b32 r) fG (.param .align 8 .b8 v[12]) {
  .reg .b32 %x, %y, %z;
  ld.param.u8 %x, [v+1]; ld.param.s16 %y, [v+6]; ld.param.b32 %z, [v+8]; mad.lo.s32 %x, %y, %z, %x; st.param.b32 [r], %x; ret;
}
.func (.reg .b32 %r) fH (.reg .b32 %a, .reg .b64 %b) {
  .reg .b32 %low; cvt.u32.u64 %low, %b; shr.u32 %r, %a, 3; add.s32 %r, %r, %low; ret;
}
.func (.param .b32 r) fI (.param .b8 c, .param .b16 h) {
  .reg .b32 %x, %y; .reg .b16 %h;
  ld.param.s8 %x, [c]; ld.param.u16 %h, [h]; cvt.u32.u16 %y, %h; sub.s32 %x, %x, %y; st.param.b32 [r], %x; ret;
}
.func (.param .align 16 .b8 r[16]) fJ (.param .b64 a) {
  .reg .b64 %a; .reg .b32 %x, %y;
  ld.param.b64 %a, [a]; mov.b64 {%x, %y}, %a; st.param.v4.b32 [r], {%y, %x, %y, 9}; ret;
}
)";

Statement make_call(Random& random, int id, const std::string& guard, const std::string& a, const std::string& b, const std::string& to) {
  const std::string words = fmt::format(".param .b32 p{0}; .param .b32 s{0}; .param .b32 t{0}; st.param.b32 [p{0}], {1}; st.param.b32 [s{0}], {2}; ", id, a, b);
  const std::string take = fmt::format(" {}ld.param.b32 {}, [t{}]; }}", guard, to, id);
  const std::string fields = fmt::format(".param .align 8 .b8 v{0}[12]; .param .b32 t{0}; st.param.b32 [v{0}], {1}; st.param.b32 [v{0}+4], {2}; st.param.b32 [v{0}+8], {1}; ", id, a, b);
  switch (random.below(9)) {
    case 0: case 1: return {{fmt::format("{{ {}{}call (t{}), f{}, (p{}, s{});{}", words, guard, id, "ABCDE"[random.below(5)], id, id, take)}, {}};
    case 2: case 3: case 4: {
      const std::string index = random.one_in(3) ? fmt::format("mov.b32 %ci, {};", random.below(4)) : fmt::format("and.b32 %ci, {}, 3;", random.one_in(2) ? a : "%lan");
      return {{fmt::format("{{ .reg .b32 %ci; .reg .b64 %ca, %ct; {} mul.wide.u32 %ca, %ci, 8; mov.u64 %ct, choices; add.s64 %ca, %ca, %ct; ld.global.u64 %ct, [%ca]; {}"
                           "P{}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); {}call (t{}), %ct, (p{}, s{}), P{};{}", index, words, id, guard, id, id, id, id, take)}, {}};
    }
    case 5: return {{fmt::format("{{ {}{}call (t{}), f{}, (v{});{}", fields, guard, id, random.one_in(2) ? "F" : "G", id, take)}, {}};
    case 6: return {{fmt::format("{{ {}call ({}), fH, ({}, %d{});  }}", guard, to, a, random.below(8))}, {}};
    case 7:
      return {{fmt::format("{{ .param .b8 c{0}; .param .b16 h{0}; .param .b32 t{0}; st.param.b8 [c{0}], {1}; st.param.b16 [h{0}], %h{2}; {3}call (t{0}), fI, (c{0}, h{0});{4}", id, a, random.below(8), guard, take)}, {}};
    default:
      return {{fmt::format("{{ .param .b64 a{0}; .param .align 16 .b8 t{0}[16]; st.param.b64 [a{0}], %d{1}; {2}call (t{0}), fJ, (a{0});{3}", id, random.below(8), guard, take)}, {}};
  }
}

}  // namespace differential
