// sanitize/memcheck.cc: see memcheck.h.
#include "sanitize/memcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "exec/decode.h"
#include "exec/run_state.h"
#include "lower/shared_origin.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Space;

namespace {

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::load: return "read";
    case AccessKind::store: return "write";
    default: return "atomic update";
  }
}

const char* label(Space space) {
  if (is_shared(space)) return "shared memory";
  if (space == Space::local) return "local memory";
  return space == Space::global ? "global memory" : space == Space::const_ ? "constant memory" : "memory";
}

}  // namespace

void Memcheck::report(const Where& where, int lane, const std::string& kind, uint64_t address, const std::string& message,
                      const std::string& remedy) {
  Finding f;
  f.check = "memcheck";
  f.kind = kind;
  f.place = place_of(where, lane);
  f.message = message;
  f.remedy = remedy;
  f.address = address;
  faulted_.insert(f.place.kernel);
  collector_.add(std::move(f));
}

void Memcheck::access(const Access& a) {
  // The whole warp at once when its addresses lie in one allocation, as they nearly always do.
  if (a.space == Space::global || a.space == Space::none || a.space == Space::const_) {
    uint64_t low = ~uint64_t{0}, high = 0, bits = 0;
    for (uint32_t m = a.where.mask; m; m &= m - 1) {
      const uint64_t at = a.address[std::countr_zero(m)];
      low = std::min(low, at), high = std::max(high, at), bits |= at;
    }
    const Block* b = (bits & (a.align - 1)) ? nullptr : allocations_.holder(low, high - low + a.bytes);
    if (b && (a.kind == AccessKind::load || !b->constant) && (b->kind != MemoryKind::heap || b->on_device)) {
      if (alone_ && !a.where.call && b->kind != MemoryKind::heap) set_site_range(*a.where.code->program, a.where.pc, b->begin, b->end);
      return;
    }
  }
  for (uint32_t m = a.where.mask; m; m &= m - 1) check_lane(a, std::countr_zero(m));
}

void Memcheck::check_lane(const Access& a, int lane) {
  const uint64_t address = a.address[lane];
  if (address & (a.align - 1)) {
    report(a.where, lane, "misaligned", address,
           fmt::format("{} of {} bytes of {} at {:#x}, which is not a multiple of {}", verb(a.kind), a.bytes, label(a.space), address, a.align),
           fmt::format("align the address to {} bytes, or access the elements one by one", a.align));
    return;
  }
  const Target t = find_target(a.where, a.space, address, lane);
  const char* remedy = "check the index against the size of the array";
  switch (t.region) {
    case Region::param: return;
    case Region::outside:
      return report(a.where, lane, "out-of-bounds", address,
                    fmt::format("{} of {} bytes at shared::cluster address {:#x}, which names no block of the cluster", verb(a.kind), a.bytes, address),
                    "mapa takes the rank of a block in the cluster: 0 to the cluster's size minus 1");
    case Region::shared: return check_shared(a, lane, t);
    case Region::local:
      if (t.offset + a.bytes <= a.where.warp->local_stride) return;
      return report(a.where, lane, "out-of-bounds", address,
                    fmt::format("{} of {} bytes of local memory at {:#x}, beyond the thread's {} bytes", verb(a.kind), a.bytes, t.offset, a.where.warp->local_stride), remedy);
    default: return check_global(a, lane, address);
  }
}

const lower::SharedVar* Memcheck::variable_of(const Where& where) {
  const lower::Program& p = *where.code->program;
  std::vector<uint32_t>& origins = origins_[p.hash];
  if (origins.empty()) origins = lower::find_shared_origins(p);
  const uint32_t number = origins[where.pc];
  return number ? &p.shared_vars[number - 1] : nullptr;
}

