// sanitize/apicheck.cc: see apicheck.h.
#include "sanitize/apicheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/decode.h"
#include "exec/run_state.h"

namespace orrery::sanitize {

using namespace exec;

namespace {

thread_local uint64_t performing_now = 0;  // the operation that this thread carries out; parts of a graph have no number

const char* noun(HostOp op) {
  switch (op) {
    case HostOp::copy: return "copy";
    case HostOp::fill: return "memset";
    case HostOp::allocate: return "allocation";
    case HostOp::free_: return "free";
    default: return "kernel";
  }
}

}  // namespace

Apicheck::Apicheck(const Options& options, Collector& collector)
    : collector_(collector),
      watch_([this](const Finding& about, uint64_t address, bool writes, const void* code) { host_access(about, address, writes, code); }),
      api_errors_(options.api_errors) {}

void Apicheck::join(Clock& to, const Clock& from) {
  for (const auto& [stream, n] : from) {
    uint64_t& known = to[stream];
    known = std::max(known, n);
  }
}

// ---- order ----

void Apicheck::submitted(const HostWork& w) {
  kinds_[w.stream] = {w.context, w.blocking};
  if (w.legacy) legacy_[w.context] = w.stream;
  else several_streams_ = true;
  Clock before = host_;
  join(before, streams_[w.stream]);
  if (w.legacy) {
    for (const auto& [stream, kind] : kinds_)
      if (kind.first == w.context && kind.second) join(before, streams_[stream]);
  } else if (w.blocking) {
    if (const auto it = legacy_.find(w.context); it != legacy_.end()) join(before, streams_[it->second]);
  }
  if (w.op == HostOp::event_wait) join(before, events_[w.event]);
  const uint64_t number = ++count_[w.stream];
  Clock& tail = streams_[w.stream];
  tail = before;
  tail[w.stream] = number;
  if (w.op == HostOp::event_record) events_[w.event] = tail;
  Operation op;
  op.work = w;
  op.number = number;
  op.before = std::move(before);
  op.tracked = several_streams_ || visible_end_;
  operations_.push_back(std::move(op));
  // Work that is far in the past is forgotten, so that programs which never wait stay cheap.
  const size_t most = several_streams_ ? 512 : 64;
  if (operations_.size() > most && operations_.front().done) operations_.pop_front();
}

void Apicheck::host_waited(HostWait kind, uint64_t what) {
  if (kind == HostWait::stream) join(host_, streams_[what]);
  else if (kind == HostWait::event) join(host_, events_[what]);
  else for (const auto& [stream, facts] : kinds_)
    if (facts.first == what) join(host_, streams_[stream]);
  forget();
  if (visible_end_) close_pages();
}

/// Drops operations that everything to come is ordered after, when nothing unfinished could still be compared with them.
void Apicheck::forget() {
  for (const Operation& op : operations_)
    if (!op.done) return;
  operations_.remove_if([&](const Operation& op) {
    const auto it = host_.find(op.work.stream);
    return it != host_.end() && op.number <= it->second;
  });
}

void Apicheck::performing(const HostWork& w) {
  performing_++;
  watch_.open_all();
  if (w.id) performing_now = w.id;
  if (w.op != HostOp::free_ && w.op != HostOp::allocate) return;
  const Block* b = w.op == HostOp::free_ ? allocations_.holder(w.destination, 1) : nullptr;
  const uint64_t bytes = b ? b->end - b->begin : w.width;
  for (Operation& op : operations_)
    if (op.work.id == performing_now && w.destination) op.spans.push_back({w.destination, w.destination + bytes, true});
}

void Apicheck::performed(const HostWork& w) {
  finish(w);
  performing_--;
  if (visible_end_) close_pages();
}

void Apicheck::finish(const HostWork& w) {
  const uint64_t id = w.id ? w.id : performing_now;
  const auto it = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& op) { return op.work.id == id; });
  if (it == operations_.end()) return;
  Operation& op = *it;
  if (w.op == HostOp::copy || w.op == HostOp::fill)
    for (uint64_t z = 0; z < w.depth; z++)
      for (uint64_t y = 0; y < w.height; y++) {
        const uint64_t to = w.destination + z * w.destination_slice + y * w.destination_pitch;
        op.spans.push_back({to, to + w.width, true});
        if (w.op == HostOp::fill || w.source_staged) continue;
        const uint64_t from = w.source + z * w.source_slice + y * w.source_pitch;
        op.spans.push_back({from, from + w.width, false});
      }
  if (!w.id) return;  // a part of a graph: the whole is compared at its end
  if (w.op != HostOp::launch && op.name.empty()) op.name = noun(w.op);
  op.done = true;
  for (const Operation& other : operations_)
    if (&other != &op && other.done) compare(other.work.id < op.work.id ? other : op, other.work.id < op.work.id ? op : other);
  // What a host function did may tell the host, and a copy to pageable memory returns when it is done.
  const bool tells = op.work.op == HostOp::host_function || (op.work.op == HostOp::copy && !allocations_.holder(op.work.destination, 1));
  if (op.work.waits || tells) {
    Clock after = op.before;
    after[op.work.stream] = op.number;
    join(host_, after);
    forget();
  }
}

