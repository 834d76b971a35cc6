// jit/ahead.cc: see ahead.h.
#include "jit/ahead.h"

#include <cstdlib>

namespace orrery::jit {

using isa::Op;
using ptx::Instr;

namespace {

constexpr int64_t kLine = 64;       // the host's
constexpr int64_t kLongStep = 2048;  // bytes: prefetchers of the host stay within a page
constexpr uint8_t kFar = 4;          // iterations

bool loads_global(const Instr& in) {
  if (in.form.op != Op::ld || in.ops.size() < 2 || in.ops[1].base != ptx::BaseKind::reg || in.form.n_spaces == 0) return false;
  for (int i = 0; i < in.form.n_spaces; i++)
    if (in.form.space(i) != isa::Space::global) return false;
  return true;
}

Ahead ahead_of(const Loop& loop, const Step& step) {
  const int64_t size = step.factor < 0 ? -step.factor : step.factor;
  if (loop.barrier) return size >= kLine || (size && !step.constant()) ? Ahead{1, true, step} : Ahead{};
  const bool far = size >= kLongStep || (size && !step.constant());
  return loop.innermost && far ? Ahead{kFar, false, step} : Ahead{};
}

}  // namespace

std::vector<Ahead> find_ahead(const lower::Program& p, const lower::Uniformity& u, const std::vector<Loop>& loops) {
  std::vector<Ahead> out(p.code.size());
  for (const Loop& loop : loops) {
    if (!loop.barrier && !loop.innermost) continue;
    const Steps steps(p, u, loop);
    for (uint32_t i = p.blocks[loop.header].first; i < p.blocks[loop.last].last; i++)
      if (loads_global(p.code[i]))
        if (const auto step = steps.of(p.code[i].ops[1].id)) out[i] = ahead_of(loop, *step);
  }
  return out;
}

}  // namespace orrery::jit