void Memcheck::check_shared(const Access& a, int lane, const Target& t) {
  const lower::SharedVar* v = t.cta == a.where.warp->cta ? variable_of(a.where) : nullptr;
  const uint64_t low = v ? v->offset : lower::kSharedStart, high = v ? v->offset + v->bytes : t.cta->shared_bytes;
  if (t.offset >= low && t.offset + a.bytes <= high) return;
  const std::string what = fmt::format("{} of {} bytes of shared memory at {:#x}", verb(a.kind), a.bytes, t.offset);
  if (t.offset < lower::kSharedStart || t.offset + a.bytes > t.cta->shared_bytes) {
    const uint64_t size = t.cta->shared_bytes - lower::kSharedStart;
    const std::string where = t.offset < lower::kSharedStart ? "before the beginning" : fmt::format("{} bytes past the end", t.offset - std::min<uint64_t>(t.offset, t.cta->shared_bytes));
    return report(a.where, lane, "out-of-bounds", a.address[lane], fmt::format("{}, {} of the block's {} bytes of shared memory", what, where, size),
                  "check the index against the size of the array, and the dynamic shared memory that the launch asks for");
  }
  std::string other;
  for (const lower::SharedVar& o : a.where.code->program->shared_vars)
    if (t.offset >= o.offset && t.offset < o.offset + o.bytes) other = fmt::format(", inside {}", demangled(o.name));
  const std::string where = t.offset < v->offset ? fmt::format("{} bytes before the beginning", v->offset - t.offset)
                                                 : t.offset == v->offset + v->bytes ? "just past the end" : fmt::format("{} bytes past the end", t.offset - std::min<uint64_t>(t.offset, v->offset + v->bytes));
  report(a.where, lane, "out-of-bounds", a.address[lane],
         fmt::format("{}, {} of the {}-byte variable {} that the address comes from{}", what, where, v->bytes, demangled(v->name), other),
         "check the index against the size of the array");
}

void Memcheck::check_global(const Access& a, int lane, uint64_t address) {
  const std::string what = fmt::format("{} of {} bytes", verb(a.kind), a.bytes);
  if (const Block* b = allocations_.holder(address, a.bytes)) {
    if (b->kind == MemoryKind::heap && !b->on_device)
      return report(a.where, lane, "out-of-bounds", address, fmt::format("{} at {:#x} of the heap, in no block that malloc returned, or in one that was freed", what, address),
                    "keep to the block that malloc returned, and do not use it after free");
    if (a.kind == AccessKind::load || !b->constant) return;
    return report(a.where, lane, "write-to-constant", address, fmt::format("{} at {:#x} in {}", what, address, describe(*b)),
                  "constant memory is written by the host (cudaMemcpyToSymbol); use a __device__ variable for what kernels write");
  }
  if (!memory_.contains(address)) return check_host(a.where, lane, address, a.bytes, what);
  std::string kind, remedy;
  const std::string relation = allocations_.relation(address, a.bytes, &kind, &remedy);
  report(a.where, lane, kind, address, fmt::format("{} at {:#x} {}", what, address, relation), remedy);
}

void Memcheck::check_host(const Where& where, int lane, uint64_t address, uint64_t bytes, const std::string& what) {
  if (auto host = memory_.find_registered(address); host && bytes <= host->address + host->size - address) return;
  if (address < 4096)
    return report(where, lane, "null-pointer", address, fmt::format("{} at {:#x}, a null pointer plus {}", what, address, address),
                  "pass a pointer that an allocation returned; check what cudaMalloc returned");
  report(where, lane, "host-pointer", address,
         fmt::format("{} at {:#x}, which is not device memory: a pointer of the host, or one that was never set", what, address),
         "copy the data to memory from cudaMalloc or cudaMallocManaged, or register it (cudaHostRegister), and pass that pointer");
}

