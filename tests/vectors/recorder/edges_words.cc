// edges_words.cc: the 64 bits of an mbarrier: what each operation leaves in them, what it does with bits that plain stores
// put there, and when plain loads see them: the unit that carries out the operations keeps the word to itself until it is
// told to give it up (mbarrier.inval). membar.cta and volatile accesses keep the assembler from reordering; a number that
// the assembler shall not know is added to %lane, which is 0.
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
/// The bits of memory at the mbarrier to words at and at + 1.
Text peek(int at, const Text& bar = "%bar") { return "membar.cta;\nld.volatile.shared.b64 %w, [" + bar + "];\nmembar.cta;\n" + put_wide(at, "%w"); }
/// The unit gives the mbarrier up; then the bits of memory.
Text look(int at, const Text& bar = "%bar") { return "membar.cta;\nmbarrier.inval.shared.b64 [" + bar + "];\n" + peek(at, bar); }
/// The half of the state %s that means something.
Text put_state(int at) { return "shr.u64 %w, %s, 32;\ncvt.u32.u64 %v, %w;\n" + put(at, "%v"); }
Text unknown(const Text& count) { return "add.u32 %v, %lane, " + count + ";\n"; }
Text init_by(const Text& count) { return unknown(count) + "mbarrier.init.shared.b64 [%bar], %v;\nfence.mbarrier_init.release.cluster;\nfence.proxy.async;\n"; }
Text arrive_by(const Text& count, const Text& how) { return unknown(count) + "mbarrier." + how + ".shared.b64 %s, [%bar], %v;\n"; }
Text store(const Text& value, const Text& bar = "%bar") { return "mov.b64 %w, " + value + ";\nmembar.cta;\nst.volatile.shared.b64 [" + bar + "], %w;\nmembar.cta;\n"; }
Text tests(int at) { return test(at, 0) + test(at + 1, 1); }

/// The fields of an mbarrier: both counts from 2^20 down; `over` times two is how many bytes more came than were announced.
u64 word(u64 phase, u64 pending, u64 over, u64 expected) {
  return phase << 63 | ((0x100000 - pending) & 0xFFFFF) << 43 | (over & 0x1FFFFF) << 22 | ((0x100000 - expected) & 0xFFFFF) << 1;
}

/// Operations on an mbarrier whose bits are `w`: state, bits after, answers to both parities.
void add_operations(u64 w, bool all) {
  const auto on = [&](const Text& name, const Text& body) { add("bits " + hex(w) + " " + name, one("mov.b64 %s, -2;\n" + store("0x" + hex(w)) + body + look(0) + put_state(2) + tests(4))); };
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
    add(Text("bits of init ") + count, one(init_by(count) + look(0) + tests(2)));
    add(Text("bits of init ") + count + ", arrive", one(init_by(count) + look(0) + arrive() + look(2) + put_state(4) + tests(6)));
    add(Text("bits of init ") + count + ", expect", one(init_by(count) + look(0) + expect("16") + look(2) + tests(6)));
  }
  for (const char* count : {"0", "1", "2", "3", "4", "1048575", "1048577", "2097152", "0x80000001", "0xffffffff"})
    for (const char* how : {"arrive", "arrive_drop"})
      add(Text("bits of 3 after ") + how + " " + count, one(init("3") + arrive_by(count, how) + look(0) + put_state(2) + tests(4)));
  for (const char* bytes : {"0", "1048575", "1048576", "1048577", "2097151", "2097152", "0x80000000", "0xffffffff"}) {
    add(Text("bits of 3 after expect ") + bytes, one(init("3") + expect(bytes) + look(0) + tests(2)));
    add(Text("bits of 3 after complete ") + bytes, one(init("3") + complete(bytes) + look(0) + tests(2)));
    add(Text("bits of 3 after arrive and expect ") + bytes, one(init("3") + expecting(bytes) + look(0) + put_state(2) + tests(4)));
  }
  Text t;
  int at = 0;
  for (const u64 w : {0ull, ~0ull, 0x8000000000000000ull, 0x123456789abcdef0ull, 0xfedcba9876543210ull, 2ull, 3ull, 0x200000ull, 0x1ffffeull, 0x3ffffeull, 0x7ffff80000000000ull, 0x0f0f0f0f0f0f0f0full, 0xaaaaaaaaaaaaaaaaull})
    t += "mov.b64 %s, 0x" + hex(w) + ";\ncvt.u64.u32 %d, %lane;\nadd.u64 %s, %s, %d;\n" + pending(at++);
  add("bits: pending counts", one(t));
}