// ---- footprints ----

void Apicheck::launch_begin(const RunState& run) {
  for (Operation& op : operations_)
    if (op.work.id == performing_now) {
      runs_[&run] = &op;
      op.name = "kernel " + demangled(run.kernel.entry->program->name);
    }
}

void Apicheck::launch_end(const RunState& run, const LaunchResult&) {
  runs_.erase(&run);
  if (runs_.empty()) site_numbers_.clear();
}

Apicheck::Operation* Apicheck::running(const RunState* run) {
  const auto it = runs_.find(run);
  return it != runs_.end() && (it->second->tracked || several_streams_) ? it->second : nullptr;
}

uint32_t Apicheck::site_of(const Where& where) {
  uint32_t& number = site_numbers_[{where.code, where.pc}];
  if (!number) {
    number = uint32_t(sites_.size());
    sites_.push_back(place_of(*where.code, kernel_of(where), where.pc));
  }
  return number;
}

void Apicheck::access(const Access& a) {
  if (a.space != isa::Space::global && a.space != isa::Space::none) return;
  Operation* op = running(a.where.run);
  if (!op) return;
  const bool reads = a.kind != AccessKind::store;
  // Strong accesses are how kernels that run together talk to each other.
  const bool writes = a.kind != AccessKind::load && a.order == Order::weak;
  const uint32_t site = site_of(a.where);
  uint64_t begin = 0, end = 0;  // neighbouring lanes together
  const auto touch = [&] {
    if (begin == end || !(several_streams_ || is_visible(begin))) return;
    if (reads) op->footprint.touch(begin, end - begin, false, site);
    if (writes) op->footprint.touch(begin, end - begin, true, site);
    if (a.order != Order::weak && a.scope == Scope::sys && is_visible(begin)) op->talks = true;
  };
  for (uint32_t m = a.where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t at = a.address[lane];
    if (a.space == isa::Space::none && find_target(a.where, a.space, at, lane).region != Region::global) continue;
    if (at != end) touch(), begin = at;
    end = at + a.bytes;
  }
  touch();
}

void Apicheck::async_copy(const AsyncEvent& e) {
  Operation* op = running(e.where.run);
  if (!op) return;
  const auto touch = [&](const ByteRange& r, bool writes) {
    const uint64_t at = reinterpret_cast<uint64_t>(r.begin);
    if (!r.shared && (several_streams_ || is_visible(at))) op->footprint.touch(at, r.bytes, writes, site_of(e.where));
  };
  for (const ByteRange& r : e.reads) touch(r, false);
  for (const ByteRange& r : e.writes) touch(r, true);
}

// ---- comparison ----

