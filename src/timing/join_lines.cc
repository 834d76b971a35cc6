// timing/join_lines.cc: what machine instructions take from the PTX instructions that the line table says they came from: which
// instruction it was, shapes and scopes that the encoding does not tell, and which tries of a wait for an mbarrier count.
// Not here: machine blocks and their homes (join.cc), how a warp goes through them (walk.cc).
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "timing/join.h"
#include "timing/slow_paths.h"

namespace orrery::timing {

namespace {

/// Is it an exchange within a warp, each lane of which names who takes part?
bool names_members(isa::Op op) { return op == isa::Op::shfl || op == isa::Op::vote || op == isa::Op::redux || op == isa::Op::bar_warp; }

bool is_mma(isa::Op op) { return op == isa::Op::mma || op == isa::Op::wmma_mma || op == isa::Op::mma_sp; }

/// Cycles that one tensor instruction holds its sub-core's tensor core, by the products it makes.
float tensor_interval(const isa::Form& f) {
  const double macs = double(f.shape.m) * f.shape.n * f.shape.k;
  const isa::Type type = f.n_types > 1 ? f.types[1] : f.type();
  const int bits = type == isa::Type::b1 ? 1 : std::max(8, isa::bits_of(type));  // 256 single bits of k take the time of 32 bytes (kernels/NOTES.md)
  // 16-bit inputs: 512 products a cycle at best (wgmma); mma.sync reaches 62% of that.
  if (f.type(f.n_types > 2 ? 1 : 0) == isa::Type::f64) return float(std::max(16.0, macs / 32));  // [mma.m8n8k4_f64 to m16n8k16_f64]
  const double rate = 512.0 * 16 / bits, cycles = macs / rate;
  // [mma.*.rate: 6.06 cycles for 16 x 8 x 16 halves, 4.14 for half of k, 8.25 for twice of it sparse, with the loop's part of them]
  if (f.op == isa::Op::mma_sp) return float(cycles);
  return float(cycles <= 2 ? cycles * 4.14 / 2 : cycles * 1.515);
}

bool operates_on_mbarrier(isa::Op op) {
  switch (op) {
    case isa::Op::mbarrier_init: case isa::Op::mbarrier_inval: case isa::Op::mbarrier_arrive:
    case isa::Op::mbarrier_arrive_drop: case isa::Op::mbarrier_expect_tx: case isa::Op::mbarrier_complete_tx:
    case isa::Op::mbarrier_test_wait: case isa::Op::mbarrier_try_wait: case isa::Op::cp_async_mbarrier_arrive: case isa::Op::st_async: case isa::Op::red_async:
      return true;
    default: return false;
  }
}

/// What an atomic operation's address is made of: (kind, number).
std::pair<ptx::BaseKind, uint32_t> base_of(const ptx::Instr& in) {
  for (const ptx::Operand& o : in.ops)
    if (o.kind == ptx::OperandKind::address) return {o.base, o.id};
  return {ptx::BaseKind::none, 0};
}

bool is_atomic(const ptx::Instr& in) { return in.form.op == isa::Op::atom || in.form.op == isa::Op::red; }

}  // namespace

/// What machine code itself says of wgmma and its waits; its lines are often a neighbour's. Of a product: the group scoreboard in bits
/// 84-86 that its end counts for (7: another one closes the group), columns by eights in bits 53-57, A in registers by the form. One
/// without a result (RZ) multiplies nothing: it only closes a group whose products lie in other blocks. Of WARPGROUP: bit 47 waits until
/// no more groups than bits 72-79 say are under way.
void Join::read_products(MachineInstruction& m) {
  const auto bits = [](uint64_t word, int from, int count) { return uint16_t(word >> from & ((uint64_t{1} << count) - 1)); };
  if (m.kind == Class::warpgroup) {
    const bool waits = bits(m.i.lo, 47, 1);
    m.op = waits ? isa::Op::wgmma_wait_group : isa::Op::wgmma_fence;
    if (waits) m.n = bits(m.i.hi, 8, 8);
  }
  if (m.kind != Class::wgmma) return;
  m.closes_group = bits(m.i.hi, 20, 3) != 7;
  constexpr uint16_t kRz = 255;
  if (bits(m.i.lo, 16, 8) == kRz) m.n = 0;
  else if (m.i.opcode == 0x1f0 || m.i.opcode == 0x1f3) m.n = uint16_t(8 * (bits(m.i.lo, 53, 5) + 1));
  m.a_in_registers = m.i.form == 6;
}

namespace {
/// What it does by the members that lanes name in a register, unless it is the program's own match.
Members members_of(const MachineInstruction& m) {
  if (m.kind == Class::match) return Members::compared;
  if (m.i.opcode != 0x148 || m.i.form != 1) return Members::none;
  switch (m.i.hi >> 21 & 3) {
    case 0: return Members::meet;
    case 1: return Members::one_by_one;
    case 2: return Members::collective;
    default: return Members::none;
  }
}
}  // namespace

/// What an instruction of the machine code takes from the PTX instruction that it came from.
void Join::describe_operands(MachineInstruction& m, const ptx::Instr& in, bool closes) {
  m.op = in.form.op;
  m.always_calls = m.i.opcode == 0x144 && always_calls(in);
  m.bypasses_l1 = in.form.has(isa::Mod::cg) || in.form.has(isa::Mod::cv) || in.form.has(isa::Mod::volatile_) || in.form.has(isa::Mod::relaxed) || in.form.has(isa::Mod::acquire);
  m.fetch = in.form.has(isa::Mod::L2_256B) ? FetchSize::pair : in.form.has(isa::Mod::L2_128B) ? FetchSize::line : FetchSize::half;
  if (m.kind == Class::wgmma) {
    m.closes_group = closes;
    m.n = in.form.shape.n, m.sparse = m.op == isa::Op::wgmma_mma_async_sp;
    m.a_in_registers = in.ops.size() > 1 && in.ops[1].kind == ptx::OperandKind::vec;
  }
  if (m.kind == Class::hmma || m.kind == Class::imma || m.kind == Class::dmma) {
    m.interval = is_mma(m.op) ? tensor_interval(in.form) : 6.06f;
    if (m.op == isa::Op::wmma_mma) m.interval /= 2;  // two instructions for 16 x 16 x 16
    if (m.kind == Class::dmma) m.n = uint16_t(in.form.shape.m * in.form.shape.n * in.form.shape.k);
  }
  if (m.kind == Class::fence && m.i.opcode != 0x192)
    m.n = in.form.has(isa::Mod::sys) ? kSystemFence : in.form.has(isa::Mod::gpu) || in.form.has(isa::Mod::cluster) || in.form.has(isa::Mod::gl) ? kGpuFence : kBlockFence;
  if (m.op == isa::Op::ld || m.op == isa::Op::st) m.asked = uint16_t(std::max(1, isa::bytes_of(in.form.type())) * std::max(1, int(in.form.vec)));
  if (m.kind == Class::atomic) m.answers = m.i.opcode && m.i.opcode != 0x18e && m.i.opcode != 0x1a6, m.compares = in.form.has(isa::Mod::cas);  // neither RED nor RED.FP
  m.in_halves = in.form.n_types > 0 && !eventful(m.kind) && !isa::is_float(in.form.types[size_t(in.form.n_types - 1)]) && isa::bytes_of(in.form.types[size_t(in.form.n_types - 1)]) == 8;
  const isa::Type type = in.form.n_types > 0 ? in.form.types[size_t(in.form.n_types - 1)] : isa::Type::none;
  m.floating = isa::is_float(type) || type == isa::Type::f16x2 || type == isa::Type::bf16x2;  // pairs of halves take the same unit [add_half2_one, add_float_one]
  const bool waits = m.op == isa::Op::wgmma_wait_group || m.op == isa::Op::cp_async_wait_group || m.op == isa::Op::cp_async_bulk_wait_group;
  if (waits && !in.ops.empty()) m.n = uint16_t(in.ops[0].value);
}

void Join::map_lines(const exec::Kernel& kernel, const Layout& layout) {
  std::map<uint32_t, uint32_t> pc_of;  // line -> pc
  std::unordered_map<uint32_t, const ptx::Instr*> instr;
  std::set<uint32_t> products;  // wgmma instructions
  std::set<uint32_t> closes;  // wgmma instructions after which their group is committed
  std::set<uint32_t> exchanges;  // between the members of a warp that each lane names
  const auto add = [&](const exec::DecodedProgram& p, uint32_t tag) {
    const lower::Program& program = *p.program;
    uint32_t last_product = UINT32_MAX;
    for (uint32_t i = 0; i < program.code.size(); i++) {
      const ptx::Instr& in = program.code[i];
      const uint32_t line = layout.line_of(in.loc.line, in.loc.column);
      if (line) pc_of.try_emplace(line, i | tag);
      if (in.form.op == isa::Op::wgmma_mma_async || in.form.op == isa::Op::wgmma_mma_async_sp) last_product = i | tag, products.insert(last_product), products_of_[program.blocks[program.block_of[i]].first | tag]++;
      if (in.form.op == isa::Op::wgmma_commit_group) closes.insert(last_product);
      if (names_members(in.form.op)) exchanges.insert(i | tag);
      instr[i | tag] = &in;
      block_first_.push_back({i | tag, program.blocks[program.block_of[i]].first | tag});
    }
    // Blocks of a loop are contiguous (lower/program.h): its extent in instructions.
    std::map<uint32_t, uint32_t> last;  // by header: last block
    for (uint32_t b = 0; b < program.blocks.size(); b++)
      if (program.blocks[b].loop_header != lower::kNone) last[program.blocks[b].loop_header] = b;
    for (auto outer = last.rbegin(); outer != last.rend(); ++outer)
      for (auto inner = last.upper_bound(outer->first); inner != last.end() && inner->first <= outer->second; ++inner) outer->second = std::max(outer->second, inner->second);
    for (const lower::Block& b : program.blocks) {
      if (b.successors.size() != 2) continue;
      for (const int way : {0, 1}) {
        const lower::Block& beside = program.blocks[b.successors[size_t(way)]];
        const uint32_t behind = b.successors[size_t(1 - way)];
        if (beside.successors.size() == 1 && beside.successors[0] == behind && beside.first > b.first) skipped_[beside.first | tag] = program.blocks[behind].first | tag;
      }
    }
    for (const lower::Block& b : program.blocks)
      if (b.loop_header != lower::kNone) loops_[b.first | tag] = {program.blocks[b.loop_header].first | tag, program.blocks[last[b.loop_header]].last | tag};
  };
  add(*kernel.entry, 0);
  for (uint32_t f = 0; f < kernel.functions.size(); f++)
    if (kernel.functions[f]) add(*kernel.functions[f], (f + 1) << 24);
  std::sort(block_first_.begin(), block_first_.end());
  // One lane works for its warp where lanes reduce what they have (REDUX), or, where all have the same constant, are counted: a vote says which
  // they are, the first of them (FLO) adds for all. Votes are made once for operations in a row, of which each is guarded.
  std::set<uint32_t> redux;                              // PTX instructions
  std::set<std::pair<ptx::BaseKind, uint32_t>> counted;  // addresses
  for (const MachineInstruction& m : code_) {
    const auto found = pc_of.lower_bound(m.i.line);
    if (m.i.line == 0 || found == pc_of.end()) continue;
    if (m.i.opcode == 0x1c4) redux.insert(found->second);
    const ptx::Instr& in = *instr[found->second];
    if ((m.i.opcode == 0x100 || m.i.opcode == 0x0bd) && is_atomic(in)) counted.insert(base_of(in));
  }
  for (MachineInstruction& m : code_) {
    const auto found = pc_of.lower_bound(m.i.line);  // lines without an instruction belong to the next one
    if (m.i.line == 0 || found == pc_of.end()) continue;
    m.pc = found->second;
    if (m.kind == Class::wgmma && !products.empty() && !products.count(m.pc)) {  // its line is a neighbour's
      auto near = products.lower_bound(m.pc);
      if (near == products.end() || (near != products.begin() && *near - m.pc > m.pc - *std::prev(near))) --near;
      m.pc = *near;
    }
    // Ahead of an exchange: it bears the line of what stands there.
    if (const Members what = members_of(m); what != Members::none && instr[m.pc]->form.op != isa::Op::match)
      if (const auto next = exchanges.lower_bound(m.pc); next != exchanges.end() && *next >> 24 == m.pc >> 24) m.pc = *next, m.members = what;
    const ptx::Instr& in = *instr[m.pc];
    describe_operands(m, in, closes.count(m.pc) != 0);
    read_products(m);
    // Each lane for itself, also beside others [one_word_exchange, _swap, _count, _uncount, _each].
    if (in.form.has(isa::Mod::exch) || in.form.has(isa::Mod::cas) || in.form.has(isa::Mod::inc) || in.form.has(isa::Mod::dec)) continue;
    m.aggregated = redux.count(m.pc) || (m.kind == Class::atomic && m.i.guarded && is_atomic(in) && counted.count(base_of(in)));
    for (size_t back = 1; m.kind == Class::atomic && back < 16 && size_t(&m - code_.data()) >= back; back++) m.aggregated |= (&m - back)->i.opcode == 0x1c4;
  }
}

/// The collective belongs to the exchange that is made in it.
void Join::find_collectives() {
  for (size_t i = 0; i < code_.size(); i++) {
    if (code_[i].members != Members::collective) continue;
    for (size_t k = i + 1; k < code_.size() && code_[k].i.opcode != 0x11b; k++) {  // ENDCOLLECTIVE
      const Class kind = code_[k].kind;
      if ((kind == Class::shuffle || kind == Class::vote || kind == Class::redux) && names_members(code_[k].op)) code_[i].pc = code_[k].pc, code_[i].op = code_[k].op;
    }
  }
}

/// A wait for an mbarrier is tried once in line; code that lies out of line tries again. The first try bears the line of what stands
/// before the wait, so that only a warp that goes out of line would seem to wait. Here the first try waits as long as it takes.
void Join::find_first_tries() {
  constexpr size_t kToBranch = 12, kToOwnBranch = 64, kToRetry = 4;  // instructions, to a branch and to one that bears the try's line
  const auto waits = [&](size_t i) {
    const MachineInstruction& m = code_[i];
    return m.kind == Class::mbarrier && (m.op == isa::Op::mbarrier_try_wait || m.op == isa::Op::mbarrier_test_wait);
  };
  for (size_t i = 0; i < code_.size(); i++) {
    if (code_[i].kind != Class::mbarrier || operates_on_mbarrier(code_[i].op)) continue;
    size_t branch = i + 1;
    const auto is_branch = [&](size_t k) { return code_[k].i.opcode == kBranch; };
    while (branch < code_.size() && branch < i + kToOwnBranch && !is_branch(branch)) branch++;
    if (branch < code_.size() && branch >= i + kToBranch && code_[branch].pc != code_[i].pc) continue;
    if (branch >= code_.size() || code_[branch].i.opcode != kBranch) continue;
    if (code_[branch].i.target <= int32_t(branch)) continue;
    const size_t retry = size_t(code_[branch].i.target);
    for (size_t k = retry; k < std::min(code_.size(), retry + kToRetry); k++)
      if (waits(k) && code_[k].i.opcode == code_[i].i.opcode) {
        code_[i].pc = code_[k].pc, code_[i].op = code_[k].op;
        retries_.insert(uint32_t(k));
        break;
      }
  }
}

}  // namespace orrery::timing
