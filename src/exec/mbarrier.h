// exec/mbarrier.h: the mbarrier object: the 64 bits that an H200 keeps in shared memory.
//
//   bit   0       no meaning
//   bits  1..20   arrivals that each phase expects, as 2^20 minus their number
//   bits 21..41   transaction bytes still expected, negated (21 bits, two's complement)
//   bit  42       set in no object: every operation on a word with it is a fault
//   bits 43..62   arrivals pending in the current phase, as 2^20 minus their number; 0: none
//   bit  63       parity of the current phase
//
// The phase completes when no arrival and no byte is pending. init computes these bits from any count without a check, so
// a count of 0 or of more than 2^20 - 1 makes an object that no arrival can complete. 0 arrivals are none, .noComplete may
// complete, and counts and bytes out of range are a launch failure. The state that an arrival returns is the upper half of
// the word before it.
//
// Invariant: every function either changes the word as an H200 does (tests/vectors/recorder/edges_words.cc) or returns the
// reason why it may not and leaves the word alone. Not here: where the word is (mbarrier_store.h), operands, waiting
// (ops_mbarrier.cc). Source: PTX ISA manual, mbarrier; recorded H200 results.
#pragma once
#include <cstdint>

namespace orrery::exec::mbarrier {

constexpr uint32_t kMaxCount = (1u << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;
constexpr uint32_t kUnit = 1u << 20;

enum class Outcome : uint8_t { ok, not_live, bad_count, too_many, bytes_range };

namespace bits {
constexpr int kExpected = 1, kBytes = 21, kBroken = 42, kPending = 43, kPhase = 63;
constexpr uint32_t expected(uint64_t w) { return uint32_t(w >> kExpected) & kMaxCount; }
constexpr uint32_t pending(uint64_t w) { return uint32_t(w >> kPending) & kMaxCount; }
constexpr uint64_t with(uint64_t w, int at, int width, uint64_t v) {
  const uint64_t mask = ((uint64_t{1} << width) - 1) << at;
  return (w & ~mask) | (v << at & mask);
}
}  // namespace bits

constexpr uint32_t pending(uint64_t w) { return (kUnit - bits::pending(w)) & kMaxCount; }
constexpr uint32_t expected(uint64_t w) { return (kUnit - bits::expected(w)) & kMaxCount; }
constexpr int64_t bytes(uint64_t w) { return -(int64_t(w << (63 - 41)) >> (63 - 20)); }
constexpr uint32_t phase(uint64_t w) { return uint32_t(w >> bits::kPhase); }
constexpr bool broken(uint64_t w) { return w >> bits::kBroken & 1; }
/// Whether arrivals are possible: not so in memory that is zero, nor after the last thread has dropped out.
constexpr bool live(uint64_t w) { return !broken(w) && (bits::expected(w) || bits::pending(w)); }

/// What mbarrier.pending_count makes of a state: 1 to 2^20.
constexpr uint32_t pending_count(uint64_t state) { return kUnit - bits::pending(state); }
constexpr uint64_t state(uint64_t w) { return w >> 32 << 32; }

constexpr void init(uint64_t& w, uint32_t count) {
  const uint32_t n = kUnit - count;
  w = uint64_t{n << 11} << 32 | n << 1;
}

/// Starts the next phase when nothing is pending.
constexpr void settle(uint64_t& w) {
  if (bits::pending(w) == 0 && bytes(w) == 0) w = bits::with(w ^ uint64_t{1} << bits::kPhase, bits::kPending, 20, bits::expected(w));
}

/// `count` arrivals.
constexpr Outcome arrive(uint64_t& w, uint32_t count) {
  if (broken(w)) return Outcome::not_live;
  if (count > kMaxCount) return Outcome::bad_count;
  if (count > pending(w)) return live(w) ? Outcome::too_many : Outcome::not_live;
  w = bits::with(w, bits::kPending, 20, bits::pending(w) + count);
  settle(w);
  return Outcome::ok;
}

/// Leaves for good: the coming phases expect `count` arrivals fewer, and this one gets them now.
constexpr Outcome arrive_drop(uint64_t& w, uint32_t count) {
  if (broken(w)) return Outcome::not_live;
  if (count > expected(w)) return live(w) ? Outcome::bad_count : Outcome::not_live;
  const uint64_t before = w;
  w = bits::with(w, bits::kExpected, 20, bits::expected(w) + count);
  const Outcome o = arrive(w, count);
  if (o != Outcome::ok) w = before;
  return o;
}

/// One more arrival is pending (cp.async.mbarrier.arrive without .noinc).
constexpr Outcome add_pending(uint64_t& w) {
  if (broken(w)) return Outcome::not_live;
  if (pending(w) == kMaxCount) return Outcome::bad_count;
  w = bits::with(w, bits::kPending, 20, bits::pending(w) - 1);
  return Outcome::ok;
}

/// `n` bytes more are expected; fewer when negative.
constexpr Outcome change_bytes(uint64_t& w, int64_t n) {
  if (broken(w)) return Outcome::not_live;
  const int64_t now = bytes(w) + n;
  if (n > kMaxBytes || n < -kMaxBytes || now > kMaxBytes + 1 || now < -kMaxBytes) return Outcome::bytes_range;
  w = bits::with(w, bits::kBytes, 21, uint64_t(-now));
  settle(w);
  return Outcome::ok;
}
constexpr Outcome expect_bytes(uint64_t& w, uint32_t n) { return change_bytes(w, int64_t{n}); }
constexpr Outcome complete_bytes(uint64_t& w, uint64_t n) { return change_bytes(w, -int64_t(n)); }

}  // namespace orrery::exec::mbarrier
