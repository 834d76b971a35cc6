// sanitize/footprint.h: which bytes of global memory an operation has read and written, and the last instruction that did.
//
// Pages of 4096 bytes, made when touched, of 64 pieces of 64 bytes with a bit per byte.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace orrery::sanitize {

struct Piece {
  uint64_t read = 0, written = 0;    // a bit per byte of 64
  uint32_t reader = 0, writer = 0;   // sites; 0: none
};

class Footprint {
 public:
  static constexpr uint64_t kPageBytes = 4096, kPieces = kPageBytes / 64;
  using Page = std::array<Piece, kPieces>;

  void touch(uint64_t address, uint64_t bytes, bool writes, uint32_t site);
  /// Null when nothing of those 64 bytes was touched.
  const Piece* piece(uint64_t number) const;
  bool empty() const { return pages_.empty(); }
  size_t size() const { return pages_.size(); }
  /// Calls f(number of the piece, piece) for those that were touched until it returns true; whether it did.
  template <class F>
  bool any(F f) const {
    for (const auto& [number, page] : pages_)
      for (uint64_t i = 0; i < kPieces; i++)
        if (((*page)[i].read | (*page)[i].written) && f(number * kPieces + i, (*page)[i])) return true;
    return false;
  }
  template <class F>
  void each_page(F f) const {
    for (const auto& [number, page] : pages_) f(number, *page);
  }

 private:
  Page& page(uint64_t number);
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
};

/// The bits of [begin, end) in the piece of that number.
uint64_t bits_of_piece(uint64_t piece, uint64_t begin, uint64_t end);

}  // namespace orrery::sanitize
