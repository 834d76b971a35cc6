// sanitize/asynccheck.cc: operations in flight and who touches their bytes; see asynccheck.h.
#include "sanitize/asynccheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "exec/mbarrier.h"
#include "exec/run_state.h"
#include "exec/stepper.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Mod;
using isa::Op;

namespace {

const isa::Form& form_of(const Where& w) { return w.code->program->code[w.pc].form; }

bool asynchronous(Op op) {
  switch (op) {
    case Op::cp_async: case Op::cp_async_bulk: case Op::cp_async_bulk_tensor: case Op::cp_reduce_async_bulk: case Op::cp_reduce_async_bulk_tensor:
    case Op::st_async: case Op::red_async: case Op::wgmma_mma_async: case Op::wgmma_mma_async_sp: case Op::mbarrier_init: case Op::mbarrier_arrive:
    case Op::mbarrier_try_wait: case Op::mbarrier_test_wait:
      return true;
    default: return false;
  }
}

const char* name_of(AsyncKind kind) {
  switch (kind) {
    case AsyncKind::cp_async: return "cp.async";
    case AsyncKind::bulk: return "bulk copy";
    case AsyncKind::tensor: return "tensor copy";
    case AsyncKind::st_async: return "st.async";
    case AsyncKind::red_async: return "red.async";
    default: return "wgmma";
  }
}

const char* how_to_wait(AsyncKind kind, bool grouped) {
  if (kind == AsyncKind::cp_async) return "wait for it first: cp.async.wait_group (or an mbarrier that cp.async.mbarrier.arrive tells), then a barrier if other threads copied";
  if (kind == AsyncKind::wgmma) return "wait for it first: wgmma.wait_group";
  if (grouped) return "wait for it first: cp.async.bulk.wait_group (without .read, which waits for the source only)";
  return "wait for its mbarrier first, with the parity of the phase that the copy completes";
}

bool async_proxy(AsyncKind kind) { return kind == AsyncKind::bulk || kind == AsyncKind::tensor || kind == AsyncKind::wgmma; }

std::string bytes_of(uint64_t offset) { return fmt::format("byte {} of shared memory", offset - lower::kSharedStart); }

}  // namespace

void Asynccheck::report(const char* kind, const Moment& here, std::string message, std::string remedy, std::vector<std::pair<std::string, Moment>> others, uint64_t address) {
  if (collector_.full("asynccheck")) return;
  Finding f;
  f.check = "asynccheck";
  f.kind = kind;
  f.message = std::move(message);
  f.remedy = std::move(remedy);
  f.address = address;
  f.place = place_of(here.where, here.lane);
  for (auto& [what, moment] : others)
    if (moment.where.warp) f.others.push_back({what, place_of(moment.where, moment.lane), ""});
  collector_.add(std::move(f));
}

void Asynccheck::launch_begin(const RunState& run) {
  resident_.clear();
  maps_.clear();
  relevant_ = false;
  const auto look = [&](const DecodedProgram* p) {
    for (const ptx::Instr& i : p->program->code) relevant_ |= asynchronous(i.form.op);
  };
  look(run.kernel.entry.get());
  for (const auto& f : run.kernel.functions)
    if (f) look(f.get());
}

void Asynccheck::launch_end(const RunState&, const LaunchResult&) {
  resident_.clear();
  spare_.clear();
}

Asynccheck::Resident& Asynccheck::at(const CtaContext& cta) {
  Resident& r = resident_[cta.cluster];
  if (r.order) return r;
  r.cluster = cta.cluster;
  r.order = std::make_unique<AsyncOrder>(*cta.cluster, cta.n_warps);
  return r;
}

AsyncShadow& Asynccheck::shadow(Resident& r, const CtaContext& cta) {
  auto& s = r.shared[&cta];
  if (s) return *s;
  if (!spare_.empty() && spare_.back()->fits(cta.shared_bytes, cta.n_warps)) {
    s = std::move(spare_.back());
    spare_.pop_back();
    s->clear();
  } else {
    spare_.clear();
    s = std::make_unique<AsyncShadow>(cta.shared_bytes, cta.n_warps);
  }
  return *s;
}

