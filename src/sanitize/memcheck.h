// sanitize/memcheck.h: accesses to memory that is not there, not yours, or not aligned; frees that are wrong; leaks.
//
// Every byte of every access must lie in one live allocation, in the block's shared memory or in the thread's local
// memory. Allocations are exact to the byte, freed addresses are never used again, so no redzone is needed. Where it is
// known which variable in shared memory an address comes from (lower/shared_origin.h), the access must stay inside it.
// Fast mode: kernels run compiled and report no accesses. An access past the end of an allocation (rounded up to 256
// bytes) meets an unmapped page; smaller overruns and underruns that write are found afterwards in the fence bytes
// around the allocation, without thread and line; those that read are not found.
// Not here: uninitialised memory (initcheck.h), who accesses it at the same time (racecheck.h).
#pragma once
#include <set>
#include <unordered_map>

#include "exec/observed.h"
#include "sanitize/allocations.h"
#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

class Memcheck : public exec::Observer {
 public:
  Memcheck(const Options& options, Collector& collector, exec::DeviceMemory& memory)
      : options_(options), collector_(collector), memory_(memory) {}
  unsigned wants() const override { return options_.fast ? 0 : exec::kObserveMemory | exec::kObserveOutside; }
  bool serial() const override { return false; }

  void access(const exec::Access&) override;
  void async_copy(const exec::AsyncEvent&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void heap_allocate(const exec::Where&, int lane, uint64_t address, uint64_t bytes) override;
  void heap_free(const exec::Where&, int lane, uint64_t address) override;
  void allocated(const exec::Allocation&) override;
  void released(const exec::Allocation&) override;
  void named(uint64_t address, const std::string& name, bool constant) override;
  void api_error(const char* call, int code, const char* name, uint64_t address) override;
  void process_end() override;

  /// The variable in shared memory that the instruction must stay inside; null when that is not known.
  const lower::SharedVar* variable_of(const exec::Where& where);
  Allocations& allocations() { return allocations_; }
  /// No other check wants to hear of accesses.
  void alone(bool yes) { alone_ = yes; }

 private:
  /// Fast: reports bytes around the allocation that were overwritten.
  void check_fence(const Block& block, const std::string& kernel);
  void check_lane(const exec::Access& a, int lane);
  void check_shared(const exec::Access& a, int lane, const Target& t);
  void check_global(const exec::Access& a, int lane, uint64_t address);
  /// An access outside the range of device memory.
  void check_host(const exec::Where& where, int lane, uint64_t address, uint64_t bytes, const std::string& what);
  void report(const exec::Where& where, int lane, const std::string& kind, uint64_t address, const std::string& message,
              const std::string& remedy);

  const Options& options_;
  Collector& collector_;
  exec::DeviceMemory& memory_;
  Allocations allocations_;
  bool alone_ = false;
  std::unordered_map<uint64_t, std::vector<uint32_t>> origins_;  // by the hash of the program
  std::set<uint64_t> fences_broken_;
  std::set<std::string> faulted_;   // kernels whose fault has been explained
};

}  // namespace orrery::sanitize
