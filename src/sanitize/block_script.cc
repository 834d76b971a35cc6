// sanitize/block_script.cc: see block_script.h.
#include "sanitize/block_script.h"

#include <bit>

namespace orrery::sanitize {

bool BlockScript::is_next(size_t at, Step step, const uint64_t* addresses) const {
  if (at >= steps_.size()) return false;
  step.address = steps_[at].address;
  if (!(steps_[at] == step)) return false;
  const uint64_t* before = this->addresses(step);
  if (step.lanes == ~0u) return std::memcmp(before, addresses, 32 * sizeof *addresses) == 0;
  for (uint32_t m = step.lanes; m; m &= m - 1)
    if (before[std::countr_zero(m)] != addresses[std::countr_zero(m)]) return false;
  return true;
}

namespace {

/// Who has used a word since the block met last.
struct Use {
  static constexpr uint32_t kNobody = ~0u, kSeveral = ~0u - 1;
  uint32_t epoch = 0, writer = kNobody, reader = kNobody;

  bool allows(uint32_t now, uint32_t thread, bool writes) {
    if (epoch != now) *this = {now, kNobody, kNobody};
    if (writer != kNobody && writer != thread) return false;
    if (!writes) reader = reader == kNobody || reader == thread ? thread : kSeveral;
    else if (reader != kNobody && reader != thread) return false;
    else writer = thread;
    return true;
  }
};

/// Calls f(lane, address) for the words of a step.
template <class F>
bool for_words(const Step& s, const uint64_t* addresses, F f) {
  const uint32_t bytes = 4u * s.words, n = s.count ? s.count : 1;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t m = s.lanes; m; m &= m - 1) {
      const uint32_t lane = uint32_t(std::countr_zero(m));
      uint64_t at = s.place();
      switch (s.kind) {
        case StepKind::run: at += uint64_t{lane} * bytes; break;
        case StepKind::any: at = addresses[lane]; break;
        case StepKind::block: at += uint64_t{i} * bytes; break;
        case StepKind::rows: at += (uint64_t{i} * 32 + lane) * bytes; break;
        case StepKind::same: case StepKind::barrier: break;
      }
      for (uint32_t k = 0; k < s.words; k++)
        if (!f(lane, at + 4 * k)) return false;
    }
  return true;
}

}  // namespace

bool BlockScript::is_right(uint32_t bytes) const {
  std::vector<Use> words((bytes + 3) / 4);
  uint32_t epoch = 1;
  for (const Step& s : steps_) {
    if (s.kind == StepKind::barrier) {
      epoch++;
      continue;
    }
    const bool right = for_words(s, s.kind == StepKind::any ? addresses(s) : nullptr, [&](uint32_t lane, uint64_t at) {
      return at % 4 == 0 && at / 4 < words.size() && words[at / 4].allows(epoch, s.warp * 32u + lane, s.writes);
    });
    if (!right) return false;
  }
  return true;
}

}  // namespace orrery::sanitize