void Asynccheck::block_begin(const CtaContext& cta) {
  if (!relevant_) return;
  if (cta.cluster_rank == 0) resident_.erase(cta.cluster);
  at(cta).blocks++;
}

void Asynccheck::block_end(const CtaContext& cta) {
  if (!relevant_) return;
  Resident& r = at(cta);
  left_bytes(r, cta);
  if (--r.blocks) return;
  for (auto& [block, shadow] : r.shared) spare_.push_back(std::move(shadow));
  resident_.erase(cta.cluster);
}

std::vector<uint32_t>& Asynccheck::committed(Resident& r, const WarpContext& w, AsyncKind kind) {
  const int group = kind == AsyncKind::cp_async ? 0 : kind == AsyncKind::wgmma ? 2 : 1;
  std::vector<uint32_t>& c = r.committed[{&w, group}];
  c.resize(32);
  return c;
}

/// `warp` knows that the operation has read what it reads.
bool Asynccheck::read_over(const Resident& r, int warp, const Operation& o) const {
  for (const Moment& m : o.read_done)
    if (r.order->knows(warp, m)) return true;
  return over(r, warp, o);
}

/// `warp` knows that the operation is complete.
bool Asynccheck::over(const Resident& r, int warp, const Operation& o) const {
  for (const Moment& m : o.done)
    if (r.order->knows(warp, m)) return true;
  for (const auto& [bar, phase] : o.phases)
    if (r.order->knows_phase(warp, *bar, phase)) return true;
  return false;
}

/// The record of an operation: one for all lanes of an instruction, and for all warps of a warpgroup's wgmma.
uint32_t Asynccheck::open(Resident& r, const AsyncEvent& e) {
  const WarpContext& w = *e.where.warp;
  uint32_t* known = nullptr;
  if (e.kind == AsyncKind::wgmma) {
    known = &r.wgmma[{w.cta, w.warp_id / 4, r.issued[&w]++}];
    if (*known) return r.pending[&w].push_back(*known), *known;
  } else if (Operation& last = r.operations.back(); last.issue.where.warp == &w && last.issue.where.pc == e.where.pc && last.instance == w.instructions && last.kind == e.kind && !e.mbarrier) {
    last.lanes |= 1u << e.lane;
    return uint32_t(r.operations.size() - 1);
  }
  Operation o;
  o.kind = e.kind;
  o.issue = r.order->now(e.where, e.lane);
  o.lanes = e.kind == AsyncKind::wgmma ? ~0u : 1u << e.lane;
  o.instance = w.instructions;
  o.grouped = !e.mbarrier;
  o.group = committed(r, w, e.kind)[size_t(e.kind == AsyncKind::wgmma ? 0 : e.lane)];
  if (e.mbarrier) {
    MbarrierState& m = r.order->mbarrier(e.mbarrier);
    o.phases.emplace_back(&m, m.phases);
  }
  r.operations.push_back(std::move(o));
  if (!e.mbarrier) r.pending[&w].push_back(uint32_t(r.operations.size() - 1));
  if (known) *known = uint32_t(r.operations.size() - 1);
  return uint32_t(r.operations.size() - 1);
}

void Asynccheck::async_copy(const AsyncEvent& e) {
  if (!relevant_) return;
  Resident& r = at(e.where);
  if (e.mbarrier) {
    check_bar(r, e);
    r.order->needs(r.order->mbarrier(e.mbarrier), r.order->warp_of(*e.where.warp));
  }
  if (e.tensor_map) check_map(r, e);
  const uint32_t id = open(r, e);
  if (e.kind == AsyncKind::wgmma && r.registers[e.where.warp].issue(e.where, r.operations[id].issue))
    report("missing-wgmma-fence", r.order->now(e.where, e.lane), "the first wgmma of this warp is issued without a wgmma.fence before it: it may read accumulators and A registers before earlier instructions have written them",
           "put wgmma.fence.sync.aligned between the last writes of accumulators or A registers and the first wgmma", {});
  const Moment here = r.order->now(e.where, e.lane);
  if (e.kind == AsyncKind::bulk && e.tx_bytes % 16)
    report("bulk-size", here, fmt::format("this asks for {} bytes, which is no multiple of 16: the GPU moves {} of them, and tells an mbarrier of as many", e.tx_bytes, e.tx_bytes / 16 * 16),
           "copy a multiple of 16 bytes, and the rest with ordinary accesses", {});
  for (const ByteRange& range : e.reads) check_reads(r, id, here, range);
  for (const ByteRange& range : e.writes) check_writes(r, id, here, range);
}