/// The bits on their way through phases.
void add_lives() {
  const auto life = [](const Text& name, const Text& body) { add("bits: " + name, one(body)); };
  life("two phases", init("2") + look(0) + arrive() + look(2) + arrive() + look(4) + arrive("2") + look(6));
  life("bytes", init("2") + expect("64") + look(0) + complete("16") + look(2) + complete("48") + look(4) + complete("16") + look(6) + expect("16") + look(8));
  life("last bytes end the phase", init("1") + expecting("64") + look(0) + complete("32") + look(2) + complete("32") + look(4) + put_state(6));
  life("most bytes in two", init("1") + expect("1048575") + look(0) + expect("1") + look(2) + arrive() + look(4) + complete("1048575") + look(6) + complete("1") + look(8));
  life("most bytes in two, one arrival", init("2") + expect("1048575") + look(0) + expect("1") + look(2) + arrive() + look(4) + complete("1048575") + look(6) + complete("1") + look(8));
  life("most bytes in two, and no more", init("1") + expect("1048575") + "membar.cta;\n" + expect("1") + look(0));
  life("most bytes in two, an arrival", init("1") + expect("1048575") + "membar.cta;\n" + expect("1") + "membar.cta;\n" + arrive() + look(0));
  life("most bytes in two, a test", init("1") + expect("1048575") + "membar.cta;\n" + expect("1") + "membar.cta;\n" + arrive() + test(0, 0) + look(2));
  life("most bytes in two, and completed", init("1") + expect("1048575") + "membar.cta;\n" + expect("1") + "membar.cta;\n" + arrive() + "membar.cta;\n" + complete("1048575") + look(2));
  life("drops", init("5") + arrive("2", "arrive_drop") + look(0) + arrive("1", "arrive_drop") + look(2) + arrive("2") + look(4));
  life("drops to none", init("1") + arrive("1", "arrive_drop") + look(0) + expect("16") + look(2) + complete("16") + look(4));
  life("inval", init("3") + arrive() + "mbarrier.inval.shared.b64 [%bar];\n" + look(0));
  const Text copied = look(0) + "add.u32 %a, %bar, 8;\n" + store("%w", "%a");
  life("copied, used there", init("2") + arrive() + expect("16") + copied + "mbarrier.arrive.shared.b64 %s, [%a];\n" + look(2, "%a") + test(4, 0, "%a") + "mov.u32 %v, 16;\nmbarrier.complete_tx.relaxed.cta.shared.b64 [%a], %v;\n" + look(6, "%a") +
                                   test(8, 0, "%a") + look(10) + test(12, 0));
  life("copied, both used", init("1") + copied + arrive() + test(2, 0) + test(3, 0, "%a") + "mbarrier.arrive.shared.b64 %s, [%a];\n" + test(4, 0, "%a") + look(6) + look(8, "%a"));
  life("copied while kept, used there", store("0x7fffe800001ffffa") + init("2") + peek(0) + "add.u32 %a, %bar, 16;\n" + store("%w", "%a") + test(2, 0, "%a") + test(3, 1, "%a") + look(4, "%a"));
  life("put back", init("2") + arrive() + look(0) + "mov.b64 %w2, %w;\n" + arrive() + test(2, 0) + look(6) + store("%w2") + test(3, 0) + arrive() + test(4, 0) + look(8));
  life("other phase stored", init("2") + look(0) + "xor.b64 %w2, %w, 0x8000000000000000;\n" + store("%w2") + tests(2) + arrive() + put_state(4) + arrive() + tests(6) + look(8));
  life("a half stored", init("2") + expect("48") + look(0) + "membar.cta;\nst.volatile.shared.b32 [%bar+4], 0;\nmembar.cta;\n" + tests(4) + look(2));
  life("bulk copy out", "add.u32 %a, %bar, 8;\n" + store("7", "%a") + init("3") + arrive() + "mbarrier.inval.shared.b64 [%bar];\nfence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%bar], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n");
  const Text second = "add.u32 %a, %bar, 16;\nmov.u32 %v, 16;\nmbarrier.init.shared.b64 [%a], 1;\nfence.proxy.async;\nmbarrier.arrive.expect_tx.shared.b64 %s, [%a], %v;\n";
  const Text in = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%bar], [%in], 16, [%a];\n" + wait(0, 0, "%a");
  life("bulk copy in while kept", init("3") + second + in + peek(2) + tests(4) + look(6));
}

