// lower/merge_calls.cc: see merge_calls.h.
#include "lower/merge_calls.h"

#include <algorithm>
#include <string_view>

#include "isa/row.h"
#include "lower/argument_slots.h"
#include "lower/call_plan.h"
#include "lower/flow.h"
#include "lower/local_pointers.h"

namespace orrery::lower {

using isa::Op;
using isa::Type;
using ptx::BaseKind;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

isa::Form form(std::string_view name) { return isa::match_name(name).form; }

Operand reg(uint32_t id) {
  Operand o;
  o.kind = OperandKind::reg;
  o.id = id;
  return o;
}
Operand number(int64_t value) {
  Operand o;
  o.kind = OperandKind::imm;
  o.value = value;
  return o;
}
Operand place(uint64_t offset) {
  Operand o;
  o.kind = OperandKind::address;
  o.base = BaseKind::local_var;
  o.value = int64_t(offset);
  return o;
}

/// Where the parts of an instance are in the merged program.
struct Placed {
  uint32_t first_reg = 0, first_label = 0, first_table = 0;
  uint32_t site_reg = kNone;             // which return is meant, where there are several
  uint32_t returns = kNone;              // the table of these
};

class Merger {
 public:
  Merger(const KernelPrograms& programs, const CallPlan& plan) : plan_(plan), out_(*programs.entry) {
    out_.regs.clear(), out_.code.clear(), out_.blocks.clear(), out_.block_of.clear(), out_.branch_tables.clear(), out_.live_in.clear();
    out_.local_bytes = uint32_t(plan.local_bytes);
    out_.has_calls = false;
    out_.is_merged = true;
  }

  std::shared_ptr<const Program> run() {
    for (const Instance& instance : plan_.instances) lay_out(instance);
    slots_ = find_argument_slots(plan_, out_.regs);
    for (uint32_t n = 0; n < plan_.instances.size(); n++) emit(n);
    use_local_accesses(out_);
    finish_program(out_, labels_);
    return std::make_shared<const Program>(std::move(out_));
  }

 private:
  void lay_out(const Instance& instance) {
    const Program& p = *instance.program;
    Placed at{uint32_t(out_.regs.size()), uint32_t(labels_.size()), uint32_t(out_.branch_tables.size()), kNone, kNone};
    out_.regs.insert(out_.regs.end(), p.regs.begin(), p.regs.end());
    labels_.resize(labels_.size() + p.blocks.size(), 0);
    for (const auto& table : p.branch_tables) {
      out_.branch_tables.push_back(table);
      for (uint32_t& block : out_.branch_tables.back()) block += at.first_label;
    }
    if (instance.callers > 1) {
      at.site_reg = new_reg(RegKind::word, Type::b32);
      at.returns = uint32_t(out_.branch_tables.size());
      out_.branch_tables.emplace_back();
    }
    placed_.push_back(at);
    return_to_.push_back(kNone);
  }

  uint32_t new_reg(RegKind kind, Type type) {
    out_.regs.push_back({kind, type, 0});
    return uint32_t(out_.regs.size()) - 1;
  }
  uint32_t new_label() {
    labels_.push_back(kNone);
    return uint32_t(labels_.size()) - 1;
  }
  void here(uint32_t label) { labels_[label] = uint32_t(out_.code.size()); }

  void add(const isa::Form& f, std::vector<Operand> ops, ptx::Guard guard = {}) {
    Instr in;
    in.form = f;
    in.guard = guard;
    in.ops = std::move(ops);
    in.loc = loc_;
    out_.code.push_back(std::move(in));
  }
  void jump(uint32_t label, ptx::Guard guard = {}) {
    Operand to;
    to.kind = OperandKind::label;
    to.id = label;
    static const isa::Form bra = form("bra");
    add(bra, {to}, guard);
  }
  void jump_by_table(uint32_t index, uint32_t table, ptx::Guard guard = {}) {
    Operand to;
    to.kind = OperandKind::prototype;
    to.id = table;
    static const isa::Form brx = form("brx.idx");
    add(brx, {reg(index), to}, guard);
  }
  void move(uint32_t to, const Operand& from) {
    static const isa::Form words = form("mov.b32"), dwords = form("mov.b64"), predicates = form("mov.pred"), halves = form("mov.b16");
    const Register& r = out_.regs[to];
    const bool half = r.kind == RegKind::word && isa::bits_of(r.type) == 16;
    add(r.kind == RegKind::pred ? predicates : r.kind == RegKind::dword ? dwords : half ? halves : words, {reg(to), from});
  }

  void shift(Operand& o) {
    const Placed& at = placed_[now_];
    if (o.kind == OperandKind::reg || (o.kind == OperandKind::address && o.base == BaseKind::reg)) o.id += at.first_reg;
    if (o.kind == OperandKind::label) o.id += at.first_label;
    if (o.kind == OperandKind::local_var || (o.kind == OperandKind::address && o.base == BaseKind::local_var))
      o.value += plan_.instances[now_].frame;
    for (Operand& part : o.parts) shift(part);
  }

