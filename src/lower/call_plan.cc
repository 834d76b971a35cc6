// lower/call_plan.cc: see call_plan.h.
#include "lower/call_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "isa/row.h"

namespace orrery::lower {

using isa::Op;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr size_t kMost = 4000;     // instructions of called functions, once each, and of choices between them: beyond it calls stay calls
constexpr size_t kCopies = 500;    // instructions that functions called from several places may add
constexpr uint64_t kMostArgument = 512;  // bytes: larger ones stay with calls

bool is_call(const Instr& in) { return in.form.op == Op::call && in.ops.size() > 1; }

void add_functions(const Operand& o, std::set<uint32_t>& out) {
  if (o.kind == OperandKind::func) out.insert(o.id);
  for (const Operand& part : o.parts) add_functions(part, out);
}

/// Functions that a pointer may mean: code or the initial value of a variable names them.
std::vector<uint32_t> address_taken(const ptx::Module& m) {
  std::set<uint32_t> out;
  for (const ptx::Function& f : m.functions)
    for (const Instr& in : f.body)
      for (size_t i = 0; i < in.ops.size(); i++)
        if (!(is_call(in) && i == 1)) add_functions(in.ops[i], out);
  std::set<std::string> names;
  for (const ptx::Var& v : m.vars)
    for (const ptx::Reloc& r : v.relocs) names.insert(r.symbol);
  for (uint32_t f = 0; f < m.functions.size(); f++)
    if (names.count(m.functions[f].name)) out.insert(f);
  return {out.begin(), out.end()};
}

/// The stack moves, or what the function was called with is asked for in ways that only a call of its own answers.
bool needs_own_frame(const Program& p) {
  return std::any_of(p.code.begin(), p.code.end(), [](const Instr& in) {
    return in.form.op == Op::alloca || in.form.op == Op::stacksave || in.form.op == Op::stackrestore;
  });
}

class Planner {
 public:
  Planner(const KernelPrograms& programs, uint32_t function, const Addresses& addresses)
      : programs_(programs), addresses_(addresses), m_(*programs.entry->module), root_(function), state_(m_.functions.size(), white) {}

  CallPlan run() {
    if (!needs_own_frame(*programs_.entry)) visit(root_);
    std::reverse(finished_.begin(), finished_.end());
    make_instances();
    if (plan_.local_bytes > UINT32_MAX) plan_.instances.resize(1);  // they stay calls, and the launch says that there is no such stack
    return std::move(plan_);
  }

 private:
  enum State : uint8_t { white, open, done };
  struct Edge { std::vector<uint32_t> callees; CallSite::Stays stays = CallSite::never; bool direct = false; };

  const Program& program(uint32_t f) const { return f == root_ ? *programs_.entry : *programs_.functions[f]; }

  /// Arguments that merge_calls.cc can hand over: parameters in memory of equal size, or registers of equal kind.
  bool fits(const Program& caller, const Operand& o, uint32_t callee, uint32_t formal) const {
    const ptx::Var& v = m_.functions[callee].locals[formal];
    if (o.kind == OperandKind::local_var) {
      const ptx::Var& a = caller.source->locals[o.id];
      return !v.is_reg && a.size == v.size && a.size <= kMostArgument && uint64_t(o.value) == caller.local_at[o.id];
    }
    if (o.kind != OperandKind::reg || !v.is_reg) return false;
    const RegKind kind = caller.regs[o.id].kind;
    return kind == program(callee).regs[v.reg].kind && kind != RegKind::qword && isa::bits_of(caller.regs[o.id].type) == isa::bits_of(v.type);
  }

  static size_t count_of(const Instr& in, size_t list) { return in.ops.size() > list ? in.ops[list].parts.size() : 0; }

  bool has_counts(const Instr& in, uint32_t callee) const {
    const ptx::Function& f = m_.functions[callee];
    return count_of(in, 0) == f.n_rets && count_of(in, 2) == f.n_params;
  }

  bool fits(const Program& caller, const Instr& in, uint32_t callee) const {
    const ptx::Function& f = m_.functions[callee];
    static const std::vector<Operand> none;
    const auto &rets = in.ops[0].parts, &args = in.ops.size() > 2 ? in.ops[2].parts : none;
    if (!has_counts(in, callee)) return false;
    for (uint32_t i = 0; i < rets.size(); i++)
      if (!fits(caller, rets[i], callee, i)) return false;
    for (uint32_t i = 0; i < args.size(); i++)
      if (!fits(caller, args[i], callee, f.n_rets + i)) return false;
    return true;
  }

  /// The function joins the kernel, unless it is one of those that called it.
  bool admit(uint32_t f) {
    if (f >= programs_.functions.size() || !programs_.functions[f] || programs_.functions[f]->is_entry || state_[f] == open) return false;
    if (state_[f] == done) return !refused_.count(f);
    if (needs_own_frame(program(f)) || total_ + program(f).code.size() > kMost) return refused_.insert(f), state_[f] = done, false;
    total_ += program(f).code.size();
    visit(f);
    return true;
  }

