// timing/trace.cc: see trace.h. A traced kernel is a copy of the decoded one in which every handler is ours: it looks
// at the operands, calls the handler that does the work, and records what has happened when the instruction was not
// put off (a wait that must run again is not recorded until it passes). Which units run: trace_units.cc.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "exec/async.h"
#include "exec/interpreter.h"
#include "exec/stepper.h"
#include "timing/slice.h"
#include "timing/spin_loops.h"
#include "timing/swap_loops.h"
#include "timing/trace_state.h"
#include "timing/trace_texels.h"

namespace orrery::timing {

using exec::Decoded;
using exec::DecodedProgram;
using exec::Next;
using exec::Stepper;
using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

constexpr int kFactors = 3;        // operands of a matrix product that are looked at
constexpr uint32_t kCopied = 256;  // bytes of a copy

/// Handlers of traced copies run in launches of a tracer alone.
Tracer::State& tracer_of(const Stepper& s) { return *static_cast<const TracedLaunch&>(s.run.launch).tracer; }

Next left_out(Stepper&, const Decoded&) { return Next::next; }

/// A product that nothing depends on. All lanes come to it together, also those that have gone another way before.
Next left_out_product(Stepper& s, const Decoded&) { return exec::gathered(s, ~0u) ? Next::next : Next::regroup; }

/// A product whose sums something depends on: zeros, in every block. (What a register held before comes from the block that ran before.)
Next zero_product(Stepper& s, const Decoded& d) {
  if (!exec::gathered(s, ~0u)) return Next::regroup;
  const size_t lane_bytes = d.instr->form.type() == isa::Type::f64 ? sizeof(double) : sizeof(uint32_t);
  for (int i = 0; i < d.n_dst; i++) {
    const exec::Ref& r = s.ref(d, i);
    if (r.kind != exec::RefKind::frame) continue;
    std::byte* const to = s.frame + r.offset;
    if (s.mask == ~0u) std::memset(to, 0, 32 * lane_bytes);
    else exec::for_lanes(s.mask, [&](int lane) { std::memset(to + size_t(lane) * lane_bytes, 0, lane_bytes); });
  }
  return Next::next;
}

/// The same with sums that look random: what follows from products has data that change.
Next random_product(Stepper& s, const Decoded& d) {
  if (!exec::gathered(s, ~0u)) return Next::regroup;
  const isa::Type type = d.instr->form.type();
  const bool halves = type == isa::Type::f16, doubles = type == isa::Type::f64;
  uint64_t& seed = tracer_of(s).seed;
  for (int i = 0; i < d.n_dst; i++) {
    const exec::Ref& r = s.ref(d, i);
    if (r.kind != exec::RefKind::frame) continue;
    std::byte* const to = s.frame + r.offset;
    exec::for_lanes(s.mask, [&](int lane) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      const uint32_t word = uint32_t(seed >> 32), value = halves ? (word & 0x83ff83ffu) | 0x38003800u : (word & 0x807fffffu) | 0x3f000000u;
      const uint64_t wide = (seed & 0x800fffffffffffffull) | 0x3fe0000000000000ull;
      if (doubles) std::memcpy(to + size_t(lane) * sizeof wide, &wide, sizeof wide);
      else std::memcpy(to + size_t(lane) * sizeof value, &value, sizeof value);
    });
  }
  return Next::next;
}

/// Did a poll of an mbarrier find its phase complete?
bool poll_passed(Stepper& s, const Decoded& d, uint32_t mask) {
  const exec::Ref& r = s.ref(d, 0);
  if (r.kind != exec::RefKind::frame) return true;
  return (*reinterpret_cast<const uint32_t*>(s.frame + r.offset) & mask) == mask;
}

/// Notes that a warp has entered a block of the program.
void enter_block(Tracer::State& t, Stepper& s, TracedWarp& out, WarpState& w, uint32_t pc, uint32_t tag) {
  const uint32_t block = s.code->program->block_of[pc] | tag;
  if (block == w.block && pc > w.pc && s.group->mask == w.mask) {
    w.pc = pc;
    return;
  }
  Event e;
  e.what = What::enter;
  e.pc = s.code->program->blocks[block & 0xFFFFFF].first | tag;
  e.mask = s.group->mask;
  e.count = pc;
  e.extra = uint16_t(std::popcount(e.mask));
  out.events.push_back(e);
  t.count_bytes(w, sizeof(Event));
  w.block = block, w.pc = pc, w.mask = e.mask;
}

bool is_write(const Decoded& d) {
  const Op op = d.instr->form.op;
  return op == Op::st || op == Op::atom || op == Op::red;
}