/// `a` was submitted first.
void Apicheck::compare(const Operation& a, const Operation& b) {
  const auto known = b.before.find(a.work.stream);
  if (known != b.before.end() && a.number <= known->second) return;
  for (const Span& x : a.spans)
    for (const Span& y : b.spans)
      if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return report(a, b, std::max(x.begin, y.begin), x.writes, y.writes, 0, 0);
  const auto against = [&](const Operation& kernel, const Operation& copy, bool kernel_first) {
    for (const Span& s : copy.spans)
      for (uint64_t p = s.begin / 64; p * 64 < s.end; p++) {
        const Piece* const piece = kernel.footprint.piece(p);
        if (!piece) continue;
        const uint64_t in = bits_of_piece(p, s.begin, s.end), written = piece->written & in, read = s.writes ? piece->read & in : 0;
        if (!written && !read) continue;
        const uint64_t at = p * 64 + uint64_t(std::countr_zero(written ? written : read));
        const uint32_t site = written ? piece->writer : piece->reader;
        if (kernel_first) report(a, b, at, written != 0, s.writes, site, 0);
        else report(a, b, at, s.writes, written != 0, 0, site);
        return true;
      }
    return false;
  };
  if (against(a, b, true) || against(b, a, false)) return;
  const bool a_small = a.footprint.size() < b.footprint.size();
  (a_small ? a : b).footprint.any([&](uint64_t p, const Piece& x) {
    const Piece* const y = (a_small ? b : a).footprint.piece(p);
    if (!y) return false;
    const Piece &pa = a_small ? x : *y, &pb = a_small ? *y : x;
    if (const uint64_t hit = pa.written & (pb.written | pb.read)) {
      const bool both = hit & pb.written;
      report(a, b, p * 64 + uint64_t(std::countr_zero(hit)), true, both, pa.writer, both ? pb.writer : pb.reader);
      return true;
    }
    const uint64_t hit = pa.read & pb.written;
    if (hit) report(a, b, p * 64 + uint64_t(std::countr_zero(hit)), false, true, pa.reader, pb.writer);
    return hit != 0;
  });
}

void Apicheck::report(const Operation& a, const Operation& b, uint64_t address, bool a_writes, bool b_writes, uint32_t site_a, uint32_t site_b) {
  Finding f;
  f.check = "apicheck";
  f.kind = "stream-race";
  const Block* block = allocations_.holder(address, 1);
  const auto text = [](const Operation& o, bool writes) {
    const bool lifetime = o.work.op == HostOp::allocate || o.work.op == HostOp::free_;
    return fmt::format("the {} in stream {} {}", o.name.empty() ? noun(o.work.op) : o.name, o.work.stream,
                       lifetime ? "concerns" : writes ? "writes" : "reads");
  };
  f.message = fmt::format("{} and {} the bytes at {:#x}{}, and nothing orders them", text(a, a_writes), text(b, b_writes), address,
                          block ? " of " + describe(*block) : "");
  if (site_b) f.place = sites_[site_b];
  if (site_a) f.others.push_back({fmt::format("The {} of {}", a_writes ? "write" : "read", a.name), sites_[site_a], ""});
  f.address = address;
  f.remedy = b.work.waits ? "wait for the first stream (cudaStreamSynchronize) before the copy, or copy in the same stream"
                          : "put both in one stream, or record an event after the first and let the second stream wait for it (cudaStreamWaitEvent)";
  collector_.add(std::move(f));
}

// ---- errors ----

void Apicheck::api_error(const char* call, int code, const char* name, uint64_t) {
  if (!std::strcmp(call, "seen")) unseen_launch_errors_ = 0;
  const bool estimate = !std::strcmp(call, "estimate");  // it was launched here, a GPU would refuse
  if (std::strcmp(call, "launch") && !estimate) return;
  if (!estimate) unseen_launch_errors_++, unseen_text_ = name;
  // cudaErrorInvalidValue, InvalidConfiguration, LaunchOutOfResources, CooperativeLaunchTooLarge, InvalidClusterSize
  if (!api_errors_) return;
  if (code != 1 && code != 9 && code != 701 && code != 720 && code != 912) return;
  Finding f;
  f.check = "apicheck";
  f.kind = "launch-limit";
  f.severity = "warning";  // a program that looks for the limit does this on purpose
  f.message = fmt::format("a kernel {} launched: {}", estimate ? "would not be" : "was not", name);
  f.remedy = code == 701 ? "use fewer threads per block, or __launch_bounds__(threads), which makes the compiler keep to fewer registers"
                         : "keep grid, block, cluster and shared memory within what the GPU and the kernel's attributes allow";
  collector_.add(std::move(f));
}

void Apicheck::process_end() {
  if (!unseen_launch_errors_) return;
  Finding f;
  f.check = "apicheck";
  f.kind = "unchecked-launch";
  f.message = fmt::format("a kernel was not launched, and the program never asked for the error: {}", unseen_text_);
  f.remedy = "call cudaGetLastError() after each launch";
  f.count = uint64_t(unseen_launch_errors_);
  collector_.add(std::move(f));
}

}  // namespace orrery::sanitize