/// What the unit keeps, and what makes it give a word up.
void add_kept() {
  const auto kept = [](const Text& name, const Text& body, int cluster = 1) { add("kept: " + name, one(body), cluster); };
  const Text mark = store("0x5555555555555555"), other = "xor.b64 %w2, %w, 0x8000000000000000;\n";
  kept("a plain load", mark + init("2") + arrive() + peek(0));
  kept("after a test of what a store put there", store("0x7ffff000001ffffc") + test(0, 0) + store("0xfffff000001ffffc") + test(1, 0) + peek(2) + look(4));
  kept("after a store", mark + init("2") + look(0) + other + init("2") + store("%w2") + tests(2) + look(4) + tests(6));
  kept("after a store, an arrival", mark + init("2") + store("0") + arrive() + put_state(0) + look(2) + tests(4));
  kept("after expect", store("0x7ffff000001ffffc") + expect("16") + store("0") + tests(0) + look(2));
  kept("after complete", store("0x7ffff000001ffffc") + complete("16") + store("0") + tests(0) + look(2));
  kept("after inval, a store", init("2") + look(0) + store("0x7fffe800001ffffa") + arrive() + put_state(2) + look(4));
  kept("inval of nothing", store("0x2222222222222222") + look(0));
  kept("inval of what no mbarrier is", mark + look(0));
  kept("test of what no mbarrier is", mark + test(0, 0));
  kept("init again", mark + init("2") + init("3") + peek(0) + look(2));
  const auto after = [&](const char* what, const Text& how) { kept(Text("after ") + what, mark + init("2") + how + peek(0) + look(2)); };
  after("nanosleep", "nanosleep.u32 900000;\n"), after("membar.sys", "membar.sys;\n"), after("fence.proxy.async", "fence.proxy.async.shared::cta;\n"), after("fence.sc.cluster", "fence.sc.cluster;\n");
  after("an atomic", "atom.shared.or.b64 %s, [%bar], 0;\n" + put_wide(6, "%s")), after("a changing atomic", "atom.shared.xor.b64 %s, [%bar], 0x8000000000000000;\n" + put_wide(6, "%s") + tests(8));
  after("try_wait", "mbarrier.try_wait.parity.shared.b64 %p, [%bar], 0, 1000;\n"), after("a generic load", "cvt.u64.u32 %d, %bar;\ncvta.shared.u64 %d, %d;\nmembar.cta;\nld.volatile.b64 %s, [%d];\n" + put_wide(6, "%s"));
  after("a load by mapa", "mapa.shared::cluster.u32 %a, %bar, 0;\nmembar.cta;\nld.volatile.shared::cluster.b64 %s, [%a];\n" + put_wide(6, "%s"));
  after("an arrival by mapa", "mapa.shared::cluster.u32 %a, %bar, 0;\nmbarrier.arrive.shared::cluster.b64 _, [%a];\nnanosleep.u32 20000;\n" + tests(6));
  after("cp.async", "cvta.to.global.u64 %d, %in;\ncp.async.ca.shared.global [%sm], [%d], 16;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%bar];\ncp.async.wait_all;\nnanosleep.u32 20000;\n");
  add("kept: after a barrier", "@%q bra A;\n" + mark + init("2") + "A:\nbar.sync 0;\n" + one(peek(0) + look(2)));
  // Its neighbour in the 16 bytes: stored while the first is kept, before it is used itself, and before the first is given up.
  const Text next = "add.u32 %a, %bar, 8;\n";
  kept("the neighbour stored, used", next + store("0x5555555555555555", "%a") + init("2") + store("0x7ffff000001ffffc", "%a") + "mbarrier.arrive.shared.b64 %s, [%a];\n" + put_state(0) + look(2, "%a") + look(4));
  kept("the neighbour stored, the first given up", next + store("0x5555555555555555", "%a") + init("2") + store("0x7fffe800001ffffa", "%a") + look(0) + peek(2, "%a"));
  kept("the neighbour kept, the first given up", next + mark + store("0x5555555555555555", "%a") + init("2") + "mbarrier.init.shared.b64 [%a], 3;\n" + look(0) + peek(2, "%a") + store("0xfffff000001ffffc", "%a") + test(4, 0, "%a"));
  // Which makes room: 16 lines are in use, the first is used again, in several ways, then a 17th.
  const auto fill = [&](const Text& n) {
    return "mov.u32 %n, 0;\nF" + n + ":\nmad.lo.u32 %a, %n, 16, %sm;\nmov.b64 %w2, 0x5555555555555555;\nst.volatile.shared.b64 [%a], %w2;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 20;\n@%p bra F" + n + ";\nmembar.cta;\nmov.u32 %n, 0;\nI" + n + ":\nmad.lo.u32 %a, %n, 16, %sm;\nmbarrier.init.shared.b64 [%a], 9;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 16;\n@%p bra I" + n + ";\nmembar.cta;\n";
  };
  // A bit for each line whose memory has changed.
  const Text changed = "nanosleep.u32 20000;\nmov.u32 %n, 0;\nmov.u32 %c, 0;\nC:\nmad.lo.u32 %a, %n, 16, %sm;\nld.volatile.shared.b64 %w, [%a];\nsetp.ne.b64 %p2, %w, %w2;\nmov.u32 %b, 1;\nshl.b32 %b, %b, %n;\n@%p2 or.b32 %c, %c, %b;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 20;\n@%p bra C;\n" + put(0, "%c");
  const Text more = "mbarrier.init.shared.b64 [%sm+256], 9;\nmembar.cta;\n", two = more + "mbarrier.init.shared.b64 [%sm+272], 9;\nmembar.cta;\n";
  kept("room for a 17th", fill("a") + more + changed), kept("room for a 17th and 18th", fill("a") + two + changed);
  kept("room, the first arrived at", fill("a") + "mbarrier.arrive.shared.b64 %s, [%sm];\nmembar.cta;\n" + more + changed), kept("room, the first tested", fill("a") + "mbarrier.test_wait.parity.shared.b64 %p, [%sm], 0;\nmembar.cta;\n" + more + changed);
  kept("room, the first initialised again", fill("a") + "mbarrier.init.shared.b64 [%sm], 8;\nmembar.cta;\n" + more + changed), kept("room, the second to ninth arrived at", fill("a") + "mov.u32 %n, 1;\nG:\nmad.lo.u32 %a, %n, 16, %sm;\nmbarrier.arrive.shared.b64 %s, [%a];\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 9;\n@%p bra G;\nmembar.cta;\n" + two + changed);
  kept("room, the third given up", fill("a") + "mbarrier.inval.shared.b64 [%sm+32];\nmembar.cta;\n" + two + changed);
  const auto line = [](int n) { return "[%sm+" + std::to_string(16 * n) + "]"; };
  const auto give_up = [&](int n) { return "mbarrier.inval.shared.b64 " + line(n) + ";\nmembar.cta;\n"; };
  const auto take = [&](int n) { return "mbarrier.init.shared.b64 " + line(n) + ", 9;\nmembar.cta;\n"; };
  for (const int n : {0, 1, 2, 5, 8, 15}) {
    kept("room, line " + std::to_string(n) + " given up, one more", fill("a") + give_up(n) + take(16) + changed);
    kept("room, line " + std::to_string(n) + " given up, three more", fill("a") + give_up(n) + take(16) + take(17) + take(18) + changed);
  }
  kept("room, lines 3, 9 and 6 given up, four more", fill("a") + give_up(3) + give_up(9) + give_up(6) + take(16) + take(17) + take(18) + take(19) + changed);
  kept("room, line 2 given up and taken, two more", fill("a") + give_up(2) + take(2) + take(16) + take(17) + changed);
  kept("room for a test", fill("a") + "mov.b64 %w, 0x7ffff000001ffffc;\nst.volatile.shared.b64 [%sm+256], %w;\nmembar.cta;\nmbarrier.test_wait.parity.shared.b64 %p, [%sm+256], 0;\nmembar.cta;\n" + changed);
  // How many it keeps: n of them side by side, or apart; how many words of memory have changed, the first and the last.
  for (const auto& [n, apart] : {std::pair{1, 8}, {2, 8}, {3, 8}, {4, 8}, {6, 8}, {8, 8}, {12, 8}, {16, 8}, {17, 8}, {24, 8}, {32, 8}, {33, 8}, {48, 8}, {64, 8}, {65, 8}, {128, 8}, {256, 8}, {512, 8}, {1024, 8}, {4096, 8}, {4, 16}, {16, 16}, {32, 16}, {4, 64}, {16, 64}, {64, 64},
                                 {4, 128}, {8, 128}, {16, 128}, {32, 128}, {64, 128}, {4, 1024}, {8, 1024}, {16, 1024}, {32, 1024}, {4, 4096}, {8, 4096}}) {
    const auto each = [&, n = n, apart = apart](const Text& label, const Text& what) {
      return "mov.u32 %n, 0;\n" + label + ":\nmad.lo.u32 %a, %n, " + std::to_string(apart) + ", %sm;\n" + what + "add.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, " + std::to_string(n) + ";\n@%p bra " + label + ";\nmembar.cta;\n";
    };
    kept(std::to_string(n) + " at " + std::to_string(apart), "mov.b64 %w2, 0x5555555555555555;\n" + each("A", "st.volatile.shared.b64 [%a], %w2;\n") + each("B", "mbarrier.init.shared.b64 [%a], 1;\n") + "nanosleep.u32 20000;\nmov.u32 %c, 0;\nmov.u32 %h, 0;\nmov.u32 %b, -1;\n" +
                                                                 each("C", "ld.volatile.shared.b64 %w, [%a];\nsetp.ne.b64 %p2, %w, %w2;\n@%p2 add.u32 %c, %c, 1;\n@%p2 mov.u32 %h, %n;\n@%p2 min.u32 %b, %b, %n;\n") + put(0, "%c") + put(1, "%b") + put(2, "%h"));
  }
  // Warp 1 waits while warp 0 stores the word of another phase, over the word that the unit keeps and over one given up.
  const auto waiter = [](const Text& name, const Text& before) {
    add("kept: " + name, "setp.ge.u32 %p, %x, 32;\n@%p bra WAIT;\n@%q bra READY;\n" + init("2") + "READY:\nbar.sync 0;\n@%q bra END;\nnanosleep.u32 50000;\n" + before + store("0xfffff000001ffffc") + peek(2) + "bra END;\nWAIT:\nbar.sync 0;\nsetp.ne.u32 %p, %x, 32;\n@%p bra END;\n" + wait(0) + "END:\n", 1, 0, 64);
  };
  waiter("a waiter, another phase stored", "");
}

