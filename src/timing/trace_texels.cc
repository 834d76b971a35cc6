// timing/trace_texels.cc: see trace_texels.h.
//
// The texture unit takes four lanes at a time, of linear memory eight, of surfaces eight. What they read it looks up in L1 by lines, of which it
// finds four at once that lie in different quarters, and takes out 8 bytes of each of sixteen columns at once [texel_hits_: within 5% for all cases
// of 1 to 16 bytes but places drawn at random and 16 bytes filtered in three dimensions; counters tex_lookups and tex_data_wavefronts].
#include "timing/trace_texels.h"

#include <algorithm>
#include <array>
#include <bit>

#include "exec/texture.h"

namespace orrery::timing {

using isa::Op;

namespace {

constexpr uint64_t kTile = 512;  // bytes: 64 of eight rows

/// Where in its tile hardware has a byte: by how far right and down.
uint64_t within_tile(uint64_t x, uint64_t y) {
  return (x >> 5 & 1) << 8 | (y >> 2 & 1) << 7 | (x >> 4 & 1) << 6 | (y >> 1 & 1) << 5 | (y & 1) << 4 | (x & 15);
}

/// What lanes that go together read of L1: the cycles until all of it is out.
class Wavefronts {
 public:
  explicit Wavefronts(bool in_rows) : in_rows_(in_rows) {}
  void add(const TexelNotes::Note& t) {
    for (uint32_t at = 0; at < t.bytes; at += 8) {
      const uint64_t x = t.x + at;
      if (in_rows_) add(t.plane ^ (t.address + at) >> 7 << 8, (t.address + at) >> 7 & 3, (t.address + at) >> 3 & 15);
      else add(t.plane ^ (x >> 5 << 40 | uint64_t{t.y >> 2} << 8), (x >> 5 & 1) | (t.y >> 2 & 1) << 1, ((x >> 3 & 3) ^ (t.y >> 1 & 2)) | (t.y & 3) << 2);
    }
  }
  uint32_t cycles() const {
    uint32_t most = 1;
    for (const uint32_t n : of_quarter_) most = std::max(most, n);
    for (uint32_t column = 0; column < 16; column++) {
      uint32_t lines = 0;
      for (size_t i = 0; i < n_; i++) lines += columns_[i] >> column & 1;
      most = std::max(most, lines);
    }
    return most;
  }

