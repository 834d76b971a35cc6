// device/context.h: a context of one device: its streams, modules, limits and its one fault.
//
// Invariant: once `fault` is set it stays, later work is skipped, and every call that needs the context reports it.
// submit() is the only way into a stream: it adds the edges that the legacy default stream and captures demand.
//
//   order lock     held while an operation gets its place and its edges
//   capture lock   held while captures and graphs under construction change
//
// Not here: memory itself (exec/memory.h), what a module is (module.h).
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/module.h"
#include "device/status.h"
#include "device/stream.h"
#include "device/work.h"

namespace orrery::device {

class Device;

struct Limits {
  uint64_t stack = 1024, printf_fifo = 1 << 20, heap = 8 << 20, sync_depth = 2, pending_launches = 2048, max_l2_fetch = 64, persisting_l2 = 0;
};

class Context {
 public:
  Context(Device& device, uint32_t flags, bool primary);

  Device& device() const { return device_; }
  bool primary() const { return primary_; }
  uint64_t id() const { return id_; }
  uint32_t flags = 0;
  Limits limits;
  std::atomic<bool> active{true};
  std::atomic<int> references{0};
  std::set<int> peers;  // devices whose memory this context may access

  Status fault() const { return fault_.load(std::memory_order_acquire); }
  /// Throws Failure when the context is broken.
  void require_sound() const;
  /// Breaks the context; the first status wins. `message` goes to standard error.
  void break_with(Status status, const std::string& message);

  std::shared_ptr<Stream> create_stream(uint32_t flags, int priority);
  void destroy_stream(Stream* stream);
  const std::shared_ptr<Stream>& legacy_stream() const { return legacy_; }
  /// The calling thread's own default stream.
  std::shared_ptr<Stream> thread_stream();

  /// Puts `work` into the stream (or into the graph that the stream captures into) and returns its mark (null when
  /// captured). Throws Failure for what a capture forbids.
  Mark submit(const std::shared_ptr<Stream>& stream, Work work);
  /// submit and wait; runs on this thread when nothing is before it.
  void submit_and_wait(const std::shared_ptr<Stream>& stream, Work work);
  /// Waits for all streams, then shows device output.
  void synchronize();
  bool idle();

  std::recursive_mutex& capture_lock() { return capture_mutex_; }

  /// Text of device printf; `flush_output` writes it to standard output in order.
  void print(std::string_view text);
  void flush_output();
  /// Text of device asserts, to standard error.
  void print_error(std::string_view text);
  std::shared_ptr<exec::Heap> heap;  // of device malloc; lives from launch to launch

  std::shared_ptr<Module> load(Image image);
  void unload(Module* module);
  /// The kernel of a loaded module whose address device code has, or null.
  std::shared_ptr<Function> function_at(uint64_t address);

 private:
  std::vector<Mark> edges_for(const Stream& stream);
  Mark enqueue(const std::shared_ptr<Stream>& stream, Work work, bool host_waits);

  Device& device_;
  const bool primary_;
  const uint64_t id_;
  std::atomic<Status> fault_{Status::success};
  std::mutex order_mutex_;
  std::recursive_mutex capture_mutex_;
  std::mutex output_mutex_, module_mutex_;
  std::string output_;
  std::shared_ptr<Stream> legacy_;
  std::set<std::shared_ptr<Stream>> streams_;   // all but the legacy one
  std::vector<Mark> orphans_;                   // tails of destroyed streams
  std::map<Module*, std::shared_ptr<Module>> modules_;
};

}  // namespace orrery::device
