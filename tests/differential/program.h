// tests/differential/program.h: a random PTX kernel as a tree of statements that can be taken away one by one.
//
// The kernel is k(.u64 out, .u64 in, .u64 shared_state, .u32 n). Every register has a value from the start, so any
// statement can be dropped and what is left is still a valid kernel: that is how a failing case shrinks.
//
//   %p0..7 predicates   %h0..7 .b16   %r0..15 .b32   %d0..7 .b64   %f0..7 .f32   %g0..5 .f64   pools of random values
//   everything else has a name of its own in the statement that uses it
//
// Not here: which statements there are (generate.h), running (run.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace differential {

/// splitmix64
struct Random {
  uint64_t state;
  uint64_t bits() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  int below(int n) { return int((bits() >> 32) * uint64_t(n) >> 32); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& v) { return v[size_t(below(int(v.size())))]; }
};

/// text[0] parts[0] text[1] parts[1] ... text[n]
struct Statement {
  std::vector<std::string> text;
  std::vector<std::vector<Statement>> parts;
};

struct Program {
  uint64_t seed = 0;
  std::vector<std::string> declarations;   // registers and variables
  std::vector<Statement> body;
  uint32_t block[3] = {64, 1, 1}, grid = 1;
  bool lean = false;  // of the pools only %r0..3 and %f0 are used

  std::string text() const;
  /// Number of statements, nested ones included.
  size_t size() const;
  /// The program without statement number `index` (and what is inside it), in the order of the text.
  Program without(size_t index) const;
};

/// The functions that programs may call (calls.cc), in PTX.
extern const char* const kFunctions;

constexpr uint32_t kMaxThreads = 512;   // of a launch
constexpr uint32_t kOutBytes = 512;     // of `out`, per thread: its registers, then 128 bytes for its own stores
constexpr uint32_t kOwnBytes = 384;     // where these start
constexpr uint32_t kInWords = 65536;    // of `in`
constexpr uint32_t kStateBytes = 4096;  // of memory that all threads share, zero at the start
constexpr uint32_t kWalkBytes = 65536;  // that follow it: words that walks store to

}  // namespace differential
