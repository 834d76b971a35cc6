// lower/flow.cc: see flow.h. Not here: places of registers, and the steps in order (finish.cc).
#include "lower/flow.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace orrery::lower {

using isa::Mod;
using isa::Op;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

int destinations(const Instr& instr) {
  const isa::Form& f = instr.form;
  switch (f.op) {
    case Op::st: case Op::red: case Op::bra: case Op::brx: case Op::ret: case Op::exit: case Op::trap:
    case Op::brkpt: case Op::pmevent: case Op::nanosleep: case Op::membar: case Op::fence: case Op::prefetch:
    case Op::prefetchu: case Op::applypriority: case Op::discard: case Op::st_async: case Op::red_async:
    case Op::sust: case Op::sured: case Op::cp_async: case Op::cp_async_commit_group:
    case Op::cp_async_wait_group: case Op::cp_async_wait_all: case Op::cp_async_mbarrier_arrive:
    case Op::cp_async_bulk: case Op::cp_async_bulk_prefetch: case Op::cp_reduce_async_bulk:
    case Op::cp_async_bulk_tensor: case Op::cp_reduce_async_bulk_tensor: case Op::cp_async_bulk_prefetch_tensor:
    case Op::cp_async_bulk_commit_group: case Op::cp_async_bulk_wait_group: case Op::tensormap_replace:
    case Op::tensormap_cp_fenceproxy: case Op::mbarrier_init: case Op::mbarrier_inval:
    case Op::mbarrier_expect_tx: case Op::mbarrier_complete_tx: case Op::wmma_store: case Op::stmatrix:
    case Op::wgmma_fence: case Op::wgmma_commit_group: case Op::wgmma_wait_group: case Op::setmaxnreg:
    case Op::griddepcontrol: case Op::bar_warp: case Op::barrier_cluster: case Op::multimem_st:
    case Op::multimem_red: case Op::stackrestore:
      return 0;
    case Op::bar: case Op::barrier:
      return f.has(Mod::red) ? 1 : 0;
    case Op::call:
      return 1;
    case Op::clusterlaunchcontrol:
      return f.has(Mod::try_cancel) ? 0 : 1;
    case Op::add: case Op::sub: case Op::mad: case Op::addc: case Op::subc: case Op::madc:
      return f.has(Mod::cc) ? 2 : 1;
    default:
      return 1;
  }
}

bool updates_destination(const Instr& instr) {
  return instr.form.op == Op::wgmma_mma_async || instr.form.op == Op::wgmma_mma_async_sp;
}

bool ends_block(const Instr& instr) {
  if (instr.guard.reg != ptx::kNoReg) return false;
  switch (instr.form.op) {
    case Op::bra: case Op::brx: case Op::ret: case Op::exit: case Op::trap: return true;
    default: return false;
  }
}

