// jit/ahead.cc: see ahead.h.
#include "jit/ahead.h"

#include <algorithm>
#include <cstdlib>

namespace orrery::jit {

using isa::Op;
using ptx::Instr;
using ptx::Operand;

namespace {

constexpr int64_t kLine = 64;      // the host's
constexpr uint8_t kFar = 4;        // iterations
constexpr int64_t kRowsOn = 2048;  // bytes

/// The address of a load from or a store to global memory through a register; else null.
const Operand* global_address(const Instr& in) {
  if ((in.form.op != Op::ld && in.form.op != Op::st) || in.ops.size() < 2 || in.form.n_spaces == 0) return nullptr;
  for (int i = 0; i < in.form.n_spaces; i++)
    if (in.form.space(i) != isa::Space::global) return nullptr;
  const Operand& address = in.ops[in.form.op == Op::st ? 0 : 1];
  return address.base == ptx::BaseKind::reg ? &address : nullptr;
}

Ahead in_loop(const Loop& loop, const Step& step, bool is_store) {
  const int64_t size = step.factor < 0 ? -step.factor : step.factor;
  const bool far = size >= kLongStep || !step.constant();
  if (!size || (far && is_store)) return {};
  if (loop.barrier) return !is_store && (size >= kLine || !step.constant()) ? Ahead{1, true, false, step} : Ahead{};
  if (!loop.innermost) return {};
  if (far) return {kFar, false, false, step};
  return size >= 2 * kLine ? Ahead{uint8_t(kRowsOn / size), true, true, step} : Ahead{};
}

/// What the same instruction accesses a block or a few later.
Ahead from_block_to_block(const Instr& in, const lower::Uniformity& u, const Step& step) {
  if (step.constant() && std::abs(step.factor) < kLine) return {};
  const int64_t bytes = int64_t(u.block.threads()) * isa::bytes_of(in.form.type()) * std::max(1, int(in.form.vec));
  return {uint8_t(std::clamp<int64_t>(kRowsOn / bytes, 1, 64)), true, true, step};
}

}  // namespace

std::vector<Ahead> find_ahead(const lower::Program& p, const lower::Uniformity& u, const std::vector<Loop>& loops) {
  std::vector<Ahead> out(p.code.size());
  const Steps blocks(p, u);
  for (uint32_t i = 0; i < p.code.size(); i++)
    if (const Operand* address = global_address(p.code[i]))
      if (const auto step = blocks.of(address->id)) out[i] = from_block_to_block(p.code[i], u, *step);
  for (const Loop& loop : loops) std::fill(&out[p.blocks[loop.header].first], out.data() + p.blocks[loop.last].last, Ahead{});
  for (const Loop& loop : loops) {
    if (!loop.barrier && !loop.innermost) continue;
    const Steps steps(p, u, loop);
    for (uint32_t i = p.blocks[loop.header].first; i < p.blocks[loop.last].last; i++)
      if (const Operand* address = global_address(p.code[i]))
        if (const auto step = steps.of(address->id)) out[i] = in_loop(loop, *step, p.code[i].form.op == Op::st);
  }
  return out;
}

}  // namespace orrery::jit
