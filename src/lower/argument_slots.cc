// lower/argument_slots.cc: see argument_slots.h.
#include "lower/argument_slots.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace orrery::lower {

using isa::Op;
using isa::Space;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

bool is_param(Space s) { return s == Space::param || s == Space::param_func; }

/// A register or immediate that a move can take from or to a slot of so many bytes.
bool can_move(const Program& p, const Operand& o, uint32_t bytes, bool load) {
  if (o.kind == OperandKind::imm) return !load && (!o.is_float || o.float_bits == bytes * 8);
  if (o.kind == OperandKind::sink) return load;
  if (o.kind != OperandKind::reg || o.negated) return false;
  const RegKind kind = p.regs[o.id].kind;
  if (bytes == 8) return kind == RegKind::dword;
  return (kind == RegKind::word && isa::bits_of(p.regs[o.id].type) >= (bytes == 4 ? 32 : 16)) || (kind == RegKind::dword && load);
}

class Finder {
 public:
  explicit Finder(const CallPlan& plan) : plan_(plan) {}

  std::map<Argument, Slots> run(std::vector<Register>& regs) {
    for (uint32_t n = 0; n < plan_.instances.size(); n++) look_at(n);
    for (uint32_t n = 0; n < plan_.instances.size(); n++)
      for (const auto& [pc, site] : plan_.instances[n].calls)
        for (uint32_t callee : site.callees) connect(n, plan_.instances[n].program->code[pc], callee);
    std::map<uint32_t, std::map<uint32_t, uint32_t>> cuts;  // by root: offset -> bytes
    for (const auto& [argument, k] : number_) {
      const uint32_t root = find(k);
      for (const auto& [offset, bytes] : pieces_[k]) {
        const auto [at, fresh] = cuts[root].try_emplace(offset, bytes);
        if (at->second != bytes) memory_[root] = 1;
      }
    }
    for (const auto& [root, cut] : cuts) {
      uint32_t end = 0;
      for (const auto& [offset, bytes] : cut) {
        if (offset < end) memory_[root] = 1;
        end = offset + bytes;
      }
    }
    std::map<Argument, Slots> out;
    for (const auto& [argument, k] : number_) {
      if (memory_[find(k)]) continue;
      Slots& slots = out[argument];
      for (const auto& [offset, bytes] : cuts[find(k)]) {
        slots[offset] = {bytes, uint32_t(regs.size())};
        regs.push_back({bytes == 8 ? RegKind::dword : RegKind::word, bytes == 8 ? isa::Type::b64 : isa::Type::b32, 0});
      }
    }
    return out;
  }

 private:
  uint32_t find(uint32_t k) {
    while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
    return k;
  }

  uint32_t number(uint32_t instance, uint32_t local) {
    const auto [at, fresh] = number_.try_emplace({instance, local}, uint32_t(parent_.size()));
    if (fresh) parent_.push_back(at->second), memory_.push_back(0), pieces_.emplace_back();
    return at->second;
  }

  void spoil(uint32_t k) { memory_[find(k)] = 1; }

  void look_at(uint32_t instance) {
    const Program& p = *plan_.instances[instance].program;
    for (uint32_t pc = 0; pc < p.code.size(); pc++) {
      const Instr& in = p.code[pc];
      ArgumentAccess a;
      if (is_argument_access(p, in, a)) {
        const uint32_t k = number(instance, a.local);
        const auto& parts = a.value->parts;
        const bool load = in.form.op == Op::ld;
        for (size_t i = 0; i < std::max<size_t>(1, parts.size()); i++) {
          const auto [at, fresh] = pieces_[k].try_emplace(a.offset + uint32_t(i) * a.bytes, a.bytes);
          if (at->second != a.bytes || !can_move(p, parts.empty() ? *a.value : parts[i], a.bytes, load)) spoil(k);
        }
        continue;
      }
      const bool call = plan_.instances[instance].calls.count(pc) != 0;
      for (size_t i = 0; i < in.ops.size(); i++) mention(instance, p, in.ops[i], call && (i == 0 || i == 2), 0);
    }
  }

  /// Its address is taken, or it is handed to a call that stays one: then it must be memory unless the call is of the plan.
  void mention(uint32_t instance, const Program& p, const Operand& o, bool argument, int depth) {
    const bool names = o.kind == OperandKind::local_var || (o.kind == OperandKind::address && o.base == ptx::BaseKind::local_var);
    if (names && !p.source->locals[o.id].is_reg && is_param(p.source->locals[o.id].space)) {
      const uint32_t k = number(instance, o.id);
      if (!(argument && depth == 1 && o.kind == OperandKind::local_var)) spoil(k);
    }
    for (const Operand& part : o.parts) mention(instance, p, part, argument, depth + 1);
  }

  void connect(uint32_t caller, const Instr& in, uint32_t callee) {
    const uint32_t rets = plan_.instances[callee].program->source->n_rets;
    auto join = [&](const Operand& o, uint32_t formal) {
      if (o.kind != OperandKind::local_var) return;
      const uint32_t a = find(number(caller, o.id)), b = find(number(callee, formal));
      memory_[a] |= memory_[b];
      parent_[b] = a;
    };
    for (uint32_t i = 0; i < in.ops[0].parts.size(); i++) join(in.ops[0].parts[i], i);
    for (uint32_t i = 0; in.ops.size() > 2 && i < in.ops[2].parts.size(); i++) join(in.ops[2].parts[i], rets + i);
  }

  const CallPlan& plan_;
  std::map<Argument, uint32_t> number_;
  std::vector<uint32_t> parent_;
  std::vector<uint8_t> memory_;                          // by root
  std::vector<std::map<uint32_t, uint32_t>> pieces_;     // offset -> bytes
};

}  // namespace

bool is_argument_access(const Program& p, const Instr& in, ArgumentAccess& out) {
  const bool load = in.form.op == Op::ld;
  if ((!load && in.form.op != Op::st) || !in.form.n_spaces || !is_param(in.form.space()) || in.ops.size() != 2) return false;
  const Operand &address = in.ops[load ? 1 : 0], &value = in.ops[load ? 0 : 1];
  if (address.kind != OperandKind::address || address.base != ptx::BaseKind::local_var || !address.parts.empty()) return false;
  const int64_t offset = address.value - int64_t(p.local_at[address.id]);
  const uint32_t bytes = uint32_t(isa::bytes_of(in.form.type())), n = std::max<uint32_t>(1, uint32_t(value.parts.size()));
  if (offset < 0 || bytes > 8 || uint64_t(offset) + uint64_t(n) * bytes > p.source->locals[address.id].size) return false;
  if (value.kind == OperandKind::pair) return false;
  out = {address.id, uint32_t(offset), bytes, &value};
  return true;
}

std::map<Argument, Slots> find_argument_slots(const CallPlan& plan, std::vector<Register>& regs) { return Finder(plan).run(regs); }

}  // namespace orrery::lower
