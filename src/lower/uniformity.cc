// lower/uniformity.cc: see uniformity.h. An optimistic fixed point: every register starts without a value; facts only
// get weaker; new divergent branches bring new waiting lanes, which make more registers vary.
#include "lower/uniformity.h"

#include <algorithm>
#include <bit>

#include "isa/row.h"
#include "lower/flow.h"
#include "lower/lane_arithmetic.h"

namespace orrery::lower {

using isa::Form;
using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;
using isa::TypeClass;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Sreg;

namespace {

class Analysis {
 public:
  Analysis(const Program& p, BlockSize block) : p_(p) {
    u_.block = block;
    u_.patterns.push_back(Pattern{});
    u_.regs.resize(p.regs.size());
    u_.divergent.assign(p.blocks.size(), 0);
    n_defs_.assign(p.regs.size(), 0);
    for (const Instr& in : p.code) for_registers(in, [&](uint32_t r) { n_defs_[r]++; }, [](uint32_t) {});
    live_.resize(p.blocks.size());
    for (size_t b = 0; b < p.blocks.size(); b++) {
      live_[b].assign(p.regs.size(), 0);
      for (uint32_t r : p.live_in[b]) live_[b][r] = 1;
    }
  }

  Uniformity run() {
    find_kept();
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t i = 0; i < p_.code.size(); i++) changed |= visit(i);
      if (find_divergent()) changed = true, find_kept();
      if (!changed) changed = give_up_on_undefined();
    }
    return std::move(u_);
  }

 private:
  const Program& p_;
  Uniformity u_;
  LaneArithmetic lanes_{u_.patterns};
  std::vector<uint32_t> n_defs_;
  std::vector<std::vector<uint8_t>> live_;
  std::vector<std::vector<uint8_t>> kept_;  // by block: registers live where other lanes may wait

  /// Registers that are read and got no value from any that has one (x += 1 and nothing before it): anything.
  bool give_up_on_undefined() {
    bool changed = false;
    for (const Instr& in : p_.code)
      for_registers(in, [](uint32_t) {}, [&](uint32_t r) {
        if (u_.regs[r].chunks == 0) u_.regs[r] = kVaries, changed = true;
      });
    return changed;
  }
  bool find_divergent() {
    bool changed = false;
    for (size_t b = 0; b < p_.blocks.size(); b++) {
      if (u_.divergent[b]) continue;
      const Instr& end = p_.code[p_.blocks[b].last - 1];
      bool parts = end.guard.reg != ptx::kNoReg && ends_or_jumps(end) && !seen_uniform(end.guard.reg);
      if (end.form.op == Op::brx && end.ops[0].kind == OperandKind::reg && !seen_uniform(end.ops[0].id)) parts = true;
      if (parts) u_.divergent[b] = 1, changed = true;
    }
    return changed;
  }
  static bool ends_or_jumps(const Instr& in) {
    const Op op = in.form.op;
    return op == Op::bra || op == Op::brx || op == Op::ret || op == Op::exit || op == Op::trap;
  }
  bool seen_uniform(uint32_t reg) const { return u_.regs[reg].chunks == 0 || u_.regs[reg].uniform(); }

  void find_kept() {
    const Schedule s = make_schedule(p_, 0, [](uint32_t) { return false; }, u_.divergent);
    kept_.assign(p_.blocks.size(), std::vector<uint8_t>());
    for (const Node& node : s.nodes) {
      if (node.latch || node.waiting.empty()) continue;
      std::vector<uint8_t>& kept = kept_[node.block];
      if (kept.empty()) kept.assign(p_.regs.size(), 0);
      node.waiting.each([&](uint32_t w) {
        const std::vector<uint8_t>& live = live_[s.nodes[w].block];
        for (size_t r = 0; r < live.size(); r++) kept[r] |= live[r];
      });
    }
  }

  Lanes of(const Operand& o) {
    switch (o.kind) {
      case OperandKind::reg: {
        Lanes l = u_.regs[o.id];
        if (o.negated && l.pattern) return kVaries;
        if (o.negated) l.constant = false, l.align = 0, l.limit = kNoLimit;
        return l;
      }
      case OperandKind::imm:
        return {1, o.is_float ? uint8_t(0) : align_of(o.value), 0, !o.is_float, o.value, o.is_float || o.value < 0 ? kNoLimit : uint64_t(o.value)};
      case OperandKind::sreg: return lanes_of_sreg(Sreg(o.id), u_.block, u_.patterns);
      case OperandKind::local_var: case OperandKind::func: case OperandKind::none: return {1, 0, 0, false, 0};
      case OperandKind::vec: case OperandKind::pair: {
        Lanes l{1, 0, 0, false, 0};
        for (const Operand& part : o.parts) l = LaneArithmetic::flat_meet(l, of(part));
        return l;
      }
      case OperandKind::address: {
        if (o.base != ptx::BaseKind::reg) return {1, align_of(o.value), 0, true, o.value};
        Lanes l = u_.regs[o.id];
        if (l.chunks == 0 || l.varies()) return l;
        l.align = std::min(l.align, align_of(o.value));
        l.constant = false;
        l.limit = kNoLimit;
        return l;
      }
      default: return kVaries;
    }
  }

