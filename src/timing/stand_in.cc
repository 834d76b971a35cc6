// timing/stand_in.cc: see stand_in.h.
#include "timing/stand_in.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "timing/stand_in_order.h"

namespace orrery::timing {

namespace {

using isa::Op;

constexpr uint32_t kBarriers = 5;  // dependence barriers that results are given in turn
constexpr uint32_t kTogether = 4;  // loads in a row that share a barrier
constexpr uint32_t kEnough = 24;   // registers that are used freely for loads that come early, and with those beside still let an SM fill [calib/steps: 0 from ptxas at the median]
constexpr uint32_t kMore = 4;      // or so many more than are live in the order of the PTX
constexpr uint32_t kBeside = 6;    // registers beside those of values

bool varies(Class c) {
  switch (c) {
    case Class::load: case Class::atomic: case Class::texture: case Class::local_load: case Class::shared_load: case Class::shared_atomic: case Class::matrix_load:
    case Class::constant: case Class::shuffle: case Class::xu: case Class::redux: case Class::special_register: case Class::hmma: case Class::imma: case Class::dmma:
    case Class::matrix_move: case Class::match: case Class::mbarrier:
      return true;
    default: return false;
  }
}

Place place_of(Class c) {
  switch (c) {
    case Class::load: case Class::shared_load: case Class::local_load: case Class::matrix_load: case Class::constant: return Place::load;
    case Class::store: case Class::shared_store: case Class::local_store: case Class::copy_async: return Place::store;
    case Class::atomic: case Class::shared_atomic: case Class::barrier: case Class::cluster_barrier: case Class::mbarrier: case Class::fence: case Class::depbar:
    case Class::async_group: case Class::bulk_copy: case Class::tensor_copy: case Class::wgmma: case Class::warpgroup: case Class::control: case Class::sleep: case Class::branch: case Class::exit:
      return Place::fixed;
    default: return Place::free;
  }
}

void flatten(const ptx::Operand& o, std::vector<uint32_t>& places, std::vector<uint32_t>& addresses) {
  if (o.kind == ptx::OperandKind::reg) places.push_back(o.id);
  else if (o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg) addresses.push_back(o.id);
  else if (o.kind == ptx::OperandKind::imm || o.kind == ptx::OperandKind::sink || o.kind == ptx::OperandKind::sreg) places.push_back(UINT32_MAX);
  for (const ptx::Operand& part : o.parts) flatten(part, o.kind == ptx::OperandKind::address ? addresses : places, addresses);
}

bool has_result(const ptx::Instr& in) {
  switch (in.form.op) {
    case Op::st: case Op::red: case Op::bra: case Op::brx: case Op::bar: case Op::barrier: case Op::ret: case Op::exit: case Op::wmma_store: case Op::stmatrix: case Op::membar:
    case Op::fence: case Op::nanosleep: case Op::call:
      return false;
    default: return pieces_of(in).empty() || place_of(pieces_of(in).back()) != Place::store;
  }
}

Node node_for(const ptx::Instr& in, uint32_t pc) {
  Node n;
  n.pc = pc;
  n.pieces = pieces_of(in);
  if (pc % 2 && in.form.op != Op::cvt) std::replace(n.pieces.begin(), n.pieces.end(), Class::half, Class::half_mma);  // ptxas deals them to both pipes
  if (!n.pieces.empty()) n.place = place_of(n.pieces.back());
  for (size_t i = 0; i < in.ops.size(); i++) {
    std::vector<uint32_t> places, addresses;
    flatten(in.ops[i], places, addresses);
    const bool result = i == 0 && has_result(in) && addresses.empty();
    for (uint32_t r : places)
      if (r != UINT32_MAX) (result ? n.results : n.sources).push_back(r);
    if (result && in.form.op == Op::wgmma_mma_async) n.sources.insert(n.sources.end(), n.results.begin(), n.results.end());
    n.sources.insert(n.sources.end(), addresses.begin(), addresses.end());
  }
  if (in.guard.reg != ptx::kNoReg) n.sources.push_back(in.guard.reg);
  return n;
}

/// A wide product or a shift that only an address needs becomes a part of the sum (IMAD.WIDE, LEA).
void fuse(std::vector<Node>& nodes, const lower::Program& program, const std::unordered_map<uint32_t, uint32_t>& uses) {
  std::unordered_map<uint32_t, Node*> makes;
  for (Node& n : nodes) {
    const ptx::Instr& in = program.code[n.pc & 0xFFFFFF];
    const bool sum64 = in.form.op == Op::add && !isa::is_float(in.form.type()) && isa::bits_of(in.form.type()) == 64;
    for (uint32_t s : n.sources) {
      const auto from = makes.find(s);
      if (!sum64 || from == makes.end() || uses.at(s) != 1) continue;
      const ptx::Instr& maker = program.code[from->second->pc & 0xFFFFFF];
      if (maker.form.op == Op::mul && maker.form.has(isa::Mod::wide)) {
        from->second->pieces.clear(), n.pieces = {Class::imad_wide};
        break;
      }
      if (maker.form.op == Op::shl) {
        from->second->pieces.clear();
        break;
      }
    }
    for (uint32_t r : n.results) makes[r] = &n;
  }
}

/// Neighbouring words of shared memory that a thread loads become one wide load, as ptxas makes them.
void widen(std::vector<Node>& nodes, const lower::Program& program) {
  std::map<std::pair<uint32_t, int64_t>, Node*> at;  // by base register and offset: loads since the last store
  const auto merge = [&](Node& first, int64_t word, uint32_t n, uint32_t base, int64_t offset) {
    for (uint32_t k = 1; k < n; k++) {
      const auto other = at.find({base, offset + word * k});
      if (other == at.end() || other->second->pieces.empty() || other->second->width) return false;
    }
    for (uint32_t k = 1; k < n; k++) {
      Node& other = *at.at({base, offset + word * k});
      first.results.insert(first.results.end(), other.results.begin(), other.results.end());
      other.results.clear(), other.sources.clear(), other.pieces.clear(), other.place = Place::free;
    }
    first.width = uint16_t(word * n);
    return true;
  };
  const auto close = [&] {
    for (auto& [key, n] : at) {
      if (n->pieces.empty() || n->width) continue;
      const int64_t word = isa::bytes_of(program.code[n->pc & 0xFFFFFF].form.type());
      for (const int64_t wide : {int64_t{16}, int64_t{8}})
        if (word < wide && key.second % wide == 0 && merge(*n, word, uint32_t(wide / word), key.first, key.second)) break;
    }
    at.clear();
  };
  for (Node& n : nodes) {
    const ptx::Instr& in = program.code[n.pc & 0xFFFFFF];
    if (n.place == Place::store || n.place == Place::fixed) close();
    if (in.form.op != Op::ld || n.pieces != std::vector<Class>{Class::shared_load} || in.form.vec != 1 || isa::bytes_of(in.form.type()) < 4 || in.guard.reg != ptx::kNoReg) continue;
    const ptx::Operand& o = in.ops.back();
    if (o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg) at[{o.id, o.value}] = &n;
  }
  close();
}

uint32_t units_of(const lower::Register& r) {
  switch (r.kind) {
    case lower::RegKind::pred: return 0;
    case lower::RegKind::word: return 1;
    case lower::RegKind::dword: return 2;
    default: return 4;
  }
}

class Maker {
 public:
  Maker(const lower::Program& program, uint32_t tag) : program_(program), tag_(tag) {
    for (const ptx::Instr& in : program.code) {
      const Node n = node_for(in, 0);
      for (uint32_t s : n.sources) uses_[s]++;
      for (uint32_t r : n.results)
        if (const auto [at, fresh] = defined_by_.try_emplace(r, &in); !fresh) at->second = nullptr;  // written in several places
    }
  }
  StandIn make() {
    std::vector<Block> blocks;
    uint32_t as_written = 0;  // registers live at once in the order of the PTX, loads as late as can be
    for (uint32_t b = 0; b < program_.blocks.size(); b++) {
      const std::vector<Node>& nodes = blocks.emplace_back(block_of(b)).nodes;
      Pressure pressure = pressure_of(blocks[b]);
      for (uint32_t i : latest_of(nodes)) pressure.issue(nodes[i].reads, nodes[i].writes, nodes[i].pieces.empty());
      as_written = std::max(as_written, pressure.most());
    }
    for (uint32_t b = 0; b < program_.blocks.size(); b++) order_and_emit(blocks[b], std::max(as_written + kMore, kEnough));
    for (const auto& [at, reg] : foreign_)  // results of other blocks
      if (const auto mask = barriers_of_.find(reg); mask != barriers_of_.end()) out_.code[at].i.wait_mask |= mask->second;
    out_.registers = std::clamp(most_ + kBeside, 16u, 255u);
    return std::move(out_);
  }

