// exec/mbarrier.h: the mbarrier object: a 64-bit word in shared memory, in a layout of our own.
//
//   bits   0..19  pending arrivals of the current phase
//   bits  20..39  arrivals that each phase expects
//   bits  40..60  transaction bytes still expected, plus 2^20: it may be negative while arrivals are pending
//   bits  61..62  01 in a live object
//   bit   63      parity of the current phase
//
// Programs see the word only through instructions, but it lives in their memory: copying it copies a barrier,
// overwriting it destroys one, as on the GPU. The phase completes when no arrival and no byte is pending. As on an H200
// (tests/vectors/recorder/edges.cc), inval changes nothing, 0 arrivals are none, .noComplete may complete, and counts out of
// range are a launch failure.
//
// Invariant: every function either changes the word as the manual says or returns the reason why it may not and
// leaves the word alone. Not here: operands, waiting (ops_mbarrier.cc).
// Source: PTX ISA manual, mbarrier.
#pragma once
#include <cstdint>

namespace orrery::exec::mbarrier {

constexpr uint32_t kMaxCount = (1u << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;
constexpr uint64_t kBias = uint64_t{1} << 20;

enum class Outcome : uint8_t { ok, not_live, bad_count, too_many, bytes_range };

constexpr uint32_t pending(uint64_t w) { return uint32_t(w) & kMaxCount; }
constexpr uint32_t expected(uint64_t w) { return uint32_t(w >> 20) & kMaxCount; }
constexpr int64_t bytes(uint64_t w) { return int64_t(w >> 40 & 0x1FFFFF) - int64_t(kBias); }
constexpr uint32_t phase(uint64_t w) { return uint32_t(w >> 63); }
constexpr bool live(uint64_t w) { return (w >> 61 & 3) == 1; }

constexpr uint64_t make(uint32_t phase, uint32_t pending, uint32_t expected, int64_t bytes) {
  return uint64_t{phase} << 63 | uint64_t{1} << 61 | uint64_t(bytes + int64_t(kBias)) << 40 | uint64_t{expected} << 20 | pending;
}

constexpr Outcome init(uint64_t& w, uint32_t count) {
  if (count == 0 || count > kMaxCount) return Outcome::bad_count;
  w = make(0, count, count, 0);
  return Outcome::ok;
}

/// Starts the next phase when nothing is pending.
constexpr void settle(uint64_t& w) {
  if (pending(w) == 0 && bytes(w) == 0) w = make(phase(w) ^ 1, expected(w), expected(w), 0);
}

/// `count` arrivals.
constexpr Outcome arrive(uint64_t& w, uint32_t count) {
  if (!live(w)) return Outcome::not_live;
  if (count > kMaxCount) return Outcome::bad_count;
  if (count > pending(w)) return Outcome::too_many;
  if (count == 0) return Outcome::ok;
  w = make(phase(w), pending(w) - count, expected(w), bytes(w));
  settle(w);
  return Outcome::ok;
}

/// Leaves for good: the coming phases expect `count` arrivals fewer, and this one gets them now.
constexpr Outcome arrive_drop(uint64_t& w, uint32_t count) {
  if (!live(w)) return Outcome::not_live;
  if (count == 0 || count > expected(w)) return Outcome::bad_count;
  const uint64_t before = w;
  w = make(phase(w), pending(w), expected(w) - count, bytes(w));
  const Outcome o = arrive(w, count);
  if (o != Outcome::ok) w = before;
  return o;
}

/// One more arrival is pending (cp.async.mbarrier.arrive without .noinc).
constexpr Outcome add_pending(uint64_t& w) {
  if (!live(w)) return Outcome::not_live;
  if (pending(w) == kMaxCount) return Outcome::bad_count;
  w = make(phase(w), pending(w) + 1, expected(w), bytes(w));
  return Outcome::ok;
}

constexpr Outcome expect_bytes(uint64_t& w, int64_t n) {
  if (!live(w)) return Outcome::not_live;
  const int64_t now = bytes(w) + n;
  if (now > kMaxBytes || now < -kMaxBytes) return Outcome::bytes_range;
  w = make(phase(w), pending(w), expected(w), now);
  settle(w);
  return Outcome::ok;
}

constexpr Outcome complete_bytes(uint64_t& w, int64_t n) { return expect_bytes(w, -n); }

}  // namespace orrery::exec::mbarrier