  /// As a number of so many bits: 0x80000000 of 32 is negative.
  Lanes of(const Operand& o, int bits) {
    Lanes l = of(o);
    if (!l.constant || l.value == wrap(l.value, bits)) return l;
    if (bits >= 32) l.value = wrap(l.value, bits);
    else l.constant = false;  // (what is above them in the register is not said)
    return l;
  }

  static bool below(const Lanes& l, int align) { return l.chunks && !l.varies() && align < 63 && l.limit < uint64_t{1} << align; }

  /// base + pattern against a constant at a boundary of the base's alignment: all lanes agree with the base.
  Lanes compared(const Instr& in) {
    const Form& f = in.form;
    const Lanes a = of(in.ops[1]), b = of(in.ops[2]);
    int64_t top;
    if (!is_integer(f.type()) || a.chunks != 1 || a.pattern == 0 || !b.constant || !b.flat() || !lanes_.low_bits(a, top)) return generic(in);
    if (f.has(Mod::and_) || f.has(Mod::or_) || f.has(Mod::xor_)) return generic(in);
    const int64_t step = int64_t{1} << std::min<int>(a.align, 31);
    const bool at_step = f.has(Mod::lt) || f.has(Mod::lo) || f.has(Mod::ge) || f.has(Mod::hs);
    const bool before_step = f.has(Mod::le) || f.has(Mod::ls) || f.has(Mod::gt) || f.has(Mod::hi);
    if ((at_step && b.value % step == 0) || (before_step && (b.value + 1) % step == 0)) return {1, 0, 0, false, 0};
    return generic(in);
  }

  Lanes product(const Instr& in) {
    const Form& f = in.form;
    if (!is_integer(f.type())) return kVaries;
    const int bits = isa::bits_of(f.type());
    if (f.has(Mod::wide)) {
      if (bits != 32) return kVaries;
      const Lanes a = of(in.ops[1], 32), b = of(in.ops[2], 32);
      // Constants are kept sign-extended: a negative one means another number to an unsigned product.
      if ((a.constant && a.value < 0) || (b.constant && b.value < 0)) {
        if (!a.flat() || !b.flat()) { if (!isa::is_signed(f.type())) return kVaries; }
        else return {std::max(a.chunks, b.chunks), 0, 0, false, 0};
      }
      return lanes_.scaled(a, b, 64);
    }
    if (!f.has(Mod::lo)) return kVaries;
    return lanes_.scaled(of(in.ops[1], bits), of(in.ops[2], bits), bits);
  }

  /// The general rule: flat operands give a flat result.
  Lanes generic(const Instr& in) {
    Lanes l{1, 0, 0, false, 0};
    for (size_t i = size_t(destinations(in)); i < in.ops.size(); i++) l = LaneArithmetic::flat_meet(l, of(in.ops[i]));
    return l;
  }

  /// The sum with a number that all lanes share and nobody knows.
  static Lanes plus_unknown(Lanes l) {
    l.constant = false, l.align = 0, l.limit = kNoLimit;
    return l;
  }

