// Compiled code against the interpreter: the same launch, the same bytes, for kernels that exercise one mechanism each.
// The interpreter is judged by recorded hardware elsewhere; here only agreement counts.
#include <immintrin.h>

#include "jit_run.h"

namespace orrery {
namespace {

TEST(JitKernels, StraightLine) { same(kStart + "add.s32 %r4, %r2, %r1; st.global.u32 [%d1], %r4; ret;"); }

TEST(JitKernels, LanesThatExitEarly) {
  same(kStart + "setp.ge.s32 %p1, %r1, %r3; @%p1 bra L; xor.b32 %r4, %r2, 255; st.global.u32 [%d1], %r4; L: ret;");
}

TEST(JitKernels, BothSidesOfABranch) {
  same(kStart + "and.b32 %r4, %r2, 1; setp.eq.s32 %p1, %r4, 0; @%p1 bra E; mul.lo.s32 %r5, %r2, 3; bra.uni J;\n"
                "E: sub.s32 %r5, 7, %r2; J: st.global.u32 [%d1], %r5; ret;");
}

TEST(JitKernels, LoopThatLanesLeaveAtDifferentTimes) {
  same(kStart + "and.b32 %r4, %r2, 31; mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
                "L: setp.ge.u32 %p1, %r5, %r4; @%p1 bra D; mad.lo.s32 %r6, %r6, 5, %r5; add.s32 %r5, %r5, 1; bra.uni L;\n"
                "D: add.s32 %r6, %r6, %r5; st.global.u32 [%d1], %r6; ret;");
}

TEST(JitKernels, ContinueAndBreakInNestedLoops) {
  same(kStart + "and.b32 %r4, %r2, 15; mov.u32 %r5, 0; mov.u32 %r6, 0;\n"
                "O: mov.u32 %r7, 0;\n"
                "I: add.s32 %r7, %r7, 1; add.s32 %r8, %r7, %r1; and.b32 %r8, %r8, 3; setp.eq.s32 %p1, %r8, 0; @%p1 bra C;\n"
                "mad.lo.s32 %r6, %r6, 3, %r7; setp.gt.s32 %p2, %r6, 100000; @%p2 bra B;\n"
                "C: setp.lt.s32 %p3, %r7, %r4; @%p3 bra I; add.s32 %r5, %r5, 1; setp.lt.s32 %p4, %r5, 4; @%p4 bra O;\n"
                "B: st.global.u32 [%d1], %r6; ret;");
}

TEST(JitKernels, BarrierAndSharedMemory) {
  same(kStart + "shl.b32 %r5, %r12, 2; mov.u32 %r6, s; add.s32 %r6, %r6, %r5; st.shared.u32 [%r6], %r2; bar.sync 0;\n"
                "sub.s32 %r7, 380, %r5; mov.u32 %r8, s; add.s32 %r7, %r7, %r8; ld.shared.u32 %r9, [%r7]; bar.sync 0;\n"
                "add.s32 %r9, %r9, %r2; st.global.u32 [%d1], %r9; ret;", {2}, {96}, 150, ".shared .align 4 .b8 s[384];");
}

TEST(JitKernels, AddressBelowTheBaseInLanesThatAreOff) {
  same(kStart + "mov.u32 %r7, 0; setp.eq.s32 %p1, %r12, 0; @%p1 bra S; add.s32 %r5, %r12, -1; mul.wide.u32 %d5, %r5, 4;\n"
                "add.s64 %d5, %d11, %d5; ld.global.u32 %r7, [%d5]; S: st.global.u32 [%d1], %r7; ret;");
}

TEST(JitKernels, ShufflesAndVotes) {
  same(kStart + "shfl.sync.bfly.b32 %r4, %r2, 3, 31, -1; shfl.sync.down.b32 %r5|%p1, %r2, 5, 31, -1; shfl.sync.idx.b32 %r6, %r2, %r1, 31, -1;\n"
                "setp.gt.s32 %p2, %r2, 40; vote.sync.ballot.b32 %r7, %p2, -1; vote.sync.any.pred %p3, %p2, -1; selp.u32 %r8, 1, 0, %p3; selp.u32 %r9, 2, 0, %p1;\n"
                "add.s32 %r4, %r4, %r5; add.s32 %r4, %r4, %r6; xor.b32 %r4, %r4, %r7; add.s32 %r4, %r4, %r8; add.s32 %r4, %r4, %r9; st.global.u32 [%d1], %r4; ret;", {2}, {64});
}

TEST(JitKernels, TwoDimensionalBlocks) {
  for (exec::Dim3 block : {exec::Dim3{16, 8}, exec::Dim3{8, 8}, exec::Dim3{4, 24}, exec::Dim3{24, 4}, exec::Dim3{32, 3}, exec::Dim3{10, 10}})
    same("ld.param.u64 %d10, [out]; ld.param.u64 %d11, [in]; ld.param.u32 %r3, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r4, %ntid.x;\n"
         "mad.lo.s32 %r5, %r2, %r3, %r1; mul.wide.s32 %d1, %r5, 4; add.s64 %d2, %d11, %d1; ld.global.u32 %r6, [%d2]; mul.wide.s32 %d3, %r2, 4; add.s64 %d3, %d11, %d3;\n"
         "ld.global.u32 %r7, [%d3]; mul.wide.s32 %d4, %r1, 4; add.s64 %d4, %d11, %d4; ld.global.u32 %r8, [%d4]; mad.lo.s32 %r9, %r7, %r8, %r6;\n"
         "mad.lo.s32 %r5, %r2, %r4, %r1; mul.wide.s32 %d5, %r5, 4; add.s64 %d5, %d10, %d5; st.global.u32 [%d5], %r9; ret;", {1}, block, 37);
}

TEST(JitKernels, Atomics) {
  same(kStart + "and.b32 %r4, %r2, 7; mul.wide.u32 %d5, %r4, 4; add.s64 %d5, %d10, %d5; atom.global.add.u32 %r5, [%d5+8192], %r1; red.global.add.u32 [%d10+8240], 3;\n"
                "red.global.max.s32 [%d10+8244], %r2; atom.global.cas.b32 %r6, [%d5+8300], 0, %r1; add.s32 %r5, %r5, %r6; st.global.u32 [%d1], %r5; ret;");
}

TEST(JitKernels, SubWordAndVectorAccess) {
  same(kStart + "shl.b32 %r4, %r1, 4; cvt.u64.u32 %d5, %r4; add.s64 %d6, %d11, %d5; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%d6]; ld.global.s8 %r9, [%d2+1]; ld.global.u16 %h1, [%d2+2]; cvt.u32.u16 %r13, %h1;\n"
                "add.s32 %r5, %r5, %r9; add.s32 %r6, %r6, %r13; add.s64 %d7, %d10, %d5; st.global.v4.u32 [%d7], {%r8, %r7, %r6, %r5}; st.global.u8 [%d7+3], %r2; ret;", {2}, {96});
}

// Lanes that load 2 and 4 neighbouring words each from an address of their own, as one vector and one by one, some of them off.
TEST(JitKernels, NeighbouringWords) {
  same(kStart + "and.b32 %r4, %r2, 255; setp.gt.u32 %p1, %r4, 40; @%p1 bra L; mul.wide.u32 %d5, %r4, 16; add.s64 %d6, %d11, %d5; ld.global.u32 %r5, [%d6+8]; ld.global.u32 %r6, [%d6+16];\n"
                "ld.global.f32 %f1, [%d6+4]; ld.global.s32 %r7, [%d6+12]; ld.global.v4.u32 {%r13, %r14, %r15, %r16}, [%d6+32]; ld.global.v2.u32 {%r17, %r18}, [%d6+48]; mov.b32 %r8, %f1; mad.lo.u32 %r5, %r5, 3, %r6;\n"
                "mad.lo.u32 %r5, %r5, 3, %r7; mad.lo.u32 %r5, %r5, 3, %r8; mad.lo.u32 %r5, %r5, 3, %r13; mad.lo.u32 %r5, %r5, 3, %r14; mad.lo.u32 %r5, %r5, 3, %r15; mad.lo.u32 %r5, %r5, 3, %r16;\n"
                "mad.lo.u32 %r5, %r5, 3, %r17; mad.lo.u32 %r5, %r5, 3, %r18; st.global.u32 [%d1], %r5; L: ret;");
}

// A store between two loads that may be neighbours: the second sees it.
TEST(JitKernels, NeighbouringWordsAroundAStore) {
  same(kStart + "xor.b32 %r4, %r1, 5; mul.wide.u32 %d5, %r4, 8; add.s64 %d6, %d10, %d5; st.global.u32 [%d6], %r2; ld.global.u32 %r5, [%d6]; st.global.u32 [%d6+4], %r1; ld.global.u32 %r6, [%d6+4];\n"
                "add.s32 %r5, %r5, %r6; st.global.u32 [%d6+4], %r5; ret;");
}

// A block walks through rows together, between barriers; warps that leave at different barriers.
TEST(JitKernels, RowsAndBarriers) {
  same(kStart + "mov.u32 %r4, %r12; mov.u32 %r5, 0; mul.wide.u32 %d5, %r12, 4; add.s64 %d6, %d11, %d5;\nT: ld.global.u32 %r6, [%d6]; mad.lo.u32 %r5, %r5, 5, %r6; bar.sync 0; add.s64 %d6, %d6, 512; add.s32 %r4, %r4, 128;\n"
                "setp.lt.s32 %p1, %r4, 1024; @%p1 bra T; shr.u32 %r7, %r12, 5; setp.eq.u32 %p2, %r7, 2; @%p2 bra L; bar.sync 0; add.s32 %r5, %r5, 1;\nL: st.global.u32 [%d1], %r5; ret;", {2}, {128});
}

// Warps take turns in the loop; lanes and warps leave it at different times, some never enter it, some have exited.
TEST(JitKernels, RowsInTurns) {
  for (const uint32_t n : {1024u, 1000u, 130u, 31u, 0u})
    same(kStart + "setp.eq.u32 %p3, %r12, 77; @%p3 ret; mov.u32 %r4, %r12; mov.u32 %r5, 1; mul.wide.u32 %d5, %r12, 4; add.s64 %d6, %d11, %d5; setp.ge.s32 %p1, %r4, %r3; @%p1 bra L;\n"
                  "T: ld.global.u32 %r6, [%d6]; mad.lo.u32 %r5, %r5, 5, %r6; setp.eq.u32 %p2, %r6, 9; @%p2 bra L; add.s64 %d6, %d6, 512; add.s32 %r4, %r4, 128;\n"
                  "setp.lt.s32 %p1, %r4, %r3; @%p1 bra T; add.s32 %r5, %r5, 7;\nL: bar.sync 0; add.s32 %r5, %r5, %r1; st.global.u32 [%d1], %r5; ret;", {3}, {128}, n);
}

// The walking loop inside another one, whose trip count differs from warp to warp.
TEST(JitKernels, RowsInTurnsAgainAndAgain) {
  same(kStart + "shr.u32 %r13, %r12, 5; add.s32 %r13, %r13, 1; mov.u32 %r5, 1;\nO: mov.u32 %r4, %r12; mul.wide.u32 %d5, %r12, 4; add.s64 %d6, %d11, %d5;\n"
                "T: ld.global.u32 %r6, [%d6]; mad.lo.u32 %r5, %r5, 5, %r6; add.s64 %d6, %d6, 1024; add.s32 %r4, %r4, 256; setp.lt.s32 %p1, %r4, 1024; @%p1 bra T;\n"
                "add.s32 %r13, %r13, -1; setp.ne.u32 %p2, %r13, 0; @%p2 bra O; st.global.u32 [%d1], %r5; ret;", {2}, {256});
}

// What is kept at a barrier: indices, constants, predicates and chunks that live across it, also where warps part behind it.
TEST(JitKernels, RegistersAcrossBarriers) {
  const std::string body = kStart + "mov.u32 %r13, %tid.y; mad.lo.u32 %r20, %r13, %r11, %r12; mul.wide.u32 %d7, %r20, 4; add.s64 %d1, %d10, %d7; mad.lo.u32 %r1, %r10, 128, %r20; mad.lo.u32 %r14, %r13, 64, 11; setp.lt.u32 %p1, %r3, 100; mul.wide.u32 %d5, %r12, 8; shl.b32 %r21, %r10, 9; cvt.u64.u32 %d8, %r21; add.s64 %d1, %d1, %d8; mov.u64 %d6, 1234567890123; bar.sync 0;\n"
      "add.s32 %r15, %r2, %r14; shr.u32 %r16, %r1, 5; and.b32 %r16, %r16, 1; setp.eq.u32 %p2, %r16, 0; @%p2 bra S; bar.sync 1, 64; add.s32 %r15, %r15, 5;\n"
      "S: bar.sync 0; cvt.u32.u64 %r17, %d5; cvt.u32.u64 %r18, %d6; add.s32 %r15, %r15, %r17; add.s32 %r15, %r15, %r18; selp.u32 %r19, 17, 19, %p1; mad.lo.u32 %r15, %r19, %r15, %r14; bar.sync 0; add.s32 %r15, %r15, %r10; st.global.u32 [%d1], %r15; ret;";
  for (const uint32_t n : {50u, 150u}) same(body, {3}, {128}, n);
  same(body, {2}, {16, 8}, 150);
  same(body, {2}, {8, 16}, 150);
}

TEST(JitKernels, AddressesOfParametersAcrossBarriers) {
  same(kStart + "mov.b64 %d20, n; cvta.param.u64 %d20, %d20; bar.sync 0; ld.u32 %r4, [%d20]; add.s32 %r4, %r4, %r2; st.global.u32 [%d1], %r4; ret;");
}

TEST(JitKernels, NaNsThroughExchange) {
  same(kStart + "mov.b32 %f1, %r2; sub.f32 %f2, %f1, %f1; mul.f32 %f3, %f2, %f1; mov.b32 %r4, %f3; shfl.sync.bfly.b32 %r5, %r4, 3, 31, -1; mov.b32 %f4, %r5; add.f32 %f5, %f4, %f1; shfl.sync.idx.b32 %f6, %f5, 2, 31, -1;\n"
                "mov.b32 %r6, %f6; xor.b32 %r7, %r5, %r6; add.s32 %r7, %r7, %r4; st.global.u32 [%d1], %r7; ret;");
}

TEST(JitKernels, FloatsWithNaNs) {
  same(kStart + "mov.b32 %f1, %r2; mul.f32 %f2, %f1, %f1; sub.f32 %f3, %f2, %f2; fma.rn.f32 %f4, %f1, %f3, %f2; add.ftz.f32 %f5, %f4, %f1; min.f32 %f6, %f4, %f1; max.NaN.f32 %f7, %f3, %f1;\n"
                "div.rn.f32 %f8, %f1, %f6; sqrt.rn.f32 %f9, %f8; neg.f32 %f10, %f9; mov.b32 %r4, %f4; mov.b32 %r5, %f5; xor.b32 %r4, %r4, %r5; mov.b32 %r5, %f6; xor.b32 %r4, %r4, %r5; mov.b32 %r5, %f7; xor.b32 %r4, %r4, %r5;\n"
                "mov.b32 %r5, %f10; add.s32 %r4, %r4, %r5; st.global.u32 [%d1], %r4; ret;");
}

TEST(JitKernels, IntegerEdges) {
  same(kStart + "and.b32 %r4, %r2, 3; div.s32 %r5, %r2, %r4; rem.u32 %r6, %r2, %r4; shl.b32 %r7, %r2, %r1; shr.s32 %r8, %r2, %r1; mul.hi.s32 %r9, %r2, %r5; popc.b32 %r13, %r2; bfe.s32 %r14, %r2, 5, 9; clz.b32 %r15, %r2; brev.b32 %r16, %r2;\n"
                "xor.b32 %r5, %r5, %r6; add.s32 %r5, %r5, %r7; xor.b32 %r5, %r5, %r8; add.s32 %r5, %r5, %r9; add.s32 %r5, %r5, %r13; xor.b32 %r5, %r5, %r14; add.s32 %r5, %r5, %r15; xor.b32 %r5, %r5, %r16; prmt.b32 %r5, %r5, %r2, 0x4b16;\n"
                "lop3.b32 %r5, %r5, %r2, %r1, 0x6a; st.global.u32 [%d1], %r5; ret;");
}

TEST(JitKernels, IllegalAddressIsTheSameFault) { same(kStart + "add.s64 %d1, %d1, 1099511627776; st.global.u32 [%d1], %r2; ret;"); }
TEST(JitKernels, MisalignedAddressIsTheSameFault) { same(kStart + "add.s64 %d1, %d1, 2; st.global.u32 [%d1], %r2; ret;"); }

TEST(JitKernels, SpinLockBetweenLanes) {
  same(kStart + "mov.u32 %r20, 0;\nT: atom.global.cas.b32 %r4, [%d10+12288], 0, 1; setp.ne.s32 %p1, %r4, 0; @%p1 bra T;\n"
                "ld.volatile.global.u32 %r5, [%d10+12292]; add.s32 %r5, %r5, 1; st.volatile.global.u32 [%d10+12292], %r5; membar.gl; atom.global.exch.b32 %r6, [%d10+12288], 0; st.global.u32 [%d1], %r20; ret;", {1}, {64}, 150, "", true);
}

TEST(JitKernels, ValuesThatDifferByAPattern) {
  // A shift and a branch table by the lane's number: its lanes share a base but are not the same.
  same(kStart + "mov.u32 %r20, %laneid; mov.u32 %r21, 1; shl.b32 %r22, %r21, %r20; mov.u32 %r23, -16; shr.s32 %r24, %r23, %r20; and.b32 %r25, %r20, 3;\n"
                "T: .branchtargets A, B, C, A;\nbrx.idx %r25, T;\nA: add.s32 %r22, %r22, 5; bra E;\nB: xor.b32 %r22, %r22, %r2; bra E;\nC: add.s32 %r24, %r24, 9;\nE: add.s32 %r22, %r22, %r24; st.global.u32 [%d1], %r22; ret;");
}

TEST(JitKernels, PartsOfAWarpExchange) {
  same(kStart + "mov.u32 %r20, %laneid; and.b32 %r21, %r20, -16; mov.u32 %r22, 65535; shl.b32 %r23, %r22, %r21; redux.sync.add.u32 %r24, %r2, %r23; setp.gt.s32 %p1, %r2, 40;\n"
                "vote.sync.ballot.b32 %r25, %p1, %r23; shfl.sync.down.b32 %r26, %r2, 3, 4127, %r23; add.s32 %r24, %r24, %r25; xor.b32 %r24, %r24, %r26; st.global.u32 [%d1], %r24; ret;", {2}, {64});
}

TEST(JitKernels, PackedConversionOfAUniformAndAVaryingValue) {
  same(kStart + "mov.f32 %f1, 0f00000000; cvt.rn.f32.s32 %f2, %r2; cvt.rn.f16x2.f32 %r4, %f1, %f2; cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r5, %h1; add.s32 %r4, %r4, %r5; st.global.u32 [%d1], %r4; ret;");
}

TEST(JitKernels, ApproximationsAreTheHardwares) {
  same(kStart + "and.b32 %r4, %r2, 65535; add.s32 %r4, %r4, 3; cvt.rn.f32.u32 %f1, %r4; sqrt.approx.f32 %f2, %f1; rcp.approx.f32 %f3, %f1; rsqrt.approx.f32 %f4, %f1; div.full.f32 %f5, %f2, %f1;\n"
                "mov.b32 %r5, %f2; mov.b32 %r6, %f3; mov.b32 %r7, %f4; mov.b32 %r8, %f5; xor.b32 %r5, %r5, %r6; xor.b32 %r5, %r5, %r7; xor.b32 %r5, %r5, %r8; st.global.u32 [%d1], %r5; ret;");
}

TEST(JitKernels, OneLaneFeedsAPipelineThatTheOthersWaitFor) {
  // Warp 0's elected lane writes tiles, warp 1 reads them: full and empty barriers, two slots, 12 tiles.
  same(kStart + "mov.u32 %r20, s; mov.u32 %r21, %tid.x; shr.u32 %r22, %r21, 5; setp.ne.s32 %p1, %r21, 0; @%p1 bra I; mbarrier.init.shared.b64 [%r20], 1; mbarrier.init.shared.b64 [%r20+8], 1; mbarrier.init.shared.b64 [%r20+16], 32; mbarrier.init.shared.b64 [%r20+24], 32;\n"
                "I: bar.sync 0; mov.u32 %r23, 0; mov.u32 %r30, 0; setp.eq.s32 %p2, %r22, 1; @%p2 bra CONSUMER; setp.ne.s32 %p3, %r21, 0; @%p3 bra END;\n"
                "PRODUCE: and.b32 %r24, %r23, 1; shl.b32 %r25, %r24, 3; add.s32 %r25, %r25, %r20; shr.u32 %r26, %r23, 1; and.b32 %r26, %r26, 1; xor.b32 %r27, %r26, 1;\n"
                "WE: mbarrier.try_wait.parity.shared.b64 %p4, [%r25+16], %r27; @!%p4 bra WE; shl.b32 %r28, %r24, 2; add.s32 %r28, %r28, %r20; mad.lo.s32 %r29, %r23, 77, %r2; st.shared.u32 [%r28+32], %r29; mbarrier.arrive.shared.b64 _, [%r25];\n"
                "add.s32 %r23, %r23, 1; setp.lt.s32 %p5, %r23, 12; @%p5 bra PRODUCE; bra END;\n"
                "CONSUMER: and.b32 %r24, %r23, 1; shl.b32 %r25, %r24, 3; add.s32 %r25, %r25, %r20; shr.u32 %r26, %r23, 1; and.b32 %r26, %r26, 1;\n"
                "WF: mbarrier.try_wait.parity.shared.b64 %p4, [%r25], %r26; @!%p4 bra WF; shl.b32 %r28, %r24, 2; add.s32 %r28, %r28, %r20; ld.shared.u32 %r29, [%r28+32]; mad.lo.s32 %r30, %r30, 3, %r29; mbarrier.arrive.shared.b64 _, [%r25+16];\n"
                "add.s32 %r23, %r23, 1; setp.lt.s32 %p5, %r23, 12; @%p5 bra CONSUMER;\nEND: st.global.u32 [%d1], %r30; ret;", {2}, {64}, 150, ".shared .align 8 .b8 s[64];", true);
}

TEST(JitKernels, ALaunchTakesUpCodeWhenItIsReady) {
  setenv("ORRERY_CACHE", "off", 1);
  const std::string body = kStart + "mad.lo.s32 %r4, %r2, 3, %r1; st.global.u32 [%d1], %r4; ret;";
  const Outcome a = run(body, {40}, {64}, 150, true, "", 10), b = run(body, {40}, {64}, 150, false);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_GT(a.native_blocks, 0u);
  EXPECT_GT(a.interpreted_blocks, 0u);
  EXPECT_EQ(a.native_blocks + a.interpreted_blocks, 40u);
}

TEST(JitKernels, TheProgramsOwnFloatingPointModeDoesNotMatter) {
  setenv("ORRERY_CACHE", "off", 1);
  const std::string body = kStart + "and.b32 %r4, %r2, 8388607; mov.b32 %f1, %r4; add.f32 %f2, %f1, %f1; cvt.rn.f32.s32 %f3, %r2; div.rn.f32 %f3, %f3, 0f40400000; mov.b32 %r5, %f2; mov.b32 %r6, %f3; xor.b32 %r5, %r5, %r6; st.global.u32 [%d1], %r5; ret;";
  const Outcome plain = run(body, {2}, {64}, 150, false);
  const unsigned before = _mm_getcsr(), flushing_towards_zero = 0x1f80 | 0x8040 | 0x6000;
  for (bool compiled : {false, true}) {
    _mm_setcsr(flushing_towards_zero);
    const Outcome o = run(body, {2}, {64}, 150, compiled);
    EXPECT_EQ(_mm_getcsr() & ~0x3fu, flushing_towards_zero);
    _mm_setcsr(before);
    EXPECT_EQ(o.memory, plain.memory);
  }
}

}  // namespace
}  // namespace orrery
