// timing/trace.cc: see trace.h. A traced kernel is a copy of the decoded one in which every handler is ours: it looks
// at the operands, calls the handler that does the work, and records what has happened when the instruction was not
// put off (a wait that must run again is not recorded until it passes).
#include "timing/trace.h"

#include "timing/slice.h"
#include "timing/trace_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "exec/async.h"
#include "exec/prepared_launch.h"
#include "exec/stepper.h"
#include "exec/unit.h"

namespace orrery::timing {

using exec::Decoded;
using exec::DecodedProgram;
using exec::Next;
using exec::Stepper;
using isa::Mod;
using isa::Op;
using isa::Space;

namespace {


/// What a warp's recording needs between two instructions.
struct WarpState {
  uint32_t block = UINT32_MAX, pc = 0;
  uint32_t mask = 0;
  std::unordered_map<uint32_t, size_t> failed_poll;  // pc -> length of the stream before the poll
};

struct CodeTable {
  std::vector<exec::Handler> original;
  std::vector<bool> kept;            // by instruction: must it run? (slice.h)
  std::vector<AccessPattern> patterns;  // by first address operand
  uint32_t tag = 0;  // function number + 1 << 24
};

}  // namespace

struct Tracer::State {
  State(exec::Machine& m, exec::Launch l, TraceOptions o) : machine(m), launch(std::move(l)), options(o) {}

  exec::Machine& machine;
  exec::Launch launch;
  TraceOptions options;
  std::unique_ptr<exec::PreparedLaunch> prepared;
  std::unique_ptr<exec::Unit> unit;
  std::unordered_map<const DecodedProgram*, CodeTable> tables;
  const DecodedProgram* last_code = nullptr;
  CodeTable* last_table = nullptr;
  std::unordered_map<const exec::CtaContext*, uint32_t> block_of;  // place in `blocks`
  std::vector<TracedBlock> blocks;
  std::vector<std::vector<WarpState>> warps;
  uint64_t instructions = 0, bytes = 0;  // of the unit: executed, and recorded
  /// Counts an instruction; true when no more may be recorded.
  bool is_full() { return ++instructions > options.max_instructions || bytes > options.max_bytes; }
  const exec::CtaContext* last_cta = nullptr;
  uint32_t last_block = 0;

  uint32_t number_of(const exec::CtaContext* cta) {
    if (cta != last_cta) last_cta = cta, last_block = block_of.at(cta);
    return last_block;
  }

