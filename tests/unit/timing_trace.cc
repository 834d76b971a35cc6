// What tracing does with kernels that fault, that ask for a heap, that are given maps of another rank, that run long; and what
// it says of copies. Byte counts follow from the PTX manual's description of boxes, element strides and source sizes.
#include <gmock/gmock.h>

#include "base/error.h"
#include "exec/tensor_map.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

using testing::HasSubstr;

constexpr char kLoad[] = "ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1]; st.global.u32 [%d1], %r1; ret;";

/// Declares shared memory with an mbarrier at 0 and a buffer at 1024, and makes the mbarrier.
const std::string kShared = ".shared .align 1024 .b8 s[33792];";
const std::string kBarrier = "mov.u32 %r10, s; add.u32 %r11, %r10, 1024; mbarrier.init.shared::cta.b64 [%r10], 1; ld.param.u64 %d1, [p0];\n";
const std::string kWait = "\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r20;\n"
                          "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0; @!%p1 bra W; ret;";

uint64_t freed(TestMachine& m) {
  const uint64_t at = m.allocate(64 << 20);
  m.memory.release(at);
  return at;
}

TEST(Trace, ReadOfFreedMemoryIsAFault) {
  TestMachine m;
  const std::string error = m.error_of(TestKernel(kLoad, {freed(m)}));
  EXPECT_THAT(error, HasSubstr("illegal address"));
  EXPECT_THAT(error, HasSubstr("that was freed"));
}

TEST(Trace, BulkCopyOfFreedMemoryIsAFault) {
  TestMachine m;
  const TestKernel k(kBarrier + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%d1], 64, [%r10]; ret;", {freed(m)}, {1}, {1}, kShared);
  EXPECT_THAT(m.error_of(k), HasSubstr("illegal address"));
}

TEST(Trace, NextLaunchIsTracedAfterAFault) {
  TestMachine m;
  EXPECT_NE(m.error_of(TestKernel(kLoad, {freed(m)})), "");
  EXPECT_EQ(m.error_of(TestKernel(kLoad, {m.allocate(64)})), "");
}

TEST(Trace, DeviceMallocHasAHeap) {
  TestMachine m;
  const TestKernel k("{ .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call.uni (b), malloc, (a); ld.param.b64 %d2, [b]; }\nst.u32 [%d2], 7; ret;", {}, {1}, {1},
                     ".extern .func (.param .b64 r) malloc(.param .b64 n);");
  EXPECT_EQ(m.error_of(k), "");
}

TEST(Trace, MissingParametersAreRefused) {
  TestMachine m;
  TestKernel k(kLoad, {m.allocate(64)});
  k.launch.params.resize(4);
  EXPECT_THAT(m.error_of(k), HasSubstr("8 bytes of parameters, the launch has 4"));
}

/// A map of `rank` dimensions of 64 floats each, box of 32 x 8 (x 1 ...), in device memory.
uint64_t map_of(TestMachine& m, uint32_t rank, const uint32_t* element_strides, uint64_t tensor) {
  const uint64_t at = (m.allocate(256) + 63) / 64 * 64;
  const uint64_t dims[5] = {64, 64, 4, 2, 2};
  uint64_t strides[4];
  for (uint32_t i = 0; i < 4; i++) strides[i] = (i ? strides[i - 1] : 4) * dims[i];
  const uint32_t box[5] = {32, 8, 1, 1, 1};
  exec::TensorSpec spec;
  spec.type = 7 /* FLOAT32 */, spec.rank = rank, spec.address = tensor, spec.dims = dims, spec.strides = strides, spec.element_strides = element_strides;
  EXPECT_EQ(exec::encode_tiled(reinterpret_cast<exec::TensorMap*>(at), spec, box), exec::EncodeStatus::ok);
  return at;
}

constexpr uint32_t kEach[5] = {1, 1, 1, 1, 1};
const std::string kBox2 = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%d1, {%r1, %r2}], [%r10];";