  Instr shifted(const Instr& from) {
    Instr in = from;
    if (in.guard.reg != ptx::kNoReg) in.guard.reg += placed_[now_].first_reg;
    for (Operand& o : in.ops) shift(o);
    if (in.form.op == Op::brx) in.ops.back().id += placed_[now_].first_table;
    return in;
  }

  void emit(uint32_t n) {
    now_ = n;
    const Instance& instance = plan_.instances[n];
    const Program& p = *instance.program;
    for (uint32_t pc = 0; pc < p.code.size(); pc++) {
      if (p.blocks[p.block_of[pc]].first == pc) here(placed_[n].first_label + p.block_of[pc]);
      const Instr in = shifted(p.code[pc]);
      loc_ = in.loc;
      ArgumentAccess access;
      if (const auto site = instance.calls.find(pc); site != instance.calls.end()) emit_call(p.code[pc], in, site->second);
      else if (in.form.op == Op::ret && n != 0) emit_return(in.guard);
      else if (is_argument_access(p, p.code[pc], access) && slots_.count({n, access.local})) emit_access(p, in, access);
      else out_.code.push_back(in);
    }
  }

  void emit_return(ptx::Guard guard) {
    const Placed& at = placed_[now_];
    if (at.site_reg == kNone) jump(return_to_[now_], guard);
    else jump_by_table(at.site_reg, at.returns, guard);
  }

  // ---- loads and stores of parameters that are registers

  void emit_access(const Program& p, const Instr& in, const ArgumentAccess& access) {
    const Slots& slots = slots_.at({now_, access.local});
    const bool load = in.form.op == Op::ld;
    const Operand& value = in.ops[load ? 0 : 1];
    for (size_t i = 0; i < std::max<size_t>(1, value.parts.size()); i++) {
      const Operand& v = value.parts.empty() ? value : value.parts[i];
      const Slot& slot = slots.at(access.offset + uint32_t(i) * access.bytes);
      if (v.kind == OperandKind::sink) continue;
      if (load) take(in, v, slot);
      else put(in, v, slot);
    }
  }

  void take(const Instr& in, const Operand& to, const Slot& slot) {
    const Register& r = out_.regs[to.id];
    const int bits = r.kind == RegKind::dword ? 64 : isa::bits_of(r.type);
    if (slot.bytes == 8 || (slot.bytes == 4 && bits == 32)) {
      static const isa::Form words = form("mov.b32"), dwords = form("mov.b64");
      return add(slot.bytes == 8 ? dwords : words, {to, reg(slot.reg)}, in.guard);
    }
    const char sign = isa::is_signed(in.form.type()) ? 's' : 'u';
    const int from = slot.bytes == 2 && bits == 16 ? 32 : int(slot.bytes) * 8;  // 16 bits of a word: the rest is cut off
    add(form(fmt_cvt(sign, bits, from)), {to, reg(slot.reg)}, in.guard);
  }

  void put(const Instr& in, const Operand& from, const Slot& slot) {
    static const isa::Form words = form("mov.b32"), dwords = form("mov.b64"), halves = form("cvt.u32.u16"), bytes = form("cvt.u32.u8");
    if (slot.bytes >= 4) return add(slot.bytes == 8 ? dwords : words, {reg(slot.reg), from}, in.guard);
    if (from.kind == OperandKind::imm) return add(words, {reg(slot.reg), from}, in.guard);
    add(slot.bytes == 2 ? halves : bytes, {reg(slot.reg), from}, in.guard);
  }

  static std::string fmt_cvt(char sign, int to, int from) {
    return std::string("cvt.") + sign + std::to_string(to) + "." + sign + std::to_string(from);
  }

  // ---- calls

  void emit_call(const Instr& original, const Instr& in, const CallSite& site) {
    const uint32_t behind = new_label();
    if (in.guard.reg != ptx::kNoReg) jump(behind, {in.guard.reg, !in.guard.negated});
    if (!site.callees.empty() && site.pointers.empty()) {
      enter(original, site.callees[0]);
    } else {
      if (!site.callees.empty()) choose(original, in, site, behind);
      stay(original, in, site.stays == CallSite::seldom);
    }
    here(behind);
  }

  /// A call through a pointer: which of the functions is meant, then one piece of code for each.
  void choose(const Instr& original, const Instr& in, const CallSite& site, uint32_t behind) {
    static const isa::Form equal = form("setp.eq.b64"), select = form("selp.b32");
    const uint32_t index = new_reg(RegKind::word, Type::b32), is = new_reg(RegKind::pred, Type::pred);
    const uint32_t table = uint32_t(out_.branch_tables.size()), n = uint32_t(site.callees.size());
    out_.branch_tables.emplace_back();
    move(index, number(n));
    for (uint32_t k = 0; k < n; k++) {
      add(equal, {reg(is), in.ops[1], number(int64_t(site.pointers[k]))});
      add(select, {reg(index), number(k), reg(index), reg(is)});
    }
    jump_by_table(index, table);
    for (uint32_t k = 0; k < n; k++) {
      out_.branch_tables[table].push_back(new_label());
      here(out_.branch_tables[table].back());
      enter(original, site.callees[k]);
      jump(behind);
    }
    out_.branch_tables[table].push_back(new_label());
    here(out_.branch_tables[table].back());
  }