 private:
  void add(uint64_t line, uint64_t quarter, uint64_t column) {
    size_t i = 0;
    while (i < n_ && lines_[i] != line) i++;
    if (i == lines_.size()) return;
    if (i == n_) lines_[n_] = line, columns_[n_++] = 0, of_quarter_[quarter]++;
    columns_[i] |= uint16_t(1u << column);
  }
  const bool in_rows_;
  std::array<uint64_t, 64> lines_;
  std::array<uint16_t, 64> columns_;
  std::array<uint32_t, 4> of_quarter_{};
  size_t n_ = 0;
};

/// Cycles of the texture unit. Filtered texels of 16 bytes go lane by lane, and slices and levels one after the other.
uint32_t cycles_of(const Recording& r, const TexelNotes& notes, bool surface, bool filtered) {
  constexpr uint32_t kWide = 16;
  constexpr uint32_t kDeepWide = 2;  // cycles of a slice [texel_hits_3d_linear_4x4_8x4: 128 cycles]
  const std::vector<TexelNotes::Note>& all = notes.notes();
  const uint32_t bytes = all.empty() ? 4 : all[0].bytes;
  const uint32_t together = surface || (notes.linear_memory() && bytes < kWide) ? 8 : 4;
  const bool by_lane = filtered && bytes == kWide;
  uint32_t cycles = 0;
  for (uint32_t first = 0; first < 32; first += together) {
    if (!(r.e.mask >> first & ((1u << together) - 1))) continue;
    std::vector<std::pair<uint64_t, uint32_t>> parts;  // plane, and lane
    const auto part_of = [&](const TexelNotes::Note& t) { return std::pair(filtered ? t.plane : 0, by_lane ? uint32_t(t.lane) : 0); };
    for (const TexelNotes::Note& t : all)
      if (t.lane / together == first / together && std::find(parts.begin(), parts.end(), part_of(t)) == parts.end()) parts.push_back(part_of(t));
    uint32_t own = parts.empty();
    for (const auto& part : parts) {
      Wavefronts w(notes.in_rows());
      for (const TexelNotes::Note& t : all)
        if (t.lane / together == first / together && part_of(t) == part) w.add(t);
      own += w.cycles();
    }
    if (filtered && notes.deep()) own = std::max(own, by_lane ? 2 * kDeepWide * uint32_t(std::popcount(r.e.mask >> first & 15)) : 2);
    // A gather gives four components, 32 bytes a cycle [texel_hits_gather_4].
    if (r.d.instr->form.op == Op::tld4) own = std::max(own, notes.component_bytes() / 2);
    cycles += own;
  }
  return std::max(1u, cycles);
}

}  // namespace

void TexelNotes::touch(uint64_t address, uint32_t bytes) {
  const exec::TextureObject& t = *object;
  in_rows_ = t.height == 0, linear_memory_ = t.linear_memory, deep_ = t.depth > 0, component_bytes_ = t.channel_bits / 8;
  Note n;
  n.lane = uint8_t(lane), n.bytes = uint8_t(bytes), n.address = address;
  const uint64_t at = address - t.data, pitch = std::max<uint64_t>(1, t.pitch);
  const uint64_t plane = t.slice ? at / t.slice : 0, rest = t.slice ? at % t.slice : at;
  n.plane = t.data + plane;
  n.x = uint32_t(in_rows_ ? at : rest % pitch), n.y = uint32_t(in_rows_ ? 0 : rest / pitch);
  if (t.array && !in_rows_) {
    const uint64_t across = (pitch + 63) / 64, tiles = across * ((t.height + 7) / 8);
    n.address = (t.data & ~(kTile - 1)) + (plane * tiles + n.y / 8 * across + n.x / 64) * kTile + within_tile(n.x, n.y);
  }
  notes_.push_back(n);
}

bool touches_texels(Op op) { return op == Op::tex || op == Op::tld4 || op == Op::suld || op == Op::sust || op == Op::sured; }

void record_texels(Recording& r, const TexelNotes& notes) {
  const Op op = r.d.instr->form.op;
  const bool surface = op == Op::suld || op == Op::sust || op == Op::sured, writes = op == Op::sust || op == Op::sured;
  const std::vector<TexelNotes::Note>& all = notes.notes();
  r.keep = op != Op::sured || !all.empty();
  r.e.lanes_bytes = uint8_t(all.empty() ? 4 : all[0].bytes);
  r.e.address = all.empty() ? 0 : all[0].address;
  std::vector<uint64_t>& lines = r.block.lines;
  r.e.detail = uint32_t(lines.size());
  if (writes && all.empty()) {  // all lanes are outside
    r.e.what = What::global_store;
    return;
  }
  if (writes) {
    uint64_t address[32] = {};
    uint32_t mask = 0;
    for (const TexelNotes::Note& t : all) address[t.lane] = t.address, mask |= 1u << t.lane;
    r.e.what = op == Op::sust ? What::global_store : What::global_reduction;
    r.e.n_detail = coalesce(address, mask, r.e.lanes_bytes, lines);
    if (op == Op::sust) r.e.count = distinct(address, mask) * r.e.lanes_bytes, r.e.extra = uint16_t(note_filled(r, address, mask, r.e.lanes_bytes));
    else r.e.extra = uint16_t(most_on_one_word(address, mask));
    return;
  }
  size_t of_a_lane = 0;  // texels that the first lane reads
  for (const TexelNotes::Note& t : all) {
    of_a_lane += t.lane == all[0].lane;
    const uint64_t line = t.address >> 7, bit = uint64_t{1} << (t.address >> 5 & 3);
    auto found = lines.end();
    while (found != lines.begin() + r.e.detail && found[-1] >> 4 != line) --found;
    if (found != lines.begin() + r.e.detail) found[-1] |= bit;
    else lines.push_back(line << 4 | bit);
  }
  r.e.what = What::global_load;
  r.e.n_detail = uint32_t(lines.size()) - r.e.detail;
  const bool filtered = of_a_lane > 1 && op == Op::tex;
  r.e.extra = uint16_t(cycles_of(r, notes, surface, filtered));
  r.e.count = uint32_t(surface ? FetchKind::surface : notes.linear_memory() ? FetchKind::line : filtered || op == Op::tld4 ? FetchKind::filtered : FetchKind::point);
}

}  // namespace orrery::timing