TEST(Trace, MapOfAnotherRankIsAFault) {
  TestMachine m;
  const uint64_t tensor = m.allocate(1 << 20), five = map_of(m, 5, kEach, tensor), broken = map_of(m, 2, kEach, tensor);
  reinterpret_cast<exec::TensorMap*>(broken)->rank = 255;
  for (const uint64_t map : {five, broken}) {
    const TestKernel k(kBarrier + "mov.u32 %r1, 0; mov.u32 %r2, 0;" + kBox2 + " ret;", {map}, {1}, {1}, kShared);
    EXPECT_THAT(m.error_of(k), HasSubstr("tensor map of this rank"));
  }
}

TEST(Trace, BoxMovesWhatLiesInsideTheTensor) {
  TestMachine m;
  const uint64_t tensor = m.allocate(1 << 20), map = map_of(m, 2, kEach, tensor);
  const TestKernel k(kBarrier + "mov.u32 %r1, 32; mov.u32 %r2, 60; mov.u32 %r20, 1024;" + kBox2 + kWait, {map}, {1}, {1}, kShared);
  const std::vector<TracedBlock> blocks = m.trace(k);
  const std::vector<Event> copies = events_of(blocks[0], What::bulk_load);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].count, 32u * 8 * 4) << "the mbarrier counts the whole box";
  ASSERT_EQ(copies[0].n_detail, 1u);
  const auto& run = blocks[0].runs[copies[0].detail];
  EXPECT_EQ(run.address, tensor + 60 * 256 + 32 * 4);
  EXPECT_EQ(run.bytes, 128u);
  EXPECT_EQ(run.rows, 4u) << "rows 60 to 63 of 64";
  EXPECT_EQ(run.stride, 256u);
}

TEST(Trace, BoxOfFreedMemoryIsAFault) {
  TestMachine m;
  const TestKernel k(kBarrier + "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r20, 1024;" + kBox2 + kWait, {map_of(m, 2, kEach, freed(m))}, {1}, {1}, kShared);
  EXPECT_THAT(m.error_of(k), HasSubstr("that was freed"));
}

TEST(Trace, ElementStridesHalveABox) {
  TestMachine m;
  const uint32_t every_second[5] = {1, 2, 1, 1, 1};
  const uint64_t tensor = m.allocate(1 << 20), map = map_of(m, 2, every_second, tensor);
  const TestKernel k(kBarrier + "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r20, 512;" + kBox2 + kWait, {map}, {1}, {1}, kShared);
  const std::vector<TracedBlock> blocks = m.trace(k);
  const Event copy = events_of(blocks[0], What::bulk_load).at(0);
  EXPECT_EQ(copy.count, 32u * 4 * 4) << "a box of 8 rows steps over every second";
  EXPECT_EQ(blocks[0].runs[copy.detail].rows, 4u);
  EXPECT_EQ(blocks[0].runs[copy.detail].stride, 512u);
}

TEST(Trace, PixelsOfAnImageBeginAtTheirCoordinates) {
  TestMachine m;
  const uint64_t tensor = m.allocate(1 << 20), at = (m.allocate(256) + 63) / 64 * 64;
  const uint64_t dims[4] = {32, 16, 16, 2}, strides[3] = {128, 128 * 16, 128 * 16 * 16};  // channels, W, H, N
  exec::TensorSpec spec;
  spec.type = 7, spec.rank = 4, spec.address = tensor, spec.dims = dims, spec.strides = strides, spec.element_strides = kEach;
  const int corners[2] = {0, 0};
  ASSERT_EQ(exec::encode_im2col(reinterpret_cast<exec::TensorMap*>(at), spec, corners, corners, 32, 8), exec::EncodeStatus::ok);
  const TestKernel k(kBarrier + "mov.u32 %r1, 0; mov.u32 %r2, 4; mov.u32 %r3, 3; mov.u32 %r4, 1; mov.u16 %h1, 0; mov.u32 %r20, 1024;"
                     "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r11], [%d1, {%r1, %r2, %r3, %r4}], [%r10], {%h1, %h1};" + kWait,
                     {at}, {1}, {1}, kShared);
  const std::vector<TracedBlock> blocks = m.trace(k);
  const Event copy = events_of(blocks[0], What::bulk_load).at(0);
  EXPECT_EQ(copy.count, 8u * 128);
  EXPECT_EQ(copy.address, tensor + 4 * strides[0] + 3 * strides[1] + strides[2]);
  EXPECT_EQ(blocks[0].runs[copy.detail].rows, 8u);
}