namespace {

bool is_jump(const Instr& instr) {
  switch (instr.form.op) {
    case Op::bra: case Op::brx: case Op::ret: case Op::exit: case Op::trap: return true;
    default: return false;
  }
}

/// A block while the graph is being built: instruction range in the text order and successors by raw number.
struct RawBlock {
  uint32_t first = 0, last = 0;
  std::vector<uint32_t> successors;
};

struct RawGraph {
  std::vector<RawBlock> blocks;
  std::vector<uint32_t> block_at;  // instruction -> raw block (entry size() = end)
};

std::vector<uint32_t> jump_targets(const Program& program, const Instr& instr) {
  if (instr.form.op == Op::bra) return {instr.ops[0].id};
  if (instr.form.op == Op::brx) {
    return program.branch_tables[instr.ops.back().id];
  }
  return {};
}

RawGraph cut(const Program& program, const std::vector<uint32_t>& label_targets) {
  const uint32_t n = uint32_t(program.code.size());
  std::vector<uint8_t> leader(n + 1, 0);
  leader[0] = 1;
  for (uint32_t i = 0; i < n; i++) {
    if (!is_jump(program.code[i])) continue;
    leader[i + 1] = 1;
    for (uint32_t label : jump_targets(program, program.code[i])) leader[label_targets[label]] = 1;
  }
  RawGraph g;
  g.block_at.assign(n + 1, kNone);
  for (uint32_t i = 0; i < n; i++) {
    if (leader[i]) g.blocks.push_back({i, i, {}});
    g.blocks.back().last = i + 1;
    g.block_at[i] = uint32_t(g.blocks.size()) - 1;
  }
  for (RawBlock& b : g.blocks) {
    const Instr& end = program.code[b.last - 1];
    if (!ends_block(end) && b.last < n) b.successors.push_back(g.block_at[b.last]);
    if (!is_jump(end)) continue;
    for (uint32_t label : jump_targets(program, end)) {
      const uint32_t target = g.block_at[label_targets[label]];
      if (std::find(b.successors.begin(), b.successors.end(), target) == b.successors.end())
        b.successors.push_back(target);
    }
  }
  return g;
}

/// Post-order of the reachable blocks; `first` decides which successor is visited first (and so placed last).
template <class First>
std::vector<uint32_t> post_order(const RawGraph& g, First order_successors) {
  std::vector<uint32_t> out;
  std::vector<uint8_t> seen(g.blocks.size(), 0);
  struct Item { uint32_t block; std::vector<uint32_t> next; size_t at; };
  std::vector<Item> stack;
  auto push = [&](uint32_t b) { seen[b] = 1; stack.push_back({b, order_successors(b), 0}); };
  push(0);
  while (!stack.empty()) {
    Item& top = stack.back();
    if (top.at == top.next.size()) {
      out.push_back(top.block);
      stack.pop_back();
      continue;
    }
    const uint32_t s = top.next[top.at++];
    if (!seen[s]) push(s);
  }
  return out;
}

/// Depth of loop nesting and innermost header of every block, from back edges to dominators.
struct Loops {
  std::vector<uint32_t> header, depth;
  std::vector<std::vector<uint32_t>> members;  // by header
  std::vector<std::vector<uint8_t>> holds;     // one row per loop: does it hold block b
};

std::vector<uint32_t> dominators(const std::vector<std::vector<uint32_t>>& preds, const std::vector<uint32_t>& rpo,
                                 size_t n) {
  std::vector<uint32_t> number(n, kNone), idom(n, kNone);
  for (uint32_t i = 0; i < rpo.size(); i++) number[rpo[i]] = i;
  idom[rpo[0]] = rpo[0];
  auto meet = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (number[a] > number[b]) a = idom[a];
      while (number[b] > number[a]) b = idom[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 1; i < rpo.size(); i++) {
      uint32_t best = kNone;
      for (uint32_t p : preds[rpo[i]])
        if (number[p] != kNone && idom[p] != kNone) best = best == kNone ? p : meet(p, best);
      if (best != idom[rpo[i]]) idom[rpo[i]] = best, changed = true;
    }
  }
  return idom;
}

Loops find_loops(const RawGraph& g, const std::vector<uint32_t>& rpo) {
  const size_t n = g.blocks.size();
  std::vector<std::vector<uint32_t>> preds(n);
  for (uint32_t b : rpo)
    for (uint32_t s : g.blocks[b].successors) preds[s].push_back(b);
  const std::vector<uint32_t> idom = dominators(preds, rpo, n);
  auto dominates = [&](uint32_t a, uint32_t b) {
    while (b != a && b != idom[b]) b = idom[b];
    return a == b;
  };
  Loops loops;
  loops.header.assign(n, kNone);
  loops.depth.assign(n, 0);
  loops.members.resize(n);
  for (uint32_t h : rpo) {  // outer headers come first in reverse post-order, inner ones overwrite `header`
    std::vector<uint32_t> work;
    std::vector<uint8_t> in(n, 0);
    in[h] = 1;
    for (uint32_t p : preds[h])
      if (dominates(h, p) && !in[p]) in[p] = 1, work.push_back(p);
    const bool self = std::find(preds[h].begin(), preds[h].end(), h) != preds[h].end();
    if (work.empty() && !self) continue;
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      for (uint32_t p : preds[b])
        if (!in[p]) in[p] = 1, work.push_back(p);
    }
    for (uint32_t b : rpo)
      if (in[b]) loops.header[b] = h, loops.depth[b]++, loops.members[h].push_back(b);
    loops.holds.push_back(std::move(in));
  }
  return loops;
}

bool may_wait(const Instr& i) {
  switch (i.form.op) {
    case Op::ld:
      return i.form.has(Mod::volatile_) || i.form.has(Mod::acquire) || i.form.has(Mod::relaxed) ||
             i.form.has(Mod::mmio);
    case Op::atom: case Op::nanosleep: case Op::mbarrier_try_wait: case Op::mbarrier_test_wait: return true;
    default: return false;
  }
}

bool waits_in(const Program& p, uint32_t block) {
  for (uint32_t k = p.blocks[block].first; k < p.blocks[block].last; k++)
    if (may_wait(p.code[k])) return true;
  return false;
}

