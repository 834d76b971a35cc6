// jit/abreast.cc: see abreast.h.
#include "jit/abreast.h"

#include <algorithm>
#include <map>

#include "exec/interpreter.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr uint32_t kMostInstructions = 192;  // of a region: the code holds each several times
constexpr uint32_t kLeastDepth = 8;          // of the longest chain of arithmetic
constexpr uint32_t kMostChains = 3;          // more of them side by side keep the host busy without help

/// Neither leaves compiled code nor branches in it: a few host instructions on registers.
bool is_plain(const Instr& in) {
  if (in.guard.reg != ptx::kNoReg || in.form.has(Mod::cc)) return false;
  const Type t = in.form.type();
  const bool word = t == Type::f32 || t == Type::f64 || t == Type::b32 || t == Type::b64 || is_whole(t);
  switch (in.form.op) {
    case Op::add: case Op::sub: case Op::mul: case Op::fma: case Op::mad:
      // Directed rounding may be a call, a product near the smallest normal number may leave (ftz), and so may a widened one.
      if (in.form.has(Mod::wide) || (in.form.has(Mod::ftz) && in.form.op != Op::add && in.form.op != Op::sub)) return false;
      return word && !in.form.has(Mod::rz) && !in.form.has(Mod::rm) && !in.form.has(Mod::rp) && !in.form.has(Mod::sat);
    case Op::mov: case Op::shl: case Op::and_: case Op::or_: case Op::xor_: return word;
    default: return false;
  }
}

}  // namespace

bool is_float_arithmetic(const Instr& in) {
  switch (in.form.op) {
    case Op::add: case Op::sub: case Op::mul: case Op::fma: case Op::mad: return in.form.type() == Type::f32 || in.form.type() == Type::f64;
    default: return false;
  }
}

bool is_shared_access(const Instr& in) {
  if (in.form.op != Op::ld && in.form.op != Op::st) return false;
  if (in.guard.reg != ptx::kNoReg || in.form.n_spaces != 1) return false;
  const Space s = in.form.space();
  if (s != Space::shared && s != Space::shared_cta) return false;
  if (is_strong(in.form)) return false;
  const Operand& address = in.ops[in.form.op == Op::st ? 0 : 1];
  return address.kind == OperandKind::address && address.base == ptx::BaseKind::reg && isa::bytes_of(in.form.type()) >= 4;
}

bool goes_abreast(const Plan& plan, const lower::Schedule& schedule, uint32_t region) {
  if (!plan.after_barrier[region] || !plan.all_lanes[region] || plan.observe || schedule.nodes.size() != 1 || plan.program.local_bytes) return false;
  const lower::Node& node = schedule.nodes[0];
  if (!node.stops || node.last - node.first > kMostInstructions || !exec::is_plain_barrier(plan.program.code[node.last - 1]) || (node.last - 1) >> 24)
    return false;
  for (const uint32_t r : plan.live_before(plan.entries[region]))
    if (plan.at_home[r]) return false;
  std::map<uint32_t, uint32_t> depth;  // by register: arithmetic instructions on the longest way to it
  std::vector<uint8_t> written(plan.program.regs.size(), 0);
  uint32_t deepest = 0, count = 0;
  for (uint32_t i = node.first; i + 1 < node.last; i++) {
    const Instr& in = plan.program.code[i];
    const bool access = is_shared_access(in);
    if (!access && !is_plain(in)) return false;
    if (access && written[in.ops[in.form.op == Op::st ? 0 : 1].id]) return false;
    const bool counts = is_float_arithmetic(in);
    uint32_t at = 0;
    lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { at = std::max(at, depth.count(r) ? depth[r] : 0); });
    at += counts, count += counts, deepest = std::max(deepest, at);
    lower::for_registers(in, [&](uint32_t r) { depth[r] = at, written[r] = 1; }, [](uint32_t) {});
  }
  return deepest >= kLeastDepth && count <= kMostChains * deepest;
}

}  // namespace orrery::jit