TEST(Trace, CopyWithoutASourceReadsNothing) {
  TestMachine m;
  const uint64_t data = m.allocate(4096);
  const std::string body = "mov.u32 %r10, s; ld.param.u64 %d1, [p0]; cvt.u32.u64 %r1, %d1; mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 16; add.u64 %d1, %d1, %d2;"
                           "cvt.u32.u64 %r3, %d2; add.u32 %r10, %r10, %r3;";
  const TestKernel whole(body + "cp.async.cg.shared.global [%r10], [%d1], 16; cp.async.wait_all; ret;", {data}, {1}, {32}, kShared);
  const TestKernel none(body + "mov.u32 %r4, 0; cp.async.cg.shared.global [%r10], [%d1], 16, %r4; cp.async.wait_all; ret;", {data}, {1}, {32}, kShared);
  EXPECT_EQ(events_of(m.trace(whole)[0], What::copy_async).at(0).n_detail, 4u) << "512 bytes";
  EXPECT_EQ(events_of(m.trace(none)[0], What::copy_async).at(0).n_detail, 0u) << "zero fill";
}

/// `n` turns of a loop of seven instructions.
std::string loop(uint64_t n) {
  return "ld.param.u64 %d1, [p0]; mov.u32 %r1, 0;\nL: ld.global.cg.u32 %r2, [%d1]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2; add.u64 %d1, %d1, 128;\n"
         "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, " + std::to_string(n) + "; @%p1 bra L;\n";
}

TEST(Trace, LongBlocksAreCountedToTheirEnd) {
  TestMachine m;
  const TestKernel k(loop(1000) + "ret;", {m.allocate(128 * 1001)}, {2}, {32});
  const uint64_t all = m.trace(k)[0].instructions;
  EXPECT_GE(all, 7000u);
  TraceOptions options;
  options.max_instructions = 700;
  Tracer tracer(m.machine, k.launch, options);
  for (const uint64_t unit : {0, 1}) {
    const std::vector<TracedBlock> blocks = tracer.trace(unit);
    EXPECT_EQ(blocks[0].recorded, 700u);
    EXPECT_EQ(blocks[0].instructions, all) << "block " << unit;
  }
}

TEST(Trace, WarpsThatWaitForNobodyAreRecordedAlike) {
  TestMachine m;
  const TestKernel k(loop(1000) + "ret;", {m.allocate(128 * 1001)}, {1}, {256});  // eight warps, one after the other
  TraceOptions options;
  options.max_instructions = 5600;
  const TracedBlock b = std::move(m.trace(k, options)[0]);
  for (uint32_t warp = 0; warp < 8; warp++) EXPECT_NEAR(double(events_of(b, What::global_load, warp).size()), 100, 2) << warp << ": of seven instructions a turn";
  EXPECT_NEAR(b.longer, 10, 0.1);
  EXPECT_NEAR(double(b.instructions) / double(b.recorded), 10, 0.1);
}

TEST(Trace, WarpsThatMeetAreRecordedUpToOnePlace) {
  TestMachine m;
  const TestKernel k("mov.u32 %r1, 0;\nL: bar.sync 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra L; ret;", {}, {1}, {64});
  TraceOptions options;
  options.max_instructions = 2000;
  const TracedBlock b = std::move(m.trace(k, options)[0]);
  EXPECT_EQ(b.recorded, 2000u);
  EXPECT_NEAR(double(events_of(b, What::barrier, 0).size()), double(events_of(b, What::barrier, 1).size()), 1);
}

TEST(Trace, WhoComesLastToAReductionIsCountedOnce) {
  TestMachine m;
  const TestKernel k("mov.u32 %r1, 0;\nL: setp.eq.u32 %p2, %r1, 5000; bar.red.or.pred %p3, 0, %p2; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra L; ret;", {}, {1}, {64});
  const TracedBlock b = std::move(m.trace(k)[0]);
  for (uint32_t warp = 0; warp < 2; warp++) EXPECT_EQ(events_of(b, What::barrier_red, warp).size(), 10u) << warp;
  EXPECT_EQ(b.instructions, 2 * (1u + 5 * 10 + 1 - 1)) << "the last branch is taken by no lane";
}

