// timing/lane_addresses.cc: see lane_addresses.h.
#include "timing/lane_addresses.h"

#include <algorithm>
#include <bit>

#include "exec/stepper.h"

namespace orrery::timing {

namespace {

/// Shared-memory wavefronts of the lanes `mask`: the most different words that one bank has to give.
uint32_t bank_wavefronts(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  uint64_t words[32][32];
  uint8_t n[32] = {};
  uint32_t worst = 1;
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    for (uint32_t w = 0; w < std::max(1u, bytes / 4); w++) {
      const uint64_t word = (address[lane] >> 2) + w;
      const uint32_t bank = uint32_t(word & 31);
      bool seen = false;
      for (uint32_t k = 0; k < n[bank] && !seen; k++) seen = words[bank][k] == word;
      if (seen || n[bank] == 32) continue;
      words[bank][n[bank]++] = word;
      worst = std::max<uint32_t>(worst, n[bank]);
    }
  }
  return worst;
}

/// Do lanes whose numbers differ in `bit` alone have one address?
bool pairs_agree(const uint64_t* address, uint32_t mask, uint32_t bit) {
  for (uint32_t lane = 0; lane < 32; lane++)
    if (mask >> lane & mask >> (lane ^ bit) & 1 && address[lane] != address[lane ^ bit]) return false;
  return true;
}

}  // namespace

uint32_t coalesce(const uint64_t* address, uint32_t mask, uint32_t bytes, std::vector<uint64_t>& out) {
  uint64_t line[64];
  uint8_t sectors[64];
  uint32_t n = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    for (uint64_t a = address[lane] & ~uint64_t{31}; a < address[lane] + bytes; a += 32) {
      const uint64_t l = a >> 7;
      const uint8_t bit = uint8_t(1 << (a >> 5 & 3));
      uint32_t i = n;
      while (i > 0 && line[i - 1] != l) i--;
      if (i > 0) {
        sectors[i - 1] |= bit;
      } else if (n < 64) {
        line[n] = l, sectors[n] = bit, n++;
      }
    }
  }
  for (uint32_t i = 0; i < n; i++) out.push_back(line[i] << 4 | sectors[i]);
  return n;
}

void filled_sectors(const uint64_t* address, uint32_t mask, uint32_t bytes, size_t first, uint32_t n, std::vector<uint64_t>& out) {
  uint32_t has[64][4] = {};  // of each sector, a bit each byte
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint64_t begin = address[std::countr_zero(m)], end = begin + bytes;
    for (uint64_t a = begin; a < end; a = (a | 31) + 1) {
      uint32_t i = 0;
      while (i < n && out[first + i] >> 4 != a >> 7) i++;
      if (i == n) continue;  // more lines than are kept
      const uint64_t to = std::min(end, (a | 31) + 1) - (a & ~uint64_t{31});
      has[i][a >> 5 & 3] |= uint32_t(((uint64_t{1} << to) - 1) & ~((uint64_t{1} << (a & 31)) - 1));
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    uint64_t filled = 0;
    for (uint32_t sector = 0; sector < 4; sector++) filled |= uint64_t{has[i][sector] == ~uint32_t{0}} << sector;
    out.push_back(filled);
  }
}

uint32_t coalesce_copies(const uint64_t* source, const uint64_t* target, uint32_t mask, std::vector<uint64_t>& out) {
  constexpr uint8_t kNowhere = 4;
  struct Asked {
    uint64_t line, to;
    uint32_t turn, sectors;  // turn: by which of two sectors and of two halves the pieces change places
    uint8_t goes[4];         // each sector to which of `to`
  };
  Asked asked[32];
  uint32_t n = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint64_t from = source[std::countr_zero(m)], to = target[std::countr_zero(m)];
    const uint32_t turn = uint32_t((from ^ to) >> 4 & 3), sector = from >> 5 & 3;
    const uint8_t goes = to >> 5 & 3;
    const auto takes = [&](const Asked& a) { return a.line == from >> 7 && a.to == to >> 7 && a.turn == turn && (a.goes[sector] == kNowhere || a.goes[sector] == goes); };
    uint32_t i = n;
    while (i > 0 && !takes(asked[i - 1])) i--;
    if (i == 0) asked[n] = {from >> 7, to >> 7, turn, 0, {kNowhere, kNowhere, kNowhere, kNowhere}}, i = ++n;
    asked[i - 1].sectors |= 1u << sector, asked[i - 1].goes[sector] = goes;
  }
  std::stable_sort(asked, asked + n, [](const Asked& a, const Asked& b) { return a.line != b.line ? a.line < b.line : a.turn < b.turn; });
  for (uint32_t i = 0; i < n; i++) out.push_back(asked[i].line << 4 | asked[i].sectors);
  return n;
}

