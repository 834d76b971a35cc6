// device/observed_work.h: stream operations as an observer sees them.
#pragma once
#include "device/stream.h"
#include "device/work.h"
#include "exec/observer.h"

namespace orrery::device {

/// Tells the observer, if there is one, that `work` is put into `stream`; returns the operation's number (0: nobody asks).
uint64_t observe_submission(const Stream& stream, const Work& work, bool host_waits);
/// Tells the observer that memory was handed out in the order of `stream`.
void observe_allocation(const Stream& stream, uint64_t address, uint64_t bytes);
/// Tells the observer that the host has waited.
void observe_wait(exec::HostWait kind, uint64_t what);

/// In an observed process with memory that host and device share: lets the operation end before the host goes on (for a
/// second at most, since it may wait for the host), so that the host's accesses can be told from the device's.
void settle(const Mark& mark);

/// Surrounds the performing of one Work.
class ObservedWork {
 public:
  ObservedWork(uint64_t id, const Work& work);
  ~ObservedWork();
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

 private:
  exec::Observer* const observer_;
  exec::HostWork work_;
};

}  // namespace orrery::device