/// A lane that waits for all threads after the others of its warp have gone on comes to the next product with them.
TEST(Trace, LanesThatWaitedMultiplyWithTheirWarp) {
  TestMachine m;
  const std::string begin = "mov.u32 %r10, s; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared::cta.b64 [%r10], 128; mov.u64 %d1, 0; bar.sync 0;\n",
                    wait = "mbarrier.arrive.shared::cta.b64 _, [%r10]; @%p1 bra G;\nW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0; @!%p2 bra W;\nG: ",
                    product = "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d1, 1, 1, 1, 0, 0; "
                              "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ";
  const TestKernel k(begin + wait + product + product + "ret;", {}, {1}, {128}, ".shared .align 1024 .b8 s[33792];");
  EXPECT_EQ(m.error_of(k), "");
}

/// Before the limit of instructions, if nobody changes what it looks at; but not if it counts.
TEST(Trace, BlocksThatSpinForEverAreTold) {
  TestMachine m;
  TraceOptions options;
  options.max_instructions = 1000;
  EXPECT_THAT(m.error_of(TestKernel("ld.param.u64 %d1, [p0];\nL: atom.global.add.u32 %r2, [%d1], 0; setp.eq.u32 %p1, %r2, 0; @%p1 bra L; ret;", {m.allocate(64)}), options),
              testing::AllOf(HasSubstr("livelock"), HasSubstr("it is 0 and nobody changes it")));
  EXPECT_EQ(m.error_of(TestKernel("ld.param.u64 %d1, [p0]; mov.u32 %r1, 0;\nL: atom.global.add.u32 %r2, [%d1], 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1200000; @%p1 bra L; ret;",
                                  {m.allocate(64)}), options), "");
}

TEST(Trace, StoresTellWhichSectorsTheyFill) {
  TestMachine m;
  // Half a warp writes 128 bytes from the eighth of a row on, the other half the same of a row 4,096 bytes further.
  const std::string rows = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 15; shr.u32 %r3, %r1, 4; shl.b32 %r4, %r3, 12; mad.lo.u32 %r4, %r2, 8, %r4; cvt.u64.u32 %d2, %r4; "
                           "add.s64 %d1, %d1, %d2; st.global.u64 [%d1+8], %d2; ret;";
  const TracedBlock b = std::move(m.trace(TestKernel(rows, {m.allocate(8192)}))[0]);
  const std::vector<Event> stores = events_of(b, What::global_store);
  ASSERT_EQ(stores.size(), 1u);
  const Event& e = stores[0];
  ASSERT_EQ(e.n_detail, 4u);
  EXPECT_EQ(filled_of(e), Filled::some);
  uint64_t touched[4], filled[4];
  for (uint32_t i = 0; i < 4; i++) touched[i] = b.lines[e.detail + i] & 15, filled[i] = b.lines[e.detail + 4 + i];
  EXPECT_THAT(touched, testing::ElementsAre(15, 1, 15, 1));
  EXPECT_THAT(filled, testing::ElementsAre(14, 0, 14, 0)) << "of the first sector 24 bytes, of the next line's 8";
  const TracedBlock whole = std::move(m.trace(TestKernel("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 8; add.s64 %d1, %d1, %d2; st.global.u64 [%d1], %d2; ret;", {m.allocate(8192)}))[0]);
  EXPECT_EQ(filled_of(events_of(whole, What::global_store)[0]), Filled::all);
  const TracedBlock words = std::move(m.trace(TestKernel("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 64; add.s64 %d1, %d1, %d2; st.global.u64 [%d1], %d2; ret;", {m.allocate(8192)}))[0]);
  EXPECT_EQ(filled_of(events_of(words, What::global_store)[0]), Filled::none);
}

