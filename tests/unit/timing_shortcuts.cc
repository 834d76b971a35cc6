// What tracing and simulating leave out must not be missed: the slice of a kernel, steps that warps share, lines of L2 and their
// order of use. Expected events and slices follow from the PTX text, the order of use from a list that is kept the plain way.
#include <algorithm>
#include <list>
#include <random>

#include "timing/l2_lines.h"
#include "timing/shared_steps.h"
#include "timing/slice.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

using isa::Op;

struct Sliced {
  Slice slice;
  std::vector<const exec::DecodedProgram*> programs;
  /// How many instructions of this kind run in program `k` (0: the kernel).
  size_t kept(Op op, size_t k = 0) const {
    size_t n = 0;
    for (size_t i = 0; i < programs[k]->code.size(); i++) n += slice.kept[k][i] && programs[k]->code[i].instr->form.op == op;
    return n;
  }
};

Sliced sliced(const TestKernel& k, bool accesses) {
  Sliced s;
  s.programs.push_back(k.launch.kernel->entry.get());
  for (const auto& f : k.launch.kernel->functions)
    if (f) s.programs.push_back(f.get());
  s.slice = slice_of(s.programs, accesses);
  return s;
}

constexpr char kExponentials[] = R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
ld.global.f32 %f1, [%d3]; ex2.approx.f32 %f2, %f1; fma.rn.f32 %f3, %f2, %f2, %f1; st.global.f32 [%d3], %f3; ret;)";

TEST(Slice, ArithmeticThatOnlyGoesIntoMemoryIsLeftOut) {
  const TestKernel k(kExponentials, {0});
  const Sliced all = sliced(k, true);
  EXPECT_FALSE(all.slice.reads_memory);
  EXPECT_EQ(all.kept(Op::ex2) + all.kept(Op::fma), 0u);
  EXPECT_EQ(all.kept(Op::ld), 2u) << "the parameter and the load: its address is looked at";
  EXPECT_EQ(all.kept(Op::st), 1u);
  EXPECT_EQ(all.kept(Op::mul) + all.kept(Op::add), 2u) << "the address";
  const Sliced copies = sliced(k, false);
  EXPECT_EQ(copies.kept(Op::ld) + copies.kept(Op::st) + copies.kept(Op::mul), 0u) << "no copy needs them";
}

TEST(Slice, BranchesAroundWhatIsLeftOutGoAnyWay) {
  const auto kernel = [](const std::string& inside) {
    return TestKernel("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; ex2.approx.f32 %f2, %f1; setp.gt.f32 %p1, %f2, %f1;\n@%p1 bra L; " + inside +
                          "\nL: st.global.f32 [%d1], %f2; bar.sync 0; ret;", {0});
  };
  EXPECT_EQ(sliced(kernel("mul.f32 %f2, %f2, %f1;"), false).kept(Op::ex2), 0u);
  EXPECT_EQ(sliced(kernel("mul.f32 %f2, %f2, %f1; @%p1 bra M; bra N; M: mul.f32 %f3, %f2, %f1; N: mul.f32 %f4, %f2, %f1;"), false).kept(Op::ex2), 0u) << "nor do those inside";
  EXPECT_EQ(sliced(kernel("bar.sync 1;"), false).kept(Op::ex2), 1u) << "it decides on a barrier";
  EXPECT_EQ(sliced(kernel("M: mul.f32 %f2, %f2, %f1; setp.gt.f32 %p2, %f2, %f1; @%p2 bra M;"), false).kept(Op::ex2), 1u) << "it decides on a loop, which has an end";
  EXPECT_EQ(sliced(kernel("exit;"), false).kept(Op::ex2), 1u) << "it decides who comes to the barrier";
  EXPECT_EQ(sliced(kernel("mul.f32 %f2, %f2, %f1;"), true).kept(Op::ex2), 1u) << "which instructions run is looked at";
}

TEST(Slice, StoresRunWhenALoadGivesAnAddress) {
  const TestKernel k(R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 3; st.global.u32 [%d1], %r2; ld.global.u64 %d4, [%d1]; ld.global.u32 %r3, [%d4];
st.global.u32 [%d1+8], %r3; ret;)", {0});
  const Sliced s = sliced(k, true);
  EXPECT_TRUE(s.slice.reads_memory);
  EXPECT_EQ(s.kept(Op::add), 1u) << "what is stored may be what is loaded";
}

TEST(Slice, ResultsOfAtomicsAreMemory) {
  const TestKernel k(R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 3; st.shared.u32 [s], %r2; atom.shared.add.u32 %r3, [s], 1;
mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r1; ret;)", {0}, {1}, {32}, ".shared .b32 s;");
  EXPECT_TRUE(sliced(k, true).slice.reads_memory);
}

TEST(Slice, LoadsOfFunctionsKeepTheKernelsStores) {
  const TestKernel k(R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 3; st.global.u32 [%d1], %r2;
{ .param .b64 a; st.param.b64 [a], %d1; call.uni f, (a); } ret;)", {0}, {1}, {32}, R"(
.func f(.param .b64 a) { .reg .b64 %d<3>; .reg .b32 %r<3>; .reg .pred %p;
ld.param.b64 %d1, [a]; ld.global.u32 %r1, [%d1]; setp.eq.u32 %p, %r1, 0; @%p bra E; st.global.u32 [%d1+4], %r1; E: ret; })");
  const Sliced s = sliced(k, true);
  ASSERT_EQ(s.programs.size(), 2u);
  EXPECT_TRUE(s.slice.reads_memory);
  EXPECT_EQ(s.kept(Op::add), 1u);
}

