// Words taken from other blocks of a cluster and added there, and clusters whose blocks do different work, predicted: what an H200 takes is in
// calib/raw/h200-2026-11-29-peer-words.jsonl (calib/steps/peer_words.cu), at 1.98 GHz. Without ptxas there is no machine code to time: skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kMachineCode[] = "machine code";
constexpr double kGigahertz = 1.98;

/// What `body` becomes as a kernel of clusters of `size`, one block an SM; r9 is p1, r3 its rank, r2 the next block's, room 64 KB of shared memory, told an mbarrier.
Prediction of_clusters(uint32_t size, const std::string& body, uint64_t rounds) {
  TestMachine m;
  TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r3, %cluster_ctarank; add.u32 %r2, %r3, 1; rem.u32 %r2, %r2, " + std::to_string(size) + ";\n" + body + " OUT: ret;",
               {m.allocate(4096), rounds}, {size == 2 ? 132u : 120u}, {256}, ".shared .align 1024 .b8 room[65536]; .shared .align 8 .b64 told;");
  k.launch.cluster = {size}, k.launch.in_clusters = true, k.launch.dynamic_shared = 50000;
  return m.predicted(k);
}
constexpr char kMeet[] = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";

/// Cycles for which an SM is held by a load of a word a lane from another block, `apart` bytes from lane to lane.
double cycles_of_load(uint32_t size, int apart) {
  std::string loads;
  for (int k = 0; k < 8; k++) loads += fmt::format("ld.volatile.shared::cluster.u32 %r{}, [%r4+{}];\n", 20 + k, k * 512);
  for (int k = 0; k < 8; k++) loads += fmt::format("add.u32 %r7, %r7, %r{};\n", 20 + k);
  const std::string body = fmt::format("mov.u32 %r5, room; mapa.shared::cluster.u32 %r4, %r5, %r2; and.b32 %r5, %r1, 31; mad.lo.u32 %r4, %r5, {}, %r4; shr.u32 %r5, %r1, 3; and.b32 %r5, %r5, 28; add.u32 %r4, %r4, %r5;\n"
                                       "mov.u32 %r6, 0; mov.u32 %r7, 0;\n", apart) + kMeet + "AGAIN: .pragma \"nounroll\";\n" + loads +
                           "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r9; @%p1 bra AGAIN;\n" + kMeet + "setp.ne.u32 %p2, %r7, 12345; @%p2 bra OUT; st.global.u32 [%d1], %r7;";
  const Prediction few = of_clusters(size, body, 16), many = of_clusters(size, body, 48);
  return few.method == kMachineCode ? (many.cycles - few.cycles) / (32 * 8 * 8) : 0;
}
/// The same of a case of take_apart, 64 rounds of eight loads by eight warps.
constexpr double of_case(double us) { return us * 1e3 * kGigahertz / (64 * 8 * 8); }

TEST(TimingPeerWords, LanesInDifferentLinesComeLineByLine) {
  struct {
    uint32_t size;
    int apart;
    double us;
  } const of[] = {{2, 32, 133.296}, {2, 64, 159.296}, {2, 260, 214.32}, {4, 32, 167.584}, {4, 260, 247.024}};  // take_apart_
  for (const auto& [size, apart, us] : of) {
    const double cycles = cycles_of_load(size, apart);
    if (cycles == 0) GTEST_SKIP() << "no ptxas";
    EXPECT_NEAR(cycles, of_case(us), 0.06 * of_case(us)) << size << ", " << apart;
  }
}

/// Each block adds up a word of those before it: the last of a cluster takes seven, and all wait for it.
TEST(TimingPeerWords, TheBlockThatTakesMostSetsTheTime) {
  TestMachine m;
  TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %cluster_ctarank; mad.lo.u32 %r4, %r2, 256, %r1; mul.wide.u32 %d3, %r4, 16; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"
               "ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%d1]; setp.ne.u32 %p1, %r1, 0; @%p1 bra MET; st.shared.u32 [total], %r10; MET:\n" + std::string(kMeet) +
                   "mov.u32 %r5, 0; mov.u32 %r6, total; setp.ge.u32 %p2, %r5, %r3; @%p2 bra DONE;\n"
                   "NEXT: mapa.shared::cluster.u32 %r7, %r6, %r5; ld.volatile.shared::cluster.u32 %r8, [%r7]; add.u32 %r10, %r10, %r8; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r3; @%p3 bra NEXT;\n"
                   "DONE: st.global.v4.u32 [%d2], {%r10,%r11,%r12,%r13};\n" + kMeet + "ret;",
               {m.allocate(2048 * 4096), m.allocate(2048 * 4096)}, {2048}, {256}, ".shared .align 4 .b8 total[16];");
  k.launch.cluster = {8}, k.launch.in_clusters = true;
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.microseconds, 9.632, 0.1 * 9.632);                  // before/8
  EXPECT_NEAR(double(p.instructions), 1431552, 0.2 * 1431552);      // of a loop that the compiler unrolls
}

/// A round in which each thread adds words to the next block's memory, whose mbarrier counts them, and the cluster meets.
double cycles_of_adds(int each, int apart) {
  std::string adds;
  for (int k = 0; k < each; k++) adds += fmt::format("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r4+{}], %r6, [%r5];\n", k * 512);
  const std::string body = fmt::format("mov.u32 %r10, room; mov.u32 %r11, told; mapa.shared::cluster.u32 %r4, %r10, %r2; mapa.shared::cluster.u32 %r5, %r11, %r2; mad.lo.u32 %r12, %r1, {}, 0; and.b32 %r12, %r12, 32767; add.u32 %r4, %r4, %r12; mov.u32 %r6, 0;\n"
                                       "setp.ne.u32 %p1, %r1, 0; @%p1 bra MADE; mbarrier.init.shared.b64 [told], 1;\nMADE:\n", apart) + kMeet +
                           fmt::format("AGAIN: .pragma \"nounroll\"; @%p1 bra TOLD; mbarrier.arrive.expect_tx.shared.b64 _, [told], {};\nTOLD:\n", each * 1024) + adds +
                           "and.b32 %r13, %r6, 1;\nTRY: mbarrier.try_wait.parity.shared.b64 %p3, [told], %r13; @!%p3 bra TRY;\n" + kMeet + "add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r9; @%p2 bra AGAIN;";
  const Prediction few = of_clusters(2, body, 16), many = of_clusters(2, body, 48);
  return few.method == kMachineCode ? (many.cycles - few.cycles) / 32 : 0;
}

TEST(TimingPeerWords, AdditionsThatTellABarrierTakeTheirTime) {
  const double few = cycles_of_adds(4, 4);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  constexpr double kOfRound = kGigahertz * 1e3 / 64;                                                               // cycles of a round, by the microseconds of 64
  EXPECT_NEAR(few, 36.528 * kOfRound, 0.15 * 36.528 * kOfRound);                                                   // add_async_2_each/4
  EXPECT_NEAR(cycles_of_adds(16, 4) - few, (78.112 - 36.528) * kOfRound, 0.15 * (78.112 - 36.528) * kOfRound);     // each/16
  EXPECT_NEAR(cycles_of_adds(4, 32) - few, (101.92 - 36.528) * kOfRound, 0.15 * (101.92 - 36.528) * kOfRound);     // apart/32
  EXPECT_NEAR(cycles_of_adds(4, 0) - few, (137.76 - 36.528) * kOfRound, 0.15 * (137.76 - 36.528) * kOfRound);      // apart/0
}

}  // namespace
}  // namespace orrery::timing
