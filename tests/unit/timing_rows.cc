// How a warp goes around barriers of clusters: the kernel `rows<8>` of calib/steps/cluster_rows.cu as nvcc 13.0 translates it, of which an H200 counted the
// instructions (calib/raw/h200-2026-11-29-cluster-rows.jsonl).
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kRows[] = R"(
    .reg .pred %q<27>; .reg .f32 %v<99>; .reg .b32 %w<106>; .reg .b64 %e<33>;
    ld.param.u64 %e5, [p0]; ld.param.u64 %e6, [p1]; ld.param.u32 %w28, [p2]; cvta.to.global.u64 %e7, %e5; mov.u32 %w30, %ctaid.x; cvt.u64.u32 %e1, %w30; mov.u32 %w31, %ntid.x;
    cvt.u64.u32 %e2, %w31; mul.wide.u32 %e8, %w30, %w31; shl.b64 %e9, %e8, 3; mov.u32 %w1, %tid.x; cvt.u64.u32 %e10, %w1; add.s64 %e3, %e9, %e10; shl.b64 %e11, %e3, 2;
    add.s64 %e12, %e7, %e11; ld.global.f32 %v1, [%e12]; mul.wide.u32 %e13, %w31, 4; add.s64 %e14, %e12, %e13; ld.global.f32 %v2, [%e14]; add.s64 %e15, %e14, %e13;
    ld.global.f32 %v3, [%e15]; add.s64 %e16, %e15, %e13; ld.global.f32 %v4, [%e16]; add.s64 %e17, %e16, %e13; ld.global.f32 %v5, [%e17]; add.s64 %e18, %e17, %e13;
    ld.global.f32 %v6, [%e18]; add.s64 %e19, %e18, %e13; ld.global.f32 %v7, [%e19]; add.s64 %e20, %e19, %e13; ld.global.f32 %v8, [%e20]; cvta.to.global.u64 %e4, %e6;
    and.b32 %w32, %w28, 16; setp.eq.s32 %q1, %w32, 0; mov.u32 %w99, 0; selp.b32 %w2, 1, 2, %q1; and.b32 %w3, %w1, 31; shr.u32 %w33, %w1, 3; and.b32 %w34, %w33, 536870908;
    mov.u32 %w35, part; add.s32 %w36, %w35, %w34; shr.u32 %w5, %w31, 5; and.b32 %w6, %w28, 1; and.b32 %w7, %w28, 2; and.b32 %w8, %w28, 4; add.s32 %w9, %w5, -1;
    and.b32 %w10, %w5, 3; sub.s32 %w11, %w5, %w10; mov.f32 %v98, 0f00000000; mov.u32 %w62, %cluster_nctarank;
    L1: sub.f32 %v29, %v1, %v98; fma.rn.f32 %v30, %v1, %v29, 0f00000000; sub.f32 %v31, %v2, %v98; fma.rn.f32 %v32, %v2, %v31, %v30; sub.f32 %v33, %v3, %v98;
    fma.rn.f32 %v34, %v3, %v33, %v32; sub.f32 %v35, %v4, %v98; fma.rn.f32 %v36, %v4, %v35, %v34; sub.f32 %v37, %v5, %v98; fma.rn.f32 %v38, %v5, %v37, %v36; sub.f32 %v39, %v6, %v98;
    fma.rn.f32 %v40, %v6, %v39, %v38; sub.f32 %v41, %v7, %v98; fma.rn.f32 %v42, %v7, %v41, %v40; sub.f32 %v43, %v8, %v98; fma.rn.f32 %v44, %v8, %v43, %v42; mov.b32 %w37, %v44;
    mov.u32 %w38, 31; mov.u32 %w39, 16; mov.u32 %w40, -1; shfl.sync.bfly.b32 %w41|%q2, %w37, %w39, %w38, %w40; mov.b32 %v45, %w41; add.f32 %v46, %v44, %v45; mov.b32 %w42, %v46;
    mov.u32 %w43, 8; shfl.sync.bfly.b32 %w44|%q3, %w42, %w43, %w38, %w40; mov.b32 %v47, %w44; add.f32 %v48, %v46, %v47; mov.b32 %w45, %v48; mov.u32 %w46, 4;
    shfl.sync.bfly.b32 %w47|%q4, %w45, %w46, %w38, %w40; mov.b32 %v49, %w47; add.f32 %v50, %v48, %v49; mov.b32 %w48, %v50; mov.u32 %w49, 2;
    shfl.sync.bfly.b32 %w50|%q5, %w48, %w49, %w38, %w40; mov.b32 %v51, %w50; add.f32 %v52, %v50, %v51; mov.b32 %w51, %v52; mov.u32 %w52, 1;
    shfl.sync.bfly.b32 %w53|%q6, %w51, %w52, %w38, %w40; mov.b32 %v53, %w53; add.f32 %v10, %v52, %v53; setp.ne.s32 %q7, %w3, 0; @%q7 bra L3; add.s32 %w96, %w36, 4;
    st.shared.f32 [%w96], %v10;
    L3: setp.ne.s32 %q8, %w1, 0; bar.sync 0; @%q8 bra L13; setp.eq.s32 %q9, %w5, 0; mov.f32 %v94, 0f00000000; @%q9 bra L12; setp.lt.u32 %q10, %w9, 3; mov.f32 %v94, 0f00000000;
    mov.u32 %w102, 0; @%q10 bra L8; mov.f32 %v94, 0f00000000; mov.u32 %w102, 0; mov.u32 %w101, %w11;
    L7: shl.b32 %w56, %w102, 2; add.s32 %w58, %w35, %w56; ld.shared.f32 %v58, [%w58+4]; add.f32 %v59, %v94, %v58; ld.shared.f32 %v60, [%w58+8]; add.f32 %v61, %v59, %v60;
    ld.shared.f32 %v62, [%w58+12]; add.f32 %v63, %v61, %v62; add.s32 %w102, %w102, 4; ld.shared.f32 %v64, [%w58+16]; add.f32 %v94, %v63, %v64; add.s32 %w101, %w101, -4;
    setp.ne.s32 %q11, %w101, 0; @%q11 bra L7;
    L8: setp.eq.s32 %q12, %w10, 0; @%q12 bra L12; setp.eq.s32 %q13, %w10, 1; shl.b32 %w59, %w102, 2; add.s32 %w61, %w35, %w59; ld.shared.f32 %v65, [%w61+4];
    add.f32 %v94, %v94, %v65; @%q13 bra L12; setp.eq.s32 %q14, %w10, 2; add.s32 %w97, %w61, 4; ld.shared.f32 %v66, [%w97+4]; add.f32 %v94, %v94, %v66; @%q14 bra L12;
    add.s32 %w98, %w61, 4; ld.shared.f32 %v67, [%w98+8]; add.f32 %v94, %v94, %v67;
    L12: st.shared.f32 [part], %v94;
    L13: setp.eq.s32 %q15, %w6, 0; bar.sync 0; ld.shared.f32 %v98, [part]; @%q15 bra L15; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    L15: setp.eq.s32 %q16, %w7, 0; @%q16 bra L24; setp.eq.s32 %q17, %w62, 0; mov.f32 %v98, 0f00000000; @%q17 bra L24; add.s32 %w64, %w62, -1; and.b32 %w20, %w62, 3;
    setp.lt.u32 %q18, %w64, 3; mov.f32 %v98, 0f00000000; mov.u32 %w105, 0; @%q18 bra L20; sub.s32 %w104, %w62, %w20; mov.f32 %v98, 0f00000000; mov.u32 %w105, 0;
    L19: mapa.shared::cluster.u32 %w66, %w35, %w105; ld.shared::cluster.f32 %v72, [%w66]; add.f32 %v76, %v98, %v72; add.s32 %w72, %w105, 1;
    mapa.shared::cluster.u32 %w70, %w35, %w72; ld.shared::cluster.f32 %v73, [%w70]; add.f32 %v77, %v76, %v73; add.s32 %w76, %w105, 2; mapa.shared::cluster.u32 %w74, %w35, %w76;
    ld.shared::cluster.f32 %v74, [%w74]; add.f32 %v78, %v77, %v74; add.s32 %w80, %w105, 3; mapa.shared::cluster.u32 %w78, %w35, %w80; ld.shared::cluster.f32 %v75, [%w78];
    add.f32 %v98, %v78, %v75; add.s32 %w105, %w105, 4; add.s32 %w104, %w104, -4; setp.ne.s32 %q19, %w104, 0; @%q19 bra L19;
    L20: setp.eq.s32 %q20, %w20, 0; @%q20 bra L24; mapa.shared::cluster.u32 %w82, %w35, %w105; ld.shared::cluster.f32 %v79, [%w82]; add.f32 %v98, %v98, %v79;
    setp.eq.s32 %q21, %w20, 1; @%q21 bra L24; add.s32 %w88, %w105, 1; mapa.shared::cluster.u32 %w86, %w35, %w88; ld.shared::cluster.f32 %v80, [%w86]; add.f32 %v98, %v98, %v80;
    setp.eq.s32 %q22, %w20, 2; @%q22 bra L24; add.s32 %w92, %w105, 2; mapa.shared::cluster.u32 %w90, %w35, %w92; ld.shared::cluster.f32 %v81, [%w90]; add.f32 %v98, %v98, %v81;
    L24: setp.eq.s32 %q23, %w8, 0; @%q23 bra L26; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    L26: add.s32 %w99, %w99, 1; setp.lt.u32 %q24, %w99, %w2; @%q24 bra L1; and.b32 %w94, %w28, 8; setp.eq.s32 %q25, %w94, 0; @%q25 bra L29; bra.uni L28;
    L29: setp.neu.f32 %q26, %v98, 0f4640E400; @%q26 bra L31; shl.b64 %e31, %e1, 2; add.s64 %e32, %e4, %e31; mov.u32 %w95, 1178657792; st.global.u32 [%e32], %w95; bra.uni L31;
    L28: mul.f32 %v82, %v98, %v1; add.s64 %e22, %e4, %e11; st.global.f32 [%e22], %v82; shl.b64 %e23, %e2, 2; add.s64 %e24, %e22, %e23; mul.f32 %v83, %v98, %v2;
    st.global.f32 [%e24], %v83; add.s64 %e25, %e24, %e23; mul.f32 %v84, %v98, %v3; st.global.f32 [%e25], %v84; add.s64 %e26, %e25, %e23; mul.f32 %v85, %v98, %v4;
    st.global.f32 [%e26], %v85; add.s64 %e27, %e26, %e23; mul.f32 %v86, %v98, %v5; st.global.f32 [%e27], %v86; add.s64 %e28, %e27, %e23; mul.f32 %v87, %v98, %v6;
    st.global.f32 [%e28], %v87; add.s64 %e29, %e28, %e23; mul.f32 %v88, %v98, %v7; st.global.f32 [%e29], %v88; add.s64 %e30, %e29, %e23; mul.f32 %v89, %v98, %v8;
    st.global.f32 [%e30], %v89;
    L31: ret;
)";

