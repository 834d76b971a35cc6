// sanitize/initcheck.h: reads of memory that nobody has written: global, shared and local, byte by byte.
//
// cudaMalloc, stream-ordered and pinned allocations start unwritten; copies, fills, kernels, asynchronous copies and
// initial values of variables write. Managed and pinned memory can be written by the host unseen, so they count as
// written. A block's shared memory and a thread's local memory start unwritten.
//
// A bit per byte; a global page without a map of its own is all unwritten or all written. Local memory has a byte per byte,
// which compiled code reads and sets itself (exec/observed.h).
// Not here: whether the value matters. A finding is made once per instruction and allocation.
#pragma once
#include <unordered_map>
#include <vector>

#include "sanitize/allocations.h"
#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

/// Which bytes of a range have been written.
class WrittenBits {
 public:
  void reset(uint64_t bytes, bool written) { words_.assign((bytes + 63) / 64, written ? ~uint64_t{0} : 0); }
  void write(uint64_t at, uint64_t bytes);
  /// The first unwritten byte of [at, at + bytes), or at + bytes.
  uint64_t first_unwritten(uint64_t at, uint64_t bytes) const;

 private:
  std::vector<uint64_t> words_;
};

class Initcheck : public exec::Observer {
 public:
  Initcheck(const Options& options, Collector& collector) : options_(options), collector_(collector) {}
  unsigned wants() const override { return exec::kObserveMemory; }

  void block_begin(const exec::CtaContext&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void access(const exec::Access&) override;
  void async_copy(const exec::AsyncEvent&) override;
  void mbarrier(const exec::MbarrierEvent&) override;
  void heap_allocate(const exec::Where&, int lane, uint64_t address, uint64_t bytes) override;
  void allocated(const exec::Allocation&) override;
  void released(const exec::Allocation&) override;
  void named(uint64_t address, const std::string& name, bool constant) override;
  void performed(const exec::HostWork&) override;

  struct Tracked {
    uint64_t begin = 0, end = 0;
    WrittenBits bits;
    bool opaque = false;     // written by means that are not seen
    bool complete = false;   // all of it has been written
    bool is_complete() { return complete = complete || bits.first_unwritten(0, end - begin) == end - begin; }
  };
  /// The global memory that holds `address`, until it is freed; null: none is tracked there.
  Tracked* find(uint64_t address);
  /// Marks of a warp of a block that runs.
  std::byte* local_marks(const exec::WarpContext& w) { return local_of(w).marks.data(); }
  /// The shared memory of a block that runs.
  WrittenBits* shared_of(const exec::CtaContext& cta);

 private:
  struct SharedMemory {
    const exec::RunState* run = nullptr;
    WrittenBits bits;
  };
  struct LocalMemory {
    const exec::RunState* run = nullptr;
    uint64_t stride = 0;
    std::vector<std::byte> marks;  // of 32 lanes: kWritten or 0
  };
  void read_lane(const exec::Access& a, int lane, const Target& t);
  void write_global(uint64_t address, uint64_t bytes);
  void write_host(uint64_t host_address, uint64_t bytes, const exec::CtaContext& any);
  void report(const exec::Where& where, int lane, const char* memory, uint64_t address, uint64_t missing, const std::string& remedy);
  LocalMemory& local_of(const exec::WarpContext& w);

  const Options& options_;
  Collector& collector_;
  Allocations allocations_;
  std::map<uint64_t, Tracked> tracked_;
  Tracked* last_ = nullptr;
  std::unordered_map<const exec::CtaContext*, SharedMemory> shared_;
  std::unordered_map<const exec::WarpContext*, LocalMemory> local_;
};

}  // namespace orrery::sanitize
