// jit/streams.cc: see streams.h.
#include "jit/streams.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lower/flow.h"

namespace orrery::jit {

using isa::Op;
using isa::Space;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

bool is_global(const isa::Form& f) {
  if (!f.n_spaces) return false;
  for (int i = 0; i < f.n_spaces; i++)
    if (f.space(i) != Space::global) return false;
  return true;
}

constexpr int64_t kUnknown = -1;

/// Where pointers come from: the 64-bit parameters that are summands of a register. Products are indices, no pointers.
class Origins {
 public:
  explicit Origins(const lower::Program& p) : p_(p), writers_(p.regs.size()) {
    for (uint32_t i = 0; i < p.code.size(); i++)
      lower::for_registers(p.code[i], [&](uint32_t r) { writers_[r].push_back(i); }, [](uint32_t) {});
  }

  /// Offsets of the parameters; kUnknown is among them where a pointer may come from elsewhere, memory for one.
  std::set<int64_t> of(uint32_t reg) const {
    std::set<int64_t> out;
    std::vector<uint8_t> seen(p_.regs.size(), 0);
    std::vector<uint32_t> todo;
    const auto add = [&](const Operand& o) {
      if (o.kind == OperandKind::reg && !std::exchange(seen[o.id], 1)) todo.push_back(o.id);
    };
    todo.push_back(reg);
    while (!todo.empty()) {
      const uint32_t r = todo.back();
      todo.pop_back();
      for (const uint32_t i : writers_[r]) {
        const Instr& in = p_.code[i];
        const bool wide = isa::bits_of(in.form.type()) == 64;
        switch (in.form.op) {
          case Op::ld:
            if (!wide) break;  // half a pointer at most
            if (in.form.n_spaces && in.form.space() == Space::param && in.ops[1].base == ptx::BaseKind::none) out.insert(in.ops[1].value);
            else out.insert(kUnknown);
            break;
          case Op::mov: case Op::cvt: case Op::cvta:
            if (in.ops[1].kind == OperandKind::vec) out.insert(kUnknown);
            else add(in.ops[1]);
            break;
          case Op::add: case Op::sub: case Op::selp: add(in.ops[1]), add(in.ops[2]); break;
          case Op::mad: add(in.ops[3]); break;
          case Op::mul: case Op::shl: case Op::shr: break;
          default:
            if (wide) out.insert(kUnknown);
        }
      }
    }
    return out;
  }

 private:
  const lower::Program& p_;
  std::vector<std::vector<uint32_t>> writers_;
};

/// The instruction reads global memory at addresses among its operands, or may.
bool may_read(const Instr& in) {
  switch (in.form.op) {
    case Op::st: case Op::prefetch: case Op::prefetchu: case Op::applypriority: case Op::discard: return false;
    case Op::ld: return !in.form.n_spaces || is_global(in.form);
    default: return true;
  }
}

}  // namespace

Streams find_streams(const lower::Program& p, const std::vector<Loop>& loops, const std::vector<uint8_t>& computed) {
  Streams out;
  out.may.assign(p.code.size(), 0);
  if (p.has_calls) return out;
  std::vector<uint8_t> in_loop(p.code.size(), 0);
  for (const Loop& loop : loops) std::fill(&in_loop[p.blocks[loop.header].first], in_loop.data() + p.blocks[loop.last].last, 1);
  const Origins origins(p);
  std::set<int64_t> read;  // parameters that point to what the kernel reads
  for (const Instr& in : p.code) {
    if (!may_read(in)) continue;
    for (const Operand& o : in.ops)
      if (o.kind == OperandKind::address && o.base == ptx::BaseKind::reg) read.merge(origins.of(o.id));
  }
  if (read.count(kUnknown)) return out;
  for (uint32_t i = 0; i < p.code.size(); i++) {
    const Instr& in = p.code[i];
    if (in.form.op != Op::st || in_loop[i] || !is_global(in.form) || is_strong(in.form)) continue;
    const Operand& address = in.ops[0];
    if (address.kind != OperandKind::address || address.base != ptx::BaseKind::reg || !computed[address.id]) continue;
    const std::set<int64_t> from = origins.of(address.id);
    if (from.empty() || std::any_of(from.begin(), from.end(), [&](int64_t at) { return at == kUnknown || read.count(at); })) continue;
    out.may[i] = 1;
    out.bytes += uint32_t(isa::bytes_of(in.form.type()) * std::max<int>(1, in.form.vec));
  }
  return out;
}

}  // namespace orrery::jit
