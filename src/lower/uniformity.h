// lower/uniformity.h: how the values of registers vary over the lanes of a warp.
//
// Every register gets one description that holds wherever it is live:
//
//   value[lane] = base[lane / (32 / chunks)] + pattern[lane]
//
// with 1, 2 or 4 bases ("chunks" of 32, 16 or 8 lanes) and a pattern known at compile time, zero at the first lane of
// each chunk. One chunk and pattern zero is a uniform value; one chunk and pattern 4*lane an address of consecutive
// words. chunks = 32 says nothing: every lane has its own value. The dimensions of the thread block are known, so
// %tid.y of a 16 x 16 block is uniform in chunks of 16 lanes.
//
// What holds: lanes that execute together (schedule.h) agree with the description; lanes that have exited and lanes
// that wait elsewhere while the register is dead there need not. Sums may wrap: the description is modulo 2^bits of the
// register. Where a 32-bit value with a pattern is widened to 64 bits, compiled code must check that base + pattern
// does not wrap (`widens`); the description of the result assumes it.
//
// Not here: the code that profits (jit/). Source: the usual uniformity analysis of SPMD compilers (Karrenberg and Hack,
// "Improving Performance of OpenCL on CPUs", CC 2012), with patterns in place of strides.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "lower/program.h"
#include "lower/schedule.h"

namespace orrery::lower {

struct BlockSize {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t threads() const { return x * y * z; }
};

using Pattern = std::array<int64_t, 32>;

struct Lanes {
  uint8_t chunks = 0;     // 0: no value seen yet; 1, 2, 4; 32: lanes differ
  uint8_t align = 0;      // 2^align divides every base
  uint16_t pattern = 0;   // number of the pattern; 0: all zero
  bool constant = false;  // the base is `value` (chunks 1); all lanes are only when flat() holds, too
  int64_t value = 0;
  uint64_t limit = ~uint64_t{0};  // no value is above it, as an unsigned number; all ones: not known

  bool varies() const { return chunks == 32; }
  bool uniform() const { return chunks == 1 && pattern == 0; }
  bool flat() const { return chunks < 32 && pattern == 0; }
  bool operator==(const Lanes&) const = default;
};

struct Uniformity {
  std::vector<Lanes> regs;
  std::vector<Pattern> patterns;
  std::vector<uint8_t> divergent;  // by block
  BlockSize block;

  const Pattern& pattern_of(const Lanes& l) const { return patterns[l.pattern]; }
};

Uniformity find_uniformity(const Program& program, BlockSize block);

/// The description of a special register in blocks of this size.
Lanes lanes_of_sreg(ptx::Sreg sreg, BlockSize block, std::vector<Pattern>& patterns);

/// True when the instruction extends a 32-bit or narrower integer operand to more bits.
bool widens(const isa::Form& form);

}  // namespace orrery::lower
