// ptx/names.h: identifiers as small numbers.
//
// An open-addressing table from text to a dense number, so that scopes and caches are arrays. Text is kept as views
// of the source (or of `made`, for names that a range declaration such as `%r<100>` makes).
#pragma once
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::ptx {

class Names {
 public:
  Names() : slots_(1u << 12) {}

  /// The number of `text`, which must live as long as this table.
  uint32_t intern(std::string_view text) {
    uint32_t h = hash(text);
    for (uint32_t i = h & mask();; i = (i + 1) & mask()) {
      Slot& s = slots_[i];
      if (s.id == 0) {
        texts_.push_back(text);
        s = {h, uint32_t(texts_.size())};
        uint32_t id = s.id - 1;
        if (texts_.size() * 2 > slots_.size()) grow();
        return id;
      }
      if (s.hash == h && texts_[s.id - 1] == text) return s.id - 1;
    }
  }
  /// The same for text that does not live long enough.
  uint32_t intern_copy(std::string_view text) {
    uint32_t h = hash(text);
    for (uint32_t i = h & mask(); slots_[i].id != 0; i = (i + 1) & mask())
      if (slots_[i].hash == h && texts_[slots_[i].id - 1] == text) return slots_[i].id - 1;
    made_.emplace_back(text);
    return intern(made_.back());
  }
  std::string_view text(uint32_t id) const { return texts_[id]; }
  uint32_t size() const { return uint32_t(texts_.size()); }

 private:
  struct Slot {
    uint32_t hash = 0, id = 0;  // id counts from 1; 0: free
  };
  uint32_t mask() const { return uint32_t(slots_.size()) - 1; }
  static uint32_t hash(std::string_view t) {
    uint64_t h = t.size() * 0x9E3779B97F4A7C15ull;
    const char* p = t.data();
    size_t n = t.size();
    for (; n >= 8; p += 8, n -= 8) {
      uint64_t w;
      std::memcpy(&w, p, 8);
      h = (h ^ w) * 0xFF51AFD7ED558CCDull;
      h ^= h >> 32;
    }
    uint64_t w = 0;
    std::memcpy(&w, p, n);
    h = (h ^ w) * 0xC4CEB9FE1A85EC53ull;
    return uint32_t(h ^ h >> 29);
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.id) {
        uint32_t i = s.hash & mask();
        while (slots_[i].id) i = (i + 1) & mask();
        slots_[i] = s;
      }
  }
  std::vector<Slot> slots_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> made_;
};

}  // namespace orrery::ptx
