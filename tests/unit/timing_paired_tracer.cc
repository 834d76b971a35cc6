// Two tracers side by side give what one gives, in its order, however long blocks are.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "timing/paired_tracer.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

// Block i goes round 4,000 + 100 i times, long enough for a second thread; block 6 then stores to p0.
const std::string kRounds = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 100, 4000;\n"
                            "L: sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;\n"
                            "setp.eq.u32 %p2, %r1, 6; @%p2 st.global.u32 [%d1], %r1; ret;";

struct Kept {
  std::vector<uint64_t> order, instructions, shapes;
  void keep(const std::vector<TracedBlock>& blocks) {
    order.push_back(blocks[0].index), instructions.push_back(blocks[0].instructions), shapes.push_back(blocks[0].shape);
  }
  bool operator==(const Kept&) const = default;
};

std::vector<uint64_t> units(uint64_t n) {
  std::vector<uint64_t> all(n);
  std::iota(all.begin(), all.end(), uint64_t{0});
  std::reverse(all.begin(), all.end());
  return all;
}

TEST(PairedTracer, GivesWhatOneTracerGivesInItsOrder) {
  TestMachine m;
  const TestKernel k(kRounds, {m.allocate(64)}, {12});
  Kept one, two;
  Tracer tracer(m.machine, k.launch, {});
  for (const uint64_t unit : units(12)) one.keep(tracer.trace(unit));
  PairedTracer pair(m.machine, k.launch, {});
  pair.trace_each(units(12), [](size_t) { return true; }, [&](std::vector<TracedBlock> blocks) { two.keep(blocks); });
  EXPECT_EQ(one, two);
  EXPECT_THAT(two.order, testing::ElementsAre(11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
}

TEST(PairedTracer, StopsWhereNoMoreAreWanted) {
  TestMachine m;
  const TestKernel k(kRounds, {m.allocate(64)}, {12});
  for (size_t most = 0; most < 6; most++) {
    Kept kept;
    PairedTracer pair(m.machine, k.launch, {});
    pair.trace_each(units(12), [&](size_t) { return kept.order.size() < most; }, [&](std::vector<TracedBlock> blocks) { kept.keep(blocks); });
    EXPECT_EQ(kept.order.size(), most);
  }
}

TEST(PairedTracer, TellsAFaultInItsTurn) {
  TestMachine m;
  const uint64_t at = m.allocate(64 << 20);
  m.memory.release(at);
  const TestKernel k(kRounds, {at}, {12});
  Kept kept;
  PairedTracer pair(m.machine, k.launch, {});
  try {
    pair.trace_each(units(12), [](size_t) { return true; }, [&](std::vector<TracedBlock> blocks) { kept.keep(blocks); });
    ADD_FAILURE() << "block 6 faults";
  } catch (const base::Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("block 6 could not be traced"));
  }
  EXPECT_THAT(kept.order, testing::ElementsAre(11, 10, 9, 8, 7));
}

TEST(PairedTracer, KernelsThatReadWhatOthersMayHaveLeftAreTracedByOne) {
  TestMachine m;
  const uint64_t count = m.allocate(64);
  // Each block goes round as often as blocks have run before it.
  const TestKernel k("ld.param.u64 %d1, [p0]; atom.global.add.u32 %r2, [%d1], 32; add.u32 %r2, %r2, 30000;\n"
                     "L: sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; ret;", {count}, {8});
  Kept kept;
  PairedTracer pair(m.machine, k.launch, {});
  pair.trace_each(units(8), [](size_t) { return true; }, [&](std::vector<TracedBlock> blocks) { kept.keep(blocks); });
  EXPECT_EQ(pair.aside_seconds(), 0);
  EXPECT_TRUE(std::is_sorted(kept.instructions.begin(), kept.instructions.end()));
}

}  // namespace
}  // namespace orrery::timing
