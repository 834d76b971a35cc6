// edges.h: the cases of the edges recorder, and the words that they are built from.
//
// A case is the body of a kernel. Every wait is bounded. Thread 0 does the work unless the case says otherwise; %out is
// where the block's 64 words of results go, %in 64 KB of numbers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace edges {

using u32 = uint32_t;
using u64 = uint64_t;
using Text = std::string;

struct Case {
  Text name, body;
  int cluster = 1;
  int swizzle = 0;   // of the tensor map: 64 x 64 floats in boxes of 32 x 8 (swizzle 3: 32 floats are 128 bytes)
  int threads = 32;
};
inline std::vector<Case> cases;
inline void add(const Text& name, const Text& body, int cluster = 1, int swizzle = 0, int threads = 32) { cases.push_back({name, body, cluster, swizzle, threads}); }

void add_mbarriers();  // edges_cases.cc
void add_bulk();
void add_clusters();
void add_tensors();
void add_words();      // edges_words.cc

inline int labels = 0;
inline Text num(u64 v) { return std::to_string(v); }
inline Text put(int at, const Text& reg) { return "st.global.b32 [%out+" + num(4 * u64(at)) + "], " + reg + ";\n"; }
/// Word `at`: whether the phase of this parity is over, now or soon.
inline Text test(int at, int parity, const Text& bar = "%bar", int looks = 1) {
  const Text l = "L" + num(u64(labels++));
  return "mov.u32 %n, 0;\n" + l + ":\nmbarrier.test_wait.parity.shared.b64 %p, [" + bar + "], " + num(u64(parity)) + ";\nselp.b32 %v, 1, 2, %p;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p2, %n, " + num(u64(looks)) +
         ";\nsetp.eq.u32 %p, %v, 2;\nand.pred %p, %p, %p2;\n@%p bra " + l + ";\n" + put(at, "%v");
}
inline Text wait(int at, int parity = 0, const Text& bar = "%bar") { return test(at, parity, bar, 20000); }
inline Text init(const Text& count, const Text& bar = "%bar") { return "mov.u32 %v, " + count + ";\nmbarrier.init.shared.b64 [" + bar + "], %v;\nfence.mbarrier_init.release.cluster;\nfence.proxy.async;\n"; }
inline Text arrive(const Text& count = "1", const Text& how = "arrive") { return "mov.u32 %v, " + count + ";\nmbarrier." + how + ".shared.b64 %s, [%bar], %v;\n"; }
/// Pending arrivals that the state %s tells of, and its phase is not looked at.
inline Text pending(int at) { return "mbarrier.pending_count.b64 %v, %s;\n" + put(at, "%v"); }
inline Text expect(const Text& bytes) { return "mov.u32 %v, " + bytes + ";\nmbarrier.expect_tx.relaxed.cta.shared.b64 [%bar], %v;\n"; }
inline Text complete(const Text& bytes) { return "mov.u32 %v, " + bytes + ";\nmbarrier.complete_tx.relaxed.cta.shared.b64 [%bar], %v;\n"; }
inline Text expecting(const Text& bytes) { return "mov.u32 %v, " + bytes + ";\nmbarrier.arrive.expect_tx.shared.b64 %s, [%bar], %v;\n"; }
inline Text one(const Text& body) { return "@%q bra END;\n" + body + "END:\n"; }
/// A sum over `words` of shared memory from byte `from` on to word `at`, by thread 0.
inline Text digest(int at, int from, int words) {
  const Text l = "L" + num(u64(labels++));
  return "mov.u32 %h, 0;\nmov.u32 %n, 0;\nadd.u32 %a, %sm, " + num(u64(from)) + ";\n" + l + ":\nld.shared.b32 %v, [%a];\nmad.lo.u32 %h, %h, 31, %v;\nadd.u32 %a, %a, 4;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, " + num(u64(words)) +
         ";\n@%p bra " + l + ";\n" + put(at, "%h");
}
const char* const kSync = "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n";

}  // namespace edges