  Lanes refined_rule(const Instr& in) {
    const Form& f = in.form;
    const int bits = isa::bits_of(f.type());
    switch (f.op) {
      case Op::mov:
        if (in.ops.size() == 2 && in.ops[1].kind != OperandKind::vec && in.ops[0].kind == OperandKind::reg) return of(in.ops[1], bits);
        return generic(in);
      case Op::cvta:
        if (!f.n_spaces) return kVaries;
        if (f.space() == Space::global || f.space() == Space::const_) return of(in.ops[1]);
        if (f.space() != Space::param) return kVaries;
        return plus_unknown(of(in.ops[1]));  // where parameters lie is known at launch
      case Op::add: case Op::sub:
        if (!is_integer(f.type()) || f.has(Mod::cc) || f.has(Mod::sat)) return generic(in);
        return lanes_.sum(of(in.ops[1], bits), of(in.ops[2], bits), f.op == Op::add ? 1 : -1, bits);
      case Op::mul: {
        const Lanes l = product(in);
        return l.varies() ? generic(in) : l;
      }
      case Op::mad: {
        if (f.has(Mod::cc) || f.has(Mod::sat)) return generic(in);
        const Lanes l = product(in);
        if (l.varies()) return generic(in);
        return lanes_.sum(l, of(in.ops[3]), 1, f.has(Mod::wide) ? 64 : bits);
      }
      case Op::shl: {
        const Lanes by = of(in.ops[2]);
        if (!by.constant || !by.flat() || by.value < 0 || by.value >= bits) return generic(in);
        return lanes_.scaled(of(in.ops[1], bits), {1, uint8_t(by.value), 0, true, int64_t(uint64_t{1} << by.value)}, bits);
      }
      case Op::shr: return lanes_.shifted_right(of(in.ops[1], bits), of(in.ops[2]), isa::is_signed(f.type()), bits);
      case Op::and_: {
        if (f.type() == Type::pred) return generic(in);
        const Lanes a = of(in.ops[1], bits), b = of(in.ops[2], bits);
        Lanes l = lanes_.bitwise(a, b, [](int64_t x, int64_t y) { return x & y; }, std::max(a.align, b.align), bits);
        // threadIdx.x & 31: nothing is left of the base.
        const auto clears = [](const Lanes& mask, const Lanes& v) { return mask.constant && mask.flat() && mask.value >= 0 && mask.value >> v.align == 0; };
        if (l.chunks == 1 && (clears(a, b) || clears(b, a))) l.constant = true, l.value = 0;
        if (l.chunks && !l.varies()) l.limit = std::min(a.limit, b.limit);
        return l;
      }
      case Op::or_: case Op::xor_: {
        if (f.type() == Type::pred) return generic(in);
        const Lanes a = of(in.ops[1], bits), b = of(in.ops[2], bits);
        const bool is_or = f.op == Op::or_;
        // Bits that do not meet: or is a sum.
        if (lanes_.apart(a, b) || lanes_.apart(b, a)) {
          const Lanes l = lanes_.sum(a, b, 1, bits);
          if (!l.varies()) return l;
        }
        if ((b.flat() && below(a, b.align)) || (a.flat() && below(b, a.align))) {
          const Lanes l = lanes_.sum(a, b, 1, bits);
          if (!l.varies()) return l;
        }
        return lanes_.bitwise(a, b, [=](int64_t x, int64_t y) { return is_or ? x | y : x ^ y; }, std::min(a.align, b.align), bits);
      }
      case Op::cvt: return in.ops.size() == 2 ? lanes_.converted(f, of(in.ops[1])) : generic(in);
      case Op::setp: return compared(in);
      default: return generic(in);
    }
  }

  Lanes loaded(const Instr& in) {
    const Space space = in.form.n_spaces ? in.form.space() : Space::none;
    if (space == Space::local || space == Space::param_func) return kVaries;
    if (space == Space::param && in.ops[1].base == ptx::BaseKind::local_var) return kVaries;
    const Lanes a = of(in.ops[1]);
    if (a.chunks == 0) return {};
    return a.flat() ? Lanes{a.chunks, 0, 0, false, 0} : kVaries;
  }

  Lanes result(const Instr& in) {
    switch (in.form.op) {
      case Op::ld: case Op::ldu: return loaded(in);
      case Op::activemask: return {1, 0, 0, false, 0};
      case Op::vote: case Op::redux: {
        // Lanes that name different members exchange among different lanes.
        if (!in.form.has(Mod::sync) && in.form.op == Op::vote) return {1, 0, 0, false, 0};
        const Lanes members = of(in.ops.back());
        if (members.chunks == 0) return {};
        return members.uniform() ? Lanes{1, 0, 0, false, 0} : kVaries;
      }
      case Op::shfl: case Op::match: case Op::elect: case Op::atom: case Op::call: case Op::tex: case Op::tld4:
      case Op::suld: case Op::mapa: case Op::alloca: case Op::stacksave: case Op::isspacep:
        return kVaries;
      default: {
        const uint32_t effects = isa::row(in.form.row).effects & 0xffff;
        return effects == 0 || effects == isa::effect::machine ? refined_rule(in) : kVaries;
      }
    }
  }

