// exec/wait_log.h: what happened to each mbarrier of the blocks that are resident together, so that a hang can be explained.
//
// Every operation on an mbarrier is noted where it is carried out, whether or not the program is being checked: a few
// words per mbarrier, overwritten by what comes later.
//   MbarrierNote      one operation: who, where, how much, in which phase
//   MbarrierHistory   its initialisation, its last operations, and the last arrival of every warp that ever arrived
//
// Not here: the mbarrier itself (mbarrier.h), the explanation (wait_graph.h).
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "exec/mbarrier.h"
#include "exec/warp.h"

namespace orrery::exec {

struct DecodedProgram;

enum class MbarrierAct : uint8_t { init, inval, expect, arrive, bytes };

struct MbarrierNote {
  MbarrierAct act = MbarrierAct::init;
  const DecodedProgram* code = nullptr;  // null: there is no such note
  const WarpContext* warp = nullptr;
  uint32_t pc = 0;
  uint32_t lanes = 0;      // that did the same in one go
  uint64_t count = 0;      // arrivals, or bytes, of all of them
  uint32_t phase = 0;      // completed phases before it
  uint32_t times = 0;      // arrivers: how often the warp came
};

struct MbarrierHistory {
  static constexpr size_t kLast = 6;
  MbarrierNote init;
  std::array<MbarrierNote, kLast> last;  // [n % kLast] is the next to be overwritten
  uint32_t n = 0;
  uint32_t phases = 0;                   // completed since it was initialised
  std::vector<MbarrierNote> arrivers;    // one per warp that arrived or brought bytes
  int64_t expected_bytes = 0, brought_bytes = 0;  // in the phase that runs
};

class WaitLog {
 public:
  void clear() {
    if (!histories_.empty()) histories_.clear();
    last_word_ = nullptr;
  }
  const MbarrierHistory* find(const uint64_t* word) const {
    auto it = histories_.find(word);
    return it == histories_.end() ? nullptr : &it->second;
  }
  const std::unordered_map<const uint64_t*, MbarrierHistory>& all() const { return histories_; }

  /// One lane's operation on the mbarrier at `word`, which was `before` and is `after`.
  void add(const uint64_t* word, uint64_t before, uint64_t after, MbarrierNote note, int lane) {
    MbarrierHistory& h = word == last_word_ ? *last_history_ : histories_[word];
    last_word_ = word;
    last_history_ = &h;
    if (note.act == MbarrierAct::init) h = MbarrierHistory{};
    note.lanes = uint32_t{1} << lane;
    note.phase = h.phases;
    note.times = 1;
    if (note.act == MbarrierAct::init) h.init = note;
    if (note.act == MbarrierAct::expect) h.expected_bytes += int64_t(note.count);
    if (note.act == MbarrierAct::bytes) h.brought_bytes += int64_t(note.count);
    remember(h, note);
    if (note.act != MbarrierAct::init && mbarrier::phase(before) != mbarrier::phase(after)) {
      h.phases++;
      h.expected_bytes = h.brought_bytes = 0;
    }
  }

 private:
  static bool together(const MbarrierNote& a, const MbarrierNote& b) {
    return a.code == b.code && a.pc == b.pc && a.warp == b.warp && a.act == b.act && a.phase == b.phase && !(a.lanes & b.lanes);
  }
  static void remember(MbarrierHistory& h, const MbarrierNote& note) {
    MbarrierNote& before = h.last[(h.n + MbarrierHistory::kLast - 1) % MbarrierHistory::kLast];
    if (h.n && together(before, note)) {
      before.lanes |= note.lanes;
      before.count += note.count;
    } else {
      h.last[h.n++ % MbarrierHistory::kLast] = note;
    }
    if (note.act != MbarrierAct::arrive && note.act != MbarrierAct::bytes) return;
    for (MbarrierNote& a : h.arrivers)
      if (a.warp == note.warp && a.act == note.act) {
        const uint32_t lanes = a.phase == note.phase ? a.lanes : 0, times = a.times + (a.phase != note.phase);
        a = note;
        a.lanes |= lanes;
        a.times = times;
        return;
      }
    h.arrivers.push_back(note);
  }

  std::unordered_map<const uint64_t*, MbarrierHistory> histories_;
  const uint64_t* last_word_ = nullptr;
  MbarrierHistory* last_history_ = nullptr;
};

}  // namespace orrery::exec
