// timing/cubin.cc: see cubin.h.
#include "timing/cubin.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"

namespace orrery::timing {
namespace {

/// Bounds-checked reads of a file in memory.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> data) : data_(data) {}
  template <class T>
  T at(uint64_t offset) const {
    if (offset + sizeof(T) > data_.size() || offset + sizeof(T) < offset) base::fail("cubin: truncated at offset {}", offset);
    T v;
    std::memcpy(&v, data_.data() + offset, sizeof(T));
    return v;
  }
  std::string text(uint64_t offset) const {
    std::string s;
    for (; offset < data_.size() && data_[offset] != std::byte{0}; offset++) s += char(data_[offset]);
    return s;
  }
  std::span<const std::byte> part(uint64_t offset, uint64_t size) const {
    if (offset > data_.size() || size > data_.size() - offset) base::fail("cubin: a section leaves the file");
    return data_.subspan(offset, size);
  }

 private:
  std::span<const std::byte> data_;
};

struct Section {
  std::string name;
  uint32_t type = 0, info = 0, link = 0;
  uint64_t offset = 0, size = 0;
};

std::vector<Section> sections_of(const Reader& r) {
  if (r.at<uint32_t>(0) != 0x464C457F) base::fail("cubin: not an ELF file");
  const uint64_t table = r.at<uint64_t>(40);
  const uint16_t entry = r.at<uint16_t>(58), count = r.at<uint16_t>(60), names = r.at<uint16_t>(62);
  std::vector<Section> out(count);
  std::vector<uint32_t> name_at(count);
  for (uint16_t i = 0; i < count; i++) {
    const uint64_t at = table + uint64_t{i} * entry;
    name_at[i] = r.at<uint32_t>(at);
    out[i].type = r.at<uint32_t>(at + 4);
    out[i].offset = r.at<uint64_t>(at + 24), out[i].size = r.at<uint64_t>(at + 32);
    out[i].link = r.at<uint32_t>(at + 40), out[i].info = r.at<uint32_t>(at + 44);
  }
  for (uint16_t i = 0; i < count && names < count; i++) out[i].name = r.text(out[names].offset + name_at[i]);
  return out;
}

int64_t sign_extend(uint64_t v, int bits) { return int64_t(v << (64 - bits)) >> (64 - bits); }

/// Target of a branch in instructions relative to the next one; sm_90 keeps the low 8 bits of the offset apart.
int64_t branch_distance(uint64_t lo, uint64_t hi) {
  const uint64_t high = (lo >> 34 | hi << 30) & ((uint64_t{1} << 48) - 1);
  return (sign_extend(high, 48) * 256 + int64_t(lo >> 16 & 0xFF)) * 4 / 16;
}

Instruction decode(uint64_t lo, uint64_t hi, size_t index) {
  Instruction i;
  i.lo = lo, i.hi = hi;
  i.opcode = uint16_t(lo & 0x1FF), i.form = uint8_t(lo >> 9 & 7);
  const uint32_t guard = uint32_t(lo >> 12 & 15);
  i.guarded = guard != 7;
  i.never = guard == 15;
  const uint64_t control = hi >> 41;
  i.stall = control & 15, i.yields = !(control >> 4 & 1);
  i.write_barrier = control >> 5 & 7, i.read_barrier = control >> 8 & 7, i.wait_mask = control >> 11 & 63;
  if (i.opcode == kBranch || (i.opcode == 0x144 && !i.calls_register())) i.target = int32_t(int64_t(index) + 1 + branch_distance(lo, hi));  // or CALL.REL
  return i;
}

/// Runs the line programs of one .nv_debug_line_sass section: rows (address, line) by sequence.
struct LineRow {
  uint64_t address;
  uint32_t line;
};

class LineProgram {
 public:
  LineProgram(const Reader& r, uint64_t base, uint64_t size, const std::map<uint64_t, uint32_t>& section_at)
      : r_(r), base_(base), size_(size), section_at_(section_at) {}
  /// Rows by number of the text section.
  std::map<uint32_t, std::vector<LineRow>> run() {
    for (uint64_t at = 0; at + 10 < size_;) at = unit(at);
    return std::move(rows_);
  }