/// Do warps wait there for others?
bool is_meeting(What w) {
  switch (w) {
    case What::barrier: case What::barrier_arrive: case What::barrier_red: case What::cluster_arrive: case What::cluster_wait: case What::mbarrier_init:
    case What::mbarrier_arrive: case What::mbarrier_expect: case What::mbarrier_wait: return true;
    default: return false;
  }
}

/// What a unit does after as much of it was recorded as may be: it is only counted, up to a limit.
Next unrecorded(Tracer::State& t, Stepper& s, const Decoded& d, TracedBlock& block, WarpState& w, exec::Handler original) {
  if (t.last_tally->instructions > t.most_instructions)
    return s.fault(exec::FaultKind::timeout, 0, 0, fmt::format("a block (or cluster) executes more than {} million warp instructions, too many to follow", t.most_instructions / 1'000'000));
  block.instructions++, w.executed++;
  t.writes += is_write(d);
  return original(s, d);
}

/// An instruction that computes in registers, without any event: done when control or addresses depend on it.
template <bool kDone>
Next counted(Stepper& s, const Decoded& d) {
  Tracer::State& t = tracer_of(s);
  CodeTable& table = t.table(s.code);
  const uint32_t number = t.number_of(&s.cta);
  TracedBlock& block = t.blocks[number];
  const exec::Handler original = kDone ? table.original[s.pc] : left_out;
  WarpState& w = t.warps[number][s.w.warp_id];
  if (t.is_full(w)) return unrecorded(t, s, d, block, w, original);
  enter_block(t, s, block.warps[s.w.warp_id], w, s.pc, table.tag);
  block.instructions++, block.recorded++;
  t.count_recorded(w);
  return original(s, d);
}

bool reads_clock(const DecodedProgram& code, const Decoded& d) {
  return std::any_of(code.refs.begin() + d.first_ref, code.refs.begin() + d.first_ref + d.n_dst + d.n_src,
                     [](const exec::Ref& r) { return r.kind == exec::RefKind::sreg && ptx::Sreg(r.offset) >= ptx::Sreg::clock && ptx::Sreg(r.offset) <= ptx::Sreg::clock64; });
}

/// A reading of the clock, which goes on while other warps issue: a turn of a loop that waits for it takes one warp of 64 136 cycles, one alone 39
/// [spin_many, spin_one of calib/steps/members.cu].
Next counted_clock(Stepper& s, const Decoded& d) {
  constexpr double kOfWarp = 2.12, kAlone = 39;
  s.cta.clock += uint64_t(std::max(0.0, kOfWarp * tracer_of(s).options.warps - kAlone));
  return counted<true>(s, d);
}

/// A quotient or root: notes whether its machine code has to call a function.
Next counted_quotient(Stepper& s, const Decoded& d) {
  Tracer::State& t = tracer_of(s);
  const uint32_t number = t.number_of(&s.cta), pc = s.pc;
  const CodeTable& table = t.table(s.code);
  if (WarpState& w = t.warps[number][s.w.warp_id]; !t.has_no_room(w)) {
    const SlowPath path = table.slow[pc];
    const bool wide = path >= SlowPath::div_f64, divides = path == SlowPath::div_f32 || path == SlowPath::div_f64;
    const void* a = s.source(s.ref(d, d.n_dst), 0);
    const void* b = divides ? s.source(s.ref(d, d.n_dst + 1), 1) : a;
    const auto lane_of = [&](const void* from, int lane) { return wide ? static_cast<const uint64_t*>(from)[lane] : static_cast<const uint32_t*>(from)[lane]; };
    SlowCall call{pc | table.tag, w.quotients[pc | table.tag]++, 0, 0};
    exec::for_lanes(s.mask, [&](int lane) {
      const uint32_t more = slow_instructions(path, lane_of(a, lane), lane_of(b, lane));
      call.lanes += more > 0, call.instructions = std::max(call.instructions, more);
    });
    if (call.lanes) {
      t.blocks[number].warps[s.w.warp_id].slow.push_back(call), t.blocks[number].slow += call.instructions;
      t.count_bytes(w, sizeof call);
    }
  }
  return counted<true>(s, d);
}

/// The word has counted all other blocks.
void arrive_last(Tracer::State& t, Stepper& s, const Decoded& d) {
  if (std::popcount(s.mask) != 1) return;
  const uint64_t word = s.address(s.code->addresses[size_t(d.address)], std::countr_zero(s.mask));
  const uint32_t others = uint32_t(t.launch.grid.count() - 1);
  if (word % sizeof others == 0 && t.machine.memory->contains(word)) std::memcpy(reinterpret_cast<void*>(word), &others, sizeof others);
}

