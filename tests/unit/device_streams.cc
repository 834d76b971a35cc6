// Streams, contexts and graphs of the device layer without kernels: order, the legacy stream's rules, faults, pools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/copy.h"
#include "device/device.h"
#include "device/graph.h"

namespace orrery::device {
namespace {

Context& fresh_context() { return *new Context(system().device(0), 0, false); }  // lives as long as the process, as any context

HostWork note(std::vector<int>& order, std::mutex& mutex, int value, int sleep_ms = 0) {
  HostWork work;
  work.callback = [&order, &mutex, value, sleep_ms](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
    std::lock_guard lock(mutex);
    order.push_back(value);
  };
  return work;
}

TEST(Stream, KeepsItsOrder) {
  Context& context = fresh_context();
  auto stream = context.create_stream(1, 0);
  std::vector<int> order;
  std::mutex mutex;
  for (int i = 0; i < 50; i++) context.submit(stream, note(order, mutex, i));
  stream->synchronize();
  for (int i = 0; i < 50; i++) EXPECT_EQ(order[size_t(i)], i);
}

TEST(Stream, LegacyStreamWaitsForBlockingOnesAndTheyForIt) {
  Context& context = fresh_context();
  auto a = context.create_stream(0, 0), b = context.create_stream(0, 0);
  std::vector<int> order;
  std::mutex mutex;
  context.submit(a, note(order, mutex, 1, 30));
  context.submit(context.legacy_stream(), note(order, mutex, 2, 10));
  context.submit(b, note(order, mutex, 3));
  context.synchronize();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST(Stream, NonBlockingStreamsIgnoreTheLegacyOne) {
  Context& context = fresh_context();
  auto free = context.create_stream(1, 0);
  std::atomic<bool> release{false};
  HostWork hold;
  hold.callback = [&](int) {
    while (!release) std::this_thread::yield();
  };
  context.submit(context.legacy_stream(), hold);
  std::vector<int> order;
  std::mutex mutex;
  context.submit(free, note(order, mutex, 1));
  free->synchronize();  // would never return if it waited for the legacy stream
  EXPECT_EQ(order.size(), 1u);
  release = true;
  context.synchronize();
}

TEST(Stream, ADestroyedStreamStillCounts) {
  Context& context = fresh_context();
  std::vector<int> order;
  std::mutex mutex;
  auto stream = context.create_stream(0, 0);
  context.submit(stream, note(order, mutex, 1, 30));
  context.destroy_stream(stream.get());
  stream.reset();
  context.submit_and_wait(context.legacy_stream(), note(order, mutex, 2));
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(Stream, EventsOrderAcrossStreams) {
  Context& context = fresh_context();
  auto a = context.create_stream(1, 0), b = context.create_stream(1, 0);
  auto event = std::make_shared<Event>();
  event->context = &context;
  std::vector<int> order;
  std::mutex mutex;
  context.submit(a, note(order, mutex, 1, 30));
  context.submit(a, EventRecordWork{event});
  context.submit(b, EventWaitWork{event});
  context.submit(b, note(order, mutex, 2));
  b->synchronize();
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
  EXPECT_TRUE(event->mark->done());
}

TEST(Context, TheFirstFaultStaysAndLaterWorkIsSkipped) {
  Context& context = fresh_context();
  context.break_with(Status::illegal_address, "");
  context.break_with(Status::launch_failure, "");
  EXPECT_EQ(context.fault(), Status::illegal_address);
  int got = -1;
  HostWork callback;
  callback.callback = [&](int status) { got = status; };
  context.submit_and_wait(context.legacy_stream(), callback);
  EXPECT_EQ(got, int(Status::illegal_address));  // callbacks run and are told
  EXPECT_THROW(context.require_sound(), Failure);
}

TEST(Copy, ChecksBothSides) {
  Context& context = fresh_context();
  uint64_t address = system().allocate(context.device(), 1000, exec::MemoryKind::device);
  char host[1000] = {};
  auto copy = [&](uint64_t dst, uint64_t src, uint64_t bytes, Direction direction) {
    CopyWork work;
    work.dst = {dst, bytes, bytes, nullptr};
    work.src = {src, bytes, bytes, nullptr};
    work.width = bytes;
    submit_copy(context, context.legacy_stream(), work, direction, false);
  };
  const uint64_t h = reinterpret_cast<uint64_t>(host);
  EXPECT_NO_THROW(copy(address, h, 1000, Direction::host_to_device));
  EXPECT_THROW(copy(address, h, 1001, Direction::host_to_device), Failure);
  EXPECT_THROW(copy(address + 1, h, 1000, Direction::automatic), Failure);
  EXPECT_THROW(copy(h, h, 10, Direction::host_to_device), Failure);
  EXPECT_THROW(copy(address, 0, 10, Direction::host_to_device), Failure);
  EXPECT_THROW(copy(h, address, 10, Direction::host_to_device), Failure);
  system().memory().release(address);
  EXPECT_THROW(copy(address, h, 10, Direction::host_to_device), Failure);
}

TEST(Graph, RefusesForeignNodesAndCircles) {
  auto graph = std::make_shared<Graph>(), other = std::make_shared<Graph>();
  GraphNode* a = graph->add(EmptyWork{}, {});
  GraphNode* b = graph->add(EmptyWork{}, {a});
  EXPECT_THROW(other->add(EmptyWork{}, {a}), Failure);
  EXPECT_THROW(graph->add(EmptyWork{}, {a, a}), Failure);
  graph->connect(b, a);
  EXPECT_THROW(graph->sorted(), Failure);
  graph->disconnect(b, a);
  EXPECT_EQ(graph->sorted().size(), 2u);
  graph->remove(b);
  EXPECT_FALSE(is_live_node(b));
}

TEST(Graph, ALaunchInFlightDoesNotSeeAnUpdate) {
  Context& context = fresh_context();
  auto stream = context.create_stream(1, 0);
  std::vector<int> order;
  std::mutex mutex;
  auto graph = std::make_shared<Graph>();
  GraphNode* node = graph->add(note(order, mutex, 1, 20), {});
  GraphExec exec(graph, 0);
  context.submit(stream, exec.snapshot());
  exec.set_work(node, note(order, mutex, 2));
  context.submit(stream, exec.snapshot());
  stream->synchronize();
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(Pool, CountsAndReuses) {
  auto pool = std::make_shared<MemoryPool>(system().device(0));
  pool->release_threshold = 1 << 20;
  uint64_t first = pool->allocate(1000);
  EXPECT_EQ(pool->counters().used, 1024u);
  EXPECT_TRUE(pool->release(first));
  EXPECT_FALSE(pool->release(first));
  EXPECT_EQ(pool->counters().used, 0u);
  EXPECT_EQ(pool->allocate(1000), first);
  pool->release(first);
  pool->trim(0);
  EXPECT_EQ(pool->counters().reserved, 0u);
  EXPECT_EQ(pool->counters().used_high, 1024u);
}

}  // namespace
}  // namespace orrery::device
