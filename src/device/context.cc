// Contexts: the edges between operations, faults, printed output; see context.h.
#include "device/context.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "device/device.h"
#include "device/graph.h"
#include "device/observed_work.h"

namespace orrery::device {
namespace {

std::atomic<uint64_t> next_context_id{1};

struct ThreadStreams {
  std::map<Context*, std::shared_ptr<Stream>> by_context;
};
thread_local ThreadStreams* thread_streams;

}  // namespace

Context::Context(Device& device, uint32_t flags, bool primary) : flags(flags), device_(device), primary_(primary), id_(next_context_id++) {
  legacy_ = std::make_shared<Stream>(*this, 0, 0, true);
}

void Context::require_sound() const {
  if (Status status = fault(); status != Status::success) throw Failure(status);
}

void Context::break_with(Status status, const std::string& message) {
  Status none = Status::success;
  if (!fault_.compare_exchange_strong(none, status)) return;
  flush_output();
  if (!message.empty()) std::fprintf(stderr, "%s\n", message.c_str());
}

std::shared_ptr<Stream> Context::create_stream(uint32_t flags, int priority) {
  auto stream = std::make_shared<Stream>(*this, flags, priority, false);
  std::lock_guard lock(order_mutex_);
  streams_.insert(stream);
  return stream;
}

void Context::destroy_stream(Stream* stream) {
  std::lock_guard lock(order_mutex_);
  if (Mark tail = stream->tail(); tail && !tail->done()) orphans_.push_back(tail);
  streams_.erase(stream->shared_from_this());
}

std::shared_ptr<Stream> Context::thread_stream() {
  if (!thread_streams) thread_streams = new ThreadStreams;
  auto& stream = thread_streams->by_context[this];
  if (!stream) stream = create_stream(0, 0);
  return stream;
}

// What an operation in `stream` must come after, beyond the stream's own order.
std::vector<Mark> Context::edges_for(const Stream& stream) {
  std::vector<Mark> edges;
  auto add = [&](const Mark& mark) {
    if (mark && !mark->done()) edges.push_back(mark);
  };
  std::erase_if(orphans_, [](const Mark& mark) { return mark->done(); });
  if (stream.legacy()) {
    for (auto& other : streams_)
      if (other->blocking()) add(other->tail());
    for (auto& mark : orphans_) add(mark);
  } else if (stream.blocking()) {
    add(legacy_->tail());
  }
  add(stream.tail());
  return edges;
}

namespace {

// Events waited for inside the work; marks of events recorded by it.
void link_events(const Work& work, const Mark& mark, std::vector<Mark>& after) {
  if (auto* wait = std::get_if<EventWaitWork>(&work)) {
    std::lock_guard lock(wait->event->mutex);
    if (wait->event->mark && !wait->event->mark->done()) after.push_back(wait->event->mark);
  } else if (auto* record = std::get_if<EventRecordWork>(&work)) {
    std::lock_guard lock(record->event->mutex);
    record->event->mark = mark;
    record->event->capture = nullptr;
  } else if (auto* graph = std::get_if<GraphLaunchWork>(&work)) {
    for (auto& node : *graph->nodes) link_events(node->work, mark, after);
  }
}

}  // namespace

Mark Context::enqueue(const std::shared_ptr<Stream>& stream, Work work, bool host_waits) {
  Operation operation;
  operation.mark = std::make_shared<Completion>();
  Mark mark = operation.mark;
  auto shared = std::make_shared<Work>(std::move(work));
  {
    std::lock_guard lock(order_mutex_);
    const uint64_t id = observe_submission(*stream, *shared, host_waits);
    if (auto* launch = std::get_if<LaunchWork>(shared.get()))
      if (timing::LaunchTimer* timer = system().timer()) launch->turn = timer->turn(launch->function->name());
    operation.run = [this, shared, id] { perform(*this, *shared, id); };
    operation.after = edges_for(*stream);
    link_events(*shared, mark, operation.after);
    stream->push(std::move(operation));
  }
  settle(mark);
  return mark;
}

Mark Context::submit(const std::shared_ptr<Stream>& stream, Work work) {
  {
    std::lock_guard lock(capture_mutex_);
    if (auto capture = capture_of(*stream)) {
      GraphNode* node = capture->graph->add(std::move(work), stream->capture_tails);
      stream->capture_tails = {node};
      return nullptr;
    }
  }
  return enqueue(stream, std::move(work), false);
}

void Context::submit_and_wait(const std::shared_ptr<Stream>& stream, Work work) {
  Mark mark;
  uint64_t id = 0;
  {
    std::lock_guard capture(capture_mutex_);
    require(!capture_of(*stream), Status::capture_unsupported);
    std::lock_guard lock(order_mutex_);
    if (edges_for(*stream).empty() && !std::holds_alternative<EventWaitWork>(work)) {
      mark = std::make_shared<Completion>();
      stream->set_tail(mark);
      id = observe_submission(*stream, work, true);
    }
  }
  if (mark) {
    perform(*this, work, id);
    mark->finish();
  } else {
    enqueue(stream, std::move(work), true)->wait();
  }
  flush_output();
}

void Context::synchronize() {
  std::vector<Mark> marks;
  {
    std::lock_guard lock(order_mutex_);
    for (auto& stream : streams_)
      if (Mark mark = stream->tail()) marks.push_back(mark);
    marks.insert(marks.end(), orphans_.begin(), orphans_.end());
    if (Mark mark = legacy_->tail()) marks.push_back(mark);
  }
  for (const Mark& mark : marks) mark->wait();
  observe_wait(exec::HostWait::context, id_);
  flush_output();
}

bool Context::idle() {
  std::lock_guard lock(order_mutex_);
  return legacy_->idle() && std::ranges::all_of(streams_, [](auto& stream) { return stream->idle(); });
}

void Context::print(std::string_view text) {
  std::lock_guard lock(output_mutex_);
  output_ += text;
  if (output_.size() < limits.printf_fifo) return;
  std::fwrite(output_.data(), 1, output_.size(), stdout);
  output_.clear();
}

void Context::flush_output() {
  std::lock_guard lock(output_mutex_);
  if (output_.empty()) return;
  std::fwrite(output_.data(), 1, output_.size(), stdout);
  std::fflush(stdout);
  output_.clear();
}

void Context::print_error(std::string_view text) {
  flush_output();
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::shared_ptr<Module> Context::load(Image image) {
  auto module = std::make_shared<Module>(*this, std::move(image));
  std::lock_guard lock(module_mutex_);
  modules_[module.get()] = module;
  return module;
}

std::shared_ptr<Function> Context::function_at(uint64_t address) {
  std::lock_guard lock(module_mutex_);
  for (auto& [module, owner] : modules_)
    if (auto function = owner->function_at(address)) return function;
  return nullptr;
}

void Context::unload(Module* module) {
  system().deferred().run();
  std::shared_ptr<Module> last;
  std::lock_guard lock(module_mutex_);
  if (auto at = modules_.find(module); at != modules_.end()) {
    last = at->second;
    modules_.erase(at);
  }
}

}  // namespace orrery::device