/// What an operation reads: stored by threads with a fence between the proxies, and by no copy that is still in flight.
void Asynccheck::check_reads(Resident& r, uint32_t id, const Moment& here, const ByteRange& range) {
  uint64_t offset = 0;
  const CtaContext* cta = range.shared ? shared_owner(*here.where.warp->cta, range.begin, &offset) : nullptr;
  if (!cta) return;
  AsyncShadow& s = shadow(r, *cta);
  const Operation& o = r.operations[id];
  bool said = false;
  uint32_t known = id;         // an operation that is over; neighbours mostly have the same
  AsyncShadow::Store ordered;  // a store that is in order
  const auto look = [&](uint64_t word, uint32_t writer, const AsyncShadow::Store& last) {
    if ((!writer || writer == known) && last == ordered) return;
    if (writer && writer != id && !over(r, here.warp, r.operations[writer])) {
      const Operation& w = r.operations[writer];
      report("copy-not-waited", here, fmt::format("this {} reads {}, which a {} may not have written yet", name_of(o.kind), bytes_of(word * 4), name_of(w.kind)), how_to_wait(w.kind, w.grouped),
             {{"the copy was started here", w.issue}}, word * 4);
      said = true;
    } else if (last.site) {
      said = !check_store_before(r, o, here, s.moment(last), word);
    }
    if (writer) known = writer;
    ordered = last;
  };
  s.for_spans<AsyncShadow::kWord>(offset, range.bytes, [&](AsyncShadow::Span& span, uint64_t word, uint64_t end, bool) {
    if (!span.words_mixed) end = word + 1;
    for (; word < end && !said; word++) look(word, span.words_mixed ? s.writer[word] : span.writer, span.words_mixed ? s.stores[word] : AsyncShadow::Store{});
  });
  const size_t slot = size_t(here.warp / 4) % AsyncShadow::kReaders;
  s.for_spans<AsyncShadow::kUnit>(offset, range.bytes, [&](AsyncShadow::Span& span, uint64_t unit, uint64_t end, bool whole) {
    if (!span.units_mixed && whole) span.readers[slot] = id;
    if (!span.units_mixed && span.readers[slot] == id) return;
    s.mix_units(span);
    for (; unit < end; unit++) s.readers[unit][slot] = id;
  });
}

/// An ordinary store before an operation that reads the word: ordered, and visible to the operation's proxy. False after a report.
bool Asynccheck::check_store_before(Resident& r, const Operation& o, const Moment& here, const Moment& store, uint64_t word) {
  if (!r.order->knows(here.warp, store)) {
    report("race", here, fmt::format("this {} reads {} while another warp may still write it: nothing orders the two", name_of(o.kind), bytes_of(word * 4)), "put fence.proxy.async and a barrier between the store and this instruction",
           {{"was written here", store}}, word * 4);
    return false;
  }
  if (!async_proxy(o.kind) || r.order->knows_fenced(here.warp, store)) return true;
  report("missing-proxy-fence", here, fmt::format("this {} reads {} through the asynchronous proxy, and no fence.proxy.async stands between it and the ordinary store: it may read what was there before", name_of(o.kind), bytes_of(word * 4)),
         "the threads that store execute fence.proxy.async after their stores, before the barrier that this instruction waits for", {{"was written here", store}}, word * 4);
  return false;
}

