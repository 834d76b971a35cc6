// timing/data_change.h: by how much the data of an instruction change from one time that it is executed to the next: wires that do
// not change cost little (energy.cc).
//
// Warps take turns, and how another's data differ is taken from how a warp's lanes differ: what changes is the more of that and of
// what one warp changes from turn to turn.
// A tracer notes what a block's instructions give, load and store. Not here: what a change costs.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>

namespace orrery::timing {

class DataChange {
 public:
  /// Lanes of a register as an instruction gives or takes it, `bits` wide where it is kept, of which `used` count.
  void note(uint32_t pc, uint32_t operand, const void* lanes, uint32_t bits, uint32_t used, uint32_t lane_mask, bool moved, bool stored);
  /// Bytes that are copied by one thread.
  void note_copied(uint32_t pc, const void* bytes, uint32_t n);
  /// 0: always the same; 1: as random data change, or more; below 0: not known.
  double of(uint32_t pc) const;
  double of_all() const;
  /// What is loaded and copied; of a kernel without such, what it stores.
  double of_moved() const;

 private:
  enum class Moved : uint8_t { no, loaded, stored };
  struct Seen {
    double in_time = 0, times = 0;     // bits from turn to turn, and words of which so many were compared
    double by_lane = 0, lanes = 0;     // from lane to lane
    Moved moved = Moved::no;
  };
  struct Last {
    std::array<uint64_t, 32> value{};
    uint32_t seen = 0;
  };
  static double share(const Seen& s);
  template <class Which>
  double mean(Which which) const;
  void add(uint32_t pc, const Seen& more);
  std::unordered_map<uint64_t, Last> last_;  // by instruction and operand
  std::unordered_map<uint32_t, Seen> seen_;  // by instruction
};

}  // namespace orrery::timing