/// Bulk copies whose size is no multiple of 16.
void add_sizes() {
  for (const char* bytes : {"1", "15", "17", "40", "4095"}) {
    const Text whole = num(std::stoul(bytes) / 16 * 16);
    add(Text("bulk load ") + bytes + ", expecting less", one(init("1") + expecting(whole) + "mov.u32 %v, " + bytes + ";\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in+512], %v, [%bar];\n" + wait(0) + digest(1, 0, 1024)));
    add(Text("bulk store ") + bytes, one("fence.proxy.async;\nmov.u32 %v, " + Text(bytes) + ";\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%sm], %v;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"));
    add(Text("bulk reduce ") + bytes, one("fence.proxy.async;\nmov.u32 %v, " + Text(bytes) + ";\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%sm], %v;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"));
  }
  add("bulk load 16 of 24 with a barrier out of line", one(init("1") + expecting("16") + "add.u32 %b, %bar, 4;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in], 16, [%b];\n" + wait(0)));
  add("bulk prefetch from 8", one("mov.u32 %v, 16;\ncp.async.bulk.prefetch.L2.global [%in+8], %v;\n" + put(0, "1")));
}

}  // namespace

void add_words() {
  add_inits(), add_lives(), add_kept(), add_sizes();
  static const u64 kUsual[] = {word(0, 1, 0, 1), word(0, 2, 0, 2), word(0, 2, 0, 1), word(1, 3, 0, 2), word(0, 1, 16, 1), word(0, 1, u64(-16), 1), word(1, 2, 16, 0x100000), word(0, 2, 0, 0x100000), word(0, 0x100000, 0, 1), word(0, 1, 0, 2), word(0, 2, 0, 2) | 1, word(0, 2, 0, 2) | u64{1} << 21};
  const auto edge = [](const Text& name, u64 w, const Text& body) { add("bits " + hex(w) + " " + name, one(store("0x" + hex(w)) + body + look(0))); };
  for (const u64 w : {u64{0}, word(0, 2, 0, 0x100000), word(1, 1, 0, 0x100000)}) edge("arrive 0", w, arrive("0")), edge("expect 0", w, expect("0")), edge("complete 0", w, complete("0"));
  const u64 bytes[] = {u64{0x100001} << 21, u64{0xFFFFF} << 21, u64{0x100000} << 21, u64{0xFFFFE} << 21};  // 2^20 - 1 expected, 2^20 - 1 too many, 2^20 expected, 2^20 - 2 too many
  for (const u64 b : bytes) edge("expect 0", word(0, 1, 0, 1) | b, expect("0")), edge("expect 1", word(0, 1, 0, 1) | b, expect("1")), edge("complete 0", word(0, 1, 0, 1) | b, complete("0")), edge("complete 1", word(0, 1, 0, 1) | b, complete("1"));
  const u64 most = word(0, 1, 0, 1) | bytes[2];
  edge("arrive 1", most, arrive()), edge("arrive 1", word(0, 3, 0, 3) | bytes[2], arrive()), edge("arrive 0", most, arrive("0")), edge("complete 1048575", most, complete("1048575")), edge("arrive and expect 0", most, expecting("0")), edge("drop 1", most, arrive("1", "arrive_drop"));
  edge("arrive 1", word(0, 1, 0, 1) | bytes[1], arrive()), edge("arrive 1", word(0, 1, 0, 1) | bytes[0], arrive()), edge("expect 1048575", word(0, 1, 0, 1) | bytes[1], expect("1048575"));
  const u64 none_pending = word(0, 0x100000, 0, 1) | bytes[2];
  edge("complete 1048575", none_pending, complete("1048575")), edge("complete 1", none_pending, complete("1")), edge("complete 1", word(0, 0x100000, 0, 1) | bytes[0], complete("1")), edge("complete 1048575", word(0, 0x100000, 0, 1) | bytes[0], complete("1048575"));
  edge("expect 1", word(0, 0x100000, 0, 1) | bytes[0], expect("1")), edge("expect 1048575", word(0, 0x100000, 0, 1), expect("1048575"));
  edge("drop 2", word(0, 1, 0, 3), arrive("2", "arrive_drop")), edge("drop 3", word(0, 5, 0, 2), arrive("3", "arrive_drop")), edge("drop 2", word(0, 0x100000, 0, 3), arrive("2", "arrive_drop"));
  for (const u64 w : {word(0, 2, 16, 0x100000), word(0, 1, 0, 0xFFFFF), word(0, 2, 0, 0x100000)}) edge("cp.async alone", w, "cp.async.mbarrier.arrive.shared.b64 [%bar];\nnanosleep.u32 20000;\n");
  static const u64 kOdd[] = {0, 1, 2, ~u64{0}, u64{1} << 63, u64{1} << 21, u64{1} << 22, u64{1} << 62, word(0, 1, 0xFFFFF, 1), word(0, 1, 0x100001, 1), 0x123456789abcdef0, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x9e3779b97f4a7c15};
  for (const u64 w : kUsual) add_operations(w, true);
  for (const u64 w : kOdd) add_operations(w, false);
  for (const u64 w : {word(0, 1, 0, 1), word(0, 2, 0, 1), word(0, 1, 16, 1), word(0, 2, 16, 0x100000), word(0, 2, 0, 0x100000), word(0, 2, 0, 2) | 1}) add_copies(w);
}

}  // namespace edges