/// What an operation writes: nobody may still read or write it.
void Asynccheck::check_writes(Resident& r, uint32_t id, const Moment& here, const ByteRange& range) {
  const Operation& o = r.operations[id];
  if (!range.shared) {
    const uint64_t begin = reinterpret_cast<uint64_t>(range.begin);
    r.new_global.push_back({begin, begin + range.bytes, id});
    return;
  }
  uint64_t offset = 0;
  const CtaContext* cta = shared_owner(*here.where.warp->cta, range.begin, &offset);
  if (!cta) return;
  AsyncShadow& s = shadow(r, *cta);
  bool said = false;
  const auto reused = [&](uint64_t at, const char* by, const Moment& other, const char* what) {
    if (said) return;
    said = true;
    report("stage-reused", here, fmt::format("this {} writes {} while {} may still {} it", name_of(o.kind), bytes_of(at), by, what),
           "let those who use the stage say that they are done (after their own wait), and wait for that before the next copy into it", {{std::string("is used here"), other}}, at);
  };
  uint32_t known = id;  // an operation that is over; neighbours mostly have the same
  const auto look_at_readers = [&](uint64_t unit, const AsyncShadow::Readers& readers) {
    for (uint32_t reader : readers)
      if (!reader || reader == known) continue;
      else if (read_over(r, here.warp, r.operations[reader])) known = reader;
      else if (reader != id) reused(unit * 16, name_of(r.operations[reader].kind), r.operations[reader].issue, "read");
  };
  const int first = int(cta->cluster_rank * cta->n_warps);
  const auto look_at_loads = [&](uint64_t unit) {
    for (uint32_t w = 0; w < cta->n_warps && !said; w++) {
      const uint32_t clock = s.load_clock(unit, w);
      if (!clock) continue;
      Moment load = s.moment({s.load_site[unit], clock});
      load.warp = first + int(w);
      if (!r.order->knows(here.warp, load)) reused(unit * 16, "another warp", load, "read");
    }
  };
  s.for_spans<AsyncShadow::kUnit>(offset, range.bytes, [&](AsyncShadow::Span& span, uint64_t unit, uint64_t end, bool whole) {
    if (!span.units_mixed) look_at_readers(unit, span.readers);
    if (!whole && (span.units_mixed || span.readers != AsyncShadow::Readers{})) s.mix_units(span);
    for (uint64_t i = unit; i < end && span.loaded; i++) look_at_loads(i);
    for (; unit < end && span.units_mixed; unit++) look_at_readers(unit, s.readers[unit]), s.readers[unit] = {};
    if (whole) span.readers = {}, span.units_mixed = span.loaded = false;  // the loads came before this, or have been reported
  });
  known = id;
  const auto look_at_writer = [&](uint64_t word, uint32_t writer) {
    if (!writer || writer == known || said) return;
    if (writer != id && !over(r, here.warp, r.operations[writer])) reused(word * 4, name_of(r.operations[writer].kind), r.operations[writer].issue, "write");
    else known = writer;
  };
  s.for_spans<AsyncShadow::kWord>(offset, range.bytes, [&](AsyncShadow::Span& span, uint64_t word, uint64_t end, bool whole) {
    if (!span.words_mixed) look_at_writer(word, span.writer);
    if (!whole && span.writer != id) s.mix_words(span);
    if (span.words_mixed)
      for (; word < end; word++) {
        look_at_writer(word, s.writer[word]);
        if (s.stores[word].site && !said && !r.order->knows(here.warp, s.moment(s.stores[word]))) reused(word * 4, "another warp", s.moment(s.stores[word]), "write");
        s.writer[word] = id;
        s.stores[word] = {};
      }
    if (whole) span.writer = id, span.words_mixed = false;
  });
}

void Asynccheck::access(const Access& a) {
  if (!relevant_) return;
  Resident& r = at(a.where);
  registers(a.where);
  if (const Op op = form_of(a.where).op; op == Op::tensormap_replace || op == Op::tensormap_cp_fenceproxy) return change_map(r, a);
  if (a.space == isa::Space::local || a.space == isa::Space::param || a.space == isa::Space::const_) return;
  for (uint32_t m = a.where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Target t = find_target(a.where, a.space, a.address[lane], lane);
    if (t.region == Region::shared) shared_access(r, a, lane, *t.cta, t.offset);
    else if (t.region == Region::global && !(r.global.empty() && r.new_global.empty())) global_access(r, a, lane);
  }
  if (a.order == Order::weak) return;
  const bool loads = a.kind != AccessKind::store, stores = a.kind != AccessKind::load;
  r.order->strong(r.order->warp_of(*a.where.warp), loads, stores);
}