uint32_t distinct(const uint64_t* address, uint32_t mask) {
  uint64_t seen[32], most = 0;
  uint32_t n = 0;
  exec::for_lanes(mask, [&](int lane) {
    if (address[lane] > most) return void(most = seen[n++] = address[lane]);  // mostly they rise
    if (std::find(seen, seen + n, address[lane]) == seen + n) seen[n++] = address[lane];
  });
  return n;
}

uint32_t wavefronts(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  const bool halves = bytes >= 8 && mask >> 16 && mask & 0xFFFF && (bytes > 8 || (!pairs_agree(address, mask, 1) && !pairs_agree(address, mask, 2)));
  if (!halves) return bank_wavefronts(address, mask, bytes);
  return bank_wavefronts(address, mask & 0xFFFF, bytes) + bank_wavefronts(address, mask & 0xFFFF0000, bytes);
}

AccessPattern::Waves AccessPattern::waves(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  constexpr uint64_t kWidest = 16;  // bytes of a lane: moving all by a multiple of it exchanges banks and changes nothing else
  const uint64_t first = address[std::countr_zero(mask)];
  uint64_t differs = uint64_t{mask ^ mask_} | (bytes ^ bytes_) | (uint32_t(first % kWidest) ^ place_);
  for (uint32_t lane = 0; lane < 32; lane++) {
    const uint64_t offset = mask >> lane & 1 ? address[lane] - first : 0;
    differs |= offset ^ offsets_[lane];
    offsets_[lane] = offset;
  }
  if (!differs) return waves_;
  mask_ = mask, bytes_ = bytes, place_ = uint32_t(first % kWidest);
  waves_ = {wavefronts(address, mask, bytes), 0};
  uint64_t wide[32];
  for (const uint32_t width : {8u, 16u}) {
    exec::for_lanes(mask, [&](int lane) { wide[lane] = address[lane] & ~uint64_t{width - 1}; });
    waves_.merged |= wavefronts(wide, mask, width) << (width == 16 ? 16 : 0);
  }
  return waves_;
}

namespace {
/// How many pieces of 2 to the `shift` bytes the words of the lanes lie in.
uint32_t pieces_of(const uint64_t* address, uint32_t mask, int shift) {
  uint32_t n = 0;
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint64_t piece = address[std::countr_zero(m)] >> shift;
    bool again = false;
    for (uint32_t k = mask & ~m; k && !again; k &= k - 1) again = address[std::countr_zero(k)] >> shift == piece;
    n += !again;
  }
  return n;
}
}  // namespace

uint32_t sectors_of(const uint64_t* address, uint32_t mask) { return pieces_of(address, mask, 5); }

uint32_t lines_of(const uint64_t* address, uint32_t mask) { return pieces_of(address, mask, 7); }

uint32_t filled_or_halves(const uint64_t* address, uint32_t mask, uint32_t bytes) {
  uint64_t sector[64];
  uint32_t has[64] = {}, n = 0;  // of each, a bit each byte
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint64_t begin = address[std::countr_zero(m)], end = begin + bytes;
    for (uint64_t a = begin; a < end; a = (a | 31) + 1) {
      uint32_t i = n;
      while (i > 0 && sector[i - 1] != a >> 5) i--;
      if (i == 0) sector[n] = a >> 5, i = ++n;
      const uint64_t to = std::min(end, (a | 31) + 1) - (a & ~uint64_t{31});
      has[i - 1] |= uint32_t(((uint64_t{1} << to) - 1) & ~((uint64_t{1} << (a & 31)) - 1));
    }
  }
  uint32_t pieces = 0;
  for (uint32_t i = 0; i < n; i++) pieces += has[i] == ~0u ? 1 : (has[i] << 16 != 0) + (has[i] >> 16 != 0);
  return pieces;
}

uint32_t atomic_wavefronts(const uint64_t* address, uint32_t mask) {
  uint32_t worst = 1;
  for (uint32_t m = mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    uint32_t same = 0;
    for (uint32_t k = mask; k; k &= k - 1) same += (address[std::countr_zero(k)] >> 2 & 31) == (address[lane] >> 2 & 31);
    worst = std::max(worst, same);
  }
  return worst;
}

uint32_t most_on_one_word(const uint64_t* address, uint32_t mask) {
  uint32_t worst = 1;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t same = 0;
    for (uint32_t k = mask; k; k &= k - 1) same += address[std::countr_zero(k)] == address[std::countr_zero(m)];
    worst = std::max(worst, same);
  }
  return worst;
}

}  // namespace orrery::timing
