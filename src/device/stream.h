// device/stream.h: ordered queues of work, and the marks that other queues wait for.
//
// A Stream runs its operations one after the other on a thread of its own, which exists while there is work. Every
// operation has a Completion; an operation may name completions of other streams that it starts after. These always
// belong to operations submitted earlier, so waiting never closes a circle. The rules of the legacy default stream are
// such edges too: Context adds them when it submits.
//
//   Event     the completion of the operation that recorded it last
//
// Times of events are host time at the moment an operation ended: Orrery's own speed, not the GPU's.
// Not here: what an operation does (work.h), which edges it needs (context.h), capture (graph.h).
// Threads: all members may be called from any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace orrery::device {

class Context;
struct Capture;
struct GraphNode;

class Completion {
 public:
  using Clock = std::chrono::steady_clock;
  bool done() const { return done_.load(std::memory_order_acquire) != 0; }
  void wait() const { done_.wait(0, std::memory_order_acquire); }
  void finish();
  Clock::time_point when() const { return when_; }

 private:
  std::atomic<uint32_t> done_{0};
  Clock::time_point when_;
};
using Mark = std::shared_ptr<Completion>;

struct Operation {
  std::function<void()> run;
  std::vector<Mark> after;  // operations of other streams
  Mark mark;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, uint32_t flags, int priority, bool legacy);

  Context& context() const { return context_; }
  uint32_t flags() const { return flags_; }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }
  bool legacy() const { return legacy_; }
  bool blocking() const { return !(flags_ & 1); }  // takes part in the legacy default stream's order

  /// Appends an operation. Called by Context, which holds its order lock.
  void push(Operation operation);
  /// Completion of the newest operation; null before the first.
  Mark tail() const;
  void set_tail(Mark mark);
  bool idle() const;
  /// Blocks until everything submitted so far is done.
  void synchronize() const;

  // State of stream capture; guarded by Context::capture_lock().
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> capture_tails;

 private:
  void work();

  Context& context_;
  const uint32_t flags_;
  const int priority_;
  const uint64_t id_;
  const bool legacy_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Operation> queue_;
  Mark tail_;
  bool running_ = false;  // a worker exists
};

struct Event {
  uint32_t flags = 0;
  Context* context = nullptr;
  std::mutex mutex;
  Mark mark;                                // null before the first record
  std::shared_ptr<Capture> capture;         // recorded in a capturing stream
  std::vector<GraphNode*> capture_nodes;
  bool timing() const { return !(flags & 2); }
};

}  // namespace orrery::device
