// jit/steps.h: how far registers move from one iteration of a loop to the next, or from one block of the grid to the next.
//
//   add.s64 %rd1, %rd1, 128          128
//   add.s64 %rd2, %rd2, %rd9         1 x %rd9 (which the loop does not write)
//   mul.wide.s32 %rd3, %r4, 4        4 x the step of %r4
//
// A description, not a proof that anything is executed: it is for choosing the order of warps (rows.h) and what to
// fetch early (emit_ahead.cc), where being wrong costs time and nothing else.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "lower/program.h"
#include "lower/uniformity.h"

namespace orrery::jit {

/// Blocks [header, last] of a natural loop; they are contiguous (lower/program.h).
struct Loop {
  uint32_t header = 0, last = 0;
  bool innermost = true;
  bool barrier = false;    // warps of the block wait for one another in it
  bool contains(uint32_t block) const { return block >= header && block <= last; }
};

/// The loops of a program, outer ones first.
std::vector<Loop> find_loops(const lower::Program& program);

/// `factor` units an iteration, or `factor` times a register that the loop does not write.
struct Step {
  int64_t factor = 0;
  uint32_t by = lower::kNone;
  bool constant() const { return by == lower::kNone; }
};

/// Bytes: prefetchers of the host stay within a page, and do not follow steps of half of one or more.
inline constexpr int64_t kLongStep = 2048;

/// Types of numbers that a 32-bit or 64-bit register holds whole.
inline bool is_whole(isa::Type t) { return t == isa::Type::s32 || t == isa::Type::u32 || t == isa::Type::s64 || t == isa::Type::u64; }

/// Other threads may wait for the access, or it for theirs: its place among the thread's others counts.
inline bool is_strong(const isa::Form& f) {
  for (const isa::Mod m : {isa::Mod::volatile_, isa::Mod::relaxed, isa::Mod::acquire, isa::Mod::release, isa::Mod::acq_rel, isa::Mod::sc, isa::Mod::mmio})
    if (f.has(m)) return true;
  return false;
}

class Steps {
 public:
  Steps(const lower::Program& program, const lower::Uniformity& uniformity, const Loop& loop);
  /// Not of a loop: from one block of the grid to the next along x.
  Steps(const lower::Program& program, const lower::Uniformity& uniformity);
  /// Nothing where the register moves otherwise.
  std::optional<Step> of(uint32_t reg) const { return of(reg, 0); }

 private:
  std::optional<Step> of(uint32_t reg, int depth) const;
  std::optional<Step> of(const ptx::Operand& o, uint32_t self, int depth) const;
  std::optional<Step> sum(const ptx::Instr& in, uint32_t self, int depth) const;
  std::optional<Step> product(const ptx::Operand& a, const ptx::Operand& b, uint32_t self, int depth) const;
  std::optional<Step> grows_by(const ptx::Operand& o) const;
  std::optional<int64_t> constant(const ptx::Operand& o) const;

  const lower::Program& p_;
  const lower::Uniformity& u_;
  const bool blocks_ = false;
  std::map<uint32_t, uint32_t> at_;  // register -> its only definition in the loop, or lower::kNone
};

}  // namespace orrery::jit