/// Will lanes of `mask`, which have just run the instruction at `pc`, run it again? (Those that meet others may be ready at once, in a group with them.)
bool stays_at(const exec::WarpContext& w, const exec::Group& before, uint32_t mask, uint32_t pc) {
  for (uint32_t i = 0; i < w.n_groups; i++)
    if (w.groups[i].mask & mask) return w.groups[i].pc == pc && w.groups[i].frame == before.frame;
  return false;
}

Next traced(Stepper& s, const Decoded& d) {
  Tracer::State& t = tracer_of(s);
  CodeTable& table = t.table(s.code);
  const uint32_t pc = s.pc, mask = s.mask;
  const uint32_t number = t.number_of(&s.cta);
  TracedBlock& block = t.blocks[number];
  TracedWarp& out = block.warps[s.w.warp_id];
  WarpState& w = t.warps[number][s.w.warp_id];
  const Op op = d.instr->form.op;
  const exec::Handler original = table.kept[pc] ? table.original[pc] : is_product(op) ? left_out_product : left_out;
  if (t.contention && table.swaps.count(pc) && !t.contention->may_go(s, d, number, table.takes_work.count(pc) > 0)) return Next::regroup;
  if (t.is_full(w)) return unrecorded(t, s, d, block, w, original);
  if (t.comes_last && table.arrivals.count(pc)) arrive_last(t, s, d);
  const exec::Group before = *s.group;
  const size_t lines = block.lines.size(), runs = block.runs.size(), length = out.events.size();
  const uint32_t place[3] = {w.block, w.pc, w.mask};
  enter_block(t, s, out, w, pc, table.tag);
  Recording r{s, d, block, table.patterns[d.address < 0 ? 0 : size_t(d.address)], {}, false, {}};
  r.e.pc = pc | table.tag, r.e.mask = mask;
  look(r);
  std::optional<TexelNotes> texels;  // which there are is known once they are read
  if (touches_texels(op)) texels.emplace();
  const Next next = original(s, d);
  if (texels && next == Next::next) record_texels(r, *texels);
  texels.reset();
  if (next == Next::regroup && op != Op::bra && stays_at(s.w, before, mask, pc)) {  // it waits and will come again
    block.lines.resize(lines), block.runs.resize(runs), out.events.resize(length);
    w.block = place[0], w.pc = place[1], w.mask = place[2];
    return next;
  }
  if (op == Op::mbarrier_try_wait || op == Op::mbarrier_test_wait) {
    poll_again(out.events, w.tries, r.e, length);
    if (!poll_passed(s, d, mask)) {
      poll_failed(out.events, w.tries, r.e);
      return next;
    }
  }
  if (table.polls.count(pc)) look_again(out.events, w.tries, r.e, length);
  if (r.keep) out.events.push_back(r.e);
  t.count_bytes(w, sizeof(Event) * (r.keep + r.more.size()) + sizeof(uint64_t) * (block.lines.size() - lines) + sizeof(Run) * (block.runs.size() - runs));
  for (const Event& e : r.more) out.events.push_back(e);
  block.instructions++, block.recorded++;
  t.count_recorded(w);
  t.last_tally->meets |= (r.keep && is_meeting(r.e.what)) || table.polls.count(pc) > 0;
  t.writes += is_write(d);
  return next;
}

/// A bulk copy, when nothing else is recorded.
Next noted(Stepper& s, const Decoded& d) {
  Tracer::State& t = tracer_of(s);
  CodeTable& table = t.table(s.code);
  TracedBlock& block = t.blocks[t.block_of.at(&s.cta)];
  Recording r{s, d, block, table.patterns[d.address < 0 ? 0 : size_t(d.address)], {}, false, {}};
  r.e.pc = s.pc | table.tag, r.e.mask = s.mask;
  look(r);
  if (r.keep) block.warps[s.w.warp_id].events.push_back(r.e);
  return table.original[s.pc](s, d);
}

/// Does it compute in registers only, so that it has no events and never waits?
bool is_plain(const Decoded& d) { return d.pure || d.instr->form.op == Op::mov; }

bool is_bulk_copy(Op op) {
  return op == Op::cp_async_bulk || op == Op::cp_reduce_async_bulk || op == Op::cp_async_bulk_tensor || op == Op::cp_reduce_async_bulk_tensor;
}

/// Global or shared memory, not what belongs to a thread.
bool moves_data(const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const Space space = f.n_spaces ? f.space() : Space::none;
  return space == Space::none || space == Space::global || space == Space::shared;
}

