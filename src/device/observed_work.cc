// device/observed_work.cc: see observed_work.h.
#include "device/observed_work.h"

#include <atomic>
#include <thread>

#include "device/device.h"

namespace orrery::device {
namespace {

struct Describer {
  exec::HostWork& out;
  void operator()(const LaunchWork&) { out.op = exec::HostOp::launch; }
  void operator()(const CopyWork& w) {
    out.op = exec::HostOp::copy;
    out.destination = w.dst.address, out.destination_pitch = w.dst.pitch, out.destination_slice = w.dst.slice;
    out.source = w.src.address, out.source_pitch = w.src.pitch, out.source_slice = w.src.slice;
    out.width = w.width, out.height = w.height, out.depth = w.depth;
    out.source_staged = w.staged != nullptr;
  }
  void operator()(const FillWork& w) {
    out.op = exec::HostOp::fill;
    out.destination = w.address, out.destination_pitch = w.pitch, out.destination_slice = w.slice;
    out.width = w.width * w.element, out.height = w.height, out.depth = w.depth;
  }
  void operator()(const HostWork&) { out.op = exec::HostOp::host_function; }
  void operator()(const EventRecordWork& w) { out.op = exec::HostOp::event_record, out.event = reinterpret_cast<uint64_t>(w.event.get()); }
  void operator()(const EventWaitWork& w) { out.op = exec::HostOp::event_wait, out.event = reinterpret_cast<uint64_t>(w.event.get()); }
  void operator()(const AllocWork& w) { out.op = exec::HostOp::allocate, out.destination = w.address, out.width = w.bytes; }
  void operator()(const FreeWork& w) { out.op = exec::HostOp::free_, out.destination = w.address; }
  template <class Other>
  void operator()(const Other&) {}
};

exec::HostWork describe(const Work& work) {
  exec::HostWork out;
  std::visit(Describer{out}, work);
  return out;
}

}  // namespace

uint64_t observe_submission(const Stream& stream, const Work& work, bool host_waits) {
  static std::atomic<uint64_t> next{1};
  exec::Observer* const observer = system().observer();
  if (!observer) return 0;
  exec::HostWork w = describe(work);
  w.id = next++;
  w.stream = stream.id();
  w.context = stream.context().id();
  w.legacy = stream.legacy();
  w.blocking = stream.blocking();
  w.waits = host_waits;
  observer->submitted(w);
  return w.id;
}

void observe_allocation(const Stream& stream, uint64_t address, uint64_t bytes) {
  if (!system().observer()) return;
  const Work work = AllocWork{address, bytes, nullptr};
  ObservedWork(observe_submission(stream, work, false), work);
}

void observe_wait(exec::HostWait kind, uint64_t what) {
  if (exec::Observer* const observer = system().observer()) observer->host_waited(kind, what);
}

void settle(const Mark& mark) {
  static std::atomic<int> patience{1000};  // milliseconds
  System& all = system();
  if (!all.observer() || !mark) return;
  bool shares = false;
  for (int d = 0; d < all.device_count() && !shares; d++)
    shares = all.memory().used(exec::MemoryKind::managed, d) || all.memory().used(exec::MemoryKind::pinned, d);
  if (!shares) return;
  const auto deadline = Completion::Clock::now() + std::chrono::milliseconds(patience);
  while (!mark->done()) {
    if (Completion::Clock::now() > deadline) {
      patience = 1;
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

ObservedWork::ObservedWork(uint64_t id, const Work& work) : observer_(system().observer()) {
  if (!observer_) return;
  work_ = describe(work);
  work_.id = id;
  observer_->performing(work_);
}

ObservedWork::~ObservedWork() {
  if (observer_) observer_->performed(work_);
}

}  // namespace orrery::device
