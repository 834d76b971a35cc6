// exec/observed.h: what compiled code of an observed kernel needs to know.
//
// Compiled code leaves observed instructions to execute() (exec/native.h), whose handler reports them; everything else
// runs as in a kernel that nobody observes. Where an observer does not want to hear of accesses that stay inside what it
// has found right before, it says so per instruction (SiteRange), and compiled code looks there first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/warp.h"
#include "lower/program.h"

namespace orrery::exec {

/// Bit of `observe`, beside those of exec/observer.h: accesses of compiled code to global memory that lie inside their
/// instruction's SiteRange, and aligned ones to shared memory inside the variable that they belong to (or the block's, where
/// that is not known), need not be reported.
constexpr unsigned kObserveOutside = 8;

/// Bytes that an instruction may access, as far as somebody has found out; one that holds nothing at first.
struct alignas(16) SiteRange {
  uint64_t begin = uint64_t{1} << 63, bytes = 0;  // begin: a multiple of 32
};
/// The ranges of a program's instructions, of programs with the same hash; for the life of the process.
SiteRange* site_ranges(const lower::Program& program);
/// Lets accesses by instruction `pc` inside [begin, end) go unreported. Compiled code reads a range in one piece.
void set_site_range(const lower::Program& program, uint32_t pc, uint64_t begin, uint64_t end);
/// Empties all ranges: memory was freed. Or those of one program.
void forget_site_ranges();
void forget_site_ranges(const lower::Program& program);

/// Bit of `observe`: ordinary loads and stores of compiled code (weak, of 4 to 16 bytes per lane) are offered to
/// quick_access() first, and reported only when that cannot deal with them. Loads inside their SiteRange are neither.
constexpr unsigned kObserveQuick = 16;

/// The short way: 0 when the access has been dealt with as if it had been reported, 1 when it must be reported.
/// `address`: in the instruction's space (an offset for shared memory); `lanes`: those that access; `values`: what ordinary
/// stores of one element write, an array of 32, else null.
struct QuickAccess {
  /// Lane i at address + i * bytes.
  uint32_t (*run)(const WarpContext*, uint32_t pc, uint64_t address, uint32_t lanes, const void* values) = nullptr;
  /// All lanes at one address.
  uint32_t (*same)(const WarpContext*, uint32_t pc, uint64_t address, uint32_t lanes, const void* values) = nullptr;
  /// `n` loads from shared memory: all lanes at address, address + bytes, ...; or (rows) lane i at address + i * bytes, and
  /// so on with the next 32. 1: each of them must be offered by itself.
  uint32_t (*block)(const WarpContext*, uint32_t pc, uint64_t address, uint32_t lanes, uint32_t n, uint32_t rows) = nullptr;
  /// All live threads of a block have met at its barrier `number`; false: that must be reported.
  bool (*barrier)(const CtaContext&, uint32_t number) = nullptr;
  /// Every lane at its own, an array of 32.
  uint32_t (*any)(const WarpContext*, uint32_t pc, const uint64_t* addresses, uint32_t lanes, const void* values) = nullptr;
  /// A relaxed atomic.
  uint32_t (*atomic)(const WarpContext*, uint32_t pc, const uint64_t* addresses, uint32_t lanes) = nullptr;
};
QuickAccess& quick_access();

/// Bits of `observe`: aligned accesses of compiled code to a kernel's own local memory that stay inside the thread's need not be
/// reported; with kObserveWritten only loads of bytes that are all marked as written need not, and stores mark theirs.
constexpr unsigned kObserveLocal = 32, kObserveWritten = 64;
/// The marks of a warp: 0xFF for each written byte, laid out as its local memory is; good until its block ends. Whoever sets
/// kObserveWritten sets this.
using LocalMarks = std::byte* (*)(const WarpContext*);
LocalMarks& local_marks();

/// By instruction: 1 where a kernel made with `observe` (make_kernel) reports it.
std::vector<uint8_t> observed_instructions(const lower::Program& program, unsigned observe);

}  // namespace orrery::exec
