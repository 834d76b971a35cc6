// sanitize/initcheck.cc: see initcheck.h.
#include "sanitize/initcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "exec/decode.h"
#include "exec/run_state.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Space;

namespace {
constexpr std::byte kWritten{0xFF};  // as compiled code marks and asks (exec/observed.h)

/// Bits [first, last) of a word.
uint64_t bits_between(uint64_t first, uint64_t last) { return (last == 64 ? ~uint64_t{0} : (uint64_t{1} << last) - 1) & ~((uint64_t{1} << first) - 1); }
}  // namespace

void WrittenBits::write(uint64_t at, uint64_t bytes) {
  const uint64_t end = std::min(at + bytes, uint64_t(words_.size()) * 64);
  if (at % 64 && at < end) {
    const uint64_t stop = std::min(end, (at / 64 + 1) * 64);
    words_[at / 64] |= bits_between(at % 64, stop - at / 64 * 64);
    at = stop;
  }
  if (at >= end) return;
  std::fill(words_.begin() + ptrdiff_t(at / 64), words_.begin() + ptrdiff_t(end / 64), ~uint64_t{0});
  if (end % 64) words_[end / 64] |= bits_between(0, end % 64);
}

uint64_t WrittenBits::first_unwritten(uint64_t at, uint64_t bytes) const {
  const uint64_t end = at + bytes, held = std::min(end, uint64_t(words_.size()) * 64);
  while (at < held) {
    const uint64_t stop = std::min(held, (at / 64 + 1) * 64);
    const uint64_t missing = ~words_[at / 64] & bits_between(at % 64, stop - at / 64 * 64);
    if (missing) return at / 64 * 64 + uint64_t(std::countr_zero(missing));
    at = stop;
  }
  return end;
}

void Initcheck::block_begin(const CtaContext& cta) {
  SharedMemory& shared = shared_[&cta];
  shared.run = cta.launch->run;
  shared.bits.reset(cta.shared_bytes, false);
  for (uint32_t w = 0; w < cta.n_warps; w++) {
    LocalMemory& l = local_[&cta.warps[w]];
    l.run = cta.launch->run;
    l.stride = cta.warps[w].local_stride;
    l.marks.assign(32 * l.stride, std::byte{0});
  }
}

void Initcheck::launch_end(const RunState& run, const LaunchResult&) {
  std::erase_if(shared_, [&](const auto& s) { return s.second.run == &run; });
  std::erase_if(local_, [&](const auto& l) { return l.second.run == &run; });
}

Initcheck::LocalMemory& Initcheck::local_of(const WarpContext& w) { return local_[&w]; }

WrittenBits* Initcheck::shared_of(const CtaContext& cta) {
  const auto it = shared_.find(&cta);
  return it == shared_.end() ? nullptr : &it->second.bits;
}

Initcheck::Tracked* Initcheck::find(uint64_t address) {
  if (last_ && address - last_->begin < last_->end - last_->begin) return last_;
  auto it = tracked_.upper_bound(address);
  if (it == tracked_.begin()) return nullptr;
  Tracked& t = std::prev(it)->second;
  return address < t.end ? last_ = &t : nullptr;
}

void Initcheck::write_global(uint64_t address, uint64_t bytes) {
  if (Tracked* t = find(address); t && !t->opaque) t->bits.write(address - t->begin, bytes);
}

void Initcheck::write_host(uint64_t address, uint64_t bytes, const CtaContext& any) {
  uint64_t offset = 0;
  const CtaContext* cta = shared_owner(any, reinterpret_cast<const void*>(address), &offset);
  if (!cta) return write_global(address, bytes);
  if (WrittenBits* bits = shared_of(*cta)) bits->write(offset, bytes);
}

void Initcheck::access(const Access& a) {
  if (a.space == Space::const_) return;
  const bool reads = a.kind != AccessKind::store, writes = a.kind != AccessKind::load;
  for (uint32_t m = a.where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Target t = find_target(a.where, a.space, a.address[lane], lane);
    if (reads) read_lane(a, lane, t);
    if (!writes) continue;
    if (t.region == Region::shared) {
      if (WrittenBits* bits = shared_of(*t.cta)) bits->write(t.offset, a.bytes);
    } else if (t.region == Region::local) {
      LocalMemory& l = local_of(*a.where.warp);
      if (a.bytes <= l.stride && t.offset <= l.stride - a.bytes) std::fill_n(l.marks.begin() + ptrdiff_t(uint64_t(t.lane) * l.stride + t.offset), a.bytes, kWritten);
    } else if (t.region == Region::global) {
      write_global(a.address[lane], a.bytes);
    }
  }
}

