// sanitize/footprint.cc: see footprint.h.
#include "sanitize/footprint.h"

#include <algorithm>

namespace orrery::sanitize {

uint64_t bits_of_piece(uint64_t piece, uint64_t begin, uint64_t end) {
  const uint64_t low = std::max(begin, piece * 64), high = std::min(end, piece * 64 + 64);
  if (low >= high) return 0;
  const uint64_t n = high - low;
  return (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << (low % 64);
}

Footprint::Page& Footprint::page(uint64_t number) {
  if (number == last_number_) return *last_;
  auto& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  last_number_ = number;
  return *(last_ = page.get());
}

void Footprint::touch(uint64_t address, uint64_t bytes, bool writes, uint32_t site) {
  const uint64_t end = address + bytes;
  for (uint64_t number = address / 64; number * 64 < end; number++) {
    Piece& p = page(number / kPieces)[number % kPieces];
    const uint64_t bits = bits_of_piece(number, address, end);
    if (writes) p.written |= bits, p.writer = site;
    else p.read |= bits, p.reader = site;
  }
}

const Piece* Footprint::piece(uint64_t number) const {
  const auto it = pages_.find(number / kPieces);
  if (it == pages_.end()) return nullptr;
  const Piece& p = (*it->second)[number % kPieces];
  return p.read | p.written ? &p : nullptr;
}

}  // namespace orrery::sanitize
