// sanitize/block_script.h: what a block does to its shared memory, step by step, for the blocks that do the same.
//
// Whether a block's accesses to its shared memory are right depends on nothing but the sequence of them and of the
// barriers at which all its threads meet. The blocks of a launch mostly make the same sequence. So one block's steps are
// written down while they are looked at one by one; a later block that makes the same steps needs no other look. The first
// step that differs makes up for the steps before it (Quick::make_up), and the rest of that block is looked at as ever.
//
//   Step    an access of a warp (where, which lanes, which instruction), or a barrier
//   epoch   the steps between two barriers; what came before the first of them is ordered before all that follows
//
// Invariant: a script that may be followed is right however its stores compare with what is there (is_right): between two
// barriers no thread uses a word that another one writes.
// Not here: blocks that use fences, atomics in shared memory, mbarriers, asynchronous copies, barriers of a part of their
// threads or of a warp. They have no script.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

namespace orrery::sanitize {

enum class StepKind : uint8_t { run, same, any, block, rows, barrier };

struct Step {
  uint32_t pc = 0;         // of a barrier: its number
  uint32_t address = 0;    // in shared memory, of lane 0; any: which of BlockScript's addresses
  uint32_t lanes = 0;
  uint16_t warp = 0;
  StepKind kind = StepKind::run;
  uint8_t words = 0;       // per lane
  uint32_t count = 0;      // of loads together (block, rows)
  uint32_t writes = 0;
  bool operator==(const Step&) const = default;
  /// That of lane 0, which may lie below 0 when the lane is off.
  uint64_t place() const { return uint64_t(int64_t{int32_t(address)}); }
};

class BlockScript {
 public:
  static constexpr size_t kMostSteps = 1 << 16;

  void clear() { steps_.clear(), places_.clear(); }
  /// False: it has become too long.
  bool add(const Step& step) { return steps_.push_back(step), steps_.size() < kMostSteps; }
  bool add(Step step, const uint64_t* addresses) {
    step.address = uint32_t(places_.size() / 32);
    places_.insert(places_.end(), addresses, addresses + 32);
    return add(step);
  }
  size_t size() const { return steps_.size(); }
  const Step& operator[](size_t i) const { return steps_[i]; }
  /// The 32 addresses of a step of kind `any`; those of lanes that are off hold anything.
  const uint64_t* addresses(const Step& step) const { return &places_[size_t{step.address} * 32]; }

  bool is_next(size_t at, const Step& step) const { return at < steps_.size() && steps_[at] == step; }
  bool is_next(size_t at, Step step, const uint64_t* addresses) const;

  /// Whether it may be followed; `bytes`: of shared memory.
  bool is_right(uint32_t bytes) const;

 private:
  std::vector<Step> steps_;
  std::vector<uint64_t> places_;
};

}  // namespace orrery::sanitize