TEST(Trace, NoMoreIsRecordedThanMemoryIsGiven) {
  TestMachine m;
  const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 128; add.s64 %d1, %d1, %d2; mov.u32 %r2, 0;\n"
                     "L: ld.global.u32 %r3, [%d1]; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 10000; @%p1 bra L; ret;", {m.allocate(8192)});
  TraceOptions options;
  options.max_bytes = 64 << 10;  // a load of 32 lines takes 256 bytes for them alone
  const TracedBlock b = std::move(m.trace(k, options)[0]);
  EXPECT_LE(events_of(b, What::global_load).size(), 256u);
  EXPECT_LT(b.recorded, b.instructions);
  EXPECT_EQ(b.instructions, 5u + 4 * 10000 + 1 - 1) << "the last branch is taken by no lane";
}

TEST(Trace, FaultsBeyondTheRecordedPartAreFaults) {
  TestMachine m;
  const TestKernel k(loop(1000) + "mov.u64 %d2, 8; ld.global.u32 %r3, [%d2]; st.global.u32 [%d1], %r3; ret;", {m.allocate(128 * 1001)}, {2}, {32});
  TraceOptions options;
  options.max_instructions = 700;
  EXPECT_THAT(m.error_of(k, options), HasSubstr("illegal address"));
}

TEST(Trace, BlocksWithoutAnEndAreRefused) {
  TestMachine m;
  const TestKernel k("L: bra L;", {}, {1}, {32});
  TraceOptions options;
  options.max_instructions = 1000, options.most_instructions = 1'000'000;
  EXPECT_THAT(m.error_of(k, options), HasSubstr("more than 1 million warp instructions"));
}

TEST(Trace, WarpsThatGoOnBehindTheirRecordSaySo) {
  TestMachine m;
  const TestKernel k(loop(400) + "ret;", {m.allocate(128 * 401)}, {1}, {32});
  TraceOptions options;
  EXPECT_FALSE(m.trace(k, options)[0].warps[0].cut);
  options.max_instructions = 1000;
  const std::vector<TracedBlock> blocks = m.trace(k, options);
  EXPECT_TRUE(blocks[0].warps[0].cut);
  EXPECT_LT(blocks[0].recorded, blocks[0].instructions);
}

TEST(Predict, LongBlocksGoOnAtTheRateOfWhatWasLookedAt) {
  TestMachine m;
  const TestKernel k(loop(4000) + "ret;", {m.allocate(128 * 4001)}, {1}, {32});
  PredictOptions whole, part;
  part.recorded_most = 9000;
  const Prediction a = m.predicted(k, whole), b = m.predicted(k, part);
  EXPECT_NEAR(b.cycles / a.cycles, 1, 0.1);
  EXPECT_NEAR(b.instructions / a.instructions, 1, 0.1);
  EXPECT_GT(b.sampling_error, 0.5) << "two thirds were not looked at";
  EXPECT_THAT(b.notes, testing::Contains(HasSubstr("was looked at")));
}

TEST(Predict, LongBlocksOfManyWarpsGoOnAlike) {
  TestMachine m;
  const std::string work = "ld.param.u64 %d1, [p0]; ld.global.u32 %r9, [%d1+4]; setp.ne.u32 %p3, %r9, 0; @%p3 ret;\n" + loop(2000) + "ret;";
  const TestKernel k(work, {m.allocate(128 * 2001)}, {1}, {256});
  PredictOptions whole, part;
  part.recorded_most = 8 * 2000 * 7 * 2 / 5;
  EXPECT_NEAR(m.predicted(k, part).cycles / m.predicted(k, whole).cycles, 1, 0.1) << "the first warps alone would run as long as all, and that 2.5 times";
}

TEST(Predict, RowsOfABlockThatBeginBetweenSectorsAreFilled) {
  // Blocks of 16 x 16 doubles, each row from the eighth byte of a sector on: neighbours fill what is left of the first and the last.
  constexpr uint32_t kAcross = 512, kDown = 64;
  TestMachine m;
  const std::string rows = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mad.lo.u32 %r5, %r3, 16, %r1; mad.lo.u32 %r6, %r4, 16, %r2; "
                           "mad.lo.u32 %r7, %r6, 8200, %r5; mul.wide.u32 %d2, %r7, 8; add.s64 %d1, %d1, %d2; st.global.u64 [%d1+8], %d2; ret;";
  const double written = 8.0 * 16 * kAcross * 16 * kDown;
  const Prediction p = m.predicted(TestKernel(rows, {m.allocate(uint64_t(8200) * 16 * kDown * 8 + 64)}, {kAcross, kDown}, {16, 16}));
  EXPECT_LT(p.dram_read, 0.03 * written);
}