/// Notes by how much what an instruction gives, stores, multiplies or copies differs from the last time.
Next watched(Stepper& s, const Decoded& d) {
  Tracer::State& t = tracer_of(s);
  CodeTable& table = t.table(s.code);
  DataChange& changes = *t.options.changes;
  const uint32_t pc = s.pc, mask = s.mask, key = pc | table.tag;
  const Op op = d.instr->form.op;
  if (++t.looked_at > t.options.most_instructions) return s.fault(exec::FaultKind::timeout, 0, 0, "enough was looked at");
  const auto note = [&](int operand, bool moved) {
    const exec::Ref& r = s.ref(d, operand);
    if (r.kind == exec::RefKind::frame) changes.note(key, uint32_t(operand), s.frame + r.offset, r.bits, r.want, mask, moved, op == Op::st);
  };
  const bool loads = op == Op::ld || op == Op::ldmatrix;
  if (op == Op::st || op == Op::mma) {
    for (int i = d.n_dst; i < d.n_dst + std::min<int>(d.n_src, op == Op::mma ? kFactors : 4); i++) note(i, op == Op::st && moves_data(d));
  } else if (is_bulk_copy(op) || op == Op::cp_async) {
    TracedBlock unused;
    unused.warps.resize(1);
    Recording r{s, d, unused, table.patterns[d.address < 0 ? 0 : size_t(d.address)], {}, false, {}};
    look(r);
    const uint64_t from = !unused.runs.empty() ? unused.runs[0].address : op == Op::cp_async ? r.e.address : 0;
    if (r.e.what != What::bulk_store && from && t.machine.memory->contains(from) && t.machine.memory->contains(from + kCopied - 1))
      changes.note_copied(key, reinterpret_cast<const void*>(from), kCopied);
  }
  const Next next = table.original[pc](s, d);
  if (is_plain(d) || loads || op == Op::shfl)
    for (int i = 0; i < d.n_dst; i++) note(i, loads && moves_data(d));
  return next;
}

}  // namespace

std::shared_ptr<const DecodedProgram> Tracer::State::traced_copy(const std::shared_ptr<const DecodedProgram>& code, uint32_t tag, std::vector<bool> kept, bool quotients) {
  auto copy = std::make_shared<DecodedProgram>(*code);
  CodeTable table;
  table.tag = tag;
  for (size_t i = 0; i < copy->code.size(); i++) {
    Decoded& d = copy->code[i];
    if (!options.values && is_product(d.instr->form.op)) d.run = options.changes ? random_product : zero_product;
    table.original.push_back(d.run);
    table.slow.push_back(slow_path_of(*d.instr));
    if (options.changes) d.run = watched;
    else if (!options.copies_only) d.run = !is_plain(d) ? traced : !kept[i] ? counted<false> : quotients && table.slow[i] != SlowPath::none ? counted_quotient : reads_clock(*code, d) ? counted_clock : counted<true>;
    else if (is_bulk_copy(d.instr->form.op)) d.run = noted;
    else if (!kept[i]) d.run = is_product(d.instr->form.op) ? left_out_product : left_out;
  }
  table.kept = std::move(kept);
  table.polls = polls_of(*code->program), table.swaps = swap_loops_of(*code->program);
  table.takes_work = work_loops_of(*code->program), table.arrivals = arrivals_of(*code->program);
  table.swaps.insert(table.takes_work.begin(), table.takes_work.end());
  table.patterns.resize(copy->addresses.size() + 1);
  tables[copy.get()] = std::move(table);
  return copy;
}

void Tracer::State::prepare() {
  auto kernel = std::make_shared<exec::Kernel>(*launch.kernel);
  std::vector<const DecodedProgram*> programs = {kernel->entry.get()};
  for (const auto& f : kernel->functions)
    if (f) programs.push_back(f.get());
  Slice slice = slice_of(programs, !options.copies_only);
  if (options.values || options.changes)
    for (std::vector<bool>& kept : slice.kept) kept.assign(kept.size(), true);
  size_t next = 0;
  kernel->entry = traced_copy(kernel->entry, 0, std::move(slice.kept[next++]), slice.quotients);
  for (uint32_t f = 0; f < kernel->functions.size(); f++)
    if (kernel->functions[f]) kernel->functions[f] = traced_copy(kernel->functions[f], (f + 1) << 24, std::move(slice.kept[next++]), slice.quotients);
  launch.kernel = kernel;
  prepared = std::make_unique<exec::PreparedLaunch>(machine, launch);
  reads_memory = slice.reads_memory, needs_memory = slice.reads_memory || slice.reads_given || slice.quotients;
  prepared->run.copies_data = options.values || options.changes || slice.moves_data;
  unit = std::make_unique<exec::Unit>(prepared->run, prepared->context);
}

}  // namespace orrery::timing
