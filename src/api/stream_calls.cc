// Streams, events and captures of both APIs; see stream_calls.h.
#include "api/stream_calls.h"

#include <algorithm>

#include "device/observed_work.h"

namespace orrery::api {

Stream* create_stream(Context& context, unsigned flags, int priority) {
  require((flags & ~1u) == 0, Status::invalid_value);
  return handles<Stream>().add(context.create_stream(flags, std::clamp(priority, kHighestPriority, kLowestPriority)));
}

void destroy_stream(const void* handle) {
  auto stream = handles<Stream>().take(handle);
  std::lock_guard lock(stream->context().capture_lock());
  if (stream->capture) {  // a forked stream may go once it has been joined; end_capture sees when it was not
    if (stream->capture->origin == stream.get()) stream->capture->invalidated = true;
    std::erase(stream->capture->streams, stream.get());
  }
  stream->context().destroy_stream(stream.get());
}

void query_stream(const std::shared_ptr<Stream>& stream) {
  stream->context().require_sound();
  {
    std::lock_guard lock(stream->context().capture_lock());
    if (stream->capture) {
      stream->capture->invalidated = true;
      throw Failure(Status::capture_unsupported);
    }
  }
  // The legacy stream's query asks for the blocking streams too, because its next operation would wait for them.
  bool idle = stream->legacy() ? stream->context().idle() : stream->idle();
  if (!idle) throw Failure(Status::not_ready);
  if (stream->legacy()) device::observe_wait(exec::HostWait::context, stream->context().id());
  else device::observe_wait(exec::HostWait::stream, stream->id());
  stream->context().require_sound();
  stream->context().flush_output();
}

void synchronize_stream(const std::shared_ptr<Stream>& stream) {
  Context& context = stream->context();
  context.require_sound();
  {
    std::lock_guard lock(context.capture_lock());
    if (stream->capture) {
      stream->capture->invalidated = true;
      throw Failure(Status::capture_unsupported);
    }
  }
  if (stream->legacy()) context.submit_and_wait(stream, device::EmptyWork{});
  else stream->synchronize();
  context.flush_output();
  context.require_sound();
}

Event* create_event(Context& context, unsigned flags) {
  require((flags & ~7u) == 0, Status::invalid_value);
  require(!(flags & 4) || (flags & 2), Status::invalid_value);  // interprocess events have no times
  auto event = std::make_shared<Event>();
  event->flags = flags;
  event->context = &context;
  return handles<Event>().add(event);
}

std::shared_ptr<Event> event_of(const void* handle) { return handles<Event>().get(handle); }

void record_event(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream, unsigned flags) {
  Context& context = stream->context();
  require(&event->context->device() == &context.device(), Status::invalid_handle);
  {
    std::lock_guard lock(context.capture_lock());
    auto capture = device::capture_of(*stream);
    if (capture && !(flags & 1)) {
      std::lock_guard event_lock(event->mutex);
      event->capture = capture;
      event->capture_nodes = stream->capture_tails;
      return;
    }
  }
  context.submit(stream, device::EventRecordWork{event});
}

void wait_event(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, unsigned flags) {
  Context& context = stream->context();
  {
    std::lock_guard lock(context.capture_lock());
    std::unique_lock event_lock(event->mutex);
    if (auto capture = event->capture; capture && !(flags & 1)) {
      require(!capture->invalidated, Status::capture_invalidated);
      if (stream->capture && stream->capture != capture) {
        capture->invalidated = stream->capture->invalidated = true;
        throw Failure(Status::capture_merge);
      }
      if (!stream->capture) {
        require(!stream->legacy(), Status::capture_implicit);
        stream->capture = capture;
        capture->forked = true;
        capture->streams.push_back(stream.get());
        stream->capture_tails.clear();
      }
      for (device::GraphNode* node : event->capture_nodes)
        if (std::ranges::find(stream->capture_tails, node) == stream->capture_tails.end()) stream->capture_tails.push_back(node);
      return;
    }
    if (stream->capture && !(flags & 1)) {
      stream->capture->invalidated = true;
      throw Failure(Status::capture_isolation);
    }
  }
  context.submit(stream, device::EventWaitWork{event});
}

namespace {

device::Mark mark_of(const std::shared_ptr<Event>& event) {
  std::lock_guard lock(event->mutex);
  require(!event->capture, Status::captured_event);
  return event->mark;
}

}  // namespace

void query_event(const std::shared_ptr<Event>& event) {
  event->context->require_sound();
  device::Mark mark = mark_of(event);
  if (mark && !mark->done()) throw Failure(Status::not_ready);
  device::observe_wait(exec::HostWait::event, reinterpret_cast<uint64_t>(event.get()));
  event->context->require_sound();
}

void synchronize_event(const std::shared_ptr<Event>& event) {
  event->context->require_sound();
  if (device::Mark mark = mark_of(event)) mark->wait();
  device::observe_wait(exec::HostWait::event, reinterpret_cast<uint64_t>(event.get()));
  event->context->flush_output();
  event->context->require_sound();
}

float elapsed_ms(const std::shared_ptr<Event>& start, const std::shared_ptr<Event>& end) {
  require(start->timing() && end->timing(), Status::invalid_handle);
  device::Mark from = mark_of(start), to = mark_of(end);
  require(from && to, Status::invalid_handle);
  require(from->done() && to->done(), Status::not_ready);
  return std::chrono::duration<float, std::milli>(to->when() - from->when()).count();
}

void begin_capture(const std::shared_ptr<Stream>& stream, std::shared_ptr<device::Graph> graph, const std::vector<device::GraphNode*>& tails, int mode) {
  static std::atomic<uint64_t> next_id{1};
  require(mode >= 0 && mode <= 2, Status::invalid_value);
  require(!stream->legacy(), Status::capture_unsupported);
  std::lock_guard lock(stream->context().capture_lock());
  require(!stream->capture, Status::illegal_state);
  auto capture = std::make_shared<device::Capture>();
  capture->id = next_id++;
  capture->graph = std::move(graph);
  capture->origin = stream.get();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams = {stream.get()};
  stream->capture = capture;
  stream->capture_tails = tails;
}

namespace {

// Every node must lead to what the origin stream did last, else a branch was forked and never joined.
bool joined(const device::Graph& graph, const std::vector<device::GraphNode*>& tails) {
  std::set<const device::GraphNode*> reached(tails.begin(), tails.end());
  std::vector<const device::GraphNode*> work(tails.begin(), tails.end());
  while (!work.empty()) {
    const device::GraphNode* node = work.back();
    work.pop_back();
    for (device::GraphNode* before : node->dependencies)
      if (reached.insert(before).second) work.push_back(before);
  }
  return reached.size() == graph.nodes().size();
}

}  // namespace

std::shared_ptr<device::Graph> end_capture(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(stream->context().capture_lock());
  auto capture = stream->capture;
  require(capture != nullptr, Status::illegal_state);
  require(capture->origin == stream.get(), Status::capture_unmatched);
  require(capture->mode == 2 || capture->thread == std::this_thread::get_id(), Status::capture_wrong_thread);
  std::vector<device::GraphNode*> tails = stream->capture_tails;
  for (Stream* member : capture->streams) {
    member->capture = nullptr;
    member->capture_tails.clear();
  }
  require(!capture->invalidated, Status::capture_invalidated);
  capture->invalidated = true;  // events recorded in it are of no more use
  require(!capture->forked || joined(*capture->graph, tails), Status::capture_unjoined);
  return capture->graph;
}

int capture_status(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(stream->context().capture_lock());
  return !stream->capture ? 0 : stream->capture->invalidated ? 2 : 1;
}

CaptureInfo capture_info(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(stream->context().capture_lock());
  CaptureInfo info;
  if (!stream->capture) return info;
  info.status = stream->capture->invalidated ? 2 : 1;
  info.id = stream->capture->id;
  info.graph = handles<device::Graph>().add(stream->capture->graph);
  info.tails = stream->capture_tails.data();
  info.count = stream->capture_tails.size();
  return info;
}

void update_capture_tails(const std::shared_ptr<Stream>& stream, const std::vector<device::GraphNode*>& nodes, bool replace) {
  std::lock_guard lock(stream->context().capture_lock());
  require(stream->capture != nullptr, Status::illegal_state);
  for (device::GraphNode* node : nodes) require(device::is_live_node(node) && node->graph == stream->capture->graph.get(), Status::invalid_value);
  if (replace) stream->capture_tails.clear();
  for (device::GraphNode* node : nodes)
    if (std::ranges::find(stream->capture_tails, node) == stream->capture_tails.end()) stream->capture_tails.push_back(node);
}

}  // namespace orrery::api
