// timing/pressure.h: 32-bit registers that are live at once while a block's instructions are issued in some order.
//
// It goes by values: what PTX writes to one register twice is two of them. A copy shares its source's register, as ptxas coalesces them;
// constants (parameters, immediates) take none, for they are read from where they lie. Not here: which order (stand_in_order.h), predicates (they have registers of their own).
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

namespace orrery::timing {

class Pressure {
 public:
  using Values = std::vector<uint32_t>;
  /// `units(v)`: 32-bit registers that a value takes; what is live at the block's start and at its end.
  Pressure(std::function<uint32_t(uint32_t)> units, const Values& at_start, const std::set<uint32_t>& at_end)
      : units_(std::move(units)), at_end_(at_end) {
    for (uint32_t r : at_start) begin(r, r);
  }
  /// An instruction of the block uses these; to be said of all before the first is issued.
  void will_use(const Values& sources) {
    for (uint32_t s : sources) uses_[s]++;
  }
  /// How many more registers are live behind an instruction.
  int change(const Values& sources, const Values& results, bool copies) const {
    int more = 0;
    for (uint32_t r : results)
      if (!root_.count(r) && !copies) more += int(units_(r));
    for (size_t i = 0; i < sources.size(); i++) {
      const uint32_t s = sources[i];
      if (std::find(sources.begin(), sources.begin() + long(i), s) != sources.begin() + long(i)) continue;
      const auto root = root_.find(s);
      if (!ends(s, std::count(sources.begin(), sources.end(), s)) || root == root_.end() || names_.at(root->second) > 1) continue;
      if (copies || std::find(results.begin(), results.end(), s) != results.end()) continue;
      more -= int(units_(root->second));
    }
    return more;
  }
  /// The instruction is issued: what it reads last ends, what it writes begins.
  void issue(const Values& sources, const Values& results, bool copies) {
    const auto source = copies && sources.size() == 1 ? root_.find(sources[0]) : root_.end();
    if (source != root_.end())
      for (const uint32_t root = source->second; uint32_t r : results)
        if (!root_.count(r)) begin(r, root);
    for (uint32_t s : sources)
      if (--uses_[s]; ends(s, 0) && std::find(results.begin(), results.end(), s) == results.end()) end(s);
    for (uint32_t r : results)  // in what its sources have left
      if (!root_.count(r)) begin(r, r);
    for (uint32_t r : results)  // nobody asks for it
      if (ends(r, 0)) end(r);
  }
  uint32_t now() const { return now_; }
  uint32_t most() const { return most_; }

 private:
  bool ends(uint32_t r, long here) const {
    const auto left = uses_.find(r);
    return (left == uses_.end() ? 0 : left->second) == here && !at_end_.count(r);
  }
  void begin(uint32_t r, uint32_t root) {
    root_[r] = root;
    if (names_[root]++ == 0) now_ += units_(root), most_ = std::max(most_, now_);
  }
  void end(uint32_t r) {
    const auto at = root_.find(r);
    if (at == root_.end()) return;
    if (--names_[at->second] == 0) now_ -= units_(at->second);
    root_.erase(at);
  }

  std::function<uint32_t(uint32_t)> units_;
  const std::set<uint32_t>& at_end_;
  std::unordered_map<uint32_t, long> uses_;           // left in this block
  std::unordered_map<uint32_t, uint32_t> root_;       // live values: whose register they share
  std::unordered_map<uint32_t, uint32_t> names_;      // of a root: how many live values share it
  uint32_t now_ = 0, most_ = 0;
};

}  // namespace orrery::timing
