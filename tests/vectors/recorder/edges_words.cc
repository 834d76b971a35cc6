// edges_words.cc: the 64 bits of an mbarrier: what each operation leaves in them, and what it does with bits that plain
// stores put there. membar.cta and volatile accesses keep the assembler from reordering.
#include <cstdio>

#include "edges.h"

namespace edges {
namespace {

Text hex(u64 v) {
  char t[20];
  snprintf(t, sizeof t, "%016llx", static_cast<unsigned long long>(v));
  return t;
}
Text put_wide(int at, const Text& reg) { return "st.global.b64 [%out+" + num(4 * u64(at)) + "], " + reg + ";\n"; }
/// The bits of the mbarrier to words at and at + 1.
Text look(int at, const Text& bar = "%bar") { return "membar.cta;\nld.volatile.shared.b64 %w, [" + bar + "];\nmembar.cta;\n" + put_wide(at, "%w"); }
Text store(const Text& value, const Text& bar = "%bar") { return "mov.b64 %w, " + value + ";\nmembar.cta;\nst.volatile.shared.b64 [" + bar + "], %w;\nmembar.cta;\n"; }
Text tests(int at) { return test(at, 0) + test(at + 1, 1); }

/// An mbarrier with the fields where the assembler's code for init puts them (both counts from 2^20 down).
u64 word(u64 phase, u64 expected, u64 bytes, u64 pending) {
  return phase << 63 | ((0x100000 - expected) & 0xFFFFF) << 43 | (bytes & 0x1FFFFF) << 22 | ((0x100000 - pending) & 0xFFFFF) << 1;
}

/// Operations on an mbarrier whose bits are `w`: state, bits after, answers to both parities.
void add_operations(u64 w, bool all) {
  const auto on = [&](const Text& name, const Text& body) { add("bits " + hex(w) + " " + name, one("mov.b64 %s, -2;\n" + store("0x" + hex(w)) + body + look(0) + put_wide(2, "%s") + tests(4))); };
  on("test", "mov.b64 %s, 0;\nmbarrier.test_wait.shared.b64 %p, [%bar], %s;\nselp.b32 %v, 1, 2, %p;\n" + put(6, "%v") + "mov.b64 %s, 0x8000000000000000;\nmbarrier.test_wait.shared.b64 %p, [%bar], %s;\nselp.b32 %v, 1, 2, %p;\n" + put(7, "%v"));
  on("arrive 1", arrive()), on("drop 1", arrive("1", "arrive_drop")), on("expect 16", expect("16"));
  if (!all) return;
  on("arrive 2", arrive("2")), on("complete 16", complete("16")), on("arrive and expect 16", expecting("16")), on("noComplete 1", arrive("1", "arrive.noComplete"));
}
void add_copies(u64 w) {
  const auto on = [&](const Text& name, const Text& body) { add("bits " + hex(w) + " " + name, one(store("0x" + hex(w)) + body + "nanosleep.u32 20000;\n" + look(0) + tests(4))); };
  const Text copy = "cvta.to.global.u64 %d, %in;\ncp.async.ca.shared.global [%sm], [%d], 16;\n", end = "cp.async.wait_all;\n";
  on("cp.async", copy + "cp.async.mbarrier.arrive.shared.b64 [%bar];\n" + end);
  on("cp.async noinc", copy + "cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];\n" + end);
  on("bulk copy of 16", "fence.proxy.async;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in], 16, [%bar];\n");
}

/// What init makes of any count.
void add_inits() {
  for (const char* count : {"0", "1", "3", "1048575", "1048576", "1048577", "2097151", "2097152", "0x7fffffff", "0x80000000", "0xffffffff"}) {
    add(Text("bits of init ") + count, one(init(count) + look(0) + tests(2)));
    add(Text("bits of init ") + count + ", arrive", one(init(count) + look(0) + arrive() + look(2) + put_wide(4, "%s") + tests(6)));
    add(Text("bits of init ") + count + ", expect", one(init(count) + look(0) + expect("16") + look(2) + tests(6)));
  }
  for (const char* count : {"0", "1", "2", "3", "4", "1048575", "1048577", "2097152", "0x80000001", "0xffffffff"})
    for (const char* how : {"arrive", "arrive_drop"})
      add(Text("bits of 3 after ") + how + " " + count, one(init("3") + arrive(count, how) + look(0) + put_wide(2, "%s") + tests(4)));
  for (const char* bytes : {"0", "1048575", "1048576", "1048577", "2097151", "2097152", "0x80000000", "0xffffffff"}) {
    add(Text("bits of 3 after expect ") + bytes, one(init("3") + expect(bytes) + look(0) + tests(2)));
    add(Text("bits of 3 after complete ") + bytes, one(init("3") + complete(bytes) + look(0) + tests(2)));
    add(Text("bits of 3 after arrive and expect ") + bytes, one(init("3") + expecting(bytes) + look(0) + put_wide(2, "%s") + tests(4)));
  }
  Text t;
  int at = 0;
  for (const u64 w : {0ull, ~0ull, 0x8000000000000000ull, 0x123456789abcdef0ull, 0xfedcba9876543210ull, 2ull, 3ull, 0x200000ull, 0x1ffffeull, 0x3ffffeull, 0x7ffff80000000000ull, 0x0f0f0f0f0f0f0f0full, 0xaaaaaaaaaaaaaaaaull})
    t += "mov.b64 %s, 0x" + hex(w) + ";\n" + pending(at++);
  add("bits: pending counts", one(t));
}

/// The bits on their way through phases.
void add_lives() {
  const auto life = [](const Text& name, const Text& body) { add("bits: " + name, one(body)); };
  life("two phases", init("2") + look(0) + arrive() + look(2) + arrive() + look(4) + arrive("2") + look(6));
  life("bytes", init("2") + expect("64") + look(0) + complete("16") + look(2) + complete("48") + look(4) + complete("16") + look(6) + expect("16") + look(8));
  life("last bytes end the phase", init("1") + expecting("64") + look(0) + complete("32") + look(2) + complete("32") + look(4) + put_wide(6, "%s"));
  life("drops", init("5") + arrive("2", "arrive_drop") + look(0) + arrive("1", "arrive_drop") + look(2) + arrive("2") + look(4));
  life("drops to none", init("1") + arrive("1", "arrive_drop") + look(0) + expect("16") + look(2) + complete("16") + look(4));
  life("inval", init("3") + arrive() + "mbarrier.inval.shared.b64 [%bar];\n" + look(0));
  const Text copied = look(0) + "add.u32 %a, %bar, 8;\n" + store("%w", "%a");
  life("copied, used there", init("2") + arrive() + expect("16") + copied + "mbarrier.arrive.shared.b64 %s, [%a];\n" + look(2, "%a") + test(4, 0, "%a") + "mov.u32 %v, 16;\nmbarrier.complete_tx.relaxed.cta.shared.b64 [%a], %v;\n" + look(6, "%a") +
                                   test(8, 0, "%a") + look(10) + test(12, 0));
  life("copied, both used", init("1") + copied + arrive() + test(2, 0) + test(3, 0, "%a") + "mbarrier.arrive.shared.b64 %s, [%a];\n" + test(4, 0, "%a") + look(6) + look(8, "%a"));
  life("put back", init("2") + arrive() + look(0) + "mov.b64 %w2, %w;\n" + arrive() + test(2, 0) + store("%w2") + test(3, 0) + arrive() + test(4, 0) + look(6));
  life("other phase stored", init("2") + look(0) + "xor.b64 %w2, %w, 0x8000000000000000;\n" + store("%w2") + tests(2) + arrive() + put_wide(4, "%s") + arrive() + tests(6) + look(8));
  life("a half stored", init("2") + expect("48") + look(0) + "membar.cta;\nst.volatile.shared.b32 [%bar+4], 0;\nmembar.cta;\n" + look(2) + tests(4));
  life("a byte stored", init("2") + "membar.cta;\nst.volatile.shared.u8 [%bar+7], 0xff;\nmembar.cta;\n" + look(0) + tests(2) + arrive() + look(4));
  life("atomics", init("3") + "atom.shared.or.b64 %s, [%bar], 0;\n" + put_wide(0, "%s") + "atom.shared.xor.b64 %s, [%bar], 0x8000000000000000;\n" + tests(2) + "atom.shared.add.u64 %s, [%bar], 2;\n" + put_wide(4, "%s") + look(6) + arrive() + tests(8) + arrive() + tests(10));
  life("generic load", init("3") + "cvt.u64.u32 %d, %bar;\ncvta.shared.u64 %d, %d;\nmembar.cta;\nld.volatile.b64 %s, [%d];\n" + put_wide(0, "%s"));
  life("bulk copy out", init("3") + arrive() + "fence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%bar], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n");
  life("bulk copy in", init("3") + "add.u32 %a, %bar, 16;\n" + store("0x" + hex(word(0, 1, 0, 1)), "%sm") + "fence.proxy.async;\nmov.u32 %v, 16;\nmbarrier.init.shared.b64 [%a], 1;\nmbarrier.arrive.expect_tx.shared.b64 %s, [%a], %v;\n" +
                           "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%bar], [%sm], 16, [%a];\n" + wait(0, 0, "%a") + look(2) + arrive() + tests(4));
  // Warp 1 waits while warp 0 stores the word of another phase; then while it stores zeros.
  const auto waiter = [](const Text& name, const Text& stored) {
    const Text store_it = "xor.b64 %w2, %w, 0x8000000000000000;\n" + stored;
    add("bits: " + name, "setp.ge.u32 %p, %x, 32;\n@%p bra WAIT;\n@%q bra READY;\n" + init("2") + "READY:\nbar.sync 0;\n@%q bra END;\nnanosleep.u32 50000;\n" + look(4) + store_it + look(2) + "bra END;\nWAIT:\nbar.sync 0;\nsetp.ne.u32 %p, %x, 32;\n@%p bra END;\n" + wait(0) + "END:\n", 1, 0, 64);
  };
  waiter("a waiter, the phase stored", store("%w2")), waiter("a waiter, half the word stored", "membar.cta;\nst.volatile.shared.b32 [%bar+4], 0xffffffff;\nmembar.cta;\n");
}

/// Bulk copies whose size is no multiple of 16.
void add_sizes() {
  for (const char* bytes : {"1", "15", "17", "40", "4095"}) {
    const Text whole = num(std::stoul(bytes) / 16 * 16);
    add(Text("bulk load ") + bytes + ", expecting less", one(init("1") + expecting(whole) + "mov.u32 %v, " + bytes + ";\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in+512], %v, [%bar];\n" + wait(0) + look(2) + digest(4, 0, 1024)));
    add(Text("bulk store ") + bytes, one("fence.proxy.async;\nmov.u32 %v, " + Text(bytes) + ";\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%sm], %v;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"));
    add(Text("bulk reduce ") + bytes, one("fence.proxy.async;\nmov.u32 %v, " + Text(bytes) + ";\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%sm], %v;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"));
  }
  add("bulk load 16 of 24 with a barrier out of line", one(init("1") + expecting("16") + "add.u32 %b, %bar, 4;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in], 16, [%b];\n" + wait(0)));
  add("bulk prefetch from 8", one("mov.u32 %v, 16;\ncp.async.bulk.prefetch.L2.global [%in+8], %v;\n" + put(0, "1")));
}

}  // namespace

void add_words() {
  add_inits(), add_lives(), add_sizes();
  static const u64 kUsual[] = {word(0, 1, 0, 1), word(0, 2, 0, 2), word(0, 2, 0, 1), word(1, 3, 0, 2), word(0, 1, 16, 1), word(0, 1, u64(-16), 1), word(1, 2, 16, 0x100000), word(0, 2, 0, 0x100000), word(0, 0x100000, 0, 1), word(0, 1, 0, 2), word(0, 2, 0, 2) | 1, word(0, 2, 0, 2) | u64{1} << 21};
  static const u64 kOdd[] = {0, 1, 2, ~u64{0}, u64{1} << 63, u64{1} << 21, u64{1} << 22, u64{1} << 62, word(0, 1, 0xFFFFF, 1), word(0, 1, 0x100001, 1), 0x123456789abcdef0, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x9e3779b97f4a7c15};
  for (const u64 w : kUsual) add_operations(w, true);
  for (const u64 w : kOdd) add_operations(w, false);
  for (const u64 w : {word(0, 1, 0, 1), word(0, 2, 0, 1), word(0, 1, 16, 1), word(0, 2, 16, 0x100000), word(0, 2, 0, 0x100000), word(0, 2, 0, 2) | 1}) add_copies(w);
}

}  // namespace edges