/// `end` and all blocks that are reached along `edges` from one of `from` without going through it.
std::vector<uint8_t> reach(const Program& p, uint32_t end, std::vector<uint32_t> from, std::vector<uint32_t> Block::*edges) {
  std::vector<uint8_t> in(p.blocks.size(), 0);
  in[end] = 1;
  while (!from.empty()) {
    const uint32_t b = from.back();
    from.pop_back();
    if (in[b]) continue;
    in[b] = 1;
    from.insert(from.end(), (p.blocks[b].*edges).begin(), (p.blocks[b].*edges).end());
  }
  return in;
}

/// Loops that can be entered elsewhere than at the block that is jumped back to: no header dominates them, but they may spin.
void find_entered_loops(Program& p) {
  for (uint32_t h = 0; h < p.blocks.size(); h++) {
    if (p.blocks[h].may_spin || p.blocks[h].loop_header == h) continue;
    std::vector<uint32_t> back;
    for (uint32_t from : p.blocks[h].predecessors)
      if (from >= h) back.push_back(from);
    if (back.empty()) continue;
    const std::vector<uint8_t> before = reach(p, h, back, &Block::predecessors), after = reach(p, h, p.blocks[h].successors, &Block::successors);
    for (uint32_t b = 0; b < p.blocks.size(); b++) p.blocks[h].may_spin |= before[b] && after[b] && waits_in(p, b);
  }
}

}  // namespace

void build_blocks(Program& program, const std::vector<uint32_t>& label_targets) {
  const RawGraph g = cut(program, label_targets);
  std::vector<uint32_t> rpo = post_order(g, [&](uint32_t b) {
    return std::vector<uint32_t>(g.blocks[b].successors.rbegin(), g.blocks[b].successors.rend());
  });
  std::reverse(rpo.begin(), rpo.end());
  const Loops loops = find_loops(g, rpo);
  auto shared_depth = [&](uint32_t b, uint32_t s) {  // how many of b's loops also hold s
    uint32_t depth = 0;
    for (const auto& in : loops.holds) depth += in[b] && in[s];
    return depth;
  };
  const bool any_loop = std::any_of(loops.depth.begin(), loops.depth.end(), [](uint32_t d) { return d > 0; });
  std::vector<uint32_t> order = post_order(g, [&](uint32_t b) {
    std::vector<uint32_t> s(g.blocks[b].successors.rbegin(), g.blocks[b].successors.rend());
    if (any_loop && s.size() > 1)  // successors that leave more loops are visited first, so they come later
      std::stable_sort(s.begin(), s.end(), [&](uint32_t x, uint32_t y) { return shared_depth(b, x) < shared_depth(b, y); });
    return s;
  });
  std::reverse(order.begin(), order.end());

  std::vector<uint32_t> number(g.blocks.size(), kNone);
  for (uint32_t i = 0; i < order.size(); i++) number[order[i]] = i;
  std::vector<Instr> code;
  auto branch_to = [&](uint32_t block, const ptx::Loc& loc) {
    Instr bra;
    bra.form.op = Op::bra;
    bra.loc = loc;
    Operand target;
    target.kind = OperandKind::label;
    target.id = block;
    bra.ops.push_back(target);
    code.push_back(bra);
  };
  for (uint32_t i = 0; i < order.size(); i++) {
    const RawBlock& raw = g.blocks[order[i]];
    Block block;
    block.first = uint32_t(code.size());
    for (uint32_t k = raw.first; k < raw.last; k++) {
      code.push_back(program.code[k]);
      if (code.back().form.op == Op::bra) code.back().ops[0].id = number[g.block_at[label_targets[code.back().ops[0].id]]];
    }
    const Instr& end = program.code[raw.last - 1];
    if (!ends_block(end)) {
      if (raw.last == program.code.size()) {  // running off the end returns
        Instr ret;
        ret.form.op = Op::ret;
        ret.loc = end.loc;
        code.push_back(ret);
      } else if (number[g.block_at[raw.last]] != i + 1) {
        // A guarded jump in the middle of a block would break the one-terminator rule: give the jump its own block end.
        branch_to(number[g.block_at[raw.last]], end.loc);
      }
    }
    block.last = uint32_t(code.size());
    for (uint32_t s : raw.successors) block.successors.push_back(number[s]);
    if (loops.header[order[i]] != kNone) block.loop_header = number[loops.header[order[i]]];
    program.blocks.push_back(std::move(block));
  }
  program.code = std::move(code);
  program.block_of.assign(program.code.size(), 0);
  for (uint32_t b = 0; b < program.blocks.size(); b++) {
    for (uint32_t k = program.blocks[b].first; k < program.blocks[b].last; k++) program.block_of[k] = b;
    for (uint32_t s : program.blocks[b].successors) program.blocks[s].predecessors.push_back(b);
  }
  for (auto& table : program.branch_tables) {
    std::vector<uint32_t> blocks;
    for (uint32_t t : table)
      if (t < label_targets.size() && label_targets[t] < g.block_at.size() && g.block_at[label_targets[t]] != kNone)
        blocks.push_back(number[g.block_at[label_targets[t]]]);
    table = std::move(blocks);
  }
  // A loop may spin when any instruction of it, in the new numbering, may wait.
  for (uint32_t h = 0; h < loops.members.size(); h++)
    for (uint32_t raw : loops.members[h]) program.blocks[number[h]].may_spin |= waits_in(program, number[raw]);
  find_entered_loops(program);
}