TEST(Predict, TheBusiestSmsEndLast) {
  // Blocks differ, and few are traced: of 400 blocks four SMs have a fourth.
  TestMachine m;
  const std::string work = "ld.param.u64 %d1, [p0]; ld.global.u32 %r3, [%d1+4]; mov.u32 %r1, %ctaid.x; and.b32 %r1, %r1, 1; mad.lo.u32 %r1, %r1, 40, 1000; add.u32 %r1, %r1, %r3; mov.u32 %r2, 0;\n"
                           "mov.f32 %f1, 0f3F800000;\n"
                           "L: ex2.approx.f32 %f1, %f1; ex2.approx.f32 %f1, %f1; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;\nst.global.f32 [%d1], %f1; ret;";
  PredictOptions options;
  options.trace_budget = 1'000'000;
  const uint64_t out = m.allocate(256);
  const auto cycles = [&](uint32_t blocks) { return m.predicted(TestKernel(work, {out}, {blocks}, {512}), options).cycles; };
  EXPECT_NEAR(cycles(400) / cycles(396), 4.0 / 3, 0.1);
}

TEST(Predict, OfOneWaveTheLongestBlockEndsLast) {
  // Sequences of 1,000 to 2,500 turns by the block's column, in no order; few blocks are traced, and SMs that are simulated stand as far apart as a row is long.
  TestMachine m;
  const auto predicted = [&](uint32_t longer) {
    const std::string work = "ld.param.u64 %d1, [p0]; ld.global.u32 %r3, [%d1+4]; mov.u32 %r1, %ctaid.x; mul.lo.u32 %r1, %r1, 7; and.b32 %r1, %r1, 15; mul.lo.u32 %r1, %r1, " + std::to_string(longer) +
                             "; add.u32 %r1, %r1, 1000; add.u32 %r1, %r1, %r3; mov.u32 %r2, 0; mov.f32 %f1, 0f3F800000;\n"
                             "L: ex2.approx.f32 %f1, %f1; ex2.approx.f32 %f1, %f1; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;\nst.global.f32 [%d1], %f1; ret;";
    PredictOptions options;
    options.trace_budget = 2'500'000;
    return m.predicted(TestKernel(work, {m.allocate(256)}, exec::Dim3{16, 8}, {128}), options);
  };
  const Prediction same = predicted(0), differ = predicted(100);
  EXPECT_NEAR(differ.cycles / same.cycles, 2.5, 0.15);
  EXPECT_NEAR(differ.instructions / same.instructions, 1.75, 0.2);
}

TEST(Predict, LanesThatLeaveFirstDoNotEndTheWarp) {
  TestMachine m;
  const std::string work = "mov.u32 %r5, %tid.x; setp.ne.u32 %p2, %r5, 0; @%p2 bra E;\n" + loop(2000) + "E: bar.sync 0; ret;";
  const Prediction p = m.predicted(TestKernel(work, {m.allocate(128 * 2001)}, {1}, {32}));
  EXPECT_GT(p.instructions, 2000 * 3) << "a load, a sum and a store in each turn of one lane";
  EXPECT_GT(p.cycles, 2000 * 20) << "loads past L1";
}

TEST(Predict, OneBlockThatWorksAloneIsNotLeftOut) {
  TestMachine m;
  const std::string work = "mov.u32 %r5, %ctaid.x; setp.ne.u32 %p2, %r5, 0; @%p2 bra E;\n" + loop(2000) + "E: ret;";
  const Prediction p = m.predicted(TestKernel(work, {m.allocate(128 * 2001)}, {264}, {32}));
  EXPECT_GT(p.cycles, 2000 * 20) << "the first block's loads past L1";
  EXPECT_GT(p.instructions, 2000 * 3);
}