/// Instructions of a warp, on average, of blocks of eight warps.
double instructions_of(uint64_t what, uint32_t cluster, bool& skip) {
  TestMachine m;
  TestKernel k(kRows, {m.allocate(1 << 20), m.allocate(1 << 20), what}, {128}, {256}, ".shared .align 4 .b8 part[136];");
  k.launch.cluster = {std::max(1u, cluster)}, k.launch.in_clusters = cluster > 0;
  const Prediction p = m.predicted(k);
  skip |= p.method != "machine code";
  return double(p.instructions) / (128 * 8);
}

TEST(TimingRows, WhatALaunchWithoutClustersDoesIsNotDone) {
  enum Steps { kLoads = 0, kMeets = 1, kTakes = 2, kMeetsAgain = 4, kStores = 8, kTwice = 16 };
  struct {
    const char* name;
    uint64_t what;
    uint32_t cluster;
    double instructions;
  } const of[] = {{"rows_load", kLoads, 0, 103}, {"rows_load", kLoads, 2, 103}, {"rows_meet", kMeets, 2, 115}, {"rows_meet_twice", kMeets | kMeetsAgain, 4, 127},
                  {"rows_take", kMeets | kTakes | kMeetsAgain, 2, 159}, {"rows_take", kMeets | kTakes | kMeetsAgain, 8, 201}, {"rows_store", kStores, 2, 143},
                  {"rows_all_twice", kMeets | kTakes | kMeetsAgain | kStores | kTwice, 4, 346}};
  bool skip = false;
  for (const auto& [name, what, cluster, instructions] : of) {
    const double found = instructions_of(what, cluster, skip);
    if (skip) GTEST_SKIP() << "no ptxas";
    EXPECT_NEAR(found, instructions, instructions / 200) << name << "/" << cluster;
  }
}

}  // namespace
}  // namespace orrery::timing