 private:
  /// The next number, and how many bits of it were written.
  std::pair<uint64_t, int> number() {
    uint64_t v = 0;
    for (int bits = 0; bits < 63;) {
      const uint8_t b = r_.at<uint8_t>(base_ + p_++);
      v |= uint64_t(b & 127) << bits;
      bits += 7;
      if (!(b & 128)) return {v, bits};
    }
    base::fail("cubin: a number of the line table has more than 63 bits");
  }
  uint64_t leb() { return number().first; }
  int64_t sleb() {
    const auto [v, bits] = number();
    return sign_extend(v, bits);
  }
  void emit() { rows_[section_].push_back({address_, line_}); }
  void reset() { address_ = 0, line_ = 1, section_ = 0; }

  uint64_t unit(uint64_t at) {
    const uint64_t end = at + 4 + r_.at<uint32_t>(base_ + at), body = at + 10 + r_.at<uint32_t>(base_ + at + 6);
    const uint8_t least = r_.at<uint8_t>(base_ + at + 10), range = r_.at<uint8_t>(base_ + at + 13), first = r_.at<uint8_t>(base_ + at + 14);
    const int8_t line_base = r_.at<int8_t>(base_ + at + 12);
    std::vector<uint8_t> operands(first, 0);
    for (uint8_t i = 1; i < first; i++) operands[i] = r_.at<uint8_t>(base_ + at + 14 + i);
    reset();
    for (p_ = body; p_ < std::min(end, size_);) {
      const uint8_t op = r_.at<uint8_t>(base_ + p_++);
      if (op >= first && range) {
        address_ += uint64_t((op - first) / range) * least;
        line_ = uint32_t(int64_t(line_) + line_base + (op - first) % range);
        emit();
      } else if (op == 0) {
        const uint64_t length = leb(), next = p_ + length;
        if (length > size_) base::fail("cubin: an entry of the line table leaves it");
        const uint8_t what = r_.at<uint8_t>(base_ + p_);
        if (what == 1) emit(), reset();
        if (what == 2) {
          const auto found = section_at_.find(p_ + 1);
          section_ = found == section_at_.end() ? 0 : found->second;
          address_ = r_.at<uint64_t>(base_ + p_ + 1);
        }
        p_ = next;
      } else if (op == 1) {
        emit();
      } else if (op == 2) {
        address_ += leb() * least;
      } else if (op == 3) {
        line_ += uint32_t(sleb());
      } else if (op == 8) {
        address_ += uint64_t((255 - first) / std::max<int>(1, range)) * least;
      } else if (op == 9) {
        address_ += r_.at<uint16_t>(base_ + p_), p_ += 2;
      } else {
        if (op >= first) base::fail("cubin: the line table has no opcode {}", op);
        for (uint8_t i = 0; i < operands[op]; i++) leb();
      }
    }
    return end;
  }