TEST(Predict, BlocksThatFindNoTileDoNotStandForTheOthers) {
  TestMachine m;
  const std::string work = "mov.u32 %r5, %ctaid.x; setp.ge.u32 %p2, %r5, 64; @%p2 bra E;\n" + loop(500) + "E: ret;";
  const Prediction p = m.predicted(TestKernel(work, {m.allocate(128 * 501)}, {396}, {32}));
  EXPECT_NEAR(p.instructions / (64 * 500), 5, 2) << "64 of 396 blocks work";
  EXPECT_GT(p.cycles, 500 * 20);
}

TEST(Predict, LoopsThatPtxasUnrollsHundredsOfTimesAreNoLonger) {
  // ptxas makes 333 copies of this turn, which begin from folded constants: two instructions each.
  TestMachine m;
  TestKernel k("mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, 0;\nld.param.u64 %d1, [p0];\nAGAIN:\nmad.lo.u32 %r1, %r1, %r1, %r2;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 4000;\n@%p2 bra AGAIN;\n"
               "st.global.b32 [%d1], %r1;\nret;",
               {m.allocate(256)}, {1}, {32});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_GT(p.instructions, 4000);
  EXPECT_LT(p.instructions, 4000 * 4);
}

TEST(Predict, BlocksBeyondTheWorkDoNotStandForThoseThatHaveSome) {
  // Of 50,000 blocks the first 300 go round a loop 4,000 times, a turn of three instructions: too many to trace them all.
  TestMachine m;
  TestKernel k("mov.u32 %r1, %ctaid.x;\nsetp.ge.u32 %p1, %r1, 300;\n@%p1 ret;\nmov.u32 %r2, 0;\nld.param.u64 %d1, [p0];\n"
               "AGAIN:\nmad.lo.u32 %r1, %r1, %r1, %r2;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 4000;\n@%p2 bra AGAIN;\nst.global.b32 [%d1], %r1;\nret;",
               {m.allocate(256)}, {50'000}, {128});
  PredictOptions o;
  o.trace_budget = 1'000'000;  // the 300 alone execute 19 million
  const Prediction p = m.predicted(k, o);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  const double least = 300.0 * 4 * 4000;  // one instruction a turn
  EXPECT_THAT(p.notes, testing::Contains(HasSubstr("2 kinds of work")));
  EXPECT_GT(p.instructions, 1.5 * least);
  EXPECT_LT(p.instructions, 6 * least) << "50,000 blocks would be 167 times as many";
}

TEST(Predict, PartsOfAWideLoadAreNoUnrolledCopies) {
  TestMachine m;
  const std::string body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, 0; mov.u32 %r9, 0;\nL: ld.global.cg.v4.u32 {%r2, %r3, %r4, %r5}, [%d1]; xor.b32 %r6, %r2, %r5; add.u32 %r9, %r9, %r6;\n"
                           "add.u64 %d1, %d1, 512; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; .pragma \"nounroll\"; @%p1 bra L; ld.param.u64 %d2, [p0]; st.global.u32 [%d2], %r9; ret;";
  EXPECT_GT(m.predicted(TestKernel(body, {m.allocate(512 * 1001)}, {1}, {1})).instructions, 1000 * 5);
}

TEST(Predict, WarpsAreLedThroughFunctionsThatAreCalled) {
  TestMachine m;
  const std::string function = R"(
.func f(.param .b64 a) { .reg .b64 %d<3>; .reg .b32 %r<4>; .reg .pred %p;
ld.param.b64 %d1, [a]; mov.u32 %r1, 0;
L: ld.global.cg.u32 %r2, [%d1]; add.u64 %d1, %d1, 128; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 500; .pragma "nounroll"; @%p bra L;
st.global.u32 [%d1], %r2; ret; })";
  const std::string call = "{ .param .b64 a; st.param.b64 [a], %d1; call.uni f, (a); }\n";
  const Prediction p = m.predicted(TestKernel("ld.param.u64 %d1, [p0];\n" + call + call + "ret;", {m.allocate(128 * 501)}, {1}, {32}, function));
  EXPECT_GT(p.instructions, 2 * 500 * 3) << "a load, a sum and a branch in each turn, at least";
  EXPECT_THAT(p.notes, testing::Each(testing::Not(testing::AnyOf(HasSubstr("could not be led"), HasSubstr("not found")))));
}

TEST(Predict, WarpsAreLedThroughFunctionsThatPointersName) {
  TestMachine m;
  const auto function = [](const char* name, int products) {
    std::string body = std::string(".func (.param .b32 r) ") + name + "(.param .b32 a) { .reg .f32 %f<3>;\nld.param.f32 %f1, [a]; mov.f32 %f2, %f1;\n";
    for (int i = 0; i < products; i++) body += "fma.rn.f32 %f2, %f2, %f1, %f1;\n";
    return body + "st.param.f32 [r], %f2; ret; }\n";
  };
  const std::string functions = function("f", 40) + function("g", 80) + ".global .align 8 .u64 table[2] = {f, g};";
  std::string calls;
  for (int i = 0; i < 8; i++)
    calls += "{ .param .b32 a; .param .b32 r; st.param.f32 [a], %f1; P" + std::to_string(i) + ": .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %d" + (i % 2 ? "3" : "2") + ", (a), P" +
             std::to_string(i) + "; ld.param.f32 %f1, [r]; }\n";
  const TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; ld.global.f32 %f1, [%d1];\n" + calls + "st.global.f32 [%d1+4], %f1; ret;",
                     {m.allocate(256), TestKernel::address_of_function(0), TestKernel::address_of_function(1)}, {1}, {32}, functions);
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_GT(p.instructions, 4 * (40 + 80)) << "the products";
  EXPECT_LT(p.instructions, 4 * (40 + 80) + 8 * 12 + 40) << "the products, the calls and what is around them";
  EXPECT_THAT(p.notes, testing::Each(testing::Not(testing::AnyOf(HasSubstr("could not be led"), HasSubstr("not found"), HasSubstr("left out")))));
}

