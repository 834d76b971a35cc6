// timing/slice.cc: see slice.h. Registers are taken as a whole, wherever they are written: a fixed point over uses. A branch matters only for what
// runs between it and where its ways meet: one around arithmetic that is left out may go either way (when events are not looked at).
#include "timing/slice.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lower/flow.h"
#include "timing/slow_paths.h"

namespace orrery::timing {

using isa::Op;
using isa::Space;

namespace {

bool is_param(Space s) { return s == Space::param || s == Space::param_entry || s == Space::param_func; }
/// Parameters and local memory carry arguments and what is spilt.
bool of_thread(Space s) { return is_param(s) || s == Space::local; }
bool is_store(const exec::Decoded& d) {
  const Op op = d.instr->form.op;
  if (op == Op::stmatrix || op == Op::wmma_store) return true;
  return op == Op::st && !of_thread(d.instr->form.space());
}
bool is_load(Op op) { return op == Op::ld || op == Op::ldmatrix || op == Op::wmma_load; }
/// May it be left out when nobody needs what it writes?
bool may_go(const exec::Decoded& d) {
  const Op op = d.instr->form.op;
  return d.pure || is_load(op) || op == Op::mov || op == Op::shfl;
}
/// Does what it gives depend on memory that stores may write? Local memory may be written through generic addresses.
bool gives_memory(const exec::Decoded& d) {
  const isa::Form& f = d.instr->form;
  if (is_load(f.op)) return !is_param(f.space()) && f.space() != Space::const_;
  const std::string_view name = isa::name_of(f.op);
  for (const std::string_view reads : {"atom", "ldu", "tex", "tld4", "suld", "multimem"})
    if (name.starts_with(reads)) return true;
  return false;
}

class Slicer {
 public:
  Slicer(std::span<const exec::DecodedProgram* const> programs, bool accesses, bool quotients) : programs_(programs), accesses_(accesses), quotients_(quotients) {
    for (const exec::DecodedProgram* p : programs_) between_.push_back(accesses ? Between{} : between(*p->program)), slice_.kept.emplace_back(p->code.size()), needed_.emplace_back(p->program->regs.size());
  }
  Slice run() {
    while (std::exchange(changed_, false))
      for (size_t k = 0; k < programs_.size(); k++)
        for (size_t i = 0; i < programs_[k]->code.size(); i++) look(k, i);
    slice_.moves_data = slice_.reads_memory;
    return std::move(slice_);
  }

 private:
  /// By instruction, of branches that go forward: the blocks between it and where its ways meet.
  using Between = std::map<size_t, std::vector<uint32_t>>;
  static Between between(const lower::Program& p) {
    Between found;
    for (uint32_t b = 0; b < p.blocks.size(); b++) {
      const size_t last = p.blocks[b].last - 1;
      if (p.code[last].form.op != Op::bra || p.code[last].guard.reg == ptx::kNoReg || p.blocks[b].ipdom == lower::kNone) continue;
      std::vector<uint32_t> blocks;
      const auto add = [&](const lower::Block& from) {
        for (const uint32_t to : from.successors)
          if (to != p.blocks[b].ipdom && std::find(blocks.begin(), blocks.end(), to) == blocks.end()) blocks.push_back(to);
      };
      add(p.blocks[b]);
      bool forward = true;
      for (size_t i = 0; i < blocks.size() && forward; i++) {
        for (const uint32_t to : p.blocks[blocks[i]].successors) forward &= to > blocks[i];
        forward &= blocks[i] > b;
        add(p.blocks[blocks[i]]);
      }
      if (forward) found[last] = std::move(blocks);
    }
    return found;
  }
  /// Does something that runs depend on which way the branch goes?
  bool steers(size_t k, const std::vector<uint32_t>& blocks) const {
    const lower::Program& p = *programs_[k]->program;
    for (const uint32_t b : blocks)
      for (size_t i = p.blocks[b].first; i < p.blocks[b].last; i++)
        if (slice_.kept[k][i] && p.code[i].form.op != Op::bra) return true;
    return false;
  }
  void need(size_t k, uint32_t r) { changed_ |= !needed_[k][r], needed_[k][r] = true; }
  void need_all(size_t k, const ptx::Instr& in) {
    lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { need(k, r); });
  }
  /// Guard and addresses (of shuffles: which lanes take part) of an instruction whose data do not matter.
  void need_place(size_t k, const exec::Decoded& d) {
    const ptx::Instr& in = *d.instr;
    if (in.guard.reg != ptx::kNoReg) need(k, in.guard.reg);
    const size_t data = is_store(d) ? 1 : SIZE_MAX;
    const size_t from = in.form.op == Op::shfl ? in.ops.size() - 1 : size_t(lower::destinations(in));
    for (size_t i = from; i < in.ops.size(); i++)
      if (i != data) lower::for_operand_registers(in.ops[i], [&](uint32_t r) { need(k, r); });
  }
  void look(size_t k, size_t i) {
    const exec::Decoded& d = programs_[k]->code[i];
    const ptx::Instr& in = *d.instr;
    bool wanted = false;
    lower::for_registers(in, [&](uint32_t r) { wanted |= needed_[k][r]; }, [](uint32_t) {});
    if (is_product(in.form.op)) {
      slice_.kept[k][i] = wanted;
      return;
    }
    if (wanted && is_load(in.form.op) && in.form.space() == Space::const_) slice_.reads_given = true;
    if (wanted && gives_memory(d)) changed_ |= !slice_.reads_memory, slice_.reads_memory = true;
    if (const auto blocks = between_[k].find(i); blocks != between_[k].end() && !steers(k, blocks->second)) {
      slice_.kept[k][i] = true;
      return;
    }
    const bool whole = is_store(d) ? slice_.reads_memory : wanted || !may_go(d) || (quotients_ && slow_path_of(in) != SlowPath::none);
    const bool placed = accesses_ && (is_store(d) || is_load(in.form.op) || in.form.op == Op::shfl);
    if (!whole && !placed) return;
    changed_ |= !slice_.kept[k][i], slice_.kept[k][i] = true;
    if (whole) need_all(k, in);
    else need_place(k, d);
  }

  const std::span<const exec::DecodedProgram* const> programs_;
  const bool accesses_, quotients_;
  Slice slice_;
  std::vector<std::vector<bool>> needed_;  // by program, by register
  std::vector<Between> between_;
  bool changed_ = true;
};

}  // namespace

bool is_product(Op op) { return op == Op::mma || op == Op::mma_sp || op == Op::wmma_mma || op == Op::wgmma_mma_async || op == Op::wgmma_mma_async_sp; }

Slice slice_of(std::span<const exec::DecodedProgram* const> programs, bool accesses) {
  Slice slice = Slicer(programs, accesses, false).run();
  bool quotients = false, products = false;
  for (const exec::DecodedProgram* p : programs)
    for (const exec::Decoded& d : p->code) slice.reads_given |= isa::name_of(d.instr->form.op).find("tensor") != std::string_view::npos, quotients |= slow_path_of(*d.instr) != SlowPath::none, products |= is_product(d.instr->form.op);
  if (!accesses || !quotients || products) return slice;  // sums of products are not computed: nothing is known of what they are divided by
  Slice whole = Slicer(programs, accesses, true).run();
  whole.reads_given |= slice.reads_given, whole.reads_memory = slice.reads_memory, whole.quotients = true;
  return whole;
}

}  // namespace orrery::timing