TEST(Trace, ProductsThatSteerControlGiveTheSameInEveryBlock) {
  TestMachine m;
  // A block that finds a sum above 0 stores; every one leaves 1 where its sum was.
  const TestKernel k(R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, 0; mov.f32 %f9, 0f00000000;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f9, %f9, %f9, %f9};
setp.gt.f32 %p1, %f1, %f9; @%p1 bra S; bra E; S: st.global.f32 [%d1], %f1;
E: mov.f32 %f1, 0f3f800000; setp.gt.f32 %p2, %f1, %f9; @%p2 st.global.f32 [%d1+4], %f1; ret;)", {m.allocate(64)}, {4});
  Tracer tracer(m.machine, k.launch, {});
  for (uint64_t block = 0; block < 4; block++) EXPECT_EQ(events_of(tracer.trace(block)[0], What::global_store).size(), 1u) << "block " << block;
}

TEST(Trace, LoopsAsOftenAsTheBlockItselfWroteIntoMemory) {
  TestMachine m;
  const TestKernel k(R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, 4; add.u32 %r1, %r1, 1; st.shared.u32 [s], %r1; bar.sync 0; ld.shared.u32 %r2, [s];
L: st.global.u32 [%d1], %r2; sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; ret;)", {m.allocate(64)}, {1}, {32}, ".shared .b32 s;");
  EXPECT_EQ(events_of(m.trace(k)[0], What::global_store).size(), 5u);
}

TEST(Trace, WhatIsLeftOutIsCounted) {
  TestMachine m;
  const TestKernel k(kExponentials, {m.allocate(128)});
  const std::vector<TracedBlock> blocks = m.trace(k);
  const TracedBlock& b = blocks[0];
  EXPECT_EQ(b.instructions, 9u);
  EXPECT_EQ(b.recorded, 9u);
  EXPECT_EQ(events_of(b, What::global_load).size(), 1u);
}

TEST(SharedSteps, WarpsOfEqualEventsShareAndOthersDoNot) {
  TestMachine m;
  const TestKernel k(R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; setp.lt.u32 %p1, %r1, 64; @!%p1 bra E;
ld.global.u32 %r2, [%d3]; st.global.u32 [%d3+4096], %r2; E: ret;)", {m.allocate(8192)}, {1}, {96});
  const std::vector<TracedBlock> blocks = m.trace(k);
  const Join join(*k.launch.kernel);
  SharedSteps shared;
  JoinStatistics together, alone;
  std::vector<Steps> steps;
  for (const TracedWarp& w : blocks[0].warps) {
    steps.push_back(shared.of(join, w, together));
    const std::vector<Step> own = join.steps(w, alone);
    ASSERT_EQ(steps.back()->size(), own.size());
    for (size_t i = 0; i < own.size(); i++) EXPECT_TRUE((*steps.back())[i].instruction == own[i].instruction && (*steps.back())[i].event == own[i].event);
  }
  EXPECT_EQ(steps[0], steps[1]) << "other addresses, the same events";
  EXPECT_NE(steps[0], steps[2]) << "the third warp neither loads nor stores";
  EXPECT_EQ(together.memory_steps, alone.memory_steps);
  EXPECT_EQ(together.walked, alone.walked);
}

TEST(L2Lines, TheLeastRecentlyUsedGoes) {
  L2Lines lines(2);
  std::list<uint64_t> held;  // of one set: the latest used first
  std::mt19937_64 random(7);
  const auto at = [&](uint64_t line) { return lines.place_of(0, (line * 77 & 0xFFFF) << 8, 0); };  // one set, keys that repeat
  for (int i = 0; i < 20'000; i++) {
    const uint64_t line = random() % 40 + (random() % 2) * 65536;
    uint64_t gone = 0;
    lines.find(line, at(line), [&](L2Lines::Line old) { gone = old.tag(); });
    const auto found = std::find(held.begin(), held.end(), line);
    const uint64_t expected = found != held.end() ? 0 : held.size() < L2Lines::kWays ? ~uint64_t{0} : held.back();
    ASSERT_EQ(gone, expected) << "access " << i;
    if (found != held.end()) held.erase(found);
    held.push_front(line);
    if (held.size() > L2Lines::kWays) held.pop_back();
    ASSERT_EQ(lines.peek(line, at(line)).tag(), line);
  }
}

TEST(L2Lines, ArraysFillItEvenly) {
  // sgemm_tiled/2048 of calib/truth on an H100: two arrays of 16.8 MB that are read over and over stay in the 26 MB of each half (33.6 MB read from memory).
  for (const uint32_t sets : {2u, 3u, 800u, 12'207u, 16'777'213u / 64}) {
    L2Lines lines(sets);
    const uint64_t first = 0x5000000, n = uint64_t{sets} * L2Lines::kWays;
    uint64_t gone = 0;
    for (int pass = 0; pass < 2; pass++)
      for (uint64_t line = first; line < first + n - 2 * sets; line++)
        lines.find(line, lines.place_of(line, line * 0x9E3779B97F4A7C15ull, 1), [&](L2Lines::Line old) { gone += ~old.tag() != 0; });
    EXPECT_EQ(gone, 0u) << sets << " sets";
  }
}

// Two H200s ran 39 clusters of three blocks at once, of blocks that fill an SM (calib/raw/h200-2026-11-22-clusters.jsonl).
TEST(Prediction, WavesAreOfTheClustersThatRunAtOnce) {
  TestMachine m;
  TestKernel k("mov.u32 %r1, 1; ret;", {}, {3 * 78});
  k.launch.cluster = {3}, k.launch.dynamic_shared = 200 << 10;
  EXPECT_DOUBLE_EQ(m.predicted(k).waves, 2);
}

}  // namespace
}  // namespace orrery::timing