void Initcheck::read_lane(const Access& a, int lane, const Target& t) {
  if (t.region == Region::shared) {
    const WrittenBits* bits = shared_of(*t.cta);
    if (!bits || t.offset < lower::kSharedStart || t.offset + a.bytes > t.cta->shared_bytes) return;
    if (const uint64_t at = bits->first_unwritten(t.offset, a.bytes); at < t.offset + a.bytes)
      report(a.where, lane, "shared memory", t.offset, at - t.offset, "write the shared memory before reading it; it does not start as zero");
  } else if (t.region == Region::local) {
    LocalMemory& l = local_of(*a.where.warp);
    if (a.bytes > l.stride || t.offset > l.stride - a.bytes) return;
    const auto first = l.marks.begin() + ptrdiff_t(uint64_t(t.lane) * l.stride + t.offset), end = first + a.bytes;
    const auto at = std::find(first, end, std::byte{0});
    if (at != end) report(a.where, lane, "local memory", t.offset, uint64_t(at - first), "give the local variable a value before it is read");
  } else if (t.region == Region::global) {
    Tracked* g = find(a.address[lane]);
    if (!g || g->opaque || a.address[lane] + a.bytes > g->end) return;
    const uint64_t first = a.address[lane] - g->begin, at = g->bits.first_unwritten(first, a.bytes);
    if (at == first + a.bytes) return;
    const Block* b = allocations_.holder(a.address[lane], 1);
    report(a.where, lane, b ? fmt::format("{}, byte {} of it,", describe(*b), first).c_str() : "global memory", a.address[lane], at - first,
           "write the memory before the launch (cudaMemcpy, cudaMemset) or before this read; cudaMalloc does not set it to zero");
  }
}

void Initcheck::report(const Where& where, int lane, const char* memory, uint64_t address, uint64_t missing, const std::string& remedy) {
  if (collector_.full("initcheck")) return;
  Finding f;
  f.check = "initcheck";
  f.kind = "uninitialised-read";
  f.place = place_of(where, lane);
  f.address = address;
  f.message = fmt::format("read of {} at {:#x}: nobody has written {}", memory, address, missing ? fmt::format("byte {} of the value", missing) : "it");
  f.remedy = remedy;
  collector_.add(std::move(f));
}

void Initcheck::async_copy(const AsyncEvent& e) {
  for (const ByteRange& r : e.writes) write_host(reinterpret_cast<uint64_t>(r.begin), r.bytes, *e.where.warp->cta);
}

void Initcheck::mbarrier(const MbarrierEvent& e) {
  if (e.op == MbarrierOp::init) write_host(reinterpret_cast<uint64_t>(e.word), 8, *e.where.warp->cta);
}

void Initcheck::heap_allocate(const Where&, int, uint64_t address, uint64_t bytes) {
  allocations_.add_device_malloc(address, bytes);
  Tracked& t = tracked_[address];
  t = {address, address + bytes, {}, false, false};
  t.bits.reset(bytes, false);
  last_ = nullptr;
}

void Initcheck::allocated(const Allocation& a) {
  allocations_.add(a.address, a.size, a.kind);
  Tracked& t = tracked_[a.address];
  t = {a.address, a.address + a.size, {}, a.kind != MemoryKind::device, false};
  if (!t.opaque) t.bits.reset(a.size, false);
  last_ = nullptr;
}

void Initcheck::released(const Allocation& a) {
  allocations_.remove(a.address, "");
  tracked_.erase(a.address);
  last_ = nullptr;
}

void Initcheck::named(uint64_t address, const std::string& name, bool constant) { allocations_.name(address, demangled(name), constant); }

void Initcheck::performed(const HostWork& w) {
  if (w.op != HostOp::copy && w.op != HostOp::fill) return;
  for (uint64_t z = 0; z < w.depth; z++)
    for (uint64_t y = 0; y < w.height; y++) {
      const uint64_t to = w.destination + z * w.destination_slice + y * w.destination_pitch;
      const uint64_t from = w.source + z * w.source_slice + y * w.source_pitch;
      Tracked* source = w.op == HostOp::copy && !w.source_staged ? find(from) : nullptr;
      Tracked* target = find(to);
      if (!source || source->opaque) {
        write_global(to, w.width);
        continue;
      }
      // From device memory: what was not written stays so.
      uint64_t at = from - source->begin, end = at + w.width, done = at;
      while (done < end) {
        const uint64_t hole = source->bits.first_unwritten(done, end - done);
        if (hole > done && target && !target->opaque) target->bits.write(to + (done - at) - target->begin, hole - done);
        if (hole < end && !target && options_.copies) {
          Finding f;
          f.check = "initcheck";
          f.kind = "uninitialised-copy";
          const Block* b = allocations_.holder(from, 1);
          f.message = fmt::format("{} bytes are copied to the host; byte {} of {} was never written", w.width, hole, b ? describe(*b) : "the source");
          f.remedy = "copy only what was computed, or set the memory first";
          f.severity = "warning";
          collector_.add(std::move(f));
          return;
        }
        done = hole + 1;
        while (done < end && source->bits.first_unwritten(done, 1) == done) done++;
      }
    }
}

}  // namespace orrery::sanitize
