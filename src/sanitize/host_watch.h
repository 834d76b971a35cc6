// sanitize/host_watch.h: the host's own accesses to memory that it shares with the device.
//
// Pages are closed to the host (all of it, or writing); the first access to one is told to the listener and opens it.
// Invariant: a page may be closed only while nothing of Orrery itself touches it, and only when any access of the program
// to it would be a mistake, since a system call that is handed a closed page fails.
//
// Threads: the caller locks; the listener is called on the thread that made the access, without that lock.
// Not here: which pages (apicheck.h). Linux, x86-64: the page fault's error code says whether it was a write.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "sanitize/finding.h"

namespace orrery::sanitize {

class HostWatch {
 public:
  /// Gets the finding that was given with the page, and where the program was.
  using Listener = std::function<void(const Finding&, uint64_t address, bool writes, const void* code)>;
  explicit HostWatch(Listener listener);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;

  /// Closes the pages [begin, end): to every access, or only to writes. `finding`: what an access would be.
  void close(uint64_t begin, uint64_t end, bool reads_too, std::shared_ptr<const Finding> finding);
  void open_all();

 private:
  struct Range {
    uint64_t end = 0;
    bool reads_too = false;
    std::shared_ptr<const Finding> finding;
  };
  static bool on_fault(uint64_t address, bool writes, const void* code);

  Listener listener_;
  std::mutex mutex_;
  std::map<uint64_t, Range> closed_;  // by first address
};

}  // namespace orrery::sanitize