  CodeTable& table(const DecodedProgram* code) {
    if (code != last_code) last_code = code, last_table = &tables.at(code);
    return *last_table;
  }
  void prepare();
  bool finishes();
  std::shared_ptr<const DecodedProgram> traced_copy(const std::shared_ptr<const DecodedProgram>& code, uint32_t tag, std::vector<bool> kept);
};

namespace {

Tracer::State* current = nullptr;  // tracing runs on one thread, one unit at a time

Next left_out(Stepper&, const Decoded&) { return Next::next; }

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
  t.bytes += sizeof(Event);
  w.block = block, w.pc = pc, w.mask = e.mask;
}

/// What a unit does after as much of it was recorded as may be: it is only counted, up to a limit.
Next unrecorded(Tracer::State& t, Stepper& s, const Decoded& d, TracedBlock& block, exec::Handler original) {
  if (t.instructions > t.options.most_instructions)
    return s.fault(exec::FaultKind::timeout, 0, 0, fmt::format("a block (or cluster) executes more than {} million warp instructions, too many to follow", t.options.most_instructions / 1'000'000));
  block.instructions++;
  return original(s, d);
}

/// An instruction that computes in registers, without any event: done when control or addresses depend on it.
template <bool kDone>
Next counted(Stepper& s, const Decoded& d) {
  Tracer::State& t = *current;
  CodeTable& table = t.table(s.code);
  const uint32_t number = t.number_of(&s.cta);
  TracedBlock& block = t.blocks[number];
  const exec::Handler original = kDone ? table.original[s.pc] : left_out;
  if (t.is_full()) return unrecorded(t, s, d, block, original);
  enter_block(t, s, block.warps[s.w.warp_id], t.warps[number][s.w.warp_id], s.pc, table.tag);
  block.instructions++, block.recorded++;
  return original(s, d);
}

Next traced(Stepper& s, const Decoded& d) {
  Tracer::State& t = *current;
  CodeTable& table = t.table(s.code);
  const uint32_t pc = s.pc, mask = s.mask;
  const uint32_t number = t.number_of(&s.cta);
  TracedBlock& block = t.blocks[number];
  TracedWarp& out = block.warps[s.w.warp_id];
  WarpState& w = t.warps[number][s.w.warp_id];
  const exec::Handler original = table.kept[pc] ? table.original[pc] : left_out;
  if (t.is_full()) return unrecorded(t, s, d, block, original);
  const exec::Group before = *s.group;
  const size_t lines = block.lines.size(), runs = block.runs.size(), length = out.events.size();
  const WarpState place{w.block, w.pc, w.mask, {}};
  enter_block(t, s, out, w, pc, table.tag);
  Recording r{s, d, block, table.patterns[d.address < 0 ? 0 : size_t(d.address)], {}, false, {}};
  r.e.pc = pc | table.tag, r.e.mask = mask;
  look(r);
  const Op op = d.instr->form.op;
  const Next next = original(s, d);
  const bool again = next == Next::regroup && s.group->state != exec::GroupState::ready && s.group->pc == pc && !(before.reduction);
  if (again) {  // it waits and will come again
    block.lines.resize(lines), block.runs.resize(runs), out.events.resize(length);
    w.block = place.block, w.pc = place.pc, w.mask = place.mask;
    return next;
  }
  if (op == Op::mbarrier_try_wait || op == Op::mbarrier_test_wait) {
    const auto failed = w.failed_poll.find(pc);
    if (failed != w.failed_poll.end()) {  // drop what lies between the first failed poll and this one
      const Event kept = out.events.size() > length ? out.events[length] : Event{};
      const bool entered = out.events.size() > length;
      out.events.resize(std::min(out.events.size(), failed->second));
      if (entered) out.events.push_back(kept);
      w.failed_poll.erase(failed);
    }
    if (!poll_passed(s, d, mask)) {
      w.failed_poll[pc] = out.events.size() - (out.events.empty() || out.events.back().what != What::enter ? 0 : 1);
      return next;
    }
  }
  if (r.keep) out.events.push_back(r.e);
  t.bytes += sizeof(Event) * (r.keep + r.more.size()) + sizeof(uint64_t) * (block.lines.size() - lines) + sizeof(Run) * (block.runs.size() - runs);
  for (const Event& e : r.more) out.events.push_back(e);
  block.instructions++, block.recorded++;
  return next;
}

/// A bulk copy, when nothing else is recorded.
Next noted(Stepper& s, const Decoded& d) {
  Tracer::State& t = *current;
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

}  // namespace

std::shared_ptr<const DecodedProgram> Tracer::State::traced_copy(const std::shared_ptr<const DecodedProgram>& code, uint32_t tag, std::vector<bool> kept) {
  auto copy = std::make_shared<DecodedProgram>(*code);
  CodeTable table;
  table.tag = tag;
  for (size_t i = 0; i < copy->code.size(); i++) {
    Decoded& d = copy->code[i];
    table.original.push_back(d.run);
    if (!options.copies_only) d.run = !is_plain(d) ? traced : kept[i] ? counted<true> : counted<false>;
    else if (is_bulk_copy(d.instr->form.op)) d.run = noted;
    else if (!kept[i]) d.run = left_out;
  }
  table.kept = std::move(kept);
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
  if (options.values)
    for (std::vector<bool>& kept : slice.kept) kept.assign(kept.size(), true);
  size_t next = 0;
  kernel->entry = traced_copy(kernel->entry, 0, std::move(slice.kept[next++]));
  for (uint32_t f = 0; f < kernel->functions.size(); f++)
    if (kernel->functions[f]) kernel->functions[f] = traced_copy(kernel->functions[f], (f + 1) << 24, std::move(slice.kept[next++]));
  launch.kernel = kernel;
  prepared = std::make_unique<exec::PreparedLaunch>(machine, launch);
  prepared->run.copies_data = options.values || slice.reads_memory;
  unit = std::make_unique<exec::Unit>(prepared->run, prepared->context);
}

Tracer::Tracer(exec::Machine& machine, const exec::Launch& launch, TraceOptions options)
    : state_(std::make_unique<State>(machine, launch, options)) {
  state_->prepare();
}

Tracer::~Tracer() = default;

uint64_t TracedBlock::bytes() const {
  uint64_t n = sizeof(uint64_t) * lines.capacity() + sizeof(Run) * runs.capacity();
  for (const TracedWarp& w : warps) n += sizeof(Event) * w.events.capacity();
  return n;
}

namespace {

uint64_t shape_of(const TracedBlock& b) {
  uint64_t h = 1469598103934665603ull;
  const auto mix = [&](uint64_t v) { h = (h ^ v) * 1099511628211ull; };
  for (const TracedWarp& w : b.warps) {
    mix(w.events.size());
    for (const Event& e : w.events) mix(e.pc), mix(e.mask), mix(uint64_t(e.what));
  }
  return h;
}

}  // namespace

/// Runs the unit to its end. False when it faulted or cannot go on.
bool Tracer::State::finishes() {
  constexpr int kPatience = 100'000;  // turns in which all warps only wait
  exec::FaultTrap& trap = exec::fault_trap();
  exec::KernelCode entered(*machine.memory);
  if (sigsetjmp(trap.env, 0)) {
    exec::record_page_fault(prepared->run, *unit);
    return false;
  }
  trap.armed = true;
  for (int stalls = 0; stalls < kPatience; stalls++) {
    const exec::Unit::Progress p = unit->advance(nullptr);
    if (p == exec::Unit::Progress::finished) return true;
    if (p == exec::Unit::Progress::fault) return false;
  }
  return false;
}

std::vector<TracedBlock> Tracer::trace(uint64_t index) {
  State& t = *state_;
  current = &t;
  t.blocks.clear(), t.warps.clear(), t.block_of.clear();
  t.last_cta = nullptr;
  t.instructions = t.bytes = 0;
  t.unit->start(index);
  // The unit's blocks are found through the cluster of any of them.
  const uint64_t n = t.launch.cluster.count();
  const std::vector<exec::CtaContext*> ctas = t.unit->blocks();
  for (uint64_t r = 0; r < n; r++) {
    exec::CtaContext& c = *ctas[r];
    t.block_of[&c] = uint32_t(t.blocks.size());
    TracedBlock b;
    b.index = c.cta_linear;
    b.rank = c.cluster_rank;
    std::copy(std::begin(c.ctaid), std::end(c.ctaid), b.ctaid);
    b.warps.resize(c.n_warps);
    t.warps.emplace_back(c.n_warps);
    t.blocks.push_back(std::move(b));
  }
  if (!t.finishes()) {
    const std::optional<exec::Fault>& fault = t.prepared->run.fault;
    base::fail("block {} could not be traced: {}", index, fault ? fault->message : "it waits for other blocks, which do not run beside it here");
  }
  for (TracedBlock& b : t.blocks) {
    b.shape = shape_of(b);
    for (TracedWarp& w : b.warps) {
      std::unordered_map<uint32_t, uint32_t> copies;
      for (Event& e : w.events)
        if (e.n_detail || e.what == What::bulk_load || e.what == What::bulk_store || e.what == What::bulk_prefetch) e.ordinal = copies[e.pc]++;
    }
  }
  return std::move(t.blocks);
}

}  // namespace orrery::timing