  /// Arguments over, the jump, and at the place that the callee returns to its results.
  void enter(const Instr& original, uint32_t callee) {
    const Placed& to = placed_[callee];
    const uint32_t n_rets = plan_.instances[callee].program->source->n_rets;
    for (uint32_t i = 0; original.ops.size() > 2 && i < original.ops[2].parts.size(); i++)
      hand_over(original.ops[2].parts[i], callee, n_rets + i, true);
    const uint32_t back = new_label();
    if (to.site_reg == kNone) {
      return_to_[callee] = back;
    } else {
      move(to.site_reg, number(int64_t(out_.branch_tables[to.returns].size())));
      out_.branch_tables[to.returns].push_back(back);
    }
    jump(to.first_label);
    here(back);
    for (uint32_t i = 0; i < original.ops[0].parts.size(); i++) hand_over(original.ops[0].parts[i], callee, i, false);
  }

  /// Between an operand of the call and the callee's formal, `in` or back.
  void hand_over(const Operand& o, uint32_t callee, uint32_t formal, bool in) {
    const Instance& to = plan_.instances[callee];
    const ptx::Var& v = to.program->source->locals[formal];
    if (v.is_reg) {
      const uint32_t theirs = placed_[callee].first_reg + v.reg, ours = placed_[now_].first_reg + o.id;
      return in ? move(theirs, reg(ours)) : move(ours, reg(theirs));
    }
    const auto ours = slots_.find({now_, o.id}), theirs = slots_.find({callee, formal});
    if (ours != slots_.end() && theirs != slots_.end()) {
      for (const auto& [offset, slot] : ours->second) {
        const uint32_t a = slot.reg, b = theirs->second.at(offset).reg;
        in ? move(b, reg(a)) : move(a, reg(b));
      }
      return;
    }
    const uint64_t a = uint64_t(o.value) + plan_.instances[now_].frame, b = to.program->params[formal].offset + to.frame;
    copy(in ? a : b, in ? b : a, v.size, v.align);
  }

  /// Bytes of local memory, in pieces that both places are aligned to.
  void copy(uint64_t from, uint64_t to, uint64_t bytes, uint64_t align) {
    for (uint64_t at = 0; at < bytes;) {
      uint64_t piece = 8;
      while (piece > 1 && (piece > align || at + piece > bytes || (from + at) % piece || (to + at) % piece)) piece /= 2;
      const uint32_t r = piece == 8 ? new_reg(RegKind::dword, Type::b64) : new_reg(RegKind::word, Type::b32);
      load(r, from + at, uint32_t(piece));
      store(to + at, r, uint32_t(piece));
      at += piece;
    }
  }
  void load(uint32_t r, uint64_t at, uint32_t bytes) {
    static const isa::Form forms[] = {form("ld.local.u8"), form("ld.local.u16"), form("ld.local.b32"), form("ld.local.b64")};
    add(forms[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3], {reg(r), place(at)});
  }
  void store(uint64_t at, uint32_t r, uint32_t bytes) {
    static const isa::Form forms[] = {form("st.local.u8"), form("st.local.u16"), form("st.local.b32"), form("st.local.b64")};
    add(forms[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3], {place(at), reg(r)});
  }

  /// The call itself; its arguments must be where exec/ looks for them.
  void stay(const Instr& original, const Instr& in, bool seldom) {
    auto for_slots = [&](size_t list, auto body) {
      if (original.ops.size() <= list) return;
      for (const Operand& o : original.ops[list].parts) {
        if (o.kind != OperandKind::local_var) continue;
        const auto slots = slots_.find({now_, o.id});
        if (slots == slots_.end()) continue;
        for (const auto& [offset, slot] : slots->second) body(uint64_t(o.value) + plan_.instances[now_].frame + offset, slot);
      }
    };
    for_slots(2, [&](uint64_t at, const Slot& slot) {
      const Register like = out_.regs[slot.reg];
      const uint32_t copy = new_reg(like.kind, like.type);  // so that a pointer need not be an address elsewhere (local_pointers.h)
      move(copy, reg(slot.reg));
      store(at, copy, slot.bytes);
    });
    Instr call = in;
    call.guard = {};
    call.ops[1].negated = seldom;
    out_.code.push_back(std::move(call));
    out_.has_calls = true;
    for_slots(0, [&](uint64_t at, const Slot& slot) { load(slot.reg, at, slot.bytes); });
  }

  const CallPlan& plan_;
  Program out_;
  std::vector<Placed> placed_;            // by instance
  std::vector<uint32_t> return_to_;       // by instance with one caller: a label
  std::vector<uint32_t> labels_;          // label -> instruction
  std::map<Argument, Slots> slots_;
  uint32_t now_ = 0;                      // the instance that is being emitted
  ptx::Loc loc_;
};

}  // namespace

void merge_calls(KernelPrograms& programs, uint32_t function, const Addresses& addresses) {
  const CallPlan plan = plan_calls(programs, function, addresses);
  if (plan.instances.size() > 1) programs.entry = Merger(programs, plan).run();
}

}  // namespace orrery::lower
