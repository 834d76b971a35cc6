// Streams: one worker thread each, started on demand and gone after a second without work.
#include "device/stream.h"

#include <thread>

#include "device/observed_work.h"

namespace orrery::device {
namespace {
std::atomic<uint64_t> next_stream_id{1};
}

void Completion::finish() {
  when_ = Clock::now();
  done_.store(1, std::memory_order_release);
  done_.notify_all();
}

Stream::Stream(Context& context, uint32_t flags, int priority, bool legacy)
    : context_(context), flags_(flags), priority_(priority), id_(next_stream_id++), legacy_(legacy) {}

Mark Stream::tail() const {
  std::lock_guard lock(mutex_);
  return tail_;
}

void Stream::set_tail(Mark mark) {
  std::lock_guard lock(mutex_);
  tail_ = std::move(mark);
}

bool Stream::idle() const {
  Mark mark = tail();
  return !mark || mark->done();
}

void Stream::synchronize() const {
  if (Mark mark = tail()) mark->wait();
  observe_wait(exec::HostWait::stream, id_);
}

void Stream::push(Operation operation) {
  std::lock_guard lock(mutex_);
  tail_ = operation.mark;
  queue_.push_back(std::move(operation));
  if (!running_) {
    running_ = true;
    std::thread([self = shared_from_this()] { self->work(); }).detach();
  } else {
    wake_.notify_one();
  }
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!wake_.wait_for(lock, std::chrono::seconds(1), [&] { return !queue_.empty(); })) {
      running_ = false;
      return;
    }
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    for (const Mark& mark : operation.after) mark->wait();
    operation.run();
    operation.run = nullptr;
    operation.mark->finish();
    lock.lock();
  }
}

}  // namespace orrery::device
