// api/stream_calls.h: streams, events and captures, shared by both APIs.
#pragma once
#include "api/entry.h"

namespace orrery::api {

using device::Event;
using device::Stream;

constexpr int kLowestPriority = 0, kHighestPriority = -5;

Stream* create_stream(Context& context, unsigned flags, int priority);
void destroy_stream(const void* handle);
/// Throws Failure(not_ready) when work is left; reports the context's fault.
void query_stream(const std::shared_ptr<Stream>& stream);
void synchronize_stream(const std::shared_ptr<Stream>& stream);

Event* create_event(Context& context, unsigned flags);
std::shared_ptr<Event> event_of(const void* handle);
void record_event(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream, unsigned flags);
void wait_event(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, unsigned flags);
void query_event(const std::shared_ptr<Event>& event);
void synchronize_event(const std::shared_ptr<Event>& event);
float elapsed_ms(const std::shared_ptr<Event>& start, const std::shared_ptr<Event>& end);

void begin_capture(const std::shared_ptr<Stream>& stream, std::shared_ptr<device::Graph> graph, const std::vector<device::GraphNode*>& tails, int mode);
/// The captured graph. Throws Failure for what invalidated it.
std::shared_ptr<device::Graph> end_capture(const std::shared_ptr<Stream>& stream);
/// 0 none, 1 active, 2 invalidated.
int capture_status(const std::shared_ptr<Stream>& stream);
struct CaptureInfo {
  int status = 0;
  uint64_t id = 0;
  device::Graph* graph = nullptr;
  device::GraphNode* const* tails = nullptr;
  size_t count = 0;
};
CaptureInfo capture_info(const std::shared_ptr<Stream>& stream);
void update_capture_tails(const std::shared_ptr<Stream>& stream, const std::vector<device::GraphNode*>& nodes, bool replace);

}  // namespace orrery::api