void Memcheck::async_copy(const AsyncEvent& e) {
  const auto check = [&](const ByteRange& r, const char* what) {
    if (r.shared || !r.bytes) return;
    const uint64_t address = reinterpret_cast<uint64_t>(r.begin);
    if (!memory_.contains(address)) return check_host(e.where, e.lane, address, r.bytes, fmt::format("an asynchronous copy {} {} bytes", what, r.bytes));
    if (allocations_.holder(address, r.bytes)) return;
    const uint64_t last = address + r.bytes - 1;
    const uint64_t bad = allocations_.holder(address, 1) ? last : address;
    std::string kind, remedy;
    const std::string relation = allocations_.relation(bad, 1, &kind, &remedy);
    if (e.kind == AsyncKind::tensor) remedy = "make the tensor map's sizes and strides those of the allocation";
    report(e.where, e.lane, kind, bad, fmt::format("an asynchronous copy {} {} bytes at {:#x}; byte {:#x} {}", what, r.bytes, address, bad, relation), remedy);
  };
  for (const auto& [ranges, what] : {std::pair(e.reads, "reads"), std::pair(e.writes, "writes")}) {
    uint64_t low = ~uint64_t{0}, high = 0;  // the rows of a box mostly lie in one allocation
    for (const ByteRange& r : ranges) {
      if (r.shared || !r.bytes) continue;
      low = std::min(low, reinterpret_cast<uint64_t>(r.begin));
      high = std::max(high, reinterpret_cast<uint64_t>(r.begin) + r.bytes);
    }
    if (low >= high || allocations_.holder(low, high - low)) continue;
    for (const ByteRange& r : ranges) check(r, what);
  }
}

void Memcheck::heap_allocate(const Where&, int, uint64_t address, uint64_t bytes) { allocations_.add_device_malloc(address, bytes); }

void Memcheck::heap_free(const Where& where, int lane, uint64_t address) {
  const Block* b = allocations_.holder(address, 1);
  if (b && b->on_device && b->begin == address) return allocations_.remove(address, " by free in a kernel");
  const Block* old = allocations_.nearest(address);
  const bool twice = old && old->freed && old->begin == address;
  report(where, lane, twice ? "double-free" : "invalid-free", address,
         twice ? fmt::format("free of {:#x}, which was freed before", address) : fmt::format("free of {:#x}, which malloc in a kernel did not return", address),
         "call free once for each pointer that malloc returned, in one thread only");
}

void Memcheck::allocated(const Allocation& a) { allocations_.add(a.address, a.size, a.kind); }
void Memcheck::released(const Allocation& a) {
  forget_site_ranges();
  if (options_.fast)
    if (const Block* b = allocations_.holder(a.address, 1)) check_fence(*b, "");
  allocations_.remove(a.address, "");
}

void Memcheck::check_fence(const Block& b, const std::string& kernel) {
  if (b.kind != MemoryKind::device && b.kind != MemoryKind::managed) return;
  const auto first_changed = [](uint64_t begin, uint64_t end) {
    for (; begin < end; begin++)
      if (*reinterpret_cast<const unsigned char*>(begin) != kFenceByte) break;
    return begin;
  };
  constexpr uint64_t kPage = 4096;
  const uint64_t page = b.begin / kPage * kPage, stop = (b.end + kPage - 1) / kPage * kPage;
  const uint64_t slack_end = b.begin + (b.end - b.begin + 255) / 256 * 256;
  if (slack_end != stop) return;  // not one with a fence
  const uint64_t before = first_changed(page, b.begin), after = first_changed(b.end, stop);
  if (before == b.begin && after == stop) return;
  const uint64_t at = after < stop ? after : before;
  if (!fences_broken_.insert(b.begin).second) return;
  Finding f;
  f.check = "memcheck";
  f.kind = "out-of-bounds";
  f.place.kernel = kernel;
  f.address = at;
  std::string kind, remedy;
  f.message = fmt::format("the byte at {:#x} was overwritten; it {}", at, allocations_.relation(at, 1, &kind, &remedy));
  f.remedy = "run without --fast to see thread and line";
  collector_.add(std::move(f));
}
void Memcheck::named(uint64_t address, const std::string& name, bool constant) { allocations_.name(address, demangled(name), constant); }