void find_post_dominators(Program& program) {
  const uint32_t n = uint32_t(program.blocks.size()), exit = n;
  std::vector<std::vector<uint32_t>> succs(n + 1), preds(n + 1);  // of the reversed graph
  for (uint32_t b = 0; b < n; b++) {
    const Block& block = program.blocks[b];
    for (uint32_t s : block.successors) succs[s].push_back(b), preds[b].push_back(s);
    const Instr& end = program.code[block.last - 1];
    const bool leaves = end.form.op == Op::ret || end.form.op == Op::exit || end.form.op == Op::trap;
    if (leaves || block.successors.empty()) succs[exit].push_back(b), preds[b].push_back(exit);
  }
  auto order_from = [&]() {
    std::vector<uint32_t> post;
    std::vector<uint8_t> seen(n + 1, 0);
    std::vector<std::pair<uint32_t, size_t>> stack{{exit, 0}};
    seen[exit] = 1;
    while (!stack.empty()) {
      auto& [b, at] = stack.back();
      if (at == succs[b].size()) {
        post.push_back(b);
        stack.pop_back();
      } else if (const uint32_t s = succs[b][at++]; !seen[s]) {
        seen[s] = 1;
        stack.push_back({s, 0});
      }
    }
    std::reverse(post.begin(), post.end());
    return post;
  };
  const std::vector<uint32_t> idom = dominators(preds, order_from(), n + 1);
  for (uint32_t b = 0; b < n; b++) program.blocks[b].ipdom = idom[b] == exit ? kNone : idom[b];  // endless loops: kNone
}

namespace {
using Bits = std::vector<uint64_t>;
bool test(const Bits& b, uint32_t i) { return b[i >> 6] >> (i & 63) & 1; }
void set(Bits& b, uint32_t i) { b[i >> 6] |= uint64_t{1} << (i & 63); }
}  // namespace

void find_live_registers(Program& program) {
  const size_t words = (program.regs.size() + 63) / 64, n = program.blocks.size();
  std::vector<Bits> use(n, Bits(words)), def(n, Bits(words)), in(n, Bits(words));
  for (size_t b = 0; b < n; b++)
    for (uint32_t k = program.blocks[b].first; k < program.blocks[b].last; k++) {
      const Instr& i = program.code[k];
      // A guarded write keeps the old value in other lanes, so it does not end the register's life.
      for_registers(i, [](uint32_t) {}, [&](uint32_t r) { if (!test(def[b], r)) set(use[b], r); });
      for_registers(i, [&](uint32_t r) { if (i.guard.reg == ptx::kNoReg) set(def[b], r); else if (!test(def[b], r)) set(use[b], r); },
                    [](uint32_t) {});
    }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = n; b-- > 0;) {
      for (size_t w = 0; w < words; w++) {
        uint64_t out = 0;
        for (uint32_t s : program.blocks[b].successors) out |= in[s][w];
        const uint64_t now = use[b][w] | (out & ~def[b][w]);
        if (now != in[b][w]) in[b][w] = now, changed = true;
      }
    }
  }
  program.live_in.assign(n, {});
  for (size_t b = 0; b < n; b++)
    for (size_t w = 0; w < words; w++)
      for (uint64_t bits = in[b][w]; bits; bits &= bits - 1)
        program.live_in[b].push_back(uint32_t(w * 64 + size_t(std::countr_zero(bits))));
}

}  // namespace orrery::lower
