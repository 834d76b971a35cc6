// tests/differential/protocols.cc: code in which threads wait for each other, with one possible result. See generate.h.
#include <fmt/format.h>

#include "generate.h"

namespace differential {

namespace {

/// A ticket lock: lanes of one warp, warps and blocks get it in turn; the critical section counts.
std::string spin_lock(int id, int offset) {
  return fmt::format(R"({{
.reg .pred %q<2>; .reg .b32 %t<4>;
LOCK{0}: atom.global.cas.b32 %t0, [%state+{1}], 0, 1; setp.ne.s32 %q0, %t0, 0; @%q0 bra LOCK{0};
ld.volatile.global.b32 %t1, [%state+{2}]; mad.lo.s32 %t1, %r3, 3, %t1; st.volatile.global.b32 [%state+{2}], %t1;
membar.gl; atom.global.exch.b32 %t2, [%state+{1}], 0;
}}
)", id, offset, offset + 4);
}

/// The same with the critical section inside the loop.
std::string try_lock(int id, int offset) {
  return fmt::format(R"({{
.reg .pred %q<2>; .reg .b32 %t<4>;
mov.b32 %t3, 0;
TRY{0}: atom.global.cas.b32 %t0, [%state+{1}], 0, 1; setp.ne.s32 %q0, %t0, 0; @%q0 bra MISS{0};
ld.volatile.global.b32 %t1, [%state+{2}]; add.s32 %t1, %t1, %gid; st.volatile.global.b32 [%state+{2}], %t1; mov.b32 %t3, 1;
membar.gl; st.volatile.global.b32 [%state+{1}], 0;
MISS{0}: setp.eq.s32 %q1, %t3, 0; @%q1 bra TRY{0};
}}
)", id, offset, offset + 4);
}

/// Maximum by compare-and-swap on one word.
std::string cas_maximum(int id, int offset) {
  return fmt::format(R"({{
.reg .pred %q<2>; .reg .b32 %t<4>;
ld.relaxed.gpu.global.b32 %t0, [%state+{1}];
CAS{0}: max.u32 %t1, %t0, %r0; atom.relaxed.gpu.global.cas.b32 %t2, [%state+{1}], %t0, %t1; setp.ne.s32 %q0, %t2, %t0; mov.b32 %t0, %t2; @%q0 bra CAS{0};
}}
)", id, offset);
}

/// Thread 0 of the block publishes, the others wait, some of them asleep.
std::string flag(int id, int offset, bool sleep) {
  return fmt::format(R"({{
.reg .pred %q<3>; .reg .b32 %t<4>; .reg .b64 %y<2>;
mul.wide.u32 %y0, %r10, 4; add.s64 %y0, %state, %y0;
setp.ne.s32 %q0, %thr, 0; @%q0 bra WAIT{0};
mov.b32 %t0, 123; add.s32 %t0, %t0, %r10; st.release.gpu.global.b32 [%y0+{1}], %t0; bra DONE{0};
WAIT{0}: ld.acquire.gpu.global.b32 %t1, [%y0+{1}]; setp.eq.s32 %q1, %t1, 0; {2} @%q1 bra WAIT{0};
xor.b32 %r12, %r12, %t1;
DONE{0}:
}}
)", id, offset, sleep ? "nanosleep.u32 20;" : "");
}

/// Each block adds to what the block before it has published.
std::string look_back(int id, int offset) {
  return fmt::format(R"({{
.reg .pred %q<3>; .reg .b32 %t<4>; .reg .b64 %y<2>;
setp.ne.s32 %q0, %thr, 0; @%q0 bra END{0};
mul.wide.u32 %y0, %r10, 8; add.s64 %y0, %state, %y0; mov.u64 %y1, 5; mov.u32 %t3, %ctaid.x; setp.eq.s32 %q1, %t3, 0; @%q1 bra PUT{0};
GET{0}: ld.volatile.global.u64 %y1, [%y0+{1}]; setp.eq.s64 %q2, %y1, 0; @%q2 bra GET{0};
PUT{0}: mad.lo.u64 %y1, %y1, 3, 1; st.volatile.global.u64 [%y0+{2}], %y1; xor.b64 %d7, %d7, %y1;
END{0}:
}}
)", id, offset - 8, offset);
}

/// Every thread of the block arrives at an mbarrier and then waits for its phase, twice.
std::string mbarrier(int id, int word, uint32_t threads, bool elected_waits) {
  return fmt::format(R"({{
.reg .pred %q<3>; .reg .b32 %t<4>; .reg .b64 %y<2>;
mov.b32 %t0, sh; setp.ne.s32 %q0, %thr, 0; @%q0 bra INIT{0}; mbarrier.init.shared.b64 [%t0+{1}], {2}; INIT{0}: bar.sync 0;
shl.b32 %t1, %thr, 2; and.b32 %t1, %t1, 1020; add.s32 %t1, %t1, %t0; st.shared.b32 [%t1+1024], %gid;
mbarrier.arrive.shared.b64 %y0, [%t0+{1}];
{3}W0{0}: mbarrier.try_wait.parity.shared.b64 %q1, [%t0+{1}], 0; @!%q1 bra W0{0};
ld.shared.b32 %t2, [%t0+1024]; add.s32 %r11, %r11, %t2;
SKIP{0}: bar.sync 0; mbarrier.arrive.shared.b64 %y1, [%t0+{1}];
W1{0}: mbarrier.test_wait.shared.b64 %q1, [%t0+{1}], %y1; @%q1 bra OUT{0}; bra W1{0};
OUT{0}: bar.sync 0;
setp.ne.s32 %q0, %thr, 0; @!%q0 mbarrier.inval.shared.b64 [%t0+{1}]; bar.sync 0;
}}
)", id, word, threads, elected_waits ? fmt::format("setp.ne.s32 %q2, %lan, 3; @%q2 bra SKIP{0};\n", id) : "");
}

}  // namespace

Statement make_protocol(Random& random, int id, int place, const Program& program) {
  const int offset = 64 + 256 * place;
  const uint32_t threads = program.block[0] * program.block[1] * program.block[2];
  switch (random.below(7)) {
    case 0: return {{spin_lock(id, offset)}, {}};
    case 1: return {{try_lock(id, offset)}, {}};
    case 2: return {{cas_maximum(id, offset)}, {}};
    case 3: return {{flag(id, offset, random.one_in(2))}, {}};
    case 4: return {{look_back(id, offset + 8)}, {}};
    default: return {{mbarrier(id, 8 * place, threads, random.one_in(2))}, {}};
  }
}

}  // namespace differential