void Memcheck::api_error(const char* call, int, const char*, uint64_t address) {
  const std::string name = call;
  if (!address || name.find("Free") == std::string::npos) return;
  Finding f;
  f.check = "memcheck";
  f.address = address;
  const Block* b = allocations_.nearest(address);
  if (b && b->freed && b->begin == address) {
    f.kind = "double-free";
    f.message = fmt::format("{} of {:#x}, which was freed before: {}", call, address, describe(*b));
    f.remedy = "free each allocation once; set the pointer to null after freeing it";
  } else {
    f.kind = "invalid-free";
    f.message = fmt::format("{} of {:#x}, which is not the start of an allocation of this kind", call, address);
    f.remedy = "free the pointer that the allocation returned, with the function that belongs to it";
  }
  collector_.add(std::move(f));
}

namespace {

const DecodedProgram* program_named(const RunState& run, const std::string& function) {
  if (run.kernel.entry->program->name == function) return run.kernel.entry.get();
  for (const auto& f : run.kernel.functions)
    if (f && f->program->name == function) return f.get();
  return nullptr;
}

/// What a fault is called that no access was reported for. Addresses below 2^32 are shared or local ones.
const char* kind_of(const Fault& fault, const DeviceMemory& memory, const DecodedProgram* code) {
  switch (fault.kind) {
    case FaultKind::misaligned_address: return "misaligned";
    case FaultKind::assertion: return "assertion";
    case FaultKind::timeout: return "timeout";
    case FaultKind::illegal_address: break;
    default: return "fault";
  }
  if (fault.address < 4096) return "null-pointer";
  const isa::Form* form = code && fault.inst < code->code.size() ? &code->code[fault.inst].instr->form : nullptr;
  const bool local = form && form->n_spaces && form->space() == Space::local;
  return fault.address >> 32 && !local && !memory.contains(fault.address) ? "host-pointer" : "out-of-bounds";
}

}  // namespace

void Memcheck::launch_end(const RunState& run, const LaunchResult& result) {
  if (options_.fast)
    for (const auto& [address, b] : allocations_.live()) check_fence(b, demangled(run.kernel.entry->program->name));
  if (!result.fault || result.fault->kind == FaultKind::hang || result.fault->kind == FaultKind::interrupted) return;
  const Fault& fault = *result.fault;
  const bool address = fault.kind == FaultKind::illegal_address || fault.kind == FaultKind::misaligned_address;
  const std::string kernel = demangled(fault.kernel);
  if (address && faulted_.contains(kernel)) return;
  Finding f;
  f.check = "memcheck";
  const DecodedProgram* code = program_named(run, fault.function);
  f.kind = kind_of(fault, memory_, code);
  if (code) f.place = place_of(*code, kernel, fault.inst);
  f.place.kernel = kernel;
  f.place.source_file = fault.source_file;
  f.place.source_line = fault.loc.source_line;
  f.place.ptx_line = fault.loc.line;
  f.place.in_kernel = true;
  std::copy(fault.ctaid, fault.ctaid + 3, f.place.block);
  std::copy(fault.tid, fault.tid + 3, f.place.thread);
  f.message = fault.message.substr(0, fault.message.find("\n  at "));
  f.address = address ? fault.address : 0;
  collector_.add(std::move(f));
}

void Memcheck::process_end() {
  if (!options_.leaks) return;
  for (const auto& [address, b] : allocations_.live()) {
    if (!b.number && !b.on_device) continue;
    Finding f;
    f.check = "memcheck";
    f.kind = "leak";
    f.severity = "warning";
    f.address = address;
    f.message = fmt::format("{} was never freed", describe(b));
    f.remedy = "free it, or reset the device at the end";
    collector_.add(std::move(f));
  }
}

}  // namespace orrery::sanitize
