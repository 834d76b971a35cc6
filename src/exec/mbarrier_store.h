// exec/mbarrier_store.h: where mbarriers are while a block uses them.
//
// On an H200 the unit that carries out the operations on mbarriers keeps the words that it works on: 16 lines of 16 bytes,
// so 32 mbarriers that lie side by side. It reads a line from shared memory when an operation first names one of its words,
// and writes the words that it has changed back when mbarrier.inval names the line or when another line takes its place.
// In between plain loads, atomics and bulk copies see memory as it was, and what they
// store there is lost if the word is written back. So a live mbarrier is copied or overwritten by plain accesses only
// after mbarrier.inval.
//
// The line used longest ago makes room. Lines have ages from 0 to 15: one that is used becomes 0, and those that were younger
// grow older by one; one that is given up becomes 15, whatever others are, so several may be 15: then one that holds
// nothing goes first, and the last of them before the others.
//
// Recorded: tests/vectors/recorder/edges_words.cc. Here each block has a unit of its own; there the SM may have one for all.
//
// An mbarrier is known by the address of its word in shared memory, everywhere; the word itself comes from here.
// Invariant: a reference from open() is good until the next open() or give_up().
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::exec {

class MbarrierStore {
 public:
  /// For `blocks` blocks whose windows of `span` bytes begin at `window`.
  MbarrierStore(const std::byte* window, uint64_t span, uint32_t blocks) : window_(window), span_(span), units_(blocks) {}

  /// The word of the mbarrier at `at`, to be changed.
  uint64_t& open(uint64_t* at) {
    Line& line = find(at);
    line.changed |= uint8_t(1u << half(at));
    return line.words[half(at)];
  }

  /// The word of the mbarrier at `at`, looked at by an operation.
  uint64_t look(uint64_t* at) { return find(at).words[half(at)]; }

  /// Its bits, without any effect.
  uint64_t peek(const uint64_t* at) const {
    for (const Line& line : unit(at).lines)
      if (line.base == base(at)) return line.words[half(at)];
    return *at;
  }

  /// To memory, where plain accesses see it.
  void give_up(uint64_t* at) {
    for (Line& line : unit(at).lines)
      if (line.base == base(at)) {
        write_back(line);
        line = Line{};
        return;
      }
  }

  /// For other blocks: what is kept goes nowhere.
  void clear() {
    if (!used_) return;
    used_ = false;
    for (Unit& u : units_)
      for (Line& line : u.lines) line = Line{};
  }

 private:
  static constexpr int kLines = 16;
  static constexpr uint8_t kOldest = kLines - 1;
  struct Line {
    uint64_t* base = nullptr;
    uint64_t words[2] = {};
    uint8_t changed = 0;   // bit per word
    uint8_t age = kOldest;
  };
  struct Unit {
    Line lines[kLines];
  };

  static uint64_t* base(const uint64_t* at) { return reinterpret_cast<uint64_t*>(reinterpret_cast<uint64_t>(at) & ~uint64_t{15}); }
  static uint32_t half(const uint64_t* at) { return uint32_t(reinterpret_cast<uint64_t>(at) >> 3 & 1); }
  const Unit& unit(const uint64_t* at) const { return units_[units_.size() == 1 ? 0 : size_t(reinterpret_cast<const std::byte*>(at) - window_) / span_]; }
  Unit& unit(const uint64_t* at) { return const_cast<Unit&>(static_cast<const MbarrierStore*>(this)->unit(at)); }

  Line& find(uint64_t* at) {
    Unit& u = unit(at);
    for (Line& line : u.lines)
      if (line.base == base(at)) return use(u, line);
    used_ = true;
    Line* room = &u.lines[0];
    for (Line& line : u.lines) {
      if (!line.base) {
        room = &line;
        break;
      }
      if (line.age == kOldest) room = &line;
    }
    write_back(*room);
    *room = {base(at), {base(at)[0], base(at)[1]}, 0, kOldest};
    return use(u, *room);
  }
  static Line& use(Unit& u, Line& line) {
    if (line.age == 0) return line;
    for (Line& other : u.lines) other.age = uint8_t(other.age + (other.age < line.age));
    line.age = 0;
    return line;
  }
  static void write_back(const Line& line) {
    for (uint32_t i = 0; i < 2; i++)
      if (line.changed >> i & 1) line.base[i] = line.words[i];
  }

  const std::byte* window_;
  uint64_t span_;
  std::vector<Unit> units_;
  bool used_ = false;    // since the last clear()
};

}  // namespace orrery::exec