  void visit(uint32_t f) {
    state_[f] = open;
    const Program& p = program(f);
    for (uint32_t pc = 0; pc < p.code.size(); pc++) {
      const Instr& in = p.code[pc];
      if (!is_call(in)) continue;
      Edge edge;
      edge.direct = in.ops[1].kind == OperandKind::func;
      if (edge.direct && !m_.functions[in.ops[1].id].has_body) continue;
      if (edge.direct) {
        if (fits(p, in, in.ops[1].id) && admit(in.ops[1].id)) edge.callees.push_back(in.ops[1].id);
      } else if (in.ops[1].kind == OperandKind::reg && p.regs[in.ops[1].id].kind == RegKind::dword) {
        if (!asked_) asked_ = true, taken_ = address_taken(m_);
        edge.stays = CallSite::seldom;
        for (uint32_t t : taken_) {
          if (!programs_.functions[t] || m_.functions[t].is_entry || !has_counts(in, t)) continue;
          if (fits(p, in, t) && admit(t)) edge.callees.push_back(t);
          else edge.stays = CallSite::often;
        }
      }
      if (!edge.direct) charge(f, in, edge);
      if (edge.callees.empty()) edge.stays = CallSite::often;
      edges_[f][pc] = std::move(edge);
    }
    state_[f] = done;
    finished_.push_back(f);
  }

  /// What a choice between functions adds to `f`; too much, and the call stays one.
  void charge(uint32_t f, const Instr& in, Edge& edge) {
    const size_t added = edge.callees.size() * (6 + count_of(in, 0) + count_of(in, 2));
    if (total_ + added > kMost) return edge.callees.clear();
    total_ += added, choices_[f] += added;
  }

  /// Lanes that come from different places exchange in it, or meet: it has one place in the program.
  bool meets(uint32_t f) {
    const auto [at, fresh] = meets_.try_emplace(f, false);
    if (!fresh) return at->second;
    const Program& p = program(f);
    bool is = std::any_of(p.code.begin(), p.code.end(), [](const Instr& in) { return isa::row(in.form.row).effects & isa::effect::convergent; });
    for (const auto& [pc, edge] : edges_[f])
      for (uint32_t callee : edge.callees) is |= meets(callee);
    return meets_[f] = is;
  }

  /// Callers come first, so that it is known how many places call a function when its turn comes.
  void make_instances() {
    std::map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> wanted;  // function -> (instance, instruction)
    size_t copies = 0;
    if (finished_.empty()) finished_.push_back(root_);
    for (uint32_t f : finished_) {
      const auto& places = wanted[f];
      const size_t size = program(f).code.size() + choices_[f], more = places.empty() ? 0 : (places.size() - 1) * size;
      const bool each = more == 0 || (copies + more <= kCopies && !meets(f));
      if (each) copies += more;
      const size_t n = f == root_ ? 1 : each ? places.size() : 1;
      for (size_t i = 0; i < n; i++) {
        const uint32_t number = uint32_t(plan_.instances.size());
        Instance instance{f, &program(f), 0, 0, {}};
        for (size_t k = each ? i : 0; k < (each ? std::min(i + 1, places.size()) : places.size()); k++) {
          const auto [caller, pc] = places[k];
          CallSite& site = plan_.instances[caller].calls[pc];
          site.callees.push_back(number);
          if (!edges_[plan_.instances[caller].function][pc].direct) site.pointers.push_back(addresses_.function[f]);
          const Instance& from = plan_.instances[caller];
          instance.frame = std::max(instance.frame, from.frame + from.program->local_bytes);
          instance.callers++;
        }
        for (const auto& [pc, edge] : edges_[f]) {
          instance.calls[pc] = {pc, {}, {}, edge.stays};
          for (uint32_t callee : edge.callees) wanted[callee].push_back({number, pc});
        }
        plan_.local_bytes = std::max(plan_.local_bytes, instance.frame + instance.program->local_bytes);
        plan_.instances.push_back(std::move(instance));
      }
    }
  }

  const KernelPrograms& programs_;
  const Addresses& addresses_;
  const ptx::Module& m_;
  const uint32_t root_;
  std::vector<State> state_;
  std::set<uint32_t> refused_;
  std::vector<uint32_t> finished_;
  std::map<uint32_t, std::map<uint32_t, Edge>> edges_;  // by function and instruction
  std::vector<uint32_t> taken_;
  bool asked_ = false;
  std::map<uint32_t, size_t> choices_;                  // by function: instructions of its calls through pointers
  std::map<uint32_t, bool> meets_;
  size_t total_ = 0;
  CallPlan plan_;
};

}  // namespace

CallPlan plan_calls(const KernelPrograms& programs, uint32_t function, const Addresses& addresses) {
  return Planner(programs, function, addresses).run();
}

}  // namespace orrery::lower