  bool visit(uint32_t i) {
    const Instr& in = p_.code[i];
    const int n_dst = destinations(in);
    if (n_dst == 0) return false;
    Lanes value = result(in);
    if (value.chunks == 0) return false;
    const bool guarded = in.guard.reg != ptx::kNoReg && !seen_uniform(in.guard.reg);
    const std::vector<uint8_t>& kept = kept_[p_.block_of[i]];
    bool changed = false;
    auto define = [&](uint32_t r) {
      Lanes l = value;
      if ((guarded && n_defs_[r] > 1) || (!kept.empty() && kept[r])) l = kVaries;
      if (p_.regs[r].kind == RegKind::pred && !l.uniform()) l = kVaries;
      if (p_.regs[r].kind == RegKind::qword) l = kVaries;
      if (p_.regs[r].kind == RegKind::word && isa::bits_of(p_.regs[r].type) < 32 && l.pattern) l = kVaries;
      l = lanes_.join(u_.regs[r], l);
      if (!(l == u_.regs[r])) u_.regs[r] = l, changed = true;
    };
    for (int k = 0; k < n_dst; k++) for_operand_registers(in.ops[size_t(k)], define);
    return changed;
  }
};

uint32_t tid_component(Sreg s, uint32_t linear, BlockSize b) {
  switch (s) {
    case Sreg::tid_x: return linear % b.x;
    case Sreg::tid_y: return linear / b.x % b.y;
    default: return linear / b.x / b.y;
  }
}

Lanes lanes_of_tid(Sreg s, BlockSize b, std::vector<Pattern>& patterns) {
  const uint32_t warps = (b.threads() + 31) / 32;
  for (int chunks : {1, 2, 4}) {
    Pattern pattern{};
    std::array<bool, 32> known{};
    uint8_t align = kMaxAlign;
    bool same = true, constant = chunks == 1;  // constant: every warp starts at 0, as in rows of 32 or 16 threads
    for (uint32_t w = 0; w < warps && same; w++) {
      for (int lane = 0; lane < 32 && same; lane++) {
        const uint32_t linear = w * 32 + uint32_t(lane);
        if (linear >= b.threads()) break;
        const uint32_t base = tid_component(s, w * 32 + uint32_t(chunk_start(lane, chunks)), b);
        align = std::min(align, align_of(base));
        constant &= base == 0;
        const int64_t delta = int64_t(tid_component(s, linear, b)) - int64_t(base);
        if (known[size_t(lane)] && pattern[size_t(lane)] != delta) same = false;
        pattern[size_t(lane)] = delta, known[size_t(lane)] = true;
      }
    }
    if (!same) continue;
    auto at = std::find(patterns.begin(), patterns.end(), pattern);
    if (at == patterns.end()) at = patterns.insert(patterns.end(), pattern);
    const uint32_t limit = s == Sreg::tid_x ? b.x : s == Sreg::tid_y ? b.y : b.z;
    return {uint8_t(chunks), align, uint16_t(at - patterns.begin()), constant, 0, limit - 1};
  }
  return kVaries;
}

}  // namespace

Lanes lanes_of_sreg(Sreg sreg, BlockSize block, std::vector<Pattern>& patterns) {
  auto constant = [](int64_t v) { return Lanes{1, align_of(v), 0, true, v, uint64_t(v)}; };
  switch (sreg) {
    case Sreg::tid_x: case Sreg::tid_y: case Sreg::tid_z: return lanes_of_tid(sreg, block, patterns);
    case Sreg::ntid_x: return constant(block.x);
    case Sreg::ntid_y: return constant(block.y);
    case Sreg::ntid_z: return constant(block.z);
    case Sreg::laneid: {
      Pattern p;
      for (size_t i = 0; i < 32; i++) p[i] = int64_t(i);
      auto at = std::find(patterns.begin(), patterns.end(), p);
      if (at == patterns.end()) at = patterns.insert(patterns.end(), p);
      return {1, kMaxAlign, uint16_t(at - patterns.begin()), true, 0, 31};
    }
    case Sreg::lanemask_eq: case Sreg::lanemask_le: case Sreg::lanemask_lt: case Sreg::lanemask_ge:
    case Sreg::lanemask_gt:
      return kVaries;
    case Sreg::zero: return constant(0);
    default: return {1, 0, 0, false, 0};
  }
}

bool widens(const Form& f) {
  if (f.op == Op::cvt)
    return is_integer(f.type(0)) && is_integer(f.type(1)) && isa::bits_of(f.type(0)) > isa::bits_of(f.type(1));
  return (f.op == Op::mul || f.op == Op::mad) && f.has(Mod::wide);
}

Uniformity find_uniformity(const Program& program, BlockSize block) { return Analysis(program, block).run(); }

}  // namespace orrery::lower