 private:
  struct Block {
    std::vector<Node> nodes;
    std::vector<uint32_t> register_of;  // each value's
    std::vector<uint32_t> at_start;     // values live then
    std::set<uint32_t> at_end;
  };
  Block block_of(uint32_t b) const {
    const lower::Block& own = program_.blocks[b];
    Block made;
    std::vector<Node>& nodes = made.nodes;
    for (uint32_t i = own.first; i < own.last; i++) {
      nodes.push_back(node_for(program_.code[i], i | tag_));
      if (program_.code[i].form.op == Op::bra && program_.code[i].guard.reg == ptx::kNoReg && b + 1 < program_.blocks.size() && own.successors.size() == 1 && own.successors[0] == b + 1)
        nodes.back().pieces.clear();
    }
    fuse(nodes, program_, uses_);
    widen(nodes, program_);
    for (Node& n : nodes)
      if (!n.pieces.empty() && n.pieces.back() == Class::atomic) n.uniform = shared_by_lanes(program_.code[n.pc & 0xFFFFFF]);
    connect(nodes);
    number(made, b);
    return made;
  }
  /// Numbers the values that a block's instructions read and write.
  void number(Block& block, uint32_t b) const {
    std::unordered_map<uint32_t, uint32_t> now;  // the value that a register holds
    const auto fresh = [&](uint32_t r) {
      block.register_of.push_back(r);
      return now[r] = uint32_t(block.register_of.size() - 1);
    };
    for (uint32_t r : program_.live_in[b]) block.at_start.push_back(fresh(r));
    for (Node& n : block.nodes) {
      for (uint32_t s : n.sources) {
        const auto at = now.find(s);
        n.reads.push_back(at == now.end() ? fresh(s) : at->second);
      }
      const ptx::Instr& in = program_.code[n.pc & 0xFFFFFF];
      const bool keeps = in.guard.reg != ptx::kNoReg || in.form.op == Op::wgmma_mma_async || in.form.op == Op::wgmma_mma_async_sp;  // lanes that do not execute it, sums
      for (uint32_t r : n.results) n.writes.push_back(keeps && now.count(r) ? now[r] : fresh(r));
    }
    for (uint32_t s : program_.blocks[b].successors)
      for (uint32_t r : program_.live_in[s])
        if (now.count(r)) block.at_end.insert(now[r]);
  }
  /// Registers live while a block is issued, nothing issued yet.
  Pressure pressure_of(const Block& block) const {
    Pressure p([this, &block](uint32_t v) { return is_constant(block.register_of[v], 0) ? 0 : units_of(program_.regs[block.register_of[v]]); }, block.at_start, block.at_end);
    for (const Node& n : block.nodes) p.will_use(n.reads);
    return p;
  }
  void order_and_emit(Block& block, uint32_t enough) {
    const uint32_t start = uint32_t(out_.code.size());
    made_.clear();
    Pressure pressure = pressure_of(block);
    for (uint32_t i : order_of(block.nodes, pressure, enough)) emit(block.nodes[i]);
    out_.blocks.push_back({start, uint32_t(out_.code.size())});
    most_ = std::max(most_, pressure.most());
  }
  /// Does every lane name the address that a parameter holds? ptxas lets one lane work for the warp then.
  bool shared_by_lanes(const ptx::Instr& in) const {
    for (const ptx::Operand& o : in.ops)
      if (o.kind == ptx::OperandKind::address) return o.base != ptx::BaseKind::reg || is_constant(o.id, 0);
    return false;
  }
  bool is_constant(uint32_t reg, int depth) const {
    const auto maker = defined_by_.find(reg);
    if (maker == defined_by_.end() || !maker->second || depth > 4) return false;
    const ptx::Instr& in = *maker->second;
    if (in.form.op == Op::ld) return pieces_of(in).empty();
    if (in.form.op != Op::cvta && in.form.op != Op::mov) return false;
    for (size_t i = 1; i < in.ops.size(); i++)
      if (in.ops[i].kind == ptx::OperandKind::sreg || (in.ops[i].kind == ptx::OperandKind::reg && !is_constant(in.ops[i].id, depth + 1))) return false;
    return true;
  }
  /// When a value is there, counted from the block's start, and the dependence barrier that tells.
  struct Made {
    double when = 0;
    uint8_t barriers = 0;
  };
  void emit(const Node& n) {
    double earliest = 0;
    uint8_t waits = 0;
    std::vector<uint32_t> foreign;
    for (uint32_t s : n.sources) {
      const auto at = made_.find(s);
      if (at == made_.end()) foreign.push_back(s);
      else earliest = std::max(earliest, at->second.when), waits |= at->second.barriers;
    }
    Made made{earliest, waits};
    for (size_t k = 0; k < n.pieces.size(); k++) {
      MachineInstruction m;
      m.kind = n.pieces[k], m.pc = n.pc;
      const ptx::Instr& in = program_.code[n.pc & 0xFFFFFF];
      if (m.kind == Class::branch) m.i.opcode = kBranch;
      m.i.guarded = in.guard.reg != ptx::kNoReg;
      m.i.stall = 1;
      if (n.width) m.width = n.width;
      else m.width = uint16_t(std::clamp(isa::bytes_of(in.form.type()) * std::max<int>(1, in.form.vec), 1, 16));
      m.aggregated = n.uniform;
      if (waits) together_ = 0;
      if (k == 0) {
        m.i.wait_mask = waits;
        for (uint32_t r : foreign) foreign_.push_back({out_.code.size(), r});
      }
      const double at = std::max(time_ + 1, k == 0 ? earliest : made.when);
      if (!out_.code.empty() && out_.code.size() > (out_.blocks.empty() ? 0 : out_.blocks.back().second)) out_.code.back().i.stall = uint8_t(std::clamp(at - time_, 1.0, 15.0));
      time_ = at;
      made = {at + (varies(m.kind) ? 2 : latency_of(m.kind)), 0};
      if (varies(m.kind)) {
        const bool joins = n.place == Place::load && together_ > 0 && together_ < kTogether;
        together_ = n.place == Place::load ? (joins ? together_ + 1 : 1) : 0;
        if (!joins) next_++;
        m.i.write_barrier = uint8_t(next_ % kBarriers);
        made.barriers = uint8_t(1u << m.i.write_barrier);
      }
      if (k > 0 && varies(n.pieces[k - 1])) m.i.wait_mask |= uint8_t(1u << out_.code.back().i.write_barrier);
      out_.code.push_back(m);
    }
    for (uint32_t r : n.results) made_[r] = made, barriers_of_[r] |= made.barriers;
  }
  const lower::Program& program_;
  const uint32_t tag_;
  StandIn out_;
  std::unordered_map<uint32_t, uint32_t> uses_;
  std::unordered_map<uint32_t, Made> made_;
  std::unordered_map<uint32_t, uint8_t> barriers_of_;
  std::vector<std::pair<size_t, uint32_t>> foreign_;
  double time_ = 0;
  uint32_t next_ = 0, most_ = 0, together_ = 0;
  std::unordered_map<uint32_t, const ptx::Instr*> defined_by_;
};

}  // namespace

StandIn stand_in_for(const lower::Program& program, uint32_t tag) { return Maker(program, tag).make(); }

}  // namespace orrery::timing