void Asynccheck::shared_access(Resident& r, const Access& a, int lane, const CtaContext& cta, uint64_t offset) {
  AsyncShadow& s = shadow(r, cta);
  if (offset + a.bytes > cta.shared_bytes) return;
  const Moment here = r.order->now(a.where, lane);
  const bool stores = a.kind != AccessKind::load;
  for (uint64_t word = offset / 4; word < (offset + a.bytes + 3) / 4; word++) {
    AsyncShadow::Span& span = s.span_of_word(word);
    const uint32_t writer = span.words_mixed ? s.writer[word] : span.writer;
    if (stores) s.mix_words(span);
    if (writer && !over(r, here.warp, r.operations[writer])) {
      const Operation& w = r.operations[writer];
      report("copy-not-waited", here, fmt::format("this {} {}, which a {} may not have written yet: nobody whom this thread has heard of has waited for the copy", stores ? "writes" : "reads", bytes_of(word * 4), name_of(w.kind)),
             how_to_wait(w.kind, w.grouped), {{"the copy was started here", w.issue}}, word * 4);
      s.mix_words(span);
      s.writer[word] = 0;
    }
    if (!stores) continue;
    s.stores[word] = {s.site(here), here.clock};
    s.writer[word] = 0;
  }
  for (uint64_t unit = offset / 16; unit < (offset + a.bytes + 15) / 16; unit++) {
    AsyncShadow::Span& span = s.span_of_unit(unit);
    if (!stores) {
      if (&cta == a.where.warp->cta) s.load(span, unit, a.where.warp->warp_id, here.clock, s.site(here));
      continue;
    }
    if (!span.units_mixed && span.readers == AsyncShadow::Readers{}) continue;
    s.mix_units(span);
    for (uint32_t& reader : s.readers[unit]) {
      if (!reader) continue;
      if (!read_over(r, here.warp, r.operations[reader]))
        report("stage-reused", here, fmt::format("this writes {} while a {} may still read it", bytes_of(offset), name_of(r.operations[reader].kind)),
               r.operations[reader].kind == AsyncKind::wgmma ? "wait for the wgmma first (wgmma.wait_group), then a barrier" : "wait until the copy has read its source: cp.async.bulk.wait_group.read, then a barrier",
               {{"is read here", r.operations[reader].issue}}, offset);
      reader = 0;
    }
  }
  if (offset >= s.barriers_to || offset + a.bytes <= s.barriers_from) return;
  for (uint64_t at = offset / 8 * 8; at < offset + a.bytes; at += 8) {
    MbarrierState* m = r.order->find(reinterpret_cast<const uint64_t*>(cta.shared + at));
    if (!m || !m->live) continue;
    if (!stores) {
      report("mbarrier-read", here, fmt::format("this reads {}, where a live mbarrier lies: the GPU keeps it elsewhere, and memory holds what was there before", bytes_of(at)),
             "execute mbarrier.inval before the object is copied; ask for its phase with mbarrier.test_wait", {{"was initialised here", m->init}}, at);
      continue;
    }
    report("mbarrier-overwritten", here, fmt::format("this writes {}, where an mbarrier lies that was not invalidated", bytes_of(at)), "execute mbarrier.inval before the memory is used for something else", {{"was initialised here", m->init}}, at);
    m->live = false;
  }
}

void Asynccheck::global_access(Resident& r, const Access& a, int lane) {
  const uint64_t address = a.address[lane];
  for (const GlobalWrite& w : r.new_global) r.global[w.begin] = {w.end, w.operation};
  r.new_global.clear();
  auto it = r.global.upper_bound(address + a.bytes - 1);
  if (it == r.global.begin()) return;
  --it;
  if (it->second.first <= address) return;
  const Operation& o = r.operations[it->second.second];
  const Moment here = r.order->now(a.where, lane);
  if (over(r, here.warp, o)) return;
  report("copy-not-waited", here, fmt::format("this {} global memory at {:#x}, which a {} may not have written yet", a.kind == AccessKind::load ? "reads" : "writes", address, name_of(o.kind)), how_to_wait(o.kind, o.grouped),
         {{"the copy was started here", o.issue}}, address);
  r.global.erase(it);
}

}  // namespace orrery::sanitize