/// 132 blocks that copy `pieces` times 16 KB each, one after the other.
Prediction copying(uint32_t pieces) {
  TestMachine m;
  const TestKernel k(kBarrier + R"(
mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 2097152; add.u64 %d1, %d1, %d2; mov.u32 %r2, 0; mov.u32 %r3, 0;
L: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 16384;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%d1], 16384, [%r10];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], %r3; @!%p1 bra W;
xor.b32 %r3, %r3, 1; add.u64 %d1, %d1, 16384; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, )" + std::to_string(pieces) + "; @%p2 bra L; ret;",
                     {m.allocate(132ull << 21)}, {132}, {1}, kShared);
  return m.predicted(k);
}

TEST(Predict, OnePageStandsForSeveralOfBulkCopies) {
  const Prediction p4 = copying(4), p8 = copying(8), p64 = copying(64), p128 = copying(128);  // 68 thousand to 2.2 million look-ups
  EXPECT_THAT(p8.notes, testing::Not(testing::Contains(HasSubstr("pages"))));
  EXPECT_THAT(p128.notes, testing::Contains(HasSubstr("one in 16 pages")));
  EXPECT_NEAR((p128.cycles - p64.cycles) / (p8.cycles - p4.cycles), 16, 0.8) << "a copy takes as long where not all its pages are looked up";
  EXPECT_NEAR(p128.dram_read, 132.0 * 128 * 16384, 0.01 * p128.dram_read);
  EXPECT_GT(p128.sampling_error, 0.01);
  EXPECT_EQ(p8.sampling_error, 0);
}

TEST(Predict, CopiesBetweenBlocksOfAClusterTakeTime) {
  TestMachine m;
  const auto cycles = [&](uint32_t bytes) {
    TestKernel k(kBarrier + "mov.u32 %r20, " + std::to_string(bytes) + "; mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1;\n"
                 "mapa.shared::cluster.u32 %r12, %r11, %r1; mapa.shared::cluster.u32 %r13, %r10, %r1;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r20;\n"
                 "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12], [%r11], %r20, [%r13];\n"
                 "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0; @!%p1 bra W;\n"
                 "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;",
                 {0}, {2}, {1}, kShared);
    k.launch.cluster = {2};
    return m.predicted(k).cycles;
  };
  // At most 32 bytes a cycle pass between SMs (18 were measured for loads).
  EXPECT_GT(cycles(32768), cycles(16) + 32768 / 32);
}

}  // namespace
}  // namespace orrery::timing
