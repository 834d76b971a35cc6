// lower/in_flight.cc: see in_flight.h.
#include "lower/in_flight.h"

#include <algorithm>
#include <map>

#include "lower/flow.h"

namespace orrery::lower {

using isa::Op;
using ptx::Instr;
using ptx::OperandKind;

namespace {

constexpr int8_t kLanded = 127, kOpen = -1;  // not in flight; its group is not committed yet

bool is_wgmma(const Instr& in) { return in.form.op == Op::wgmma_mma_async || in.form.op == Op::wgmma_mma_async_sp; }
bool is_mov(const Instr& in) {
  return in.form.op == Op::mov && in.ops.size() == 2 && in.ops[0].kind == OperandKind::reg && in.ops[1].kind == OperandKind::reg;
}

class Flights {
 public:
  explicit Flights(const Program& p) : p_(p), at_(p.regs.size()), before_(p.blocks.size()) {
    found_.accumulator.assign(p.regs.size(), 0);
    for (const Instr& in : p.code) {
      if (!is_wgmma(in)) continue;
      found_.wgmmas++;
      for_operand_registers(in.ops[0], [&](uint32_t r) { found_.accumulator[r] = 1; });
    }
    if (!found_.wgmmas) return;
    // Ages are kept by place in the frame: registers that share one are one.
    std::map<uint32_t, uint32_t> place;
    for (uint32_t r = 0; r < p.regs.size(); r++)
      if (found_.accumulator[r]) place.emplace(p.regs[r].offset, uint32_t(place.size()));
    for (uint32_t r = 0; r < p.regs.size(); r++) {
      const uint32_t first = p.regs[r].offset, end = first + bytes_of(p.regs[r].kind), word = bytes_of(RegKind::word);
      for (auto it = place.lower_bound(first < word ? 0 : first - word + 1); it != place.end() && it->first < end; ++it) at_[r].push_back(it->second);
    }
    places_ = place.size();
    solve();
  }
  const InFlight& found() const { return found_; }

 private:
  using Ages = std::vector<int8_t>;

  static uint32_t bytes_of(RegKind k) { return k == RegKind::pred ? 4 : k == RegKind::word ? 128 : k == RegKind::dword ? 256 : 512; }

  void solve() {
    std::vector<uint8_t> seen(p_.blocks.size(), 0);
    std::vector<uint32_t> work{0};
    before_[0].assign(places_, kLanded);
    seen[0] = 1;
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      Ages ages = before_[b];
      for (uint32_t i = p_.blocks[b].first; i < p_.blocks[b].last; i++) step(i, ages);
      for (const uint32_t s : p_.blocks[b].successors) {
        bool changed = !seen[s];
        seen[s] = 1;
        if (before_[s].empty()) before_[s].assign(places_, kLanded);
        for (size_t k = 0; k < places_; k++)
          if (ages[k] < before_[s][k]) before_[s][k] = ages[k], changed = true;
        if (changed) work.push_back(s);
      }
    }
  }

  void step(uint32_t i, Ages& ages) {
    const Instr& in = p_.code[i];
    switch (in.form.op) {
      case Op::wgmma_mma_async: case Op::wgmma_mma_async_sp:
        // The registers of A are read at issue; D of another wgmma among them would be a value that is not there yet.
        for (size_t o = 1; o < in.ops.size(); o++) for_operand_registers(in.ops[o], [&](uint32_t r) { touch(i, r, ages); });
        for_operand_registers(in.ops[0], [&](uint32_t r) { for (const uint32_t k : at_[r]) ages[k] = kOpen; });
        break;
      case Op::wgmma_commit_group:
        for (int8_t& a : ages)
          if (a < kLanded - 1) a++;
        break;
      case Op::wgmma_wait_group: {
        const int64_t left = in.ops[0].value;
        for (int8_t& a : ages)
          if (a >= left) a = kLanded;
        break;
      }
      default: for_registers(in, [&](uint32_t r) { touch(i, r, ages); }, [&](uint32_t r) { touch(i, r, ages); });
    }
  }

  void touch(uint32_t i, uint32_t reg, const Ages& ages) {
    if (std::all_of(at_[reg].begin(), at_[reg].end(), [&](uint32_t k) { return ages[k] == kLanded; })) return;
    const bool copy = is_mov(p_.code[i]) || !found_.accumulator[reg];
    uint32_t& first = copy ? found_.copied : found_.touched;
    first = std::min(first, i);
  }

  const Program& p_;
  std::vector<std::vector<uint32_t>> at_;  // by register: the accumulators' places that it has
  std::vector<Ages> before_;      // by block
  size_t places_ = 0;
  InFlight found_;
};

}  // namespace

InFlight find_in_flight(const Program& program) { return Flights(program).found(); }

}  // namespace orrery::lower