  const Reader& r_;
  const uint64_t base_, size_;
  const std::map<uint64_t, uint32_t>& section_at_;
  std::map<uint32_t, std::vector<LineRow>> rows_;
  uint64_t p_ = 0, address_ = 0;
  uint32_t line_ = 1, section_ = 0;
};

struct Symbol {
  uint64_t value = 0;
  uint16_t section = 0;
  uint8_t type = 0;
};

Symbol symbol_at(const Reader& r, const std::vector<Section>& all, uint32_t table, uint64_t index) {
  if (table >= all.size()) base::fail("cubin: there is no section {}", table);
  const uint64_t at = all[table].offset + index * 24;
  return {r.at<uint64_t>(at + 8), r.at<uint16_t>(at + 6), uint8_t(r.at<uint8_t>(at + 4) & 15)};
}

/// Where in the line section a sequence's start address is set, and which section's address it is.
std::map<uint64_t, uint32_t> line_relocations(const Reader& r, const std::vector<Section>& all) {
  std::map<uint64_t, uint32_t> out;
  for (const Section& s : all) {
    const bool with_addend = s.name == ".rela.nv_debug_line_sass";
    if (!with_addend && s.name != ".rel.nv_debug_line_sass") continue;
    const uint64_t step = with_addend ? 24 : 16;
    for (uint64_t at = 0; at + step <= s.size; at += step)
      out[r.at<uint64_t>(s.offset + at)] = symbol_at(r, all, s.link, r.at<uint64_t>(s.offset + at + 8) >> 32).section;
  }
  return out;
}

/// Calls f(section, count) for the registers a thread in .nv.info: records of format 4 (a size and bytes), attribute 0x2f:
/// symbol, count.
template <class F>
void for_registers(const Reader& r, const std::vector<Section>& all, F f) {
  for (const Section& s : all) {
    if (s.name != ".nv.info") continue;
    for (uint64_t at = 0; at + 4 <= s.size;) {
      const uint8_t format = r.at<uint8_t>(s.offset + at), attribute = r.at<uint8_t>(s.offset + at + 1);
      const uint16_t size = format == 4 ? r.at<uint16_t>(s.offset + at + 2) : 0;
      if (format == 4 && attribute == 0x2f && size >= 8)
        f(symbol_at(r, all, s.link, r.at<uint32_t>(s.offset + at + 4)).section, r.at<uint32_t>(s.offset + at + 8));
      at += 4 + uint64_t{size};
    }
  }
}

uint32_t registers_of(const Reader& r, const std::vector<Section>& all, uint32_t section) {
  uint32_t found = 0;
  for_registers(r, all, [&](uint32_t of, uint32_t count) { found = of == section ? count : found; });
  return found;
}

void set_lines(MachineCode& code, std::vector<LineRow> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const LineRow& a, const LineRow& b) { return a.address < b.address; });
  size_t next = 0;
  uint32_t line = 0;
  for (size_t i = 0; i < code.code.size(); i++) {
    while (next < rows.size() && rows[next].address <= i * 16) line = rows[next++].line;
    code.code[i].line = line;
  }
}

}  // namespace

std::vector<MachineCode> read_cubin(std::span<const std::byte> file) {
  const Reader r(file);
  const std::vector<Section> all = sections_of(r);
  const std::map<uint64_t, uint32_t> starts = line_relocations(r, all);
  std::map<uint32_t, std::vector<LineRow>> rows;
  for (const Section& s : all)
    if (s.name == ".nv_debug_line_sass") {
      r.part(s.offset, s.size);
      rows = LineProgram(r, s.offset, s.size, starts).run();
    }
  std::vector<MachineCode> out;
  for (uint32_t n = 0; n < all.size(); n++) {
    const Section& s = all[n];
    if (!s.name.starts_with(".text.")) continue;
    MachineCode code;
    code.name = s.name.substr(6);
    code.registers = s.info >> 24 ? s.info >> 24 : registers_of(r, all, n);
    r.part(s.offset, s.size);
    for (uint64_t at = 0; at + 16 <= s.size; at += 16) code.code.push_back(decode(r.at<uint64_t>(s.offset + at), r.at<uint64_t>(s.offset + at + 8), at / 16));
    set_lines(code, rows[n]);
    for (uint32_t other = 0; other < all.size(); other++) {
      if (all[other].name == ".nv.shared." + code.name) code.shared_bytes = uint32_t(all[other].size);
      if (all[other].type != 2) continue;  // symbols
      for (uint64_t i = 0; i < all[other].size / 24; i++) {
        const Symbol symbol = symbol_at(r, all, other, i);
        if (symbol.section == n && symbol.type == 2 && symbol.value) code.inner_functions.push_back(uint32_t(symbol.value / 16));
      }
    }
    std::sort(code.inner_functions.begin(), code.inner_functions.end());
    out.push_back(std::move(code));
  }
  return out;
}

std::map<std::string, uint32_t> read_registers(std::span<const std::byte> file) {
  const Reader r(file);
  const std::vector<Section> all = sections_of(r);
  std::map<std::string, uint32_t> out;
  for_registers(r, all, [&](uint32_t section, uint32_t count) {
    if (section < all.size() && all[section].name.starts_with(".text.")) out[all[section].name.substr(6)] = count;
  });
  return out;
}

}  // namespace orrery::timing
